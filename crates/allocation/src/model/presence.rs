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
        let member = self.corp.member(&change.member);
        if member.cap == change.cap && member.blocked == change.blocked {
            return MemberChange::Same;
        }
        self.change(&change.member, |member| {
            member.cap = change.cap;
            member.blocked = change.blocked.clone();
        });
        self.wake();
        MemberChange::Changed
    }

    /// After the state was written anew nobody is known to be there.
    pub(super) fn all_off(&mut self) -> Answer {
        while let Some((_, member)) = self.corp.leases.first().cloned() {
            self.set_lease(&member, 0);
        }
        Answer::Ok
    }
}
