//! WeCom refuses: one customer, one member, or everything for a while.

use std::time::Duration;

use allocation::MemberId;
use e2e::{Options, World, eventually};
use wecom_sim::{Act, CallFilter, Fault};

const TRANSFER: &str = "externalcontact/transfer_customer";

/// Case 85: each customer of a transfer has his own answer. Who is refused stays with the member who has him.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_is_refused_customer_by_customer() {
    let world = World::start(Options {
        members: vec![("ma", 1)],
        allocator: "[handover]\nsettle_after_ms = 200\nunknown_for_ms = 1000\n".to_owned(),
        ..Options::default()
    })
    .await;
    for (customer, code) in [("wmT1", 40096), ("wmT3", 40131)] {
        let fault = Fault::new(TRANSFER, Act::Errcode(code)).customer(customer);
        world.sim.add_fault(fault).expect("a fault");
    }
    // In a transfer already, says WeCom once; then it knows of none, and it is asked again.
    let fault = Fault::new(TRANSFER, Act::Errcode(40129)).customer("wmT2");
    world.sim.add_fault(fault.times(1)).expect("a fault");
    for customer in ["wmT0", "wmT1", "wmT2", "wmT3"] {
        world.scan(customer);
    }
    for (customer, code) in [("wmT1", 40096), ("wmT3", 40131)] {
        let row = world.settled(customer).await;
        assert_eq!(row.settled_as.as_deref(), Some("kept"), "{customer}");
        assert_eq!(row.member, MemberId::new("desk").ok(), "{customer}");
        // Whoever reassigns him names the epoch that the ledger shows.
        let open = world.corp_app().roster.allocations_of(&row.subject).await;
        let open = open.expect("Redis answers").remove(0);
        assert_eq!((row.epoch, open.epoch), (1, 1), "{customer}");
        let transfers = world.app.ledger.transfers();
        let transfers = transfers.of_allocations(&world.corp, &[row.id]).await;
        let codes: Vec<_> = transfers
            .expect("the ledger answers")
            .iter()
            .map(|transfer| transfer.errcode)
            .collect();
        assert_eq!(codes, [Some(code)], "{customer}");
    }
    eventually("the other two are on their way", || async {
        let counters = world.sim.counters();
        (counters.corps[world.corp.as_str()].transfers_accepted == 2).then_some(())
    })
    .await;
    world.quiet().await;
    for customer in ["wmT0", "wmT2"] {
        let row = world.allocated(customer).await;
        assert_eq!(row.member, MemberId::new("ma").ok(), "{customer}");
        assert_eq!(row.settled_ms, None, "{customer} is with desk for a day");
    }
    world.close().await;
}

/// Cases 39 and 64: a member whom WeCom does not take is asked for once, left out with the reason, and the others get
/// his customers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_whom_wecom_refuses_is_left_out() {
    let world = World::start(Options::default()).await;
    let fault = Fault::new(TRANSFER, Act::Errcode(40098)).taker("mb");
    world.sim.add_fault(fault).expect("a fault");
    let customers: Vec<String> = (0..6).map(|n| format!("wmM{n}")).collect();
    for customer in &customers {
        world.scan(customer);
    }
    eventually("nobody is mb's", || async {
        let mut theirs = Vec::new();
        for customer in &customers {
            theirs.push(world.allocated(customer).await.member?);
        }
        theirs
            .iter()
            .all(|member| member.as_str() != "mb")
            .then_some(())
    })
    .await;
    let mb = MemberId::new("mb").expect("a member");
    let row = world.app.ledger.members().get(&world.corp, &mb).await;
    let row = row.expect("the ledger answers").expect("he is there");
    let blocked = row.blocked.map(|reason| reason.to_string());
    assert_eq!(blocked.as_deref(), Some("not_verified"));
    world.quiet().await;
    let counters = world.sim.counters();
    let corp = &counters.corps[world.corp.as_str()];
    assert_eq!(corp.transfers_accepted, 6, "{corp:?}");
    world.close().await;
}

