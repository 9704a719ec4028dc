//! Contact ways of channels with a public page: as many as are wanted, each made once, whatever happens to the calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use allocation::{ChannelId, MemberId, PoolId, Strategy, Weight};
use allocator::{people::refresh, reception::slots};
use e2e::{Options, World, eventually};
use ledger::{NewChannel, NewMember, NewPool, Precondition, Trail, Visits, WayKind, WayState};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use wecom_sim::{Act, Fault, ScanOutcome, ScanRequest};

const ADD: &str = "externalcontact/add_contact_way";
const GET: &str = "externalcontact/get_contact_way";
/// What lasts minutes or hours, in the time of a test.
const FAST: &str = "[visits]\npoll_ms = 50\nask_lease_ms = 6000\nlook_after_ms = 100\nunknown_for_ms = 1500\n\
                    backoff_min_ms = 20\nfull_pause_ms = 1000\nslot_rest_ms = 500\nfailed_ms = 3600000\n";

async fn world(options: Options) -> World {
    World::start(Options {
        allocator: format!("{FAST}{}", options.allocator),
        ..options
    })
    .await
}

fn channel() -> ChannelId {
    ChannelId::new("page").expect("a channel")
}

/// The channel `page` over the pool `sales`, with so many slots of each member; None: no page.
async fn page(world: &World, slots_per_member: Option<u32>) {
    let new = NewChannel {
        name: "page".to_owned(),
        pool: PoolId::new("sales").expect("a pool"),
        states: Vec::new(),
        welcome: None,
        card: false,
        needs: Vec::new(),
        limits: ledger::ChannelLimits::default(),
        visits: slots_per_member.map(|slots_per_member| Visits {
            slots_per_member,
            hold_seconds: 600,
            title: String::new(),
        }),
    };
    let trail = Trail::system(world.app.now_ms(), "test");
    let channels = world.app.ledger.channels();
    channels
        .put(&world.corp, &channel(), &new, Precondition::None, &trail)
        .await
        .expect("a channel");
}

async fn pool(world: &World, members: &[&str]) {
    let one = Weight::from_thousandths(1000).expect("a weight");
    let member = |name: &&str| (MemberId::new(*name).expect("a member"), one);
    let new = NewPool {
        name: "sales".to_owned(),
        strategy: Strategy::WeightedRoundRobin,
        load_window_seconds: None,
        offers: None,
        routing: Default::default(),
        members: members.iter().map(member).collect(),
        limits: Default::default(),
    };
    let id = PoolId::new("sales").expect("a pool");
    let trail = Trail::system(world.app.now_ms(), "test");
    let pools = world.app.ledger.pools();
    pools
        .put(&world.corp, &id, &new, Precondition::None, &trail)
        .await
        .expect("a pool");
}

async fn counts(world: &World) -> BTreeMap<(WayState, WayKind), u64> {
    let ways = world.app.ledger.contact_ways();
    let counts = ways.counts(&world.corp).await.expect("the ledger answers");
    counts
        .into_iter()
        .map(|one| ((one.state, one.kind), one.count))
        .collect()
}

/// Waits until so many slots, and one plain way for each of three members, can be shown and nothing else is left.
async fn ready(world: &World, slots: u64, plain: u64) {
    eventually("the ways are ready", || async {
        let mut counts = counts(world).await;
        counts.retain(|(state, _), _| *state != WayState::Gone);
        let mut wanted = BTreeMap::from([
            ((WayState::Ready, WayKind::Slot), slots),
            ((WayState::Ready, WayKind::Plain), plain),
        ]);
        wanted.retain(|_, count| *count > 0);
        (counts == wanted).then_some(())
    })
    .await;
    told(world, slots).await;
}

/// Waits until Redis knows so many slots.
async fn told(world: &World, slots: u64) {
    let corp = world.corp_app();
    eventually("the roster knows the slots", || async {
        let dump = corp.roster.dump().await.ok()?;
        let known = dump.keys.keys().filter(|key| key.starts_with("slot:"));
        (known.count() as u64 == slots).then_some(())
    })
    .await;
}

