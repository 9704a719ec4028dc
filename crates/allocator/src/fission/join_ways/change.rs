//! Tells WeCom into which groups ways lead by now, and which of them opens rooms (`supply::rooms`).

use ledger::Refusal;
use quota::Urgency;
use tokio_util::sync::CancellationToken;
use wecom::client::api;

use super::{
    ask, configuration,
    verdict::{self, UNKNOWN_WAY},
};
use crate::{
    app::{App, CorpApp},
    permit,
};

const BATCH: u32 = 20;
/// One after the other, each within 5 s; and no call may outlast it.
const LEASE_MS: u64 = 180_000;

/// Changes what is due, as far as the budget goes. There is no last try: until WeCom knows it the way is not shown for the
/// new groups.
pub async fn run(app: &App, corp: &CorpApp, stop: &CancellationToken) -> Result<(), ledger::Error> {
    let ways = app.ledger.join_ways();
    let due = ways
        .changeable(&corp.id, BATCH, LEASE_MS, app.now_ms())
        .await?;
    let mut wait_until_ms = None;
    for one in due {
        if stop.is_cancelled() {
            return Ok(());
        }
        let permit = match wait_until_ms {
            Some(until_ms) => Err(until_ms),
            None => permit::take(app, corp, api::UPDATE_JOIN_WAY, Urgency::Ordinary).await,
        };
        let permit = match permit {
            Ok(permit) => permit,
            Err(until_ms) => {
                wait_until_ms = Some(until_ms);
                let wait = Refusal {
                    error: "the budget is used up".to_owned(),
                    next_try_ms: until_ms,
                    ..Refusal::default()
                };
                ways.not_yet(&corp.id, &one.way, &wait, false).await?;
                continue;
            }
        };
        let whole = configuration(&one.via, &one.chats, one.rooms.as_ref());
        let answer = corp.client.update_join_way(&one.config_id, &whole).await;
        permit::done(app, corp, api::UPDATE_JOIN_WAY, &permit, &answer).await;
        let Err(error) = answer else {
            ask::count(corp, "changed");
            let rooms_for = one.rooms.as_ref().map(|rooms| rooms.task);
            ways.changed(&corp.id, &one.way, &one.chats, rooms_for, app.now_ms())
                .await?;
            continue;
        };
        tracing::warn!(corp = %corp.id, way = one.way, error = %error, "a join way was not changed");
        let is_gone = error.errcode() == Some(UNKNOWN_WAY);
        let mut refusal = verdict::refusal(&error, one.attempt, &app.config.visits, app.now_ms());
        if is_gone {
            refusal.next_try_ms = app.now_ms();
        }
        ways.not_yet(&corp.id, &one.way, &refusal, is_gone).await?;
    }
    Ok(())
}
