//! `ack`.

use inbox::{EntryId, Failed, Group};

use crate::support::{T0, fixture, read};

#[tokio::test]
async fn counts_what_was_pending_once() {
    let f = fixture().await;
    f.append(&["a", "b"]).await;
    let mut consumer = f.consumer(Group::Record, "one").await;
    let got = read(&mut consumer, 10).await;
    let entries = [got[0].entry, got[1].entry, EntryId { ms: 1, seq: 1 }];
    assert_eq!(f.inbox.ack(Group::Record, &entries).await.unwrap(), 2);
    assert_eq!(f.inbox.ack(Group::Record, &entries).await.unwrap(), 0);
    assert_eq!(
        f.inbox.ack(Group::Decide, &entries).await.unwrap(),
        0,
        "groups are separate"
    );
    assert_eq!(f.inbox.ack(Group::Decide, &[]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_failed_entry_that_succeeds_is_forgotten() {
    let f = fixture().await;
    f.append(&["a"]).await;
    let mut consumer = f.consumer(Group::Record, "one").await;
    let got = read(&mut consumer, 10).await;
    let failed = f
        .inbox
        .fail(Group::Record, &[got[0].entry], "x", Some(T0))
        .await
        .unwrap();
    assert_eq!(failed, [Failed::Waits]);
    consumer.ack(&got).await.unwrap();
    assert_eq!(f.server.cli(&["EXISTS", &f.key("inbox:retry:record")]), "0");
    consumer.set_clock(T0 + 1_000_000);
    assert!(read(&mut consumer, 10).await.is_empty());
}