/// Ways of ours that the fake WeCom has: State → member. No State is there twice.
fn at_wecom(world: &World) -> BTreeMap<String, String> {
    let state = world.sim.state(Some(world.corp.as_str())).expect("a corp");
    let ways = &state.corps[world.corp.as_str()].contact_ways;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all: Vec<(String, String)> = ways
        .iter()
        .map(|way| (text(&way["state"]), text(&way["user"][0])))
        .collect();
    let states: BTreeSet<&String> = all.iter().map(|(state, _)| state).collect();
    assert_eq!(states.len(), all.len(), "a way was made twice: {all:?}");
    all.into_iter().collect()
}

/// Calls of an API by errcode, 0 for those that went well.
fn calls(world: &World, api: &str, code: i32) -> u64 {
    let counters = world.sim.counters();
    let api = counters.corps[world.corp.as_str()].apis.get(api);
    api.and_then(|api| api.codes.get(&code).copied())
        .unwrap_or_default()
}

/// Two allocators make as many as are wanted, each once; a visitor who scans one gets its member; pages get pictures.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_as_are_wanted() {
    let world = world(Options {
        allocators: 2,
        ..Options::default()
    })
    .await;
    page(&world, Some(20)).await;
    ready(&world, 60, 3).await;
    let ways = at_wecom(&world);
    assert_eq!(ways.len(), 63);
    assert_eq!(calls(&world, ADD, 0), 63, "nothing was asked for twice");
    for member in ["ma", "mb", "mc"] {
        let his = ways.iter().filter(|(_, user)| *user == member);
        let (slots, plain): (Vec<_>, Vec<_>) = his.partition(|(state, _)| state.starts_with("pv."));
        assert_eq!((slots.len(), plain.len()), (20, 1), "{member}");
    }
    let (state, member) = ways.iter().next().expect("a way");
    let scan = ScanRequest::way_with(state).customer("wmVisitor");
    let scan = &world.sim.scan(&scan).expect("a scan").scans[0];
    assert_eq!(scan.outcome, ScanOutcome::Added);
    assert_eq!(scan.member.as_ref(), Some(member));
    let states: Vec<String> = ways.into_keys().collect();
    let table = world.app.ledger.contact_ways();
    let pictures = table.pictures(&world.corp, &states).await.expect("answers");
    assert_eq!(pictures.len(), 63);
    let different: BTreeSet<&[u8]> = pictures.iter().map(|one| &*one.bytes).collect();
    assert_eq!(different.len(), 63);
    for one in &pictures {
        assert!(one.bytes.starts_with(b"\x89PNG"), "{}", one.content_type);
    }
    world.allocated("wmVisitor").await;
    world.close().await;
}

/// A process that provisions has owners, plain ways and pictures in memory, and drops those that are gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_follows() {
    let world = world(Options::default()).await;
    let corp = Arc::clone(world.corp_app());
    let stop = CancellationToken::new();
    // The bystander provisions too.
    let slots = slots::run(Arc::clone(&world.app), Arc::clone(&corp), stop.clone());
    let task = tokio::spawn(slots);
    page(&world, Some(2)).await;
    refresh(&world.app, &corp).await.expect("routes");
    ready(&world, 6, 3).await;
    let ma = MemberId::new("ma").expect("a member");
    let plain = eventually("a plain way is in memory", || async {
        corp.ways.plain(&channel(), &ma)
    })
    .await;
    let owner = corp.ways.owner(&plain).expect("it is known");
    assert_eq!((&owner.channel, &owner.member), (&channel(), &ma));
    let picture = slots::picture_of(&world.app, &corp, &plain).await;
    let picture = picture.expect("answers").expect("a picture");
    assert_eq!(picture.content_type, "image/png");
    assert!(picture.qr_code.starts_with(&world.sim.base_url()));
    assert_eq!(corp.ways.picture(&plain), Some(picture));
    let unknown = slots::picture_of(&world.app, &corp, "pv.guessed").await;
    assert_eq!(unknown.expect("answers"), None);

    page(&world, None).await;
    refresh(&world.app, &corp).await.expect("routes");
    eventually("memory is empty", || async {
        let gone = corp.ways.owner(&plain).is_none() && corp.ways.plain(&channel(), &ma).is_none();
        (gone && at_wecom(&world).is_empty()).then_some(())
    })
    .await;
    told(&world, 0).await;
    stop.cancel();
    task.await.expect("the loop ends");
    world.close().await;
}

