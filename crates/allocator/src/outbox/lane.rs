//! One kind of effects: claim, group, carry out, a bounded number at once.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ledger::{Claim, OutboxRow};
use quota::Urgency;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use wecom::client::api;

use super::{card, hands::Hands, reward, transfer, verdict::Error, welcome};
use crate::{
    app::{App, CorpApp},
    backoff::{Backoff, sleep},
    effect::{Effect, kind},
};

/// Lost leases and missed deadlines are looked for this often.
const REAP_EVERY: Duration = Duration::from_secs(1);
const REAP: u32 = 500;
const REPEATABLE: [&str; 4] = [
    kind::MEMBER_CARD,
    kind::GOAL_MESSAGE,
    kind::TAG,
    kind::EVENT,
];
/// Lanes that may wait look so much less often.
const SLOW: u64 = 5;

type Working = JoinSet<Result<(), Error>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    Welcome,
    Transfer,
    Card,
    Tag,
    GoalMessage,
}

impl Lane {
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Welcome => kind::WELCOME,
            Self::Transfer => kind::TRANSFER,
            Self::Card => kind::MEMBER_CARD,
            Self::Tag => kind::TAG,
            Self::GoalMessage => kind::GOAL_MESSAGE,
        }
    }

    /// The call that carries it out.
    pub(super) fn api(self) -> &'static str {
        match self {
            Self::Welcome => api::SEND_WELCOME_MSG,
            Self::Transfer => api::TRANSFER_CUSTOMER,
            Self::Card | Self::GoalMessage => api::SEND_MESSAGE,
            Self::Tag => api::MARK_TAG,
        }
    }

    pub(super) fn urgency(self) -> Urgency {
        match self {
            Self::Welcome => Urgency::Urgent,
            Self::Transfer | Self::Card | Self::Tag | Self::GoalMessage => Urgency::Ordinary,
        }
    }

    /// How long it waits for rows of other processes; those of this one are told.
    fn poll_ms(self, poll_ms: u64) -> u64 {
        match self {
            Self::Welcome | Self::Transfer | Self::Card => poll_ms,
            // Nobody waits for them.
            Self::Tag | Self::GoalMessage => poll_ms.saturating_mul(SLOW),
        }
    }

    /// Rows that go to WeCom in one call. Cards that may have been sent are sent again together, in the same words, and
    /// nothing joins them: WeCom's duplicate check compares the text.
    fn group(self, row: &OutboxRow) -> (String, String) {
        match serde_json::from_value(row.payload.clone()) {
            Ok(Effect::Transfer { giver, taker }) => (giver, taker),
            Ok(Effect::MemberCard {
                member,
                accept_seconds,
                ..
            }) => {
                // What asks and what tells are two messages.
                let asks = if accept_seconds.is_some() { "asks" } else { "" };
                let again = Some(row.due_ms).filter(|_| row.tries > 0);
                let again = again.map_or(String::new(), |due_ms| due_ms.to_string());
                (member, format!("{asks}{again}"))
            }
            _ => (row.id.to_string(), String::new()),
        }
    }
}

pub(super) async fn run(app: &Arc<App>, corp: &Arc<CorpApp>, stop: &CancellationToken, lane: Lane) {
    let hands = Arc::new(Hands::new(app, corp, stop, lane));
    let rules = &app.config.outbox;
    let lease_ms = match lane {
        Lane::Welcome => rules.claim_ms,
        // What a batch waits for workers, looks up and locks is done before it is begun.
        Lane::Transfer | Lane::Card | Lane::Tag | Lane::GoalMessage => rules.lease_ms,
    };
    let mut backoff = Backoff::store();
    let mut working = Working::new();
    loop {
        while let Some(done) = working.try_join_next() {
            report(corp, lane, done);
        }
        hands.rested().await;
        let limit = hands.room().await;
        if stop.is_cancelled() {
            break;
        }
        // A token is had before rows are: renewing one can take longer than a lease.
        if let Err(error) = corp.client.ensure_token().await {
            tracing::warn!(corp = %corp.id, error = %error, "no access token; effects wait");
            metrics::counter!("paidan_app_stopped_total", "corp" => corp.id.to_string(), "errcode" => error.errcode().unwrap_or_default().to_string())
                .increment(1);
            backoff.wait(stop).await;
            continue;
        }
        let claim = Claim {
            corp: corp.id.clone(),
            kind: lane.kind().to_owned(),
            limit,
            lease_ms,
        };
        let now_ms = app.now_ms();
        // Who waits longer than this with a row would begin it too late.
        let until_ms = now_ms + lease_ms / 4 * 3;
        match app.ledger.outbox().claim(&claim, now_ms).await {
            Ok(rows) if rows.is_empty() => {
                backoff.reset();
                tokio::select! {
                    () = corp.effects_due.notified() => {}
                    () = tokio::time::sleep(Duration::from_millis(lane.poll_ms(rules.poll_ms))) => {}
                    Some(done) = working.join_next() => report(corp, lane, done),
                    () = stop.cancelled() => {}
                }
            }
            Ok(rows) => {
                backoff.reset();
                let handed_out = match lane {
                    Lane::Welcome => welcome::hand_out(&hands, &mut working, rows, until_ms).await,
                    Lane::Transfer | Lane::Card | Lane::Tag | Lane::GoalMessage => {
                        hand_out(&hands, &mut working, rows, until_ms).await
                    }
                };
                report(corp, lane, Ok(handed_out));
            }
            Err(error) => {
                tracing::warn!(corp = %corp.id, kind = lane.kind(), error = %error, "no effects were claimed");
                backoff.wait(stop).await;
            }
        }
    }
    while let Some(done) = working.join_next().await {
        report(corp, lane, done);
    }
}

