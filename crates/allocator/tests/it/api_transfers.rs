//! What people see of transfers, and the ends they give to those that WeCom told nothing about.

use allocator::api::work;
use ledger::{Role, Transfer, TransferState, TransferStep};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::api_support::{Console, World};

/// A world in which desk's customers are another's: the pool's members, one after the other.
async fn world() -> (World, Console) {
    let world = World::new().await;
    let console = world.operator().await;
    let members = [("lisi", 1.0), ("Zhangsan", 1.0)];
    world.pool(&console, "p1", &members).await;
    (world, console)
}

/// A customer whom desk has, and the transfer to the one who was chosen.
async fn on_the_way(world: &World, console: &Console, customer: &str) -> Transfer {
    let subject = json!({"kind": "wecom", "id": customer});
    let asked = json!({"subject": subject, "pool": "p1", "holder": "desk"});
    let decided = console.post("/allocations", asked).await.ok();
    world.written().await;
    let id = decided["allocation_id"].as_str().unwrap().parse().unwrap();
    let transfers = world.app().ledger.transfers();
    let mut of = transfers.of_allocations(&world.corp, &[id]).await.unwrap();
    assert_eq!(of.len(), 1);
    of.remove(0)
}

/// It was begun, or may have been, and for days nobody could say what became of it: its start is a dead letter.
async fn stuck(world: &World, console: &Console, customer: &str) -> String {
    let transfer = on_the_way(world, console, customer).await;
    let now_ms = world.app().now_ms();
    let mut step = TransferStep::new(transfer.id, TransferState::Unknown);
    step.started_ms = Some(now_ms);
    let transfers = world.app().ledger.transfers();
    transfers.advance(&[step], now_ms).await.unwrap();
    step.to = TransferState::Human;
    step.next_check_ms = Some(now_ms + 1_000);
    transfers.advance(&[step], now_ms).await.unwrap();
    let dead =
        "UPDATE outbox SET state = 'dead', settled_at = now(), tries = 5 WHERE transfer_id = $1";
    sqlx::query(dead)
        .bind(transfer.id)
        .execute(&mut world.database.connect().await)
        .await
        .unwrap();
    transfer.id.to_string()
}

async fn allocation_of(world: &World, console: &Console, transfer: &str) -> Value {
    world.written().await;
    let transfer = console.get(&format!("/transfers/{transfer}")).await.ok();
    let id = transfer["allocation_id"].as_str().unwrap();
    console.get(&format!("/allocations/{id}")).await.ok()
}

#[tokio::test]
async fn transfers_are_listed_and_shown() {
    let (world, console) = world().await;
    let first = on_the_way(&world, &console, "wmOne").await;
    let second = stuck(&world, &console, "wmTwo").await;
    on_the_way(&world, &console, "wmThree").await;
    let ids = |rows: &[Value]| -> Vec<String> {
        let ids = rows.iter().map(|row| row["id"].as_str().unwrap());
        ids.map(str::to_owned).collect()
    };
    let all = ids(&console.all("/transfers").await);
    assert_eq!(
        (all.len(), &all[1], &all[2]),
        (3, &second, &first.id.to_string())
    );

    let page = console.get("/transfers?limit=2").await.ok();
    assert_eq!(ids(page["data"].as_array().unwrap()), all[..2]);
    let next = page["page"]["next"].as_str().unwrap();
    let page = console
        .get(&format!("/transfers?limit=2&cursor={next}"))
        .await
        .ok();
    assert_eq!(ids(page["data"].as_array().unwrap()), all[2..]);
    let back = page["page"]["prev"].as_str().unwrap();
    let page = console
        .get(&format!("/transfers?limit=2&cursor={back}"))
        .await
        .ok();
    assert_eq!(ids(page["data"].as_array().unwrap()), all[..2]);

    for (filter, count) in [
        ("state=human", 1),
        ("state=planned", 2),
        ("state=done", 0),
        ("member=desk", 3),
        ("member=lisi", 2),
        ("member=ZHANGSAN", 1),
        ("member=nobody", 0),
        ("external_userid=wmTwo&state=human", 1),
        ("external_userid=wmTwo&state=planned", 0),
    ] {
        let rows = console.all(&format!("/transfers?{filter}")).await;
        assert_eq!(rows.len(), count, "{filter}");
    }
    assert_eq!(console.get("/transfers?state=odd").await.status, 422);
    assert_eq!(
        console.get("/transfers?cursor=00").await.pointers(),
        ["query:cursor"]
    );

    let shown = console.get(&format!("/transfers/{second}")).await.ok();
    assert_eq!(
        (
            &shown["giver"],
            &shown["taker"],
            &shown["state"],
            &shown["kind"]
        ),
        (
            &json!("desk"),
            &json!("Zhangsan"),
            &json!("human"),
            &json!("in_service")
        )
    );
    assert_eq!(shown["customer"]["external_id"], "wmTwo");
    assert!(shown["started_at"].is_string() && shown["ended_at"].is_null());
    // Who only looks need not know who it is, and ends nothing.
    let viewer = world.console(Role::Viewer).await;
    let shown = viewer.get(&format!("/transfers/{second}")).await.ok();
    assert!(shown["customer"]["external_id"].is_null());
    let path = format!("/transfers/{second}/resolve");
    assert_eq!(
        viewer.post(&path, json!({"found": "done"})).await.status,
        403
    );
    for path in [
        "/transfers/odd".to_owned(),
        format!("/transfers/{}", Uuid::nil()),
    ] {
        assert_eq!(console.get(&path).await.refused().1, "not_found");
    }
}

