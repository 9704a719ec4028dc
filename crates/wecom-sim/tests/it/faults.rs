//! Faults before and after the effect, scripted codes (api.md 14.4).

use std::time::Duration;

use serde_json::{Value, json};
use wecom_sim::{Act, CallFilter, Fault};

use crate::harness::{CORP, Client, SECRET, code, config};
use crate::quota::in_flight;

const TRANSFER: &str = "externalcontact/transfer_customer";
const TAGS: &str = "externalcontact/get_corp_tag_list";

async fn with_customers(n: usize) -> Client {
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

/// A hanging call stays in flight until its caller hangs up.
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

/// Case 53: one API of one corp answers 45009 from t to t + 60 s.
#[tokio::test]
async fn a_minute_of_45009() {
    let client = with_customers(1).await;
    let from = client.sim.now_ms() + 10_000;
    let fault = Fault {
        from_ms: Some(from),
        corp: Some(CORP.to_owned()),
        ..Fault::new(TAGS, Act::Errcode(45009))
    };
    client.sim.add_fault(fault.for_ms(60_000)).unwrap();
    let mut seen = Vec::new();
    for _ in 0..9 {
        seen.push(code(&client.post(TAGS, json!({})).await));
        assert_eq!(
            code(
                &client
                    .post("externalcontact/get_unassigned_list", json!({}))
                    .await
            ),
            0
        );
        client.sim.advance(Duration::from_secs(10)).await;
    }
    assert_eq!(seen, [0, 45009, 45009, 45009, 45009, 45009, 45009, 0, 0]);
    assert_eq!(
        client.sim.counters().calls_while_blocked,
        5,
        "the first was told of the block"
    );
}

/// Case 64: 40098 whenever mB is the taker.
#[tokio::test]
async fn codes_for_one_taker() {
    let client = with_customers(2).await;
    client
        .sim
        .add_fault(Fault::new(TRANSFER, Act::Errcode(40098)).taker("MB"))
        .unwrap();
    assert_eq!(code(&client.transfer("mA", "mB", &["wm0"]).await), 40098);
    assert_eq!(code(&client.transfer("mA", "mC", &["wm0"]).await), 0);
}

/// A code for one customer goes into his row; the others start.
#[tokio::test]
async fn codes_for_one_customer_of_a_transfer() {
    let client = with_customers(3).await;
    client
        .sim
        .add_fault(Fault::new(TRANSFER, Act::Errcode(40132)).customer("wm1"))
        .unwrap();
    let answer = client.transfer("mA", "mB", &["wm0", "wm1", "wm2"]).await;
    let codes: Vec<_> = answer["customer"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["errcode"].clone())
        .collect();
    assert_eq!(codes, [json!(0), json!(40132), json!(0)]);
    // Elsewhere it is the code of the call.
    client
        .sim
        .add_fault(Fault::new("externalcontact/get", Act::Errcode(84061)).customer("wm0"))
        .unwrap();
    assert_eq!(
        code(
            &client
                .get("externalcontact/get", &[("external_userid", "wm0")])
                .await
        ),
        84061
    );
    assert_eq!(
        code(
            &client
                .get("externalcontact/get", &[("external_userid", "wm1")])
                .await
        ),
        0
    );
}

#[tokio::test]
async fn codes_for_one_member() {
    let client = with_customers(1).await;
    client
        .sim
        .add_fault(Fault::new("*", Act::Errcode(60111)).member("ma"))
        .unwrap();
    assert_eq!(
        code(&client.get("user/get", &[("userid", "mA")]).await),
        60111
    );
    assert_eq!(code(&client.get("user/get", &[("userid", "mB")]).await), 0);
    let body = json!({"userid_list": ["mB", "mA"]});
    assert_eq!(
        code(&client.post("externalcontact/batch/get_by_user", body).await),
        60111
    );
}

/// Cases 89 and 93: answers that look wrong.
#[tokio::test]
async fn scripted_and_patched_bodies() {
    let client = with_customers(1).await;
    client.transfer_one("mA", "mB", "wm0").await;
    let api = "externalcontact/transfer_result";
    let ask = json!({"handover_userid": "mA", "takeover_userid": "mB"});
    let odd = json!({"errcode": 0, "errmsg": "ok", "customer": [{"external_userid": "wm0", "status": 5}, {"external_userid": "wm9"}]});
    client
        .sim
        .add_fault(Fault::new(api, Act::Body(odd.clone())).times(1))
        .unwrap();
    assert_eq!(client.post(api, ask.clone()).await, odd);
    client
        .sim
        .add_fault(
            Fault::new(api, Act::Patch(json!({"customer": null})))
                .after()
                .times(1),
        )
        .unwrap();
    assert!(
        client
            .post(api, ask.clone())
            .await
            .get("customer")
            .is_none()
    );
    assert_eq!(client.post(api, ask).await["customer"][0]["status"], 2);
    // Case 46: a token whose life is odd or missing, and which works.
    for patch in [
        json!({"expires_in": 0}),
        json!({"expires_in": -1}),
        json!({"expires_in": null}),
        json!({"expires_in": 10}),
    ] {
        client
            .sim
            .add_fault(
                Fault::new("gettoken", Act::Patch(patch.clone()))
                    .after()
                    .times(1),
            )
            .unwrap();
        let answer = client.gettoken(CORP, SECRET).await;
        assert_eq!(
            answer.get("expires_in").unwrap_or(&Value::Null),
            &patch["expires_in"]
        );
        assert!(answer["access_token"].is_string());
    }
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

#[tokio::test]
async fn managed_over_http() {
    let client = with_customers(1).await;
    let fault = json!({"id": "quota", "api": TAGS, "act": {"errcode": 45009}, "for_ms": 60_000});
    assert_eq!(
        client.admin("POST", "/sim/faults", fault.clone()).await,
        (200, json!({"id": "quota"}))
    );
    assert_eq!(
        client.admin("POST", "/sim/faults", fault).await.0,
        400,
        "the id is taken"
    );
    assert_eq!(code(&client.post(TAGS, json!({})).await), 45009);
    let (_, list) = client.admin("GET", "/sim/faults", json!({})).await;
    assert_eq!(
        (&list[0]["id"], &list[0]["hits"]),
        (&json!("quota"), &json!(1))
    );
    assert_eq!(
        client
            .admin("DELETE", "/sim/faults/quota", json!({}))
            .await
            .0,
        200
    );
    assert_eq!(
        client
            .admin("DELETE", "/sim/faults/quota", json!({}))
            .await
            .0,
        404
    );
    assert_eq!(code(&client.post(TAGS, json!({})).await), 0);
    for (fault, text) in [
        (
            json!({"api": "externalcontact/nothing", "act": "drop"}),
            "not an API of the simulator",
        ),
        (
            json!({"api": TAGS, "act": {"status": 200}}),
            "from 400 to 599",
        ),
        (json!({"api": TAGS, "act": {"patch": {}}}), "after"),
        (
            json!({"api": TAGS, "act": "explode"}),
            "unknown variant `explode`",
        ),
    ] {
        let (status, answer) = client.admin("POST", "/sim/faults", fault.clone()).await;
        assert!(
            status == 400 && answer["error"].as_str().unwrap().contains(text),
            "{fault}: {answer}"
        );
    }
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
