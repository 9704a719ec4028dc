//! What became of calls whose answer got lost, or whose process died: the ways that WeCom made since then are listed, and
//! the one with the State of ours is ours. Only a whole list that was made late enough proves that there is none.

use std::collections::HashMap;

use ledger::{Lost, Made, Refusal};
use metrics::counter;
use quota::Urgency;
use tokio_util::sync::CancellationToken;
use wecom::client::{ContactWay, ContactWayPage, ContactWayWindow, api};

use super::{Error, ask, retire, verdict};
use crate::{
    app::{App, CorpApp},
    backoff::jittered,
    permit,
};

/// Looked for together.
const BATCH: u32 = 500;
/// Longer than it takes to list and read what is new.
const LEASE_MS: u64 = 120_000;
/// How far WeCom's clock may be behind ours.
const SKEW_S: i64 = 300;
/// Ways whose State one process remembers.
const MOST_SEEN: usize = 50_000;
/// Such a way does not exist (any more).
const UNKNOWN_WAY: i64 = 41044;

/// States of ways that no row has: they need not be read again. Most are other programs', but one may be of a row that
/// nobody looks for yet, or that another process looks for now: so it is their State that is kept.
#[derive(Debug, Default)]
pub(super) struct Seen(HashMap<String, String>);

impl Seen {
    fn add(&mut self, way: &ContactWay) {
        if self.0.len() >= MOST_SEEN {
            self.0.clear();
        }
        self.0.insert(way.config_id.clone(), way.state.clone());
    }
}

/// Looks for those that are due.
pub(super) async fn run(
    app: &App,
    corp: &CorpApp,
    seen: &mut Seen,
    stop: &CancellationToken,
) -> Result<(), Error> {
    let ways = app.ledger.contact_ways();
    let began_ms = app.now_ms();
    let lost = ways.lost(&corp.id, BATCH, LEASE_MS, began_ms).await?;
    if lost.is_empty() {
        return Ok(());
    }
    let mut missing: HashMap<String, Lost> = lost
        .into_iter()
        .map(|lost| (lost.way.clone(), lost))
        .collect();
    let again_ms = match search(app, corp, seen, &mut missing, stop).await? {
        Search::Whole => None,
        Search::Later { until_ms } => Some(until_ms),
    };
    let rules = &app.config.visits;
    for lost in missing.values() {
        let late_enough = began_ms >= lost.asked_ms.saturating_add(rules.unknown_for_ms);
        match again_ms {
            None if late_enough => not_there(app, corp, lost).await?,
            _ => {
                let look_ms = app.now_ms() + jittered(rules.look_after_ms);
                let look_ms = look_ms.max(again_ms.unwrap_or_default());
                let text = "whether it was made is looked up";
                ways.unanswered(&corp.id, &lost.way, lost.attempt, text, look_ms)
                    .await?;
            }
        }
    }
    Ok(())
}

/// It had no effect: asked for again, a bounded number of times.
async fn not_there(app: &App, corp: &CorpApp, lost: &Lost) -> Result<(), Error> {
    ask::count(corp, "not_there");
    let base = Refusal {
        error: "WeCom does not show it".to_owned(),
        ..Refusal::default()
    };
    let rules = &app.config.visits;
    let refusal = verdict::later(base, lost.attempt, false, rules, app.now_ms());
    let ways = app.ledger.contact_ways();
    ways.refused(&corp.id, &lost.way, lost.attempt, &refusal)
        .await?;
    Ok(())
}

enum Search {
    /// Everything that WeCom made in the time was seen.
    Whole,
    Later {
        until_ms: u64,
    },
}

