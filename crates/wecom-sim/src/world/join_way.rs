//! A join way (「加入群聊」).

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Map, Value, json};

/// Somebody who scans or is brought: what a test says of him.
#[derive(Debug, Clone)]
pub(crate) struct Newcomer {
    pub(crate) id: Arc<str>,
    pub(crate) name: Option<String>,
    pub(crate) unionid: Option<String>,
}

#[derive(Debug)]
pub(crate) struct JoinWay {
    pub(crate) config_id: Arc<str>,
    /// Its place in dumps.
    pub(crate) rank: u64,
    /// Only the app that made it sees it.
    pub(crate) agent_id: u32,
    pub(crate) plan: JoinPlan,
    /// Rooms that it opened and that are not in its list.
    pub(crate) rooms: Vec<Arc<str>>,
    /// The number of the next room.
    pub(crate) next_room: i64,
    /// Who wait for the room that is on its way.
    pub(crate) waiting: VecDeque<Newcomer>,
    /// A room is on its way.
    pub(crate) opening: bool,
}

/// What add and update say of a way, as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JoinPlan {
    /// 1 mini program, 2 QR code.
    pub(crate) scene: i64,
    pub(crate) remark: String,
    pub(crate) auto_create_room: bool,
    pub(crate) room_base_name: String,
    pub(crate) room_base_id: i64,
    pub(crate) chat_ids: Vec<Arc<str>>,
    pub(crate) state: String,
    pub(crate) mark_source: bool,
}

impl JoinWay {
    pub(crate) fn new(config_id: Arc<str>, rank: u64, agent_id: u32, plan: JoinPlan) -> Self {
        Self {
            config_id,
            rank,
            agent_id,
            next_room: plan.room_base_id,
            plan,
            rooms: Vec::new(),
            waiting: VecDeque::new(),
            opening: false,
        }
    }

    /// Overwrites it. Rooms outside the new list are no longer its own, and only a new name or first number
    /// starts the numbers again.
    pub(crate) fn replace(&mut self, plan: JoinPlan) {
        let named = |plan: &JoinPlan| (plan.room_base_name.clone(), plan.room_base_id);
        if named(&plan) != named(&self.plan) {
            self.next_room = plan.room_base_id;
        }
        self.plan = plan;
        self.rooms.clear();
    }

    /// The groups it leads to, in the order in which they are filled.
    pub(crate) fn chats(&self) -> impl Iterator<Item = &Arc<str>> {
        self.plan.chat_ids.iter().chain(&self.rooms)
    }

    /// A room that it has opened: in its list while that has room.
    pub(crate) fn add_room(&mut self, chat_id: Arc<str>, listed: bool, most: usize) {
        self.next_room = self.next_room.saturating_add(1);
        // In the order of filling a listed room would overtake those that are not.
        if listed && self.rooms.is_empty() && (most == 0 || self.plan.chat_ids.len() < most) {
            self.plan.chat_ids.push(chat_id);
        } else {
            self.rooms.push(chat_id);
        }
    }

    /// Where its picture is, for a caller who reaches the simulator as `host`.
    fn qr_code(&self, host: &str) -> Option<String> {
        (self.plan.scene == 2).then(|| format!("http://{host}/wwqr/{}.png", self.config_id))
    }

    /// As get_join_way shows it; without a caller no picture.
    pub(crate) fn shown(&self, host: Option<&str>) -> Value {
        let plan = &self.plan;
        let mut shown = Map::new();
        let mut put = |key: &str, value: Value| shown.insert(key.to_owned(), value);
        put("config_id", json!(&*self.config_id));
        put("scene", json!(plan.scene));
        put("remark", json!(plan.remark));
        put("auto_create_room", json!(i64::from(plan.auto_create_room)));
        put("room_base_name", json!(plan.room_base_name));
        put("room_base_id", json!(plan.room_base_id));
        let chats = plan.chat_ids.iter();
        put("chat_id_list", chats.map(|id| Value::from(&**id)).collect());
        put("state", json!(plan.state));
        put("mark_source", json!(plan.mark_source));
        if let Some(qr_code) = host.and_then(|host| self.qr_code(host)) {
            put("qr_code", json!(qr_code));
        }
        Value::Object(shown)
    }
}
