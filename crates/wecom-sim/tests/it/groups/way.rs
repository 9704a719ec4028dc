//! Join ways: made, shown, overwritten, deleted; their limits.

use serde_json::json;
use wecom_sim::{AppConfig, GroupChange, JoinRequest, MemberConfig};

use super::{ADD, GET_WAY, group, made, scan, small, way, way_of};
use crate::harness::{Client, code};

const UPDATE: &str = "externalcontact/groupchat/update_join_way";
const DEL: &str = "externalcontact/groupchat/del_join_way";

#[tokio::test]
async fn made_shown_overwritten_deleted() {
    let client = Client::start(small()).await;
    group(&client, "wr1");
    group(&client, "wr2");
    let id = made(&client, way(&["wr1"], 1)).await;
    let shown = way_of(&client, &id).await;
    let qr_code = shown["qr_code"].as_str().unwrap().to_owned();
    assert_eq!(
        shown,
        json!({"config_id": id, "scene": 2, "remark": "spring", "auto_create_room": 1, "room_base_name": "VIP",
            "room_base_id": 7, "chat_id_list": ["wr1"], "state": "ch_001", "mark_source": true, "qr_code": qr_code})
    );
    let picture = client.http.get(&qr_code).send().await.unwrap();
    assert_eq!(
        (
            picture.status().as_u16(),
            &picture.headers()["content-type"]
        ),
        (200, &"image/png".parse().unwrap())
    );

    // What an update leaves out is gone, or what WeCom takes for it.
    let body = json!({"config_id": id, "scene": 2, "chat_id_list": ["wr2", "wr1", "wr2"]});
    assert_eq!(code(&client.post(UPDATE, body).await), 0);
    let shown = way_of(&client, &id).await;
    assert_eq!(shown["chat_id_list"], json!(["wr2", "wr1"]));
    assert_eq!(
        (
            &shown["remark"],
            &shown["state"],
            &shown["auto_create_room"]
        ),
        (&json!(""), &json!(""), &json!(1))
    );
    let body = json!({"config_id": id});
    assert_eq!(code(&client.post(DEL, body.clone()).await), 0);
    for api in [GET_WAY, DEL] {
        assert_eq!(code(&client.post(api, body.clone()).await), 41044, "{api}");
    }
    let mut whole = way(&["wr1"], 1);
    whole["config_id"] = json!(id);
    assert_eq!(code(&client.post(UPDATE, whole).await), 41044);
    let picture = client.http.get(&qr_code).send().await.unwrap();
    assert_eq!(picture.status(), 404);
}

#[tokio::test]
async fn refusals() {
    let mut config = small();
    config.corps[0].apps[0].visible = vec!["mA".to_owned(), "inside".to_owned()];
    config.corps[0].members.push(MemberConfig {
        customer_contact: false,
        ..MemberConfig::new("inside")
    });
    let client = Client::start(config).await;
    for number in 1..=6 {
        group(&client, &format!("wr{number}"));
    }
    let owner = |owner: &str| GroupChange {
        owner: Some(owner.to_owned()),
        ..GroupChange::default()
    };
    client.sim.change_group("wr2", &owner("mB")).unwrap();
    client.sim.change_group("wr3", &owner("inside")).unwrap();
    client.sim.dismiss_group(None, "wr4").unwrap();
    let with = |patch: serde_json::Value| {
        let mut body = way(&["wr1"], 1);
        let (Some(whole), Some(patch)) = (body.as_object_mut(), patch.as_object()) else {
            panic!()
        };
        whole.extend(patch.clone());
        body
    };
    for (body, expected) in [
        (with(json!({"scene": 3})), 41038),
        (with(json!({"auto_create_room": 2})), 40058),
        (with(json!({"state": "群".repeat(31)})), 40058),
        (with(json!({"room_base_name": "群".repeat(41)})), 40058),
        (with(json!({"room_base_id": -1})), 40058),
        (with(json!({"chat_id_list": []})), 40063),
        (
            with(json!({"chat_id_list": ["wr1", "wr1", "wr1", "wr1", "wr1", "wr1"]})),
            41091,
        ),
        (with(json!({"chat_id_list": ["wr1", "wrX"]})), 90501),
        (with(json!({"chat_id_list": ["wr2"]})), 60011),
        (with(json!({"chat_id_list": ["wr3"]})), 90501),
        (with(json!({"chat_id_list": ["wr4"]})), 49008),
    ] {
        assert_eq!(
            code(&client.post(ADD, body.clone()).await),
            expected,
            "{body}"
        );
    }
    assert_eq!(code(&client.post(GET_WAY, json!({})).await), 41043);
    let state = client.sim.state(None).unwrap();
    assert!(state.corps.values().all(|corp| corp.join_ways.is_empty()));

    // At the limits; a remark is cut without a word.
    let good = with(
        json!({"state": "群".repeat(30), "room_base_name": "群".repeat(40), "remark": "备".repeat(31)}),
    );
    let id = made(&client, good).await;
    assert_eq!(way_of(&client, &id).await["remark"], "备".repeat(30));
}

