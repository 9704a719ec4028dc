use std::{
    collections::BTreeSet,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use allocation::CorpId;
use inbox::{
    Consumer, Delivery, DeliveryId, EntryId, Group, Inbox, NewDelivery,
    connect::{self, connect_blocking, connect_lazy},
};
use tokio_util::sync::CancellationToken;

use super::{Blame, Failure, Work, attempt, sift};
use crate::decide;

/// Breaks when it meets this text.
struct Breaks(&'static str);

impl Work for Breaks {
    type Error = decide::Error;

    async fn run(&self, batch: &[Delivery], _again: bool) -> Result<(), decide::Error> {
        assert!(
            batch.iter().all(|one| one.plaintext != self.0),
            "on purpose"
        );
        Err(decide::Error::LedgerBehind)
    }
}

fn delivery(plaintext: &str) -> Delivery {
    Delivery {
        entry: EntryId::MIN,
        id: DeliveryId::of("main", plaintext),
        endpoint: "main".to_owned(),
        received_ms: 0,
        plaintext: plaintext.to_owned(),
        tries: 0,
        again: false,
    }
}

/// The loop goes on, and the deliveries are to blame; what waits for a store is not.
#[tokio::test]
async fn a_panic_is_the_fault_of_the_deliveries() {
    let batch = [delivery("fine"), delivery("odd")];
    let failure = attempt(&Breaks("odd"), &batch, false).await.unwrap_err();
    assert!(matches!(failure, Failure::Panic) && failure.is_theirs());
    let failure = attempt(&Breaks("other"), &batch, false).await.unwrap_err();
    assert!(matches!(failure, Failure::Error(_)) && !failure.is_theirs());
}

/// Takes everything but number 42, and says once in a while that it must wait a moment.
#[derive(Default)]
struct All {
    done: Mutex<BTreeSet<String>>,
    calls: Mutex<usize>,
}

#[derive(Debug, thiserror::Error)]
#[error("no")]
struct No {
    theirs: bool,
}

impl Blame for No {
    fn is_theirs(&self) -> bool {
        self.theirs
    }

    fn is_momentary(&self) -> bool {
        !self.theirs
    }
}

impl Work for All {
    type Error = No;

    async fn run(&self, batch: &[Delivery], _again: bool) -> Result<(), No> {
        let calls = {
            let mut calls = self.calls.lock().unwrap();
            *calls += 1;
            *calls
        };
        if calls.is_multiple_of(3) {
            return Err(No { theirs: false });
        }
        if batch.iter().any(|one| one.plaintext == "42") {
            return Err(No { theirs: true });
        }
        let names = batch.iter().map(|one| one.plaintext.clone());
        self.done.lock().unwrap().extend(names);
        Ok(())
    }
}

/// Case 109: one delivery fails always, 99 others pass at once; after the stated number of tries it is dead.
#[tokio::test]
async fn one_that_fails_always_is_set_aside() {
    let redis = connect::Config::single(&test_redis::shared().url());
    let corp = CorpId::new(test_redis::corp()).unwrap();
    let config = inbox::Config {
        max_tries: 3,
        first_pause_ms: 10,
        longest_pause_ms: 10,
        claim_every_ms: 10,
        ..inbox::Config::default()
    };
    let inbox = Inbox::new(connect_lazy(&redis).unwrap(), corp.as_str(), config);
    let new: Vec<NewDelivery> = (0..100)
        .map(|n| NewDelivery::new("main", 1_792_000_000_000, n.to_string()))
        .collect();
    inbox.append(&new).await.unwrap();
    let blocking = connect_blocking(&redis).await.unwrap();
    let mut consumer = Consumer::new(inbox.clone(), blocking, Group::Decide, "test");
    let (all, stop) = (All::default(), CancellationToken::new());
    let mut read = 0;
    while inbox.stats(None).await.unwrap().dead == 0 {
        let batch = consumer.next(100, Duration::from_millis(50)).await.unwrap();
        if batch.is_empty() {
            continue;
        }
        read += batch.len();
        let left = sift(&corp, &consumer, batch, &all, &stop).await;
        assert!(left.is_empty());
        assert_eq!(all.done.lock().unwrap().len(), 99);
    }
    assert_eq!(read, 102, "it comes twice more, alone");
    let stats = inbox.stats(None).await.unwrap();
    assert_eq!((stats.dead, stats.decide.pending), (1, 0));
}

/// Says that it must wait a moment, and counts how often it was asked.
#[derive(Default)]
struct Waits(AtomicUsize);

impl Work for Waits {
    type Error = decide::Error;

    async fn run(&self, _batch: &[Delivery], _again: bool) -> Result<(), decide::Error> {
        self.0.fetch_add(1, Relaxed);
        Err(decide::Error::LedgerBehind)
    }
}

#[tokio::test]
async fn a_program_that_stops_waits_for_nothing() {
    let redis = connect::Config::single(&test_redis::shared().url());
    let corp = CorpId::new(test_redis::corp()).unwrap();
    let config = inbox::Config::default();
    let inbox = Inbox::new(connect_lazy(&redis).unwrap(), corp.as_str(), config);
    let blocking = connect_blocking(&redis).await.unwrap();
    let consumer = Consumer::new(inbox, blocking, Group::Decide, "test");
    let (waits, stop) = (Waits::default(), CancellationToken::new());
    stop.cancel();
    let batch = vec![delivery("a"), delivery("b")];
    let left = sift(&corp, &consumer, batch, &waits, &stop).await;
    assert_eq!(left.len(), 2, "the next process has them");
    assert_eq!(waits.0.into_inner(), 1);
}

/// What Redis says of itself is nobody's fault; what it says of a script that broke is.
#[tokio::test]
async fn a_redis_that_takes_no_more_clients_is_an_outage() {
    let config = connect::Config::single(&test_redis::shared().url());
    let mut connection = connect_lazy(&config).unwrap();
    let broken = redis::cmd("EVAL")
        .arg("#!lua\nreturn 1 + nil")
        .arg(0)
        .query_async::<()>(&mut connection)
        .await
        .expect_err("it breaks");
    assert!(super::refused(&broken), "{broken}");
    let full = redis::parse_redis_value(b"-ERR max number of clients reached\r\n")
        .and_then(|value| value.extract_error())
        .expect_err("an error");
    assert!(!super::refused(&full), "{full}");
}
