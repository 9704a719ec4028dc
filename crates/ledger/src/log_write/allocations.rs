//! The new allocations of a batch, and those among them that do not stand.

use allocation::{AllocationId, CorpId, MemberId, Plan};

use super::Conflict;
use super::customers::Customers;
use super::fold::NewRow;
use super::rows::{CHUNK, Meeting, column, ids};
use crate::Error;
use crate::change::NewAllocation;
use crate::connection::{Statement, Work};
use crate::row::{Columns, signed};
use crate::text::{clean, clean_option};
use crate::times::{at, at_option};

/// Close reason of an allocation that the ledger had already.
const CONFLICT: &str = "conflict";
/// Close reason of an allocation that is the echo of a transfer.
const ECHO: &str = "echo";
/// How long after we know that a transfer is done its events may still come.
const ECHO_MS: u64 = 10 * 60 * 1000;

/// The new allocations that an event asked for whose member is the taker of a transfer that goes on, or was done just
/// now. Redis knows an echo by the open allocation; this is for those whose allocation is not there any more. Looked up
/// one by one; who was unknown until now was never transferred.
pub(super) async fn echoes(
    work: &mut Work,
    corp: &CorpId,
    customers: &Customers,
    rows: &[&NewRow<'_>],
) -> Result<Vec<AllocationId>, Error> {
    let asked: Vec<(&NewRow<'_>, &MemberId)> = rows
        .iter()
        .filter(|row| row.decided.echo && row.patch.closed.is_none())
        .filter(|row| customers.were_known(&row.subject))
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
            .bind(column(chunk, |(row, _)| row.subject.to_string()))
            .bind(column(chunk, |(_, taker)| taker.as_str()))
            .bind(column(chunk, |(row, _)| at(row.at_ms.saturating_sub(ECHO_MS))));
        let found = ids(&work.fetch_all(query).await?)?;
        echoes.extend(found.into_iter().map(AllocationId));
    }
    Ok(echoes)
}

/// As closed.
pub(super) async fn write_echoes(
    work: &mut Work,
    corp: &CorpId,
    customers: &Customers,
    rows: &[&NewRow<'_>],
    meeting: Meeting,
) -> Result<(), Error> {
    let query = insert(work, corp, customers, rows, meeting, Some(ECHO));
    work.execute(query).await?;
    Ok(())
}

/// Answers the new allocations that lost against an open one; they are written as closed.
pub(super) async fn write(
    work: &mut Work,
    corp: &CorpId,
    customers: &Customers,
    rows: &[&NewRow<'_>],
    meeting: Meeting,
) -> Result<Vec<Conflict>, Error> {
    let query = insert(work, corp, customers, rows, meeting, None);
    if meeting == Meeting::Nothing {
        work.execute(query).await?;
        return Ok(Vec::new());
    }
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
        .bind(column(&left, |row| row.subject.to_string()));
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
    let query = insert(work, corp, customers, &lost, meeting, Some(CONFLICT));
    work.execute(query).await?;
    Ok(conflicts)
}

macro_rules! insert {
    ($rest:literal) => {
        concat!(
            "INSERT INTO allocations (corp_id, id, pool_id, customer_id, subject, member, holder, channel_id, source,
                delivery, request_id, epoch, decided_at, assigned_at, settled_at, settled_as, closed_at,
                close_reason, decided_seq, changed_seq, offer, offer_since, offer_until, plan, preferred)
             SELECT $1, n.id, n.pool_id, n.customer_id, n.subject, n.member, n.holder, n.channel_id, n.source,
                n.delivery, n.request_id, n.epoch, n.decided_at, n.assigned_at,
                coalesce(n.settled_at, n.closed_at),
                coalesce(n.settled_as, CASE WHEN n.closed_at IS NOT NULL THEN 'closed' END),
                n.closed_at, n.close_reason, n.decided_seq, n.changed_seq,
                CASE WHEN n.closed_at IS NULL THEN nullif(n.offer, '') END,
                CASE WHEN n.closed_at IS NULL THEN n.offer_since END,
                CASE WHEN n.closed_at IS NULL THEN n.offer_until END,
                n.plan, n.preferred::jsonb
             FROM unnest($2::uuid[], $3::text[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::text[],
                    $9::text[], $10::text[], $11::text[], $12::bigint[], $13::timestamptz[], $14::timestamptz[],
                    $15::timestamptz[], $16::text[], $17::timestamptz[], $18::text[], $19::bigint[], $20::bigint[],
                    $21::text[], $22::timestamptz[], $23::timestamptz[], $24::text[], $25::text[])
                AS n (id, pool_id, customer_id, subject, member, holder, channel_id, source, delivery, request_id,
                    epoch, decided_at, assigned_at, settled_at, settled_as, closed_at, close_reason, decided_seq,
                    changed_seq, offer, offer_since, offer_until, plan, preferred)",
            $rest
        )
    };
}

fn insert(
    work: &Work,
    corp: &CorpId,
    customers: &Customers,
    rows: &[&NewRow<'_>],
    meeting: Meeting,
    lost: Option<&'static str>,
) -> Statement {
    let closed_at = |row: &&NewRow<'_>| match row.patch.closed_at() {
        None if lost.is_some() => Some(at(row.at_ms)),
        closed => closed,
    };
    work.query(match meeting {
        Meeting::Nothing => insert!(""),
        Meeting::Rows => insert!(" ON CONFLICT DO NOTHING RETURNING id"),
    })
    .bind(corp.as_str())
    .bind(column(rows, |row| row.decided.allocation.0))
    .bind(column(rows, |row| row.decided.pool.as_str()))
    .bind(column(rows, |row| customers.id(&row.subject)))
    .bind(column(rows, |row| row.subject.to_string()))
    .bind(column(rows, |row| {
        row.patch.member.map(|member| member.as_str())
    }))
    .bind(column(rows, |row| {
        row.patch.holder.map(|holder| holder.as_str())
    }))
    .bind(column(rows, |row| {
        row.decided.channel.as_ref().map(|channel| channel.as_str())
    }))
    .bind(column(rows, |row| clean(&row.decided.source)))
    .bind(column(rows, |row| {
        clean_option(row.decided.delivery.as_ref())
    }))
    .bind(column(rows, |row| {
        row.decided.request.as_ref().map(|request| request.as_str())
    }))
    .bind(column(rows, |row| {
        signed(row.patch.epoch.unwrap_or(0) + row.patch.raised)
    }))
    .bind(column(rows, |row| at(row.at_ms)))
    .bind(column(rows, |row| {
        at_option(row.patch.assigned_ms.or(row.patch.kept_ms))
    }))
    .bind(column(rows, |row| row.patch.settled_at()))
    .bind(column(rows, |row| row.patch.settled.map(|(word, _)| word)))
    .bind(column(rows, closed_at))
    .bind(column(rows, |row| {
        row.patch.closed.map(|(reason, _)| reason).or(lost)
    }))
    .bind(column(rows, |row| signed(row.seq)))
    // One that lost is not ended in Redis yet, whatever the batch did to it.
    .bind(column(rows, |row| {
        signed(if lost.is_some() {
            row.seq
        } else {
            row.patch.seq
        })
    }))
    .bind(column(rows, |row| row.patch.offer()))
    .bind(column(rows, |row| row.patch.offer_since()))
    .bind(column(rows, |row| row.patch.offer_until()))
    .bind(column(rows, |row| {
        row.decided.plan.as_ref().map(Plan::text)
    }))
    .bind(column(rows, |row| preferred(row.decided)))
}

/// By member, so that it can be read without the plan.
fn preferred(decided: &NewAllocation) -> Option<String> {
    let members = decided.plan.as_ref()?.prefer();
    let known = members.iter().zip(&decided.preferred);
    let known: serde_json::Map<_, _> = known
        .map(|(member, why)| (member.to_string(), why.as_str().into()))
        .collect();
    (!known.is_empty()).then(|| serde_json::Value::Object(known).to_string())
}
