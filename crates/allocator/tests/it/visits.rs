//! Visits, from the page to the customer's coming: what the ledger says of each, and what Redis and the ledger agree on.

use std::time::Duration;

use allocation::{AllocationId, ChannelId, MemberId, SetSlots, SlotId};
use allocator::{
    decide, guard,
    reception::{
        sweep,
        visits::{Hold, Visited, Visitor, VisitorKind, Wanted, visit},
    },
};
use ledger::{AllocationState, VisitEnd};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    api_deliveries::added,
    api_support::{Console, Options, World},
    decide::read,
};

const SLOTS: usize = 2;

/// A channel with a page, three members with two slots and a plain way each.
pub(crate) async fn world() -> (World, Console) {
    world_of(Options::default()).await
}

pub(crate) async fn world_of(options: Options) -> (World, Console) {
    let world = World::with(1, options).await;
    let console = world.operator().await;
    let members = [("ma", 1.0), ("mb", 1.0), ("mc", 1.0)];
    world.pool(&console, "sales", &members).await;
    let body = json!({"name": "x", "pool": "sales", "states": [], "card": true,
        "welcome": {"text": "hello"},
        "visits": {"slots_per_member": 2, "hold_seconds": 30, "title": "Spring"}});
    console.put("/channels/page", body).await.ok();
    for (member, _) in members {
        for n in 0..SLOTS {
            way(&world, member, &format!("pv.{member}{n}"), "slot").await;
        }
        way(&world, member, &format!("pw.{member}"), "plain").await;
    }
    tell(&world).await;
    (world, console)
}

/// A contact way that WeCom has made and whose picture is there.
pub(crate) async fn way(world: &World, member: &str, way: &str, kind: &str) {
    sqlx::query(
        "INSERT INTO contact_ways (corp_id, way, channel_id, member, kind, state, place, config_id, qr_code, picture,
            picture_type, created_at, ready_at)
         VALUES ($1, $2, 'page', $3, $4, 'ready', 0, $2, 'http://qr', 'png', 'image/png', now(), now())",
    )
    .bind(world.corp.as_str())
    .bind(way)
    .bind(member)
    .bind(kind)
    .execute(world.app().ledger.pool())
    .await
    .unwrap();
}

async fn tell(world: &World) {
    for member in ["ma", "mb", "mc"] {
        let slots = (0..SLOTS).map(|n| (SlotId::new(format!("pv.{member}{n}")).unwrap(), 0));
        let change = SetSlots {
            channel: channel(),
            member: MemberId::new(member).unwrap(),
            add: slots.collect(),
            remove: Vec::new(),
        };
        let told = world.corp_app().roster.set_slots(change, "", None).await;
        told.unwrap();
    }
}

pub(crate) fn channel() -> ChannelId {
    ChannelId::new("page").unwrap()
}

pub(crate) fn visitor(id: &str) -> Visitor {
    Visitor {
        kind: VisitorKind::Cookie,
        id: id.to_owned(),
    }
}

pub(crate) async fn opens(world: &World, id: &str) -> Visited {
    visit(
        world.app(),
        world.corp_app(),
        &channel(),
        &visitor(id),
        Wanted::default(),
    )
    .await
    .unwrap()
}

pub(crate) async fn held(world: &World, id: &str) -> Hold {
    match opens(world, id).await {
        Visited::Held(hold) => hold,
        other => panic!("{other:?}"),
    }
}

/// The customer adds the member by a way.
pub(crate) async fn adds(world: &World, customer: &str, member: &str, state: &str) {
    let event = added(customer, state).replace("ZhangSan", member).replace(
        "</State>",
        &format!("</State><WelcomeCode>code-{customer}</WelcomeCode>"),
    );
    let batch = read(world, &[event]).await;
    decide::decide(world.app(), world.corp_app(), &batch, false)
        .await
        .unwrap();
    world.written().await;
}

pub(crate) async fn expire(world: &World) -> usize {
    let stop = CancellationToken::new();
    let ended = sweep::turn(world.app(), world.corp_app(), &stop).await;
    world.written().await;
    ended.unwrap()
}

