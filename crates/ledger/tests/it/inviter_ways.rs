//! Join ways of inviters: which are wanted, how many there may be, and when they end.

use allocation::{CampaignId, InviterId, SubjectKey};
use ledger::{
    Fission, GroupState, InviterKind, InviterSaid, InviterWayLimits, InviterWish, NewCampaign,
    NewInviter, OwnCaps, PlanLimits, PlannedJoinWays, Precondition, Trail, WaysOf,
};

use crate::{
    groups::{CAPS, chat, new_campaign, new_group, new_pool, read},
    setup::{Setup, T0, setup},
};

const PLAN: PlanLimits = PlanLimits {
    ways: 100,
    batch: 100,
    rest_ms: 600_000,
};
const LIMITS: InviterWayLimits = InviterWayLimits {
    of_inviter: 2,
    of_corp: 50,
    plan: PLAN,
};

fn campaign() -> CampaignId {
    CampaignId::new("spring").unwrap()
}

fn own() -> NewCampaign {
    NewCampaign {
        ways: WaysOf::Inviter,
        fission: Some(Fission::default()),
        ..new_campaign("g")
    }
}

/// A campaign over the open groups `a`, `b` and `c`, in this order, and no way.
async fn stage() -> Setup {
    let setup = setup().await;
    setup.put_pool("g", &new_pool(CAPS)).await;
    for (rank, name) in (0..).zip(["a", "b", "c"]) {
        put(&setup, name, GroupState::Open, rank).await;
    }
    setup.put_campaign("spring", &own()).await;
    setup
}

async fn put(setup: &Setup, name: &str, state: GroupState, rank: u32) {
    let group = ledger::NewGroup {
        state,
        rank,
        ..new_group(Some("g"), OwnCaps::default())
    };
    setup.put_group(name, &group).await;
}

async fn inviter(setup: &Setup, name: &str) -> InviterId {
    let new = NewInviter {
        kind: InviterKind::Other,
        subject: SubjectKey::new(&setup.corp, "inviter", name),
        customer: None,
        userid: None,
        person: None,
        name: name.to_owned(),
    };
    let trail = Trail::system(T0, "test");
    let table = setup.ledger.inviters();
    let made = table.register(&setup.corp, &campaign(), &new, &trail).await;
    made.unwrap().unwrap().0.id
}

fn of(inviter: &InviterId, group: Option<&str>) -> InviterWish {
    InviterWish {
        campaign: campaign(),
        inviter: inviter.clone(),
        chat: group.map(chat),
    }
}

async fn wish(setup: &Setup, wishes: &[InviterWish], limits: InviterWayLimits) -> PlannedJoinWays {
    let ways = setup.ledger.join_ways();
    ways.wish(&setup.corp, wishes, limits, T0).await.unwrap()
}

async fn plan(setup: &Setup) -> PlannedJoinWays {
    let ways = setup.ledger.join_ways();
    ways.plan(&setup.corp, PLAN, T0).await.unwrap()
}

/// Groups of live ways of an inviter, and their State.
async fn ways(setup: &Setup, inviter: &InviterId) -> Vec<(String, String)> {
    sqlx::query_as(
        "SELECT chats[1], via FROM join_ways WHERE inviter_id = $1 AND state IN ('wanted', 'asked', 'ready', 'failed')
         ORDER BY 1",
    )
    .bind(inviter.as_str().to_owned())
    .fetch_all(setup.ledger.pool())
    .await
    .unwrap()
}

async fn chats(setup: &Setup, inviter: &InviterId) -> Vec<String> {
    let ways = ways(setup, inviter).await;
    ways.into_iter().map(|(chat, _)| chat).collect()
}

#[tokio::test]
async fn an_inviter_has_one_into_each_group_that_is_wished_for() {
    let setup = stage().await;
    let (anna, ben) = (inviter(&setup, "anna").await, inviter(&setup, "ben").await);
    let wishes = [of(&anna, None), of(&anna, Some("a")), of(&ben, Some("b"))];
    let done = wish(&setup, &wishes, LIMITS).await;
    assert_eq!((done.wanted, done.refused), (2, 0));
    assert_eq!(chats(&setup, &anna).await, ["a"]);
    assert_eq!(chats(&setup, &ben).await, ["b"]);
    let states: Vec<String> = [&anna, &ben].map(|one| one.to_string()).into();
    for (n, id) in [&anna, &ben].into_iter().enumerate() {
        let page = setup
            .ledger
            .inviters()
            .page(&setup.corp, &campaign(), id)
            .await
            .unwrap()
            .unwrap();
        let via = format!("pi.{}", page.public_code);
        assert_eq!(ways(&setup, id).await[0].1, via, "{}", states[n]);
    }
    // Once, however often and by how many it is wished.
    let (one, other) = tokio::join!(wish(&setup, &wishes, LIMITS), wish(&setup, &wishes, LIMITS));
    assert_eq!(one.wanted + other.wanted, 0);
    // The campaign's ways are its own; nobody's, of no campaign or into no open group, there are none.
    assert_eq!(plan(&setup).await.wanted, 3);
    put(&setup, "b", GroupState::Spare, 1).await;
    let nobody = InviterId::new("nobody").unwrap();
    let wrong = [
        of(&nobody, None),
        of(&anna, Some("b")),
        of(&anna, Some("x")),
    ];
    assert_eq!(wish(&setup, &wrong, LIMITS).await.wanted, 0);
}

