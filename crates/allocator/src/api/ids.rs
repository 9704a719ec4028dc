//! Ids as callers may write them. They go into paths, links and log lines, and two that look alike must not be two: so
//! they are of few characters. What Redis and Postgres can hold is wider (`allocation::id`), because WeCom's events and
//! the log are read as they are.

use allocation::{
    CalendarId, CampaignId, ChannelId, ChatId, GroupPoolId, GroupTag, InviterId, MemberId, PoolId,
    Reason, ScheduleId, Skill,
};

/// Longest of all of them, bytes.
const LONGEST: usize = 64;

/// An id, and the rule it is held to.
pub(crate) trait Id: Sized {
    /// Completes "must be …".
    const RULE: &'static str;

    /// None: it breaks the rule.
    fn read(text: &str) -> Option<Self>;
}

/// 1 to 64 letters, digits and `more`, the first a letter or digit.
fn is_plain(text: &str, more: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() <= LONGEST
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || more.as_bytes().contains(byte))
}

macro_rules! ids {
    ($($id:ty: $rule:literal, $more:literal;)+) => { $(
        impl Id for $id {
            const RULE: &'static str = $rule;

            fn read(text: &str) -> Option<Self> {
                is_plain(text, $more).then(|| text.parse().ok()).flatten()
            }
        }
    )+ };
}

ids! {
    MemberId: "a userid of WeCom (1 to 64 of A-Z a-z 0-9 _ - . @, beginning with a letter or digit)", "_-.@";
    PoolId: "the id of a pool (1 to 64 of A-Z a-z 0-9 _ - ., beginning with a letter or digit)", "_-.";
    ChannelId: "the id of a channel (1 to 64 of A-Z a-z 0-9 _ - ., beginning with a letter or digit)", "_-.";
    ScheduleId: "the id of a schedule (1 to 64 of A-Z a-z 0-9 _ - ., beginning with a letter or digit)", "_-.";
    CalendarId: "the id of a calendar (1 to 64 of A-Z a-z 0-9 _ - ., beginning with a letter or digit)", "_-.";
    GroupPoolId: "the id of a group pool (1 to 64 of A-Z a-z 0-9 _ - ., beginning with a letter or digit)", "_-.";
    CampaignId: "the id of a campaign (1 to 64 of A-Z a-z 0-9 _ - ., beginning with a letter or digit)", "_-.";
    InviterId: "the id of an inviter (1 to 64 of A-Z a-z 0-9, as it was given)", "";
    ChatId: "the chat_id of a group at WeCom (1 to 64 of A-Z a-z 0-9 _ - . @, beginning with a letter or digit)", "_-.@";
    Reason: "a short code such as on_leave (1 to 64 of A-Z a-z 0-9 _ - ., beginning with a letter or digit)", "_-.";
}

/// For people to read, not for paths: `lang:en`, `普通话`. In small letters, whatever is written.
impl Id for Skill {
    const RULE: &'static str = "a skill such as lang:en (1 to 64 letters, digits and _ - . :)";

    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

/// For people to read, as skills are, but as they are written.
impl Id for GroupTag {
    const RULE: &'static str = "a tag such as 北京 (1 to 64 characters, no control characters and braces, no space at either end)";

    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

/// Whose id a customer's outside id is: `wecom`, or a source of the caller's. In small letters: `WeCom` would be
/// another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SubjectKind;

impl Id for SubjectKind {
    const RULE: &'static str = "wecom or the name of another source of customers (1 to 64 of a-z 0-9 _ - ., beginning with a letter or digit)";

    fn read(text: &str) -> Option<Self> {
        let is_one = is_plain(text, "_-.") && !text.bytes().any(|byte| byte.is_ascii_uppercase());
        is_one.then_some(Self)
    }
}

#[cfg(test)]
mod tests {
    use allocation::{ChannelId, MemberId, PoolId, Reason, Skill};

    use super::{Id, SubjectKind};

    #[test]
    fn each_is_held_to_its_rule() {
        fn check<T: Id>(taken: &[&str], refused: &[&str]) {
            for text in taken {
                assert!(T::read(text).is_some(), "{text:?}: {}", T::RULE);
            }
            let long = "a".repeat(65);
            let common = [
                "",
                " ",
                "li si",
                " a",
                "a ",
                "a/b",
                "a\nb",
                "a\0",
                "李四",
                "é",
                "{a}",
                "a\u{200b}",
                "_a",
                "-a",
                ".",
                "..",
                "WeCom!",
                &long,
            ];
            for text in common.iter().chain(refused) {
                assert!(T::read(text).is_none(), "{text:?}: {}", T::RULE);
            }
            assert!(T::read(&"a".repeat(64)).is_some());
        }
        check::<MemberId>(&["ZhangSan", "0", "a_b-c.d@e"], &["a+b", "@a"]);
        check::<PoolId>(&["sales", "P.1_a-b", "9007199254740993"], &["a@b"]);
        check::<ChannelId>(&["poster-7"], &["a@b"]);
        check::<Reason>(&["on_leave"], &["on leave"]);
        check::<SubjectKind>(&["wecom", "crm-2"], &["WeCom"]);
    }

    #[test]
    fn skills_are_of_any_script_and_in_small_letters() {
        for (text, kept) in [
            ("lang:EN", "lang:en"),
            ("普通话", "普通话"),
            ("_v.1-x", "_v.1-x"),
        ] {
            assert_eq!(Skill::read(text).unwrap().as_str(), kept);
        }
        let long = "a".repeat(65);
        for text in [
            "", " ", "a b", " a", "a\n", "a,b", "{a}", "a/b", "a\u{1a}b", &long,
        ] {
            assert!(Skill::read(text).is_none(), "{text:?}");
        }
    }
}
