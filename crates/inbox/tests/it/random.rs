//! The same random operations through the model and through Redis must agree: every answer, and the state after
//! every step.

use inbox::connect::Connection;
use inbox::{Config, Consumer, Delivery, EntryId, Group, NewDelivery, Selection, Taken};
use proptest::prelude::*;

use crate::model::{Handed, Letter, Model};
use crate::support::{ENDPOINT, Fixture, T0, fixture_with, read};

#[derive(Clone, Debug)]
enum Op {
    Append(Vec<(u8, bool)>),
    Next {
        group: Group,
        consumer: usize,
        max: usize,
    },
    Ack {
        group: Group,
        pick: usize,
    },
    Fail {
        group: Group,
        pick: usize,
    },
    Trim,
    Replay {
        pick: usize,
        range: bool,
        dry_run: bool,
    },
    Delete {
        pick: usize,
    },
    Destroy {
        group: Group,
    },
    Wait {
        ms: u64,
    },
    Mark {
        entity: u8,
        in_ms: u64,
    },
    Take {
        count: usize,
        lease_ms: u64,
    },
    Done {
        pick: usize,
        again_in_ms: Option<u64>,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let group = prop_oneof![Just(Group::Record), Just(Group::Decide)];
    let pick = 0..100_usize;
    prop_oneof![
        6 => prop::collection::vec((0..40_u8, any::<bool>()), 1..6).prop_map(Op::Append),
        8 => (group.clone(), 0..2_usize, prop_oneof![Just(1), Just(3), Just(50)])
            .prop_map(|(group, consumer, max)| Op::Next { group, consumer, max }),
        5 => (group.clone(), pick.clone()).prop_map(|(group, pick)| Op::Ack { group, pick }),
        5 => (group.clone(), pick.clone()).prop_map(|(group, pick)| Op::Fail { group, pick }),
        2 => Just(Op::Trim),
        1 => (pick.clone(), any::<bool>(), any::<bool>())
            .prop_map(|(pick, range, dry_run)| Op::Replay { pick, range, dry_run }),
        1 => pick.clone().prop_map(|pick| Op::Delete { pick }),
        1 => group.prop_map(|group| Op::Destroy { group }),
        3 => (0..4_000_u64).prop_map(|ms| Op::Wait { ms }),
        2 => (0..6_u8, 0..3_000_u64).prop_map(|(entity, in_ms)| Op::Mark { entity, in_ms }),
        3 => (1..4_usize, 1..3_000_u64).prop_map(|(count, lease_ms)| Op::Take { count, lease_ms }),
        3 => (pick, prop::option::of(0..2_000_u64))
            .prop_map(|(pick, again_in_ms)| Op::Done { pick, again_in_ms }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lua_and_model_agree(ops in prop::collection::vec(op(), 1..80)) {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(run(ops));
    }
}

struct Run {
    f: Fixture<'static>,
    model: Model,
    consumers: Vec<(Group, usize, Consumer<Connection>)>,
    /// What readers hold, in both worlds.
    held: Vec<(Group, usize, Delivery)>,
    leases: Vec<Taken>,
    outside: redis::aio::MultiplexedConnection,
    now_ms: u64,
}

async fn run(ops: Vec<Op>) {
    let config = Config {
        max_length: 20,
        max_tries: 3,
        claim_idle_ms: 0,
        claim_every_ms: 0,
        ..Config::default()
    };
    let f = fixture_with(config.clone()).await;
    let mut consumers = Vec::new();
    for group in Group::ALL {
        for number in 0..2 {
            consumers.push((
                group,
                number,
                f.consumer(group, &format!("c{number}")).await,
            ));
        }
    }
    let mut run = Run {
        outside: f.server.connection().await,
        f,
        model: Model::new(&config),
        consumers,
        held: Vec::new(),
        leases: Vec::new(),
        now_ms: T0,
    };
    for op in ops {
        let label = format!("{op:?}");
        // No two operations at the same time, so that only ids break ties.
        run.now_ms += 1;
        run.step(op).await;
        run.compare(&label).await;
    }
}

impl Run {
    async fn step(&mut self, op: Op) {
        let now_ms = self.now_ms;
        match op {
            Op::Append(texts) => self.append(texts).await,
            Op::Next {
                group,
                consumer,
                max,
            } => self.next(group, consumer, max).await,
            Op::Ack { group, pick } => {
                if let Some((order, delivery)) = self.pick(group, pick) {
                    let real = self.f.inbox.ack(group, &[delivery.entry]).await.unwrap();
                    assert_eq!(real, self.model.ack(group, order));
                }
            }
            Op::Fail { group, pick } => {
                if let Some((order, delivery)) = self.pick(group, pick) {
                    let entries = [delivery.entry];
                    let real = self
                        .f
                        .inbox
                        .fail(group, &entries, "why", Some(now_ms))
                        .await;
                    assert_eq!(real.unwrap(), [self.model.fail(group, order, now_ms)]);
                }
            }
            Op::Trim => assert_eq!(self.f.inbox.trim().await.unwrap(), self.model.trim()),
            Op::Replay {
                pick,
                range,
                dry_run,
            } => self.replay(pick, range, dry_run).await,
            Op::Delete { pick } => self.delete(pick).await,
            Op::Destroy { group } => {
                if self.model.length() > 0 {
                    let key = self.f.key("inbox");
                    self.f
                        .server
                        .cli(&["XGROUP", "DESTROY", &key, group.as_str()]);
                    self.model.destroy(group);
                }
            }
            Op::Wait { ms } => self.now_ms += ms,
            Op::Mark { entity, in_ms } => {
                let (entity, due) = (format!("e{entity}"), now_ms + in_ms);
                self.f.inbox.dirty_mark("pair", &entity, due).await.unwrap();
                self.model.dirty_mark(&entity, due);
            }
            Op::Take { count, lease_ms } => {
                let taken = self
                    .f
                    .inbox
                    .dirty_take("pair", Some(now_ms), count, lease_ms)
                    .await;
                let taken = taken.unwrap();
                let entities: Vec<_> = taken.iter().map(|taken| taken.entity.clone()).collect();
                assert_eq!(entities, self.model.dirty_take(now_ms, count, lease_ms));
                self.leases.extend(taken);
            }
            Op::Done { pick, again_in_ms } => {
                if !self.leases.is_empty() {
                    let lease = self.leases.remove(pick % self.leases.len());
                    let again_ms = again_in_ms.map(|ms| now_ms + ms);
                    let leases = [lease.clone()];
                    let real = self.f.inbox.dirty_done("pair", &leases, again_ms).await;
                    let model =
                        self.model
                            .dirty_done(&lease.entity, lease.lease_until_ms, again_ms);
                    assert_eq!(real.unwrap(), model);
                }
            }
        }
    }

    async fn append(&mut self, texts: Vec<(u8, bool)>) {
        let (mut deliveries, mut expected) = (Vec::new(), Vec::new());
        for (text, dirty) in texts {
            let (text, entity) = (format!("text {text}"), format!("e{}", text % 6));
            let mut delivery = NewDelivery::new(ENDPOINT, self.now_ms, text.clone());
            if dirty {
                delivery = delivery.with_dirty("pair", entity.clone());
            }
            deliveries.push(delivery);
            let entity = dirty.then_some(entity.as_str());
            expected.push(self.model.append(&text, self.now_ms, entity));
        }
        assert_eq!(self.f.inbox.append(&deliveries).await.unwrap(), expected);
    }

    async fn next(&mut self, group: Group, consumer: usize, max: usize) {
        let expected = self.model.next(group, consumer, max, self.now_ms);
        let (_, _, reader) = self
            .consumers
            .iter_mut()
            .find(|(g, number, _)| *g == group && *number == consumer)
            .unwrap();
        reader.set_clock(self.now_ms);
        let got = read(reader, max).await;
        let orders = expected.iter().map(|handed| handed.order);
        let real: Vec<_> = got
            .iter()
            .zip(orders)
            .map(|(delivery, order)| Handed {
                order,
                text: delivery.plaintext.clone(),
                tries: delivery.tries,
                again: delivery.again,
            })
            .collect();
        assert_eq!(real, expected);
        assert_eq!(got.len(), expected.len());
        for (delivery, handed) in got.into_iter().zip(expected) {
            self.model.tell_id(handed.order, delivery.entry);
            self.held.push((group, handed.order, delivery));
        }
    }

    fn pick(&mut self, group: Group, pick: usize) -> Option<(usize, Delivery)> {
        let held: Vec<_> = self.held.iter().filter(|(g, ..)| *g == group).collect();
        // Kept among the held: a second acknowledgement or failure of the same is a case too.
        let (_, order, delivery) = held.get(pick % held.len().max(1))?;
        Some((*order, delivery.clone()))
    }

    async fn replay(&mut self, pick: usize, range: bool, dry_run: bool) {
        let letters = self
            .f
            .inbox
            .dead_list(EntryId::MIN, EntryId::MAX, 1000)
            .await
            .unwrap();
        let Some(first) = letters.get(pick % letters.len().max(1)) else {
            return;
        };
        let at = pick % letters.len();
        let (selection, picked) = if range {
            let selection = Selection::Range {
                from: first.id,
                to: EntryId::MAX,
            };
            (selection, at..letters.len())
        } else {
            (
                Selection::Ids(vec![first.id, EntryId { ms: 1, seq: 1 }]),
                at..at + 1,
            )
        };
        let real = self.f.inbox.dead_replay(&selection, dry_run).await.unwrap();
        assert_eq!(real, self.model.dead_replay(picked, dry_run));
    }

    async fn delete(&mut self, pick: usize) {
        let orders = self.model.orders();
        if orders.is_empty() {
            return;
        }
        let at = pick % orders.len();
        let key = self.f.key("inbox");
        let range: redis::streams::StreamRangeReply = redis::cmd("XRANGE")
            .arg((&key, "-", "+"))
            .query_async(&mut self.outside)
            .await
            .unwrap();
        let id = range.ids[at].id.as_str();
        assert_eq!(self.f.server.cli(&["XDEL", &key, id]), "1");
        self.model.delete(orders[at]);
    }

    async fn compare(&self, label: &str) {
        let stats = self.f.inbox.stats(Some(self.now_ms)).await.unwrap();
        let model = &self.model;
        assert_eq!(stats.length, model.length(), "{label}");
        assert_eq!(
            stats.record.pending,
            model.pending(Group::Record),
            "{label}"
        );
        assert_eq!(
            stats.decide.pending,
            model.pending(Group::Decide),
            "{label}"
        );
        let counted = self.f.inbox.counters();
        assert_eq!(counted.lost, model.lost, "{label}");
        assert_eq!(counted.groups_created, model.groups_created, "{label}");
        let dirty = self.f.inbox.dirty_count("pair").await.unwrap();
        assert_eq!(
            (dirty.waiting, dirty.taken),
            model.dirty_counts(),
            "{label}"
        );
        let letters = self
            .f
            .inbox
            .dead_list(EntryId::MIN, EntryId::MAX, 1000)
            .await
            .unwrap();
        let letters: Vec<_> = letters
            .into_iter()
            .map(|letter| Letter {
                group: letter.group,
                text: letter.plaintext,
                tries: letter.tries,
                failed_ms: letter.failed_ms,
            })
            .collect();
        assert_eq!(letters, model.dead, "{label}");
    }
}
