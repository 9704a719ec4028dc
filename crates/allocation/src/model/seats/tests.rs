//! The rules of seats, one by one.

use uuid::Uuid;

use super::*;
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

#[test]
fn groups_are_filled_one_after_the_other() {
    let mut hall = Hall::new(FillFirst);
    for (name, rank) in [("b", 1), ("a", 1), ("z", 0)] {
        hall.set(name, 2, |group| group.with_rank(rank));
        hall.read(name, vec![], &[]);
    }
    let shown: Vec<_> = (0..7).map(|n| hall.shown(&format!("v{n}"))).collect();
    let shown: Vec<_> = shown.iter().map(Option::as_deref).collect();
    let (z, a, b) = (Some("z"), Some("a"), Some("b"));
    assert_eq!(shown, [z, z, a, a, b, b, None]);
}

#[test]
fn the_group_that_was_shown_longest_ago_is_next() {
    let mut hall = Hall::new(Spread);
    for name in ["a", "b", "c"] {
        hall.group(name, 2);
    }
    let shown: Vec<_> = (0..4)
        .map(|n| hall.shown(&format!("v{n}")).unwrap())
        .collect();
    assert_eq!(shown, ["a", "b", "c", "a"]);
    hall.release("v1");
    assert_eq!(hall.shown("v4").unwrap(), "b");
    assert_eq!(hall.shown("v5").unwrap(), "c");
    assert_eq!(hall.shown("v6").unwrap(), "b");
}

#[test]
fn the_group_with_the_smallest_share_taken_is_next() {
    let mut hall = Hall::new(LeastFilled);
    hall.group("a", 4);
    hall.group("b", 8);
    let mut of = |n: usize| hall.shown(&format!("v{n}")).unwrap();
    let shown: Vec<_> = (0..12).map(&mut of).collect();
    let of_a = shown.iter().filter(|chat| *chat == "a").count();
    assert_eq!((of_a, shown.len()), (4, 12));
    assert_eq!(shown[..4], ["a", "b", "b", "a"]);
    assert_eq!(hall.shown("v12"), None);
}

/// Another strategy takes the groups as they are.
#[test]
fn a_strategy_can_be_changed() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 9);
    hall.group("b", 9);
    hall.shown("v1");
    let set = |version, strategy| {
        SeatOp::SetPool(SetGroupPool {
            pool: pool_id(),
            version,
            strategy,
        })
    };
    let pool = |answer: SeatAnswer| answer.result;
    let changed = SeatResult::Pool(GroupPoolChange::Changed);
    assert_eq!(pool(hall.apply(set(2, Spread))), changed);
    assert_eq!(hall.shown("v2").unwrap(), "b");
    let stale = SeatResult::Pool(GroupPoolChange::Stale { version: 2 });
    assert_eq!(pool(hall.apply(set(2, LeastFilled))), stale);
    assert_eq!(pool(hall.apply(set(1, Spread))), stale);
    let same = SeatResult::Pool(GroupPoolChange::Same);
    assert_eq!(pool(hall.apply(set(3, Spread))), same);
}

#[test]
fn tags_are_preferred_in_their_order() {
    let mut hall = Hall::new(FillFirst);
    hall.tagged("n", 1, &["north"]);
    hall.tagged("s", 1, &["south", "vip"]);
    hall.group("any", 1);
    let mut ask = |visitor: &str, wish: GroupTags| shown(&hall.ask_tags(visitor, wish));
    let first = |name: &str| Some(name.to_owned());
    assert_eq!(ask("v1", tags(&["west"], false)), None);
    assert_eq!(ask("v2", tags(&["vip", "north"], false)), first("s"));
    assert_eq!(ask("v3", tags(&["vip", "north"], false)), first("n"));
    assert_eq!(ask("v4", tags(&["vip", "north"], false)), None);
    // v1 and v4 wait for what this group is not.
    assert_eq!(ask("v5", tags(&["vip", "north"], true)), first("any"));
}

