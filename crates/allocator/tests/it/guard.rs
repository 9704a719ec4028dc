//! Rebuilds: what Redis still has reaches the ledger first.

use allocation::{
    ChatId, ConfirmSeats, FillStrategy, GroupPoolId, GroupTags, JoinedPerson, PersonKey,
    ReserveSeat, Reserved, SeatId, SetGroup, SetGroupPool, SubjectKey,
};
use allocator::guard::{self, Wanted};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::api_support::{Console, Options, World};

/// A pool, and nobody who writes the log: only a rebuild does.
async fn quiet_world() -> (World, Console) {
    let options = Options {
        config: "[roster]\nwriter_batch = 1".to_owned(),
        ..Options::default()
    };
    let mut world = World::with(1, options).await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("zhangsan", 1.0)]).await;
    world.written().await;
    world.end_writer().await;
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
    let refused = guard::rebuild(app, corp, Wanted::default()).await;
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
    guard::rebuild(app, corp, Wanted::default()).await.unwrap();
    let id = held["allocation_id"].as_str().unwrap();
    console
        .post(
            &format!("/allocations/{id}/close"),
            json!({"reason": "test"}),
        )
        .await
        .ok();
    guard::rebuild(app, corp, Wanted::default()).await.unwrap();
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
    guard::rebuild(app, corp, Wanted::default()).await.unwrap();
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

/// Somebody has a customer, somebody waits, one was moved; and nobody writes the log.
async fn peopled_world() -> (World, Console) {
    let (world, console) = quiet_world().await;
    let cap = console.put("/members/zhangsan", json!({"cap": 2})).await;
    cap.ok();
    for customer in ["wmC1", "wmC2", "wmC3", "wmC4"] {
        console.ask("p1", customer).await;
    }
    guard::rebuild(world.app(), world.corp_app(), Wanted::default())
        .await
        .unwrap();
    console.on(&["zhangsan"]).await;
    (world, console)
}

impl World {
    /// Redis and ledger agree, and whoever waits is served in the order of arrival.
    async fn goes_on(&self, console: &Console, before: &[Value]) {
        console.on(&["zhangsan"]).await;
        let state = |row: &Value| {
            (
                row["id"].clone(),
                row["state"].clone(),
                row["member"].clone(),
            )
        };
        let rows = console.all("/allocations").await;
        let same = rows.iter().map(state).eq(before.iter().map(state));
        assert!(same, "{rows:?}\n{before:?}");
        let of = |customer: usize| before[before.len() - customer]["id"].as_str().unwrap();
        let close = format!("/allocations/{}/close", of(1));
        console.post(&close, json!({"reason": "test"})).await.ok();
        guard::rebuild(self.app(), self.corp_app(), Wanted::default())
            .await
            .unwrap();
        let third = console.get(&format!("/allocations/{}", of(3))).await.ok();
        let fourth = console.get(&format!("/allocations/{}", of(4))).await.ok();
        assert_eq!(third["state"], "open", "{third}");
        assert_eq!(fourth["state"], "waiting", "{fourth}");
        let (app, corp) = (self.app(), self.corp_app());
        let load = app.ledger.allocations().open_by_member(&corp.id).await;
        let load = load.unwrap();
        let views = corp.roster.members(&[load[0].0.clone()]).await.unwrap();
        assert_eq!((load[0].1, views[0].load, views[0].cap), (2, 2, Some(2)));
    }
}

