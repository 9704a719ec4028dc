//! Groups, read at WeCom: those that events brought into doubt, those that Redis knows nobody of, and slowly all, as events get
//! lost. Marks are durable, and one process reads a group at a time; what a read says is compared with what Redis has
//! (`super::reading`), and Redis takes it only if nothing has changed meanwhile.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use allocation::{
    CampaignId, ChatId, ChatVersion, PersonKey, SeatsConfirmed, SubjectKey, model::GroupView,
};
use futures_util::{StreamExt, stream};
use inbox::Taken;
use ledger::{Doubt, GroupDoubt, GroupKnown, Trail};
use metrics::{counter, gauge};
use tokio_util::sync::CancellationToken;
use wecom::client::{GroupMember, GroupMemberKind};

use super::{
    dirty::{CHAT, CHAT_GONE, CHAT_NEW},
    get::{self, Answer, DISSOLVED, Found},
    reading::{Difference, Reading, digest},
    seats, supply, told, waiting,
};
use crate::{
    app::{App, CorpApp},
    backoff::{Backoff, jittered, sleep},
    faults::with_causes,
    payload::{Known, Payload},
    reception::visits::VisitorKind,
};

/// Marks taken in one turn for each read that is made at once, and how long they are ours: what a process that died had in
/// its hands waits no longer.
const TURN: usize = 2;
const LEASE_MS: u64 = 15_000;
/// Groups that are marked at a time because it is long since they were read: more would keep those waiting of which there is
/// news.
const SLOW: u32 = 60;
const LOOK_EVERY_MS: u64 = 1_000;
const COUNT_EVERY_MS: u64 = 15_000;
/// Reads that WeCom did not answer, or whose answer could not be taken, are made again after this.
const AGAIN_MS: u64 = 5_000;
/// Nothing at all can be asked.
const STOPPED_MS: u64 = 60_000;
/// Changes of a group during a read that are caught up with at once.
const CATCH_UP: usize = 3;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("inbox")]
    Inbox(#[from] inbox::Error),
    #[error("ledger")]
    Ledger(#[from] ledger::Error),
    #[error("roster")]
    Roster(#[from] roster::Error),
    #[error(transparent)]
    Told(#[from] told::Error),
    #[error("a group's version")]
    Version(#[from] allocation::Error),
}

impl Error {
    fn is_not_ready(&self) -> bool {
        matches!(
            self,
            Self::Roster(roster::Error::NotReady)
                | Self::Told(told::Error::Roster(roster::Error::NotReady))
        )
    }
}

/// Reads until the program stops.
pub async fn run(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    let pause = Duration::from_millis(app.config.fission.poll_ms);
    let mut here = Here::default();
    let mut backoff = Backoff::store();
    while !stop.is_cancelled() {
        match here.turn(&app, &corp).await {
            Ok(0) => {
                backoff.reset();
                sleep(pause, &stop).await;
            }
            Ok(_) => backoff.reset(),
            Err(error) => {
                if error.is_not_ready() {
                    corp.not_ready.notify_one();
                } else {
                    tracing::warn!(corp = %corp.id, error = %with_causes(&error), "groups were not read");
                }
                backoff.wait(&stop).await;
            }
        }
    }
}

/// When this process looks again.
#[derive(Default)]
struct Here {
    look_ms: u64,
    count_ms: u64,
}

impl Here {
    async fn turn(&mut self, app: &App, corp: &CorpApp) -> Result<usize, Error> {
        let now_ms = app.now_ms();
        if now_ms >= self.look_ms {
            self.look_ms = now_ms + LOOK_EVERY_MS;
            look(app, corp).await?;
        }
        if now_ms >= self.count_ms {
            self.count_ms = now_ms + COUNT_EVERY_MS;
            count(app, corp).await?;
        }
        turn(app, corp).await
    }
}

/// Marks some of the groups that Redis knows nobody of, or that were read too long ago; answers how many.
pub async fn look(app: &App, corp: &CorpApp) -> Result<usize, Error> {
    let Some(generation) = corp.roster.status().await?.generation else {
        return Ok(0);
    };
    let (now_ms, period_ms) = (app.now_ms(), app.config.fission.period_ms);
    let before_ms = (period_ms > 0).then(|| now_ms.saturating_sub(period_ms));
    let groups = app.ledger.groups();
    let due = groups.due(&corp.id, generation, before_ms, now_ms, SLOW);
    let due = due.await?;
    let marks: Vec<(&str, u64)> = due.iter().map(|chat| (chat.as_str(), now_ms)).collect();
    corp.inbox.dirty_mark_many(CHAT, &marks).await?;
    Ok(due.len())
}

async fn count(app: &App, corp: &CorpApp) -> Result<(), Error> {
    let generation = corp.roster.status().await?.generation;
    let groups = app.ledger.groups();
    let counts = groups.counts(&corp.id, generation.unwrap_or_default());
    let counts = counts.await?;
    for (state, count) in [
        ("open", counts.open),
        ("closed", counts.closed),
        ("spare", counts.spare),
        ("dismissed", counts.dismissed),
        ("unread", counts.unread),
        ("failing", counts.failing),
    ] {
        gauge!("paidan_groups", "corp" => corp.id.to_string(), "state" => state).set(count as f64);
    }
    let marks = corp.inbox.dirty_count(CHAT).await?;
    let first_ms = corp.inbox.dirty_first(CHAT).await?;
    let late_ms = first_ms.map_or(0, |first_ms| app.now_ms().saturating_sub(first_ms));
    let id = || corp.id.to_string();
    gauge!("paidan_groups_dirty", "corp" => id()).set((marks.waiting + marks.taken) as f64);
    gauge!("paidan_groups_dirty_late_seconds", "corp" => id()).set(late_ms as f64 / 1_000.0);
    Ok(())
}

/// Reads what is due, and carries out what events said of groups; answers how many marks there were.
pub async fn turn(app: &App, corp: &CorpApp) -> Result<usize, Error> {
    let mut n_marks = 0;
    let limit = TURN * app.config.fission.reads;
    for kind in [CHAT_GONE, CHAT_NEW, CHAT] {
        let now_ms = Some(app.now_ms());
        let marks = corp.inbox.dirty_take(kind, now_ms, limit, LEASE_MS).await?;
        n_marks += marks.len();
        let ended = marks.into_iter().map(|mark| one(app, corp, kind, mark));
        let mut ended =
            stream::iter(ended.collect::<Vec<_>>()).buffer_unordered(app.config.fission.reads);
        while let Some(ended) = ended.next().await {
            ended?;
        }
    }
    Ok(n_marks)
}

/// Ends a mark, or puts it off.
async fn one(app: &App, corp: &CorpApp, kind: &str, mark: Taken) -> Result<(), Error> {
    let again = match ChatId::new(mark.entity.clone()) {
        Ok(chat) => match kind {
            CHAT_GONE => gone(app, corp, &chat).await.map(|()| None),
            CHAT_NEW => new(app, corp, &chat).await,
            _ => known(app, corp, &chat).await,
        },
        // It cannot be one of ours.
        Err(_) => Ok(None),
    };
    let again_ms = match again {
        Ok(again_ms) => again_ms,
        Err(error) if error.is_not_ready() => return Err(error),
        // It may be this group's fault: the others must not wait for it.
        Err(error) => {
            tracing::warn!(corp = %corp.id, group = %mark.entity, error = %with_causes(&error), "a group was not read");
            Some(app.now_ms() + jittered(AGAIN_MS))
        }
    };
    corp.inbox.dirty_done(kind, &[mark], again_ms).await?;
    Ok(())
}

/// A group is no more, for ever.
async fn gone(app: &App, corp: &CorpApp, chat: &ChatId) -> Result<(), Error> {
    let trail = Trail::system(app.now_ms(), "groupchat");
    if app
        .ledger
        .groups()
        .dismissed(&corp.id, chat, &trail)
        .await?
    {
        tracing::info!(corp = %corp.id, group = %chat, "a group is no more");
        said(corp, "dismissed");
    }
    Ok(told::tell(app, corp, chat).await?)
}

/// A group that an event told of. Answers when to ask again.
async fn new(app: &App, corp: &CorpApp, chat: &ChatId) -> Result<Option<u64>, Error> {
    match get::ask(app, corp, chat).await {
        Answer::Read(found) => {
            let trail = Trail::system(app.now_ms(), "groupchat");
            if app
                .ledger
                .groups()
                .found(&corp.id, &found.read, &trail)
                .await?
            {
                said(corp, "found");
            }
            // Known or not: whoever wrote it down may have died here.
            if let Some(made_ms) = found.made_ms {
                supply::found::adopt(app, corp, &found.read, made_ms).await?;
            }
            Ok(None)
        }
        // It may be one that this app must not see.
        Answer::Refused(problem) => {
            tracing::info!(corp = %corp.id, group = %chat, problem = problem.error, "a new group cannot be read");
            said(corp, "refused");
            Ok(None)
        }
        Answer::Unanswered(error) => Ok(Some(unanswered(app, corp, chat, &error))),
        Answer::Wait(until_ms) => Ok(Some(until_ms)),
    }
}

/// A group that is known. Answers when to ask again.
async fn known(app: &App, corp: &CorpApp, chat: &ChatId) -> Result<Option<u64>, Error> {
    let groups = app.ledger.groups();
    let Some(row) = groups.doubt(&corp.id, chat).await? else {
        return Ok(None);
    };
    let generation = corp.roster.status().await?.generation;
    match get::ask(app, corp, chat).await {
        Answer::Read(found) => {
            groups
                .refresh(&corp.id, std::slice::from_ref(&found.read))
                .await?;
            let (Some(generation), true) = (generation, row.pool.is_some()) else {
                said(corp, "unfilled");
                return Ok(None);
            };
            reckon(app, corp, chat, generation, row, &found).await
        }
        Answer::Refused(problem) => {
            groups.not_read(&corp.id, chat, &problem).await?;
            if problem.errcode == Some(DISSOLVED) {
                gone(app, corp, chat).await?;
                return Ok(None);
            }
            tracing::warn!(corp = %corp.id, group = %chat, problem = problem.error, "a group cannot be read");
            said(corp, "refused");
            let until_ms = app.now_ms() + jittered(app.config.fission.failed_ms);
            groups.rests(&corp.id, chat, until_ms).await?;
            Ok(None)
        }
        Answer::Unanswered(error) => Ok(Some(unanswered(app, corp, chat, &error))),
        Answer::Wait(until_ms) => Ok(Some(until_ms)),
    }
}

fn unanswered(app: &App, corp: &CorpApp, chat: &ChatId, error: &wecom::Error) -> u64 {
    tracing::warn!(corp = %corp.id, group = %chat, error = %error, "WeCom did not say who is in a group");
    said(corp, "unanswered");
    let pause_ms = match error.stops_the_app() {
        true => STOPPED_MS,
        false => AGAIN_MS,
    };
    app.now_ms() + jittered(pause_ms)
}

/// Makes Redis know what was read, and remembers what is in doubt. Answers when to read it again.
async fn reckon(
    app: &App,
    corp: &CorpApp,
    chat: &ChatId,
    generation: u64,
    row: GroupDoubt,
    found: &Found,
) -> Result<Option<u64>, Error> {
    let lag_ms = app.config.fission.read_lag_ms;
    let version = found.read.member_version.as_deref();
    let reading = Reading::of(&corp.id, &found.members, version)?;
    let campaigns = seats::campaigns(app, corp, row.pool.as_ref()).await?;
    let known = wanted(corp, &campaigns, &found.members);
    let groups = app.ledger.groups();
    for _ in 0..CATCH_UP {
        let Some(view) = corp.roster.group(chat).await? else {
            // It is not told yet, or no more; when it is told, it is due.
            return Ok(None);
        };
        let doubt = row.doubt.as_ref();
        let doubt = doubt.filter(|doubt| doubt.digest == digest(&view));
        let is_settled = doubt.is_some_and(|doubt| doubt.at_ms + lag_ms <= found.read.read_ms);
        let are_seats = seats::existing(corp, &campaigns, &reading.names(&view)).await?;
        let is_seat = |campaign: &_, subject: &_| are_seats.has(campaign, subject);
        let difference = reading.difference(&view, is_settled, &campaigns, is_seat);
        if !tell(corp, &view, &difference, &known).await? {
            continue;
        }
        tally(corp, &view, &difference, &reading);
        let read = difference.is_whole.then_some(GroupKnown {
            read_ms: found.read.read_ms,
            generation,
        });
        if is_settled {
            groups.reckoned(&corp.id, chat, read, None).await?;
            return Ok(None);
        }
        if !difference.in_doubt {
            let before_ms = found.read.read_ms.saturating_sub(lag_ms);
            let since_ms = groups.exact(&corp.id, chat, read, before_ms).await?;
            return Ok(since_ms.map(|since_ms| (since_ms + lag_ms).max(app.now_ms() + 1)));
        }
        // What Redis has now; if it had the same before, the lag counts from then.
        let (after, now_ms) = (corp.roster.group(chat).await?, app.now_ms());
        let Some(after) = after else {
            return Ok(None);
        };
        let new = Doubt {
            digest: digest(&after),
            at_ms: now_ms,
        };
        let new = match row.doubt {
            Some(old) if old.digest == new.digest => old,
            _ => new,
        };
        let again_ms = new.at_ms + lag_ms;
        groups.reckoned(&corp.id, chat, read, Some(&new)).await?;
        return Ok(Some(again_ms.max(now_ms + 1)));
    }
    // It changes faster than it is looked at.
    Ok(Some(app.now_ms() + app.config.fission.read_after_ms))
}

/// As whom people are known besides, where one of these campaigns rewards somebody for them, or gives them a tag.
fn wanted(
    corp: &CorpApp,
    campaigns: &[CampaignId],
    members: &[GroupMember],
) -> BTreeMap<PersonKey, Known> {
    let of_pool = campaigns.iter().filter_map(|id| corp.campaigns.get(id));
    let of_pool: Vec<_> = of_pool.filter(|one| one.rewards || one.tags).collect();
    if of_pool.is_empty() {
        return BTreeMap::new();
    }
    let customers = members.iter();
    let customers = customers.filter(|one| one.kind != GroupMemberKind::Employee);
    let known = customers.map(|one| {
        let unionid = one.unionid.as_deref().filter(|id| !id.is_empty());
        let known = Known {
            unionid: unionid.map(|id| SubjectKey::new(&corp.id, VisitorKind::Unionid.as_str(), id)),
            external_id: Some(one.userid.clone()),
        };
        (PersonKey::customer(&corp.id, &one.userid), known)
    });
    known.collect()
}

/// False: the group has changed since it was looked at.
async fn tell(
    corp: &CorpApp,
    view: &GroupView,
    difference: &Difference,
    known: &BTreeMap<PersonKey, Known>,
) -> Result<bool, Error> {
    for change in &difference.changes {
        let named = change.joined.iter().filter(|one| one.identified);
        let named = named.filter_map(|one| Some((one.person, known.get(&one.person)?.clone())));
        let payload = Payload {
            actor: Some("groups".to_owned()),
            people: named.collect(),
            ..Payload::default()
        };
        let told = corp
            .roster
            .confirm_seats(change.clone(), &payload.text(), None)
            .await?;
        waiting::applied(corp, &told);
        match &told.answer {
            SeatsConfirmed::Stale { .. } => return Ok(false),
            SeatsConfirmed::Unknown => return Ok(true),
            SeatsConfirmed::Counted { .. } => seats::tally(corp, &view.config, &told.answer),
        }
    }
    Ok(true)
}

fn tally(corp: &CorpApp, view: &GroupView, difference: &Difference, reading: &Reading) {
    let what = match (difference.in_doubt, difference.is_whole) {
        (false, _) => "whole",
        (true, true) => "first",
        (true, false) => "in_doubt",
    };
    said(corp, what);
    // Of a group that was read before, this is what no event has told.
    let drift = difference.n_joined + difference.n_left;
    if view.seen.is_some() && drift > 0 {
        tracing::info!(corp = %corp.id, group = %view.config.chat(), came = difference.n_joined, left = difference.n_left,
            people = reading.n_people(), version = reading.version.as_str(),
            had = view.seen.as_ref().map_or("", ChatVersion::as_str), "a read of a group found what no event told");
        let count = |what, n: usize| {
            counter!("paidan_group_drift_total", "corp" => corp.id.to_string(), "what" => what)
                .increment(n as u64);
        };
        count("came", difference.n_joined);
        count("left", difference.n_left);
    }
}

fn said(corp: &CorpApp, what: &'static str) {
    counter!("paidan_group_reads_total", "corp" => corp.id.to_string(), "what" => what)
        .increment(1);
}
