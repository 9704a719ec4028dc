//! What is wrong with a draft, or odd about it, all at once and before anybody is hurt by it.

use std::collections::{BTreeMap, BTreeSet};

use allocation::{ChannelId, Limits, MemberId, PoolId, ScheduleId, Skill, Step};
use ledger::{Channel, Draft, Member, NewPool};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::{Ctx, Operator},
    docs::Refusals,
    drafts::DraftPath,
    extract::Path,
    pools,
    problem::Problem,
    routing,
};
use crate::{
    people::hours::{plan, schedule::State},
    reception::plans,
};

/// That are told.
const MOST: usize = 500;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(validate))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Level {
    /// It cannot be published like this.
    Error,
    /// It can, and may not be what was meant.
    Warning,
}

/// What is wrong, or odd.
#[derive(Debug, Serialize, ToSchema)]
struct FindingView {
    level: Level,
    /// JSON pointer into the draft, for example `/content/members/0/weight`; empty for all of it.
    pointer: String,
    /// Errors: `unknown_member`, `unknown_pool`, `too_many_weights`, `base_moved` (publish it with `overwrite`, or PUT it with the new
    /// `base_version`), `pool_deleted`, `channel_has_visits` (a public page cannot lead to a pool that asks its members). Warnings: `no_members`, `all_weights_zero`, `nobody_works` (nobody with a weight can ever be
    /// given anybody), `nobody_can` (a channel needs skills that nobody has who would serve its customers, now or after a
    /// wait), `member_blocked`, `never_opens`, `limit_zero`, `unchanged`.
    code: &'static str,
    message: String,
}

/// What was found.
#[derive(Debug, Serialize, ToSchema)]
struct FindingsView {
    /// No errors.
    valid: bool,
    /// Errors first; at most 500.
    findings: Vec<FindingView>,
    /// There are more than are shown.
    more: bool,
}

/// Says what is wrong with a draft, or odd about it, as things are now. Changes nothing.
#[utoipa::path(post, path = "/drafts/{draft_id}/validate", tag = "policies", operation_id = "validate_draft",
    params(("draft_id" = String, Path)), responses((status = 200, body = FindingsView), Refusals))]
async fn validate(
    Operator(ctx): Operator,
    Path(path): Path<DraftPath>,
) -> Result<axum::Json<FindingsView>, Problem> {
    let draft = path.find(&ctx).await?;
    let mut findings = Findings::default();
    findings.base(&ctx, &draft).await?;
    findings.pages(&ctx, &draft).await?;
    findings.fallbacks(&ctx, &draft.content).await?;
    findings.content(&ctx, &draft.content).await?;
    findings.skills(&ctx, &draft).await?;
    let mut findings = findings.0;
    findings.sort_by_key(|finding| finding.level);
    let more = findings.len() > MOST;
    findings.truncate(MOST);
    Ok(axum::Json(FindingsView {
        valid: findings.iter().all(|one| one.level != Level::Error),
        findings,
        more,
    }))
}

#[derive(Default)]
struct Findings(Vec<FindingView>);

impl Findings {
    fn add(
        &mut self,
        level: Level,
        pointer: impl Into<String>,
        code: &'static str,
        message: impl Into<String>,
    ) {
        self.0.push(FindingView {
            level,
            pointer: pointer.into(),
            code,
            message: message.into(),
        });
    }

    fn error(&mut self, pointer: impl Into<String>, code: &'static str, message: String) {
        self.add(Level::Error, pointer, code, message);
    }

    fn warning(&mut self, pointer: impl Into<String>, code: &'static str, message: String) {
        self.add(Level::Warning, pointer, code, message);
    }

    /// The pool it was made from.
    async fn base(&mut self, ctx: &Ctx, draft: &Draft) -> Result<(), Problem> {
        let pool = ctx.app.ledger.pools().get(ctx.id(), &draft.pool).await?;
        let Some(pool) = pool else {
            let message = format!("the pool {} was deleted", draft.pool);
            self.error("", "pool_deleted", message);
            return Ok(());
        };
        if pool.version != draft.base_version {
            let message = format!(
                "the pool is at version {}, the draft was made from {}",
                pool.version, draft.base_version
            );
            self.error("/base_version", "base_moved", message);
        }
        if pool.content() == draft.content {
            let message = "the pool is like this already".to_owned();
            self.warning("/content", "unchanged", message);
        }
        Ok(())
    }

