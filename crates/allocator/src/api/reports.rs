//! Who got how much of what was his, over a span of time: the corp's log is folded again and counted.

mod csv;
mod exposition;

use std::collections::BTreeMap;

use allocation::{
    MemberId, PoolId,
    fairness::{Got, PoolSpan, Tally},
    model::MemberView,
};
use axum::{
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};
use ledger::ResponseTimes;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::{Ctx, Viewer},
    docs::Refusals,
    extract::Query,
    problem::Problem,
    validate::Fields,
    when::When,
};
use crate::{
    history::Walk,
    people::{
        self,
        hours::{Zone, midnights},
    },
};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
const MOST_DAYS: u64 = 92;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(fairness))
}

#[derive(Debug, Clone, Copy, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum By {
    Day,
    /// From Monday.
    Week,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Format {
    Json,
    Csv,
    /// The text that Prometheus scrapes; without `by`.
    Prometheus,
}

/// Of which time, and how it is cut.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct FairnessQuery {
    /// Only this pool.
    pool: Option<String>,
    /// Without it 7 days before `to`.
    #[param(value_type = Option<String>)]
    from: Option<When>,
    /// At most 92 days after `from`; itself left out. Without it now.
    #[param(value_type = Option<String>)]
    to: Option<When>,
    /// Without it the whole time is one span.
    #[param(inline)]
    by: Option<By>,
    /// IANA name of the time zone whose days are meant; `UTC` without it.
    zone: Option<String>,
    /// Without it `Accept` says it.
    #[param(inline)]
    format: Option<Format>,
}

/// How fair it was.
#[derive(Debug, Serialize, ToSchema)]
struct FairnessView {
    from: When,
    to: When,
    /// By time, then by pool; where nothing was decided there is none.
    data: Vec<PoolSpanView>,
}

/// A pool in a span of time.
#[derive(Debug, Serialize, ToSchema)]
struct PoolSpanView {
    from: When,
    to: When,
    pool: String,
    /// Customers that somebody was chosen for.
    decisions: u64,
    /// Of count / entitlement, each member by his entitlement. 0: everybody got the same of what was his; near 1: one got
    /// all. Null: nobody got anything.
    #[schema(required)]
    gini: Option<f64>,
    /// Jain's index of the same. 1: everybody got the same of what was his; the smaller, the fewer shared.
    #[schema(required)]
    jain: Option<f64>,
    #[schema(required)]
    largest_deviation: Option<DeviationView>,
    /// Null: of no customer it is known.
    #[schema(required)]
    first_response: Option<FirstResponseTimes>,
    members: Vec<MemberFairnessView>,
}

/// Who is furthest from his entitlement.
#[derive(Debug, Serialize, ToSchema)]
struct DeviationView {
    member: String,
    /// So many above it; below 0: below it.
    customers: f64,
}

/// How long customers waited for the first answer, of those of whom it was reported.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
struct FirstResponseTimes {
    answered: u64,
    p50_seconds: f64,
    p95_seconds: f64,
}

/// What a member got of what was his.
#[derive(Debug, Default, Serialize, ToSchema)]
struct MemberFairnessView {
    /// The userid as WeCom spells it.
    member: String,
    /// Customers he was chosen for, or who came to him by themselves; one that another member had in the end is taken off.
    count: i64,
    /// The sum of weight / weights of all who could be chosen, over all decisions at which he could be; and his credit
    /// entries, less his part of those of others.
    entitlement: f64,
    /// `count` − `entitlement`.
    variance: f64,
    /// Of all counts of the pool.
    #[schema(required)]
    share: Option<f64>,
    /// Given to him by name, or stayed with him: not in `count`.
    received: u64,
    /// Taken from him and given to another, or offered to him, and he declined or did not answer.
    reassigned: u64,
    /// Visitors held for him who did not come in time.
    expired_holds: u64,
    /// Ended before they were carried out.
    closed_early: u64,
    /// So often he was asked to take a customer.
    offered: u64,
    /// He said no.
    declined: u64,
    /// He did not answer in time, or went.
    reclaimed: u64,
    /// Given to him, and WeCom or the customer refused.
    failed: u64,
    /// Of `offered`.
    #[schema(required)]
    decline_rate: Option<f64>,
    /// Of `offered`.
    #[schema(required)]
    reclaim_rate: Option<f64>,
    /// `failed` of all that was given to him.
    #[schema(required)]
    failure_rate: Option<f64>,
    #[schema(required)]
    first_response: Option<FirstResponseTimes>,
    /// Open customers over all pools when this was asked; null: he is not known to Redis.
    #[schema(required)]
    load: Option<u32>,
    /// `load` of the most that he may have; null: there is no such limit.
    #[schema(required)]
    load_ratio: Option<f64>,
}

