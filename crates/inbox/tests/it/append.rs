//! `append`.

use std::collections::BTreeSet;

use inbox::{Appended, Config, Group, NewDelivery};

use crate::support::{T0, config, delivery, fixture, fixture_with, read, texts};

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

/// Case 104: consumers are stopped and three times the bound arrives. Nothing that was acknowledged is dropped.
#[tokio::test]
async fn at_its_bound_the_inbox_refuses_and_drops_nothing() {
    let f = fixture_with(Config {
        max_length: 10,
        ..config()
    })
    .await;
    let all: Vec<_> = (0..30).map(|n| delivery(&n.to_string())).collect();
    let mut answers = Vec::new();
    for some in all.chunks(7) {
        answers.extend(f.inbox.append(some).await.unwrap());
    }
    assert!(answers[..10].iter().all(|answer| *answer == Appended::New));
    assert!(answers[10..].iter().all(|answer| *answer == Appended::Full));
    // What is stored is acknowledged all the same; what was refused is no duplicate later.
    let some = [delivery("3"), delivery("29")];
    let answers = f.inbox.append(&some).await.unwrap();
    assert_eq!(answers, [Appended::Duplicate, Appended::Full]);

    let mut handled = Vec::new();
    for group in Group::ALL {
        let mut consumer = f.consumer(group, "one").await;
        let got = read(&mut consumer, 100).await;
        consumer.ack(&got).await.unwrap();
        handled = got;
    }
    assert_eq!(handled.len(), 10);
    f.inbox.trim().await.unwrap();
    assert_eq!(
        f.inbox.append(&some).await.unwrap(),
        [Appended::Duplicate, Appended::New]
    );
}

/// Case 117, and texts that a careless encoding would break.
#[tokio::test]
async fn every_text_comes_back_as_it_was() {
    let f = fixture().await;
    let texts = [
        "7459035031717794886",
        "000123",
        "1e5",
        "0x10",
        "",
        "nul \0 and \u{10} and 你好 🚀",
        "line\r\n$5\r\nbreak",
        "-1",
    ];
    let many: Vec<_> = texts
        .iter()
        .flat_map(|endpoint| {
            texts
                .iter()
                .map(|text| NewDelivery::new(*endpoint, T0, *text))
        })
        .collect();
    let stored = f.inbox.append(&many).await.unwrap();
    assert!(
        stored.iter().all(|answer| *answer == Appended::New),
        "{stored:?}"
    );
    let mut consumer = f.consumer(Group::Record, "one").await;
    let got = read(&mut consumer, 100).await;
    assert_eq!(got.len(), many.len());
    for (sent, got) in many.iter().zip(&got) {
        assert_eq!(
            (&sent.endpoint, &sent.plaintext, sent.id()),
            (&got.endpoint, &got.plaintext, got.id)
        );
    }
    for entity in texts {
        let twice = [NewDelivery::new("x", T0, "e").with_dirty(entity, entity)];
        f.inbox.append(&twice).await.unwrap();
    }
    f.inbox
        .append(&[NewDelivery::new("x", T0, "e").with_dirty("0x10", "1e5")])
        .await
        .unwrap();
    let taken = f
        .inbox
        .dirty_take("0x10", Some(T0 + 5_000), 10, 1_000)
        .await
        .unwrap();
    assert_eq!(
        taken
            .iter()
            .map(|taken| taken.entity.as_str())
            .collect::<Vec<_>>(),
        ["0x10", "1e5"]
    );
}

#[tokio::test]
async fn batches_of_any_size_are_answered_in_order() {
    let f = fixture().await;
    assert_eq!(f.inbox.append(&[]).await.unwrap(), []);
    let many: Vec<_> = (0..1000)
        .map(|n| delivery(&(n % 600).to_string()))
        .collect();
    let answers = f.inbox.append(&many).await.unwrap();
    for (n, answer) in answers.iter().enumerate() {
        let expected = if n < 600 {
            Appended::New
        } else {
            Appended::Duplicate
        };
        assert_eq!(*answer, expected, "{n}");
    }
}

#[tokio::test]
async fn many_at_once_store_each_delivery_once() {
    let f = fixture().await;
    let tasks: Vec<_> = (0..16)
        .map(|task| {
            let inbox = f.inbox.clone();
            tokio::spawn(async move {
                let mut new = 0;
                for batch in 0..25 {
                    // Neighbours overlap: every text is sent by several tasks.
                    let some: Vec<_> = (0..8)
                        .map(|k| delivery(&((task * 3 + batch * 8 + k) % 220).to_string()))
                        .collect();
                    let answers = inbox.append(&some).await.unwrap();
                    new += answers.iter().filter(|a| **a == Appended::New).count();
                }
                new
            })
        })
        .collect();
    let mut new = 0;
    for task in tasks {
        new += task.await.unwrap();
    }
    assert_eq!(new, 220);
    let mut consumer = f.consumer(Group::Decide, "one").await;
    let got = read(&mut consumer, 1000).await;
    let distinct: BTreeSet<_> = got.iter().map(|delivery| &delivery.plaintext).collect();
    assert_eq!((got.len(), distinct.len()), (220, 220));
}
