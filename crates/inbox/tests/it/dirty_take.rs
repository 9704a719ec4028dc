//! `dirty_mark` and `dirty_take`.

use inbox::{DirtyCount, Taken};

use crate::support::{T0, delivery, fixture};

fn names(taken: &[Taken]) -> Vec<&str> {
    taken.iter().map(|taken| taken.entity.as_str()).collect()
}

#[tokio::test]
async fn marks_coalesce_and_the_earlier_time_stands() {
    let f = fixture().await;
    for due in [T0 + 3_000, T0 + 9_000, T0 + 5_000] {
        f.inbox.dirty_mark("pair", "mA wmC001", due).await.unwrap();
    }
    f.inbox
        .dirty_mark_many("pair", &[("x", T0 + 4_000), ("y", T0 + 2_000)])
        .await
        .unwrap();
    assert_eq!(f.inbox.dirty_first("chat").await.unwrap(), None);
    f.inbox.dirty_mark("chat", "x", T0).await.unwrap();
    assert_eq!(f.inbox.dirty_first("chat").await.unwrap(), Some(T0));
    assert_eq!(f.inbox.dirty_first("pair").await.unwrap(), Some(T0 + 2_000));
    assert!(
        f.inbox
            .dirty_take("pair", Some(T0 + 1_999), 10, 500)
            .await
            .unwrap()
            .is_empty()
    );
    let taken = f
        .inbox
        .dirty_take("pair", Some(T0 + 3_000), 10, 500)
        .await
        .unwrap();
    assert_eq!(names(&taken), ["y", "mA wmC001"]);
    assert_eq!(taken[0].lease_until_ms, T0 + 3_500);
    let count = f.inbox.dirty_count("pair").await.unwrap();
    assert_eq!(
        count,
        DirtyCount {
            waiting: 1,
            taken: 2
        }
    );
}

#[tokio::test]
async fn a_mark_made_while_taken_survives_and_waits_its_turn() {
    let f = fixture().await;
    f.inbox.dirty_mark("pair", "a", T0).await.unwrap();
    let first = f
        .inbox
        .dirty_take("pair", Some(T0), 10, 60_000)
        .await
        .unwrap();
    f.inbox.dirty_mark("pair", "a", T0 + 1).await.unwrap();
    f.inbox.dirty_mark("pair", "b", T0 + 2).await.unwrap();
    let other = f
        .inbox
        .dirty_take("pair", Some(T0 + 10), 1, 60_000)
        .await
        .unwrap();
    assert_eq!(
        names(&other),
        ["b"],
        "one worker at a time, and a taken one hides nobody"
    );
    assert_eq!(f.inbox.dirty_done("pair", &first, None).await.unwrap(), 1);
    let again = f
        .inbox
        .dirty_take("pair", Some(T0 + 11), 1, 60_000)
        .await
        .unwrap();
    assert_eq!(names(&again), ["a"]);
}

#[tokio::test]
async fn a_lease_that_ran_out_is_a_mark_again() {
    let f = fixture().await;
    f.inbox.dirty_mark("pair", "a", T0).await.unwrap();
    let lost = f
        .inbox
        .dirty_take("pair", Some(T0), 10, 1_000)
        .await
        .unwrap();
    assert!(
        f.inbox
            .dirty_take("pair", Some(T0 + 999), 10, 1_000)
            .await
            .unwrap()
            .is_empty()
    );
    let again = f
        .inbox
        .dirty_take("pair", Some(T0 + 1_000), 10, 1_000)
        .await
        .unwrap();
    assert_eq!(names(&again), ["a"]);
    assert_eq!(
        f.inbox.dirty_done("pair", &lost, None).await.unwrap(),
        0,
        "not his any more"
    );
    assert_eq!(f.inbox.dirty_done("pair", &again, None).await.unwrap(), 1);
}

/// An event that may repeat with the same text is not swallowed: its duplicate marks the entity.
#[tokio::test]
async fn a_duplicate_marks_its_entity_and_the_first_does_not() {
    let f = fixture().await;
    let edit = || delivery("edit").with_dirty("pair", "mA wmC001");
    f.inbox.append(&[edit()]).await.unwrap();
    assert_eq!(
        f.inbox.dirty_count("pair").await.unwrap(),
        DirtyCount::default()
    );
    f.inbox
        .append(&[edit(), delivery("other"), delivery("other")])
        .await
        .unwrap();
    assert!(
        f.inbox
            .dirty_take("pair", Some(T0 + 2_999), 10, 1)
            .await
            .unwrap()
            .is_empty()
    );
    let taken = f
        .inbox
        .dirty_take("pair", Some(T0 + 3_000), 10, 1)
        .await
        .unwrap();
    assert_eq!(names(&taken), ["mA wmC001"]);
}

#[tokio::test]
async fn many_takers_share_without_overlap() {
    let f = fixture().await;
    let names: Vec<String> = (0..500).map(|n| format!("e{n}")).collect();
    let marks: Vec<_> = names.iter().map(|name| (name.as_str(), T0)).collect();
    f.inbox.dirty_mark_many("pair", &marks).await.unwrap();
    let takers: Vec<_> = (0..8)
        .map(|_| {
            let inbox = f.inbox.clone();
            tokio::spawn(async move {
                let mut all = Vec::new();
                loop {
                    let taken = inbox.dirty_take("pair", Some(T0), 7, 60_000).await.unwrap();
                    if taken.is_empty() {
                        return all;
                    }
                    all.extend(taken.iter().map(|taken| taken.entity.clone()));
                    inbox.dirty_done("pair", &taken, None).await.unwrap();
                }
            })
        })
        .collect();
    let mut all = Vec::new();
    for taker in takers {
        all.extend(taker.await.unwrap());
    }
    assert_eq!(all.len(), 500);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 500);
    assert_eq!(
        f.inbox.dirty_count("pair").await.unwrap(),
        DirtyCount::default()
    );
}
