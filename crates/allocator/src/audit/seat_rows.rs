//! Rows of seats and of people in groups against Redis. Both follow from the log, so they say the same once the ledger's writer has
//! come so far; where they do not (a state was made of rows that it did not fit, somebody worked on a store by hand) Redis is right,
//! as visitors are answered by it, and the rows are mended, with the reason. Whether Redis has what WeCom has is another question: a
//! read of the group answers it.
//!
//! Nothing is compared at one moment, as neither store waits for the other. So what differs is looked at once more when the ledger
//! has everything that Redis had at the first look, and only what differs in the same way both times is mended, while nobody
//! writes the log. A Redis that was wiped, or is rebuilt meanwhile, has nothing and is no reason to mend anything.

mod compare;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use allocation::{ChatId, SeatId, SeatName, model::SeatView};
use ledger::{Change, LogWrite, Seat};
use metrics::counter;
use tokio_util::sync::CancellationToken;

use crate::{
    app::{App, CorpApp},
    backoff::{Backoff, sleep},
    reread::Error,
};
use compare::{Difference, Rows, There, counted, differences, waiter};

/// How often the rows are compared, should members be compared less often.
const EVERY_MS: u64 = 60 * 60 * 1000;
/// Dirty kind, and the only entity of it: whoever takes it compares.
const KIND: &str = "seat_rows";
const ALL: &str = "all";
/// How long one process has the right to compare.
const LEASE_MS: u64 = 10 * 60 * 1000;
const LOOK: Duration = Duration::from_secs(1);
/// Groups, and people who wait, read at once.
const PAGE: usize = 200;
/// How long the ledger may take to get where Redis was, and how often it is looked at.
const CATCH_UP: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(25);

/// Compares until the program stops.
pub async fn run(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    let period_ms = app.config.audit.period_ms.min(EVERY_MS);
    if period_ms == 0 {
        return;
    }
    let mut backoff = Backoff::store();
    let mut is_marked = false;
    while sleep(LOOK, &stop).await {
        let turned = async {
            if !is_marked {
                // Who is marked already keeps his time.
                corp.inbox
                    .dirty_mark_many(KIND, &[(ALL, app.now_ms())])
                    .await?;
            }
            for mark in corp.inbox.dirty_take(KIND, None, 1, LEASE_MS).await? {
                seat_rows(&app, &corp).await?;
                let again_ms = Some(app.now_ms() + period_ms);
                corp.inbox.dirty_done(KIND, &[mark], again_ms).await?;
            }
            Ok::<_, Error>(())
        };
        match turned.await {
            Ok(()) => {
                is_marked = true;
                backoff.reset();
            }
            Err(error) => {
                tracing::warn!(corp = %corp.id, error = %error, "rows of seats were not compared");
                backoff.wait(&stop).await;
            }
        }
    }
}

/// Compares all now; answers how many differences were mended.
pub async fn seat_rows(app: &App, corp: &CorpApp) -> Result<usize, Error> {
    let status = corp.roster.status().await?;
    let generation = status.generation.ok_or(roster::Error::NotReady)?;
    let mut chats: BTreeSet<ChatId> = app
        .ledger
        .seats()
        .groups(&corp.id)
        .await?
        .into_iter()
        .collect();
    for pool in app.ledger.group_pools().versions(&corp.id).await? {
        chats.extend(corp.roster.groups_of(&pool.id).await?);
    }
    let chats: Vec<ChatId> = chats.into_iter().collect();
    let mut doubts = BTreeMap::new();
    for chats in chats.chunks(PAGE) {
        let found = look(app, corp, chats).await?.into_iter();
        let found = found.map(|(chat, (_, found))| (chat, found));
        doubts.extend(found.filter(|(_, found)| !found.is_empty()));
    }
    let waiting = look_at_waiting(app, corp).await?;
    if doubts.is_empty() && waiting.is_empty() || !has_caught_up(app, corp).await? {
        return Ok(0);
    }
    let mut mended = 0;
    for (chat, doubts) in doubts {
        mended += mend(app, corp, generation, &chat, &doubts).await?;
    }
    for page in waiting.chunks(PAGE) {
        mended += mend_waiting(app, corp, generation, page).await?;
    }
    Ok(mended)
}

/// Of each of these groups what Redis has, and how the rows differ.
async fn look(
    app: &App,
    corp: &CorpApp,
    chats: &[ChatId],
) -> Result<Vec<(ChatId, (There, Vec<Difference>))>, Error> {
    let table = app.ledger.seats();
    let mut seats = table.open_in(&corp.id, chats).await?;
    let mut people = table.people_in(&corp.id, chats).await?;
    let mut counts = table.group_counts(&corp.id, chats).await?;
    let mut looked = Vec::with_capacity(chats.len());
    for chat in chats {
        let mut rows = Rows {
            seats: seats.remove(chat).unwrap_or_default(),
            people: people.remove(chat).unwrap_or_default(),
            count: counts.remove(chat).unwrap_or_default(),
            others: HashMap::new(),
        };
        let group = corp.roster.group(chat).await?;
        let mut names: BTreeSet<SeatName> = rows.seats.iter().map(Seat::name).collect();
        names.extend(corp.roster.held_in(chat).await?);
        let of_people = group.iter().flat_map(|group| &group.people);
        names.extend(of_people.filter_map(|person| person.seat.clone()));
        let there = There {
            group,
            seats: views(corp, names).await?,
        };
        let known: BTreeSet<SeatId> = rows.seats.iter().map(|row| row.id).collect();
        let others = there.seats.values().map(|view| view.seat);
        let others: Vec<SeatId> = others.filter(|id| !known.contains(id)).collect();
        if !others.is_empty() {
            let others = table.get_many(&corp.id, &others).await?.into_iter();
            rows.others = others.map(|row| (row.id, row)).collect();
        }
        let found = differences(chat, &rows, &there);
        looked.push((chat.clone(), (there, found)));
    }
    Ok(looked)
}

