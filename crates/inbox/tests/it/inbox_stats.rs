//! `inbox_stats`, and what a queued callback costs (P25).

use inbox::{Group, GroupStats, NewDelivery};

use crate::support::{T0, delivery, fixture, fixture_with, patient, read};

#[tokio::test]
async fn an_empty_inbox_has_numbers_too() {
    let f = fixture().await;
    let stats = f.inbox.stats(None).await.unwrap();
    assert_eq!(
        (stats.length, stats.dead, stats.bytes, stats.oldest_age_ms),
        (0, 0, 0, 0)
    );
    assert_eq!(stats.record, GroupStats::default());
}

#[tokio::test]
async fn groups_are_told_apart() {
    let f = fixture_with(patient()).await;
    f.append(&["a", "b", "c"]).await;
    let mut decide = f.consumer(Group::Decide, "one").await;
    let got = read(&mut decide, 2).await;
    f.inbox.ack(Group::Decide, &[got[0].entry]).await.unwrap();
    let stats = f.inbox.stats(Some(got[0].entry.ms + 700)).await.unwrap();
    assert_eq!((stats.length, stats.oldest_age_ms), (3, 700));
    assert!(stats.bytes > 0);
    let expected = GroupStats {
        pending: 1,
        unread: Some(1),
        consumers: 1,
    };
    assert_eq!(
        (stats.decide, stats.record),
        (expected, GroupStats::default())
    );
}

/// P25: bytes of the stream per queued callback beyond its XML. The memory of duplicates is measured beside it:
/// it is held for 24 h whether the callback is queued or not.
#[tokio::test]
async fn a_queued_callback_costs_few_bytes() {
    let server = test_redis::Server::start(test_redis::Options::default());
    let f = crate::support::fixture_on(&server, patient()).await;
    let used = || -> i64 {
        let info = server.cli(&["INFO", "memory"]);
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix("used_memory:"));
        line.unwrap().trim().parse().unwrap()
    };
    f.inbox.append(&[delivery("warm")]).await.unwrap();
    let before = used();
    let n = 20_000;
    let mut xml = 0;
    for batch in 0..n / 200 {
        let deliveries: Vec<_> = (0..200)
            .map(|k| {
                let text = crate::support::add_event(batch * 200 + k);
                xml += text.len() as i64;
                NewDelivery::new("acme-contact", T0 + batch as u64, text)
            })
            .collect();
        f.inbox.append(&deliveries).await.unwrap();
    }
    let full = used();
    server.cli(&["DEL", &f.key("inbox")]);
    let stream = (full - used() - xml) / n as i64;
    let seen = (used() - before) / n as i64;
    // About 40 are the entry's own; the rest is what is left over in the stream's nodes of 4 kB.
    assert!(stream <= 80, "{stream} bytes of the stream beyond the XML");
    assert!(seen <= 200, "{seen} bytes to know a duplicate");
    let estimate = (f.inbox.stats(None).await.unwrap().bytes) as i64;
    assert_eq!(estimate, 0);
}
