//! Starts of transfers: what is looked at under the customers' lock.

use allocation::SubjectKey;
use allocator::reception::intake::WECOM;
use sqlx::{Connection, PgConnection};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use wecom::client::api;
use wecom_sim::ScanRequest;

use crate::lane_stage::{Stage, give_back};

/// Customers of m0 who are to go to m1: each with a transfer, and the row that starts it.
async fn to_be_moved(stage: &Stage, customers: &[&str]) -> Vec<Uuid> {
    let mut ids = Vec::new();
    for customer in customers {
        let scan = ScanRequest::member("m0", "s").customer(*customer);
        stage.sim.scan(&scan).unwrap();
        ids.push(transfer(stage, customer, "m0").await);
    }
    let payload = serde_json::json!({"kind": "transfer", "giver": "m0", "taker": "m1"});
    stage
        .insert("transfer", vec![payload; ids.len()], 3_600)
        .await;
    let tie = "UPDATE outbox AS o SET transfer_id = t.id FROM unnest($1::uuid[]) WITH ORDINALITY AS t (id, n)
        WHERE o.effect_key = n::text";
    sqlx::query(tie)
        .bind(&ids)
        .execute(&mut stage.world.database.connect().await)
        .await
        .unwrap();
    ids
}

async fn transfer(stage: &Stage, customer: &str, giver: &str) -> Uuid {
    let insert = "WITH customer AS (
            INSERT INTO customers (corp_id, id, subject, kind, external_id) VALUES ($1, gen_random_uuid(), $2, 'wecom', $3)
            ON CONFLICT (corp_id, subject) DO UPDATE SET external_id = excluded.external_id RETURNING id)
        INSERT INTO transfers (id, corp_id, customer_id, subject, giver, taker, kind, created_at)
        SELECT gen_random_uuid(), $1, customer.id, $2, $4, 'm1', 'in_service', now() FROM customer RETURNING id";
    sqlx::query_scalar(insert)
        .bind(stage.world.corp.as_str())
        .bind(subject(stage, customer).to_string())
        .bind(customer)
        .bind(giver)
        .fetch_one(&mut stage.world.database.connect().await)
        .await
        .unwrap()
}

fn subject(stage: &Stage, customer: &str) -> SubjectKey {
    SubjectKey::new(&stage.world.corp, WECOM, customer)
}

/// State of the rows, their tries, and whether the transfers count as moves.
async fn seen(stage: &Stage) -> Vec<(String, i32, String, bool)> {
    let select = "SELECT o.state, o.tries, t.state, t.started_at IS NOT NULL FROM outbox AS o
        JOIN transfers AS t ON t.id = o.transfer_id ORDER BY o.effect_key";
    sqlx::query_as(select)
        .fetch_all(&mut stage.world.database.connect().await)
        .await
        .unwrap()
}

async fn until<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    let limit = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(
            tokio::time::Instant::now() < limit,
            "waited in vain: {what}"
        );
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

async fn waits_for_a_row(outside: &mut PgConnection) -> bool {
    let waits = "SELECT count(*) > 0 FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    sqlx::query_scalar(waits).fetch_one(outside).await.unwrap()
}

/// Case 85: what another process moved while this one waited for a place counts too: nobody is moved more than twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moves_are_counted_under_the_lock() {
    let stage = Stage::new(2).await;
    let places = stage.all_places(api::TRANSFER_CUSTOMER).await;
    to_be_moved(&stage, &["wmOften"]).await;
    let _process = stage.process().await;
    stage.until("claimed", |rows| rows.running > 0).await;
    // Whoever counts before he has the lock has done so by now.
    for _ in 0..20 {
        stage.rows().await;
    }
    for giver in ["ma", "mb"] {
        let moved = transfer(&stage, "wmOften", giver).await;
        let ended = "UPDATE transfers SET state = 'done', started_at = now(), ended_at = now() WHERE id = $1";
        sqlx::query(ended)
            .bind(moved)
            .execute(&mut stage.world.database.connect().await)
            .await
            .unwrap();
    }
    give_back(places).await;
    stage
        .until("at an end", |rows| {
            rows.running == 0 && rows.begun == 0 && rows.ended == 1
        })
        .await;
    let refused = ("failed".to_owned(), 0, "failed".to_owned(), false);
    assert_eq!(seen(&stage).await, [refused]);
    assert_eq!(stage.calls(api::TRANSFER_CUSTOMER), 0);
}

/// Whoever has lost the customers' lock before the call has left the house does not call: that is no try and no move.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_lock_nothing_is_started() {
    let stage = Stage::new(2).await;
    let customers = ["wmLost1", "wmLost2"];
    let ids = to_be_moved(&stage, &customers).await;
    // The start is held up where it is written down.
    let mut holder = stage.world.database.connect().await;
    let mut holding = holder.begin().await.unwrap();
    sqlx::query("SELECT FROM transfers WHERE id = ANY($1) FOR UPDATE")
        .bind(&ids)
        .execute(&mut *holding)
        .await
        .unwrap();
    let stop = CancellationToken::new();
    let process = stage.process_until(stop.clone()).await;
    until("it is being written down", async || {
        let mut outside = stage.world.database.connect().await;
        waits_for_a_row(&mut outside).await.then_some(())
    })
    .await;
    let lock = |customer: &str| {
        let subject = subject(&stage, customer);
        format!("{{{}}}:v1:lock:customer:{subject}", stage.world.corp)
    };
    let redis = |args: &[&str]| format!("{:?}", test_redis::shared().cli(args));
    assert!(redis(&["DEL", &lock(customers[0])]).contains('1'));
    // Its owner notices with the next renewal, and gives back what he has left.
    until("the lock is known to be lost", async || {
        redis(&["EXISTS", &lock(customers[1])])
            .contains('0')
            .then_some(())
    })
    .await;
    // It will not be tried again before we look.
    stop.cancel();
    holding.commit().await.unwrap();
    process.await.unwrap();
    let back = ("pending".to_owned(), 0, "submitted".to_owned(), false);
    assert_eq!(seen(&stage).await, [back.clone(), back]);
    assert_eq!(stage.calls(api::TRANSFER_CUSTOMER), 0);

    let _again = stage.process().await;
    stage.until("they are started", |rows| rows.done == 2).await;
    let counters = stage.sim.counters();
    assert_eq!(
        counters.corps[stage.world.corp.as_str()].transfers_accepted,
        2
    );
}
