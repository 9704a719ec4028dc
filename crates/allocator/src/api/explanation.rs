//! Why an allocation came to whom it came to, from the log alone.

use allocation::{
    AllocationId, MemberId, Skill,
    explain::{self, Explanation},
};
use ledger::Allocation;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::{Ctx, Viewer},
    allocations::AllocationPath,
    docs::Refusals,
    extract::Path,
    problem::Problem,
    validate::JsonWeight,
    when::When,
};
use crate::{
    history::{self, Walk},
    people,
};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(get))
}

/// Every decision about one allocation, in order.
#[derive(Debug, Serialize, ToSchema)]
struct ExplanationView {
    allocation_id: String,
    /// False: between those that are here there may be more, so far apart in the log that they were not looked for.
    complete: bool,
    decisions: Vec<DecisionView>,
}

/// One decision: what the rules saw, and what they made of it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DecisionView {
    /// The entry of the corp's log.
    seq: u64,
    at: When,
    /// The operation, with the version of its meaning.
    operation: &'static str,
    /// `decided`, `visited`, `woken`, `reassigned`, `moved_on` (an offer came to nothing), `confirmed`, `kept`.
    what: &'static str,
    /// That was asked.
    pool: String,
    /// That served, if it is another one, as a fallback; null: the same.
    #[schema(required)]
    source: Option<String>,
    /// Skills that a member had to have.
    needs: Vec<String>,
    /// Version of the configuration of the pool that served; null: the pool is no more.
    #[schema(required)]
    pub(super) policy: Option<u64>,
    /// `weighted_round_robin`, `least_load`.
    #[schema(required)]
    strategy: Option<&'static str>,
    /// Null: it waits, or nobody else was free, or a person must decide.
    #[schema(required)]
    pub(super) chosen: Option<String>,
    /// What decided, in order. Of a pool: `earliest_deadline` (of those with credit, whose credit would reach a whole
    /// customer first), `most_credit` (nobody had credit), `least_load`. Before it: `longest_waiting_woken`,
    /// `reassigned`, `offer_over`. Instead of it: `preferred` (whoever asked wanted him, or he had the customer before, or
    /// the customer always comes to him). Without the pool: `named`, `held`, `late`, `mismatched`, `direct`, `kept`. After
    /// `offer_over`, when a person must decide: `tries_used_up` (as many were asked as the pool has asked), `nobody_left`.
    rules: Vec<&'static str>,
    #[schema(required)]
    tie: Option<TieView>,
    #[schema(required)]
    waits: Option<WaitsView>,
    /// All members of the pool that served, at that moment.
    candidates: Vec<CandidateView>,
}

/// Others had the same claim.
#[derive(Debug, Serialize, ToSchema)]
struct TieView {
    /// What decided: `first_id`, `larger_weight`, `picked_longest_ago`.
    rule: &'static str,
    /// So many others.
    others: usize,
}

/// Nobody was chosen.
#[derive(Debug, Serialize, ToSchema)]
struct WaitsView {
    /// `nobody_free`, `behind_others` (nobody overtakes one who waits), `leases_ending` (the next operation goes on).
    why: &'static str,
    /// So many waited before it for the same.
    behind: usize,
}

/// A member of the pool, as the rules saw him.
#[derive(Debug, Serialize, ToSchema)]
struct CandidateView {
    /// The userid as WeCom spells it.
    member: String,
    #[schema(value_type = f64)]
    weight: JsonWeight,
    /// Open customers over all pools.
    load: u32,
    /// Of pools that choose by load.
    #[schema(required)]
    load_per_weight: Option<f64>,
    /// How far he was below (above 0) or above his exact share, in customers; of pools that choose by share.
    #[schema(required)]
    credit_before: Option<f64>,
    #[schema(required)]
    credit_after: Option<f64>,
    /// After so many more decisions he would be owed a whole customer.
    #[schema(required)]
    due_in: Option<f64>,
    /// The first that kept him out: `left_out`, `avoided` (a visitor could not add him: WeCom refuses his contact ways),
    /// `weight_zero`, `away`, `blocked`, `cap`, `hour_limit`, `day_limit`, `pool_cap`, `pool_hour_limit`, `pool_day_limit`,
    /// `skills`; null: he could be chosen.
    #[schema(required)]
    filter: Option<&'static str>,
}

/// Why it came to whom it came to: the corp's log is folded again up to each decision, and what the rules saw there is
/// shown, with everybody who was not chosen. The same allocation gives the same answer as long as nothing more is decided
/// about it. At most 200,000 entries of the log are folded (422 `too_many_entries`); where the log is not whole nothing is
/// said (409 `log_incomplete`).
#[utoipa::path(get, path = "/allocations/{allocation_id}/explanation", tag = "reports",
    operation_id = "explain_allocation", params(("allocation_id" = String, Path)),
    responses((status = 200, body = ExplanationView), Refusals))]
