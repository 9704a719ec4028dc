//! What a transfer call and its result call answer (api.md 5.1, 5.2, 14.5).

use std::time::Duration;

use serde_json::json;
use wecom_sim::{CustomerScript, MemberConfig, TransferEnd};

use crate::harness::{CORP, Client, DAY, code, config};

fn script(transfer: TransferEnd, after_ms: Option<i64>) -> Option<CustomerScript> {
    Some(CustomerScript { transfer, after_ms })
}

/// Case 85, first run: mixed codes per customer.
#[tokio::test]
async fn codes_per_customer() {
    let client = Client::start(config()).await;
    for customer in ["wm1", "wm2"] {
        client.befriend("mA", customer);
    }
    client.befriend("mC", "wm3");
    assert_eq!(client.transfer_one("mA", "mB", "wm2").await, 0);
    let answer = client
        .transfer("mA", "mB", &["wm1", "unknown", "wm2", "wm3", "wm1"])
        .await;
    let codes: Vec<_> = answer["customer"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["errcode"].as_i64().unwrap())
        .collect();
    assert_eq!(codes, [0, 40096, 40129, 40131, 40129]);
    assert_eq!(
        client.transfer_one("mA", "mA", "wm1").await,
        40130,
        "before 40129, in this order"
    );
    let counters = client.sim.counters();
    assert_eq!(counters.corps[CORP].transfers_accepted, 2);
    assert_eq!(counters.corps[CORP].transfers_asked_again, 2);
}

/// The taker is looked at before any customer, and the request before the taker.
#[tokio::test]
async fn codes_of_the_whole_call() {
    let mut config = config();
    config.corps[0].members.extend([
        MemberConfig {
            status: 5,
            ..MemberConfig::new("left")
        },
        MemberConfig {
            customer_contact: false,
            ..MemberConfig::new("inside")
        },
        MemberConfig {
            verified: false,
            ..MemberConfig::new("unverified")
        },
        MemberConfig {
            last_login_days: 366,
            ..MemberConfig::new("asleep")
        },
        MemberConfig {
            banned: true,
            ..MemberConfig::new("banned")
        },
    ]);
    let client = Client::start(config).await;
    client.befriend("mA", "wm1");
    for (taker, expected) in [
        ("nobody", 60111),
        ("left", 60111),
        ("inside", 84083),
        ("unverified", 40098),
        ("asleep", 40205),
        ("banned", 40143),
    ] {
        let answer = client.transfer("mA", taker, &["wm1"]).await;
        assert_eq!(code(&answer), expected, "{taker}");
        assert_eq!(answer["customer"], json!([]));
    }
    assert_eq!(code(&client.transfer("left", "mB", &["wm1"]).await), 40003);
    assert_eq!(
        code(&client.transfer("asleep", "mB", &["wm1"]).await),
        40205
    );
    assert_eq!(
        code(&client.transfer("mA", "mB", &["wm1"; 101]).await),
        40058
    );
    assert_eq!(
        code(&client.transfer("mA", "nobody", &["wm1"; 101]).await),
        40058,
        "the size comes first"
    );
    assert_eq!(code(&client.transfer("mA", "mB", &[]).await), 41035);
    let body = |message: String| json!({"handover_userid": "mA", "takeover_userid": "mB", "external_userid": ["wm1"], "transfer_success_msg": message});
    let api = "externalcontact/transfer_customer";
    assert_eq!(code(&client.post(api, body("好".repeat(201))).await), 40058);
    assert_eq!(code(&client.post(api, body("好".repeat(200))).await), 0);
}

/// Twice in 90 natural days, then 40128 until the first is old enough.
#[tokio::test]
async fn two_moves_in_ninety_days() {
    let client = Client::start(config()).await;
    client.befriend("mA", "wm1");
    assert_eq!(client.transfer_one("mA", "mB", "wm1").await, 0);
    client.sim.advance(DAY * 10).await;
    client.forget_tokens();
    assert_eq!(client.transfer_one("mB", "mC", "wm1").await, 0);
    client.sim.advance(DAY).await;
    client.forget_tokens();
    assert_eq!(client.transfer_one("mC", "mD", "wm1").await, 40128);
    // Day 89 of the first move, and then day 90. Natural days: China's midnight decides.
    let day_ms = 86_400_000;
    let zone_ms = 8 * 3_600_000;
    let first_day = (client.sim.now_ms() - 11 * day_ms + zone_ms).div_euclid(day_ms);
    let midnight = (first_day + 90) * day_ms - zone_ms;
    let to = |now_ms| wecom_sim::ClockRequest {
        now_ms: Some(now_ms),
        ..Default::default()
    };
    client.sim.move_clock(&to(midnight - 1)).await.unwrap();
    client.forget_tokens();
    assert_eq!(client.transfer_one("mC", "mD", "wm1").await, 40128);
    client.sim.move_clock(&to(midnight)).await.unwrap();
    assert_eq!(client.transfer_one("mC", "mD", "wm1").await, 0);
}

/// All attempts are listed, in pages of 1000; rows may appear late.
#[tokio::test]
async fn results_list_every_attempt() {
    let client = Client::start(config()).await;
    client.befriend("mA", "wm1");
    client
        .sim
        .script(None, "wm1", script(TransferEnd::Refuse, Some(0)))
        .unwrap();
    for _ in 0..2 {
        assert_eq!(client.transfer_one("mA", "mB", "wm1").await, 0);
        client.sim.advance(Duration::ZERO).await;
    }
    let both = json!([
        {"external_userid": "wm1", "status": 3, "takeover_time": 0},
        {"external_userid": "wm1", "status": 3, "takeover_time": 0},
    ]);
    assert_eq!(client.results("mA", "mB").await, both);
    assert_eq!(
        client.results("mB", "mA").await,
        json!([]),
        "keyed by the pair"
    );
    client
        .sim
        .patch_config(&json!({"paging": {"cap": 1}}))
        .unwrap();
    let api = "externalcontact/transfer_result";
    let body =
        |cursor: &str| json!({"handover_userid": "mA", "takeover_userid": "mB", "cursor": cursor});
    let first = client.post(api, body("")).await;
    let second = client
        .post(api, body(first["next_cursor"].as_str().unwrap()))
        .await;
    assert_eq!(second["customer"].as_array().unwrap().len(), 1);
    assert_eq!(second["next_cursor"], "");
}

#[tokio::test]
async fn rows_may_appear_late() {
    let mut config = config();
    config.transfers.visible_after_ms = 10_000;
    let client = Client::start(config).await;
    let customers: Vec<String> = (0..50).map(|number| format!("wm{number}")).collect();
    for customer in &customers {
        client.befriend("mA", customer);
    }
    let names: Vec<&str> = customers.iter().map(String::as_str).collect();
    client.transfer("mA", "mB", &names).await;
    let rows = |answer: serde_json::Value| answer.as_array().unwrap().len();
    let at_once = rows(client.results("mA", "mB").await);
    client.sim.advance(Duration::from_secs(5)).await;
    let later = rows(client.results("mA", "mB").await);
    client.sim.advance(Duration::from_secs(5)).await;
    assert!(at_once < later && later < 50, "{at_once} {later}");
    assert_eq!(rows(client.results("mA", "mB").await), 50);
}
