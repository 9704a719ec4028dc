//! How many who come through a channel are given a member in an hour and on a day.
//!
//! A plan names the channel that it comes through. While that channel gave what it may, whoever came through it is passed
//! over, in all queues he stands in, and holds up nobody: his queues are those of his channel. It is counted once for each
//! subject, when it gets its first member, and not any more when that comes to nothing. A channel without limits is not
//! counted.

use std::collections::BTreeSet;

use super::windows::{Windows, ends};
use super::{Call, Corp, DAY_MS, Given, HOUR_MS, Open};
use crate::id::{ChannelId, PoolId};
use crate::limits::Limits;
use crate::op::SetChannel;
use crate::outcome::MemberChange;
use crate::plan::through;

impl Windows {
    fn roll(&mut self, now_ms: u64) {
        if now_ms < self.hour_end_ms {
            return;
        }
        self.hour_n = 0;
        if now_ms >= self.day_end_ms {
            self.day_n = 0;
        }
        (self.day_end_ms, self.hour_end_ms) = ends(now_ms, self.day_end_ms);
    }

    /// When it may give again, by a limit that is reached.
    fn full_until_ms(&self, now_ms: u64) -> Option<u64> {
        let hour = self.hour_is_full() && now_ms < self.hour_end_ms;
        let day = self.day_is_full() && now_ms < self.day_end_ms;
        match (hour, day) {
            (_, true) => Some(self.day_end_ms),
            (true, false) => Some(self.hour_end_ms),
            (false, false) => None,
        }
    }
}

impl Corp {
    /// What a channel with limits gave, as of the last operation about it.
    pub fn channel(&self, channel: &ChannelId) -> Option<Given> {
        let gate = self.gates.get(channel)?;
        Some(Given {
            in_hour: gate.hour_n,
            hour_end_ms: gate.hour_end_ms,
            on_day: gate.day_n,
            day_end_ms: gate.day_end_ms,
            told: gate.told,
            limits: Limits {
                at_a_time: None,
                per_hour: gate.per_hour,
                per_day: gate.per_day,
            },
        })
    }

    /// Until when nobody who came through the channel is given a member; None: he may be.
    pub fn channel_is_full_until_ms(&self, channel: &ChannelId, now_ms: u64) -> Option<u64> {
        self.gates.get(channel)?.full_until_ms(now_ms)
    }

    /// Of [`Corp::problems`].
    pub(super) fn problems_of_gates(&self) -> Vec<String> {
        let alarms = self.gates.iter().filter(|(_, gate)| gate.alarm_ms > 0);
        let alarms: BTreeSet<_> = alarms
            .map(|(channel, gate)| (gate.alarm_ms, channel.clone()))
            .collect();
        let wrong = self
            .gates
            .iter()
            .filter(|(_, gate)| gate.alarm() != gate.alarm_ms);
        let mut problems: Vec<String> = wrong
            .map(|(channel, _)| format!("the alarm of {channel} is wrong"))
            .collect();
        if alarms != self.gate_alarms {
            problems.push(format!("channels have alarms {alarms:?}, not these"));
        }
        problems
    }

    /// The pools, in order, in which somebody waits who came through the channel.
    fn gated(&self, channel: &ChannelId) -> Vec<PoolId> {
        let queues = self.queues.keys();
        let through = queues.filter(|(_, queue)| through(queue).as_ref() == Some(channel));
        through.map(|(pool, _)| pool.clone()).collect()
    }
}

impl Open {
    /// The channel that counts it.
    pub(super) fn counted_through(&self) -> Option<&ChannelId> {
        let route = self.route.as_ref()?;
        route.given_ms.and(route.plan.through())
    }
}

