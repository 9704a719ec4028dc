use allocation::{Answer, FillStrategy, GroupTags, SetGroup, SetGroupPool};
use allocation::{
    CampaignId, JoinedPerson, Op, PersonKey, SeatMatch, SubjectKey, Via, model::Corp,
};
use ledger::{AuditRecord, SeatStage};
use uuid::Uuid;

use super::*;

const T0: u64 = 1_792_000_000_000;

fn subject(n: u8) -> SubjectKey {
    SubjectKey::from_bytes([n; 16])
}

fn seat(n: u8) -> SeatId {
    SeatId(Uuid::from_u128(n.into()))
}

fn campaign() -> CampaignId {
    "spring".parse().unwrap()
}

fn asked(n: u8) -> ReserveSeat {
    ReserveSeat {
        seat: seat(n),
        campaign: campaign(),
        pool: "g".parse().unwrap(),
        subject: subject(n),
        anonymous: true,
        via: Some(Via::new("inv1").unwrap()),
        tags: GroupTags::any(),
        hold_ms: 1_000,
        wait_ms: 1_000,
    }
}

fn released(n: u8, reason: &str, memory_ms: u64) -> SeatOp {
    SeatOp::Release(vec![ReleaseSeat {
        campaign: campaign(),
        subject: subject(n),
        seat: seat(n),
        expect_until_ms: None,
        reason: Reason::new(reason).unwrap(),
        memory_ms,
    }])
}

fn came(version: &str, force: bool, left: &[u8], joined: &[u8]) -> SeatOp {
    let person = |n: &u8| PersonKey(subject(100 + n));
    SeatOp::Confirm(ConfirmSeats {
        chat: "a".parse().unwrap(),
        from: None,
        version: version.parse().unwrap(),
        force,
        left: left.iter().map(person).collect(),
        joined: joined
            .iter()
            .map(|n| JoinedPerson {
                person: person(n),
                identified: true,
                doubted: false,
                scanned: true,
                state: None,
                names: Vec::new(),
            })
            .collect(),
    })
}

/// A group of two that was read, and what the tables are told of one operation after the other.
struct Hall {
    corp: Corp,
    now_ms: u64,
}

impl Hall {
    fn new() -> Self {
        let mut hall = Self {
            corp: Corp::new(),
            now_ms: T0,
        };
        let pool = SetGroupPool {
            pool: "g".parse().unwrap(),
            version: 1,
            strategy: FillStrategy::FillFirst,
        };
        let group = SetGroup::new("a".parse().unwrap(), 1, pool.pool.clone(), 2, 0).unwrap();
        assert!(hall.told(SeatOp::SetPool(pool)).is_empty());
        assert!(hall.told(SeatOp::SetGroup(group)).is_empty());
        hall.told(came("v1", false, &[], &[]));
        hall
    }

    fn told(&mut self, op: SeatOp) -> Vec<Change> {
        self.told_with(op, &Payload::default())
    }

    fn told_with(&mut self, op: SeatOp, payload: &Payload) -> Vec<Change> {
        self.now_ms += 1;
        let outcome = self.corp.apply(&Op::Seats(op.clone()), self.now_ms);
        let Answer::Seats(answer) = outcome.answer else {
            panic!("{outcome:?}");
        };
        let mut changes = Vec::new();
        super::changes(self.now_ms, &op, &answer, payload, &mut changes);
        changes
    }
}

/// Seats that ended: which, as what, why, until when they are remembered.
fn ends(changes: &[Change]) -> Vec<(SeatId, SeatStage, &str, Option<u64>)> {
    let ends = changes.iter().filter_map(|change| match change {
        Change::Seat(SeatChange::Ended {
            seat,
            how,
            reason,
            memory_until_ms,
            ..
        }) => Some((
            *seat,
            SeatStage::from(*how),
            reason.as_str(),
            *memory_until_ms,
        )),
        _ => None,
    });
    ends.collect()
}

