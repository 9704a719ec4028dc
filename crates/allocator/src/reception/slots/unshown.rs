//! Members of whom nothing could be shown to the last visitor: all their slots are lent, and they have no plain way. For some
//! seconds the visits of this process pass over them, if somebody else of the channel could be shown of late, or has a plain way.
//!
//! Only Redis knows which slots are free, and only when one is asked for; so this is a guess, and a short one. It ends at once
//! when the member has a plain way or a new slot here, or somebody was given one of his.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use allocation::{ChannelId, MemberId};

use super::Ways;

/// How long nobody new is given to a member, one visitor apart, who finds out whether a slot is free by now.
const PASS_MS: u64 = 15_000;
/// Whoever was shown so short a time ago can be shown.
const LATELY_MS: u64 = 60_000;
/// Of one channel at a time: each is left out of every pick.
const MOST: usize = 64;
/// Who was shown last: two, as one of them may be he who cannot be any more.
const SHOWN: usize = 2;

/// By channel.
#[derive(Debug, Default)]
pub struct Unshown(Mutex<HashMap<ChannelId, Seen>>);

#[derive(Debug, Default)]
struct Seen {
    /// The last ones first, each with the time.
    shown: Vec<(MemberId, u64)>,
    /// Each with the end of being passed over.
    none: Vec<(MemberId, u64)>,
}

impl Unshown {
    /// There is a code of his.
    pub fn shown(&self, channel: &ChannelId, member: &MemberId, now_ms: u64) {
        let mut all = self.lock();
        let seen = match all.get_mut(channel) {
            Some(seen) => seen,
            None => all.entry(channel.clone()).or_default(),
        };
        match seen.shown.iter().position(|(one, _)| one == member) {
            Some(at) => seen.shown[at].1 = now_ms,
            None => {
                seen.shown.truncate(SHOWN - 1);
                seen.shown.push((member.clone(), now_ms));
            }
        }
        seen.shown
            .sort_by_key(|(_, at_ms)| std::cmp::Reverse(*at_ms));
        seen.none.retain(|(one, _)| one != member);
    }

    /// Nothing of him could be shown. True: from now on he is passed over, and was not before.
    pub fn not_shown(
        &self,
        channel: &ChannelId,
        member: &MemberId,
        ways: &Ways,
        now_ms: u64,
    ) -> bool {
        let mut all = self.lock();
        let seen = all.entry(channel.clone()).or_default();
        seen.shown.retain(|(one, _)| one != member);
        seen.none.retain(|(_, until_ms)| *until_ms > now_ms);
        let is_known = seen.none.iter().any(|(one, _)| one == member);
        let others = |(_, at_ms): &(MemberId, u64)| now_ms < at_ms + LATELY_MS;
        let can_others = seen.shown.iter().any(others) || ways.has_plain_beside(channel, member);
        if is_known || seen.none.len() >= MOST || !can_others {
            return false;
        }
        seen.none.push((member.clone(), now_ms + PASS_MS));
        true
    }

    /// He has a slot that he had not.
    pub fn end(&self, channel: &ChannelId, member: &MemberId) {
        if let Some(seen) = self.lock().get_mut(channel) {
            seen.none.retain(|(one, _)| one != member);
        }
    }

    /// Whom the channel's visits pass over now.
    pub fn of(&self, channel: &ChannelId, ways: &Ways, now_ms: u64) -> Vec<MemberId> {
        let all = self.lock();
        let none = all.get(channel).map_or(&[][..], |seen| &seen.none);
        let lasts = |(member, until_ms): &&(MemberId, u64)| {
            *until_ms > now_ms && ways.plain(channel, member).is_none()
        };
        let none = none.iter().filter(lasts);
        none.map(|(member, _)| member.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ChannelId, Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str) -> MemberId {
        MemberId::new(name).unwrap()
    }

    struct Here {
        unshown: Unshown,
        ways: Ways,
        channel: ChannelId,
    }

    impl Here {
        fn new() -> Self {
            Self {
                unshown: Unshown::default(),
                ways: Ways::new(1),
                channel: ChannelId::new("c").unwrap(),
            }
        }

        fn shown(&self, name: &str, now_ms: u64) {
            self.unshown.shown(&self.channel, &member(name), now_ms);
        }

        fn not_shown(&self, name: &str, now_ms: u64) -> bool {
            let (channel, member) = (&self.channel, member(name));
            self.unshown.not_shown(channel, &member, &self.ways, now_ms)
        }

        fn of(&self, now_ms: u64) -> Vec<String> {
            let members = self.unshown.of(&self.channel, &self.ways, now_ms);
            members.iter().map(MemberId::to_string).collect()
        }
    }

    #[test]
    fn nobody_is_passed_over_where_nobody_else_can_be_shown() {
        let here = Here::new();
        assert!(!here.not_shown("ma", 1));
        here.shown("ma", 1);
        assert!(!here.not_shown("ma", 2));
        assert_eq!(here.of(2), Vec::<String>::new());
        // Now he is, as another one was shown; that one is not, though nothing is left of him either.
        here.shown("mb", 3);
        assert!(here.not_shown("ma", 4));
        assert!(!here.not_shown("mb", 5));
        assert_eq!(here.of(5), ["ma"]);
        // Too long ago.
        here.shown("mb", 6);
        assert!(!here.not_shown("mc", 6 + LATELY_MS));
        // Of another channel nothing is said.
        let other = ChannelId::new("d").unwrap();
        let ma = member("ma");
        assert!(!here.unshown.not_shown(&other, &ma, &here.ways, 7));
    }

    #[test]
    fn it_ends_by_itself_and_when_he_can_be_shown() {
        let here = Here::new();
        here.shown("mb", 0);
        assert!(here.not_shown("ma", 0));
        assert_eq!(here.of(PASS_MS - 1), ["ma"]);
        assert_eq!(here.of(PASS_MS), Vec::<String>::new());
        assert!(here.not_shown("ma", PASS_MS), "anew");
        assert!(!here.not_shown("ma", PASS_MS + 1), "he is already");
        here.unshown.end(&here.channel, &member("ma"));
        assert_eq!(here.of(PASS_MS + 1), Vec::<String>::new());
        assert!(here.not_shown("ma", PASS_MS + 2));
        here.shown("ma", PASS_MS + 3);
        assert_eq!(here.of(PASS_MS + 3), Vec::<String>::new());
    }

    #[test]
    fn only_so_many_are_passed_over() {
        let here = Here::new();
        here.shown("shown", 0);
        let passed = (0..2 * MOST).filter(|n| here.not_shown(&format!("m{n}"), 1));
        assert_eq!(passed.count(), MOST);
        assert_eq!(here.of(1).len(), MOST);
        // When their time is over there is room for others.
        assert!(here.not_shown("another", 1 + PASS_MS));
        assert_eq!(here.of(1 + PASS_MS), ["another"]);
    }
}