/// An allocator is killed between the intent and the answer; the way is made all the same. Another one adopts it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_process_leaves_no_second_way() {
    let mut world = world(Options::default()).await;
    let held = world
        .sim
        .add_fault(Fault::new(ADD, Act::Hold).times(2))
        .expect("a fault");
    page(&world, Some(3)).await;
    eventually("two calls are held", || async {
        let faults = world.sim.faults();
        (faults.iter().any(|fault| fault.hits == 2)).then_some(())
    })
    .await;
    world.kill_allocator(0);
    world.sim.remove_fault(&held);
    eventually("WeCom has made them", || async {
        let unheard = at_wecom(&world).len() as u64;
        (unheard >= 2).then_some(())
    })
    .await;
    world.start_allocator().await;
    ready(&world, 9, 3).await;
    assert_eq!(at_wecom(&world).len(), 12);
    assert_eq!(calls(&world, ADD, 0), 12, "nothing was asked for twice");
    world.close().await;
}

/// Answers get lost, after the effect and before it: those that were made are adopted, the others asked for again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_are_looked_up() {
    let world = world(Options {
        allocators: 2,
        ..Options::default()
    })
    .await;
    for fault in [
        Fault::new(ADD, Act::Drop).after().times(3),
        Fault::new(ADD, Act::Hang).after().times(2),
        Fault::new(ADD, Act::Status(502)).after().times(2),
        Fault::new(ADD, Act::Drop).times(3),
        Fault::new("externalcontact/list_contact_way", Act::Drop).times(2),
        Fault::new(GET, Act::Errcode(-1)).times(2),
    ] {
        world.sim.add_fault(fault).expect("a fault");
    }
    page(&world, Some(8)).await;
    ready(&world, 24, 3).await;
    assert_eq!(at_wecom(&world).len(), 27);
    // Every lost call that had its effect counted as one.
    let asked = world.sim.counters().corps[world.corp.as_str()].apis[ADD].calls;
    assert!((30..=33).contains(&asked), "{asked} calls");
    world.close().await;
}

/// WeCom's rate: the API pauses, nothing is failed, and it goes on by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_limit_is_waited_for() {
    let world = world(Options::default()).await;
    let fault = Fault::new(ADD, Act::Errcode(45009)).for_ms(60_000);
    let fault = world.sim.add_fault(fault).expect("a fault");
    page(&world, Some(4)).await;
    let quota = &world.app.quota;
    eventually("the API is blocked", || async {
        let blocks = quota.blocks(world.corp.as_str(), None).await.ok()?;
        blocks.into_iter().find(|block| block.api == ADD)
    })
    .await;
    let wasted = calls(&world, ADD, 45009);
    assert!((1..=4).contains(&wasted), "{wasted} calls were wasted");
    assert!(
        !counts(&world)
            .await
            .contains_key(&(WayState::Failed, WayKind::Slot))
    );
    world.sim.advance(std::time::Duration::from_secs(60)).await;
    world.sim.remove_fault(&fault);
    let lifted = quota.unblock(world.corp.as_str(), ADD, None).await;
    lifted.expect("Redis answers");
    ready(&world, 12, 3).await;
    world.close().await;
}

/// The corp has as many ways as WeCom allows: nothing is failed and nothing new is wanted until there is room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_corp_pauses() {
    let world = world(Options {
        sim: "[limits]\ncontact_ways = 7\n".to_owned(),
        ..Options::default()
    })
    .await;
    page(&world, Some(4)).await;
    let ways = world.app.ledger.contact_ways();
    eventually("it is paused", || async {
        let due = ways.due(&world.corp, 0, world.app.now_ms()).await.ok()?;
        due.paused_until_ms
    })
    .await;
    assert_eq!(at_wecom(&world).len(), 7);
    let plain = at_wecom(&world);
    let plain = plain.keys().filter(|state| state.starts_with("pw."));
    assert_eq!(plain.count(), 3, "everybody has his plain way first");
    let wasted = calls(&world, ADD, 41045);
    assert!((1..=8).contains(&wasted), "{wasted} calls were wasted");
    let room = serde_json::json!({"limits": {"contact_ways": 500_000}});
    world.sim.patch_config(&room).expect("room");
    ready(&world, 12, 3).await;
    world.close().await;
}

