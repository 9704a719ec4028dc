//! The same random operations through `lua/token_*.lua` and the model.

use proptest::prelude::*;
use quota::model::token::{App, Stored as Expected};
use quota::token_store::Stored;
use secrecy::ExposeSecret;

use crate::support::T0;
use crate::token_load::{token, tokens};

#[derive(Debug, Clone)]
enum Op {
    Load,
    Store {
        failed: Option<&'static str>,
        value: &'static str,
        lasts_ms: i64,
    },
    Lease {
        owner: &'static str,
        lease_ms: u32,
    },
    Release {
        owner: &'static str,
    },
    Pass {
        ms: i64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let value = || prop::sample::select(vec!["V1", "V2", "V 3"]);
    let owner = || prop::sample::select(vec!["one", "two"]);
    prop_oneof![
        3 => Just(Op::Load),
        4 => (prop::option::of(value()), value(), -5_000..9_000_000_i64)
            .prop_map(|(failed, value, lasts_ms)| Op::Store { failed, value, lasts_ms }),
        3 => (owner(), 30_000..90_000_u32).prop_map(|(owner, lease_ms)| Op::Lease { owner, lease_ms }),
        2 => owner().prop_map(|owner| Op::Release { owner }),
        3 => (0..4_000_000_i64).prop_map(|ms| Op::Pass { ms }),
    ]
}

async fn agree(ops: Vec<Op>) -> Result<(), TestCaseError> {
    let (_, tokens) = tokens().await;
    let (mut model, mut now) = (App::default(), T0);
    for op in ops {
        match op {
            Op::Load => {
                let got = tokens.load("a", Some(now)).await.unwrap();
                let got =
                    got.map(|token| (token.value.expose_secret().to_owned(), token.expires_at_ms));
                prop_assert_eq!(got, model.load(now));
            }
            Op::Store {
                failed,
                value,
                lasts_ms,
            } => {
                // A life of milliseconds could end in Redis' real time before the next operation.
                let lasts_ms = if lasts_ms > 0 {
                    lasts_ms + 30_000
                } else {
                    lasts_ms
                };
                let got = tokens
                    .store_if("a", failed, &token(value, now + lasts_ms), Some(now))
                    .await;
                let got = match got.unwrap() {
                    Stored::Stored(t) => {
                        Expected::Stored(t.value.expose_secret().to_owned(), t.expires_at_ms)
                    }
                    Stored::Kept(t) => {
                        Expected::Kept(t.value.expose_secret().to_owned(), t.expires_at_ms)
                    }
                    Stored::Expired => Expected::Expired,
                };
                prop_assert_eq!(got, model.store(failed, value, now + lasts_ms, now));
            }
            Op::Lease { owner, lease_ms } => {
                let got = tokens
                    .try_lease("a", owner, u64::from(lease_ms), Some(now))
                    .await;
                prop_assert_eq!(got.unwrap(), model.lease(owner, i64::from(lease_ms), now));
            }
            Op::Release { owner } => {
                prop_assert_eq!(
                    tokens.release("a", owner).await.unwrap(),
                    model.release(owner)
                );
            }
            Op::Pass { ms } => now += ms,
        }
    }
    Ok(())
}

#[test]
fn scripts_and_model_agree_on_random_operations() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    proptest!(ProptestConfig::with_cases(96), |(ops in prop::collection::vec(op(), 1..60))| {
        runtime.block_on(agree(ops))?;
    });
}
