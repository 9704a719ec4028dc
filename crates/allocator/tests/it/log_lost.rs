//! A log that does not go on where the ledger ends: nothing of it can be recorded any more.

use std::{sync::Arc, time::Duration};

use allocator::{api, guard, writer};
use serde_json::Value;

use crate::api_support::{Console, World, answer, serve};

/// A pool, customers whom the ledger has, and nobody who writes the log.
async fn quiet_world(customers: usize) -> (World, Console) {
    let world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("zhangsan", 1.0)]).await;
    for n in 0..customers {
        console.ask("p1", &format!("wmC{n}")).await;
    }
    world.written().await;
    world.stop().cancel();
    (world, console)
}

impl World {
    async fn generation(&self) -> Option<u64> {
        let status = self.corp_app().roster.status().await.unwrap();
        status.generation
    }
}

async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
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

    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let addr = serve(api::admin_router(Arc::clone(app), recorder.handle())).await;
    let problems = async || {
        let asked = reqwest::Client::new().get(format!("http://{addr}/readyz"));
        let ready = answer(asked).await;
        let problems = ready.json()["problems"].as_array().cloned().unwrap();
        let text = |problem: Value| problem["problem"].as_str().unwrap().to_owned();
        (
            ready.status,
            problems.into_iter().map(text).collect::<Vec<_>>(),
        )
    };
    let stop = tokio_util::sync::CancellationToken::new();
    let writer = writer::run(Arc::clone(app), Arc::clone(corp), stop.clone());
    let writer = tokio::spawn(writer);
    eventually("closed", async || {
        world.generation().await.is_none().then_some(())
    })
    .await;
    eventually("said", async || {
        let (status, problems) = problems().await;
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
        let (status, problems) = problems().await;
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
