//! Groups given to another owner (api.md 6.4).

use std::time::Duration;

use serde_json::{Value, json};
use wecom_sim::{Act, Fault, GroupRequest, InviteRequest, MemberConfig};

use super::{LIST, group, read, small};
use crate::harness::{CORP, Client, DAY, code, with_gateway};

const ONJOB: &str = "externalcontact/groupchat/onjob_transfer";
const RESIGNED: &str = "externalcontact/groupchat/transfer";

async fn moved(client: &Client, api: &str, chats: &[&str], to: &str) -> Vec<i64> {
    let body = json!({"chat_id_list": chats, "new_owner": to});
    let answer = client.post(api, body).await;
    assert_eq!(code(&answer), 0, "{answer}");
    let failed = answer["failed_chat_list"].as_array().unwrap();
    let code_of = |chat: &&str| {
        let row = failed.iter().find(|row| row["chat_id"] == **chat)?;
        assert!(!row["errmsg"].as_str().unwrap().is_empty());
        row["errcode"].as_i64()
    };
    let codes: Vec<i64> = chats
        .iter()
        .map(|chat| code_of(chat).unwrap_or(0))
        .collect();
    let refused = codes.iter().filter(|code| **code != 0).count();
    assert_eq!(failed.len(), refused, "only failures are listed");
    codes
}

async fn status(client: &Client, owner: &str, chat_id: &str) -> Option<i64> {
    let body = json!({"limit": 100, "owner_filter": {"userid_list": [owner]}});
    let answer = client.post(LIST, body).await;
    let rows = answer["group_chat_list"].as_array().unwrap();
    let row = rows.iter().find(|row| row["chat_id"] == chat_id)?;
    row["status"].as_i64()
}

fn leaves(client: &Client, member: &str) {
    let left = json!({"status": 5});
    client.sim.patch_member(None, member, &left).unwrap();
}

#[tokio::test]
async fn in_service_at_once_and_twice_in_90_days() {
    let client = Client::start(small()).await;
    group(&client, "wr1");
    let version = read(&client, "wr1").await["member_version"].clone();
    assert_eq!(moved(&client, ONJOB, &["wr1"], "mB").await, [0]);
    let shown = read(&client, "wr1").await;
    assert_eq!(shown["owner"], "mB");
    let ids = shown["member_list"].as_array().unwrap().len();
    assert!(
        ids == 2 && shown["member_version"] != version,
        "the new owner came into it"
    );
    assert_eq!(moved(&client, ONJOB, &["wr1"], "MB").await, [90504]);
    assert_eq!(moved(&client, ONJOB, &["wr1"], "mC").await, [0]);
    assert_eq!(moved(&client, ONJOB, &["wr1"], "mD").await, [40128]);
    client.sim.advance(DAY * 89).await;
    client.forget_tokens();
    assert_eq!(moved(&client, ONJOB, &["wr1"], "mD").await, [40128]);
    client.sim.advance(DAY).await;
    client.forget_tokens();
    assert_eq!(moved(&client, ONJOB, &["wr1"], "mD").await, [0]);
    let counters = &client.sim.counters().corps[CORP].groups;
    assert_eq!((counters.moves_accepted, counters.moves_ignored), (3, 0));
}

#[tokio::test]
async fn refusals() {
    let mut config = small();
    config.corps[0].apps[0].visible = ["mA", "mB", "mC", "mE", "inside", "unverified"]
        .map(str::to_owned)
        .into();
    config.corps[0].members.extend([
        MemberConfig {
            customer_contact: false,
            ..MemberConfig::new("inside")
        },
        MemberConfig {
            verified: false,
            ..MemberConfig::new("unverified")
        },
    ]);
    let client = Client::start(config).await;
    for (owner, chat_id, people) in [
        ("mA", "good", 0),
        ("mA", "gone", 0),
        ("mA", "full", 5),
        ("mC", "left", 0),
        ("mD", "unseen", 0),
        ("inside", "internal", 0),
    ] {
        let request = GroupRequest::new(owner).chat_id(chat_id).people(people);
        client.sim.make_groups(&request).unwrap();
    }
    client.sim.dismiss_group(None, "gone").unwrap();
    leaves(&client, "mC");
    let chats = [
        "good", "gone", "full", "left", "unseen", "internal", "unknown",
    ];
    assert_eq!(
        moved(&client, ONJOB, &chats, "mB").await,
        [0, 49008, 90503, 90502, 60011, 90501, 90501]
    );
    assert_eq!(
        moved(&client, RESIGNED, &chats, "mB").await,
        [90500, 49008, 90500, 0, 60011, 90501, 90501]
    );
    let many: Vec<String> = (0..101).map(|number| format!("wr{number}")).collect();
    let body = |chats: Value, to: &str| json!({"chat_id_list": chats, "new_owner": to});
    for (body, expected) in [
        (body(json!([]), "mB"), 40063),
        (body(json!(many), "mB"), 40058),
        (body(json!(["good"]), ""), 40003),
        (body(json!(["good"]), "nobody"), 60111),
        (body(json!(["good"]), "mC"), 60111),
        (body(json!(["good"]), "mD"), 60011),
        (body(json!(["good"]), "inside"), 84083),
        (body(json!(["good"]), "unverified"), 40098),
    ] {
        for api in [ONJOB, RESIGNED] {
            let answer = client.post(api, body.clone()).await;
            assert_eq!(code(&answer), expected, "{body}");
            assert_eq!(answer["failed_chat_list"], json!([]));
        }
    }
}

