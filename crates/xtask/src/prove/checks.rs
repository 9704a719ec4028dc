//! The promises, each with how much was looked at. Read from Postgres, Redis and the simulator.

use std::collections::BTreeMap;

use allocation::{Dump, LogEntry, MemberId, model};
use ledger::LogRow;
use roster::Roster;
use serde_json::Value;

use crate::stage::Stage;

/// One promise.
#[derive(Debug)]
pub(crate) struct Invariant {
    pub(crate) name: &'static str,
    pub(crate) holds: bool,
    pub(crate) checked: u64,
    /// What was found, short.
    pub(crate) found: String,
}

impl Invariant {
    pub(crate) fn mark(&self) -> &'static str {
        if self.holds { "holds " } else { "BROKEN" }
    }

    pub(crate) fn line(&self) -> String {
        format!(
            "{} {:<58} {:>9} checked  {}",
            self.mark(),
            self.name,
            self.checked,
            self.found
        )
    }
}

pub(super) fn invariant(
    name: &'static str,
    holds: bool,
    checked: u64,
    found: impl Into<String>,
) -> Invariant {
    Invariant {
        name,
        holds,
        checked,
        found: found.into(),
    }
}

pub(crate) async fn all(stage: &Stage, customers: u64) -> anyhow::Result<Vec<Invariant>> {
    let counters = stage.sim_get("counters").await?;
    let corp = counters["corps"][stage.corp.as_str()].clone();
    let mut all = vec![one_each(stage, customers).await?, shares(stage).await?];
    all.extend(transfers(stage, &corp).await?);
    all.push(welcomes(&corp));
    let folded = fold(stage, |_, _| {}).await?;
    all.extend(state(stage, &folded, &dump(stage).await?).await?);
    all.push(nothing_pending(stage).await?);
    all.push(outcomes(stage).await?);
    all.extend(simulator(stage).await?);
    Ok(all)
}

async fn one_each(stage: &Stage, customers: u64) -> anyhow::Result<Invariant> {
    let (subjects, rows, open): (i64, i64, i64) = sqlx::query_as(
        "SELECT count(DISTINCT subject), count(*), count(*) FILTER (WHERE state = 'open') FROM allocations",
    )
    .fetch_one(stage.ledger.pool())
    .await?;
    let wanted = i64::try_from(customers)?;
    let holds = subjects == wanted && rows == wanted && open == wanted;
    let found = format!("{subjects} customers, {rows} allocations, {open} open");
    Ok(invariant(
        "every customer has exactly one allocation",
        holds,
        customers,
        found,
    ))
}

/// For a pool that did not change, everybody is within 1 of his share.
async fn shares(stage: &Stage) -> anyhow::Result<Invariant> {
    let counts = stage
        .ledger
        .allocations()
        .open_by_member(&stage.corp)
        .await?;
    let counts: BTreeMap<String, u64> = counts
        .into_iter()
        .map(|(member, count)| (member.to_string(), count))
        .collect();
    let total: u64 = counts.values().sum();
    let weights: u32 = stage.members.iter().map(|(_, weight)| weight).sum();
    let worst = stage
        .members
        .iter()
        .map(|(member, weight)| {
            let share = total as f64 * f64::from(*weight) / f64::from(weights);
            (counts.get(member).copied().unwrap_or_default() as f64 - share).abs()
        })
        .fold(0.0, f64::max);
    let found = format!("largest distance {worst:.3}");
    Ok(invariant(
        "every member is within 1 of his share",
        worst < 1.0,
        stage.members.len() as u64,
        found,
    ))
}

