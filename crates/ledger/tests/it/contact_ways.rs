//! Contact ways: what is planned, who asks, and that an answer belongs to its try.

mod passed_over;

use std::collections::BTreeMap;

use allocation::{ChannelId, CorpId, Strategy, Weight};
use ledger::{
    Asked, ContactWays, Fallback, Made, NewChannel, NewMember, NewPool, PlanLimits, PlannedWays,
    Precondition, Refusal, Routing, Trail, Untold, Visits, WayKind, WayState,
};

use crate::setup::{Setup, T0, member, pool, setup};

const LIMITS: PlanLimits = PlanLimits {
    ways: 100,
    batch: 100,
    rest_ms: 1_000,
};
const LEASE_MS: u64 = 60_000;

fn ways(setup: &Setup) -> ContactWays {
    setup.ledger.contact_ways()
}

fn trail() -> Trail {
    Trail::system(T0, "test")
}

async fn put_member(setup: &Setup, name: &str, blocked: Option<&str>) {
    let new = NewMember {
        userid: name.to_uppercase(),
        cap: None,
        blocked: blocked.map(|reason| reason.parse().unwrap()),
        ..NewMember::default()
    };
    let put = setup.ledger.members();
    put.put(
        &setup.corp,
        &member(name),
        &new,
        Precondition::None,
        &trail(),
    )
    .await
    .unwrap();
}

async fn put_pool(setup: &Setup, members: &[&str]) {
    let one = Weight::from_thousandths(1000).unwrap();
    let new = NewPool {
        name: "sales".into(),
        strategy: Strategy::WeightedRoundRobin,
        load_window_seconds: None,
        offers: None,
        routing: Default::default(),
        members: members.iter().map(|name| (member(name), one)).collect(),
        limits: Default::default(),
    };
    let pools = setup.ledger.pools();
    pools
        .put(
            &setup.corp,
            &pool("sales"),
            &new,
            Precondition::None,
            &trail(),
        )
        .await
        .unwrap();
}

async fn put_channel(setup: &Setup, slots: Option<u32>) -> Option<String> {
    let new = NewChannel {
        name: "page".into(),
        pool: pool("sales"),
        states: Vec::new(),
        welcome: None,
        card: true,
        needs: Vec::new(),
        limits: ledger::ChannelLimits::default(),
        visits: slots.map(|slots_per_member| Visits {
            slots_per_member,
            hold_seconds: 600,
            title: "Hello".into(),
        }),
    };
    let id = ChannelId::new("page").unwrap();
    let channels = setup.ledger.channels();
    channels
        .put(&setup.corp, &id, &new, Precondition::None, &trail())
        .await
        .unwrap();
    let kept = channels.get(&setup.corp, &id).await.unwrap().unwrap();
    assert_eq!(kept.visits, new.visits);
    kept.public_code
}

/// A channel `page` over members ma and mb with so many slots each.
async fn with_slots(slots: u32) -> Setup {
    let setup = setup().await;
    for name in ["ma", "mb"] {
        put_member(&setup, name, None).await;
    }
    put_pool(&setup, &["ma", "mb"]).await;
    put_channel(&setup, Some(slots)).await;
    setup
}

/// Whoever comes when nobody of the pool is free may be given a member of another pool: that one can be shown, too.
#[tokio::test]
async fn members_of_other_pools_that_serve_have_a_plain_way() {
    let setup = with_slots(2).await;
    put_member(&setup, "mc", None).await;
    let one = Weight::from_thousandths(1000).unwrap();
    let content = |name: &str, members: &[&str], fallbacks| NewPool {
        name: name.into(),
        strategy: Strategy::WeightedRoundRobin,
        load_window_seconds: None,
        offers: None,
        routing: Routing {
            fallbacks,
            ..Routing::default()
        },
        members: members.iter().map(|name| (member(name), one)).collect(),
        limits: Default::default(),
    };
    let falls_back = Fallback {
        pool: pool("backup"),
        after_seconds: 0,
        without: Default::default(),
    };
    let pools = setup.ledger.pools();
    let put = async |id: &str, content: NewPool| {
        let (id, trail) = (pool(id), trail());
        let put = pools.put(&setup.corp, &id, &content, Precondition::None, &trail);
        put.await.unwrap();
    };
    put("backup", content("backup", &["mb", "mc"], Vec::new())).await;
    put("sales", content("sales", &["ma", "mb"], vec![falls_back])).await;
    // Two slots and a plain way of ma and of mb, and the plain way of mc.
    assert_eq!(plan(&setup, LIMITS, T0).await.wanted, 7);
    assert_eq!(plan(&setup, LIMITS, T0).await, PlannedWays::default());
    put("sales", content("sales", &["ma", "mb"], Vec::new())).await;
    assert_eq!(plan(&setup, LIMITS, T0).await.dropped, 1);
}

