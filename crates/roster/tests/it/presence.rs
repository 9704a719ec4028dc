//! Who is there, caps and blocks.

use allocation::{Answer, MAX_LEASE_ENDS, MemberChange, Op, PresenceChange, SetMember, Strategy};

use crate::support::*;

const FAIR: Strategy = Strategy::WeightedRoundRobin;

#[tokio::test]
async fn a_lease_ends_by_itself() {
    let mut twin = Twin::new().await;
    twin.pool("g", 1, FAIR, &[("ma", "1"), ("mb", "1")]).await;
    let until = twin.now + 60_000;
    twin.lease(&["ma"], until).await;
    twin.on(&["mb"]).await;
    twin.now = until - 1;
    let mut both = [
        twin.who("g", "c1").await.unwrap(),
        twin.who("g", "c2").await.unwrap(),
    ];
    both.sort();
    assert_eq!(both, ["ma", "mb"]);
    twin.now = until;
    assert_eq!(twin.who("g", "c3").await.unwrap(), "mb");
    assert_eq!(twin.who("g", "c4").await.unwrap(), "mb");
    twin.compare().await;
}

/// A call ends a bounded number of leases, and still nobody is picked whose lease is over.
#[tokio::test]
async fn many_leases_end_at_once() {
    for (name, strategy) in [("g", FAIR), ("l", Strategy::LeastLoad)] {
        let mut twin = Twin::new().await;
        let names: Vec<String> = (0..3 * MAX_LEASE_ENDS).map(|i| format!("m{i}")).collect();
        let mut members: Vec<(&str, &str)> =
            names.iter().map(|name| (name.as_str(), "1")).collect();
        members.push(("a-there", "0.001"));
        twin.pool(name, 1, strategy, &members).await;
        let until = twin.now + 60_000;
        for part in names.chunks(256) {
            let changes = part.iter().map(|name| PresenceChange {
                member: member(name),
                lease_until_ms: until,
            });
            twin.apply(Op::Presence(changes.collect())).await;
        }
        twin.on(&["a-there"]).await;
        twin.now = until;
        let outcome = twin.apply(Op::Decide(vec![request(name, "c1")])).await;
        // All that this call came to were over: it waits, and the call says that there is more to do.
        assert!(outcome.more, "{outcome:?}");
        twin.compare().await;
        let mut woken = Vec::new();
        for _ in 0..4 {
            woken.extend(
                twin.apply(Op::Wake {
                    pool: pool(name),
                    limit: 64,
                })
                .await
                .woken,
            );
        }
        assert_eq!(woken[0].member, member("a-there"));
        twin.compare().await;
    }
}

/// Case 81.
#[tokio::test]
async fn the_last_value_stands() {
    let mut twin = Twin::new().await;
    twin.pool("g", 1, FAIR, &[("ma", "1")]).await;
    twin.on(&["ma"]).await;
    for cap in [5, 4, 5, 4] {
        assert_eq!(
            twin.cap("ma", cap).await.answer,
            Answer::Member(MemberChange::Changed)
        );
    }
    assert_eq!(
        twin.cap("ma", 4).await.answer,
        Answer::Member(MemberChange::Same)
    );
    twin.off(&["ma"]).await;
    twin.on(&["ma"]).await;
    let mut given = 0;
    for i in 0..6 {
        given += usize::from(twin.who("g", &format!("c{i}")).await.is_some());
    }
    assert_eq!(given, 4);
    // A cap below the load takes nothing away.
    twin.cap("ma", 2).await;
    assert_eq!(twin.load("ma"), 4);
    assert_eq!(twin.close("c0").await.woken, []);
    let outcome = twin.cap("ma", 4).await;
    assert_eq!(outcome.woken.len(), 1);
    twin.compare().await;
}

/// Cases 74 and 64: a cap counts over all pools, a block holds in all of them.
#[tokio::test]
async fn caps_and_blocks_hold_in_all_pools() {
    let mut twin = Twin::new().await;
    twin.pool("g1", 1, FAIR, &[("ma", "1"), ("mb", "1")]).await;
    twin.pool("g2", 1, Strategy::LeastLoad, &[("ma", "1")])
        .await;
    twin.cap("ma", 3).await;
    twin.on(&["ma"]).await;
    for name in ["c1", "c2"] {
        assert_eq!(twin.who("g2", name).await.unwrap(), "ma");
    }
    assert_eq!(twin.who("g1", "c3").await.unwrap(), "ma");
    assert_eq!(twin.who("g1", "c4").await, None);
    assert_eq!(twin.who("g2", "c5").await, None);
    let block =
        |blocked: Option<&str>| SetMember::capped(member("ma"), Some(10), blocked.map(reason));
    assert_eq!(
        twin.apply(Op::SetMember(block(Some("40098")))).await.woken,
        []
    );
    twin.on(&["mb"]).await;
    assert_eq!(twin.who("g1", "c6").await.unwrap(), "mb");
    assert_eq!(twin.apply(Op::SetMember(block(None))).await.woken.len(), 1);
    twin.compare().await;
}

/// A heartbeat of somebody in no pool is remembered only as long as it lasts.
#[tokio::test]
async fn nothing_is_kept_of_who_is_nothing_here() {
    let mut twin = Twin::new().await;
    twin.off(&["unknown"]).await;
    let until = twin.now + 1000;
    twin.lease(&["guest"], until).await;
    twin.now = until;
    twin.apply(Op::Note).await;
    assert_eq!(twin.model.members().count(), 0);
    twin.compare().await;
}
