//! Customer groups (客户群): which there are, who is in them, and whom they belong to (pages 92120, 92122).
//!
//! There is no API that makes a group, or adds or removes a member: members of the corp do that by hand, and
//! a join way opens rooms by itself ([`Client::add_join_way`]). A group's event comes at once, but parts of
//! its data follow later: wait about two seconds before [`Client::get_group_chat`] is believed.

mod parts;
mod transfer;

use serde::{Deserialize, Serialize};

pub use parts::{GroupChatStatus, GroupChatStatusFilter, GroupMemberKind, JoinScene, MemberNames};
pub use transfer::{
    FailedChat, GROUP_CHATS_TRANSFER_MAX, TransferGroupChat, TransferredGroupChats,
};

use super::limits::Check;
use super::{Client, Pager, api, lenient};
use crate::Error;
use crate::redacted::Redacted;

/// WeCom takes at most this many owners in one filter.
pub const GROUP_OWNERS_MAX: usize = 100;

/// Which groups to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupChatFilter {
    /// How their inheritance stands.
    pub status: GroupChatStatusFilter,
    /// Of these owners, at most 100. Empty: of every owner in the app's range, which WeCom refuses (81017)
    /// beyond 1000 members. The groups of an owner who has left are found by naming him only.
    pub owners: Vec<String>,
}

impl GroupChatFilter {
    /// All groups of these owners.
    pub fn of_owners(owners: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            status: GroupChatStatusFilter::All,
            owners: owners.into_iter().map(Into::into).collect(),
        }
    }

    /// The documented limits.
    pub fn check(&self) -> Result<(), Error> {
        Check::new(api::LIST_GROUP_CHAT).entries(
            "owner_filter.userid_list",
            &self.owners,
            GROUP_OWNERS_MAX,
        )
    }
}

/// One page of groups, at most 1000.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupChatPage {
    /// The groups.
    #[serde(default, deserialize_with = "lenient::rows")]
    pub group_chat_list: Vec<GroupChatId>,
    /// Empty at the end.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub next_cursor: String,
}

/// A group in a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupChatId {
    /// The group; another app sees another id for it.
    pub chat_id: String,
    /// How its inheritance stands.
    #[serde(default)]
    pub status: GroupChatStatus,
}

/// A group with its members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupChat {
    /// Its id.
    pub chat_id: String,
    /// Its name; empty when it has none of its own.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub name: String,
    /// Whom it belongs to.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub owner: String,
    /// Seconds since the epoch.
    #[serde(
        default,
        deserialize_with = "lenient::int",
        skip_serializing_if = "Option::is_none"
    )]
    pub create_time: Option<i64>,
    /// Its announcement.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub notice: Redacted,
    /// All who are in it, members of the corp and the owner included. `None`: the answer had no list, so
    /// nothing is known; never take it for an empty group.
    #[serde(default, deserialize_with = "lenient::known_rows")]
    pub member_list: Option<Vec<GroupMember>>,
    /// Its administrators; the owner is none of them.
    #[serde(default, deserialize_with = "lenient::rows")]
    pub admin_list: Vec<GroupAdmin>,
    /// The version of `member_list`. Events name the version before and after their change
    /// ([`crate::event::ChatUpdate::diff_after`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member_version: Option<String>,
}

/// Somebody in a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupMember {
    /// A userid, or an external userid: see `kind`.
    pub userid: String,
    /// Of the corp, or from outside.
    #[serde(default, rename = "type")]
    pub kind: GroupMemberKind,
    /// Only for WeChat users of a corp that bound a WeChat developer id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unionid: Option<String>,
    /// Seconds since the epoch.
    #[serde(
        default,
        deserialize_with = "lenient::int",
        skip_serializing_if = "Option::is_none"
    )]
    pub join_time: Option<i64>,
    /// How he came; an open number.
    #[serde(default)]
    pub join_scene: JoinScene,
    /// Who brought him, if it was a member of this corp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invitor: Option<Invitor>,
    /// The `state` of the join way he came by, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// His name in this group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_nickname: Option<Redacted>,
    /// His name; only with [`MemberNames::Shown`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Redacted>,
}

/// Who brought somebody into a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invitor {
    /// A member of the corp.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub userid: String,
}

/// An administrator of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupAdmin {
    /// A member of the corp.
    pub userid: String,
}

#[derive(Serialize)]
struct ListRequest<'a> {
    #[serde(skip_serializing_if = "GroupChatStatusFilter::is_all")]
    status_filter: GroupChatStatusFilter,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner_filter: Option<OwnerFilter<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<&'a str>,
    limit: u32,
}

#[derive(Serialize)]
struct OwnerFilter<'a> {
    userid_list: &'a [String],
}

#[derive(Serialize)]
struct GetRequest<'a> {
    chat_id: &'a str,
    need_name: MemberNames,
}

#[derive(Deserialize)]
struct GotGroupChat {
    group_chat: GroupChat,
}

impl Client {
    /// One page of groups (page 92120).
    pub async fn list_group_chat(
        &self,
        filter: &GroupChatFilter,
        cursor: Option<&str>,
    ) -> Result<GroupChatPage, Error> {
        filter.check()?;
        let request = ListRequest {
            status_filter: filter.status,
            owner_filter: (!filter.owners.is_empty()).then_some(OwnerFilter {
                userid_list: &filter.owners,
            }),
            cursor,
            limit: 1000,
        };
        self.post(api::LIST_GROUP_CHAT, &request).await
    }

    /// All pages of [`Client::list_group_chat`].
    pub async fn list_group_chat_all(
        &self,
        filter: &GroupChatFilter,
    ) -> Result<Vec<GroupChatId>, Error> {
        let mut pager = Pager::new(api::LIST_GROUP_CHAT);
        let mut all = Vec::new();
        while let Some(cursor) = pager.next() {
            match self.list_group_chat(filter, cursor).await {
                Ok(page) => {
                    all.extend(page.group_chat_list);
                    pager.advance(page.next_cursor)?;
                }
                Err(error) => {
                    pager.restart_after(error)?;
                    all.clear();
                }
            }
        }
        Ok(all)
    }

    /// One group with its members (page 92122). A group that was dissolved is 49008; 90501 is one whose owner
    /// lacks the customer-contact function, or that belongs to somebody else.
    pub async fn get_group_chat(
        &self,
        chat_id: &str,
        names: MemberNames,
    ) -> Result<GroupChat, Error> {
        Check::new(api::GET_GROUP_CHAT).required("chat_id", chat_id)?;
        let request = GetRequest {
            chat_id,
            need_name: names,
        };
        let got: GotGroupChat = self.post(api::GET_GROUP_CHAT, &request).await?;
        Ok(got.group_chat)
    }
}
