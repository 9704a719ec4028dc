//! Doubts, resolved by asking WeCom: a pair whose events conflict or repeat, a member who may have left. Marks are
//! durable and each is read once however often it was made; reads lag, so a pair is read a second time later.

mod member;

use std::{sync::Arc, time::Duration};

use allocation::{AllocationId, Closing, Confirmation, MemberId, Reason, SubjectKey};
use inbox::Taken;
use ledger::{Allocation, AllocationState};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use wecom::client::FollowUser;

use crate::{
    app::{App, CorpApp},
    backoff::{Backoff, jittered},
    decide::dirty,
    handover::end,
    payload::{Context, Payload},
    reception::{
        intake::{self, Pair, Step, WECOM},
        owners,
        visits::{Visitor, VisitorKind},
    },
};

/// Marks taken in one turn, and how long they are ours.
const TURN: usize = 50;
const LEASE_MS: u64 = 60_000;
const IDLE: Duration = Duration::from_millis(500);
use member::read_member;
pub(crate) use member::{is_away, read_listed_member};

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
    let (relations, unionid) = end::customer(app, corp, &pair.external_userid).await?;
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
            let visitor = unionid.map(|id| {
                let kind = VisitorKind::Unionid;
                Visitor { kind, id }.subject(corp)
            });
            let customer = Customer {
                subject,
                holder: member,
                visitor,
            };
            let latest = latest_about(&rows, &customer.holder);
            if is_news(latest, relation.createtime, since)
                || is_seen(app, corp, customer.visitor).await?
            {
                decide(app, corp, pair, relation, customer).await?;
            }
        }
        None => ended(app, corp, subject, &member, &rows).await?,
    }
    Ok(())
}

/// What stands of a customer's allocations between him and this member, as `ledger`'s `latest_about` has it.
fn latest_about<'a>(rows: &'a [Allocation], member: &MemberId) -> Option<&'a Allocation> {
    let about = |row: &&Allocation| {
        row.member.as_ref() == Some(member) || row.holder.as_ref() == Some(member)
    };
    rows.iter()
        .filter(about)
        .max_by_key(|row| (row.closed_ms.is_none(), row.decided_ms))
}

/// A relation that no allocation of ours accounts for, as the latest about this member and customer says. Relations
/// older than our first day are not ours to give away.
pub(crate) fn is_news(latest: Option<&Allocation>, createtime: Option<i64>, since_ms: u64) -> bool {
    let made_ms = createtime
        .and_then(|s| u64::try_from(s).ok())
        .unwrap_or_default()
        .saturating_mul(1000);
    match latest {
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

/// Who has come to whom.
struct Customer {
    subject: SubjectKey,
    holder: MemberId,
    /// As whom he opened our page, if WeCom tells it.
    visitor: Option<SubjectKey>,
}

/// A member is held for this visitor still, as nobody knew that he has come.
async fn is_seen(app: &App, corp: &CorpApp, visitor: Option<SubjectKey>) -> Result<bool, Error> {
    let Some(visitor) = visitor.filter(|_| app.config.visits.look_up_unionid) else {
        return Ok(false);
    };
    let open = corp.roster.allocations_of(&visitor).await?;
    Ok(open.iter().any(|open| open.hold.is_some()))
}

async fn decide(
    app: &App,
    corp: &CorpApp,
    pair: &Pair,
    relation: &FollowUser,
    customer: Customer,
) -> Result<(), Error> {
    let Customer {
        subject,
        holder,
        visitor,
    } = customer;
    let state = relation.state.as_deref().filter(|state| !state.is_empty());
    let lead = intake::lead(state, &corp.routes(), &corp.ways);
    let context = Context {
        source: "reread".to_owned(),
        subject_kind: WECOM.to_owned(),
        subject_id: pair.external_userid.clone(),
        holder: Some(pair.userid.clone()),
        ..Context::default()
    };
    let allocation = AllocationId(Uuid::now_v7());
    let payload = |context: Box<Context>| {
        let contexts = vec![*context];
        let payload = Payload {
            contexts,
            ..Payload::default()
        };
        payload.text()
    };
    let mut asked = [intake::asks(lead, allocation, subject, holder, context)];
    owners::give_plans(app, corp, &mut asked).await;
    let [asked] = asked;
    match asked {
        Step::Decide { request, context } => {
            let payload = payload(context);
            corp.roster.decide(vec![request], &payload, None).await?;
        }
        Step::Confirm {
            confirmation,
            context,
        } => {
            // Who WeCom says he is outranks the slot.
            let confirmation = Confirmation {
                visitor,
                ..confirmation
            };
            let (asked, payload) = (vec![confirmation], payload(context));
            corp.roster.confirm(asked, &payload, None).await?;
        }
        _ => return Ok(()),
    }
    metrics::counter!("paidan_found_total", "corp" => corp.id.to_string(), "what" => "added")
        .increment(1);
    corp.log_grew.notify_one();
    Ok(())
}

/// WeCom knows no relation: what this member had of the customer ends, waiting for another included. A customer who is
/// still on his way to the member is the transfer's business.
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
    let his = |row: &&Allocation| match row.state {
        AllocationState::Open => row.settled_ms.is_some() && row.member.as_ref() == Some(member),
        AllocationState::Waiting | AllocationState::Offered | AllocationState::Undecided => {
            row.holder.as_ref() == Some(member)
        }
        AllocationState::Closed => false,
    };
    let closings: Vec<Closing> = rows
        .iter()
        .filter(his)
        .map(|row| Closing {
            subject,
            pool: Some(row.pool.clone()),
            // None of one who waits; and of an offer, which may be another member's by now.
            member: row
                .member
                .clone()
                .filter(|_| row.state == AllocationState::Open),
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

#[cfg(test)]
#[path = "reread_tests.rs"]
mod tests;
