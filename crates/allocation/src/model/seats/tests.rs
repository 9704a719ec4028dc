//! The rules of seats, one by one.

mod choice;
mod configured;
mod people;
mod random;
mod waiting_room;

use uuid::Uuid;

use super::*;
use crate::histories::History;
use crate::id::Reason;
use crate::seats::{
    ChatVersion, ConfirmSeats, FillStrategy, GroupChange, GroupCount, GroupPoolChange, GroupTags,
    JoinedAs, JoinedPerson, Leaving, ReleaseSeat, Released, ReserveSeat, Reserved, SeatCandidate,
    SeatMatch, SeatsConfirmed, SetGroup, SetGroupPool,
};
use crate::{Answer, CampaignId, Op, SubjectKey};

use FillStrategy::{FillFirst, LeastFilled, Spread};

const T0: u64 = 1_792_000_000_000;
const HOLD_MS: u64 = 600_000;
const WAIT_MS: u64 = 60_000;
const MEMORY_MS: u64 = 3_600_000;

/// A corp with one pool, "p".
struct Hall {
    corp: Corp,
    now: u64,
    made: u128,
    version: u64,
    more: bool,
}

fn key(name: &str) -> SubjectKey {
    let mut bytes = [b'.'; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    SubjectKey::from_bytes(bytes)
}

fn campaign() -> CampaignId {
    "spring".parse().unwrap()
}

fn chat(name: &str) -> ChatId {
    name.parse().unwrap()
}

fn pool_id() -> GroupPoolId {
    "p".parse().unwrap()
}

fn name(visitor: &str) -> SeatName {
    SeatName {
        campaign: campaign(),
        subject: key(visitor),
    }
}

fn tags(tags: &[&str], or_any: bool) -> GroupTags {
    let tags = tags.iter().map(|tag| tag.parse().unwrap());
    GroupTags::new(tags.collect(), or_any).unwrap()
}

/// Somebody who was read, without anything that tells who he is.
fn stranger(person: &str) -> JoinedPerson {
    JoinedPerson {
        person: PersonKey(key(person)),
        identified: true,
        doubted: false,
        scanned: true,
        state: None,
        names: Vec::new(),
    }
}

fn unread(person: &str) -> JoinedPerson {
    JoinedPerson {
        identified: false,
        ..stranger(person)
    }
}

/// Of a read that may be old.
fn doubted(person: &str) -> JoinedPerson {
    JoinedPerson {
        doubted: true,
        ..unread(person)
    }
}

/// Somebody whose unionid is that of these visitors.
fn known(person: &str, visitors: &[&str]) -> JoinedPerson {
    let names = visitors.iter().map(|visitor| SeatCandidate {
        how: SeatMatch::Unionid,
        campaign: campaign(),
        subject: key(visitor),
    });
    JoinedPerson {
        names: names.collect(),
        ..stranger(person)
    }
}

fn by_way(person: &str, state: &str) -> JoinedPerson {
    JoinedPerson {
        state: Some(state.parse().unwrap()),
        ..stranger(person)
    }
}

impl Hall {
    fn new(strategy: FillStrategy) -> Self {
        let mut hall = Self {
            corp: Corp::new(),
            now: T0,
            made: 0,
            version: 0,
            more: false,
        };
        let set = SetGroupPool {
            pool: pool_id(),
            version: 1,
            strategy,
        };
        hall.apply(SeatOp::SetPool(set));
        hall
    }

    fn apply(&mut self, op: SeatOp) -> SeatAnswer {
        let outcome = self.corp.apply(&Op::Seats(op), self.now);
        assert_eq!(self.corp.problems(), Vec::<String>::new());
        let read = Corp::from_dump(&self.corp.dump()).unwrap();
        assert_eq!(read.dump(), self.corp.dump());
        assert_eq!(read.seats, self.corp.seats);
        self.more = outcome.more;
        match outcome.answer {
            Answer::Seats(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    fn set(&mut self, name: &str, cap: u32, change: impl Fn(SetGroup) -> SetGroup) -> SeatAnswer {
        self.version += 1;
        let group = SetGroup::new(chat(name), self.version, pool_id(), cap, 0).unwrap();
        self.apply(SeatOp::SetGroup(change(group)))
    }

    /// A group that was read and has nobody in it.
    fn group(&mut self, name: &str, cap: u32) {
        self.tagged(name, cap, &[]);
    }

    fn tagged(&mut self, name: &str, cap: u32, tags: &[&str]) {
        self.set(name, cap, |group| {
            let tags = tags.iter().map(|tag| tag.parse().unwrap());
            group.with_tags(tags).unwrap()
        });
        self.read(name, vec![], &[]);
    }

    fn change(
        &mut self,
        name: &str,
        from: Option<ChatVersion>,
        version: &str,
        joined: Vec<JoinedPerson>,
        left: &[&str],
    ) -> SeatAnswer {
        self.apply(SeatOp::Confirm(ConfirmSeats {
            chat: chat(name),
            from,
            version: version.parse().unwrap(),
            force: false,
            left: left.iter().map(|person| PersonKey(key(person))).collect(),
            joined,
        }))
    }

    /// The next change of a group, or a read that finds this.
    fn read(&mut self, name: &str, joined: Vec<JoinedPerson>, left: &[&str]) -> SeatAnswer {
        let from = self.view(name).seen;
        self.version += 1;
        let version = format!("v{}", self.version);
        self.change(name, from, &version, joined, left)
    }

    fn view(&self, name: &str) -> GroupView {
        let mut groups = self.corp.groups();
        groups
            .find(|view| *view.config.chat() == chat(name))
            .unwrap()
    }

    fn count(&self, name: &str) -> (u32, u32, u32) {
        let count = self.view(name).count;
        (count.people, count.held, count.free)
    }

    fn asked(&mut self, visitor: &str) -> ReserveSeat {
        self.made += 1;
        ReserveSeat {
            seat: SeatId(Uuid::from_u128(self.made)),
            campaign: campaign(),
            pool: pool_id(),
            subject: key(visitor),
            anonymous: false,
            via: None,
            tags: GroupTags::any(),
            hold_ms: HOLD_MS,
            wait_ms: WAIT_MS,
        }
    }

    fn ask_as(&mut self, asked: ReserveSeat) -> (Reserved, SeatAnswer) {
        let answer = self.apply(SeatOp::Reserve(vec![asked]));
        match &answer.result {
            SeatResult::Reserved(reserved) => (reserved[0].clone(), answer),
            other => panic!("{other:?}"),
        }
    }

    fn ask(&mut self, visitor: &str) -> Reserved {
        let asked = self.asked(visitor);
        self.ask_as(asked).0
    }

    fn ask_tags(&mut self, visitor: &str, tags: GroupTags) -> Reserved {
        let asked = self.asked(visitor);
        self.ask_as(ReserveSeat { tags, ..asked }).0
    }

    /// A visitor whom nothing names, shown a way.
    fn ask_unknown(&mut self, visitor: &str, via: Option<&str>) -> Reserved {
        let asked = self.asked(visitor);
        let via = via.map(|via| via.parse().unwrap());
        let anonymous = true;
        self.ask_as(ReserveSeat {
            anonymous,
            via,
            ..asked
        })
        .0
    }

    /// The group that he was shown; None: he waits.
    fn shown(&mut self, visitor: &str) -> Option<String> {
        shown(&self.ask(visitor))
    }

    fn release(&mut self, visitor: &str) -> (Released, SeatAnswer) {
        let view = self.corp.seat(&name(visitor));
        let seat = view.map_or(SeatId(Uuid::nil()), |view| view.seat);
        self.release_as(ReleaseSeat {
            campaign: campaign(),
            subject: key(visitor),
            seat,
            expect_until_ms: None,
            reason: Reason::new("expired").unwrap(),
            memory_ms: MEMORY_MS,
        })
    }

    fn release_as(&mut self, asked: ReleaseSeat) -> (Released, SeatAnswer) {
        let answer = self.apply(SeatOp::Release(vec![asked]));
        match &answer.result {
            SeatResult::Released(released) => (released[0].clone(), answer),
            other => panic!("{other:?}"),
        }
    }

    fn state(&self, visitor: &str) -> Option<SeatState> {
        let seat = self.corp.seats.seats.get(&name(visitor));
        seat.map(Seat::state)
    }
}

fn shown(reserved: &Reserved) -> Option<String> {
    match reserved {
        Reserved::Held { chat, .. } | Reserved::Again { chat, .. } => Some(chat.to_string()),
        Reserved::Joined { chat, .. } => Some(format!("in {chat}")),
        Reserved::Waiting { .. } => None,
        Reserved::NoPool => panic!("no pool"),
    }
}

fn position(reserved: &Reserved) -> u32 {
    match reserved {
        Reserved::Waiting { position, .. } => *position,
        other => panic!("{other:?}"),
    }
}

fn woken(answer: &SeatAnswer) -> Vec<(SubjectKey, String)> {
    let woken = answer.woken.iter();
    woken
        .map(|woken| (woken.subject, woken.chat.to_string()))
        .collect()
}

fn counted(answer: &SeatAnswer) -> (GroupCount, Vec<Leaving>, Vec<JoinedAs>) {
    match &answer.result {
        SeatResult::Confirmed(SeatsConfirmed::Counted {
            count,
            left,
            joined,
            ..
        }) => {
            let joined = joined.iter().map(|one| one.joined.clone());
            (*count, left.clone(), joined.collect())
        }
        other => panic!("{other:?}"),
    }
}

/// How, whose, what it was, and from which group: of the only one who joined.
fn joined(answer: &SeatAnswer) -> Option<(SeatMatch, SubjectKey, SeatState, Option<String>)> {
    let (.., mut joined) = counted(answer);
    assert_eq!(joined.len(), 1);
    match joined.remove(0) {
        JoinedAs::Seat {
            how,
            subject,
            was,
            from,
            ..
        } => Some((how, subject, was, from.map(|from| from.to_string()))),
        JoinedAs::Already {
            how,
            subject,
            was,
            chat,
            ..
        } => Some((how, subject, was, Some(format!("in {chat}")))),
        JoinedAs::Direct => None,
    }
}