#[test]
fn a_group_that_is_closed_or_was_never_read_is_not_shown() {
    let mut hall = Hall::new(FillFirst);
    hall.set("a", 9, |group| group);
    assert_eq!(hall.count("a"), (0, 0, 9));
    assert_eq!(hall.shown("v1"), None);
    let answer = hall.read("a", vec![stranger("x")], &[]);
    assert_eq!(woken(&answer), [(key("v1"), "a".to_owned())]);
    hall.set("a", 9, |group| group.with_open(false));
    assert_eq!(hall.shown("v2"), None);
    assert_eq!(hall.shown("v1").unwrap(), "a");
    let answer = hall.set("a", 9, |group| group);
    assert_eq!(woken(&answer), [(key("v2"), "a".to_owned())]);
}

/// The buffer is for those who come past us.
#[test]
fn free_is_what_cap_buffer_people_and_holds_leave() {
    let mut hall = Hall::new(FillFirst);
    hall.version = 10;
    let group = SetGroup::new(chat("a"), 10, pool_id(), 5, 2).unwrap();
    hall.apply(SeatOp::SetGroup(group));
    hall.read("a", vec![stranger("x")], &[]);
    assert_eq!(hall.count("a"), (1, 0, 2));
    hall.shown("v1");
    hall.shown("v2");
    assert_eq!(hall.shown("v3"), None);
    let people = ["p1", "p2", "p3"].map(unread);
    let answer = hall.read("a", people.to_vec(), &[]);
    let (count, ..) = counted(&answer);
    let expected = GroupCount {
        people: 4,
        held: 2,
        free: 0,
        oversold: 1,
    };
    assert_eq!(count, expected);
    // One goes: there is still no room.
    assert_eq!(woken(&hall.read("a", vec![], &["p1"])), []);
    assert_eq!(woken(&hall.release("v1").1), []);
    assert_eq!(woken(&hall.read("a", vec![], &["p2"])), []);
    let answer = hall.read("a", vec![], &["p3"]);
    assert_eq!(woken(&answer), [(key("v3"), "a".to_owned())]);
}

#[test]
fn a_reload_shows_the_same_group() {
    let mut hall = Hall::new(Spread);
    hall.group("a", 9);
    hall.group("b", 9);
    let first = hall.ask("v1");
    let Reserved::Held { seat, chat, .. } = first else {
        panic!("{first:?}")
    };
    let again = |until_ms| Reserved::Again {
        seat,
        chat: chat.clone(),
        until_ms,
    };
    hall.now += 1000;
    assert_eq!(hall.ask("v1"), again(T0 + HOLD_MS));
    // Over, and not given back yet: it begins anew.
    hall.now = T0 + HOLD_MS;
    assert_eq!(hall.ask("v1"), again(hall.now + HOLD_MS));
    assert_eq!(hall.count("a"), (0, 1, 8));
    hall.read("a", vec![known("p1", &["v1"])], &[]);
    let joined = Reserved::Joined { seat, chat };
    assert_eq!(hall.ask("v1"), joined);
}

#[test]
fn a_seat_is_given_back_once_and_only_if_it_is_meant() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 1);
    hall.shown("v1");
    hall.shown("v2");
    let seat = hall.corp.seat(&name("v1")).unwrap().seat;
    let asked = |seat, end: u64| ReleaseSeat {
        campaign: campaign(),
        subject: key("v1"),
        seat,
        expect_until_ms: Some(end),
        reason: Reason::new("expired").unwrap(),
        memory_ms: MEMORY_MS,
    };
    let end = T0 + HOLD_MS;
    let other = SeatId(Uuid::from_u128(999));
    assert_eq!(hall.release_as(asked(other, end)).0, Released::Stale);
    assert_eq!(hall.release_as(asked(seat, end + 1)).0, Released::Stale);
    let (released, answer) = hall.release_as(asked(seat, end));
    assert_eq!(released, Released::Released { chat: chat("a") });
    assert_eq!(woken(&answer), [(key("v2"), "a".to_owned())]);
    assert_eq!(hall.release_as(asked(seat, end)).0, Released::Unknown);
    assert_eq!(hall.release("nobody").0, Released::Unknown);
    assert_eq!(hall.count("a"), (0, 1, 0));
    // What is confirmed is not given back.
    hall.read("a", vec![known("p2", &["v2"])], &[]);
    assert_eq!(hall.release("v2").0, Released::Stale);
    // A memory is replaced by whatever comes next.
    assert_eq!(hall.state("v1"), Some(SeatState::Expired));
    assert_eq!(hall.shown("v1"), None);
    assert_eq!(hall.state("v1"), Some(SeatState::Waiting));
    assert_eq!(hall.release("v1").0, Released::GaveUp);
    assert_eq!(hall.state("v1"), None);
}

