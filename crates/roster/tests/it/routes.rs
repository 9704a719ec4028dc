//! Requests with a plan: what a member must be able to do, where else a subject may go, whom it prefers, how long it waits.

use std::collections::{BTreeMap, BTreeSet};

use allocation::{
    AdvancedTo, Answer, Decision, Limits, Op, Outcome, Plan, PoolConfig, PresenceChange, Request,
    SetSkills, Skill, Step, Strategy,
};
use futures_util::future::join_all;

use crate::crash::whole;
use crate::support::*;

const FAIR: Strategy = Strategy::WeightedRoundRobin;
const LEAST: Strategy = Strategy::LeastLoad;
const MINUTE: u64 = 60_000;

fn step(name: &str, after_ms: u64, needs: &[&str]) -> Step {
    Step {
        after_ms,
        pool: pool(name),
        needs: needs
            .iter()
            .map(|need| Skill::new(*need).unwrap())
            .collect(),
    }
}

fn plan(steps: &[(&str, u64, &[&str])]) -> Plan {
    let steps = steps
        .iter()
        .map(|(name, after, needs)| step(name, *after, needs));
    Plan::new(Vec::new(), steps.collect(), None).unwrap()
}

fn routed(pool_name: &str, subject_name: &str, plan: &Plan) -> Request {
    Request {
        plan: Some(plan.clone()),
        ..request(pool_name, subject_name)
    }
}

impl Twin {
    async fn skills(&mut self, name: &str, skills: &[&str]) -> Outcome {
        let skills = skills.iter().map(|skill| Skill::new(*skill).unwrap());
        self.apply(Op::SetSkills(SetSkills {
            member: member(name),
            skills: skills.collect(),
        }))
        .await
    }

    /// Asks with a plan, and tells to whom it went; None: it waits.
    async fn serve(&mut self, pool_name: &str, subject_name: &str, plan: &Plan) -> Option<String> {
        let asked = routed(pool_name, subject_name, plan);
        let outcome = self.apply(Op::Decide(vec![asked])).await;
        member_of(&decisions(outcome).remove(0))
    }

    async fn advance(&mut self) -> Outcome {
        self.apply(Op::Advance { limit: 256 }).await
    }
}

fn advanced(outcome: &Outcome) -> Vec<AdvancedTo> {
    match &outcome.answer {
        Answer::Advanced(advanced) => advanced.iter().map(|one| one.to).collect(),
        other => panic!("{other:?}"),
    }
}

async fn four(strategy: Strategy) -> Twin {
    let mut twin = Twin::new().await;
    let members = [("ma", "1"), ("mb", "3"), ("mc", "1"), ("md", "1")];
    twin.pool("g", 1, strategy, &members).await;
    twin.on(&["ma", "mb", "mc", "md"]).await;
    for name in ["ma", "mb"] {
        twin.skills(name, &["lang:en", "vip"]).await;
    }
    twin.skills("mc", &["vip"]).await;
    twin
}

/// Filtered first, balanced afterwards: those who can do it share by weight, and what only some can do changes nothing
/// between the others.
#[tokio::test]
async fn only_those_who_can_do_it_share_it() {
    let mut twin = four(FAIR).await;
    let english = plan(&[("g", 0, &["lang:en"])]);
    let mut got: BTreeMap<String, u32> = BTreeMap::new();
    for i in 0..400 {
        let who = match i % 2 {
            0 => twin.serve("g", &format!("e{i}"), &english).await.unwrap(),
            _ => twin.who("g", &format!("c{i}")).await.unwrap(),
        };
        assert!(i % 2 == 1 || ["ma", "mb"].contains(&who.as_str()), "{who}");
        *got.entry(who).or_default() += 1;
        let shares = twin.model.shares(&pool("g")).unwrap();
        let credits: f64 = shares.iter().map(|share| share.credit).sum();
        assert!(credits.abs() < 1e-9, "{credits}");
        let is_near = |share: &allocation::model::Share| share.credit.abs() < 2.0;
        assert!(shares.iter().all(is_near), "{shares:?}");
    }
    // 200 that two share as 1 to 3, and 200 that four share as 1 to 3 to 1 to 1.
    for (who, share) in [("ma", 83), ("mb", 250), ("mc", 33), ("md", 33)] {
        assert!(got[who].abs_diff(share) <= 2, "{who}: {got:?}");
    }
    twin.compare().await;
}

