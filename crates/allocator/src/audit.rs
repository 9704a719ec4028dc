//! The slow audit: WeCom does not promise that every event arrives, so every member's customers are compared with the
//! ledger once in a stated time, one member after the other, within what the budget leaves. Differences become doubts
//! for `reread`; nothing is concluded here.

pub mod seat_rows;
mod unassigned;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use allocation::{MemberId, SubjectKey};
use ledger::Allocation;
use quota::Urgency;
use tokio_util::sync::CancellationToken;
use wecom::client::{BatchRow, Pager, api};

use crate::{
    app::{App, CorpApp},
    backoff::{Backoff, jittered, sleep},
    decide::dirty,
    handover::end,
    permit,
    reception::intake::{Pair, WECOM},
    reread::{self, Error},
};

pub use unassigned::unassigned;

/// How long one process has the right to audit a member.
const LEASE_MS: u64 = 120_000;
/// Dirty kind: members whose customers are to be compared, due one after the other.
const AUDIT: &str = "audit";
/// How often the list of members is refreshed and a due one looked for.
const LOOK: Duration = Duration::from_secs(1);

/// Audits until the program stops.
pub async fn run(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    let period_ms = app.config.audit.period_ms;
    if period_ms == 0 {
        return;
    }
    let mut backoff = Backoff::store();
    let mut listed_ms = 0;
    let mut unassigned_ms = 0;
    while sleep(LOOK, &stop).await {
        let now_ms = app.now_ms();
        let turned = async {
            if now_ms >= listed_ms + period_ms {
                schedule(&app, &corp, period_ms).await?;
                listed_ms = now_ms;
            }
            if now_ms >= unassigned_ms {
                unassigned_ms = look_for_left(&app, &corp, now_ms + period_ms).await?;
            }
            next(&app, &corp, period_ms).await
        };
        match turned.await {
            Ok(()) => backoff.reset(),
            Err(error) => {
                tracing::warn!(corp = %corp.id, error = %error, "the audit waits");
                backoff.wait(&stop).await;
            }
        }
    }
}

/// Answers when to look again. An app that may not read the list misses only what events and the audit find too.
async fn look_for_left(app: &App, corp: &CorpApp, next_ms: u64) -> Result<u64, Error> {
    match unassigned(app, corp).await {
        Ok(_) => Ok(next_ms),
        Err(Error::End(end::Error::Budget { until_ms })) => Ok(until_ms),
        Err(Error::End(end::Error::Wecom(error))) => {
            tracing::warn!(corp = %corp.id, error = %error, "customers whose member has left were not listed");
            Ok(next_ms)
        }
        Err(error) => Err(error),
    }
}

/// Compares everybody now, as `audit::run` does over a period. Answers how many pairs are in doubt.
pub async fn everybody(app: &App, corp: &CorpApp) -> Result<usize, Error> {
    let mut doubts = 0;
    for userid in members(app, corp).await? {
        doubts += member(app, corp, &userid).await?;
    }
    Ok(doubts)
}

/// Spreads the members over the period. A member who is marked already keeps his time.
async fn schedule(app: &App, corp: &CorpApp, period_ms: u64) -> Result<(), Error> {
    let members = members(app, corp).await?;
    let now_ms = app.now_ms();
    let step = period_ms / (members.len() as u64).max(1);
    let marks: Vec<(&str, u64)> = members
        .iter()
        .zip(0u64..)
        .map(|(userid, nth)| (userid.as_str(), now_ms + step * nth))
        .collect();
    corp.inbox.dirty_mark_many(AUDIT, &marks).await?;
    Ok(())
}

async fn next(app: &App, corp: &CorpApp, period_ms: u64) -> Result<(), Error> {
    for mark in corp.inbox.dirty_take(AUDIT, None, 1, LEASE_MS).await? {
        let again_ms = match member(app, corp, &mark.entity).await {
            Ok(_) => Some(app.now_ms() + period_ms),
            Err(Error::End(end::Error::Budget { until_ms })) => Some(until_ms),
            // He would fail for ever. Should he be back, the next list of members has him.
            Err(Error::End(end::Error::Wecom(error))) if reread::is_away(&error) => {
                corp.inbox
                    .dirty_mark(dirty::MEMBER, &mark.entity, app.now_ms())
                    .await?;
                None
            }
            Err(Error::End(end::Error::Wecom(error))) => {
                tracing::warn!(corp = %corp.id, error = %error, "a member's customers were not listed");
                Some(app.now_ms() + jittered(60_000))
            }
            Err(error) => return Err(error),
        };
        corp.inbox.dirty_done(AUDIT, &[mark], again_ms).await?;
    }
    Ok(())
}

