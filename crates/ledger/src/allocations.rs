//! Who got whom: reading. The log writer makes them, and ends them.

mod about;
pub(crate) mod given;
mod list;
mod owners;
mod preferences;
mod responses;
mod standing;

use std::collections::{HashMap, HashSet};

use allocation::{AllocationId, ChannelId, CorpId, MemberId, PoolId, RequestId, SubjectKey};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::Error;
use crate::connection::{Db, Work};
use crate::log_write::column;
use crate::row::Columns;
use crate::times::at;

pub use given::Counted;
pub use list::AllocationFilter;
pub use responses::ResponseTimes;
pub use standing::Standing;

#[derive(Debug, Clone)]
pub struct Allocations {
    pub(crate) db: Db,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AllocationState {
    Waiting,
    /// A member is asked and has not accepted.
    Offered,
    /// Nobody is left to ask: a person must decide.
    Undecided,
    Open,
    Closed,
}

impl AllocationState {
    pub fn as_str(self) -> &'static str {
        match self {
            AllocationState::Waiting => "waiting",
            AllocationState::Offered => "offered",
            AllocationState::Undecided => "undecided",
            AllocationState::Open => "open",
            AllocationState::Closed => "closed",
        }
    }
}

impl std::str::FromStr for AllocationState {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<AllocationState, Self::Err> {
        match text {
            "waiting" => Ok(AllocationState::Waiting),
            "offered" => Ok(AllocationState::Offered),
            "undecided" => Ok(AllocationState::Undecided),
            "open" => Ok(AllocationState::Open),
            "closed" => Ok(AllocationState::Closed),
            _ => Err("no state of an allocation"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    pub id: AllocationId,
    pub pool: PoolId,
    /// Surrogate id.
    pub customer: Uuid,
    pub subject: SubjectKey,
    /// None: it waits, or a person must decide, or it ended so. Of one that is offered: who is asked.
    pub member: Option<MemberId>,
    /// Who had the customer at WeCom when it was assigned.
    pub holder: Option<MemberId>,
    /// The holder, if that is not the member himself.
    pub giver: Option<MemberId>,
    pub channel: Option<ChannelId>,
    pub source: String,
    pub delivery: Option<String>,
    pub request: Option<RequestId>,
    pub state: AllocationState,
    pub epoch: u64,
    pub decided_ms: u64,
    pub assigned_ms: Option<u64>,
    /// Since when it is offered, or undecided.
    pub offer_since_ms: Option<u64>,
    /// Until when the member who is asked may answer.
    pub offer_until_ms: Option<u64>,
    pub settled_ms: Option<u64>,
    /// `done`, `kept`, `void` or `closed`.
    pub settled_as: Option<String>,
    pub closed_ms: Option<u64>,
    pub close_reason: Option<String>,
    pub decided_seq: u64,
    pub changed_seq: u64,
}

/// An open allocation that is not carried out yet, and the transfer that was to do it (the last one of its epoch).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsettled {
    pub allocation: Allocation,
    pub transfer: Option<crate::Transfer>,
}

/// A page of open allocations, those with a transfer under way left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsettledPage {
    pub rows: Vec<Unsettled>,
    /// Where the next page begins; None: that was the last.
    pub next: Option<Place>,
}

/// Where a page ended: when it was assigned (or decided, where the page is in that order), and which it is.
pub type Place = (u64, AllocationId);

macro_rules! columns {
    () => {
        "a.id, a.pool_id, a.customer_id, a.subject, a.member, a.holder, a.channel_id, a.source, a.delivery,
         a.request_id, coalesce(a.offer, a.state) AS state, a.epoch, a.decided_at, a.assigned_at, a.offer_since,
         a.offer_until, a.settled_at, a.settled_as, a.closed_at, a.close_reason, a.decided_seq, a.changed_seq"
    };
}
use columns;

impl Allocations {
    pub async fn get(&self, corp: &CorpId, id: AllocationId) -> Result<Option<Allocation>, Error> {
        Ok(self.get_many(corp, &[id]).await?.pop())
    }

    /// In no particular order.
    pub async fn get_many(
        &self,
        corp: &CorpId,
        ids: &[AllocationId],
    ) -> Result<Vec<Allocation>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(concat!(
                "SELECT ",
                columns!(),
                " FROM allocations AS a WHERE a.corp_id = $1 AND a.id = ANY($2)"
            ))
            .bind(corp.as_str())
            .bind(column(ids, |id| id.0));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        read_all(&rows)
    }