#[tokio::test]
async fn the_least_loaded_of_those_who_can() {
    let mut twin = four(LEAST).await;
    let english = plan(&[("g", 0, &["lang:en"])]);
    let both = plan(&[("g", 0, &["vip", "lang:en"])]);
    let mut got: BTreeMap<String, u32> = BTreeMap::new();
    for i in 0..80 {
        let plan = if i % 2 == 0 { &english } else { &both };
        let who = twin.serve("g", &format!("e{i}"), plan).await.unwrap();
        *got.entry(who).or_default() += 1;
    }
    assert_eq!(got, BTreeMap::from([("ma".into(), 20), ("mb".into(), 60)]));
    let chinese = plan(&[("g", 0, &["lang:fr"])]);
    assert_eq!(twin.serve("g", "nobody", &chinese).await, None);
    twin.compare().await;
}

/// Who waits for a skill holds up nobody who needs none; among those who need it the first is first.
#[tokio::test]
async fn who_needs_more_holds_up_nobody() {
    let mut twin = four(FAIR).await;
    twin.off(&["ma", "mb"]).await;
    let english = plan(&[("g", 0, &["lang:en"])]);
    for name in ["e1", "e2"] {
        assert_eq!(twin.serve("g", name, &english).await, None);
    }
    assert!(twin.who("g", "c1").await.is_some());
    // Nobody who is there can do it: there is nothing to wake.
    let outcome = twin
        .apply(Op::Wake {
            pool: pool("g"),
            limit: 64,
        })
        .await;
    assert!(!outcome.more && outcome.woken.is_empty());
    twin.cap("ma", 1).await;
    let woken = twin.on(&["ma"]).await;
    assert_eq!(woken.len(), 1);
    assert_eq!(
        (woken[0].subject, &woken[0].member),
        (subject("e1"), &member("ma"))
    );
    // Somebody learns it.
    let outcome = twin.skills("mc", &["lang:en"]).await;
    assert_eq!(outcome.woken[0].subject, subject("e2"));
    assert_eq!(outcome.woken[0].member, member("mc"));
    twin.compare().await;
}

/// A skill that is not needed any more after a while.
#[tokio::test]
async fn a_need_is_given_up_after_a_wait() {
    let mut twin = four(FAIR).await;
    twin.off(&["ma", "mb"]).await;
    let relaxed = plan(&[("g", 0, &["lang:en", "vip"]), ("g", MINUTE, &["vip"])]);
    assert_eq!(twin.serve("g", "e1", &relaxed).await, None);
    assert_eq!(
        twin.redis.first_patience().await.unwrap(),
        Some(T0 + MINUTE)
    );
    twin.now += MINUTE - 1;
    assert_eq!(advanced(&twin.advance().await), []);
    twin.now += 1;
    let outcome = twin.advance().await;
    assert_eq!(advanced(&outcome), [AdvancedTo::Steps]);
    assert_eq!(outcome.woken[0].member, member("mc"));
    assert_eq!(twin.redis.first_patience().await.unwrap(), None);
    twin.compare().await;
}