/// A log that cannot be folded, wherever it is damaged, keeps no corp closed: the ledger's rows say who has whom, and the
/// fold after that begins with what they gave.
#[tokio::test]
async fn a_log_that_cannot_be_folded_gives_way_to_the_rows() {
    for damage in [
        "UPDATE log SET op = 'decide.99' WHERE op = 'decide.1'",
        "UPDATE log SET result = '0' WHERE op = 'presence.1'",
        "DELETE FROM log WHERE seq = 4",
        "DELETE FROM log WHERE seq > (SELECT log_seq - 2 FROM corps)",
        "INSERT INTO snapshots (corp_id, seq, dump) SELECT corp_id, log_seq, 'x' FROM corps",
    ] {
        let (world, console) = peopled_world().await;
        let (app, corp) = (world.app(), world.corp_app());
        let before = console.all("/allocations").await;
        assert_eq!(before.len(), 4);
        world.sql(damage).await;
        guard::rebuild(app, corp, Wanted::default())
            .await
            .unwrap_or_else(|error| panic!("{damage}: {error}"));
        let snapshot = app.ledger.corps().latest_snapshot(&corp.id).await;
        let snapshot = snapshot.unwrap();
        assert!(snapshot.is_some(), "{damage}");
        world.goes_on(&console, &before).await;
        let after = app.ledger.corps().latest_snapshot(&corp.id).await;
        assert_eq!(after.unwrap(), snapshot, "{damage}");
    }
}

/// A person may want it so.
#[tokio::test]
async fn a_state_is_made_of_rows_when_asked_for() {
    let (world, console) = peopled_world().await;
    let before = console.all("/allocations").await;
    let wanted = Wanted {
        from_rows: true,
        ..Wanted::default()
    };
    guard::rebuild(world.app(), world.corp_app(), wanted)
        .await
        .unwrap();
    world.goes_on(&console, &before).await;
}

/// What the ledger's log has of seats is enough to write them anew.
#[tokio::test]
async fn seats_outlive_a_rebuild() {
    let (world, _) = quiet_world().await;
    let (app, corp) = (world.app(), world.corp_app());
    let roster = &corp.roster;
    let pool: GroupPoolId = "g".parse().unwrap();
    let chat: ChatId = "wr1".parse().unwrap();
    let set = SetGroupPool {
        pool: pool.clone(),
        version: 1,
        strategy: FillStrategy::Spread,
    };
    roster.set_group_pool(set, "", None).await.unwrap();
    let group = SetGroup::new(chat.clone(), 1, pool.clone(), 2, 0).unwrap();
    roster.set_group(group, "", None).await.unwrap();
    let person = |name: &str| JoinedPerson {
        person: PersonKey::customer(&corp.id, name),
        identified: true,
        doubted: false,
        scanned: true,
        state: None,
        names: Vec::new(),
    };
    let read = ConfirmSeats {
        chat: chat.clone(),
        from: None,
        version: "v1".parse().unwrap(),
        force: false,
        left: Vec::new(),
        joined: vec![person("wmC1")],
    };
    roster.confirm_seats(read, "", None).await.unwrap();
    let asked = ["v1", "v2"].map(|visitor| ReserveSeat {
        seat: SeatId(Uuid::now_v7()),
        campaign: "spring".parse().unwrap(),
        pool: pool.clone(),
        subject: SubjectKey::new(&corp.id, "visitor", visitor),
        anonymous: true,
        via: Some("inv1".parse().unwrap()),
        tags: GroupTags::any(),
        hold_ms: 600_000,
        wait_ms: 600_000,
    });
    let first = roster
        .reserve_seats(asked.to_vec(), "", None)
        .await
        .unwrap();
    let seats = async || {
        let mut dump = roster.dump().await.unwrap();
        let of_seats = ["g", "people:", "seat:"];
        dump.keys
            .retain(|key, _| of_seats.iter().any(|family| key.starts_with(family)));
        dump
    };
    let before = seats().await;
    assert!(before.keys.len() > 10);
    test_redis::shared().cli(&["DEL", &format!("{{{}}}:v1:people:wr1", world.corp)]);
    guard::rebuild(app, corp, Wanted::default()).await.unwrap();
    assert_eq!(seats().await, before);
    let again = roster
        .reserve_seats(asked.to_vec(), "", None)
        .await
        .unwrap();
    let Reserved::Held {
        seat,
        chat,
        until_ms,
    } = first.answer[0].clone()
    else {
        panic!("{first:?}")
    };
    let held = Reserved::Again {
        seat,
        chat,
        until_ms,
    };
    assert_eq!(again.answer[0], held);
    assert!(matches!(
        again.answer[1],
        Reserved::Waiting {
            position: 1,
            again: true,
            ..
        }
    ));
}
