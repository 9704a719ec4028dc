//! Carries a simulation out: the corp's state before its period, and from there each entry twice, in steps. Nothing of it is
//! kept but its result, so whoever takes over from a dead process begins anew.

use allocation::{
    CorpId, MemberId, PoolId, Reason,
    whatif::{Change, Compared, Pool, Replan, Report, WhatIf, Window},
};
use ledger::Draft;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use uuid::Uuid;

use super::{
    simulations::{FurthestView, GainView, SideView, SimulatedPoolView, SimulationView},
    when::When,
};
use crate::{
    app::{App, CorpApp},
    history::{self, Walk},
    people,
    reception::{WINDOW_PASSED, plans},
};

/// Entries between two looks whether it was cancelled.
const STEP: u64 = 1_000;

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("{0}")]
    Ledger(#[from] ledger::Error),
    #[error("{0}")]
    History(#[from] history::Error),
    #[error("the draft was changed, published or deleted meanwhile")]
    Draft,
    #[error("{0}")]
    Rules(#[from] allocation::Error),
    #[error("its result cannot be written: {0}")]
    Result(#[from] serde_json::Error),
}

impl Error {
    /// It goes on later.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Ledger(error) | Self::History(history::Error::Ledger(error)) => {
                error.is_passing()
            }
            Self::History(history::Error::Busy) => true,
            _ => false,
        }
    }
}

/// What was asked for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Simulate {
    pub(super) pool: PoolId,
    /// None: the pool as it was.
    pub(super) draft: Option<Uuid>,
    pub(super) draft_version: Option<u64>,
    pub(super) from: When,
    pub(super) until: When,
}

/// The first and the last entry of its period; the last is before the first where there is none.
pub(super) async fn span(
    app: &App,
    corp: &CorpId,
    wanted: &Simulate,
) -> Result<(u64, u64), ledger::Error> {
    let corps = app.ledger.corps();
    let first = corps.first_since(corp, wanted.from.0).await?;
    let last = corps.first_since(corp, wanted.until.0).await? - 1;
    Ok((first, last))
}

/// Under way.
pub(super) struct Simulation {
    wanted: Simulate,
    last: u64,
    /// None only while a step is done, or when one failed.
    at: Option<(Walk, WhatIf)>,
}

impl Simulation {
    pub(super) async fn begin(app: &App, corp: &CorpApp, wanted: Simulate) -> Result<Self, Error> {
        let changes = match wanted.draft {
            Some(id) => Some(change(app, corp, id, &wanted).await?),
            None => None,
        };
        let (first, last) = span(app, &corp.id, &wanted).await?;
        let walk = Walk::before(&app.ledger, &app.simulations, &corp.id, first, last).await?;
        // A state may be large: it is copied beside the tasks that wait for stores.
        let from_ms = wanted.from.0;
        let begun = spawn_blocking(move || {
            let whatif = WhatIf::new(walk.state(), changes, from_ms);
            (walk, whatif)
        });
        Ok(Self {
            wanted,
            last,
            at: Some(begun.await.map_err(history::Error::from)?),
        })
    }

    /// Goes a step on. Answers how many entries were done so far; None: there are no more.
    pub(super) async fn step(&mut self) -> Result<Option<u64>, Error> {
        let Some((walk, whatif)) = self.at.take() else {
            return Ok(None);
        };
        let upto = (walk.state().seq() + STEP).min(self.last);
        let (walk, whatif) = walk.through(upto, whatif, WhatIf::fold).await?;
        let (done, is_end) = (whatif.entries(), upto >= self.last);
        self.at = Some((walk, whatif));
        Ok((!is_end).then_some(done))
    }

    /// What it found, with how many entries that were.
    pub(super) async fn end(self, app: &App, corp: &CorpApp) -> Result<(u64, Value), Error> {
        let Some((walk, whatif)) = self.at else {
            return Ok((0, Value::Null));
        };
        let report = spawn_blocking(move || whatif.end(walk.state()));
        let report = report.await.map_err(history::Error::from)?;
        let members = report.pools.values().flat_map(|pool| pool.members.keys());
        let mut members: Vec<MemberId> = members.cloned().collect();
        members.sort();
        members.dedup();
        people::learn(app, corp, members).await;
        let entries = report.entries;
        let view = view(corp, self.wanted, report);
        Ok((entries, serde_json::to_value(view)?))
    }
}

