//! `lua/token_lease.lua`.

use crate::answer::{Lua, lua, time};
use crate::{Connection, Error, TokenKeys};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    Leased { until_ms: i64 },
    Busy { until_ms: i64 },
}

#[derive(Debug, Clone)]
pub struct TokenLease {
    lua: Lua,
}

impl Default for TokenLease {
    fn default() -> Self {
        Self {
            lua: lua!("token_lease"),
        }
    }
}

impl TokenLease {
    pub async fn call<C: Connection>(
        &self,
        conn: &mut C,
        keys: &TokenKeys,
        owner: &str,
        lease_ms: u64,
        now_ms: Option<i64>,
    ) -> Result<Answered, Error> {
        let mut answer = self
            .lua
            .call(conn, &[&keys.lease], |call| {
                call.arg(owner).arg(lease_ms).arg(time(now_ms));
            })
            .await?;
        let until_ms = answer.next()?;
        match answer.word.as_str() {
            "LEASED" => Ok(Answered::Leased { until_ms }),
            "BUSY" => Ok(Answered::Busy { until_ms }),
            _ => Err(answer.unknown()),
        }
    }
}