async fn views(
    corp: &CorpApp,
    names: BTreeSet<SeatName>,
) -> Result<HashMap<SeatName, SeatView>, Error> {
    let names: Vec<SeatName> = names.into_iter().collect();
    let seats = corp.roster.seats(&names).await?;
    let seats = names.into_iter().zip(seats);
    Ok(seats
        .filter_map(|(name, view)| Some((name, view?)))
        .collect())
}

/// Those who wait by the rows and not in Redis.
async fn look_at_waiting(app: &App, corp: &CorpApp) -> Result<Vec<SeatId>, Error> {
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let table = app.ledger.seats();
        let rows = table.waiting(&corp.id, after, PAGE as u32).await?;
        let Some(last) = rows.last() else {
            return Ok(found);
        };
        after = Some(last.id);
        let differing = differing(corp, &rows).await?;
        found.extend(differing.into_iter().map(|(id, _)| id));
    }
}

async fn differing(corp: &CorpApp, rows: &[Seat]) -> Result<Vec<(SeatId, Difference)>, Error> {
    let there = views(corp, rows.iter().map(Seat::name).collect()).await?;
    let found = rows.iter().filter_map(|row| {
        let found = waiter(row, there.get(&row.name()))?;
        Some((row.id, found))
    });
    Ok(found.collect())
}

/// Waits until the ledger has what Redis has logged until now.
async fn has_caught_up(app: &App, corp: &CorpApp) -> Result<bool, Error> {
    let seq = corp.roster.status().await?.seq;
    let until = tokio::time::Instant::now() + CATCH_UP;
    while tokio::time::Instant::now() < until {
        let row = app.ledger.corps().get(&corp.id).await?;
        if row.is_some_and(|row| row.log_seq >= seq) {
            return Ok(true);
        }
        tokio::time::sleep(PAUSE).await;
    }
    tracing::info!(corp = %corp.id, "rows of seats are compared later: the ledger is behind");
    Ok(false)
}

/// Keeps the log's writer out until it is dropped. None: somebody else does so for long.
async fn quiet(app: &App, corp: &CorpApp) -> Result<Option<LogWrite>, Error> {
    let until = tokio::time::Instant::now() + CATCH_UP;
    while tokio::time::Instant::now() < until {
        if let Some(write) = app.ledger.begin_log_write(&corp.id).await? {
            return Ok(Some(write));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(None)
}

/// Redis is still what it was at the first look, and has all that is written.
async fn is_whole(corp: &CorpApp, write: &LogWrite, generation: u64) -> Result<bool, Error> {
    let status = corp.roster.status().await?;
    Ok(status.generation == Some(generation)
        && write.opened_generation() == generation
        && status.seq >= write.log_seq())
}

async fn mend(
    app: &App,
    corp: &CorpApp,
    generation: u64,
    chat: &ChatId,
    doubts: &[Difference],
) -> Result<usize, Error> {
    let Some(write) = quiet(app, corp).await? else {
        return Ok(0);
    };
    let Some((_, (there, mut found))) = look(app, corp, std::slice::from_ref(chat)).await?.pop()
    else {
        return Ok(0);
    };
    if !is_whole(corp, &write, generation).await? {
        return Err(roster::Error::NotReady.into());
    }
    found.retain(|found| doubts.iter().any(|doubt| doubt.is(found)));
    let why = told(corp, chat.as_str(), &found);
    let counted = counted(&there, why);
    write_down(app, write, found, counted).await
}

async fn mend_waiting(
    app: &App,
    corp: &CorpApp,
    generation: u64,
    doubts: &[SeatId],
) -> Result<usize, Error> {
    let Some(write) = quiet(app, corp).await? else {
        return Ok(0);
    };
    let rows = app.ledger.seats().get_many(&corp.id, doubts).await?;
    let waits = |row: &Seat| row.stage == ledger::SeatStage::Waiting;
    let rows: Vec<Seat> = rows.into_iter().filter(waits).collect();
    let found = differing(corp, &rows).await?.into_iter();
    let found: Vec<Difference> = found.map(|(_, found)| found).collect();
    if !is_whole(corp, &write, generation).await? {
        return Err(roster::Error::NotReady.into());
    }
    told(corp, "", &found);
    write_down(app, write, found, None).await
}

async fn write_down(
    app: &App,
    write: LogWrite,
    found: Vec<Difference>,
    counted: Option<Change>,
) -> Result<usize, Error> {
    let n_found = found.len();
    if n_found == 0 {
        write.release().await?;
        return Ok(0);
    }
    let mut changes: Vec<Change> = found.into_iter().flat_map(|one| one.changes).collect();
    changes.extend(counted);
    write.mend(app.now_ms(), changes).await?;
    Ok(n_found)
}

/// For people; answers it in short.
fn told(corp: &CorpApp, group: &str, found: &[Difference]) -> String {
    let mut words: BTreeMap<&str, u64> = BTreeMap::new();
    for one in found {
        *words.entry(one.what).or_default() += 1;
    }
    for (what, n) in &words {
        counter!("paidan_seat_rows_mended_total", "corp" => corp.id.to_string(), "reason" => *what)
            .increment(*n);
    }
    let words = words.iter().map(|(what, n)| format!("{what}: {n}"));
    let words = words.collect::<Vec<_>>().join(", ");
    if !words.is_empty() {
        tracing::error!(corp = %corp.id, group, differences = words, "the ledger's rows of seats were not what Redis has, and are mended");
    }
    words
}
