//! Which groups are to be read, and what is known and in doubt of them.

use ledger::{
    Doubt, GroupCounts, GroupKnown, GroupProblem, GroupSource, GroupState, OwnCaps, Trail,
};

use crate::groups::{CAPS, chat, created, new_group, new_pool, pool, read};
use crate::setup::{Setup, T0, setup};

async fn due(setup: &Setup, before_ms: u64, now_ms: u64) -> Vec<String> {
    let groups = setup.ledger.groups();
    let due = groups
        .due(&setup.corp, 7, Some(before_ms), now_ms, 10)
        .await;
    let due = due.unwrap();
    due.iter().map(ToString::to_string).collect()
}

async fn stand(names: &[&str]) -> Setup {
    let setup = setup().await;
    setup.put_pool("p1", &new_pool(CAPS)).await;
    for name in names {
        let group = new_group(Some("p1"), OwnCaps::default());
        created(setup.put_group(name, &group).await);
    }
    setup
}

#[tokio::test]
async fn groups_are_due_until_this_generation_knows_who_is_in_them() {
    let setup = stand(&["wr1", "wr2", "wr3"]).await;
    let in_no_pool = new_group(None, OwnCaps::default());
    created(setup.put_group("wr0", &in_no_pool).await);
    let groups = setup.ledger.groups();
    assert_eq!(due(&setup, T0, T0).await, ["wr1", "wr2", "wr3"]);
    for (name, read_ms, generation) in [("wr1", T0 + 20, 7), ("wr2", T0 + 10, 7), ("wr3", T0, 6)] {
        let known = GroupKnown {
            read_ms,
            generation,
        };
        let name = chat(name);
        let told = groups.reckoned(&setup.corp, &name, Some(known), None);
        told.await.unwrap();
    }
    assert_eq!(due(&setup, T0, T0).await, ["wr3"]);
    assert_eq!(due(&setup, T0 + 20, T0).await, ["wr3", "wr2"]);
    let all = ["wr1", "wr2", "wr3", "wr9"].map(chat);
    let known = groups.known_since(&setup.corp, 7, &all).await.unwrap();
    assert_eq!(known.len(), 2);
    assert_eq!(known[&chat("wr1")], T0 + 20);
    // Redis turns out to know nobody of it.
    assert_eq!(groups.unknown(&setup.corp, &all[..1]).await.unwrap(), 1);
    assert_eq!(groups.unknown(&setup.corp, &all[..1]).await.unwrap(), 0);
    assert_eq!(due(&setup, T0, T0).await, ["wr1", "wr3"]);
    // What cannot be read rests, and what is no more is not read.
    groups
        .rests(&setup.corp, &chat("wr1"), T0 + 50)
        .await
        .unwrap();
    let trail = Trail::system(T0, "test");
    let gone = groups.dismissed(&setup.corp, &chat("wr3"), &trail).await;
    assert!(gone.unwrap());
    assert!(due(&setup, T0, T0 + 49).await.is_empty());
    assert_eq!(due(&setup, T0, T0 + 50).await, ["wr1"]);
}

#[tokio::test]
async fn what_is_in_doubt_is_kept_until_it_is_reckoned() {
    let setup = stand(&["wr1"]).await;
    let groups = setup.ledger.groups();
    let (corp, wr1) = (&setup.corp, chat("wr1"));
    let doubt = Doubt {
        digest: "d1".to_owned(),
        at_ms: T0 + 3,
    };
    groups.rests(corp, &wr1, T0 + 99).await.unwrap();
    let known = GroupKnown {
        read_ms: T0,
        generation: 7,
    };
    groups
        .reckoned(corp, &wr1, Some(known), None)
        .await
        .unwrap();
    let reckoned = groups.reckoned(corp, &wr1, None, Some(&doubt));
    reckoned.await.unwrap();
    let kept = groups.doubt(corp, &wr1).await.unwrap().unwrap();
    assert_eq!((kept.pool, kept.doubt), (Some(pool("p1")), Some(doubt)));
    // The doubt takes back nothing that was known, and it rests no longer.
    assert_eq!(due(&setup, T0, T0).await, [""; 0]);
    groups
        .unknown(corp, std::slice::from_ref(&wr1))
        .await
        .unwrap();
    assert_eq!(due(&setup, T0, T0).await, ["wr1"]);
    groups
        .reckoned(corp, &wr1, Some(known), None)
        .await
        .unwrap();
    let kept = groups.doubt(corp, &wr1).await.unwrap().unwrap();
    assert_eq!(kept.doubt, None);
    assert_eq!(groups.doubt(corp, &chat("wr9")).await.unwrap(), None);
}

#[tokio::test]
async fn groups_that_events_tell_of_are_kept_in_stock() {
    let setup = stand(&["wr1"]).await;
    let groups = setup.ledger.groups();
    let trail = Trail::system(T0, "test");
    let mark = groups.mark(&setup.corp).await.unwrap();
    for (name, is_new) in [("wr2", true), ("wr2", false), ("wr1", false)] {
        let found = groups.found(&setup.corp, &read(name, 3, T0), &trail).await;
        assert_eq!(found.unwrap(), is_new, "{name}");
    }
    assert_ne!(groups.mark(&setup.corp).await.unwrap(), mark);
    let many = ["wr2", "wr1", "wr9"].map(chat);
    let many = groups.get_many(&setup.corp, &many).await.unwrap();
    let all: Vec<_> = many
        .iter()
        .map(|group| (group.pool.clone(), group.state, group.source))
        .collect();
    assert_eq!(
        all,
        [
            (Some(pool("p1")), GroupState::Open, GroupSource::Console),
            (None, GroupState::Spare, GroupSource::Event)
        ]
    );
    let problem = GroupProblem {
        errcode: Some(90501),
        error: "no".to_owned(),
    };
    let wr1 = chat("wr1");
    let not_read = groups.not_read(&setup.corp, &wr1, &problem);
    not_read.await.unwrap();
    let counts = groups.counts(&setup.corp, 7).await.unwrap();
    let expected = GroupCounts {
        open: 1,
        spare: 1,
        unread: 1,
        failing: 1,
        ..GroupCounts::default()
    };
    assert_eq!(counts, expected);
}
