//! Deliveries: recorded once in any order, with their outcomes, found again.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use ledger::{Change, DeliveryFilter, DeliveryOutcome, NewDelivery, PageRequest};
use rstest::rstest;

use crate::setup::{Setup, T0, allocation, decided, setup, subject};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

fn delivery(n: u64) -> NewDelivery {
    NewDelivery {
        id: format!("{n:064x}"),
        received_ms: T0 + n,
        endpoint: "main".into(),
        body: format!("<xml>{n}</xml>"),
        event: Some("change_external_contact".into()),
        change_type: Some("add_external_contact".into()),
        event_ms: Some(T0),
        subject: Some(subject("wmC001")),
        problem: None,
    }
}

fn outcome(n: u64, word: &str) -> DeliveryOutcome {
    let delivery = delivery(n);
    DeliveryOutcome {
        delivery: delivery.id,
        received_ms: delivery.received_ms,
        outcome: word.into(),
        reason: Some("why".into()),
        allocation: None,
    }
}

async fn listed(setup: &Setup, filter: DeliveryFilter) -> Vec<u64> {
    let page = PageRequest {
        limit: 100,
        cursor: None,
    };
    let page = setup
        .ledger
        .deliveries()
        .list(&setup.corp, &filter, &page)
        .await
        .unwrap();
    page.items
        .into_iter()
        .map(|row| row.delivery.received_ms - T0)
        .collect()
}

/// Cases 16, 20, 21: unknown and unreadable ones are kept too, and counted.
#[tokio::test]
async fn everything_is_recorded_once() {
    let setup = setup().await;
    let deliveries = setup.ledger.deliveries();
    let unknown = NewDelivery {
        event: None,
        change_type: None,
        event_ms: None,
        subject: None,
        ..delivery(2)
    };
    let unreadable = NewDelivery {
        problem: Some("no event".into()),
        body: "\0?".into(),
        ..delivery(3)
    };
    let batch = [
        delivery(1),
        unknown.clone(),
        unreadable.clone(),
        delivery(1),
    ];
    assert_eq!(deliveries.record(&setup.corp, &batch).await.unwrap(), 3);
    assert_eq!(deliveries.record(&setup.corp, &batch).await.unwrap(), 0);
    let get = async |n| {
        deliveries
            .get(&setup.corp, &delivery(n).id)
            .await
            .unwrap()
            .unwrap()
            .delivery
    };
    assert_eq!(get(1).await, delivery(1));
    assert_eq!(get(2).await, unknown);
    assert_eq!(
        get(3).await,
        NewDelivery {
            body: "?".into(),
            ..unreadable
        }
    );
    assert!(
        deliveries
            .get(&setup.corp, "other")
            .await
            .unwrap()
            .is_none()
    );
    let counts = deliveries
        .count_outcomes(&setup.corp, T0, T0 + DAY_MS)
        .await
        .unwrap();
    assert_eq!(counts, BTreeMap::from([(String::new(), 3)]));
}

/// Recording and deciding are two readers: the order in which they write must not matter.
#[rstest]
#[case::recorded_first(true)]
#[case::decided_first(false)]
#[tokio::test]
async fn outcomes_may_come_before_or_after(#[case] recorded_first: bool) {
    let setup = setup().await;
    let deliveries = setup.ledger.deliveries();
    if recorded_first {
        deliveries
            .record(&setup.corp, &[delivery(1)])
            .await
            .unwrap();
    }
    let word = DeliveryOutcome {
        allocation: Some(allocation(1)),
        ..outcome(1, "decided")
    };
    setup
        .write(vec![
            Change::Decided(decided(1, Some("mA"))),
            Change::Delivery(word),
        ])
        .await;
    if !recorded_first {
        assert!(
            deliveries
                .get(&setup.corp, &delivery(1).id)
                .await
                .unwrap()
                .is_none()
        );
        deliveries
            .record(&setup.corp, &[delivery(1)])
            .await
            .unwrap();
    }
    let row = deliveries
        .get(&setup.corp, &delivery(1).id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (row.outcome.as_deref(), row.reason.as_deref()),
        (Some("decided"), Some("why"))
    );
    assert_eq!(
        (row.allocation, row.outcome_ms),
        (Some(allocation(1)), Some(T0 + 1))
    );
    let known = deliveries
        .decided(
            &setup.corp,
            &[(delivery(1).id, T0 + 1), (delivery(2).id, T0 + 2)],
        )
        .await
        .unwrap();
    assert_eq!(
        known,
        BTreeMap::from([(delivery(1).id, "decided".to_owned())])
    );
}

#[tokio::test]
async fn a_later_outcome_replaces_an_earlier_one() {
    let setup = setup().await;
    let deliveries = setup.ledger.deliveries();
    deliveries
        .record(&setup.corp, &[delivery(1), delivery(2)])
        .await
        .unwrap();
    let words = [
        outcome(1, "dead"),
        outcome(2, "ignored"),
        outcome(1, "closed"),
    ];
    deliveries
        .set_outcomes(&setup.corp, &words, T0 + 50)
        .await
        .unwrap();
    deliveries
        .set_outcomes(&setup.corp, &[outcome(2, "decided")], T0 + 60)
        .await
        .unwrap();
    deliveries
        .set_outcomes(&setup.corp, &[], T0 + 70)
        .await
        .unwrap();
    let counts = deliveries
        .count_outcomes(&setup.corp, T0, T0 + DAY_MS)
        .await
        .unwrap();
    assert_eq!(
        counts,
        BTreeMap::from([("closed".into(), 1), ("decided".into(), 1)])
    );
}

