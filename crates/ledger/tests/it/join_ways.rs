//! Join ways: what is planned, who asks, that an answer belongs to its try, and what becomes of one that never comes.

use std::collections::BTreeMap;

use allocation::{CampaignId, ChatId};
use ledger::{
    AskedJoinWay, GroupState, JoinWays, LostJoinWays, Made, NewCampaign, NewGroup, OwnCaps,
    PlanLimits, PlannedJoinWays, Refusal, WayState, campaign_via,
};

use crate::{
    groups::{CAPS, chat, new_campaign, new_group, new_pool, read},
    setup::{Setup, T0, setup},
};

const LIMITS: PlanLimits = PlanLimits {
    ways: 100,
    batch: 100,
    rest_ms: 600_000,
};
const LEASE_MS: u64 = 60_000;

fn ways(setup: &Setup) -> JoinWays {
    setup.ledger.join_ways()
}

fn campaign() -> CampaignId {
    CampaignId::new("spring").unwrap()
}

fn in_state(state: GroupState, rank: u32) -> NewGroup {
    NewGroup {
        state,
        rank,
        ..new_group(Some("g"), OwnCaps::default())
    }
}

fn per_way(groups_per_way: u32) -> NewCampaign {
    NewCampaign {
        groups_per_way,
        ..new_campaign("g")
    }
}

/// A campaign over the open groups `b` and `a`, in this order.
async fn two_groups(groups_per_way: u32) -> Setup {
    let setup = setup().await;
    setup.put_pool("g", &new_pool(CAPS)).await;
    setup.put_group("a", &in_state(GroupState::Open, 2)).await;
    setup.put_group("b", &in_state(GroupState::Open, 1)).await;
    setup.put_campaign("spring", &per_way(groups_per_way)).await;
    setup
}

async fn plan_with(setup: &Setup, limits: PlanLimits, now_ms: u64) -> PlannedJoinWays {
    ways(setup).plan(&setup.corp, limits, now_ms).await.unwrap()
}

async fn plan(setup: &Setup, now_ms: u64) -> PlannedJoinWays {
    plan_with(setup, LIMITS, now_ms).await
}

async fn ask(setup: &Setup, now_ms: u64) -> Option<AskedJoinWay> {
    let ways = ways(setup);
    ways.ask_next(&setup.corp, LEASE_MS, now_ms).await.unwrap()
}

async fn made(setup: &Setup, asked: &AskedJoinWay, config_id: &str) -> Made {
    let ways = ways(setup);
    ways.made(&setup.corp, asked, config_id, T0).await.unwrap()
}

/// Asks for all that is wanted, and has it made and its picture fetched.
async fn make(setup: &Setup, now_ms: u64) {
    let ways = ways(setup);
    while let Some(asked) = ask(setup, now_ms).await {
        let config_id = format!("c-{}", asked.way);
        assert_eq!(made(setup, &asked, &config_id).await, Made::Kept);
        let due = ways
            .unpictured(&setup.corp, 9, LEASE_MS, now_ms)
            .await
            .unwrap();
        assert_eq!((due.len(), due[0].tries), (1, 1));
        let pictured = ways.pictured(
            &setup.corp,
            &asked.way,
            "http://qr",
            b"png",
            "image/png",
            now_ms,
        );
        assert!(pictured.await.unwrap());
    }
}

/// The groups of each way that can be shown.
async fn shown(setup: &Setup) -> Vec<Vec<String>> {
    let since = ways(setup).since(&setup.corp, 0).await.unwrap();
    let ready = since.ways.into_iter();
    let ready = ready.filter(|way| way.state == WayState::Ready);
    let mut chats: Vec<Vec<String>> = ready
        .map(|way| way.chats.iter().map(ChatId::to_string).collect())
        .collect();
    chats.sort();
    chats
}

async fn counts(setup: &Setup) -> BTreeMap<WayState, u64> {
    let counts = ways(setup).counts(&setup.corp).await.unwrap();
    counts.into_iter().collect()
}

#[tokio::test]
async fn each_open_group_gets_a_way_of_its_own_in_the_pools_order() {
    let setup = two_groups(1).await;
    setup
        .put_group("shut", &in_state(GroupState::Closed, 0))
        .await;
    setup
        .put_group("spare", &in_state(GroupState::Spare, 3))
        .await;
    setup
        .put_group("full", &in_state(GroupState::Open, 0))
        .await;
    setup
        .put_group("none", &new_group(None, OwnCaps::default()))
        .await;
    setup.refresh(&[read("full", CAPS.scan_cap, T0)]).await;
    let planned = plan(&setup, T0).await;
    assert_eq!(
        (planned.wanted, planned.refused, planned.more),
        (3, 0, false)
    );
    assert_eq!(plan(&setup, T0).await, PlannedJoinWays::default());
    let asked = ask(&setup, T0).await.unwrap();
    let campaigns = setup.ledger.campaigns().all(&setup.corp).await.unwrap();
    assert_eq!(
        Some(&asked.via),
        campaign_via(&campaigns[0].public_code).as_ref()
    );
    assert_eq!((asked.campaign.clone(), asked.attempt), (campaign(), 1));
    assert_eq!(made(&setup, &asked, "c1").await, Made::Kept);
    let table = ways(&setup);
    let pictured = table.pictured(
        &setup.corp,
        &asked.way,
        "http://qr",
        b"png",
        "image/png",
        T0,
    );
    assert!(pictured.await.unwrap());
    make(&setup, T0).await;
    assert_eq!(shown(&setup).await, [["a"], ["b"], ["spare"]]);
    let of = ways(&setup)
        .of_campaign(&setup.corp, &campaign())
        .await
        .unwrap();
    assert_eq!((of.ready, of.coming, of.failed), (3, 0, 0));
    // It was filled and has room again.
    setup.refresh(&[read("full", 10, T0 + 1)]).await;
    assert_eq!(plan(&setup, T0).await.wanted, 1);
}

