//! Heartbeats and goodbyes on their way to Redis: who may send them, and how far they count.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use allocation::{MemberId, PresenceChange};
use ledger::Role;
use serde_json::json;

use super::{
    access::{Ctx, LOOK_UP},
    problem::Problem,
};
use crate::{
    faults::with_causes,
    payload::Payload,
    people::hours::{
        self, Everybody,
        leases::{Refused, admit},
    },
};

/// A member's key is for himself; others must be operators.
pub(super) fn may<'a>(
    ctx: &Ctx,
    mut members: impl Iterator<Item = &'a MemberId>,
) -> Result<(), Problem> {
    match ctx.role {
        Role::Member => members.try_for_each(|member| own(ctx, member)),
        Role::Viewer => Err(Problem::forbidden(
            "This needs the role operator; the key has viewer.",
        )),
        Role::Operator | Role::Admin => Ok(()),
    }
}

pub(super) fn own(ctx: &Ctx, member: &MemberId) -> Result<(), Problem> {
    if ctx.member.as_ref() == Some(member) {
        return Ok(());
    }
    Err(Problem::forbidden(
        "A member's key is for his own presence only.",
    ))
}

/// Those who are not known. Postgres is asked only about whom this process does not know, and while it is away a
/// heartbeat is believed.
pub(super) async fn unknown(ctx: &Ctx, members: &[MemberId]) -> BTreeSet<MemberId> {
    let doubtful: Vec<MemberId> = members
        .iter()
        .filter(|member| !ctx.corp.names.knows(member))
        .cloned()
        .collect();
    if doubtful.is_empty() {
        return BTreeSet::new();
    }
    match ctx.app.ledger.members().get_many(ctx.id(), &doubtful).await {
        Ok(known) => {
            for member in &known {
                ctx.corp.names.spell(&member.member, &member.userid);
            }
            let known: BTreeSet<MemberId> = known.into_iter().map(|member| member.member).collect();
            doubtful
                .into_iter()
                .filter(|member| !known.contains(member))
                .collect()
        }
        Err(error) => {
            tracing::warn!(corp = %ctx.id(), error = %error, "members were not looked up");
            BTreeSet::new()
        }
    }
}

/// Members who are on now.
pub(super) async fn leases(ctx: &Ctx) -> Result<Vec<(MemberId, u64)>, Problem> {
    open(ctx).await?;
    let leases = ctx.corp.roster.leases().await;
    let leases = leases.map_err(|error| ctx.roster(error))?;
    let now_ms = ctx.app.now_ms();
    Ok(leases
        .into_iter()
        .filter(|(_, until)| *until > now_ms)
        .collect())
}

/// The end of one member's lease; None: he is off.
pub(super) async fn lease_of(ctx: &Ctx, member: &MemberId) -> Result<Option<u64>, Problem> {
    open(ctx).await?;
    let ends = ctx.corp.roster.leases_of(std::slice::from_ref(member));
    let ends = ends.await.map_err(|error| ctx.roster(error))?;
    let now_ms = ctx.app.now_ms();
    Ok(ends.into_iter().flatten().find(|end| *end > now_ms))
}

/// Of a closed corp nothing is known.
async fn open(ctx: &Ctx) -> Result<(), Problem> {
    let status = ctx.corp.roster.status().await;
    let status = status.map_err(|error| ctx.roster(error))?;
    let closed = || ctx.roster(roster::Error::NotReady);
    status.generation.map(drop).ok_or_else(closed)
}

/// What became of a heartbeat or goodbye.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// The lease; 0: he is off.
    Until(u64),
    Refused(Refused),
}

/// Heartbeats and goodbyes with the end that each asks for, as far as hours, leaves and what was said allow.
pub(super) async fn hear(
    ctx: &Ctx,
    wanted: Vec<(MemberId, u64)>,
) -> Result<BTreeMap<MemberId, Heard>, Problem> {
    let everybody = everybody(ctx).await;
    let (now_ms, lease_ms) = (ctx.app.now_ms(), ctx.app.config.hours.lease_ms);
    let mut heard = BTreeMap::new();
    let mut leases = Vec::new();
    for (member, wanted_ms) in wanted {
        let admitted = match everybody.of(&member) {
            Some(facts) => admit(&facts, wanted_ms, now_ms, lease_ms),
            None => Ok(wanted_ms),
        };
        let one = match admitted {
            Ok(until_ms) => {
                leases.push((member.clone(), until_ms));
                Heard::Until(until_ms)
            }
            Err(why) => Heard::Refused(why),
        };
        heard.insert(member, one);
    }
    if !leases.is_empty() {
        tell(ctx, leases).await?;
        // Somebody may have said something else in between.
        let again = hours::told_by(&ctx.app, &ctx.corp, &everybody).await;
        if let Err(error) = again {
            tracing::warn!(corp = %ctx.id(), error = %with_causes(&error), "leases are corrected later");
        }
    }
    Ok(heard)
}

/// What this process knows of hours. One that has just started asks once; while Postgres is away a heartbeat is believed.
async fn everybody(ctx: &Ctx) -> Arc<Everybody> {
    let known = ctx.corp.hours.now();
    if known.is_known() {
        return known;
    }
    let refresh = hours::refresh(&ctx.app, &ctx.corp, ctx.app.now_ms());
    match tokio::time::timeout(LOOK_UP, refresh).await {
        Ok(Ok(known)) => known,
        _ => known,
    }
}

/// Ends of leases, as they are to be.
pub(super) async fn tell(ctx: &Ctx, leases: Vec<(MemberId, u64)>) -> Result<(), Problem> {
    let changes = leases
        .into_iter()
        .map(|(member, lease_until_ms)| PresenceChange {
            member,
            lease_until_ms,
        });
    let changes: Vec<PresenceChange> = changes.collect();
    let now_ms = ctx.app.now_ms();
    let ids: Vec<MemberId> = changes.iter().map(|change| change.member.clone()).collect();
    let ends = ctx.corp.roster.leases_of(&ids).await;
    let ends = ends.map_err(|error| ctx.roster(error))?;
    let turned = changes
        .iter()
        .zip(ends)
        .filter(|(change, end)| end.is_some_and(|end| end > now_ms) != (change.lease_until_ms > 0));
    let turned: Vec<_> = turned
        .map(|(change, _)| json!({"member": ctx.corp.names.userid(&change.member), "online": change.lease_until_ms > 0}))
        .collect();
    let mut payload = Payload {
        actor: Some(ctx.actor()),
        ..Payload::default()
    };
    if !turned.is_empty() {
        payload = payload.by(ctx.trail(None).record(
            "presence.put",
            "presence".to_owned(),
            None,
            Some(turned.into()),
        ));
    }
    let applied = ctx
        .corp
        .roster
        .presence(changes, &payload.text(), None)
        .await;
    applied.map_err(|error| ctx.roster(error))?;
    ctx.corp.log_grew.notify_one();
    Ok(())
}
