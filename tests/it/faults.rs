//! Stores and WeCom misbehave; nothing is lost, nothing is done twice.

use e2e::{Options, World, eventually};
use wecom_sim::{Act, Fault};

/// Case 84: a wiped Redis is rebuilt from the ledger, and everybody keeps whom he had.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wiped_redis_is_rebuilt_from_the_ledger() {
    let world = World::start(Options {
        own_stores: true,
        allocators: 2,
        ..Options::default()
    })
    .await;
    let before = world.scans("wmA", 30).await;
    let held = world.each_has_one(&before).await;
    world.quiet().await;
    world
        .redis
        .as_ref()
        .expect("a Redis of its own")
        .cli(&["FLUSHALL"]);
    // Closed until rebuilt: then everybody is off until his heartbeat.
    world.wait_open().await;
    let after = world.scans("wmB", 30).await;
    for customer in &after {
        world.allocated(customer).await;
    }
    world.all_online().await;
    assert!(world.each_has_one(&before).await.values().sum::<u64>() >= 30);
    let counts = eventually("those who came meanwhile have somebody", || async {
        let counts = world.each_has_one(&after).await;
        (counts.values().sum::<u64>() == 60).then_some(counts)
    })
    .await;
    for (member, count) in held {
        assert!(
            counts[&member] >= count,
            "{member} lost customers: {counts:?}"
        );
    }
    world.close().await;
}

/// Postgres is away: decisions go on, the ledger catches up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decisions_do_not_wait_for_postgres() {
    let mut world = World::start(Options {
        own_stores: true,
        ..Options::default()
    })
    .await;
    let mut postgres = world.postgres.take().expect("a Postgres of its own");
    postgres.stop().await;
    let seq = world
        .corp_app()
        .roster
        .status()
        .await
        .expect("Redis answers")
        .seq;
    let customers = world.scans("wmP", 20).await;
    eventually("all of them are decided", || async {
        let entries = world.corp_app().roster.log_read(seq, 1_000).await.ok()?;
        let decided: usize = entries
            .iter()
            .map(|entry| match &entry.op {
                allocation::Op::Decide(requests) => requests.len(),
                _ => 0,
            })
            .sum();
        (decided >= customers.len()).then_some(())
    })
    .await;
    postgres.restart().await;
    world.each_has_one(&customers).await;
    world.close().await;
}

/// WeCom says the rate is used up, loses answers after the effect, and forgets tokens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wecom_misbehaves_and_no_customer_is_moved_twice() {
    let world = World::start(Options {
        allocators: 2,
        allocator: "[handover]\nsettle_after_ms = 200\nunknown_for_ms = 1000\n".to_owned(),
        ..Options::default()
    })
    .await;
    world
        .sim
        .add_fault(
            Fault::new("externalcontact/transfer_customer", Act::Drop)
                .after()
                .probability(0.3),
        )
        .expect("a fault");
    world
        .sim
        .add_fault(
            Fault::new("externalcontact/transfer_customer", Act::Errcode(-1)).probability(0.2),
        )
        .expect("a fault");
    world
        .sim
        .add_fault(Fault::new("message/send", Act::Status(502)).probability(0.2))
        .expect("a fault");
    let mut customers = world.scans("wmW", 20).await;
    world.sim.invalidate_tokens(None, None);
    customers.extend(world.scans("wmX", 20).await);
    world.sim.invalidate_tokens(None, None);
    world.each_has_one(&customers).await;
    world.quiet().await;
    let counters = world.sim.counters();
    let corp = &counters.corps[world.corp.as_str()];
    assert_eq!(corp.transfers_accepted, 40, "{corp:?}");
    assert_eq!(corp.same_pair_transfers_max, 1);
    world.close().await;
}
