//! `lock_acquire`, `lock_renew`, `lock_release`, `fence_seed`.

use std::collections::BTreeMap;

use crate::fence_seed::Seeded;
use crate::{Fence, lock_acquire, lock_renew};

/// The locks of one corp.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Locks {
    pub fence: Option<Fence>,
    /// Name -> owner, end of the lease, end of the longest hold.
    pub locks: BTreeMap<String, (String, i64, i64)>,
}

impl Locks {
    pub fn seed(&mut self, generation: i64, least: i64) -> Seeded {
        let old = self.fence.unwrap_or(Fence {
            generation: -1,
            counter: 0,
        });
        if generation < old.generation {
            return Seeded::Older(old);
        }
        let fence = Fence {
            generation,
            counter: old.counter.max(least),
        };
        self.fence = Some(fence);
        Seeded::Seeded(fence)
    }

    /// `names` sorted. None = closed.
    pub fn acquire(
        &mut self,
        names: &[String],
        owner: &str,
        lease_ms: i64,
        longest_ms: i64,
        now: i64,
    ) -> Option<lock_acquire::Answered> {
        let fence = self.fence.as_mut()?;
        for (which, name) in names.iter().enumerate() {
            if let Some((_, until_ms, _)) = self.locks.get(name).filter(|lock| lock.1 > now) {
                return Some(lock_acquire::Answered::Busy {
                    which,
                    until_ms: *until_ms,
                });
            }
        }
        fence.counter += 1;
        let left = lease_ms.min(longest_ms);
        for name in names {
            let lock = (owner.to_owned(), now + left, now + longest_ms);
            self.locks.insert(name.clone(), lock);
        }
        Some(lock_acquire::Answered::Held {
            fence: *fence,
            left_ms: left.unsigned_abs(),
        })
    }

    pub fn renew(
        &mut self,
        names: &[String],
        owner: &str,
        lease_ms: i64,
        now: i64,
    ) -> lock_renew::Answered {
        let mut left = lease_ms;
        for (which, name) in names.iter().enumerate() {
            match self.locks.get(name) {
                Some((held_by, until, longest)) if held_by == owner && *until > now => {
                    left = left.min(longest - now);
                }
                _ => return lock_renew::Answered::Lost { which },
            }
        }
        for name in names {
            if let Some(lock) = self.locks.get_mut(name) {
                lock.1 = now + left;
            }
        }
        lock_renew::Answered::Renewed {
            left_ms: left.unsigned_abs(),
        }
    }

    pub fn release(&mut self, names: &[String], owner: &str) -> usize {
        let before = self.locks.len();
        self.locks
            .retain(|name, lock| lock.0 != owner || !names.contains(name));
        before - self.locks.len()
    }
}
