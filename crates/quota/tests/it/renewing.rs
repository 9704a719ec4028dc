//! The permit in real time: its place is kept while the call lasts, and no renewal comes after the giving back.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use quota::budget_renew::{Answered, BudgetRenew};
use quota::{BudgetKeys, Limits, Outcome, Permit, Quota, Reason, Take, Urgency};
use redis::aio::ConnectionLike;
use redis::{AsyncCommands, Cmd, Pipeline, RedisFuture, Value};
use test_redis::Proxy;
use tokio::sync::watch;

use crate::support::{Conn, Corp, T0, passes, taken, waits};

const LEASE: Duration = Duration::from_millis(1_200);

/// One place.
fn limits() -> Limits {
    Limits {
        in_flight: 1,
        lease_ms: u64::try_from(LEASE.as_millis()).unwrap(),
        ..Limits::default()
    }
}

async fn take<C: quota::Connection>(quota: &Quota<C>, corp: &Corp) -> Take<C> {
    let take = quota.take(&corp.id, "api", Urgency::Urgent, None);
    take.await.unwrap()
}

/// Whoever has a place, live or not.
async fn flight(corp: &Corp) -> Vec<(String, i64)> {
    let flight = BudgetKeys::corp(&corp.id, "api").flight;
    corp.conn().zrange_withscores(flight, 0, -1).await.unwrap()
}

/// Waits until `condition` holds; a test that would hang fails instead.
async fn until(limit: Duration, what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < limit, "{what}: not within {limit:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_call_that_outlasts_its_lease_keeps_its_place() {
    let corp = Corp::new(limits()).await;
    let (start, permit) = (Instant::now(), taken(take(&corp.quota, &corp).await));
    while start.elapsed() < LEASE * 5 / 2 {
        assert_eq!(waits(take(&corp.quota, &corp).await).0, Reason::InFlight);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    permit.done(Outcome::Ok, None).await.unwrap();
    passes(take(&corp.quota, &corp).await);
}

/// As when its task is aborted; a process that dies renews nothing either.
#[tokio::test]
async fn a_dropped_permit_gives_its_place_back_within_one_lease() {
    let corp = Corp::new(limits()).await;
    let permit = taken(take(&corp.quota, &corp).await);
    let first = flight(&corp).await;
    until(LEASE, "a renewal", async || flight(&corp).await != first).await;
    let dropped = Instant::now();
    drop(permit);
    assert_eq!(waits(take(&corp.quota, &corp).await).0, Reason::InFlight);
    until(LEASE * 2, "the place is free", async || {
        matches!(take(&corp.quota, &corp).await, Take::Taken(_))
    })
    .await;
    assert!(
        dropped.elapsed() <= LEASE + Duration::from_millis(200),
        "{:?}",
        dropped.elapsed()
    );
}

/// A call that hangs by a mistake of ours does not hold a place for ever.
#[tokio::test]
async fn the_longest_call_ends_the_renewals() {
    let longest = LEASE * 2;
    let corp = Corp::new(Limits {
        longest_ms: u64::try_from(longest.as_millis()).unwrap(),
        ..limits()
    })
    .await;
    let (start, hanging) = (Instant::now(), taken(take(&corp.quota, &corp).await));
    until(longest + LEASE * 2, "the place is free", async || {
        matches!(take(&corp.quota, &corp).await, Take::Taken(_))
    })
    .await;
    assert!(start.elapsed() > longest, "{:?}", start.elapsed());
    // Its end is still heard, and takes nobody else's place.
    hanging.done(Outcome::Ok, None).await.unwrap();
    assert_eq!(flight(&corp).await.len(), 1);
}

/// Redis is away for longer than the lease, the place goes to somebody else: the call is counted again all the same.
#[tokio::test]
async fn a_place_that_was_lost_in_an_outage_is_taken_again() {
    let corp = Corp::new(limits()).await;
    let proxy = Proxy::to(test_redis::shared().addr());
    let client = redis::Client::open(proxy.redis_url()).unwrap();
    let config = redis::aio::ConnectionManagerConfig::new()
        .set_response_timeout(Some(Duration::from_secs(5)))
        .set_max_delay(Duration::from_millis(50));
    let conn = client
        .get_connection_manager_with_config(config)
        .await
        .unwrap();
    let permit = taken(take(&Quota::new(conn, limits()), &corp).await);
    proxy.cut();
    until(LEASE * 2, "the lease ends", async || {
        matches!(take(&corp.quota, &corp).await, Take::Taken(_))
    })
    .await;
    assert_eq!(flight(&corp).await.len(), 1);
    proxy.restore();
    until(LEASE, "both are counted", async || {
        flight(&corp).await.len() == 2
    })
    .await;
    permit.done(Outcome::Ok, None).await.unwrap();
    assert_eq!(flight(&corp).await.len(), 1);
}

/// A caller who says the time has a clock of his own: Redis' time would be nonsense among his.
#[tokio::test]
async fn nothing_is_renewed_behind_a_caller_who_says_the_time() {
    let corp = Corp::new(Limits {
        lease_ms: 100,
        ..limits()
    })
    .await;
    let permit = taken(corp.take("api", T0).await);
    let (start, first) = (Instant::now(), flight(&corp).await);
    while start.elapsed() < Duration::from_millis(150) {
        assert_eq!(flight(&corp).await, first);
    }
    permit.done(Outcome::Ok, Some(T0)).await.unwrap();
}

/// What becomes of renewals on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The sender hears of a lost connection.
    Error,
    /// The sender hears nothing.
    Silence,
}

