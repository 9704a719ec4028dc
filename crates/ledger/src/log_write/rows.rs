//! Writes a folded batch, a table at a time: customers, what existing allocations became, what is taken back, new
//! allocations, transfers, effects, outcomes. Rows in the order of their keys, at most so many in a statement.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use allocation::{AllocationId, CorpId, MemberId};
use time::OffsetDateTime;
use uuid::Uuid;

use super::fold::{Effect, Folded, NewRow, Patch, Transfer};
use super::{Conflict, Written};
use crate::change::Entry;
use crate::connection::Work;
use crate::row::{Columns, signed};
use crate::text::{clean, clean_json, clean_option};
use crate::times::{at, at_option};
use crate::{Error, outbox};

const CHUNK: usize = 5_000;
/// Close reason of an allocation that the ledger had already.
const CONFLICT: &str = "conflict";
/// Close reason of an allocation that is the echo of a transfer.
const ECHO: &str = "echo";
/// How long after we know that a transfer is done its events may still come.
const ECHO_MS: u64 = 10 * 60 * 1000;

pub(super) async fn log(
    work: &mut Work,
    corp: &CorpId,
    generation: u64,
    entries: &[Entry],
) -> Result<(), Error> {
    for chunk in entries.chunks(CHUNK) {
        let query = work
            .query(
                "INSERT INTO log (corp_id, generation, seq, at_ms, op, args, result)
                 SELECT $1, $2, * FROM unnest($3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[])",
            )
            .bind(corp.as_str())
            .bind(signed(generation))
            .bind(column(chunk, |entry| signed(entry.seq)))
            .bind(column(chunk, |entry| signed(entry.at_ms)))
            .bind(column(chunk, |entry| clean(&entry.op)))
            .bind(column(chunk, |entry| clean(&entry.args)))
            .bind(column(chunk, |entry| clean(&entry.result)));
        work.execute(query).await?;
    }
    Ok(())
}

pub(super) async fn changes(
    work: &mut Work,
    corp: &CorpId,
    folded: Folded<'_>,
    written: &mut Written,
) -> Result<(), Error> {
    customers(work, corp, &folded).await?;
    patches(work, &folded.patches).await?;
    cancel(work, &folded).await?;
    let mut new: Vec<&NewRow<'_>> = folded.new.iter().collect();
    written.echoes = echoes(work, corp, &new).await?;
    if !written.echoes.is_empty() {
        let is_echo = |row: &&NewRow<'_>| written.echoes.contains(&row.decided.allocation);
        let (echoes, others): (Vec<_>, Vec<_>) = new.into_iter().partition(is_echo);
        let query = insert_allocations(work, corp, &echoes, Some(ECHO));
        work.execute(query).await?;
        new = others;
    }
    for chunk in new.chunks(CHUNK) {
        written
            .conflicts
            .extend(allocations(work, corp, chunk).await?);
    }
    let lost: HashSet<AllocationId> = written
        .conflicts
        .iter()
        .map(|conflict| conflict.lost)
        .chain(written.echoes.iter().copied())
        .collect();
    let stands =
        |allocation: Option<AllocationId>| !allocation.is_some_and(|id| lost.contains(&id));
    let transfers: Vec<&Transfer<'_>> = folded
        .transfers
        .iter()
        .filter(|transfer| stands(transfer.new.allocation))
        .collect();
    for chunk in transfers.chunks(CHUNK) {
        written
            .transfers_under_way
            .extend(self::transfers(work, corp, chunk).await?);
    }
    let under_way: HashSet<Uuid> = written.transfers_under_way.iter().copied().collect();
    let wanted = |effect: &&Effect<'_>| {
        stands(effect.new.allocation)
            && !effect
                .new
                .transfer
                .is_some_and(|id| under_way.contains(&id))
    };
    let effects: Vec<&Effect<'_>> = folded.effects.iter().filter(wanted).collect();
    for chunk in effects.chunks(CHUNK) {
        self::effects(work, corp, chunk).await?;
    }
    for chunk in folded.audit.chunks(CHUNK) {
        crate::audit::write(work, corp, chunk).await?;
    }
    crate::deliveries::write_outcomes(work, corp, &folded.outcomes).await
}