/// Adopts what it finds and takes it out of `missing`.
async fn search(
    app: &App,
    corp: &CorpApp,
    seen: &mut Seen,
    missing: &mut HashMap<String, Lost>,
    stop: &CancellationToken,
) -> Result<Search, Error> {
    let ids = match list(app, corp, missing).await {
        Ok(ids) => ids,
        Err(until_ms) => return Ok(Search::Later { until_ms }),
    };
    let known = app
        .ledger
        .contact_ways()
        .known_configs(&corp.id, &ids)
        .await?;
    for id in ids {
        if missing.is_empty() {
            break;
        }
        if stop.is_cancelled() {
            let until_ms = app.now_ms();
            return Ok(Search::Later { until_ms });
        }
        let ours = |state: Option<&String>| state.is_none_or(|state| missing.contains_key(state));
        if known.contains(&id) || !ours(seen.0.get(&id)) {
            continue;
        }
        let way = match read(app, corp, &id).await {
            Ok(Some(way)) => way,
            Ok(None) => continue,
            Err(until_ms) => return Ok(Search::Later { until_ms }),
        };
        match missing.remove(&way.state) {
            Some(lost) => adopt(app, corp, &lost, &way).await?,
            None => seen.add(&way),
        }
    }
    Ok(Search::Whole)
}

/// Ids of the ways made since the first of these was asked for. Err: when to look again.
async fn list(
    app: &App,
    corp: &CorpApp,
    missing: &HashMap<String, Lost>,
) -> Result<Vec<String>, u64> {
    let first_ms = missing.values().map(|lost| lost.asked_ms).min();
    let first_s = i64::try_from(first_ms.unwrap_or_default() / 1_000).unwrap_or_default();
    // Until now: that is what WeCom takes when no end is given, by its own clock.
    let window = ContactWayWindow {
        start_time: Some((first_s - SKEW_S).max(0)),
        end_time: None,
    };
    let read = |cursor: Option<String>| async move {
        corp.client
            .list_contact_way(window, cursor.as_deref())
            .await
    };
    let next = |page: &mut ContactWayPage| std::mem::take(&mut page.next_cursor);
    let pages = permit::pages(app, corp, api::LIST_CONTACT_WAY, read, next).await?;
    let pages = pages.map_err(|error| {
        tracing::warn!(corp = %corp.id, error = %error, "contact ways cannot be listed; those without an answer wait");
        app.now_ms() + jittered(app.config.visits.look_after_ms)
    })?;
    Ok(pages
        .into_iter()
        .flat_map(|page| page.contact_way)
        .map(|way| way.config_id)
        .collect())
}

/// One way; None: it is gone. Err: when to look again.
pub(super) async fn read(
    app: &App,
    corp: &CorpApp,
    config_id: &str,
) -> Result<Option<ContactWay>, u64> {
    let permit = permit::take(app, corp, api::GET_CONTACT_WAY, Urgency::Ordinary).await?;
    let answer = corp.client.get_contact_way(config_id).await;
    permit::done(app, corp, api::GET_CONTACT_WAY, &permit, &answer).await;
    match answer {
        Ok(way) => Ok(Some(way)),
        Err(error) if error.errcode() == Some(UNKNOWN_WAY) => Ok(None),
        Err(error) => {
            tracing::warn!(corp = %corp.id, error = %error, "a contact way cannot be read");
            Err(app.now_ms() + jittered(app.config.visits.look_after_ms))
        }
    }
}

async fn adopt(app: &App, corp: &CorpApp, lost: &Lost, way: &ContactWay) -> Result<(), Error> {
    let made = app
        .ledger
        .contact_ways()
        .made(
            &corp.id,
            &lost.way,
            lost.attempt,
            &way.config_id,
            way.qr_code.as_deref(),
            app.now_ms(),
        )
        .await?;
    match made {
        Made::Kept => {
            counter!("paidan_slots_adopted_total", "corp" => corp.id.to_string()).increment(1);
            tracing::info!(corp = %corp.id, way = lost.way, "a contact way whose answer got lost was found");
        }
        Made::Known => {}
        Made::Stray => retire::stray(app, corp, &way.config_id).await,
    }
    Ok(())
}
