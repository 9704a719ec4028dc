//! `groupchat/list` and `groupchat/get`.

use std::time::Duration;

use serde_json::{Value, json};
use wecom_sim::{
    Act, Fault, Generate, GroupChange, GroupPerson, GroupRequest, InviteRequest, JoinRequest,
    MemberConfig,
};

use super::{GET, LIST, group, made, read, small, way};
use crate::harness::{Client, code};

async fn listed(client: &Client, body: Value) -> Vec<(String, i64)> {
    let mut rows = Vec::new();
    let mut cursor = String::new();
    loop {
        let mut body = body.clone();
        body["cursor"] = json!(cursor);
        let answer = client.post(LIST, body).await;
        assert_eq!(code(&answer), 0, "{answer}");
        for row in answer["group_chat_list"].as_array().unwrap() {
            let id = row["chat_id"].as_str().unwrap().to_owned();
            rows.push((id, row["status"].as_i64().unwrap()));
        }
        cursor = answer["next_cursor"].as_str().unwrap().to_owned();
        if cursor.is_empty() {
            return rows;
        }
    }
}

/// The whole of an answer, as page 92122 shows it.
#[tokio::test]
async fn a_group_with_all_kinds_of_members() {
    let mut config = small();
    config.clock.start_ms = Some(1_767_225_600_000);
    config.corps[0].members[0].name = Some("A".to_owned());
    let client = Client::start(config).await;
    group(&client, "wr1");
    let id = made(&client, way(&["wr1"], 0)).await;
    client.sim.advance(Duration::from_secs(100)).await;
    let lan = GroupPerson {
        name: Some("Lan".to_owned()),
        ..GroupPerson::new("wm1").unionid("o1")
    };
    let scanned = client.sim.join(&JoinRequest::way(&id).person(lan)).unwrap();
    assert_eq!(scanned.joins[0].chat_id.as_deref(), Some("wr1"));
    let invited = InviteRequest {
        members: vec!["MB".to_owned()],
        ..InviteRequest::default()
    };
    let invite = |request: InviteRequest| {
        let request = InviteRequest {
            chat_id: "wr1".to_owned(),
            ..request
        };
        client.sim.invite(&request).unwrap()
    };
    invite(invited);
    invite(InviteRequest {
        by: Some("wm1".to_owned()),
        link: true,
        ..InviteRequest::default().person(GroupPerson::new("wm2"))
    });
    let change = GroupChange {
        name: Some("VIP 10".to_owned()),
        notice: Some("hi".to_owned()),
        ..GroupChange::default()
    };
    client.sim.change_group("wr1", &change).unwrap();
    let shown = read(&client, "wr1").await;
    let version = shown["member_version"].as_str().unwrap();
    assert_eq!(version.len(), 16);
    assert_eq!(
        shown,
        json!({"chat_id": "wr1", "name": "VIP 10", "owner": "mA", "create_time": 1_767_225_600, "notice": "hi",
            "member_list": [
                {"userid": "mA", "type": 1, "join_time": 1_767_225_600, "join_scene": 1, "name": "A"},
                {"userid": "wm1", "type": 2, "unionid": "o1", "join_time": 1_767_225_700, "join_scene": 3,
                 "state": "ch_001", "name": "Lan"},
                {"userid": "mB", "type": 1, "join_time": 1_767_225_700, "join_scene": 1,
                 "invitor": {"userid": "mA"}, "name": "mB"},
                {"userid": "wm2", "type": 2, "join_time": 1_767_225_700, "join_scene": 2, "name": "Customer 2mw"}],
            "admin_list": [], "member_version": version})
    );
    let answer = client.post(GET, json!({"chat_id": "wr1"})).await;
    let members = answer["group_chat"]["member_list"].as_array().unwrap();
    assert!(members.iter().all(|member| member.get("name").is_none()));
}

