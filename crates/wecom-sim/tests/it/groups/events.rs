//! `change_external_chat` (callbacks.md 4.2), opened and read by the library.

use serde_json::json;
use wecom::event::{Body, ChatChange, ChatUpdate, Event, UpdateDetail};
use wecom_sim::{
    AppConfig, Config, GroupChange, GroupPerson, GroupRequest, InviteRequest, JoinRequest,
    LeaveRequest, MemberConfig,
};

use super::{group, made, read, scan, small, way};
use crate::harness::{Client, DAY, Gateway, HOUR, callback, with_gateway};

/// One connection, so that what is sent in order comes in order.
fn orderly() -> Config {
    let mut config = small();
    config.callbacks.connections = 1;
    config
}

fn person(name: &str) -> GroupPerson {
    GroupPerson::new(name)
}

async fn events(client: &Client, gateway: &Gateway) -> Vec<(String, ChatChange)> {
    client.sim.idle().await;
    let received = gateway.received();
    let chats = received.iter().map(|one| {
        assert_eq!(one.envelope_agent_id, None, "as captured ones");
        let event = Event::parse(&one.plaintext).unwrap();
        assert_eq!(event.from_user.as_deref(), Some("sys"));
        let Body::ExternalChat(chat) = event.body else {
            panic!("{event:?}")
        };
        (chat.chat_id, chat.change)
    });
    chats.collect()
}

