//! The customer groups and join ways of a corp, and what is counted of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::admin::{GroupCounters, GroupState};
use crate::sync::{Lock, Shards};

use super::group::Group;
use super::join_way::JoinWay;

/// Lock order: a way, then a group or a person. Never two groups at once.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub(crate) by_id: Shards<Arc<str>, Group>,
    /// chat_id by rank.
    pub(crate) order: Lock<BTreeMap<u64, Arc<str>>>,
    pub(crate) ways: Shards<Arc<str>, JoinWay>,
    /// config_id by rank.
    pub(crate) way_order: Lock<BTreeMap<u64, Arc<str>>>,
    /// The latest way of each State.
    pub(crate) way_states: Lock<HashMap<String, Arc<str>>>,
    /// By the old owner's key: a day, and how many of his groups were moved in it.
    pub(crate) moves: Lock<HashMap<Arc<str>, (i64, u64)>>,
    pub(crate) totals: GroupTotals,
}

#[derive(Debug, Default)]
pub(crate) struct GroupTotals {
    pub(crate) rooms_opened: AtomicU64,
    pub(crate) scanned_in: AtomicU64,
    pub(crate) invited: AtomicU64,
    pub(crate) refused_full: AtomicU64,
    pub(crate) left: AtomicU64,
    pub(crate) moves_accepted: AtomicU64,
    pub(crate) moves_ignored: AtomicU64,
}

pub(crate) fn add(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Ordering::Relaxed);
}

impl Groups {
    /// All ids, oldest first.
    pub(crate) fn ids(&self) -> Vec<Arc<str>> {
        self.order.lock().values().cloned().collect()
    }

    /// How many are in it; none when there is no such group.
    pub(crate) fn size(&self, chat_id: &str) -> Option<usize> {
        let part = self.by_id.part(chat_id);
        let book = part.get(chat_id)?.now();
        (!book.dismissed).then_some(book.people.len())
    }

    pub(crate) fn insert(&self, group: Group) {
        self.order
            .lock()
            .insert(group.rank, Arc::clone(&group.chat_id));
        let mut part = self.by_id.part(&*group.chat_id);
        part.insert(Arc::clone(&group.chat_id), group);
    }

    pub(crate) fn counters(&self) -> GroupCounters {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let totals = &self.totals;
        let mut counters = GroupCounters {
            rooms_opened: load(&totals.rooms_opened),
            scanned_in: load(&totals.scanned_in),
            invited: load(&totals.invited),
            refused_full: load(&totals.refused_full),
            left: load(&totals.left),
            moves_accepted: load(&totals.moves_accepted),
            moves_ignored: load(&totals.moves_ignored),
            join_ways: self.way_order.lock().len() as u64,
            ..GroupCounters::default()
        };
        self.by_id.for_each(|_, group| {
            let people = &group.now().people;
            if group.now().dismissed {
                counters.dismissed += 1;
            } else {
                counters.groups += 1;
            }
            counters.people += people.iter().filter(|person| !person.employee).count() as u64;
            counters.largest = counters.largest.max(people.len() as u64);
        });
        counters
    }

    /// All groups, oldest first.
    pub(crate) fn state(&self, with_members: bool) -> Vec<GroupState> {
        let ids = self.ids();
        let state = |id: &Arc<str>| Some(self.by_id.part(&**id).get(id)?.state(with_members));
        ids.iter().filter_map(state).collect()
    }

    /// All join ways, oldest first.
    pub(crate) fn ways_state(&self) -> Vec<serde_json::Value> {
        let ids: Vec<Arc<str>> = self.way_order.lock().values().cloned().collect();
        let shown = |id: &Arc<str>| Some(self.ways.part(&**id).get(id)?.shown(None));
        ids.iter().filter_map(shown).collect()
    }
}
