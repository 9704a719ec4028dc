//! `append`.

use inbox::{Appended, Group};

use crate::support::{T0, delivery, fixture, read, texts};

#[tokio::test]
async fn stores_once_and_every_group_reads_it() {
    let f = fixture().await;
    let first = f
        .inbox
        .append(&[delivery("a"), delivery("b"), delivery("a")])
        .await
        .unwrap();
    assert_eq!(first, [Appended::New, Appended::New, Appended::Duplicate]);
    let again = f
        .inbox
        .append(&[delivery("b"), delivery("c")])
        .await
        .unwrap();
    assert_eq!(again, [Appended::Duplicate, Appended::New]);

    for group in Group::ALL {
        let mut consumer = f.consumer(group, "one").await;
        let got = read(&mut consumer, 10).await;
        assert_eq!(texts(&got), ["a", "b", "c"]);
        assert_eq!(got[0].id, delivery("a").id());
        assert_eq!(got[0].received_ms, T0);
        assert_eq!(consumer.ack(&got).await.unwrap(), 3);
    }
    assert_eq!(f.inbox.trim().await.unwrap(), 3);
}

#[tokio::test]
async fn keys_are_those_of_the_design() {
    let f = fixture().await;
    f.append(&["a"]).await;
    let hex = f.inbox_seen("a");
    assert_eq!(
        f.server
            .cli(&["EXISTS", &f.key("inbox"), &f.key(&format!("seen:{hex}"))]),
        "2"
    );
    let ttl: u64 = f
        .server
        .cli(&["TTL", &f.key(&format!("seen:{hex}"))])
        .parse()
        .unwrap();
    assert!((86_300..=86_400).contains(&ttl), "24 h: {ttl}");
}
