//! The same random operations through `lua/budget_*.lua` and the model.

use proptest::prelude::*;
use quota::budget_block::{BudgetBlock, Mode};
use quota::budget_give::BudgetGive;
use quota::budget_read::BudgetRead;
use quota::budget_renew::BudgetRenew;
use quota::budget_take::Taken;
use quota::model::budget::Budget;
use quota::{BudgetKeys, BudgetLimits, Outcome, Rule};

use crate::support::{Corp, T0, small, take_as};

#[derive(Debug, Clone)]
enum Op {
    Take {
        urgent: bool,
    },
    /// A permit by its place among all there were: given back or not, the script does as it is told.
    Renew {
        which: prop::sample::Index,
        before_ms: i64,
    },
    /// A permit by its place among those not given back, so that it often exists.
    Give {
        which: prop::sample::Index,
        outcome: Outcome,
    },
    Block {
        ahead_ms: i64,
        mode: Mode,
    },
    /// Nobody stands still; sometimes the clock is set back.
    Pass {
        ms: i64,
    },
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        6 => Just(Outcome::Ok),
        2 => Just(Outcome::Failed),
        2 => Just(Outcome::Unused),
        2 => Just(Outcome::Concurrency),
        1 => prop_oneof![
            Just(Rule::Minute), Just(Rule::Hour), Just(Rule::Day), Just(Rule::Month), Just(Rule::Unknown),
        ].prop_map(Outcome::RateLimited),
        1 => Just(Outcome::RateLimited(Rule::Unknown)),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => any::<bool>().prop_map(|urgent| Op::Take { urgent }),
        4 => (any::<prop::sample::Index>(), -100..5_000_i64).prop_map(|(which, before_ms)| Op::Renew { which, before_ms }),
        5 => (any::<prop::sample::Index>(), outcome()).prop_map(|(which, outcome)| Op::Give { which, outcome }),
        1 => (-90_000..4_000_000_000_i64, prop_oneof![Just(Mode::Raise), Just(Mode::Set)])
            .prop_map(|(ahead_ms, mode)| Op::Block { ahead_ms, mode }),
        4 => prop_oneof![0..400_i64, 0..30_000_i64, 0..4_000_000_i64, -20_000..0_i64, 0..90_000_000_i64]
            .prop_map(|ms| Op::Pass { ms }),
    ]
}

fn limits() -> impl Strategy<Value = BudgetLimits> {
    // The time to live of the leases runs in real time, which must not be noticed here.
    (
        1..12_u32,
        1..40_u32,
        0..5_u32,
        5_000..60_000_u64,
        1..60_000_u64,
    )
        .prop_map(
            |(per_minute, per_hour, in_flight, lease_ms, grow_back_ms)| BudgetLimits {
                per_minute,
                per_hour,
                in_flight,
                lease_ms,
                grow_back_ms,
            },
        )
}

async fn agree(limits: BudgetLimits, ops: Vec<Op>) -> Result<(), TestCaseError> {
    let corp = Corp::new(small()).await;
    let keys = BudgetKeys::corp(&corp.id, "api");
    let mut conn = corp.conn();
    let (mut model, mut now, mut permits, mut touched) = (Budget::default(), T0, Vec::new(), false);
    let mut all = Vec::new();
    for (i, op) in ops.into_iter().enumerate() {
        match op {
            Op::Take { urgent } => {
                let id = format!("p{i}");
                let expected = model.take(&id, limits, urgent, now);
                prop_assert_eq!(take_as(&corp, &id, limits, urgent, now).await, expected);
                if let Taken::Taken { taken_ms, cap } = expected {
                    all.push(id.clone());
                    permits.push((id, taken_ms, cap));
                    touched = true;
                }
            }
            Op::Renew { which, before_ms } => {
                if all.is_empty() {
                    continue;
                }
                let (id, before_ms) = (&all[which.index(all.len())], now + before_ms);
                let expected = model.renew(id, limits.lease_ms, before_ms, now);
                let got = BudgetRenew::default()
                    .call(&mut conn, &keys, id, limits.lease_ms, before_ms, Some(now))
                    .await;
                prop_assert_eq!(got.unwrap(), (expected, now));
            }
            Op::Give { which, outcome } => {
                if permits.is_empty() {
                    continue;
                }
                let (id, taken_ms, cap) = permits.swap_remove(which.index(permits.len()));
                let expected = model.give(&id, outcome, taken_ms, cap, now);
                let give = BudgetGive::default();
                let got = give
                    .call(
                        &mut conn,
                        &keys,
                        "api",
                        &id,
                        outcome,
                        taken_ms,
                        cap,
                        Some(now),
                    )
                    .await;
                prop_assert_eq!(got.unwrap(), expected);
            }
            Op::Block { ahead_ms, mode } => {
                let expected = model.block(now + ahead_ms, mode, now);
                let block = BudgetBlock::default();
                let got = block
                    .call(&mut conn, &keys, "api", now + ahead_ms, mode, Some(now))
                    .await;
                prop_assert_eq!(got.unwrap(), expected);
                touched = true;
            }
            Op::Pass { ms } => now += ms,
        }
        let (_, rows) = BudgetRead::default()
            .call(&mut conn, &keys, Some(now))
            .await
            .unwrap();
        // An API that nobody used for hours is not listed; its budget is still compared by its answers.
        for row in rows {
            prop_assert!(touched);
            prop_assert_eq!(row, model.row("api", now));
        }
    }
    Ok(())
}

#[test]
fn scripts_and_model_agree_on_random_operations() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    proptest!(ProptestConfig::with_cases(96), |(limits in limits(), ops in prop::collection::vec(op(), 1..80))| {
        runtime.block_on(agree(limits, ops))?;
    });
}

proptest! {
    /// Whatever 60 s or 60 min WeCom looks at, it sees no more calls than the limit; and waiting as told always helps.
    #[test]
    fn no_window_of_any_position_is_overrun(
        (per_minute, per_hour) in (1..8_u32, 1..30_u32),
        pauses in prop::collection::vec(prop_oneof![0..2_000_i64, 0..400_000_i64], 1..300),
    ) {
        let limits = BudgetLimits { per_minute, per_hour, in_flight: 0, lease_ms: 1, grow_back_ms: 1 };
        let (mut budget, mut now, mut times) = (Budget::default(), T0, Vec::new());
        for pause in pauses {
            now += pause;
            match budget.take("p", limits, false, now) {
                Taken::Taken { .. } => times.push(now),
                Taken::Wait { until_ms, .. } => {
                    prop_assert!(until_ms > now);
                    // Another window may still be full then, but in the end there is room.
                    let mut later = budget.clone();
                    let mut until = until_ms;
                    while let Taken::Wait { until_ms, .. } = later.take("p", limits, false, until) {
                        prop_assert!(until_ms > until);
                        until = until_ms;
                    }
                }
            }
        }
        for (i, first) in times.iter().enumerate() {
            let within = |ms: i64| times[i..].iter().filter(|time| **time < first + ms).count();
            prop_assert!(within(60_000) <= per_minute as usize);
            prop_assert!(within(3_600_000) <= per_hour as usize);
        }
    }
}
