//! Doubts, resolved by asking WeCom: a pair whose events conflict or repeat, a member who may have left. Marks are
//! durable and each is read once however often it was made; reads lag, so a pair is read a second time later.

use std::{sync::Arc, time::Duration};

use allocation::{
    AllocationId, ChannelId, Closing, MemberId, PoolId, Reason, Request, SetMember, SubjectKey,
};
use inbox::Taken;
use ledger::{Allocation, AllocationState, Member, Trail};
use quota::Urgency;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use wecom::client::{FollowUser, UserStatus, api};

use crate::{
    app::{App, CorpApp},
    backoff::{Backoff, jittered},
    decide::dirty,
    handover::{
        LEFT,
        end::{self, GONE},
    },
    payload::{Context, Payload},
    permit,
    reception::{
        intake::{Pair, WECOM},
        routes::Route,
    },
};

/// Marks taken in one turn, and how long they are ours.
const TURN: usize = 50;
const LEASE_MS: u64 = 60_000;
const IDLE: Duration = Duration::from_millis(500);
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

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("inbox: {0}")]
    Inbox(#[from] inbox::Error),
    #[error("ledger: {0}")]
    Ledger(#[from] ledger::Error),
    #[error("roster: {0}")]
    Roster(#[from] roster::Error),
    #[error(transparent)]
    End(#[from] end::Error),
}

/// Reads again until the program stops.
pub async fn run(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    let mut backoff = Backoff::store();
    while !stop.is_cancelled() {
        match turn(&app, &corp).await {
            Ok(0) => {
                backoff.reset();
                crate::backoff::sleep(IDLE, &stop).await;
            }
            Ok(_) => backoff.reset(),
            Err(error) => {
                if matches!(error, Error::Roster(roster::Error::NotReady)) {
                    corp.not_ready.notify_one();
                }
                tracing::warn!(corp = %corp.id, error = %error, "doubts were not resolved");
                backoff.wait(&stop).await;
            }
        }
    }
}

/// One round over all kinds; how many marks there were.
pub async fn turn(app: &App, corp: &CorpApp) -> Result<usize, Error> {
    let mut marks = 0;
    for kind in [dirty::PAIR, dirty::PAIR_LATE] {
        for mark in corp.inbox.dirty_take(kind, None, TURN, LEASE_MS).await? {
            marks += 1;
            let read = match Pair::from_entity(&mark.entity) {
                Some(pair) => read_pair(app, corp, &pair).await,
                None => Ok(()),
            };
            done(app, corp, kind, mark, read).await?;
        }
    }
    for mark in corp
        .inbox
        .dirty_take(dirty::MEMBER, None, TURN, LEASE_MS)
        .await?
    {
        marks += 1;
        let read = read_member(app, corp, &mark.entity).await;
        done(app, corp, dirty::MEMBER, mark, read).await?;
    }
    Ok(marks)
}

/// Ends a mark, or puts it off: until there is a budget, or by a minute when WeCom did not answer.
async fn done(
    app: &App,
    corp: &CorpApp,
    kind: &str,
    mark: Taken,
    read: Result<(), Error>,
) -> Result<(), Error> {
    let again_ms = match read {
        Ok(()) => None,
        Err(Error::End(end::Error::Budget { until_ms })) => Some(until_ms),
        Err(Error::End(end::Error::Wecom(error))) => {
            tracing::warn!(corp = %corp.id, error = %error, "WeCom did not say what is true");
            Some(app.now_ms() + jittered(60_000))
        }
        Err(error) => return Err(error),
    };
    if kind == dirty::PAIR && again_ms.is_none() {
        let late = app
            .config
            .audit
            .reread_ms
            .last()
            .copied()
            .unwrap_or_default();
        if late > 0 {
            corp.inbox
                .dirty_mark(dirty::PAIR_LATE, &mark.entity, app.now_ms() + late)
                .await?;
        }
    }
    corp.inbox.dirty_done(kind, &[mark], again_ms).await?;
    Ok(())
}

/// Makes our picture of one pair what WeCom says.
pub async fn read_pair(app: &App, corp: &CorpApp, pair: &Pair) -> Result<(), Error> {
    let Ok(member) = MemberId::new(pair.userid.clone()) else {
        return Ok(());
    };
    let subject = SubjectKey::new(&corp.id, WECOM, &pair.external_userid);
    let relations = end::relations(app, corp, &pair.external_userid).await?;
    let relation = relations
        .iter()
        .find(|follower| follower.userid.eq_ignore_ascii_case(&pair.userid));
    let rows = app
        .ledger
        .allocations()
        .of_subject(&corp.id, &subject)
        .await?;
    match relation {
        Some(relation) => {
            let since = app.ledger.corps().created_ms(&corp.id).await?;
            if is_news(&rows, &member, relation, since) {
                decide(corp, pair, relation, subject, member).await?;
            }
        }
        None => ended(app, corp, subject, &member, &rows).await?,
    }
    Ok(())
}

/// A relation that no allocation of ours accounts for. Relations older than our first day are not ours to give away.
fn is_news(rows: &[Allocation], member: &MemberId, relation: &FollowUser, since_ms: u64) -> bool {
    let made_ms = relation
        .createtime
        .and_then(|s| u64::try_from(s).ok())
        .unwrap_or_default()
        .saturating_mul(1000);
    let about = rows
        .iter()
        .filter(|row| row.member.as_ref() == Some(member) || row.giver.as_ref() == Some(member));
    match about.max_by_key(|row| (row.closed_ms.is_none(), row.decided_ms)) {
        // WeCom's times are whole seconds.
        None => made_ms + 999 >= since_ms,
        Some(row) => match (row.closed_ms, row.close_reason.as_deref()) {
            (None, _) => false,
            // It was closed because he was gone; he is not.
            (Some(_), Some("member_deleted_customer" | "relation_gone")) => true,
            // A customer who left stays in the member's list at WeCom: only a newer relation is one.
            (Some(closed_ms), _) => made_ms > closed_ms,
        },
    }
}

async fn decide(
    corp: &CorpApp,
    pair: &Pair,
    relation: &FollowUser,
    subject: SubjectKey,
    holder: MemberId,
) -> Result<(), Error> {
    let (channel, pool, unknown_state): (Option<ChannelId>, PoolId, _) = match corp
        .routes()
        .find(relation.state.as_deref().filter(|state| !state.is_empty()))
    {
        Route::Channel(channel, pool) => (Some(channel), pool, None),
        Route::Default(pool) => (
            None,
            pool,
            relation.state.clone().filter(|state| !state.is_empty()),
        ),
        Route::Nowhere => return Ok(()),
    };
    let request = Request {
        allocation: AllocationId(Uuid::now_v7()),
        pool,
        subject,
        holder: Some(holder),
        request: None,
        echo: true,
    };
    let context = Context {
        source: "reread".to_owned(),
        subject_kind: WECOM.to_owned(),
        subject_id: pair.external_userid.clone(),
        channel: channel.map(|channel| channel.to_string()),
        unknown_state,
        holder: Some(pair.userid.clone()),
        ..Context::default()
    };
    metrics::counter!("paidan_found_total", "corp" => corp.id.to_string(), "what" => "added")
        .increment(1);
    let payload = Payload {
        contexts: vec![context],
        ..Payload::default()
    };
    corp.roster
        .decide(vec![request], &payload.text(), None)
        .await?;
    corp.log_grew.notify_one();
    Ok(())
}

/// WeCom knows no relation: what this member had of the customer ends. A customer who is still on his way to the
/// member is the transfer's business.
async fn ended(
    app: &App,
    corp: &CorpApp,
    subject: SubjectKey,
    member: &MemberId,
    rows: &[Allocation],
) -> Result<(), Error> {
    let Ok(reason) = Reason::new("relation_gone") else {
        return Ok(());
    };
    let his = |row: &&Allocation| {
        row.state == AllocationState::Open
            && row.settled_ms.is_some()
            && row.member.as_ref() == Some(member)
    };
    let closings: Vec<Closing> = rows
        .iter()
        .filter(his)
        .map(|row| Closing {
            subject,
            pool: Some(row.pool.clone()),
            member: Some(member.clone()),
            allocation: Some(row.id),
            reason: reason.clone(),
        })
        .collect();
    if !closings.is_empty() {
        metrics::counter!("paidan_found_total", "corp" => corp.id.to_string(), "what" => "ended")
            .increment(closings.len() as u64);
        corp.roster.close(closings, "", None).await?;
        corp.log_grew.notify_one();
    }
    let now_ms = app.now_ms();
    let on_the_way = app.ledger.transfers().open_for(&corp.id, &subject).await?;
    let steps: Vec<ledger::TransferStep> = on_the_way
        .into_iter()
        .filter(|transfer| transfer.state != ledger::TransferState::Planned)
        .map(|transfer| {
            let mut step = ledger::TransferStep::new(transfer.id, transfer.state);
            step.next_check_ms = Some(now_ms);
            step
        })
        .collect();
    if !steps.is_empty() {
        app.ledger.transfers().advance(&steps, now_ms).await?;
        corp.transfers_due.notify_one();
    }
    Ok(())
}

/// Whether a member is still there. Who is not gets nothing more; of one who left the open allocations end too, so that
/// his customers may come again. One who is disabled, or whom the app may not see for the moment, still has his customers at WeCom and may be back tomorrow.
pub async fn read_member(app: &App, corp: &CorpApp, userid: &str) -> Result<(), Error> {
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
    let again_ms = match (gone, row.blocked.as_ref().map(Reason::as_str)) {
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
    app.ledger
        .members()
        .set_blocked(&corp.id, member, blocked.as_ref(), &trail)
        .await?;
    let change = SetMember {
        member: member.clone(),
        cap: row.cap,
        blocked,
    };
    corp.roster.set_member(change, "", None).await?;
    corp.log_grew.notify_one();
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

#[cfg(test)]
#[path = "reread_tests.rs"]
mod tests;
