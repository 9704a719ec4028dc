//! Dead letters, quotas, forgetting: what an operator mends.

use std::time::Duration;

use inbox::{Consumer, Group, NewDelivery};
use ledger::Role;
use serde_json::json;

use crate::{
    api_deliveries::{added, ended},
    api_support::{Options, World},
};

/// Case 109, the console's part: dead letters are seen, replayed and discarded.
#[tokio::test]
async fn dead_deliveries_are_replayed_and_discarded() {
    let config = "[inbox.stream]\nmax_tries = 1".to_owned();
    let world = World::with(
        1,
        Options {
            config,
            ..Options::default()
        },
    )
    .await;
    let console = world.operator().await;
    let (app, corp) = (world.app(), world.corp_app());
    let new: Vec<NewDelivery> = (0..5)
        .map(|n| NewDelivery::new("main", app.now_ms(), added(&format!("wmC{n}"), "x")))
        .collect();
    corp.inbox.append(&new).await.unwrap();
    let mut consumer = Consumer::new(
        corp.inbox.clone(),
        app.blocking().await.unwrap(),
        Group::Decide,
        "test".to_owned(),
    );
    let batch = consumer.next(100, Duration::from_secs(5)).await.unwrap();
    let entries: Vec<_> = batch.iter().map(|delivery| delivery.entry).collect();
    corp.inbox
        .fail(Group::Decide, &entries, "test", None)
        .await
        .unwrap();
    let letters = console.all("/dead-letters/inbox").await;
    assert_eq!(letters.len(), 5);
    assert!(letters[0].get("body").is_none());
    assert_eq!(
        (&letters[0]["group"], &letters[0]["reason"]),
        (&json!("decide"), &json!("test"))
    );
    let (first, next) = {
        let page = console.get("/dead-letters/inbox?limit=2").await.ok();
        (page["data"].clone(), page["page"]["next"].clone())
    };
    let second = console
        .get(&format!(
            "/dead-letters/inbox?limit=2&cursor={}",
            next.as_str().unwrap()
        ))
        .await
        .ok();
    let back = console
        .get(&format!(
            "/dead-letters/inbox?limit=2&cursor={}",
            second["page"]["prev"].as_str().unwrap()
        ))
        .await
        .ok();
    assert_eq!(back["data"], first);
    assert_ne!(second["data"], first);
    let id = |n: usize| letters[n]["id"].clone();
    let some = json!({"ids": [id(0), "1-1"]});
    assert_eq!(
        console
            .post("/dead-letters/inbox/replay?dry_run=true", some.clone())
            .await
            .ok(),
        json!({"matched": 1, "changed": 0})
    );
    assert_eq!(
        console
            .post("/dead-letters/inbox/replay", some.clone())
            .await
            .ok(),
        json!({"matched": 1, "changed": 1})
    );
    assert_eq!(
        console.post("/dead-letters/inbox/replay", some).await.ok(),
        json!({"matched": 0, "changed": 0})
    );
    let discard = json!({"ids": [id(1)], "reason": "test event"});
    assert_eq!(
        console
            .post("/dead-letters/inbox/discard", discard)
            .await
            .ok()["changed"],
        1
    );
    let all = console
        .post("/dead-letters/inbox/replay", json!({"all": true}))
        .await
        .ok();
    world.work().await;
    assert_eq!(ended(&console, &all).await["done"], 3);
    assert_eq!(console.all("/dead-letters/inbox").await.len(), 0);
    for (body, pointer) in [
        (json!({}), "/ids"),
        (json!({"ids": []}), "/ids"),
        (json!({"ids": ["x"]}), "/ids/0"),
        (json!({"ids": ["1-1"], "all": true}), "/ids"),
    ] {
        assert_eq!(
            console
                .post("/dead-letters/inbox/replay", body.clone())
                .await
                .pointers(),
            [pointer],
            "{body}"
        );
    }
    assert_eq!(
        console
            .post(
                "/dead-letters/inbox/discard",
                json!({"ids": ["1-1"], "reason": " "})
            )
            .await
            .pointers(),
        ["/reason"]
    );
    assert_eq!(
        console.all("/audit?entity=dead-letters/inbox").await.len(),
        3
    );
}

