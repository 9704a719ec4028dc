//! Join ways (「加入群聊」): codes that lead into groups (page 92229).
//!
//! Making one is not idempotent, spends quota that contact ways share, and answers with its id only; there is
//! no list of them. After an unknown outcome the way is lost unless somebody who came by it shows its `state`.
//!
//! With `auto_create_room` WeCom opens a room when the groups are full: at how many members, in whose name and
//! whether it enters `chat_id_list` is not documented. Events of new groups and [`Client::get_join_way`] tell.

use serde::{Deserialize, Serialize};

use super::contact_way::WayScene;
use super::limits::{Check, blank};
use super::{Client, api, lenient};
use crate::Error;

/// WeCom takes at most this many groups in one way (41091).
pub const JOIN_WAY_CHATS_MAX: usize = 5;

/// The whole configuration of a way, to make one or to replace that of one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinWay {
    /// Where it is shown.
    pub scene: WayScene,
    /// Ours, at most 30 characters.
    #[serde(default, skip_serializing_if = "blank")]
    pub remark: Option<String>,
    /// Whether WeCom opens rooms when the groups are full. Always sent: WeCom's own default is yes.
    #[serde(with = "zero_or_one")]
    pub auto_create_room: bool,
    /// What such rooms are called, at most 40 characters, followed by their number.
    #[serde(default, skip_serializing_if = "blank")]
    pub room_base_name: Option<String>,
    /// The number of the first such room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room_base_id: Option<i64>,
    /// One to five groups, filled in this order.
    pub chat_id_list: Vec<String>,
    /// Comes back with every member who came by this way; at most 30 characters.
    #[serde(default, skip_serializing_if = "blank")]
    pub state: Option<String>,
    /// Only for marketing apps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark_source: Option<bool>,
}

impl JoinWay {
    /// A QR code into these groups, without rooms of its own.
    pub fn into_groups(chat_ids: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            chat_id_list: chat_ids.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// The documented limits.
    pub fn check(&self) -> Result<(), Error> {
        self.check_for(api::ADD_JOIN_WAY)
    }

    fn check_for(&self, api: &'static str) -> Result<(), Error> {
        let check = Check::new(api);
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        check.some_entries("chat_id_list", &self.chat_id_list, JOIN_WAY_CHATS_MAX)?;
        check.characters("remark", &text(&self.remark), 30)?;
        check.characters("room_base_name", &text(&self.room_base_name), 40)?;
        check.characters("state", &text(&self.state), 30)
    }
}

/// `auto_create_room` is a number.
mod zero_or_one {
    use serde::{Deserialize, Deserializer, Serializer};
    use serde_json::Value;

    use crate::client::lenient;

    pub(super) fn serialize<S: Serializer>(flag: &bool, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(u8::from(*flag))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<bool, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Ok(value.as_bool().unwrap_or(false)
            || lenient::whole_number(&value).is_some_and(|number| number != 0))
    }
}

/// A way that was made. Its picture comes with [`Client::get_join_way`] only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddedJoinWay {
    /// Without it the way can be neither changed nor deleted.
    pub config_id: String,
}

/// A way as WeCom has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinWayDetail {
    /// Its id.
    pub config_id: String,
    /// 1 mini program, 2 QR code.
    #[serde(default, deserialize_with = "lenient::int")]
    pub scene: Option<i64>,
    /// Ours.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub remark: String,
    /// Whether WeCom opens rooms.
    #[serde(default, with = "zero_or_one")]
    pub auto_create_room: bool,
    /// What they are called.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub room_base_name: String,
    /// The number of the first.
    #[serde(
        default,
        deserialize_with = "lenient::int",
        skip_serializing_if = "Option::is_none"
    )]
    pub room_base_id: Option<i64>,
    /// Its groups. `None`: the answer had no list; nothing is known.
    #[serde(default, deserialize_with = "lenient::known_rows")]
    pub chat_id_list: Option<Vec<String>>,
    /// The picture's address; only with [`WayScene::QrCode`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qr_code: Option<String>,
    /// Comes back with members who came by it.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub state: String,
    /// Only for marketing apps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark_source: Option<bool>,
}

impl JoinWayDetail {
    /// What to send to [`Client::update_join_way`] with one thing changed: whatever is left out there is gone.
    /// `None` when the scene or the groups are not known.
    pub fn configuration(&self) -> Option<JoinWay> {
        Some(JoinWay {
            scene: WayScene::try_from(self.scene?).ok()?,
            remark: Some(self.remark.clone()),
            auto_create_room: self.auto_create_room,
            room_base_name: Some(self.room_base_name.clone()),
            room_base_id: self.room_base_id,
            chat_id_list: self.chat_id_list.clone()?,
            state: Some(self.state.clone()),
            mark_source: self.mark_source,
        })
    }
}

#[derive(Serialize)]
struct ById<'a> {
    config_id: &'a str,
}

#[derive(Serialize)]
struct UpdateRequest<'a> {
    config_id: &'a str,
    #[serde(flatten)]
    way: &'a JoinWay,
}

#[derive(Deserialize)]
struct GotJoinWay {
    join_way: JoinWayDetail,
}

impl Client {
    /// Makes a way. Not idempotent: see the module's head.
    pub async fn add_join_way(&self, way: &JoinWay) -> Result<AddedJoinWay, Error> {
        way.check()?;
        self.post(api::ADD_JOIN_WAY, way).await
    }

    /// Reads a way that this app made.
    pub async fn get_join_way(&self, config_id: &str) -> Result<JoinWayDetail, Error> {
        Check::new(api::GET_JOIN_WAY).required("config_id", config_id)?;
        let got: GotJoinWay = self.post(api::GET_JOIN_WAY, &ById { config_id }).await?;
        Ok(got.join_way)
    }

    /// Replaces the whole configuration of a way; so it may be repeated. Rooms that WeCom has added to its list
    /// meanwhile are taken off by an older list.
    pub async fn update_join_way(&self, config_id: &str, way: &JoinWay) -> Result<(), Error> {
        Check::new(api::UPDATE_JOIN_WAY).required("config_id", config_id)?;
        way.check_for(api::UPDATE_JOIN_WAY)?;
        self.post_plain(api::UPDATE_JOIN_WAY, &UpdateRequest { config_id, way })
            .await
    }

    /// Deletes a way; its picture leads nowhere then.
    pub async fn del_join_way(&self, config_id: &str) -> Result<(), Error> {
        Check::new(api::DEL_JOIN_WAY).required("config_id", config_id)?;
        self.post_plain(api::DEL_JOIN_WAY, &ById { config_id })
            .await
    }
}