#[test]
fn who_waits_is_served_in_the_order_of_coming() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 2);
    for visitor in ["v1", "v2"] {
        assert!(hall.shown(visitor).is_some());
    }
    let asked: Vec<_> = (3..7).map(|n| hall.ask(&format!("v{n}"))).collect();
    let positions: Vec<_> = asked.iter().map(position).collect();
    assert_eq!(positions, [1, 2, 3, 4]);
    hall.release("v3");
    let again = hall.ask("v5");
    assert_eq!(position(&again), 2);
    assert!(matches!(again, Reserved::Waiting { again: true, .. }));
    let (_, answer) = hall.release("v1");
    assert_eq!(woken(&answer), [(key("v4"), "a".to_owned())]);
    assert_eq!(position(&hall.ask("v5")), 1);
    assert!(!hall.more);
}

/// Who does not ask any more is passed over, and forgotten.
#[test]
fn a_place_in_the_waiting_room_ends() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 1);
    for visitor in ["v1", "v2", "v3"] {
        hall.shown(visitor);
    }
    hall.now += WAIT_MS - 1;
    hall.ask("v3");
    hall.now += 1;
    let (_, answer) = hall.release("v1");
    assert_eq!(woken(&answer), [(key("v3"), "a".to_owned())]);
    let lapsed: Vec<_> = answer.lapsed.iter().map(|ended| ended.subject).collect();
    assert_eq!(lapsed, [key("v2")]);
    assert_eq!(hall.state("v2"), None);
    // Whoever was not passed over yet keeps his place when he asks.
    hall.ask("v4");
    hall.now += WAIT_MS;
    assert_eq!(position(&hall.ask("v4")), 1);
    hall.now += WAIT_MS;
    let answer = hall.apply(SeatOp::Forget { limit: 9 });
    assert_eq!(answer.result, SeatResult::Forgotten { taken: 1 });
    assert_eq!(answer.lapsed.len(), 1);
    hall.now += MEMORY_MS;
    let answer = hall.apply(SeatOp::Forget { limit: 9 });
    assert_eq!(answer.result, SeatResult::Forgotten { taken: 1 });
    assert_eq!((answer.lapsed, hall.state("v1")), (vec![], None));
}

/// Who wants what nobody has holds up nobody; who wants what is free comes before whoever comes later.
#[test]
fn nobody_is_overtaken_by_one_for_whom_the_same_groups_are_right() {
    let mut hall = Hall::new(FillFirst);
    hall.tagged("n", 1, &["north"]);
    hall.shown("v1");
    hall.ask_tags("south", tags(&["south"], false));
    hall.ask_tags("north", tags(&["north"], false));
    hall.ask_tags("any", GroupTags::any());
    let (_, answer) = hall.release("v1");
    assert_eq!(woken(&answer), [(key("north"), "n".to_owned())]);
    hall.tagged("s", 3, &["south"]);
    assert_eq!(hall.state("south"), Some(SeatState::Held));
    assert_eq!(hall.state("any"), Some(SeatState::Held));
    assert_eq!(hall.shown("later").unwrap(), "s");
}

/// Whoever asks again for something else keeps his turn there.
#[test]
fn one_who_waits_may_want_something_else() {
    let mut hall = Hall::new(FillFirst);
    hall.tagged("n", 1, &["north"]);
    hall.shown("v1");
    hall.ask_tags("first", tags(&["south"], false));
    hall.ask_tags("second", tags(&["north"], false));
    let again = hall.ask_tags("first", tags(&["north"], false));
    assert_eq!(position(&again), 1);
    let (_, answer) = hall.release("v1");
    assert_eq!(woken(&answer), [(key("first"), "n".to_owned())]);
}

