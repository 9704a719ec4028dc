//! The visits of a batch: begun, held after a wait, ended; and the customers that visitors turned out to be.

use allocation::{AllocationId, CorpId, SubjectKey};

use super::Conflict;
use super::customers::Customers;
use super::fold::Folded;
use super::rows::{CHUNK, column, ids};
use crate::Error;
use crate::change::{NewVisit, VisitEnded, VisitHeld};
use crate::connection::Work;
use crate::row::{Columns, signed};
use crate::times::{at, at_option};

/// What a batch does to visits.
#[derive(Debug, Default)]
pub(super) struct FoldedVisits<'b> {
    pub(super) begun: Vec<(&'b NewVisit, u64)>,
    pub(super) held: Vec<&'b VisitHeld>,
    pub(super) ended: Vec<(&'b VisitEnded, u64)>,
    /// Allocations of earlier batches, and whose they are now.
    pub(super) confirmed: Vec<(AllocationId, SubjectKey, u64)>,
    /// Allocations that were closed, whatever they were.
    pub(super) closed: Vec<(AllocationId, u64)>,
}

/// An allocation that was a visitor's becomes the customer's. Where he has another one in the ledger, that one stands.
pub(super) async fn confirmed(
    work: &mut Work,
    corp: &CorpId,
    customers: &Customers,
    folded: &Folded<'_>,
) -> Result<Vec<Conflict>, Error> {
    let mut conflicts = Vec::new();
    for chunk in folded.visits.confirmed.chunks(CHUNK) {
        let query = work
            .query(
                "UPDATE allocations AS a SET customer_id = n.customer_id, subject = n.subject
                 FROM unnest($2::uuid[], $3::uuid[], $4::text[]) AS n (id, customer_id, subject)
                 WHERE a.corp_id = $1 AND a.id = n.id AND (a.closed_at IS NOT NULL OR NOT EXISTS (
                    SELECT FROM allocations AS o WHERE o.corp_id = $1 AND o.pool_id = a.pool_id
                        AND o.subject = n.subject AND o.closed_at IS NULL AND o.id <> n.id))
                 RETURNING a.id",
            )
            .bind(corp.as_str())
            .bind(column(chunk, |(id, ..)| id.0))
            .bind(column(chunk, |(_, subject, _)| customers.id(subject)))
            .bind(column(chunk, |(_, subject, _)| subject.to_string()));
        let done = ids(&work.fetch_all(query).await?)?;
        let left: Vec<_> = chunk
            .iter()
            .filter(|(id, ..)| !done.contains(&id.0))
            .collect();
        if left.is_empty() {
            continue;
        }
        // As one that lost: closed here, and to be ended in Redis, where it is the customer's already.
        let query = work
            .query(
                "UPDATE allocations AS a SET customer_id = n.customer_id, subject = n.subject, closed_at = n.at,
                    close_reason = 'conflict', settled_at = coalesce(a.settled_at, n.at),
                    settled_as = coalesce(a.settled_as, 'closed'), changed_seq = a.decided_seq
                 FROM unnest($2::uuid[], $3::uuid[], $4::text[], $5::timestamptz[])
                    AS n (id, customer_id, subject, at)
                 JOIN LATERAL (SELECT o.id FROM allocations AS o JOIN allocations AS h ON h.id = n.id
                    WHERE o.corp_id = $1 AND o.pool_id = h.pool_id AND o.subject = n.subject
                        AND o.closed_at IS NULL AND o.id <> n.id LIMIT 1) AS standing (stands) ON true
                 WHERE a.corp_id = $1 AND a.id = n.id
                 RETURNING a.id AS lost, standing.stands",
            )
            .bind(corp.as_str())
            .bind(column(&left, |(id, ..)| id.0))
            .bind(column(&left, |(_, subject, _)| customers.id(subject)))
            .bind(column(&left, |(_, subject, _)| subject.to_string()))
            .bind(column(&left, |(.., at_ms)| at(*at_ms)));
        for row in work.fetch_all(query).await? {
            conflicts.push(Conflict {
                lost: AllocationId(row.value("lost")?),
                stands: AllocationId(row.value("stands")?),
            });
        }
    }
    Ok(conflicts)
}

/// After the allocations.
pub(super) async fn write(
    work: &mut Work,
    corp: &CorpId,
    visits: &FoldedVisits<'_>,
) -> Result<(), Error> {
    for chunk in visits.begun.chunks(CHUNK) {
        let query = work
            .query(
                "INSERT INTO visits (corp_id, allocation_id, channel_id, visitor, slot, hold_ms, rest_ms, began_at,
                    held_until)
                 SELECT $1, * FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::bigint[],
                    $7::bigint[], $8::timestamptz[], $9::timestamptz[])
                 ON CONFLICT DO NOTHING",
            )
            .bind(corp.as_str())
            .bind(column(chunk, |(visit, _)| visit.allocation.0))
            .bind(column(chunk, |(visit, _)| visit.channel.as_str()))
            .bind(column(chunk, |(visit, _)| visit.visitor.to_string()))
            .bind(column(chunk, |(visit, _)| visit.slot.as_ref().map(|slot| slot.as_str())))
            .bind(column(chunk, |(visit, _)| signed(visit.hold_ms)))
            .bind(column(chunk, |(visit, _)| signed(visit.rest_ms)))
            .bind(column(chunk, |(_, at_ms)| at(*at_ms)))
            .bind(column(chunk, |(visit, _)| at(visit.until_ms)));
        work.execute(query).await?;
    }
    for chunk in visits.held.chunks(CHUNK) {
        let query = work
            .query(
                "UPDATE visits AS v SET slot = coalesce(n.slot, v.slot), held_until = n.until
                 FROM unnest($1::uuid[], $2::text[], $3::timestamptz[]) AS n (id, slot, until)
                 WHERE v.allocation_id = n.id AND v.ended_at IS NULL",
            )
            .bind(column(chunk, |held| held.allocation.0))
            .bind(column(chunk, |held| {
                held.slot.as_ref().map(|slot| slot.as_str())
            }))
            .bind(column(chunk, |held| at(held.until_ms)));
        work.execute(query).await?;
    }
    // In their order, as a hold may expire and its visitor come late in one batch.
    for (index, chunk) in by_allocation(&visits.ended).into_iter().enumerate() {
        debug_assert!(index < 8, "a hold ends a few times at most");
        for chunk in chunk.chunks(CHUNK) {
            ended(work, chunk).await?;
        }
    }
    for chunk in visits.closed.chunks(CHUNK) {
        let query = work
            .query(
                "UPDATE visits AS v SET ended_at = n.at, ended_as = 'closed'
                 FROM unnest($1::uuid[], $2::timestamptz[]) AS n (id, at)
                 WHERE v.allocation_id = n.id AND v.ended_at IS NULL",
            )
            .bind(column(chunk, |(id, _)| id.0))
            .bind(column(chunk, |(_, at_ms)| at(*at_ms)));
        work.execute(query).await?;
    }
    Ok(())
}

