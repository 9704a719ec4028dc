//! A log that does not go on where the ledger ends: nothing of it can be recorded any more.

use std::{sync::Arc, time::Duration};

use allocator::{
    api::{self, work},
    app::App,
    clock, decide,
    guard::{self, Wanted},
    people, record,
    writer::{self, Instead, Turn},
};
use inbox::{Consumer, Group, NewDelivery};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    api_deliveries::added,
    api_support::{Console, World, answer, serve},
};

/// A pool, customers whom the ledger has, and nobody who writes the log.
pub(crate) async fn quiet_world(customers: usize) -> (World, Console) {
    let mut world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("zhangsan", 1.0)]).await;
    for n in 0..customers {
        console.ask("p1", &format!("wmC{n}")).await;
    }
    world.written().await;
    world.end_writer().await;
    (world, console)
}

/// All that Redis has of the corp, as a replica has it that falls behind.
struct Replica(Vec<(String, Vec<u8>)>);

/// What `/readyz` names.
pub(crate) struct Problems(std::net::SocketAddr);

impl Problems {
    pub(crate) async fn ask(&self) -> (u16, Vec<String>) {
        let asked = reqwest::Client::new().get(format!("http://{}/readyz", self.0));
        let ready = answer(asked).await;
        let problems = ready.json()["problems"].as_array().cloned().unwrap();
        let text = |problem: Value| problem["problem"].as_str().unwrap().to_owned();
        (
            ready.status.as_u16(),
            problems.into_iter().map(text).collect(),
        )
    }
}

impl World {
    pub(crate) async fn problems(&self) -> Problems {
        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        Problems(serve(api::admin_router(Arc::clone(self.app()), recorder.handle())).await)
    }

    async fn replica(&self) -> Replica {
        let mut redis = test_redis::shared().connection().await;
        let mut values = Vec::new();
        for key in self.keys(&mut redis).await {
            let dump = redis::cmd("DUMP").arg(&key).query_async(&mut redis).await;
            values.push((key, dump.unwrap()));
        }
        Replica(values)
    }

    /// Redis failed over to it.
    async fn promote(&self, replica: &Replica) {
        let mut redis = test_redis::shared().connection().await;
        let mut delete = redis::cmd("DEL");
        delete.arg(self.keys(&mut redis).await);
        delete.query_async::<()>(&mut redis).await.unwrap();
        for (key, dump) in &replica.0 {
            let mut restore = redis::cmd("RESTORE");
            restore.arg(key).arg(0).arg(dump);
            restore.query_async::<()>(&mut redis).await.unwrap();
        }
    }

    async fn keys(&self, redis: &mut redis::aio::MultiplexedConnection) -> Vec<String> {
        let pattern = format!("{{{}}}:v1:*", self.corp);
        let keys = redis::cmd("KEYS").arg(pattern).query_async(redis).await;
        keys.unwrap()
    }

    /// This process writes all that can be written.
    /// A delivery came in, was recorded, decided and acknowledged.
    async fn decided(&self, app: &App, plaintext: &str) -> String {
        let corp = &app.corps[&self.corp];
        let new = NewDelivery::new("main", app.now_ms(), plaintext.to_owned());
        let id = new.id().to_string();
        corp.inbox.append(&[new]).await.unwrap();
        for group in Group::ALL {
            let blocking = app.blocking().await.unwrap();
            let mut consumer = Consumer::new(corp.inbox.clone(), blocking, group, "test");
            let batch = consumer.next(100, Duration::from_secs(5)).await.unwrap();
            match group {
                Group::Record => record::record(app, corp, &batch).await.unwrap(),
                Group::Decide => decide::decide(app, corp, &batch, false).await.unwrap(),
            }
            assert_eq!(consumer.ack(&batch).await.unwrap(), 1);
        }
        id
    }

