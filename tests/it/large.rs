//! A corp with 14,000 members.

use std::collections::HashSet;

use allocation::{
    AllocationId, Decision, MAX_BATCH, MAX_MEMBERS, MemberId, PoolId, PresenceChange, Request,
    Strategy, Weight,
};
use allocator::payload::{Context, Payload};
use e2e::{Options, World, eventually};
use ledger::{AllocationState, NewChannel, NewPool, Precondition, Trail};
use wecom_sim::{Act, Fault, Generate};

const MEMBERS: u32 = 14_000;
const LIST: &str = "externalcontact/list";
/// The dirty kind of the slow audit: members whose customers are to be listed.
const AUDIT: &str = "audit";

fn member(number: u32) -> MemberId {
    MemberId::new(format!("p{number}")).expect("a member")
}

fn half(name: &str) -> impl Iterator<Item = u32> {
    let middle = MEMBERS / 2;
    if name == "north" {
        1..=middle
    } else {
        middle + 1..=MEMBERS
    }
}

/// 14,000 people join, at WeCom and in the ledger, half of them in each of two pools: one pool has 10,000 at most.
async fn people_join(world: &World) {
    let mut corp = world.sim.config().corps.remove(0);
    corp.generate.push(Generate::new("p", MEMBERS));
    world.sim.put_corp(corp).expect("people join");
    let join = "INSERT INTO members (corp_id, member, userid, spelled_by, created_at, updated_at)
        SELECT $1, 'p' || n, 'p' || n, 'console', now(), now() FROM generate_series(1, $2) AS n";
    sqlx::query(join)
        .bind(world.corp.as_str())
        .bind(i64::from(MEMBERS))
        .execute(world.app.ledger.pool())
        .await
        .expect("the ledger answers");
    assert!(MEMBERS as usize > MAX_MEMBERS);
    let trail = Trail::system(world.app.now_ms(), "test");
    for name in ["north", "south"] {
        let one = Weight::from_thousandths(1000).expect("a weight");
        let pool = NewPool {
            name: name.to_owned(),
            strategy: Strategy::WeightedRoundRobin,
            load_window_seconds: None,
            offers: None,
            routing: Default::default(),
            members: half(name).map(|number| (member(number), one)).collect(),
            limits: Default::default(),
        };
        let id = PoolId::new(name).expect("a pool");
        let pools = world.app.ledger.pools();
        let put = pools.put(&world.corp, &id, &pool, Precondition::None, &trail);
        put.await.expect("a pool");
    }
    // Customers whose members get no card: this is not about messages.
    let silent = NewChannel {
        name: "silent".to_owned(),
        pool: PoolId::new("north").expect("a pool"),
        states: vec!["silent".to_owned()],
        welcome: None,
        card: false,
        needs: Vec::new(),
        limits: ledger::ChannelLimits::default(),
        visits: None,
    };
    let id = allocation::ChannelId::new("silent").expect("a channel");
    let channels = world.app.ledger.channels();
    let put = channels.put(&world.corp, &id, &silent, Precondition::None, &trail);
    put.await.expect("a channel");
}

/// Two batches of customers of this pool; who got them.
async fn decide(world: &World, pool: &str) -> Vec<MemberId> {
    let mut takers = Vec::new();
    for batch in 0..2 {
        let customers: Vec<String> = (0..MAX_BATCH)
            .map(|n| format!("wm-{pool}-{batch}-{n}"))
            .collect();
        let contexts = customers.iter().map(|customer| Context {
            source: "test".to_owned(),
            subject_kind: "wecom".to_owned(),
            subject_id: customer.clone(),
            channel: Some("silent".to_owned()),
            ..Context::default()
        });
        let payload = Payload {
            contexts: contexts.collect(),
            ..Payload::default()
        };
        let requests = customers.iter().map(|customer| Request {
            allocation: AllocationId(uuid::Uuid::now_v7()),
            pool: PoolId::new(pool).expect("a pool"),
            subject: world.subject(customer),
            holder: None,
            request: None,
            echo: false,
            plan: None,
        });
        let roster = &world.corp_app().roster;
        let applied = roster
            .decide(requests.collect(), &payload.text(), None)
            .await;
        takers.extend(
            applied
                .expect("Redis answers")
                .answer
                .into_iter()
                .map(|decision| match decision {
                    Decision::Assigned { member, .. } => member,
                    other => panic!("{other:?}"),
                }),
        );
    }
    takers
}

