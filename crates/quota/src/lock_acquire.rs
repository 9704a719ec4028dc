//! `lua/lock_acquire.lua`.

use crate::answer::{Lua, lua, time};
use crate::{Connection, Error, LockKeys};

/// Grows with every acquisition in a corp. What is written with a smaller one than the row has is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence {
    pub generation: i64,
    pub counter: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    Held {
        fence: Fence,
        left_ms: u64,
    },
    /// `which` of the sorted names, and when its lease ends unless renewed.
    Busy {
        which: usize,
        until_ms: i64,
    },
}

#[derive(Debug, Clone)]
pub struct LockAcquire {
    lua: Lua,
}

impl Default for LockAcquire {
    fn default() -> Self {
        Self {
            lua: lua!("lock_acquire"),
        }
    }
}

impl LockAcquire {
    pub async fn call<C: Connection>(
        &self,
        conn: &mut C,
        keys: &LockKeys,
        owner: &str,
        lease_ms: u64,
        longest_ms: u64,
        now_ms: Option<i64>,
    ) -> Result<Answered, Error> {
        let mut names = vec![keys.fence.as_str()];
        names.extend(keys.locks.iter().map(String::as_str));
        let mut answer = self
            .lua
            .call(conn, &names, |call| {
                call.arg(owner)
                    .arg(lease_ms)
                    .arg(longest_ms)
                    .arg(time(now_ms));
            })
            .await?;
        match answer.word.as_str() {
            "HELD" => Ok(Answered::Held {
                fence: Fence {
                    generation: answer.next()?,
                    counter: answer.next()?,
                },
                left_ms: answer.next()?,
            }),
            "BUSY" => Ok(Answered::Busy {
                which: answer.next()?,
                until_ms: answer.next()?,
            }),
            _ => Err(answer.unknown()),
        }
    }
}
