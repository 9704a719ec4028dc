//! Lanes of the outbox when places are scarce, when WeCom is not to be called, and when their process dies.

use std::time::Duration;

use wecom::client::api;
use wecom_sim::{Act, Fault};

use crate::lane_stage::{Stage, dies, give_back};

/// `outbox.workers`
const WORKERS: i64 = 8;

/// Rows that a dead process had claimed and not begun are few, and another sends them long before their deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_claimed_and_not_begun_is_soon_sent_by_another() {
    let stage = Stage::new(1).await;
    let places = stage.all_places(api::SEND_WELCOME_MSG).await;
    assert_eq!(places.len(), 5);
    stage.welcomes(40).await;
    let first = stage.process().await;
    stage.until("claimed", |rows| rows.running > 0).await;
    dies(first).await;
    let died = tokio::time::Instant::now();
    let rows = stage.rows().await;
    assert_eq!((rows.running, rows.begun), (WORKERS, 0));
    give_back(places).await;
    let _second = stage.process().await;
    stage.until("all are greeted", |rows| rows.done == 40).await;
    let took = died.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(stage.greeted(), 40);
}

/// However long rows wait for a place, that is no write for each of them and each look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_a_place_writes_little() {
    let stage = Stage::new(1).await;
    let places = stage.all_places(api::SEND_WELCOME_MSG).await;
    stage.welcomes(40).await;
    let _process = stage.process().await;
    // It asked in vain for a whole claim, and gave back what it held.
    let rows = stage
        .until("claimed again", |rows| rows.most_claims > 1)
        .await;
    assert!(rows.claims <= 2 * WORKERS, "{rows:?}");
    assert_eq!((rows.begun, stage.calls(api::SEND_WELCOME_MSG)), (0, 0));
    give_back(places).await;
    let rows = stage.until("all are greeted", |rows| rows.done == 40).await;
    assert_eq!(stage.greeted(), 40);
    assert!(rows.claims <= 40 + 3 * WORKERS, "{rows:?}");
}

/// Case 48: whether the dead process' call had its effect nobody knows, so it is not repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_welcome_that_was_begun_is_never_sent_again() {
    let stage = Stage::new(1).await;
    let held = Fault::new(api::SEND_WELCOME_MSG, Act::Hold).after();
    let held = stage.sim.add_fault(held).unwrap();
    stage.welcomes(1).await;
    let first = stage.process().await;
    stage
        .until("on its way", |rows| rows.begun == 1 && stage.greeted() == 1)
        .await;
    dies(first).await;
    stage.sim.remove_fault(&held);
    let _second = stage.process().await;
    stage.forward(16_000);
    stage
        .until("at an end", |rows| rows.running == 0 && rows.claims == 2)
        .await;
    let (state, tries, error): (String, i32, String) =
        sqlx::query_as("SELECT state, tries, last_error FROM outbox")
            .fetch_one(&mut stage.world.database.connect().await)
            .await
            .unwrap();
    assert_eq!((state.as_str(), tries), ("failed", 1));
    assert!(error.starts_with("unknown whether it was sent"), "{error}");
    assert_eq!(
        (stage.greeted(), stage.calls(api::SEND_WELCOME_MSG)),
        (1, 1)
    );
}

/// Case 53: while an API is blocked its lane rests, and who is past his deadline is told so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_rests_while_its_api_is_blocked() {
    let stage = Stage::new(1).await;
    stage.block(api::SEND_WELCOME_MSG, 60_000).await;
    stage.welcomes(40).await;
    let _process = stage.process().await;
    stage
        .until("it asked", |rows| rows.claims > 0 && rows.running == 0)
        .await;
    stage.forward(21_000);
    let rows = stage
        .until("all are too late", |rows| rows.late == 40)
        .await;
    assert!(rows.claims <= 2 * WORKERS, "{rows:?}");
    assert_eq!(stage.calls(api::SEND_WELCOME_MSG), 0);
}

