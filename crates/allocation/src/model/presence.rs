//! Who is there, and what a member may take.

use super::Call;
use crate::op::{PresenceChange, SetMember};
use crate::outcome::{Answer, MemberChange};

impl Call<'_> {
    pub(super) fn presence(&mut self, changes: &[PresenceChange]) -> Answer {
        for change in changes {
            let lease_ms = match change.lease_until_ms {
                until if until > self.now_ms => until,
                _ => 0,
            };
            if lease_ms > 0 || self.corp.members.contains_key(&change.member) {
                self.create(&change.member);
                self.set_lease(&change.member, lease_ms);
            }
        }
        self.wake();
        Answer::Ok
    }

    pub(super) fn set_member(&mut self, change: &SetMember) -> MemberChange {
        self.create(&change.member);
        let now_ms = self.now_ms;
        let before = self.corp.member(&change.member).clone();
        let is_counted = before.windows.is_some();
        self.change(&change.member, |member| {
            member.roll(now_ms);
            member.cap = change.limits.at_a_time;
            member.blocked = change.blocked.clone();
            if change.is_by_time() || member.windows.is_some() {
                member.tell_day_end(change.day_end_ms, now_ms);
                let windows = member.windows_mut(now_ms);
                if let (Some(given), false) = (change.given, is_counted) {
                    (windows.hour_n, windows.day_n) = (given.in_hour, given.on_day);
                }
                windows.per_hour = change.limits.per_hour;
                windows.per_day = change.limits.per_day;
            }
        });
        self.tidy(&change.member);
        if change.blocked.is_some() {
            self.offers_are_over(&change.member);
        }
        if *self.corp.member(&change.member) == before {
            return MemberChange::Same;
        }
        self.wake();
        MemberChange::Changed
    }

    /// After the state was written anew nobody is known to be there. Who was asked likely is, and may answer in his time: if
    /// all offers moved now, they would find nobody.
    pub(super) fn all_off(&mut self) -> Answer {
        let offers = self.corp.offers.clone();
        while let Some((_, member)) = self.corp.leases.first().cloned() {
            self.set_lease(&member, 0);
        }
        self.corp.offers = offers;
        Answer::Ok
    }
}
