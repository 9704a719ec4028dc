//! Ids, parsed once at the edge. Control characters separate fields in arguments, packed values and the log, and
//! braces mark the hash tag of a key: neither can be part of an id. Ids that look like numbers stay text.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::error::Error;

pub(crate) fn check(what: &'static str, text: &str, longest: usize) -> Result<(), Error> {
    let problem = if text.is_empty() {
        "is empty"
    } else if text.chars().count() > longest {
        "is too long"
    } else if text.chars().any(char::is_control) {
        "has a control character"
    } else if text.contains(['{', '}']) {
        "has a brace"
    } else if text.trim() != text {
        "begins or ends with a space"
    } else {
        return Ok(());
    };
    Err(Error::Text { what, problem })
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $longest:literal, |$text:ident| $normal:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            pub fn new($text: impl Into<String>) -> Result<Self, Error> {
                let $text: String = $text.into();
                check($what, &$text, $longest)?;
                let normal: Result<String, Error> = $normal;
                Ok(Self(normal?))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self, Error> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;
            fn try_from(text: String) -> Result<Self, Error> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }
    };
}

pub(crate) use text_id;

text_id!(
    /// A corp at WeCom ("ww…"). Part of every key, so only letters, digits, `_`, `-` and `.`.
    CorpId, "corp", 64, |text| {
        if text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c)) {
            Ok(text)
        } else {
            Err(Error::Text { what: "corp", problem: "has a character that is not allowed" })
        }
    }
);
text_id!(
    /// A pool of members that share incoming customers.
    PoolId, "pool", 64, |text| Ok(text)
);
text_id!(
    /// A channel through which customers come.
    ChannelId, "channel", 64, |text| Ok(text)
);
text_id!(
    /// A slot: the State of a contact way that stands for one visit at a time. WeCom takes 30 characters.
    SlotId, "slot", 30, |text| {
        if text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c)) {
            Ok(text)
        } else {
            Err(Error::Text { what: "slot", problem: "has a character that is not allowed" })
        }
    }
);
text_id!(
    /// What a member can do or is: `lang:en`, `vip`. Letters in lower case, digits, `_`, `-`, `.` and `:`.
    Skill, "skill", 64, |text| {
        if text.chars().all(|c| c.is_alphanumeric() || "_-.:".contains(c)) {
            Ok(text.to_lowercase())
        } else {
            Err(Error::Text { what: "skill", problem: "has a character that is not allowed" })
        }
    }
);
text_id!(
    /// Hours of work that members share.
    ScheduleId, "schedule", 64, |text| Ok(text)
);
text_id!(
    /// Special days of a corp, which schedules refer to.
    CalendarId, "calendar", 64, |text| Ok(text)
);
text_id!(
    /// A member's userid in its key form: WeCom's ids ignore case, so ASCII letters are lower case here.
    MemberId, "member", 64, |text| Ok(text.to_ascii_lowercase())
);
text_id!(
    /// The caller's id of one request for a decision; asked again within 24 h it gets the first answer.
    RequestId, "request", 255, |text| Ok(text)
);
text_id!(
    /// Why something was closed or blocked: a short code such as `customer_left`, never a person's words.
    Reason, "reason", 64, |text| Ok(text)
);

/// Identity of one allocation; a UUID of version 7 made by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AllocationId(pub Uuid);

impl fmt::Display for AllocationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl FromStr for AllocationId {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        Uuid::try_parse(text).map(Self).map_err(|_| Error::Text {
            what: "allocation",
            problem: "is no UUID",
        })
    }
}

/// Whom a decision is about, without saying who it is: the first 16 bytes of
/// SHA-256(corp ‖ 0x1f ‖ kind ‖ 0x1f ‖ id), as 32 hex digits. `kind` is "wecom" for an external_userid, else the
/// source channel that gave the id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SubjectKey([u8; 16]);

impl SubjectKey {
    pub fn new(corp: &CorpId, kind: &str, id: &str) -> Self {
        let mut hash = Sha256::new();
        for (i, part) in [corp.as_str(), kind, id].into_iter().enumerate() {
            if i > 0 {
                hash.update([0x1f]);
            }
            hash.update(part.as_bytes());
        }
        let digest = hash.finalize();
        let mut key = [0; 16];
        key.copy_from_slice(&digest[..16]);
        Self(key)
    }

    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for SubjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl FromStr for SubjectKey {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        let mut key = [0; 16];
        hex::decode_to_slice(text, &mut key).map_err(|_| Error::Text {
            what: "subject",
            problem: "is not 32 hex digits",
        })?;
        Ok(Self(key))
    }
}

impl TryFrom<String> for SubjectKey {
    type Error = Error;
    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<SubjectKey> for String {
    fn from(key: SubjectKey) -> String {
        key.to_string()
    }
}