/// Priority tiers: the second pool serves only what the first cannot.
#[tokio::test]
async fn the_second_tier_serves_what_the_first_cannot() {
    let mut twin = Twin::new().await;
    twin.pool("first", 1, FAIR, &[("ma", "1"), ("mb", "1")])
        .await;
    let second = config("second", 1, FAIR, &[("mc", "1"), ("md", "1")]);
    let limits = Limits {
        at_a_time: Some(1),
        ..Limits::NONE
    };
    let second = second.with_limits([(member("mc"), limits)]);
    twin.apply(Op::SetPool(second)).await;
    twin.on(&["ma", "mb", "mc", "md"]).await;
    for name in ["ma", "mb"] {
        twin.cap(name, 2).await;
    }
    let tiers = plan(&[("first", 0, &[]), ("second", 0, &[])]);
    let mut got = Vec::new();
    for i in 0..8 {
        got.push(twin.serve("first", &format!("c{i}"), &tiers).await.unwrap());
    }
    assert!(
        got[..4]
            .iter()
            .all(|who| ["ma", "mb"].contains(&who.as_str())),
        "{got:?}"
    );
    // What one of the second pool was given counts in his limits there.
    assert_eq!(
        got[4..].iter().filter(|who| *who == "mc").count(),
        1,
        "{got:?}"
    );
    twin.compare().await;
    let freed = got.iter().position(|who| who == "mc").unwrap();
    twin.close(&format!("c{freed}")).await;
    let all: BTreeSet<_> = [
        twin.serve("first", "c8", &tiers).await.unwrap(),
        twin.serve("first", "c9", &tiers).await.unwrap(),
    ]
    .into();
    assert_eq!(all, BTreeSet::from(["mc".to_owned(), "md".to_owned()]));
    // A place in the first pool is used again.
    let free = got.iter().position(|who| who == "ma").unwrap();
    twin.close(&format!("c{free}")).await;
    assert_eq!(
        twin.serve("first", "c10", &tiers).await.as_deref(),
        Some("ma")
    );
    twin.compare().await;
}

/// A backup pool that is asked when the first has had nobody for a while; a pool that is no more is passed over.
#[tokio::test]
async fn the_backup_is_asked_after_a_wait() {
    let mut twin = Twin::new().await;
    twin.pool("g", 1, FAIR, &[("ma", "1")]).await;
    twin.pool("backup", 1, LEAST, &[("mb", "1")]).await;
    twin.on(&["mb"]).await;
    twin.cap("mb", 1).await;
    let steps = plan(&[
        ("g", 0, &[]),
        ("gone", MINUTE, &[]),
        ("backup", 2 * MINUTE, &[]),
    ]);
    for name in ["c1", "c2"] {
        assert_eq!(twin.serve("g", name, &steps).await, None);
    }
    twin.now += MINUTE;
    let outcome = twin.advance().await;
    assert_eq!(advanced(&outcome).len(), 2);
    assert!(outcome.woken.is_empty());
    twin.now += 5 * MINUTE;
    let outcome = twin.advance().await;
    assert_eq!(outcome.woken.len(), 1);
    assert_eq!(
        (outcome.woken[0].subject, &outcome.woken[0].member),
        (subject("c1"), &member("mb"))
    );
    assert_eq!(outcome.woken[0].pool, pool("g"));
    // Whoever asks the backup itself stands behind who came before him.
    assert_eq!(twin.who("backup", "c3").await, None);
    let outcome = twin.close("c1").await;
    assert_eq!(outcome.woken[0].subject, subject("c2"));
    twin.close("c2").await;
    twin.compare().await;
    assert_eq!(twin.model.waiting(&pool("backup")), []);
}

/// The earlier owner first, whoever else is next; he pays for it as if he had been.
#[tokio::test]
async fn the_earlier_owner_comes_first() {
    let mut twin = four(FAIR).await;
    let prefer = |names: &[&str]| {
        let names = names.iter().map(|name| member(name)).collect();
        Plan::new(names, vec![step("g", 0, &[])], None).unwrap()
    };
    for i in 0..3 {
        let owner = twin.serve("g", &format!("o{i}"), &prefer(&["md"])).await;
        assert_eq!(owner.as_deref(), Some("md"));
    }
    let shares = twin.model.shares(&pool("g")).unwrap();
    let md = shares.iter().find(|share| share.member == member("md"));
    assert!((md.unwrap().credit + 2.5).abs() < 1e-9, "{shares:?}");
    // He is not needed to fall behind for ever: the others are ahead until he has paid.
    for i in 0..12 {
        assert_ne!(twin.who("g", &format!("c{i}")).await.as_deref(), Some("md"));
    }
    twin.off(&["md"]).await;
    let next = twin.serve("g", "o9", &prefer(&["md", "mc"])).await;
    assert_eq!(next.as_deref(), Some("mc"));
    // Who cannot do what is needed is not preferred.
    let english = Plan::new(vec![member("mc")], vec![step("g", 0, &["lang:en"])], None).unwrap();
    assert_ne!(
        twin.serve("g", "o10", &english).await.as_deref(),
        Some("mc")
    );
    twin.compare().await;
}