#[tokio::test]
async fn whatever_leaves_retires_and_may_come_back() {
    let setup = two_groups(1).await;
    setup.put_group("c", &in_state(GroupState::Open, 3)).await;
    plan(&setup, T0).await;
    make(&setup, T0).await;
    // One is closed and stays; one leaves the pool, one is dismissed.
    setup.put_group("a", &in_state(GroupState::Closed, 2)).await;
    setup
        .put_group("b", &new_group(None, OwnCaps::default()))
        .await;
    assert!(setup.dismiss("c").await);
    assert_eq!(plan(&setup, T0).await.retired, 2);
    assert_eq!(shown(&setup).await, [["a"]]);
    setup.put_group("b", &in_state(GroupState::Open, 1)).await;
    let planned = plan(&setup, T0 + 1_000).await;
    assert_eq!((planned.revived, planned.wanted), (1, 0));
    assert_eq!(shown(&setup).await, [["a"], ["b"]]);
    // The campaign is over: all rest, and go.
    let over = NewCampaign {
        ends_ms: Some(T0 + 2_000),
        ..per_way(1)
    };
    setup.put_campaign("spring", &over).await;
    assert_eq!(plan(&setup, T0 + 1_999).await.retired, 0);
    assert_eq!(plan(&setup, T0 + 2_000).await.retired, 2);
    let (table, end_ms) = (ways(&setup), T0 + 2_000 + LIMITS.rest_ms);
    let take = async |now_ms| {
        let due = table.deletable(&setup.corp, 9, LEASE_MS, now_ms).await;
        due.unwrap()
    };
    assert_eq!(take(end_ms - 1).await.len(), 1, "of the dismissed one");
    let due = take(end_ms).await;
    assert_eq!(due.len(), 2);
    assert!(take(end_ms).await.is_empty(), "somebody is at it");
    for one in &due {
        table.gone(&setup.corp, &one.way, end_ms).await.unwrap();
    }
    assert_eq!(counts(&setup).await[&WayState::Gone], 2);
    let open = setup.put_campaign("spring", &per_way(1)).await;
    drop(open);
    // What is about to be deleted, or is, does not come back.
    let planned = plan(&setup, end_ms).await;
    assert_eq!((planned.revived, planned.wanted), (0, 1));
}

#[tokio::test]
async fn a_way_with_several_groups_is_told_when_they_change() {
    let setup = two_groups(2).await;
    setup.put_group("c", &in_state(GroupState::Spare, 3)).await;
    assert_eq!(plan(&setup, T0).await.wanted, 1);
    make(&setup, T0).await;
    assert_eq!(shown(&setup).await, [["b", "a"]]);
    setup.put_group("b", &in_state(GroupState::Closed, 1)).await;
    setup.put_group("c", &in_state(GroupState::Open, 3)).await;
    assert_eq!(plan(&setup, T0).await.changed, 1);
    assert_eq!(
        shown(&setup).await,
        [["a"]],
        "it leads to c when WeCom knows"
    );
    let table = ways(&setup);
    let due = table
        .changeable(&setup.corp, 9, LEASE_MS, T0)
        .await
        .unwrap();
    assert_eq!(due[0].chats, [chat("a"), chat("c")]);
    let twice = table.changeable(&setup.corp, 9, LEASE_MS, T0).await;
    assert!(twice.unwrap().is_empty(), "somebody is at it");
    // It changes again meanwhile.
    setup.put_group("a", &in_state(GroupState::Closed, 2)).await;
    assert_eq!(plan(&setup, T0).await.changed, 1);
    let told = table.changed(&setup.corp, &due[0].way, &due[0].chats, None, T0);
    told.await.unwrap();
    assert_eq!(shown(&setup).await, [["c"]]);
    let due = table
        .changeable(&setup.corp, 9, LEASE_MS, T0)
        .await
        .unwrap();
    assert_eq!(due[0].chats, [chat("c")]);
    let told = table.changed(&setup.corp, &due[0].way, &due[0].chats, None, T0);
    told.await.unwrap();
    assert!(!table.due(&setup.corp, T0 + LEASE_MS).await.unwrap().change);
    assert_eq!(plan(&setup, T0).await, PlannedJoinWays::default());
}

