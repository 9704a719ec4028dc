//! The thread that is the parent of every server.
//!
//! The death signal of `setpriv --pdeathsig` is sent when the *thread* that started the child ends, not the
//! process. Test functions run in threads that come and go, so one thread that stays starts all servers.

use std::io;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

type Order = (Command, Sender<io::Result<Child>>);

/// Starts `program` so that it gets SIGTERM when this process ends, even by SIGKILL.
pub(crate) fn spawn(mut program: Command) -> io::Result<Child> {
    static KEEPER: OnceLock<Sender<Order>> = OnceLock::new();
    let keeper = KEEPER.get_or_init(|| {
        let (orders, inbox) = channel::<Order>();
        std::thread::Builder::new()
            .name("redis-keeper".into())
            .spawn(move || {
                for (mut command, answer) in inbox {
                    // The caller waits for the answer; if it is gone there is nobody to tell.
                    answer.send(command.spawn()).ok();
                }
            })
            .expect("a thread to keep the servers");
        orders
    });
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--"]);
    command.arg(program.get_program()).args(program.get_args());
    program = command;
    program.stdin(std::process::Stdio::null());
    program.stdout(std::process::Stdio::null());
    program.stderr(std::process::Stdio::null());
    let (answer, child) = channel();
    keeper
        .send((program, answer))
        .expect("the keeper thread stays");
    child.recv().expect("the keeper thread answers")
}
