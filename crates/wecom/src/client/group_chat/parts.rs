//! Numbers of groups and their members. What WeCom may add later is kept raw.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::client::lenient;

/// A number of an answer: the documented values, any other, and none at all.
macro_rules! open_number {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $raw:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(from = "Value", into = "Option<i64>")]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
            /// A number that is not documented.
            Other(i64),
            /// No number.
            #[default]
            Missing,
        }

        impl $name {
            /// WeCom's number.
            pub fn raw(self) -> Option<i64> {
                match self {
                    $(Self::$variant => Some($raw),)*
                    Self::Other(raw) => Some(raw),
                    Self::Missing => None,
                }
            }
        }

        impl From<Value> for $name {
            fn from(value: Value) -> Self {
                match lenient::whole_number(&value) {
                    $(Some($raw) => Self::$variant,)*
                    Some(raw) => Self::Other(raw),
                    None => Self::Missing,
                }
            }
        }

        impl From<$name> for Option<i64> {
            fn from(number: $name) -> Self {
                number.raw()
            }
        }
    };
}

open_number! {
    /// How the inheritance of a group stands.
    GroupChatStatus {
        /// 0: nothing to inherit.
        Normal = 0,
        /// 1: its owner has left, it waits for another.
        OwnerResigned = 1,
        /// 2: it is being inherited.
        Inheriting = 2,
        /// 3: it was inherited.
        Inherited = 3,
    }
}

open_number! {
    /// Of the corp or not.
    GroupMemberKind {
        /// 1: a member of the corp.
        Employee = 1,
        /// 2: anybody else; not necessarily somebody's customer.
        External = 2,
    }
}

open_number! {
    /// How somebody came into a group. Events have other numbers for it.
    JoinScene {
        /// 1: brought by somebody in it.
        Invited = 1,
        /// 2: by a link that somebody in it sent.
        InviteLink = 2,
        /// 3: scanned a code of the group, or of a join way.
        Scanned = 3,
    }
}

/// Which groups to list, by how their inheritance stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(into = "i64")]
pub enum GroupChatStatusFilter {
    /// 0.
    #[default]
    All,
    /// 1: their owner has left.
    OwnerResigned,
    /// 2: being inherited.
    Inheriting,
    /// 3: inherited.
    Inherited,
}

impl GroupChatStatusFilter {
    pub(super) fn is_all(&self) -> bool {
        *self == Self::All
    }
}

impl From<GroupChatStatusFilter> for i64 {
    fn from(filter: GroupChatStatusFilter) -> Self {
        match filter {
            GroupChatStatusFilter::All => 0,
            GroupChatStatusFilter::OwnerResigned => 1,
            GroupChatStatusFilter::Inheriting => 2,
            GroupChatStatusFilter::Inherited => 3,
        }
    }
}

/// Whether a group's answer has the names of its members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(into = "i64")]
pub enum MemberNames {
    /// WeCom's default, and less personal data.
    #[default]
    Hidden,
    /// With names.
    Shown,
}

impl From<MemberNames> for i64 {
    fn from(names: MemberNames) -> Self {
        match names {
            MemberNames::Hidden => 0,
            MemberNames::Shown => 1,
        }
    }
}
