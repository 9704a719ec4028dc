//! What Redis did on a part of the log that the ledger will never have is asked for again once the corp is open.
//!
//! A delivery is acknowledged when the script has logged what became of it, before the ledger has it: on a log that is
//! given up it would be lost, as nobody delivers it again. But the operations stand in the log that the rebuild is about to
//! wipe, with their payloads, and asking twice is asking once. So they are kept in memory, through as many tries as the
//! rebuild takes, and asked in their order. Answers may be others than before: it is another state, and everybody is off.
//! Presence is left to the next heartbeat, configuration to the comparison with Postgres.
//!
//! Of a log that is gone altogether, or when the process that kept it dies, the raw deliveries remain: [`take_up`].

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::RangeInclusive,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use allocation::{LogEntry, Op};
use ledger::{DeliveryFilter, LogRow, Trail};
use metrics::counter;
use serde_json::{Value, json};

use super::Error;
use crate::{
    api::{when::When, work::DELIVERIES},
    app::{App, CorpApp},
    decide::LATE_MS,
};

/// How long the deliveries that nothing came of may be counted while the corp is closed.
const COUNT: Duration = Duration::from_secs(1);
/// Log entries looked at in one step.
const PAGE: u32 = 500;

/// By number and time: a log that was given up twice may have two entries of one number.
#[derive(Default)]
pub struct Unrecorded(Mutex<BTreeMap<(u64, u64), LogEntry>>);

/// Payloads hold ids of customers.
impl fmt::Debug for Unrecorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unrecorded")
            .field("entries", &self.lock().len())
            .finish()
    }
}

impl Unrecorded {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(u64, u64), LogEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes over what the closed corp's log has and the ledger's has not.
pub(super) async fn keep(app: &App, corp: &CorpApp) -> Result<(), Error> {
    let mut after = 0;
    loop {
        let page = corp.roster.log_page(after, PAGE as usize).await?;
        let seqs: BTreeSet<u64> = page.iter().filter_map(seq).collect();
        let (Some(first), Some(last)) = (seqs.first(), seqs.last()) else {
            return Ok(());
        };
        let before = first.saturating_sub(1);
        let rows = app.ledger.corps().read_log(&corp.id, before, PAGE).await?;
        let rows: BTreeMap<u64, LogRow> = rows.into_iter().map(|row| (row.seq, row)).collect();
        let recorded = |entry: &LogEntry| rows.get(&entry.seq).is_some_and(|row| row.is_of(entry));
        let entries = page.into_iter().flatten();
        let lost = entries.filter(|entry| !recorded(entry) && is_for_again(entry));
        let lost = lost.map(|entry| ((entry.seq, entry.at_ms), entry));
        corp.unrecorded.lock().extend(lost);
        if *last <= after {
            return Ok(());
        }
        after = *last;
    }
}

fn seq(entry: &Result<LogEntry, roster::Error>) -> Option<u64> {
    match entry {
        Ok(entry) => Some(entry.seq),
        Err(roster::Error::Entry { seq, .. }) => Some(*seq),
        Err(_) => None,
    }
}

fn is_for_again(entry: &LogEntry) -> bool {
    match entry.op {
        Op::Decide(_)
        | Op::Close(_)
        | Op::Settle(_)
        | Op::Reassign(_)
        | Op::Visit(_)
        | Op::Confirm(_)
        | Op::Adjust(_)
        | Op::Respond(_) => true,
        Op::Note => entry.payload.is_some(),
        Op::Presence(_)
        | Op::SetMember(_)
        | Op::SetChannel(_)
        | Op::SetSkills(_)
        | Op::SetPool(_)
        | Op::RemovePool { .. }
        | Op::Wake { .. }
        | Op::Expire { .. }
        | Op::Reclaim { .. }
        | Op::Advance { .. }
        | Op::SetSlots(_)
        // Who was shown a group asks again, and what WeCom said of groups is read again.
        | Op::Seats(_)
        | Op::Rebuilt { .. } => false,
    }
}

/// An operation takes up the deliveries of the last day that nothing came of: it is in Postgres before the corp opens,
/// so that whoever is alive carries it out. Those that are still in the inbox are done twice, which is doing them once.
pub(super) async fn take_up(
    app: &App,
    corp: &CorpApp,
    generation: u64,
) -> Result<(), ledger::Error> {
    let now_ms = app.now_ms();
    let from_ms = now_ms.saturating_sub(LATE_MS);
    take_up_received(
        app,
        corp,
        (from_ms, now_ms),
        json!({"generation": generation}),
    )
    .await
}

/// These were written down when the inbox that they came from was gone already: the rebuild may have looked too early for them.
/// None of them may be lost; those that something came of are left out.
pub(crate) async fn take_up_late(
    app: &App,
    corp: &CorpApp,
    received_ms: RangeInclusive<u64>,
) -> Result<(), ledger::Error> {
    let between = (*received_ms.start(), received_ms.end() + 1);
    take_up_received(app, corp, between, json!({"inbox": "lost"})).await
}

async fn take_up_received(
    app: &App,
    corp: &CorpApp,
    (from_ms, before_ms): (u64, u64),
    why: Value,
) -> Result<(), ledger::Error> {
    let now_ms = app.now_ms();
    let pending = DeliveryFilter {
        pending: true,
        received_from_ms: Some(from_ms),
        received_before_ms: Some(before_ms),
        ..DeliveryFilter::default()
    };
    // Nobody is served before the corp is open: who cannot be counted soon is taken up uncounted.
    let table = app.ledger.deliveries();
    let count = table.count(&corp.id, &pending, from_ms);
    let total = match tokio::time::timeout(COUNT, count).await {
        Ok(Ok(count)) if count.replayable == 0 => return Ok(()),
        Ok(Ok(count)) => count.matched,
        Ok(Err(_)) | Err(_) => 0,
    };
    let mut request = why;
    request["received_after"] = json!(When(from_ms));
    request["received_before"] = json!(When(before_ms));
    request["pending"] = json!(true);
    let trail = Trail::system(now_ms, "rebuild");
    app.ledger
        .operations()
        .create(&corp.id, DELIVERIES, total, &request, &trail)
        .await?;
    tracing::warn!(corp = %corp.id, deliveries = total, "deliveries that nothing came of are taken up again");
    Ok(())
}

/// Asks for all of it. What Redis cannot do now stays for the next look.
pub(super) async fn ask(corp: &CorpApp) {
    let mut asked = 0;
    loop {
        let Some((key, entry)) = corp.unrecorded.lock().pop_first() else {
            break;
        };
        let payload = entry.payload.as_deref().unwrap_or_default();
        match corp.roster.apply(&entry.op, payload, None).await {
            Ok(_) => asked += 1,
            Err(error @ (roster::Error::NotReady | roster::Error::Redis(_))) => {
                tracing::warn!(corp = %corp.id, error = %error, "what is not recorded is asked again later");
                corp.unrecorded.lock().insert(key, entry);
                break;
            }
            Err(error) => {
                tracing::error!(corp = %corp.id, seq = entry.seq, op = entry.op.name(), error = %error, "an operation that is not recorded could not be asked again");
            }
        }
    }
    if asked > 0 {
        tracing::warn!(corp = %corp.id, asked, "operations of a part of the log that was given up were asked again");
        counter!("paidan_asked_again_total", "corp" => corp.id.to_string()).increment(asked);
        corp.log_grew.notify_one();
    }
}
