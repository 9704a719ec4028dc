//! Faults before and after the effect, scripted codes (api.md 14.4).

use std::time::Duration;

use serde_json::{Value, json};
use wecom_sim::{Act, CallFilter, Fault};

use crate::harness::{CORP, Client, code, config};
use crate::quota::in_flight;

const TRANSFER: &str = "externalcontact/transfer_customer";
const TAGS: &str = "externalcontact/get_corp_tag_list";

pub(crate) async fn with_customers(n: usize) -> Client {
    let client = Client::start(config()).await;
    for number in 0..n {
        client.befriend("mA", &format!("wm{number}"));
    }
    client
}

fn transfer(customer: &str) -> Value {
    json!({"handover_userid": "mA", "takeover_userid": "mB", "external_userid": [customer]})
}

/// Case 48: the same fault with and without an effect behind it.
#[tokio::test]
async fn dropped_connection_before_and_after_the_effect() {
    let client = with_customers(2).await;
    let token = client.token().await;
    client
        .sim
        .add_fault(Fault::new(TRANSFER, Act::Drop).times(1))
        .unwrap();
    let lost = client
        .post_as(&token, "127.0.0.1", TRANSFER, transfer("wm0"))
        .await;
    assert!(lost.is_err());
    assert_eq!(client.results("mA", "mB").await, json!([]));
    client
        .sim
        .add_fault(Fault::new(TRANSFER, Act::Drop).after().times(1))
        .unwrap();
    let lost = client
        .post_as(&token, "127.0.0.1", TRANSFER, transfer("wm1"))
        .await;
    assert!(lost.is_err());
    assert_eq!(
        client.results("mA", "mB").await[0]["external_userid"],
        "wm1"
    );
    let counters = client.sim.counters().corps[CORP].apis[TRANSFER].clone();
    assert_eq!(
        (
            counters.calls,
            counters.effects,
            counters.effects_reply_lost
        ),
        (2, 1, 1)
    );
    let calls = client.sim.calls(&CallFilter {
        api: Some(TRANSFER.to_owned()),
        ..CallFilter::default()
    });
    let seen: Vec<_> = calls
        .iter()
        .map(|call| (call.effect, call.reply_lost, call.status))
        .collect();
    assert_eq!(seen, [(false, true, None), (true, true, None)]);
}

#[tokio::test]
async fn html_pages_and_cut_json() {
    let client = with_customers(3).await;
    let token = client.token().await;
    let url = client.url(&format!("/cgi-bin/{TRANSFER}?access_token={token}"));
    for status in [502, 503, 504] {
        client
            .sim
            .add_fault(Fault::new(TRANSFER, Act::Status(status)).times(1))
            .unwrap();
        let answer = client
            .http
            .post(&url)
            .json(&transfer("wm0"))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status().as_u16(), status);
        assert_eq!(answer.headers()["content-type"], "text/html");
        assert!(answer.text().await.unwrap().starts_with("<html>"));
    }
    client
        .sim
        .add_fault(Fault::new(TRANSFER, Act::Truncate).after().times(1))
        .unwrap();
    let answer = client
        .http
        .post(&url)
        .json(&transfer("wm0"))
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert!(
        answer.starts_with("{\"errcode\":0") && serde_json::from_str::<Value>(&answer).is_err(),
        "{answer}"
    );
    assert_eq!(
        client.results("mA", "mB").await.as_array().unwrap().len(),
        1,
        "only the last took effect"
    );
}

