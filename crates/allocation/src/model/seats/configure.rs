//! Making pools and groups what their configuration says.

use std::collections::BTreeMap;

use super::group::{Group, GroupPool, Person};
use super::{Call, Seat};
use crate::seats::{
    ChatId, EndedSeat, GroupChange, GroupPoolChange, GroupPoolId, MAX_GROUPS, SetGroup,
    SetGroupPool,
};

impl Call<'_> {
    pub(super) fn set_pool(&mut self, set: &SetGroupPool) -> GroupPoolChange {
        let (id, version) = (&set.pool, set.version);
        let Some(pool) = self.seats.pools.get_mut(id) else {
            if let Some(removed) = self.seats.removed_pools.get(id)
                && version <= *removed
            {
                return GroupPoolChange::Stale { version: *removed };
            }
            self.seats.removed_pools.remove(id);
            let pool = GroupPool {
                version,
                strategy: set.strategy,
                free: 0,
            };
            self.seats.pools.insert(id.clone(), pool);
            return GroupPoolChange::Changed;
        };
        let same = pool.strategy == set.strategy;
        if version < pool.version || version == pool.version && !same {
            let version = pool.version;
            return GroupPoolChange::Stale { version };
        }
        pool.version = version;
        if same {
            return GroupPoolChange::Same;
        }
        let groups = self.seats.of_pool.get(id).cloned().unwrap_or_default();
        let lifted: Vec<(ChatId, u32)> = groups
            .into_iter()
            .map(|chat| {
                let before = self.lift(&chat);
                (chat, before)
            })
            .collect();
        if let Some(pool) = self.seats.pools.get_mut(id) {
            pool.strategy = set.strategy;
        }
        for (chat, before) in lifted {
            self.put(&chat, before);
        }
        GroupPoolChange::Changed
    }

    /// A pool goes when no group is in it any more; who waits for it waits for one of that name to come, or until his time is
    /// over.
    pub(super) fn remove_pool(&mut self, id: &GroupPoolId, version: u64) -> GroupPoolChange {
        let Some(pool) = self.seats.pools.get(id) else {
            return GroupPoolChange::Unknown;
        };
        if version < pool.version {
            return GroupPoolChange::Stale {
                version: pool.version,
            };
        }
        if self.seats.of_pool.contains_key(id) {
            return GroupPoolChange::InUse;
        }
        self.seats.pools.remove(id);
        self.seats.removed_pools.insert(id.clone(), version);
        GroupPoolChange::Changed
    }

    /// A group that goes from one pool to another takes its people and holds along.
    pub(super) fn set_group(&mut self, set: &SetGroup) -> GroupChange {
        let (chat, version, content) = (&set.chat, set.version, &set.content);
        let stored = self.seats.groups.get(chat);
        let known = stored.map(|group| (group.version, Some(&group.content)));
        let removed = self.seats.removed_groups.get(chat);
        let known = known.or(removed.map(|version| (*version, None)));
        let same = known.is_some_and(|(_, known)| known == Some(content));
        if let Some((known, _)) = known
            && (version < known || version == known && !same)
        {
            return GroupChange::Stale { version: known };
        }
        if same {
            if let Some(group) = self.seats.groups.get_mut(chat) {
                group.version = version;
            }
            return GroupChange::Same;
        }
        if !self.seats.pools.contains_key(&content.pool) {
            return GroupChange::NoPool;
        }
        let from = stored.map(|group| group.content.pool.clone());
        let n_groups = self.seats.of_pool.get(&content.pool);
        let n_groups = n_groups.map_or(0, |groups| groups.len());
        if from.as_ref() != Some(&content.pool) && n_groups >= MAX_GROUPS {
            return GroupChange::Full;
        }
        if let Some(from) = from {
            self.leave(chat, &from);
        }
        let new = Group {
            version,
            content: content.clone(),
            seen: None,
            people: BTreeMap::new(),
            n_held: 0,
            picked: 0,
        };
        let groups = &mut self.seats.groups;
        let group = groups.entry(chat.clone()).or_insert(new);
        group.version = version;
        group.content = content.clone();
        self.seats.removed_groups.remove(chat);
        let of_pool = self.seats.of_pool.entry(content.pool.clone()).or_default();
        of_pool.insert(chat.clone());
        self.put(chat, 0);
        GroupChange::Changed
    }

    /// The group is in no order of its pool, and not of it any more.
    fn leave(&mut self, chat: &ChatId, pool: &GroupPoolId) {
        let before = self.lift(chat);
        if let Some(pool) = self.seats.pools.get_mut(pool) {
            pool.free -= u64::from(before);
        }
        super::take_out(&mut self.seats.of_pool, pool.clone(), chat);
    }

    /// Whoever was shown it, or is in it with a seat, has none any more and may ask for another one. Memories stay: nobody can
    /// tell them from those of other groups, and they end by themselves.
    pub(super) fn remove_group(
        &mut self,
        chat: &ChatId,
        version: u64,
    ) -> (GroupChange, Vec<EndedSeat>) {
        let mut ended = Vec::new();
        let Some(group) = self.seats.groups.get(chat) else {
            return (GroupChange::Unknown, ended);
        };
        if version < group.version {
            let version = group.version;
            return (GroupChange::Stale { version }, ended);
        }
        let pool = group.content.pool.clone();
        self.leave(chat, &pool);
        let held = self.seats.held.get(chat).cloned().unwrap_or_default();
        for (_, name) in held {
            if let Some(Seat::Held(held)) = self.seats.seats.remove(&name) {
                self.unhold(&name, &held, true);
                ended.push(Seat::Held(held).ended(&name));
            }
        }
        let group = self.seats.groups.remove(chat);
        for person in group.into_iter().flat_map(|group| group.people) {
            if let (_, Person::Seated(name)) = person
                && let Some(seat) = self.seats.seats.remove(&name)
            {
                ended.push(seat.ended(&name));
            }
        }
        self.seats.removed_groups.insert(chat.clone(), version);
        (GroupChange::Changed, ended)
    }
}
