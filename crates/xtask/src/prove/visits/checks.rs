//! The promises about visits, each with how much was looked at. Read from Postgres and Redis, and held against what the
//! visitors did.

use std::collections::BTreeMap;

use allocation::{
    Answer, Dump, LogEntry, MemberId, Op, PoolId, SlotId, Visited,
    model::{self, Corp},
};
use ledger::{WayKind, WayState};

use super::{Place, Script, house};
use crate::prove::checks::{self, Invariant, invariant};
use crate::stage::Stage;

pub(in crate::prove) async fn all(
    stage: &Stage,
    script: &Script,
) -> anyhow::Result<Vec<Invariant>> {
    let mut watch = Watch::new(stage, script)?;
    let folded = checks::fold(stage, |corp, entry| watch.entry(corp, entry)).await?;
    let dump = checks::dump(stage).await?;
    let mut all = vec![
        ended(stage).await?,
        had_visits(stage, script).await?,
        one_each(stage, script).await?,
        right_visits(stage, script).await?,
        lent_once(stage).await?,
        slots_back(stage, &dump).await?,
    ];
    all.extend(watch.invariants());
    all.extend(checks::state(stage, &folded, &dump).await?);
    all.push(checks::nothing_pending(stage).await?);
    all.push(checks::outcomes(stage).await?);
    all.extend(checks::simulator(stage).await?);
    Ok(all)
}

async fn ended(stage: &Stage) -> anyhow::Result<Invariant> {
    let ends: Vec<(Option<String>, i64)> =
        sqlx::query_as("SELECT ended_as, count(*) FROM visits GROUP BY 1 ORDER BY 2 DESC")
            .fetch_all(stage.ledger.pool())
            .await?;
    let holds: i64 = ends.iter().map(|(_, count)| count).sum();
    let all_ended = ends.iter().all(|(end, _)| end.is_some());
    let found: Vec<String> = ends
        .iter()
        .map(|(end, count)| format!("{count} {}", end.as_deref().unwrap_or("NOT")))
        .collect();
    Ok(invariant(
        "every hold has ended",
        all_ended,
        u64::try_from(holds)?,
        found.join(", "),
    ))
}

/// Whoever saw a page is one visitor, however often he was refused and asked again.
async fn had_visits(stage: &Stage, script: &Script) -> anyhow::Result<Invariant> {
    let visitors: Vec<String> = sqlx::query_scalar("SELECT visitor FROM visits ORDER BY visitor")
        .fetch_all(stage.ledger.pool())
        .await?;
    let mut wanted: Vec<String> = script
        .came
        .iter()
        .filter_map(|came| Some(came.shown.as_ref()?.visitor.to_string()))
        .collect();
    wanted.sort_unstable();
    let in_vain = script
        .came
        .iter()
        .filter(|came| came.shown.is_none())
        .count();
    let missing = wanted
        .iter()
        .filter(|visitor| visitors.binary_search(visitor).is_err())
        .count();
    // Whoever waited in vain may have a hold since.
    let surplus = visitors.len().saturating_sub(wanted.len());
    Ok(invariant(
        "every visitor has one visit",
        missing == 0 && surplus <= in_vain,
        wanted.len() as u64,
        format!("{missing} without, {surplus} more, {in_vain} waited in vain"),
    ))
}

/// In whichever way he came: he is the customer of the member whom he added, and nobody else's.
async fn one_each(stage: &Stage, script: &Script) -> anyhow::Result<Invariant> {
    let rows: Vec<(String, i64, i64, Option<String>)> = sqlx::query_as(
        "SELECT c.external_id, count(*), count(*) FILTER (WHERE a.state = 'open'), min(a.member)
         FROM customers AS c JOIN allocations AS a ON a.customer_id = c.id
         WHERE c.kind = 'wecom' GROUP BY 1",
    )
    .fetch_all(stage.ledger.pool())
    .await?;
    let mut members: BTreeMap<&str, &str> = BTreeMap::new();
    for added in script.came.iter().filter_map(|came| came.added.as_ref()) {
        members.insert(&added.customer, &added.member);
    }
    let right = rows.iter().filter(|(customer, rows, open, member)| {
        *rows == 1 && *open == 1 && member.as_deref() == members.get(customer.as_str()).copied()
    });
    let right = right.count();
    Ok(invariant(
        "every customer has one allocation, to the member he added",
        right == members.len() && right == rows.len(),
        members.len() as u64,
        format!("{right} of {} rows", rows.len()),
    ))
}

