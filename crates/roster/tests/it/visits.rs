//! Visitors: who is held for whom, with which slot, and what becomes of it.

use std::collections::{BTreeMap, BTreeSet};

use allocation::{
    AllocationId, Answer, ChannelId, Confirmation, Confirmed, Expired, Match, Op, Reassigned,
    SetSlots, Settled, SettlementOutcome, SlotId, SlotsChange, Strategy, Visit, Visited,
};
use futures_util::future::join_all;

use crate::support::*;

const FAIR: Strategy = Strategy::WeightedRoundRobin;
const HOLD: u64 = HOUR / 6;
const REST: u64 = HOUR;

fn channel() -> ChannelId {
    ChannelId::new("page").unwrap()
}

fn slot(name: &str) -> SlotId {
    SlotId::new(name).unwrap()
}

pub(crate) fn visit(visitor: &str) -> Visit {
    Visit {
        allocation: allocation("g", visitor),
        pool: pool("g"),
        subject: subject(visitor),
        channel: channel(),
        hold_ms: HOLD,
        rest_ms: REST,
        plan: None,
    }
}

/// This member has a customer; how he came is for the test to say.
fn came(customer: &str, who: &str) -> Confirmation {
    Confirmation {
        allocation: allocation("g", customer),
        pool: pool("g"),
        subject: subject(customer),
        member: member(who),
        visitor: None,
        slot: None,
        channel: None,
    }
}

pub(crate) fn slots_of(who: &str, names: &[&str]) -> SetSlots {
    SetSlots {
        channel: channel(),
        member: member(who),
        add: names.iter().map(|name| (slot(name), 0)).collect(),
        remove: Vec::new(),
    }
}