#[test]
fn a_seat_ends_as_what_it_was_and_why() {
    let mut hall = Hall::new();
    hall.told(SeatOp::Reserve((1..=5).map(asked).collect()));
    let told = hall.told(released(1, "expired", 500));
    let until_ms = Some(hall.now_ms + 500);
    assert_eq!(
        ends(&told),
        [(seat(1), SeatStage::Expired, "expired", until_ms)]
    );
    // Who waited first has its room.
    assert!(matches!(
        &told[1],
        Change::Seat(SeatChange::Held { seat: of, place: 0, .. }) if *of == seat(3)
    ));
    let told = hall.told(released(2, "asked_to", 0));
    assert_eq!(
        ends(&told),
        [(seat(2), SeatStage::Cancelled, "asked_to", None)]
    );
    assert!(hall.told(released(2, "asked_to", 0)).is_empty());
    let told = hall.told(released(5, "asked_to", 500));
    assert_eq!(
        ends(&told),
        [(seat(5), SeatStage::Cancelled, "asked_to", None)]
    );
    hall.told(SeatOp::Reserve(vec![asked(6), asked(7)]));
    hall.now_ms += 5_000;
    let told = hall.told(SeatOp::Forget { limit: 9 });
    let lapsed = [6, 7].map(|n| (seat(n), SeatStage::Lapsed, "lapsed", None));
    assert_eq!(ends(&told), lapsed);
    let mut joins = came("v2", true, &[], &[1]);
    if let SeatOp::Confirm(change) = &mut joins {
        change.joined[0].names.push(allocation::SeatCandidate {
            how: SeatMatch::Unionid,
            campaign: campaign(),
            subject: subject(3),
        });
    }
    hall.told(joins);
    let removed = SeatOp::RemoveGroup {
        chat: "a".parse().unwrap(),
        version: 2,
    };
    let told = hall.told(removed);
    let removed = [
        (seat(4), SeatStage::Cancelled, "group_removed", None),
        (seat(3), SeatStage::Left, "group_removed", None),
    ];
    assert_eq!(ends(&told), removed);
    assert!(matches!(
        told.last(),
        Some(Change::People(PeopleChange::Gone { .. }))
    ));
}

/// An audit that finds nothing mends nothing; otherwise it says why, and who held a seat here did not come past us.
#[test]
fn a_read_of_the_audit_is_told_as_mended() {
    let counted = |changes: &[Change]| -> (u32, u32, u32, Option<String>) {
        match changes.last() {
            Some(Change::People(PeopleChange::Counted(counted))) => (
                counted.people,
                counted.oversold,
                counted.past_us,
                counted.mended.clone(),
            ),
            other => panic!("{other:?}"),
        }
    };
    let mut hall = Hall::new();
    hall.told(SeatOp::Reserve(vec![asked(1), asked(2)]));
    let told = hall.told(came("v2", true, &[], &[]));
    assert_eq!(counted(&told), (0, 0, 0, None));
    // Anonymous, and scanned: one of them is the first who holds, by count.
    let told = hall.told(came("v3", true, &[], &[1]));
    assert_eq!(counted(&told), (1, 0, 0, Some(READ.to_owned())));
    assert_eq!(told.len(), 3);
    let record = AuditRecord {
        id: Uuid::nil(),
        at_ms: T0,
        actor: "audit".to_owned(),
        action: "x".to_owned(),
        entity: "x".to_owned(),
        before: None,
        after: None,
        reason: Some("nightly".to_owned()),
        request_id: None,
    };
    let payload = Payload::default().by(record);
    let mut direct = came("v4", true, &[], &[1, 2, 3]);
    if let SeatOp::Confirm(change) = &mut direct {
        change.joined[1].scanned = false;
    }
    let told = hall.told_with(direct, &payload);
    assert_eq!(counted(&told), (3, 1, 1, Some("nightly".to_owned())));
    let people = told.iter().filter_map(|change| match change {
        Change::People(PeopleChange::Joined { came, .. }) => Some(*came),
        _ => None,
    });
    let people: Vec<_> = people.collect();
    assert_eq!(people, [Some(CameAs::Direct), Some(CameAs::Seat(seat(2)))]);
}

/// Two hold, and three come of whom an event told: it may be that two of them are those who hold. A read names all three, and
/// then it is known that one came past us.
#[test]
fn who_has_no_name_yet_oversells_nothing() {
    let counted = |changes: &[Change]| match changes.last() {
        Some(Change::People(PeopleChange::Counted(counted))) => {
            (counted.people, counted.oversold, counted.past_us)
        }
        other => panic!("{other:?}"),
    };
    let mut hall = Hall::new();
    hall.told(SeatOp::Reserve(vec![asked(1), asked(2)]));
    let mut unnamed = came("v2", true, &[], &[1, 2, 3]);
    if let SeatOp::Confirm(change) = &mut unnamed {
        for person in &mut change.joined {
            person.identified = false;
        }
    }
    assert_eq!(counted(&hall.told(unnamed)), (3, 1, 0));
    let named = hall.told(came("v3", true, &[], &[1, 2, 3]));
    assert_eq!(counted(&named), (3, 1, 1));
}
