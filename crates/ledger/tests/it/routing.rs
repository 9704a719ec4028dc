//! Skills, what channels need, how pools route, plans of open allocations, who had a customer, and who waits too long.

use std::collections::BTreeSet;

use allocation::{ChannelId, MemberId, Plan, PoolId, Skill, Step, Strategy, SubjectKey};
use ledger::{
    Change, Customer, Deleted, Fallback, NewAllocation, NewChannel, NewMember, NewPool, NewVisit,
    Otherwise, PoolRefused, PoolUsers, PoolWait, Precondition, Preference, Put, Relax, Routing,
    SettledAs, Sticky, Trail, VisitEnd, VisitEnded,
};

use crate::setup::{
    Setup, T0, allocation, assigned, batch, closed, decided, entry, member, pool, setup, subject,
};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

fn trail() -> Trail {
    Trail::system(T0, "test")
}

fn skills(names: &[&str]) -> Vec<Skill> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn new_pool(routing: Routing) -> NewPool {
    NewPool {
        name: "a pool".into(),
        strategy: Strategy::WeightedRoundRobin,
        load_window_seconds: None,
        offers: None,
        routing,
        members: Vec::new(),
        limits: Default::default(),
    }
}

async fn put(setup: &Setup, id: &str, routing: Routing) -> Put<ledger::Pool, PoolRefused> {
    let (pools, new) = (setup.ledger.pools(), new_pool(routing));
    let (id, trail) = (pool(id), trail());
    let put = pools.put(&setup.corp, &id, &new, Precondition::None, &trail);
    put.await.unwrap()
}

async fn routing_of(setup: &Setup, id: &str) -> Routing {
    let pools = setup.ledger.pools();
    let found = pools.get(&setup.corp, &pool(id)).await.unwrap();
    found.unwrap().routing
}

fn to(pools: &[&str]) -> Routing {
    let fallback = |name: &&str| Fallback {
        pool: pool(name),
        after_seconds: 60,
        without: BTreeSet::new(),
    };
    Routing {
        fallbacks: pools.iter().map(fallback).collect(),
        ..Routing::default()
    }
}

fn everything() -> Routing {
    Routing {
        fallbacks: vec![Fallback {
            pool: pool("backup"),
            after_seconds: 0,
            without: skills(&["vip", "lang:en"]).into_iter().collect(),
        }],
        relax: vec![Relax {
            skill: "普通话".parse().unwrap(),
            after_seconds: 30,
        }],
        sticky: Some(Sticky {
            days: 30,
            otherwise: Otherwise::Rendezvous,
        }),
        drip_seconds: Some(20),
        alert_after_seconds: Some(120),
        person_after_seconds: Some(900),
    }
}

#[tokio::test]
async fn a_pool_keeps_how_it_routes() {
    let setup = setup().await;
    put(&setup, "backup", Routing::default()).await;
    let made = put(&setup, "sales", everything()).await;
    assert!(matches!(made, Put::Created(pool) if pool.routing == everything()));
    assert_eq!(routing_of(&setup, "sales").await, everything());
    let same = put(&setup, "sales", everything()).await;
    assert!(matches!(same, Put::Same(pool) if pool.version == 1));
    let plain = put(&setup, "sales", Routing::default()).await;
    assert!(matches!(plain, Put::Changed(pool) if pool.version == 2 && pool.routing.is_none()));
    let nulls = "SELECT count(*) FROM pools WHERE routing IS NULL";
    assert_eq!(setup.number(nulls).await, 2);
    // The audit says what it was.
    let audited =
        "SELECT count(*) FROM audit WHERE before->'routing'->'sticky'->>'otherwise' = 'rendezvous'";
    assert_eq!(setup.number(audited).await, 1);
}

