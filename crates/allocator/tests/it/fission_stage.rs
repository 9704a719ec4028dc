//! A fake WeCom with groups, and an allocator whose parts a test runs one by one: it hears each event when, and as often as,
//! the test says.

use std::{
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use allocation::{
    CampaignId, ChatId, CorpId, GroupPoolId, GroupTags, ReserveSeat, Reserved, SeatId, SeatName,
    SubjectKey,
    model::{GroupView, SeatPlace},
};
use allocator::{
    app::{App, CorpApp},
    clock::Clock,
    decide,
    fission::{reader, timers, told},
};
use axum::{
    Router,
    body::Bytes,
    extract::{RawQuery, State},
    routing::post,
};
use inbox::{Delivery, DeliveryId, EntryId};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use wecom::{
    client::{Clock as _, JoinWay, SystemClock},
    crypto::{Keys, Receiver},
    envelope::{self, Query},
};
use wecom_sim::{
    AppConfig, CallbackConfig, Config, CorpConfig, GroupPerson, GroupRequest, InviteRequest,
    JoinRequest, LeaveRequest, MemberConfig, Sim, SimHandle,
};

use crate::{
    api_support::{Console, Options, World},
    lane_stage::{AGENT, Forward},
};

pub(crate) const GET: &str = "externalcontact/groupchat/get";
/// Of the fake WeCom's reads, and what ours reckon with.
pub(crate) const LAG_MS: u64 = 3_000;
const TOKEN: &str = "caseTok3n7Qx";
const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) sim: SimHandle,
    pub(crate) console: Console,
    pub(crate) clock: Arc<Forward>,
    app: Arc<App>,
    heard: Heard,
}

#[derive(Clone)]
struct Heard {
    texts: Arc<Mutex<Vec<String>>>,
    receiver: Arc<Receiver>,
}

async fn hear(State(heard): State<Heard>, RawQuery(query): RawQuery, body: Bytes) {
    let query = query.unwrap();
    let query = Query::parse(&query).unwrap();
    let sealed = envelope::parse(&body).unwrap();
    let opened = heard.receiver.open(&query, &sealed.encrypt).unwrap();
    heard.texts.lock().unwrap().push(opened.plaintext);
}

impl Stage {
    /// Nothing of WeCom's lags.
    pub(crate) async fn new() -> Self {
        Self::with(0).await
    }

    /// A pool that takes ten people into a group, one place kept, and a campaign.
    pub(crate) async fn with(lag_ms: u64) -> Self {
        Self::configured(lag_ms, "").await
    }

