//! What became of one assignment of an allocation.

use allocation::{
    Answer, Assignment, Op, Reassigned, Settled, Settlement, SettlementOutcome, Strategy,
};

use crate::support::*;

async fn settle(twin: &mut Twin, subject_name: &str, outcome: SettlementOutcome) -> Settled {
    let op = Op::Settle(settlement("g", subject_name, outcome));
    match twin.apply(op).await.answer {
        Answer::Settled(settled) => settled,
        other => panic!("{other:?}"),
    }
}

/// mA gets wmC001 while mB has him.
async fn transfer() -> Twin {
    let mut twin = Twin::new().await;
    twin.pool("g", 1, Strategy::LeastLoad, &[("ma", "1")]).await;
    twin.pool("h", 1, Strategy::LeastLoad, &[("mb", "1")]).await;
    twin.cap("ma", 1).await;
    twin.cap("mb", 1).await;
    twin.on(&["ma", "mb"]).await;
    let mut asked = request("g", "wmC001");
    asked.holder = Some(member("mb"));
    twin.apply(Op::Decide(vec![asked])).await;
    twin
}

#[tokio::test]
async fn done_twice_is_done_once() {
    let mut twin = transfer().await;
    let done = Settled::Done {
        member: member("ma"),
    };
    assert_eq!(
        settle(&mut twin, "wmC001", SettlementOutcome::Done).await,
        done
    );
    assert_eq!(
        settle(&mut twin, "wmC001", SettlementOutcome::Done).await,
        Settled::Already
    );
    assert_eq!(
        settle(&mut twin, "wmC404", SettlementOutcome::Done).await,
        Settled::Unknown
    );
    assert_eq!(twin.load("ma"), 1);
    twin.compare().await;
}

/// Case 88, the part of the state: the load moves once.
#[tokio::test]
async fn a_kept_customer_is_the_keepers_load_whatever_his_cap() {
    let mut twin = transfer().await;
    twin.ask("h", "other").await;
    assert_eq!(twin.who("g", "waits").await, None);
    let kept = SettlementOutcome::Kept(member("mb"));
    let outcome = twin
        .apply(Op::Settle(settlement("g", "wmC001", kept.clone())))
        .await;
    assert_eq!(
        outcome.answer,
        Answer::Settled(Settled::Kept {
            from: Some(member("ma"))
        })
    );
    // mA is free again, so who waited gets him; mB has two although his cap is one.
    assert_eq!(outcome.woken[0].subject, subject("waits"));
    assert_eq!((twin.load("ma"), twin.load("mb")), (1, 2));
    assert_eq!(settle(&mut twin, "wmC001", kept).await, Settled::Already);
    assert_eq!((twin.load("ma"), twin.load("mb")), (1, 2));
    assert_eq!(twin.who("h", "next").await, None);
    twin.compare().await;
}

#[tokio::test]
async fn void_ends_it_and_wakes() {
    let mut twin = transfer().await;
    assert_eq!(twin.who("g", "waits").await, None);
    let void = SettlementOutcome::Void(reason("refused"));
    let outcome = twin
        .apply(Op::Settle(settlement("g", "wmC001", void.clone())))
        .await;
    assert_eq!(
        outcome.answer,
        Answer::Settled(Settled::Void {
            member: Some(member("ma"))
        })
    );
    assert_eq!(outcome.woken[0].subject, subject("waits"));
    assert_eq!(settle(&mut twin, "wmC001", void).await, Settled::Unknown);
    assert_eq!(twin.load("ma"), 1);
    twin.compare().await;
}

#[tokio::test]
async fn one_that_waits_can_be_kept_or_void_but_not_done() {
    let mut twin = transfer().await;
    for name in ["w1", "w2"] {
        assert_eq!(twin.who("g", name).await, None);
    }
    assert_eq!(
        settle(&mut twin, "w1", SettlementOutcome::Done).await,
        Settled::Unknown
    );
    let kept = SettlementOutcome::Kept(member("mz"));
    assert_eq!(
        settle(&mut twin, "w1", kept).await,
        Settled::Kept { from: None }
    );
    let void = SettlementOutcome::Void(reason("left"));
    assert_eq!(
        settle(&mut twin, "w2", void).await,
        Settled::Void { member: None }
    );
    assert_eq!(twin.model.waiting(&pool("g")), []);
    assert_eq!(twin.load("mz"), 1);
    twin.compare().await;
}

/// Case 88: he was given to another meanwhile, or to another and back. What is told of the earlier assignment changes
/// nothing of the present one.
#[tokio::test]
async fn a_late_word_about_an_earlier_assignment_changes_nothing() {
    let mut twin = transfer().await;
    let about = |who: Option<&str>, epoch, outcome: &SettlementOutcome| {
        Op::Settle(Settlement {
            expect: Some(Assignment {
                member: who.map(member),
                epoch,
            }),
            ..settlement("g", "wmC001", outcome.clone())
        })
    };
    twin.cap("mb", 5).await;
    for (to, epoch) in [("mb", 0), ("ma", 1)] {
        let moved = Op::Reassign(reassignment("g", "wmC001", Some(to), epoch));
        let answer = twin.apply(moved).await.answer;
        assert!(matches!(
            answer,
            Answer::Reassigned(Reassigned::Moved { .. })
        ));
    }
    let outcomes = [
        SettlementOutcome::Done,
        SettlementOutcome::Kept(member("mz")),
        SettlementOutcome::Void(reason("refused")),
    ];
    let stale = Answer::Settled(Settled::Stale {
        member: Some(member("ma")),
    });
    for outcome in &outcomes {
        for (who, epoch) in [(Some("ma"), 0), (Some("mb"), 2), (None, 2), (Some("ma"), 3)] {
            let answer = twin.apply(about(who, epoch, outcome)).await.answer;
            assert_eq!(answer, stale, "{who:?} {epoch} {outcome:?}");
        }
    }
    assert_eq!((twin.load("ma"), twin.load("mb")), (1, 0));
    let done = Answer::Settled(Settled::Done {
        member: member("ma"),
    });
    let answer = twin.apply(about(Some("ma"), 2, &outcomes[0])).await.answer;
    assert_eq!(answer, done);
    let again = twin.apply(about(Some("ma"), 2, &outcomes[0])).await.answer;
    assert_eq!(again, Answer::Settled(Settled::Already));
    twin.compare().await;
}
