//! gettoken: secrets, and the hour an address is shut out after too many wrong ones.

use std::net::IpAddr;
use std::sync::Arc;

use crate::api::{Fields, Reply};
use crate::config::Config;
use crate::world::{App, World};

use super::gate::Passage;

pub(crate) enum Refusal {
    /// 45009, the `nth` call while blocked.
    Blocked { nth: u64 },
}

pub(crate) fn gettoken(
    world: &Arc<World>,
    ip: IpAddr,
    passage: &Passage,
    app: Option<&Arc<App>>,
    fields: &Fields,
    rules: &Config,
    now_ms: i64,
) -> Result<Reply, Refusal> {
    let wrong = &rules.limits.wrong_secret;
    let counted = rules.limits.enabled && wrong.attempts > 0;
    let caller = world.caller(ip);
    if counted {
        let mut failures = caller.wrong_secret.lock();
        if now_ms < failures.blocked_until_ms {
            // The first 45009 tells the caller of the block.
            let nth = failures.while_blocked;
            failures.while_blocked += 1;
            drop(failures);
            count(passage, app, now_ms, false);
            return Err(Refusal::Blocked { nth });
        }
    }
    let code = check(world, passage, app, fields);
    count(passage, app, now_ms, code == 0);
    if counted && [40001, 40013, 40091].contains(&code) {
        let mut failures = caller.wrong_secret.lock();
        if now_ms.saturating_sub(failures.since_ms) >= wrong.window_ms {
            failures.since_ms = now_ms;
            failures.failures = 0;
        }
        failures.failures += 1;
        if failures.failures >= wrong.attempts {
            failures.failures = 0;
            failures.while_blocked = 0;
            failures.blocked_until_ms = now_ms.saturating_add(wrong.block_ms);
        }
    }
    let (Some(corp), Some(app), 0) = (&passage.corp, app, code) else {
        return Ok(Reply::error(code));
    };
    let (token, life_s) = world.token_for(corp, app, now_ms);
    Ok(Reply::ok()
        .with("access_token", &*token)
        .with("expires_in", life_s))
}

fn check(world: &World, passage: &Passage, app: Option<&Arc<App>>, fields: &Fields) -> i32 {
    if fields.filled("corpid").is_none() {
        return 41002;
    }
    let Some(secret) = fields.filled("corpsecret") else {
        return 41004;
    };
    if passage.corp.is_none() {
        return 40013;
    }
    match app {
        Some(app) if app.def.get().config.enabled => 0,
        Some(_) => 40001,
        None if world
            .corps
            .get()
            .values()
            .any(|corp| corp.app_of(secret).is_some()) =>
        {
            40091
        }
        None => 40001,
    }
}

fn count(passage: &Passage, app: Option<&Arc<App>>, now_ms: i64, ok: bool) {
    if let Some(corp) = &passage.corp {
        corp.gettoken(app.map(|app| &**app))
            .lock()
            .count(now_ms, Some(ok));
    }
}
