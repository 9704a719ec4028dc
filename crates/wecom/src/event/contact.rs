//! `change_contact` (通讯录变更, pages 96301 to 96304) and the app events `subscribe` and `unsubscribe` (page 90376).

use super::fields::Fields;
use crate::redacted::Redacted;

/// A change in the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contact {
    /// `create_user`.
    CreateUser(Box<ContactUser>),
    /// `update_user`. Disabling a member is *not* among the reasons any more (since 2022-08-15).
    UpdateUser(Box<ContactUser>),
    /// `delete_user`: `UserID`.
    DeleteUser(String),
    /// `create_party`.
    CreateParty(Department),
    /// `update_party`.
    UpdateParty(Department),
    /// `delete_party`: `Id`.
    DeleteParty(String),
    /// `update_tag`.
    UpdateTag(TagMembers),
    /// Something newer than this library.
    Other(String),
}

/// A member in `create_user` or `update_user`. Configurations made after 2022-08-15 send only the
/// ids and departments; an update names only what changed. Personal data stays out of Debug.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContactUser {
    /// `UserID`; before an update that renamed it.
    pub user_id: String,
    /// `NewUserID`, if it was renamed.
    pub new_user_id: Option<String>,
    /// `Department`.
    pub departments: Vec<String>,
    /// `MainDepartment`.
    pub main_department: Option<String>,
    /// `IsLeaderInDept`, in the order of `departments`.
    pub is_leader_in_department: Vec<String>,
    /// `DirectLeader`.
    pub direct_leaders: Vec<String>,
    /// `Status`: 1 active, 2 disabled, 4 not activated, 5 left.
    pub status: Option<i64>,
    /// `Gender`: 1 male, 2 female.
    pub gender: Option<i64>,
    /// `Name`.
    pub name: Option<Redacted>,
    /// `Alias`.
    pub alias: Option<Redacted>,
    /// `Position`.
    pub position: Option<Redacted>,
    /// `Mobile`.
    pub mobile: Option<Redacted>,
    /// `Telephone`.
    pub telephone: Option<Redacted>,
    /// `Email`.
    pub email: Option<Redacted>,
    /// `BizMail`.
    pub biz_mail: Option<Redacted>,
    /// `Address`.
    pub address: Option<Redacted>,
    /// `Avatar`.
    pub avatar: Option<Redacted>,
}

/// A department in `create_party` or `update_party`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Department {
    /// `Id`.
    pub id: String,
    /// `ParentId`.
    pub parent_id: Option<String>,
    /// `Name`, old configurations only.
    pub name: Option<String>,
    /// `Order`, old configurations only.
    pub order: Option<i64>,
}

/// Who joined and left a directory tag. The lists may be incomplete: read the tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagMembers {
    /// `TagId`.
    pub tag_id: String,
    /// `AddUserItems`.
    pub added_users: Vec<String>,
    /// `DelUserItems`.
    pub removed_users: Vec<String>,
    /// `AddPartyItems`.
    pub added_departments: Vec<String>,
    /// `DelPartyItems`.
    pub removed_departments: Vec<String>,
}

/// A member entered or left an app's visible range. Leaving has several reasons that look the same:
/// range changed, resigned, disabled. `user/get` tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppPresence {
    /// `subscribe`.
    Subscribe,
    /// `unsubscribe`.
    Unsubscribe,
}

impl Contact {
    pub(super) fn read(change_type: &str, fields: &Fields<'_>) -> Self {
        match change_type {
            "create_user" => Self::CreateUser(Box::new(ContactUser::read(fields))),
            "update_user" => Self::UpdateUser(Box::new(ContactUser::read(fields))),
            "delete_user" => Self::DeleteUser(fields.owned("UserID")),
            "create_party" => Self::CreateParty(Department::read(fields)),
            "update_party" => Self::UpdateParty(Department::read(fields)),
            "delete_party" => Self::DeleteParty(fields.owned("Id")),
            "update_tag" => Self::UpdateTag(TagMembers {
                tag_id: fields.owned("TagId"),
                added_users: fields.comma_list("AddUserItems"),
                removed_users: fields.comma_list("DelUserItems"),
                added_departments: fields.comma_list("AddPartyItems"),
                removed_departments: fields.comma_list("DelPartyItems"),
            }),
            other => Self::Other(other.to_owned()),
        }
    }

    /// Identical events about one member in one second have been seen.
    pub(super) fn changed_member(&self) -> Option<&str> {
        match self {
            Self::CreateUser(user) | Self::UpdateUser(user) => Some(&user.user_id),
            Self::DeleteUser(user_id) => Some(user_id),
            _ => None,
        }
    }
}

impl ContactUser {
    fn read(fields: &Fields<'_>) -> Self {
        Self {
            user_id: fields.owned("UserID"),
            new_user_id: fields.optional("NewUserID"),
            departments: fields.comma_list("Department"),
            main_department: fields.optional("MainDepartment"),
            is_leader_in_department: fields.comma_list("IsLeaderInDept"),
            direct_leaders: fields.comma_list("DirectLeader"),
            status: fields.number("Status"),
            gender: fields.number("Gender"),
            name: fields.redacted("Name"),
            alias: fields.redacted("Alias"),
            position: fields.redacted("Position"),
            mobile: fields.redacted("Mobile"),
            telephone: fields.redacted("Telephone"),
            email: fields.redacted("Email"),
            biz_mail: fields.redacted("BizMail"),
            address: fields.redacted("Address"),
            avatar: fields.redacted("Avatar"),
        }
    }
}

impl Department {
    fn read(fields: &Fields<'_>) -> Self {
        Self {
            id: fields.owned("Id"),
            parent_id: fields.optional("ParentId"),
            name: fields.optional("Name"),
            order: fields.number("Order"),
        }
    }
}