fn update(change: &ChatChange) -> &ChatUpdate {
    match change {
        ChatChange::Update(update) => update,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_people_do_is_told() {
    let (client, gateway) = with_gateway(orderly()).await;
    group(&client, "wr1");
    let first = read(&client, "wr1").await;
    let id = made(&client, way(&["wr1"], 0)).await;
    client
        .sim
        .join(&JoinRequest::way(&id).person(person("wm1")))
        .unwrap();
    let invite = InviteRequest {
        chat_id: "wr1".to_owned(),
        members: vec!["mB".to_owned()],
        ..InviteRequest::default().person(person("wm2"))
    };
    client.sim.invite(&invite).unwrap();
    let leave = LeaveRequest::new("wr1", "wm1");
    client.sim.leave(&leave).unwrap();
    client.sim.leave(&leave).unwrap_err();
    let removed = LeaveRequest {
        removed: true,
        count: 5,
        ..LeaveRequest::new("wr1", "mB")
    };
    assert_eq!(client.sim.leave(&removed).unwrap().left.len(), 2);
    let change = GroupChange {
        name: Some("n".to_owned()),
        owner: Some("mC".to_owned()),
        notice: Some("hi".to_owned()),
        ..GroupChange::default()
    };
    client.sim.change_group("wr1", &change).unwrap();
    let last = read(&client, "wr1").await;
    client.sim.dismiss_group(None, "wr1").unwrap();

    let events = events(&client, &gateway).await;
    assert!(events.iter().all(|(chat_id, _)| chat_id == "wr1"));
    let changes: Vec<_> = events.into_iter().map(|(_, change)| change).collect();
    assert_eq!(
        (&changes[0], &changes[9]),
        (&ChatChange::Create, &ChatChange::Dismiss)
    );
    assert_eq!(changes.len(), 10);
    // A reader who applies every change to the version before it has the whole list in the end.
    let mut version = first["member_version"].as_str().unwrap().to_owned();
    let mut list = vec!["mA".to_owned()];
    let mut scenes = Vec::new();
    let mut details = Vec::new();
    for change in &changes[1..9] {
        let update = update(change);
        if let Some(diff) = update.diff_after(&version) {
            list.retain(|id| !diff.members.contains(id));
            if diff.joined {
                list.extend(diff.members.iter().cloned());
            }
            version = diff.version.to_owned();
            scenes.push((update.join_scene, update.quit_scene, diff.members.len()));
        } else {
            assert_eq!(
                (&update.members, &update.current_member_version),
                (&vec![], &None)
            );
            details.push(update.detail.clone().unwrap());
        }
    }
    assert_eq!(
        scenes,
        [
            (Some(3), None, 1),
            (Some(0), None, 2),
            (None, Some(0), 1),
            (None, Some(1), 2),
            (Some(0), None, 1)
        ],
        "scanned, brought, left, removed, and the new owner came"
    );
    assert_eq!(
        details,
        [
            UpdateDetail::ChangeName,
            UpdateDetail::ChangeOwner,
            UpdateDetail::ChangeNotice
        ]
    );
    assert_eq!(list, ["mA", "mC"]);
    assert_eq!(last["member_version"], json!(version));
    let ids: Vec<_> = last["member_list"].as_array().unwrap().iter().collect();
    assert!(ids.iter().map(|member| &member["userid"]).eq(&list));
}

#[tokio::test]
async fn a_room_is_created_and_then_filled() {
    let (client, gateway) = with_gateway(orderly()).await;
    group(&client, "wr1");
    let id = made(&client, way(&["wr1"], 1)).await;
    let reply = scan(&client, &id, 4);
    let room = reply.joins[3].chat_id.clone().unwrap();
    let events = events(&client, &gateway).await;
    assert_eq!(events.len(), 1 + 3 + 2);
    assert_eq!(events[4], (room.clone(), ChatChange::Create));
    assert_eq!(events[5].0, room);
    let joined = update(&events[5].1);
    assert_eq!(joined.members, [reply.joins[3].customer.as_str()]);
    assert_eq!(joined.join_scene, Some(3));
}

/// Who comes by a link comes alone; who leaves all groups leaves each.
#[tokio::test]
async fn one_by_one() {
    let (client, gateway) = with_gateway(orderly()).await;
    group(&client, "wr1");
    group(&client, "wr2");
    for chat_id in ["wr1", "wr2"] {
        let invite = InviteRequest {
            link: true,
            ..InviteRequest::new(chat_id).person(person("wm1"))
        };
        client.sim.invite(&invite).unwrap();
    }
    let leave = LeaveRequest {
        people: vec!["wm1".to_owned()],
        ..LeaveRequest::default()
    };
    let reply = client.sim.leave(&leave).unwrap();
    let pair = |chat: &str| ("wm1".to_owned(), chat.to_owned());
    assert_eq!(reply.left, [pair("wr1"), pair("wr2")]);
    assert!(client.sim.leave(&leave).unwrap().left.is_empty());
    let events = events(&client, &gateway).await;
    let counts: Vec<_> = events[2..]
        .iter()
        .map(|(_, change)| update(change).member_change_count)
        .collect();
    assert_eq!(counts, [Some(1); 6]);
}

/// What an API does is silent, and so is what the app may not see.
#[tokio::test]
async fn what_is_not_told() {
    let mut config = orderly();
    config.corps[0].members.push(MemberConfig {
        customer_contact: false,
        ..MemberConfig::new("inside")
    });
    let gateway = Gateway::start().await;
    config.corps[0].apps[0].callback = Some(callback(std::slice::from_ref(&gateway.url)));
    config.corps[0].apps[0].visible = ["mA", "mB", "inside"].map(str::to_owned).into();
    config.corps[0].apps.push(AppConfig {
        agent_id: 1_000_003,
        secret: "deaf".into(),
        ..AppConfig::default()
    });
    let client = Client::start(config).await;
    for (owner, chat_id) in [("mC", "wr1"), ("inside", "wr2"), ("mA", "wr3")] {
        let request = GroupRequest::new(owner).chat_id(chat_id).people(2);
        client.sim.make_groups(&request).unwrap();
        client.sim.invite(&InviteRequest::new(chat_id)).unwrap();
    }
    let moved = json!({"chat_id_list": ["wr3"], "new_owner": "mB"});
    let api = "externalcontact/groupchat/onjob_transfer";
    assert_eq!(client.post(api, moved).await["failed_chat_list"], json!([]));
    client.sim.advance(HOUR).await;
    let told = events(&client, &gateway).await;
    let ids: Vec<_> = told.iter().map(|(chat_id, _)| chat_id.as_str()).collect();
    assert_eq!(ids, ["wr3", "wr3"], "create and one who was brought");
    assert_eq!(read(&client, "wr3").await["owner"], "mB");
}

/// Events of groups are lost, doubled and late like all others.
#[tokio::test]
async fn unreliable_like_all_events() {
    let mut config = small();
    config.groups.hard_cap = 1_000;
    config.callbacks.loss_rate = 0.2;
    config.callbacks.duplicate_rate = 0.2;
    config.callbacks.reorder_rate = 0.2;
    let (client, gateway) = with_gateway(config).await;
    group(&client, "wr1");
    for _ in 0..300 {
        client.sim.invite(&InviteRequest::new("wr1")).unwrap();
    }
    let counters = client.sim.counters().callbacks;
    assert_eq!(counters.events, 301);
    assert!((20..120).contains(&counters.lost), "{counters:?}");
    assert!((20..120).contains(&counters.duplicated), "{counters:?}");
    client.sim.advance(DAY).await;
    let told = events(&client, &gateway).await;
    assert_eq!(told.len() as u64, 301 - counters.lost + counters.duplicated);
    let versions: Vec<_> = told
        .iter()
        .filter_map(|(_, change)| match change {
            ChatChange::Update(update) => update.last_member_version.clone(),
            _ => None,
        })
        .collect();
    let distinct: std::collections::HashSet<_> = versions.iter().collect();
    assert!(distinct.len() < versions.len(), "doubled ones say the same");
}