async fn plan(setup: &Setup, limits: PlanLimits, now_ms: u64) -> PlannedWays {
    ways(setup).plan(&setup.corp, limits, now_ms).await.unwrap()
}

async fn counts(setup: &Setup) -> BTreeMap<(&'static str, &'static str), u64> {
    let counts = ways(setup).counts(&setup.corp).await.unwrap();
    counts
        .into_iter()
        .map(|one| ((one.state.as_str(), one.kind.as_str()), one.count))
        .collect()
}

async fn ask(setup: &Setup, now_ms: u64) -> Option<Asked> {
    ways(setup)
        .ask_next(&setup.corp, LEASE_MS, now_ms)
        .await
        .unwrap()
}

/// Asks for all that is wanted and answers with ready ways.
async fn all_ready(setup: &Setup, now_ms: u64) {
    let ways = ways(setup);
    while let Some(asked) = ask(setup, now_ms).await {
        let config = format!("cfg-{}", asked.way);
        let made = ways
            .made(
                &setup.corp,
                &asked.way,
                asked.attempt,
                &config,
                None,
                now_ms,
            )
            .await
            .unwrap();
        assert_eq!(made, Made::Kept);
    }
    for one in ways
        .unpictured(&setup.corp, 1_000, LEASE_MS, now_ms)
        .await
        .unwrap()
    {
        let kept = ways
            .pictured(
                &setup.corp,
                &one.way,
                "http://qr",
                b"png",
                "image/png",
                now_ms,
            )
            .await
            .unwrap();
        assert!(kept);
    }
}

#[tokio::test]
async fn a_public_code_is_made_once() {
    let setup = setup().await;
    put_pool(&setup, &[]).await;
    assert_eq!(put_channel(&setup, None).await, None);
    let code = put_channel(&setup, Some(1)).await.unwrap();
    assert!(code.len() >= 16, "{code}");
    assert_eq!(put_channel(&setup, None).await.as_ref(), Some(&code));
    assert_eq!(put_channel(&setup, Some(2)).await.as_ref(), Some(&code));
    let channels = setup.ledger.channels();
    let id = ChannelId::new("page").unwrap();
    channels
        .delete(&setup.corp, &id, Precondition::None, &trail())
        .await
        .unwrap();
    assert_eq!(put_channel(&setup, Some(2)).await.as_ref(), Some(&code));
}

#[tokio::test]
async fn what_is_missing_is_planned_once_and_fairly() {
    let setup = with_slots(2).await;
    // Two plan at once: one of them has nothing to do, or is told that the other is at it.
    let (mine, other) = (ways(&setup), ways(&setup));
    let (one, two) = tokio::join!(
        mine.plan(&setup.corp, LIMITS, T0),
        other.plan(&setup.corp, LIMITS, T0)
    );
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.wanted + two.wanted, 6, "{one:?} {two:?}");
    assert_eq!(plan(&setup, LIMITS, T0).await, PlannedWays::default());
    let expected = [(("wanted", "plain"), 2), (("wanted", "slot"), 4)];
    assert_eq!(counts(&setup).await, expected.into());
    // Plain ways first, then everybody's first slot.
    let mut asked = Vec::new();
    while let Some(one) = ask(&setup, T0).await {
        assert_eq!(one.userid, one.member.as_str().to_uppercase());
        asked.push((one.kind, one.member.to_string()));
    }
    assert_eq!(asked.len(), 6);
    assert!(asked[..2].iter().all(|(kind, _)| *kind == WayKind::Plain));
    for pair in asked.chunks(2) {
        assert_ne!(pair[0].1, pair[1].1, "{asked:?}");
    }
}

#[tokio::test]
async fn the_limit_of_the_corp_holds_and_batches_go_on() {
    let setup = with_slots(10).await;
    let limits = PlanLimits {
        ways: 7,
        batch: 5,
        ..LIMITS
    };
    let planned = plan(&setup, limits, T0).await;
    assert_eq!(
        (planned.wanted, planned.refused, planned.more),
        (5, 15, true)
    );
    let planned = plan(&setup, limits, T0).await;
    assert_eq!(
        (planned.wanted, planned.refused, planned.more),
        (2, 15, false)
    );
    let planned = plan(&setup, limits, T0).await;
    assert_eq!((planned.wanted, planned.refused), (0, 15));
}

