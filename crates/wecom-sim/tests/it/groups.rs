//! Customer groups and join ways (api.md 6, 7, 14.7).

mod events;
mod large;
mod library;
mod people;
mod read;
mod rooms;
mod transfer;
mod way;

use serde_json::{Value, json};
use wecom_sim::{Config, GroupRequest, JoinOutcome, JoinReply, JoinRequest};

use crate::harness::{Client, code, config};

pub(crate) const ADD: &str = "externalcontact/groupchat/add_join_way";
pub(crate) const GET_WAY: &str = "externalcontact/groupchat/get_join_way";
pub(crate) const LIST: &str = "externalcontact/groupchat/list";
pub(crate) const GET: &str = "externalcontact/groupchat/get";

/// Groups of at most 4 by scanning and 6 at all, shown as they are.
pub(crate) fn small() -> Config {
    let mut config = config();
    config.groups.scan_cap = 4;
    config.groups.hard_cap = 6;
    config.groups.read_lag_ms = 0;
    config
}

/// A group of mA with this id.
pub(crate) fn group(client: &Client, chat_id: &str) {
    let request = GroupRequest::new("mA").chat_id(chat_id);
    client.sim.make_groups(&request).unwrap();
}

pub(crate) fn way(chats: &[&str], auto_create_room: i64) -> Value {
    json!({"scene": 2, "remark": "spring", "auto_create_room": auto_create_room, "room_base_name": "VIP",
        "room_base_id": 7, "chat_id_list": chats, "state": "ch_001"})
}

/// A join way; its id.
pub(crate) async fn made(client: &Client, body: Value) -> String {
    let made = client.post(ADD, body).await;
    assert_eq!(code(&made), 0, "{made}");
    assert!(made.get("qr_code").is_none(), "add answers the id only");
    made["config_id"].as_str().unwrap().to_owned()
}

pub(crate) async fn way_of(client: &Client, config_id: &str) -> Value {
    let answer = client.post(GET_WAY, json!({"config_id": config_id})).await;
    assert_eq!(code(&answer), 0, "{answer}");
    answer["join_way"].clone()
}

pub(crate) async fn read(client: &Client, chat_id: &str) -> Value {
    let answer = client
        .post(GET, json!({"chat_id": chat_id, "need_name": 1}))
        .await;
    assert_eq!(code(&answer), 0, "{answer}");
    answer["group_chat"].clone()
}

pub(crate) fn scan(client: &Client, config_id: &str, count: u32) -> JoinReply {
    let request = JoinRequest::way(config_id).count(count);
    client.sim.join(&request).unwrap()
}

pub(crate) fn outcomes(reply: &JoinReply) -> Vec<(JoinOutcome, u64)> {
    reply
        .outcomes
        .iter()
        .map(|(outcome, count)| (*outcome, *count))
        .collect()
}
