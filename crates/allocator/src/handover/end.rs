//! How a transfer's end settles its allocation. Settling twice is settling once, so every path may come here again.

use allocation::{
    AllocationId, Assignment, MemberId, Reason, Reassigned, Reassignment, Settled, Settlement,
    SettlementOutcome,
};
use ledger::{Allocation, AllocationState, Found, Transfer, TransferState};
use metrics::counter;
use wecom::client::{Customer, api};

use crate::{
    app::{App, CorpApp},
    payload::Payload,
    permit,
};

use super::{blame, rules};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("ledger: {0}")]
    Ledger(#[from] ledger::Error),
    #[error("roster: {0}")]
    Roster(#[from] roster::Error),
    #[error("WeCom: {0}")]
    Wecom(#[from] wecom::Error),
    #[error("the budget is used until {until_ms}")]
    Budget { until_ms: u64 },
}

/// No such member: he left, was deleted, or the app may not see him any more (pages 90196, 90313).
pub const GONE: [i64; 2] = [40003, 60111];

/// Whose fault a failed start was, and so what follows for the allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// He cannot take this customer, or nobody now: leave him out and pick another. With `blocked`, he gets nothing
    /// more until somebody mends it.
    Taker { blocked: Option<&'static str> },
    /// The customer may not be moved (again): he stays where he is.
    Customer,
    /// Our picture is old: WeCom says who has him.
    Picture,
    /// Giver or taker is gone: `user/get` says who.
    Member,
    /// Giver or taker has not logged in for a year; nobody says who. A person must find out.
    Login,
}

/// Settles after an end that `transfer_result` told.
pub async fn settle(
    app: &App,
    corp: &CorpApp,
    transfer: &Transfer,
    end: TransferState,
) -> Result<(), Error> {
    let Some(allocation) = open(app, corp, transfer.allocation).await? else {
        return Ok(());
    };
    if superseded(&allocation, transfer) {
        return match end {
            TransferState::Done => onward(app, corp, &allocation, &transfer.taker).await,
            _ => Ok(()),
        };
    }
    match end {
        TransferState::Done => settled(corp, &allocation, SettlementOutcome::Done).await,
        TransferState::Refused
        | TransferState::Capped
        | TransferState::Failed
        | TransferState::Cancelled => {
            where_he_is(app, corp, &allocation, &transfer.giver, &transfer.taker).await
        }
        _ => Ok(()),
    }
}

/// Settles after a start that WeCom, or our own records, refused.
pub async fn refused(
    app: &App,
    corp: &CorpApp,
    transfer: &Transfer,
    fault: Fault,
) -> Result<(), Error> {
    let Some(allocation) = open(app, corp, transfer.allocation).await? else {
        return Ok(());
    };
    if superseded(&allocation, transfer) {
        return Ok(());
    }
    match fault {
        Fault::Customer => kept(app, corp, &allocation, &transfer.giver).await,
        Fault::Picture => {
            where_he_is(app, corp, &allocation, &transfer.giver, &transfer.taker).await
        }
        Fault::Taker { blocked } => {
            if let Some(reason) = blocked {
                blame::block(app, corp, &transfer.taker, reason).await?;
            }
            another(app, corp, &allocation, transfer).await
        }
        Fault::Member if blame::is_gone(app, corp, &transfer.taker).await? => {
            blame::block(app, corp, &transfer.taker, blame::LEFT).await?;
            another(app, corp, &allocation, transfer).await
        }
        Fault::Member => {
            if !blame::is_gone(app, corp, &transfer.giver).await? {
                blame::nobody(corp, transfer, "one of the two is gone, but both are there");
            }
            where_he_is(app, corp, &allocation, &transfer.giver, &transfer.taker).await
        }
        Fault::Login => {
            blame::nobody(
                corp,
                transfer,
                "one of the two has not logged in for a year",
            );
            where_he_is(app, corp, &allocation, &transfer.giver, &transfer.taker).await
        }
    }
}

/// Settles after a person said what became of a transfer of which WeCom did not. What cannot be settled now is found by
/// the task that looks for unsettled allocations.
pub async fn by_hand(app: &App, corp: &CorpApp, transfer: &Transfer, found: Found) {
    let settled = async {
        match found {
            Found::Done => settle(app, corp, transfer, TransferState::Done).await?,
            Found::Kept => refused(app, corp, transfer, Fault::Customer).await?,
            Found::Retry => {}
        }
        let transfers = app.ledger.transfers();
        transfers
            .hasten(&corp.id, &transfer.subject, app.now_ms())
            .await?;
        Ok::<_, Error>(())
    };
    if let Err(error) = settled.await {
        tracing::warn!(corp = %corp.id, error = %error, "an allocation is settled later");
    }
    corp.effects_due.notify_waiters();
}

/// Settles an allocation that no transfer of its own will settle: another allocation's transfer moved the customer.
pub async fn settle_by_truth(
    app: &App,
    corp: &CorpApp,
    allocation: &Allocation,
) -> Result<(), Error> {
    let (Some(giver), Some(taker)) = (&allocation.giver, &allocation.member) else {
        return Ok(());
    };
    if app
        .ledger
        .transfers()
        .open_for(&corp.id, &allocation.subject)
        .await?
        .is_empty()
    {
        where_he_is(app, corp, allocation, giver, taker).await?;
    }
    Ok(())
}

async fn open(
    app: &App,
    corp: &CorpApp,
    id: Option<AllocationId>,
) -> Result<Option<Allocation>, Error> {
    let Some(id) = id else { return Ok(None) };
    let row = app.ledger.allocations().get(&corp.id, id).await?;
    Ok(row.filter(|row| row.state == AllocationState::Open && row.settled_ms.is_none()))
}

/// The customer was given to another member since: what becomes of this transfer does not settle the allocation.
fn superseded(allocation: &Allocation, transfer: &Transfer) -> bool {
    allocation.member.as_ref() != Some(&transfer.taker)
}

/// An earlier transfer brought the customer to a member whom he is not for any more: from him he goes to the member he is
/// for.
async fn onward(
    app: &App,
    corp: &CorpApp,
    allocation: &Allocation,
    from: &MemberId,
) -> Result<(), Error> {
    let Some(taker) = &allocation.member else {
        return Ok(());
    };
    let now_ms = app.now_ms();
    let (id, subject) = (allocation.id, allocation.subject);
    let (transfer, effect) = rules::start(now_ms, id, subject, from, taker, Some(allocation.epoch));
    let transfers = app.ledger.transfers();
    if transfers
        .plan_onward(&corp.id, allocation, &transfer, &effect, now_ms)
        .await?
    {
        corp.effects_due.notify_waiters();
    }
    Ok(())
}

/// The giver keeps the customer, unless an earlier transfer is still moving him: its end says where he is.
async fn kept(
    app: &App,
    corp: &CorpApp,
    allocation: &Allocation,
    giver: &MemberId,
) -> Result<(), Error> {
    let earlier = earlier(app, corp, allocation).await?;
    if earlier.iter().any(moving) {
        return Ok(());
    }
    settled(corp, allocation, SettlementOutcome::Kept(giver.clone())).await
}

/// Transfers of the allocation to members whom it was taken from since, oldest first.
async fn earlier(
    app: &App,
    corp: &CorpApp,
    allocation: &Allocation,
) -> Result<Vec<Transfer>, Error> {
    let transfers = app.ledger.transfers();
    let mut all = transfers.of_allocations(&corp.id, &[allocation.id]).await?;
    all.retain(|transfer| superseded(allocation, transfer));
    Ok(all)
}

/// It may end with the customer at its taker.
fn moving(transfer: &Transfer) -> bool {
    transfer.started_ms.is_some() && transfer.ended_ms.is_none()
}

/// Settles it, if it is as it was seen: the ledger runs behind, and whoever was given the customer a moment ago is not the
/// one this is about. What is left so is looked at again. The script compares once more; it is not called in vain,
/// because each call is an entry in the log.
async fn settled(
    corp: &CorpApp,
    allocation: &Allocation,
    outcome: SettlementOutcome,
) -> Result<(), Error> {
    let open = corp.roster.allocations_of(&allocation.subject).await?;
    let as_seen = open.iter().any(|one| {
        one.allocation == allocation.id
            && one.epoch == allocation.epoch
            && one.member == allocation.member
    });
    if !as_seen {
        return Ok(());
    }
    let word = match outcome {
        SettlementOutcome::Done => "done",
        SettlementOutcome::Kept(_) => "kept",
        SettlementOutcome::Void(_) => "void",
    };
    let settlement = Settlement {
        allocation: allocation.id,
        pool: allocation.pool.clone(),
        subject: allocation.subject,
        outcome,
        expect: Some(Assignment {
            member: allocation.member.clone(),
            epoch: allocation.epoch,
        }),
    };
    let settled = corp.roster.settle(settlement, "", None).await?;
    if !matches!(settled.answer, Settled::Stale { .. }) {
        counter!("paidan_settled_total", "corp" => corp.id.to_string(), "outcome" => word)
            .increment(1);
    }
    corp.log_grew.notify_one();
    Ok(())
}

/// Reads who follows the customer now. WeCom's answers contradict each other about what a refusal leaves behind, so
/// nothing is assumed. Nothing is given up while any member has him.
async fn where_he_is(
    app: &App,
    corp: &CorpApp,
    allocation: &Allocation,
    giver: &MemberId,
    taker: &MemberId,
) -> Result<(), Error> {
    let earlier = earlier(app, corp, allocation).await?;
    if earlier.iter().any(moving) {
        // Its end comes here again.
        return Ok(());
    }
    let customer = app
        .ledger
        .customers()
        .find(&corp.id, &allocation.subject)
        .await?;
    let followers = match customer.and_then(|customer| customer.external_id) {
        Some(external_userid) => relations(app, corp, &external_userid).await?,
        None => Vec::new(),
    };
    let outcome = match place(&members(followers), &earlier, giver, taker) {
        Place::Taker => SettlementOutcome::Done,
        Place::Stays(member) => SettlementOutcome::Kept(member),
        Place::Onward(from) => return onward(app, corp, allocation, &from).await,
        Place::Nobody => {
            let Ok(reason) = Reason::new("relation_gone") else {
                return Ok(());
            };
            SettlementOutcome::Void(reason)
        }
    };
    settled(corp, allocation, outcome).await
}

/// What follows from where a customer is.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Taker,
    /// With this member, who keeps him.
    Stays(MemberId),
    /// With a member to whom an earlier transfer of the allocation brought him.
    Onward(MemberId),
    Nobody,
}

/// `followers`: who got him last comes first. `earlier`: transfers of the same allocation, oldest first.
fn place(
    followers: &[MemberId],
    earlier: &[Transfer],
    giver: &MemberId,
    taker: &MemberId,
) -> Place {
    if followers.contains(taker) {
        return Place::Taker;
    }
    // A read may lag and name the giver still.
    let brought = earlier.iter().rev().find(|transfer| {
        transfer.state == TransferState::Done && followers.contains(&transfer.taker)
    });
    match brought {
        Some(transfer) if transfer.taker != *giver => Place::Onward(transfer.taker.clone()),
        _ if followers.contains(giver) => Place::Stays(giver.clone()),
        _ => match followers.first() {
            Some(other) => Place::Stays(other.clone()),
            None => Place::Nobody,
        },
    }
}

/// Who got the customer last comes first.
fn members(mut followers: Vec<wecom::client::FollowUser>) -> Vec<MemberId> {
    followers.sort_by_key(|follower| std::cmp::Reverse(follower.createtime));
    followers
        .into_iter()
        .filter_map(|follower| MemberId::new(follower.userid).ok())
        .collect()
}

/// The members who have this customer now, with all that WeCom says about each relation; nobody, if there is no such
/// relation any more.
pub async fn relations(
    app: &App,
    corp: &CorpApp,
    external_userid: &str,
) -> Result<Vec<wecom::client::FollowUser>, Error> {
    Ok(customer(app, corp, external_userid).await?.0)
}

/// As [`relations`], with his unionid, if WeCom tells it.
pub async fn customer(
    app: &App,
    corp: &CorpApp,
    external_userid: &str,
) -> Result<(Vec<wecom::client::FollowUser>, Option<String>), Error> {
    /// Not of this app, no relation, nobody who follows him.
    const NOBODY: [i64; 3] = [40096, 84061, 84084];
    let read = |cursor: Option<String>| async move {
        corp.client
            .get_customer(external_userid, cursor.as_deref())
            .await
    };
    let next = |page: &mut Customer| std::mem::take(&mut page.next_cursor);
    let pages = permit::pages(app, corp, api::GET_CUSTOMER, read, next)
        .await
        .map_err(|until_ms| Error::Budget { until_ms })?;
    match pages {
        Ok(pages) => {
            let told = pages
                .iter()
                .find_map(|page| page.external_contact.unionid.clone());
            let unionid = told.filter(|unionid| !unionid.is_empty());
            let followers = pages.into_iter().flat_map(|page| page.follow_user);
            Ok((followers.collect(), unionid))
        }
        Err(error) if error.errcode().is_some_and(|code| NOBODY.contains(&code)) => {
            Ok((Vec::new(), None))
        }
        Err(error) => Err(error.into()),
    }
}

/// Gives the customer to somebody else; if nobody else is free, the giver keeps him.
async fn another(
    app: &App,
    corp: &CorpApp,
    allocation: &Allocation,
    transfer: &Transfer,
) -> Result<(), Error> {
    let payload = Payload {
        giver: Some(transfer.giver.to_string()),
        ..Payload::default()
    };
    // Whoever refused this customer before would refuse again.
    let mut exclude: Vec<MemberId> = app
        .ledger
        .transfers()
        .of_allocations(&corp.id, &[allocation.id])
        .await?
        .into_iter()
        .map(|earlier| earlier.taker)
        .collect();
    exclude.push(transfer.taker.clone());
    exclude.sort();
    exclude.dedup();
    exclude.truncate(allocation::MAX_EXCLUDED);
    let reassignment = Reassignment {
        allocation: allocation.id,
        pool: allocation.pool.clone(),
        subject: allocation.subject,
        to: None,
        exclude,
        expect_epoch: allocation.epoch,
    };
    let applied = corp
        .roster
        .reassign(reassignment, &payload.text(), None)
        .await?;
    corp.log_grew.notify_one();
    match applied.answer {
        Reassigned::Nobody => kept(app, corp, allocation, &transfer.giver).await,
        _ => Ok(()),
    }
}
