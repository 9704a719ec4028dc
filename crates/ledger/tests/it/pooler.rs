//! Case 119: behind PgBouncer in transaction mode, found out or told.

use futures_util::future::join_all;
use ledger::{Change, Claim, Config, Finish, Ledger, Outcome, PageRequest};
use rstest::rstest;
use sqlx::{Connection, PgConnection};
use test_postgres::{Database, Pooler};

use crate::setup::{T0, batch, config, corp, customer, decided, effect, entry, migrated, subject};

async fn behind(pooler: &Pooler, told: bool) -> Ledger {
    Ledger::connect(Config {
        pooler: told,
        ..config(&pooler.url())
    })
    .await
    .unwrap()
}

#[rstest]
#[case::found_out(false)]
#[case::told(true)]
#[tokio::test]
async fn two_replicas_and_thirty_clients_work(#[case] told: bool) {
    let database = migrated().await;
    let pooler = Pooler::start(&database, 3).await;
    let replicas = [behind(&pooler, told).await, behind(&pooler, told).await];
    replicas[0].prepare(&[corp()]).await.unwrap();
    let work = join_all((0..30_u64).map(|n| {
        let ledger = replicas[n as usize % 2].clone();
        async move {
            let corp = corp();
            for round in 0..10 {
                let id = n * 10 + round;
                if let Some(write) = ledger.begin_log_write(&corp).await.unwrap() {
                    let next = write.log_seq() + 1;
                    let changes = vec![
                        Change::Decided(decided(id, Some("mA"))),
                        Change::Effect(effect("card", &id.to_string())),
                    ];
                    write
                        .commit(&batch(vec![entry(next, changes)]))
                        .await
                        .unwrap();
                }
                let claim = Claim {
                    corp: corp.clone(),
                    kind: "card".into(),
                    limit: 2,
                    lease_ms: 9_000,
                };
                let rows = ledger.outbox().claim(&claim, T0 + 9).await.unwrap();
                let held: Vec<_> = rows.iter().map(ledger::OutboxRow::held).collect();
                ledger.outbox().begin(&held, 10_000, T0 + 10).await.unwrap();
                let done: Vec<_> = held
                    .iter()
                    .map(|held| Finish::new(*held, Outcome::Done))
                    .collect();
                assert!(
                    ledger
                        .outbox()
                        .finish(&done, T0 + 11)
                        .await
                        .unwrap()
                        .is_empty()
                );
                let external_id = format!("wm{id}");
                ledger
                    .customers()
                    .upsert(&corp, &[(subject(&external_id), customer(&external_id))])
                    .await
                    .unwrap();
                let page = PageRequest::default();
                ledger
                    .allocations()
                    .list(&corp, &Default::default(), &page)
                    .await
                    .unwrap();
                ledger
                    .deliveries()
                    .list(&corp, &Default::default(), &page)
                    .await
                    .unwrap();
            }
        }
    }));
    work.await;
    let seq = replicas[0]
        .corps()
        .get(&corp())
        .await
        .unwrap()
        .unwrap()
        .log_seq;
    let log = replicas[1]
        .corps()
        .read_log(&corp(), 0, 1_000)
        .await
        .unwrap();
    assert_eq!(log.len() as u64, seq);
    assert!(seq > 0);
}

/// A pooler with a process for each of our connections shares none of them, and must be known all the same: the busy
/// replicas beside this one decide which processes it is lent.
#[rstest]
#[case::refuses_settings(&["extra_float_digits"])]
#[case::swallows_settings(&["extra_float_digits", "options"])]
#[tokio::test]
async fn a_roomy_pooler_is_found_out(#[case] ignored: &[&str]) {
    let database = migrated().await;
    let pooler = Pooler::ignoring(&database, 20, ignored).await;
    // Clients in a transaction hold the processes that two idle connections would otherwise take turns on.
    let mut held = Vec::new();
    for _ in 0..4 {
        let mut connection = PgConnection::connect_with(&pooler.options()).await.unwrap();
        sqlx::raw_sql("BEGIN; SELECT 1")
            .execute(&mut connection)
            .await
            .unwrap();
        held.push(connection);
    }
    join_all((0..8).map(|_| async {
        let ledger = behind(&pooler, false).await;
        ledger.prepare(&[corp()]).await.unwrap();
        for _ in 0..20 {
            ledger.corps().get(&corp()).await.unwrap();
        }
    }))
    .await;
}

/// Case 120 behind a pooler: no session is ours, so no lock may be the session's.
#[tokio::test]
async fn migrations_run_behind_a_pooler() {
    let database = Database::empty().await;
    let pooler = Pooler::start(&database, 2).await;
    let replicas = join_all((0..3).map(|_| async {
        let ledger = behind(&pooler, false).await;
        ledger.migrate().await.unwrap()
    }));
    assert_eq!(
        replicas.await.into_iter().sum::<usize>(),
        ledger::MIGRATIONS.len()
    );
}
