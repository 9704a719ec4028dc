//! Whole or closed.

use std::time::Duration;

use allocation::model::Corp;
use allocation::{CorpId, Decision, LogEntry, Op, PresenceChange, Strategy};
use roster::{Error, LogReader, Roster};

use crate::support::*;

const FAIR: Strategy = Strategy::WeightedRoundRobin;

async fn busy_twin() -> Twin {
    let mut twin = Twin::new().await;
    twin.pool("g", 1, FAIR, &[("ma", "1"), ("mb", "2")]).await;
    twin.pool("l", 1, Strategy::LeastLoad, &[("mb", "1"), ("mc", "1")])
        .await;
    for name in ["ma", "mb", "mc"] {
        twin.cap(name, 3).await;
    }
    twin.on(&["ma", "mb", "mc"]).await;
    for i in 0..12 {
        let pool_name = if i % 3 == 0 { "l" } else { "g" };
        let mut asked = request(pool_name, &format!("c{i}"));
        asked.request = Some(allocation::RequestId::new(format!("r{i}")).unwrap());
        twin.apply(Op::Decide(vec![asked])).await;
    }
    twin
}

/// The ledger of these tests: all entries so far, folded.
async fn fold(redis: &Redis) -> Corp {
    let mut corp = Corp::new();
    for entry in redis.log_read(0, 10_000).await.unwrap() {
        corp.fold(&entry).unwrap();
    }
    corp
}

fn not_ready<T: std::fmt::Debug>(answer: Result<T, Error>) -> bool {
    matches!(answer, Err(Error::NotReady))
}

fn stale<T: std::fmt::Debug>(answer: Result<T, Error>) -> bool {
    matches!(answer, Err(Error::Stale))
}

#[tokio::test]
async fn a_corp_that_nobody_opened_is_closed() {
    let corp = CorpId::new(test_redis::corp()).unwrap();
    let redis = Roster::new(test_redis::shared().connection_manager().await).corp(&corp);
    assert!(not_ready(
        redis.decide(vec![request("g", "c1")], "", None).await
    ));
    assert!(not_ready(
        redis
            .decide(vec![request("g", "c1"), request("g", "c2")], "", None)
            .await
    ));
    assert!(not_ready(redis.decide(Vec::new(), "", None).await));
    assert!(not_ready(redis.note("", None).await));
    assert!(not_ready(redis.close(vec![closing("c1")], "", None).await));
    assert_eq!(redis.status().await.unwrap().generation, None);
    assert!(!redis.close_unless(1, 0).await.unwrap());
    assert_eq!(redis.dump().await.unwrap().keys.len(), 0);
}

/// Case 84: wiped, folded, written, open; everybody is off until the next heartbeat, nobody is lost or doubled.
#[tokio::test]
async fn a_wiped_corp_is_rebuilt_from_its_log() {
    let mut twin = busy_twin().await;
    let ledger = fold(&twin.redis).await;
    assert_same(&ledger.dump(), &twin.model.dump());
    let waiting = ["g", "l"].map(|name| twin.model.waiting(&pool(name)));
    assert_eq!(waiting[0], ["c10", "c11"].map(subject));
    assert_eq!(waiting[1], ["c9"].map(subject));

    twin.redis.begin_rebuild(2).await.unwrap();
    assert!(not_ready(
        twin.redis
            .decide(vec![request("g", "late")], "", None)
            .await
    ));
    assert_eq!(twin.redis.status().await.unwrap().rebuilding, Some(2));
    let seq = twin
        .redis
        .finish_rebuild(ledger, 2, Some(twin.now))
        .await
        .unwrap();
    twin.model.apply(&Op::Rebuilt { generation: 2 }, twin.now);
    assert_eq!(seq, twin.model.seq());
    twin.compare().await;
    let status = twin.redis.status().await.unwrap();
    assert_eq!(
        (status.generation, status.rebuilding, status.seq),
        (Some(2), None, seq)
    );

    // The log goes on where the ledger's ends.
    let log = twin.redis.log_read(0, 10).await.unwrap();
    assert_eq!(log.len(), 1);
    assert_eq!(
        (log[0].seq, &log[0].op),
        (seq, &Op::Rebuilt { generation: 2 })
    );
    assert!(
        twin.model
            .members()
            .all(|view| view.lease_until_ms == 0 && !view.eligible)
    );
    assert_eq!(
        ["g", "l"].map(|name| twin.model.waiting(&pool(name))),
        waiting
    );
    assert_eq!(twin.who("g", "c100").await, None);
    assert!(matches!(
        twin.ask("g", "c1").await,
        Decision::Already { .. }
    ));

    let freed = twin.close("c1").await;
    assert_eq!(freed.woken, []);
    let woken = twin.on(&["ma", "mb", "mc"]).await;
    // One place was free, mb's; he serves both pools, and of all who waited there c9 came first.
    let woken: Vec<_> = woken
        .into_iter()
        .map(|woken| (woken.pool, woken.subject, woken.member))
        .collect();
    assert_eq!(woken, [(pool("l"), subject("c9"), member("mb"))]);
    assert_eq!(twin.model.waiting(&pool("l")), []);
    assert_eq!(
        twin.model.waiting(&pool("g")),
        ["c10", "c11", "c100"].map(subject)
    );
    twin.compare().await;
}