pub(crate) async fn ended(world: &World, id: AllocationId) -> ledger::Visit {
    let visits = world.app().ledger.visits();
    visits.behind(&world.corp, id).await.unwrap().unwrap()
}

pub(crate) async fn row(world: &World, id: AllocationId) -> ledger::Allocation {
    let table = world.app().ledger.allocations();
    table.get(&world.corp, id).await.unwrap().unwrap()
}

async fn effects(world: &World, id: AllocationId) -> Vec<String> {
    sqlx::query_scalar("SELECT kind FROM outbox WHERE allocation_id = $1 ORDER BY kind")
        .bind(id.0)
        .fetch_all(world.app().ledger.pool())
        .await
        .unwrap()
}

async fn customer_of(world: &World, id: AllocationId) -> (String, Option<String>) {
    sqlx::query_as("SELECT c.kind, c.external_id FROM allocations AS a JOIN customers AS c ON c.id = a.customer_id WHERE a.id = $1")
        .bind(id.0)
        .fetch_one(world.app().ledger.pool())
        .await
        .unwrap()
}

/// The same visitor keeps what he has, however many tabs he opens; nobody else gets his slot.
#[tokio::test]
async fn a_visitor_keeps_his_member_and_his_slot() {
    let (world, _) = world().await;
    let first = held(&world, "v1").await;
    assert!(first.slot.is_some());
    for _ in 0..50 {
        assert_eq!(held(&world, "v1").await, first);
    }
    let mut slots = vec![first.slot.clone().unwrap()];
    for n in 2..=6 {
        let hold = held(&world, &format!("v{n}")).await;
        slots.push(hold.slot.unwrap());
    }
    slots.sort();
    slots.dedup();
    assert_eq!(slots.len(), 6, "each has one of his own");
    assert_eq!(held(&world, "v7").await.slot, None, "all are lent");
    world.check().await;
    let counts = world.app().ledger.visits().counts(&world.corp, 0).await;
    let counts = counts.unwrap();
    assert_eq!((counts.live, counts.total, counts.with_slot), (7, 7, 6));
}

/// The hold becomes the customer's allocation: one row, his name, the welcome and the card.
#[tokio::test]
async fn who_adds_the_member_in_time_confirms() {
    let (world, _) = world().await;
    let hold = held(&world, "v1").await;
    world.written().await;
    assert_eq!(customer_of(&world, hold.allocation).await.0, "visitor");
    let slot = hold.slot.clone().unwrap();
    adds(&world, "wmC1", hold.member.as_str(), slot.as_str()).await;
    let visit = ended(&world, hold.allocation).await;
    assert_eq!(visit.ended_as, Some(VisitEnd::Confirmed));
    assert_eq!(visit.matched.as_deref(), Some("slot"));
    let row = row(&world, hold.allocation).await;
    assert_eq!(row.state, AllocationState::Open);
    assert_eq!(row.settled_as.as_deref(), Some("done"));
    let customer = customer_of(&world, hold.allocation).await;
    assert_eq!(customer, ("wecom".to_owned(), Some("wmC1".to_owned())));
    assert_eq!(
        effects(&world, hold.allocation).await,
        ["member_card", "welcome"]
    );
    // The page that is still open says so, and no second hold is made.
    let met = Visited::Met {
        allocation: hold.allocation,
        member: hold.member.clone(),
    };
    assert_eq!(opens(&world, "v1").await, met);
    world.check().await;
    // Held and confirmed before the ledger heard of either.
    let second = held(&world, "v2").await;
    adds(
        &world,
        "wmC2",
        second.member.as_str(),
        second.slot.unwrap().as_str(),
    )
    .await;
    let customer = customer_of(&world, second.allocation).await;
    assert_eq!(customer.1.as_deref(), Some("wmC2"));
    // The event again, and the end of the relation.
    adds(&world, "wmC2", second.member.as_str(), "pv.ma0").await;
    let gone = added("wmC2", "")
        .replace("ZhangSan", second.member.as_str())
        .replace("add_external_contact", "del_follow_user");
    let batch = read(&world, &[gone]).await;
    decide::decide(world.app(), world.corp_app(), &batch, false)
        .await
        .unwrap();
    world.check().await;
    let closed = self::row(&world, second.allocation).await;
    assert_eq!(closed.close_reason.as_deref(), Some("customer_left"));
}

