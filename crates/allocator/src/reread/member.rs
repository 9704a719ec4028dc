//! A member who may have left, been disabled or gone out of the app's range.

use allocation::{Closing, MemberId, Reason};
use ledger::{Allocation, Member, Trail};
use quota::Urgency;
use wecom::client::{UserStatus, api};

use super::Error;
use crate::{
    app::{App, CorpApp},
    decide::dirty,
    handover::{
        LEFT,
        end::{self, GONE},
    },
    people, permit,
};

/// Why a member was left out, when WeCom itself says that he cannot serve.
const DISABLED: &str = "disabled";
const NOT_VISIBLE: &str = "not_visible";
/// He is outside the app's range.
const OUT_OF_RANGE: i64 = 60011;
/// Why allocations end whose member left.
const MEMBER_LEFT: &str = "member_left";
/// A member who left is looked at again: soon for what was decided just before he was blocked and was not in the ledger
/// yet, later while a transfer to him goes on.
const LEFT_AGAIN_MS: u64 = 60_000;
const LEFT_MOVING_MS: u64 = 60 * 60 * 1000;

/// Whether a member is still there. Who is not gets nothing more; of one who left the open allocations end too, so that
/// his customers may come again. One who is disabled, or whom the app may not see for the moment, still has his customers at WeCom and may be back tomorrow.
pub(super) async fn read_member(app: &App, corp: &CorpApp, userid: &str) -> Result<(), Error> {
    read(app, corp, userid, false).await
}

/// The same of one whose customers WeCom lists as those of a member who left: if the app cannot see him, that is why.
pub(crate) async fn read_listed_member(
    app: &App,
    corp: &CorpApp,
    userid: &str,
) -> Result<(), Error> {
    read(app, corp, userid, true).await
}

async fn read(app: &App, corp: &CorpApp, userid: &str, is_listed: bool) -> Result<(), Error> {
    let Ok(member) = MemberId::new(userid) else {
        return Ok(());
    };
    let permit = permit::take(app, corp, api::GET_USER, Urgency::Ordinary)
        .await
        .map_err(|until_ms| end::Error::Budget { until_ms })?;
    let answer = corp.client.get_user(userid).await;
    permit::done(app, corp, api::GET_USER, &permit, &answer).await;
    let gone = match answer {
        Ok(user) => match user.status {
            UserStatus::Disabled => Some(DISABLED),
            UserStatus::Left => Some(LEFT),
            _ => None,
        },
        Err(error) => match error.errcode() {
            Some(code) if GONE.contains(&code) => Some(LEFT),
            Some(OUT_OF_RANGE) => Some(NOT_VISIBLE),
            _ => return Err(end::Error::Wecom(error).into()),
        },
    };
    let Some(row) = app.ledger.members().get(&corp.id, &member).await? else {
        return Ok(());
    };
    let blocked = row.blocked.as_ref().map(Reason::as_str);
    let gone = match gone {
        Some(NOT_VISIBLE) if is_listed || blocked == Some(LEFT) => Some(LEFT),
        gone => gone,
    };
    let again_ms = match (gone, blocked) {
        (Some(reason), Some(now)) if now == reason => None,
        (Some(reason), _) => {
            block(app, corp, &row, Some(reason)).await?;
            Some(LEFT_AGAIN_MS)
        }
        // We left him out because WeCom said he was gone; he is back.
        (None, Some(LEFT | DISABLED | NOT_VISIBLE)) => return block(app, corp, &row, None).await,
        (None, _) => return Ok(()),
    };
    if gone == Some(LEFT) {
        // Blocked before or not: a process may have died between the two.
        let moving = end_all_of(app, corp, &member).await?;
        if let Some(again_ms) = again_ms.or(moving.then_some(LEFT_MOVING_MS)) {
            let due_ms = app.now_ms() + again_ms;
            corp.inbox.dirty_mark(dirty::MEMBER, userid, due_ms).await?;
        }
    }
    Ok(())
}

/// Whether WeCom says of a member that he is not there for this app.
pub(crate) fn is_away(error: &wecom::Error) -> bool {
    error
        .errcode()
        .is_some_and(|code| code == OUT_OF_RANGE || GONE.contains(&code))
}

async fn block(
    app: &App,
    corp: &CorpApp,
    row: &Member,
    blocked: Option<&'static str>,
) -> Result<(), Error> {
    let member = &row.member;
    tracing::info!(corp = %corp.id, member = %member, blocked, "a member left or came back");
    let blocked = blocked.and_then(|reason| Reason::new(reason).ok());
    let trail = Trail::system(app.now_ms(), "user/get");
    let after = app
        .ledger
        .members()
        .set_blocked(&corp.id, member, blocked.as_ref(), &trail)
        .await?;
    // Rows of members stay.
    let after = after.as_ref().unwrap_or(row);
    let change = people::limits::change(app, corp, after, app.now_ms()).await?;
    corp.roster.set_member(change, "", None).await?;
    corp.log_grew.notify_one();
    // His hours do not keep him on.
    corp.hours_changed.notify_one();
    Ok(())
}

/// Ends a member's open allocations, a page at a time. Those that a transfer is still to carry out are the transfer's
/// business; answers whether there are any.
async fn end_all_of(app: &App, corp: &CorpApp, member: &MemberId) -> Result<bool, Error> {
    let Ok(reason) = Reason::new(MEMBER_LEFT) else {
        return Ok(false);
    };
    let limit = u32::try_from(allocation::MAX_BATCH).unwrap_or(u32::MAX);
    let (mut moving, mut before) = (false, None);
    loop {
        let page = app
            .ledger
            .allocations()
            .open_of_member(&corp.id, member, before, limit)
            .await?;
        let Some(last) = page.last() else {
            return Ok(moving);
        };
        before = Some((last.decided_ms, last.id));
        let (settled, on_the_way): (Vec<&Allocation>, Vec<&Allocation>) =
            page.iter().partition(|row| row.settled_ms.is_some());
        moving |= !on_the_way.is_empty();
        let closings: Vec<Closing> = settled
            .into_iter()
            .map(|row| Closing {
                subject: row.subject,
                pool: Some(row.pool.clone()),
                member: Some(member.clone()),
                allocation: Some(row.id),
                reason: reason.clone(),
            })
            .collect();
        if !closings.is_empty() {
            tracing::info!(corp = %corp.id, member = %member, ended = closings.len(), "allocations of a member who left end");
            metrics::counter!("paidan_found_total", "corp" => corp.id.to_string(), "what" => "left")
                .increment(closings.len() as u64);
            corp.roster.close(closings, "", None).await?;
            corp.log_grew.notify_one();
        }
    }
}
