//! Scanning a join way: where people go, and the rooms that are opened when all is full.

use std::time::Duration;

use serde_json::json;
use wecom_sim::JoinOutcome::{AlreadyMember, Full, Joined, Waiting};
use wecom_sim::{
    GroupPerson, GroupRequest, InviteRequest, JoinOutcome, JoinReply, JoinRequest, LeaveRequest,
};

use super::{group, made, outcomes, read, scan, small, way, way_of};
use crate::harness::{CORP, Client};

fn person(client: &Client, config_id: &str, customer: &str) -> (JoinOutcome, Option<String>) {
    let request = JoinRequest::way(config_id).person(GroupPerson::new(customer));
    let join = client.sim.join(&request).unwrap().joins.remove(0);
    assert_eq!(join.customer, customer);
    (join.outcome, join.chat_id)
}

fn chats(reply: &JoinReply) -> Vec<&str> {
    let joins = reply.joins.iter();
    joins
        .map(|join| join.chat_id.as_deref().unwrap_or("-"))
        .collect()
}

/// The owner takes a place; the first group with room takes whoever comes.
#[tokio::test]
async fn the_first_group_with_room_is_filled() {
    let client = Client::start(small()).await;
    group(&client, "wr1");
    group(&client, "wr2");
    let id = made(&client, way(&["wr2", "wr1"], 0)).await;
    let reply = scan(&client, &id, 8);
    assert_eq!(
        chats(&reply),
        ["wr2", "wr2", "wr2", "wr1", "wr1", "wr1", "-", "-"]
    );
    assert_eq!(outcomes(&reply), [(Joined, 6), (Full, 2)]);
    let leave = LeaveRequest::new("wr2", &reply.joins[0].customer);
    client.sim.leave(&leave).unwrap();
    assert_eq!(
        person(&client, &id, "wmNew"),
        (Joined, Some("wr2".to_owned()))
    );
    assert_eq!(
        person(&client, &id, "wmNew"),
        (AlreadyMember, Some("wr2".to_owned()))
    );
    let first = &reply.joins[0].customer;
    assert_eq!(person(&client, &id, first), (Full, None));
    let counters = &client.sim.counters().corps[CORP].groups;
    assert_eq!(
        (counters.scanned_in, counters.refused_full, counters.left),
        (7, 3, 1)
    );
    assert_eq!((counters.people, counters.largest), (6, 4));
    assert_eq!((counters.rooms_opened, counters.join_ways), (0, 1));
}

/// base_name + base_id, then one more each; in the name of the owner of the last group; in the list while it has room.
#[tokio::test]
async fn rooms_are_opened_and_listed() {
    let client = Client::start(small()).await;
    group(&client, "wr1");
    let request = GroupRequest::new("mB").chat_id("wr2").people(3);
    client.sim.make_groups(&request).unwrap();
    let id = made(&client, way(&["wr1", "wr2"], 1)).await;
    let reply = scan(&client, &id, 3 + 4 * 3);
    assert_eq!(outcomes(&reply), [(Joined, 15)]);
    let groups = client.sim.groups(None).unwrap();
    let rooms: Vec<_> = groups
        .iter()
        .filter(|group| group.opened_by.as_deref() == Some(&id))
        .collect();
    let names: Vec<_> = rooms.iter().map(|room| room.name.as_str()).collect();
    assert_eq!(names, ["VIP7", "VIP8", "VIP9", "VIP10"]);
    assert!(
        rooms
            .iter()
            .all(|room| room.owner == "mB" && room.size == 4)
    );
    let shown = way_of(&client, &id).await;
    let listed = shown["chat_id_list"].as_array().unwrap();
    let expected = ["wr1", "wr2"]
        .into_iter()
        .chain(rooms[..3].iter().map(|room| room.chat_id.as_str()));
    assert!(listed.iter().eq(expected), "{listed:?}");
    assert_eq!(shown["room_base_id"], 7);
    // The last room is not in the list, and nobody who is in it is sent on.
    let last = &reply.joins[14];
    assert_eq!(
        person(&client, &id, &last.customer),
        (AlreadyMember, last.chat_id.clone())
    );
    assert_eq!(read(&client, &rooms[3].chat_id).await["name"], "VIP10");
    assert_eq!(client.sim.counters().corps[CORP].groups.rooms_opened, 4);
}

/// The list is what the caller wrote, when WeCom keeps its rooms to itself; an update forgets them.
#[tokio::test]
async fn rooms_that_are_not_listed() {
    let mut config = small();
    config.groups.room_listed = false;
    let client = Client::start(config).await;
    group(&client, "wr1");
    let id = made(&client, way(&["wr1"], 1)).await;
    let reply = scan(&client, &id, 5);
    assert_eq!(outcomes(&reply), [(Joined, 5)]);
    assert_eq!(way_of(&client, &id).await["chat_id_list"], json!(["wr1"]));
    let room = reply.joins[4].chat_id.clone().unwrap();
    assert_ne!(room, "wr1");
    let mut body = way(&["wr1"], 0);
    body["config_id"] = json!(id);
    client
        .post("externalcontact/groupchat/update_join_way", body.clone())
        .await;
    assert_eq!(
        outcomes(&scan(&client, &id, 1)),
        [(Full, 1)],
        "the room is not its own now"
    );
    body["auto_create_room"] = json!(1);
    client
        .post("externalcontact/groupchat/update_join_way", body)
        .await;
    scan(&client, &id, 1);
    let groups = client.sim.groups(None).unwrap();
    assert_eq!(
        groups[2].name, "VIP8",
        "numbers go on while the name is the same"
    );
}