    pub(crate) async fn write(&self, app: &App) -> Turn {
        loop {
            match self.try_write(app).await {
                Ok(Turn::Idle { log_seq }) => return Turn::Idle { log_seq },
                Ok(_) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub(crate) async fn try_write(&self, app: &App) -> Result<Turn, writer::Error> {
        writer::turn(app, &app.corps[&self.corp]).await
    }

    pub(crate) async fn log_seq(&self) -> u64 {
        let row = self.app().ledger.corps().get(&self.corp).await.unwrap();
        row.unwrap().log_seq
    }

    pub(crate) async fn generation(&self) -> Option<u64> {
        let status = self.corp_app().roster.status().await.unwrap();
        status.generation
    }
}

pub(crate) async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let limit = tokio::time::Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < limit, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Postgres failed over to a standby without the last entries, which Redis has forgotten: the corp closes, `/readyz` says
/// why, and the guard writes the state anew.
#[tokio::test]
async fn a_ledger_that_lost_its_end_closes_the_corp_for_a_rebuild() {
    let (world, console) = quiet_world(5).await;
    let (app, corp) = (world.app(), world.corp_app());
    let row = app.ledger.corps().get(&corp.id).await.unwrap().unwrap();
    let kept = row.log_seq - 3;
    world
        .sql(&format!(
            "DELETE FROM log WHERE seq > {kept}; DELETE FROM allocations WHERE decided_seq > {kept};
             UPDATE corps SET log_seq = {kept}"
        ))
        .await;
    console.ask("p1", "wmNew").await;
    let before = world.generation().await;

    let problems = world.problems().await;
    let stop = tokio_util::sync::CancellationToken::new();
    let writer = writer::run(Arc::clone(app), Arc::clone(corp), stop.clone());
    let writer = tokio::spawn(writer);
    eventually("closed", async || {
        world.generation().await.is_none().then_some(())
    })
    .await;
    eventually("said", async || {
        let (status, problems) = problems.ask().await;
        let said = problems.iter().any(|text| text.contains("not recorded"));
        (status == 503 && said).then_some(())
    })
    .await;

    let guard = guard::run(Arc::clone(app), Arc::clone(corp), stop.clone());
    let guard = tokio::spawn(guard);
    eventually("open again", async || {
        let open = world.generation().await;
        (open.is_some() && open != before).then_some(())
    })
    .await;
    world.written().await;
    eventually("all is well", async || {
        let (status, problems) = problems.ask().await;
        (status == 200 && problems.is_empty()).then_some(())
    })
    .await;
    console.on(&["zhangsan"]).await;
    console.ask("p1", "wmAfter").await;
    world.check().await;
    stop.cancel();
    writer.await.unwrap();
    guard.await.unwrap();
}

/// A replica was promoted that lacked the last operations, and went on: it has the ledger's number, or passed it, before
/// anybody looked. Neither who wrote the ledger's last entry nor another process takes it for the same log.
#[tokio::test]
async fn a_redis_that_lost_its_end_is_noticed_though_it_caught_up() {
    for (asked_anew, same_process) in [(3, true), (3, false), (7, true), (7, false)] {
        let (world, console) = quiet_world(4).await;
        let other = world.process(clock::system()).await;
        let app = if same_process { world.app() } else { &other };
        let corp = world.corp_app();
        let channel = json!({"name": "x", "pool": "p1", "states": ["poster"]});
        console.put("/channels/c1", channel).await.ok();
        people::refresh(app, &app.corps[&world.corp]).await.unwrap();
        let replica = world.replica().await;
        for n in 0..3 {
            console.ask("p1", &format!("wmKept{n}")).await;
        }
        world.write(world.app()).await;
        let rows = console.all("/allocations").await;
        assert_eq!(rows.len(), 7);
        let written = world.log_seq().await;

        world.promote(&replica).await;
        let mut answers = Vec::new();
        for n in 1..asked_anew {
            answers.push(console.ask("p1", &format!("wmLost{n}")).await);
        }
        let delivery = world.decided(app, &added("wmDelivered", "poster")).await;
        let status = corp.roster.status().await.unwrap();
        assert_eq!(status.seq, written - 3 + asked_anew);
        let turn = world.try_write(app).await;
        let lost = matches!(
            turn,
            Err(writer::Error::Lost { written: at, instead: Instead::Another }) if at == written
        );
        assert!(lost, "{turn:?}");
        assert_eq!(world.generation().await, None);
        assert_eq!(world.log_seq().await, written);

        guard::look(app, &app.corps[&world.corp]).await.unwrap();
        world.write(app).await;
        // The event spelled the member his way.
        let who = |row: &Value| (row["id"].clone(), row["decided_at"].clone());
        let open = console.all("/allocations?state=open").await;
        assert!(open.iter().map(who).eq(rows.iter().map(who)), "{open:?}");
        // What was decided on the log that was given up was asked again, though its delivery was acknowledged.
        console.on(&["zhangsan"]).await;
        world.write(app).await;
        let all = console.all("/allocations?state=open").await;
        assert_eq!(all.len(), rows.len() + answers.len() + 1);
        for answered in answers {
            let id = answered["allocation_id"].as_str().unwrap();
            let row = console.get(&format!("/allocations/{id}")).await.ok();
            assert_eq!(row["state"], "open", "{row}");
        }
        let row = console.get(&format!("/deliveries/{delivery}")).await.ok();
        assert_eq!(row["outcome"], "waiting", "{row}");
        world.check().await;
    }
}

/// A delivery was recorded, decided and acknowledged, then Redis was emptied and who had kept what it did is dead; another
/// process takes over.
async fn lost_with_redis() -> (World, Console, Arc<App>, String) {
    let (world, console) = quiet_world(2).await;
    let channel = json!({"name": "x", "pool": "p1", "states": ["poster"]});
    console.put("/channels/c1", channel).await.ok();
    let delivery = world.decided(world.app(), &added("wmLost", "poster")).await;
    world.promote(&Replica(Vec::new())).await;
    let other = world.process(clock::system()).await;
    (world, console, other, delivery)
}

/// The operation that a rebuild began is the only one, and takes the delivery up.
async fn is_taken_up(world: &World, console: &Console, by: &App, delivery: &str, total: u64) {
    let begun = console.all("/operations").await;
    assert_eq!(begun.len(), 1, "{begun:?}");
    assert_eq!(begun[0]["kind"], "deliveries.replay");
    assert_eq!(begun[0]["total"], total);
    let stop = CancellationToken::new();
    let corp = &by.corps[&world.corp];
    assert!(work::turn(by, corp, &stop).await.unwrap());
    world.write(by).await;
    let row = console.get(&format!("/deliveries/{delivery}")).await.ok();
    assert_eq!(row["outcome"], "waiting", "{row}");
    assert_eq!(console.all("/allocations").await.len(), 3);
}

#[tokio::test]
async fn what_was_acknowledged_and_lost_with_redis_is_taken_up_from_the_ledger() {
    let (world, console, other, delivery) = lost_with_redis().await;
    let corp = &other.corps[&world.corp];
    guard::look(&other, corp).await.unwrap();
    is_taken_up(&world, &console, &other, &delivery, 1).await;
    guard::rebuild(&other, corp, Wanted::default())
        .await
        .unwrap();
    let operations = console.all("/operations").await;
    assert_eq!(operations.len(), 1, "nothing is left to be taken up");
}

/// It was decided and acknowledged, and whoever records had it in his hands when Redis was emptied: the rebuild finds nothing of
/// it, and it is taken up when it is written down.
#[tokio::test]
async fn what_is_recorded_only_after_the_rebuild_is_taken_up_then() {
    let (world, console) = quiet_world(2).await;
    let channel = json!({"name": "x", "pool": "p1", "states": ["poster"]});
    console.put("/channels/c1", channel).await.ok();
    let (app, corp) = (world.app(), world.corp_app());
    let new = NewDelivery::new("main", app.now_ms(), added("wmLate", "poster"));
    let id = new.id().to_string();
    corp.inbox.append(&[new]).await.unwrap();
    let reads = async |group| {
        let blocking = app.blocking().await.unwrap();
        let mut consumer = Consumer::new(corp.inbox.clone(), blocking, group, "test");
        let batch = consumer.next(100, Duration::from_secs(5)).await.unwrap();
        (consumer, batch)
    };
    let (recorder, in_hand) = reads(Group::Record).await;
    let (decider, batch) = reads(Group::Decide).await;
    decide::decide(app, corp, &batch, false).await.unwrap();
    assert_eq!(decider.ack(&batch).await.unwrap(), 1);
    world.promote(&Replica(Vec::new())).await;
    let other = world.process(clock::system()).await;
    guard::look(&other, &other.corps[&world.corp])
        .await
        .unwrap();
    assert_eq!(console.all("/operations").await.len(), 0);
    let writes = async || {
        record::record(app, corp, &in_hand).await.unwrap();
        let written = record::recorded(app, corp, &recorder, &in_hand);
        written.await.unwrap();
    };
    writes().await;
    is_taken_up(&world, &console, &other, &id, 1).await;
    // Nothing is left of it.
    writes().await;
    assert_eq!(console.all("/operations").await.len(), 1);
}

/// The deliveries cannot be counted: the corp opens all the same, and they are taken up uncounted.
#[tokio::test]
async fn a_corp_does_not_stay_closed_for_deliveries_that_cannot_be_counted() {
    let (world, console, other, delivery) = lost_with_redis().await;
    let mut holder = world.database.connect().await;
    sqlx::raw_sql("BEGIN; LOCK TABLE deliveries IN ACCESS EXCLUSIVE MODE")
        .execute(&mut holder)
        .await
        .unwrap();
    guard::look(&other, &other.corps[&world.corp])
        .await
        .unwrap();
    sqlx::raw_sql("ROLLBACK")
        .execute(&mut holder)
        .await
        .unwrap();
    is_taken_up(&world, &console, &other, &delivery, 0).await;
}

/// An empty log of the right number is no proof: nothing could be compared when it goes on.
#[tokio::test]
async fn an_empty_log_is_lost() {
    let (world, _) = quiet_world(1).await;
    let written = world.log_seq().await;
    let key = format!("{{{}}}:v1:log", world.corp);
    test_redis::shared().cli(&["DEL", &key]);
    let turn = world.try_write(world.app()).await;
    let lost = matches!(
        turn,
        Err(writer::Error::Lost { instead: Instead::Nothing(at), .. }) if at == written
    );
    assert!(lost, "{turn:?}");
    guard::look(world.app(), world.corp_app()).await.unwrap();
    world.write(world.app()).await;
}

/// A log that was begun anew has no entry to compare: it must begin with the rebuild that the ledger knows of.
#[tokio::test]
async fn a_log_begins_with_the_rebuild_that_the_ledger_opened() {
    let (world, _) = quiet_world(1).await;
    let (app, corp) = (world.app(), world.corp_app());
    let other = world.process(clock::system()).await;
    let written = world.log_seq().await;
    guard::rebuild(app, corp, Wanted::default()).await.unwrap();
    assert_eq!(world.log_seq().await, written);
    world
        .sql("UPDATE corps SET generation = generation + 1, opened_generation = opened_generation + 1")
        .await;
    for app in [app, &other] {
        let turn = world.try_write(app).await;
        let lost = matches!(
            turn,
            Err(writer::Error::Lost { instead: Instead::Begins(at), .. }) if at == written + 1
        );
        assert!(lost, "{turn:?}");
    }
    assert_eq!(world.generation().await, None);
    guard::look(app, corp).await.unwrap();
    let turn = world.write(&other).await;
    assert_eq!(
        turn,
        Turn::Idle {
            log_seq: written + 1
        }
    );
    assert_eq!(world.write(app).await, turn);
}

/// What a process remembers of an entry may be what Postgres has lost since; the ledger's word counts.
#[tokio::test]
async fn a_memory_of_what_postgres_lost_is_no_proof() {
    let (world, console) = quiet_world(3).await;
    let (app, corp) = (world.app(), world.corp_app());
    let other = world.process(clock::system()).await;
    let written = world.log_seq().await;
    assert_eq!(world.write(app).await, Turn::Idle { log_seq: written });
    world
        .sql(&format!(
            "DELETE FROM log WHERE seq > {written} - 3; UPDATE corps SET log_seq = {written} - 3;
             DELETE FROM allocations WHERE decided_seq > {written} - 3"
        ))
        .await;
    let turn = world.try_write(app).await;
    assert!(matches!(turn, Err(writer::Error::Lost { .. })), "{turn:?}");
    guard::look(app, corp).await.unwrap();
    // The rebuild, the last decision once more, and this one: the ledger's number is what it was.
    console.ask("p1", "wmNew").await;
    assert_eq!(world.write(&other).await, Turn::Idle { log_seq: written });
    assert_eq!(world.write(app).await, Turn::Idle { log_seq: written });
}
