//! What a visitor has already when he comes again: it is shown as it stands, or ended because of its member.

use allocation::{
    AllocationId, Closing, MemberId, PoolId, Reason, SubjectKey, model::AllocationView,
};
use metrics::counter;

use super::{Error, Hold, Visited};
use crate::{app::CorpApp, payload::Payload};

/// Why a hold ends when its visitor comes again: its member must get nobody by now.
pub(super) const MEMBER_BLOCKED: &str = "member_blocked";

/// What he has, if it lasts: a hold that is over, or a place in the waiting list that he must ask for again, is for the
/// script; so is one for which others are to be avoided by now.
pub(super) fn as_it_stands(
    open: &AllocationView,
    avoid: &[MemberId],
    now_ms: u64,
) -> Option<Visited> {
    let Some(hold) = &open.hold else {
        let member = open.member.clone()?;
        return Some(Visited::Met {
            allocation: open.allocation,
            member,
        });
    };
    match &open.member {
        Some(member) if hold.until_ms > now_ms => Some(Visited::Held(Hold {
            allocation: open.allocation,
            member: member.clone(),
            slot: hold.slot.clone(),
            until_ms: hold.until_ms,
        })),
        None if hold.until_ms > now_ms + hold.hold_ms / 2 && avoids(open) == avoid => {
            Some(Visited::Waiting {
                allocation: open.allocation,
                until_ms: hold.until_ms,
            })
        }
        _ => None,
    }
}

fn avoids(open: &AllocationView) -> &[MemberId] {
    let route = open.route.as_ref();
    route.map_or(&[], |route| route.plan.avoid())
}

/// Ends a hold whose member was blocked since, because he left or somebody says so; also one that is over and not swept
/// yet, as that would begin anew. Who is only off keeps those whom he has. Answers whether it ended.
pub(super) async fn end_of_blocked(corp: &CorpApp, open: &AllocationView) -> Result<bool, Error> {
    let (Some(_), Some(member)) = (&open.hold, &open.member) else {
        return Ok(false);
    };
    let members = corp.roster.members(std::slice::from_ref(member)).await?;
    if members.iter().all(|member| member.blocked.is_none()) {
        return Ok(false);
    }
    let hold = (open.allocation, member);
    end(corp, open.subject, &open.pool, hold, MEMBER_BLOCKED).await?;
    Ok(true)
}

/// Ends this hold and no other one: of several tabs that come at once the first ends it, and what was decided since stays.
pub(super) async fn end(
    corp: &CorpApp,
    subject: SubjectKey,
    pool: &PoolId,
    (allocation, member): (AllocationId, &MemberId),
    reason: &'static str,
) -> Result<(), Error> {
    let closing = Closing {
        subject,
        pool: Some(pool.clone()),
        member: Some(member.clone()),
        allocation: Some(allocation),
        reason: Reason::new(reason).map_err(Error::Reason)?,
    };
    let payload = Payload {
        actor: Some("visits".to_owned()),
        ..Payload::default()
    }
    .text();
    let closed = corp.roster.close(vec![closing], &payload, None);
    let closed = closed.await?.answer.len();
    corp.log_grew.notify_one();
    counter!("paidan_holds_ended_total", "corp" => corp.id.to_string(), "reason" => reason)
        .increment(closed as u64);
    Ok(())
}
