//! Giving an allocation to another member.

use allocation::{
    Answer, Op, Reason, Reassigned, Reassignment, SetMember, SettlementOutcome, Strategy,
};

use crate::support::*;

async fn reassign(twin: &mut Twin, reassignment: Reassignment) -> Reassigned {
    match twin.apply(Op::Reassign(reassignment)).await.answer {
        Answer::Reassigned(reassigned) => reassigned,
        other => panic!("{other:?}"),
    }
}

async fn three_members(strategy: Strategy) -> Twin {
    let mut twin = Twin::new().await;
    let names = ["ma", "mb", "mc"];
    twin.pool("g", 1, strategy, &names.map(|name| (name, "1")))
        .await;
    twin.on(&names).await;
    twin
}

#[tokio::test]
async fn the_pool_picks_somebody_else() {
    for strategy in [Strategy::WeightedRoundRobin, Strategy::LeastLoad] {
        let mut twin = three_members(strategy).await;
        let first = twin.who("g", "c1").await.unwrap();
        let Reassigned::Moved {
            member: second,
            epoch: 1,
        } = reassign(&mut twin, reassignment("g", "c1", None, 0)).await
        else {
            panic!("it moves")
        };
        assert_ne!(second.as_str(), first);
        let mut without = reassignment("g", "c1", None, 1);
        without.exclude = vec![member(&first), second.clone()];
        let Reassigned::Moved {
            member: third,
            epoch: 2,
        } = reassign(&mut twin, without.clone()).await
        else {
            panic!("it moves")
        };
        assert!(third.as_str() != first && third != second);
        without.expect_epoch = 2;
        without.exclude.push(third);
        assert_eq!(reassign(&mut twin, without).await, Reassigned::Nobody);
        twin.compare().await;
        // Who was left out is there again.
        for name in ["c2", "c3", "c4"] {
            assert!(twin.who("g", name).await.is_some());
        }
        twin.compare().await;
    }
}

/// Case 132, the part of the state: of those who know one epoch, one moves it.
#[tokio::test]
async fn an_old_epoch_moves_nothing() {
    let mut twin = three_members(Strategy::WeightedRoundRobin).await;
    twin.ask("g", "c1").await;
    let to_b = reassign(&mut twin, reassignment("g", "c1", Some("mb"), 0)).await;
    assert_eq!(
        to_b,
        Reassigned::Moved {
            member: member("mb"),
            epoch: 1
        }
    );
    let to_c = reassign(&mut twin, reassignment("g", "c1", Some("mc"), 0)).await;
    assert_eq!(
        to_c,
        Reassigned::Stale {
            member: Some(member("mb")),
            epoch: 1
        }
    );
    let again = reassign(&mut twin, reassignment("g", "c1", Some("mb"), 1)).await;
    assert_eq!(again, Reassigned::Same { epoch: 1 });
    let unknown = reassign(&mut twin, reassignment("g", "c9", Some("mb"), 0)).await;
    assert_eq!(unknown, Reassigned::Unknown);
    assert_eq!(["ma", "mb", "mc"].map(|name| twin.load(name)), [0, 1, 0]);
    twin.compare().await;
}

#[tokio::test]
async fn a_named_member_may_be_away_but_not_full_nor_blocked() {
    let mut twin = three_members(Strategy::LeastLoad).await;
    twin.ask("g", "c1").await;
    twin.off(&["mb"]).await;
    let moved = reassign(&mut twin, reassignment("g", "c1", Some("mb"), 0)).await;
    assert_eq!(
        moved,
        Reassigned::Moved {
            member: member("mb"),
            epoch: 1
        }
    );
    twin.cap("mc", 0).await;
    assert_eq!(
        reassign(&mut twin, reassignment("g", "c1", Some("mc"), 1)).await,
        Reassigned::Full
    );
    let blocked = SetMember::capped(
        member("mc"),
        None,
        Some(Reason::new("no_permission").unwrap()),
    );
    twin.apply(Op::SetMember(blocked)).await;
    assert_eq!(
        reassign(&mut twin, reassignment("g", "c1", Some("mc"), 1)).await,
        Reassigned::Blocked
    );
    twin.compare().await;
}

/// Whoever had the customer last is the one who gives him.
#[tokio::test]
async fn the_giver_is_who_has_the_customer() {
    let mut twin = three_members(Strategy::LeastLoad).await;
    let mut asked = request("g", "c1");
    asked.holder = Some(member("reception"));
    let first = decisions(twin.apply(Op::Decide(vec![asked])).await).remove(0);
    let first = member_of(&first).unwrap();
    let holder = |twin: &Twin| {
        twin.model
            .allocations()
            .next()
            .unwrap()
            .holder
            .unwrap()
            .to_string()
    };
    let moved = reassign(&mut twin, reassignment("g", "c1", None, 0)).await;
    let Reassigned::Moved { member: second, .. } = moved else {
        panic!("{moved:?}")
    };
    assert_eq!(holder(&twin), "reception");
    let done = settlement("g", "c1", SettlementOutcome::Done);
    twin.apply(Op::Settle(done)).await;
    reassign(&mut twin, reassignment("g", "c1", Some(&first), 1)).await;
    assert_eq!(holder(&twin), second.to_string());
    twin.compare().await;
}

#[tokio::test]
async fn one_that_waits_can_be_given_by_name() {
    let mut twin = Twin::new().await;
    twin.pool("g", 1, Strategy::LeastLoad, &[("ma", "1")]).await;
    twin.ask("g", "c1").await;
    twin.ask("g", "c2").await;
    let moved = reassign(&mut twin, reassignment("g", "c1", Some("mz"), 0)).await;
    assert_eq!(
        moved,
        Reassigned::Moved {
            member: member("mz"),
            epoch: 1
        }
    );
    assert_eq!(twin.model.waiting(&pool("g")), [subject("c2")]);
    twin.compare().await;
}
