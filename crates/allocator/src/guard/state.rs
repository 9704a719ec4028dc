//! The state that the ledger gives: its log folded or, where that cannot be done, made of its rows.
//!
//! A log that cannot be folded (a row that is missing or damaged, an entry that this version's rules would have answered
//! otherwise) must not keep a corp closed. Who has whom stands in the rows too, and that is what counts for people; what is
//! lost is what nobody was told: credits, and what counts against limits by the hour and day, begin at 0, and requests of the
//! last day are answered from the ledger. The state is saved as a snapshot, so that the next fold begins there.

use allocation::{Dump, model};
use ledger::{Allocation, AllocationState, PoolVersion, Snapshot, Standing};
use metrics::counter;

use super::Error;
use crate::{
    app::{App, CorpApp},
    faults::with_causes,
    fission, people,
};

/// Log entries read at once while folding.
const FOLD: u32 = 5_000;

/// The newest snapshot, and what follows it in the ledger's log; answers the snapshot's number too.
pub(super) async fn folded(app: &App, corp: &CorpApp) -> Result<(model::Corp, u64), Error> {
    let (mut state, from) = match app.ledger.corps().latest_snapshot(&corp.id).await? {
        None => (model::Corp::new(), 0),
        Some(Snapshot { seq, dump }) => {
            let read = || model::Corp::from_dump(&Dump::from_json(&dump)?);
            let unreadable = |source| Error::Snapshot { seq, source };
            (read().map_err(unreadable)?, seq)
        }
    };
    fold_rest(app, corp, &mut state).await?;
    Ok((state, from))
}

/// As [`folded`], or made of rows.
pub(super) async fn made(app: &App, corp: &CorpApp, generation: u64) -> Result<model::Corp, Error> {
    match folded(app, corp).await {
        Ok((state, _)) => Ok(state),
        Err(error) => or_of_rows(app, corp, generation, error).await,
    }
}

/// The ledger has more than the state: that too.
pub(super) async fn made_on(
    app: &App,
    corp: &CorpApp,
    generation: u64,
    mut state: model::Corp,
) -> Result<model::Corp, Error> {
    let before = state.seq();
    let error = match fold_rest(app, corp, &mut state).await {
        Ok(()) if state.seq() > before => return Ok(state),
        Ok(()) => Error::Missing(before + 1),
        Err(error) => error,
    };
    or_of_rows(app, corp, generation, error).await
}

async fn fold_rest(app: &App, corp: &CorpApp, state: &mut model::Corp) -> Result<(), Error> {
    loop {
        let after = state.seq();
        let rows = app.ledger.corps().read_log(&corp.id, after, FOLD).await?;
        if rows.is_empty() {
            return Ok(());
        }
        for row in &rows {
            let fold = |source| Error::Fold {
                seq: row.seq,
                source,
            };
            state.fold(&row.parse().map_err(fold)?).map_err(fold)?;
        }
    }
}

async fn or_of_rows(
    app: &App,
    corp: &CorpApp,
    generation: u64,
    error: Error,
) -> Result<model::Corp, Error> {
    if !error.is_of_the_log() {
        return Err(error);
    }
    tracing::error!(corp = %corp.id, error = %with_causes(&error), "the ledger's log cannot be folded: the state is made of the ledger's rows; loads and open allocations are theirs, credits begin at 0");
    of_rows(app, corp, generation).await
}

/// What the ledger's rows say, saved for the next fold.
pub(super) async fn of_rows(
    app: &App,
    corp: &CorpApp,
    generation: u64,
) -> Result<model::Corp, Error> {
    counter!("paidan_rebuilds_from_rows_total", "corp" => corp.id.to_string()).increment(1);
    let members = app.ledger.members().all(&corp.id).await?;
    let pools = pools(app, corp).await?;
    let standing = app.ledger.allocations().standing(&corp.id).await?;
    let mut standing = standing.unwrap_or_default();
    let open = std::mem::take(&mut standing.open).into_iter();
    let open = open.map(|row| view(row, &mut standing)).collect();
    let groups = fission::standing::configured(app, corp).await?;
    let seats = fission::standing::seat_rows(&standing.seats, groups);
    let (log_seq, at_ms) = (standing.log_seq, standing.at_ms);
    let state = model::Corp::from_rows(
        log_seq,
        at_ms,
        people::limits::changes(app, corp, &members).await?,
        pools,
        open,
    );
    let state = state.with_channels(people::channels::changes(app, corp).await?);
    let state = state.with_seats(seats);
    let snapshot = Snapshot {
        seq: log_seq,
        dump: state.dump().to_json(),
    };
    let corps = app.ledger.corps();
    corps
        .replace_snapshot(&corp.id, generation, &snapshot)
        .await?;
    Ok(state)
}

/// One that cannot be told to Redis is left out: it is warned of whenever pools are compared.
async fn pools(app: &App, corp: &CorpApp) -> Result<Vec<allocation::PoolConfig>, Error> {
    let table = app.ledger.pools();
    let versions = table.versions(&corp.id).await?.into_iter();
    let there = versions.filter(|pool: &PoolVersion| !pool.deleted);
    let ids: Vec<_> = there.map(|pool| pool.id).collect();
    let pools = table.get_many(&corp.id, &ids).await?.into_iter();
    Ok(pools.filter_map(|pool| people::config(pool).ok()).collect())
}

/// An allocation that began as a visit is the visitor's until the callback says who he is.
fn view(row: Allocation, standing: &mut Standing) -> model::AllocationView {
    let plan = standing.plans.remove(&row.id);
    let route = plan.map(|plan| model::RouteView {
        plan,
        since_ms: row.decided_ms,
        source: None,
    });
    let tried = standing.tried.remove(&row.id).unwrap_or_default();
    let visit = standing
        .visits
        .get(&row.id)
        .filter(|visit| visit.visitor == row.subject);
    model::AllocationView {
        subject: row.subject,
        allocation: row.id,
        pool: row.pool,
        member: row.member,
        holder: row.holder,
        epoch: row.epoch,
        // A hold is the script's to settle, by the customer's coming.
        settled: row.settled_ms.is_some() && visit.is_none(),
        offer_until_ms: match row.state {
            AllocationState::Offered => row.offer_until_ms,
            AllocationState::Undecided => Some(0),
            _ => None,
        },
        offer_since_ms: match row.state {
            AllocationState::Offered => row.offer_since_ms.unwrap_or_default(),
            _ => 0,
        },
        tried,
        route,
        hold: visit.map(|visit| model::HoldView {
            until_ms: visit.held_until_ms,
            channel: visit.channel.clone(),
            slot: visit.slot.clone(),
            hold_ms: visit.hold_ms,
            rest_ms: visit.rest_ms,
        }),
    }
}