#[tokio::test]
async fn there_are_no_more_than_allowed() {
    let setup = stage().await;
    let (anna, ben) = (inviter(&setup, "anna").await, inviter(&setup, "ben").await);
    let all: Vec<_> = ["a", "b", "c"].map(|group| of(&anna, Some(group))).into();
    let done = wish(&setup, &all, LIMITS).await;
    assert_eq!((done.wanted, done.refused), (2, 1));
    assert_eq!(chats(&setup, &anna).await, ["a", "b"]);
    // A full group makes room: nobody else is shown it.
    setup.refresh(&[read("a", CAPS.scan_cap, T0)]).await;
    let done = wish(&setup, &all, LIMITS).await;
    assert_eq!((done.wanted, done.dropped, done.refused), (1, 1, 0));
    assert_eq!(chats(&setup, &anna).await, ["b", "c"]);
    // One that rests counts when it is wished for again.
    setup
        .run("UPDATE join_ways SET state = 'retiring', config_id = 'c' || way, told_chats = chats, picture = '\\x00',
            picture_type = 'image/png', next_try_at = now() + interval '100 years' WHERE chats[1] = 'b'")
        .await;
    setup.refresh(&[read("a", 1, T0 + 1)]).await;
    let both = [of(&anna, Some("a")), of(&anna, Some("b"))];
    let done = wish(&setup, &both, LIMITS).await;
    assert_eq!((done.wanted, done.revived, done.refused), (1, 0, 1));
    assert_eq!(chats(&setup, &anna).await, ["a", "c"]);
    setup
        .run("UPDATE join_ways SET chats = '{b}' WHERE chats[1] = 'a'; DELETE FROM join_ways WHERE state = 'retiring'")
        .await;
    setup.refresh(&[read("a", CAPS.scan_cap, T0 + 2)]).await;
    for limits in [
        InviterWayLimits {
            of_corp: 2,
            ..LIMITS
        },
        InviterWayLimits {
            plan: PlanLimits { ways: 2, ..PLAN },
            ..LIMITS
        },
    ] {
        let done = wish(&setup, &[of(&ben, Some("b"))], limits).await;
        assert_eq!((done.wanted, done.refused), (0, 1));
    }
    assert_eq!(
        wish(&setup, &[of(&ben, None)], LIMITS).await.wanted,
        1,
        "into the first that is not full"
    );
    assert_eq!(chats(&setup, &ben).await, ["b"]);
}

#[tokio::test]
async fn they_end_with_inviter_group_and_campaign() {
    let setup = stage().await;
    let (anna, ben) = (inviter(&setup, "anna").await, inviter(&setup, "ben").await);
    let all = [of(&anna, Some("a")), of(&anna, Some("b")), of(&ben, None)];
    assert_eq!(wish(&setup, &all, LIMITS).await.wanted, 3);
    setup
        .run("UPDATE join_ways SET state = 'ready', config_id = 'c' || way, told_chats = chats, picture = '\\x00',
            picture_type = 'image/png', next_try_at = NULL, ready_at = now()")
        .await;
    assert_eq!(plan(&setup).await.retired, 0);
    put(&setup, "b", GroupState::Closed, 1).await;
    assert_eq!(plan(&setup).await.retired, 1);
    assert_eq!(chats(&setup, &anna).await, ["a"]);
    let blocked = InviterSaid {
        name: String::new(),
        blocked: Some("cheats".to_owned()),
    };
    let (table, trail) = (setup.ledger.inviters(), Trail::system(T0, "test"));
    table
        .change(
            &setup.corp,
            &campaign(),
            &anna,
            &blocked,
            Precondition::None,
            &trail,
        )
        .await
        .unwrap();
    assert_eq!(plan(&setup).await.retired, 1);
    assert_eq!(wish(&setup, &all, LIMITS).await.wanted, 0);
    assert_eq!(chats(&setup, &anna).await, Vec::<String>::new());
    // One that rests is shown again.
    let free = InviterSaid::default();
    table
        .change(
            &setup.corp,
            &campaign(),
            &anna,
            &free,
            Precondition::None,
            &trail,
        )
        .await
        .unwrap();
    let again = wish(&setup, &[of(&anna, Some("a"))], LIMITS).await;
    assert_eq!((again.revived, again.wanted), (1, 0));
    let plain = NewCampaign {
        ways: WaysOf::Campaign,
        ..own()
    };
    setup.put_campaign("spring", &plain).await;
    assert_eq!(plan(&setup).await.retired, 2);
    assert_eq!(wish(&setup, &all, LIMITS).await.wanted, 0);
}