/// A task for each group, as workers get free. What cannot be begun in time goes back in one write.
async fn hand_out(
    hands: &Arc<Hands>,
    working: &mut Working,
    rows: Vec<OutboxRow>,
    until_ms: u64,
) -> Result<(), Error> {
    let mut groups = groups(hands.lane, rows).into_iter();
    while let Some(rows) = groups.next() {
        let Some(worker) = hands.worker(until_ms).await else {
            let left: Vec<OutboxRow> = rows.into_iter().chain(groups.flatten()).collect();
            return hands.put_back(&left).await;
        };
        let hands = Arc::clone(hands);
        working.spawn(async move {
            let done = match hands.lane {
                Lane::Card => card::send(&hands, rows, until_ms).await,
                Lane::Tag | Lane::GoalMessage => reward::give(&hands, rows, until_ms).await,
                _ => transfer::start(&hands, rows, until_ms).await,
            };
            drop(worker);
            done
        });
    }
    Ok(())
}

/// At most 100 rows a group: what one transfer call takes.
fn groups(lane: Lane, rows: Vec<OutboxRow>) -> Vec<Vec<OutboxRow>> {
    let mut by_key: BTreeMap<(String, String, bool), Vec<OutboxRow>> = BTreeMap::new();
    for row in rows {
        let (one, two) = lane.group(&row);
        by_key
            .entry((one, two, row.unknown_since_ms.is_some()))
            .or_default()
            .push(row);
    }
    let mut groups = Vec::new();
    for (_, mut group) in by_key {
        while group.len() > wecom::client::TRANSFER_CUSTOMERS_MAX {
            groups.push(group.split_off(group.len() - wecom::client::TRANSFER_CUSTOMERS_MAX));
        }
        groups.push(group);
    }
    groups
}

/// A group that failed keeps its rows until their leases end; then they are looked at again.
fn report(corp: &CorpApp, lane: Lane, done: Result<Result<(), Error>, JoinError>) {
    match done {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(corp = %corp.id, kind = lane.kind(), error = %error, "effects were left to their leases")
        }
        Err(error) => {
            tracing::error!(corp = %corp.id, kind = lane.kind(), error = %error, "carrying out an effect broke")
        }
    }
}

/// Takes back rows whose holder died, and ends what came too late.
pub(super) async fn reap(app: &App, corp: &CorpApp, stop: &CancellationToken) {
    let mut backoff = Backoff::store();
    while sleep(REAP_EVERY, stop).await {
        match app
            .ledger
            .outbox()
            .reap(&REPEATABLE, REAP, app.now_ms())
            .await
        {
            Ok(reaped) => {
                backoff.reset();
                if reaped.pending > 0 || reaped.unknown > 0 {
                    corp.effects_due.notify_waiters();
                }
                if reaped.failed > 0 {
                    metrics::counter!("paidan_effects_too_late_total").increment(reaped.failed);
                    tracing::warn!(corp = %corp.id, count = reaped.failed, "effects missed their deadline");
                }
            }
            Err(error) => {
                tracing::warn!(corp = %corp.id, error = %error, "lost effects were not looked for");
                backoff.wait(stop).await;
            }
        }
    }
}
