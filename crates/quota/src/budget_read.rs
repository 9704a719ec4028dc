//! `lua/budget_read.lua`.

use crate::answer::{Lua, lua, time};
use crate::{BudgetKeys, Connection, Error};

/// One API's budget as Redis keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub api: String,
    pub minute: String,
    pub hour: String,
    pub in_flight: i64,
    /// 0 = none; may be over.
    pub block_until_ms: i64,
    pub level: i64,
    /// Places and when they were cut to that number, after WeCom refused for concurrency.
    pub shrunk: Option<(i64, i64)>,
}

#[derive(Debug, Clone)]
pub struct BudgetRead {
    lua: Lua,
}

impl Default for BudgetRead {
    fn default() -> Self {
        Self {
            lua: lua!("budget_read"),
        }
    }
}

impl BudgetRead {
    /// The time of reading, and every API that was used or blocked of late.
    pub async fn call<C: Connection>(
        &self,
        conn: &mut C,
        keys: &BudgetKeys,
        now_ms: Option<i64>,
    ) -> Result<(i64, Vec<Row>), Error> {
        let mut answer = self
            .lua
            .call(conn, &[&keys.index], |call| {
                call.arg(time(now_ms));
            })
            .await?;
        if answer.word != "READ" {
            return Err(answer.unknown());
        }
        let now_ms = answer.next()?;
        let mut rows = Vec::new();
        while !answer.is_empty() {
            rows.push(Row {
                api: answer.next()?,
                minute: answer.next()?,
                hour: answer.next()?,
                in_flight: answer.next()?,
                block_until_ms: answer.next()?,
                level: answer.next()?,
                shrunk: {
                    let cap: String = answer.next()?;
                    let cap_at: String = answer.next()?;
                    cap.parse().ok().zip(cap_at.parse().ok())
                },
            });
        }
        Ok((now_ms, rows))
    }
}
