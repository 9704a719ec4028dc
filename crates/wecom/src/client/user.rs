//! Members (成员).

use serde::{Deserialize, Serialize};

use super::limits::Check;
use super::{Client, api, lenient};
use crate::{Error, Redacted};

/// A member. Newer apps are not told picture, number, address or gender.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// His id, in the corp's own spelling.
    pub userid: String,
    /// His name.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub name: Redacted,
    /// His departments.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub department: Vec<i64>,
    /// The first of them.
    #[serde(
        default,
        deserialize_with = "lenient::int",
        skip_serializing_if = "Option::is_none"
    )]
    pub main_department: Option<i64>,
    /// Is he there at all?
    #[serde(default)]
    pub status: UserStatus,
}

/// Whether a member can work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "serde_json::Value", into = "Option<i64>")]
#[non_exhaustive]
pub enum UserStatus {
    /// 1: active.
    Active,
    /// 2: disabled.
    Disabled,
    /// 4: not activated.
    NotActivated,
    /// 5: has left.
    Left,
    /// Any other number.
    Other(i64),
    /// No status.
    #[default]
    Missing,
}

impl From<serde_json::Value> for UserStatus {
    fn from(value: serde_json::Value) -> Self {
        match lenient::whole_number(&value) {
            Some(1) => Self::Active,
            Some(2) => Self::Disabled,
            Some(4) => Self::NotActivated,
            Some(5) => Self::Left,
            Some(raw) => Self::Other(raw),
            None => Self::Missing,
        }
    }
}

impl From<UserStatus> for Option<i64> {
    fn from(status: UserStatus) -> Self {
        match status {
            UserStatus::Active => Some(1),
            UserStatus::Disabled => Some(2),
            UserStatus::NotActivated => Some(4),
            UserStatus::Left => Some(5),
            UserStatus::Other(raw) => Some(raw),
            UserStatus::Missing => None,
        }
    }
}

impl Client {
    /// Reads a member. One who left, was deleted or is outside the app's range gives 60111.
    pub async fn get_user(&self, userid: &str) -> Result<User, Error> {
        Check::new(api::GET_USER).required("userid", userid)?;
        self.get(api::GET_USER, &[("userid", userid)]).await
    }
}