async fn customers(work: &mut Work, corp: &CorpId, folded: &Folded<'_>) -> Result<(), Error> {
    let customers: Vec<_> = folded.customers().into_iter().collect();
    for chunk in customers.chunks(CHUNK) {
        let query = work
            .query(crate::customers::UPSERT)
            .bind(corp.as_str())
            .bind(column(chunk, |_| Uuid::now_v7()))
            .bind(column(chunk, |(subject, _)| subject.to_string()))
            .bind(column(chunk, |(_, customer)| clean(&customer.kind)))
            .bind(column(chunk, |(_, customer)| {
                clean_option(customer.external_id.as_ref())
            }));
        work.execute(query).await?;
    }
    Ok(())
}

async fn patches(
    work: &mut Work,
    patches: &BTreeMap<AllocationId, Patch<'_>>,
) -> Result<(), Error> {
    let patches: Vec<_> = patches.iter().collect();
    for chunk in patches.chunks(CHUNK) {
        let query = work
            .query(
                "UPDATE allocations AS a SET
                    member = coalesce(p.member, a.member),
                    holder = coalesce(p.holder, a.holder),
                    epoch = greatest(p.epoch, a.epoch) + p.raised,
                    assigned_at = coalesce(p.assigned_at, a.assigned_at, p.kept_at),
                    settled_at = CASE WHEN a.settled_at IS NOT NULL AND NOT p.unsettled THEN a.settled_at
                        ELSE coalesce(p.settled_at, p.closed_at) END,
                    settled_as = CASE WHEN a.settled_at IS NOT NULL AND NOT p.unsettled THEN a.settled_as
                        WHEN p.settled_at IS NOT NULL THEN p.settled_as
                        WHEN p.closed_at IS NOT NULL THEN 'closed' END,
                    closed_at = p.closed_at,
                    close_reason = p.close_reason,
                    changed_seq = p.seq
                 FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::timestamptz[],
                        $7::timestamptz[], $8::boolean[], $9::timestamptz[], $10::text[], $11::timestamptz[],
                        $12::text[], $13::bigint[])
                    AS p (id, seq, member, holder, epoch, assigned_at, kept_at, unsettled, settled_at, settled_as,
                        closed_at, close_reason, raised)
                 WHERE a.id = p.id AND a.closed_at IS NULL AND a.changed_seq < p.seq",
            )
            .bind(column(chunk, |(id, _)| id.0))
            .bind(column(chunk, |(_, patch)| signed(patch.seq)))
            .bind(column(chunk, |(_, patch)| patch.member.map(|member| member.as_str())))
            .bind(column(chunk, |(_, patch)| patch.holder.map(|holder| holder.as_str())))
            .bind(column(chunk, |(_, patch)| patch.epoch.map(signed)))
            .bind(column(chunk, |(_, patch)| at_option(patch.assigned_ms)))
            .bind(column(chunk, |(_, patch)| at_option(patch.kept_ms)))
            .bind(column(chunk, |(_, patch)| patch.unsettled))
            .bind(column(chunk, |(_, patch)| patch.settled_at()))
            .bind(column(chunk, |(_, patch)| patch.settled.map(|(word, _)| word)))
            .bind(column(chunk, |(_, patch)| patch.closed_at()))
            .bind(column(chunk, |(_, patch)| patch.closed.map(|(reason, _)| reason)))
            .bind(column(chunk, |(_, patch)| signed(patch.raised)));
        work.execute(query).await?;
        ended(work, chunk).await?;
    }
    Ok(())
}

