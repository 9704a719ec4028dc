//! Customers scan (api.md 14.6) and what the gateway hears of it.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::json;
use wecom_sim::{MemberConfig, ScanOutcome, ScanRequest};

use crate::harness::{CORP, Client, code, config, with_gateway};

async fn make_way(client: &Client, users: &[&str], extra: serde_json::Value) -> String {
    let mut body = json!({"type": 2, "scene": 2, "state": "ch_001", "user": users});
    body.as_object_mut()
        .unwrap()
        .extend(extra.as_object().unwrap().clone());
    client.post("externalcontact/add_contact_way", body).await["config_id"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[tokio::test]
async fn scan_makes_relation_and_event() {
    let (client, gateway) = with_gateway(config()).await;
    let way = make_way(&client, &["mA"], json!({})).await;
    let reply = client.sim.scan(&ScanRequest::way(way)).unwrap();
    client.sim.idle().await;
    let scan = &reply.scans[0];
    assert_eq!(
        (scan.outcome, scan.member.as_deref()),
        (ScanOutcome::Added, Some("mA"))
    );
    let received = gateway.received();
    let event = &received[0];
    assert_eq!(event.field("ToUserName"), Some(CORP));
    assert_eq!(event.field("FromUserName"), Some("sys"));
    assert_eq!(event.field("Event"), Some("change_external_contact"));
    assert_eq!(event.change(), "add_external_contact");
    assert_eq!(event.field("UserID"), Some("mA"));
    assert_eq!(event.field("ExternalUserID"), Some(scan.customer.as_str()));
    assert_eq!(event.field("State"), Some("ch_001"));
    assert_eq!(
        event.field("WelcomeCode"),
        scan.welcome_codes.values().next().map(String::as_str)
    );
    assert_eq!(
        event.field("CreateTime"),
        Some((client.sim.now_ms() / 1_000).to_string().as_str())
    );
    assert_eq!(event.envelope_agent_id, None);
    let parsed = wecom::event::Event::parse(&event.plaintext).unwrap();
    assert_eq!(parsed.corp, CORP);
    assert_eq!(client.followers(&scan.customer).await, ["mA"]);
}

/// Every member of a way gets his part of a thousand scans.
#[tokio::test]
async fn pick_is_uniform_and_seeded() {
    let mut counts = Vec::new();
    for _ in 0..2 {
        let client = Client::start(config()).await;
        let way = make_way(&client, &["mA", "mB", "mC"], json!({})).await;
        let reply = client
            .sim
            .scan(&ScanRequest::way(way).count(1_000))
            .unwrap();
        let mut by_member: HashMap<String, u32> = HashMap::new();
        for scan in reply.scans {
            *by_member.entry(scan.member.unwrap()).or_default() += 1;
        }
        assert!(
            by_member.len() == 3 && by_member.values().all(|count| (250..420).contains(count)),
            "{by_member:?}"
        );
        counts.push(by_member);
    }
    assert_eq!(counts[0], counts[1], "same seed, same picks");
}

#[tokio::test]
async fn departments_and_absent_members() {
    let mut config = config();
    config.corps[0].members[3].departments = vec![7];
    config.corps[0].members[4].departments = vec![7];
    let client = Client::start(config).await;
    let way = make_way(&client, &[], json!({"party": [7]})).await;
    client
        .sim
        .patch_member(None, "mD", &json!({"status": 2}))
        .unwrap();
    let reply = client.sim.scan(&ScanRequest::way(&way).count(20)).unwrap();
    assert!(
        reply
            .scans
            .iter()
            .all(|scan| scan.member.as_deref() == Some("mE"))
    );
    client
        .sim
        .patch_member(None, "mE", &json!({"status": 5}))
        .unwrap();
    assert_eq!(
        client.sim.scan(&ScanRequest::way(&way)).unwrap().scans[0].outcome,
        ScanOutcome::NoMember
    );
}

/// Already friends: no event. Deleted by the customer: added again. Full: nothing.
#[tokio::test]
async fn repeated_scans() {
    let mut config = config();
    config.corps[0].members[1] = MemberConfig {
        customer_limit: 1,
        ..MemberConfig::new("mB")
    };
    let (client, gateway) = with_gateway(config).await;
    let scan = |member: &str, customer: &str| {
        client
            .sim
            .scan(&ScanRequest::member(member, "").customer(customer))
            .unwrap()
            .scans[0]
            .outcome
    };
    assert_eq!(scan("mA", "wm1"), ScanOutcome::Added);
    assert_eq!(scan("mA", "wm1"), ScanOutcome::AlreadyFriend);
    let by = wecom_sim::By::Customer;
    let delete = wecom_sim::DeleteRequest {
        corp: None,
        customer: "wm1".to_owned(),
        member: "mA".to_owned(),
        by,
    };
    client.sim.delete(&delete).unwrap();
    assert_eq!(scan("mA", "wm1"), ScanOutcome::Added);
    assert_eq!(scan("mB", "wm1"), ScanOutcome::Added);
    assert_eq!(scan("mB", "wm2"), ScanOutcome::MemberFull);
    client.sim.idle().await;
    let mut changes = gateway.changes();
    changes.sort();
    assert_eq!(
        changes,
        [
            "add_external_contact",
            "add_external_contact",
            "add_external_contact",
            "del_follow_user"
        ]
    );
    assert!(
        gateway
            .received()
            .iter()
            .all(|event| event.field("State").is_none()),
        "no state, no node"
    );
}

/// Generated members have WeCom's limit unless told otherwise.
#[tokio::test]
async fn generated_members_with_a_limit() {
    let mut config = config();
    let generate = wecom_sim::Generate {
        customer_limit: 2,
        ..wecom_sim::Generate::new("gen", 1)
    };
    config.corps[0].generate = vec![generate];
    let client = Client::start(config).await;
    let reply = client
        .sim
        .scan(&ScanRequest::member("gen1", "").count(3))
        .unwrap();
    assert_eq!(
        reply.outcomes,
        [(ScanOutcome::Added, 2), (ScanOutcome::MemberFull, 1)].into()
    );
}

/// A half-add is no relation for APIs until the member confirms.
#[tokio::test]
async fn half_add_then_add() {
    let (client, gateway) = with_gateway(config()).await;
    let way = make_way(&client, &["mA"], json!({})).await;
    let request = ScanRequest {
        half: Some(true),
        ..ScanRequest::way(way).customer("wm1")
    };
    assert_eq!(
        client.sim.scan(&request).unwrap().scans[0].outcome,
        ScanOutcome::Half
    );
    assert_eq!(
        code(
            &client
                .get("externalcontact/get", &[("external_userid", "wm1")])
                .await
        ),
        84061
    );
    assert_eq!(client.transfer_one("mA", "mB", "wm1").await, 84061);
    client.sim.advance(Duration::from_secs(1)).await;
    client.sim.idle().await;
    assert_eq!(client.followers("wm1").await, ["mA"]);
    let received = gateway.received();
    assert_eq!(
        gateway.changes(),
        ["add_half_external_contact", "add_external_contact"]
    );
    assert!(
        received
            .iter()
            .all(|event| event.field("WelcomeCode").is_some())
    );
    // Without skip_verify there is no half-add.
    let way = make_way(&client, &["mA"], json!({"skip_verify": false})).await;
    let request = ScanRequest {
        half: Some(true),
        ..ScanRequest::way(way)
    };
    assert_eq!(
        client.sim.scan(&request).unwrap().scans[0].outcome,
        ScanOutcome::Added
    );
}

/// is_exclusive: the same customer goes to the one who has him.
#[tokio::test]
async fn exclusive_way_keeps_to_one_member() {
    let client = Client::start(config()).await;
    client.befriend("mC", "wm1");
    let way = make_way(&client, &["mA", "mB", "mC"], json!({"is_exclusive": true})).await;
    for _ in 0..10 {
        let reply = client
            .sim
            .scan(&ScanRequest::way(&way).customer("wm1"))
            .unwrap();
        assert_eq!(reply.scans[0].outcome, ScanOutcome::AlreadyFriend);
    }
}

/// A surge spread over simulated time.
#[tokio::test]
async fn scans_over_time() {
    let (client, gateway) = with_gateway(config()).await;
    let request = ScanRequest {
        over_ms: 10_000,
        quiet: true,
        ..ScanRequest::member("mA", "ch_001").count(100)
    };
    let reply = client.sim.scan(&request).unwrap();
    assert_eq!((reply.scanned, reply.scheduled), (0, 100));
    client.sim.advance(Duration::from_millis(4_999)).await;
    assert_eq!(client.sim.counters().corps[CORP].relations, 50);
    client.sim.advance(Duration::from_secs(10)).await;
    client.sim.idle().await;
    assert_eq!(gateway.received().len(), 100);
}

#[tokio::test]
async fn refused_requests_say_why() {
    let client = Client::start(config()).await;
    for (body, status, text) in [
        (json!({}), 400, "config_id or member"),
        (json!({"member": "nobody"}), 404, "no member nobody"),
        (
            json!({"state": "pv.9"}),
            404,
            "no contact way with state pv.9",
        ),
        (json!({"config_id": "cw"}), 404, "no contact way cw"),
        (
            json!({"member": "mA", "count": 2, "customer": "wm1"}),
            400,
            "leave customer",
        ),
        (json!({"member": "mA", "corp": "wwx"}), 404, "no corp wwx"),
        (json!({"membr": "mA"}), 400, "unknown field `membr`"),
    ] {
        let (got, answer) = client.admin("POST", "/sim/scan", body.clone()).await;
        let error = answer["error"].as_str().unwrap();
        assert!(
            got == status && error.contains(text),
            "{body}: {got} {error}"
        );
    }
}
