//! The promises about seats, each with how much was looked at. Read from Postgres, Redis and the simulator, and held against
//! what the visitors did.

mod people;
mod ways;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use allocation::model::Corp;
use allocation::{ChatId, Dump, GroupPoolId, PersonKey};
use serde_json::Value;
use wecom_sim::{CorpState, GroupState, StateDump};

use super::log::{Log, Problems};
use super::{Place, Script, house, rows};
use crate::prove::checks::{self, Folded, Invariant, invariant};
use crate::stage::Stage;

/// What Redis had and Postgres had not yet, when Redis was wiped: of so long at most.
const TAIL: Duration = Duration::from_secs(5);

pub(in crate::prove) async fn all(
    stage: &Stage,
    script: &Script,
) -> anyhow::Result<Vec<Invariant>> {
    let (log, folded) = read(stage).await?;
    let dump = checks::dump(stage).await?;
    let state: StateDump = serde_json::from_value(stage.sim_get("state").await?)?;
    let wecom = state.corps.get(stage.corp.as_str());
    let wecom = wecom.ok_or_else(|| anyhow::anyhow!("the simulator has no corp"))?;
    let subjects = Subjects::read(stage).await?;
    let counters = stage.sim_get("counters").await?;
    let mut all = vec![
        no_full_group(&log),
        only_past_us(stage, &log, wecom).await?,
        answered(script),
        one_seat_each(script, &subjects),
        closed_while_wiped(stage, script).await?,
        ended(stage).await?,
        exact(script, &dump, wecom)?,
        people::joined(stage, script, &subjects, wecom).await?,
        confirmed_once(&log),
        opened(stage, script, &log).await?,
        within_limits(&counters["corps"][stage.corp.as_str()]),
    ];
    all.extend(ways::all(stage, wecom).await?);
    all.push(checks::same_as_redis(&folded, &dump));
    all.extend(rows::all(stage, folded.corp()).await?);
    all.push(checks::nothing_pending(stage).await?);
    all.push(checks::outcomes(stage).await?);
    all.extend(checks::simulator(stage).await?);
    Ok(all)
}

/// The log, entry by entry and by the rules.
pub(super) async fn read(stage: &Stage) -> anyhow::Result<(Log, Folded)> {
    let mut log = Log::default();
    let mut folded = Folded::default();
    checks::each_entry(stage, |row| {
        // What cannot be read is the fold's problem.
        if let Ok(entry) = row.parse() {
            log.entry(&entry);
        }
        folded.row(row);
    })
    .await?;
    Ok((log, folded))
}

fn no_full_group(log: &Log) -> Invariant {
    invariant(
        "no group is shown while it has no free seat",
        log.full.count == 0 && log.miscounted.count == 0 && log.shown > 0,
        log.shown,
        format!(
            "{} full; counts that differ {}; {} waited and were served",
            log.full.text(),
            log.miscounted.text(),
            log.served
        ),
    )
}

/// Whoever scans is refused at the scan cap; those on seats of theirs always fit.
async fn only_past_us(stage: &Stage, log: &Log, wecom: &CorpState) -> anyhow::Result<Invariant> {
    let owners = house::owners();
    let owners = owners
        .iter()
        .map(|owner| PersonKey::member(&stage.corp, owner).to_string());
    let (oversold, unexplained): (i64, i64) = sqlx::query_as(
        "SELECT count(*), count(*) FILTER (WHERE NOT EXISTS (
            SELECT FROM group_people AS p LEFT JOIN seats AS s USING (seat_id)
            WHERE p.chat_id = c.chat_id AND p.joined_at <= c.at
                AND (p.came_as <> 'seat' OR s.state IN ('late', 'left') OR s.moved_from IS NOT NULL)
                AND NOT p.person = ANY ($1)))
         FROM group_changes AS c WHERE kind = 'oversold'",
    )
    .bind(owners.collect::<Vec<_>>())
    .fetch_one(stage.ledger.pool())
    .await?;
    let mut problems = Problems::default();
    if unexplained > 0 {
        problems.add(|| format!("{unexplained} times OVERSOLD by nobody"));
    }
    let (mut above, mut most) = (0, 0);
    for group in ours(log, wecom) {
        let (scan_cap, hard_cap) = caps(stage, &group.chat_id).await?;
        let brought = group.members.iter();
        let brought = brought.filter(|one| !one.employee && one.join_scene != 3);
        let brought = brought.count();
        let excess = group.size.saturating_sub(scan_cap);
        above += u64::from(excess > 0);
        most = most.max(excess);
        if excess > brought || group.size > hard_cap {
            let (chat, size) = (&group.chat_id, group.size);
            problems.add(|| format!("{chat} has {size}, {brought} of them past us"));
        }
    }
    Ok(invariant(
        "only who came past us overfills a group",
        problems.count == 0 && log.overfilled.count == 0,
        log.groups.len() as u64,
        format!(
            "{}; on own seats {}; {above} above the cap, by {most} at most, {oversold} times OVERSOLD",
            problems.text(),
            log.overfilled.text()
        ),
    ))
}