#[tokio::test]
async fn lists_filter_and_page_both_ways() {
    let setup = setup().await;
    let deliveries = setup.ledger.deliveries();
    let rows: Vec<_> = (1..=30)
        .map(|n| NewDelivery {
            // Three of each instant.
            received_ms: T0 + n / 3,
            endpoint: if n % 2 == 0 {
                "main".into()
            } else {
                "second".into()
            },
            change_type: (n % 5 > 0).then(|| "add_external_contact".into()),
            event: (n > 4).then(|| "change_external_contact".into()),
            problem: (n == 7).then(|| "no event".into()),
            subject: (n == 8).then(|| subject("wmC008")),
            ..delivery(n)
        })
        .collect();
    deliveries.record(&setup.corp, &rows).await.unwrap();
    let ignored = DeliveryOutcome {
        received_ms: T0 + 3,
        ..outcome(10, "ignored")
    };
    deliveries
        .set_outcomes(&setup.corp, &[ignored], T0)
        .await
        .unwrap();
    let all = DeliveryFilter::default();
    let count = async |filter: DeliveryFilter| listed(&setup, filter).await.len();
    assert_eq!(count(all.clone()).await, 30);
    assert_eq!(
        count(DeliveryFilter {
            endpoint: Some("main".into()),
            ..all.clone()
        })
        .await,
        15
    );
    assert_eq!(
        count(DeliveryFilter {
            event: Some("change_external_contact".into()),
            ..all.clone()
        })
        .await,
        26
    );
    assert_eq!(
        count(DeliveryFilter {
            change_type: Some("add_external_contact".into()),
            ..all.clone()
        })
        .await,
        24
    );
    assert_eq!(
        count(DeliveryFilter {
            outcome: Some("ignored".into()),
            ..all.clone()
        })
        .await,
        1
    );
    assert_eq!(
        count(DeliveryFilter {
            pending: true,
            ..all.clone()
        })
        .await,
        29
    );
    assert_eq!(
        count(DeliveryFilter {
            unreadable: true,
            ..all.clone()
        })
        .await,
        1
    );
    assert_eq!(
        count(DeliveryFilter {
            subject: Some(subject("wmC008")),
            ..all.clone()
        })
        .await,
        1
    );
    let span = DeliveryFilter {
        received_from_ms: Some(T0 + 2),
        received_before_ms: Some(T0 + 4),
        ..all.clone()
    };
    assert_eq!(listed(&setup, span).await, [3, 3, 3, 2, 2, 2]);
    let page = async |cursor| {
        deliveries
            .list(&setup.corp, &all, &PageRequest { limit: 7, cursor })
            .await
            .unwrap()
    };
    let mut pages = vec![page(None).await];
    while let Some(next) = pages.last().unwrap().next.clone() {
        pages.push(page(Some(next)).await);
    }
    let ids: BTreeSet<_> = pages
        .iter()
        .flat_map(|page| &page.items)
        .map(|row| row.delivery.id.clone())
        .collect();
    assert_eq!((pages.len(), ids.len()), (5, 30));
    assert_eq!(page(pages[1].previous.clone()).await.items, pages[0].items);
}

#[tokio::test]
async fn a_range_is_read_in_pieces_for_a_replay() {
    let setup = setup().await;
    let deliveries = setup.ledger.deliveries();
    let rows: Vec<_> = (1..=10)
        .map(|n| NewDelivery {
            received_ms: T0 + n / 4,
            ..delivery(n)
        })
        .collect();
    deliveries.record(&setup.corp, &rows).await.unwrap();
    let mut after: Option<(u64, String)> = None;
    let mut seen = Vec::new();
    loop {
        let last = after.as_ref().map(|(ms, id)| (*ms, id.as_str()));
        let piece = deliveries
            .range(&setup.corp, (T0, T0 + 2), false, last, 3)
            .await
            .unwrap();
        let Some(end) = piece.last() else { break };
        after = Some((end.delivery.received_ms, end.delivery.id.clone()));
        seen.extend(piece.iter().map(|row| row.delivery.id.clone()));
    }
    assert_eq!(seen, (1..8).map(|n| delivery(n).id).collect::<Vec<_>>());
}

#[tokio::test]
async fn partitions_are_made_ahead_and_when_they_are_missing() {
    let setup = setup().await;
    let deliveries = setup.ledger.deliveries();
    assert_eq!(deliveries.make_partitions_ahead(T0, 3).await.unwrap(), 6);
    assert_eq!(
        deliveries
            .make_partitions_ahead(T0 + DAY_MS, 3)
            .await
            .unwrap(),
        2
    );
    // A delivery of any day has a place; many writers of a new day at once, too.
    let late = |n: u64| NewDelivery {
        received_ms: T0 + n * 40 * DAY_MS,
        ..delivery(n)
    };
    let records = join_all((0..20).map(|n| {
        let deliveries = &deliveries;
        let setup = &setup;
        async move {
            deliveries
                .record(&setup.corp, &[late(n % 4), delivery(100 + n)])
                .await
                .unwrap()
        }
    }));
    assert_eq!(records.await.into_iter().sum::<u64>(), 24);
    assert_eq!(setup.number("SELECT count(*) FROM deliveries").await, 24);
}