/// The code that he saw is good as long as it is at WeCom: in time or late, he comes to whom he saw.
#[tokio::test]
async fn who_saw_a_channel_that_was_deleted_meanwhile_is_still_known() {
    let (world, console) = world().await;
    let (early, late) = (held(&world, "v1").await, held(&world, "v2").await);
    console.delete("/channels/page").await.ok();
    assert_eq!(opens(&world, "v3").await, Visited::Off);
    let comes = async |hold: &Hold, customer| {
        let slot = hold.slot.as_ref().unwrap().as_str();
        adds(&world, customer, hold.member.as_str(), slot).await;
    };
    comes(&early, "wmC1").await;
    let visit = ended(&world, early.allocation).await;
    assert_eq!(visit.ended_as, Some(VisitEnd::Confirmed));
    assert_eq!(
        customer_of(&world, early.allocation).await.1.as_deref(),
        Some("wmC1")
    );
    over(&world).await;
    assert_eq!(expire(&world).await, 1);
    comes(&late, "wmC2").await;
    let visit = ended(&world, late.allocation).await;
    assert_eq!(visit.ended_as, Some(VisitEnd::Late));
    world.check().await;
}

/// Nobody came: load and slot are free. Who comes afterwards by the same slot is the same visitor.
#[tokio::test]
async fn who_comes_late_is_still_known() {
    let options = Options::default();
    let (world, _) = world_of(options).await;
    let hold = held(&world, "v1").await;
    let never = held(&world, "v2").await;
    assert_eq!(expire(&world).await, 0);
    over(&world).await;
    assert_eq!(expire(&world).await, 2);
    assert_eq!(expire(&world).await, 0, "an end is once");
    for id in [hold.allocation, never.allocation] {
        assert_eq!(ended(&world, id).await.ended_as, Some(VisitEnd::Expired));
        assert_eq!(
            row(&world, id).await.close_reason.as_deref(),
            Some("expired")
        );
    }
    world.check().await;
    let slot = hold.slot.unwrap();
    adds(&world, "wmC1", hold.member.as_str(), slot.as_str()).await;
    let visit = ended(&world, hold.allocation).await;
    assert_eq!(visit.ended_as, Some(VisitEnd::Late));
    let new = visit.next_allocation.unwrap();
    assert_eq!(customer_of(&world, new).await.1.as_deref(), Some("wmC1"));
    assert_eq!(row(&world, new).await.member.as_ref(), Some(&hold.member));
    assert_eq!(effects(&world, new).await, ["member_card", "welcome"]);
    assert_eq!(ended(&world, new).await, visit, "found from either end");
    world.check().await;
}

/// The channel leads to another pool by the time he comes: he is counted where he was held, in Redis and in the ledger.
#[tokio::test]
async fn who_comes_late_is_counted_in_the_pool_of_his_visit() {
    let (world, console) = world().await;
    let hold = held(&world, "v1").await;
    over(&world).await;
    assert_eq!(expire(&world).await, 1);
    world.pool(&console, "others", &[("md", 1.0)]).await;
    let body = json!({"name": "x", "pool": "others", "states": [],
        "visits": {"slots_per_member": 2, "hold_seconds": 30, "title": "Spring"}});
    console.put("/channels/page", body).await.ok();
    let slot = hold.slot.unwrap();
    adds(&world, "wmC1", hold.member.as_str(), slot.as_str()).await;
    let new = ended(&world, hold.allocation)
        .await
        .next_allocation
        .unwrap();
    let row = row(&world, new).await;
    assert_eq!(row.pool.as_str(), "sales");
    let open = world.corp_app().roster.allocations_of(&row.subject).await;
    assert_eq!(open.unwrap()[0].pool, row.pool);
    world.check().await;
}

