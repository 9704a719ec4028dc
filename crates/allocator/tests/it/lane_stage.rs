//! One corp with a fake WeCom, and processes that run nothing but the outbox.

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
use wecom::client::{Clock as _, SystemClock};
use wecom_sim::{
    AppConfig, CallbackConfig, Config, CorpConfig, MemberConfig, ScanRequest, Sim, SimHandle,
};

use crate::api_support::{Options, World};

pub(crate) const AGENT: u32 = 1_000_002;
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

pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) sim: SimHandle,
    clock: Arc<Forward>,
}

/// What the rows of the corp look like.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) running: i64,
    pub(crate) begun: i64,
    pub(crate) done: i64,
    pub(crate) ended: i64,
    pub(crate) late: i64,
    pub(crate) claims: i64,
    pub(crate) most_claims: i64,
}

impl Stage {
    pub(crate) async fn new(n_members: usize) -> Self {
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
    pub(crate) async fn process(&self) -> JoinHandle<()> {
        self.process_until(CancellationToken::new()).await
    }

    /// The same, to be stopped in order.
    pub(crate) async fn process_until(&self, stop: CancellationToken) -> JoinHandle<()> {
        let clock: Clock = Arc::clone(&self.clock) as Clock;
        let app = self.world.process(clock).await;
        let corp = Arc::clone(&app.corps[&self.world.corp]);
        tokio::spawn(outbox::run(app, corp, stop))
    }

    /// Customers come, each with a code that lives 20 s: a row for each.
    pub(crate) async fn welcomes(&self, count: usize) {
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
    pub(crate) async fn cards(&self, count: usize) {
        let payloads = (0..count)
            .map(|n| serde_json::json!({"kind": "member_card", "member": format!("m{n}"), "channel": null}))
            .collect();
        self.insert("member_card", payloads, 3_600).await;
    }

    pub(crate) async fn insert(&self, kind: &str, payloads: Vec<serde_json::Value>, seconds: i32) {
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

    pub(crate) async fn rows(&self) -> Rows {
        let select = "SELECT count(*) FILTER (WHERE state = 'running') AS running,
                count(*) FILTER (WHERE state = 'running' AND sent_at IS NOT NULL) AS begun,
                count(*) FILTER (WHERE state = 'done') AS done,
                count(*) FILTER (WHERE settled_at IS NOT NULL) AS ended,
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
            ended: row.get("ended"),
            late: row.get("late"),
            claims: row.get("claims"),
            most_claims: row.get("most_claims"),
        }
    }

    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Rows) -> bool) -> Rows {
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
    pub(crate) async fn all_places(&self, api: &str) -> Vec<Permit<Redis>> {
        let mut permits = Vec::new();
        let (quota, corp) = (&self.world.app().quota, self.world.corp.as_str());
        while let Take::Taken(permit) = quota.take(corp, api, Urgency::Urgent, None).await.unwrap()
        {
            permits.push(permit);
        }
        permits
    }

    pub(crate) async fn block(&self, api: &str, ms: u64) {
        let until_ms = i64::try_from(SystemClock.now_ms() + ms).unwrap();
        let quota = &self.world.app().quota;
        quota
            .block(self.world.corp.as_str(), api, until_ms, None)
            .await
            .unwrap();
    }

    pub(crate) fn forward(&self, ms: u64) {
        self.clock.0.fetch_add(ms, Ordering::Relaxed);
    }

    pub(crate) fn greeted(&self) -> u64 {
        let counters = self.sim.counters();
        let corp = counters.corps.get(self.world.corp.as_str());
        corp.map_or(0, |corp| corp.welcomes_delivered)
    }

    pub(crate) fn calls(&self, api: &str) -> u64 {
        let counters = self.sim.counters();
        let corp = counters.corps.get(self.world.corp.as_str());
        corp.and_then(|corp| corp.apis.get(api))
            .map_or(0, |one| one.calls)
    }
}

pub(crate) async fn give_back(permits: Vec<Permit<Redis>>) {
    for permit in permits {
        permit.done(quota::Outcome::Unused, None).await.unwrap();
    }
}

pub(crate) async fn dies(process: JoinHandle<()>) {
    process.abort();
    assert!(process.await.unwrap_err().is_cancelled());
}