/// A slot says whose visit it was. The order of time is a guess, and is counted only.
async fn right_visits(stage: &Stage, script: &Script) -> anyhow::Result<Invariant> {
    type Row = (String, String, String, Option<String>);
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT c.external_id, v.visitor, v.matched, v.slot FROM visits AS v
         JOIN allocations AS a ON a.id = COALESCE(v.next_allocation, v.allocation_id)
         JOIN customers AS c ON c.id = a.customer_id
         WHERE v.matched IS NOT NULL AND c.external_id IS NOT NULL",
    )
    .fetch_all(stage.ledger.pool())
    .await?;
    let mut visits: BTreeMap<&str, (String, &str)> = BTreeMap::new();
    for came in &script.came {
        if let (Some(shown), Some(added)) = (&came.shown, &came.added) {
            visits.insert(&added.customer, (shown.visitor.to_string(), &shown.way));
        }
    }
    let (mut by_slot, mut wrong, mut guessed, mut wrongly) = (0, 0, 0, 0);
    for (customer, visitor, matched, slot) in &rows {
        let visit = visits.get(customer.as_str());
        let is_his = visit.is_some_and(|(his, _)| his == visitor);
        if matched == "slot" {
            by_slot += 1;
            let as_shown = visit.map(|(_, way)| *way) == slot.as_deref();
            wrong += u64::from(!is_his || !as_shown);
        } else {
            guessed += 1;
            wrongly += u64::from(!is_his);
        }
    }
    Ok(invariant(
        "no slot leads to somebody else's visit",
        wrong == 0 && by_slot > 0,
        by_slot,
        format!("{wrong} wrong; without a slot {guessed} by time, {wrongly} of them wrong"),
    ))
}

/// From the beginning of a hold to its end, and while it rests.
async fn lent_once(stage: &Stage) -> anyhow::Result<Invariant> {
    let (lent, early): (i64, i64) = sqlx::query_as(
        "SELECT count(*), count(*) FILTER (WHERE begins < free) FROM (
            SELECT held_until - hold_ms * interval '1 ms' AS begins,
                lag(ended_at + rest_ms * interval '1 ms') OVER (PARTITION BY slot ORDER BY held_until - hold_ms * interval '1 ms')
                    AS free
            FROM visits WHERE slot IS NOT NULL) AS loans",
    )
    .fetch_one(stage.ledger.pool())
    .await?;
    Ok(invariant(
        "no slot is lent before it came back and rested",
        early == 0,
        u64::try_from(lent)?,
        format!("{early} too early"),
    ))
}

async fn slots_back(stage: &Stage, dump: &Dump) -> anyhow::Result<Invariant> {
    let corp = Corp::from_dump(dump)?;
    let (mut slots, mut lent) = (0, 0);
    for slot in corp.slots() {
        slots += 1;
        lent += u64::from(slot.lent);
    }
    let counts = stage.ledger.contact_ways().counts(&stage.corp).await?;
    let ready: u64 = counts
        .iter()
        .filter(|one| one.state == WayState::Ready && one.kind == WayKind::Slot)
        .map(|one| one.count)
        .sum();
    let problems = corp.problems();
    let mut found = format!("{lent} lent, {slots} in Redis, {ready} ready ways");
    if let Some(first) = problems.first() {
        found = format!("{found}; {first} and {} more", problems.len() - 1);
    }
    Ok(invariant(
        "every slot is back",
        lent == 0 && slots == ready && problems.is_empty(),
        slots,
        found,
    ))
}

/// What only the log shows, as the state after each of its entries.
struct Watch {
    sales: PoolId,
    rush: PoolId,
    /// Of `sales`, whose pool never changes: weight, and how often he was shown.
    shares: BTreeMap<MemberId, (f64, u64)>,
    weights: f64,
    shown: u64,
    farthest: f64,
    farthest_in_rush: f64,
    /// Members of `rush` who can be full.
    caps: BTreeMap<MemberId, u32>,
    /// Few visitors may fill nobody.
    may_stay_below: bool,
    cap_reached: bool,
    picked_with_cap: u64,
    beyond_cap: u64,
    waited: u64,
    with_slot: u64,
    without_slot: u64,
}

