//! How entries are cut into batches makes no difference: the same changes one by one, and in batches of any size,
//! leave the same rows.

use std::collections::{HashMap, HashSet};

use allocation::{AllocationId, Reason, SubjectKey};
use ledger::{
    Change, DeliveryOutcome, Entry, NewAllocation, NewEffect, NewOffer, OfferEnd, OfferEnded,
    SettledAs,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sqlx::Row;

use crate::setup::{
    Setup, T0, allocation, batch, customer, decided, effect, entry, member, setup, subject,
    transfer,
};

const ALLOCATIONS: u64 = 6;
const MEMBERS: [&str; 3] = ["mA", "mB", "mC"];

fn change() -> impl Strategy<Value = Change> {
    let of = 1..=ALLOCATIONS;
    let who = prop::sample::select(&MEMBERS);
    prop_oneof![
        4 => (of.clone(), prop::option::of(who.clone()), prop::option::of(who.clone())).prop_map(
            |(n, to, giver)| {
                Change::Decided(NewAllocation {
                    subject: subject_of(n),
                    giver: giver.map(member),
                    ..decided(n, to)
                })
            }
        ),
        3 => (of.clone(), who.clone(), prop::option::of(who.clone()), prop::option::of(1..4_u64)).prop_map(
            |(n, to, giver, epoch)| Change::Assigned {
                allocation: allocation(n),
                member: member(to),
                giver: giver.map(member),
                epoch,
            }
        ),
        2 => (of.clone(), who, 0..4).prop_map(|(n, who, how)| Change::Settled {
            allocation: allocation(n),
            how: match how {
                0 => SettledAs::Done,
                1 | 2 => SettledAs::Kept {
                    member: member(who),
                    moved: how == 2,
                },
                _ => SettledAs::Void(Reason::new("void").unwrap()),
            },
        }),
        2 => of.clone().prop_map(|n| Change::Closed {
            allocation: allocation(n),
            reason: Reason::new("left").unwrap(),
        }),
        3 => (of.clone(), prop::option::of(0..4_u64), 0..6).prop_map(|(n, epoch, key)| {
            Change::Effect(NewEffect {
                allocation: Some(allocation(n)),
                epoch,
                ..effect("card", &format!("{n}-{key}"))
            })
        }),
        3 => (of.clone(), prop::sample::select(&MEMBERS), 0..6_u64).prop_map(|(n, who, epoch)| {
            Change::Offered(NewOffer {
                allocation: allocation(n),
                member: member(who),
                giver: None,
                epoch,
                until_ms: T0 + 10,
            })
        }),
        3 => (of.clone(), 0..6_u64, prop::sample::select(&OfferEnd::ALL[..3])).prop_map(
            |(n, epoch, how)| {
                Change::OfferEnded(OfferEnded {
                    allocation: allocation(n),
                    epoch,
                    how,
                    reason: (how == OfferEnd::Declined).then(|| Reason::new("busy").unwrap()),
                    responded_by: None,
                })
            }
        ),
        1 => (of.clone(), 0..6_u64).prop_map(|(n, epoch)| Change::Undecided {
            allocation: allocation(n),
            epoch,
        }),
        1 => (of.clone(), 0..3_u128).prop_map(|(n, attempt)| {
            // A pair of its own for each: the same pair again is another test's matter.
            let giver = format!("giver{n}{attempt}");
            Change::Transfer(transfer(u128::from(n) * 10 + attempt, n, &giver, "mA"))
        }),
        1 => (0..4_u64, 0..3).prop_map(|(n, outcome)| Change::Delivery(DeliveryOutcome {
            delivery: format!("d{n}"),
            received_ms: T0,
            outcome: format!("outcome{outcome}"),
            reason: None,
            allocation: None,
        })),
    ]
}

/// Two allocations may want the same pair of pool and subject, one after the other.
fn subject_of(n: u64) -> SubjectKey {
    subject(&format!("wmC{:03}", n % 3))
}

/// Redis makes an allocation once, and has one open of a pair at a time (what if not is tested with the conflicts).
#[derive(Default)]
struct Redis {
    open: HashMap<SubjectKey, AllocationId>,
    made: HashSet<AllocationId>,
    /// The last offer of each, and whether it is not answered.
    offered: HashMap<AllocationId, (u64, bool)>,
}

impl Redis {
    fn allows(&mut self, change: &Change) -> bool {
        match change {
            Change::Decided(new) => {
                let free =
                    !self.open.contains_key(&new.subject) && self.made.insert(new.allocation);
                if free {
                    self.open.insert(new.subject, new.allocation);
                }
                free
            }
            Change::Closed { allocation, .. }
            | Change::Settled {
                allocation,
                how: SettledAs::Void(_),
            } => {
                self.open.retain(|_, open| open != allocation);
                // What has ended does not begin afterwards.
                self.made.insert(*allocation);
                true
            }
            // Whoever has somebody is not offered any more.
            Change::Assigned { allocation, .. } | Change::Settled { allocation, .. } => {
                self.offered.insert(*allocation, (u64::MAX, false));
                true
            }
            // One after the other, and of what is open.
            Change::Offered(NewOffer {
                allocation, epoch, ..
            })
            | Change::Undecided { allocation, epoch } => {
                let is_open = self.open.values().any(|open| open == allocation);
                let last = self.offered.get(allocation).copied();
                let next = is_open && last.is_none_or(|(last, open)| last < *epoch && !open);
                if next {
                    let asks = matches!(change, Change::Offered(_));
                    self.offered.insert(*allocation, (*epoch, asks));
                }
                next
            }
            Change::OfferEnded(ended) => {
                let last = self.offered.get_mut(&ended.allocation);
                last.is_some_and(|last| {
                    let ends = *last == (ended.epoch, true);
                    last.1 &= !ends;
                    ends
                })
            }
            _ => true,
        }
    }
}

async fn rows(setup: &Setup) -> Vec<String> {
    // Random ids of customers and effects, and the moment at which an effect was taken back, may differ.
    let tables = [
        "SELECT (to_jsonb(a) - 'customer_id')::text FROM allocations AS a ORDER BY id",
        "SELECT (to_jsonb(o) - 'id' - 'settled_at')::text FROM outbox AS o ORDER BY effect_key",
        "SELECT (to_jsonb(t) - 'customer_id' - 'ended_at')::text FROM transfers AS t ORDER BY id",
        "SELECT to_jsonb(o)::text FROM offers AS o ORDER BY allocation_id, epoch",
        "SELECT (to_jsonb(s) - 'customer_id')::text FROM seats AS s ORDER BY seat_id",
        "SELECT (to_jsonb(p) - 'id')::text FROM group_people AS p ORDER BY chat_id, person, joined_seq",
        "SELECT to_jsonb(c)::text FROM group_counts AS c ORDER BY chat_id",
        "SELECT (to_jsonb(c) - 'id')::text FROM group_changes AS c ORDER BY chat_id, at, kind",
        "SELECT to_jsonb(d)::text FROM delivery_outcomes AS d ORDER BY delivery",
        "SELECT to_jsonb(l)::text FROM log AS l ORDER BY seq",
        "SELECT jsonb_build_array(subject, external_id)::text FROM customers ORDER BY subject",
        "SELECT log_seq::text FROM corps",
    ];
    let mut connection = setup.database.connect().await;
    let mut found = Vec::new();
    for table in tables {
        for row in sqlx::query(table).fetch_all(&mut connection).await.unwrap() {
            found.push(row.get(0));
        }
    }
    found
}

async fn clear(setup: &Setup) {
    setup
        .run("TRUNCATE allocations, offers, outbox, transfers, delivery_outcomes, log, customers, seats, group_people,
                group_counts, group_changes; UPDATE corps SET log_seq = 0")
        .await;
    let customers: Vec<_> = (0..=ALLOCATIONS)
        .map(|n| format!("wmC{n:03}"))
        .map(|external_id| (subject(&external_id), customer(&external_id)))
        .collect();
    setup
        .ledger
        .customers()
        .upsert(&setup.corp, &customers)
        .await
        .unwrap();
}

/// Answers all rows.
pub(crate) async fn write(setup: &Setup, entries: &[Entry], sizes: &[usize]) -> Vec<String> {
    clear(setup).await;
    let mut rest = entries;
    let mut sizes = sizes.iter().copied().cycle();
    while !rest.is_empty() {
        let size = sizes.next().unwrap_or(1).min(rest.len());
        let (now, later) = rest.split_at(size);
        setup.write_batch(&batch(now.to_vec())).await.unwrap();
        rest = later;
    }
    rows(setup).await
}

#[test]
fn any_batches_leave_the_same_rows() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let setup = runtime.block_on(setup());
    let mut runner = TestRunner::new(Config {
        failure_persistence: None,
        ..Config::with_cases(40)
    });
    let entries = prop::collection::vec(prop::collection::vec(change(), 0..3), 1..20);
    let sizes = prop::collection::vec(1_usize..8, 1..4);
    let outcome = runner.run(&(entries, sizes), |(changes, sizes)| {
        let mut redis = Redis::default();
        let entries: Vec<Entry> = changes
            .into_iter()
            .zip(1..)
            .map(|(changes, seq)| {
                entry(
                    seq,
                    changes
                        .into_iter()
                        .filter(|change| redis.allows(change))
                        .collect(),
                )
            })
            .collect();
        let (one_by_one, in_batches) = runtime.block_on(async {
            let one_by_one = write(&setup, &entries, &[1]).await;
            (one_by_one, write(&setup, &entries, &sizes).await)
        });
        for (one, other) in one_by_one.iter().zip(&in_batches) {
            prop_assert_eq!(one, other);
        }
        prop_assert_eq!(one_by_one.len(), in_batches.len());
        Ok(())
    });
    runtime.block_on(async { drop(setup) });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}