#[tokio::test]
async fn an_answer_belongs_to_its_try() {
    let setup = with_slots(0).await;
    plan(&setup, LIMITS, T0).await;
    let ways = ways(&setup);
    let first = ask(&setup, T0).await.unwrap();
    assert_eq!(ways.lost(&setup.corp, 10, 1_000, T0).await.unwrap(), []);
    // Its process is silent: it is looked for when the lease is over, by one.
    let late = T0 + LEASE_MS;
    let lost = ways.lost(&setup.corp, 10, 1_000, late).await.unwrap();
    assert_eq!((lost.len(), &lost[0].way), (1, &first.way));
    assert_eq!(lost[0].asked_ms, T0);
    assert_eq!(ways.lost(&setup.corp, 10, 1_000, late).await.unwrap(), []);
    // It was not at WeCom: wanted again, and asked again.
    let not_there = Refusal {
        error: "not there".into(),
        next_try_ms: late,
        ..Refusal::default()
    };
    ways.refused(&setup.corp, &first.way, lost[0].attempt, &not_there)
        .await
        .unwrap();
    let mut again = ask(&setup, late).await.unwrap();
    while again.way != first.way {
        again = ask(&setup, late).await.unwrap();
    }
    assert_eq!(again.attempt, 2);
    // The first answer comes after all: it is one too many. The second counts, and told twice it is known.
    let made = async |attempt, config: &'static str| {
        ways.made(&setup.corp, &first.way, attempt, config, None, late)
            .await
            .unwrap()
    };
    assert_eq!(made(1, "late").await, Made::Stray);
    assert_eq!(made(2, "cfg").await, Made::Kept);
    assert_eq!(made(2, "cfg").await, Made::Known);
    assert_eq!(made(1, "late").await, Made::Stray);
    let known = ["cfg".to_owned(), "late".to_owned()];
    let known = ways.known_configs(&setup.corp, &known).await.unwrap();
    assert_eq!(known, ["cfg".to_owned()].into());
}

#[tokio::test]
async fn refusals_pause_members_and_corps() {
    let setup = with_slots(1).await;
    plan(&setup, LIMITS, T0).await;
    let ways = ways(&setup);
    let asked = ask(&setup, T0).await.unwrap();
    let refusal = Refusal {
        errcode: Some(41054),
        error: "not activated".into(),
        next_try_ms: T0 + 1_000,
        fails: true,
        pauses_member: true,
        ..Refusal::default()
    };
    ways.refused(&setup.corp, &asked.way, asked.attempt, &refusal)
        .await
        .unwrap();
    // Only the other member's are asked for.
    let mut others = Vec::new();
    while let Some(one) = ask(&setup, T0).await {
        assert_ne!(one.member, asked.member);
        others.push(one);
    }
    assert_eq!(others.len(), 2);
    let full = Refusal {
        errcode: Some(41045),
        next_try_ms: T0 + 500,
        uncounted: true,
        pauses_corp: true,
        ..Refusal::default()
    };
    ways.refused(&setup.corp, &others[0].way, others[0].attempt, &full)
        .await
        .unwrap();
    let due = ways.due(&setup.corp, 1, T0).await.unwrap();
    assert_eq!((due.ask, due.paused_until_ms), (false, Some(T0 + 500)));
    put_channel(&setup, Some(3)).await;
    assert_eq!(
        plan(&setup, LIMITS, T0).await.wanted,
        0,
        "no new rows meanwhile"
    );
    let due = ways.due(&setup.corp, 1, T0 + 500).await.unwrap();
    assert_eq!((due.ask, due.paused_until_ms), (true, None));
    let again = ask(&setup, T0 + 500).await.unwrap();
    assert_eq!((&again.way, again.attempt), (&others[0].way, 1));
    // What had failed is tried again with the first plan after its time.
    assert_eq!(counts(&setup).await[&("failed", "plain")], 1);
    plan(&setup, LIMITS, T0 + 1_000).await;
    assert!(!counts(&setup).await.contains_key(&("failed", "plain")));
}