#[tokio::test]
async fn dead_effects_are_replayed_and_discarded() {
    let world = World::new().await;
    let console = world.operator().await;
    let insert = "INSERT INTO outbox (id, corp_id, kind, effect_key, payload, erase_payload, priority, state, due_at, created_at, settled_at)
        SELECT gen_random_uuid(), $1, CASE WHEN n = 1 THEN 'welcome' ELSE 'member_card' END, n::text,
            CASE WHEN n = 1 THEN '{}'::jsonb ELSE '{\"kind\":\"member_card\"}'::jsonb END, n = 1, 90, 'dead', now(), now(), now()
        FROM generate_series(1, 4) AS n";
    sqlx::query(insert)
        .bind(world.corp.as_str())
        .execute(&mut world.database.connect().await)
        .await
        .unwrap();
    let dead = console.all("/dead-letters/effects").await;
    assert_eq!(dead.len(), 4);
    assert_eq!(
        console
            .all("/dead-letters/effects?kind=welcome")
            .await
            .len(),
        1
    );
    let card = dead
        .iter()
        .find(|row| row["kind"] == "member_card")
        .unwrap()["id"]
        .clone();
    let some = json!({"ids": [card]});
    assert_eq!(
        console
            .post("/dead-letters/effects/replay?dry_run=true", some.clone())
            .await
            .ok(),
        json!({"matched": 1, "changed": 0})
    );
    assert_eq!(
        console
            .post("/dead-letters/effects/replay", some)
            .await
            .ok(),
        json!({"matched": 1, "changed": 1})
    );
    let all = console
        .post("/dead-letters/effects/replay", json!({"all": true}))
        .await
        .ok();
    world.work().await;
    let operation = ended(&console, &all).await;
    assert_eq!(
        (
            &operation["state"],
            &operation["done"],
            &operation["failed"]
        ),
        (&json!("done"), &json!(2), &json!(1))
    );
    assert_eq!(operation["first_errors"].as_array().unwrap().len(), 1);
    let left = console.all("/dead-letters/effects").await;
    assert_eq!(left[0]["kind"], "welcome");
    let discard = json!({"ids": [left[0]["id"]], "reason": "too late"});
    assert_eq!(
        console
            .post("/dead-letters/effects/discard", discard.clone())
            .await
            .ok()["changed"],
        1
    );
    assert_eq!(
        console
            .post("/dead-letters/effects/discard", discard)
            .await
            .ok()["changed"],
        0
    );
    assert_eq!(console.all("/dead-letters/effects").await.len(), 0);
}