/// The 500,000 are for contact ways and join ways together.
#[tokio::test]
async fn contact_ways_and_join_ways_share_their_number() {
    let mut config = small();
    config.limits.contact_ways = 2;
    let client = Client::start(config).await;
    group(&client, "wr1");
    let contact = json!({"type": 1, "scene": 2, "user": ["mA"]});
    let add_contact = "externalcontact/add_contact_way";
    assert_eq!(code(&client.post(add_contact, contact.clone()).await), 0);
    let id = made(&client, way(&["wr1"], 1)).await;
    assert_eq!(
        code(&client.post(add_contact, contact.clone()).await),
        41045
    );
    assert_eq!(code(&client.post(ADD, way(&["wr1"], 1)).await), 41045);
    client.post(DEL, json!({"config_id": id})).await;
    assert_eq!(code(&client.post(add_contact, contact).await), 0);
}

#[tokio::test]
async fn an_app_sees_its_own_ways_only() {
    let mut config = small();
    config.corps[0].apps.push(AppConfig {
        agent_id: 1_000_003,
        secret: "other".into(),
        ..AppConfig::default()
    });
    let client = Client::start(config).await;
    group(&client, "wr1");
    let id = made(&client, way(&["wr1"], 1)).await;
    for api in [GET_WAY, UPDATE, DEL] {
        let mut body = way(&["wr1"], 1);
        body["config_id"] = json!(id);
        assert_eq!(
            code(&client.post_by("other", api, body).await),
            41044,
            "{api}"
        );
    }
    assert_eq!(
        scan(&client, &id, 1).joins[0].chat_id.as_deref(),
        Some("wr1")
    );
}

/// The way is found by its state: the latest one that has it.
#[tokio::test]
async fn a_way_is_scanned_by_its_state() {
    let client = Client::start(small()).await;
    group(&client, "wr1");
    group(&client, "wr2");
    made(&client, way(&["wr1"], 0)).await;
    let later = made(&client, way(&["wr2"], 0)).await;
    let join = |state: &str| client.sim.join(&JoinRequest::way_with(state));
    assert_eq!(
        join("ch_001").unwrap().joins[0].chat_id.as_deref(),
        Some("wr2")
    );
    client.post(DEL, json!({"config_id": later})).await;
    assert!(join("ch_001").is_err());
    let answers = [
        (json!({}), 400, "config_id or the state"),
        (json!({"config_id": "jw"}), 404, "no join way jw"),
        (json!({"stat": "x"}), 400, "unknown field `stat`"),
    ];
    for (body, status, text) in answers {
        let (got, answer) = client.admin("POST", "/sim/groups/scan", body.clone()).await;
        let error = answer["error"].as_str().unwrap();
        assert!(
            got == status && error.contains(text),
            "{body}: {got} {error}"
        );
    }
}