/// A connection on which renewals do not arrive before the test says so.
#[derive(Clone)]
struct Late {
    conn: Conn,
    way: watch::Receiver<Option<Way>>,
    held: Arc<Mutex<Vec<Cmd>>>,
    /// What passed, by the number of keys: 1 is a renewal, 3 a giving back.
    passed: Arc<Mutex<Vec<String>>>,
}

impl Late {
    fn n_held(&self) -> usize {
        self.held.lock().unwrap().len()
    }
}

fn argument(cmd: &Cmd, index: usize) -> String {
    match cmd.args_iter().nth(index) {
        Some(redis::Arg::Simple(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    }
}

impl ConnectionLike for Late {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        async move {
            let keys = argument(cmd, 2);
            if keys == "1" {
                let way = *self.way.borrow();
                if way.is_some() {
                    self.held.lock().unwrap().push(cmd.clone());
                }
                match way {
                    Some(Way::Error) => {
                        return Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into());
                    }
                    Some(Way::Silence) => {
                        self.way.wait_for(Option::is_none).await.unwrap();
                    }
                    None => {}
                }
            }
            let answer = self.conn.req_packed_command(cmd).await;
            if argument(cmd, 0) == "EVALSHA" && matches!(answer, Ok(Value::Array(_))) {
                self.passed.lock().unwrap().push(keys);
            }
            answer
        }
        .boxed()
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.conn.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.conn.get_db()
    }
}

/// A call with a renewal under way.
async fn with_a_renewal_under_way(
    way: Way,
    limits: Limits,
) -> (Corp, Late, watch::Sender<Option<Way>>, Permit<Late>) {
    let corp = Corp::new(limits.clone()).await;
    // The script is known to Redis from here on.
    let keys = BudgetKeys::corp(&corp.id, "api");
    let (answered, _) = BudgetRenew::default()
        .call(&mut corp.conn(), &keys, "none", 1, 0, None)
        .await
        .unwrap();
    assert_eq!(answered, Answered::Late);
    let (switch, way) = watch::channel(Some(way));
    let late = Late {
        conn: corp.conn(),
        way,
        held: Arc::default(),
        passed: Arc::default(),
    };
    let Take::Taken(permit) = take(&Quota::new(late.clone(), limits), &corp).await else {
        panic!("nothing is used yet")
    };
    until(Duration::from_secs(5), "a renewal", async || {
        late.n_held() > 0
    })
    .await;
    (corp, late, switch, permit)
}

/// Whenever a renewal arrives that the sender has given up on, the place stays free.
#[tokio::test]
async fn a_renewal_that_arrives_after_the_giving_back_revives_nothing() {
    for way in [Way::Error, Way::Silence] {
        let (corp, late, _switch, permit) = with_a_renewal_under_way(way, limits()).await;
        permit.done(Outcome::Ok, None).await.unwrap();
        assert_eq!(flight(&corp).await, []);
        let held = late.held.lock().unwrap().clone();
        for cmd in held {
            let answer: (String, i64) = cmd.query_async(&mut corp.conn()).await.unwrap();
            assert_eq!(answer.0, "LATE", "{way:?}");
        }
        assert_eq!(flight(&corp).await, [], "{way:?}");
        passes(take(&corp.quota, &corp).await);
    }
}

#[tokio::test]
async fn the_giving_back_waits_for_the_renewal_that_is_under_way() {
    let slow = Limits {
        lease_ms: 6_000,
        ..limits()
    };
    let (corp, late, switch, permit) = with_a_renewal_under_way(Way::Silence, slow).await;
    let mut done = Box::pin(permit.done(Outcome::Ok, None));
    assert!(futures_util::poll!(&mut done).is_pending());
    switch.send_replace(None);
    done.await.unwrap();
    let passed = late.passed.lock().unwrap().clone();
    assert_eq!(passed, ["4", "1", "3"], "taken, renewed, given");
    assert_eq!(flight(&corp).await, []);
}