async fn caps(stage: &Stage, chat: &str) -> anyhow::Result<(usize, usize)> {
    let caps: (i32, i32) = sqlx::query_as(
        "SELECT p.scan_cap, p.hard_cap FROM groups AS g JOIN group_pools AS p USING (corp_id, group_pool_id)
         WHERE g.chat_id = $1",
    )
    .bind(chat)
    .fetch_one(stage.ledger.pool())
    .await?;
    Ok((usize::try_from(caps.0)?, usize::try_from(caps.1)?))
}

/// Those that a pool has.
fn ours<'a>(log: &'a Log, wecom: &'a CorpState) -> impl Iterator<Item = &'a GroupState> {
    let known = |group: &&GroupState| {
        let chat = ChatId::new(group.chat_id.clone());
        chat.is_ok_and(|chat| log.groups.contains_key(&chat))
    };
    wecom.groups.iter().filter(known)
}

fn answered(script: &Script) -> Invariant {
    let mut failed = Problems::default();
    for came in &script.came {
        if let Some(error) = &came.failed {
            failed.add(|| format!("visitor {}: {error}", came.n));
        }
    }
    let came = || script.came.iter();
    let (waited, in_vain) = (
        came().filter(|came| came.waited).count(),
        came()
            .filter(|came| came.shown.is_none() && came.failed.is_none())
            .count(),
    );
    let refused: u64 = came().map(|came| u64::from(came.refused)).sum();
    invariant(
        "every visitor got a group or a place in the waiting room",
        failed.count == 0,
        script.answers.len() as u64,
        format!(
            "errors {}; {waited} waited, {in_vain} to the end; {} asked again of allocators that were away, {refused} found \
             their group full",
            failed.text(),
            script.asked_again
        ),
    )
}

/// Rows of seats by the visitor whose they are.
struct Subjects {
    /// All, and those that are open.
    seats: HashMap<String, (u64, u64)>,
}

impl Subjects {
    async fn read(stage: &Stage) -> anyhow::Result<Self> {
        let rows: Vec<(String, i64, i64)> = sqlx::query_as(
            "SELECT subject, count(*), count(*) FILTER (WHERE ended_at IS NULL) FROM seats GROUP BY 1",
        )
        .fetch_all(stage.ledger.pool())
        .await?;
        let seats = rows
            .into_iter()
            .map(|(subject, all, open)| (subject, (all as u64, open as u64)))
            .collect();
        Ok(Self { seats })
    }

    fn has(&self, subject: &str) -> bool {
        self.seats.contains_key(subject)
    }
}

/// Whose seat was in Redis alone when it was wiped: he was shown it a moment before.
fn is_lost(script: &Script, shown: &super::crowd::Shown) -> bool {
    shown.at <= script.wipe.at + TAIL && shown.at + TAIL >= script.wipe.at
}