#[tokio::test]
async fn groups_that_cannot_be_read() {
    let mut config = small();
    config.corps[0].apps[0].visible = vec!["mA".to_owned(), "inside".to_owned()];
    config.corps[0].members.push(MemberConfig {
        customer_contact: false,
        ..MemberConfig::new("inside")
    });
    let client = Client::start(config).await;
    for (owner, chat_id) in [
        ("mA", "wr1"),
        ("mB", "wr2"),
        ("inside", "wr3"),
        ("mA", "wr4"),
    ] {
        let request = GroupRequest::new(owner).chat_id(chat_id);
        client.sim.make_groups(&request).unwrap();
    }
    client.sim.dismiss_group(None, "wr4").unwrap();
    for (chat_id, expected) in [
        ("wr1", 0),
        ("wr2", 60011),
        ("wr3", 90501),
        ("wr4", 49008),
        ("wrX", 90501),
        ("", 40050),
    ] {
        let answer = client.post(GET, json!({"chat_id": chat_id})).await;
        assert_eq!(code(&answer), expected, "{chat_id}");
    }
    assert_eq!(
        listed(&client, json!({"limit": 10})).await,
        [("wr1".to_owned(), 0)],
        "of others, of no customers, and dismissed ones are not listed"
    );
    let gone = client.sim.group(None, "wr4").unwrap();
    assert!(gone.dismissed && gone.members.is_empty());
    let counters = &client.sim.counters().corps[crate::harness::CORP].groups;
    assert_eq!((counters.groups, counters.dismissed), (3, 1));
}

/// What is shown is behind the events, by a different time for every change, but never in another order.
#[tokio::test]
async fn reads_are_behind() {
    let mut config = small();
    config.groups.read_lag_ms = 3_000;
    config.groups.hard_cap = 500;
    let mut seen = Vec::new();
    for _ in 0..2 {
        let client = Client::start(config.clone()).await;
        group(&client, "wr1");
        let before = read(&client, "wr1").await;
        for _ in 0..50 {
            client.sim.invite(&InviteRequest::new("wr1")).unwrap();
        }
        assert_eq!(client.sim.group(None, "wr1").unwrap().size, 51);
        let mut sizes = Vec::new();
        for _ in 0..=30 {
            let shown = read(&client, "wr1").await;
            let size = shown["member_list"].as_array().unwrap().len();
            assert_eq!(
                shown["member_version"] == before["member_version"],
                size == 1,
                "list and version go together"
            );
            sizes.push(size);
            client.sim.advance(Duration::from_millis(100)).await;
        }
        assert!(
            sizes.is_sorted() && sizes[0] < 10 && sizes[30] == 51,
            "{sizes:?}"
        );
        client.sim.dismiss_group(None, "wr1").unwrap();
        read(&client, "wr1").await;
        client.sim.advance(Duration::from_secs(3)).await;
        let answer = client.post(GET, json!({"chat_id": "wr1"})).await;
        assert_eq!(code(&answer), 49008);
        seen.push(sizes);
    }
    assert_eq!(seen[0], seen[1], "same seed, same lag");
}

#[tokio::test]
async fn lists_have_pages_and_filters() {
    let client = Client::start(small()).await;
    for (owner, count) in [("mA", 5), ("mB", 3)] {
        let request = GroupRequest::new(owner).count(count);
        assert_eq!(
            client.sim.make_groups(&request).unwrap().chat_ids.len(),
            count as usize
        );
    }
    let all = client.sim.groups(None).unwrap();
    let expected: Vec<_> = all.iter().map(|group| (group.chat_id.clone(), 0)).collect();
    assert_eq!(listed(&client, json!({"limit": 1000})).await, expected);
    assert_eq!(
        listed(&client, json!({"limit": 3})).await,
        expected,
        "three pages"
    );
    assert_eq!(
        listed(&client, json!({"limit": 4})).await,
        expected,
        "two full pages"
    );
    let of = |owner: &str| json!({"limit": 2, "owner_filter": {"userid_list": [owner]}});
    assert_eq!(listed(&client, of("MB")).await, expected[5..]);
    assert!(listed(&client, of("mC")).await.is_empty());

    // The groups of an owner who left are found by naming him only.
    let left = json!({"status": 5});
    client.sim.patch_member(None, "mA", &left).unwrap();
    assert_eq!(listed(&client, json!({"limit": 9})).await, expected[5..]);
    let rows = listed(&client, of("mA")).await;
    assert!(
        rows.len() == 5 && rows.iter().all(|(_, status)| *status == 1),
        "{rows:?}"
    );
    let status = |status: i64| json!({"limit": 9, "status_filter": status, "owner_filter": {"userid_list": ["mA", "mB"]}});
    assert_eq!(listed(&client, status(1)).await.len(), 5);
    assert_eq!(listed(&client, status(0)).await.len(), 8);
    assert!(listed(&client, status(3)).await.is_empty());

    let many: Vec<String> = (0..101).map(|number| format!("m{number}")).collect();
    for (body, expected) in [
        (json!({}), 40058),
        (json!({"limit": 0}), 40058),
        (json!({"limit": 1001}), 40058),
        (json!({"limit": 1, "status_filter": 4}), 40058),
        (json!({"limit": 1, "cursor": "x"}), 50100),
        (
            json!({"limit": 1, "owner_filter": {"userid_list": many}}),
            40058,
        ),
        (
            json!({"limit": 1, "owner_filter": {"userid_list": ["nobody"]}}),
            40003,
        ),
    ] {
        let answer = client.post(LIST, body.clone()).await;
        assert_eq!(code(&answer), expected, "{body}");
        assert_eq!(answer["group_chat_list"], json!([]));
    }
}

