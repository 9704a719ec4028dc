//! Offers through the API: what a member is asked, what he and others may say, and what follows from it.

use futures_util::future::join_all;
use ledger::Role;
use serde_json::{Value, json};

use crate::api_support::{Console, Options, World};

fn pool(members: &[&str], tries: u32) -> Value {
    let members = members.iter();
    let members: Vec<Value> = members
        .map(|member| json!({"member": member, "weight": 1}))
        .collect();
    json!({"name": "p1", "members": members, "offers": {"accept_seconds": 60, "tries": tries}})
}

/// Members that are on, in a pool that asks them.
async fn asking(n_nodes: usize, members: &[&str], tries: u32) -> (World, Console) {
    let world = World::with(n_nodes, Options::default()).await;
    let console = world.operator().await;
    let places: Vec<_> = members.iter().map(|member| (*member, 1.0)).collect();
    world.pool(&console, "p1", &places).await;
    console.put("/pools/p1", pool(members, tries)).await.ok();
    (world, console)
}

/// A customer of WeCom's, whom mH has.
async fn ask(console: &Console, customer: &str) -> Value {
    console.put("/members/mH", json!({})).await.ok();
    let subject = json!({"kind": "wecom", "id": customer});
    let body = json!({"subject": subject, "pool": "p1", "holder": "mH"});
    console.post("/allocations", body).await.ok()
}

fn path(asked: &Value, what: &str) -> String {
    format!(
        "/allocations/{}{what}",
        asked["allocation_id"].as_str().unwrap()
    )
}

async fn effects(world: &World) -> Vec<String> {
    world.written().await;
    sqlx::query_scalar(
        "SELECT kind || ' ' || coalesce(payload->>'accept_seconds', '') FROM outbox ORDER BY 1",
    )
    .fetch_all(world.app().ledger.pool())
    .await
    .unwrap()
}

async fn transfers(world: &World) -> Vec<(String, String)> {
    world.written().await;
    sqlx::query_as("SELECT giver, taker FROM transfers")
        .fetch_all(world.app().ledger.pool())
        .await
        .unwrap()
}

#[tokio::test]
async fn who_accepts_gets_the_customer_and_nothing_happens_before() {
    let (world, console) = asking(1, &["mA", "mB"], 3).await;
    let asked = ask(&console, "wmC001").await;
    assert_eq!(
        (&asked["decision"], &asked["member"]),
        (&json!("offered"), &json!("mA"))
    );
    assert_eq!(effects(&world).await, ["member_card 60"]);
    assert!(transfers(&world).await.is_empty());
    let row = console.get(&path(&asked, "")).await.ok();
    assert_eq!(
        (&row["state"], &row["member"], &row["giver"]),
        (&json!("offered"), &json!("mA"), &json!("mH"))
    );
    assert!(row["offered_until"].is_string() && row["assigned_at"].is_null());

    let own = world.member_key("mA").await;
    let offers = own.all("/offers?state=open").await;
    assert_eq!(offers.len(), 1);
    assert_eq!(offers[0]["allocation_id"], asked["allocation_id"]);
    let epoch = json!({"epoch": offers[0]["epoch"]});
    let accepted = own.post(&path(&asked, "/accept"), epoch.clone()).await.ok();
    let expected = json!({"allocation_id": asked["allocation_id"], "member": "mA", "epoch": 0,
        "state": "accepted"});
    assert_eq!(accepted, expected);
    assert_eq!(
        effects(&world).await,
        ["member_card ", "member_card 60", "transfer "]
    );
    let moves = [("mh".to_owned(), "ma".to_owned())];
    assert_eq!(transfers(&world).await, moves);

    // Twice is once, also by an operator.
    let again = own.post(&path(&asked, "/accept"), epoch).await.ok();
    assert_eq!(again, expected);
    let named = json!({"member": "MA", "epoch": 0});
    let again = console.post(&path(&asked, "/accept"), named).await.ok();
    assert_eq!(again, expected);
    assert_eq!(effects(&world).await.len(), 3);
    assert_eq!(transfers(&world).await, moves);
    let row = console.get(&path(&asked, "")).await.ok();
    assert_eq!(
        (&row["state"], &row["offered_until"]),
        (&json!("open"), &json!(null))
    );
    assert!(row["assigned_at"].is_string() && row["settled_at"].is_null());
    let offers = console.all("/offers").await;
    assert_eq!(offers[0]["state"], "accepted");
    assert!(
        offers[0]["responded_by"]
            .as_str()
            .unwrap()
            .starts_with("key:")
    );
    let entries = console.all("/audit?action=offer.accept").await;
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0]["after"]["member"], "mA");
    // What was accepted is declined no more.
    let late = json!({"member": "mA", "epoch": 0});
    let late = console.post(&path(&asked, "/decline"), late).await;
    assert_eq!(late.refused(), (409, "not_offered".to_owned()));
    world.check().await;
}

