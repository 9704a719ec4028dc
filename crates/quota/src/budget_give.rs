//! `lua/budget_give.lua`.

use crate::answer::{Lua, lua, time};
use crate::{BudgetKeys, Connection, Error};

/// Which of WeCom's frequency rules was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// 60 s.
    Minute,
    /// 60 min.
    Hour,
    /// The rest of the natural day in China.
    Day,
    /// 30 days.
    Month,
    /// WeCom did not say: the minute, then the hour, then the day, if it refuses again within a minute after the block.
    Unknown,
}

/// How a call ended, as far as the budget is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Ok,
    /// Any other answer or none: it counted at WeCom, or may have.
    Failed,
    /// Nothing was sent.
    Unused,
    /// 45009.
    RateLimited(Rule),
    /// 45033: fewer calls at the same time, growing back slowly.
    Concurrency,
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Failed => "failed",
            Outcome::Unused => "unused",
            Outcome::Concurrency => "concurrency",
            Outcome::RateLimited(Rule::Minute) => "minute",
            Outcome::RateLimited(Rule::Hour) => "hour",
            Outcome::RateLimited(Rule::Day) => "day",
            Outcome::RateLimited(Rule::Month) => "month",
            Outcome::RateLimited(Rule::Unknown) => "limited",
        }
    }
}

#[derive(Debug, Clone)]
pub struct BudgetGive {
    lua: Lua,
}

impl Default for BudgetGive {
    fn default() -> Self {
        Self {
            lua: lua!("budget_give"),
        }
    }
}

impl BudgetGive {
    /// The end of the block that this outcome set, if it set one.
    #[expect(
        clippy::too_many_arguments,
        reason = "the script's contract, one to one"
    )]
    pub async fn call<C: Connection>(
        &self,
        conn: &mut C,
        keys: &BudgetKeys,
        api: &str,
        permit: &str,
        outcome: Outcome,
        taken_ms: i64,
        cap: i64,
        now_ms: Option<i64>,
    ) -> Result<Option<i64>, Error> {
        let mut answer = self
            .lua
            .call(conn, &[&keys.budget, &keys.flight, &keys.index], |call| {
                call.arg(api)
                    .arg(permit)
                    .arg(outcome.word())
                    .arg(taken_ms)
                    .arg(cap)
                    .arg(time(now_ms));
            })
            .await?;
        match answer.word.as_str() {
            "GIVEN" => Ok(Some(answer.next()?).filter(|until| *until > 0)),
            _ => Err(answer.unknown()),
        }
    }
}
