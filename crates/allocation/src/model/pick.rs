//! Picking a member whose lease is not over.

use super::Call;
use crate::id::{MemberId, PoolId};

impl Call<'_> {
    /// Ends leases that are over, as many as one call may.
    pub(super) fn sweep(&mut self) {
        while self.ends_left > 0 {
            let Some((lease_ms, member)) = self.corp.leases.first().cloned() else {
                return;
            };
            if lease_ms > self.now_ms {
                return;
            }
            self.ends_left -= 1;
            self.set_lease(&member, 0);
        }
    }

    /// Members whose window is over may be back in their pools.
    pub(super) fn sweep_alarms(&mut self) {
        while self.ends_left > 0 {
            let Some((alarm_ms, member)) = self.corp.alarms.first().cloned() else {
                return;
            };
            if alarm_ms > self.now_ms {
                return;
            }
            self.ends_left -= 1;
            self.change(&member, |_| {});
        }
    }

    /// Somebody gets one of the pool: who can be picked earns his share of it.
    pub(super) fn counts(&mut self, pool: &PoolId) {
        self.watched(|watcher, corp| {
            watcher.earn(corp, pool, corp.sum(pool));
        });
    }

    /// Chooses a member of the pool and charges him for it. None: nobody can be picked.
    pub(super) fn pick(&mut self, pool: &PoolId) -> Option<MemberId> {
        loop {
            let state = self.corp.pools.get_mut(pool)?;
            let (member, class) = state.next()?;
            if self.corp.member(&member).lease_ms > self.now_ms {
                self.watched(|watcher, corp| watcher.picks(corp, pool, &member, class));
                self.counts(pool);
                self.watched(|watcher, _| watcher.pays(pool, &member, 1));
                let state = self.corp.pools.get_mut(pool)?;
                state.charge(&member, class);
                return Some(member);
            }
            // His lease is over and this call's sweep did not come to him.
            if self.ends_left == 0 {
                return None;
            }
            self.ends_left -= 1;
            self.set_lease(&member, 0);
        }
    }
}