/// When the block ends, so does the rest, and nobody is called before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_goes_on_when_the_block_ends() {
    let stage = Stage::new(1).await;
    let end = tokio::time::Instant::now() + Duration::from_secs(2);
    stage.block(api::SEND_WELCOME_MSG, 2_000).await;
    stage.welcomes(20).await;
    let _process = stage.process().await;
    stage.until("one is greeted", |rows| rows.done > 0).await;
    assert!(tokio::time::Instant::now() >= end);
    let rows = stage.until("all are greeted", |rows| rows.done == 20).await;
    assert_eq!(stage.greeted(), 20);
    assert!(rows.claims <= 20 + 2 * WORKERS, "{rows:?}");
}

/// What is claimed in batches goes back in one write, and goes on soon after a person lifted the block.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lifted_block_is_noticed() {
    let stage = Stage::new(40).await;
    stage.block(api::SEND_MESSAGE, 3_600_000).await;
    stage.cards(40).await;
    let _process = stage.process().await;
    let rows = stage
        .until("it asked", |rows| rows.claims > 0 && rows.running == 0)
        .await;
    assert!(rows.claims <= 40 + 2, "{rows:?}");
    assert_eq!(stage.calls(api::SEND_MESSAGE), 0);
    let quota = &stage.world.app().quota;
    let corp = stage.world.corp.as_str();
    quota.unblock(corp, api::SEND_MESSAGE, None).await.unwrap();
    stage.forward(10_000);
    stage.until("all are told", |rows| rows.done == 40).await;
}

/// Case 53: however often the rate forbids a call, that uses up none of its tries: what fails for the first time after
/// that is tried again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_rate_forbids_is_no_try() {
    let stage = Stage::new(1).await;
    // More than `outbox.max_attempts` allows, then one that passes.
    for (code, times) in [(45033, 6), (-1, 1)] {
        let fault = Fault::new(api::SEND_MESSAGE, Act::Errcode(code)).times(times);
        stage.sim.add_fault(fault).unwrap();
    }
    stage.cards(1).await;
    let _process = stage.process().await;
    stage.until("he is told", |rows| rows.done == 1).await;
    let (state, tries): (String, i32) = sqlx::query_as("SELECT state, tries FROM outbox")
        .fetch_one(&mut stage.world.database.connect().await)
        .await
        .unwrap();
    assert_eq!((state.as_str(), tries), ("done", 2));
    assert_eq!(stage.calls(api::SEND_MESSAGE), 8);
}

/// The answer to a digest is lost. It is sent again as it was, whoever came meanwhile, so that WeCom's duplicate check
/// knows it: the member reads of each customer once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_digest_is_sent_again_as_it_was() {
    let stage = Stage::new(1).await;
    let of_one = |count: usize| {
        let payload = serde_json::json!({"kind": "member_card", "member": "m0", "channel": null});
        vec![payload; count]
    };
    let lost = Fault::new(api::SEND_MESSAGE, Act::Drop).after().times(2);
    stage.sim.add_fault(lost).unwrap();
    stage.insert("member_card", of_one(3), 3_600).await;
    let _process = stage.process().await;
    stage
        .until("one answer was lost", |_| {
            stage.calls(api::SEND_MESSAGE) > 0
        })
        .await;
    let more = "UPDATE outbox SET effect_key = 'earlier ' || effect_key";
    sqlx::query(more)
        .execute(&mut stage.world.database.connect().await)
        .await
        .unwrap();
    stage.insert("member_card", of_one(2), 3_600).await;
    stage.until("all are told", |rows| rows.done == 5).await;
    let counters = stage.sim.counters();
    let corp = &counters.corps[stage.world.corp.as_str()];
    let shown = stage.sim.messages().len();
    assert_eq!((shown, corp.messages_duplicate), (2, 2), "{corp:?}");
}
