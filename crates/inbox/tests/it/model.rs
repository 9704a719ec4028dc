//! Every operation once more as a pure function: the oracle of the random tests. An entry is known by the order
//! in which it was stored; the ids that Redis gave are told to the model, because ties are broken by them.

use std::collections::{BTreeMap, BTreeSet};

use inbox::{Appended, EntryId, Failed, Group, Replayed};

/// What a reader gets: order of storage, text, tries, read before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handed {
    pub(crate) order: usize,
    pub(crate) text: String,
    pub(crate) tries: u32,
    pub(crate) again: bool,
}

#[derive(Clone, Debug)]
struct Entry {
    text: String,
    only: Option<Group>,
}

#[derive(Debug, Default)]
struct Readers {
    exists: bool,
    /// The first entry the group was never given.
    next: usize,
    pending: BTreeSet<usize>,
    /// Not before, and tries.
    retry: BTreeMap<usize, (u64, u32)>,
    /// Of each consumer: where its next claim goes on.
    cursors: BTreeMap<usize, usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Letter {
    pub(crate) group: Group,
    pub(crate) text: String,
    pub(crate) tries: u32,
    pub(crate) failed_ms: u64,
}

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) max_length: usize,
    pub(crate) max_tries: u32,
    pub(crate) first_pause_ms: u64,
    pub(crate) longest_pause_ms: u64,
    pub(crate) dirty_delay_ms: u64,
    stream: BTreeMap<usize, Entry>,
    stored: usize,
    ids: BTreeMap<usize, EntryId>,
    seen: BTreeSet<String>,
    readers: [Readers; 2],
    pub(crate) dead: Vec<Letter>,
    pub(crate) lost: u64,
    pub(crate) groups_created: u64,
    dirty: BTreeMap<String, u64>,
    taken: BTreeMap<String, u64>,
}

impl Model {
    pub(crate) fn new(config: &inbox::Config) -> Model {
        Model {
            max_length: config.max_length as usize,
            max_tries: config.max_tries,
            first_pause_ms: config.first_pause_ms,
            longest_pause_ms: config.longest_pause_ms,
            dirty_delay_ms: config.dirty_delay_ms,
            stream: BTreeMap::new(),
            stored: 0,
            ids: BTreeMap::new(),
            seen: BTreeSet::new(),
            readers: Default::default(),
            dead: Vec::new(),
            lost: 0,
            groups_created: 0,
            dirty: BTreeMap::new(),
            taken: BTreeMap::new(),
        }
    }

    pub(crate) fn append(&mut self, text: &str, received_ms: u64, dirty: Option<&str>) -> Appended {
        if self.seen.contains(text) {
            if let Some(entity) = dirty {
                self.dirty_mark(entity, received_ms + self.dirty_delay_ms);
            }
            return Appended::Duplicate;
        }
        if self.stream.len() >= self.max_length {
            return Appended::Full;
        }
        self.seen.insert(text.to_owned());
        self.store(text, None);
        Appended::New
    }

    fn store(&mut self, text: &str, only: Option<Group>) {
        let entry = Entry {
            text: text.to_owned(),
            only,
        };
        self.stream.insert(self.stored, entry);
        self.stored += 1;
    }

    pub(crate) fn tell_id(&mut self, order: usize, id: EntryId) {
        self.ids.insert(order, id);
    }

    pub(crate) fn next(
        &mut self,
        group: Group,
        consumer: usize,
        max: usize,
        now_ms: u64,
    ) -> Vec<Handed> {
        let readers = &mut self.readers[group as usize];
        if !readers.exists {
            self.groups_created += 1;
            readers.exists = true;
            readers.next = 0;
            // The other consumers do not know yet, and go on where they were.
            readers.cursors.remove(&consumer);
        }
        let claimed = self.claim(group, consumer, max, now_ms);
        let handed = self.ours(group, claimed, true);
        if !handed.is_empty() {
            return handed;
        }
        let readers = &mut self.readers[group as usize];
        let fresh: Vec<_> = self
            .stream
            .range(readers.next..)
            .take(max)
            .map(|(order, _)| (*order, 0))
            .collect();
        if let Some((last, _)) = fresh.last() {
            readers.next = last + 1;
        }
        readers.pending.extend(fresh.iter().map(|(order, _)| order));
        self.ours(group, fresh, false)
    }

    fn claim(
        &mut self,
        group: Group,
        consumer: usize,
        max: usize,
        now_ms: u64,
    ) -> Vec<(usize, u32)> {
        let readers = &mut self.readers[group as usize];
        let mut due: Vec<_> = readers
            .retry
            .iter()
            .filter(|(_, (not_before, _))| *not_before <= now_ms)
            .map(|(order, (not_before, tries))| {
                let id = self.ids[order];
                (*not_before, *tries, id.to_string(), *order)
            })
            .collect();
        due.sort();
        let mut claimed = Vec::new();
        for (_, tries, _, order) in due.into_iter().take(max) {
            let there = self.stream.contains_key(&order);
            if there && readers.pending.contains(&order) {
                // Entries count as those of dead consumers at once here, so it is due again now.
                readers.retry.insert(order, (now_ms, tries));
                claimed.push((order, tries));
            } else {
                readers.retry.remove(&order);
                readers.pending.remove(&order);
                self.lost += u64::from(!there);
            }
        }
        if claimed.len() < max {
            let from = readers.cursors.get(&consumer).copied().unwrap_or_default();
            let mut left = max - claimed.len();
            let mut cursor = 0;
            for order in readers.pending.range(from..).copied().collect::<Vec<_>>() {
                if left == 0 {
                    cursor = order;
                    break;
                }
                // Redis counts the deleted ones too.
                left -= 1;
                if !self.stream.contains_key(&order) {
                    readers.pending.remove(&order);
                    readers.retry.remove(&order);
                    self.lost += 1;
                    continue;
                }
                if !readers.retry.contains_key(&order) {
                    claimed.push((order, 0));
                }
            }
            readers.cursors.insert(consumer, cursor);
        }
        claimed
    }

