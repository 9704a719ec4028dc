//! Offers: reading. The log writer makes and ends them.

use std::collections::HashMap;
use std::str::FromStr;

use allocation::{AllocationId, CorpId, MemberId, PoolId};
use sqlx::postgres::PgRow;

use crate::Error;
use crate::connection::{Db, Work};
use crate::cursor::{Page, PageRequest, Window};
use crate::row::{Columns, signed};
use crate::times::at;

const LIST: &str = "offers";

#[derive(Debug, Clone)]
pub struct Offers {
    pub(crate) db: Db,
}

/// What became of an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OfferEnd {
    Accepted,
    Declined,
    /// He did not answer in time.
    TimedOut,
    /// He went, or was blocked, before he answered.
    Offline,
    /// The allocation was closed.
    Closed,
    /// A person gave the customer to somebody.
    Reassigned,
}

impl OfferEnd {
    pub const ALL: [Self; 6] = [
        Self::Accepted,
        Self::Declined,
        Self::TimedOut,
        Self::Offline,
        Self::Closed,
        Self::Reassigned,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Declined => "declined",
            Self::TimedOut => "timed_out",
            Self::Offline => "offline",
            Self::Closed => "closed",
            Self::Reassigned => "reassigned",
        }
    }
}

impl FromStr for OfferEnd {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.into_iter();
        all.find(|end| end.as_str() == text)
            .ok_or("no end of an offer")
    }
}

/// One time that a member was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub allocation: AllocationId,
    pub epoch: u64,
    pub pool: PoolId,
    pub member: MemberId,
    pub offered_ms: u64,
    pub until_ms: u64,
    pub ended_ms: Option<u64>,
    pub ended_as: Option<OfferEnd>,
    /// Why he declined.
    pub reason: Option<String>,
    pub responded_by: Option<String>,
}

/// Every field that is given must match.
#[derive(Debug, Clone, Default)]
pub struct OfferFilter {
    pub member: Option<MemberId>,
    pub pool: Option<PoolId>,
    pub allocation: Option<AllocationId>,
    /// Some(None): those that are not answered.
    pub ended_as: Option<Option<OfferEnd>>,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT o.allocation_id, o.epoch, o.pool_id, o.member, o.offered_at, o.offered_until, o.ended_at, o.ended_as,
                o.reason, o.responded_by FROM offers AS o WHERE o.corp_id = $1 ",
            $rest
        )
    };
}

macro_rules! list {
    ($state:literal, $rest:literal) => {
        concat!(
            select!(
                "AND ($2::text IS NULL OR o.member = $2) AND ($3::text IS NULL OR o.pool_id = $3)
                 AND ($4::uuid IS NULL OR o.allocation_id = $4) AND "
            ),
            $state,
            $rest
        )
    };
}

/// Forward and backward.
macro_rules! both {
    ($state:literal) => {
        (
            list!(
                $state,
                " AND ($6::timestamptz IS NULL OR (o.offered_at, o.allocation_id, o.epoch) < ($6, $7, $8))
                 ORDER BY o.offered_at DESC, o.allocation_id DESC, o.epoch DESC LIMIT $9"
            ),
            list!(
                $state,
                " AND ($6::timestamptz IS NULL OR (o.offered_at, o.allocation_id, o.epoch) > ($6, $7, $8))
                 ORDER BY o.offered_at, o.allocation_id, o.epoch LIMIT $9"
            ),
        )
    };
}

const ANY: (&str, &str) = both!("($5::text IS NULL OR o.ended_as = $5)");
// These have an index: they are few among very many.
const OPEN: (&str, &str) = both!("$5::text IS NULL AND o.ended_at IS NULL");

impl Offers {
    /// Newest first.
    pub async fn list(
        &self,
        corp: &CorpId,
        filter: &OfferFilter,
        page: &PageRequest,
    ) -> Result<Page<Offer>, Error> {
        let window = Window::read(page, LIST)?;
        let place = window.id().map(read_place).transpose()?;
        let (forward, backward) = match filter.ended_as {
            Some(None) => OPEN,
            _ => ANY,
        };
        let mut work = self.db.single().await?;
        let query = work
            .query_once(if window.is_backward() {
                backward
            } else {
                forward
            })
            .bind(corp.as_str())
            .bind(filter.member.as_ref().map(|member| member.as_str()))
            .bind(filter.pool.as_ref().map(|pool| pool.as_str()))
            .bind(filter.allocation.map(|id| id.0))
            .bind(filter.ended_as.flatten().map(OfferEnd::as_str))
            .bind(window.time())
            .bind(place.map(|(id, _)| id.0))
            .bind(place.map(|(_, epoch)| signed(epoch)))
            .bind(window.fetch());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let rows = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Ok(window.page(LIST, rows, |offer| {
            let place = format!("{}.{}", offer.allocation, offer.epoch);
            (at(offer.offered_ms), place)
        }))
    }

    /// All of one allocation, in their order.
    pub async fn of_allocation(
        &self,
        corp: &CorpId,
        allocation: AllocationId,
    ) -> Result<Vec<Offer>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(select!("AND o.allocation_id = $2 ORDER BY o.epoch"))
            .bind(corp.as_str())
            .bind(allocation.0);
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter().map(read).collect()
    }
}

/// Who was asked before about each allocation that is offered or that a person must decide, in that order.
pub(crate) async fn tried(
    work: &mut Work,
    corp: &CorpId,
) -> Result<HashMap<AllocationId, Vec<MemberId>>, Error> {
    let query = work
        .query_once(
            "SELECT o.allocation_id, o.member FROM allocations AS a
             JOIN offers AS o ON o.allocation_id = a.id AND o.ended_at IS NOT NULL
             WHERE a.corp_id = $1 AND a.offer IS NOT NULL ORDER BY o.allocation_id, o.epoch",
        )
        .bind(corp.as_str());
    let mut tried: HashMap<AllocationId, Vec<MemberId>> = HashMap::new();
    for row in work.fetch_all(query).await? {
        let allocation = AllocationId(row.value("allocation_id")?);
        tried
            .entry(allocation)
            .or_default()
            .push(row.parsed("member")?);
    }
    Ok(tried)
}

/// Where a page ended: allocation and epoch.
fn read_place(text: &str) -> Result<(AllocationId, u64), Error> {
    let (allocation, epoch) = text.split_once('.').ok_or(Error::Cursor)?;
    let allocation = allocation.parse().map_err(|_| Error::Cursor)?;
    Ok((allocation, epoch.parse().map_err(|_| Error::Cursor)?))
}

fn read(row: &PgRow) -> Result<Offer, Error> {
    Ok(Offer {
        allocation: AllocationId(row.value("allocation_id")?),
        epoch: row.number("epoch")?,
        pool: row.parsed("pool_id")?,
        member: row.parsed("member")?,
        offered_ms: row.ms("offered_at")?,
        until_ms: row.ms("offered_until")?,
        ended_ms: row.ms_option("ended_at")?,
        ended_as: row.parsed_option("ended_as")?,
        reason: row.value("reason")?,
        responded_by: row.value("responded_by")?,
    })
}