#[tokio::test]
async fn a_pool_leads_only_to_pools_that_are_there_and_stay() {
    let setup = setup().await;
    let refused = put(&setup, "sales", to(&["backup", "other"])).await;
    let missing = PoolRefused::NoPools(vec![pool("backup"), pool("other")]);
    assert!(matches!(refused, Put::Refused(why) if why == missing));
    put(&setup, "backup", Routing::default()).await;
    put(&setup, "north", to(&["backup"])).await;
    put(&setup, "south", to(&["backup"])).await;
    let pools = setup.ledger.pools();
    let delete = async |id: &str| {
        let (id, trail) = (pool(id), trail());
        let delete = pools.delete(&setup.corp, &id, Precondition::None, &trail);
        delete.await.unwrap()
    };
    let users = PoolUsers {
        channels: Vec::new(),
        pools: vec![pool("north"), pool("south")],
    };
    assert!(matches!(delete("backup").await, Deleted::Refused(found) if found == users));
    // A pool that is gone leads nowhere, and does not when it comes back.
    assert!(matches!(delete("north").await, Deleted::Deleted(_)));
    put(&setup, "south", Routing::default()).await;
    assert!(matches!(delete("backup").await, Deleted::Deleted(_)));
    put(&setup, "north", Routing::default()).await;
    assert!(routing_of(&setup, "north").await.is_none());
    let refused = put(&setup, "south", to(&["backup"])).await;
    assert!(
        matches!(refused, Put::Refused(PoolRefused::NoPools(gone)) if gone == [pool("backup")])
    );
}

/// Two pools that are each other's fallback, put and deleted by many at once: none ends up leading to one that is gone.
#[tokio::test]
async fn pools_that_lead_to_each_other_are_put_and_deleted_at_once() {
    let setup = setup().await;
    for round in 0..8 {
        put(&setup, "a", Routing::default()).await;
        put(&setup, "b", Routing::default()).await;
        let pools = setup.ledger.pools();
        let (a, b) = (pool("a"), pool("b"));
        let (to_b, to_a) = (new_pool(to(&["b"])), new_pool(to(&["a"])));
        let (one, two) = (trail(), trail());
        let (put_a, put_b, deleted) = tokio::join!(
            pools.put(&setup.corp, &a, &to_b, Precondition::None, &one),
            pools.put(&setup.corp, &b, &to_a, Precondition::None, &one),
            pools.delete(&setup.corp, &b, Precondition::None, &two),
        );
        put_a.unwrap();
        put_b.unwrap();
        deleted.unwrap();
        let dangling =
            "SELECT count(*) FROM pools AS p, jsonb_array_elements(p.routing->'fallbacks') AS f
            JOIN pools AS gone ON gone.pool_id = f->>'pool' AND gone.deleted_at IS NOT NULL
            WHERE p.deleted_at IS NULL";
        assert_eq!(setup.number(dangling).await, 0, "round {round}");
        put(&setup, "a", Routing::default()).await;
    }
}

#[tokio::test]
async fn members_keep_their_skills_and_channels_what_they_need() {
    let setup = setup().await;
    let members = setup.ledger.members();
    let new = |can: &[&str]| NewMember {
        userid: "mA".into(),
        skills: skills(can).into_iter().collect(),
        ..NewMember::default()
    };
    let id = member("ma");
    let put_member = async |can: &[&str]| {
        let (new, trail) = (new(can), trail());
        let put = members.put(&setup.corp, &id, &new, Precondition::None, &trail);
        put.await.unwrap()
    };
    let can = ["lang:en", "vip"];
    assert!(matches!(put_member(&can).await, Put::Created(_)));
    assert!(matches!(
        put_member(&["vip", "lang:en"]).await,
        Put::Same(_)
    ));
    let kept = members.get(&setup.corp, &id).await.unwrap().unwrap();
    assert_eq!(kept.skills, skills(&can).into_iter().collect());
    assert!(matches!(put_member(&["vip"]).await, Put::Changed(row) if row.version == 2));
    // What else is changed leaves them alone.
    let blocked = "on_leave".parse().unwrap();
    let trail = trail();
    let set = members.set_blocked(&setup.corp, &id, Some(&blocked), &trail);
    assert_eq!(set.await.unwrap().unwrap().skills.len(), 1);

    put(&setup, "sales", Routing::default()).await;
    let channels = setup.ledger.channels();
    let channel = ChannelId::new("poster").unwrap();
    let new = |needs: &[&str]| NewChannel {
        name: "poster".into(),
        pool: pool("sales"),
        states: Vec::new(),
        welcome: None,
        card: true,
        needs: skills(needs),
        limits: ledger::ChannelLimits::default(),
        visits: None,
    };
    for (needs, version) in [(&can[..], 1), (&can[..], 1), (&[][..], 2)] {
        let new = new(needs);
        let put = channels.put(&setup.corp, &channel, &new, Precondition::None, &trail);
        put.await.unwrap();
        let kept = channels.get(&setup.corp, &channel).await.unwrap().unwrap();
        assert_eq!((kept.needs, kept.version), (skills(needs), version));
    }
}

