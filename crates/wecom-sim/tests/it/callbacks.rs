//! Delivery of events (callbacks.md 2.8, api.md 14.8).

use std::time::Duration;

use serde_json::json;
use wecom_sim::{By, Config, DeleteRequest, ScanRequest, SendRequest};

use crate::harness::{AGENT, Answer, Client, Gateway, callback, config, with_gateway};

/// A time limit that a busy machine keeps, and that two tests wait for.
fn quick() -> Config {
    let mut config = config();
    config.callbacks.timeout_ms = 1_000;
    config.callbacks.verify_timeout_ms = 5_000;
    config
}

#[tokio::test]
async fn retries_are_sealed_anew() {
    let (client, gateway) = with_gateway(quick()).await;
    gateway.script([Answer::Never, Answer::Status(503), Answer::Ok]);
    client.befriend("mA", "wm1");
    client.sim.idle().await;
    let received = gateway.received();
    assert_eq!(received.len(), 3);
    assert!(
        received
            .iter()
            .all(|one| one.plaintext == received[0].plaintext),
        "the same event"
    );
    assert!(
        received[0].nonce != received[1].nonce && received[1].nonce != received[2].nonce,
        "sealed anew"
    );
    let counters = client.sim.counters().callbacks;
    assert_eq!(
        (
            counters.events,
            counters.sent,
            counters.retried,
            counters.acked,
            counters.failed
        ),
        (1, 3, 2, 1, 0)
    );
}

#[tokio::test]
async fn four_deliveries_at_most() {
    let (client, gateway) = with_gateway(quick()).await;
    gateway.script([Answer::Status(500); 9]);
    client.befriend("mA", "wm1");
    client.sim.idle().await;
    assert_eq!(gateway.received().len(), 4);
    let counters = client.sim.counters().callbacks;
    assert_eq!(
        (
            counters.sent,
            counters.retried,
            counters.acked,
            counters.failed
        ),
        (4, 3, 0, 1)
    );
}

/// The lenient reading of the docs: only time-outs and lost connections are retried.
#[tokio::test]
async fn other_statuses_by_switch() {
    let mut config = quick();
    config.callbacks.retry_on_status = false;
    let (client, gateway) = with_gateway(config).await;
    gateway.script([Answer::Status(503)]);
    client.befriend("mA", "wm1");
    client.sim.idle().await;
    assert_eq!(gateway.received().len(), 1);
    gateway.script([Answer::Never]);
    client.befriend("mA", "wm2");
    client.sim.idle().await;
    assert_eq!(gateway.received().len(), 3);
}

#[tokio::test]
async fn nobody_listens() {
    let mut config = quick();
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    config.corps[0].apps[0].callback = Some(callback(&[format!("http://{free}/callback/app")]));
    let client = Client::start(config).await;
    client.befriend("mA", "wm1");
    client.sim.idle().await;
    let counters = client.sim.counters().callbacks;
    assert_eq!((counters.sent, counters.failed), (4, 1));
}

/// Two gateways take turns, retries included.
#[tokio::test]
async fn urls_take_turns() {
    let (first, second) = (Gateway::start().await, Gateway::start().await);
    let mut config = quick();
    config.corps[0].apps[0].callback = Some(callback(&[first.url.clone(), second.url.clone()]));
    let client = Client::start(config).await;
    client
        .sim
        .scan(&ScanRequest::member("mA", "s").count(10))
        .unwrap();
    client.sim.idle().await;
    assert_eq!((first.received().len(), second.received().len()), (5, 5));
    first.script([Answer::Status(503)]);
    client.befriend("mA", "wm1");
    client.sim.idle().await;
    assert_eq!((first.received().len(), second.received().len()), (6, 6));
}

#[tokio::test]
async fn duplicates_and_losses() {
    let mut config = config();
    config.callbacks.duplicate_rate = 0.3;
    config.callbacks.loss_rate = 0.2;
    let (client, gateway) = with_gateway(config).await;
    client
        .sim
        .scan(&ScanRequest {
            quiet: true,
            ..ScanRequest::member("mA", "s").count(500)
        })
        .unwrap();
    client.sim.idle().await;
    let counters = client.sim.counters().callbacks;
    assert_eq!(counters.events, 500);
    assert!(
        (60..140).contains(&counters.lost) && (80..160).contains(&counters.duplicated),
        "{counters:?}"
    );
    assert_eq!(
        gateway.received().len() as u64,
        500 - counters.lost + counters.duplicated
    );
}

/// Held-back events leave when the clock reaches them, overtaken by later ones.
#[tokio::test]
async fn delay_and_reordering_follow_the_clock() {
    let mut config = quick();
    config.callbacks.reorder_rate = 0.5;
    config.callbacks.connections = 1;
    let (client, gateway) = with_gateway(config).await;
    for number in 0..40 {
        client.befriend("mA", &format!("wm{number:02}"));
    }
    client.sim.idle().await;
    let at_once = gateway.received().len();
    assert!((8..32).contains(&at_once), "{at_once}");
    client.sim.advance(Duration::from_secs(5)).await;
    client.sim.idle().await;
    let received = gateway.received();
    let order: Vec<_> = received
        .iter()
        .map(|event| event.field("ExternalUserID").unwrap())
        .collect();
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert_eq!(order.len(), 40);
    assert_ne!(order, sorted);
}