    /// Channels that lead to it and show a member at once.
    async fn pages(&mut self, ctx: &Ctx, draft: &Draft) -> Result<(), Problem> {
        if draft.content.offers.is_none() {
            return Ok(());
        }
        let channels = ctx.app.ledger.channels().all(ctx.id()).await?.into_iter();
        let leads = channels.filter(|one| one.pool == draft.pool && one.visits.is_some());
        let leads: Vec<ChannelId> = leads.map(|one| one.id).collect();
        if !leads.is_empty() {
            let (message, _) = pools::pages(&leads);
            self.error("/content/offers", "channel_has_visits", message);
        }
        Ok(())
    }

    /// Pools that it leads to.
    async fn fallbacks(&mut self, ctx: &Ctx, content: &NewPool) -> Result<(), Problem> {
        let fallbacks = &content.routing.fallbacks;
        let ids: Vec<PoolId> = fallbacks.iter().map(|one| one.pool.clone()).collect();
        let there = ctx.app.ledger.pools().get_many(ctx.id(), &ids).await?;
        for (index, id) in ids.iter().enumerate() {
            if !there.iter().any(|pool| pool.id == *id) {
                let pointer = format!("/content/fallbacks/{index}/pool");
                let message = format!("there is no pool {id} (any more)");
                self.error(pointer, "unknown_pool", message);
            }
        }
        Ok(())
    }

    /// Channels that lead to it and need what nobody can do.
    async fn skills(&mut self, ctx: &Ctx, draft: &Draft) -> Result<(), Problem> {
        let channels = ctx.app.ledger.channels().all(ctx.id()).await?.into_iter();
        let leads = channels.filter(|one| one.pool == draft.pool && !one.needs.is_empty());
        let leads: Vec<Channel> = leads.collect();
        if leads.is_empty() || draft.content.members.is_empty() {
            return Ok(());
        }
        let able = Able::of(ctx, draft).await?;
        for channel in leads {
            let steps = plans::steps(&draft.content.routing, &draft.pool, &channel.needs);
            if !steps.iter().any(|step| able.serve(step)) {
                let needs = routing::names(&channel.needs).join(", ");
                let message = format!(
                    "the channel {} needs {needs}; nobody who would serve its customers can do that, and they wait",
                    channel.id
                );
                self.warning("/content/members", "nobody_can", message);
            }
        }
        Ok(())
    }

    async fn content(&mut self, ctx: &Ctx, content: &NewPool) -> Result<(), Problem> {
        if let Some(message) = pools::too_many_weights(content) {
            self.error("/content/members", "too_many_weights", message);
        }
        if content.members.is_empty() {
            let message = "nobody is in it: every customer waits".to_owned();
            self.warning("/content/members", "no_members", message);
            return Ok(());
        }
        if content.members.iter().all(|(_, weight)| weight.is_zero()) {
            let message = "all weights are 0: every customer waits".to_owned();
            self.warning("/content/members", "all_weights_zero", message);
        }
        let ids: Vec<MemberId> = content.members.iter().map(|(id, _)| id.clone()).collect();
        let known = ctx.app.ledger.members().get_many(ctx.id(), &ids).await?;
        let known: BTreeMap<&MemberId, &Member> = known
            .iter()
            .map(|member| (&member.member, member))
            .collect();
        let closed = closed(ctx, known.values().copied()).await?;
        let mut works = 0;
        for (index, (id, weight)) in content.members.iter().enumerate() {
            let place = format!("/content/members/{index}");
            let n_before = self.0.len();
            match known.get(id) {
                None => {
                    let message = format!("{id} is not known; PUT …/members/{id} first");
                    self.error(format!("{place}/member"), "unknown_member", message);
                }
                Some(member) => self.member(&place, member, &closed),
            }
            let limits = content.limits.get(id).copied().unwrap_or_default();
            self.zero(&place, limits, "of the pool");
            works += usize::from(n_before == self.0.len() && !weight.is_zero());
        }
        if works == 0 {
            let message = "nobody with a weight can ever be given anybody".to_owned();
            self.warning("/content/members", "nobody_works", message);
        }
        Ok(())
    }

