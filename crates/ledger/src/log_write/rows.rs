//! Writes a folded batch, a table at a time: customers, what existing allocations became, what is taken back, new
//! allocations, transfers, effects, outcomes. Rows in the order of their keys, at most so many in a statement.

use std::collections::{BTreeMap, HashSet};

use allocation::{AllocationId, CorpId};
use time::OffsetDateTime;
use uuid::Uuid;

use super::Written;
use super::allocations;
use super::customers::Customers;
use super::fold::{Effect, Folded, NewRow, Patch, Transfer};
use super::{edges, offers, people, seats, visits};
use crate::change::Entry;
use crate::connection::Work;
use crate::row::{Columns, signed};
use crate::text::{clean, clean_json};
use crate::times::{at, at_option};
use crate::{Error, outbox};

pub(super) const CHUNK: usize = 5_000;
/// What the new rows of a batch may meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// Nothing, as nearly always: a row that is there already is an error, and the batch is to be written again.
    /// Looking for such a row costs as much as its place in each unique index: a third of the whole.
    Nothing,
    /// Rows that are there already.
    Rows,
}

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
    folded: &Folded<'_>,
    meeting: Meeting,
    written: &mut Written,
) -> Result<(), Error> {
    let customers = Customers::write(work, corp, folded).await?;
    patches(work, &folded.patches).await?;
    cancel(work, folded).await?;
    written.conflicts = visits::confirmed(work, corp, &customers, folded).await?;
    let mut new: Vec<&NewRow<'_>> = folded.new.iter().collect();
    written.echoes = allocations::echoes(work, corp, &customers, &new).await?;
    if !written.echoes.is_empty() {
        let is_echo = |row: &&NewRow<'_>| written.echoes.contains(&row.decided.allocation);
        let (echoes, others): (Vec<_>, Vec<_>) = new.into_iter().partition(is_echo);
        allocations::write_echoes(work, corp, &customers, &echoes, meeting).await?;
        new = others;
    }
    for chunk in new.chunks(CHUNK) {
        let conflicts = allocations::write(work, corp, &customers, chunk, meeting).await?;
        written.conflicts.extend(conflicts);
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
        let under_way = self::transfers(work, corp, &customers, chunk, meeting).await?;
        written.transfers_under_way.extend(under_way);
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
    visits::write(work, corp, &folded.visits).await?;
    offers::write(work, corp, &folded.offers).await?;
    seats::write(work, corp, &customers, &folded.seats).await?;
    people::write(work, corp, &folded.people).await?;
    written.edges = edges::write(work, corp, &folded.edges).await?;
    for chunk in folded.audit.chunks(CHUNK) {
        crate::audit::write(work, corp, chunk).await?;
    }
    crate::deliveries::write_outcomes(work, corp, &folded.outcomes, meeting).await
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
                    member = CASE WHEN p.offer = 'undecided' THEN NULL ELSE coalesce(p.member, a.member) END,
                    holder = coalesce(p.holder, a.holder),
                    epoch = greatest(p.epoch, a.epoch) + p.raised,
                    assigned_at = coalesce(p.assigned_at, a.assigned_at, p.kept_at),
                    settled_at = CASE WHEN a.settled_at IS NOT NULL AND NOT p.unsettled THEN a.settled_at
                        ELSE coalesce(p.settled_at, p.closed_at) END,
                    settled_as = CASE WHEN a.settled_at IS NOT NULL AND NOT p.unsettled THEN a.settled_as
                        WHEN p.settled_at IS NOT NULL THEN p.settled_as
                        WHEN p.closed_at IS NOT NULL THEN 'closed' END,
                    offer = CASE WHEN p.closed_at IS NULL THEN nullif(coalesce(p.offer, a.offer), '') END,
                    offer_since = CASE WHEN p.closed_at IS NULL THEN
                        CASE WHEN p.offer IS NULL THEN a.offer_since ELSE p.offer_since END END,
                    offer_until = CASE WHEN p.closed_at IS NULL THEN
                        CASE WHEN p.offer IS NULL THEN a.offer_until ELSE p.offer_until END END,
                    closed_at = p.closed_at,
                    close_reason = p.close_reason,
                    changed_seq = p.seq
                 FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::timestamptz[],
                        $7::timestamptz[], $8::boolean[], $9::timestamptz[], $10::text[], $11::timestamptz[],
                        $12::text[], $13::bigint[], $14::text[], $15::timestamptz[], $16::timestamptz[])
                    AS p (id, seq, member, holder, epoch, assigned_at, kept_at, unsettled, settled_at, settled_as,
                        closed_at, close_reason, raised, offer, offer_since, offer_until)
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
            .bind(column(chunk, |(_, patch)| signed(patch.raised)))
            .bind(column(chunk, |(_, patch)| patch.offer()))
            .bind(column(chunk, |(_, patch)| patch.offer_since()))
            .bind(column(chunk, |(_, patch)| patch.offer_until()));
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

/// Answers those that were not planned because the same transfer is under way, or because nobody knows the customer.
async fn transfers(
    work: &mut Work,
    corp: &CorpId,
    customers: &Customers,
    rows: &[&Transfer<'_>],
    meeting: Meeting,
) -> Result<Vec<Uuid>, Error> {
    let (known, mut left): (Vec<&Transfer<'_>>, Vec<&Transfer<'_>>) = rows
        .iter()
        .partition(|row| customers.id(&row.new.subject).is_some());
    let query = work
        .query(match meeting {
            Meeting::Nothing => crate::transfers::INSERT_NEW,
            Meeting::Rows => crate::transfers::INSERT,
        })
        .bind(corp.as_str())
        .bind(column(&known, |row| row.new.id))
        .bind(column(&known, |row| row.new.allocation.map(|id| id.0)))
        .bind(column(&known, |row| customers.id(&row.new.subject)))
        .bind(column(&known, |row| row.new.subject.to_string()))
        .bind(column(&known, |row| row.new.giver.as_str()))
        .bind(column(&known, |row| row.new.taker.as_str()))
        .bind(column(&known, |row| row.new.kind.as_str()))
        .bind(column(&known, |row| at(row.at_ms)))
        .bind(column(&known, |row| row.cancelled));
    match meeting {
        Meeting::Nothing => {
            work.execute(query).await?;
        }
        Meeting::Rows => {
            let inserted = ids(&work.fetch_all(query).await?)?;
            left.extend(
                known
                    .into_iter()
                    .filter(|row| !inserted.contains(&row.new.id)),
            );
        }
    }
    Ok(column(&left, |row| row.new.id))
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
    pub(super) fn settled_at(&self) -> Option<OffsetDateTime> {
        self.settled.map(|(_, ms)| at(ms))
    }

    pub(super) fn closed_at(&self) -> Option<OffsetDateTime> {
        self.closed.map(|(_, ms)| at(ms))
    }
}

/// One array of a batch.
pub(crate) fn column<'r, Row, T>(rows: &'r [Row], value: impl Fn(&'r Row) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

pub(super) fn ids(rows: &[sqlx::postgres::PgRow]) -> Result<HashSet<Uuid>, Error> {
    rows.iter().map(|row| row.value("id")).collect()
}