fn one_seat_each(script: &Script, subjects: &Subjects) -> Invariant {
    let mut problems = Problems::default();
    let (mut lost, mut moved, mut renewed) = (0, 0, 0);
    let mut known = HashSet::new();
    for came in &script.came {
        moved += u64::from(came.moved);
        let Some(shown) = &came.shown else { continue };
        let visitor = shown.visitor.to_string();
        match subjects.seats.get(&visitor) {
            Some((all, open)) => {
                if *open > 1 || (*all > 1 && came.refused == 0) {
                    problems.add(|| format!("visitor {} has {all} seats, {open} open", came.n));
                }
                renewed += u64::from(*all > 1);
            }
            None if is_lost(script, shown) => lost += 1,
            None => problems.add(|| format!("visitor {} has no seat", came.n)),
        }
        known.insert(visitor);
    }
    let in_vain = script.came.len() - known.len();
    let strangers = subjects.seats.len().saturating_sub(known.len());
    if strangers > in_vain {
        problems.add(|| format!("{strangers} seats are nobody's"));
    }
    invariant(
        "every visitor has one seat",
        problems.count == 0,
        known.len() as u64,
        format!(
            "{}; {lost} lost with Redis, {moved} were shown another group, {renewed} asked anew",
            problems.text()
        ),
    )
}

/// From the wipe on nobody is answered until the state is there again; then it is another generation.
async fn closed_while_wiped(stage: &Stage, script: &Script) -> anyhow::Result<Invariant> {
    let wipe = script.wipe;
    let wrong = script
        .answers
        .iter()
        .filter(|(asked, had)| *asked >= wipe.at && *had <= wipe.closed);
    let wrong = wrong.count();
    let waited = script
        .answers
        .iter()
        .filter(|(asked, had)| *asked <= wipe.closed && *had >= wipe.at);
    let waited = waited.count();
    let generations: i64 =
        sqlx::query_scalar("SELECT count(DISTINCT generation) FROM log WHERE generation > 0")
            .fetch_one(stage.ledger.pool())
            .await?;
    Ok(invariant(
        "nobody is answered between the wipe of Redis and its rebuild",
        wrong == 0 && waited > 0 && generations > 1,
        waited as u64,
        format!(
            "{wrong} were; closed for {:.1?}, {generations} generations",
            wipe.open - wipe.at
        ),
    ))
}

async fn ended(stage: &Stage) -> anyhow::Result<Invariant> {
    let rows: Vec<(String, i64, i64)> = sqlx::query_as(
        "SELECT state, count(*), count(*) FILTER (WHERE ended_at IS NULL) FROM seats GROUP BY 1 ORDER BY 2 DESC",
    )
    .fetch_all(stage.ledger.pool())
    .await?;
    let open = |state: &str| matches!(state, "held" | "waiting");
    let holds: i64 = rows.iter().map(|(_, count, _)| count).sum();
    let live = rows.iter().any(|(state, ..)| open(state));
    let found: Vec<String> = rows
        .iter()
        .map(|(state, count, _)| format!("{count} {state}"))
        .collect();
    Ok(invariant(
        "every hold and every wait has ended",
        !live,
        u64::try_from(holds)?,
        found.join(", "),
    ))
}

/// Of every group: who is in it at WeCom, and the seats that are left.
fn exact(script: &Script, dump: &Dump, wecom: &CorpState) -> anyhow::Result<Invariant> {
    let corp = Corp::from_dump(dump)?;
    let there: BTreeMap<&str, &GroupState> = wecom
        .groups
        .iter()
        .map(|group| (group.chat_id.as_str(), group))
        .collect();
    let mut problems = Problems::default();
    for problem in corp.problems() {
        problems.add(|| problem);
    }
    let (mut groups, mut people) = (0, 0);
    for view in corp.groups() {
        groups += 1;
        let chat = view.config.chat().as_str();
        let Some(group) = there.get(chat) else {
            problems.add(|| format!("{chat} is not at WeCom"));
            continue;
        };
        people += group.size;
        let size = u32::try_from(group.size)?;
        let free = script.size.room().saturating_sub(size);
        let seen = view.seen.as_ref().map(|seen| seen.as_str());
        let pending = view.people.iter().filter(|one| one.pending).count();
        let is = (view.count.people, view.count.free, view.count.held);
        if is != (size, free, 0) || pending > 0 || seen != Some(group.member_version.as_str()) {
            problems.add(|| {
                format!(
                    "{chat} has {size} people, here (people, free, held) {is:?}, {pending} unnamed"
                )
            });
        }
    }
    Ok(invariant(
        "free seats are what WeCom's groups leave, in every group",
        problems.count == 0 && groups == 2 * script.size.groups,
        groups as u64,
        format!("differences {}; {people} people", problems.text()),
    ))
}

