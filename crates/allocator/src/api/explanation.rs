//! Why an allocation came to whom it came to, from the log alone.

use std::{cmp::Ordering, collections::BTreeMap};

use allocation::{
    AllocationId, MAX_MEMBERS, MemberId, Skill,
    explain::{self, Considered, Explanation, Rule},
};
use ledger::{Allocation, Preference};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::{Ctx, Viewer},
    allocations::AllocationPath,
    docs::Refusals,
    extract::{Path, Query},
    problem::Problem,
    validate::{Fields, JsonWeight},
    when::When,
};
use crate::{
    history::{self, Walk},
    people,
};

/// Of each decision, if nobody asks for more.
pub(super) const USUAL_CANDIDATES: usize = 200;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(get))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ExplanationQuery {
    /// At most so many candidates of each decision are shown; 200 without it.
    #[param(minimum = 1, maximum = 10_000)]
    candidates: Option<u64>,
}

impl ExplanationQuery {
    fn most(&self) -> Result<usize, Problem> {
        let mut fields = Fields::default();
        fields.range("query:candidates", self.candidates, 1..=MAX_MEMBERS as u64);
        fields.check()?;
        let most = self.candidates.and_then(|most| usize::try_from(most).ok());
        Ok(most.unwrap_or(USUAL_CANDIDATES))
    }
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
    /// `decided`, `visited`, `woken`, `reassigned`, `moved_on` (an offer came to nothing), `confirmed`, `kept`,
    /// `left_to_person` (it had waited long enough).
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
    /// `reassigned`, `offer_over`. Instead of it: `asked_for` (whoever asked wanted him), `earlier_owner` (he had the customer
    /// before), `rendezvous` (the customer always comes to him), `preferred` (one of these; of decisions of earlier versions).
    /// Without the pool: `named`, `held`, `late`, `mismatched`, `direct`, `kept`. After
    /// `offer_over`, when a person must decide: `tries_used_up` (as many were asked as the pool has asked), `nobody_left`.
    /// `waited_too_long`: a person must decide because of that.
    rules: Vec<&'static str>,
    #[schema(required)]
    tie: Option<TieView>,
    #[schema(required)]
    waits: Option<WaitsView>,
    /// How long it had waited when it was left to a person; null: it was not.
    #[schema(required)]
    waited: Option<WaitedView>,
    /// So many members the pool that served had.
    members: usize,
    /// So many of them could not be chosen, by the first filter that kept them out.
    kept_out: BTreeMap<&'static str, usize>,
    /// Members of the pool that served, at that moment: all of them, by id; or, if they are more than are shown, the chosen
    /// one, then those who were next, then those who were kept out.
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
    /// `nobody_free`, `behind_others` (nobody overtakes one who waits), `leases_ending` (the next operation goes on),
    /// `channel_limit` (the channel it came through gave what it may).
    why: &'static str,
    /// So many waited before it for the same.
    behind: usize,
    /// Of `channel_limit`: when the channel may give again; else null.
    #[schema(required)]
    until: Option<When>,
}

/// A customer waited for somebody, longer than his pool lets customers wait.
#[derive(Debug, Serialize, ToSchema)]
struct WaitedView {
    since: When,
    seconds: f64,
    /// As the pool said when he came.
    person_after_seconds: u64,
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
    /// The first that kept him out: `left_out`, `avoided` (a visitor could not add him: WeCom refuses his contact ways, or they are all lent),
    /// `weight_zero`, `away`, `blocked`, `cap`, `hour_limit`, `day_limit`, `pool_cap`, `pool_hour_limit`, `pool_day_limit`,
    /// `skills`; null: he could be chosen.
    #[schema(required)]
    filter: Option<&'static str>,
}

/// Why it came to whom it came to: the corp's log is folded again up to each decision, and what the rules saw there is
/// shown, with everybody who was not chosen. The same allocation gives the same answer as long as nothing more is decided
/// about it. Of a large pool the nearest are shown (`candidates`). At most 200,000 entries of the log are folded (422 `too_many_entries`); where the log is not whole nothing is
/// said (409 `log_incomplete`).
#[utoipa::path(get, path = "/allocations/{allocation_id}/explanation", tag = "reports",
    operation_id = "explain_allocation", params(("allocation_id" = String, Path), ExplanationQuery),
    responses((status = 200, body = ExplanationView), Refusals))]