/// One call serves so many, and says that there are more; who comes meanwhile waits behind them.
#[test]
fn many_who_wait_are_served_in_several_calls() {
    let mut hall = Hall::new(FillFirst);
    for n in 0..200 {
        hall.ask(&format!("v{n}"));
    }
    hall.set("a", 199, |group| group);
    let answer = hall.read("a", vec![], &[]);
    assert_eq!((answer.woken.len(), hall.more), (64, true));
    let asked = hall.asked("late");
    let (late, answer) = hall.ask_as(asked);
    assert_eq!(position(&late), 200 - 128 + 1);
    assert_eq!((answer.woken.len(), hall.more), (64, true));
    let wake = |limit| SeatOp::Wake {
        pool: pool_id(),
        limit,
    };
    assert_eq!(hall.apply(wake(3)).woken.len(), 3);
    assert!(hall.more);
    let rest: Vec<_> = hall.apply(wake(100)).woken;
    assert_eq!((rest.len(), hall.more), (64, true));
    assert_eq!(rest[0].subject, key("v131"));
    assert_eq!(hall.apply(wake(100)).woken.len(), 4);
    assert!(!hall.more);
    assert_eq!(position(&hall.ask("late")), 2);
}

/// A crowd that is gone does not make one call long, nor does it keep others from being served.
#[test]
fn a_crowd_that_is_gone_is_cleared_away_in_several_calls() {
    let mut hall = Hall::new(FillFirst);
    for n in 0..300 {
        hall.ask(&format!("v{n}"));
    }
    hall.now += WAIT_MS;
    hall.set("a", 9, |group| group);
    let answer = hall.read("a", vec![], &[]);
    assert_eq!((answer.woken.len(), answer.lapsed.len()), (0, 256));
    assert!(hall.more);
    assert_eq!(hall.shown("new").unwrap(), "a");
    assert_eq!(hall.corp.seats().len(), 1);
}

/// Until the group is read nobody's hold is taken for theirs, and free is understated, never overstated.
#[test]
fn who_is_not_identified_takes_room_and_no_hold() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 9);
    hall.shown("v1");
    let answer = hall.read("a", vec![unread("p1")], &[]);
    assert_eq!(counted(&answer).2, []);
    assert_eq!(hall.count("a"), (1, 1, 7));
    let answer = hall.read("a", vec![known("p1", &["v0", "v1"])], &[]);
    let held = (SeatMatch::Unionid, key("v1"), SeatState::Held, None);
    assert_eq!(joined(&answer), Some(held));
    assert_eq!(hall.count("a"), (1, 0, 8));
    // Told again he is who he is.
    let answer = hall.read("a", vec![known("p1", &["v1"]), unread("p1")], &[]);
    assert_eq!(counted(&answer).2, []);
    assert_eq!(hall.count("a"), (1, 0, 8));
}

#[test]
fn whom_nothing_names_is_found_by_his_way_or_by_the_order_of_time() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 20);
    hall.shown("named");
    hall.ask_unknown("v1", Some("inv1"));
    hall.ask_unknown("v2", Some("inv2"));
    hall.ask_unknown("v3", None);
    hall.ask_unknown("v4", Some("inv2"));
    let held = |how, visitor| Some((how, key(visitor), SeatState::Held, None));
    let mut joins = |person| joined(&hall.read("a", vec![person], &[]));
    assert_eq!(joins(by_way("p1", "inv2")), held(SeatMatch::State, "v2"));
    // Nobody else was shown this way.
    assert_eq!(joins(by_way("p2", "inv9")), None);
    assert_eq!(joins(stranger("p3")), held(SeatMatch::Count, "v1"));
    assert_eq!(joins(stranger("p4")), held(SeatMatch::Count, "v3"));
    let invited = JoinedPerson {
        scanned: false,
        ..stranger("p5")
    };
    assert_eq!(joins(invited), None);
    assert_eq!(joins(by_way("p6", "inv2")), held(SeatMatch::State, "v4"));
    // The hold of one whom his unionid names is never taken for a stranger's.
    assert_eq!(joins(stranger("p7")), None);
    assert_eq!(hall.count("a"), (7, 1, 12));
}

