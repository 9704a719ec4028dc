//! `claim`, through a consumer: what is due again comes back, what was deleted is counted, a lost group is mended.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use inbox::{Config, EntryId, Group};

use crate::support::{config, fixture, fixture_with, patient, read, texts, until};

#[tokio::test]
async fn entries_of_a_dead_consumer_come_to_another() {
    let f = fixture().await;
    f.append(&["a", "b"]).await;
    let mut dead = f.consumer(Group::Decide, "dead").await;
    assert_eq!(texts(&read(&mut dead, 1).await), ["a"]);
    drop(dead);

    let mut other = f.consumer(Group::Decide, "other").await;
    let again = read(&mut other, 10).await;
    assert_eq!(texts(&again), ["a"]);
    assert!(again[0].again);
    assert_eq!(again[0].tries, 0, "a death is no try");
    other.ack(&again).await.unwrap();
    let fresh = read(&mut other, 10).await;
    assert_eq!(texts(&fresh), ["b"]);
    assert!(!fresh[0].again);
}

#[tokio::test]
async fn entries_of_the_living_are_left_alone() {
    let f = fixture_with(Config {
        claim_idle_ms: 60_000,
        claim_every_ms: 0,
        ..Config::default()
    })
    .await;
    f.append(&["a"]).await;
    let mut one = f.consumer(Group::Decide, "one").await;
    let mut other = f.consumer(Group::Decide, "other").await;
    assert_eq!(read(&mut one, 10).await.len(), 1);
    assert!(read(&mut other, 10).await.is_empty());
}

/// Case 101.
#[tokio::test]
async fn deleted_entries_are_counted_as_lost_and_pend_no_more() {
    let f = fixture().await;
    let texts: Vec<String> = (0..16).map(|n| n.to_string()).collect();
    f.append(&texts.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    let mut dead = f.consumer(Group::Decide, "dead").await;
    let got = read(&mut dead, 16).await;
    for delivery in &got[3..13] {
        let id = delivery.entry.to_string();
        assert_eq!(f.server.cli(&["XDEL", &f.key("inbox"), &id]), "1");
    }

    let mut other = f.consumer(Group::Decide, "other").await;
    let mut handled = BTreeSet::new();
    // Bounded: if it went round in circles, more would be read than there is.
    for _ in 0..4 {
        let got = read(&mut other, 16).await;
        handled.extend(got.iter().map(|delivery| delivery.plaintext.clone()));
        other.ack(&got).await.unwrap();
    }
    assert_eq!(handled.len(), 6);
    assert_eq!(f.inbox.counters().lost, 10);
    assert_eq!(f.inbox.stats(None).await.unwrap().decide.pending, 0);
}

/// Case 102.
#[tokio::test]
async fn readers_go_on_after_the_keys_were_flushed() {
    let server = test_redis::Server::start(test_redis::Options::default());
    let f = crate::support::fixture_on(&server, patient()).await;
    let handled = Arc::new(Mutex::new(BTreeSet::new()));
    for number in 0..3 {
        let mut consumer = f.consumer(Group::Decide, &format!("c{number}")).await;
        let handled = handled.clone();
        // It ends with the runtime of this test.
        tokio::spawn(async move {
            loop {
                let got = consumer.next(10, Duration::from_millis(200)).await.unwrap();
                consumer.ack(&got).await.unwrap();
                let texts = got.into_iter().map(|delivery| delivery.plaintext);
                handled.lock().unwrap().extend(texts);
            }
        });
    }
    f.append(&["before"]).await;
    until(async || handled.lock().unwrap().len() == 1).await;
    server.cli(&["FLUSHALL"]);
    let texts: Vec<String> = (0..100).map(|n| format!("after {n}")).collect();
    f.append(&texts.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    until(async || handled.lock().unwrap().len() == 101).await;
    assert!(
        f.inbox.counters().groups_created >= 2,
        "the loss is counted"
    );
}

/// Case 103. The inbox reads from the start again; that the twenty are duplicates is for their handler to know,
/// by the delivery id.
#[tokio::test]
async fn a_destroyed_group_reads_from_the_start() {
    let f = fixture_with(patient()).await;
    let texts: Vec<String> = (0..70).map(|n| n.to_string()).collect();
    f.append(&texts.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    let mut consumer = f.consumer(Group::Decide, "one").await;
    let first = read(&mut consumer, 20).await;
    consumer.ack(&first).await.unwrap();
    let mut handled: BTreeSet<_> = first.iter().map(|delivery| delivery.id).collect();

    f.server
        .cli(&["XGROUP", "DESTROY", &f.key("inbox"), "decide"]);
    assert_eq!(
        f.inbox.trim().await.unwrap(),
        0,
        "nobody knows what was read"
    );
    let (mut fresh, mut duplicates) = (0, 0);
    for _ in 0..10 {
        let got = read(&mut consumer, 20).await;
        for delivery in &got {
            if handled.insert(delivery.id) {
                fresh += 1
            } else {
                duplicates += 1
            }
        }
        consumer.ack(&got).await.unwrap();
    }
    assert_eq!((fresh, duplicates), (50, 20));
    assert_eq!(f.inbox.counters().groups_created, 2);
}

#[tokio::test]
async fn a_long_list_of_pending_entries_is_walked_to_its_end() {
    let f = fixture_with(config()).await;
    let texts: Vec<String> = (0..50).map(|n| n.to_string()).collect();
    f.append(&texts.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    let mut dead = f.consumer(Group::Decide, "dead").await;
    assert_eq!(read(&mut dead, 50).await.len(), 50);
    let mut other = f.consumer(Group::Decide, "other").await;
    let mut seen: Vec<EntryId> = Vec::new();
    for _ in 0..10 {
        seen.extend(
            read(&mut other, 5)
                .await
                .iter()
                .map(|delivery| delivery.entry),
        );
    }
    seen.sort();
    seen.dedup();
    assert_eq!(
        seen.len(),
        50,
        "ten claims of five, none from the front again"
    );
}

#[tokio::test]
async fn foreign_entries_become_dead_letters_at_once() {
    let f = fixture().await;
    f.server
        .cli(&["XADD", &f.key("inbox"), "*", "what", "ever"]);
    f.append(&["a"]).await;
    let mut consumer = f.consumer(Group::Decide, "one").await;
    assert_eq!(texts(&read(&mut consumer, 10).await), ["a"]);
    let letters = f
        .inbox
        .dead_list(EntryId::MIN, EntryId::MAX, 10)
        .await
        .unwrap();
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].reason, "not an entry of the inbox");
}
