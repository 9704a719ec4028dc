//! Every invariant of `GET /sim/check`, held and broken. A check that cannot fail proves nothing.

use std::time::Duration;

use serde_json::{Value, json};
use wecom_sim::{Act, CheckReport, Fault, Rate, ScanRequest};

use crate::harness::{AGENT, CORP, Client, SECRET, code, config, with_gateway};
use crate::quota::in_flight;

const TAGS: &str = "externalcontact/get_corp_tag_list";

fn holds(report: &CheckReport, name: &str) -> bool {
    report
        .invariants
        .iter()
        .find(|invariant| invariant.name == name)
        .unwrap()
        .holds
}

async fn report(client: &Client, query: &str) -> CheckReport {
    let (status, body) = client
        .admin("GET", &format!("/sim/check{query}"), json!({}))
        .await;
    assert_eq!(status, 200);
    serde_json::from_value(body).unwrap()
}

#[tokio::test]
async fn quiet_simulator_holds() {
    let client = Client::start(config()).await;
    let report = report(&client, "").await;
    assert!(report.holds);
    assert_eq!(report.invariants.len(), 6);
}

#[tokio::test]
async fn doubled_transfer() {
    let mut config = config();
    config.transfers.refuse_running = false;
    let client = Client::start(config).await;
    client.befriend("mA", "wm1");
    client.transfer_one("mA", "mB", "wm1").await;
    assert!(report(&client, "?transfers_per_customer=1").await.holds);
    client.transfer_one("mA", "mB", "wm1").await;
    let broken = report(&client, "?transfers_per_customer=1").await;
    assert!(
        !broken.holds
            && !holds(&broken, "transfer_not_doubled")
            && !holds(&broken, "transfers_per_customer")
    );
    let counters = &client.sim.counters().corps[CORP];
    assert_eq!(
        (
            counters.same_pair_transfers_max,
            counters.customers_by_transfers[&2]
        ),
        (2, 1)
    );
}

/// Asking again is answered 40129 and moves nobody twice.
#[tokio::test]
async fn asking_again_is_no_violation() {
    let client = Client::start(config()).await;
    client.befriend("mA", "wm1");
    client.transfer_one("mA", "mB", "wm1").await;
    assert_eq!(client.transfer_one("mA", "mB", "wm1").await, 40129);
    let report = report(&client, "?transfers_per_customer=1").await;
    assert!(report.holds);
    assert!(
        report.invariants[0]
            .detail
            .starts_with("1 starts were asked again")
    );
}

#[tokio::test]
async fn too_many_moves() {
    let mut config = config();
    config.transfers.max_moves = 0;
    config.transfers.complete_after_ms = 1_000;
    let client = Client::start(config).await;
    client.befriend("mA", "wm1");
    for (from, to) in [("mA", "mB"), ("mB", "mC"), ("mC", "mD")] {
        assert!(holds(&report(&client, "").await, "transfer_within_limit"));
        assert_eq!(client.transfer_one(from, to, "wm1").await, 0);
        client.sim.advance(Duration::from_secs(1)).await;
    }
    assert!(!holds(&report(&client, "").await, "transfer_within_limit"));
}

#[tokio::test]
async fn six_in_flight() {
    let mut config = config();
    config.limits.enabled = false;
    let client = Client::start(config).await;
    let hold = client.sim.add_fault(Fault::new(TAGS, Act::Hold)).unwrap();
    let token = client.token().await;
    let call = || client.post_as(&token, "127.0.0.1", TAGS, json!({}));
    let five = futures_util::future::join_all((0..6).map(|_| call()));
    let release = async {
        in_flight(&client, TAGS, 6).await;
        client.sim.remove_fault(&hold)
    };
    tokio::join!(five, release);
    let report_of = |query: &'static str| report(&client, query);
    assert!(!holds(&report_of("").await, "in_flight"));
    assert!(holds(&report_of("?in_flight=6").await, "in_flight"));
}