/// The first who comes at eight does not get the whole night.
#[tokio::test]
async fn the_night_is_handed_out_slowly() {
    let mut twin = Twin::new().await;
    let members = [("ma", "1"), ("mb", "1"), ("mc", "1"), ("md", "1")];
    let config: PoolConfig = config("g", 1, FAIR, &members);
    twin.apply(Op::SetPool(config.with_drip(Some(MINUTE))))
        .await;
    for i in 0..40 {
        assert_eq!(twin.who("g", &format!("c{i}")).await, None);
    }
    assert_eq!(twin.on(&["ma"]).await.len(), 1);
    let wake = || Op::Wake {
        pool: pool("g"),
        limit: 64,
    };
    let outcome = twin.apply(wake()).await;
    assert!(outcome.woken.is_empty() && !outcome.more);
    // Nobody overtakes the night.
    assert_eq!(twin.who("g", "c40").await, None);
    twin.now += MINUTE;
    assert_eq!(twin.apply(wake()).await.woken.len(), 1);
    twin.on(&["mb", "mc", "md"]).await;
    let mut loads = 2;
    for _ in 0..36 {
        twin.now += MINUTE / 4;
        loads += twin.apply(wake()).await.woken.len();
    }
    assert!((34..=38).contains(&loads), "{loads}");
    let most = members.iter().map(|(name, _)| twin.load(name)).max();
    assert!(most.unwrap() <= 12, "{most:?}");
    twin.compare().await;
}

/// After so long nobody is waited for any more: a person must decide, and does.
#[tokio::test]
async fn who_waits_too_long_is_left_to_a_person() {
    let mut twin = four(FAIR).await;
    twin.off(&["ma", "mb", "mc", "md"]).await;
    let steps = vec![step("g", 0, &[]), step("backup", MINUTE, &[])];
    let patient = Plan::new(Vec::new(), steps, Some(2 * MINUTE)).unwrap();
    for name in ["c1", "c2"] {
        assert_eq!(twin.serve("g", name, &patient).await, None);
    }
    twin.now += 2 * MINUTE;
    let outcome = twin.advance().await;
    assert_eq!(advanced(&outcome), [AdvancedTo::Person, AdvancedTo::Person]);
    assert_eq!(twin.model.waiting(&pool("g")), []);
    assert!(twin.on(&["ma"]).await.is_empty());
    let given = twin
        .apply(Op::Reassign(reassignment("g", "c1", Some("ma"), 0)))
        .await;
    assert!(matches!(
        given.answer,
        Answer::Reassigned(allocation::Reassigned::Moved { .. })
    ));
    twin.close("c2").await;
    twin.compare().await;
    assert_eq!(twin.load("ma"), 1);
}

