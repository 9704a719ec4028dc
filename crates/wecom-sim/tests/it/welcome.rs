//! Welcome messages (api.md 3.4, 14.6).

use std::time::Duration;

use serde_json::{Value, json};
use wecom_sim::{AppConfig, Config, MemberConfig, ScanRequest};

use crate::harness::{AGENT, CORP, Client, Gateway, callback, code, config, with_gateway};

const SEND: &str = "externalcontact/send_welcome_msg";
const SECOND: u32 = 1_000_003;

fn welcome(code: &str) -> Value {
    json!({"welcome_code": code, "text": {"content": "Welcome"}})
}

/// Two apps that both hear of mA.
async fn two_apps() -> (Client, Gateway) {
    let gateway = Gateway::start().await;
    let mut config = config();
    config.corps[0].apps[0].callback = Some(callback(std::slice::from_ref(&gateway.url)));
    config.corps[0].apps.push(AppConfig {
        agent_id: SECOND,
        secret: "second".into(),
        callback: Some(callback(std::slice::from_ref(&gateway.url))),
        ..AppConfig::default()
    });
    (Client::start(config).await, gateway)
}

fn scan(client: &Client) -> std::collections::BTreeMap<u32, String> {
    client
        .sim
        .scan(&ScanRequest::member("mA", "s"))
        .unwrap()
        .scans[0]
        .welcome_codes
        .clone()
}

#[tokio::test]
async fn once_within_twenty_seconds() {
    let (client, _gateway) = with_gateway(config()).await;
    let in_time = scan(&client)[&AGENT].clone();
    client.sim.advance(Duration::from_secs(20)).await;
    assert_eq!(code(&client.post(SEND, welcome(&in_time)).await), 0);
    assert_eq!(
        code(&client.post(SEND, welcome(&in_time)).await),
        41051,
        "once"
    );
    let late = scan(&client)[&AGENT].clone();
    client.sim.advance(Duration::from_millis(20_001)).await;
    assert_eq!(code(&client.post(SEND, welcome(&late)).await), 41050);
    assert_eq!(code(&client.post(SEND, welcome("made-up")).await), 41050);
    assert_eq!(client.sim.counters().corps[CORP].welcomes_delivered, 1);
}

/// Each app has its own code, the first to call wins.
#[tokio::test]
async fn second_app_is_told_so() {
    let (client, gateway) = two_apps().await;
    let codes = scan(&client);
    client.sim.idle().await;
    assert_eq!(gateway.received().len(), 2, "an event for each app");
    assert_ne!(codes[&AGENT], codes[&SECOND]);
    assert_eq!(
        code(&client.post(SEND, welcome(&codes[&SECOND])).await),
        41050,
        "another app's code"
    );
    assert_eq!(code(&client.post(SEND, welcome(&codes[&AGENT])).await), 0);
    assert_eq!(
        code(
            &client
                .post_by("second", SEND, welcome(&codes[&SECOND]))
                .await
        ),
        41096
    );
    client.sim.advance(Duration::from_secs(1)).await;
    assert_eq!(
        code(
            &client
                .post_by("second", SEND, welcome(&codes[&SECOND]))
                .await
        ),
        41051
    );
}

/// The code of the half-add was used: the add carries none.
#[tokio::test]
async fn half_add_uses_up_the_welcome() {
    let (client, gateway) = with_gateway(config()).await;
    let request = ScanRequest {
        half: Some(true),
        ..ScanRequest::member("mA", "s")
    };
    let codes = client.sim.scan(&request).unwrap().scans[0]
        .welcome_codes
        .clone();
    assert_eq!(code(&client.post(SEND, welcome(&codes[&AGENT])).await), 0);
    client.sim.advance(Duration::from_secs(1)).await;
    client.sim.idle().await;
    let received = gateway.received();
    assert_eq!(received[1].change(), "add_external_contact");
    assert_eq!(received[1].field("WelcomeCode"), None);
}

#[tokio::test]
async fn console_welcome_means_no_code() {
    let mut config: Config = config();
    config.corps[0].members[0] = MemberConfig {
        console_welcome: true,
        ..MemberConfig::new("mA")
    };
    let (client, gateway) = with_gateway(config).await;
    assert!(scan(&client).is_empty());
    client.sim.idle().await;
    assert_eq!(gateway.received()[0].field("WelcomeCode"), None);
}

#[tokio::test]
async fn content_is_checked_before_the_code_is_spent() {
    let (client, _gateway) = with_gateway(config()).await;
    let value = scan(&client)[&AGENT].clone();
    let link = json!({"msgtype": "link", "link": {"title": "t", "url": "https://example.test"}});
    for (body, expected) in [
        (json!({"text": {"content": "x"}}), 41049),
        (json!({"welcome_code": value}), 40063),
        (
            json!({"welcome_code": value, "text": {"content": "好".repeat(1_334)}}),
            40058,
        ),
        (
            json!({"welcome_code": value, "attachments": vec![link.clone(); 10]}),
            40058,
        ),
        (
            json!({"welcome_code": value, "attachments": [{"msgtype": "song", "song": {}}]}),
            40035,
        ),
        (
            json!({"welcome_code": value, "attachments": [{"msgtype": "link", "link": {"title": "t"}}]}),
            40063,
        ),
        (json!({"welcome_code": value, "attachments": [link]}), 0),
    ] {
        assert_eq!(
            code(&client.post(SEND, body.clone()).await),
            expected,
            "{body}"
        );
    }
    let messages = client.sim.messages();
    assert_eq!((messages.len(), messages[0].kind.as_str()), (1, "welcome"));
}
