//! Redis or a reader dies in the middle. Case 106: what was acknowledged is there afterwards, each once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use inbox::{Appended, Config, EntryId, Failed, Group};
use test_redis::{AppendOnly, Options, Server};

use crate::support::{T0, delivery, fixture_on, patient, read, until};

fn durable() -> Server {
    Server::start(Options {
        appendonly: AppendOnly::Always,
        ..Options::default()
    })
}

/// Writers append and try again until they are answered, as the gateway does; Redis is killed ten times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_is_killed_while_deliveries_are_stored() {
    let server = durable();
    let f = fixture_on(&server, patient()).await;
    let done = Arc::new(Mutex::new(0));
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let (inbox, done) = (f.inbox.clone(), done.clone());
            tokio::spawn(async move {
                for batch in 0..60 {
                    let some: Vec<_> = (0..5)
                        .map(|k| delivery(&format!("{writer} {batch} {k}")))
                        .collect();
                    loop {
                        match inbox.append(&some).await {
                            Ok(answers) => {
                                assert!(!answers.contains(&Appended::Full));
                                break;
                            }
                            Err(error) => assert!(error.is_passing(), "{error}"),
                        }
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    *done.lock().unwrap() += 1;
                }
            })
        })
        .collect();
    for kill in 1..=10 {
        until(async || *done.lock().unwrap() >= kill * 40).await;
        server.restart();
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let mut counts = BTreeMap::new();
    let mut consumer = f.consumer(Group::Decide, "one").await;
    for delivery in read(&mut consumer, 10_000).await {
        *counts.entry(delivery.plaintext).or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 8 * 60 * 5);
    assert!(counts.values().all(|count| *count == 1), "none twice");
}

/// A call that dies half-way leaves either all of its effects or none: the dedupe key without its entry would be
/// a lost delivery.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_stored_whole_or_not_at_all() {
    let server = durable();
    let f = fixture_on(&server, patient()).await;
    for round in 0..10 {
        let many: Vec<_> = (0..250)
            .map(|k| delivery(&format!("{round} {k}")))
            .collect();
        let call = tokio::spawn({
            let (inbox, many) = (f.inbox.clone(), many.clone());
            async move { inbox.append(&many).await.is_ok() }
        });
        // Somewhere before, in or after the call.
        tokio::time::sleep(Duration::from_micros(400 * round)).await;
        server.restart();
        let answered = call.await.unwrap();
        until(async || f.inbox.stats(None).await.is_ok()).await;
        let answers = f.inbox.append(&many).await.unwrap();
        let new = answers.iter().filter(|a| **a == Appended::New).count();
        assert!(
            new == 0 || (new == 250 && !answered),
            "{new} of 250 were missing"
        );
    }
    assert_eq!(f.inbox.stats(None).await.unwrap().length, 2_500);
}

/// Readers die at random moments, with entries read, handled or failed and not yet acknowledged.
#[tokio::test]
async fn readers_die_and_every_delivery_is_handled() {
    let f = crate::support::fixture_with(Config {
        claim_idle_ms: 50,
        claim_every_ms: 0,
        max_tries: 31,
        first_pause_ms: 1,
        longest_pause_ms: 1,
        ..Config::default()
    })
    .await;
    let names: Vec<String> = (0..200).map(|n| n.to_string()).collect();
    f.append(&names.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    let handled = Arc::new(Mutex::new(BTreeMap::new()));
    let mut life = 0;
    while f.inbox.stats(None).await.unwrap().length > 0 {
        life += 1;
        assert!(life < 2_000, "it does not come to an end");
        for group in Group::ALL {
            let mut consumer = f.consumer(group, &format!("c{life}")).await;
            let got = consumer.next(20, Duration::from_millis(60)).await.unwrap();
            let part = got.len() * (life % 4) / 3;
            for delivery in &got[..part.min(got.len())] {
                let key = (group.as_str(), delivery.plaintext.clone());
                *handled.lock().unwrap().entry(key).or_insert(0) += 1;
            }
            match life % 3 {
                0 => {}
                1 => {
                    let entries: Vec<_> = got.iter().map(|d| d.entry).collect();
                    f.inbox.fail(group, &entries, "x", None).await.unwrap();
                }
                _ => {
                    consumer.ack(&got[..part.min(got.len())]).await.unwrap();
                }
            }
        }
        f.inbox.trim().await.unwrap();
    }
    assert_eq!(handled.lock().unwrap().len(), 400, "each by each group");
    assert_eq!(f.inbox.stats(None).await.unwrap().dead, 0);
}

/// Redis dies between the steps of a failing entry: it is pending or dead, never both, never neither.
#[tokio::test]
async fn redis_is_killed_while_entries_fail() {
    let server = durable();
    let f = fixture_on(&server, patient()).await;
    let names: Vec<String> = (0..60).map(|n| n.to_string()).collect();
    f.append(&names.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    let mut consumer = f.consumer(Group::Decide, "one").await;
    let got = read(&mut consumer, 100).await;
    let entries: Vec<_> = got.iter().map(|delivery| delivery.entry).collect();
    for some in entries.chunks(6) {
        let call = tokio::spawn({
            let (inbox, some) = (f.inbox.clone(), some.to_vec());
            async move {
                let mut last = Vec::new();
                for _ in 0..5 {
                    last = inbox.fail(Group::Decide, &some, "x", Some(T0)).await?;
                }
                Ok::<_, inbox::Error>(last)
            }
        });
        tokio::task::yield_now().await;
        server.restart();
        match call.await.unwrap() {
            Ok(last) => assert!(last.iter().all(|failed| *failed == Failed::Dead)),
            Err(error) => assert!(error.is_passing(), "{error}"),
        }
        until(async || f.inbox.stats(None).await.is_ok()).await;
        let stats = f.inbox.stats(None).await.unwrap();
        assert_eq!(stats.decide.pending + stats.dead, 60);
    }
    let letters = f
        .inbox
        .dead_list(EntryId::MIN, EntryId::MAX, 100)
        .await
        .unwrap();
    assert!(letters.iter().all(|letter| entries.contains(&letter.entry)));
}
