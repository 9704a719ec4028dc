//! Visitors who find no free seat: for how long their requests wait, who ends the wait, and which groups count as open.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use allocation::CampaignId;
use allocator::{
    app::{App, CorpApp},
    fission::{
        asking::{self, Shown},
        told, waiting,
    },
    reception::visits::{Visitor, VisitorKind},
};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::fission_stage::Stage;

/// As the defaults have it.
const BOUND: Duration = Duration::from_millis(1_500);

fn corp(app: &App) -> &Arc<CorpApp> {
    app.corps.values().next().unwrap()
}

/// A visitor asks in this process.
fn ask(app: &Arc<App>, who: &str) -> JoinHandle<Shown> {
    let app = Arc::clone(app);
    let visitor = Visitor {
        kind: VisitorKind::Unionid,
        id: who.to_owned(),
    };
    tokio::spawn(async move {
        let campaign = CampaignId::new("spring").unwrap();
        let asked = asking::ask(&app, corp(&app), &campaign, &visitor, Vec::new(), None);
        asked.await.unwrap()
    })
}

async fn waits(app: &App, n: usize) {
    let limit = Instant::now() + Duration::from_secs(20);
    while corp(app).waiters.n() != n {
        assert!(Instant::now() < limit, "{}", corp(app).waiters.n());
        tokio::task::yield_now().await;
    }
}

/// A group that everything is known of, but nobody is shown it: it is in stock.
async fn stock(stage: &Stage, chat: &str) {
    stage.group(chat).await;
    stage
        .put(chat, json!({"group_pool": "p1", "state": "spare"}))
        .await;
    stage.tell().await;
}

async fn open(stage: &Stage, chat: &str) {
    stage.put(chat, json!({"group_pool": "p1"})).await;
}

#[tokio::test]
async fn a_group_is_open_to_seats_once_a_code_leads_into_it() {
    let stage = Stage::new().await;
    stage.make("c1");
    let group = json!({"group_pool": "p1"});
    stage.console.put("/groups/c1", group).await.ok();
    stage.tell().await;
    stage.read_all().await;
    let shown = stage.console.get("/groups/c1").await.ok();
    assert_eq!(shown["not_shown"], json!(["no_join_way"]));
    stage.asks("unionid", "a", None, 600_000).await;
    assert_eq!(stage.is("unionid", "a").await, "waiting");
    stage.lead("c1").await;
    stage.tell().await;
    assert_eq!(stage.is("unionid", "a").await, "held");
    let shown = stage.console.get("/groups/c1").await.ok();
    assert_eq!(shown["not_shown"], json!([]));
    // Its code is another one for a moment: whoever holds a seat in it keeps it, and it stays open.
    sqlx::query("UPDATE join_ways SET state = 'retiring'")
        .execute(stage.app().ledger.pool())
        .await
        .unwrap();
    stage.tell().await;
    stage.held("unionid", "b", None).await;
    // In another pool no code leads into it.
    let pool = json!({"name": "x", "scan_cap": 10, "hard_cap": 20, "buffer": 1});
    stage.console.put("/group-pools/p2", pool).await.ok();
    let group = json!({"group_pool": "p2"});
    stage.console.put("/groups/c1", group).await.ok();
    stage.tell().await;
    let shown = stage.console.get("/groups/c1").await.ok();
    assert_eq!(shown["not_shown"], json!(["no_join_way"]));
}

#[tokio::test]
async fn who_finds_no_seat_waits_no_longer_than_the_bound() {
    let stage = Stage::new().await;
    stock(&stage, "c1").await;
    let asked = Instant::now();
    let shown = ask(stage.app(), "a").await.unwrap();
    assert!(
        matches!(shown, Shown::Waiting { position: 1, .. }),
        "{shown:?}"
    );
    let waited = asked.elapsed();
    assert!(waited >= BOUND, "{waited:?}");
    assert!(waited < BOUND * 3, "{waited:?}");
    assert_eq!(stage.corp().waiters.n(), 0);
    // He comes back into the waiting room: it is no second wait.
    let asked = Instant::now();
    let shown = ask(stage.app(), "a").await.unwrap();
    assert!(matches!(shown, Shown::Waiting { .. }), "{shown:?}");
    assert!(asked.elapsed() < BOUND);
}

#[tokio::test]
async fn a_seat_ends_the_wait_whichever_process_gave_it() {
    let stage = Stage::new().await;
    stock(&stage, "c1").await;
    let (here, there) = (Arc::clone(stage.app()), stage.process().await);
    let stop = CancellationToken::new();
    tokio::spawn(waiting::run(
        Arc::clone(&there),
        Arc::clone(corp(&there)),
        stop.clone(),
    ));
    let (one, other) = (ask(&here, "a"), ask(&there, "b"));
    waits(&here, 1).await;
    waits(&there, 1).await;
    open(&stage, "c1").await;
    // Of this process nobody looks: it is told by what the opening gave.
    told::sync(&here, corp(&here)).await.unwrap();
    for shown in [one.await.unwrap(), other.await.unwrap()] {
        let Shown::Held(hold) = shown else {
            panic!("{shown:?}")
        };
        assert_eq!(hold.chat.as_str(), "c1");
    }
    assert_eq!((corp(&here).waiters.n(), corp(&there).waiters.n()), (0, 0));
    stop.cancel();
}

#[tokio::test]
async fn a_visitor_who_goes_away_leaves_nothing() {
    let stage = Stage::new().await;
    stock(&stage, "c1").await;
    let asked = ask(stage.app(), "a");
    waits(stage.app(), 1).await;
    asked.abort();
    assert!(asked.await.unwrap_err().is_cancelled());
    assert_eq!(stage.corp().waiters.n(), 0);
    // His place is his all the same, until its time is over.
    assert_eq!(stage.is("unionid", "a").await, "waiting");
}
