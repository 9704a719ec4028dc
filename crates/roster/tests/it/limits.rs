//! Limits: at a time, by the hour and by the day; over all pools, and in one.

use allocation::model::{Corp, Given};
use allocation::{Answer, Limits, MemberChange, Op, PoolConfig, SetMember, Strategy, Visit};
use futures_util::future::join_all;

use crate::crash::whole;
use crate::support::*;

const FAIR: Strategy = Strategy::WeightedRoundRobin;
const DAY: u64 = 24 * HOUR;

pub(crate) fn limits(
    at_a_time: Option<u32>,
    per_hour: Option<u32>,
    per_day: Option<u32>,
) -> Limits {
    Limits {
        at_a_time,
        per_hour,
        per_day,
    }
}

pub(crate) fn limited(
    pool_name: &str,
    version: u64,
    members: &[(&str, &str, Limits)],
) -> PoolConfig {
    let weights: Vec<_> = members
        .iter()
        .map(|(name, text, _)| (*name, *text))
        .collect();
    let limits = members
        .iter()
        .map(|(name, _, limits)| (member(name), *limits));
    config(pool_name, version, FAIR, &weights).with_limits(limits)
}

impl Twin {
    pub(crate) async fn limit(
        &mut self,
        name: &str,
        limits: Limits,
        day_end_ms: u64,
    ) -> MemberChange {
        let change = SetMember {
            member: member(name),
            limits,
            day_end_ms: Some(day_end_ms),
            blocked: None,
            given: None,
        };
        match self.apply(Op::SetMember(change)).await.answer {
            Answer::Member(change) => change,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn given(&self, name: &str) -> Given {
        let mut members = self.model.members();
        let view = members.find(|view| view.member == member(name)).unwrap();
        view.given.unwrap().at(self.now)
    }

    /// As whoever watches the ends of windows does.
    async fn sweep(&mut self) -> Vec<allocation::Woken> {
        self.apply(Op::Expire { limit: 256 }).await.woken
    }
}

/// Case 58: least load; who has reached his limit is never chosen, though his score would be best.
#[tokio::test]
async fn who_is_full_is_not_chosen_though_his_score_is_best() {
    let mut twin = Twin::new().await;
    let members = [("ma", "10"), ("mb", "1"), ("mc", "1")];
    for (name, cap, open) in [("ma", 3, 3), ("mb", 10, 5), ("mc", 10, 6)] {
        let alone = format!("only {name}");
        let strategy = Strategy::LeastLoad;
        twin.pool(&alone, 1, strategy, &[(name, "1")]).await;
        twin.cap(name, cap).await;
        twin.on(&[name]).await;
        for n in 0..open {
            let who = twin.who(&alone, &format!("{name} {n}")).await;
            assert_eq!(who.as_deref(), Some(name));
        }
    }
    twin.pool("g", 1, Strategy::LeastLoad, &members).await;
    for n in 0..4 {
        let before = twin.model.seq();
        let who = twin.who("g", &format!("wmC{n}")).await.unwrap();
        assert_ne!(who, "ma");
        assert_eq!(twin.model.seq(), before + 1);
    }
    let mut loads = [twin.load("mb"), twin.load("mc")];
    loads.sort_unstable();
    assert_eq!((loads, twin.load("ma")), ([7, 8], 3));
    twin.compare().await;
}

/// Case 73: however many ask at once, one place is given once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_fifty_at_once_one_gets_the_last_place() {
    for round in 0..100 {
        let (_, redis) = open_corp().await;
        // At a time, by the hour, by the day, and in the pool.
        let some = Some(3);
        let all = [
            limits(some, None, None),
            limits(None, some, None),
            limits(None, None, some),
        ];
        let (of_all, of_pool) = match round % 6 {
            n if n < 3 => (all[n], Limits::NONE),
            n => (Limits::NONE, all[n - 3]),
        };
        let change = SetMember {
            member: member("ma"),
            limits: of_all,
            day_end_ms: Some(T0 + HOUR / 2),
            blocked: None,
            given: None,
        };
        redis.set_member(change, "", Some(T0)).await.unwrap();
        let config = limited("g", 1, &[("ma", "1", of_pool)]);
        redis.set_pool(config, "", Some(T0)).await.unwrap();
        let here = allocation::PresenceChange {
            member: member("ma"),
            lease_until_ms: T0 + HOUR,
        };
        redis.presence(vec![here], "", Some(T0)).await.unwrap();
        for name in ["first", "second"] {
            let asked = vec![request("g", name)];
            redis.decide(asked, "", Some(T0)).await.unwrap();
        }
        let asks = (0..50).map(|n| {
            let redis = redis.clone();
            tokio::spawn(async move {
                let asked = vec![request("g", &format!("c{n}"))];
                redis
                    .decide(asked, "", Some(T0))
                    .await
                    .unwrap()
                    .answer
                    .remove(0)
            })
        });
        let answers = join_all(asks)
            .await
            .into_iter()
            .map(|answer| answer.unwrap());
        let given = answers.filter(|answer| member_of(answer).is_some()).count();
        assert_eq!(given, 1, "{of_all:?} {of_pool:?}");
        // Not for a moment: no entry of the log gives a fourth.
        let mut folded = Corp::new();
        for entry in redis.log_read(0, 1000).await.unwrap() {
            folded.fold(&entry).unwrap();
            assert!(folded.members().all(|view| view.load <= 3));
        }
        let corp = whole(&redis).await;
        assert_eq!(corp.waiting(&pool("g")).len(), 49);
    }
}

/// Case 74: 2 in g1, 5 in g2, 6 over all.
#[tokio::test]
async fn limits_of_pools_and_over_all_count_side_by_side() {
    let mut twin = Twin::new().await;
    for (name, cap) in [("g1", 2), ("g2", 5)] {
        let cap = limits(Some(cap), None, None);
        let config = limited(name, 1, &[("ma", "1", cap)]);
        twin.apply(Op::SetPool(config)).await;
    }
    twin.cap("ma", 6).await;
    twin.on(&["ma"]).await;
    for n in 0..4 {
        assert!(twin.who("g2", &format!("old{n}")).await.is_some());
    }
    assert!(twin.who("g1", "wmC1").await.is_some());
    assert!(twin.who("g1", "wmC2").await.is_some());
    assert_eq!(twin.who("g1", "wmC3").await, None);
    assert_eq!(twin.load("ma"), 6);
    // One of g2 ends: there is room over all, and none in g1.
    assert!(twin.close("old0").await.woken.is_empty());
    let woken = twin.close("wmC1").await.woken;
    assert_eq!(woken[0].subject, subject("wmC3"));
    assert!(twin.who("g2", "new").await.is_some());
    twin.compare().await;
}

/// Case 82, the script's part: the day ends when it was told to end.
#[tokio::test]
async fn a_day_ends_where_the_member_is() {
    let mut twin = Twin::new().await;
    twin.pool("g", 1, FAIR, &[("ma", "1"), ("mb", "1")]).await;
    let midnight = T0 + 7 * HOUR + 123;
    twin.limit("ma", limits(None, None, Some(10)), midnight)
        .await;
    twin.on(&["ma"]).await;
    twin.now = midnight - 10_000;
    for n in 0..10 {
        assert!(twin.who("g", &format!("c{n}")).await.is_some());
        twin.close(&format!("c{n}")).await;
    }
    assert_eq!(twin.who("g", "eleventh").await, None);
    // Another one takes over; he is passed over.
    twin.on(&["mb"]).await;
    assert_eq!(twin.load("mb"), 1);
    twin.off(&["mb"]).await;
    assert_eq!(twin.who("g", "twelfth").await, None);
    assert_eq!(twin.redis.first_alarm().await.unwrap(), Some(midnight));
    twin.now = midnight - 1;
    assert!(twin.sweep().await.is_empty());
    twin.now = midnight;
    assert_eq!(twin.sweep().await[0].subject, subject("twelfth"));
    assert_eq!(twin.redis.first_alarm().await.unwrap(), None);
    let given = twin.given("ma");
    assert_eq!((given.on_day, given.day_end_ms), (1, midnight + DAY));
    // Nothing else happens on this day.
    for n in 0..9 {
        twin.now += 2 * HOUR;
        assert_eq!(twin.given("ma").on_day, 1 + n);
        assert!(twin.who("g", &format!("d{n}")).await.is_some());
    }
    assert_eq!(twin.who("g", "too many").await, None);
    twin.compare().await;
}

/// Who waits is woken when the hour is over; told the same again, nothing changes.
#[tokio::test]
async fn an_hour_ends_and_who_waits_is_woken() {
    let mut twin = Twin::new().await;
    twin.pool("g", 1, FAIR, &[("ma", "1")]).await;
    let midnight = T0 + 5 * HOUR / 2;
    let two = limits(None, Some(2), None);
    twin.limit("ma", two, midnight).await;
    assert_eq!(twin.limit("ma", two, midnight).await, MemberChange::Same);
    twin.on(&["ma"]).await;
    for n in 0..5 {
        twin.ask("g", &format!("c{n}")).await;
    }
    for (hour, woken) in [(0, 2), (1, 1), (2, 0)] {
        twin.now = T0 + HOUR / 2 + hour * HOUR;
        assert_eq!(twin.sweep().await.len(), woken);
    }
    assert_eq!(twin.load("ma"), 5);
    twin.compare().await;
}

/// Lower than what stands, higher, gone: each at once, and who waits hears of it.
#[tokio::test]
async fn limits_change_while_customers_are_open() {
    let mut twin = Twin::new().await;
    twin.pool("g", 1, FAIR, &[("ma", "1")]).await;
    twin.on(&["ma"]).await;
    for n in 0..3 {
        twin.ask("g", &format!("old{n}")).await;
    }
    // What stood before a pool's limit does not count against it.
    let cap = |n| limited("g", n, &[("ma", "1", limits(Some(2), None, None))]);
    twin.apply(Op::SetPool(cap(2))).await;
    assert!(twin.who("g", "new1").await.is_some());
    assert!(twin.who("g", "new2").await.is_some());
    assert_eq!(twin.who("g", "new3").await, None);
    assert!(twin.close("old0").await.woken.is_empty());
    // The same limit in a newer version goes on counting.
    let members = [
        ("ma", "1", limits(Some(2), None, None)),
        ("mb", "1", Limits::NONE),
    ];
    twin.apply(Op::SetPool(limited("g", 3, &members))).await;
    assert_eq!(twin.who("g", "new4").await, None);
    // Without it both that wait are his.
    twin.apply(Op::SetPool(limited("g", 4, &[("ma", "1", Limits::NONE)])))
        .await;
    assert_eq!(twin.load("ma"), 6);
    let end = T0 + HOUR;
    twin.limit("ma", limits(Some(3), None, None), end).await;
    assert_eq!(twin.who("g", "new5").await, None);
    let woken = twin
        .apply(Op::SetMember(SetMember::capped(member("ma"), None, None)))
        .await;
    assert_eq!(woken.woken.len(), 1);
    assert_eq!(twin.model.members().next().unwrap().given, None);
    twin.compare().await;
}

/// A hold that nobody came for was not given: at once when it ends, in its own hour and day only.
#[tokio::test]
async fn a_hold_that_is_over_gives_its_count_back() {
    let mut twin = Twin::new().await;
    let of_pool = limits(None, Some(1), None);
    twin.apply(Op::SetPool(limited("g", 1, &[("ma", "1", of_pool)])))
        .await;
    twin.limit("ma", limits(None, None, Some(2)), T0 + HOUR)
        .await;
    twin.on(&["ma"]).await;
    let visit = |name: &str| Visit {
        allocation: allocation("g", name),
        pool: pool("g"),
        subject: subject(name),
        channel: allocation::ChannelId::new("page").unwrap(),
        hold_ms: HOUR / 6,
        rest_ms: 0,
        plan: None,
    };
    twin.apply(Op::Visit(vec![visit("v1"), visit("v2")])).await;
    assert_eq!((twin.load("ma"), twin.given("ma").on_day), (1, 1));
    twin.now += HOUR / 12;
    // v2 waits, and asks again; v1 expires.
    twin.apply(Op::Visit(vec![visit("v2")])).await;
    twin.now += HOUR / 12;
    let woken = twin.sweep().await;
    assert_eq!(woken[0].subject, subject("v2"));
    assert_eq!((twin.load("ma"), twin.given("ma").on_day), (1, 1));
    // Given before the hour ended, and over after it: that hour is over anyhow.
    twin.now = T0 + HOUR - 1000;
    twin.sweep().await;
    twin.apply(Op::Visit(vec![visit("v3")])).await;
    twin.now = T0 + HOUR + 1000;
    twin.apply(Op::Visit(vec![visit("v4")])).await;
    let given = twin.given("ma");
    assert_eq!((given.in_hour, given.on_day), (1, 1));
    twin.now = T0 + HOUR - 1000 + HOUR / 6;
    assert!(twin.sweep().await.is_empty());
    assert_eq!((twin.load("ma"), twin.given("ma").on_day), (1, 1));
    twin.compare().await;
}

/// A hold that begins anew before anybody ended it counts where it is now, so its end takes nothing from somebody else.
#[tokio::test]
async fn a_hold_that_begins_anew_counts_anew() {
    let mut twin = Twin::new().await;
    twin.pool("g", 1, FAIR, &[("ma", "1")]).await;
    twin.limit("ma", limits(None, Some(1), None), T0 + HOUR)
        .await;
    twin.on(&["ma"]).await;
    let visit = |name: &str| Visit {
        allocation: allocation("g", name),
        pool: pool("g"),
        subject: subject(name),
        channel: allocation::ChannelId::new("page").unwrap(),
        hold_ms: HOUR / 6,
        rest_ms: 0,
        plan: None,
    };
    twin.now = T0 + HOUR - HOUR / 12;
    twin.apply(Op::Visit(vec![visit("v1")])).await;
    twin.now = T0 + HOUR + HOUR / 12;
    assert!(twin.who("g", "c1").await.is_some());
    twin.apply(Op::Visit(vec![visit("v1")])).await;
    assert_eq!(twin.given("ma").in_hour, 2);
    twin.now += HOUR / 6;
    twin.sweep().await;
    assert_eq!(twin.given("ma").in_hour, 1);
    assert_eq!(twin.who("g", "c2").await, None);
    twin.compare().await;
}

/// A member of thirty pools, and one whose weight is 0: limits are his, wherever he is picked.
#[tokio::test]
async fn many_pools_and_no_weight() {
    let mut twin = Twin::new().await;
    let some = limits(None, None, Some(1));
    for n in 0..30 {
        let members = [("ma", "1", some), ("mb", "0", some)];
        let config = limited(&format!("g{n}"), 1, &members);
        twin.apply(Op::SetPool(config)).await;
    }
    let end = T0 + HOUR / 3;
    for name in ["ma", "mb"] {
        twin.limit(name, limits(None, None, Some(20)), end).await;
    }
    twin.on(&["ma", "mb"]).await;
    for n in 0..30 {
        let name = format!("g{n}");
        let first = twin.who(&name, &format!("first{n}")).await;
        assert_eq!(first.is_some(), n < 20, "{n}");
        assert_eq!(twin.who(&name, &format!("second{n}")).await, None);
    }
    assert_eq!((twin.load("ma"), twin.load("mb")), (20, 0));
    twin.compare().await;
    twin.now = end;
    // Twenty more, one in each pool at most.
    assert_eq!(twin.sweep().await.len(), 20);
    assert_eq!(twin.load("ma"), 40);
    twin.compare().await;
}

/// A Redis that was wiped is as it was: what was given counts on.
#[tokio::test]
async fn a_rebuilt_redis_goes_on_counting() {
    let mut twin = Twin::new().await;
    twin.pool("g", 1, FAIR, &[("ma", "1")]).await;
    let end = T0 + 3 * HOUR;
    twin.limit("ma", limits(None, None, Some(3)), end).await;
    twin.on(&["ma"]).await;
    twin.ask("g", "c1").await;
    twin.ask("g", "c2").await;
    let log = twin.redis.log_read(0, 1000).await.unwrap();
    let mut folded = Corp::new();
    log.iter().for_each(|entry| folded.fold(entry).unwrap());
    twin.redis.begin_rebuild(2).await.unwrap();
    let now = Some(twin.now);
    twin.redis.finish_rebuild(folded, 2, now).await.unwrap();
    twin.model.apply(&Op::Rebuilt { generation: 2 }, twin.now);
    twin.compare().await;
    twin.on(&["ma"]).await;
    assert!(twin.who("g", "c3").await.is_some());
    assert_eq!(twin.who("g", "c4").await, None);
    twin.now = end;
    assert_eq!(twin.sweep().await.len(), 1);
    twin.compare().await;
}
