//! The waiting room: a queue for each pool and wish, oldest first.

use std::collections::BTreeMap;

use super::{Call, Seat, Seats, Waiter};
use crate::seats::{GroupPoolId, GroupTags, SeatName, WokenSeat};

/// What one waits for; those who wait for the same stand in one queue.
pub(super) type Wanted = (GroupPoolId, GroupTags);

/// Turns of one part of a queue: a place is counted in parts, because fifty thousand may wait and ask every few seconds where
/// they stand.
const PART: u64 = 256;

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Queue {
    parts: BTreeMap<u64, BTreeMap<u64, SeatName>>,
    len: usize,
}

impl Queue {
    pub(super) fn add(&mut self, turn: u64, name: SeatName) {
        let part = self.parts.entry(turn / PART).or_default();
        if part.insert(turn, name).is_none() {
            self.len += 1;
        }
    }

    pub(super) fn remove(&mut self, turn: u64) {
        let key = turn / PART;
        if let Some(part) = self.parts.get_mut(&key) {
            self.len -= usize::from(part.remove(&turn).is_some());
            if part.is_empty() {
                self.parts.remove(&key);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn first(&self) -> Option<(u64, &SeatName)> {
        let (_, part) = self.parts.first_key_value()?;
        let (turn, name) = part.first_key_value()?;
        Some((*turn, name))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &SeatName)> {
        let parts = self.parts.values().flatten();
        parts.map(|(turn, name)| (*turn, name))
    }

    /// Counted from 1.
    pub(super) fn position(&self, turn: u64) -> u32 {
        let key = turn / PART;
        let before = self.parts.range(..key).map(|(_, part)| part.len());
        let part = self.parts.get(&key);
        let within = part.map_or(0, |part| part.range(..=turn).count());
        u32::try_from(before.sum::<usize>() + within).unwrap_or(u32::MAX)
    }
}

impl Seats {
    pub(super) fn queues_of<'a>(
        &'a self,
        pool: &'a GroupPoolId,
    ) -> impl Iterator<Item = (&'a Wanted, &'a Queue)> {
        let from = self.queues.range((pool.clone(), GroupTags::least())..);
        from.take_while(move |((of, _), _)| of == pool)
    }

    pub(super) fn n_waiting(&self, pool: &GroupPoolId) -> usize {
        self.queues_of(pool).map(|(_, queue)| queue.len()).sum()
    }
}

impl Call<'_> {
    pub(super) fn has_waiting(&self, pool: &GroupPoolId) -> bool {
        self.seats.queues_of(pool).next().is_some()
    }

    /// Of the queues that a free group is right for the one whose first has waited longest.
    fn next_queue(&self, pool: &GroupPoolId) -> Option<Wanted> {
        let queues = self.seats.queues_of(pool);
        let served = queues.filter(|((_, tags), _)| self.seats.choose(pool, tags).is_some());
        let turns = served.filter_map(|(wanted, queue)| Some((queue.first()?.0, wanted)));
        let (_, wanted) = turns.min_by_key(|(turn, _)| *turn)?;
        Some(wanted.clone())
    }

    /// Somebody waits for whom there is a seat: who comes now may not overtake him.
    pub(super) fn can_wake(&self, pool: &GroupPoolId) -> bool {
        self.next_queue(pool).is_some()
    }

    /// Gives free seats of the touched pools to those who wait.
    pub(super) fn wake(&mut self) {
        for pool in self.touched.clone() {
            while let Some(wanted) = self.next_queue(&pool) {
                if !self.serve_first(&wanted) {
                    return;
                }
            }
        }
    }

    /// The first of a queue gets a seat, or goes if his time is over. False: this call did enough.
    fn serve_first(&mut self, wanted: &Wanted) -> bool {
        let (_, name) = self.seats.queues[wanted].first().expect("somebody waits");
        let name = name.clone();
        let Some(Seat::Waiting(waiter)) = self.seats.seats.get(&name).cloned() else {
            unreachable!("he waits");
        };
        let is_over = waiter.until_ms <= self.now_ms;
        let left = if is_over {
            &mut self.lapses_left
        } else {
            &mut self.wake_left
        };
        if *left == 0 {
            return false;
        }
        *left -= 1;
        self.stop_waiting(&name, &waiter);
        if is_over {
            let ended = Seat::Waiting(waiter).ended(&name);
            self.seats.seats.remove(&name);
            self.lapsed.push(ended);
            return true;
        }
        let (pool, tags) = wanted;
        let chat = self.seats.choose(pool, tags).expect("a free group");
        let (campaign, subject) = (name.campaign.clone(), name.subject);
        let shown = (waiter.anonymous, waiter.via);
        let until_ms = self.hold(name, waiter.seat, chat.clone(), shown, waiter.hold_ms);
        self.woken.push(WokenSeat {
            seat: waiter.seat,
            campaign,
            subject,
            chat,
            until_ms,
        });
        true
    }

    /// Stands in his queue from now on, with the turn that he has.
    pub(super) fn wait(&mut self, name: SeatName, waiter: Waiter) {
        let queue = self.seats.queues.entry(waiter.wanted.clone()).or_default();
        queue.add(waiter.turn, name.clone());
        let end = (waiter.until_ms, name.to_string());
        self.seats.pasts.insert(end);
        self.seats.seats.insert(name, Seat::Waiting(waiter));
    }

    /// He leaves the queue; what becomes of his record is the caller's.
    pub(super) fn stop_waiting(&mut self, name: &SeatName, waiter: &Waiter) {
        let end = (waiter.until_ms, name.to_string());
        self.seats.pasts.remove(&end);
        if let Some(queue) = self.seats.queues.get_mut(&waiter.wanted) {
            queue.remove(waiter.turn);
            if queue.len() == 0 {
                self.seats.queues.remove(&waiter.wanted);
            }
        }
    }

    pub(super) fn position(&self, waiter: &Waiter) -> u32 {
        self.seats.queues[&waiter.wanted].position(waiter.turn)
    }

    /// Ends waiting places and memories whose time is over. Answers how many.
    pub(super) fn forget(&mut self, limit: u32) -> u32 {
        let due = self.seats.pasts.iter();
        let due = due.take_while(|(end, _)| *end <= self.now_ms);
        let due: Vec<_> = due.take(limit as usize).cloned().collect();
        for (end, text) in &due {
            let name: SeatName = text.parse().expect("the name of a seat");
            match self.seats.seats.remove(&name) {
                Some(Seat::Waiting(waiter)) => {
                    self.stop_waiting(&name, &waiter);
                    self.lapsed.push(Seat::Waiting(waiter).ended(&name));
                }
                _ => {
                    self.seats.pasts.remove(&(*end, text.clone()));
                }
            }
        }
        u32::try_from(due.len()).unwrap_or(u32::MAX)
    }
}
