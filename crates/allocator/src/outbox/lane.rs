//! One kind of effects: claim, group, carry out, a bounded number at once.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ledger::{Claim, OutboxRow};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{card, transfer, welcome};
use crate::{
    app::{App, CorpApp},
    backoff::{Backoff, sleep},
    effect::{Effect, kind},
};

/// Lost leases and missed deadlines are looked for this often.
const REAP_EVERY: Duration = Duration::from_secs(1);
const REAP: u32 = 500;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    Welcome,
    Transfer,
    Card,
}

impl Lane {
    fn kind(self) -> &'static str {
        match self {
            Self::Welcome => kind::WELCOME,
            Self::Transfer => kind::TRANSFER,
            Self::Card => kind::MEMBER_CARD,
        }
    }

    /// Rows that go to WeCom in one call.
    fn group(self, row: &OutboxRow) -> (String, String) {
        match serde_json::from_value(row.payload.clone()) {
            Ok(Effect::Transfer { giver, taker }) => (giver, taker),
            Ok(Effect::MemberCard { member, .. }) => (member, String::new()),
            _ => (row.id.to_string(), String::new()),
        }
    }
}

pub(super) async fn run(app: &Arc<App>, corp: &Arc<CorpApp>, stop: &CancellationToken, lane: Lane) {
    let mut backoff = Backoff::store();
    let mut working = JoinSet::new();
    while !stop.is_cancelled() {
        // A token is had before rows are: renewing one can take longer than a lease.
        if let Err(error) = corp.client.ensure_token().await {
            tracing::warn!(corp = %corp.id, error = %error, "no access token; effects wait");
            metrics::counter!("paidan_app_stopped_total", "corp" => corp.id.to_string(), "errcode" => error.errcode().unwrap_or_default().to_string())
                .increment(1);
            backoff.wait(stop).await;
            continue;
        }
        let claim = Claim {
            corps: vec![corp.id.clone()],
            except: Vec::new(),
            kinds: vec![lane.kind().to_owned()],
            limit: app.config.outbox.batch,
            lease_ms: app.config.outbox.lease_ms,
        };
        match app.ledger.outbox().claim(&claim, app.now_ms()).await {
            Ok(rows) if rows.is_empty() => {
                backoff.reset();
                tokio::select! {
                    () = corp.effects_due.notified() => {}
                    () = tokio::time::sleep(Duration::from_millis(app.config.outbox.poll_ms)) => {}
                    Some(done) = working.join_next() => report(corp, lane, done),
                    () = stop.cancelled() => {}
                }
            }
            Ok(rows) => {
                backoff.reset();
                for group in groups(lane, rows) {
                    while working.len() >= app.config.outbox.workers {
                        if let Some(done) = working.join_next().await {
                            report(corp, lane, done);
                        }
                    }
                    working.spawn(carry_out(Arc::clone(app), Arc::clone(corp), lane, group));
                }
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

async fn carry_out(
    app: Arc<App>,
    corp: Arc<CorpApp>,
    lane: Lane,
    rows: Vec<OutboxRow>,
) -> Result<(), super::verdict::Error> {
    match lane {
        Lane::Welcome => welcome::send(&app, &corp, rows).await,
        Lane::Transfer => transfer::start(&app, &corp, rows).await,
        Lane::Card => card::send(&app, &corp, rows).await,
    }
}

/// A group that failed keeps its rows until their leases end; then they are looked at again.
fn report(
    corp: &CorpApp,
    lane: Lane,
    done: Result<Result<(), super::verdict::Error>, tokio::task::JoinError>,
) {
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
            .reap(&[kind::MEMBER_CARD], REAP, app.now_ms())
            .await
        {
            Ok(reaped) => {
                backoff.reset();
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