/// A call whose caller hangs up is done all the same, and its answer counts as lost.
#[tokio::test]
async fn hanging_answers_after_the_effect() {
    let client = with_customers(2).await;
    let token = client.token().await;
    let impatient = reqwest::Client::builder()
        .no_proxy()
        .timeout(Duration::from_millis(100))
        .build()
        .unwrap();
    let url = client.url(&format!("/cgi-bin/{TRANSFER}?access_token={token}"));
    let hang = client
        .sim
        .add_fault(Fault::new(TRANSFER, Act::Hang).after())
        .unwrap();
    let error = impatient
        .post(&url)
        .json(&transfer("wm0"))
        .send()
        .await
        .unwrap_err();
    assert!(error.is_timeout());
    assert!(client.sim.remove_fault(&hang));
    assert_eq!(
        client.results("mA", "mB").await[0]["external_userid"],
        "wm0"
    );

    // Slow before the effect: the caller is gone, the effect still comes.
    let hold = client
        .sim
        .add_fault(Fault::new(TRANSFER, Act::Hold))
        .unwrap();
    let error = impatient
        .post(&url)
        .json(&transfer("wm1"))
        .send()
        .await
        .unwrap_err();
    assert!(error.is_timeout());
    assert_eq!(
        client.results("mA", "mB").await.as_array().unwrap().len(),
        1
    );
    client.sim.remove_fault(&hold);
    loop {
        let counters = client.sim.counters().corps[CORP].apis[TRANSFER].clone();
        if counters.effects == 2 {
            assert_eq!(counters.effects_reply_lost, 2);
            break;
        }
        tokio::task::yield_now().await;
    }
}

/// A stuck call stays in flight until its caller hangs up; one whose answer got lost does not.
#[tokio::test]
async fn hanging_calls_are_in_flight() {
    let client = with_customers(1).await;
    let token = client.token().await;
    let hang = client
        .sim
        .add_fault(Fault::new(TAGS, Act::Hang).times(5))
        .unwrap();
    let url = client.url(&format!("/cgi-bin/{TAGS}?access_token={token}"));
    let hanging: Vec<_> = (0..5)
        .map(|_| tokio::spawn(client.http.post(&url).json(&json!({})).send()))
        .collect();
    in_flight(&client, TAGS, 5).await;
    assert_eq!(code(&client.post(TAGS, json!({})).await), 45033);
    client.sim.remove_fault(&hang);
    let other = "externalcontact/get_unassigned_list";
    client
        .sim
        .add_fault(Fault::new(other, Act::Hang).after().times(5))
        .unwrap();
    let url_of_other = client.url(&format!("/cgi-bin/{other}?access_token={token}"));
    let lost: Vec<_> = (0..5)
        .map(|_| tokio::spawn(client.http.post(&url_of_other).json(&json!({})).send()))
        .collect();
    while client.sim.counters().corps[CORP]
        .apis
        .get(other)
        .is_none_or(|api| api.codes.get(&0) != Some(&5))
    {
        tokio::task::yield_now().await;
    }
    // Recorded and out of flight are two steps of the same call.
    while code(&client.post(other, json!({})).await) != 0 {
        tokio::task::yield_now().await;
    }
    lost.iter().for_each(tokio::task::JoinHandle::abort);
    hanging.iter().for_each(tokio::task::JoinHandle::abort);
    while code(&client.post(TAGS, json!({})).await) != 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn system_busy_and_version_conflict() {
    let client = with_customers(1).await;
    for errcode in [-1, 6000] {
        client
            .sim
            .add_fault(Fault::new(TRANSFER, Act::Errcode(errcode)).times(2))
            .unwrap();
        for _ in 0..2 {
            assert_eq!(
                code(&client.post(TRANSFER, transfer("wm0")).await),
                i64::from(errcode)
            );
        }
    }
    assert_eq!(client.transfer_one("mA", "mB", "wm0").await, 0);
}

/// Half of the calls, the same half in every run.
#[tokio::test]
async fn probability_is_seeded() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let client = Client::start(config()).await;
        client
            .sim
            .add_fault(Fault::new(TAGS, Act::Errcode(-1)).probability(0.5))
            .unwrap();
        let mut codes = Vec::new();
        for _ in 0..60 {
            codes.push(code(&client.post(TAGS, json!({})).await));
        }
        let struck = codes.iter().filter(|code| **code == -1).count();
        assert!((15..45).contains(&struck), "{struck}");
        runs.push(codes);
    }
    assert_eq!(runs[0], runs[1]);
}

/// Latency is real time, and off unless asked for.
#[tokio::test]
async fn latency_holds_a_call_in_flight() {
    let mut config = config();
    config.latency.enabled = true;
    config.latency.p50_ms = 5.0;
    config.latency.p99_ms = 20.0;
    let client = Client::start(config).await;
    let started = std::time::Instant::now();
    for _ in 0..10 {
        assert_eq!(code(&client.post(TAGS, json!({})).await), 0);
    }
    assert!(started.elapsed() > Duration::from_millis(20));
}