fn confirmed_once(log: &Log) -> Invariant {
    let twice = log.confirmed.values().filter(|times| **times > 1).count();
    invariant(
        "no seat is confirmed twice",
        twice == 0 && !log.confirmed.is_empty(),
        log.confirmed.len() as u64,
        format!("{twice} were; {} late", log.late),
    )
}

/// As many as the most seats that were taken and asked for at one time take, and the pool's reserve, each once. Fewer are
/// enough if those who had to wait were served out of seats that came back; nobody waits to the end while there is stock.
async fn opened(stage: &Stage, script: &Script, log: &Log) -> anyhow::Result<Invariant> {
    let mut problems = Problems::default();
    let mut found = Vec::new();
    let mut all = 0;
    for place in Place::ALL {
        let pool = GroupPoolId::new(place.name())?;
        let most = log.most.get(&pool).copied().unwrap_or_default();
        let room = u64::from(script.size.room());
        let of_groups = |seats: u64| {
            seats
                .div_ceil(room)
                .clamp(script.open as u64, script.size.groups as u64)
        };
        // One group is the pool's reserve, and may come when the rush is over.
        let (needed, at_most) = (of_groups(most), of_groups(most + room) + 1);
        let of_pool = |chat: &ChatId| log.groups.get(chat).is_some_and(|one| one.pool == pool);
        let opened: Vec<_> = log
            .opened
            .iter()
            .filter(|(chat, _)| of_pool(chat))
            .collect();
        for (chat, times) in opened.iter().filter(|(_, times)| **times > 1) {
            problems.add(|| format!("{chat} was opened {times} times"));
        }
        let rows: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM groups WHERE group_pool_id = $1 AND state = 'open' AND deleted_at IS NULL",
        )
        .bind(place.name())
        .fetch_one(stage.ledger.pool())
        .await?;
        let n = opened.len() as u64;
        all += n;
        let (supplied, distinct): (i64, i64) = sqlx::query_as(
            "SELECT count(*), count(DISTINCT chat) FROM supply_tasks, unnest(chats) AS chat WHERE group_pool_id = $1",
        )
        .bind(place.name())
        .fetch_one(stage.ledger.pool())
        .await?;
        let started = script.open as u64;
        if supplied != distinct || u64::try_from(supplied)? + started != n {
            let name = place.name();
            problems.add(|| {
                format!("{name}: supply says {supplied} ({distinct} of them distinct), {n} less {started} were opened")
            });
        }
        let in_vain = script
            .came
            .iter()
            .filter(|came| came.place == place && came.shown.is_none() && came.failed.is_none());
        let is_short = in_vain.count() > 0 && n < script.size.groups as u64;
        if n > at_most || n * 3 < needed * 2 || is_short || u64::try_from(rows)? != n {
            let name = place.name();
            problems.add(|| format!("{name}: {n} opened, {rows} in the rows, {needed} needed"));
        }
        found.push(format!("{} {n} of {needed} needed", place.name()));
    }
    Ok(invariant(
        "as many groups are opened as are needed, each once",
        problems.count == 0,
        all,
        format!("{}; {}", problems.text(), found.join(", ")),
    ))
}

/// Limits of WeCom that we ran into.
fn within_limits(corp: &Value) -> Invariant {
    let mut broken = Problems::default();
    let mut calls = 0;
    for (api, one) in corp["apis"].as_object().into_iter().flatten() {
        calls += one["calls"].as_u64().unwrap_or_default();
        for code in ["45009", "45033", "45035"] {
            if let Some(times) = one["codes"][code].as_u64() {
                broken.add(|| format!("{api} {code} {times} times"));
            }
        }
    }
    invariant(
        "WeCom's limits were never met",
        broken.count == 0 && calls > 0,
        calls,
        broken.text(),
    )
}
