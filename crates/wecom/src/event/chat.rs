//! `change_external_chat` (客户群变更), pages 92130 and 92277.

use super::fields::Fields;

/// A customer group was made, changed or dissolved. Its new name or owner is not in the event:
/// `externalcontact/groupchat/get` has it, about two seconds later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalChat {
    /// `ChatId`.
    pub chat_id: String,
    /// What happened.
    pub change: ChatChange,
}

/// `ChangeType` of `change_external_chat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChatChange {
    /// `create`.
    Create,
    /// `update`.
    Update(ChatUpdate),
    /// `dismiss`: by its owner.
    Dismiss,
    /// Something newer than this library.
    Other(String),
}

/// What an update says. Everything may be absent; older configurations send only the chat id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatUpdate {
    /// `UpdateDetail`.
    pub detail: Option<UpdateDetail>,
    /// `JoinScene`: 0 invited by a member, 3 scanned the group's code; an open number.
    pub join_scene: Option<i64>,
    /// `QuitScene`: 0 left, 1 removed; an open number. Sometimes present, as 0, on a join.
    pub quit_scene: Option<i64>,
    /// `MemChangeCnt`.
    pub member_change_count: Option<i64>,
    /// `MemChangeList`: userids and external userids. Older configurations do not send it.
    pub members: Vec<String>,
    /// `LastMemVer`: the member list before. If it is not the version you stored, an event was lost
    /// or overtaken: read the group.
    pub last_member_version: Option<String>,
    /// `CurMemVer`: the member list after.
    pub current_member_version: Option<String>,
}

/// What to do to a member list that was stored, see [`ChatUpdate::diff_after`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberDiff<'a> {
    /// They came; otherwise they are gone.
    pub joined: bool,
    /// Userids and external userids.
    pub members: &'a [String],
    /// The version of the list afterwards.
    pub version: &'a str,
}

/// `UpdateDetail`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpdateDetail {
    /// `add_member`.
    AddMember,
    /// `del_member`.
    DelMember,
    /// `change_owner`.
    ChangeOwner,
    /// `change_name`.
    ChangeName,
    /// `change_notice`.
    ChangeNotice,
    /// Something newer than this library.
    Other(String),
}

impl ExternalChat {
    pub(super) fn read(change_type: &str, fields: &Fields<'_>) -> Self {
        Self {
            chat_id: fields.owned("ChatId"),
            change: match change_type {
                "create" => ChatChange::Create,
                "update" => ChatChange::Update(ChatUpdate::read(fields)),
                "dismiss" => ChatChange::Dismiss,
                other => ChatChange::Other(other.to_owned()),
            },
        }
    }

    /// A group is made and dissolved once, and changed many times.
    pub(super) fn changed_chat(&self) -> Option<&str> {
        match self.change {
            ChatChange::Create | ChatChange::Dismiss => None,
            ChatChange::Update(_) | ChatChange::Other(_) => Some(&self.chat_id),
        }
    }
}

impl ChatUpdate {
    /// What this event does to the member list of the version that you stored (page 92130). Nothing when it
    /// changes another version, or does not say all: an event was lost or overtaken, read the group.
    pub fn diff_after(&self, stored_version: &str) -> Option<MemberDiff<'_>> {
        let joined = match self.detail {
            Some(UpdateDetail::AddMember) => true,
            Some(UpdateDetail::DelMember) => false,
            _ => return None,
        };
        let complete = !self.members.is_empty()
            && self
                .member_change_count
                .is_none_or(|count| usize::try_from(count) == Ok(self.members.len()));
        let follows = self.last_member_version.as_deref() == Some(stored_version);
        let version = self.current_member_version.as_deref()?;
        (complete && follows).then_some(MemberDiff {
            joined,
            members: &self.members,
            version,
        })
    }

    fn read(fields: &Fields<'_>) -> Self {
        Self {
            detail: fields.get("UpdateDetail").map(|detail| match detail {
                "add_member" => UpdateDetail::AddMember,
                "del_member" => UpdateDetail::DelMember,
                "change_owner" => UpdateDetail::ChangeOwner,
                "change_name" => UpdateDetail::ChangeName,
                "change_notice" => UpdateDetail::ChangeNotice,
                other => UpdateDetail::Other(other.to_owned()),
            }),
            join_scene: fields.number("JoinScene"),
            quit_scene: fields.number("QuitScene"),
            member_change_count: fields.number("MemChangeCnt"),
            members: fields.items("MemChangeList"),
            last_member_version: fields.optional("LastMemVer"),
            current_member_version: fields.optional("CurMemVer"),
        }
    }
}