/// The draft as it was when the simulation was asked for.
async fn change(app: &App, corp: &CorpApp, id: Uuid, wanted: &Simulate) -> Result<Change, Error> {
    let draft = app.ledger.drafts().get(&corp.id, id).await?;
    let is_meant = |draft: &Draft| Some(draft.version) == wanted.draft_version;
    let draft = draft.filter(is_meant).ok_or(Error::Draft)?;
    let pools = app.ledger.pools();
    let base = pools
        .version(&corp.id, &draft.pool, draft.base_version)
        .await?;
    let base = base.and_then(|(_, content)| content);
    let (pool, routing) = (draft.pool.clone(), draft.content.routing.clone());
    let plan = match base.as_ref().is_some_and(|base| base.routing == routing) {
        true => None,
        false => Some(Replan::new(move |was| plans::again(&routing, &pool, was))),
    };
    let was = base.and_then(|content| content.load_window_seconds);
    let seconds = draft.content.load_window_seconds;
    let window = match was == seconds {
        true => None,
        false => Some(Window {
            reason: Reason::new(WINDOW_PASSED)?,
            after_ms: seconds.map(|seconds| seconds * 1_000),
        }),
    };
    let config = people::config_of(draft.pool, draft.version, draft.content)?;
    Ok(Change {
        config,
        window,
        plan,
    })
}

fn view(corp: &CorpApp, wanted: Simulate, report: Report) -> SimulationView {
    let Simulate {
        pool,
        draft,
        draft_version,
        from,
        until,
    } = wanted;
    let mut pools = report.pools;
    let own = pools.remove(&pool).unwrap_or_default();
    let own = pool_view(corp, &pool, &own, |_| true);
    let others = pools.iter().filter(|(_, both)| both.recorded != both.draft);
    let others = others.map(|(id, both)| pool_view(corp, id, both, |gain| gain != 0));
    SimulationView {
        draft: draft.map(|id| id.to_string()),
        draft_version,
        from,
        until,
        entries: report.entries,
        inputs: report.inputs,
        differences: report.differences,
        first_differences: report.first_differences,
        not_applicable: report.not_applicable,
        skipped: report.skipped,
        pools: std::iter::once(own).chain(others).collect(),
        pool: pool.into(),
    }
}

fn pool_view(
    corp: &CorpApp,
    pool: &PoolId,
    both: &Compared,
    is_shown: fn(i64) -> bool,
) -> SimulatedPoolView {
    let members = both.members.iter();
    let members = members.filter(|(_, customers)| is_shown(customers.gain()));
    let members = members.map(|(member, customers)| GainView {
        member: corp.names.userid(member),
        recorded: customers.recorded,
        simulated: customers.draft,
        gain: customers.gain(),
    });
    SimulatedPoolView {
        pool: pool.to_string(),
        recorded: side(corp, &both.recorded),
        simulated: side(corp, &both.draft),
        members: members.collect(),
    }
}

fn side(corp: &CorpApp, pool: &Pool) -> SideView {
    let seconds = |ms: Option<u64>| ms.map(|ms| ms as f64 / 1_000.0);
    let furthest = pool.furthest.as_ref();
    SideView {
        decided: pool.decided,
        waiting: pool.waiting,
        waited: pool.waits.served,
        gave_up: pool.waits.gave_up,
        wait_p50_seconds: seconds(pool.waits.p50_ms),
        wait_p95_seconds: seconds(pool.waits.p95_ms),
        limits_reached: json!(pool.limits_reached),
        kept_out: pool.kept_out,
        largest_deviation: furthest.map(|(member, customers)| FurthestView {
            member: corp.names.userid(member),
            customers: *customers,
        }),
        jain: pool.jain,
    }
}