/// The last way that a visitor was shown is the one that he used, if any.
#[test]
fn a_visitor_who_comes_by_another_way_is_found_by_that() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 9);
    hall.ask_unknown("v1", Some("inv1"));
    hall.ask_unknown("v1", Some("inv2"));
    hall.ask_unknown("v1", None);
    assert_eq!(
        joined(&hall.read("a", vec![by_way("p1", "inv1")], &[])),
        None
    );
    let answer = hall.read("a", vec![by_way("p2", "inv2")], &[]);
    let held = (SeatMatch::State, key("v1"), SeatState::Held, None);
    assert_eq!(joined(&answer), Some(held));
}

#[test]
fn a_seat_goes_where_its_person_is() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 2);
    hall.group("b", 2);
    hall.shown("v1");
    hall.shown("v2");
    // Somebody passed a code on: he is in another group than he was shown.
    let answer = hall.read("b", vec![known("p1", &["v1"])], &[]);
    let from = Some("a".to_owned());
    let moved = (SeatMatch::Unionid, key("v1"), SeatState::Held, from.clone());
    assert_eq!(joined(&answer), Some(moved));
    assert_eq!((hall.count("a"), hall.count("b")), ((0, 1, 1), (1, 0, 1)));
    // Too late, and elsewhere.
    hall.release("v2");
    let answer = hall.read("b", vec![known("p2", &["v2"])], &[]);
    let late = (SeatMatch::Unionid, key("v2"), SeatState::Expired, from);
    assert_eq!(joined(&answer), Some(late));
    assert_eq!(hall.state("v2"), Some(SeatState::Late));
    // In a second group he just takes room.
    let answer = hall.read("a", vec![known("p2", &["v2"])], &[]);
    let there = Some("in b".to_owned());
    let already = (SeatMatch::Unionid, key("v2"), SeatState::Late, there);
    assert_eq!(joined(&answer), Some(already));
    // Who waited and came another way waits no longer.
    hall.shown("v3");
    assert_eq!(hall.shown("v4"), None);
    let answer = hall.read("a", vec![known("p4", &["v4"])], &[]);
    let waited = (SeatMatch::Unionid, key("v4"), SeatState::Waiting, None);
    assert_eq!(joined(&answer), Some(waited));
    assert_eq!(hall.count("a"), (2, 1, 0));
}

/// Of several seats of one person the one of this group counts, then another one, and one that is taken at last.
#[test]
fn of_several_seats_the_one_of_the_group_is_meant() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 1);
    hall.group("b", 1);
    hall.shown("v1");
    hall.shown("v2");
    let mut joins = |chat: &str, person: &str| {
        let answer = hall.read(chat, vec![known(person, &["v1", "v2"])], &[]);
        joined(&answer).map(|(_, subject, _, from)| (subject, from))
    };
    assert_eq!(joins("b", "p1"), Some((key("v2"), None)));
    let from_a = Some("a".to_owned());
    assert_eq!(joins("b", "p2"), Some((key("v1"), from_a)));
    let in_b = Some("in b".to_owned());
    assert_eq!(joins("a", "p3"), Some((key("v1"), in_b)));
}

#[test]
fn a_memory_that_is_over_explains_nobody() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 9);
    hall.shown("v1");
    hall.release("v1");
    hall.now += MEMORY_MS;
    let answer = hall.read("a", vec![known("p1", &["v1"])], &[]);
    assert_eq!(joined(&answer), None);
}

#[test]
fn who_leaves_frees_a_seat() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 1);
    hall.shown("v1");
    hall.read("a", vec![known("p1", &["v1"])], &[]);
    assert_eq!(hall.shown("v2"), None);
    let answer = hall.read("a", vec![], &["p1", "nobody"]);
    let (count, left, _) = counted(&answer);
    assert_eq!((count.people, count.held), (0, 0));
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].subject, key("v1"));
    assert_eq!(woken(&answer), [(key("v2"), "a".to_owned())]);
    assert_eq!(hall.state("v1"), None);
    assert_eq!(hall.count("a"), (0, 1, 0));
    // He may ask again, behind whoever came meanwhile.
    assert_eq!(hall.shown("v1"), None);
}

