//! Old days of deliveries: dropped whole, unless something is still to come of one.

use futures_util::future::join_all;
use ledger::{DeliveryOutcome, Error, Ledger, NewDelivery, OldDay};
use sqlx::Executor;

use crate::setup::{Setup, T0, config, setup, subject};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Of the n-th day after `T0`.
fn delivery(day: u64) -> NewDelivery {
    NewDelivery {
        id: format!("{day:064x}"),
        received_ms: T0 + day * DAY_MS,
        endpoint: "main".into(),
        body: "<xml/>".into(),
        event: None,
        change_type: None,
        event_ms: None,
        subject: Some(subject("wmC001")),
        problem: None,
    }
}

fn outcome(day: u64) -> DeliveryOutcome {
    let delivery = delivery(day);
    DeliveryOutcome {
        delivery: delivery.id,
        received_ms: delivery.received_ms,
        outcome: "ignored".into(),
        reason: None,
        allocation: None,
    }
}

/// `n` days, each with one delivery, of which those in `undecided` have no outcome.
async fn days(n: u64, undecided: &[u64]) -> Setup {
    let setup = setup().await;
    let deliveries = setup.ledger.deliveries();
    let rows: Vec<_> = (0..n).map(delivery).collect();
    deliveries.record(&setup.corp, &rows).await.unwrap();
    let decided = (0..n).filter(|day| !undecided.contains(day));
    let outcomes: Vec<_> = decided.map(outcome).collect();
    deliveries
        .set_outcomes(&setup.corp, &outcomes, T0)
        .await
        .unwrap();
    setup
}

/// Which days still have their delivery, and which their outcome, in the tables.
async fn left(setup: &Setup) -> (Vec<u64>, Vec<u64>) {
    let mut connection = setup.database.connect().await;
    let mut of = async |table: &str| -> Vec<u64> {
        let sql = format!(
            "SELECT (extract(epoch FROM received_at) * 1000)::bigint FROM {table} ORDER BY 1"
        );
        let times: Vec<i64> = sqlx::query_scalar(sqlx::AssertSqlSafe(sql))
            .fetch_all(&mut connection)
            .await
            .unwrap();
        times
            .into_iter()
            .map(|ms| (ms.cast_unsigned() - T0) / DAY_MS)
            .collect()
    };
    (of("deliveries").await, of("delivery_outcomes").await)
}

fn undecided(old: &[OldDay]) -> Vec<u64> {
    old.iter().map(|day| day.undecided).collect()
}

/// The first moment of the n-th day.
fn midnight(day: u64) -> u64 {
    T0 - T0 % DAY_MS + day * DAY_MS
}

#[tokio::test]
async fn days_past_their_time_go_and_undecided_ones_stay() {
    let setup = days(6, &[1]).await;
    let deliveries = setup.ledger.deliveries();
    let drop_old =
        async |before_ms: u64| undecided(&deliveries.drop_old(before_ms, 2).await.unwrap());
    let too_early = drop_old(midnight(1) - 1).await;
    assert!(too_early.is_empty(), "a day is kept whole: {too_early:?}");
    // Four days are over; no more than two of them go at once, the oldest first.
    assert_eq!(drop_old(midnight(4)).await, [0, 1, 0]);
    assert_eq!(left(&setup).await, (vec![1, 3, 4, 5], vec![3, 4, 5]));
    assert_eq!(drop_old(midnight(4)).await, [1, 0]);
    assert_eq!(drop_old(midnight(4)).await, [1]);
    assert_eq!(left(&setup).await, (vec![1, 4, 5], vec![4, 5]));
    // Something comes of it after all.
    let late = [outcome(1)];
    deliveries
        .set_outcomes(&setup.corp, &late, T0)
        .await
        .unwrap();
    assert_eq!(drop_old(midnight(4)).await, [0]);
    assert_eq!(left(&setup).await, (vec![4, 5], vec![4, 5]));
    // Who comes late makes his day anew, and it goes as the others do.
    deliveries
        .record(&setup.corp, &[delivery(0)])
        .await
        .unwrap();
    assert_eq!(drop_old(midnight(4)).await, [1]);
}

/// Of a forgotten customer nothing is left that could be decided.
#[tokio::test]
async fn scrubbed_deliveries_hold_no_day() {
    let setup = days(2, &[0]).await;
    let customers = setup.ledger.customers();
    customers
        .forget(&setup.corp, &subject("wmC001"), T0)
        .await
        .unwrap();
    let old = setup
        .ledger
        .deliveries()
        .drop_old(midnight(1), 9)
        .await
        .unwrap();
    assert_eq!(undecided(&old), [0]);
    assert_eq!(left(&setup).await, (vec![1], vec![1]));
}

#[tokio::test]
async fn of_many_allocators_one_drops_a_day() {
    let setup = days(6, &[2]).await;
    let others = join_all((0..3).map(|_| Ledger::connect(config(&setup.database.url())))).await;
    let others: Vec<Ledger> = others.into_iter().map(Result::unwrap).collect();
    let tables: Vec<_> = others.iter().map(Ledger::deliveries).collect();
    let drops = tables
        .iter()
        .map(|deliveries| deliveries.drop_old(midnight(5), 9));
    let old: Vec<Vec<OldDay>> = join_all(drops)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let mut dropped = old.concat();
    dropped.retain(|day| day.undecided == 0);
    dropped.sort_by_key(|day| day.day);
    assert_eq!(dropped.len(), 4, "{old:?}");
    dropped.dedup();
    assert_eq!(dropped.len(), 4, "each once: {old:?}");
    assert_eq!(left(&setup).await, (vec![2, 5], vec![5]));
}

/// Whoever died in the middle has left nothing, and whoever is at it keeps the others away.
#[tokio::test]
async fn while_another_is_at_it_nothing_is_done() {
    let setup = days(2, &[]).await;
    let deliveries = setup.ledger.deliveries();
    let mut other = setup.database.connect().await;
    other
        .execute(
            "BEGIN; SELECT pg_advisory_xact_lock(7023362); DROP TABLE delivery_outcomes_20261014",
        )
        .await
        .unwrap();
    assert!(
        deliveries
            .drop_old(midnight(1), 9)
            .await
            .unwrap()
            .is_empty()
    );
    drop(other);
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while deliveries
        .drop_old(midnight(1), 9)
        .await
        .unwrap()
        .is_empty()
    {
        assert!(std::time::Instant::now() < limit);
    }
    assert_eq!(left(&setup).await, (vec![1], vec![1]));
}

/// A backup reads every table for an hour: dropping gives up, and recording goes on.
#[tokio::test]
async fn a_long_reader_is_not_waited_for() {
    let setup = days(2, &[]).await;
    let deliveries = setup.ledger.deliveries();
    let mut reader = setup.database.connect().await;
    reader
        .execute("BEGIN; SELECT count(*) FROM deliveries")
        .await
        .unwrap();
    let refused = deliveries.drop_old(midnight(1), 9).await;
    assert!(matches!(refused, Err(Error::Contended(_))), "{refused:?}");
    assert_eq!(left(&setup).await, (vec![0, 1], vec![0, 1]));
    assert_eq!(
        deliveries
            .record(&setup.corp, &[delivery(1), delivery(9)])
            .await
            .unwrap(),
        1
    );
    reader.execute("COMMIT").await.unwrap();
    let old = deliveries.drop_old(midnight(1), 9).await.unwrap();
    assert_eq!(undecided(&old), [0]);
}
