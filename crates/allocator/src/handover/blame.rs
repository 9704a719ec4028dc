//! Members whom WeCom does not take: found out before they are left out, because an answer to two says not to whom.

use allocation::{MemberId, Reason, SetMember};
use ledger::{Trail, Transfer};
use metrics::counter;
use quota::Urgency;
use wecom::client::{UserStatus, api};

use super::end::{Error, GONE};
use crate::{
    app::{App, CorpApp},
    people, permit,
};

/// Why a member was left out who is not there any more.
pub(crate) const LEFT: &str = "left_or_not_visible";

/// Whether WeCom says of this member that he is not there any more.
pub(super) async fn is_gone(app: &App, corp: &CorpApp, member: &MemberId) -> Result<bool, Error> {
    let permit = permit::take(app, corp, api::GET_USER, Urgency::Ordinary)
        .await
        .map_err(|until_ms| Error::Budget { until_ms })?;
    let answer = corp.client.get_user(member.as_str()).await;
    permit::done(app, corp, api::GET_USER, &permit, &answer).await;
    match answer {
        Ok(user) => Ok(user.status == UserStatus::Left),
        Err(error) if error.errcode().is_some_and(|code| GONE.contains(&code)) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// It is the fault of one of the two, and nothing proves whose: a person is told, and nobody is left out.
pub(super) fn nobody(corp: &CorpApp, transfer: &Transfer, why: &'static str) {
    tracing::error!(corp = %corp.id, giver = %transfer.giver, taker = %transfer.taker, why, "WeCom refuses transfers between two members; somebody must find out whose fault it is");
    counter!("paidan_transfers_unexplained_total", "corp" => corp.id.to_string()).increment(1);
}

/// Leaves a member out of every choice until somebody mends what WeCom says about him.
pub(super) async fn block(
    app: &App,
    corp: &CorpApp,
    member: &MemberId,
    reason: &'static str,
) -> Result<(), Error> {
    tracing::warn!(corp = %corp.id, member = %member, reason, "a member cannot take customers and is left out");
    counter!("paidan_members_blocked_total", "corp" => corp.id.to_string(), "reason" => reason)
        .increment(1);
    let blocked = Reason::new(reason).ok();
    let trail = Trail::system(app.now_ms(), "refused as taker by WeCom");
    let row = app
        .ledger
        .members()
        .set_blocked(&corp.id, member, blocked.as_ref(), &trail)
        .await?;
    let change = match &row {
        Some(row) => people::limits::change(app, corp, row, app.now_ms()).await?,
        None => SetMember::capped(member.clone(), None, blocked),
    };
    corp.roster.set_member(change, "", None).await?;
    Ok(())
}
