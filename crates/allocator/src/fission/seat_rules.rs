//! What follows from the log entries of seats: rows of seats, and of who came into groups and left them. Pure.

use allocation::{
    ChatId, ConfirmSeats, EndedSeat, GroupChange, GroupCount, InviterId, JoinedAs, Joining,
    Leaving, Reason, ReleaseSeat, Released, ReserveSeat, Reserved, SeatAnswer, SeatId, SeatName,
    SeatOp, SeatResult, SeatState, SeatsConfirmed, WokenSeat,
};
use ledger::{
    CameAs, Change, Customer, GroupCounted, NewSeat, PeopleChange, SeatChange, SeatEnd, Wanted, Who,
};

use crate::payload::Payload;

/// Why a hold is given back that nobody came for; all other reasons are somebody's will.
const EXPIRED: &str = "expired";
const LAPSED: &str = "lapsed";
const LEFT: &str = "left";
const GROUP_REMOVED: &str = "group_removed";
/// What an audit of a group mends, where nobody says more.
const READ: &str = "read_by_audit";

/// Everything that the tables must show of seats after this entry. Whoever began and ended in it stands in that order.
pub(crate) fn changes(
    at_ms: u64,
    op: &SeatOp,
    answer: &SeatAnswer,
    payload: &Payload,
    changes: &mut Vec<Change>,
) {
    for lapsed in &answer.lapsed {
        changes.push(ended(name(lapsed), lapsed.seat, SeatEnd::Lapsed, LAPSED));
    }
    match (op, &answer.result) {
        (SeatOp::Reserve(asked), SeatResult::Reserved(reserved)) => {
            reserve(asked, reserved, &answer.woken, payload, changes);
        }
        (SeatOp::Release(asked), SeatResult::Released(released)) => {
            let released = asked.iter().zip(released);
            changes
                .extend(released.filter_map(|(asked, released)| release(at_ms, asked, released)));
        }
        (
            SeatOp::Confirm(change),
            SeatResult::Confirmed(SeatsConfirmed::Counted {
                count,
                left,
                joined,
                ..
            }),
        ) => confirm(change, *count, left, joined, payload, changes),
        (
            SeatOp::RemoveGroup { chat, .. },
            SeatResult::Removed {
                change: GroupChange::Changed,
                ended,
            },
        ) => remove(chat, ended, changes),
        // Configuration is in its own tables; nothing more follows from it.
        _ => {}
    }
    for (place, woken) in (0..).zip(&answer.woken) {
        changes.push(held(place, woken, &answer.result));
    }
}

fn reserve(
    asked: &[ReserveSeat],
    reserved: &[Reserved],
    woken: &[WokenSeat],
    payload: &Payload,
    changes: &mut Vec<Change>,
) {
    let mut asked_before = Vec::new();
    // Those who were woken came first.
    let places = woken.len() as u32..;
    for (((index, asked), reserved), place) in asked.iter().enumerate().zip(reserved).zip(places) {
        let begun = |chat: Option<&ChatId>, until_ms: u64| {
            let context = payload.contexts.get(index).cloned().unwrap_or_default();
            SeatChange::Begun(NewSeat {
                seat: asked.seat,
                name: asked.name(),
                inviter: context.inviter.and_then(|id| InviterId::new(id).ok()),
                customer: Customer {
                    kind: context.subject_kind,
                    external_id: Some(context.subject_id).filter(|id| !id.is_empty()),
                },
                wanted: wanted(asked),
                chat: chat.cloned(),
                until_ms,
                place,
            })
        };
        let change = match reserved {
            Reserved::Held { chat, until_ms, .. } => begun(Some(chat), *until_ms),
            Reserved::Waiting {
                seat,
                until_ms,
                again: false,
                ..
            } if *seat == asked.seat => begun(None, *until_ms),
            Reserved::Waiting { seat, until_ms, .. } => SeatChange::Waits {
                seat: *seat,
                name: asked.name(),
                wanted: wanted(asked),
                until_ms: *until_ms,
            },
            Reserved::Again { seat, until_ms, .. } => {
                let has_waited =
                    woken.iter().any(|woken| woken.seat == *seat) && !asked_before.contains(seat);
                asked_before.push(*seat);
                SeatChange::Again {
                    seat: *seat,
                    name: asked.name(),
                    until_ms: *until_ms,
                    via: asked.via.clone(),
                    // Of several requests in one entry an earlier one may have found it for him: then this says what he was
                    // shown a little too well.
                    wanted: has_waited.then(|| wanted(asked)),
                }
            }
            Reserved::Joined { .. } | Reserved::NoPool => continue,
        };
        changes.push(Change::Seat(change));
    }
}

fn wanted(asked: &ReserveSeat) -> Wanted {
    Wanted {
        pool: asked.pool.clone(),
        tags: asked.tags.clone(),
        anonymous: asked.anonymous,
        via: asked.via.clone(),
        hold_ms: asked.hold_ms,
    }
}

