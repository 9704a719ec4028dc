//! Messages to members and robots (api.md 8.1, 8.2).

use std::time::Duration;

use serde_json::{Value, json};
use wecom_sim::Rate;

use crate::harness::{AGENT, CORP, Client, DAY, MINUTE, code, config};

fn text(to: &str) -> Value {
    json!({"touser": to, "msgtype": "text", "agentid": AGENT, "text": {"content": "x"}})
}

#[tokio::test]
async fn partial_failure_is_success() {
    let client = Client::start(config()).await;
    let answer = client.post("message/send", text("mA|Nobody|MB|mA")).await;
    assert_eq!(
        (code(&answer), &answer["invaliduser"]),
        (0, &json!("nobody"))
    );
    assert!(answer["msgid"].as_str().is_some());
    let messages = client.sim.counters().corps[CORP].messages.clone();
    assert_eq!(
        messages,
        [("mA".to_owned(), 1), ("mB".to_owned(), 1)].into()
    );
    assert_eq!(
        code(&client.post("message/send", text("nobody")).await),
        81013
    );
    assert_eq!(code(&client.post("message/send", text("")).await), 82001);
    client.post("message/send", text("@all")).await;
    assert_eq!(client.sim.counters().corps[CORP].messages.len(), 5);
}

#[tokio::test]
async fn requests_are_checked() {
    let client = Client::start(config()).await;
    let card = |title: &str| {
        json!({"touser": "mA", "msgtype": "textcard", "agentid": AGENT,
               "textcard": {"title": title, "description": "d", "url": "https://example.test"}})
    };
    for (body, expected) in [
        (
            json!({"touser": "mA", "msgtype": "text", "agentid": 1, "text": {"content": "x"}}),
            301_002,
        ),
        (
            json!({"touser": "mA", "msgtype": "text", "text": {"content": "x"}}),
            301_002,
        ),
        (
            json!({"touser": "mA", "agentid": AGENT, "text": {"content": "x"}}),
            40063,
        ),
        (
            json!({"touser": "mA", "msgtype": "text", "agentid": AGENT, "text": {"content": ""}}),
            40063,
        ),
        (card(&"t".repeat(129)), 40058),
        (card(&"t".repeat(128)), 0),
    ] {
        assert_eq!(
            code(&client.post("message/send", body.clone()).await),
            expected,
            "{body}"
        );
    }
}

/// The 31st in a minute vanishes although the answer is 0.
#[tokio::test]
async fn surplus_is_dropped_silently() {
    let client = Client::start(config()).await;
    for _ in 0..32 {
        assert_eq!(code(&client.post("message/send", text("mA")).await), 0);
    }
    let counters = client.sim.counters().corps[CORP].clone();
    assert_eq!(
        (counters.messages["mA"], counters.messages_dropped["mA"]),
        (30, 2)
    );
    let messages = client.sim.messages();
    assert_eq!(
        messages.iter().filter(|message| !message.delivered).count(),
        2
    );
    client.sim.advance(MINUTE).await;
    client.post("message/send", text("mA")).await;
    assert_eq!(client.sim.counters().corps[CORP].messages["mA"], 31);
}

#[tokio::test]
async fn thousand_an_hour_per_member() {
    let mut config = config();
    config.limits.member_messages = Rate::new(0, 3);
    let client = Client::start(config).await;
    for _ in 0..4 {
        client.post("message/send", text("mA")).await;
        client.sim.advance(MINUTE * 2).await;
    }
    let counters = client.sim.counters().corps[CORP].clone();
    assert_eq!(
        (counters.messages["mA"], counters.messages_dropped["mA"]),
        (3, 1)
    );
}

#[tokio::test]
async fn duplicate_check_delivers_once() {
    let client = Client::start(config()).await;
    let mut body = text("mA");
    body["enable_duplicate_check"] = json!(1);
    body["duplicate_check_interval"] = json!(60);
    for _ in 0..3 {
        assert_eq!(code(&client.post("message/send", body.clone()).await), 0);
    }
    let counters = client.sim.counters().corps[CORP].clone();
    assert_eq!(
        (counters.messages["mA"], counters.messages_duplicate),
        (1, 2)
    );
    client.sim.advance(Duration::from_secs(60)).await;
    client.post("message/send", body).await;
    assert_eq!(client.sim.counters().corps[CORP].messages["mA"], 2);
}

/// 200 person-times per account and day, then 45009 until midnight in China.
#[tokio::test]
async fn day_cap_of_the_app() {
    let mut config = config();
    config.corps[0].account_cap = 1;
    config.limits.messages_per_account = 3;
    let client = Client::start(config).await;
    assert_eq!(code(&client.post("message/send", text("mA|mB")).await), 0);
    assert_eq!(
        code(&client.post("message/send", text("mA|mB")).await),
        45009
    );
    assert_eq!(code(&client.post("message/send", text("mA")).await), 0);
    client.sim.advance(DAY).await;
    client.forget_tokens();
    assert_eq!(code(&client.post("message/send", text("mA|mB")).await), 0);
}

#[tokio::test]
async fn webhook_twenty_a_minute() {
    let mut config = config();
    config.corps[0].webhooks = vec!["key-1".into(), "key-2".into()];
    let client = Client::start(config).await;
    let send = |key: &str| {
        let url = client.url(&format!("/cgi-bin/webhook/send?key={key}"));
        let body = json!({"msgtype": "markdown", "markdown": {"content": "pool empty"}});
        let request = client.http.post(url).json(&body);
        async move { code(&request.send().await.unwrap().json::<Value>().await.unwrap()) }
    };
    for _ in 0..20 {
        assert_eq!(send("key-1").await, 0);
    }
    assert_eq!(send("key-1").await, 45009);
    assert_eq!(send("key-2").await, 0, "per key");
    assert_eq!(send("key-3").await, 93000);
    client.sim.advance(MINUTE).await;
    assert_eq!(send("key-1").await, 0);
    let messages = client.sim.messages();
    assert_eq!((messages.len(), messages[0].to.as_str()), (22, "webhook-1"));
    assert!(
        !format!("{messages:?}").contains("key-1"),
        "the key is a secret"
    );
}
