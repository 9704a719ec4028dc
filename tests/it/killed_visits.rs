//! An allocator is killed while visitors are given members: holds, slots, loads and places in line end when they were to end.

use allocation::{MemberId, PoolId};
use e2e::{Options, World, eventually};
use ledger::{NewMember, Precondition, Trail, VisitCounts};
use reqwest::header;

use crate::pages::{Browser, page_for, told};

const MEMBERS: [&str; 3] = ["m0", "m1", "m2"];
const CAP: u32 = 5;
const SLOTS: u32 = 2;
/// Shorter than can be put, as the test waits for it.
const HOLD_SECONDS: u32 = 2;
const VISITORS: usize = 40;

fn members() -> [MemberId; 3] {
    MEMBERS.map(|name| MemberId::new(name).expect("a member"))
}

/// Each member takes a few at a time, so that visitors wait, too.
async fn few_at_a_time(world: &World) {
    let trail = Trail::system(world.app.now_ms(), "test");
    for (name, member) in MEMBERS.into_iter().zip(members()) {
        let new = NewMember {
            userid: name.to_owned(),
            cap: Some(CAP),
            ..NewMember::default()
        };
        let table = world.app.ledger.members();
        let put = table.put(&world.corp, &member, &new, Precondition::None, &trail);
        put.await.expect("a member");
    }
    eventually("Redis is told", || async {
        let views = world.corp_app().roster.members(&members()).await.ok()?;
        let told = views.iter().filter(|view| view.cap == Some(CAP)).count();
        (told == MEMBERS.len()).then_some(())
    })
    .await;
}

async fn counts(world: &World) -> Option<VisitCounts> {
    let visits = world.app.ledger.visits();
    visits.counts(&world.corp, 0).await.ok()
}

/// What Redis has of them: load, slots that are lent, holds and places in line with an end, those who wait.
async fn left(world: &World) -> Option<[u64; 4]> {
    let roster = &world.corp_app().roster;
    let views = roster.members(&members()).await.ok()?;
    let load = views.iter().map(|view| u64::from(view.load)).sum();
    let state = roster.dump().await.ok()?;
    let state = allocation::model::Corp::from_dump(&state).ok()?;
    let lent = state.slots().filter(|slot| slot.lent).count() as u64;
    let holds = state.allocations().filter(|open| open.hold.is_some());
    let pool = PoolId::new("sales").expect("a pool");
    let waiting = roster.waiting(&pool).await.ok()?;
    Some([load, lent, holds.count() as u64, waiting])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_visitors_held_ends_in_time_though_allocators_die() {
    let mut world = World::start(Options {
        allocators: 2,
        members: MEMBERS.map(|name| (name, 1)).to_vec(),
        allocator: "[visits]\npoll_ms = 50\n".to_owned(),
        ..Options::default()
    })
    .await;
    few_at_a_time(&world).await;
    sqlx::query("ALTER TABLE channels DROP CONSTRAINT channels_hold_seconds_check")
        .execute(world.app.ledger.pool())
        .await
        .expect("the ledger answers");
    let code = page_for(&world, SLOTS, HOLD_SECONDS).await;
    told(&world, MEMBERS.len() * SLOTS as usize).await;
    let mut seen = 0;
    for round in 0..2_usize {
        let mut asking = Vec::new();
        for n in 0..VISITORS {
            let browser = Browser::open(&world, &code).await;
            let addr = world.allocators[n % 2].public;
            let request = reqwest::Client::new()
                .get(format!("http://{addr}{}", browser.path))
                .header(header::COOKIE, &browser.cookie);
            asking.push(tokio::spawn(request.send()));
            // In the middle of them.
            if n == VISITORS / 2 {
                tokio::task::yield_now().await;
                world.kill_allocator(0);
                world.start_allocator().await;
            }
        }
        for one in asking {
            // Of those whom the dead one served some hear nothing.
            drop(one.await.expect("it does not panic"));
        }
        let most = CAP * MEMBERS.len() as u32;
        eventually("somebody was held", || async {
            let counts = counts(&world).await?;
            (counts.total > seen).then_some(())
        })
        .await;
        let [load, lent, ..] = left(&world).await.expect("Redis answers");
        assert!(load <= u64::from(most), "{load}");
        assert!(lent <= u64::from(SLOTS) * MEMBERS.len() as u64, "{lent}");
        eventually("all of it ends", || async {
            let left = left(&world).await?;
            let counts = counts(&world).await?;
            (left == [0; 4] && counts.live == 0).then_some(())
        })
        .await;
        let counts = counts(&world).await.expect("the ledger answers");
        let ended: u64 = counts.ended.values().sum();
        assert_eq!(ended, counts.total, "{round}: each has an end");
        seen = counts.total;
    }
    world.close().await;
}
