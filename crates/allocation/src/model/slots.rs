//! What a hold has besides its allocation: an end, and a slot of its member; and what is remembered of it afterwards.

use std::collections::{BTreeMap, BTreeSet};

use super::{Call, Open};
use crate::VISIT_MEMORY_MS;
use crate::id::{AllocationId, ChannelId, MemberId, PoolId, SlotId, SubjectKey};
use crate::visit::{SetSlots, SlotsChange};

/// What a visit has for a time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Hold {
    pub(super) until_ms: u64,
    pub(super) channel: ChannelId,
    /// None: he waits, or no slot was free.
    pub(super) slot: Option<SlotId>,
    pub(super) hold_ms: u64,
    pub(super) rest_ms: u64,
}

/// What became of a visitor's last hold in a pool.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Past {
    pub(super) pool: PoolId,
    pub(super) kind: PastKind,
    pub(super) allocation: AllocationId,
    pub(super) member: MemberId,
    /// Forgotten then.
    pub(super) until_ms: u64,
    /// The channel that counted it.
    pub(super) through: Option<ChannelId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PastKind {
    /// Its time was over; he may still add the member.
    Lapsed,
    /// He has added the member.
    Met,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Slot {
    pub(super) channel: ChannelId,
    pub(super) member: MemberId,
    pub(super) state: SlotState,
    /// The visitor and pool it was lent for last.
    pub(super) last: Option<(SubjectKey, PoolId)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotState {
    Free,
    Lent,
    /// Lent, and gone when it comes back.
    Leaving,
}

/// Slots and memories of a corp.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Slots {
    /// Ends of holds and memories with their names, in the order of Redis.
    pub(super) ends: BTreeSet<(u64, String)>,
    pub(super) pasts: BTreeMap<SubjectKey, Vec<Past>>,
    pub(super) slots: BTreeMap<SlotId, Slot>,
    /// Those that rest or are free, by the time since which they are.
    pub(super) free: BTreeMap<(ChannelId, MemberId), BTreeSet<(u64, SlotId)>>,
    /// Holds without a slot, in the order in which they began.
    pub(super) untold: BTreeMap<(ChannelId, MemberId), BTreeMap<u64, (SubjectKey, PoolId)>>,
}

pub(super) fn hold_name(subject: &SubjectKey, pool: &PoolId) -> String {
    format!("h{subject}\u{1f}{pool}")
}

pub(super) fn past_name(subject: &SubjectKey, pool: &PoolId) -> String {
    format!("p{subject}\u{1f}{pool}")
}

/// Whose end it is.
pub(super) fn read_name(name: &str) -> (SubjectKey, PoolId) {
    let (subject, pool) = name[1..].split_once('\u{1f}').expect("a name of ours");
    let subject = subject.parse().expect("a name of ours");
    (subject, pool.parse().expect("a name of ours"))
}

impl Slots {
    fn give_back(&mut self, id: &SlotId, now_ms: u64) {
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        if slot.state == SlotState::Leaving {
            self.slots.remove(id);
            return;
        }
        slot.state = SlotState::Free;
        let key = (slot.channel.clone(), slot.member.clone());
        let free = self.free.entry(key).or_default();
        free.insert((now_ms, id.clone()));
    }

    fn take_free(&mut self, key: &(ChannelId, MemberId), entry: &(u64, SlotId)) {
        if let Some(free) = self.free.get_mut(key) {
            free.remove(entry);
            if free.is_empty() {
                self.free.remove(key);
            }
        }
    }

    /// What is remembered of the visitor in a pool, if it is not over.
    pub(super) fn past(&self, subject: &SubjectKey, pool: &PoolId, now_ms: u64) -> Option<&Past> {
        let list = self.pasts.get(subject)?;
        list.iter()
            .find(|past| past.pool == *pool && past.until_ms > now_ms)
    }

    pub(super) fn forget(&mut self, subject: &SubjectKey, pool: &PoolId) {
        let Some(list) = self.pasts.get_mut(subject) else {
            return;
        };
        if let Some(at) = list.iter().position(|past| past.pool == *pool) {
            let past = list.remove(at);
            self.ends.remove(&(past.until_ms, past_name(subject, pool)));
        }
        if list.is_empty() {
            self.pasts.remove(subject);
        }
    }
}

impl Call<'_> {
    /// The member is held for the visitor from now on, with the slot of his that rested longest.
    pub(super) fn begin_hold(&mut self, subject: &SubjectKey, open: &mut Open) {
        let (Some(hold), Some(member)) = (&mut open.hold, &open.member) else {
            return;
        };
        let key = (hold.channel.clone(), member.clone());
        let slots = &mut self.corp.slots;
        let first = slots.free.get(&key).and_then(|free| free.first()).cloned();
        match first.filter(|(since_ms, _)| since_ms + hold.rest_ms <= self.now_ms) {
            Some(entry) => {
                slots.take_free(&key, &entry);
                let slot = slots.slots.get_mut(&entry.1).expect("a free slot");
                slot.state = SlotState::Lent;
                slot.last = Some((*subject, open.pool.clone()));
                hold.slot = Some(entry.1);
            }
            None => {
                let turn = self.corp.turn();
                let untold = self.corp.slots.untold.entry(key).or_default();
                untold.insert(turn, (*subject, open.pool.clone()));
            }
        }
        hold.until_ms = self.now_ms + hold.hold_ms;
        let name = hold_name(subject, &open.pool);
        self.corp.slots.ends.insert((hold.until_ms, name));
    }

    /// What the hold had besides its allocation is free.
    pub(super) fn end_hold(&mut self, subject: &SubjectKey, open: &Open) {
        let Some(hold) = &open.hold else {
            return;
        };
        let slots = &mut self.corp.slots;
        let name = hold_name(subject, &open.pool);
        slots.ends.remove(&(hold.until_ms, name));
        let Some(member) = &open.member else {
            return;
        };
        if let Some(slot) = &hold.slot {
            slots.give_back(slot, self.now_ms);
            return;
        }
        let key = (hold.channel.clone(), member.clone());
        if let Some(untold) = slots.untold.get_mut(&key) {
            let whose = (*subject, open.pool.clone());
            untold.retain(|_, other| *other != whose);
            if untold.is_empty() {
                slots.untold.remove(&key);
            }
        }
    }

    /// Remembers what became of a visitor's hold.
    pub(super) fn remember_past(
        &mut self,
        subject: &SubjectKey,
        pool: &PoolId,
        kind: PastKind,
        allocation: AllocationId,
        member: MemberId,
        through: Option<ChannelId>,
    ) {
        let slots = &mut self.corp.slots;
        slots.forget(subject, pool);
        let until_ms = self.now_ms + VISIT_MEMORY_MS;
        slots.ends.insert((until_ms, past_name(subject, pool)));
        slots.pasts.entry(*subject).or_default().push(Past {
            pool: pool.clone(),
            kind,
            allocation,
            member,
            until_ms,
            through,
        });
    }

    pub(super) fn set_slots(&mut self, change: &SetSlots) -> SlotsChange {
        let slots = &mut self.corp.slots;
        let key = (change.channel.clone(), change.member.clone());
        let (mut added, mut removed) = (0, 0);
        for (id, since_ms) in &change.add {
            match slots.slots.get_mut(id) {
                Some(slot) if slot.state == SlotState::Leaving => slot.state = SlotState::Lent,
                Some(_) => continue,
                None => {
                    let slot = Slot {
                        channel: change.channel.clone(),
                        member: change.member.clone(),
                        state: SlotState::Free,
                        last: None,
                    };
                    slots.slots.insert(id.clone(), slot);
                    let free = slots.free.entry(key.clone()).or_default();
                    free.insert((*since_ms, id.clone()));
                }
            }
            added += 1;
        }
        for id in &change.remove {
            let Some(slot) = slots.slots.get_mut(id) else {
                continue;
            };
            match slot.state {
                SlotState::Leaving => continue,
                SlotState::Lent => slot.state = SlotState::Leaving,
                SlotState::Free => {
                    let key = (slot.channel.clone(), slot.member.clone());
                    let since = slots.free.get(&key).and_then(|free| {
                        let entry = free.iter().find(|(_, free)| free == id);
                        entry.cloned()
                    });
                    slots.slots.remove(id);
                    if let Some(entry) = since {
                        slots.take_free(&key, &entry);
                    }
                }
            }
            removed += 1;
        }
        SlotsChange { added, removed }
    }
}