fn release(at_ms: u64, asked: &ReleaseSeat, released: &Released) -> Option<Change> {
    let expired = asked.reason.as_str() == EXPIRED;
    let (how, memory_ms) = match released {
        Released::Released { .. } if expired => (SeatEnd::Expired, asked.memory_ms),
        Released::Released { .. } => (SeatEnd::Cancelled, asked.memory_ms),
        Released::GaveUp if expired => (SeatEnd::Lapsed, 0),
        Released::GaveUp => (SeatEnd::Cancelled, 0),
        Released::Stale | Released::Unknown => return None,
    };
    Some(Change::Seat(SeatChange::Ended {
        seat: asked.seat,
        name: asked.name(),
        how,
        reason: asked.reason.clone(),
        memory_until_ms: (memory_ms > 0).then(|| at_ms.saturating_add(memory_ms)),
    }))
}

fn confirm(
    change: &ConfirmSeats,
    count: GroupCount,
    left: &[Leaving],
    joined: &[Joining],
    payload: &Payload,
    changes: &mut Vec<Change>,
) {
    let chat = &change.chat;
    for person in &change.left {
        changes.push(Change::People(PeopleChange::Left {
            chat: chat.clone(),
            person: *person,
        }));
    }
    for leaving in left {
        let name = SeatName {
            campaign: leaving.campaign.clone(),
            subject: leaving.subject,
        };
        changes.push(ended(name, leaving.seat, SeatEnd::Left, LEFT));
    }
    let mut known = joined.iter().peekable();
    for (index, person) in (0..).zip(&change.joined) {
        let joining = known.next_if(|joining| joining.index == index);
        // Whoever was known before stays what he is.
        if person.identified && joining.is_none() {
            continue;
        }
        let came = joining.map(|joining| match &joining.joined {
            JoinedAs::Seat { seat, .. } => CameAs::Seat(*seat),
            JoinedAs::Already { .. } => CameAs::Already,
            JoinedAs::Direct => CameAs::Direct,
        });
        changes.push(Change::People(PeopleChange::Joined {
            chat: chat.clone(),
            person: person.person,
            came,
            doubted: person.doubted,
            scanned: person.scanned,
            via: person.state.clone(),
            who: payload.people.get(&person.person).map(|known| Who {
                unionid: known.unionid,
                external_id: known.external_id.clone(),
            }),
        }));
        if let Some(JoinedAs::Seat {
            how,
            seat,
            campaign,
            subject,
            was,
            from,
        }) = joining.map(|joining| &joining.joined)
        {
            changes.push(Change::Seat(SeatChange::Confirmed {
                seat: *seat,
                name: SeatName {
                    campaign: campaign.clone(),
                    subject: *subject,
                },
                chat: chat.clone(),
                how: *how,
                late: *was == SeatState::Expired,
                from: from.clone(),
            }));
        }
    }
    let is_mended = change.force && !(change.left.is_empty() && joined.is_empty());
    changes.push(Change::People(PeopleChange::Counted(GroupCounted {
        chat: chat.clone(),
        version: change.version.clone(),
        people: count.people,
        oversold: count.oversold,
        past_us: past_us(joined),
        mended: is_mended.then(|| {
            let audit = payload.audit.as_ref();
            let reason = audit.and_then(|audit| audit.reason.clone());
            reason.unwrap_or_else(|| READ.to_owned())
        }),
    })));
}

/// How many came for whom no seat was held in this group. Who is not named yet may be one for whom it was.
pub(crate) fn past_us(joined: &[Joining]) -> u32 {
    let held_here = |one: &&Joining| {
        matches!(
            one.joined,
            JoinedAs::Seat {
                was: SeatState::Held,
                from: None,
                ..
            }
        )
    };
    let past_us = joined.iter().filter(|one| !held_here(one)).count();
    u32::try_from(past_us).unwrap_or(u32::MAX)
}

fn remove(chat: &ChatId, seats: &[EndedSeat], changes: &mut Vec<Change>) {
    for seat in seats {
        let how = match seat.was {
            SeatState::Confirmed | SeatState::Late => SeatEnd::Left,
            SeatState::Held | SeatState::Expired | SeatState::Waiting => SeatEnd::Cancelled,
        };
        changes.push(ended(name(seat), seat.seat, how, GROUP_REMOVED));
    }
    let chat = chat.clone();
    changes.push(Change::People(PeopleChange::Gone { chat }));
}

/// One who waited. If he asked in the same entry once more, his hold may have begun anew.
fn held(place: u32, woken: &WokenSeat, result: &SeatResult) -> Change {
    let answers = match result {
        SeatResult::Reserved(reserved) => reserved.as_slice(),
        _ => &[],
    };
    let again = answers.iter().filter_map(|answer| match answer {
        Reserved::Again { seat, until_ms, .. } if *seat == woken.seat => Some(*until_ms),
        _ => None,
    });
    Change::Seat(SeatChange::Held {
        seat: woken.seat,
        name: SeatName {
            campaign: woken.campaign.clone(),
            subject: woken.subject,
        },
        chat: woken.chat.clone(),
        until_ms: again.fold(woken.until_ms, u64::max),
        place,
    })
}

fn name(ended: &EndedSeat) -> SeatName {
    SeatName {
        campaign: ended.campaign.clone(),
        subject: ended.subject,
    }
}

fn ended(name: SeatName, seat: SeatId, how: SeatEnd, reason: &str) -> Change {
    Change::Seat(SeatChange::Ended {
        seat,
        name,
        how,
        reason: Reason::new(reason)
            .unwrap_or_else(|_| unreachable!("a constant of letters is a reason")),
        memory_until_ms: None,
    })
}

#[cfg(test)]
#[path = "seat_rules_tests.rs"]
mod tests;