async fn transfers(stage: &Stage, corp: &Value) -> anyhow::Result<Vec<Invariant>> {
    let accepted = corp["transfers_accepted"].as_u64().unwrap_or_default();
    let by_number = corp["customers_by_transfers"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    let twice: u64 = by_number
        .iter()
        .filter(|(number, _)| number.as_str() != "1")
        .filter_map(|(_, customers)| customers.as_u64())
        .sum();
    let (wanted, unfinished): (i64, i64) = sqlx::query_as(
        "SELECT count(*), count(*) FILTER (WHERE state IN ('planned', 'submitted', 'unknown')) FROM transfers",
    )
    .fetch_one(stage.ledger.pool())
    .await?;
    Ok(vec![
        invariant(
            "no customer is moved twice",
            twice == 0,
            accepted,
            format!("{twice} moved more than once"),
        ),
        invariant(
            "every planned transfer was started, and WeCom knows it",
            unfinished == 0 && u64::try_from(wanted)? == accepted,
            u64::try_from(wanted)?,
            format!("{wanted} planned, {accepted} accepted, {unfinished} not started"),
        ),
    ])
}

fn welcomes(corp: &Value) -> Invariant {
    let delivered = corp["welcomes_delivered"].as_u64().unwrap_or_default();
    let repeated = corp["welcomes_repeated"].as_u64().unwrap_or_default();
    invariant(
        "nobody is welcomed twice",
        repeated == 0,
        delivered,
        format!("{delivered} delivered, {repeated} repeated"),
    )
}

/// The ledger's log, folded through the rules.
#[derive(Default)]
pub(super) struct Folded {
    corp: model::Corp,
    entries: u64,
    /// Where it does not go on.
    broken: Option<String>,
}

impl Folded {
    pub(super) fn corp(&self) -> &model::Corp {
        &self.corp
    }

    /// One entry more; answers it, if it follows from the rules.
    pub(super) fn row(&mut self, row: &LogRow) -> Option<LogEntry> {
        self.entries += 1;
        if self.broken.is_some() {
            return None;
        }
        let entry = row.parse().and_then(|entry| {
            self.corp.fold(&entry)?;
            Ok(entry)
        });
        match entry {
            Ok(entry) => Some(entry),
            Err(error) => {
                self.broken = Some(format!("entry {}: {error}", row.seq));
                None
            }
        }
    }
}

/// Reads the whole log.
pub(super) async fn each_entry(stage: &Stage, mut row: impl FnMut(&LogRow)) -> anyhow::Result<()> {
    let mut after = 0;
    loop {
        let rows = stage
            .ledger
            .corps()
            .read_log(&stage.corp, after, 5_000)
            .await?;
        let Some(last) = rows.last() else {
            return Ok(());
        };
        after = last.seq;
        rows.iter().for_each(&mut row);
    }
}

/// Folds the whole log; `watch` sees each entry with the state after it.
pub(super) async fn fold(
    stage: &Stage,
    mut watch: impl FnMut(&model::Corp, &LogEntry),
) -> anyhow::Result<Folded> {
    let mut folded = Folded::default();
    each_entry(stage, |row| {
        if let Some(entry) = folded.row(row) {
            watch(&folded.corp, &entry);
        }
    })
    .await?;
    Ok(folded)
}

/// What Redis has.
pub(super) async fn dump(stage: &Stage) -> anyhow::Result<Dump> {
    let roster = Roster::new(stage.redis.clone()).corp(&stage.corp);
    Ok(roster.dump().await?)
}

pub(super) fn same_as_redis(folded: &Folded, dump: &Dump) -> Invariant {
    let same = folded.broken.is_none() && folded.corp.dump() == *dump;
    let found = folded.broken.clone().unwrap_or_else(|| {
        format!(
            "{} keys {}",
            dump.keys.len(),
            if same { "equal" } else { "differ" }
        )
    });
    invariant(
        "folding the ledger's log gives Redis, byte for byte",
        same,
        folded.entries,
        found,
    )
}

pub(super) async fn state(
    stage: &Stage,
    folded: &Folded,
    dump: &Dump,
) -> anyhow::Result<Vec<Invariant>> {
    let open = stage
        .ledger
        .allocations()
        .open_by_member(&stage.corp)
        .await?;
    let everybody = dump
        .keys
        .keys()
        .filter_map(|key| key.strip_prefix("member:"))
        .map(MemberId::new)
        .collect::<Result<Vec<_>, _>>()?;
    let roster = Roster::new(stage.redis.clone()).corp(&stage.corp);
    let loads: BTreeMap<String, u64> = roster
        .members(&everybody)
        .await?
        .into_iter()
        .filter(|member| member.load > 0)
        .map(|member| (member.member.to_string(), u64::from(member.load)))
        .collect();
    let rows: BTreeMap<String, u64> = open
        .into_iter()
        .map(|(member, count)| (member.to_string(), count))
        .collect();
    Ok(vec![
        same_as_redis(folded, dump),
        invariant(
            "loads are open rows",
            loads == rows,
            rows.values().sum(),
            format!("{} members", rows.len()),
        ),
    ])
}

pub(super) async fn nothing_pending(stage: &Stage) -> anyhow::Result<Invariant> {
    let inbox = inbox::Inbox::new(
        stage.redis.clone(),
        stage.corp.as_str(),
        inbox::Config::default(),
    );
    let stats = inbox.stats(None).await?;
    let unfinished: u64 = stage
        .ledger
        .outbox()
        .unfinished(Some(&stage.corp))
        .await?
        .iter()
        .map(|one| one.count)
        .sum();
    let row = stage
        .ledger
        .corps()
        .get(&stage.corp)
        .await?
        .unwrap_or_default();
    let status = Roster::new(stage.redis.clone())
        .corp(&stage.corp)
        .status()
        .await?;
    let holds =
        stats.length == 0 && stats.dead == 0 && unfinished == 0 && row.log_seq == status.seq;
    let found = format!(
        "inbox {}, dead {}, effects {unfinished}, log {} of {}",
        stats.length, stats.dead, row.log_seq, status.seq
    );
    Ok(invariant("nothing is pending", holds, 4, found))
}

pub(super) async fn outcomes(stage: &Stage) -> anyhow::Result<Invariant> {
    let (deliveries, without): (i64, i64) = sqlx::query_as(
        "SELECT count(*), count(*) FILTER (WHERE o.delivery IS NULL) FROM deliveries AS d
         LEFT JOIN delivery_outcomes AS o
            ON o.corp_id = d.corp_id AND o.delivery = d.id AND o.received_at = d.received_at",
    )
    .fetch_one(stage.ledger.pool())
    .await?;
    let found = format!("{without} without");
    Ok(invariant(
        "every stored delivery has an outcome",
        without == 0,
        u64::try_from(deliveries)?,
        found,
    ))
}

/// What the simulator itself watches.
pub(super) async fn simulator(stage: &Stage) -> anyhow::Result<Vec<Invariant>> {
    let report: wecom_sim::CheckReport = serde_json::from_value(stage.sim_get("check").await?)?;
    let broken: Vec<String> = report
        .invariants
        .iter()
        .filter(|one| !one.holds)
        .map(|one| one.name.to_string())
        .collect();
    let found = if broken.is_empty() {
        "all hold".to_owned()
    } else {
        broken.join(", ")
    };
    Ok(vec![invariant(
        "the simulator saw no broken rule",
        report.holds,
        report.invariants.len() as u64,
        found,
    )])
}
