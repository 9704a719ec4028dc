//! Lanes of the outbox when places are scarce, when WeCom is not to be called, and when their process dies.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use allocation::CorpId;
use allocator::{app::Redis, clock::Clock, outbox};
use quota::{Permit, Take, Urgency};
use sqlx::Row as _;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use wecom::client::{Clock as _, SystemClock, api};
use wecom_sim::{
    Act, AppConfig, CallbackConfig, Config, CorpConfig, Fault, MemberConfig, ScanRequest, Sim,
    SimHandle,
};

use crate::api_support::{Options, World};

const AGENT: u32 = 1_000_002;
/// `outbox.workers`
const WORKERS: i64 = 8;

/// The system's clock, set forward by a test.
#[derive(Default)]
pub(crate) struct Forward(pub(crate) AtomicU64);

impl wecom::client::Clock for Forward {
    fn now_ms(&self) -> u64 {
        SystemClock.now_ms() + self.0.load(Ordering::Relaxed)
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        SystemClock.sleep(duration)
    }
}

struct Stage {
    world: World,
    sim: SimHandle,
    clock: Arc<Forward>,
}

/// What the rows of the corp look like.
#[derive(Debug)]
struct Rows {
    running: i64,
    begun: i64,
    done: i64,
    late: i64,
    claims: i64,
    most_claims: i64,
}