async fn get(
    Viewer(ctx): Viewer,
    Path(path): Path<AllocationPath>,
    Query(query): Query<ExplanationQuery>,
) -> Result<axum::Json<ExplanationView>, Problem> {
    let most = query.most()?;
    let row = path.find(&ctx).await?;
    let (found, complete) = decisions(&ctx, &row).await?;
    let found: Vec<(Explanation, Whole)> =
        found.into_iter().map(|one| shortened(one, most)).collect();
    let members = found.iter().flat_map(|(one, _)| &one.candidates);
    let mut members: Vec<MemberId> = members.map(|one| one.member.clone()).collect();
    members.extend(found.iter().filter_map(|(one, _)| one.chosen.clone()));
    members.sort();
    members.dedup();
    people::learn(&ctx.app, &ctx.corp, members).await;
    let is_preferred = |(one, _): &(Explanation, Whole)| one.rules.contains(&Rule::Preferred);
    let preferences = match found.iter().any(is_preferred) {
        true => {
            ctx.app
                .ledger
                .allocations()
                .preferences(ctx.id(), row.id)
                .await?
        }
        false => Vec::new(),
    };
    Ok(axum::Json(ExplanationView {
        allocation_id: row.id.to_string(),
        complete,
        decisions: found
            .into_iter()
            .map(|(one, whole)| view(&ctx, one, whole, &preferences))
            .collect(),
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

/// Of all who were considered, also of those who are not shown.
pub(super) struct Whole {
    members: usize,
    kept_out: BTreeMap<&'static str, usize>,
}

/// With at most so many candidates.
pub(super) fn shortened(mut found: Explanation, most: usize) -> (Explanation, Whole) {
    let mut whole = Whole {
        members: found.candidates.len(),
        kept_out: BTreeMap::new(),
    };
    for filter in found.candidates.iter().filter_map(|one| one.filter) {
        *whole.kept_out.entry(filter.as_str()).or_default() += 1;
    }
    if whole.members > most {
        let chosen = found.chosen.as_ref();
        let is_other = |one: &Considered| chosen != Some(&one.member);
        found.candidates.sort_by(|one, other| {
            let first = is_other(one).cmp(&is_other(other));
            first.then_with(|| nearness(one, other))
        });
        found.candidates.truncate(most);
    }
    (found, whole)
}

/// Who could be chosen comes first, and of those who was next; ids decide between equals, as the sort keeps their order.
fn nearness(one: &Considered, other: &Considered) -> Ordering {
    let claim = |one: &Considered| one.due_in.or(one.load_per_weight).unwrap_or(f64::MAX);
    let kept_out = one.filter.is_some().cmp(&other.filter.is_some());
    kept_out.then_with(|| claim(one).total_cmp(&claim(other)))
}

/// `preferences`: why its plan preferred whom, as far as that was kept.
pub(super) fn view(
    ctx: &Ctx,
    found: Explanation,
    whole: Whole,
    preferences: &[(MemberId, Preference)],
) -> DecisionView {
    let chosen = found.chosen.clone();
    let why = preferences
        .iter()
        .find(|(member, _)| chosen.as_ref() == Some(member));
    let word = |rule: &Rule| match (rule, why) {
        (Rule::Preferred, Some((_, why))) => why.as_str(),
        _ => rule.as_str(),
    };
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
        rules: found.rules.iter().map(word).collect(),
        tie: found.tie.map(|tie| TieView {
            rule: tie.rule.as_str(),
            others: tie.others,
        }),
        waits: found.waits.map(|waits| WaitsView {
            why: waits.why.as_str(),
            behind: waits.behind,
            until: waits.until_ms.map(When),
        }),
        waited: found.waited.map(|waited| WaitedView {
            since: When(waited.since_ms),
            seconds: waited.waited_ms as f64 / 1_000.0,
            person_after_seconds: waited.person_after_ms / 1_000,
        }),
        members: whole.members,
        kept_out: whole.kept_out,
        candidates: candidates.collect(),
    }
}

#[cfg(test)]
mod tests;