/// Time goes on for the script as for everybody: the holds' ends are put back instead.
async fn over(world: &World) {
    let key = format!("{{{}}}:v1:holds", world.corp);
    let redis = test_redis::shared();
    for name in redis.cli(&["ZRANGE", &key, "0", "-1"]).lines() {
        redis.cli(&["ZADD", &key, "1", name]);
    }
}

/// Another member was added than the one he saw: that one has the customer.
#[tokio::test]
async fn who_adds_another_member_is_his() {
    let (world, _) = world().await;
    let hold = held(&world, "v1").await;
    let other = ["ma", "mb", "mc"]
        .into_iter()
        .find(|m| *m != hold.member.as_str())
        .unwrap();
    adds(&world, "wmC1", other, hold.slot.unwrap().as_str()).await;
    let visit = ended(&world, hold.allocation).await;
    assert_eq!(visit.ended_as, Some(VisitEnd::Mismatched));
    let closed = row(&world, hold.allocation).await;
    assert_eq!(closed.close_reason.as_deref(), Some("mismatched"));
    let new = row(&world, visit.next_allocation.unwrap()).await;
    assert_eq!(new.member.as_ref().map(MemberId::as_str), Some(other));
    world.check().await;
}

/// Without a slot the oldest hold of the member is meant, and the record says that it was a guess. Who comes by a code
/// that was passed on keeps its member, and no hold ends by it.
#[tokio::test]
async fn without_a_slot_the_order_of_time_is_taken() {
    let (world, _) = world().await;
    for n in 0..6 {
        assert!(held(&world, &format!("slot{n}")).await.slot.is_some());
    }
    let plain = held(&world, "plain").await;
    assert_eq!(plain.slot, None);
    let way = format!("pw.{}", plain.member);
    adds(&world, "wmC1", plain.member.as_str(), &way).await;
    let visit = ended(&world, plain.allocation).await;
    assert_eq!(visit.ended_as, Some(VisitEnd::Confirmed));
    assert_eq!(visit.matched.as_deref(), Some("time"));
    adds(&world, "wmC2", plain.member.as_str(), &way).await;
    let counts = world.app().ledger.visits().counts(&world.corp, 0).await;
    assert_eq!(counts.unwrap().live, 6);
    world.check().await;
}

/// Nobody is there: he waits, keeps his place by asking, and sees the first who comes.
#[tokio::test]
async fn who_waits_sees_whoever_comes() {
    let (world, console) = world().await;
    let off: Vec<_> = ["ma", "mb", "mc"]
        .map(|member| json!({"member": member, "online": false}))
        .into();
    console.put("/presence", json!({"members": off})).await.ok();
    let Visited::Waiting { allocation, .. } = opens(&world, "v1").await else {
        panic!("nobody is there");
    };
    assert!(matches!(opens(&world, "v1").await, Visited::Waiting { .. }));
    console.on(&["mb"]).await;
    let hold = held(&world, "v1").await;
    assert_eq!((hold.allocation, hold.member.as_str()), (allocation, "mb"));
    world.written().await;
    let visit = ended(&world, allocation).await;
    assert_eq!(visit.slot, hold.slot, "the ledger has the slot");
    assert_eq!(
        effects(&world, allocation).await,
        Vec::<String>::new(),
        "no card for a page view"
    );
    adds(&world, "wmC1", "mb", hold.slot.unwrap().as_str()).await;
    assert_eq!(
        effects(&world, allocation).await,
        ["member_card", "welcome"]
    );
    world.check().await;
    // One who does not ask any more loses his place.
    console
        .put(
            "/presence",
            json!({"members": [{"member": "mb", "online": false}]}),
        )
        .await
        .ok();
    opens(&world, "v2").await;
    over(&world).await;
    assert_eq!(expire(&world).await, 1);
    assert_eq!(
        world
            .corp_app()
            .roster
            .waiting(&allocation::PoolId::new("sales").unwrap())
            .await
            .unwrap(),
        0
    );
}