impl Call<'_> {
    /// The channel that limits this queue gave what it may.
    pub(super) fn gate_is_full(&self, queue: &str) -> bool {
        let gate = through(queue).and_then(|channel| self.corp.gates.get(&channel));
        gate.is_some_and(|gate| gate.full_until_ms(self.now_ms).is_some())
    }

    /// It has not been given, and its channel gave what it may until then.
    pub(super) fn held_back_until_ms(&self, open: &Open) -> Option<u64> {
        let route = open
            .route
            .as_ref()
            .filter(|route| route.given_ms.is_none())?;
        let gate = self.corp.gates.get(route.plan.through()?)?;
        gate.full_until_ms(self.now_ms)
    }

    /// The allocation has a member; it counts once, however often it moves.
    pub(super) fn pass_gate(&mut self, open: &mut Open) {
        let Some(route) = &mut open.route else {
            return;
        };
        if let (Some(channel), None) = (route.plan.through().cloned(), route.given_ms) {
            route.given_ms = Some(self.now_ms);
            self.count_through(&channel);
        }
    }

    /// Somebody who came through this channel has a member, whatever its limits say.
    pub(super) fn count_through(&mut self, channel: &ChannelId) {
        let now_ms = self.now_ms;
        if self.corp.gates.contains_key(channel) {
            self.change_gate(channel, |gate| {
                gate.roll(now_ms);
                gate.hour_n += 1;
                gate.day_n += 1;
            });
        }
    }

    /// It came to nothing: it is as if it had not been given.
    pub(super) fn unpass_gate(&mut self, open: &mut Open) {
        let Some(route) = &mut open.route else {
            return;
        };
        let (Some(channel), Some(given_ms)) =
            (route.plan.through().cloned(), route.given_ms.take())
        else {
            return;
        };
        let now_ms = self.now_ms;
        if self.corp.gates.contains_key(&channel) {
            self.change_gate(&channel, |gate| {
                gate.roll(now_ms);
                let of_hour = u32::from(given_ms + HOUR_MS >= gate.hour_end_ms);
                let of_day = u32::from(given_ms + DAY_MS >= gate.day_end_ms);
                gate.hour_n = gate.hour_n.saturating_sub(of_hour);
                gate.day_n = gate.day_n.saturating_sub(of_day);
            });
        }
    }

    /// Every change of what is counted or limited goes through here.
    fn change_gate(&mut self, channel: &ChannelId, change: impl FnOnce(&mut Windows)) {
        let gate = self.corp.gates.get_mut(channel).expect("a gate");
        change(gate);
        let (before_ms, alarm_ms) = (gate.alarm_ms, gate.alarm());
        gate.alarm_ms = alarm_ms;
        if before_ms == alarm_ms {
            return;
        }
        self.corp.gate_alarms.remove(&(before_ms, channel.clone()));
        if alarm_ms > 0 {
            self.corp.gate_alarms.insert((alarm_ms, channel.clone()));
        } else {
            // Those who came through it may be served again.
            for pool in self.corp.gated(channel) {
                if self.corp.pools.contains_key(&pool) {
                    self.touch(&pool);
                }
            }
        }
    }

    pub(super) fn sweep_gates(&mut self) {
        let over = self.corp.gate_alarms.iter();
        let over = over.take_while(|(at_ms, _)| *at_ms <= self.now_ms);
        let over: Vec<ChannelId> = over
            .take(self.ends_left)
            .map(|(_, channel)| channel.clone())
            .collect();
        self.ends_left -= over.len();
        let now_ms = self.now_ms;
        for channel in over {
            self.change_gate(&channel, |gate| gate.roll(now_ms));
        }
    }

    pub(super) fn set_channel(&mut self, change: &SetChannel) -> MemberChange {
        let (channel, now_ms) = (&change.channel, self.now_ms);
        let before = self.corp.gates.get(channel).cloned();
        if change.per_hour.is_none() && change.per_day.is_none() {
            if before.is_none() {
                return MemberChange::Same;
            }
            self.change_gate(channel, |gate| (gate.per_hour, gate.per_day) = (None, None));
            self.corp.gates.remove(channel);
            self.wake();
            return MemberChange::Changed;
        }
        if before.is_none() {
            let mut gate = Windows::new(now_ms);
            (gate.day_end_ms, gate.hour_end_ms) = ends(now_ms, change.day_end_ms.unwrap_or(DAY_MS));
            (gate.hour_n, gate.day_n) = (change.given.in_hour, change.given.on_day);
            self.corp.gates.insert(channel.clone(), gate);
        }
        self.change_gate(channel, |gate| {
            gate.roll(now_ms);
            gate.told = change.day_end_ms.is_some();
            if let Some(day_end_ms) = change.day_end_ms {
                (gate.day_end_ms, gate.hour_end_ms) = ends(now_ms, day_end_ms);
            }
            (gate.per_hour, gate.per_day) = (change.per_hour, change.per_day);
        });
        if self.corp.gates.get(channel) == before.as_ref() {
            return MemberChange::Same;
        }
        self.wake();
        MemberChange::Changed
    }
}

impl Windows {
    /// When it must be looked at because a window that is full ends; 0: never.
    fn alarm(&self) -> u64 {
        match (self.hour_is_full(), self.day_is_full()) {
            (true, _) => self.hour_end_ms,
            (false, true) => self.day_end_ms,
            (false, false) => 0,
        }
    }
}