/// Of two rebuilders the older is refused at every step.
#[tokio::test]
async fn an_older_rebuilder_is_refused() {
    let twin = busy_twin().await;
    let (redis, dump, seq) = (&twin.redis, twin.model.dump(), twin.model.seq());
    redis.begin_rebuild(2).await.unwrap();
    redis.begin_rebuild(3).await.unwrap();
    assert!(stale(redis.begin_rebuild(2).await));
    assert!(stale(redis.restore(&dump, 2).await));
    assert!(stale(redis.open(2, seq).await));
    redis.restore(&dump, 3).await.unwrap();
    assert!(stale(redis.restore(&dump, 2).await));
    assert!(not_ready(redis.open(3, seq + 1).await));
    redis.open(3, seq).await.unwrap();
    assert!(stale(redis.open(3, seq).await));
    assert!(stale(redis.begin_rebuild(2).await));
    assert!(stale(redis.restore(&dump, 3).await));
    assert_same(&redis.dump().await.unwrap(), &dump);
    // The same generation may begin again: a rebuilder that died half-way does.
    redis.begin_rebuild(3).await.unwrap();
    redis.restore(&dump, 3).await.unwrap();
    redis.restore(&dump, 3).await.unwrap();
    redis.open(3, seq).await.unwrap();
}

#[tokio::test]
async fn a_state_that_is_behind_the_ledger_closes() {
    let twin = busy_twin().await;
    let seq = twin.model.seq();
    assert!(twin.redis.close_unless(1, seq).await.unwrap());
    assert!(twin.redis.close_unless(1, seq - 3).await.unwrap());
    // A caller with an old row is told so, and closes nothing.
    assert!(!twin.redis.close_unless(0, seq).await.unwrap());
    assert!(twin.redis.close_unless(1, seq).await.unwrap());
    assert!(!twin.redis.close_unless(1, seq + 1).await.unwrap());
    assert!(not_ready(
        twin.redis
            .decide(vec![request("g", "late")], "", None)
            .await
    ));
    assert_eq!(twin.redis.status().await.unwrap().seq, seq);
}

/// Whoever finds that a state is not the ledger's closes that one, and no newer one.
#[tokio::test]
async fn a_generation_is_closed_and_no_newer_one() {
    let mut twin = busy_twin().await;
    twin.redis.close_generation(0).await.unwrap();
    twin.ask("g", "next").await;
    twin.redis.close_generation(1).await.unwrap();
    let late = vec![request("g", "late")];
    assert!(not_ready(twin.redis.decide(late, "", None).await));
    assert_eq!(twin.redis.status().await.unwrap().seq, twin.model.seq());
    let ledger = fold(&twin.redis).await;
    twin.redis.begin_rebuild(2).await.unwrap();
    twin.redis.close_generation(2).await.unwrap();
    twin.redis
        .finish_rebuild(ledger, 2, Some(twin.now))
        .await
        .unwrap();
    twin.redis.close_generation(1).await.unwrap();
    assert_eq!(twin.redis.status().await.unwrap().generation, Some(2));
    // One that is older than the caller's is of no use either.
    twin.redis.close_generation(3).await.unwrap();
    assert_eq!(twin.redis.status().await.unwrap().generation, None);
}

/// A value that is missing is never read as zero: the corp closes, whichever way the request takes.
#[tokio::test]
async fn a_state_with_a_hole_closes() {
    let mut connection = test_redis::shared().connection().await;
    for (i, hole) in ["member:ma", "class:a:g", "corp", "least:l"]
        .into_iter()
        .enumerate()
    {
        for many in [false, true] {
            let (corp, redis) = open_corp().await;
            for (name, strategy) in [("g", FAIR), ("l", Strategy::LeastLoad)] {
                redis
                    .set_pool(config(name, 1, strategy, &[("ma", "1")]), "", Some(T0))
                    .await
                    .unwrap();
            }
            let here = PresenceChange {
                member: member("ma"),
                lease_until_ms: T0 * 2,
            };
            redis.presence(vec![here], "", Some(T0)).await.unwrap();
            let deleted: u32 = redis::cmd("DEL")
                .arg(format!("{{{corp}}}:v1:{hole}"))
                .query_async(&mut connection)
                .await
                .unwrap();
            assert_eq!(deleted, 1, "{hole}");
            let pool_name = if i == 3 { "l" } else { "g" };
            let mut asked = vec![request(pool_name, "c1")];
            if many {
                asked.push(request(pool_name, "c2"));
            }
            let seq = redis.status().await.unwrap().seq;
            assert!(
                not_ready(redis.decide(asked.clone(), "", None).await),
                "{hole}"
            );
            assert_eq!(redis.status().await.unwrap().generation, None, "{hole}");
            assert!(not_ready(redis.decide(asked, "", None).await), "{hole}");
            assert_eq!(redis.log_read(seq.max(4), 10).await.unwrap(), []);
        }
    }
}

