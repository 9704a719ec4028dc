//! Tells the roster which slots may be lent and which no longer. Every generation is told everything: a rebuilt one may
//! have been made of rows that know no slots.

use std::time::Duration;

use allocation::{MAX_BATCH, SetSlots, SlotId};
use ledger::Untold;
use quota::Acquired;
use tokio_util::sync::CancellationToken;

use super::Error;
use crate::{
    app::{App, CorpApp},
    caught_up,
    payload::Payload,
};

/// Slots read at once.
const BATCH: u32 = 5_000;
/// One process tells: it would do no harm if all did, but each word is an entry of the log.
const LOCK: &str = "slots";
/// The ledger is waited for so long.
const CATCH_UP: Duration = Duration::from_secs(2);

/// Tells what `generation` was not told, unless another process is at it.
pub(super) async fn run(
    app: &App,
    corp: &CorpApp,
    generation: u64,
    stop: &CancellationToken,
) -> Result<(), Error> {
    let lock = match app.locks.acquire(corp.id.as_str(), &[LOCK]).await {
        Ok(Acquired::Held(lock)) => Some(lock),
        Ok(Acquired::Busy { .. }) => return Ok(()),
        // Without it rather than not at all.
        Err(error) => {
            tracing::debug!(corp = %corp.id, error = %error, "slots are told without a lock");
            None
        }
    };
    let told = tell(app, corp, generation, stop).await;
    if let Some(lock) = lock {
        lock.release().await;
    }
    told
}

/// The same, whoever else is at it.
pub async fn tell(
    app: &App,
    corp: &CorpApp,
    generation: u64,
    stop: &CancellationToken,
) -> Result<(), Error> {
    let ways = app.ledger.contact_ways();
    let untold = ways.untold(&corp.id, generation, BATCH).await?;
    let of_one = |one: &Untold, other: &Untold| {
        (&one.channel, &one.member) == (&other.channel, &other.member)
    };
    for slots in untold.chunk_by(of_one) {
        for slots in slots.chunks(MAX_BATCH) {
            if stop.is_cancelled() {
                return Ok(());
            }
            let change = change(app, corp, slots).await?;
            let added = !change.add.is_empty();
            corp.roster.set_slots(change, &payload(), None).await?;
            corp.log_grew.notify_one();
            if added {
                corp.unshown.end(&slots[0].channel, &slots[0].member);
            }
            let rest_ms = app.config.visits.slot_rest_ms;
            ways.told(&corp.id, slots, generation, rest_ms, app.now_ms())
                .await?;
        }
    }
    Ok(())
}

/// Of one member and channel. A state that was made of rows knows no slots, so the ledger says when each was lent last:
/// one that should rest must not be lent to somebody else. Of one that was taken out of use and came back, as its member
/// did, the ledger knows that as soon as it has what the log has; until then it is taken for lent up to the end.
async fn change(app: &App, corp: &CorpApp, slots: &[Untold]) -> Result<SetSlots, Error> {
    let mut change = SetSlots {
        channel: slots[0].channel.clone(),
        member: slots[0].member.clone(),
        add: Vec::new(),
        remove: Vec::new(),
    };
    for slot in slots {
        let id = SlotId::new(slot.way.clone())?;
        if slot.ready {
            change.add.push((id, slot.rests_since_ms));
        } else {
            change.remove.push(id);
        }
    }
    let added: Vec<SlotId> = change.add.iter().map(|(id, _)| id.clone()).collect();
    let came_back = change.add.iter().any(|(_, since_ms)| *since_ms > 0);
    let knows_all = came_back && caught_up::within::<Error>(app, corp, CATCH_UP).await?;
    let lent = app.ledger.visits().last_lent(&corp.id, &added).await?;
    for (id, rests_since_ms) in &mut change.add {
        let lent_ms = lent.get(id).copied().unwrap_or_default();
        *rests_since_ms = match knows_all {
            true => lent_ms,
            false => lent_ms.max(*rests_since_ms),
        };
    }
    Ok(change)
}

fn payload() -> String {
    Payload {
        actor: Some("slots".to_owned()),
        ..Payload::default()
    }
    .text()
}