fn plan(pools: &[&str]) -> Plan {
    let step = |(n, name): (u64, &&str)| Step {
        after_ms: n * 60_000,
        pool: pool(name),
        needs: skills(&["lang:en"]),
    };
    let steps = (0..).zip(pools).map(step).collect();
    Plan::new(vec![member("mb")], steps, Some(900_000)).unwrap()
}

/// Told by member; of what was written before this was kept nothing is said.
#[tokio::test]
async fn it_is_kept_why_a_plan_prefers_whom() {
    let setup = setup().await;
    let new = |n, prefer: &[&str], preferred: &[Preference]| {
        let prefer = prefer.iter().map(|name| member(name)).collect();
        let steps = plan(&["g1"]).steps().to_vec();
        Change::Decided(NewAllocation {
            plan: Some(Plan::new(prefer, steps, None).unwrap()),
            preferred: preferred.to_vec(),
            ..decided(n, None)
        })
    };
    use Preference::{AskedFor, EarlierOwner, Rendezvous};
    setup
        .write(vec![
            new(1, &["mc", "ma"], &[AskedFor, EarlierOwner]),
            new(2, &["mb"], &[Rendezvous]),
            new(3, &["mb"], &[]),
            Change::Decided(decided(4, None)),
        ])
        .await;
    let rows = setup.ledger.allocations();
    let told = async |n| rows.preferences(&setup.corp, allocation(n)).await.unwrap();
    let both = [(member("ma"), EarlierOwner), (member("mc"), AskedFor)];
    assert_eq!(told(1).await, both);
    assert_eq!(told(2).await, [(member("mb"), Rendezvous)]);
    assert_eq!(told(3).await, []);
    assert_eq!(told(4).await, []);
}

#[tokio::test]
async fn what_stands_knows_its_plan() {
    let setup = setup().await;
    let with_plan = |n, plan| {
        Change::Decided(NewAllocation {
            plan,
            ..decided(n, None)
        })
    };
    setup
        .write(vec![
            with_plan(1, Some(plan(&["g1", "g2"]))),
            with_plan(2, None),
            with_plan(3, Some(plan(&["g1"]))),
            assigned(3, "mA", None),
            with_plan(4, Some(plan(&["g1"]))),
            closed(4),
        ])
        .await;
    let rows = setup.ledger.allocations();
    let standing = rows.standing(&setup.corp).await.unwrap().unwrap();
    assert_eq!(standing.open.len(), 3);
    let plans: Vec<_> = (1..=4)
        .map(|n| standing.plans.get(&allocation(n)).cloned())
        .collect();
    let whole = [Some(plan(&["g1", "g2"])), None, Some(plan(&["g1"])), None];
    assert_eq!(plans, whole);
}

async fn owners(setup: &Setup, asked: &[(SubjectKey, u64)]) -> Vec<Option<MemberId>> {
    let rows = setup.ledger.allocations();
    rows.last_owners(&setup.corp, asked).await.unwrap()
}

fn customer(n: u64) -> SubjectKey {
    subject(&format!("wmC{n:03}"))
}

#[tokio::test]
async fn the_last_owner_is_whoever_had_him_last_in_any_pool() {
    let setup = setup().await;
    let again = |n, of, in_pool, to: &str| {
        Change::Decided(NewAllocation {
            allocation: allocation(n),
            pool: pool(in_pool),
            ..decided(of, Some(to))
        })
    };
    let day = |seq, days: u64, changes| ledger::Entry {
        at_ms: T0 + days * DAY_MS,
        ..entry(seq, changes)
    };
    let entries = batch(vec![
        day(1, 0, vec![again(1, 1, "g1", "mA"), again(2, 2, "g1", "mA")]),
        // The first is closed on the tenth day; the second is open to this day.
        day(2, 10, vec![closed(1)]),
        day(3, 11, vec![again(3, 1, "g2", "mB")]),
        day(4, 12, vec![closed(3), Change::Decided(decided(4, None))]),
    ]);
    setup.write_batch(&entries).await.unwrap();
    let since = |days: u64| T0 + days * DAY_MS;
    let asked = |of, days| (customer(of), since(days));
    assert_eq!(
        owners(
            &setup,
            &[
                asked(1, 5),
                // Had him until the twelfth.
                asked(1, 12),
                asked(1, 13),
                // Has him still.
                asked(2, 30),
                // Waits; nobody has ever had him.
                asked(4, 0),
                asked(9, 0),
                asked(1, 5),
            ]
        )
        .await,
        [
            Some(member("mB")),
            Some(member("mB")),
            None,
            Some(member("mA")),
            None,
            None,
            Some(member("mB"))
        ]
    );
    assert_eq!(owners(&setup, &[]).await, []);
}