/// Per pool and member: what he got, what he was entitled to while he could be chosen, and how far these are apart. Folds
/// the corp's log, at most 200,000 entries (422 `too_many_entries`: ask about less time); where the log is not whole
/// nothing is said (409 `log_incomplete`). As CSV with `format=csv` or `Accept: text/csv`; with `format=prometheus` as gauges of the whole
/// time, for a scrape job with an API key.
#[utoipa::path(get, path = "/reports/fairness", tag = "reports", operation_id = "report_fairness", params(FairnessQuery),
    responses((status = 200,
        content((FairnessView = "application/json"), (String = "text/csv"), (String = "text/plain"))), Refusals))]
async fn fairness(
    Viewer(ctx): Viewer,
    headers: HeaderMap,
    Query(query): Query<FairnessQuery>,
) -> Result<Response, Problem> {
    let mut fields = Fields::default();
    let pool = query.pool.as_deref();
    let pool: Option<PoolId> = pool.and_then(|pool| fields.parse("query:pool", pool));
    let (from, to) = span(&ctx, &mut fields, (query.from, query.to), 7, MOST_DAYS);
    let zone = Zone::named(query.zone.as_deref().unwrap_or("UTC"));
    if zone.is_none() {
        let message = "must be the IANA name of a time zone, such as Asia/Shanghai";
        fields.wrong("query:zone", "unknown_zone", message);
    }
    if query.format == Some(Format::Prometheus) && query.by.is_some() {
        let message = "must be left out with format=prometheus: gauges are of one time";
        fields.wrong("query:by", "not_allowed", message);
    }
    fields.check()?;
    let (from_ms, to_ms) = (from.0, to.0);
    let starts = starts(zone.as_ref(), query.by, from_ms, to_ms);
    let spans = spans(&ctx, pool.clone(), starts.clone(), from_ms, to_ms).await?;
    let allocations = ctx.app.ledger.allocations();
    let times = allocations.response_times(ctx.id(), pool.as_ref(), &starts, to_ms);
    let times = times.await?;
    let members = spans.iter().flat_map(|span| span.members.keys().cloned());
    let mut members: Vec<MemberId> = members.collect();
    members.sort();
    members.dedup();
    let loads = loads(&ctx, &members).await?;
    people::learn(&ctx.app, &ctx.corp, members).await;
    let beside = Beside { times, loads };
    let ends: BTreeMap<u64, u64> = starts.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let data = spans.into_iter().map(|span| {
        let to_ms = ends.get(&span.from_ms).copied().unwrap_or(to_ms);
        view(&ctx, span, to_ms, &beside)
    });
    let found = FairnessView {
        from,
        to,
        data: data.collect(),
    };
    Ok(match query.format {
        Some(Format::Prometheus) => exposition::answer(ctx.id(), &found),
        format if wants_csv(format, &headers) => csv::answer(&found),
        _ => axum::Json(found).into_response(),
    })
}

/// What is no part of the log.
struct Beside {
    times: Vec<ResponseTimes>,
    loads: BTreeMap<MemberId, MemberView>,
}

impl Beside {
    fn times(&self, span: &PoolSpan, member: Option<&MemberId>) -> Option<FirstResponseTimes> {
        let mut times = self.times.iter();
        let found = times.find(|one| {
            one.from_ms == span.from_ms && one.pool == span.pool && one.member.as_ref() == member
        })?;
        Some(FirstResponseTimes {
            answered: found.answered,
            p50_seconds: found.p50_ms as f64 / 1000.0,
            p95_seconds: found.p95_ms as f64 / 1000.0,
        })
    }
}

async fn loads(ctx: &Ctx, members: &[MemberId]) -> Result<BTreeMap<MemberId, MemberView>, Problem> {
    let views = ctx.corp.roster.members(members).await;
    let views = views.map_err(|error| ctx.roster(error))?;
    let views = views.into_iter();
    Ok(views.map(|view| (view.member.clone(), view)).collect())
}

