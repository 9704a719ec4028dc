//! Contact ways (api.md 3).

use serde_json::{Value, json};
use wecom_sim::{MemberConfig, ScanOutcome, ScanRequest};

use crate::harness::{Client, DAY, code, config};

const ADD: &str = "externalcontact/add_contact_way";

fn way(users: &[&str]) -> Value {
    json!({"type": 2, "scene": 2, "state": "ch_001", "remark": "spring", "user": users})
}

async fn listed(client: &Client, body: Value) -> Vec<String> {
    let answer = client.post("externalcontact/list_contact_way", body).await;
    assert_eq!(code(&answer), 0);
    let ways = answer["contact_way"].as_array().unwrap();
    ways.iter()
        .map(|way| way["config_id"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn made_shown_changed_deleted() {
    let client = Client::start(config()).await;
    let made = client.post(ADD, way(&["mA", "mB"])).await;
    assert_eq!(code(&made), 0);
    let id = json!({"config_id": made["config_id"]});
    let shown = client
        .post("externalcontact/get_contact_way", id.clone())
        .await["contact_way"]
        .clone();
    assert_eq!(shown["user"], json!(["mA", "mB"]));
    assert_eq!(
        (&shown["skip_verify"], &shown["state"]),
        (&json!(true), &json!("ch_001"))
    );
    let change = json!({"config_id": made["config_id"], "user": ["MC"], "state": "ch_002"});
    assert_eq!(
        code(
            &client
                .post("externalcontact/update_contact_way", change)
                .await
        ),
        0
    );
    let shown = client
        .post("externalcontact/get_contact_way", id.clone())
        .await["contact_way"]
        .clone();
    assert_eq!(
        (&shown["user"], &shown["state"]),
        (&json!(["mC"]), &json!("ch_002"))
    );
    assert_eq!(shown["remark"], "spring", "what is not given stays");
    assert_eq!(
        code(
            &client
                .post("externalcontact/del_contact_way", id.clone())
                .await
        ),
        0
    );
    for api in ["get_contact_way", "del_contact_way", "update_contact_way"] {
        assert_eq!(
            code(
                &client
                    .post(&format!("externalcontact/{api}"), id.clone())
                    .await
            ),
            41044,
            "{api}"
        );
    }
    assert!(listed(&client, json!({})).await.is_empty());
}

/// The picture is where `qr_code` says, for whoever reached the simulator, and is another one for another way.
#[tokio::test]
async fn pictures_are_served() {
    let client = Client::start(config()).await;
    let mut pictures = Vec::new();
    for _ in 0..2 {
        let made = client.post(ADD, way(&["mA"])).await;
        let url = made["qr_code"].as_str().unwrap().to_owned();
        assert!(url.starts_with(&client.sim.base_url()), "{url}");
        let id = json!({"config_id": made["config_id"]});
        let read = client
            .post("externalcontact/get_contact_way", id.clone())
            .await;
        assert_eq!(read["contact_way"]["qr_code"], url.as_str());
        let answer = client.http.get(&url).send().await.unwrap();
        assert_eq!(answer.headers()["content-type"], "image/png");
        let bytes = answer.bytes().await.unwrap();
        let picture = png::Decoder::new(std::io::Cursor::new(bytes.clone()));
        let info = picture.read_info().unwrap().info().clone();
        assert!(info.width == info.height && info.width > 100, "{info:?}");
        pictures.push(bytes);
        client.post("externalcontact/del_contact_way", id).await;
        assert_eq!(client.http.get(&url).send().await.unwrap().status(), 404);
    }
    assert_ne!(pictures[0], pictures[1]);
}

#[tokio::test]
async fn every_call_makes_another() {
    let client = Client::start(config()).await;
    let first = client.post(ADD, way(&["mA"])).await;
    let second = client.post(ADD, way(&["mA"])).await;
    assert_ne!(first["config_id"], second["config_id"]);
    assert_eq!(listed(&client, json!({})).await.len(), 2);
}

#[tokio::test]
async fn refusals() {
    let mut config = config();
    config.corps[0].generate = vec![wecom_sim::Generate::new("gen", 101)];
    config.corps[0].members.extend([
        MemberConfig {
            verified: false,
            ..MemberConfig::new("unverified")
        },
        MemberConfig {
            customer_contact: false,
            ..MemberConfig::new("inside")
        },
    ]);
    let client = Client::start(config).await;
    let many: Vec<String> = (1..=101).map(|number| format!("gen{number}")).collect();
    for (body, expected) in [
        (json!({"scene": 2, "user": ["mA"]}), 41037),
        (json!({"type": 3, "scene": 2, "user": ["mA"]}), 41037),
        (json!({"type": 1, "user": ["mA"]}), 41038),
        (
            json!({"type": 1, "scene": 1, "style": 9, "user": ["mA"]}),
            41042,
        ),
        (json!({"type": 1, "scene": 2}), 40063),
        (json!({"type": 1, "scene": 2, "user": ["mA", "mB"]}), 41041),
        (json!({"type": 2, "scene": 2, "user": many}), 41041),
        (json!({"type": 2, "scene": 2, "party": [1]}), 41041),
        (json!({"type": 2, "scene": 2, "user": ["nobody"]}), 40003),
        (
            json!({"type": 2, "scene": 2, "user": ["unverified"]}),
            41054,
        ),
        (json!({"type": 2, "scene": 2, "user": ["inside"]}), 84074),
        (
            json!({"type": 1, "scene": 2, "user": ["mA"], "state": "s".repeat(31)}),
            40058,
        ),
        (
            json!({"type": 1, "scene": 2, "user": ["mA"], "remark": "r".repeat(31)}),
            40058,
        ),
        (
            json!({"type": 1, "scene": 2, "user": ["mA"], "is_temp": true}),
            48002,
        ),
    ] {
        assert_eq!(
            code(&client.post(ADD, body.clone()).await),
            expected,
            "{body}"
        );
    }
    assert_eq!(
        code(
            &client
                .post("externalcontact/get_contact_way", json!({}))
                .await
        ),
        41043
    );
}

#[tokio::test]
async fn quota_of_the_corp() {
    let mut config = config();
    config.limits.contact_ways = 1;
    let client = Client::start(config).await;
    assert_eq!(code(&client.post(ADD, way(&["mA"])).await), 0);
    assert_eq!(code(&client.post(ADD, way(&["mA"])).await), 41045);
}

#[tokio::test]
async fn lists_by_time_and_page() {
    let client = Client::start(config()).await;
    let old = client.post(ADD, way(&["mA"])).await["config_id"].clone();
    client.sim.advance(DAY * 91).await;
    client.forget_tokens();
    let mut new = Vec::new();
    for _ in 0..3 {
        new.push(
            client.post(ADD, way(&["mA"])).await["config_id"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    assert_eq!(listed(&client, json!({})).await, new, "the last 90 days");
    let all = listed(&client, json!({"start_time": 0})).await;
    assert_eq!(json!(all[0]), old);
    let page = client
        .post("externalcontact/list_contact_way", json!({"limit": 2}))
        .await;
    let rest = listed(&client, json!({"limit": 2, "cursor": page["next_cursor"]})).await;
    assert_eq!(rest, new[2..]);
}

/// A temporary way works once and is in no list.
#[tokio::test]
async fn temporary_way_of_a_medical_corp() {
    let mut config = config();
    config.corps[0].temp_ways = true;
    let client = Client::start(config).await;
    let body = json!({"type": 1, "scene": 2, "user": ["mA"], "is_temp": true, "expires_in": 60});
    let id = client.post(ADD, body).await["config_id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(listed(&client, json!({})).await.is_empty());
    let scan = ScanRequest::way(id);
    assert_eq!(
        client.sim.scan(&scan).unwrap().scans[0].outcome,
        ScanOutcome::Added
    );
    assert_eq!(
        client.sim.scan(&scan).unwrap().scans[0].outcome,
        ScanOutcome::NoMember
    );
}

/// A visitor who scans a State gets the member of the way that has it; of two ways, the later one's.
#[tokio::test]
async fn a_state_is_scanned() {
    let client = Client::start(config()).await;
    assert!(client.sim.scan(&ScanRequest::way_with("pv.1")).is_err());
    for member in ["mA", "mB"] {
        let body = json!({"type": 1, "scene": 2, "user": [member], "state": "pv.1"});
        let made = client.post(ADD, body).await;
        let scan = ScanRequest::way_with("pv.1").customer(format!("wm{member}"));
        let scan = &client.sim.scan(&scan).unwrap().scans[0];
        assert_eq!(scan.outcome, ScanOutcome::Added);
        assert_eq!(scan.member.as_deref(), Some(member));
        let customer = client.sim.customer(None, &scan.customer).unwrap();
        assert_eq!(customer.follows[0].state.as_deref(), Some("pv.1"));
        if member == "mB" {
            let id = json!({"config_id": made["config_id"]});
            client.post("externalcontact/del_contact_way", id).await;
        }
    }
    assert!(client.sim.scan(&ScanRequest::way_with("pv.1")).is_err());
}
