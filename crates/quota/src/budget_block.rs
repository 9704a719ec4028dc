//! `lua/budget_block.lua`.

use crate::answer::{Lua, lua, time};
use crate::{BudgetKeys, Connection, Error};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Never shortens a block.
    Raise,
    /// Exactly this; 0 lifts the block.
    Set,
}

#[derive(Debug, Clone)]
pub struct BudgetBlock {
    lua: Lua,
}

impl Default for BudgetBlock {
    fn default() -> Self {
        Self {
            lua: lua!("budget_block"),
        }
    }
}

impl BudgetBlock {
    /// The end of the block that holds now; None = there is none.
    pub async fn call<C: Connection>(
        &self,
        conn: &mut C,
        keys: &BudgetKeys,
        api: &str,
        until_ms: i64,
        mode: Mode,
        now_ms: Option<i64>,
    ) -> Result<Option<i64>, Error> {
        let mut answer = self
            .lua
            .call(conn, &[&keys.budget, &keys.index], |call| {
                call.arg(api)
                    .arg(until_ms)
                    .arg(match mode {
                        Mode::Raise => "RAISE",
                        Mode::Set => "SET",
                    })
                    .arg(time(now_ms));
            })
            .await?;
        match answer.word.as_str() {
            "BLOCKED" => Ok(Some(answer.next()?)),
            "FREE" => Ok(None),
            _ => Err(answer.unknown()),
        }
    }
}