async fn get(
    Viewer(ctx): Viewer,
    Path(path): Path<AllocationPath>,
) -> Result<axum::Json<ExplanationView>, Problem> {
    let row = path.find(&ctx).await?;
    let (found, complete) = decisions(&ctx, &row).await?;
    let members = found.iter().flat_map(|one| &one.candidates);
    let mut members: Vec<MemberId> = members.map(|one| one.member.clone()).collect();
    members.extend(found.iter().filter_map(|one| one.chosen.clone()));
    members.sort();
    members.dedup();
    people::learn(&ctx.app, &ctx.corp, members).await;
    Ok(axum::Json(ExplanationView {
        allocation_id: row.id.to_string(),
        complete,
        decisions: found.into_iter().map(|one| view(&ctx, one)).collect(),
    }))
}

/// In the log's order; false: there may be more between them.
async fn decisions(ctx: &Ctx, row: &Allocation) -> Result<(Vec<Explanation>, bool), Problem> {
    let (app, first, last) = (&ctx.app, row.decided_seq, row.changed_seq);
    let walk = Walk::before(&app.ledger, &app.questions, ctx.id(), first, first).await?;
    let (walk, mut found) = explained(walk, row, first).await?;
    match explained(walk, row, last).await {
        Ok((_, more)) => {
            found.extend(more);
            return Ok((found, true));
        }
        Err(error) if !is_too_far(&error) => return Err(error.into()),
        Err(_) => {}
    }
    // It was assigned long after it was decided, or the log cannot be folded from there to here.
    let Some(assigned_ms) = row.assigned_ms.filter(|ms| *ms > row.decided_ms) else {
        return Ok((found, false));
    };
    let corps = app.ledger.corps();
    let assigned = corps.first_since(ctx.id(), assigned_ms).await?;
    let assigned = assigned.max(first + 1);
    let to = corps.first_since(ctx.id(), assigned_ms + 1).await? - 1;
    let walk = Walk::before(&app.ledger, &app.questions, ctx.id(), assigned, to).await;
    let more = match walk {
        Ok(walk) => explained(walk, row, to).await,
        Err(error) => Err(error),
    };
    match more {
        Ok((_, more)) => found.extend(more),
        Err(error) if !is_too_far(&error) => return Err(error.into()),
        Err(_) => {}
    }
    Ok((found, false))
}

/// What is decided about the allocation up to this entry.
async fn explained(
    walk: Walk,
    row: &Allocation,
    upto: u64,
) -> Result<(Walk, Vec<Explanation>), history::Error> {
    let seen = (row.id, Vec::new());
    let walked = walk.through(
        upto,
        seen,
        |seen: &mut (AllocationId, Vec<_>), state, entry| {
            let more = explain::fold_and_explain(state, entry, seen.0)?;
            seen.1.extend(more);
            Ok(())
        },
    );
    let (walk, (_, found)) = walked.await?;
    Ok((walk, found))
}

fn is_too_far(error: &history::Error) -> bool {
    matches!(
        error,
        history::Error::TooMany { .. } | history::Error::Incomplete { .. }
    )
}

pub(super) fn view(ctx: &Ctx, found: Explanation) -> DecisionView {
    let userid = |member: &MemberId| ctx.corp.names.userid(member);
    let candidates = found.candidates.iter().map(|one| CandidateView {
        member: userid(&one.member),
        weight: JsonWeight(one.weight),
        load: one.load,
        load_per_weight: one.load_per_weight,
        credit_before: one.credit_before,
        credit_after: one.credit_after,
        due_in: one.due_in,
        filter: one.filter.map(explain::Filter::as_str),
    });
    DecisionView {
        seq: found.seq,
        at: When(found.at_ms),
        operation: found.op,
        what: found.what.as_str(),
        pool: found.pool.to_string(),
        source: found.source.map(String::from),
        needs: found.needs.iter().map(Skill::to_string).collect(),
        policy: found.pool_version,
        strategy: found.strategy.map(allocation::Strategy::as_str),
        chosen: found.chosen.as_ref().map(userid),
        rules: found.rules.iter().map(|rule| rule.as_str()).collect(),
        tie: found.tie.map(|tie| TieView {
            rule: tie.rule.as_str(),
            others: tie.others,
        }),
        waits: found.waits.map(|waits| WaitsView {
            why: waits.why.as_str(),
            behind: waits.behind,
        }),
        candidates: candidates.collect(),
    }
}
