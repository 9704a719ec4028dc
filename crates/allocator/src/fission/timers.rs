//! What ends by time: seats that nobody came for are given back, waiting places and memories are forgotten, and those who wait
//! are served where a wake-up was lost. Ends stand in Redis, so a restart loses none; an end names what it ends, so of several
//! processes one has the effect.
//!
//! Before a seat is given back its group was read, or is known to have been read since shortly before the end: whoever is in it
//! by then has his seat confirmed by that. Where WeCom does not let it be read, the seat is given back after a while all the
//! same; coming later still counts.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use allocation::{
    ChatId, MAX_FORGET, MAX_RELEASES, MAX_SEAT_WAKE, Reason, ReleaseSeat, Released,
    model::{SeatPlace, SeatView},
};
use metrics::counter;
use tokio_util::sync::CancellationToken;

use super::{dirty::CHAT, waiting};
use crate::{
    app::{App, CorpApp},
    backoff::{Backoff, sleep},
    faults::with_causes,
    payload::Payload,
};

/// How late a seat may be given back whose group was read.
const PAUSE: Duration = Duration::from_millis(500);
/// Seats looked at in one turn at first, and at most: where the first ones wait for groups that cannot be read, those behind
/// them must not.
const FIRST: u32 = 1_000;
const MOST: u32 = 16_000;
const EXPIRED: &str = "expired";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("inbox")]
    Inbox(#[from] inbox::Error),
    #[error("ledger")]
    Ledger(#[from] ledger::Error),
    #[error("roster")]
    Roster(#[from] roster::Error),
}

pub async fn run(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    let mut wake_ms = 0;
    let mut backoff = Backoff::store();
    while !stop.is_cancelled() {
        let now_ms = app.now_ms();
        let turned = async {
            release(&app, &corp, &stop).await?;
            forget(&app, &corp, &stop).await?;
            if now_ms >= wake_ms {
                wake(&app, &corp).await?;
                wake_ms = now_ms + app.config.roster.wake_every_ms;
            }
            Ok::<_, Error>(())
        };
        match turned.await {
            Ok(()) => {
                backoff.reset();
                tokio::select! {
                    biased;
                    () = corp.seats_freed.notified() => wake_ms = 0,
                    _ = sleep(PAUSE, &stop) => {}
                }
            }
            Err(error) => {
                if matches!(error, Error::Roster(roster::Error::NotReady)) {
                    corp.not_ready.notify_one();
                } else {
                    tracing::warn!(corp = %corp.id, error = %with_causes(&error), "seats whose time is over were not given back");
                }
                backoff.wait(&stop).await;
            }
        }
    }
}

/// Gives back the seats whose time is over and whose groups were read since, and has the other groups read; answers how many
/// were given back.
pub async fn release(app: &App, corp: &CorpApp, stop: &CancellationToken) -> Result<usize, Error> {
    let (mut released, mut limit) = (0, FIRST);
    while !stop.is_cancelled() {
        let now_ms = app.now_ms();
        // Looks before it asks, because every operation is an entry in the log.
        let first_ms = corp.roster.first_seat_end().await?;
        if first_ms.is_none_or(|end_ms| end_ms > now_ms) {
            break;
        }
        let due = corp.roster.seats_due(now_ms, limit).await?;
        let n_due = due.len();
        let over = over(app, corp, due, now_ms).await?;
        let n_released = give_back(app, corp, over).await?;
        released += n_released;
        let is_last = n_due < limit as usize;
        match n_released {
            0 if is_last || limit >= MOST => break,
            // All that were looked at wait for their groups.
            0 => limit = (limit * 4).min(MOST),
            _ if is_last => break,
            _ => {}
        }
    }
    Ok(released)
}

/// Those that may be given back. The groups of the others are marked.
async fn over(
    app: &App,
    corp: &CorpApp,
    due: Vec<SeatView>,
    now_ms: u64,
) -> Result<Vec<(SeatView, u64)>, Error> {
    let mut by_group: BTreeMap<ChatId, Vec<(SeatView, u64)>> = BTreeMap::new();
    for seat in due {
        if let SeatPlace::Held { chat, until_ms, .. } = &seat.place {
            let (chat, until_ms) = (chat.clone(), *until_ms);
            by_group.entry(chat).or_default().push((seat, until_ms));
        }
    }
    let generation = corp.roster.status().await?.generation;
    let generation = generation.ok_or(roster::Error::NotReady)?;
    let chats: Vec<ChatId> = by_group.keys().cloned().collect();
    let read_ms: HashMap<ChatId, u64> = app
        .ledger
        .groups()
        .known_since(&corp.id, generation, &chats)
        .await?;
    let rules = &app.config.fission;
    let (mut over, mut unread) = (Vec::new(), Vec::new());
    for (chat, seats) in by_group {
        let read_ms = read_ms.get(&chat).copied();
        let is_read =
            |until_ms: u64| read_ms.is_some_and(|read_ms| read_ms + rules.read_lag_ms >= until_ms);
        let is_blind = |until_ms: u64| until_ms + rules.unread_release_ms <= now_ms;
        let is_all_read = seats.iter().all(|(_, until_ms)| is_read(*until_ms));
        let is_any_read = seats.iter().any(|(_, until_ms)| is_read(*until_ms));
        // Somebody came of whom it is not known yet whether a seat is his.
        let is_unnamed = is_any_read && has_unnamed(corp, &chat).await?;
        if !is_all_read || is_unnamed {
            unread.push(chat);
        }
        let seats = seats.into_iter();
        over.extend(
            seats.filter(|(_, until_ms)| is_read(*until_ms) && !is_unnamed || is_blind(*until_ms)),
        );
    }
    // Seats of a group end one after the other: those of a few seconds share a read.
    let read_ms = now_ms + rules.read_after_ms;
    let marks: Vec<(&str, u64)> = unread.iter().map(|chat| (chat.as_str(), read_ms)).collect();
    corp.inbox.dirty_mark_many(CHAT, &marks).await?;
    Ok(over)
}

async fn has_unnamed(corp: &CorpApp, chat: &ChatId) -> Result<bool, Error> {
    let group = corp.roster.group(chat).await?;
    Ok(group.is_some_and(|group| group.people.iter().any(|person| person.pending)))
}

async fn give_back(app: &App, corp: &CorpApp, over: Vec<(SeatView, u64)>) -> Result<usize, Error> {
    let Ok(reason) = Reason::new(EXPIRED) else {
        return Ok(0);
    };
    let mut n_released = 0;
    for part in over.chunks(MAX_RELEASES) {
        let asked = part.iter().map(|(seat, until_ms)| ReleaseSeat {
            campaign: seat.campaign.clone(),
            subject: seat.subject,
            seat: seat.seat,
            expect_until_ms: Some(*until_ms),
            reason: reason.clone(),
            memory_ms: app.config.fission.memory_ms,
        });
        let payload = Payload {
            actor: Some("timers".to_owned()),
            ..Payload::default()
        };
        let told = corp
            .roster
            .release_seats(asked.collect(), &payload.text(), None)
            .await?;
        waiting::applied(corp, &told);
        let released = told.answer.iter();
        n_released += released
            .filter(|one| matches!(one, Released::Released { .. }))
            .count();
    }
    if n_released > 0 {
        counter!("paidan_seats_expired_total", "corp" => corp.id.to_string())
            .increment(n_released as u64);
    }
    Ok(n_released)
}

/// Ends waiting places and memories whose time is over; answers how many.
pub async fn forget(app: &App, corp: &CorpApp, stop: &CancellationToken) -> Result<u64, Error> {
    let limit = u32::try_from(MAX_FORGET).unwrap_or(u32::MAX);
    let mut forgotten = 0;
    while !stop.is_cancelled() {
        let first_ms = corp.roster.first_place_end().await?;
        if first_ms.is_none_or(|end_ms| end_ms > app.now_ms()) {
            break;
        }
        let told = corp.roster.forget_seats(limit, "", None).await?;
        corp.log_grew.notify_one();
        forgotten += u64::from(told.answer);
        if told.answer < limit {
            break;
        }
    }
    Ok(forgotten)
}

/// Hands out what is free to those who wait. Usually nothing: whatever frees seats serves them by itself, up to a number. Where
/// nobody waits nothing is asked for, because every operation is an entry in the log.
pub async fn wake(app: &App, corp: &CorpApp) -> Result<usize, Error> {
    let limit = u32::try_from(MAX_SEAT_WAKE).unwrap_or(u32::MAX);
    let mut woken = 0;
    for pool in app.ledger.group_pools().versions(&corp.id).await? {
        if pool.deleted {
            continue;
        }
        let Some(view) = corp.roster.group_pool(&pool.id).await? else {
            continue;
        };
        if view.waiting == 0 || view.free == 0 {
            continue;
        }
        loop {
            let pool = pool.id.clone();
            let told = corp.roster.wake_seats(pool, limit, "", None).await?;
            waiting::applied(corp, &told);
            woken += told.woken.len();
            if !told.more {
                break;
            }
        }
    }
    Ok(woken)
}