    fn ours(&mut self, group: Group, claimed: Vec<(usize, u32)>, again: bool) -> Vec<Handed> {
        let mut handed = Vec::new();
        for (order, tries) in claimed {
            let entry = &self.stream[&order];
            if entry.only.is_some_and(|only| only != group) {
                self.ack(group, order);
                continue;
            }
            handed.push(Handed {
                order,
                text: entry.text.clone(),
                tries,
                again,
            });
        }
        handed
    }

    pub(crate) fn ack(&mut self, group: Group, order: usize) -> u64 {
        let readers = &mut self.readers[group as usize];
        readers.retry.remove(&order);
        u64::from(readers.exists && readers.pending.remove(&order))
    }

    pub(crate) fn fail(&mut self, group: Group, order: usize, now_ms: u64) -> Failed {
        let readers = &mut self.readers[group as usize];
        let tries = readers.retry.get(&order).map_or(0, |(_, tries)| *tries) + 1;
        let failed = if !readers.pending.contains(&order) {
            Failed::Gone
        } else if !self.stream.contains_key(&order) {
            self.lost += 1;
            Failed::Lost
        } else if tries >= self.max_tries {
            self.dead.push(Letter {
                group,
                text: self.stream[&order].text.clone(),
                tries,
                failed_ms: now_ms,
            });
            Failed::Dead
        } else {
            let pause = self.first_pause_ms * 5_u64.pow(tries - 1);
            let not_before = now_ms + pause.min(self.longest_pause_ms);
            readers.retry.insert(order, (not_before, tries));
            return Failed::Waits;
        };
        self.ack(group, order);
        failed
    }

    pub(crate) fn trim(&mut self) -> u64 {
        let mut from = usize::MAX;
        for readers in &self.readers {
            if !readers.exists {
                return 0;
            }
            from = from.min(readers.pending.first().copied().unwrap_or(readers.next));
        }
        let kept = self.stream.split_off(&from);
        std::mem::replace(&mut self.stream, kept).len() as u64
    }

    pub(crate) fn dead_replay(&mut self, range: std::ops::Range<usize>, dry_run: bool) -> Replayed {
        let matched = range.len() as u64;
        if dry_run {
            return Replayed {
                matched,
                replayed: 0,
            };
        }
        for letter in self.dead.drain(range).collect::<Vec<_>>() {
            self.store(&letter.text, Some(letter.group));
        }
        Replayed {
            matched,
            replayed: matched,
        }
    }

    /// Somebody deletes an entry behind our back.
    pub(crate) fn delete(&mut self, order: usize) {
        self.stream.remove(&order);
    }

    /// Somebody destroys a group behind our back.
    pub(crate) fn destroy(&mut self, group: Group) {
        let readers = &mut self.readers[group as usize];
        readers.exists = false;
        readers.pending.clear();
    }

    pub(crate) fn dirty_mark(&mut self, entity: &str, due_ms: u64) {
        let due = self.dirty.entry(entity.to_owned()).or_insert(due_ms);
        *due = (*due).min(due_ms);
    }

    pub(crate) fn dirty_take(&mut self, now_ms: u64, count: usize, lease_ms: u64) -> Vec<String> {
        let mut over: Vec<_> = self
            .taken
            .iter()
            .filter(|(_, until)| **until <= now_ms)
            .map(|(entity, until)| (*until, entity.clone()))
            .collect();
        over.sort();
        for (until, entity) in over.into_iter().take(count) {
            self.taken.remove(&entity);
            self.dirty_mark(&entity, until);
        }
        let mut due: Vec<_> = self
            .dirty
            .iter()
            .filter(|(entity, due)| **due <= now_ms && !self.taken.contains_key(*entity))
            .map(|(entity, due)| (*due, entity.clone()))
            .collect();
        due.sort();
        let taken: Vec<_> = due
            .into_iter()
            .take(count)
            .map(|(_, entity)| entity)
            .collect();
        for entity in &taken {
            self.dirty.remove(entity);
            self.taken.insert(entity.clone(), now_ms + lease_ms);
        }
        taken
    }

    pub(crate) fn dirty_done(&mut self, entity: &str, lease: u64, again_ms: Option<u64>) -> u64 {
        if self.taken.get(entity) != Some(&lease) {
            return 0;
        }
        self.taken.remove(entity);
        if let Some(again_ms) = again_ms {
            self.dirty_mark(entity, again_ms);
        }
        1
    }

    pub(crate) fn dirty_counts(&self) -> (u64, u64) {
        (self.dirty.len() as u64, self.taken.len() as u64)
    }

    pub(crate) fn length(&self) -> u64 {
        self.stream.len() as u64
    }

    pub(crate) fn orders(&self) -> Vec<usize> {
        self.stream.keys().copied().collect()
    }

    pub(crate) fn pending(&self, group: Group) -> u64 {
        self.readers[group as usize].pending.len() as u64
    }
}
