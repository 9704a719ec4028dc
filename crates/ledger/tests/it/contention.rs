//! Many callers, few connections: nobody waits for himself, nothing deadlocks for good, and what is dropped half-way
//! leaves no trace.

use std::time::Duration;

use futures_util::future::join_all;
use ledger::{Change, Claim, Config, Finish, Ledger, NewDelivery, Outcome};

use crate::setup::{Setup, T0, batch, customer, decided, effect, entry, setup_with, subject};

fn small(max_connections: u32) -> impl FnOnce(Config) -> Config {
    move |config| Config {
        max_connections,
        ..config
    }
}

/// Sessions of the ledger that are neither idle nor at work.
async fn stuck(setup: &Setup) -> i64 {
    setup
        .number(
            "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = 'paidan' AND state LIKE 'idle in transaction%'",
        )
        .await
}

/// Case 122: two connections, fifty callers of every kind; nobody holds one while he waits for another.
#[tokio::test]
async fn few_connections_serve_many_callers() {
    let setup = setup_with(small(2)).await;
    let entries: Vec<_> = (1..=50)
        .map(|n| {
            let changes = vec![
                Change::Decided(decided(n, Some("mA"))),
                Change::Effect(effect("card", &n.to_string())),
            ];
            entry(n, changes)
        })
        .collect();
    setup.write_batch(&batch(entries)).await.unwrap();
    let work = join_all((0..50_u64).map(|n| {
        let (ledger, corp) = (setup.ledger.clone(), setup.corp.clone());
        async move {
            if let Some(write) = ledger.begin_log_write(&corp).await.unwrap() {
                let next = write.log_seq() + 1;
                let changes = vec![Change::Decided(decided(100 + n, Some("mB")))];
                write
                    .commit(&batch(vec![entry(next, changes)]))
                    .await
                    .unwrap();
            }
            let claim = Claim {
                corp: corp.clone(),
                kind: "card".into(),
                limit: 1,
                lease_ms: 9_000,
            };
            let rows = ledger.outbox().claim(&claim, T0 + 9).await.unwrap();
            let back =
                |row: &ledger::OutboxRow| Finish::new(row.held(), Outcome::NotTried { due_ms: T0 });
            let back: Vec<Finish> = rows.iter().map(back).collect();
            ledger.outbox().finish(&back, T0).await.unwrap();
            ledger
                .allocations()
                .unsettled(&corp, T0 + 1_000, None, 5)
                .await
                .unwrap();
            ledger
                .customers()
                .find(&corp, &subject("wmC001"))
                .await
                .unwrap();
            ledger.counters().await.unwrap();
        }
    }));
    tokio::time::timeout(Duration::from_secs(60), work)
        .await
        .unwrap();
    assert_eq!(stuck(&setup).await, 0);
}

/// Case 118: work dropped after 0-5 ms, a thousand times, with 50 ms between us and Postgres or none.
#[tokio::test]
async fn dropped_work_leaves_no_transaction_behind() {
    for (max_connections, latency) in [(1, 0), (1, 50), (10, 0), (10, 50)] {
        let setup = setup_with(small(max_connections)).await;
        let options = setup.database.options();
        let proxy = test_redis::Proxy::to((options.get_host(), options.get_port()));
        let behind = options.host("127.0.0.1").port(proxy.addr().port());
        let url = sqlx::ConnectOptions::to_url_lossy(&behind).to_string();
        let ledger = Ledger::connect(small(max_connections)(crate::setup::config(&url)))
            .await
            .unwrap();
        proxy.latency(Duration::from_millis(latency));
        for round in 0..250_u64 {
            let (ledger, corp) = (ledger.clone(), setup.corp.clone());
            let work = tokio::spawn(async move {
                if let Some(write) = ledger.begin_log_write(&corp).await? {
                    let next = write.log_seq() + 1;
                    write.commit(&batch(vec![entry(next, vec![])])).await?;
                }
                ledger
                    .customers()
                    .upsert(&corp, &[(subject("wm1"), customer("wm1"))])
                    .await
            });
            // The moment in the life of the work is the point, so time itself is what is varied.
            tokio::time::sleep(Duration::from_millis(round % 6)).await;
            work.abort();
            drop(work.await);
        }
        proxy.latency(Duration::ZERO);
        // What was cut is rolled back as soon as the server has seen it.
        while stuck(&setup).await > 0 {
            tokio::task::yield_now().await;
        }
        let inserts = (0..max_connections).map(|n| {
            let deliveries = ledger.deliveries();
            let corp = setup.corp.clone();
            async move {
                let delivery = NewDelivery {
                    id: n.to_string(),
                    received_ms: T0,
                    endpoint: "main".into(),
                    body: String::new(),
                    event: None,
                    change_type: None,
                    event_ms: None,
                    subject: None,
                    problem: None,
                };
                deliveries.record(&corp, &[delivery]).await.unwrap()
            }
        });
        assert_eq!(
            join_all(inserts).await.into_iter().sum::<u64>(),
            u64::from(max_connections)
        );
        let visible = setup.number("SELECT count(*) FROM deliveries").await;
        assert_eq!(visible, i64::from(max_connections));
        assert_eq!(stuck(&setup).await, 0);
        let log = setup.number("SELECT count(*) FROM log").await;
        let seq = setup
            .ledger
            .corps()
            .get(&setup.corp)
            .await
            .unwrap()
            .unwrap()
            .log_seq;
        assert_eq!(i64::try_from(seq).unwrap(), log);
    }
}