/// What the ledger refused never was.
#[tokio::test]
async fn who_lost_against_another_was_no_owner() {
    let setup = setup().await;
    setup
        .write(vec![Change::Decided(decided(1, Some("mA")))])
        .await;
    let lost = NewAllocation {
        allocation: allocation(2),
        ..decided(1, Some("mB"))
    };
    let written = setup.write(vec![Change::Decided(lost)]).await;
    assert_eq!(written.conflicts.len(), 1);
    setup.write(vec![closed(1)]).await;
    assert_eq!(
        owners(&setup, &[(customer(1), 0)]).await,
        [Some(member("mA"))]
    );
}

#[tokio::test]
async fn a_visitor_had_the_member_whom_he_added() {
    let setup = setup().await;
    let visitor = subject("cookie");
    let channel = ChannelId::new("page").unwrap();
    let visit = NewVisit {
        allocation: allocation(1),
        channel,
        visitor,
        slot: None,
        hold_ms: 60_000,
        rest_ms: 60_000,
        until_ms: T0 + 60_000,
    };
    let hold = NewAllocation {
        subject: visitor,
        ..decided(1, Some("mA"))
    };
    setup
        .write(vec![Change::Decided(hold), Change::Visit(visit)])
        .await;
    assert_eq!(owners(&setup, &[(visitor, 0)]).await, [Some(member("mA"))]);
    // He is a customer now: the allocation is his, and the visitor's no more.
    let ended = |next| {
        Change::VisitEnded(VisitEnded {
            allocation: allocation(1),
            how: VisitEnd::Confirmed,
            matched: None,
            slot: None,
            next,
        })
    };
    let confirmed = Change::Confirmed {
        allocation: allocation(1),
        subject: customer(1),
        customer: Customer {
            kind: "wecom".into(),
            external_id: Some("wmC001".into()),
        },
    };
    let settled = Change::Settled {
        allocation: allocation(1),
        how: SettledAs::Done,
    };
    setup.write(vec![confirmed, settled, ended(None)]).await;
    let both = [(visitor, 0), (customer(1), 0)];
    let ma = Some(member("mA"));
    assert_eq!(owners(&setup, &both).await, [ma.clone(), ma]);
}

#[tokio::test]
async fn who_waits_is_counted_and_who_waits_too_long() {
    let setup = setup().await;
    let alert = Routing {
        alert_after_seconds: Some(60),
        ..Routing::default()
    };
    put(&setup, "g1", alert).await;
    put(&setup, "g2", Routing::default()).await;
    let in_g2 = |n, to: Option<&str>| {
        Change::Decided(NewAllocation {
            pool: pool("g2"),
            ..decided(n, to)
        })
    };
    let at = |seq, after_ms, changes| ledger::Entry {
        at_ms: T0 + after_ms,
        ..entry(seq, changes)
    };
    let waits = |n| Change::Decided(decided(n, None));
    let entries = batch(vec![
        at(1, 0, vec![waits(1), waits(2), waits(3), in_g2(4, None)]),
        at(2, 1_000, vec![closed(1), assigned(2, "mA", None)]),
        // A person must decide about that one: it waits for nobody else.
        at(3, 2_000, vec![waits(5), in_g2(6, Some("mA")), waits(7)]),
        at(
            4,
            2_500,
            vec![Change::Undecided {
                allocation: allocation(7),
                epoch: 0,
            }],
        ),
    ]);
    setup.write_batch(&entries).await.unwrap();
    let seen = async |after_ms| {
        let pools = setup.ledger.pools();
        pools.waits(&setup.corp, T0 + after_ms).await.unwrap()
    };
    let wait = |name: &str, waiting, too_long| PoolWait {
        pool: PoolId::new(name).unwrap(),
        waiting,
        oldest_ms: T0,
        too_long,
    };
    let g2 = wait("g2", 1, 0);
    for (after_ms, too_long) in [(59_999, 0), (60_000, 1), (61_999, 1), (62_000, 2)] {
        assert_eq!(seen(after_ms).await, [wait("g1", 2, too_long), g2.clone()]);
    }
}
