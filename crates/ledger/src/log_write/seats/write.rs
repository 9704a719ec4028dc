//! Writes the seats of a batch.

use std::collections::BTreeSet;

use allocation::{CorpId, InviterId, SeatId, SeatName};

use super::super::customers::Customers;
use super::super::rows::{CHUNK, column};
use super::{FoldedSeats, Place, REPLACED, Row, Stage};
use crate::Error;
use crate::change::{NewSeat, Wanted};
use crate::connection::Work;
use crate::row::{signed, small};
use crate::times::{at, at_option};

/// After the customers.
pub(in super::super) async fn write(
    work: &mut Work,
    corp: &CorpId,
    customers: &Customers,
    seats: &FoldedSeats<'_>,
) -> Result<(), Error> {
    let (new, old): (Vec<_>, Vec<_>) = seats.rows.iter().partition(|(_, row)| row.new.is_some());
    for chunk in old.chunks(CHUNK) {
        update(work, corp, chunk).await?;
    }
    replace(work, corp, seats, &old).await?;
    for chunk in new.chunks(CHUNK) {
        insert(work, corp, customers, chunk).await?;
    }
    Ok(())
}

type SeatRow<'f, 'b> = (&'f SeatId, &'f Row<'b>);

/// Who asks again and is shown the same changes nothing.
async fn update(work: &mut Work, corp: &CorpId, rows: &[SeatRow<'_, '_>]) -> Result<(), Error> {
    let query = work
        .query(
            "UPDATE seats AS s SET
                group_pool_id = coalesce(n.group_pool_id, s.group_pool_id),
                tags = coalesce(n.tags, s.tags),
                anonymous = coalesce(n.anonymous, s.anonymous),
                hold_ms = coalesce(n.hold_ms, s.hold_ms),
                via = CASE WHEN n.tags IS NULL THEN coalesce(n.via, s.via) ELSE n.via END,
                held_until = coalesce(n.held_until, s.held_until),
                turn_seq = coalesce(n.turn_seq, s.turn_seq),
                turn_place = coalesce(n.turn_place, s.turn_place),
                chat_id = CASE WHEN n.placed THEN n.chat_id ELSE s.chat_id END,
                matched = CASE WHEN n.placed THEN n.matched ELSE s.matched END,
                moved_from = CASE WHEN n.placed THEN n.moved_from ELSE s.moved_from END,
                confirmed_at = CASE WHEN n.placed THEN n.confirmed_at ELSE s.confirmed_at END,
                held_at = CASE WHEN n.shown THEN n.held_at ELSE s.held_at END,
                state = coalesce(n.state, s.state),
                ended_at = CASE WHEN n.state IS NULL THEN s.ended_at ELSE n.ended_at END,
                reason = CASE WHEN n.state IS NULL THEN s.reason ELSE n.reason END,
                memory_until = CASE WHEN n.state IS NULL THEN s.memory_until ELSE n.memory_until END
             FROM unnest($2::uuid[], $3::text[], $4::text[], $5::boolean[], $6::bigint[], $7::text[], $8::timestamptz[],
                    $9::bigint[], $10::integer[], $11::boolean[], $12::text[], $13::text[], $14::text[],
                    $15::timestamptz[], $16::boolean[], $17::timestamptz[], $18::text[], $19::timestamptz[],
                    $20::text[], $21::timestamptz[])
                AS n (id, group_pool_id, tags, anonymous, hold_ms, via, held_until, turn_seq, turn_place, placed,
                    chat_id, matched, moved_from, confirmed_at, shown, held_at, state, ended_at, reason, memory_until)
             WHERE s.seat_id = n.id AND s.corp_id = $1 AND (n.state IS NOT NULL OR n.tags IS NOT NULL
                OR n.held_until IS DISTINCT FROM s.held_until OR n.via IS NOT NULL AND n.via IS DISTINCT FROM s.via)",
        )
        .bind(corp.as_str())
        .bind(column(rows, |(id, _)| id.0))
        .bind(column(rows, |(_, row)| row.patch.wanted.map(|wanted| wanted.pool.as_str())))
        .bind(column(rows, |(_, row)| row.patch.wanted.map(|wanted| wanted.tags.to_string())))
        .bind(column(rows, |(_, row)| row.patch.wanted.map(|wanted| wanted.anonymous)))
        .bind(column(rows, |(_, row)| row.patch.wanted.map(|wanted| signed(wanted.hold_ms))))
        .bind(column(rows, |(_, row)| row.patch.via(row.patch.wanted)))
        .bind(column(rows, |(_, row)| at_option(row.patch.until_ms)))
        .bind(column(rows, |(_, row)| row.patch.turn.map(|(seq, _)| signed(seq))))
        .bind(column(rows, |(_, row)| row.patch.turn.map(|(_, place)| small(place))))
        .bind(column(rows, |(_, row)| row.patch.place.is_some()))
        .bind(column(rows, |(_, row)| row.patch.place.and_then(Place::chat)))
        .bind(column(rows, |(_, row)| row.patch.place.and_then(Place::matched)))
        .bind(column(rows, |(_, row)| row.patch.place.and_then(Place::from)))
        .bind(column(rows, |(_, row)| row.patch.place.and_then(Place::confirmed_at)))
        .bind(column(rows, |(_, row)| row.patch.place.is_some_and(|place| place.held_ms.is_some())))
        .bind(column(rows, |(_, row)| row.patch.place.and_then(Place::held_at)))
        .bind(column(rows, |(_, row)| row.patch.stage.map(|stage| stage.is.as_str())))
        .bind(column(rows, |(_, row)| at_option(row.patch.stage.and_then(|stage| stage.ended_ms))))
        .bind(column(rows, |(_, row)| row.patch.stage.and_then(|stage| stage.reason)))
        .bind(column(rows, |(_, row)| {
            at_option(row.patch.stage.and_then(|stage| stage.memory_until_ms))
        }));
    work.execute(query).await?;
    Ok(())
}

/// What is open besides the seats that began, but for those of this batch: they are what it made of them.
async fn replace(
    work: &mut Work,
    corp: &CorpId,
    seats: &FoldedSeats<'_>,
    old: &[SeatRow<'_, '_>],
) -> Result<(), Error> {
    let began: Vec<_> = seats.began.iter().collect();
    let is_of_these = |name: &SeatName| seats.began.contains_key(name);
    let names = seats.of_name.iter().filter(|(name, _)| is_of_these(name));
    let of_batch: BTreeSet<SeatId> = names.flat_map(|(_, ids)| ids).copied().collect();
    let kept = old.iter().map(|(id, _)| **id);
    let kept: Vec<SeatId> = kept.filter(|id| of_batch.contains(id)).collect();
    for chunk in began.chunks(CHUNK) {
        let query = work
            .query(
                "UPDATE seats AS s SET state = 'cancelled', ended_at = n.at, reason = $2
                 FROM unnest($3::text[], $4::text[], $5::timestamptz[]) AS n (campaign_id, subject, at)
                 WHERE s.corp_id = $1 AND s.campaign_id = n.campaign_id AND s.subject = n.subject
                    AND s.ended_at IS NULL AND s.seat_id <> ALL($6)",
            )
            .bind(corp.as_str())
            .bind(REPLACED)
            .bind(column(chunk, |(name, _)| name.campaign.as_str()))
            .bind(column(chunk, |(name, _)| name.subject.to_string()))
            .bind(column(chunk, |(_, at_ms)| at(**at_ms)))
            .bind(column(&kept, |id| id.0));
        work.execute(query).await?;
    }
    Ok(())
}

struct Whole<'f, 'b> {
    row: &'f Row<'b>,
    new: &'b NewSeat,
    seq: u64,
    at_ms: u64,
    wanted: &'b Wanted,
    place: Place<'b>,
    stage: Stage<'b>,
}

async fn insert(
    work: &mut Work,
    corp: &CorpId,
    customers: &Customers,
    rows: &[SeatRow<'_, '_>],
) -> Result<(), Error> {
    let whole = rows.iter().filter_map(|(_, row)| {
        let (new, seq, at_ms) = row.new?;
        let (place, stage) = row.whole(new, at_ms);
        Some(Whole {
            row,
            new,
            seq,
            at_ms,
            wanted: row.patch.wanted.unwrap_or(&new.wanted),
            place,
            stage,
        })
    });
    let rows: Vec<Whole<'_, '_>> = whole.collect();
    let turn = |row: &Whole<'_, '_>| row.row.patch.turn.unwrap_or((row.seq, row.new.place));
    // A caller may use a seat's id once more after it ended: then it is the new one.
    let query = work
        .query(
            "INSERT INTO seats AS s (corp_id, seat_id, campaign_id, group_pool_id, customer_id, subject, anonymous, via,
                tags, hold_ms, state, chat_id, moved_from, matched, asked_at, held_at, held_until, confirmed_at,
                ended_at, reason, memory_until, asked_seq, turn_seq, turn_place, inviter)
             SELECT $1, * FROM unnest($2::uuid[], $3::text[], $4::text[], $5::uuid[], $6::text[], $7::boolean[],
                $8::text[], $9::text[], $10::bigint[], $11::text[], $12::text[], $13::text[], $14::text[],
                $15::timestamptz[], $16::timestamptz[], $17::timestamptz[], $18::timestamptz[], $19::timestamptz[],
                $20::text[], $21::timestamptz[], $22::bigint[], $23::bigint[], $24::integer[], $25::text[])
             ON CONFLICT (seat_id) DO UPDATE SET campaign_id = excluded.campaign_id,
                group_pool_id = excluded.group_pool_id, customer_id = excluded.customer_id, subject = excluded.subject,
                anonymous = excluded.anonymous, via = excluded.via, tags = excluded.tags, hold_ms = excluded.hold_ms,
                state = excluded.state, chat_id = excluded.chat_id, moved_from = excluded.moved_from,
                matched = excluded.matched, asked_at = excluded.asked_at, held_at = excluded.held_at,
                held_until = excluded.held_until, confirmed_at = excluded.confirmed_at, ended_at = excluded.ended_at,
                reason = excluded.reason, memory_until = excluded.memory_until, asked_seq = excluded.asked_seq,
                turn_seq = excluded.turn_seq, turn_place = excluded.turn_place
             WHERE s.corp_id = excluded.corp_id",
        )
        .bind(corp.as_str())
        .bind(column(&rows, |row| row.new.seat.0))
        .bind(column(&rows, |row| row.new.name.campaign.as_str()))
        .bind(column(&rows, |row| row.wanted.pool.as_str()))
        .bind(column(&rows, |row| customers.id(&row.new.name.subject)))
        .bind(column(&rows, |row| row.new.name.subject.to_string()))
        .bind(column(&rows, |row| row.wanted.anonymous))
        .bind(column(&rows, |row| row.row.patch.via(Some(row.wanted))))
        .bind(column(&rows, |row| row.wanted.tags.to_string()))
        .bind(column(&rows, |row| signed(row.wanted.hold_ms)))
        .bind(column(&rows, |row| row.stage.is.as_str()))
        .bind(column(&rows, |row| row.place.chat()))
        .bind(column(&rows, |row| row.place.from()))
        .bind(column(&rows, |row| row.place.matched()))
        .bind(column(&rows, |row| at(row.at_ms)))
        .bind(column(&rows, |row| row.place.held_at()))
        .bind(column(&rows, |row| at(row.row.patch.until_ms.unwrap_or(row.new.until_ms))))
        .bind(column(&rows, |row| row.place.confirmed_at()))
        .bind(column(&rows, |row| at_option(row.stage.ended_ms)))
        .bind(column(&rows, |row| row.stage.reason))
        .bind(column(&rows, |row| at_option(row.stage.memory_until_ms)))
        .bind(column(&rows, |row| signed(row.seq)))
        .bind(column(&rows, |row| signed(turn(row).0)))
        .bind(column(&rows, |row| small(turn(row).1)))
        .bind(column(&rows, |row| row.new.inviter.as_ref().map(InviterId::as_str)));
    work.execute(query).await?;
    Ok(())
}