    /// All that are open or waiting for a subject.
    pub async fn open_of(
        &self,
        corp: &CorpId,
        subject: &SubjectKey,
    ) -> Result<Vec<Allocation>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(concat!(
                "SELECT ",
                columns!(),
                " FROM allocations AS a WHERE a.corp_id = $1 AND a.subject = $2 AND a.closed_at IS NULL
                 ORDER BY a.decided_at, a.id"
            ))
            .bind(corp.as_str())
            .bind(subject.to_string());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        read_all(&rows)
    }

    /// What a request was answered, when Redis has forgotten it: the allocation it made.
    pub async fn by_request(
        &self,
        corp: &CorpId,
        request: &RequestId,
    ) -> Result<Option<Allocation>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(concat!(
                "SELECT ",
                columns!(),
                " FROM allocations AS a WHERE a.corp_id = $1 AND a.request_id = $2
                 ORDER BY a.decided_at, a.id LIMIT 1"
            ))
            .bind(corp.as_str())
            .bind(request.as_str());
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        row.as_ref().map(read).transpose()
    }

    /// Open allocations of each member that has any, over all pools.
    pub async fn open_by_member(&self, corp: &CorpId) -> Result<Vec<(MemberId, u64)>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT member, count(*) AS n FROM allocations
                 WHERE corp_id = $1 AND closed_at IS NULL AND member IS NOT NULL GROUP BY member ORDER BY member",
            )
            .bind(corp.as_str());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter()
            .map(|row| Ok((row.parsed("member")?, row.number("n")?)))
            .collect()
    }

    /// Open or waiting allocations of a pool that were decided before a time, oldest first: its load window. One that is
    /// still to be carried out is not let go: while its customer is on his way, his events must find it.
    pub async fn open_before(
        &self,
        corp: &CorpId,
        pool: &PoolId,
        before_ms: u64,
        limit: u32,
    ) -> Result<Vec<Allocation>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(concat!(
                "SELECT ",
                columns!(),
                " FROM allocations AS a WHERE a.corp_id = $1 AND a.pool_id = $2 AND a.closed_at IS NULL
                    AND a.decided_at < $3 AND (a.settled_at IS NOT NULL OR a.member IS NULL)
                 ORDER BY a.decided_at, a.id LIMIT $4"
            ))
            .bind(corp.as_str())
            .bind(pool.as_str())
            .bind(at(before_ms))
            .bind(i64::from(limit));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        read_all(&rows)
    }

    /// Allocations that the ledger refused and that Redis may still have open, oldest first, at most `limit`. They stay
    /// here until the log says that they were closed.
    pub async fn lost(&self, corp: &CorpId, limit: u32) -> Result<Vec<Allocation>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(concat!(
                "SELECT ",
                columns!(),
                " FROM allocations AS a WHERE a.corp_id = $1 AND a.close_reason IN ('conflict', 'echo')
                    AND a.changed_seq = a.decided_seq ORDER BY a.decided_at, a.id LIMIT $2"
            ))
            .bind(corp.as_str())
            .bind(i64::from(limit));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        read_all(&rows)
    }

    /// Looks at the next `limit` open allocations that are not settled, assigned before a time, oldest first, and
    /// answers those without a transfer under way: what is to be driven to its end. A page at a time, because those
    /// with one are tens of thousands after a surge, for a day and more.
    pub async fn unsettled(
        &self,
        corp: &CorpId,
        assigned_before_ms: u64,
        after: Option<Place>,
        limit: u32,
    ) -> Result<UnsettledPage, Error> {
        let mut work = self.db.single().await?;
        let (after_ms, after_id) = after.unwrap_or((0, AllocationId(Uuid::nil())));
        let query = work
            .query_once(concat!(
                "SELECT ",
                columns!(),
                " FROM allocations AS a
                 WHERE a.corp_id = $1 AND a.settled_at IS NULL AND a.closed_at IS NULL AND a.member IS NOT NULL
                    AND a.offer IS NULL AND a.assigned_at <= $2 AND (a.assigned_at, a.id) > ($3, $4)
                 ORDER BY a.assigned_at, a.id LIMIT $5"
            ))
            .bind(corp.as_str())
            .bind(at(assigned_before_ms))
            .bind(at(after_ms))
            .bind(after_id.0)
            .bind(i64::from(limit));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let allocations = read_all(&rows)?;
        let full = allocations.len() == usize::try_from(limit).unwrap_or(usize::MAX);
        let next = allocations
            .last()
            .filter(|_| full)
            .map(|last| (last.assigned_ms.unwrap_or_default(), last.id));
        let ids = column(&allocations, |allocation| allocation.id);
        let transfers = crate::Transfers {
            db: self.db.clone(),
        }
        .of_allocations(corp, &ids)
        .await?;
        let mut under_way = HashSet::new();
        let mut last: HashMap<AllocationId, crate::Transfer> = HashMap::new();
        for transfer in transfers {
            let Some(allocation) = transfer.allocation else {
                continue;
            };
            if transfer.ended_ms.is_none() {
                under_way.insert(allocation);
            }
            last.insert(allocation, transfer);
        }
        let rows = allocations
            .into_iter()
            .filter(|allocation| !under_way.contains(&allocation.id))
            .map(|allocation| Unsettled {
                transfer: last
                    .remove(&allocation.id)
                    .filter(|transfer| Some(&transfer.taker) == allocation.member.as_ref()),
                allocation,
            })
            .collect();
        Ok(UnsettledPage { rows, next })
    }
}

fn read_all(rows: &[PgRow]) -> Result<Vec<Allocation>, Error> {
    rows.iter().map(read).collect()
}

fn read(row: &PgRow) -> Result<Allocation, Error> {
    let member: Option<MemberId> = row.parsed_option("member")?;
    let holder: Option<MemberId> = row.parsed_option("holder")?;
    Ok(Allocation {
        giver: holder
            .clone()
            .filter(|holder| Some(holder) != member.as_ref()),
        holder,
        id: AllocationId(row.value("id")?),
        pool: row.parsed("pool_id")?,
        customer: row.value("customer_id")?,
        subject: row.parsed("subject")?,
        member,
        channel: row.parsed_option("channel_id")?,
        source: row.value("source")?,
        delivery: row.value("delivery")?,
        request: row.parsed_option("request_id")?,
        state: row.parsed("state")?,
        epoch: row.number("epoch")?,
        decided_ms: row.ms("decided_at")?,
        assigned_ms: row.ms_option("assigned_at")?,
        offer_since_ms: row.ms_option("offer_since")?,
        offer_until_ms: row.ms_option("offer_until")?,
        settled_ms: row.ms_option("settled_at")?,
        settled_as: row.value("settled_as")?,
        closed_ms: row.ms_option("closed_at")?,
        close_reason: row.value("close_reason")?,
        decided_seq: row.number("decided_seq")?,
        changed_seq: row.number("changed_seq")?,
    })
}
