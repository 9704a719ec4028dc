//! Ending allocations.

use super::{Call, Open};
use crate::id::{AllocationId, PoolId, SubjectKey};
use crate::op::Closing;
use crate::outcome::Closed;

impl Open {
    pub(super) fn is_meant_by(&self, closing: &Closing) -> bool {
        closing.pool.as_ref().is_none_or(|pool| *pool == self.pool)
            && (closing.member.is_none() || closing.member == self.member)
            && closing.allocation.is_none_or(|id| id == self.id)
    }
}

impl Call<'_> {
    pub(super) fn close(&mut self, closings: &[Closing]) -> Vec<Closed> {
        let mut closed = Vec::new();
        for closing in closings {
            let list = self.corp.opens.get(&closing.subject);
            let ending: Vec<Open> = list
                .into_iter()
                .flatten()
                .filter(|open| open.is_meant_by(closing))
                .cloned()
                .collect();
            for open in ending {
                if let Some(member) = &open.member {
                    self.watched(|watcher, _| watcher.closes(&open.pool, member, open.settled));
                }
                self.drop_open(&open, &closing.subject);
                closed.push(Closed {
                    allocation: open.id,
                    pool: open.pool,
                    subject: closing.subject,
                    member: open.member,
                });
            }
        }
        self.wake();
        closed
    }

    /// Ends one allocation.
    pub(super) fn drop_open(&mut self, open: &Open, subject: &SubjectKey) {
        self.take_out(subject, &open.pool);
        self.end_hold(subject, open);
        self.end_offer(subject, open);
        if open.hold.is_some() || open.offer.is_some() {
            self.unpass_gate(&mut open.clone());
        }
        self.release(open, subject);
    }

    pub(super) fn take_out(&mut self, subject: &SubjectKey, pool: &PoolId) {
        if let Some(list) = self.corp.opens.get_mut(subject) {
            list.retain(|other| other.pool != *pool);
            if list.is_empty() {
                self.corp.opens.remove(subject);
            }
        }
    }

    pub(super) fn open_in(&self, subject: &SubjectKey, pool: &PoolId) -> Option<Open> {
        let list = self.corp.opens.get(subject)?;
        list.iter().find(|open| open.pool == *pool).cloned()
    }

    /// The subject's entry in the pool, if it is this allocation.
    pub(super) fn find(
        &self,
        subject: &SubjectKey,
        pool: &PoolId,
        allocation: AllocationId,
    ) -> Option<Open> {
        let list = self.corp.opens.get(subject)?;
        list.iter()
            .find(|open| open.pool == *pool && open.id == allocation)
            .cloned()
    }

    pub(super) fn put(&mut self, subject: &SubjectKey, open: Open) {
        let list = self.corp.opens.entry(*subject).or_default();
        if let Some(old) = list.iter_mut().find(|old| old.pool == open.pool) {
            *old = open;
        }
    }
}