/// Case 49: the app is refused whatever it asks for. Slow probes, nothing is given up, and all of it is done later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn effects_wait_while_wecom_refuses_the_app() {
    let world = World::start(Options {
        sim: "[check]\nexcused_per_block = 100\n".to_owned(),
        ..Options::default()
    })
    .await;
    world.scan("wmBefore");
    world.allocated("wmBefore").await;
    world.quiet().await;
    let refused = |world: &World| -> u64 {
        let counters = world.sim.counters();
        let apis = counters.corps[world.corp.as_str()].apis.values();
        apis.filter_map(|api| api.codes.get(&60020)).sum()
    };
    let fault = world.sim.add_fault(Fault::new("*", Act::Errcode(60020)));
    let fault = fault.expect("a fault");
    let customers: Vec<String> = (0..30).map(|n| format!("wmR{n:02}")).collect();
    for customer in &customers {
        world.scan(customer);
    }
    world.each_has_one(&customers).await;
    eventually("it was refused", || async {
        (refused(&world) > 0).then_some(())
    })
    .await;
    // How much is asked in some seconds is what this is about.
    tokio::time::sleep(Duration::from_secs(8)).await;
    let asked = refused(&world);
    assert!(
        asked <= 10,
        "{asked} calls in a few seconds are no slow probe"
    );
    world.sim.remove_fault(&fault);
    world.quiet().await;
    let counters = world.sim.counters();
    let corp = &counters.corps[world.corp.as_str()];
    assert_eq!(corp.transfers_accepted, 31, "{corp:?}");
    world.close().await;
}

/// WeCom says for ever that somebody is being moved, and knows nothing of it when it is asked. Each start that was sent
/// again is waited for like the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_of_unknown_outcome_is_not_sent_again_and_again() {
    const UNKNOWN_FOR_MS: i64 = 1_000;
    let world = World::start(Options {
        members: vec![("ma", 1)],
        allocator: "[handover]\nsettle_after_ms = 100\nunknown_for_ms = 1000\n".to_owned(),
        ..Options::default()
    })
    .await;
    let fault = Fault::new(TRANSFER, Act::Errcode(40129)).customer("wmAgain");
    let fault = world.sim.add_fault(fault).expect("a fault");
    world.scan("wmAgain");
    let filter = CallFilter {
        api: Some(TRANSFER.to_owned()),
        ..CallFilter::default()
    };
    let starts = eventually("it is asked for four times", || async {
        let calls = world.sim.calls(&filter);
        (calls.len() >= 4).then_some(calls)
    })
    .await;
    for pair in starts.windows(2) {
        let pause_ms = pair[1].at_ms - pair[0].at_ms;
        assert!(pause_ms >= UNKNOWN_FOR_MS - 100, "{pause_ms}");
    }
    world.sim.remove_fault(&fault);
    world.close().await;
}

/// The giver is gone, or one of the two has not logged in: that is no fault of the taker, and nobody after him.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_left_out_for_the_givers_fault() {
    let world = World::start(Options::default()).await;
    let not_there = Fault::new("user/get", Act::Errcode(60111)).member("desk");
    world.sim.add_fault(not_there).expect("a fault");
    for (customer, code) in [("wmG1", 40003), ("wmG2", 60111), ("wmG3", 40205)] {
        let fault = Fault::new(TRANSFER, Act::Errcode(code));
        let fault = world.sim.add_fault(fault).expect("a fault");
        world.scan(customer);
        let row = world.settled(customer).await;
        assert_eq!(row.settled_as.as_deref(), Some("kept"), "{code}");
        assert_eq!(row.member, MemberId::new("desk").ok(), "{code}");
        let transfers = world.app.ledger.transfers();
        let transfers = transfers.of_allocations(&world.corp, &[row.id]).await;
        assert_eq!(transfers.expect("the ledger answers").len(), 1, "{code}");
        world.sim.remove_fault(&fault);
    }
    for member in ["ma", "mb", "mc"] {
        assert_eq!(blocked(&world, member).await, None, "{member}");
    }
    world.close().await;
}

/// Whoever is gone himself is left out, and somebody else gets the customer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taker_who_is_gone_is_left_out() {
    let world = World::start(Options {
        members: vec![("ma", 1), ("mb", 1)],
        ..Options::default()
    })
    .await;
    let not_there = Fault::new("user/get", Act::Errcode(60111)).member("mb");
    world.sim.add_fault(not_there).expect("a fault");
    let refused = Fault::new(TRANSFER, Act::Errcode(60111)).taker("mb");
    world.sim.add_fault(refused).expect("a fault");
    for customer in ["wmL1", "wmL2"] {
        world.scan(customer);
    }
    let reason = eventually("mb is left out", || async { blocked(&world, "mb").await }).await;
    assert_eq!(reason, "left_or_not_visible");
    for customer in ["wmL1", "wmL2"] {
        eventually("ma gets him", || async {
            let row = world.allocated(customer).await;
            (row.member?.as_str() == "ma").then_some(())
        })
        .await;
    }
    assert_eq!(blocked(&world, "ma").await, None);
    world.close().await;
}

async fn blocked(world: &World, member: &str) -> Option<String> {
    let member = MemberId::new(member).expect("a member");
    let row = world.app.ledger.members().get(&world.corp, &member).await;
    let row = row.expect("the ledger answers").expect("he is there");
    row.blocked.map(|reason| reason.to_string())
}
