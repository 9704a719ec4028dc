//! Giving groups to another owner (pages 95703 and 92127).
//!
//! Success without a failure for a group means *accepted*. For owners who have left the rest comes later;
//! confirm both by reading the owner. To send the same again does no harm: 90504, 90507 and 90508 say that it
//! is so already, or under way.

use serde::{Deserialize, Serialize};

use super::super::limits::Check;
use super::super::{Client, api, lenient};
use crate::Error;
use crate::error::{Classification, classify};

/// WeCom takes at most this many groups in one transfer call.
pub const GROUP_CHATS_TRANSFER_MAX: usize = 100;

/// Which groups, and who gets them; the same for owners in service and owners who have left. Groups of one
/// person may change owner 300 times a day; in service one group may do so twice in 90 days.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferGroupChat {
    /// One to 100 groups.
    pub chat_id_list: Vec<String>,
    /// Who gets them.
    pub new_owner: String,
}

impl TransferGroupChat {
    /// The documented limits.
    pub fn check(&self) -> Result<(), Error> {
        self.check_for(api::ONJOB_TRANSFER_GROUP_CHAT)
    }

    fn check_for(&self, api: &'static str) -> Result<(), Error> {
        let check = Check::new(api);
        check.required("new_owner", &self.new_owner)?;
        check.some_entries("chat_id_list", &self.chat_id_list, GROUP_CHATS_TRANSFER_MAX)
    }
}

/// The answer to a transfer of groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferredGroupChats {
    /// Those that were refused; every other was accepted.
    #[serde(default, deserialize_with = "lenient::rows")]
    pub failed_chat_list: Vec<FailedChat>,
}

impl TransferredGroupChats {
    /// Why this group was refused; `None` when it was accepted.
    pub fn refusal(&self, chat_id: &str) -> Option<Classification> {
        self.failed_chat_list
            .iter()
            .find(|failed| failed.chat_id == chat_id)
            .map(FailedChat::refusal)
    }
}

/// A group that was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedChat {
    /// The group.
    pub chat_id: String,
    /// The refusal for this group alone. `None`: none was given; refused all the same.
    #[serde(default, deserialize_with = "lenient::int")]
    pub errcode: Option<i64>,
    /// In WeCom's words, which may change.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub errmsg: String,
}

impl FailedChat {
    /// What can be done about it.
    pub fn refusal(&self) -> Classification {
        // 0 is in no table, so it is `Unknown`: parked for review.
        classify(self.errcode.unwrap_or_default())
    }
}

impl Client {
    /// Gives groups of owners in service to another (page 95703).
    pub async fn onjob_transfer_group_chat(
        &self,
        request: &TransferGroupChat,
    ) -> Result<TransferredGroupChats, Error> {
        request.check()?;
        self.post(api::ONJOB_TRANSFER_GROUP_CHAT, request).await
    }

    /// Gives groups of owners who have left to another (page 92127).
    pub async fn transfer_group_chat(
        &self,
        request: &TransferGroupChat,
    ) -> Result<TransferredGroupChats, Error> {
        request.check_for(api::TRANSFER_GROUP_CHAT)?;
        self.post(api::TRANSFER_GROUP_CHAT, request).await
    }
}
