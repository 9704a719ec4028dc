//! An allocator is told to end.

use std::time::Duration;

use e2e::{Options, World, eventually};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use wecom_sim::{Act, Fault};

const TRANSFER: &str = "externalcontact/transfer_customer";
/// Who stops programs kills them then.
const LONGEST: Duration = Duration::from_secs(30);

/// Case 139: told to end in the middle of a stream of customers, with another one starting at once, again and again:
/// each customer has one member, one transfer and one welcome, and every end is in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_lost_or_doubled_over_many_restarts() {
    let mut world = World::start(Options {
        welcome: Some("欢迎"),
        cards: false,
        ..Options::default()
    })
    .await;
    let mut customers = Vec::new();
    for round in 0..6 {
        customers.extend(world.scans(&format!("wmD{round}"), 40).await);
        let old = world.allocators.remove(0);
        old.terminate();
        world.start_allocator().await;
        customers.extend(world.scans(&format!("wmE{round}"), 10).await);
        let took = old.stop().await;
        assert!(took < LONGEST, "the end took {took:?}");
    }
    world.each_has_one(&customers).await;
    world.quiet().await;
    let counters = world.sim.counters();
    let corp = &counters.corps[world.corp.as_str()];
    assert_eq!(
        (corp.transfers_accepted, corp.transfers_doubled),
        (300, 0),
        "{corp:?}"
    );
    assert_eq!(
        (corp.welcomes_delivered, corp.welcomes_repeated),
        (300, 0),
        "{corp:?}"
    );
    world.close().await;
}

/// Case 139: a call of WeCom that is under way is waited for, and its outcome written down, before the program ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_under_way_is_finished() {
    let mut world = World::start(Options::default()).await;
    let held = world.sim.add_fault(Fault::new(TRANSFER, Act::Hold));
    let held = held.expect("a fault");
    world.scan("wmHeld");
    eventually("the call is under way", || async {
        world
            .sim
            .faults()
            .iter()
            .any(|fault| fault.hits > 0)
            .then_some(())
    })
    .await;
    let allocator = world.allocators.remove(0);
    allocator.terminate();
    eventually("it takes nothing new", || async {
        TcpStream::connect(allocator.admin)
            .await
            .is_err()
            .then_some(())
    })
    .await;
    assert!(!allocator.ended(), "it holds a call");
    world.sim.remove_fault(&held);
    assert!(allocator.stop().await < LONGEST);
    let transfer = world.transfer("wmHeld").await;
    assert_eq!(
        transfer.state,
        ledger::TransferState::Waiting,
        "written down by the one that asked"
    );
    world.start_allocator().await;
    world.quiet().await;
    let counters = world.sim.counters();
    let corp = &counters.corps[world.corp.as_str()];
    assert_eq!(corp.apis[TRANSFER].calls, 1, "{corp:?}");
    world.close().await;
}

/// Case 139: callers who never end their request and a Redis that never answers do not hold up the end for longer than
/// the stated time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_has_a_limit() {
    let mut world = World::start(Options {
        own_stores: true,
        allocator: "[http]\nshutdown_ms = 1000\n".to_owned(),
        ..Options::default()
    })
    .await;
    let allocator = world.allocators.remove(0);
    let mut idle = TcpStream::connect(allocator.api)
        .await
        .expect("a connection");
    let mut slow = Vec::new();
    for (addr, begin) in [
        (allocator.admin, "GET /livez HTTP/1.1\r\nHo"),
        (
            allocator.api,
            "POST /api/v1/corps/x/allocations HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{",
        ),
    ] {
        let mut caller = TcpStream::connect(addr).await.expect("a connection");
        caller.write_all(begin.as_bytes()).await.expect("sent");
        slow.push(caller);
    }
    let redis = world.redis.as_ref().expect("a Redis of its own");
    redis.freeze();
    allocator.terminate();
    let begun = std::time::Instant::now();
    let ended = allocator.end().await;
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    assert!(
        matches!(ended, Err(allocator::run::Error::Unfinished(_))),
        "{ended:?}"
    );
    redis.thaw();
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).await.ok();
    assert!(rest.is_empty(), "nobody asked anything there");

    world.start_allocator().await;
    world.scan("wmNext");
    world.allocated("wmNext").await;
    world.close().await;
}
