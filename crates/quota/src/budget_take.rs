//! `lua/budget_take.lua`.

use crate::answer::{Lua, lua, time};
use crate::{BudgetKeys, BudgetLimits, Connection, Error};

/// Why a call has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// WeCom, or a person, said not before a time.
    Blocked,
    /// The minute window is used up.
    Minute,
    /// The hour window is used up.
    Hour,
    /// An urgent call waits for the next place.
    Urgent,
    /// All places for calls in flight are taken.
    InFlight,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    Taken { taken_ms: i64, cap: i64 },
    Wait { until_ms: i64, reason: Reason },
}

#[derive(Debug, Clone)]
pub struct BudgetTake {
    lua: Lua,
}

impl Default for BudgetTake {
    fn default() -> Self {
        Self {
            lua: lua!("budget_take"),
        }
    }
}

impl BudgetTake {
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
        limits: BudgetLimits,
        urgent: bool,
        now_ms: Option<i64>,
    ) -> Result<Taken, Error> {
        let mut names = vec![
            keys.budget.as_str(),
            keys.flight.as_str(),
            keys.index.as_str(),
        ];
        names.extend(keys.fence.as_deref());
        let mut answer = self
            .lua
            .call(conn, &names, |call| {
                call.arg(api)
                    .arg(permit)
                    .arg(limits.lease_ms)
                    .arg(limits.per_minute)
                    .arg(limits.per_hour)
                    .arg(limits.in_flight)
                    .arg(limits.grow_back_ms)
                    .arg(i32::from(urgent))
                    .arg(time(now_ms));
            })
            .await?;
        match answer.word.as_str() {
            "TAKEN" => Ok(Taken::Taken {
                taken_ms: answer.next()?,
                cap: answer.next()?,
            }),
            "WAIT" => {
                let until_ms = answer.next()?;
                let reason = match answer.next::<String>()?.as_str() {
                    "blocked" => Reason::Blocked,
                    "minute" => Reason::Minute,
                    "hour" => Reason::Hour,
                    "urgent" => Reason::Urgent,
                    "flight" => Reason::InFlight,
                    _ => return Err(answer.unknown()),
                };
                Ok(Taken::Wait { until_ms, reason })
            }
            _ => Err(answer.unknown()),
        }
    }
}