/// A log that is ahead of the state (the state is from an older copy) must not get a second entry of one number.
#[tokio::test]
async fn what_cannot_be_logged_closes() {
    for many in [false, true] {
        let mut twin = busy_twin().await;
        let before = twin.model.clone();
        twin.close("c1").await;
        twin.close("c2").await;
        // A copy from before, beside the newer log.
        let log = twin.redis.log_read(0, 1000).await.unwrap();
        twin.redis.begin_rebuild(2).await.unwrap();
        twin.redis.restore(&before.dump(), 2).await.unwrap();
        twin.redis.open(2, before.seq()).await.unwrap();
        let mut connection = test_redis::shared().connection().await;
        let key = twin.log_key();
        for entry in log.iter().filter(|entry| entry.seq > before.seq()) {
            let (op, args, result) = entry.parts();
            let id = format!("{}-0", entry.seq);
            let fields = ["o", op, "t", "1", "a", &args, "r", &result];
            redis::cmd("XADD")
                .arg(&key)
                .arg(id)
                .arg(&fields)
                .query_async::<()>(&mut connection)
                .await
                .unwrap();
        }
        let asked = (0..if many { 2 } else { 1 })
            .map(|i| request("g", &format!("new{i}")))
            .collect();
        assert!(not_ready(twin.redis.decide(asked, "", None).await));
        assert_eq!(twin.redis.status().await.unwrap().generation, None);
    }
}

#[tokio::test]
async fn keys_of_others_survive_a_rebuild() {
    let twin = busy_twin().await;
    let mut connection = test_redis::shared().connection().await;
    let inbox = twin.log_key().replace(":log", ":inbox");
    redis::cmd("SET")
        .arg(&inbox)
        .arg("theirs")
        .query_async::<()>(&mut connection)
        .await
        .unwrap();
    twin.redis.begin_rebuild(2).await.unwrap();
    twin.redis
        .finish_rebuild(Corp::new(), 2, None)
        .await
        .unwrap();
    let kept: String = redis::cmd("GET")
        .arg(&inbox)
        .query_async(&mut connection)
        .await
        .unwrap();
    assert_eq!(kept, "theirs");
    let names: Vec<String> = twin.redis.dump().await.unwrap().keys.into_keys().collect();
    assert_eq!(names, ["corp"]);
}

/// A state that was made of rows has the loads, the open allocations and the order of those who wait, and Lua and model
/// go on from it alike.
#[tokio::test]
async fn a_state_made_of_rows_goes_on() {
    let twin = busy_twin().await;
    let (seq, at_ms) = (twin.model.seq(), twin.model.at_ms());
    let members = twin
        .model
        .members()
        .map(|view| allocation::SetMember::capped(view.member, view.cap, view.blocked));
    let pools = vec![
        config("g", 1, FAIR, &[("ma", "1"), ("mb", "2")]),
        config("l", 1, Strategy::LeastLoad, &[("mb", "1"), ("mc", "1")]),
    ];
    // As the ledger has them: in the order of the decisions.
    let mut open: Vec<_> = twin.model.allocations().collect();
    open.sort_by_key(|view| (0..12).find(|i| subject(&format!("c{i}")) == view.subject));
    let made = Corp::from_rows(seq, at_ms, members.collect(), pools, open);
    assert_eq!(made.problems(), Vec::<String>::new());
    assert_eq!((made.seq(), made.at_ms()), (seq, at_ms));
    assert!(made.allocations().eq(twin.model.allocations()));
    let off = |mut view: allocation::model::MemberView| {
        (view.lease_until_ms, view.eligible) = (0, false);
        view
    };
    assert!(made.members().eq(twin.model.members().map(off)));
    for name in ["g", "l"] {
        assert_eq!(made.waiting(&pool(name)), twin.model.waiting(&pool(name)));
    }
    assert_same(&Corp::from_dump(&made.dump()).unwrap().dump(), &made.dump());

    twin.redis.begin_rebuild(2).await.unwrap();
    let now = twin.now;
    twin.redis
        .finish_rebuild(made.clone(), 2, Some(now))
        .await
        .unwrap();
    let mut twin = Twin {
        model: made,
        ..twin
    };
    twin.model.apply(&Op::Rebuilt { generation: 2 }, now);
    twin.compare().await;
    twin.on(&["ma", "mb", "mc"]).await;
    let Decision::Already { .. } = twin.ask("g", "c1").await else {
        panic!("c1 has somebody");
    };
    for i in 0..12 {
        twin.close(&format!("c{i}")).await;
        twin.ask("g", &format!("d{i}")).await;
        twin.compare().await;
    }
}