/// The ledger has an open row of the customer that Redis does not know of: it stands, and the hold's ends.
#[tokio::test]
async fn an_open_row_of_the_customer_stands() {
    let (world, console) = world().await;
    let asked = console.ask("sales", "wmC1").await;
    let id: AllocationId = AllocationId(asked["allocation_id"].as_str().unwrap().parse().unwrap());
    world.written().await;
    let subject = row(&world, id).await.subject;
    // Redis loses it.
    test_redis::shared().cli(&["DEL", &format!("{{{}}}:v1:open:{subject}", world.corp)]);
    let hold = held(&world, "v1").await;
    world.written().await;
    adds(
        &world,
        "wmC1",
        hold.member.as_str(),
        hold.slot.unwrap().as_str(),
    )
    .await;
    assert_eq!(row(&world, id).await.state, AllocationState::Open);
    let lost = row(&world, hold.allocation).await;
    assert_eq!(lost.close_reason.as_deref(), Some("conflict"));
    // What the ledger refused is ended in Redis once it is written.
    let roster = &world.corp_app().roster;
    let ended = async {
        while !roster.allocations_of(&subject).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), ended)
        .await
        .unwrap();
}

/// Holds outlive a wiped Redis, by the log and by the rows; slots that were lent are not lent again.
#[tokio::test]
async fn holds_outlive_a_rebuild() {
    let (world, _) = world().await;
    let hold = held(&world, "v1").await;
    let plain = held(&world, "v2").await;
    world.written().await;
    for from_rows in [false, true] {
        let wanted = guard::Wanted {
            from_rows,
            ..guard::Wanted::default()
        };
        guard::rebuild(world.app(), world.corp_app(), wanted)
            .await
            .unwrap();
        assert_eq!(held(&world, "v1").await, hold);
        assert_eq!(held(&world, "v2").await, plain);
    }
    tell(&world).await;
    let roster = &world.corp_app().roster;
    let subject = visitor("v1").subject(world.corp_app());
    let open = roster.allocations_of(&subject).await.unwrap();
    assert_eq!(open[0].hold.as_ref().unwrap().slot, hold.slot);
    adds(
        &world,
        "wmC1",
        hold.member.as_str(),
        hold.slot.unwrap().as_str(),
    )
    .await;
    assert_eq!(
        ended(&world, hold.allocation).await.ended_as,
        Some(VisitEnd::Confirmed)
    );
    tokio::time::timeout(Duration::from_secs(10), world.check())
        .await
        .unwrap();
}

/// A page that is off, or whose pool is gone, says so; nothing is held.
#[tokio::test]
async fn a_page_that_is_off_holds_nothing() {
    let (world, console) = world().await;
    let body = json!({"name": "x", "pool": "sales", "states": [], "visits": null});
    console.put("/channels/page", body).await.ok();
    assert_eq!(opens(&world, "v1").await, Visited::Off);
    let nowhere = ChannelId::new("nowhere").unwrap();
    let off = visit(
        world.app(),
        world.corp_app(),
        &nowhere,
        &visitor("v1"),
        Wanted::default(),
    )
    .await;
    assert_eq!(off.unwrap(), Visited::Off);
}

/// An own landing page: the same visitor is answered the same, and the record is there to be read and ended.
#[tokio::test]
async fn own_pages_ask_over_rest() {
    let (world, console) = world().await;
    let body = json!({"visitor": {"kind": "unionid", "id": "oUnion1"}});
    let first = console
        .post("/channels/page/visits", body.clone())
        .await
        .ok();
    assert_eq!(first["state"], "held");
    assert_eq!(first["own_code"], true);
    assert_eq!(first["qr_code"], "http://qr");
    let picture = first["picture"].as_str().unwrap();
    assert!(picture.starts_with("/w/pv.") && picture.ends_with(".png"));
    assert_eq!(
        console.post("/channels/page/visits", body).await.ok(),
        first
    );
    let id = first["allocation_id"].as_str().unwrap();
    // It is found as soon as it was answered.
    let record = console.get(&format!("/visits/{id}")).await.ok();
    assert_eq!(record["ended_as"], json!(null));
    let to = json!({"to": "mb", "expect_epoch": 0});
    let moved = console
        .post(&format!("/allocations/{id}/reassign"), to)
        .await;
    assert_eq!(moved.refused(), (409, "held".to_owned()));
    assert_eq!(record["channel"], "page");
    for _ in 0..2 {
        assert_eq!(console.delete(&format!("/visits/{id}")).await.status, 204);
        world.written().await;
    }
    let record = console.get(&format!("/visits/{id}")).await.ok();
    assert_eq!(record["ended_as"], "closed");
    assert_eq!(
        row(&world, AllocationId(id.parse().unwrap()))
            .await
            .close_reason
            .as_deref(),
        Some("cancelled")
    );
    world.check().await;
}

