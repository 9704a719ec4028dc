//! `lua/budget_renew.lua`.

use crate::answer::{Lua, lua, time};
use crate::{BudgetKeys, Connection, Error};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    Renewed,
    /// The lease had ended, or Redis had lost it: the place is taken again.
    Retaken,
    /// It came at `before_ms` or later and did nothing.
    Late,
}

#[derive(Debug, Clone)]
pub struct BudgetRenew {
    lua: Lua,
}

impl Default for BudgetRenew {
    fn default() -> Self {
        Self {
            lua: lua!("budget_renew"),
        }
    }
}

impl BudgetRenew {
    /// With the time at Redis.
    pub async fn call<C: Connection>(
        &self,
        conn: &mut C,
        keys: &BudgetKeys,
        permit: &str,
        lease_ms: u64,
        before_ms: i64,
        now_ms: Option<i64>,
    ) -> Result<(Answered, i64), Error> {
        let mut answer = self
            .lua
            .call(conn, &[&keys.flight], |call| {
                call.arg(permit)
                    .arg(lease_ms)
                    .arg(before_ms)
                    .arg(time(now_ms));
            })
            .await?;
        let answered = match answer.word.as_str() {
            "RENEWED" => Answered::Renewed,
            "RETAKEN" => Answered::Retaken,
            "LATE" => Answered::Late,
            _ => return Err(answer.unknown()),
        };
        Ok((answered, answer.next()?))
    }
}
