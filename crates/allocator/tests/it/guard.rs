//! Rebuilds: what Redis still has reaches the ledger first.

use allocator::guard;
use serde_json::json;

use crate::api_support::{Console, Options, World};

/// A pool, and nobody who writes the log: only a rebuild does.
async fn quiet_world() -> (World, Console) {
    let options = Options {
        config: "[roster]\nwriter_batch = 1".to_owned(),
        ..Options::default()
    };
    let world = World::with(1, options).await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("zhangsan", 1.0)]).await;
    world.written().await;
    world.stop().cancel();
    (world, console)
}

impl World {
    pub(crate) async fn sql(&self, sql: &str) {
        let mut connection = self.database.connect().await;
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql))
            .execute(&mut connection)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_log_that_cannot_be_written_now_is_not_wiped() {
    let (world, console) = quiet_world().await;
    let (app, corp) = (world.app(), world.corp_app());
    world
        .sql(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
             CREATE TRIGGER refuse BEFORE INSERT ON log FOR EACH ROW EXECUTE FUNCTION refuse()",
        )
        .await;
    let answered = console.ask("p1", "wmC1").await;
    let refused = guard::rebuild(app, corp).await;
    assert!(matches!(refused, Err(guard::Error::Rest(_))), "{refused:?}");
    world.sql("DROP TRIGGER refuse ON log").await;
    guard::look(app, corp).await.unwrap();
    let again = console.ask("p1", "wmC1").await;
    assert_eq!(again["allocation_id"], answered["allocation_id"]);
    assert_eq!(console.all("/allocations").await.len(), 1);
}

/// A closed corp refuses to close the allocation that lost; the batches after it are written all the same.
#[tokio::test]
async fn a_conflict_in_the_rest_of_the_log_does_not_end_it() {
    let (world, console) = quiet_world().await;
    let (app, corp) = (world.app(), world.corp_app());
    let held = console.ask("p1", "wmC0").await;
    guard::rebuild(app, corp).await.unwrap();
    let id = held["allocation_id"].as_str().unwrap();
    console
        .post(
            &format!("/allocations/{id}/close"),
            json!({"reason": "test"}),
        )
        .await
        .ok();
    guard::rebuild(app, corp).await.unwrap();
    // The ledger alone has it open.
    world
        .sql("UPDATE allocations SET closed_at = NULL, close_reason = NULL")
        .await;
    console.on(&["zhangsan"]).await;
    console.ask("p1", "wmC0").await;
    let page = 16 + 4;
    for n in 1..=page {
        console.ask("p1", &format!("wmC{n}")).await;
    }
    guard::rebuild(app, corp).await.unwrap();
    let rows = console.all("/allocations").await;
    assert_eq!(rows.len(), page + 2);
    assert_eq!(
        rows.iter()
            .filter(|row| row["close_reason"] == "conflict")
            .count(),
        1
    );
}

/// Several allocators find the corp closed: one rebuilds it, and nobody overtakes him.
#[tokio::test]
async fn one_of_several_rebuilds() {
    let world = World::with(3, Options::default()).await;
    let corps = world.app().ledger.corps();
    let before = corps.get(&world.corp).await.unwrap().unwrap();
    let key = format!("{{{}}}:v1:ready", world.corp);
    test_redis::shared().cli(&["DEL", &key]);
    let [a, b, c] = [0, 1, 2].map(|node| {
        let node = &world.nodes[node];
        guard::look(&node.app, node.corp())
    });
    let (a, b, c) = tokio::join!(a, b, c);
    assert!([&a, &b, &c].into_iter().any(|looked| looked.is_ok()));
    for looked in [a, b, c] {
        assert!(
            matches!(looked, Ok(_) | Err(guard::Error::Held)),
            "{looked:?}"
        );
    }
    let after = corps.get(&world.corp).await.unwrap().unwrap();
    assert_eq!(
        (after.generation, after.opened_generation),
        (before.generation + 1, before.generation + 1)
    );
    let corp = world.corp_app();
    let open = corp.roster.status().await.unwrap().generation;
    assert_eq!(open, Some(after.generation));
}