    fn member(&mut self, place: &str, member: &Member, closed: &BTreeSet<ScheduleId>) {
        let userid = &member.userid;
        if let Some(reason) = &member.blocked {
            let message = format!("{userid} is blocked: {reason}");
            self.warning(format!("{place}/member"), "member_blocked", message);
        }
        if let Some(schedule) = member.schedule.as_ref().filter(|id| closed.contains(id)) {
            let message =
                format!("the schedule {schedule} of {userid} does not open in the next two years");
            self.warning(format!("{place}/member"), "never_opens", message);
        }
        self.zero(place, member.limits(), "over all pools");
    }

    fn zero(&mut self, place: &str, limits: Limits, whose: &str) {
        let all = [
            ("cap", limits.at_a_time),
            ("per_hour", limits.per_hour),
            ("per_day", limits.per_day),
        ];
        for (name, limit) in all {
            if limit == Some(0) {
                let message = format!("his limit {whose} is 0: he is given nobody");
                self.warning(format!("{place}/{name}"), "limit_zero", message);
            }
        }
    }
}

/// What members of the draft and of its fallbacks can do; of those with a weight.
struct Able(BTreeMap<PoolId, Vec<BTreeSet<Skill>>>);

impl Able {
    async fn of(ctx: &Ctx, draft: &Draft) -> Result<Self, Problem> {
        let others = draft.content.routing.fallbacks.iter();
        let others: Vec<PoolId> = others.map(|one| one.pool.clone()).collect();
        let others = ctx.app.ledger.pools().get_many(ctx.id(), &others).await?;
        let mut members: BTreeMap<PoolId, BTreeSet<MemberId>> = BTreeMap::new();
        for pool in others {
            let places = pool.members.into_iter();
            let places = places.filter(|place| !place.weight.is_zero());
            members.insert(pool.id, places.map(|place| place.member).collect());
        }
        let own = draft.content.members.iter();
        let own = own.filter(|(_, weight)| !weight.is_zero());
        members.insert(draft.pool.clone(), own.map(|(id, _)| id.clone()).collect());
        let ids: BTreeSet<MemberId> = members.values().flatten().cloned().collect();
        let ids: Vec<MemberId> = ids.into_iter().collect();
        let known = ctx.app.ledger.members().get_many(ctx.id(), &ids).await?;
        let skills: BTreeMap<MemberId, BTreeSet<Skill>> = known
            .into_iter()
            .map(|member| (member.member, member.skills))
            .collect();
        let of = |ids: BTreeSet<MemberId>| {
            ids.iter()
                .filter_map(|id| skills.get(id).cloned())
                .collect()
        };
        Ok(Self(
            members
                .into_iter()
                .map(|(pool, ids)| (pool, of(ids)))
                .collect(),
        ))
    }

    /// Somebody could.
    fn serve(&self, step: &Step) -> bool {
        let members = self.0.get(&step.pool);
        let mut members = members.into_iter().flatten();
        members.any(|skills| step.needs.iter().all(|need| skills.contains(need)))
    }
}

/// Schedules of these members that never open, as far as can be seen.
async fn closed<'a>(
    ctx: &Ctx,
    members: impl Iterator<Item = &'a Member>,
) -> Result<BTreeSet<ScheduleId>, Problem> {
    let ids: BTreeSet<&ScheduleId> = members.filter_map(|one| one.schedule.as_ref()).collect();
    if ids.is_empty() {
        return Ok(BTreeSet::new());
    }
    let schedules = ctx.app.ledger.schedules().all(ctx.id()).await?;
    let calendars = ctx.app.ledger.calendars().all(ctx.id()).await?;
    let now_ms = ctx.app.now_ms();
    let mut closed = BTreeSet::new();
    for id in ids {
        let schedule = schedules.iter().find(|schedule| schedule.id == *id);
        let opens = schedule.is_some_and(|schedule| {
            let of = schedule.calendars.iter();
            let of = of.filter_map(|id| calendars.iter().find(|calendar| calendar.id == *id));
            let read = plan::stored(schedule, of);
            read.is_ok_and(|read| read.state(now_ms) != State::Closed { opens_ms: None })
        });
        if !opens {
            closed.insert(id.clone());
        }
    }
    Ok(closed)
}
