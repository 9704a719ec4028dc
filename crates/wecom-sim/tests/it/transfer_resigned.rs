//! Transfers of members who left (api.md 5.3, 5.4, 5.5).

use serde_json::{Value, json};
use wecom_sim::{CustomerScript, MemberConfig, TransferEnd};

use crate::harness::{Client, DAY, code, config, with_gateway};

const TRANSFER: &str = "externalcontact/resigned/transfer_customer";
const RESULT: &str = "externalcontact/resigned/transfer_result";
const UNASSIGNED: &str = "externalcontact/get_unassigned_list";

fn body(from: &str, to: &str, customers: &[&str]) -> Value {
    json!({"handover_userid": from, "takeover_userid": to, "external_userid": customers})
}

#[tokio::test]
async fn from_leaving_to_the_taker() {
    let mut config = config();
    config.callbacks.connections = 1;
    let (client, gateway) = with_gateway(config).await;
    client.befriend("mA", "wm1");
    assert_eq!(
        code(&client.post(TRANSFER, body("mA", "mB", &["wm1"])).await),
        40097,
        "still in service"
    );
    client
        .sim
        .patch_member(None, "mA", &json!({"status": 5}))
        .unwrap();
    let left_s = client.sim.now_ms() / 1_000;
    assert_eq!(
        code(&client.transfer("mA", "mB", &["wm1"]).await),
        40003,
        "case 90: not by the other pair"
    );
    let list = client.post(UNASSIGNED, json!({})).await;
    let row = json!({"handover_userid": "mA", "external_userid": "wm1", "dimission_time": left_s});
    assert_eq!(
        (&list["info"], &list["is_last"], &list["next_cursor"]),
        (&json!([row]), &json!(true), &json!(""))
    );
    let answer = client.post(TRANSFER, body("mA", "mB", &["wm1"])).await;
    assert_eq!(
        answer["customer"],
        json!([{"external_userid": "wm1", "errcode": 0}])
    );
    assert_eq!(
        client.post(TRANSFER, body("mA", "mB", &["wm1"])).await["customer"][0]["errcode"],
        40129
    );
    client.sim.advance(DAY).await;
    client.sim.idle().await;
    client.forget_tokens();
    let result = client
        .post(
            RESULT,
            json!({"handover_userid": "mA", "takeover_userid": "mB"}),
        )
        .await;
    assert_eq!(result["customer"][0]["status"], 1);
    assert_eq!(
        client.results("mA", "mB").await,
        json!([]),
        "not in the other list"
    );
    assert_eq!(client.followers("wm1").await, ["mB"]);
    assert_eq!(client.post(UNASSIGNED, json!({})).await["info"], json!([]));
    let received = gateway.received();
    let events: Vec<_> = received
        .iter()
        .map(|event| event.field("Event").unwrap())
        .collect();
    assert_eq!(
        events,
        [
            "change_external_contact",
            "unsubscribe",
            "change_external_contact"
        ]
    );
    assert_eq!(
        (
            received[1].field("FromUserName"),
            received[1].envelope_agent_id.as_deref()
        ),
        (Some("mA"), Some("1000002"))
    );
    assert_eq!(
        (received[2].change(), received[2].field("UserID")),
        ("add_external_contact", Some("mB"))
    );
}

/// No 90-day rule, but refusals exist, and then neither side keeps the customer.
#[tokio::test]
async fn refused_and_moved_often() {
    let client = Client::start(config()).await;
    client.befriend("mA", "wm1");
    client
        .sim
        .patch_member(None, "mA", &json!({"status": 5}))
        .unwrap();
    let refuse = CustomerScript {
        transfer: TransferEnd::Refuse,
        after_ms: Some(0),
    };
    client
        .sim
        .patch_config(&json!({"transfers": {"refused_resigned_keeps_old": true}}))
        .unwrap();
    client.sim.script(None, "wm1", Some(refuse)).unwrap();
    for _ in 0..3 {
        let answer = client.post(TRANSFER, body("mA", "mB", &["wm1"])).await;
        assert_eq!(answer["customer"][0]["errcode"], 0);
        client.sim.advance(std::time::Duration::ZERO).await;
    }
    client
        .sim
        .patch_config(&json!({"transfers": {"refused_resigned_keeps_old": false}}))
        .unwrap();
    client.post(TRANSFER, body("mA", "mB", &["wm1"])).await;
    client.sim.advance(std::time::Duration::ZERO).await;
    assert!(client.followers("wm1").await.is_empty());
    let result = client
        .post(
            RESULT,
            json!({"handover_userid": "mA", "takeover_userid": "mB"}),
        )
        .await;
    assert!(
        result["customer"]
            .as_array()
            .unwrap()
            .iter()
            .all(|row| row["status"] == 3)
    );
}

#[tokio::test]
async fn a_year_after_leaving_it_is_too_late() {
    let mut config = config();
    config.corps[0].members.push(MemberConfig {
        last_login_days: 366,
        ..MemberConfig::new("asleep")
    });
    let client = Client::start(config).await;
    client.befriend("mA", "wm1");
    client.befriend("asleep", "wm2");
    for member in ["mA", "asleep"] {
        client
            .sim
            .patch_member(None, member, &json!({"status": 5}))
            .unwrap();
    }
    assert_eq!(
        code(&client.post(TRANSFER, body("asleep", "mB", &["wm2"])).await),
        40205
    );
    client.sim.advance(DAY * 366).await;
    client.forget_tokens();
    assert_eq!(
        code(&client.post(TRANSFER, body("mA", "mB", &["wm1"])).await),
        40205
    );
}

#[tokio::test]
async fn unassigned_pages() {
    let client = Client::start(config()).await;
    for member in ["mA", "mB"] {
        for number in 0..3 {
            client.befriend(member, &format!("wm{number}"));
        }
        client
            .sim
            .patch_member(None, member, &json!({"status": 5}))
            .unwrap();
    }
    let mut rows = Vec::new();
    let mut cursor = json!("");
    loop {
        let page = client
            .post(UNASSIGNED, json!({"cursor": cursor, "page_size": 2}))
            .await;
        rows.extend(page["info"].as_array().unwrap().clone());
        cursor = page["next_cursor"].clone();
        if page["is_last"] == json!(true) {
            break;
        }
    }
    assert_eq!((rows.len(), &cursor), (6, &json!("")));
    let body = json!({"cursor": "x", "page_id": 1});
    assert_eq!(code(&client.post(UNASSIGNED, body).await), 40058);
}