impl Twin {
    async fn visits(&mut self, visits: Vec<Visit>) -> Vec<Visited> {
        match self.apply(Op::Visit(visits)).await.answer {
            Answer::Visited(visited) => visited,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn visit(&mut self, visitor: &str) -> Visited {
        self.visits(vec![visit(visitor)]).await.remove(0)
    }

    /// Whom a new visitor sees, and by which slot.
    async fn sees(&mut self, visitor: &str) -> (String, Option<String>) {
        match self.visit(visitor).await {
            Visited::Held { member, slot, .. } => {
                (member.to_string(), slot.map(|slot| slot.to_string()))
            }
            other => panic!("{other:?}"),
        }
    }

    async fn came(&mut self, asked: Confirmation) -> Confirmed {
        match self.apply(Op::Confirm(vec![asked])).await.answer {
            Answer::Confirmed(mut confirmed) => confirmed.remove(0),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn expire(&mut self) -> Vec<Expired> {
        match self.apply(Op::Expire { limit: 256 }).await.answer {
            Answer::Expired { expired, .. } => expired,
            other => panic!("{other:?}"),
        }
    }

    async fn set_slots(&mut self, change: SetSlots) -> SlotsChange {
        match self.apply(Op::SetSlots(change)).await.answer {
            Answer::Slots(change) => change,
            other => panic!("{other:?}"),
        }
    }

    /// Everybody's credit, and that they sum to 0.
    fn credits(&self) -> BTreeMap<String, f64> {
        let shares = self.model.shares(&pool("g")).unwrap().into_iter();
        let credits: BTreeMap<String, f64> = shares
            .map(|share| (share.member.to_string(), share.credit))
            .collect();
        let sum: f64 = credits.values().sum();
        assert!(sum.abs() < 1e-6, "{credits:?}");
        credits
    }

    fn is_lent(&self, name: &str) -> Option<bool> {
        let mut slots = self.model.slots();
        let found = slots.find(|view| view.slot == slot(name));
        found.map(|view| view.lent)
    }
}

/// ma and mb, each with two slots.
async fn two() -> Twin {
    let mut twin = Twin::new().await;
    twin.pool("g", 1, FAIR, &[("ma", "1"), ("mb", "1")]).await;
    twin.set_slots(slots_of("ma", &["a1", "a2"])).await;
    twin.set_slots(slots_of("mb", &["b1", "b2"])).await;
    twin.on(&["ma", "mb"]).await;
    twin
}

fn other(who: &str) -> &'static str {
    if who == "ma" { "mb" } else { "ma" }
}

/// Holds that come to nothing were a turn all the same: everybody is less than one from his share, always.
#[tokio::test]
async fn shares_stay_within_one() {
    let mut twin = Twin::new().await;
    let weights = [("ma", 1), ("mb", 2), ("mc", 4)];
    let members = [("ma", "1"), ("mb", "2"), ("mc", "4")];
    twin.pool("g", 1, FAIR, &members).await;
    twin.on(&["ma", "mb", "mc"]).await;
    let mut picks: BTreeMap<String, i64> = BTreeMap::new();
    for n in 1..=140_i64 {
        let (who, _) = twin.sees(&format!("v{n}")).await;
        *picks.entry(who.clone()).or_default() += 1;
        match n % 3 {
            0 => drop(twin.close(&format!("v{n}")).await),
            1 => {
                let mut asked = came(&format!("c{n}"), &who);
                asked.visitor = Some(subject(&format!("v{n}")));
                let confirmed = twin.came(asked).await;
                assert!(matches!(confirmed, Confirmed::Confirmed { .. }));
            }
            // Expires some time.
            _ => {
                twin.now += HOLD / 5;
                twin.expire().await;
            }
        }
        for (name, weight) in weights {
            let got = picks.get(name).copied().unwrap_or_default();
            assert!((got * 7 - n * weight).abs() < 7, "{name}: {picks:?}");
        }
        twin.credits();
    }
    twin.compare().await;
}

#[tokio::test]
async fn the_slot_that_rested_longest_is_first() {
    let mut twin = Twin::new().await;
    twin.pool("g", 1, FAIR, &[("ma", "1")]).await;
    twin.on(&["ma"]).await;
    let add = [
        ("a1", T0 - 3 * REST),
        ("a2", T0 - 5 * REST),
        ("a3", T0 - REST / 2),
    ];
    let change = SetSlots {
        add: add.map(|(name, since)| (slot(name), since)).to_vec(),
        ..slots_of("ma", &[])
    };
    assert_eq!(twin.set_slots(change).await.added, 3);
    let his = |name: &str| ("ma".to_owned(), Some(name.to_owned()));
    assert_eq!(twin.sees("v1").await, his("a2"));
    assert_eq!(twin.sees("v2").await, his("a1"));
    let without = ("ma".to_owned(), None);
    assert_eq!(twin.sees("v3").await, without, "a3 rests");
    twin.now += HOLD;
    assert_eq!(twin.expire().await.len(), 3);
    twin.now = T0 + REST / 2 - 1;
    assert_eq!(twin.sees("v4").await, without);
    twin.now += 1;
    assert_eq!(twin.sees("v5").await, his("a3"));
    // The others rest since they came back, not since they were lent.
    twin.now = T0 + HOLD + REST - 1;
    assert_eq!(twin.sees("v6").await, without);
    twin.now += 1;
    let lent = [twin.sees("v7").await, twin.sees("v8").await];
    assert_eq!(lent, [his("a1"), his("a2")]);
    twin.compare().await;
}

/// He is told what he was told, however often and from however many tabs he asks.
#[tokio::test]
async fn fifty_tabs_are_one_visitor() {
    let mut twin = two().await;
    let first = twin.visit("v1").await;
    let Visited::Held {
        allocation,
        member,
        slot,
        until_ms,
    } = first
    else {
        panic!("{first:?}")
    };
    let again = Visited::Again {
        allocation,
        member: Some(member),
        slot,
        until_ms,
    };
    twin.now += 1000;
    for answer in twin.visits(vec![visit("v1"); 50]).await {
        assert_eq!(answer, again);
    }
    let loads = twin.load("ma") + twin.load("mb");
    assert_eq!(loads, 1);
    twin.compare().await;

    // All at once, before anybody knows him.
    let asks = (0..50_u128).map(|n| {
        let redis = twin.redis.clone();
        async move {
            let asked = Visit {
                allocation: AllocationId(uuid::Uuid::from_u128(n)),
                ..visit("v2")
            };
            let applied = redis.visit(vec![asked], "", Some(T0)).await.unwrap();
            applied.answer.into_iter().next().unwrap()
        }
    });
    let mut held = Vec::new();
    let mut told = BTreeSet::new();
    for answer in join_all(asks).await {
        match answer {
            Visited::Held { allocation, .. } => {
                held.push(allocation);
                told.insert(allocation);
            }
            Visited::Again { allocation, .. } => drop(told.insert(allocation)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(told.len(), 1);
    assert_eq!(held.len(), 1);
}

/// A: +1, B: -1; nobody else pays, and it makes no difference whether the hold was over.
#[tokio::test]
async fn who_has_him_pays_instead_of_who_was_seen() {
    for is_over in [false, true] {
        let mut twin = two().await;
        let (seen, by) = twin.sees("v1").await;
        if is_over {
            twin.now += HOLD;
            assert_eq!(twin.expire().await.len(), 1);
        }
        let before = twin.credits();
        let has = other(&seen);
        let mut asked = came("c1", has);
        asked.slot = by.as_deref().map(slot);
        let mismatched = Confirmed::Mismatched {
            allocation: allocation("g", "c1"),
            pool: pool("g"),
            held: allocation("g", "v1"),
            by: Match::Slot,
        };
        assert_eq!(twin.came(asked).await, mismatched);
        let after = twin.credits();
        assert!((after[&seen] - before[&seen] - 1.0).abs() < 1e-6);
        assert!((after[has] - before[has] + 1.0).abs() < 1e-6);
        assert_eq!((twin.load(&seen), twin.load(has)), (0, 1));
        // What he sees from now on is that he has met him.
        let met = Visited::Met {
            allocation: allocation("g", "c1"),
            member: member(has),
        };
        assert_eq!(twin.visit("v1").await, met);
        twin.compare().await;
    }
}

/// The turn was his when he was seen, so who comes late costs nothing more.
#[tokio::test]
async fn who_comes_late_is_paid_for() {
    let mut twin = two().await;
    let (seen, by) = twin.sees("v1").await;
    twin.now += HOLD;
    assert_eq!(twin.expire().await[0].member, Some(member(&seen)));
    let before = twin.credits();
    let mut asked = came("c1", &seen);
    asked.slot = by.as_deref().map(slot);
    let late = Confirmed::Late {
        allocation: allocation("g", "c1"),
        pool: pool("g"),
        held: allocation("g", "v1"),
        by: Match::Slot,
    };
    assert_eq!(twin.came(asked.clone()).await, late);
    assert_eq!(twin.credits(), before);
    assert_eq!(twin.load(&seen), 1);
    // The event again changes nothing.
    let again = twin.came(asked).await;
    assert!(matches!(again, Confirmed::Already { .. }), "{again:?}");
    assert_eq!((twin.load(&seen), twin.credits()), (1, before));
    twin.compare().await;
}

/// Whoever waits keeps his place as long as he asks.
#[tokio::test]
async fn a_visitor_waits_as_long_as_he_asks() {
    let mut twin = two().await;
    twin.off(&["ma", "mb"]).await;
    for visitor in ["v1", "v2"] {
        let waits = twin.visit(visitor).await;
        assert!(matches!(waits, Visited::Waiting { .. }), "{waits:?}");
    }
    twin.now += HOLD - 1;
    let again = twin.visit("v2").await;
    assert!(
        matches!(again, Visited::Again { member: None, .. }),
        "{again:?}"
    );
    twin.now += 1;
    let ended = twin.expire().await;
    assert_eq!((ended.len(), ended[0].subject), (1, subject("v1")));
    assert_eq!(ended[0].member, None);
    let woken = twin.on(&["ma"]).await;
    assert_eq!(woken[0].subject, subject("v2"));
    // His time begins when he gets somebody.
    let hold = woken[0].hold.clone().unwrap();
    assert_eq!(hold.until_ms, twin.now + HOLD);
    assert!(hold.slot.is_some());
    twin.compare().await;
}

#[tokio::test]
async fn a_hold_is_not_moved_and_not_settled() {
    let mut twin = two().await;
    let (seen, by) = twin.sees("v1").await;
    let to = reassignment("g", "v1", Some(other(&seen)), 0);
    let moved = twin.apply(Op::Reassign(to)).await.answer;
    assert_eq!(moved, Answer::Reassigned(Reassigned::Unknown));
    let anybody = reassignment("g", "v1", None, 0);
    let moved = twin.apply(Op::Reassign(anybody)).await.answer;
    assert_eq!(moved, Answer::Reassigned(Reassigned::Unknown));
    for outcome in [
        SettlementOutcome::Done,
        SettlementOutcome::Kept(member("mb")),
    ] {
        let op = Op::Settle(settlement("g", "v1", outcome));
        let settled = twin.apply(op).await.answer;
        assert_eq!(settled, Answer::Settled(Settled::Unknown));
    }
    assert_eq!(twin.load(&seen), 1);
    let void = SettlementOutcome::Void(reason("refused"));
    let op = Op::Settle(settlement("g", "v1", void));
    let member = Some(member(&seen));
    let settled = twin.apply(op).await.answer;
    assert_eq!(settled, Answer::Settled(Settled::Void { member }));
    assert_eq!(twin.load(&seen), 0);
    assert_eq!(twin.is_lent(&by.unwrap()), Some(false));
    twin.compare().await;
}

#[tokio::test]
async fn a_closing_frees_the_slot() {
    let mut twin = two().await;
    let (seen, by) = twin.sees("v1").await;
    let by = by.unwrap();
    assert_eq!(twin.is_lent(&by), Some(true));
    twin.close("v1").await;
    assert_eq!((twin.load(&seen), twin.is_lent(&by)), (0, Some(false)));
    assert_eq!(twin.expire().await, [], "it has no end any more");
    // It rests from now on, and whose it was is known no more.
    let mut asked = came("c1", &seen);
    asked.slot = Some(slot(&by));
    let direct = twin.came(asked).await;
    assert!(matches!(direct, Confirmed::Direct { .. }), "{direct:?}");
    twin.now += REST;
    assert!(twin.sees("v2").await.1.is_some());
    twin.compare().await;
}

/// A slot that is taken away while it is lent serves its visitor to the end.
#[tokio::test]
async fn a_slot_may_leave_while_it_is_lent() {
    let mut twin = two().await;
    let (seen, by) = twin.sees("v1").await;
    let by = by.unwrap();
    let remove = |names: &[&str]| SetSlots {
        add: Vec::new(),
        remove: names.iter().map(|name| slot(name)).collect(),
        ..slots_of(&seen, &[])
    };
    assert_eq!(twin.set_slots(remove(&[&by])).await.removed, 1);
    assert_eq!(twin.set_slots(remove(&[&by])).await.removed, 0);
    assert_eq!(twin.is_lent(&by), Some(true));
    // It comes back before it went.
    assert_eq!(twin.set_slots(slots_of(&seen, &[&by])).await.added, 1);
    twin.close("v1").await;
    assert_eq!(twin.is_lent(&by), Some(false));
    twin.now += REST;
    let (seen, by) = twin.sees("v2").await;
    let by = by.unwrap();
    let change = SetSlots {
        remove: vec![slot(&by)],
        ..slots_of(&seen, &[])
    };
    twin.set_slots(change).await;
    let mut asked = came("c2", &seen);
    asked.slot = Some(slot(&by));
    let confirmed = twin.came(asked).await;
    assert!(matches!(confirmed, Confirmed::Confirmed { .. }));
    assert_eq!(twin.is_lent(&by), None);
    twin.compare().await;
}

/// What was held of a pool that is gone ends as it would have; new visitors see nobody.
#[tokio::test]
async fn a_hold_outlives_its_pool() {
    let mut twin = two().await;
    let (first, by) = twin.sees("v1").await;
    let (second, _) = twin.sees("v2").await;
    twin.apply(Op::RemovePool {
        pool: pool("g"),
        version: 2,
    })
    .await;
    assert_eq!(twin.visit("v3").await, Visited::NoPool);
    let mut asked = came("c1", &first);
    asked.slot = by.as_deref().map(slot);
    let confirmed = twin.came(asked).await;
    assert!(matches!(confirmed, Confirmed::Confirmed { .. }));
    assert_eq!(twin.load(&first), 1);
    twin.now += HOLD;
    assert_eq!(twin.expire().await.len(), 1);
    assert_eq!(twin.load(&second), 0);
    twin.compare().await;
}
