//! WeCom says that an API was called too often.

use std::time::Duration;

use allocation::CorpId;
use allocator::{handover::end, reread};
use e2e::{Options, World, eventually};
use wecom_sim::{Act, Fault};

const LIST: &str = "externalcontact/list";

/// List calls of a corp: those that were refused for their number, and the others.
fn listed(world: &World, corp: &CorpId) -> (u64, u64) {
    let counters = world.sim.counters();
    let Some(list) = counters.corps[corp.as_str()].apis.get(LIST) else {
        return (0, 0);
    };
    let refused = list.codes.get(&45009).copied().unwrap_or_default();
    (refused, list.calls - refused)
}

async fn goes_on(world: &World, corp: &CorpId, more: u64) {
    let before = listed(world, corp).1;
    eventually(&format!("lists of {corp} go on"), || async {
        (listed(world, corp).1 >= before + more).then_some(())
    })
    .await;
}

/// Case 53: for a minute the list calls of one corp are refused. They pause, all but a few, and go on by themselves;
/// the corp's other calls and another corp's list calls are not slowed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_api_of_one_corp_pauses_for_a_minute() {
    let app = "agent_id = 1000002\nsecret = ";
    let world = World::start(Options {
        // Each member is listed every second.
        allocator: format!("[audit]\nperiod_ms = 1000\n[corps.{{corp}}b]\n{app}\"env:APP_SECRET\"\n"),
        sim: format!("[[corps]]\nid = \"{{corp}}b\"\nmembers = [{{ userid = \"desk\" }}]\n[[corps.apps]]\n{app}\"e2e-app-secret\"\n"),
        ..Options::default()
    })
    .await;
    let other = CorpId::new(format!("{}b", world.corp)).expect("a corp");
    goes_on(&world, &world.corp, 1).await;
    goes_on(&world, &other, 1).await;

    let refused = Fault {
        corp: Some(world.corp.to_string()),
        ..Fault::new(LIST, Act::Errcode(45009))
    };
    let fault = world
        .sim
        .add_fault(refused.for_ms(60_000))
        .expect("a fault");
    let block = eventually("the API is blocked", || async {
        let blocks = world
            .app
            .quota
            .blocks(world.corp.as_str(), None)
            .await
            .ok()?;
        blocks.into_iter().find(|block| block.api == LIST)
    })
    .await;
    let until_ms = u64::try_from(block.until_ms).expect("a time");
    let minute = world.app.now_ms()..=world.app.now_ms() + 61_000;
    assert!(
        minute.contains(&until_ms),
        "{until_ms} is not within a minute"
    );

    // The others go on meanwhile.
    let customers = world.scans("wmM", 10).await;
    world.each_has_one(&customers).await;
    world.quiet().await;
    let counters = world.sim.counters();
    assert_eq!(counters.corps[world.corp.as_str()].transfers_accepted, 10);
    goes_on(&world, &other, 2).await;

    // Whoever asks now is told to wait, and WeCom is not called; the audit has asked every second.
    let told = allocator::audit::everybody(&world.app, world.corp_app()).await;
    assert!(
        matches!(told, Err(reread::Error::End(end::Error::Budget { .. }))),
        "{told:?}"
    );
    let wasted = listed(&world, &world.corp).0;
    assert!((1..=4).contains(&wasted), "{wasted} calls were wasted");

    // Redis' clock cannot be moved, so the end of the minute comes to it. Nobody else is told.
    world.sim.advance(Duration::from_secs(60)).await;
    world.sim.remove_fault(&fault);
    let quota = &world.app.quota;
    let lifted = quota.unblock(world.corp.as_str(), LIST, None).await;
    lifted.expect("Redis answers");
    goes_on(&world, &world.corp, 2).await;
    world.close().await;
}
