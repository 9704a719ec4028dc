//! From callback to ledger, and on to WeCom.

use std::time::Duration;

use e2e::{Options, World, eventually};
use ledger::AllocationState;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customer_gets_one_member_and_is_moved_to_him() {
    let world = World::start(Options {
        welcome: Some("欢迎"),
        ..Options::default()
    })
    .await;
    world.scan("wmC001");
    let allocation = world.allocated("wmC001").await;
    assert_eq!(allocation.state, AllocationState::Open);
    let member = allocation.member.clone().expect("a member");
    assert_eq!(
        allocation
            .giver
            .as_ref()
            .map(ToString::to_string)
            .as_deref(),
        Some("desk")
    );
    assert_eq!(
        allocation
            .channel
            .as_ref()
            .map(ToString::to_string)
            .as_deref(),
        Some("poster")
    );
    world.quiet().await;
    let counters = world.sim.counters();
    assert_eq!(counters.corps[world.corp.as_str()].transfers_accepted, 1);
    // A day later the customer is with him, and the ledger knows it.
    world.sim.advance(Duration::from_secs(25 * 3600)).await;
    let settled = eventually("the transfer is settled", || async {
        let row = world
            .app
            .ledger
            .allocations()
            .get(&world.corp, allocation.id)
            .await
            .ok()??;
        row.settled_as.clone()
    })
    .await;
    assert_eq!(settled, "done");
    let follows = world
        .sim
        .customer(Some(world.corp.as_str()), "wmC001")
        .expect("the customer");
    assert!(
        follows
            .follows
            .iter()
            .any(|one| one.member == member.as_str())
    );
    world.close().await;
}