/// Without a member who has him there is nothing to carry out.
#[tokio::test]
async fn a_customer_whom_nobody_has_is_settled_when_he_is_accepted() {
    let (world, console) = asking(1, &["mA"], 1).await;
    let asked = console.ask("p1", "wmC001").await;
    world.written().await;
    let row = console.get(&path(&asked, "")).await.ok();
    assert!(row["settled_at"].is_null());
    let said = json!({"member": "mA", "epoch": 0});
    console.post(&path(&asked, "/accept"), said).await.ok();
    world.written().await;
    let row = console.get(&path(&asked, "")).await.ok();
    assert_eq!(
        (&row["settled_as"], &row["state"]),
        (&json!("done"), &json!("open"))
    );
    world.check().await;
}

#[tokio::test]
async fn who_declines_hands_on_and_a_person_decides_at_last() {
    let (world, console) = asking(1, &["mA", "mB", "mC"], 2).await;
    let asked = ask(&console, "wmC001").await;
    let decline = path(&asked, "/decline");
    let own = world.member_key("mA").await;
    let busy = json!({"epoch": 0, "reason": "busy", "note": "at lunch"});
    let declined = own.post(&decline, busy.clone()).await.ok();
    assert_eq!(declined["state"], "declined");
    assert_eq!(own.post(&decline, busy).await.ok(), declined, "once more");
    world.written().await;
    let row = console.get(&path(&asked, "")).await.ok();
    assert_eq!(
        (&row["state"], &row["member"], &row["epoch"]),
        (&json!("offered"), &json!("mB"), &json!(1))
    );
    // Two are asked; nobody is left.
    let second = json!({"member": "mB", "epoch": 1});
    console.post(&decline, second).await.ok();
    world.written().await;
    let queue = console.all("/allocations?state=undecided").await;
    assert_eq!(queue.len(), 1);
    assert_eq!(
        (&queue[0]["id"], &queue[0]["member"], &queue[0]["epoch"]),
        (&asked["allocation_id"], &json!(null), &json!(2))
    );
    assert!(console.all("/allocations?state=waiting").await.is_empty());
    let offers = console.all("/offers").await;
    let ends: Vec<_> = offers
        .iter()
        .map(|offer| (&offer["member"], &offer["state"], &offer["reason"]))
        .collect();
    assert_eq!(
        ends,
        [
            (&json!("mB"), &json!("declined"), &json!("declined")),
            (&json!("mA"), &json!("declined"), &json!("busy"))
        ]
    );
    assert!(transfers(&world).await.is_empty());
    let entries = console.all("/audit?action=offer.decline").await;
    assert_eq!(entries[1]["reason"], "at lunch");

    // The person gives him to somebody, who is not asked.
    let to = json!({"to": "mA", "expect_epoch": queue[0]["epoch"]});
    let given = console.post(&path(&asked, "/reassign"), to).await.ok();
    assert_eq!(
        (&given["member"], &given["epoch"]),
        (&json!("mA"), &json!(3))
    );
    assert_eq!(
        transfers(&world).await,
        [("mh".to_owned(), "ma".to_owned())]
    );
    assert!(console.all("/allocations?state=undecided").await.is_empty());
    world.check().await;
}

#[tokio::test]
async fn a_person_may_take_an_offer_away_or_close_it() {
    let (world, console) = asking(1, &["mA", "mB"], 3).await;
    let (first, second) = (ask(&console, "wmC001").await, ask(&console, "wmC002").await);
    let to = json!({"to": "mB", "expect_epoch": 0});
    console.post(&path(&first, "/reassign"), to).await.ok();
    console.post(&path(&second, "/close"), json!({})).await.ok();
    world.written().await;
    let offers = console.all("/offers").await;
    let states: Vec<_> = offers.iter().map(|offer| &offer["state"]).collect();
    assert_eq!(states, ["closed", "reassigned"]);
    let own = world.member_key("mA").await;
    let late = own
        .post(&path(&first, "/accept"), json!({"epoch": 0}))
        .await;
    assert_eq!(late.refused(), (409, "offer_moved".to_owned()));
    let said = json!({"member": "mB", "epoch": 0});
    let late = console.post(&path(&second, "/accept"), said).await;
    assert_eq!(late.refused(), (409, "not_open".to_owned()));
    world.check().await;
}