#[tokio::test]
async fn what_cannot_be_visited_says_why() {
    let (world, console) = world().await;
    let visitor = |kind: &str, id: &str| json!({"visitor": {"kind": kind, "id": id}});
    let page = "/channels/page/visits";
    let asked = console.post(page, visitor("cookie", "x")).await;
    assert_eq!(asked.pointers(), ["/visitor/kind"]);
    let asked = console.post(page, visitor("openid", "")).await;
    assert_eq!(asked.pointers(), ["/visitor/id"]);
    let asked = console
        .post("/channels/nowhere/visits", visitor("openid", "o1"))
        .await;
    assert_eq!(asked.status, 404);
    let body = json!({"name": "x", "pool": "sales", "states": []});
    console.put("/channels/plain", body).await.ok();
    let asked = console
        .post("/channels/plain/visits", visitor("openid", "o1"))
        .await;
    assert_eq!(asked.refused(), (409, "visits_off".to_owned()));
    let unknown = console
        .get("/visits/0190b5a2-0000-7000-8000-000000000000")
        .await;
    assert_eq!(unknown.status, 404);
    // Closed until it is rebuilt: the visitor is to come again.
    test_redis::shared().cli(&["DEL", &format!("{{{}}}:v1:ready", world.corp)]);
    let asked = console
        .post("/channels/page/visits", visitor("openid", "o1"))
        .await;
    assert_eq!(asked.status, 503);
    assert!(!asked.header("retry-after").is_empty());
}

/// A make-up is owed to its member and paid by the others; the audit says who gave it and why.
#[tokio::test]
async fn a_credit_entry_counts_and_says_why() {
    let (world, console) = world().await;
    let credits = "/pools/sales/credits";
    let entry =
        json!({"member": "ma", "amount": 2, "kind": "make_up", "reason": "two test customers"});
    let made = console.post(credits, entry).await;
    assert_eq!(made.status, 201, "{}", made.text);
    // Of nine he gets his three, and what the others pay of the two that he is owed: four thirds.
    let mut got = Vec::new();
    for n in 0..9 {
        got.push(held(&world, &format!("v{n}")).await.member.to_string());
    }
    let his = got.iter().filter(|member| *member == "ma").count();
    assert!((4..=5).contains(&his), "{got:?}");
    assert_eq!(got[..2], ["ma", "ma"]);
    world.written().await;
    let audit = console.all("/audit").await;
    let entry = audit
        .iter()
        .find(|entry| entry["action"] == "credit.create");
    assert_eq!(entry.unwrap()["reason"], "two test customers");
    let wrong = json!({"member": "m!", "amount": 0, "kind": "make_up", "reason": " "});
    let pointers = console.post(credits, wrong).await.pointers();
    assert_eq!(pointers, ["/member", "/amount", "/reason"]);
    let stranger = json!({"member": "mx", "amount": 1, "kind": "calibration", "reason": "x"});
    let pointers = console.post(credits, stranger).await.pointers();
    assert_eq!(pointers, ["/member"]);
    let nowhere = json!({"member": "ma", "amount": 1, "kind": "calibration", "reason": "x"});
    assert_eq!(
        console.post("/pools/nowhere/credits", nowhere).await.status,
        404
    );
}