impl Watch {
    fn new(stage: &Stage, script: &Script) -> anyhow::Result<Self> {
        let mut shares = BTreeMap::new();
        for (member, weight) in &stage.members {
            shares.insert(MemberId::new(member.clone())?, (f64::from(*weight), 0));
        }
        let mut caps = BTreeMap::new();
        for member in house::capped() {
            caps.insert(MemberId::new(member)?, script.cap);
        }
        Ok(Self {
            sales: PoolId::new(Place::Sales.name())?,
            rush: PoolId::new(Place::Rush.name())?,
            weights: shares.values().map(|(weight, _)| weight).sum(),
            shares,
            shown: 0,
            farthest: 0.0,
            farthest_in_rush: 0.0,
            caps,
            may_stay_below: script.came.len() < 400,
            cap_reached: false,
            picked_with_cap: 0,
            beyond_cap: 0,
            waited: 0,
            with_slot: 0,
            without_slot: 0,
        })
    }

    fn entry(&mut self, corp: &model::Corp, entry: &LogEntry) {
        if let (Op::Visit(visits), Answer::Visited(answers)) = (&entry.op, &entry.outcome.answer) {
            for (visit, answer) in visits.iter().zip(answers) {
                if let Visited::Held { member, slot, .. } = answer {
                    self.picked(corp, &visit.pool, member, slot.as_ref());
                }
            }
        }
        for woken in &entry.outcome.woken {
            if let Some(hold) = &woken.hold {
                self.waited += 1;
                self.picked(corp, &woken.pool, &woken.member, hold.slot.as_ref());
            }
        }
    }

    fn picked(
        &mut self,
        corp: &model::Corp,
        pool: &PoolId,
        member: &MemberId,
        slot: Option<&SlotId>,
    ) {
        match slot {
            Some(_) => self.with_slot += 1,
            None => self.without_slot += 1,
        }
        if *pool == self.sales {
            self.count(member);
        } else if *pool == self.rush {
            // What a member is owed, by the rules' own account: there is no fixed share to hold it against.
            let owed = corp.shares(pool).unwrap_or_default();
            let owed = owed.iter().map(|share| share.credit.abs());
            self.farthest_in_rush = owed.fold(self.farthest_in_rush, f64::max);
        }
        if let Some(cap) = self.caps.get(member) {
            let mut members = corp.members();
            let load = members
                .find(|one| one.member == *member)
                .map(|one| one.load);
            self.picked_with_cap += 1;
            self.cap_reached |= load == Some(*cap);
            // A pick is the last thing in its entry that raises a load.
            self.beyond_cap += u64::from(load.is_none_or(|load| load > *cap));
        }
    }

    /// One more visitor of the pool that never changes.
    fn count(&mut self, member: &MemberId) {
        self.shown += 1;
        if let Some((_, shown)) = self.shares.get_mut(member) {
            *shown += 1;
        }
        for (weight, shown) in self.shares.values() {
            let due = self.shown as f64 * weight / self.weights;
            self.farthest = self.farthest.max((*shown as f64 - due).abs());
        }
    }

    fn invariants(&self) -> [Invariant; 3] {
        let held = self.with_slot + self.without_slot;
        let share = self.with_slot as f64 / held.max(1) as f64;
        [
            invariant(
                "in the pool that never changes nobody is 1 from his share",
                self.farthest < 1.0 && self.shown > 0,
                self.shown,
                format!(
                    "largest distance {:.3}; with members who come, go and are full {:.3}",
                    self.farthest, self.farthest_in_rush
                ),
            ),
            invariant(
                "nobody is shown beyond his cap",
                self.beyond_cap == 0 && (self.cap_reached || self.may_stay_below),
                self.picked_with_cap,
                format!(
                    "{} beyond; the cap was {}reached",
                    self.beyond_cap,
                    if self.cap_reached { "" } else { "NOT " }
                ),
            ),
            invariant(
                "nine holds in ten have a slot",
                share >= 0.9,
                held,
                format!(
                    "{:.1} %; {} visitors waited for a member",
                    share * 100.0,
                    self.waited
                ),
            ),
        ]
    }
}
