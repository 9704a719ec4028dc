//! Members to Redis: limits, blocks and skills.

use std::collections::HashMap;

use allocation::{MemberId, SetMember, SetSkills, model::MemberView};
use futures_util::future::try_join_all;
use ledger::{Member, Pool};

use super::{
    Error,
    limits::{Days, given_before},
    payload,
};
use crate::app::{App, CorpApp};

/// Members told at a time: Redis writes down together what it was told together.
const TOLD_AT_ONCE: usize = 64;

/// Tells Redis a member's limits, block and skills.
pub async fn tell_member(app: &App, corp: &CorpApp, member: &MemberId) -> Result<(), Error> {
    let known = app.ledger.members().get(&corp.id, member).await?;
    tell_members(app, corp, known.into_iter().collect(), None)
        .await
        .map(drop)
}

/// Those of a pool.
pub(super) async fn tell_members_of(
    app: &App,
    corp: &CorpApp,
    pool: &Pool,
    now_ms: Option<u64>,
) -> Result<(), Error> {
    let ids: Vec<MemberId> = pool
        .members
        .iter()
        .map(|member| member.member.clone())
        .collect();
    let members = app.ledger.members().get_many(&corp.id, &ids).await?;
    tell_members(app, corp, members, now_ms).await.map(drop)
}

/// Tells Redis of those of these members of whom it knows something else; answers how many that were. A pool may have
/// 10,000, and when one of its limits is put all of them are told: they are read together and told many at a time.
pub(super) async fn tell_members(
    app: &App,
    corp: &CorpApp,
    mut members: Vec<Member>,
    now_ms: Option<u64>,
) -> Result<usize, Error> {
    let mut told = 0;
    while !members.is_empty() {
        for member in &members {
            corp.names.spell(&member.member, &member.userid);
        }
        let ids: Vec<MemberId> = members.iter().map(|member| member.member.clone()).collect();
        let views = corp.roster.members(&ids).await?;
        let views: HashMap<&MemberId, &MemberView> =
            views.iter().map(|view| (&view.member, view)).collect();
        let at_ms = now_ms.unwrap_or_else(|| app.now_ms());
        let days = Days::of(app, corp, &members, at_ms).await?;
        let skills = corp.roster.skills(&ids).await?;
        let differing = members.iter().zip(&skills).filter(|(member, skills)| {
            let view = views.get(&member.member).copied();
            days.differs(member, view) || member.skills != **skills
        });
        let differing: Vec<(&Member, bool)> = differing
            .map(|(member, skills)| (member, member.skills != *skills))
            .collect();
        if differing.is_empty() {
            break;
        }
        let is_uncounted = |member: &&Member| {
            let view = views.get(&member.member);
            view.is_none_or(|view| view.given.is_none())
        };
        let uncounted = differing.iter().map(|(member, _)| *member);
        let given = given_before(app, corp, &days, uncounted.filter(is_uncounted)).await?;
        for part in differing.chunks(TOLD_AT_ONCE) {
            let tellings = part.iter().map(|(member, other_skills)| {
                let change = SetMember {
                    given: given.get(&member.member).copied(),
                    ..days.change(member)
                };
                tell_one(corp, member, change, *other_skills, now_ms)
            });
            try_join_all(tellings).await?;
            corp.log_grew.notify_one();
        }
        told += differing.len();
        // Who was changed meanwhile may have been told an older word than the one that whoever changed him told.
        let before: HashMap<MemberId, (u64, bool)> = differing
            .iter()
            .map(|(member, _)| (member.member.clone(), said(member)))
            .collect();
        let ids: Vec<MemberId> = before.keys().cloned().collect();
        members = app.ledger.members().get_many(&corp.id, &ids).await?;
        members.retain(|after| before.get(&after.member) != Some(&said(after)));
    }
    Ok(told)
}

async fn tell_one(
    corp: &CorpApp,
    member: &Member,
    change: SetMember,
    other_skills: bool,
    now_ms: Option<u64>,
) -> Result<(), Error> {
    corp.roster.set_member(change, &payload(), now_ms).await?;
    if other_skills {
        let change = SetSkills {
            member: member.member.clone(),
            skills: member.skills.clone(),
        };
        corp.roster.set_skills(change, &payload(), now_ms).await?;
    }
    Ok(())
}

/// What is told of a member changes with it.
fn said(member: &Member) -> (u64, bool) {
    (member.version, member.is_counted_in_pool)
}
