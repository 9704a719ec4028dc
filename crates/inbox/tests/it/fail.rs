//! `fail`: tries, growing pauses, dead letters.

use inbox::{EntryId, Failed, Group};

use crate::support::{ENDPOINT, T0, delivery, fixture, read, texts};

/// Case 109: one delivery fails always, 99 others are fine.
#[tokio::test]
async fn a_poisoned_delivery_is_dead_after_growing_pauses_and_others_pass() {
    let f = fixture().await;
    let names: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    f.append(&names.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    let mut consumer = f.consumer(Group::Decide, "one").await;
    let mut now_ms = T0;
    consumer.set_clock(now_ms);
    let got = read(&mut consumer, 100).await;
    let (poison, fine): (Vec<_>, Vec<_>) = got.into_iter().partition(|d| d.plaintext == "42");
    assert_eq!(consumer.ack(&fine).await.unwrap(), 99);

    let entry = [poison[0].entry];
    for (tries, pause) in [(1, 1_000), (2, 5_000), (3, 25_000), (4, 125_000)] {
        let failed = f
            .inbox
            .fail(Group::Decide, &entry, "cannot parse", Some(now_ms))
            .await;
        assert_eq!(failed.unwrap(), [Failed::Waits]);
        consumer.set_clock(now_ms + pause - 1);
        assert!(
            read(&mut consumer, 10).await.is_empty(),
            "the pause is not over"
        );
        now_ms += pause;
        consumer.set_clock(now_ms);
        let again = read(&mut consumer, 10).await;
        assert_eq!(texts(&again), ["42"]);
        assert_eq!(again[0].tries, tries);
    }
    let failed = f
        .inbox
        .fail(Group::Decide, &entry, "cannot parse", Some(now_ms))
        .await
        .unwrap();
    assert_eq!(failed, [Failed::Dead]);
    assert_eq!(
        f.inbox
            .fail(Group::Decide, &entry, "x", Some(now_ms))
            .await
            .unwrap(),
        [Failed::Gone]
    );

    let letters = f
        .inbox
        .dead_list(EntryId::MIN, EntryId::MAX, 10)
        .await
        .unwrap();
    assert_eq!(letters.len(), 1);
    let letter = &letters[0];
    assert_eq!((letter.group, letter.tries), (Group::Decide, 5));
    assert_eq!((letter.entry, letter.failed_ms), (entry[0], now_ms));
    assert_eq!(
        (letter.reason.as_str(), letter.endpoint.as_str()),
        ("cannot parse", ENDPOINT)
    );
    assert_eq!(
        (letter.delivery, letter.received_ms),
        (delivery("42").id(), T0)
    );
    assert_eq!(letter.plaintext, "42");
    assert_eq!(f.inbox.stats(None).await.unwrap().decide.pending, 0);
}

/// A store outage is no try: claims alone never count.
#[tokio::test]
async fn claims_are_no_tries() {
    let f = fixture().await;
    f.append(&["a"]).await;
    let mut consumer = f.consumer(Group::Record, "one").await;
    for _ in 0..20 {
        let got = read(&mut consumer, 1).await;
        assert_eq!(got[0].tries, 0);
    }
}

#[tokio::test]
async fn a_consumer_that_dies_during_a_try_keeps_the_count() {
    let f = fixture().await;
    f.append(&["a"]).await;
    let mut dead = f.consumer(Group::Decide, "dead").await;
    let got = read(&mut dead, 1).await;
    f.inbox
        .fail(Group::Decide, &[got[0].entry], "x", Some(T0))
        .await
        .unwrap();
    dead.set_clock(T0 + 1_000);
    assert_eq!(read(&mut dead, 1).await[0].tries, 1);
    drop(dead);
    let mut other = f.consumer(Group::Decide, "other").await;
    other.set_clock(T0 + 1_000);
    assert_eq!(read(&mut other, 1).await[0].tries, 1);
}

#[tokio::test]
async fn what_was_deleted_is_lost_not_dead() {
    let f = fixture().await;
    f.append(&["a"]).await;
    let mut consumer = f.consumer(Group::Decide, "one").await;
    let got = read(&mut consumer, 1).await;
    f.server
        .cli(&["XDEL", &f.key("inbox"), &got[0].entry.to_string()]);
    let failed = f
        .inbox
        .fail(Group::Decide, &[got[0].entry], "x", None)
        .await
        .unwrap();
    assert_eq!(failed, [Failed::Lost]);
    assert_eq!(f.inbox.counters().lost, 1);
}

#[tokio::test]
async fn long_reasons_are_cut_between_characters() {
    let f = fixture().await;
    f.append(&["a"]).await;
    let mut consumer = f.consumer(Group::Decide, "one").await;
    let got = read(&mut consumer, 1).await;
    for _ in 0..5 {
        f.inbox
            .fail(Group::Decide, &[got[0].entry], &"错".repeat(500), None)
            .await
            .unwrap();
    }
    let letters = f
        .inbox
        .dead_list(EntryId::MIN, EntryId::MAX, 10)
        .await
        .unwrap();
    assert_eq!(letters[0].reason, "错".repeat(100));
}