impl Stage {
    async fn new(n_members: usize) -> Self {
        let corp = CorpId::new(test_redis::corp()).unwrap();
        let config = Config {
            corps: vec![CorpConfig {
                id: corp.to_string(),
                apps: vec![AppConfig {
                    agent_id: AGENT,
                    secret: "caseSecret".into(),
                    // Codes are for who hears of customers; nobody listens there.
                    callback: Some(CallbackConfig {
                        urls: vec!["http://127.0.0.1:9/".to_owned()],
                        token: "caseTok3n7Qx".into(),
                        aes_key: "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8".into(),
                        ..CallbackConfig::default()
                    }),
                    ..AppConfig::default()
                }],
                members: (0..n_members)
                    .map(|n| MemberConfig::new(format!("m{n}")))
                    .collect(),
                ..CorpConfig::default()
            }],
            ..Config::parse("[clock]\nmode = \"real\"\n").unwrap()
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let sim = Sim::start(config, listener).await.unwrap();
        let options = Options {
            wecom: Some((corp, sim.base_url())),
            ..Options::default()
        };
        Self {
            world: World::with(1, options).await,
            sim,
            clock: Arc::default(),
        }
    }

    /// One more process that runs nothing but the outbox. Aborting it is its death: nothing of it goes on.
    async fn process(&self) -> JoinHandle<()> {
        let clock: Clock = Arc::clone(&self.clock) as Clock;
        let app = self.world.process(clock).await;
        let corp = Arc::clone(&app.corps[&self.world.corp]);
        tokio::spawn(outbox::run(app, corp, CancellationToken::new()))
    }

    /// Customers come, each with a code that lives 20 s: a row for each.
    async fn welcomes(&self, count: usize) {
        let payloads = (0..count)
            .map(|_| {
                let scanned = self.sim.scan(&ScanRequest::member("m0", "s")).unwrap();
                let code = &scanned.scans[0].welcome_codes[&AGENT];
                serde_json::json!({"kind": "welcome", "welcome_code": code, "text": "Hello", "attachments": []})
            })
            .collect();
        self.insert("welcome", payloads, 20).await;
    }

    /// A card for each member.
    async fn cards(&self, count: usize) {
        let payloads = (0..count)
            .map(|n| serde_json::json!({"kind": "member_card", "member": format!("m{n}"), "channel": null}))
            .collect();
        self.insert("member_card", payloads, 3_600).await;
    }

    async fn insert(&self, kind: &str, payloads: Vec<serde_json::Value>, seconds: i32) {
        let insert = "INSERT INTO outbox (id, corp_id, kind, effect_key, payload, priority, due_at, deadline_at, created_at)
            SELECT gen_random_uuid(), $1, $2, n::text, payload, 0, now(), now() + make_interval(secs => $4), now()
            FROM unnest($3::jsonb[]) WITH ORDINALITY AS p (payload, n)";
        sqlx::query(insert)
            .bind(self.world.corp.as_str())
            .bind(kind)
            .bind(payloads)
            .bind(f64::from(seconds))
            .execute(&mut self.world.database.connect().await)
            .await
            .unwrap();
    }

    async fn rows(&self) -> Rows {
        let select = "SELECT count(*) FILTER (WHERE state = 'running') AS running,
                count(*) FILTER (WHERE state = 'running' AND sent_at IS NOT NULL) AS begun,
                count(*) FILTER (WHERE state = 'done') AS done,
                count(*) FILTER (WHERE state = 'failed' AND last_error = 'deadline') AS late,
                coalesce(sum(attempts), 0)::bigint AS claims, coalesce(max(attempts), 0)::bigint AS most_claims
            FROM outbox";
        let row = sqlx::query(select)
            .fetch_one(&mut self.world.database.connect().await)
            .await
            .unwrap();
        Rows {
            running: row.get("running"),
            begun: row.get("begun"),
            done: row.get("done"),
            late: row.get("late"),
            claims: row.get("claims"),
            most_claims: row.get("most_claims"),
        }
    }

    async fn until(&self, what: &str, holds: impl Fn(&Rows) -> bool) -> Rows {
        let limit = tokio::time::Instant::now() + Duration::from_secs(60);
        loop {
            let rows = self.rows().await;
            if holds(&rows) {
                return rows;
            }
            assert!(
                tokio::time::Instant::now() < limit,
                "waited in vain: {what}: {rows:?}"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// All places in flight of an API.
    async fn all_places(&self, api: &str) -> Vec<Permit<Redis>> {
        let mut permits = Vec::new();
        let (quota, corp) = (&self.world.app().quota, self.world.corp.as_str());
        while let Take::Taken(permit) = quota.take(corp, api, Urgency::Urgent, None).await.unwrap()
        {
            permits.push(permit);
        }
        permits
    }

    async fn block(&self, api: &str, ms: u64) {
        let until_ms = i64::try_from(SystemClock.now_ms() + ms).unwrap();
        let quota = &self.world.app().quota;
        quota
            .block(self.world.corp.as_str(), api, until_ms, None)
            .await
            .unwrap();
    }

    fn forward(&self, ms: u64) {
        self.clock.0.fetch_add(ms, Ordering::Relaxed);
    }

    fn greeted(&self) -> u64 {
        let counters = self.sim.counters();
        let corp = counters.corps.get(self.world.corp.as_str());
        corp.map_or(0, |corp| corp.welcomes_delivered)
    }

    fn calls(&self, api: &str) -> u64 {
        let counters = self.sim.counters();
        let corp = counters.corps.get(self.world.corp.as_str());
        corp.and_then(|corp| corp.apis.get(api))
            .map_or(0, |one| one.calls)
    }
}

async fn give_back(permits: Vec<Permit<Redis>>) {
    for permit in permits {
        permit.done(quota::Outcome::Unused, None).await.unwrap();
    }
}

async fn dies(process: JoinHandle<()>) {
    process.abort();
    assert!(process.await.unwrap_err().is_cancelled());
}

/// Rows that a dead process had claimed and not begun are few, and another sends them long before their deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_claimed_and_not_begun_is_soon_sent_by_another() {
    let stage = Stage::new(1).await;
    let places = stage.all_places(api::SEND_WELCOME_MSG).await;
    assert_eq!(places.len(), 5);
    stage.welcomes(40).await;
    let first = stage.process().await;
    stage.until("claimed", |rows| rows.running > 0).await;
    dies(first).await;
    let died = tokio::time::Instant::now();
    let rows = stage.rows().await;
    assert_eq!((rows.running, rows.begun), (WORKERS, 0));
    give_back(places).await;
    let _second = stage.process().await;
    stage.until("all are greeted", |rows| rows.done == 40).await;
    let took = died.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(stage.greeted(), 40);
}

/// However long rows wait for a place, that is no write for each of them and each look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_a_place_writes_little() {
    let stage = Stage::new(1).await;
    let places = stage.all_places(api::SEND_WELCOME_MSG).await;
    stage.welcomes(40).await;
    let _process = stage.process().await;
    // It asked in vain for a whole claim, and gave back what it held.
    let rows = stage
        .until("claimed again", |rows| rows.most_claims > 1)
        .await;
    assert!(rows.claims <= 2 * WORKERS, "{rows:?}");
    assert_eq!((rows.begun, stage.calls(api::SEND_WELCOME_MSG)), (0, 0));
    give_back(places).await;
    let rows = stage.until("all are greeted", |rows| rows.done == 40).await;
    assert_eq!(stage.greeted(), 40);
    assert!(rows.claims <= 40 + 3 * WORKERS, "{rows:?}");
}

/// Case 48: whether the dead process' call had its effect nobody knows, so it is not repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_welcome_that_was_begun_is_never_sent_again() {
    let stage = Stage::new(1).await;
    let held = Fault::new(api::SEND_WELCOME_MSG, Act::Hold).after();
    let held = stage.sim.add_fault(held).unwrap();
    stage.welcomes(1).await;
    let first = stage.process().await;
    stage
        .until("on its way", |rows| rows.begun == 1 && stage.greeted() == 1)
        .await;
    dies(first).await;
    stage.sim.remove_fault(&held);
    let _second = stage.process().await;
    stage.forward(16_000);
    stage
        .until("at an end", |rows| rows.running == 0 && rows.claims == 2)
        .await;
    let (state, tries, error): (String, i32, String) =
        sqlx::query_as("SELECT state, tries, last_error FROM outbox")
            .fetch_one(&mut stage.world.database.connect().await)
            .await
            .unwrap();
    assert_eq!((state.as_str(), tries), ("failed", 1));
    assert!(error.starts_with("unknown whether it was sent"), "{error}");
    assert_eq!(
        (stage.greeted(), stage.calls(api::SEND_WELCOME_MSG)),
        (1, 1)
    );
}

/// Case 53: while an API is blocked its lane rests, and who is past his deadline is told so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_rests_while_its_api_is_blocked() {
    let stage = Stage::new(1).await;
    stage.block(api::SEND_WELCOME_MSG, 60_000).await;
    stage.welcomes(40).await;
    let _process = stage.process().await;
    stage
        .until("it asked", |rows| rows.claims > 0 && rows.running == 0)
        .await;
    stage.forward(21_000);
    let rows = stage
        .until("all are too late", |rows| rows.late == 40)
        .await;
    assert!(rows.claims <= 2 * WORKERS, "{rows:?}");
    assert_eq!(stage.calls(api::SEND_WELCOME_MSG), 0);
}

