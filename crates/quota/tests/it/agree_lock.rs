//! The same random operations through `lua/lock_*.lua`, `lua/fence_seed.lua` and the model.

use proptest::prelude::*;
use quota::fence_seed::FenceSeed;
use quota::lock_acquire::LockAcquire;
use quota::lock_release::LockRelease;
use quota::lock_renew::LockRenew;
use quota::model::lock::Locks;
use quota::{Error, Limits, LockKeys};

use crate::support::{Corp, T0};

#[derive(Debug, Clone)]
enum Op {
    Seed {
        generation: i64,
        least: i64,
    },
    Acquire {
        names: Vec<&'static str>,
        owner: &'static str,
    },
    Renew {
        names: Vec<&'static str>,
        owner: &'static str,
    },
    Release {
        names: Vec<&'static str>,
        owner: &'static str,
    },
    Pass {
        ms: i64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let names = || {
        prop::sample::subsequence(
            vec!["customer:1", "customer:2", "taker:mA", "taker:mB"],
            1..=3,
        )
    };
    let owner = || prop::sample::select(vec!["one", "two", "three"]);
    prop_oneof![
        1 => (0..4_i64, 0..50_i64).prop_map(|(generation, least)| Op::Seed { generation, least }),
        6 => (names(), owner()).prop_map(|(names, owner)| Op::Acquire { names, owner }),
        4 => (names(), owner()).prop_map(|(names, owner)| Op::Renew { names, owner }),
        2 => (names(), owner()).prop_map(|(names, owner)| Op::Release { names, owner }),
        3 => prop_oneof![0..9_000_i64, 0..100_000_i64].prop_map(|ms| Op::Pass { ms }),
    ]
}

const LEASE_MS: i64 = 30_000;
const LONGEST_MS: i64 = 70_000;

async fn agree(ops: Vec<Op>) -> Result<(), TestCaseError> {
    let corp = Corp::closed(Limits::default()).await;
    let (mut model, mut now, mut conn) = (Locks::default(), T0, corp.conn());
    let keys = |names: &[&str]| LockKeys::new(&corp.id, names);
    let sorted = |names: &[&str]| {
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    for op in ops {
        match op {
            Op::Seed { generation, least } => {
                let got = FenceSeed::default()
                    .call(&mut conn, &keys(&[]), generation, least)
                    .await;
                prop_assert_eq!(got.unwrap(), model.seed(generation, least));
            }
            Op::Acquire { names, owner } => {
                let acquire = LockAcquire::default();
                let (lease, longest) = (LEASE_MS as u64, LONGEST_MS as u64);
                let got = acquire
                    .call(&mut conn, &keys(&names), owner, lease, longest, Some(now))
                    .await;
                match model.acquire(&sorted(&names), owner, LEASE_MS, LONGEST_MS, now) {
                    Some(expected) => prop_assert_eq!(got.unwrap(), expected),
                    None => prop_assert!(matches!(got, Err(Error::Closed))),
                }
            }
            Op::Renew { names, owner } => {
                let renew = LockRenew::default();
                let got = renew
                    .call(&mut conn, &keys(&names), owner, LEASE_MS as u64, Some(now))
                    .await;
                prop_assert_eq!(
                    got.unwrap(),
                    model.renew(&sorted(&names), owner, LEASE_MS, now)
                );
            }
            Op::Release { names, owner } => {
                let got = LockRelease::default()
                    .call(&mut conn, &keys(&names), owner)
                    .await;
                prop_assert_eq!(got.unwrap(), model.release(&sorted(&names), owner));
            }
            Op::Pass { ms } => now += ms,
        }
    }
    Ok(())
}

#[test]
fn scripts_and_model_agree_on_random_operations() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    proptest!(ProptestConfig::with_cases(96), |(ops in prop::collection::vec(op(), 1..80))| {
        runtime.block_on(agree(ops))?;
    });
}