/// Everything at once, and processes that die in the middle: the log is the state, and nobody has what he cannot do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_under_way_at_once() {
    let (_, redis) = open_corp().await;
    let names: Vec<String> = (0..12).map(|i| format!("m{i}")).collect();
    let of = |range: std::ops::Range<usize>| {
        let members: Vec<_> = names[range]
            .iter()
            .map(|name| (name.as_str(), "1"))
            .collect();
        members
    };
    redis
        .set_pool(config("a", 1, FAIR, &of(0..6)), "", None)
        .await
        .unwrap();
    redis
        .set_pool(config("b", 1, LEAST, &of(4..12)), "", None)
        .await
        .unwrap();
    for (i, name) in names.iter().enumerate() {
        let skills = ["en", "vip"].iter().take(i % 3);
        let skills = skills.map(|skill| Skill::new(*skill).unwrap()).collect();
        let change = SetSkills {
            member: member(name),
            skills,
        };
        redis.set_skills(change, "", None).await.unwrap();
        let member = allocation::SetMember::capped(member(name), Some(20), None);
        redis.set_member(member, "", None).await.unwrap();
    }
    let english = plan(&[("a", 0, &["en"]), ("b", 1, &["en"])]);
    let vip = plan(&[("b", 0, &["en", "vip"]), ("a", 0, &["en", "vip"])]);
    let tasks = (0..10).map(|task| {
        let (redis, names) = (redis.clone(), names.clone());
        let (english, vip) = (english.clone(), vip.clone());
        let work = async move {
            for i in 0..40 {
                let name = |kind: &str| format!("{kind}-{task}-{i}");
                match (task + i) % 4 {
                    0 => {
                        let lease_until_ms = if i % 3 == 0 { 0 } else { T0 * 2 };
                        let change = |name: &String| PresenceChange {
                            member: member(name),
                            lease_until_ms,
                        };
                        let some = names.iter().skip(i % 5).step_by(2).map(change).collect();
                        redis.presence(some, "", None).await.map(drop)
                    }
                    1 => redis.advance(20, "", None).await.map(drop),
                    2 => {
                        let asked = vec![
                            routed("a", &name("en"), &english),
                            request("a", &name("any")),
                        ];
                        redis.decide(asked, "", None).await.map(drop)
                    }
                    _ => {
                        let asked = vec![routed("b", &name("vip"), &vip)];
                        redis.decide(asked, "", None).await.map(drop)
                    }
                }
                .unwrap();
            }
        };
        // Some of them die wherever they are.
        tokio::spawn(async move {
            match task % 5 {
                0 => tokio::time::timeout(std::time::Duration::from_millis(60), work)
                    .await
                    .unwrap_or(()),
                _ => work.await,
            }
        })
    });
    for task in join_all(tasks).await {
        task.unwrap();
    }
    let here = names.iter().map(|name| PresenceChange {
        member: member(name),
        lease_until_ms: T0 * 2,
    });
    let mut more = redis.presence(here.collect(), "", None).await.unwrap().more;
    while more {
        more = redis.wake(pool("a"), 64, "", None).await.unwrap().more
            | redis.wake(pool("b"), 64, "", None).await.unwrap().more;
    }
    let corp = whole(&redis).await;
    for open in corp.allocations() {
        let Some((member, route)) = open.member.as_ref().zip(open.route.as_ref()) else {
            continue;
        };
        let can: BTreeSet<_> = corp.skills(member).cloned().collect();
        let needs = &route.plan.steps()[0].needs;
        assert!(needs.iter().all(|need| can.contains(need)), "{open:?}");
    }
    assert!(
        corp.allocations()
            .any(|open| open.route.is_some_and(|route| route.source.is_some()))
    );
}

/// A request with a plan that is asked again is answered as before, and a batch may mix.
#[tokio::test]
async fn plans_and_none_in_one_call() {
    let mut twin = four(FAIR).await;
    let english = plan(&[("g", 0, &["lang:en"])]);
    let nobody = plan(&[("g", 0, &["lang:fr"])]);
    let asked = vec![
        request("g", "c1"),
        routed("g", "e1", &english),
        routed("g", "f1", &nobody),
        request("g", "c2"),
        routed("g", "e1", &english),
    ];
    let answers = decisions(twin.apply(Op::Decide(asked)).await);
    assert!(matches!(answers[2], Decision::Waiting { .. }));
    assert!(member_of(&answers[3]).is_some());
    assert!(matches!(answers[4], Decision::Already { .. }));
    twin.compare().await;
    let log = twin.redis.log_read(0, 100).await.unwrap();
    assert_eq!(log.last().unwrap().op.name(), "decide.2");
}