/// When the block ends, so does the rest, and nobody is called before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_goes_on_when_the_block_ends() {
    let stage = Stage::new(1).await;
    let end = tokio::time::Instant::now() + Duration::from_secs(2);
    stage.block(api::SEND_WELCOME_MSG, 2_000).await;
    stage.welcomes(20).await;
    let _process = stage.process().await;
    stage.until("one is greeted", |rows| rows.done > 0).await;
    assert!(tokio::time::Instant::now() >= end);
    let rows = stage.until("all are greeted", |rows| rows.done == 20).await;
    assert_eq!(stage.greeted(), 20);
    assert!(rows.claims <= 20 + 2 * WORKERS, "{rows:?}");
}

/// What is claimed in batches goes back in one write, and goes on soon after a person lifted the block.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lifted_block_is_noticed() {
    let stage = Stage::new(40).await;
    stage.block(api::SEND_MESSAGE, 3_600_000).await;
    stage.cards(40).await;
    let _process = stage.process().await;
    let rows = stage
        .until("it asked", |rows| rows.claims > 0 && rows.running == 0)
        .await;
    assert!(rows.claims <= 40 + 2, "{rows:?}");
    assert_eq!(stage.calls(api::SEND_MESSAGE), 0);
    let quota = &stage.world.app().quota;
    let corp = stage.world.corp.as_str();
    quota.unblock(corp, api::SEND_MESSAGE, None).await.unwrap();
    stage.forward(10_000);
    stage.until("all are told", |rows| rows.done == 40).await;
}

/// Case 53: however often the rate forbids a call, that uses up none of its tries: what fails for the first time after
/// that is tried again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_rate_forbids_is_no_try() {
    let stage = Stage::new(1).await;
    // More than `outbox.max_attempts` allows, then one that passes.
    for (code, times) in [(45033, 6), (-1, 1)] {
        let fault = Fault::new(api::SEND_MESSAGE, Act::Errcode(code)).times(times);
        stage.sim.add_fault(fault).unwrap();
    }
    stage.cards(1).await;
    let _process = stage.process().await;
    stage.until("he is told", |rows| rows.done == 1).await;
    let (state, tries): (String, i32) = sqlx::query_as("SELECT state, tries FROM outbox")
        .fetch_one(&mut stage.world.database.connect().await)
        .await
        .unwrap();
    assert_eq!((state.as_str(), tries), ("done", 2));
    assert_eq!(stage.calls(api::SEND_MESSAGE), 8);
}

/// The answer to a digest is lost. It is sent again as it was, whoever came meanwhile, so that WeCom's duplicate check
/// knows it: the member reads of each customer once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_digest_is_sent_again_as_it_was() {
    let stage = Stage::new(1).await;
    let of_one = |count: usize| {
        let payload = serde_json::json!({"kind": "member_card", "member": "m0", "channel": null});
        vec![payload; count]
    };
    let lost = Fault::new(api::SEND_MESSAGE, Act::Drop).after().times(2);
    stage.sim.add_fault(lost).unwrap();
    stage.insert("member_card", of_one(3), 3_600).await;
    let _process = stage.process().await;
    stage
        .until("one answer was lost", |_| {
            stage.calls(api::SEND_MESSAGE) > 0
        })
        .await;
    let more = "UPDATE outbox SET effect_key = 'earlier ' || effect_key";
    sqlx::query(more)
        .execute(&mut stage.world.database.connect().await)
        .await
        .unwrap();
    stage.insert("member_card", of_one(2), 3_600).await;
    stage.until("all are told", |rows| rows.done == 5).await;
    let counters = stage.sim.counters();
    let corp = &counters.corps[stage.world.corp.as_str()];
    let shown = stage.sim.messages().len();
    assert_eq!((shown, corp.messages_duplicate), (2, 2), "{corp:?}");
}