/// Who goes is not asked any more. Operators learn who is, members do not.
#[tokio::test]
async fn who_comes_too_late_is_told_so() {
    let (world, console) = asking(1, &["mA", "mB"], 3).await;
    let asked = ask(&console, "wmC001").await;
    let own = world.member_key("mA").await;
    own.delete("/presence/mA").await;
    let late = own
        .post(&path(&asked, "/accept"), json!({"epoch": 0}))
        .await;
    assert_eq!(late.refused(), (409, "offer_over".to_owned()));
    assert!(late.json()["current"].is_null(), "{}", late.text);
    assert!(!late.text.contains("mB"), "{}", late.text);
    // It is mB's now.
    let late = own
        .post(&path(&asked, "/accept"), json!({"epoch": 0}))
        .await;
    assert_eq!(late.refused(), (409, "offer_moved".to_owned()));
    assert!(late.json()["current"].is_null());
    let stale = json!({"member": "mA", "epoch": 1});
    let stale = console.post(&path(&asked, "/accept"), stale).await;
    assert_eq!(stale.refused(), (409, "offer_moved".to_owned()));
    let current = json!({"member": "mB", "epoch": 1});
    assert_eq!(stale.json()["current"], current);
    let stale = json!({"member": "mB", "epoch": 0});
    let stale = console.post(&path(&asked, "/decline"), stale).await;
    assert_eq!(stale.refused(), (409, "offer_moved".to_owned()));
    world.written().await;
    let offers = console.all("/offers?member=MA").await;
    assert_eq!(offers[0]["state"], "offline");
    assert!(transfers(&world).await.is_empty());
    world.check().await;
}

#[tokio::test]
async fn a_members_key_is_for_his_own_offers() {
    let (world, console) = asking(1, &["mA", "mB"], 3).await;
    let asked = ask(&console, "wmC001").await;
    let (accept, decline) = (path(&asked, "/accept"), path(&asked, "/decline"));
    let other = world.member_key("mB").await;
    let viewer = world.console(Role::Viewer).await;
    for answer in [
        other.post(&accept, json!({"epoch": 0})).await,
        other.post(&decline, json!({"epoch": 0})).await,
        other
            .post(&accept, json!({"member": "mA", "epoch": 0}))
            .await,
        other.get("/offers?member=mA").await,
        viewer
            .post(&accept, json!({"member": "mA", "epoch": 0}))
            .await,
    ] {
        assert_eq!(answer.refused(), (403, "forbidden".to_owned()));
    }
    world.written().await;
    assert!(other.all("/offers").await.is_empty());
    assert_eq!(viewer.all("/offers").await.len(), 1);
    let row = console.get(&path(&asked, "")).await.ok();
    assert_eq!(row["state"], "offered", "nothing changed");
}

/// Case 133.
#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let (world, console) = asking(1, &["mA"], 3).await;
    let asked = ask(&console, "wmC001").await;
    let accept = path(&asked, "/accept");
    let decline = path(&asked, "/decline");
    for (at, body, pointer) in [
        (&accept, json!({"epoch": 0}), "/member"),
        (&accept, json!({"member": "", "epoch": 0}), "/member"),
        (&accept, json!({"member": "mA"}), "/epoch"),
        (&accept, json!({"member": "mA", "epoch": -1}), "/epoch"),
        (&accept, json!({"member": "mA", "epoch": "0"}), "/epoch"),
        (&accept, json!({"member": "mA", "epoch": 0, "x": 1}), "/x"),
        (
            &decline,
            json!({"member": "mA", "epoch": 0, "reason": "no!"}),
            "/reason",
        ),
        (
            &decline,
            json!({"member": "mA", "epoch": 0, "note": "x".repeat(501)}),
            "/note",
        ),
    ] {
        let answer = console.post(at, body.clone()).await;
        assert_eq!(answer.pointers(), [pointer], "{body}");
    }
    for query in ["state=gone", "member=%20", "allocation=7", "pool=%20"] {
        let answer = console.get(&format!("/offers?{query}")).await;
        assert_eq!(answer.status, 422, "{query}: {}", answer.text);
    }
    let nobody = "/allocations/01920000-0000-7000-8000-000000000001/accept";
    let said = json!({"member": "mA", "epoch": 0});
    assert_eq!(console.post(nobody, said).await.refused().0, 404);
    for (offers, pointer) in [
        (
            json!({"accept_seconds": 4, "tries": 3}),
            "/offers/accept_seconds",
        ),
        (
            json!({"accept_seconds": 86_401, "tries": 3}),
            "/offers/accept_seconds",
        ),
        (json!({"accept_seconds": 60, "tries": 0}), "/offers/tries"),
        (json!({"accept_seconds": 60, "tries": 21}), "/offers/tries"),
        (json!({"accept_seconds": 60}), "/offers/tries"),
        (
            json!({"accept_seconds": 1.5, "tries": 1}),
            "/offers/accept_seconds",
        ),
        (
            json!({"accept_seconds": 60, "tries": 1, "x": 1}),
            "/offers/x",
        ),
        (json!(true), "/offers"),
    ] {
        let mut body = pool(&["mA"], 3);
        body["offers"] = offers.clone();
        let answer = console.put("/pools/p1", body).await;
        assert_eq!(answer.pointers(), [pointer], "{offers}");
    }
    world.check().await;
}

