//! Where the rows of one group say otherwise than Redis, and what would make them say the same. Pure.

use std::collections::HashMap;

use allocation::model::{GroupView, PersonView, SeatPlace, SeatView};
use allocation::{ChatId, GroupPoolId, GroupTags, PersonKey, Reason, SeatId, SeatMatch, SeatName};
use ledger::{
    CameAs, Change, Customer, GroupCount, GroupCounted, GroupPerson, NewSeat, PeopleChange, Seat,
    SeatChange, SeatEnd, SeatStage, Wanted,
};

/// Why a seat ends of which Redis knows nothing.
const AUDIT: &str = "audit";

/// What Postgres has of a group.
#[derive(Debug, Clone, Default)]
pub(super) struct Rows {
    /// Held and confirmed.
    pub(super) seats: Vec<Seat>,
    pub(super) people: Vec<GroupPerson>,
    pub(super) count: GroupCount,
    /// Seats that Redis has here, wherever Postgres has them.
    pub(super) others: HashMap<SeatId, Seat>,
}

/// What Redis has of it.
#[derive(Debug, Clone, Default)]
pub(super) struct There {
    pub(super) group: Option<GroupView>,
    /// Of those who hold a seat in it, are in it, or do so by the rows.
    pub(super) seats: HashMap<SeatName, SeatView>,
}

#[derive(Debug, Clone)]
pub(super) struct Difference {
    pub(super) what: &'static str,
    /// Which seat or person; empty: the group.
    whom: String,
    /// What Redis has of it; empty: nothing.
    there: String,
    pub(super) changes: Vec<Change>,
}

impl Difference {
    fn new(what: &'static str, whom: impl ToString, changes: Vec<Change>) -> Self {
        Self {
            what,
            whom: whom.to_string(),
            there: String::new(),
            changes,
        }
    }

    fn from(mut self, there: &impl std::fmt::Debug) -> Self {
        self.there = format!("{there:?}");
        self
    }

    /// The same difference, seen at another time. Where Redis has something else by then, the rows may only be late.
    pub(super) fn is(&self, other: &Self) -> bool {
        let of = |one: &Self| (one.what, one.whom.clone(), one.there.clone());
        of(self) == of(other)
    }
}

pub(super) fn differences(chat: &ChatId, rows: &Rows, there: &There) -> Vec<Difference> {
    let mut found = people(chat, rows, there);
    found.extend(rows.seats.iter().filter_map(|row| seat(row, there)));
    found.extend(missing(chat, rows, there));
    let seen = there.group.as_ref().and_then(|group| group.seen.as_ref());
    let people = there.group.as_ref().map_or(0, |group| group.count.people);
    if rows.count.seen.as_ref() != seen || rows.count.people != people {
        let gone = Change::People(PeopleChange::Gone { chat: chat.clone() });
        let changes = if seen.is_none() { vec![gone] } else { vec![] };
        let differs = Difference::new("count_differs", "", changes).from(&(seen, people));
        found.push(differs);
    }
    found
}

/// What the group is after all of it; None: it was never read.
pub(super) fn counted(there: &There, why: String) -> Option<Change> {
    let group = there.group.as_ref()?;
    Some(Change::People(PeopleChange::Counted(GroupCounted {
        chat: group.config.chat().clone(),
        version: group.seen.clone()?,
        people: group.count.people,
        oversold: group.count.oversold,
        // Nobody came by it.
        past_us: 0,
        mended: Some(why),
    })))
}

/// One who waits by the rows.
pub(super) fn waiter(row: &Seat, there: Option<&SeatView>) -> Option<Difference> {
    let is_gone = there.is_none_or(|view| view.seat != row.id);
    is_gone.then(|| {
        let ended = ended(row, SeatEnd::Lapsed);
        Difference::new("seat_not_in_redis", row.id, vec![ended])
    })
}

fn people(chat: &ChatId, rows: &Rows, there: &There) -> Vec<Difference> {
    let left = |person| {
        Change::People(PeopleChange::Left {
            chat: chat.clone(),
            person,
        })
    };
    let of_group = there.group.iter().flat_map(|group| &group.people);
    let mut unknown: HashMap<PersonKey, &PersonView> =
        of_group.map(|view| (view.person, view)).collect();
    let mut found = Vec::new();
    for row in &rows.people {
        let person = row.person;
        let Some(view) = unknown.remove(&person) else {
            let left = vec![left(person)];
            found.push(Difference::new("person_not_in_redis", person, left));
            continue;
        };
        let came = came(view, there);
        let of_row = row.came.and_then(CameAs::seat);
        if row.came.is_none() != came.is_none() || of_row != came.and_then(CameAs::seat) {
            let changes = vec![Change::People(PeopleChange::Corrected {
                chat: chat.clone(),
                person,
                came,
            })];
            found.push(Difference::new("person_differs", person, changes).from(&came));
        }
    }
    for (person, view) in unknown {
        let came = came(view, there);
        let joined = vec![joined(chat, view, came)];
        found.push(Difference::new("person_not_in_rows", person, joined).from(&came));
    }
    found
}

/// Whether another seat of his is somewhere else Redis does not say.
fn came(view: &PersonView, there: &There) -> Option<CameAs> {
    let seat = view.seat.as_ref().and_then(|name| there.seats.get(name));
    match seat {
        _ if view.pending => None,
        Some(seat) => Some(CameAs::Seat(seat.seat)),
        None => Some(CameAs::Direct),
    }
}

