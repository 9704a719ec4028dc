//! Many hands reach for one customer, or for one member's last place.

use allocation::{AllocationId, Decision, MemberId, PoolId, Request, SetMember};
use e2e::{Options, World, eventually};
use ledger::{AllocationState, NewMember, Precondition, Trail};
use wecom_sim::ScanRequest;

/// Case 65: twenty decisions about one waiting customer at once: one has him, nineteen hear that he is taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customer_is_taken_once() {
    let world = World::start(Options {
        allocators: 2,
        ..Options::default()
    })
    .await;
    let corp = world.corp_app();
    let request = || Request {
        allocation: AllocationId(uuid::Uuid::now_v7()),
        pool: PoolId::new("sales").expect("a pool"),
        subject: world.subject("wmOnce"),
        holder: None,
        request: None,
        echo: false,
        plan: None,
    };
    let asked = (0..20).map(|_| corp.roster.decide(vec![request()], "", None));
    let answers = futures_util::future::join_all(asked).await;
    let answers: Vec<Decision> = answers
        .into_iter()
        .flat_map(|applied| applied.expect("a decision").answer)
        .collect();
    let taken = |decision: &&Decision| matches!(decision, Decision::Assigned { .. });
    let late = |decision: &&Decision| matches!(decision, Decision::Already { .. });
    assert_eq!(answers.iter().filter(taken).count(), 1);
    assert_eq!(answers.iter().filter(late).count(), 19);
    corp.log_grew.notify_one();
    world.each_has_one(&["wmOnce".to_owned()]).await;
    let held = world.app.ledger.allocations();
    let held = held.open_by_member(&world.corp).await.expect("answers");
    assert_eq!(held.iter().map(|(_, count)| count).sum::<u64>(), 1);
    world.close().await;
}

/// Case 73: one place is left, fifty customers come at once over two allocators: one gets it, the others wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_place_is_given_once() {
    let world = World::start(Options {
        allocators: 2,
        gateways: 2,
        members: vec![("ma", 1)],
        ..Options::default()
    })
    .await;
    let ma = MemberId::new("ma").expect("a member");
    let new = NewMember {
        userid: "ma".to_owned(),
        cap: Some(3),
        blocked: None,
        ..NewMember::default()
    };
    let trail = Trail::system(world.app.now_ms(), "test");
    let members = world.app.ledger.members();
    let put = members.put(&world.corp, &ma, &new, Precondition::None, &trail);
    put.await.expect("a limit");
    let change = SetMember::capped(ma.clone(), Some(3), None);
    let set = world.corp_app().roster.set_member(change, "", None).await;
    set.expect("a limit");
    let scan = |customer: String| {
        let scan = ScanRequest::member("ma", "poster").customer(customer);
        world.sim.scan(&scan).expect("a scan");
    };
    for n in 0..52 {
        scan(format!("wmCap{n:02}"));
        if n < 2 {
            let row = world.allocated(&format!("wmCap{n:02}")).await;
            assert_eq!(row.state, AllocationState::Open);
        }
    }
    let states = eventually("everybody is in the ledger", || async {
        let mut states = Vec::new();
        for n in 0..52 {
            let subject = world.subject(&format!("wmCap{n:02}"));
            let rows = world.app.ledger.allocations();
            let row = rows.open_of(&world.corp, &subject).await.ok()?.pop()?;
            states.push(row.state);
        }
        Some(states)
    })
    .await;
    let open = states.iter().filter(|one| **one == AllocationState::Open);
    assert_eq!(open.count(), 3);
    let waiting = |one: &&AllocationState| **one == AllocationState::Waiting;
    assert_eq!(states.iter().filter(waiting).count(), 49);
    world.close().await;
}

/// What a pool lets go after its window is nobody's load any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loads_end_when_the_window_of_the_pool_has_passed() {
    let world = World::start(Options {
        members: vec![("ma", 1)],
        load_window_seconds: Some(1),
        ..Options::default()
    })
    .await;
    let scan = ScanRequest::member("ma", "poster").customer("wmWindow");
    world.sim.scan(&scan).expect("a scan");
    let subject = world.subject("wmWindow");
    eventually("let go", || async {
        let rows = world.app.ledger.allocations();
        let row = rows.of_subject(&world.corp, &subject).await.ok()?.pop()?;
        (row.close_reason.as_deref() == Some("window_passed")).then_some(())
    })
    .await;
    let held = world.app.ledger.allocations();
    let held = held.open_by_member(&world.corp).await.expect("answers");
    assert!(held.is_empty(), "{held:?}");
    world.close().await;
}
