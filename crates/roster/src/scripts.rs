//! The scripts as they are sent: a file of `lua/`, its `-- include …` lines replaced by those files.

use std::sync::LazyLock;

use allocation::{Op, SeatOp};
use redis::{ErrorKind, FromRedisValue, ServerErrorKind};

use crate::connection::Connection;
use crate::error::Error;

macro_rules! lua {
    ($file:expr) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../lua/", $file))
    };
}

/// What a line `-- include <file>` stands for; an included file may include a later one.
const INCLUDES: [(&str, &str); 15] = [
    ("-- include roster_state.lua\n", lua!("roster_state.lua")),
    ("-- include roster_limits.lua\n", lua!("roster_limits.lua")),
    ("-- include roster_offers.lua\n", lua!("roster_offers.lua")),
    (
        "-- include roster_pick_without.lua\n",
        lua!("roster_pick_without.lua"),
    ),
    (
        "-- include roster_move_on.lua\n",
        lua!("roster_move_on.lua"),
    ),
    ("-- include roster_gates.lua\n", lua!("roster_gates.lua")),
    ("-- include roster_route.lua\n", lua!("roster_route.lua")),
    (
        "-- include roster_waiting.lua\n",
        lua!("roster_waiting.lua"),
    ),
    ("-- include roster_visits.lua\n", lua!("roster_visits.lua")),
    ("-- include roster_credit.lua\n", lua!("roster_credit.lua")),
    ("-- include roster_pool.lua\n", lua!("roster_pool.lua")),
    ("-- include roster_choose.lua\n", lua!("roster_choose.lua")),
    ("-- include seats_state.lua\n", lua!("seats_state.lua")),
    ("-- include seats_waiting.lua\n", lua!("seats_waiting.lua")),
    (
        "-- include corp_operation.lua\n",
        lua!("corp_operation.lua"),
    ),
];

/// A file as it is sent.
pub(crate) fn assemble(file: &str) -> String {
    let mut code = file.to_owned();
    for (line, text) in INCLUDES {
        code = code.replace(line, text);
    }
    code
}

/// One script, and the hash by which Redis knows it.
#[derive(Debug)]
pub(crate) struct Script {
    code: String,
    hash: String,
}

impl Script {
    fn new(file: &str) -> Self {
        let code = assemble(file);
        let hash = redis::Script::new(&code).get_hash().to_owned();
        Self { code, hash }
    }

    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    pub(crate) fn hash(&self) -> &str {
        &self.hash
    }

    /// EVALSHA; when Redis does not have the script, EVAL, which runs and keeps it in one step, so that no number of
    /// SCRIPT FLUSHes can come between.
    pub(crate) async fn call<C: Connection, T: FromRedisValue>(
        &self,
        connection: &C,
        key: &str,
        args: &[&[u8]],
    ) -> Result<T, Error> {
        let command = |name: &str, script: &str| {
            let mut command = redis::cmd(name);
            command.arg(script).arg(1).arg(key).arg(args);
            command
        };
        let mut connection = connection.clone();
        let answer = command("EVALSHA", &self.hash)
            .query_async(&mut connection)
            .await;
        match answer {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                Ok(command("EVAL", &self.code)
                    .query_async(&mut connection)
                    .await?)
            }
            answer => Ok(answer?),
        }
    }
}

macro_rules! scripts {
    ($($name:ident),+ $(,)?) => {
        #[derive(Debug)]
        pub(crate) struct Scripts { $(pub(crate) $name: Script),+ }

        impl Scripts {
            fn new() -> Self {
                Self { $($name: Script::new(lua!(concat!(stringify!($name), ".lua")))),+ }
            }

            pub(crate) fn all(&self) -> Vec<(&'static str, &Script)> {
                vec![$((stringify!($name), &self.$name)),+]
            }
        }
    };
}

scripts!(
    decide,
    close,
    settle,
    reassign,
    presence,
    set_member,
    set_channel,
    set_pool,
    remove_pool,
    wake,
    visit,
    confirm,
    expire,
    set_slots,
    adjust,
    respond,
    reclaim,
    set_skills,
    advance,
    reserve_seat,
    release_seat,
    confirm_seat,
    set_group_pool,
    remove_group_pool,
    set_group,
    remove_group,
    wake_seats,
    forget_seats,
    note,
    rebuild_begin,
    rebuild_wipe,
    rebuild_restore,
    rebuild_open,
    state_check,
    state_scan,
    group_read,
);

impl Scripts {
    /// The script of an operation; `rebuilt` has none of its own, opening a rebuilt state writes it.
    pub(crate) fn of(&self, op: &Op) -> &Script {
        match op {
            Op::Decide(_) => &self.decide,
            Op::Close(_) => &self.close,
            Op::Settle(_) => &self.settle,
            Op::Reassign(_) => &self.reassign,
            Op::Presence(_) => &self.presence,
            Op::SetMember(_) => &self.set_member,
            Op::SetChannel(_) => &self.set_channel,
            Op::SetPool(_) => &self.set_pool,
            Op::RemovePool { .. } => &self.remove_pool,
            Op::Wake { .. } => &self.wake,
            Op::Visit(_) => &self.visit,
            Op::Confirm(_) => &self.confirm,
            Op::Expire { .. } => &self.expire,
            Op::SetSlots(_) => &self.set_slots,
            Op::Adjust(_) => &self.adjust,
            Op::Respond(_) => &self.respond,
            Op::Reclaim { .. } => &self.reclaim,
            Op::SetSkills(_) => &self.set_skills,
            Op::Advance { .. } => &self.advance,
            Op::Seats(op) => match op {
                SeatOp::Reserve(_) => &self.reserve_seat,
                SeatOp::Release(_) => &self.release_seat,
                SeatOp::Confirm(_) => &self.confirm_seat,
                SeatOp::SetPool(_) => &self.set_group_pool,
                SeatOp::RemovePool { .. } => &self.remove_group_pool,
                SeatOp::SetGroup(_) => &self.set_group,
                SeatOp::RemoveGroup { .. } => &self.remove_group,
                SeatOp::Wake { .. } => &self.wake_seats,
                SeatOp::Forget { .. } => &self.forget_seats,
            },
            Op::Note => &self.note,
            Op::Rebuilt { .. } => &self.rebuild_open,
        }
    }
}

pub(crate) static SCRIPTS: LazyLock<Scripts> = LazyLock::new(Scripts::new);
