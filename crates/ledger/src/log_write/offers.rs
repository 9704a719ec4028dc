//! The offers of a batch: made, answered, over with their allocation; and what an allocation is while it is offered.

use std::collections::BTreeMap;

use allocation::{AllocationId, CorpId};
use time::OffsetDateTime;

use super::fold::Patch;
use super::rows::{CHUNK, column};
use crate::change::{NewOffer, OfferEnded};
use crate::connection::Work;
use crate::row::signed;
use crate::text::clean_option;
use crate::times::at;
use crate::{Error, OfferEnd};

/// What a batch does to offers.
#[derive(Debug, Default)]
pub(super) struct FoldedOffers<'b> {
    pub(super) made: Vec<(&'b NewOffer, u64)>,
    pub(super) ended: Vec<(&'b OfferEnded, u64)>,
    /// Allocations that nobody can accept any more, why and since when: the first time counts.
    over: BTreeMap<AllocationId, (OfferEnd, u64)>,
}

impl FoldedOffers<'_> {
    pub(super) fn over(&mut self, allocation: AllocationId, how: OfferEnd, at_ms: u64) {
        self.over.entry(allocation).or_insert((how, at_ms));
    }
}

/// What an open allocation is that nobody has accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Offered { since_ms: u64, until_ms: u64 },
    Undecided { since_ms: u64 },
}

impl Patch<'_> {
    /// Null: it stays as it was. '': neither offered nor undecided.
    pub(super) fn offer(&self) -> Option<&'static str> {
        Some(match self.stage? {
            None => "",
            Some(Stage::Offered { .. }) => "offered",
            Some(Stage::Undecided { .. }) => "undecided",
        })
    }

    pub(super) fn offer_since(&self) -> Option<OffsetDateTime> {
        match self.stage?? {
            Stage::Offered { since_ms, .. } | Stage::Undecided { since_ms } => Some(at(since_ms)),
        }
    }

    pub(super) fn offer_until(&self) -> Option<OffsetDateTime> {
        match self.stage?? {
            Stage::Offered { until_ms, .. } => Some(at(until_ms)),
            Stage::Undecided { .. } => None,
        }
    }
}

/// After the allocations.
pub(super) async fn write(
    work: &mut Work,
    corp: &CorpId,
    offers: &FoldedOffers<'_>,
) -> Result<(), Error> {
    for chunk in offers.made.chunks(CHUNK) {
        // Of an allocation that the ledger refused nobody was asked, as far as it knows.
        let query = work
            .query(
                "INSERT INTO offers (corp_id, allocation_id, epoch, pool_id, member, offered_at, offered_until)
                 SELECT $1, n.id, n.epoch, a.pool_id, n.member, n.at, n.until
                 FROM unnest($2::uuid[], $3::bigint[], $4::text[], $5::timestamptz[], $6::timestamptz[])
                    AS n (id, epoch, member, at, until)
                 JOIN allocations AS a ON a.id = n.id AND a.corp_id = $1
                    AND a.close_reason IS DISTINCT FROM 'conflict' AND a.close_reason IS DISTINCT FROM 'echo'
                 ON CONFLICT DO NOTHING",
            )
            .bind(corp.as_str())
            .bind(column(chunk, |(offer, _)| offer.allocation.0))
            .bind(column(chunk, |(offer, _)| signed(offer.epoch)))
            .bind(column(chunk, |(offer, _)| offer.member.as_str()))
            .bind(column(chunk, |(_, at_ms)| at(*at_ms)))
            .bind(column(chunk, |(offer, _)| at(offer.until_ms)));
        work.execute(query).await?;
    }
    for chunk in offers.ended.chunks(CHUNK) {
        let query = work
            .query(
                "UPDATE offers AS o SET ended_at = n.at, reason = n.reason, responded_by = n.responded_by,
                    ended_as = CASE WHEN n.how = 'timed_out' AND n.at < o.offered_until THEN 'offline' ELSE n.how END
                 FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::timestamptz[])
                    AS n (id, epoch, how, reason, responded_by, at)
                 WHERE o.allocation_id = n.id AND o.epoch = n.epoch AND o.ended_at IS NULL",
            )
            .bind(column(chunk, |(ended, _)| ended.allocation.0))
            .bind(column(chunk, |(ended, _)| signed(ended.epoch)))
            .bind(column(chunk, |(ended, _)| ended.how.as_str()))
            .bind(column(chunk, |(ended, _)| {
                ended.reason.as_ref().map(|reason| reason.as_str())
            }))
            .bind(column(chunk, |(ended, _)| {
                clean_option(ended.responded_by.as_ref())
            }))
            .bind(column(chunk, |(_, at_ms)| at(*at_ms)));
        work.execute(query).await?;
    }
    let over: Vec<_> = offers.over.iter().collect();
    for chunk in over.chunks(CHUNK) {
        let query = work
            .query(
                "UPDATE offers AS o SET ended_at = n.at, ended_as = n.how
                 FROM unnest($1::uuid[], $2::text[], $3::timestamptz[]) AS n (id, how, at)
                 WHERE o.allocation_id = n.id AND o.ended_at IS NULL",
            )
            .bind(column(chunk, |(id, _)| id.0))
            .bind(column(chunk, |(_, (how, _))| how.as_str()))
            .bind(column(chunk, |(_, (_, at_ms))| at(*at_ms)));
        work.execute(query).await?;
    }
    Ok(())
}