#[tokio::test]
async fn a_person_says_what_became_of_it() {
    let (world, console) = world().await;
    let ends = [
        ("wmDone", "done", "done", "done"),
        ("wmKept", "kept", "failed", "kept"),
    ];
    for (customer, found, state, settled) in ends {
        let id = stuck(&world, &console, customer).await;
        let path = format!("/transfers/{id}/resolve");
        let wanted = json!({"found": found, "note": "looked into WeCom"});
        let first = console.post(&path, wanted.clone()).await.ok();
        assert_eq!(
            (&first["changed"], &first["transfer"]["state"]),
            (&json!(true), &json!(state))
        );
        assert!(first["transfer"]["ended_at"].is_string());
        let allocation = allocation_of(&world, &console, &id).await;
        assert_eq!(allocation["settled_as"], settled);
        let taker = &first["transfer"]["taker"];
        let has_him = if found == "done" {
            taker
        } else {
            &json!("desk")
        };
        assert_eq!(&allocation["member"], has_him);
        // Twice is once; another end is none.
        let again = console.post(&path, wanted).await.ok();
        assert_eq!(
            (&again["changed"], &again["transfer"]),
            (&json!(false), &first["transfer"])
        );
        let other = if found == "done" { "kept" } else { "retry" };
        let other = console.post(&path, json!({"found": other})).await;
        assert_eq!(other.refused(), (409, "not_stuck".to_owned()));
        assert_eq!(other.json()["current"]["state"], state);
        let audit = console.all(&format!("/audit?entity=transfers/{id}")).await;
        assert_eq!(audit.len(), 1);
        assert_eq!(
            (
                &audit[0]["action"],
                &audit[0]["reason"],
                &audit[0]["after"]["found"]
            ),
            (
                &json!("transfer.resolve"),
                &json!("looked into WeCom"),
                &json!(found)
            )
        );
    }
    assert!(console.all("/dead-letters/effects").await.is_empty());
    world.check().await;

    // What goes on by itself is nobody's turn.
    let id = on_the_way(&world, &console, "wmGoesOn").await.id;
    let path = format!("/transfers/{id}/resolve");
    let refused = console.post(&path, json!({"found": "done"})).await;
    assert_eq!(refused.refused(), (409, "not_stuck".to_owned()));
    assert_eq!(
        console.post(&path, json!({"found": "lost"})).await.status,
        422
    );
    assert_eq!(
        console
            .post(
                &format!("/transfers/{}/resolve", Uuid::nil()),
                json!({"found": "done"})
            )
            .await
            .status,
        404
    );
}

#[tokio::test]
async fn a_person_has_it_asked_for_once_more() {
    let (world, console) = world().await;
    let id = stuck(&world, &console, "wmAgain").await;
    let path = format!("/transfers/{id}/resolve");
    let wanted = json!({"found": "retry"});
    let first = console.post_once(&path, "once", wanted.clone()).await.ok();
    assert_eq!(
        (&first["changed"], &first["transfer"]["state"]),
        (&json!(true), &json!("planned"))
    );
    // It was no move, and its start is due.
    assert!(first["transfer"]["started_at"].is_null());
    let start: (String, i32, bool) = sqlx::query_as(
        "SELECT state, tries, due_at <= now() AND unknown_since IS NULL FROM outbox WHERE transfer_id = $1",
    )
    .bind(id.parse::<Uuid>().unwrap())
    .fetch_one(&mut world.database.connect().await)
    .await
    .unwrap();
    assert_eq!(start, ("pending".to_owned(), 0, true));
    let replayed = console.post_once(&path, "once", wanted.clone()).await;
    assert_eq!(replayed.header("idempotent-replayed"), "true");
    assert_eq!(
        console.post(&path, wanted.clone()).await.ok()["changed"],
        false
    );

    // Whose allocation is over needs no transfer.
    let over = stuck(&world, &console, "wmOver").await;
    let allocation = allocation_of(&world, &console, &over).await;
    let close = format!("/allocations/{}/close", allocation["id"].as_str().unwrap());
    console.post(&close, json!({})).await.ok();
    world.written().await;
    let refused = console
        .post(&format!("/transfers/{over}/resolve"), wanted)
        .await;
    assert_eq!(refused.refused(), (409, "no_use".to_owned()));
    let shown = console.get(&format!("/transfers/{over}")).await.ok();
    assert_eq!(shown["state"], "human");
}

/// The start of a transfer would be cancelled, or would be a second one: replaying it says so and does nothing.
#[tokio::test]
async fn the_dead_start_of_a_transfer_is_not_replayed() {
    let (world, console) = world().await;
    let transfer = stuck(&world, &console, "wmDead").await;
    let dead = console.all("/dead-letters/effects").await;
    assert_eq!((dead.len(), &dead[0]["transfer_id"]), (1, &json!(transfer)));
    let some = json!({"ids": [dead[0]["id"]]});
    for path in [
        "/dead-letters/effects/replay",
        "/dead-letters/effects/replay?dry_run=true",
    ] {
        assert_eq!(
            console.post(path, some.clone()).await.pointers(),
            ["/ids/0"]
        );
    }
    let all = json!({"all": true});
    let all = console.post("/dead-letters/effects/replay", all).await.ok();
    while work::turn(world.app(), world.corp_app(), &CancellationToken::new())
        .await
        .unwrap()
    {}
    let operation = format!("/operations/{}", all["id"].as_str().unwrap());
    let ended = console.get(&operation).await.ok();
    assert_eq!((&ended["done"], &ended["failed"]), (&json!(0), &json!(1)));
    let problem = ended["first_errors"][0]["problem"].as_str().unwrap();
    assert!(problem.contains(&transfer), "{problem}");
    assert_eq!(console.all("/dead-letters/effects").await, dead);
}
