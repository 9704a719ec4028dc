//! What a test may do and see by HTTP; who somebody is in groups and elsewhere.

use serde_json::json;
use wecom_sim::{GroupPerson, InviteRequest, JoinRequest};

use super::{group, made, read, small, way};
use crate::harness::{CORP, Client, code};

#[tokio::test]
async fn groups_by_http() {
    let client = Client::start(small()).await;
    let body = json!({"owner": "mA", "name": "VIP", "members": ["mB"], "people": 1, "count": 2});
    let (status, reply) = client.admin("POST", "/sim/groups", body).await;
    assert_eq!(status, 200);
    let ids = reply["chat_ids"].as_array().unwrap().clone();
    let (first, second) = (ids[0].as_str().unwrap(), ids[1].as_str().unwrap());
    let path = format!("/sim/groups/{first}");
    let (_, state) = client.admin("GET", &path, json!({})).await;
    assert_eq!(
        (&state["name"], &state["size"], &state["outside"]),
        (&json!("VIP1"), &json!(3), &json!(1))
    );
    let who = &state["members"][2];
    assert_eq!(
        (&who["employee"], &who["invitor"], &who["join_scene"]),
        (&json!(false), &json!("mA"), &json!(1))
    );
    let change = json!({"name": "n", "owner": "MB", "notice": "hi"});
    let (_, state) = client.admin("PATCH", &path, change).await;
    assert_eq!(
        (&state["name"], &state["owner"]),
        (&json!("n"), &json!("mB"))
    );
    assert!(state.get("members").is_none());

    let body =
        json!({"chat_id": first, "people": [{"customer": "wm1", "unionid": "o1", "name": "Lan"}]});
    let (_, reply) = client.admin("POST", "/sim/groups/invite", body).await;
    assert_eq!(
        reply["joins"],
        json!([{"customer": "wm1", "chat_id": first, "outcome": "joined"}])
    );
    let body = json!({"chat_id": first, "people": ["wm1"], "removed": true});
    let (_, reply) = client.admin("POST", "/sim/groups/leave", body).await;
    assert_eq!(reply["left"], json!([["wm1", first]]));
    let id = made(&client, way(&[first], 0)).await;
    let body = json!({"config_id": id, "people": [{"customer": "wm1"}, {"customer": "wm2"}]});
    let (_, reply) = client.admin("POST", "/sim/groups/scan", body).await;
    assert_eq!(reply["outcomes"], json!({"joined": 1, "full": 1}));
    assert_eq!(
        reply["joins"][1],
        json!({"customer": "wm2", "chat_id": null, "outcome": "full"})
    );

    let (status, _) = client
        .admin("DELETE", &format!("/sim/groups/{second}"), json!({}))
        .await;
    assert_eq!(status, 200);
    let (_, all) = client.admin("GET", "/sim/groups", json!({})).await;
    assert_eq!(
        (&all[0]["size"], &all[1]["dismissed"], &all[1]["size"]),
        (&json!(4), &json!(true), &json!(0))
    );
    let (_, state) = client.admin("GET", "/sim/state", json!({})).await;
    let corp = &state["corps"][CORP];
    assert_eq!(
        corp["groups"][0]["members"][3]["unionid"], "o1",
        "he is known from before"
    );
    assert_eq!(corp["join_ways"][0]["config_id"], json!(id));
    let (_, counters) = client.admin("GET", "/sim/counters", json!({})).await;
    assert_eq!(counters["corps"][CORP]["groups"]["refused_full"], 1);
}