#[tokio::test]
async fn ways_retire_rest_and_come_back() {
    let setup = with_slots(1).await;
    plan(&setup, LIMITS, T0).await;
    all_ready(&setup, T0).await;
    let ways = ways(&setup);
    let told = async |generation, now| {
        let untold = ways.untold(&setup.corp, generation, 100).await.unwrap();
        ways.told(&setup.corp, &untold, generation, LIMITS.rest_ms, now)
            .await
            .unwrap();
        untold
    };
    let untold = told(1, T0).await;
    assert_eq!(untold.len(), 2);
    assert!(
        untold
            .iter()
            .all(|one| one.ready && one.rests_since_ms == 0)
    );
    assert_eq!(told(1, T0).await.len(), 0);
    assert_eq!(told(2, T0).await.len(), 2, "a new generation is told again");
    let first = ways.changed(&setup.corp, 0).await.unwrap();
    assert_eq!(first.ways.len(), 4);

    put_member(&setup, "ma", Some("on_leave")).await;
    assert_eq!(plan(&setup, LIMITS, T0).await.retired, 2);
    let untold = told(2, T0).await;
    assert!(matches!(&untold[..], [one] if !one.ready && one.member == member("ma")));
    let changed = ways.changed(&setup.corp, first.mark).await.unwrap();
    let retiring = |way: &&ledger::ListedWay| way.state == WayState::Retiring;
    assert_eq!(changed.ways.iter().filter(retiring).count(), 2);

    // Back before it is deleted: nothing new is asked for, and Redis is told again.
    put_member(&setup, "ma", None).await;
    let limits = PlanLimits {
        rest_ms: 100_000,
        ..LIMITS
    };
    let planned = plan(&setup, limits, T0 - 60_000).await;
    assert_eq!((planned.revived, planned.wanted), (2, 0));
    let untold = told(2, T0).await;
    assert!(matches!(&untold[..], [one] if one.ready && one.rests_since_ms == T0));

    // A word that crossed the change is told again.
    put_channel(&setup, None).await;
    assert_eq!(plan(&setup, LIMITS, T0).await.retired, 4);
    let crossed: Vec<Untold> = ways
        .untold(&setup.corp, 2, 100)
        .await
        .unwrap()
        .into_iter()
        .map(|slot| Untold {
            ready: true,
            ..slot
        })
        .collect();
    ways.told(&setup.corp, &crossed, 2, LIMITS.rest_ms, T0)
        .await
        .unwrap();
    assert_eq!(told(2, T0).await.len(), 2);

    // Rested: deleted, and only then gone.
    assert_eq!(
        ways.deletable(&setup.corp, 10, 5_000, T0).await.unwrap(),
        []
    );
    let rested = T0 + LIMITS.rest_ms;
    let leaving = ways
        .deletable(&setup.corp, 10, 5_000, rested)
        .await
        .unwrap();
    assert_eq!(leaving.len(), 4);
    put_channel(&setup, Some(1)).await;
    let planned = plan(&setup, LIMITS, T0 - 120_000).await;
    assert_eq!((planned.revived, planned.wanted), (0, 4));
    for one in leaving {
        ways.gone(&setup.corp, &one.way, rested).await.unwrap();
    }
    assert_eq!(counts(&setup).await[&("gone", "slot")], 2);
    let long = rested + 90 * 24 * 3_600_000;
    assert_eq!(ways.forget_gone(&setup.corp, long).await.unwrap(), 4);
}

/// What was never asked for is dropped; what may be at WeCom stays until that is known.
#[tokio::test]
async fn the_unknown_does_not_retire() {
    let setup = with_slots(0).await;
    plan(&setup, LIMITS, T0).await;
    let asked = ask(&setup, T0).await.unwrap();
    put_channel(&setup, None).await;
    let planned = plan(&setup, LIMITS, T0).await;
    assert_eq!((planned.dropped, planned.retired), (1, 0));
    let ways = ways(&setup);
    ways.made(&setup.corp, &asked.way, asked.attempt, "cfg", None, T0)
        .await
        .unwrap();
    assert_eq!(plan(&setup, LIMITS, T0).await.retired, 1);
}

/// A change that was not committed when the mark was taken is read the next time.
#[tokio::test]
async fn no_change_is_overlooked() {
    let setup = with_slots(0).await;
    plan(&setup, LIMITS, T0).await;
    all_ready(&setup, T0).await;
    let mut slow = setup.database.connect().await;
    let retire =
        "BEGIN; UPDATE contact_ways SET state = 'retiring', changed_by = pg_current_xact_id()
        WHERE member = 'ma'";
    sqlx::raw_sql(retire).execute(&mut slow).await.unwrap();
    let ways = ways(&setup);
    let first = ways.changed(&setup.corp, 0).await.unwrap();
    assert!(first.ways.iter().all(|way| way.state == WayState::Ready));
    // Others commit after it began.
    setup
        .run("UPDATE contact_ways SET changed_by = pg_current_xact_id() WHERE member = 'mb'")
        .await;
    let second = ways.changed(&setup.corp, first.mark).await.unwrap();
    sqlx::raw_sql("COMMIT").execute(&mut slow).await.unwrap();
    let third = ways.changed(&setup.corp, second.mark).await.unwrap();
    assert!(
        third.ways.iter().any(|way| way.state == WayState::Retiring),
        "{third:?}"
    );
    let nobody = CorpId::new("ww0000000000000000").unwrap();
    assert!(ways.changed(&nobody, 0).await.unwrap().ways.is_empty());
    let picture = first.ways[0].way.clone();
    let pictures = ways.pictures(&setup.corp, &[picture]).await.unwrap();
    assert_eq!(pictures[0].bytes, b"png");
}
