//! The configuration over HTTP, several corps, and many callers at once.

use futures_util::future::join_all;
use serde_json::json;
use wecom_sim::{Act, Config, Fault, ScanRequest};

use crate::harness::{AGENT, CORP, Client, DAY, code, config, with_gateway};

/// Started empty, set up over HTTP.
#[tokio::test]
async fn set_up_over_http() {
    let client = Client::start(Config::default()).await;
    let corp = json!({"apps": [{"agent_id": AGENT, "secret": "secret-of-1000002"}], "members": [{"userid": "mA"}]});
    assert_eq!(
        client
            .admin("PUT", &format!("/sim/corps/{CORP}"), corp.clone())
            .await
            .0,
        200
    );
    client.befriend("mA", "wm1");
    assert_eq!(client.followers("wm1").await, ["mA"]);
    // A second corp: now requests must name one.
    assert_eq!(client.admin("PUT", "/sim/corps/wwother", corp).await.0, 200);
    let (status, answer) = client
        .admin("POST", "/sim/scan", json!({"member": "mA"}))
        .await;
    assert!(
        status == 400
            && answer["error"]
                .as_str()
                .unwrap()
                .contains("there are 2 corps")
    );
    let scan = json!({"member": "mA", "corp": "wwother", "customer": "wm1"});
    assert_eq!(
        client.admin("POST", "/sim/scan", scan).await.1["outcomes"]["added"],
        1
    );
    // What the first corp holds has stayed.
    assert_eq!(client.followers("wm1").await, ["mA"]);
    let (_, config) = client.admin("GET", "/sim/config", json!({})).await;
    assert_eq!(config["corps"].as_array().unwrap().len(), 2);
    let (status, _) = client.admin("PUT", "/sim/config", config).await;
    assert_eq!(status, 200, "what was read can be written back");
}

#[tokio::test]
async fn bad_configuration_names_the_field() {
    let client = Client::start(config()).await;
    for (patch, text) in [
        (
            json!({"callbacks": {"loss_rate": 2.0}}),
            "callbacks.loss_rate",
        ),
        (
            json!({"limits": {"inflight": 2}}),
            "unknown field `inflight`",
        ),
        (
            json!({"faults": [{"api": "nothing", "act": "drop"}]}),
            "faults[0].api",
        ),
        (
            json!({"corps": [{"id": "ww1", "members": [{"userid": "a"}, {"userid": "A"}]}]}),
            "used twice",
        ),
        (
            json!({"corps": [{"id": "ww1", "apps": [{"agent_id": 1}]}]}),
            "apps[1].secret",
        ),
        (
            json!({"corps": [{"id": "ww1", "apps": [{"agent_id": 1, "secret": "s", "callback": {"token": "t", "aes_key": "short"}}]}]}),
            "43 characters",
        ),
    ] {
        let (status, answer) = client.admin("PATCH", "/sim/config", patch.clone()).await;
        let error = answer["error"].as_str().unwrap();
        assert!(status == 400 && error.contains(text), "{patch}: {error}");
    }
    // Nothing of it was taken over.
    assert_eq!(client.sim.config().corps[0].id, CORP);
}

#[tokio::test]
async fn help_and_unknown_routes() {
    let client = Client::start(config()).await;
    let help = client
        .http
        .get(client.url("/sim"))
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    for route in ["/sim/scan", "/sim/faults", "/sim/check"] {
        assert!(help.contains(route));
    }
    assert_eq!(client.admin("GET", "/sim/nothing", json!({})).await.0, 404);
    let (_, apis) = client.admin("GET", "/sim/apis", json!({})).await;
    let apis: Vec<String> = serde_json::from_value(apis).unwrap();
    assert!(apis.contains(&"externalcontact/transfer_customer".to_owned()));
    // Every API the client library names is here.
    use wecom::client::api;
    for name in [
        api::GETTOKEN,
        api::TRANSFER_CUSTOMER,
        api::RESIGNED_TRANSFER_RESULT,
        api::SEND_WELCOME_MSG,
        api::MARK_TAG,
    ] {
        assert!(apis.contains(&name.to_owned()), "{name}");
    }
}

/// Two apps of a corp have a token each; members can be added while it runs.
#[tokio::test]
async fn members_come_and_go() {
    let mut config = config();
    config.callbacks.connections = 1;
    let (client, gateway) = with_gateway(config).await;
    let path = format!("/sim/corps/{CORP}/members/mNew");
    assert_eq!(client.admin("PATCH", &path, json!({})).await.1["status"], 1);
    client.befriend("mNew", "wm1");
    let (status, _) = client.admin("PATCH", &path, json!({"status": 2})).await;
    assert_eq!(status, 200);
    client.sim.idle().await;
    let events: Vec<_> = gateway
        .received()
        .iter()
        .map(|event| event.field("Event").unwrap().to_owned())
        .collect();
    assert_eq!(
        events,
        ["subscribe", "change_external_contact", "unsubscribe"]
    );
}

/// 32 callers at once, limits lifted, faults after the effect: every customer is moved once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_callers_at_once() {
    let mut config = config();
    config.limits.enabled = false;
    let (client, gateway) = with_gateway(config).await;
    client
        .sim
        .add_fault(
            Fault::new("externalcontact/transfer_customer", Act::Drop)
                .after()
                .probability(0.2),
        )
        .unwrap();
    let scans = client
        .sim
        .scan(&ScanRequest::member("mA", "ch_001").count(1_000))
        .unwrap()
        .scans;
    let token = client.token().await;
    let calls = scans.chunks(10).map(|chunk| {
        let customers: Vec<&str> = chunk.iter().map(|scan| scan.customer.as_str()).collect();
        let body =
            json!({"handover_userid": "mA", "takeover_userid": "mB", "external_userid": customers});
        client.post_as(
            &token,
            "127.0.0.1",
            "externalcontact/transfer_customer",
            body,
        )
    });
    let answers = join_all(calls).await;
    assert!(answers.iter().flatten().all(|answer| code(answer) == 0));
    assert!(answers.iter().any(Result::is_err));
    client.sim.advance(DAY).await;
    client.sim.idle().await;
    let counters = client.sim.counters();
    let corp = &counters.corps[CORP];
    assert_eq!(
        (corp.transfers_accepted, corp.transfers["done"]),
        (1_000, 1_000)
    );
    assert_eq!(corp.customers_by_transfers, [(1, 1_000)].into());
    assert_eq!(gateway.received().len(), 3_000);
    assert_eq!(counters.callbacks.acked, 3_000);
    let state = client.sim.state(Some(CORP)).unwrap();
    let of = |name: &str| {
        state.corps[CORP]
            .members
            .iter()
            .find(|member| member.userid == name)
            .unwrap()
            .customers
    };
    assert_eq!((of("mA"), of("mB")), (0, 1_000));
    assert!(
        client
            .sim
            .check_with(&wecom_sim::CheckQuery {
                in_flight: Some(1_000),
                ..Default::default()
            })
            .holds
    );
}