#[tokio::test]
async fn one_connection_keeps_the_order() {
    let mut config = quick();
    config.callbacks.connections = 1;
    let (client, gateway) = with_gateway(config).await;
    for number in 0..40 {
        client.befriend("mA", &format!("wm{number:02}"));
    }
    client.sim.idle().await;
    let received = gateway.received();
    assert!(received.is_sorted_by_key(|event| event.field("ExternalUserID").unwrap().to_owned()));
}

/// Too many failures: events are dropped for a while.
#[tokio::test]
async fn gives_up_on_a_bad_url_for_a_while() {
    let mut config = quick();
    config.callbacks.retries = 0;
    config.callbacks.give_up.after = 2;
    config.callbacks.connections = 1;
    let (client, gateway) = with_gateway(config).await;
    gateway.script([Answer::Status(500), Answer::Status(500)]);
    for number in 0..4 {
        client.befriend("mA", &format!("wm{number}"));
    }
    client.sim.idle().await;
    let counters = client.sim.counters().callbacks;
    assert_eq!(
        (counters.failed, counters.dropped, counters.acked),
        (2, 2, 0)
    );
    client.sim.advance(Duration::from_secs(60)).await;
    client.befriend("mA", "wm9");
    client.sim.idle().await;
    assert_eq!(client.sim.counters().callbacks.acked, 1);
}

#[tokio::test]
async fn only_apps_that_may_hear() {
    let mut config = quick();
    let gateway = Gateway::start().await;
    let url = std::slice::from_ref(&gateway.url);
    config.corps[0].apps[0].callback = Some(callback(url));
    config.corps[0].apps[0].visible = vec!["mb".to_owned()];
    let client = Client::start(config).await;
    client.befriend("mA", "wm1");
    client.befriend("mB", "wm2");
    client.sim.idle().await;
    assert_eq!(gateway.received().len(), 1, "members in its range");
    let mut changed = client.sim.config();
    changed.corps[0].apps[0]
        .callback
        .as_mut()
        .unwrap()
        .contact_events = false;
    client.sim.put_config(changed).unwrap();
    client.befriend("mB", "wm3");
    client.sim.idle().await;
    assert_eq!(gateway.received().len(), 1, "the box is not ticked");
}

#[tokio::test]
async fn people_make_events() {
    let (client, gateway) = with_gateway(quick()).await;
    client.befriend("mA", "wm1");
    client.sim.idle().await;
    let edit = json!({"customer": "wm1", "member": "mA", "remark": "VIP"});
    assert_eq!(client.admin("POST", "/sim/edit", edit).await.0, 200);
    client.sim.idle().await;
    for by in [By::Customer, By::Member] {
        let request = DeleteRequest {
            corp: None,
            customer: "wm1".to_owned(),
            member: "mA".to_owned(),
            by,
        };
        client.sim.delete(&request).unwrap();
        client.sim.idle().await;
    }
    let expected = [
        "add_external_contact",
        "edit_external_contact",
        "del_follow_user",
        "del_external_contact",
    ];
    assert_eq!(gateway.changes(), expected);
    assert_eq!(gateway.received()[3].field("Source"), None);
}

#[tokio::test]
async fn any_plaintext_can_be_sent() {
    let (client, gateway) = with_gateway(quick()).await;
    let plaintext =
        "<xml><MsgType><![CDATA[text]]></MsgType><Content>你好</Content></xml>".to_owned();
    let request = SendRequest {
        corp: None,
        agent_id: Some(AGENT),
        plaintext: plaintext.clone(),
    };
    assert_eq!(client.sim.send(&request).unwrap(), 1);
    client.sim.idle().await;
    let received = gateway.received();
    assert_eq!(received[0].plaintext, plaintext);
    assert_eq!(received[0].envelope_agent_id.as_deref(), Some("1000002"));
    assert!(
        client
            .sim
            .send(&SendRequest {
                agent_id: Some(7),
                ..request
            })
            .is_err()
    );
}

#[tokio::test]
async fn url_verification() {
    let (client, gateway) = with_gateway(quick()).await;
    let (status, answer) = client.admin("POST", "/sim/verify", json!({})).await;
    assert_eq!((status, &answer[0]["ok"]), (200, &json!(true)));
    gateway.verify_with("success");
    let result = client
        .sim
        .verify_urls(None, Some(AGENT))
        .await
        .unwrap()
        .remove(0);
    assert!(
        !result.ok && result.detail.contains("not the decrypted echostr"),
        "{result:?}"
    );
}

#[tokio::test]
async fn switched_off_callbacks_are_counted() {
    let mut config = quick();
    config.callbacks.enabled = false;
    let (client, gateway) = with_gateway(config).await;
    client.befriend("mA", "wm1");
    client.sim.idle().await;
    assert!(gateway.received().is_empty());
    let counters = client.sim.counters().callbacks;
    assert_eq!((counters.events, counters.unsent), (1, 1));
}
