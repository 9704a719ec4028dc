//! Many customers at once, while processes die.

use std::time::Duration;

use e2e::{Options, World};
use wecom_sim::ScanRequest;

/// Cases 63 and 77 over the whole path: shares stay within 1 while an allocator dies twice and every fifth event comes three times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_customer_gets_one_member_whatever_dies() {
    let mut world = World::start(Options {
        gateways: 2,
        allocators: 2,
        members: vec![("ma", 3), ("mb", 2), ("mc", 1)],
        cards: false,
        sim: "[callbacks]\nduplicate_rate = 0.2\nreorder_rate = 0.1\n".to_owned(),
        // What the dead held, and what they left unknown, is taken up within the time of a test.
        allocator:
            "[outbox]\nlease_ms = 5001\n[handover]\nsettle_after_ms = 200\nunknown_for_ms = 1000\n"
                .to_owned(),
        ..Options::default()
    })
    .await;
    let customers: Vec<String> = (0..300).map(|n| format!("wmS{n:04}")).collect();
    for (n, customer) in customers.iter().enumerate() {
        world
            .sim
            .scan(&ScanRequest::member("desk", "poster").customer(customer))
            .expect("a scan");
        if n == 100 || n == 200 {
            world.kill_allocator(0);
            world.start_allocator().await;
        }
    }
    world.sim.advance(Duration::from_millis(1)).await;
    let counts = world.each_has_one(&customers).await;
    for (member, share) in [("ma", 150), ("mb", 100), ("mc", 50)] {
        let got = counts.get(member).copied().unwrap_or_default();
        assert!(
            got.abs_diff(share) <= 1,
            "{member} has {got}, his share is {share}: {counts:?}"
        );
    }
    world.quiet().await;
    let counters = world.sim.counters();
    let corp = &counters.corps[world.corp.as_str()];
    assert_eq!(corp.transfers_accepted, 300);
    assert_eq!(corp.transfers_doubled, 0);
    world.close().await;
}
