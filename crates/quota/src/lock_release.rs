//! `lua/lock_release.lua`.

use crate::answer::{Lua, lua};
use crate::{Connection, Error, LockKeys};

#[derive(Debug, Clone)]
pub struct LockRelease {
    lua: Lua,
}

impl Default for LockRelease {
    fn default() -> Self {
        Self {
            lua: lua!("lock_release"),
        }
    }
}

impl LockRelease {
    /// How many of the names were still this owner's.
    pub async fn call<C: Connection>(
        &self,
        conn: &mut C,
        keys: &LockKeys,
        owner: &str,
    ) -> Result<usize, Error> {
        let names: Vec<&str> = keys.locks.iter().map(String::as_str).collect();
        let mut answer = self
            .lua
            .call(conn, &names, |call| {
                call.arg(owner);
            })
            .await?;
        match answer.word.as_str() {
            "RELEASED" => answer.next(),
            _ => Err(answer.unknown()),
        }
    }
}