/// Who may have customers, as WeCom says.
async fn members(app: &App, corp: &CorpApp) -> Result<Vec<String>, Error> {
    let permit = permit::take(app, corp, api::GET_FOLLOW_USER_LIST, Urgency::Ordinary)
        .await
        .map_err(|until_ms| end::Error::Budget { until_ms })?;
    let answer = corp.client.get_follow_user_list().await;
    permit::done(app, corp, api::GET_FOLLOW_USER_LIST, &permit, &answer).await;
    Ok(answer.map_err(end::Error::Wecom)?)
}

/// Compares one member's customers with the ledger; what differs is in doubt.
async fn member(app: &App, corp: &CorpApp, userid: &str) -> Result<usize, Error> {
    let Ok(member) = MemberId::new(userid) else {
        return Ok(0);
    };
    let permit = permit::take(app, corp, api::LIST_CUSTOMERS, Urgency::Ordinary)
        .await
        .map_err(|until_ms| end::Error::Budget { until_ms })?;
    let answer = corp.client.list_customers(userid).await;
    permit::done(app, corp, api::LIST_CUSTOMERS, &permit, &answer).await;
    let listed = answer.map_err(end::Error::Wecom)?;
    let by_subject: Vec<(SubjectKey, &String)> = listed
        .iter()
        .map(|external| (SubjectKey::new(&corp.id, WECOM, external), external))
        .collect();
    let subjects: Vec<SubjectKey> = by_subject.iter().map(|(subject, _)| *subject).collect();
    let known: HashSet<SubjectKey> = app
        .ledger
        .allocations()
        .tied_to(&corp.id, &member, &subjects)
        .await?;
    let mut doubts = Vec::new();
    // Whoever is tied to nothing of ours may have come before our first day, or before his allocation ended: most of a
    // corp's customers are such, and to ask for each of them alone would eat the budget.
    if by_subject
        .iter()
        .any(|(subject, _)| !known.contains(subject))
    {
        doubts = news(app, corp, &member, &known).await?;
    }
    let listed: HashSet<SubjectKey> = subjects.into_iter().collect();
    for customer in app
        .ledger
        .allocations()
        .settled_customers_of(&corp.id, &member)
        .await?
    {
        if !listed.contains(&customer.subject)
            && let Some(external) = &customer.external_id
        {
            doubts.push(pair(userid, external));
        }
    }
    let due_ms = app.now_ms();
    let marks: Vec<(&str, u64)> = doubts
        .iter()
        .map(|entity| (entity.as_str(), due_ms))
        .collect();
    corp.inbox.dirty_mark_many(dirty::PAIR, &marks).await?;
    Ok(doubts.len())
}

/// The member's relations that no allocation accounts for, read by the hundred. He may get customers between the pages,
/// so a page is taken as it is.
async fn news(
    app: &App,
    corp: &CorpApp,
    member: &MemberId,
    known: &HashSet<SubjectKey>,
) -> Result<Vec<String>, Error> {
    let since_ms = app.ledger.corps().created_ms(&corp.id).await?;
    let userid = [member.to_string()];
    let mut doubts = Vec::new();
    let mut pager = Pager::new(api::BATCH_GET_BY_USER);
    while let Some(cursor) = pager.next() {
        let permit = permit::take(app, corp, api::BATCH_GET_BY_USER, Urgency::Ordinary)
            .await
            .map_err(|until_ms| end::Error::Budget { until_ms })?;
        let answer = corp.client.batch_get_by_user(&userid, cursor).await;
        permit::done(app, corp, api::BATCH_GET_BY_USER, &permit, &answer).await;
        let page = match answer {
            Ok(page) => page,
            Err(error) => {
                pager.restart_after(error).map_err(end::Error::Wecom)?;
                doubts.clear();
                continue;
            }
        };
        let relations: Vec<(SubjectKey, &BatchRow)> = page
            .external_contact_list
            .iter()
            .map(|row| {
                let external = &row.external_contact.external_userid;
                (SubjectKey::new(&corp.id, WECOM, external), row)
            })
            .filter(|(subject, _)| !known.contains(subject))
            .collect();
        let subjects: Vec<SubjectKey> = relations.iter().map(|(subject, _)| *subject).collect();
        let latest: HashMap<SubjectKey, Allocation> = app
            .ledger
            .allocations()
            .latest_about(&corp.id, member, &subjects)
            .await?
            .into_iter()
            .map(|row| (row.subject, row))
            .collect();
        doubts.extend(
            relations
                .iter()
                .filter(|(subject, row)| {
                    reread::is_news(latest.get(subject), row.follow_info.createtime, since_ms)
                })
                .map(|(_, row)| pair(member.as_str(), &row.external_contact.external_userid)),
        );
        pager.advance(page.next_cursor).map_err(end::Error::Wecom)?;
    }
    Ok(doubts)
}

fn pair(userid: &str, external: &str) -> String {
    Pair {
        userid: userid.to_owned(),
        external_userid: external.to_owned(),
    }
    .entity()
}