/// Large sorted sets and many keys go through in several calls.
#[tokio::test]
async fn a_large_state_is_restored_byte_for_byte() {
    let mut model = Corp::new();
    let members = (0..5000).map(|i| {
        (
            member(&format!("m{i}")),
            weight(["1", "2.5", "0.001"][i % 3]),
        )
    });
    let config = allocation::PoolConfig::new(pool("g"), 1, FAIR, members).unwrap();
    model.apply(&Op::SetPool(config), T0);
    for part in 0..20 {
        let here = (part * 250..part * 250 + 250).map(|i| PresenceChange {
            member: member(&format!("m{i}")),
            lease_until_ms: T0 * 2,
        });
        model.apply(&Op::Presence(here.collect()), T0);
    }
    for part in 0..20 {
        let asked = (0..250)
            .map(|i| request("g", &format!("c{part}-{i}")))
            .collect();
        model.apply(&Op::Decide(asked), T0);
    }
    let (corp, redis) = open_corp().await;
    redis.begin_rebuild(2).await.unwrap();
    let began = std::time::Instant::now();
    redis.restore(&model.dump(), 2).await.unwrap();
    eprintln!(
        "{} keys restored in {:?}",
        model.dump().keys.len(),
        began.elapsed()
    );
    assert_same(&redis.dump().await.unwrap(), &model.dump());
    redis.open(2, model.seq()).await.unwrap();
    let mut twin = Twin {
        corp,
        redis,
        model,
        now: T0,
    };
    twin.ask("g", "next").await;
    twin.compare().await;
}

#[tokio::test]
async fn the_log_is_read_waited_for_and_trimmed() {
    let server = test_redis::shared();
    let (corp, redis) = open_corp().await;
    let mut reader = LogReader::new(server.connection().await, &corp);
    let nothing = reader
        .log_wait(1, 10, Duration::from_millis(5))
        .await
        .unwrap();
    assert_eq!(nothing, []);
    let waiting =
        tokio::spawn(async move { reader.log_wait(1, 10, Duration::from_secs(20)).await });
    redis.note(r#"{"d":"x"}"#, Some(T0 + 5)).await.unwrap();
    let entries: Vec<LogEntry> = waiting.await.unwrap().unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!((entries[0].seq, entries[0].at_ms), (2, T0 + 5));
    assert_eq!(entries[0].payload.as_deref(), Some(r#"{"d":"x"}"#));
    for _ in 0..10 {
        redis.note("", None).await.unwrap();
    }
    redis.log_trim(8).await.unwrap();
    let seqs: Vec<u64> = redis
        .log_read(0, 100)
        .await
        .unwrap()
        .iter()
        .map(|entry| entry.seq)
        .collect();
    assert_eq!(seqs, [8, 9, 10, 11, 12]);
    assert_eq!(redis.log_read(12, 100).await.unwrap(), []);
    assert_eq!(redis.log_read(9, 2).await.unwrap().len(), 2);
}

/// The plain way of `decide` found what cannot be after it had decided for others: closed, as in the general way.
#[tokio::test]
async fn numbers_that_cannot_be_close_the_corp() {
    let five = |numbers: [f64; 5]| numbers.map(f64::to_le_bytes).concat();
    for (key, bytes) in [
        ("pool:h", five([0.0, 0.0, 1000.0, 0.0, 1.0])), // somebody can be picked, from no class
        ("pool:h", vec![0; 8]),
        ("corp", vec![0; 8]),
    ] {
        let mut twin = Twin::new().await;
        for name in ["g", "h"] {
            twin.pool(name, 1, FAIR, &[("ma", "1")]).await;
        }
        twin.on(&["ma"]).await;
        let mut connection = test_redis::shared().connection().await;
        redis::cmd("SET")
            .arg(format!("{{{}}}:v1:{key}", twin.corp))
            .arg(&bytes)
            .query_async::<()>(&mut connection)
            .await
            .unwrap();
        let asked = vec![request("g", "c1"), request("h", "c2")];
        assert!(not_ready(
            twin.redis.decide(asked, "", Some(twin.now)).await
        ));
        let status = twin.redis.status().await.unwrap();
        assert_eq!(status.generation, None, "{key}");
    }
}