    /// The same with settings of the allocator's.
    pub(crate) async fn configured(lag_ms: u64, config: &str) -> Self {
        let corp = CorpId::new(test_redis::corp()).unwrap();
        let keys = Keys::parse(TOKEN, KEY).unwrap();
        let heard = Heard {
            texts: Arc::default(),
            receiver: Arc::new(Receiver::new(vec![keys], vec![corp.to_string()]).unwrap()),
        };
        let ears = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", ears.local_addr().unwrap());
        let router = Router::new()
            .route("/", post(hear))
            .with_state(heard.clone());
        tokio::spawn(async move { axum::serve(ears, router).await });
        let rules = format!("[groups]\nread_lag_ms = {lag_ms}\n");
        let sim = Config {
            corps: vec![CorpConfig {
                id: corp.to_string(),
                apps: vec![AppConfig {
                    agent_id: AGENT,
                    secret: "caseSecret".into(),
                    callback: Some(CallbackConfig {
                        urls: vec![url],
                        token: TOKEN.into(),
                        aes_key: KEY.into(),
                        ..CallbackConfig::default()
                    }),
                    ..AppConfig::default()
                }],
                members: ["ZhangSan", "LiSi"].map(MemberConfig::new).into(),
                ..CorpConfig::default()
            }],
            ..Config::parse(&rules).unwrap()
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let sim = Sim::start(sim, listener).await.unwrap();
        let options = Options {
            config: config.to_owned(),
            wecom: Some((corp, sim.base_url())),
            ..Options::default()
        };
        let world = World::with(1, options).await;
        let console = world.operator().await;
        let pool = json!({"name": "x", "scan_cap": 10, "hard_cap": 20, "buffer": 1});
        console.put("/group-pools/p1", pool).await.ok();
        let campaign = json!({"name": "x", "group_pool": "p1"});
        console.put("/campaigns/spring", campaign).await.ok();
        let clock = Arc::new(Forward::default());
        let app = world.process(Arc::clone(&clock) as Clock).await;
        Self {
            world,
            sim,
            console,
            clock,
            app,
            heard,
        }
    }

    pub(crate) fn app(&self) -> &Arc<App> {
        &self.app
    }

    pub(crate) fn corp(&self) -> &Arc<CorpApp> {
        self.app.corps.values().next().unwrap()
    }

    /// One more process.
    pub(crate) async fn process(&self) -> Arc<App> {
        self.world.process(Arc::clone(&self.clock) as Clock).await
    }

    /// Time passes, here and at WeCom.
    pub(crate) async fn pass(&self, ms: u64) {
        self.clock.0.fetch_add(ms, Ordering::Relaxed);
        self.sim.advance(Duration::from_millis(ms)).await;
    }

    /// A group at WeCom with its owner in it.
    pub(crate) fn make(&self, chat: &str) {
        let request = GroupRequest::new("ZhangSan").chat_id(chat);
        self.sim.make_groups(&request).unwrap();
    }

    /// The same, in the pool, told and read until it is known for sure.
    pub(crate) async fn group(&self, chat: &str) {
        self.make(chat);
        self.pass(LAG_MS).await;
        self.put(chat, json!({"group_pool": "p1"})).await;
        self.tell().await;
        self.read_all().await;
        self.events().await;
        assert!(self.view(chat).await.seen.is_some());
    }

    pub(crate) async fn put(&self, chat: &str, body: serde_json::Value) {
        self.lead(chat).await;
        self.console
            .put(&format!("/groups/{chat}"), body)
            .await
            .ok();
    }

    /// A code of the campaign leads into it, as far as our rows say.
    pub(crate) async fn lead(&self, chat: &str) {
        let row = "INSERT INTO join_ways
                (corp_id, way, campaign_id, via, chats, told_chats, state, config_id, picture, picture_type, created_at, ready_at)
             VALUES ($1, 'pj.' || $2, 'spring', 'pg.x', ARRAY[$2], ARRAY[$2], 'ready', 'row ' || $2, '\\x00', 'image/png', now(), now())
             ON CONFLICT DO NOTHING";
        let row = sqlx::query(row)
            .bind(self.world.corp.as_str().to_owned())
            .bind(chat.to_owned());
        row.execute(self.app.ledger.pool()).await.unwrap();
    }

    pub(crate) async fn tell(&self) {
        told::sync(&self.app, self.corp()).await.unwrap();
    }

    /// The reader looks and works off what is due now.
    pub(crate) async fn read(&self) {
        reader::look(&self.app, self.corp()).await.unwrap();
        while reader::turn(&self.app, self.corp()).await.unwrap() > 0 {}
    }

    /// The same until nothing is in doubt any more, however long that takes.
    pub(crate) async fn read_all(&self) {
        self.read().await;
        while self.corp().inbox.dirty_count("chat").await.unwrap().waiting > 0 {
            self.pass(LAG_MS + 50).await;
            self.read().await;
        }
    }

    /// It is to be read now.
    pub(crate) async fn mark(&self, chat: &str) {
        let now_ms = self.app.now_ms();
        let marked = self.corp().inbox.dirty_mark("chat", chat, now_ms);
        marked.await.unwrap();
    }

    /// Seats whose time is over, as far as that can be said now.
    pub(crate) async fn release(&self) -> usize {
        let stop = CancellationToken::new();
        timers::release(&self.app, self.corp(), &stop)
            .await
            .unwrap()
    }

    /// What WeCom told since the last time, in its order.
    pub(crate) async fn events(&self) -> Vec<String> {
        self.sim.idle().await;
        std::mem::take(&mut *self.heard.texts.lock().unwrap())
    }

    pub(crate) async fn deliver(&self, events: &[String]) {
        let batch = self.batch(events);
        decide::decide(&self.app, self.corp(), &batch, false)
            .await
            .unwrap();
    }

    pub(crate) fn batch(&self, events: &[String]) -> Vec<Delivery> {
        let now_ms = SystemClock.now_ms();
        let delivery = |text: &String| Delivery {
            entry: EntryId::MIN,
            id: DeliveryId::of("main", text),
            endpoint: "main".to_owned(),
            received_ms: now_ms,
            plaintext: text.clone(),
            tries: 0,
            again: false,
        };
        events.iter().map(delivery).collect()
    }

    /// All events since the last time come once, and what they leave in doubt is read.
    pub(crate) async fn hear(&self) {
        let events = self.events().await;
        self.deliver(&events).await;
        self.read_all().await;
    }

    pub(crate) async fn way(&self, chat: &str, state: Option<&str>) -> String {
        let way = JoinWay {
            state: state.map(str::to_owned),
            ..JoinWay::into_groups([chat])
        };
        self.corp()
            .client
            .add_join_way(&way)
            .await
            .unwrap()
            .config_id
    }

    /// They scan this way; all get in.
    pub(crate) fn scan(&self, way: &str, people: &[GroupPerson]) {
        let people = people.iter().cloned();
        let request = people.fold(JoinRequest::way(way), JoinRequest::person);
        let reply = self.sim.join(&request).unwrap();
        assert!(reply.joins.iter().all(|join| join.chat_id.is_some()));
    }

    pub(crate) fn invite(&self, chat: &str, count: u32) {
        let request = InviteRequest {
            chat_id: chat.to_owned(),
            count,
            ..InviteRequest::default()
        };
        self.sim.invite(&request).unwrap();
    }

    pub(crate) fn leaves(&self, chat: &str, who: &str) {
        self.sim.leave(&LeaveRequest::new(chat, who)).unwrap();
    }

    pub(crate) fn subject(&self, kind: &str, id: &str) -> SubjectKey {
        SubjectKey::new(&self.world.corp, kind, id)
    }

    pub(crate) fn name(&self, kind: &str, id: &str) -> SeatName {
        SeatName {
            campaign: CampaignId::new("spring").unwrap(),
            subject: self.subject(kind, id),
        }
    }

    /// A visitor asks for a seat, held for ten minutes.
    pub(crate) async fn reserve(&self, kind: &str, id: &str, via: Option<&str>) -> Reserved {
        self.asks(kind, id, via, 60_000).await
    }

    /// The same by somebody who waits no longer than that.
    pub(crate) async fn asks(
        &self,
        kind: &str,
        id: &str,
        via: Option<&str>,
        wait_ms: u64,
    ) -> Reserved {
        let SeatName { campaign, subject } = self.name(kind, id);
        let asked = ReserveSeat {
            seat: SeatId(Uuid::now_v7()),
            campaign,
            pool: GroupPoolId::new("p1").unwrap(),
            subject,
            anonymous: !matches!(kind, "unionid" | "wecom"),
            via: via.map(|via| via.parse().unwrap()),
            tags: GroupTags::any(),
            hold_ms: 600_000,
            wait_ms,
        };
        let roster = &self.corp().roster;
        let told = roster.reserve_seats(vec![asked], "", None).await.unwrap();
        told.answer.into_iter().next().unwrap()
    }

    /// The same, and it is held in a group.
    pub(crate) async fn held(&self, kind: &str, id: &str, via: Option<&str>) -> ChatId {
        match self.reserve(kind, id, via).await {
            Reserved::Held { chat, .. } => chat,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn seat(&self, kind: &str, id: &str) -> Option<SeatPlace> {
        let name = self.name(kind, id);
        let seat = self.corp().roster.seat(&name).await.unwrap();
        seat.map(|seat| seat.place)
    }

    /// In a word.
    pub(crate) async fn is(&self, kind: &str, id: &str) -> &'static str {
        match self.seat(kind, id).await {
            None => "none",
            Some(SeatPlace::Held { .. }) => "held",
            Some(SeatPlace::Waiting { .. }) => "waiting",
            Some(SeatPlace::Taken { late: false, .. }) => "confirmed",
            Some(SeatPlace::Taken { late: true, .. }) => "late",
            Some(SeatPlace::Expired { .. }) => "expired",
        }
    }

    pub(crate) async fn view(&self, chat: &str) -> GroupView {
        let chat = ChatId::new(chat).unwrap();
        self.corp().roster.group(&chat).await.unwrap().unwrap()
    }

    /// People, held, free, oversold.
    pub(crate) async fn count(&self, chat: &str) -> (u32, u32, u32, u32) {
        let count = self.view(chat).await.count;
        (count.people, count.held, count.free, count.oversold)
    }

    /// Redis has those who are in it at WeCom, all of them named.
    pub(crate) async fn exact(&self, chat: &str) {
        let there = self.sim.group(None, chat).unwrap();
        let view = self.view(chat).await;
        let seen = view.seen.as_ref().map(|seen| seen.as_str());
        assert_eq!(seen, Some(there.member_version.as_str()), "{chat}");
        assert_eq!(view.people.len(), there.size, "{chat}");
        assert!(view.people.iter().all(|person| !person.pending), "{chat}");
    }

    pub(crate) fn reads(&self) -> u64 {
        let counters = self.sim.counters();
        let corp = counters.corps.get(self.world.corp.as_str());
        corp.and_then(|corp| corp.apis.get(GET))
            .map_or(0, |one| one.calls)
    }
}

pub(crate) fn person(id: &str) -> GroupPerson {
    GroupPerson::new(id).unionid(format!("o{id}"))
}