/// Case 123: two replicas write overlapping customers in opposite order.
#[tokio::test]
async fn overlapping_batches_lose_and_double_nothing() {
    let setup = setup_with(small(4)).await;
    let other = Ledger::connect(crate::setup::config(&setup.database.url()))
        .await
        .unwrap();
    let customers: Vec<_> = (0..200)
        .map(|n| (subject(&format!("wm{n}")), customer(&format!("wm{n}"))))
        .collect();
    let backwards: Vec<_> = customers.iter().rev().cloned().collect();
    let (ours, theirs) = (setup.ledger.customers(), other.customers());
    for round in 0..50 {
        let (one, two) = tokio::join!(
            ours.upsert(&setup.corp, &customers),
            theirs.upsert(&setup.corp, &backwards)
        );
        assert_eq!(one.unwrap(), two.unwrap());
        let subject = subject(&format!("wm{round}"));
        let write = async {
            let write = setup
                .ledger
                .begin_log_write(&setup.corp)
                .await
                .unwrap()
                .unwrap();
            let next = write.log_seq() + 1;
            let new = ledger::NewAllocation {
                subject,
                ..decided(round, Some("mA"))
            };
            write
                .commit(&batch(vec![entry(next, vec![Change::Decided(new)])]))
                .await
        };
        let (forget, write) = tokio::join!(theirs.forget(&setup.corp, &subject, T0), write);
        forget.unwrap();
        write.unwrap();
    }
    assert_eq!(setup.number("SELECT count(*) FROM customers").await, 200);
    assert_eq!(setup.number("SELECT count(*) FROM allocations").await, 50);
}

/// A deadlock with a stranger's transaction is tried again.
#[tokio::test]
async fn who_loses_a_deadlock_tries_again() {
    let setup = setup_with(small(4)).await;
    let blocks = setup.ledger.budget_blocks();
    let block = |api: &str| ledger::BudgetBlock {
        api: api.into(),
        scope: "corp".into(),
        until_ms: T0,
    };
    blocks
        .save(&setup.corp, &[block("a"), block("b")])
        .await
        .unwrap();
    let mut stranger = setup.database.connect().await;
    sqlx::raw_sql(
        "SET deadlock_timeout = '10s'; BEGIN; SELECT FROM budget_blocks WHERE api = 'b' FOR UPDATE",
    )
    .execute(&mut stranger)
    .await
    .unwrap();
    let later = [block("a"), block("b")].map(|block| ledger::BudgetBlock {
        until_ms: T0 + 9,
        ..block
    });
    let save = tokio::spawn({
        let (blocks, corp) = (blocks.clone(), setup.corp.clone());
        async move { blocks.save(&corp, &later).await }
    });
    while setup
        .number("SELECT count(*) FROM pg_locks WHERE NOT granted")
        .await
        == 0
    {
        tokio::task::yield_now().await;
    }
    // Now each waits for the other; the server ends ours after its second.
    sqlx::raw_sql("SELECT FROM budget_blocks WHERE api = 'a' FOR UPDATE")
        .execute(&mut stranger)
        .await
        .unwrap();
    sqlx::raw_sql("COMMIT")
        .execute(&mut stranger)
        .await
        .unwrap();
    save.await.unwrap().unwrap();
    assert_eq!(blocks.load(&setup.corp, T0).await.unwrap().len(), 2);
    let deadlocks = async || {
        // Counted a moment later.
        while setup
            .number("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
            .await
            == 0
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), deadlocks())
        .await
        .unwrap();
}