/// How many members the audit has before it.
async fn marked(world: &World) -> u64 {
    let count = world.corp_app().inbox.dirty_count(AUDIT).await;
    let count = count.expect("Redis answers");
    count.waiting + count.taken
}

async fn list_now(world: &World, member: &str) {
    let inbox = &world.corp_app().inbox;
    let now_ms = world.app.now_ms();
    inbox
        .dirty_mark(AUDIT, member, now_ms)
        .await
        .expect("Redis answers");
}

/// Case 140: 14,000 members come into two pools and into the slow comparison while customers are decided, the program
/// is restarted half-way, and WeCom does not answer for two of them: everybody stays in the comparison and in the
/// choice, nobody is left out for an answer that failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fourteen_thousand_members() {
    let mut world = World::start(Options {
        // The state of so many is large: the log must stand still long enough for reading it.
        allocator: "[roster]\nwake_every_ms = 60000\n".to_owned(),
        ..Options::default()
    })
    .await;
    let all = u64::from(MEMBERS) + 4;
    eventually("the few of the start are marked", || async {
        (marked(&world).await == 4).then_some(())
    })
    .await;
    people_join(&world).await;
    let before = world.scans("wmBefore", 20).await;

    // A start lists everybody, and so does the next one: what the first did not finish is not lost.
    for round in 0..2 {
        world.allocators.remove(0).stop().await;
        world.start_allocator().await;
        let during = world.scans(&format!("wmDuring{round}"), 20).await;
        world.each_has_one(&during).await;
        eventually("everybody is marked", || async {
            (marked(&world).await == all).then_some(())
        })
        .await;
    }
    world.each_has_one(&before).await;
    eventually("Redis knows both pools", || async {
        let pools = ["north", "south"].map(|name| PoolId::new(name).expect("a pool"));
        let versions = world.corp_app().roster.pool_versions(&pools).await.ok()?;
        versions.iter().all(Option::is_some).then_some(())
    })
    .await;
    let until_ms = world.app.now_ms() + 3_600_000;
    let here = (1..=MEMBERS).map(|number| PresenceChange {
        member: member(number),
        lease_until_ms: until_ms,
    });
    let roster = &world.corp_app().roster;
    roster
        .presence(here.collect(), "", None)
        .await
        .expect("heartbeats");
    for name in ["north", "south"] {
        let takers = decide(&world, name).await;
        let different: HashSet<&MemberId> = takers.iter().collect();
        assert_eq!(
            different.len(),
            takers.len(),
            "nobody is second before all were first"
        );
        let theirs: HashSet<MemberId> = half(name).map(member).collect();
        assert!(takers.iter().all(|taker| theirs.contains(taker)));
    }

    // One member's list fails twice, another's meets the rate limit.
    world.scan_member("p7", "poster", "wmKept");
    let kept = world.allocated("wmKept").await;
    let refused = Fault::new(LIST, Act::Errcode(-1)).member("p7").times(2);
    let fault = world.sim.add_fault(refused).expect("a fault");
    let hits = || {
        let faults = world.sim.faults();
        faults
            .iter()
            .find(|armed| armed.id == fault)
            .map_or(0, |armed| armed.hits)
    };
    for failed in 1..=2 {
        list_now(&world, "p7").await;
        eventually("the list fails", || async {
            (hits() == failed).then_some(())
        })
        .await;
        eventually("it is tried again later", || async {
            (marked(&world).await == all).then_some(())
        })
        .await;
    }
    let limited = Fault::new(LIST, Act::Errcode(45009)).member("p8").times(1);
    world.sim.add_fault(limited).expect("a fault");
    list_now(&world, "p8").await;
    eventually("the API pauses", || async {
        let blocks = world
            .app
            .quota
            .blocks(world.corp.as_str(), None)
            .await
            .ok()?;
        blocks.iter().any(|block| block.api == LIST).then_some(())
    })
    .await;
    let after = world.scans("wmAfter", 20).await;
    world.each_has_one(&after).await;
    assert_eq!(marked(&world).await, all);
    let left_out = "SELECT count(*) FROM members WHERE corp_id = $1 AND blocked IS NOT NULL";
    let left_out: i64 = sqlx::query_scalar(left_out)
        .bind(world.corp.as_str())
        .fetch_one(world.app.ledger.pool())
        .await
        .expect("the ledger answers");
    assert_eq!(left_out, 0);
    let now = world.allocated("wmKept").await;
    assert_eq!((now.id, now.state), (kept.id, AllocationState::Open));
    world.close().await;
}