#[tokio::test]
async fn quotas_are_shown_and_blocks_are_lifted() {
    let world = World::new().await;
    let console = world.operator().await;
    let (app, corp) = (world.app(), world.corp_app());
    let api = "externalcontact/mark_tag";
    let until_ms = app.now_ms() + 3_600_000;
    app.quota
        .block(
            corp.id.as_str(),
            api,
            i64::try_from(until_ms).unwrap(),
            None,
        )
        .await
        .unwrap();
    let block = ledger::BudgetBlock {
        api: api.to_owned(),
        scope: "corp".to_owned(),
        until_ms,
    };
    app.ledger
        .budget_blocks()
        .save(&corp.id, &[block])
        .await
        .unwrap();
    let quota = console.get("/quotas").await.ok()["data"][0].clone();
    assert_eq!(quota["api"], api);
    assert!(quota["blocked_until"].is_string());
    let lift = json!({"api": api, "note": "asked WeCom"});
    assert_eq!(
        console.post("/quotas/unblock", lift.clone()).await.ok()["changed"],
        true
    );
    assert_eq!(
        console.post("/quotas/unblock", lift).await.ok()["changed"],
        false
    );
    assert!(
        app.quota
            .blocks(corp.id.as_str(), None)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(
        app.ledger
            .budget_blocks()
            .load(&corp.id, app.now_ms())
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        console
            .post("/quotas/unblock", json!({"api": "a b"}))
            .await
            .pointers(),
        ["/api"]
    );
    let unknown = json!({"api": "externalcontact/mark_tags"});
    let refused = console.post("/quotas/unblock", unknown).await;
    assert_eq!(refused.pointers(), ["/api"]);
    assert_eq!(refused.json()["errors"][0]["code"], "unknown_api");
    let actions = console.get("/audit?action=quota.unblock").await.ok();
    assert_eq!(actions["data"].as_array().unwrap().len(), 2, "{actions}");
}

/// Redis lost the block, and a rebuild would bring it back from the ledger.
#[tokio::test]
async fn a_block_that_only_the_ledger_knows_is_lifted() {
    let world = World::new().await;
    let console = world.operator().await;
    let (app, corp) = (world.app(), world.corp_app());
    let block = ledger::BudgetBlock {
        api: "externalcontact/remark".to_owned(),
        scope: "corp".to_owned(),
        until_ms: app.now_ms() + 3_600_000,
    };
    let blocks = app.ledger.budget_blocks();
    blocks.save(&corp.id, &[block]).await.unwrap();
    let lift = json!({"api": "externalcontact/remark"});
    let lifted = console.post("/quotas/unblock", lift).await.ok();
    assert_eq!(lifted["changed"], true);
    let left = blocks.load(&corp.id, app.now_ms()).await.unwrap();
    assert!(left.is_empty());
}

/// Forgotten is forgotten: mapping, raw deliveries, effects, streams; what refers to him stays and means nobody.
#[tokio::test]
async fn a_customer_is_forgotten_everywhere() {
    let world = World::new().await;
    let console = world.operator().await;
    let admin = world.console(Role::Admin).await;
    world.pool(&console, "p1", &[("zhangsan", 1.0)]).await;
    console
        .put(
            "/channels/c1",
            json!({"name": "x", "pool": "p1", "states": ["ch_001"]}),
        )
        .await
        .ok();
    let ids = world
        .deliver(
            "main",
            &[added("wmGone", "ch_001"), added("wmStays", "ch_001")],
        )
        .await;
    let waiting = NewDelivery::new("main", world.app().now_ms(), added("wmGone", "again"));
    let inbox = &world.corp_app().inbox;
    inbox.append(&[waiting]).await.unwrap();
    // To be read again at WeCom: marked, being read, a second look, a hint at a transfer; and others, who stay.
    let (pair, hint) = ("zhangsan\u{1f}wmGone", "wmGone\u{1f}zhangsan");
    inbox.dirty_mark("pair", pair, 0).await.unwrap();
    inbox.dirty_take("pair", None, 10, 60_000).await.unwrap();
    for (kind, entity) in [
        ("pair", pair),
        ("pair_late", pair),
        ("transfer", hint),
        ("pair", "zhangsan\u{1f}wmGone2"),
        ("transfer", "wmStays\u{1f}zhangsan"),
    ] {
        inbox
            .dirty_mark(kind, entity, u64::MAX >> 12)
            .await
            .unwrap();
    }
    let forgotten = admin.delete("/customers/wmGone").await.ok();
    assert_eq!(
        (&forgotten["known"], &forgotten["deliveries"]),
        (&json!(true), &json!(1))
    );
    assert!(forgotten["stream_entries"].as_u64().unwrap() >= 1);
    assert_eq!(forgotten["marks"], 3);
    for (kind, waiting) in [("pair", 1), ("pair_late", 0), ("transfer", 1)] {
        let left = inbox.dirty_count(kind).await.unwrap();
        assert_eq!((left.waiting, left.taken), (waiting, 0), "{kind}");
    }
    assert_eq!(
        admin.get(&format!("/deliveries/{}", ids[0])).await.ok()["body"],
        ""
    );
    assert!(
        admin.get(&format!("/deliveries/{}", ids[1])).await.ok()["body"]
            .as_str()
            .unwrap()
            .contains("wmStays")
    );
    let rows = console.all("/allocations").await;
    assert_eq!(rows.len(), 2);
    assert!(
        rows.iter()
            .any(|row| row["customer"]["external_id"].is_null() && row["state"] == "closed")
    );
    assert_eq!(
        console
            .post(&format!("/deliveries/{}/replay", ids[0]), json!({}))
            .await
            .refused()
            .1,
        "scrubbed"
    );
    // Nowhere, in neither store.
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'")
        .fetch_all(&mut world.database.connect().await).await.unwrap();
    for table in tables {
        let sql = sqlx::AssertSqlSafe(format!(
            "SELECT count(*) FROM {table} AS t WHERE t::text LIKE '%wmGone%'"
        ));
        let n: i64 = sqlx::query_scalar(sql)
            .fetch_one(&mut world.database.connect().await)
            .await
            .unwrap();
        assert_eq!(n, 0, "{table}");
    }
    for stream in ["inbox", "inbox:dead", "log"] {
        let key = format!("{{{}}}:v1:{stream}", world.corp);
        let text = format!(
            "{:?}",
            test_redis::shared().cli(&["XRANGE", &key, "-", "+"])
        );
        assert!(!text.contains("wmGone"), "{stream}");
    }
    assert_eq!(
        admin.delete("/customers/wmGone").await.ok()["known"],
        false,
        "twice is once"
    );
    // He comes again, and is new.
    assert_eq!(console.ask("p1", "wmGone").await["decision"], "assigned");
}