/// The first end of each allocation, then the second of those that have one, and so on: a statement changes a row once.
fn by_allocation<'e, 'b>(
    ended: &'e [(&'b VisitEnded, u64)],
) -> Vec<Vec<&'e (&'b VisitEnded, u64)>> {
    let mut seen: std::collections::HashMap<AllocationId, usize> = Default::default();
    let mut rounds: Vec<Vec<&(&VisitEnded, u64)>> = Vec::new();
    for one in ended {
        let round = seen.entry(one.0.allocation).or_default();
        if rounds.len() <= *round {
            rounds.push(Vec::new());
        }
        rounds[*round].push(one);
        *round += 1;
    }
    rounds
}

async fn ended(work: &mut Work, chunk: &[&(&VisitEnded, u64)]) -> Result<(), Error> {
    // Whoever ended otherwise and came afterwards was late, or had added somebody else; an end that was his own stays.
    let query = work
        .query(
            "UPDATE visits AS v SET ended_at = coalesce(v.ended_at, n.at), ended_as = n.how, matched = n.matched,
                next_allocation = n.next, slot = coalesce(v.slot, n.slot)
             FROM unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[], $5::timestamptz[], $6::text[])
                AS n (id, how, matched, next, at, slot)
             WHERE v.allocation_id = n.id AND (v.ended_as IS NULL OR v.ended_as = 'expired')",
        )
        .bind(column(chunk, |(visit, _)| visit.allocation.0))
        .bind(column(chunk, |(visit, _)| visit.how.as_str()))
        .bind(column(chunk, |(visit, _)| crate::visits::matched(visit.matched)))
        .bind(column(chunk, |(visit, _)| visit.next.map(|id| id.0)))
        .bind(column(chunk, |(_, at_ms)| at_option(Some(*at_ms))))
        .bind(column(chunk, |(visit, _)| {
            visit.slot.as_ref().map(|slot| slot.as_str())
        }));
    work.execute(query).await?;
    Ok(())
}
