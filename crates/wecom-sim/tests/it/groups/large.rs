//! As many people as a proof drives through it: nothing is lost, doubled or over a cap, by whatever way.

use std::collections::{HashMap, HashSet};

use serde_json::json;
use wecom_sim::{GroupPerson, GroupRequest, JoinRequest};

use super::{made, read, way};
use crate::harness::{CORP, Client, config};

/// 50 batches of 1,000 by HTTP, four of them at a time, into one way that opens its rooms.
#[tokio::test]
async fn fifty_thousand_people_through_one_way() {
    let mut config = config();
    config.groups.read_lag_ms = 0;
    let client = Client::start(config).await;
    let request = GroupRequest::new("mA").chat_id("wr1");
    client.sim.make_groups(&request).unwrap();
    let id = made(&client, way(&["wr1"], 1)).await;
    let batch = |batch: usize| {
        let people: Vec<_> = (0..1_000)
            .map(|number| json!({"customer": format!("wm{batch}.{number}"), "unionid": format!("o{batch}.{number}")}))
            .collect();
        let body = json!({"config_id": id, "people": people, "quiet": true});
        let client = &client;
        async move {
            let (status, reply) = client.admin("POST", "/sim/groups/scan", body).await;
            assert_eq!(
                (status, &reply["outcomes"]),
                (200, &json!({"joined": 1_000}))
            );
        }
    };
    for four in 0..13 {
        let batches = (four * 4..(four * 4 + 4).min(50)).map(batch);
        futures_util::future::join_all(batches).await;
    }
    let groups = client.sim.groups(None).unwrap();
    let outside: usize = groups.iter().map(|group| group.outside).sum();
    assert_eq!(outside, 50_000);
    assert_eq!(groups.len(), 50_000_usize.div_ceil(199));
    let full = groups.iter().filter(|group| group.size == 200).count();
    assert_eq!(full, groups.len() - 1);
    let counters = &client.sim.counters().corps[CORP].groups;
    assert_eq!((counters.largest, counters.people), (200, 50_000));
    assert_eq!(counters.rooms_opened as usize, groups.len() - 1);
    let names: HashSet<_> = groups.iter().map(|group| &group.name).collect();
    assert_eq!(names.len(), groups.len(), "no number twice");
    let shown = read(&client, &groups[100].chat_id).await;
    assert_eq!(shown["member_list"].as_array().unwrap().len(), 200);
    let again = JoinRequest::way(&id).person(GroupPerson::new("wm49.999"));
    let again = client.sim.join(&again).unwrap();
    assert_eq!(again.outcomes.len(), 1);
    assert_eq!(
        again.joins[0].outcome,
        wecom_sim::JoinOutcome::AlreadyMember
    );
}

/// Several ways lead into the same groups, and people come by all of them at once: no cap is passed, nobody has two
/// places in a group, and what people are told is what the groups say.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ways_that_share_groups_at_once() {
    let mut config = config();
    config.groups.read_lag_ms = 0;
    config.groups.scan_cap = 50;
    let client = Client::start(config).await;
    let request = GroupRequest::new("mA").count(5);
    let groups = client.sim.make_groups(&request).unwrap().chat_ids;
    let chats: Vec<&str> = groups.iter().map(String::as_str).collect();
    let backwards: Vec<&str> = chats.iter().rev().copied().collect();
    let mut ways = Vec::new();
    for chats in [&chats, &backwards] {
        ways.push(made(&client, way(chats, 0)).await);
        ways.push(made(&client, way(&chats[1..4], 0)).await);
    }
    let sim = &client.sim;
    let told: Vec<_> = std::thread::scope(|scope| {
        let scans = ways.iter().map(|way| {
            scope.spawn(move || {
                let people = (0..120).map(|number| GroupPerson::new(format!("wm{number}")));
                let request = JoinRequest {
                    people: people.collect(),
                    ..JoinRequest::way(way)
                };
                sim.join(&request).unwrap().joins
            })
        });
        let scans: Vec<_> = scans.collect();
        let told = scans.into_iter().flat_map(|scan| scan.join().unwrap());
        told.collect()
    });
    let mut places: HashMap<String, HashSet<String>> = HashMap::new();
    for join in told {
        if let Some(chat_id) = join.chat_id {
            places.entry(chat_id).or_default().insert(join.customer);
        }
    }
    for chat_id in &groups {
        let group = client.sim.group(None, chat_id).unwrap();
        assert!(group.size <= 50, "{}", group.size);
        let people = group.members.iter().filter(|member| !member.employee);
        let ids: Vec<_> = people.map(|member| member.id.clone()).collect();
        let distinct: HashSet<_> = ids.iter().cloned().collect();
        assert_eq!(distinct.len(), ids.len());
        assert_eq!(distinct, places.remove(chat_id).unwrap_or_default());
    }
    let joined = client.sim.counters().corps[CORP].groups.scanned_in;
    assert_eq!(client.sim.counters().corps[CORP].groups.people, joined);
}
