//! One request, one answer.

use allocation::{Decision, Op, REQUEST_MEMORY_MS, RequestId, SettlementOutcome, Strategy};

use crate::support::*;

async fn pool_of_two() -> Twin {
    let mut twin = Twin::new().await;
    let members = [("ma", "1"), ("mb", "1")];
    twin.pool("g", 1, Strategy::WeightedRoundRobin, &members)
        .await;
    twin.on(&["ma", "mb"]).await;
    twin
}

#[tokio::test]
async fn a_subject_has_one_open_allocation_in_a_pool() {
    let mut twin = pool_of_two().await;
    let first = twin.ask("g", "wmC001").await;
    let Decision::Assigned {
        allocation: id,
        member,
    } = first
    else {
        panic!("{first:?}")
    };
    let again = twin.ask("g", "wmC001").await;
    assert_eq!(
        again,
        Decision::Already {
            allocation: id,
            member: Some(member.clone())
        }
    );
    assert_eq!(twin.load(member.as_str()), 1);
    twin.compare().await;
}

#[tokio::test]
async fn an_unknown_pool_decides_nothing() {
    let mut twin = pool_of_two().await;
    let mut unknown = request("nowhere", "wmC001");
    unknown.request = Some(RequestId::new("r1").unwrap());
    let outcome = twin.apply(Op::Decide(vec![unknown.clone()])).await;
    assert_eq!(decisions(outcome), [Decision::NoPool]);
    // Nothing was remembered: the request can be asked again when the pool is there.
    twin.pool("nowhere", 1, Strategy::LeastLoad, &[("ma", "1")])
        .await;
    let outcome = twin.apply(Op::Decide(vec![unknown])).await;
    assert_eq!(member_of(&decisions(outcome)[0]), Some("ma".into()));
}

#[tokio::test]
async fn a_request_id_gets_its_first_answer_for_a_day() {
    let mut twin = pool_of_two().await;
    let mut asked = request("g", "wmC001");
    asked.request = Some(RequestId::new("key-1").unwrap());
    let first = decisions(twin.apply(Op::Decide(vec![asked.clone()])).await).remove(0);
    twin.close("wmC001").await;
    twin.now += REQUEST_MEMORY_MS - 1;
    let again = decisions(twin.apply(Op::Decide(vec![asked.clone()])).await).remove(0);
    assert_eq!(again, Decision::Repeated(Box::new(first)));
    assert_eq!(twin.load("ma") + twin.load("mb"), 0);
    twin.compare().await;
    twin.now += 1;
    let anew = decisions(twin.apply(Op::Decide(vec![asked])).await).remove(0);
    assert!(matches!(anew, Decision::Assigned { .. }), "{anew:?}");
    twin.compare().await;
}

#[tokio::test]
async fn a_batch_answers_in_order_and_sees_itself() {
    let mut twin = pool_of_two().await;
    let asked = ["wmC001", "wmC002", "wmC001"].map(|name| request("g", name));
    let answers = decisions(twin.apply(Op::Decide(asked.to_vec())).await);
    assert_eq!(member_of(&answers[0]), Some("ma".into()));
    assert_eq!(member_of(&answers[1]), Some("mb".into()));
    assert!(matches!(answers[2], Decision::Already { .. }));
    let log = twin.redis.log_read(0, 100).await.unwrap();
    assert_eq!(log.last().unwrap().seq, twin.model.seq());
    twin.compare().await;
}

/// The add event for the taker of a finished transfer is the end of that transfer.
#[tokio::test]
async fn an_event_of_a_transfer_is_an_echo() {
    let mut twin = pool_of_two().await;
    twin.pool("other", 1, Strategy::LeastLoad, &[("mc", "1")])
        .await;
    twin.on(&["mc"]).await;
    let mut asked = request("g", "wmC001");
    asked.holder = Some(member("mb"));
    let first = decisions(twin.apply(Op::Decide(vec![asked])).await).remove(0);
    assert_eq!(member_of(&first), Some("ma".into()));
    let done = settlement("g", "wmC001", SettlementOutcome::Done);
    twin.apply(Op::Settle(done)).await;

    let mut event = request("other", "wmC001");
    event.holder = Some(member("ma"));
    event.echo = true;
    let answer = decisions(twin.apply(Op::Decide(vec![event.clone()])).await).remove(0);
    let expected = Decision::Echo {
        allocation: allocation("g", "wmC001"),
        pool: pool("g"),
    };
    assert_eq!(answer, expected);
    // The giver's own event is none, nor is a question that does not ask for it.
    event.holder = Some(member("mb"));
    let answer = decisions(twin.apply(Op::Decide(vec![event])).await).remove(0);
    assert_eq!(member_of(&answer), Some("mc".into()));
    twin.compare().await;
}

/// Case 117.
#[tokio::test]
async fn ids_that_look_like_numbers_stay_text() {
    let mut twin = Twin::new().await;
    let ids = ["7459035031717794886", "000123", "1e5", "0x10"];
    let members = ids.map(|id| (id, "1"));
    for (rule, name) in [
        (Strategy::WeightedRoundRobin, "007"),
        (Strategy::LeastLoad, "1e3"),
    ] {
        twin.pool(name, 1, rule, &members).await;
    }
    twin.on(&ids).await;
    for name in ["007", "1e3"] {
        let mut seen = Vec::new();
        for subject_name in ids {
            seen.push(twin.who(name, subject_name).await.unwrap());
        }
        seen.sort();
        let mut expected = ids;
        expected.sort();
        assert_eq!(seen, expected);
    }
    twin.compare().await;
}