#[tokio::test]
async fn too_many_owners_must_be_named() {
    let mut config = small();
    config.limits.visible_owners = 100;
    config.corps[0].generate = vec![Generate::new("gen", 96)];
    let client = Client::start(config).await;
    assert_eq!(code(&client.post(LIST, json!({"limit": 1})).await), 81017);
    let named = json!({"limit": 1, "owner_filter": {"userid_list": ["mA"]}});
    assert_eq!(code(&client.post(LIST, named).await), 0);
    let patch = json!({"limits": {"visible_owners": 101}});
    client.sim.patch_config(&patch).unwrap();
    assert_eq!(code(&client.post(LIST, json!({"limit": 1})).await), 0);
}

/// The gates of every API stand before these too, and a patched answer is one of them.
#[tokio::test]
async fn quotas_faults_and_log() {
    let mut config = small();
    let rate = wecom_sim::Rate::new(3, 0);
    let limit = wecom_sim::ApiLimit {
        rate: Some(rate),
        in_flight: None,
    };
    config.limits.per_api.insert(LIST.to_owned(), limit);
    let client = Client::start(config).await;
    group(&client, "wr1");
    group(&client, "wr2");
    for expected in [0, 0, 0, 45009] {
        assert_eq!(
            code(&client.post(LIST, json!({"limit": 1})).await),
            expected
        );
    }
    let busy = Fault::new(GET, Act::Errcode(-1)).chat("wr1");
    let id = client.sim.add_fault(busy).unwrap();
    let get = |id: &'static str| client.post(GET, json!({"chat_id": id}));
    assert_eq!(code(&get("wr1").await), -1);
    assert_eq!(code(&get("wr2").await), 0, "of another group");
    client.sim.remove_fault(&id);
    let patch = json!({"group_chat": {"owner": "mX", "member_list": null}});
    let patched = Fault::new(GET, Act::Patch(patch)).after().times(1);
    client.sim.add_fault(patched).unwrap();
    let answer = get("wr1").await;
    assert_eq!(answer["group_chat"]["owner"], "mX");
    assert!(answer["group_chat"].get("member_list").is_none());
    assert_eq!(answer["group_chat"]["chat_id"], "wr1");
    let lost = Fault::new(super::ADD, Act::Drop).after().times(1);
    client.sim.add_fault(lost).unwrap();
    let token = client.token().await;
    let answer = client
        .post_as(&token, "127.0.0.1", super::ADD, way(&["wr1"], 1))
        .await;
    answer.unwrap_err();
    let calls = client.sim.calls(&wecom_sim::CallFilter {
        api: Some(super::ADD.to_owned()),
        ..wecom_sim::CallFilter::default()
    });
    assert_eq!(calls.len(), 1);
    assert!(calls[0].effect && calls[0].reply_lost);
    let state = client.sim.state(None).unwrap();
    assert_eq!(state.corps[crate::harness::CORP].join_ways.len(), 1);
    let answer = client.get(GET, &[("chat_id", "wr1")]).await;
    assert_eq!(code(&answer), 40058, "GET on a POST path");
}