#[tokio::test]
async fn refused_requests_say_why() {
    let client = Client::start(small()).await;
    group(&client, "wr1");
    group(&client, "wr2");
    client.sim.dismiss_group(None, "wr2").unwrap();
    for (method, path, body, status, text) in [
        (
            "POST",
            "",
            json!({"owner": "nobody"}),
            404,
            "no member nobody",
        ),
        (
            "POST",
            "",
            json!({"owner": "mA", "chat_id": "wr1"}),
            400,
            "a group wr1 already",
        ),
        (
            "POST",
            "",
            json!({"owner": "mA", "chat_id": "wr3", "count": 2}),
            400,
            "leave chat_id out",
        ),
        (
            "POST",
            "",
            json!({"owner": "mA", "people": 6}),
            400,
            "at most 6",
        ),
        ("POST", "", json!({}), 400, "missing field `owner`"),
        (
            "POST",
            "/invite",
            json!({"chat_id": "wr2"}),
            404,
            "no group wr2",
        ),
        (
            "POST",
            "/invite",
            json!({"chat_id": "wr1", "by": "wm9"}),
            404,
            "no member of the group wm9",
        ),
        (
            "POST",
            "/leave",
            json!({"chat_id": "wr1", "people": ["wm9"]}),
            404,
            "no member of the group wm9",
        ),
        (
            "POST",
            "/leave",
            json!({"chat_id": "wr1", "people": ["mA"]}),
            400,
            "an owner cannot leave",
        ),
        (
            "POST",
            "/leave",
            json!({"count": 1}),
            400,
            "count needs a chat_id",
        ),
        (
            "POST",
            "/leave",
            json!({"people": ["wm9"]}),
            404,
            "no customer wm9",
        ),
        ("PATCH", "/wr1", json!({"owner": "mX"}), 404, "no member mX"),
        ("PATCH", "/wr2", json!({"name": "n"}), 404, "no group wr2"),
        ("DELETE", "/wr2", json!({}), 404, "no group wr2"),
        ("GET", "/wr9", json!({}), 404, "no group wr9"),
    ] {
        let path = format!("/sim/groups{path}");
        let (got, answer) = client.admin(method, &path, body.clone()).await;
        let error = answer["error"].as_str().unwrap();
        assert!(
            got == status && error.contains(text),
            "{method} {path} {body}: {got} {error}"
        );
    }
    let (_, rules) = client.admin("GET", "/sim/config", json!({})).await;
    assert_eq!(rules["groups"]["scan_cap"], 4);
    for groups in [
        json!({"scan_cap": 7}),
        json!({"scan_cap": 1}),
        json!({"move_ignored_rate": 2}),
    ] {
        let patch = json!({"groups": groups});
        let (status, answer) = client.admin("PATCH", "/sim/config", patch).await;
        let error = answer["error"].as_str().unwrap();
        assert!(status == 400 && error.contains("groups."), "{error}");
    }
}

/// One person has one external_userid, unionid and name, whatever he is in; and is nobody's customer by it.
#[tokio::test]
async fn the_same_person_everywhere() {
    let client = Client::start(small()).await;
    group(&client, "wr1");
    group(&client, "wr2");
    let id = made(&client, way(&["wr1"], 0)).await;
    let lan = GroupPerson {
        name: Some("Lan".to_owned()),
        ..GroupPerson::new("wm1").unionid("o1")
    };
    client.sim.join(&JoinRequest::way(&id).person(lan)).unwrap();
    let (api, query) = ("externalcontact/get", [("external_userid", "wm1")]);
    assert_eq!(code(&client.get(api, &query).await), 84061);
    client.befriend("mB", "wm1");
    let contact = client.get(api, &query).await["external_contact"].clone();
    assert_eq!(
        (&contact["unionid"], &contact["name"]),
        (&json!("o1"), &json!("Lan"))
    );
    let again = InviteRequest {
        chat_id: "wr2".to_owned(),
        ..InviteRequest::default().person(GroupPerson::new("wm1"))
    };
    client.sim.invite(&again).unwrap();
    let member = read(&client, "wr2").await["member_list"][1].clone();
    assert_eq!(
        (&member["unionid"], &member["name"]),
        (&json!("o1"), &json!("Lan"))
    );
    assert!(member.get("state").is_none(), "he came past the way");
    assert_eq!(
        client.sim.customer(None, "wm1").unwrap().groups,
        ["wr1", "wr2"]
    );
    client.sim.dismiss_group(None, "wr1").unwrap();
    assert_eq!(client.sim.customer(None, "wm1").unwrap().groups, ["wr2"]);
}