/// A change counts if it follows what is known; else the group is to be read.
#[test]
fn changes_follow_one_another() {
    let mut hall = Hall::new(FillFirst);
    hall.set("a", 9, |group| group);
    let stale = |version: Option<&str>| {
        SeatResult::Confirmed(SeatsConfirmed::Stale {
            version: version.map(|version| version.parse().unwrap()),
        })
    };
    let from = |text: &str| Some(text.parse().unwrap());
    let answer = hall.change("a", from("v1"), "v2", vec![unread("p1")], &[]);
    assert_eq!(answer.result, stale(None));
    hall.change("a", None, "v1", vec![stranger("p1")], &[]);
    assert_eq!(hall.count("a"), (1, 0, 8));
    let answer = hall.change("a", None, "v9", vec![stranger("p9")], &[]);
    assert_eq!(answer.result, stale(Some("v1")));
    let answer = hall.change("a", from("v2"), "v3", vec![unread("p9")], &[]);
    assert_eq!(answer.result, stale(Some("v1")));
    hall.change("a", from("v1"), "v2", vec![unread("p2")], &[]);
    // Once more, and what a read found that began before it.
    hall.change("a", from("v1"), "v2", vec![unread("p2")], &[]);
    let p2 = vec![known("p2", &["v"])];
    let answer = hall.change("a", from("v1"), "v2", p2, &[]);
    assert_eq!(joined(&answer), None);
    assert_eq!(hall.count("a"), (2, 0, 7));
    // The audit has read everything.
    let force = SeatOp::Confirm(ConfirmSeats {
        chat: chat("a"),
        from: None,
        version: "v7".parse().unwrap(),
        force: true,
        left: vec![PersonKey(key("p1"))],
        joined: vec![stranger("p3"), stranger("p4")],
    });
    hall.apply(force);
    assert_eq!(hall.view("a").seen, from("v7"));
    assert_eq!(hall.count("a"), (3, 0, 6));
    let answer = hall.change("gone", None, "v1", vec![], &[]);
    let unknown = SeatResult::Confirmed(SeatsConfirmed::Unknown);
    assert_eq!(answer.result, unknown);
}

#[test]
fn a_group_that_goes_ends_its_seats() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 3);
    for visitor in ["v1", "v2", "v3"] {
        hall.shown(visitor);
    }
    hall.read("a", vec![known("p1", &["v2"]), stranger("p2")], &[]);
    let removed = |version| SeatOp::RemoveGroup {
        chat: chat("a"),
        version,
    };
    let version = hall.view("a").config.version();
    let (change, ended) = match hall.apply(removed(version - 1)).result {
        SeatResult::Removed { change, ended } => (change, ended),
        other => panic!("{other:?}"),
    };
    assert_eq!((change, ended), (GroupChange::Stale { version }, vec![]));
    let SeatResult::Removed { change, ended } = hall.apply(removed(version + 1)).result else {
        panic!("removed")
    };
    let ended: Vec<_> = ended.iter().map(|one| (one.subject, one.was)).collect();
    assert_eq!(change, GroupChange::Changed);
    assert_eq!(
        ended,
        [
            (key("v1"), SeatState::Held),
            (key("v3"), SeatState::Held),
            (key("v2"), SeatState::Confirmed)
        ]
    );
    assert_eq!(hall.corp.seats(), []);
    assert_eq!(hall.shown("v1"), None);
    let again = hall.apply(removed(version + 2)).result;
    let unknown = GroupChange::Unknown;
    let nothing = SeatResult::Removed {
        change: unknown,
        ended: vec![],
    };
    assert_eq!(again, nothing);
    // An older configuration does not bring it back, a newer one does, with nobody in it.
    hall.version = version;
    let stale = GroupChange::Stale {
        version: version + 1,
    };
    let answer = hall.set("a", 3, |group| group);
    assert_eq!(answer.result, SeatResult::Group(stale));
    hall.set("a", 3, |group| group);
    assert_eq!((hall.count("a"), hall.view("a").seen), ((0, 0, 3), None));
}

