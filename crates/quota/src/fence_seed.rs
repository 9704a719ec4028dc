//! `lua/fence_seed.lua`.

use crate::answer::{Lua, lua};
use crate::{Connection, Error, Fence, LockKeys};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seeded {
    /// The next number is greater than this one.
    Seeded(Fence),
    /// Redis already has a later generation: whoever asked is behind.
    Older(Fence),
}

#[derive(Debug, Clone)]
pub struct FenceSeed {
    lua: Lua,
}

impl Default for FenceSeed {
    fn default() -> Self {
        Self {
            lua: lua!("fence_seed"),
        }
    }
}

impl FenceSeed {
    pub async fn call<C: Connection>(
        &self,
        conn: &mut C,
        keys: &LockKeys,
        generation: i64,
        least: i64,
    ) -> Result<Seeded, Error> {
        let mut answer = self
            .lua
            .call(conn, &[&keys.fence], |call| {
                call.arg(generation).arg(least);
            })
            .await?;
        let fence = Fence {
            generation: answer.next()?,
            counter: answer.next()?,
        };
        match answer.word.as_str() {
            "SEEDED" => Ok(Seeded::Seeded(fence)),
            "OLDER" => Ok(Seeded::Older(fence)),
            _ => Err(answer.unknown()),
        }
    }
}