/// Of those that lost before: Redis has ended them too.
async fn ended(work: &mut Work, patches: &[(&AllocationId, &Patch<'_>)]) -> Result<(), Error> {
    let ended: Vec<_> = patches
        .iter()
        .filter(|(_, patch)| patch.closed.is_some())
        .collect();
    if ended.is_empty() {
        return Ok(());
    }
    let query = work
        .query(
            "UPDATE allocations AS a SET changed_seq = p.seq FROM unnest($1::uuid[], $2::bigint[]) AS p (id, seq)
             WHERE a.id = p.id AND a.close_reason IN ('conflict', 'echo') AND a.changed_seq = a.decided_seq
                AND a.changed_seq < p.seq",
        )
        .bind(column(&ended, |(id, _)| id.0))
        .bind(column(&ended, |(_, patch)| signed(patch.seq)));
    work.execute(query).await?;
    Ok(())
}

/// What earlier batches asked for and nobody has sent yet.
async fn cancel(work: &mut Work, folded: &Folded<'_>) -> Result<(), Error> {
    let new = folded
        .new
        .iter()
        .map(|row| (row.decided.allocation, &row.patch));
    let patched = folded.patches.iter().map(|(id, patch)| (*id, patch));
    let over: Vec<_> = new
        .chain(patched)
        .filter(|(_, patch)| patch.closed.is_some() || patch.superseded.is_some())
        .collect();
    let now = at(folded.last_ms);
    for chunk in over.chunks(CHUNK) {
        let ids = column(chunk, |(id, _)| id.0);
        // No epoch: everything of the allocation.
        let epochs = column(chunk, |(_, patch)| match patch.closed {
            Some(_) => None,
            None => patch.superseded.map(signed),
        });
        let query = work.query(outbox::CANCEL).bind(now).bind(&ids).bind(epochs);
        work.execute(query).await?;
        let query = work
            .query(crate::transfers::CANCEL_PLANNED)
            .bind(now)
            .bind(ids);
        work.execute(query).await?;
    }
    Ok(())
}

/// The new allocations that an event asked for whose member is the taker of a transfer that goes on, or was done just
/// now. Redis knows an echo by the open allocation; this is for those whose allocation is not there any more. Looked up
/// one by one, as customers are.
async fn echoes(
    work: &mut Work,
    corp: &CorpId,
    rows: &[&NewRow<'_>],
) -> Result<Vec<AllocationId>, Error> {
    let asked: Vec<(&NewRow<'_>, &MemberId)> = rows
        .iter()
        .filter(|row| row.decided.echo && row.patch.closed.is_none())
        .filter_map(|row| Some((*row, row.decided.giver.as_ref()?)))
        .collect();
    let mut echoes = Vec::new();
    for chunk in asked.chunks(CHUNK) {
        let query = work
            .query(
                "SELECT n.id FROM unnest($2::uuid[], $3::text[], $4::text[], $5::timestamptz[])
                    AS n (id, subject, taker, done_after)
                 CROSS JOIN LATERAL (SELECT FROM transfers AS t
                    WHERE t.corp_id = $1 AND t.subject = n.subject AND t.taker = n.taker AND t.started_at IS NOT NULL
                        AND (t.ended_at IS NULL OR t.state = 'done' AND t.ended_at >= n.done_after)
                    LIMIT 1) AS transfer",
            )
            .bind(corp.as_str())
            .bind(column(chunk, |(row, _)| row.decided.allocation.0))
            .bind(column(chunk, |(row, _)| row.decided.subject.to_string()))
            .bind(column(chunk, |(_, taker)| taker.as_str()))
            .bind(column(chunk, |(row, _)| at(row.at_ms.saturating_sub(ECHO_MS))));
        let found = ids(&work.fetch_all(query).await?)?;
        echoes.extend(found.into_iter().map(AllocationId));
    }
    Ok(echoes)
}

/// Answers the new allocations that lost against an open one; they are written as closed.
async fn allocations(
    work: &mut Work,
    corp: &CorpId,
    rows: &[&NewRow<'_>],
) -> Result<Vec<Conflict>, Error> {
    let query = insert_allocations(work, corp, rows, None);
    let inserted = ids(&work.fetch_all(query).await?)?;
    if inserted.len() == rows.len() {
        return Ok(Vec::new());
    }
    let left: Vec<&NewRow<'_>> = rows
        .iter()
        .copied()
        .filter(|row| !inserted.contains(&row.decided.allocation.0))
        .collect();
    // An id that is there already was written before: no conflict.
    let query = work
        .query(
            "SELECT n.id AS lost, a.id AS stands
             FROM unnest($2::uuid[], $3::text[], $4::text[]) AS n (id, pool_id, subject)
             JOIN allocations AS a ON a.corp_id = $1 AND a.pool_id = n.pool_id AND a.subject = n.subject
                AND a.closed_at IS NULL
             WHERE NOT EXISTS (SELECT FROM allocations AS known WHERE known.id = n.id)",
        )
        .bind(corp.as_str())
        .bind(column(&left, |row| row.decided.allocation.0))
        .bind(column(&left, |row| row.decided.pool.as_str()))
        .bind(column(&left, |row| row.decided.subject.to_string()));
    let mut conflicts = Vec::new();
    for row in work.fetch_all(query).await? {
        conflicts.push(Conflict {
            lost: AllocationId(row.value("lost")?),
            stands: AllocationId(row.value("stands")?),
        });
    }
    let lost: Vec<&NewRow<'_>> = left
        .into_iter()
        .filter(|row| {
            conflicts
                .iter()
                .any(|conflict| conflict.lost == row.decided.allocation)
        })
        .collect();
    let query = insert_allocations(work, corp, &lost, Some(CONFLICT));
    work.execute(query).await?;
    Ok(conflicts)
}

fn insert_allocations(
    work: &Work,
    corp: &CorpId,
    rows: &[&NewRow<'_>],
    lost: Option<&'static str>,
) -> crate::connection::Statement {
    let closed_at = |row: &&NewRow<'_>| match row.patch.closed_at() {
        None if lost.is_some() => Some(at(row.at_ms)),
        closed => closed,
    };
    work.query(
        "INSERT INTO allocations (corp_id, id, pool_id, customer_id, subject, member, holder, channel_id, source,
            delivery, request_id, epoch, decided_at, assigned_at, settled_at, settled_as, closed_at, close_reason,
            decided_seq, changed_seq)
         SELECT $1, n.id, n.pool_id, c.id, n.subject, n.member, n.holder, n.channel_id, n.source,
            n.delivery, n.request_id, n.epoch, n.decided_at, n.assigned_at,
            coalesce(n.settled_at, n.closed_at),
            coalesce(n.settled_as, CASE WHEN n.closed_at IS NOT NULL THEN 'closed' END),
            n.closed_at, n.close_reason, n.decided_seq, n.changed_seq
         FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
                $10::text[], $11::bigint[], $12::timestamptz[], $13::timestamptz[], $14::timestamptz[], $15::text[],
                $16::timestamptz[], $17::text[], $18::bigint[], $19::bigint[])
            AS n (id, pool_id, subject, member, holder, channel_id, source, delivery, request_id, epoch, decided_at,
                assigned_at, settled_at, settled_as, closed_at, close_reason, decided_seq, changed_seq)
         CROSS JOIN LATERAL (SELECT id FROM customers WHERE corp_id = $1 AND subject = n.subject LIMIT 1) AS c
         ORDER BY n.decided_seq, n.id
         ON CONFLICT DO NOTHING
         RETURNING id",
    )
    .bind(corp.as_str())
    .bind(column(rows, |row| row.decided.allocation.0))
    .bind(column(rows, |row| row.decided.pool.as_str()))
    .bind(column(rows, |row| row.decided.subject.to_string()))
    .bind(column(rows, |row| row.patch.member.map(|member| member.as_str())))
    .bind(column(rows, |row| row.patch.holder.map(|holder| holder.as_str())))
    .bind(column(rows, |row| row.decided.channel.as_ref().map(|channel| channel.as_str())))
    .bind(column(rows, |row| clean(&row.decided.source)))
    .bind(column(rows, |row| clean_option(row.decided.delivery.as_ref())))
    .bind(column(rows, |row| row.decided.request.as_ref().map(|request| request.as_str())))
    .bind(column(rows, |row| signed(row.patch.epoch.unwrap_or(0) + row.patch.raised)))
    .bind(column(rows, |row| at(row.at_ms)))
    .bind(column(rows, |row| at_option(row.patch.assigned_ms.or(row.patch.kept_ms))))
    .bind(column(rows, |row| row.patch.settled_at()))
    .bind(column(rows, |row| row.patch.settled.map(|(word, _)| word)))
    .bind(column(rows, closed_at))
    .bind(column(rows, |row| row.patch.closed.map(|(reason, _)| reason).or(lost)))
    .bind(column(rows, |row| signed(row.seq)))
    // One that lost is not ended in Redis yet, whatever the batch did to it.
    .bind(column(rows, |row| signed(if lost.is_some() { row.seq } else { row.patch.seq })))
}

/// Answers those that were not planned because the same transfer is under way.
async fn transfers(
    work: &mut Work,
    corp: &CorpId,
    rows: &[&Transfer<'_>],
) -> Result<Vec<Uuid>, Error> {
    let query = work
        .query(crate::transfers::INSERT)
        .bind(corp.as_str())
        .bind(column(rows, |row| row.new.id))
        .bind(column(rows, |row| row.new.allocation.map(|id| id.0)))
        .bind(column(rows, |row| row.new.subject.to_string()))
        .bind(column(rows, |row| row.new.giver.as_str()))
        .bind(column(rows, |row| row.new.taker.as_str()))
        .bind(column(rows, |row| row.new.kind.as_str()))
        .bind(column(rows, |row| at(row.at_ms)))
        .bind(column(rows, |row| row.cancelled));
    let inserted = ids(&work.fetch_all(query).await?)?;
    Ok(rows
        .iter()
        .map(|row| row.new.id)
        .filter(|id| !inserted.contains(id))
        .collect())
}

async fn effects(work: &mut Work, corp: &CorpId, rows: &[&Effect<'_>]) -> Result<(), Error> {
    let mut rows = rows.to_vec();
    rows.sort_by(|one, two| (&one.new.kind, &one.new.key).cmp(&(&two.new.kind, &two.new.key)));
    let query = work
        .query(outbox::INSERT)
        .bind(corp.as_str())
        .bind(column(&rows, |_| Uuid::now_v7()))
        .bind(column(&rows, |row| clean(&row.new.kind)))
        .bind(column(&rows, |row| clean(&row.new.key)))
        .bind(column(&rows, |row| row.new.allocation.map(|id| id.0)))
        .bind(column(&rows, |row| row.new.epoch.map(signed)))
        .bind(column(&rows, |row| row.new.transfer))
        .bind(column(&rows, |row| clean_json(&row.new.payload)))
        .bind(column(&rows, |row| row.new.erase_payload))
        .bind(column(&rows, |row| row.new.priority))
        .bind(column(&rows, |row| at(row.new.due_ms)))
        .bind(column(&rows, |row| at_option(row.new.deadline_ms)))
        .bind(column(&rows, |row| at(row.at_ms)))
        .bind(column(&rows, |row| row.cancelled));
    work.execute(query).await?;
    Ok(())
}

impl Patch<'_> {
    fn settled_at(&self) -> Option<OffsetDateTime> {
        self.settled.map(|(_, ms)| at(ms))
    }

    fn closed_at(&self) -> Option<OffsetDateTime> {
        self.closed.map(|(_, ms)| at(ms))
    }
}

/// One array of a batch.
pub(crate) fn column<'r, Row, T>(rows: &'r [Row], value: impl Fn(&'r Row) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

fn ids(rows: &[sqlx::postgres::PgRow]) -> Result<BTreeSet<Uuid>, Error> {
    rows.iter().map(|row| row.value("id")).collect()
}
