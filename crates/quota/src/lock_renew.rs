//! `lua/lock_renew.lua`.

use crate::answer::{Lua, lua, time};
use crate::{Connection, Error, LockKeys};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// Less than the lease: the longest hold ends then.
    Renewed { left_ms: u64 },
    /// `which` of the sorted names is not ours any more.
    Lost { which: usize },
}

#[derive(Debug, Clone)]
pub struct LockRenew {
    lua: Lua,
}

impl Default for LockRenew {
    fn default() -> Self {
        Self {
            lua: lua!("lock_renew"),
        }
    }
}

impl LockRenew {
    pub async fn call<C: Connection>(
        &self,
        conn: &mut C,
        keys: &LockKeys,
        owner: &str,
        lease_ms: u64,
        now_ms: Option<i64>,
    ) -> Result<Answered, Error> {
        let names: Vec<&str> = keys.locks.iter().map(String::as_str).collect();
        let mut answer = self
            .lua
            .call(conn, &names, |call| {
                call.arg(owner).arg(lease_ms).arg(time(now_ms));
            })
            .await?;
        match answer.word.as_str() {
            "RENEWED" => Ok(Answered::Renewed {
                left_ms: answer.next()?,
            }),
            "LOST" => Ok(Answered::Lost {
                which: answer.next()?,
            }),
            _ => Err(answer.unknown()),
        }
    }
}