#[tokio::test]
async fn an_answer_that_never_comes_is_counted_and_asked_for_once_more() {
    let setup = two_groups(1).await;
    setup.delete_group("a").await;
    plan(&setup, T0).await;
    let (table, failed_ms) = (ways(&setup), T0 + 9_000_000);
    let lost = async |now_ms| table.lost(&setup.corp, 1, failed_ms, now_ms).await.unwrap();
    let first = ask(&setup, T0).await.unwrap();
    assert_eq!(lost(T0 + LEASE_MS - 1).await, LostJoinWays::default());
    assert!(table.due(&setup.corp, T0 + LEASE_MS).await.unwrap().lost);
    assert_eq!(lost(T0 + LEASE_MS).await.again, 1);
    let second = ask(&setup, T0 + LEASE_MS).await.unwrap();
    assert_eq!(second.attempt, 2);
    // The first answer comes after all: a way too many.
    assert_eq!(made(&setup, &first, "c1").await, Made::Stray);
    let until_ms = T0 + 2 * LEASE_MS;
    let waits = table.unanswered(&setup.corp, &second.way, 2, "timed out", until_ms);
    waits.await.unwrap();
    let end = lost(until_ms).await;
    assert_eq!(
        (end.again, end.given_up),
        (0, 1),
        "it is not asked for without end"
    );
    assert!(ask(&setup, failed_ms - 1).await.is_none());
    let of = table.of_campaign(&setup.corp, &campaign()).await.unwrap();
    assert_eq!((of.failed, of.lost), (1, 2));
    assert_eq!(of.last_error.as_deref(), Some("timed out"));
    plan(&setup, failed_ms).await;
    let third = ask(&setup, failed_ms).await.unwrap();
    assert_eq!(made(&setup, &third, "c3").await, Made::Kept);
    assert_eq!(made(&setup, &third, "c3").await, Made::Known);
}

/// What was made at WeCom by a call without an answer stays there when the way is shown.
#[tokio::test]
async fn lost_answers_of_a_way_are_counted_for_ever() {
    let setup = two_groups(1).await;
    setup.delete_group("a").await;
    plan(&setup, T0).await;
    ask(&setup, T0).await.unwrap();
    let table = ways(&setup);
    let again_ms = T0 + LEASE_MS;
    let lost = table.lost(&setup.corp, 3, T0 + 9_000_000, again_ms).await;
    assert_eq!(lost.unwrap().again, 1);
    let second = ask(&setup, again_ms).await.unwrap();
    assert_eq!(made(&setup, &second, "c2").await, Made::Kept);
    let pictured = table.pictured(&setup.corp, &second.way, "q", b"x", "image/png", again_ms);
    assert!(pictured.await.unwrap());
    let of = table.of_campaign(&setup.corp, &campaign()).await.unwrap();
    assert_eq!((of.ready, of.lost), (1, 1));
}

#[tokio::test]
async fn a_refusal_may_stand_against_all() {
    let setup = two_groups(1).await;
    let few = PlanLimits { ways: 1, ..LIMITS };
    let planned = plan_with(&setup, few, T0).await;
    assert_eq!(
        (planned.wanted, planned.refused, planned.more),
        (1, 1, false)
    );
    let asked = ask(&setup, T0).await.unwrap();
    let refusal = Refusal {
        errcode: Some(41045),
        error: "as many as allowed".into(),
        next_try_ms: T0 + 5_000,
        uncounted: true,
        pauses_corp: true,
        ..Refusal::default()
    };
    let table = ways(&setup);
    let refused = table.refused(&setup.corp, &asked.way, 1, &refusal);
    refused.await.unwrap();
    let due = table.due(&setup.corp, T0).await.unwrap();
    assert_eq!(due.paused_until_ms, Some(T0 + 5_000));
    assert_eq!(plan(&setup, T0).await.wanted, 0, "nothing new meanwhile");
    assert_eq!(plan(&setup, T0 + 5_000).await.wanted, 1);
    let again = ask(&setup, T0 + 5_000).await.unwrap();
    assert_eq!(again.attempt, 1, "it was no try");
    let due = table.due(&setup.corp, T0 + 5_000).await.unwrap();
    assert_eq!(due.paused_until_ms, None);
}

#[tokio::test]
async fn one_that_somebody_deleted_is_made_anew() {
    let setup = two_groups(1).await;
    setup.delete_group("a").await;
    plan(&setup, T0).await;
    make(&setup, T0).await;
    let table = ways(&setup);
    let mark = table.since(&setup.corp, 0).await.unwrap().mark;
    let way = table
        .since(&setup.corp, 0)
        .await
        .unwrap()
        .ways
        .remove(0)
        .way;
    let wanted = Refusal {
        error: "deleted by somebody else".into(),
        next_try_ms: T0,
        ..Refusal::default()
    };
    table
        .not_yet(&setup.corp, &way, &wanted, true)
        .await
        .unwrap();
    let since = table.since(&setup.corp, mark).await.unwrap();
    assert_eq!(since.ways[0].state, WayState::Wanted, "nobody is shown it");
    assert!(since.ways[0].chats.is_empty());
    make(&setup, T0).await;
    assert_eq!(shown(&setup).await, [["b"]]);
}
