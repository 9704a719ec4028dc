//! A period of the log again under another policy, in memory.
//!
//! **P29**: a million customers of one pool of 50 members, an entry of the log each, of whom the latest 10,000 are open. Every entry is
//! read from the text that the ledger has of it, folded as it was, and done again under a draft that doubles every second
//! weight; seconds. Beside it the fold alone, without which nothing of the past can be told. Reading the rows from Postgres is
//! left out: they come in pages, while nothing else is done.

use std::time::{Duration, Instant};

use allocation::model::Corp;
use allocation::whatif::{Change, WhatIf};
use allocation::{
    AllocationId, Closing, CorpId, LogEntry, MemberId, Op, PoolConfig, PoolId, PresenceChange,
    Reason, Request, Strategy, SubjectKey, Weight,
};
use uuid::Uuid;

use super::callbacks::CORP;
use super::row::Sample;
use super::{Bench, Group, Samples, now_ms};

const MEMBERS: u32 = 50;
const OPEN: usize = 10_000;
/// Entries that are made before they are measured.
const CHUNK: usize = 20_000;

pub(super) fn run(bench: &Bench, samples: &mut Samples) -> anyhow::Result<()> {
    let customers = bench.size(1_000_000, 10_000);
    for round in 0..bench.rounds {
        let (ours, limit) = measure(customers)?;
        let (ours, limit) = (ours.as_secs_f64(), limit.as_secs_f64());
        samples.add("P29", Sample::figure(ours, Some(limit)));
        samples.tell(Group::Replay, round, bench.rounds);
    }
    Ok(())
}

/// As the ledger has it.
struct Row {
    seq: u64,
    at_ms: u64,
    op: &'static str,
    args: String,
    result: String,
}

impl Row {
    fn read(&self) -> Result<LogEntry, allocation::Error> {
        LogEntry::from_parts(self.seq, self.at_ms, self.op, &self.args, &self.result)
    }
}

/// Whoever writes the log.
struct Past {
    corp: CorpId,
    pool: PoolId,
    state: Corp,
    now_ms: u64,
    asked: usize,
}

impl Past {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            corp: CorpId::new(CORP)?,
            pool: PoolId::new("sales")?,
            state: Corp::new(),
            now_ms: now_ms(),
            asked: 0,
        })
    }

    fn apply(&mut self, op: &Op) -> Row {
        let outcome = self.state.apply(op, self.now_ms);
        Row {
            seq: self.state.seq(),
            at_ms: self.now_ms,
            op: op.name(),
            args: op.args_text(),
            result: outcome.text(),
        }
    }

    fn subject(&self, number: usize) -> SubjectKey {
        SubjectKey::new(&self.corp, "wecom", &format!("wmReplay{number:024}"))
    }

    /// One more customer; the one who came so many before leaves.
    fn customer(&mut self, rows: &mut Vec<Row>) -> anyhow::Result<()> {
        self.now_ms += 5;
        let request = Request {
            allocation: AllocationId(Uuid::now_v7()),
            pool: self.pool.clone(),
            subject: self.subject(self.asked),
            holder: None,
            request: None,
            echo: true,
            plan: None,
        };
        rows.push(self.apply(&Op::Decide(vec![request])));
        if let Some(left) = self.asked.checked_sub(OPEN) {
            let closing = Closing {
                subject: self.subject(left),
                pool: None,
                member: None,
                allocation: None,
                reason: Reason::new("left")?,
            };
            rows.push(self.apply(&Op::Close(vec![closing])));
        }
        self.asked += 1;
        Ok(())
    }
}

fn config(pool: &PoolId, weights: [u32; 2]) -> anyhow::Result<PoolConfig> {
    let mut members = Vec::new();
    for (number, thousandths) in (0..MEMBERS).zip(weights.into_iter().cycle()) {
        let member = MemberId::new(format!("staff-{number}"))?;
        members.push((member, Weight::from_thousandths(thousandths)?));
    }
    let strategy = Strategy::WeightedRoundRobin;
    Ok(PoolConfig::new(pool.clone(), 1, strategy, members)?)
}

/// Ours, and the fold alone.
fn measure(customers: usize) -> anyhow::Result<(Duration, Duration)> {
    let mut past = Past::new()?;
    let live = config(&past.pool, [1000, 1000])?;
    let there = live.members().iter().map(|(member, _)| PresenceChange {
        member: member.clone(),
        lease_until_ms: past.now_ms + 366 * 24 * 60 * 60 * 1000,
    });
    let there = there.collect();
    let first = [
        past.apply(&Op::SetPool(live)),
        past.apply(&Op::Presence(there)),
    ];
    let mut recorded = Corp::new();
    for row in &first {
        recorded.fold(&row.read()?)?;
    }
    let mut alone = recorded.clone();
    let draft = Change {
        config: config(&past.pool, [2000, 1000])?,
        window: None,
        plan: None,
    };
    let mut whatif = WhatIf::new(&recorded, [draft], past.now_ms);
    let (mut ours, mut limit) = (Duration::ZERO, Duration::ZERO);
    while past.asked < customers {
        let mut rows = Vec::new();
        for _ in 0..CHUNK.min(customers - past.asked) {
            past.customer(&mut rows)?;
        }
        let begun = Instant::now();
        for row in &rows {
            whatif.fold(&mut recorded, &row.read()?)?;
        }
        ours += begun.elapsed();
        let begun = Instant::now();
        for row in &rows {
            alone.fold(&row.read()?)?;
        }
        limit += begun.elapsed();
    }
    let begun = Instant::now();
    let report = whatif.end(&recorded);
    ours += begun.elapsed();
    let both = report.pools.get(&past.pool);
    let asked = both.map(|both| (both.recorded.decided, both.draft.decided));
    let all = u64::try_from(customers)?;
    anyhow::ensure!(asked == Some((all, all)), "{asked:?} of {all} were decided");
    Ok((ours, limit))
}