/// A span of time must not be empty, nor too long. What is left out is the last days.
pub(super) fn span(
    ctx: &Ctx,
    fields: &mut Fields,
    (from, to): (Option<When>, Option<When>),
    usual_days: u64,
    most_days: u64,
) -> (When, When) {
    let to = to.unwrap_or_else(|| When(ctx.app.now_ms()));
    let usual_ms = to.0.saturating_sub(usual_days * DAY_MS);
    let from = from.unwrap_or(When(usual_ms));
    if to <= from {
        fields.wrong("query:to", "out_of_range", "must be after from");
    } else if to.0 - from.0 > most_days * DAY_MS {
        let message = format!("must be at most {most_days} days after from");
        fields.wrong("query:to", "out_of_range", message);
    }
    (from, to)
}

fn starts(zone: Option<&Zone>, by: Option<By>, from_ms: u64, to_ms: u64) -> Vec<u64> {
    let mut starts = vec![from_ms];
    if let (Some(zone), Some(by)) = (zone, by) {
        let midnights = midnights(zone, from_ms, to_ms).into_iter();
        let begins = midnights.filter(|(_, is_monday)| *is_monday || matches!(by, By::Day));
        starts.extend(begins.map(|(midnight, _)| midnight));
    }
    starts
}

async fn spans(
    ctx: &Ctx,
    pool: Option<PoolId>,
    starts: Vec<u64>,
    from_ms: u64,
    to_ms: u64,
) -> Result<Vec<PoolSpan>, Problem> {
    let app = &ctx.app;
    let walk = Walk::over(&app.ledger, &app.questions, ctx.id(), from_ms, to_ms);
    let (walk, last) = walk.await?;
    let tally = Tally::new(walk.state(), pool, starts);
    let walked = walk.through(last, tally, Tally::fold);
    let (_, tally) = walked.await?;
    Ok(tally.end())
}

/// What is asked for by name outranks the header.
fn wants_csv(format: Option<Format>, headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).map(HeaderValue::to_str);
    let accept = accept.and_then(Result::ok).unwrap_or_default();
    match format {
        Some(format) => format == Format::Csv,
        None => accept.trim_start().starts_with("text/csv"),
    }
}

fn view(ctx: &Ctx, span: PoolSpan, to_ms: u64, beside: &Beside) -> PoolSpanView {
    let measures = span.measures();
    let userid = |member: &MemberId| ctx.corp.names.userid(member);
    let total: i64 = span.members.values().map(|got| got.count).sum();
    let of = |part: u64, whole: u64| (whole > 0).then(|| short(part as f64 / whole as f64));
    let given = |got: &Got| got.count.max(0) as u64 + got.received;
    let load = |member: &MemberId| beside.loads.get(member);
    let member = |(member, got): (&MemberId, &Got)| MemberFairnessView {
        member: userid(member),
        count: got.count,
        entitlement: short(got.entitlement),
        variance: short(got.variance()),
        share: (total > 0).then(|| short(got.count as f64 / total as f64)),
        received: got.received,
        reassigned: got.reassigned,
        expired_holds: got.expired,
        closed_early: got.closed_early,
        offered: got.offered,
        declined: got.declined,
        reclaimed: got.reclaimed,
        failed: got.failed,
        decline_rate: of(got.declined, got.offered),
        reclaim_rate: of(got.reclaimed, got.offered),
        failure_rate: of(got.failed, given(got)),
        first_response: beside.times(&span, Some(member)),
        load: load(member).map(|view| view.load),
        load_ratio: load(member).and_then(|view| of(view.load.into(), view.cap?.into())),
    };
    PoolSpanView {
        from: When(span.from_ms),
        to: When(to_ms),
        decisions: span.decisions,
        gini: measures.gini,
        jain: measures.jain,
        largest_deviation: measures.furthest.map(|(member, customers)| DeviationView {
            member: userid(&member),
            customers,
        }),
        first_response: beside.times(&span, None),
        members: span.members.iter().map(member).collect(),
        pool: span.pool.into(),
    }
}

/// To a millionth of a customer; no −0.
pub(super) fn short(number: f64) -> f64 {
    (number * 1e6).round() / 1e6 + 0.0
}