fn joined(chat: &ChatId, view: &PersonView, came: Option<CameAs>) -> Change {
    Change::People(PeopleChange::Joined {
        chat: chat.clone(),
        person: view.person,
        came,
        doubted: view.doubted,
        scanned: false,
        via: None,
        who: None,
    })
}

/// One of the rows.
fn seat(row: &Seat, there: &There) -> Option<Difference> {
    let view = there.seats.get(&row.name());
    let Some(view) = view.filter(|view| view.seat == row.id) else {
        let how = match row.stage {
            SeatStage::Confirmed | SeatStage::Late => SeatEnd::Left,
            _ => SeatEnd::Cancelled,
        };
        let changes = vec![ended(row, how)];
        return Some(Difference::new("seat_not_in_redis", row.id, changes));
    };
    (!is_same(row, view)).then(|| {
        let changes = vec![becomes(row.matched.as_deref(), view)];
        Difference::new("seat_differs", row.id, changes).from(&view.place)
    })
}

fn is_same(row: &Seat, view: &SeatView) -> bool {
    match &view.place {
        SeatPlace::Held { chat, until_ms, .. } => {
            row.stage == SeatStage::Held
                && row.chat.as_ref() == Some(chat)
                && row.held_until_ms == *until_ms
        }
        SeatPlace::Taken { chat, late, .. } => {
            let stage = match late {
                true => SeatStage::Late,
                false => SeatStage::Confirmed,
            };
            row.stage == stage && row.chat.as_ref() == Some(chat)
        }
        SeatPlace::Waiting { .. } => row.stage == SeatStage::Waiting,
        SeatPlace::Expired { .. } => row.ended_ms.is_some(),
    }
}

/// Those of Redis that are no open rows of this group.
fn missing(chat: &ChatId, rows: &Rows, there: &There) -> Vec<Difference> {
    let Some(group) = &there.group else {
        return Vec::new();
    };
    let is_here = |view: &&SeatView| match &view.place {
        SeatPlace::Held { chat: of, .. } | SeatPlace::Taken { chat: of, .. } => of == chat,
        SeatPlace::Waiting { .. } | SeatPlace::Expired { .. } => false,
    };
    let here = there.seats.values().filter(is_here);
    let missing = here.filter(|view| rows.seats.iter().all(|row| row.id != view.seat));
    missing
        .map(|view| {
            let row = rows.others.get(&view.seat);
            let mut changes = Vec::new();
            if row.is_none() {
                changes.push(begun(group.config.pool(), chat, view));
            }
            let matched = row.and_then(|row| row.matched.as_deref());
            changes.push(becomes(matched, view));
            Difference::new("seat_not_in_rows", view.seat, changes).from(&view.place)
        })
        .collect()
}

/// What Redis does not say of a seat is lost: who he is, which groups he wanted.
fn begun(pool: &GroupPoolId, chat: &ChatId, view: &SeatView) -> Change {
    let (until_ms, anonymous, via) = match &view.place {
        SeatPlace::Held {
            until_ms,
            anonymous,
            via,
            ..
        } => (*until_ms, *anonymous, via.clone()),
        _ => (0, false, None),
    };
    Change::Seat(SeatChange::Begun(NewSeat {
        seat: view.seat,
        name: view.name(),
        customer: Customer {
            kind: String::new(),
            external_id: None,
        },
        wanted: Wanted {
            pool: pool.clone(),
            tags: GroupTags::any(),
            anonymous,
            via,
            hold_ms: 0,
        },
        chat: Some(chat.clone()),
        until_ms,
        place: 0,
        inviter: None,
    }))
}

fn becomes(matched: Option<&str>, view: &SeatView) -> Change {
    let (seat, name) = (view.seat, view.name());
    Change::Seat(match &view.place {
        SeatPlace::Held { chat, until_ms, .. } => SeatChange::Held {
            seat,
            name,
            chat: chat.clone(),
            until_ms: *until_ms,
            place: 0,
        },
        SeatPlace::Taken { chat, late, .. } => SeatChange::Confirmed {
            seat,
            name,
            chat: chat.clone(),
            how: how(matched),
            late: *late,
            from: None,
        },
        SeatPlace::Waiting {
            pool,
            tags,
            until_ms,
            anonymous,
            via,
            hold_ms,
        } => SeatChange::Waits {
            seat,
            name,
            wanted: Wanted {
                pool: pool.clone(),
                tags: tags.clone(),
                anonymous: *anonymous,
                via: via.clone(),
                hold_ms: *hold_ms,
            },
            until_ms: *until_ms,
        },
        SeatPlace::Expired { until_ms, .. } => SeatChange::Ended {
            seat,
            name,
            how: SeatEnd::Expired,
            reason: audit(),
            memory_until_ms: Some(*until_ms),
        },
    })
}

/// Nobody remembers how he was known: a guess.
fn how(matched: Option<&str>) -> SeatMatch {
    let all = [
        SeatMatch::Unionid,
        SeatMatch::ExternalId,
        SeatMatch::State,
        SeatMatch::Count,
    ];
    let mut all = all.into_iter();
    all.find(|how| Some(how.as_str()) == matched)
        .unwrap_or(SeatMatch::Count)
}

fn ended(row: &Seat, how: SeatEnd) -> Change {
    Change::Seat(SeatChange::Ended {
        seat: row.id,
        name: row.name(),
        how,
        reason: audit(),
        memory_until_ms: None,
    })
}

fn audit() -> Reason {
    Reason::new(AUDIT).unwrap_or_else(|_| unreachable!("a constant of letters is a reason"))
}