#[test]
fn a_group_that_changes_its_pool_takes_its_seats_along() {
    let mut hall = Hall::new(FillFirst);
    hall.group("a", 3);
    hall.shown("v1");
    let remove = |version| SeatOp::RemovePool {
        pool: pool_id(),
        version,
    };
    let pool = |change| SeatResult::Pool(change);
    let in_use = pool(GroupPoolChange::InUse);
    assert_eq!(hall.apply(remove(2)).result, in_use);
    let to = |name: &str| SetGroup::new(chat("a"), 100, name.parse().unwrap(), 3, 0).unwrap();
    let no_pool = SeatResult::Group(GroupChange::NoPool);
    assert_eq!(hall.apply(SeatOp::SetGroup(to("q"))).result, no_pool);
    hall.apply(SeatOp::SetPool(SetGroupPool {
        pool: "q".parse().unwrap(),
        version: 1,
        strategy: Spread,
    }));
    let changed = SeatResult::Group(GroupChange::Changed);
    assert_eq!(hall.apply(SeatOp::SetGroup(to("q"))).result, changed);
    assert_eq!(hall.shown("v1").unwrap(), "a");
    assert_eq!(hall.shown("v2"), None);
    let of = hall.corp.group_pools();
    let free: Vec<_> = of
        .map(|view| (view.free, view.waiting, view.available))
        .collect();
    assert_eq!(free, [(0, 1, 0), (2, 0, 1)]);
    let stale = pool(GroupPoolChange::Stale { version: 1 });
    assert_eq!(hall.apply(remove(0)).result, stale);
    assert_eq!(hall.apply(remove(1)).result, pool(GroupPoolChange::Changed));
    assert_eq!(hall.apply(remove(1)).result, pool(GroupPoolChange::Unknown));
    // Without a pool there is nothing new; who waited waits for one of that name.
    assert_eq!(hall.ask("v3"), Reserved::NoPool);
    assert_eq!(hall.ask("v2"), Reserved::NoPool);
    assert_eq!(hall.shown("v1").unwrap(), "a");
    let set = |version| {
        SeatOp::SetPool(SetGroupPool {
            pool: pool_id(),
            version,
            strategy: Spread,
        })
    };
    assert_eq!(hall.apply(set(1)).result, stale);
    hall.apply(set(2));
    assert_eq!(position(&hall.ask("v2")), 1);
}

/// Whatever happened: the state is whole, is read back from its dump, and is the fold of its log.
#[test]
fn random_histories_leave_whole_states() {
    let (mut n_held, mut n_waiting, mut n_taken) = (0, 0, 0);
    for seed in 0..60 {
        let history = crate::histories::History::random(seed, 300);
        let corp = &history.corp;
        let read = Corp::from_dump(&corp.dump()).unwrap();
        assert_eq!(read.seats, corp.seats, "seed {seed}");
        let json = corp.dump().to_json();
        assert_eq!(crate::Dump::from_json(&json), Ok(corp.dump()));
        let mut folded = Corp::new();
        for entry in &history.entries {
            let (op, args, result) = entry.parts();
            let read = crate::LogEntry::from_parts(entry.seq, entry.at_ms, op, &args, &result);
            folded.fold(&read.unwrap()).unwrap();
        }
        assert_eq!(folded.seats, corp.seats, "seed {seed}");
        for view in corp.seats() {
            match view.place {
                SeatPlace::Held { .. } => n_held += 1,
                SeatPlace::Waiting { .. } => n_waiting += 1,
                SeatPlace::Taken { .. } => n_taken += 1,
                SeatPlace::Expired { .. } => {}
            }
        }
    }
    assert!(
        n_held > 100 && n_waiting > 100 && n_taken > 50,
        "{n_held} {n_waiting} {n_taken}"
    );
}
