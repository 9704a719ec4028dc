//! Skills, backup pools and slow hand-out, from the scan to WeCom, while time passes and allocators die.

use std::collections::BTreeSet;

use allocation::{ChannelId, MemberId, PoolId, PresenceChange, Skill, Strategy, Weight};
use allocator::people;
use e2e::{Options, World, eventually};
use ledger::{
    Allocation, AllocationState, Fallback, NewChannel, NewMember, NewPool, Precondition, Relax,
    Routing, Trail,
};

fn member(name: &str) -> MemberId {
    MemberId::new(name).expect("a member")
}

fn pool_id(name: &str) -> PoolId {
    PoolId::new(name).expect("a pool")
}

fn english() -> Skill {
    "lang:en".parse().expect("a skill")
}

async fn can(world: &World, name: &str, skills: &[Skill]) {
    let new = NewMember {
        userid: name.to_owned(),
        skills: skills.iter().cloned().collect(),
        ..NewMember::default()
    };
    let trail = Trail::system(world.app.now_ms(), "test");
    let members = world.app.ledger.members();
    let id = member(name);
    let put = members.put(&world.corp, &id, &new, Precondition::None, &trail);
    put.await.expect("a member");
}

async fn pool(world: &World, name: &str, members: &[&str], routing: Routing) {
    let one = Weight::from_thousandths(1000).expect("a weight");
    let new = NewPool {
        name: name.to_owned(),
        strategy: Strategy::WeightedRoundRobin,
        load_window_seconds: None,
        offers: None,
        routing,
        members: members.iter().map(|name| (member(name), one)).collect(),
        limits: Default::default(),
    };
    let trail = Trail::system(world.app.now_ms(), "test");
    let pools = world.app.ledger.pools();
    let id = pool_id(name);
    let put = pools.put(&world.corp, &id, &new, Precondition::None, &trail);
    put.await.expect("a pool");
}

/// A State that nobody has heard of: whoever meets it first reads channels and pools anew. So this comes last.
async fn channel(world: &World, name: &str, pool: &str, needs: &[Skill]) {
    let new = NewChannel {
        name: name.to_owned(),
        pool: pool_id(pool),
        states: vec![name.to_owned()],
        welcome: None,
        card: false,
        needs: needs.to_vec(),
        limits: ledger::ChannelLimits::default(),
        visits: None,
    };
    let id = ChannelId::new(name).expect("a channel");
    let trail = Trail::system(world.app.now_ms(), "test");
    let channels = world.app.ledger.channels();
    let put = channels.put(&world.corp, &id, &new, Precondition::None, &trail);
    put.await.expect("a channel");
    let told = people::sync(&world.app, world.corp_app()).await;
    told.expect("Redis is told");
}

async fn presence(world: &World, names: &[&str], lease_until_ms: u64) {
    let change = |name: &&str| PresenceChange {
        member: member(name),
        lease_until_ms,
    };
    let changes = names.iter().map(change).collect();
    let roster = &world.corp_app().roster;
    let told = roster.presence(changes, "", None).await;
    told.expect("a heartbeat");
}

async fn comes(world: &World, customer: &str, state: &str) -> Allocation {
    world.scan_state(customer, state);
    world.sim.advance(std::time::Duration::from_millis(1)).await;
    world.allocated(customer).await
}

/// As soon as somebody has him.
async fn assigned(world: &World, customer: &str) -> Allocation {
    eventually(&format!("{customer} has a member"), || async {
        let row = world.rows(customer).await.into_iter().next()?;
        row.member.is_some().then_some(row)
    })
    .await
}

fn waited_ms(row: &Allocation) -> u64 {
    row.assigned_ms.expect("assigned") - row.decided_ms
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_needs_english_gets_who_speaks_it_and_after_a_wait_anybody() {
    let world = World::start(Options {
        allocators: 2,
        cards: false,
        ..Options::default()
    })
    .await;
    can(&world, "ma", &[english()]).await;
    let relax = Relax {
        skill: english(),
        after_seconds: 2,
    };
    let routing = Routing {
        relax: vec![relax],
        ..Routing::default()
    };
    pool(&world, "sales", &["ma", "mb", "mc"], routing).await;
    channel(&world, "english", "sales", &[english()]).await;
    for n in 0..6 {
        let row = comes(&world, &format!("wmE{n}"), "english").await;
        assert_eq!(row.member, Some(member("ma")));
    }
    let customers = world.scans("wmC", 6).await;
    world.each_has_one(&customers).await;
    presence(&world, &["ma"], 0).await;
    let waits = comes(&world, "wmWaits", "english").await;
    assert_eq!(
        (waits.state, waits.member),
        (AllocationState::Waiting, None)
    );
    // Nobody is held up who does not need it.
    let other = comes(&world, "wmOther", "poster").await;
    assert!(other.member.is_some());
    let row = assigned(&world, "wmWaits").await;
    assert!(waited_ms(&row) >= 2_000, "{row:?}");
    assert_ne!(row.member, Some(member("ma")));
    world.quiet().await;
    let transfer = world.transfer("wmWaits").await;
    assert_eq!(Some(transfer.taker), row.member);
    world.close().await;
}

/// The only allocator dies while customers wait for the backup.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_backup_serves_after_the_wait_though_the_allocator_died() {
    let mut world = World::start(Options {
        cards: false,
        ..Options::default()
    })
    .await;
    let routing = Routing {
        fallbacks: vec![Fallback {
            pool: pool_id("sales"),
            after_seconds: 4,
            without: BTreeSet::new(),
        }],
        alert_after_seconds: Some(1),
        ..Routing::default()
    };
    can(&world, "md", &[]).await;
    pool(&world, "night", &["md"], routing).await;
    channel(&world, "night", "night", &[]).await;
    for n in 0..3 {
        let row = comes(&world, &format!("wmN{n}"), "night").await;
        assert_eq!(row.state, AllocationState::Waiting);
    }
    world.kill_allocator(0);
    world.start_allocator().await;
    let mut served = BTreeSet::new();
    for n in 0..3 {
        let row = assigned(&world, &format!("wmN{n}")).await;
        assert!(waited_ms(&row) >= 4_000, "{row:?}");
        assert_eq!(row.pool, pool_id("night"));
        served.extend(row.member);
    }
    let all = ["ma", "mb", "mc"].map(member);
    assert_eq!(served, BTreeSet::from(all));
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_in_the_morning_does_not_get_the_whole_night() {
    let world = World::start(Options {
        allocators: 2,
        cards: false,
        ..Options::default()
    })
    .await;
    let routing = Routing {
        drip_seconds: Some(1),
        ..Routing::default()
    };
    pool(&world, "night", &["mc"], routing).await;
    presence(&world, &["mc"], 0).await;
    channel(&world, "night", "night", &[]).await;
    for n in 0..4 {
        let row = comes(&world, &format!("wmN{n}"), "night").await;
        assert_eq!(row.state, AllocationState::Waiting);
    }
    presence(&world, &["mc"], world.app.now_ms() + 3_600_000).await;
    let mut times = Vec::new();
    for n in 0..4 {
        let row = assigned(&world, &format!("wmN{n}")).await;
        times.push(row.assigned_ms.expect("assigned"));
    }
    let pauses: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.iter().all(|pause| *pause >= 1_000), "{pauses:?}");
    world.close().await;
}