/// A member for whom WeCom makes no ways has the reason in his row; the others are not held up, and he is not asked for
/// again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_whom_wecom_refuses() {
    let world = world(Options::default()).await;
    let patch = serde_json::json!({"verified": false});
    world
        .sim
        .patch_member(Some(world.corp.as_str()), "mb", &patch)
        .expect("a member");
    page(&world, Some(5)).await;
    eventually("the others are ready", || async {
        let counts = counts(&world).await;
        let ready = counts.get(&(WayState::Ready, WayKind::Slot)) == Some(&10);
        let failed = counts
            .iter()
            .filter(|((state, _), _)| *state == WayState::Failed);
        let failed: u64 = failed.map(|(_, count)| count).sum();
        (ready && (1..=4).contains(&failed)).then_some(())
    })
    .await;
    let refused = calls(&world, ADD, 41054);
    assert!((1..=4).contains(&refused), "{refused} calls");
    assert!(at_wecom(&world).values().all(|member| member != "mb"));
    world.close().await;
}

/// Whoever leaves the pool, or is blocked, is no longer given out; his ways rest, are deleted, and come anew with him.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_leaves_and_comes_back() {
    let world = world(Options::default()).await;
    page(&world, Some(3)).await;
    ready(&world, 9, 3).await;
    pool(&world, &["ma", "mb"]).await;
    ready(&world, 6, 2).await;
    assert!(at_wecom(&world).values().all(|member| member != "mc"));
    let mb = MemberId::new("mb").expect("a member");
    let block = async |blocked: Option<&str>| {
        let new = NewMember {
            userid: "mb".to_owned(),
            cap: None,
            blocked: blocked.map(|reason| reason.parse().expect("a reason")),
            ..NewMember::default()
        };
        let trail = Trail::system(world.app.now_ms(), "test");
        let members = world.app.ledger.members();
        let put = members.put(&world.corp, &mb, &new, Precondition::None, &trail);
        put.await.expect("a member");
    };
    block(Some("on_leave")).await;
    ready(&world, 3, 1).await;
    assert_eq!(at_wecom(&world).len(), 4);
    block(None).await;
    pool(&world, &["ma", "mb", "mc"]).await;
    ready(&world, 9, 3).await;
    page(&world, None).await;
    ready(&world, 0, 0).await;
    assert!(at_wecom(&world).is_empty());
    world.close().await;
}

/// The host of the pictures is away: no way is shown without its picture, and none is made twice for that. When the
/// address was wrong, WeCom is asked for it anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_way_without_its_picture() {
    let world = world(Options::default()).await;
    let nowhere = serde_json::json!({"qr_code": "http://127.0.0.1:9/qr.png"});
    for api in [ADD, GET] {
        let nowhere = match api {
            GET => serde_json::json!({"contact_way": nowhere}),
            _ => nowhere.clone(),
        };
        let fault = Fault::new(api, Act::Patch(nowhere)).after();
        world.sim.add_fault(fault).expect("a fault");
    }
    page(&world, Some(1)).await;
    eventually("all are made", || async {
        (calls(&world, ADD, 0) == 6 && calls(&world, GET, 0) >= 1).then_some(())
    })
    .await;
    let counts = counts(&world).await;
    assert!(
        counts.keys().all(|(state, _)| *state != WayState::Ready),
        "{counts:?}"
    );
    told(&world, 0).await;
    world.sim.clear_faults();
    ready(&world, 3, 3).await;
    assert_eq!(calls(&world, ADD, 0), 6);
    world.close().await;
}

/// A rebuilt Redis knows the slots again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuilt_redis_knows_the_slots() {
    let world = world(Options {
        own_stores: true,
        ..Options::default()
    })
    .await;
    page(&world, Some(3)).await;
    ready(&world, 9, 3).await;
    let redis = world.redis.as_ref().expect("a Redis of its own");
    redis.cli(&["FLUSHALL"]);
    world.wait_open().await;
    ready(&world, 9, 3).await;
    assert_eq!(calls(&world, ADD, 0), 12);
    world.all_online().await;
    world.close().await;
}