/// Without somebody who can have it there is no room.
#[tokio::test]
async fn no_room_without_an_owner() {
    let client = Client::start(small()).await;
    group(&client, "wr1");
    let id = made(&client, way(&["wr1"], 1)).await;
    scan(&client, &id, 3);
    let left = json!({"status": 5});
    client.sim.patch_member(None, "mA", &left).unwrap();
    assert_eq!(outcomes(&scan(&client, &id, 2)), [(Full, 2)]);
    let back = json!({"status": 1});
    client.sim.patch_member(None, "mA", &back).unwrap();
    client.sim.dismiss_group(None, "wr1").unwrap();
    assert_eq!(
        outcomes(&scan(&client, &id, 1)),
        [(Joined, 1)],
        "a dismissed group takes nobody, a new room does"
    );
}

/// A room takes its time; whoever scans meanwhile waits for it, as many as fit.
#[tokio::test]
async fn a_room_that_takes_its_time() {
    let mut config = small();
    config.groups.room_delay_ms = 5_000;
    let client = Client::start(config).await;
    group(&client, "wr1");
    let id = made(&client, way(&["wr1"], 1)).await;
    let first = scan(&client, &id, 8);
    assert_eq!(outcomes(&first), [(Joined, 3), (Waiting, 5)]);
    let waiting = &first.joins[3].customer;
    assert_eq!(person(&client, &id, waiting), (Waiting, None), "still");
    // A place comes free, and one of those who wait scans again.
    client
        .sim
        .leave(&LeaveRequest::new("wr1", &first.joins[0].customer))
        .unwrap();
    let again = &first.joins[7].customer;
    assert_eq!(
        person(&client, &id, again),
        (Joined, Some("wr1".to_owned()))
    );
    let last = &first.joins[6].customer;
    client.sim.advance(Duration::from_millis(4_999)).await;
    assert_eq!(client.sim.groups(None).unwrap().len(), 1);
    client.sim.advance(Duration::from_millis(1)).await;
    let groups = client.sim.groups(None).unwrap();
    assert_eq!((groups.len(), groups[1].size), (2, 4));
    client.sim.advance(Duration::from_secs(5)).await;
    let groups = client.sim.groups(None).unwrap();
    assert_eq!(
        (groups.len(), groups[2].size),
        (3, 2),
        "the fourth waited for another"
    );
    let counters = &client.sim.counters().corps[CORP].groups;
    assert_eq!((counters.scanned_in, counters.refused_full), (8, 0));
    assert_eq!(
        client.sim.customer(None, last).unwrap().groups,
        [groups[2].chat_id.as_str()]
    );
}

/// The way is deleted while people wait: nothing comes of it.
#[tokio::test]
async fn a_deleted_way_opens_nothing() {
    let mut config = small();
    config.groups.room_delay_ms = 5_000;
    let client = Client::start(config).await;
    group(&client, "wr1");
    let id = made(&client, way(&["wr1"], 1)).await;
    scan(&client, &id, 4);
    let body = json!({"config_id": id});
    client
        .post("externalcontact/groupchat/del_join_way", body)
        .await;
    client.sim.advance(Duration::from_secs(10)).await;
    assert_eq!(client.sim.groups(None).unwrap().len(), 1);
}

/// Past the way there is room up to the hard cap; a scan finds the group full then.
#[tokio::test]
async fn invitations_go_up_to_the_hard_cap() {
    let client = Client::start(small()).await;
    group(&client, "wr1");
    let id = made(&client, way(&["wr1"], 0)).await;
    scan(&client, &id, 3);
    let reply = client
        .sim
        .invite(&InviteRequest::new("wr1").count(4))
        .unwrap();
    assert_eq!(outcomes(&reply), [(Joined, 2), (Full, 2)]);
    assert_eq!(chats(&reply), ["wr1", "wr1", "-", "-"]);
    let inside = InviteRequest::default().person(GroupPerson::new(&reply.joins[0].customer));
    let inside = InviteRequest {
        chat_id: "wr1".to_owned(),
        ..inside
    };
    assert_eq!(
        outcomes(&client.sim.invite(&inside).unwrap()),
        [(AlreadyMember, 1)]
    );
    assert_eq!(outcomes(&scan(&client, &id, 1)), [(Full, 1)]);
    let group = client.sim.group(None, "wr1").unwrap();
    assert_eq!((group.size, group.outside), (6, 5));
    assert_eq!(client.sim.counters().corps[CORP].groups.invited, 2);
}

/// A surge spread over simulated time, by HTTP.
#[tokio::test]
async fn scans_over_time() {
    let mut config = small();
    config.groups.scan_cap = 200;
    config.groups.hard_cap = 500;
    let client = Client::start(config).await;
    group(&client, "wr1");
    let id = made(&client, way(&["wr1"], 0)).await;
    let body = json!({"config_id": id, "count": 100, "over_ms": 10_000, "quiet": true});
    let (status, reply) = client.admin("POST", "/sim/groups/scan", body).await;
    assert_eq!((status, &reply["scheduled"]), (200, &json!(100)));
    client.sim.advance(Duration::from_millis(4_999)).await;
    assert_eq!(client.sim.group(None, "wr1").unwrap().outside, 50);
    client.sim.advance(Duration::from_secs(10)).await;
    assert_eq!(client.sim.group(None, "wr1").unwrap().outside, 100);
}