#[tokio::test]
async fn a_pool_says_how_it_asks() {
    let (world, console) = asking(1, &["mA"], 3).await;
    let rule = json!({"accept_seconds": 60, "tries": 3});
    let shown = console.get("/pools/p1").await.ok();
    assert_eq!((&shown["offers"], &shown["version"]), (&rule, &json!(2)));
    console.put("/pools/p1", pool(&["mA"], 3)).await.ok();
    let same = console.get("/pools/p1").await.ok();
    assert_eq!(same["version"], 2, "nothing changed");
    let asked = console.ask("p1", "wmC001").await;
    assert_eq!(asked["decision"], "offered");

    // Null, or left out: nobody is asked any more. Who was asked before still is.
    let mut body = pool(&["mA"], 3);
    body["offers"] = Value::Null;
    let shown = console.put("/pools/p1", body).await.ok();
    assert_eq!(
        (&shown["offers"], &shown["version"]),
        (&Value::Null, &json!(3))
    );
    assert_eq!(console.ask("p1", "wmC002").await["decision"], "assigned");
    let said = json!({"member": "mA", "epoch": 0});
    console.post(&path(&asked, "/accept"), said).await.ok();
    let entries = console.all("/audit?action=pool.put").await;
    assert_eq!(
        (
            &entries[0]["before"]["offers"],
            &entries[0]["after"]["offers"]
        ),
        (&rule, &Value::Null)
    );
    world.check().await;
}

/// A public page shows a member at once. Refused in whichever order the two are put.
#[tokio::test]
async fn a_public_page_and_offers_exclude_each_other() {
    let (world, console) = asking(1, &["mA"], 3).await;
    let channel =
        |visits: Value| json!({"name": "x", "pool": "p1", "states": [], "visits": visits});
    let page = json!({"slots_per_member": 1, "hold_seconds": 60});
    let refused = console.put("/channels/c1", channel(page.clone())).await;
    assert_eq!(refused.pointers(), ["/visits"]);
    assert_eq!(refused.json()["errors"][0]["code"], "pool_offers");
    console.put("/channels/c1", channel(Value::Null)).await.ok();
    let mut plain = pool(&["mA"], 3);
    plain["offers"] = Value::Null;
    console.put("/pools/p1", plain).await.ok();
    console.put("/channels/c1", channel(page)).await.ok();
    let refused = console.put("/pools/p1", pool(&["mA"], 3)).await;
    assert_eq!(refused.pointers(), ["/offers"]);
    assert_eq!(refused.json()["errors"][0]["code"], "channel_has_visits");
    assert_eq!(refused.json()["current"], json!({"channels": ["c1"]}));
    world.check().await;
}

/// Case 126.
#[tokio::test]
async fn a_key_makes_an_answer_once() {
    let (world, console) = asking(1, &["mA", "mB"], 3).await;
    let asked = ask(&console, "wmC001").await;
    let decline = path(&asked, "/decline");
    let body = json!({"member": "mA", "epoch": 0, "reason": "busy"});
    let first = console.post_once(&decline, "k1", body.clone()).await;
    let again = console.post_once(&decline, "k1", body).await;
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(first.ok(), again.ok());
    let other = json!({"member": "mA", "epoch": 1});
    let other = console.post_once(&decline, "k1", other).await;
    assert_eq!(other.refused(), (422, "idempotency_key_reused".to_owned()));
    world.check().await;
}