/// Four calls per block may have been on their way; a fifth is one too many.
#[tokio::test]
async fn called_while_blocked() {
    let mut config = config();
    config.limits.corp_api = Rate::new(1, 0);
    let client = Client::start(config).await;
    for _ in 0..6 {
        client.post(TAGS, json!({})).await;
    }
    assert!(holds(
        &report(&client, "").await,
        "not_called_while_blocked"
    ));
    client.post(TAGS, json!({})).await;
    assert!(!holds(
        &report(&client, "").await,
        "not_called_while_blocked"
    ));
    let calls = client.sim.calls(&wecom_sim::CallFilter {
        api: Some(TAGS.to_owned()),
        ..Default::default()
    });
    let blocked: Vec<_> = calls.iter().map(|call| call.while_blocked).collect();
    assert_eq!(blocked, [false, false, true, true, true, true, true]);
}

/// A scripted minute of 45009 counts like a real one.
#[tokio::test]
async fn called_while_blocked_by_script() {
    let client = Client::start(config()).await;
    client
        .sim
        .add_fault(Fault::new(TAGS, Act::Errcode(45009)).for_ms(60_000))
        .unwrap();
    for _ in 0..5 {
        client.post(TAGS, json!({})).await;
    }
    assert!(client.sim.check().holds);
    client.post(TAGS, json!({})).await;
    assert!(!client.sim.check().holds);
}

#[tokio::test]
async fn repeated_welcome() {
    let (client, _gateway) = with_gateway(config()).await;
    let scan = client.sim.scan(&ScanRequest::member("mA", "s")).unwrap();
    let body =
        json!({"welcome_code": scan.scans[0].welcome_codes[&AGENT], "text": {"content": "hi"}});
    let api = "externalcontact/send_welcome_msg";
    // Before the effect a repetition is right.
    client
        .sim
        .add_fault(Fault::new(api, Act::Errcode(-1)).times(1))
        .unwrap();
    assert_eq!(code(&client.post(api, body.clone()).await), -1);
    assert_eq!(code(&client.post(api, body.clone()).await), 0);
    assert!(client.sim.check().holds);
    assert_eq!(code(&client.post(api, body).await), 41051);
    assert!(!holds(&client.sim.check(), "welcome_once"));
    assert_eq!(
        client.sim.counters().corps[CORP].welcome_codes_by_calls,
        [(2, 1)].into()
    );
}

#[tokio::test]
async fn gettoken_loops() {
    let client = Client::start(config()).await;
    for _ in 0..10 {
        client.gettoken(CORP, SECRET).await;
    }
    assert!(client.sim.check().holds);
    client.gettoken(CORP, SECRET).await;
    assert!(!holds(&client.sim.check(), "gettoken_no_loop"));

    let client = Client::start(config()).await;
    for attempt in 1..=4 {
        client.gettoken(CORP, "wrong").await;
        assert_eq!(client.sim.check().holds, attempt <= 3);
    }
    assert_eq!(
        client.sim.counters().corps[CORP].gettoken[&0].failures_in_a_row_max,
        4
    );
}

/// A small log forgets calls, the counters do not.
#[tokio::test]
async fn bounded_log_exact_counters() {
    let mut config = config();
    config.log.calls = 3;
    let client = Client::start(config).await;
    for _ in 0..10 {
        client.post(TAGS, json!({})).await;
    }
    let (_, calls) = client
        .admin("GET", &format!("/sim/calls?api={TAGS}&limit=10"), json!({}))
        .await;
    let seqs: Vec<_> = calls
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["seq"].clone())
        .collect();
    assert_eq!(seqs, [json!(9), json!(10), json!(11)]);
    assert_eq!(client.sim.counters().corps[CORP].apis[TAGS].calls, 10);
    client
        .sim
        .patch_config(&json!({"log": {"calls": 0}}))
        .unwrap();
    client.post(TAGS, json!({})).await;
    assert_eq!(client.sim.counters().corps[CORP].apis[TAGS].calls, 11);
    let (status, dump): (u16, Value) = client.admin("GET", "/sim/state", json!({})).await;
    assert_eq!(
        (
            status,
            dump["corps"][CORP]["members"].as_array().unwrap().len()
        ),
        (200, 5)
    );
}