/// 1 owner left, 2 being inherited, 3 inherited; the owner who left is out of it then.
#[tokio::test]
async fn of_an_owner_who_left_after_a_while() {
    let client = Client::start(small()).await;
    group(&client, "wr1");
    client.sim.invite(&InviteRequest::new("wr1")).unwrap();
    assert_eq!(status(&client, "mA", "wr1").await, Some(0));
    leaves(&client, "mA");
    assert_eq!(status(&client, "mA", "wr1").await, Some(1));
    assert_eq!(moved(&client, RESIGNED, &["wr1"], "mB").await, [0]);
    assert_eq!(status(&client, "mA", "wr1").await, Some(2));
    assert_eq!(moved(&client, RESIGNED, &["wr1"], "mB").await, [90507]);
    assert_eq!(moved(&client, ONJOB, &["wr1"], "mB").await, [90507]);
    client.sim.advance(Duration::from_millis(59_999)).await;
    assert_eq!(read(&client, "wr1").await["owner"], "mA");
    client.sim.advance(Duration::from_millis(1)).await;
    assert_eq!(status(&client, "mB", "wr1").await, Some(3));
    assert_eq!(moved(&client, RESIGNED, &["wr1"], "mB").await, [90508]);
    let shown = read(&client, "wr1").await;
    let rows = shown["member_list"].as_array().unwrap();
    let ids: Vec<_> = rows.iter().map(|row| row["type"].as_i64()).collect();
    assert_eq!(
        (ids, &shown["owner"]),
        (vec![Some(2), Some(1)], &json!("mB"))
    );
    // Twice in 90 days is no rule here, and he too may leave.
    for (from, to) in [("mB", "mC"), ("mC", "mD"), ("mD", "mE")] {
        leaves(&client, from);
        assert_eq!(moved(&client, RESIGNED, &["wr1"], to).await, [0]);
        client.sim.advance(Duration::from_secs(60)).await;
    }
    assert_eq!(read(&client, "wr1").await["owner"], "mE");
}

/// A year after he left it is too late.
#[tokio::test]
async fn an_owner_who_left_long_ago() {
    let client = Client::start(small()).await;
    group(&client, "wr1");
    leaves(&client, "mA");
    client.sim.advance(DAY * 366).await;
    client.forget_tokens();
    assert_eq!(moved(&client, RESIGNED, &["wr1"], "mB").await, [40205]);
}

#[tokio::test]
async fn so_many_of_one_person_a_day() {
    let mut config = small();
    config.groups.moves_per_day = 3;
    config.groups.moves_per_day_code = 45_035;
    let client = Client::start(config).await;
    let made = client
        .sim
        .make_groups(&GroupRequest::new("mA").count(5))
        .unwrap();
    let ids: Vec<&str> = made.chat_ids.iter().map(String::as_str).collect();
    assert_eq!(
        moved(&client, ONJOB, &ids, "mB").await,
        [0, 0, 0, 45035, 45035]
    );
    assert_eq!(
        moved(&client, ONJOB, &ids[..1], "mC").await,
        [0],
        "another person's now"
    );
    client.sim.advance(DAY).await;
    client.forget_tokens();
    assert_eq!(moved(&client, ONJOB, &ids[3..], "mB").await, [0, 0]);
}

/// "Accepted" and nothing happens: only reading the owner tells.
#[tokio::test]
async fn accepted_but_unchanged() {
    let mut config = small();
    config.groups.move_ignored_rate = 1.0;
    let client = Client::start(config).await;
    group(&client, "wr1");
    assert_eq!(moved(&client, ONJOB, &["wr1"], "mB").await, [0]);
    assert_eq!(read(&client, "wr1").await["owner"], "mA");
    leaves(&client, "mA");
    assert_eq!(moved(&client, RESIGNED, &["wr1"], "mB").await, [0]);
    client.sim.advance(DAY).await;
    client.forget_tokens();
    assert_eq!(read(&client, "wr1").await["owner"], "mA");
    let counters = &client.sim.counters().corps[CORP].groups;
    assert_eq!((counters.moves_accepted, counters.moves_ignored), (2, 2));
}

/// Unverified at WeCom, so it can be played: the change of owner raises an event after all.
#[tokio::test]
async fn with_an_event() {
    let mut config = small();
    config.groups.move_events = true;
    let (client, gateway) = with_gateway(config).await;
    group(&client, "wr1");
    client.sim.idle().await;
    assert_eq!(moved(&client, ONJOB, &["wr1"], "mB").await, [0]);
    client.sim.idle().await;
    let received = gateway.received();
    assert_eq!(received.len(), 2);
    assert_eq!(received[1].field("UpdateDetail"), Some("change_owner"));
}

/// A scripted code belongs to one group, not to the call.
#[tokio::test]
async fn a_scripted_failure_of_one_group() {
    let client = Client::start(small()).await;
    group(&client, "wr1");
    group(&client, "wr2");
    let fault = Fault::new(ONJOB, Act::Errcode(90503)).chat("wr2").times(1);
    client.sim.add_fault(fault).unwrap();
    assert_eq!(
        moved(&client, ONJOB, &["wr1", "wr2"], "mB").await,
        [0, 90503]
    );
    assert_eq!(read(&client, "wr2").await["owner"], "mA");
    assert_eq!(moved(&client, ONJOB, &["wr2"], "mB").await, [0]);
    let fault = Fault::new("*", Act::Errcode(-1)).taker("mC");
    client.sim.add_fault(fault).unwrap();
    let body = json!({"chat_id_list": ["wr1"], "new_owner": "mC"});
    assert_eq!(code(&client.post(ONJOB, body).await), -1);
}