/// Cases 73 and 132: two allocators hear acceptances and a refusal of each offer at once. One side wins each time, and what follows is
/// done once.
#[tokio::test]
async fn of_answers_at_once_one_counts() {
    let (world, console) = asking(2, &["mA", "mB"], 3).await;
    let key = console.key.clone().unwrap();
    let mut customers = Vec::new();
    for n in 0..30 {
        customers.push(ask(&console, &format!("wmC{n:03}")).await);
    }
    world.written().await;
    let rounds = customers.into_iter().enumerate().map(|(round, asked)| {
        let (key, world) = (key.clone(), &world);
        async move {
            let member = asked["member"].clone();
            let said = json!({"member": member, "epoch": 0});
            let says = ["/accept", "/accept", "/decline"].into_iter().enumerate();
            let says = says.map(|(node, what)| {
                let (console, said) = (world.at((node + round) % 2, &key), said.clone());
                let path = path(&asked, what);
                async move { (what, console.post(&path, said).await) }
            });
            let answers = join_all(says).await;
            let accepted = answers[0].1.status == 200;
            for (what, answer) in answers {
                if accepted == (what == "/accept") {
                    assert_eq!(answer.status, 200, "{}", answer.text);
                    continue;
                }
                let (status, code) = answer.refused();
                let expected = if accepted {
                    "not_offered"
                } else {
                    "offer_moved"
                };
                assert_eq!((status, code.as_str()), (409, expected));
            }
            accepted
        }
    });
    let accepted = join_all(rounds).await.into_iter().filter(|one| *one);
    let accepted = accepted.count();
    world.check().await;
    assert_eq!(transfers(&world).await.len(), accepted);
    assert_eq!(console.all("/allocations?state=open").await.len(), accepted);
    let declined = console.all("/offers?state=declined").await;
    assert_eq!(declined.len(), 30 - accepted);
}

/// Who was asked has had his turn: explanation, fairness and shortfall tell it, and their sums hold.
#[tokio::test]
async fn offers_are_explained() {
    let (world, console) = asking(1, &["mA", "mB"], 2).await;
    let asked = ask(&console, "wmC001").await;
    let decline = path(&asked, "/decline");
    let said = json!({"member": "mA", "epoch": 0, "reason": "busy"});
    console.post(&decline, said).await.ok();
    let said = json!({"member": "mB", "epoch": 1});
    console.post(&path(&asked, "/accept"), said).await.ok();
    world.written().await;
    let found = console.get(&path(&asked, "/explanation")).await.ok();
    let decisions = found["decisions"].as_array().unwrap();
    let told: Vec<_> = decisions
        .iter()
        .map(|one| (&one["what"], &one["chosen"], &one["operation"]))
        .collect();
    assert_eq!(
        told,
        [
            (&json!("decided"), &json!("mA"), &json!("decide.1")),
            (&json!("moved_on"), &json!("mB"), &json!("respond.1"))
        ]
    );
    let filter = |name: &str| {
        let candidates = decisions[1]["candidates"].as_array().unwrap();
        let one = candidates.iter().find(|one| one["member"] == name).unwrap();
        one["filter"].clone()
    };
    assert_eq!(
        (filter("mA"), filter("mB")),
        (json!("left_out"), Value::Null)
    );
    // Both have paid for one: the next two customers come to one each.
    let next = [ask(&console, "wmC002").await, ask(&console, "wmC003").await];
    let mut members = next.map(|asked| asked["member"].as_str().unwrap().to_owned());
    members.sort();
    assert_eq!(members, ["mA", "mB"]);
    world.written().await;
    let report = console.get("/reports/fairness").await.ok();
    let pool = &report["data"][0];
    assert_eq!(pool["pool"], "p1", "{report}");
    let sum = |field: &str| {
        let members = pool["members"].as_array().unwrap();
        let numbers = members.iter().map(|one| one[field].as_f64().unwrap());
        numbers.sum::<f64>()
    };
    assert!((sum("count") - sum("entitlement")).abs() < 1e-6, "{report}");
    let shortfall = console.get("/members/mA/shortfall").await.ok();
    assert_eq!(shortfall["pools"][0]["kept_out"], json!({"left_out": 1}));
}
