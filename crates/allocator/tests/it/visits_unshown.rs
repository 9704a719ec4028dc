//! Visitors of members of whom nothing can be shown: all their slots are lent, and they have no plain way.

use allocation::{Closing, MemberId, Reason, SetSlots, SlotId, Value as Kept};
use allocator::{
    people,
    reception::{
        slots::{self, Unshown},
        visits::Hold,
    },
};
use ledger::VisitEnd;
use serde_json::{Value, json};

use crate::{
    api_support::{Console, World},
    public_desk::{channel_of, pages},
    public_stage::Html,
    visits::{channel, ended, held, row, way},
};

async fn world() -> (World, Console) {
    world_of(1.0).await
}

/// `ma`, who has this weight, has one slot and nothing else; `mb` has a plain way.
async fn world_of(weight: f64) -> (World, Console) {
    let world = World::new().await;
    let console = world.operator().await;
    let members = [("ma", weight), ("mb", 1.0)];
    world.pool(&console, "sales", &members).await;
    let body = json!({"name": "x", "pool": "sales", "states": [],
        "visits": {"slots_per_member": 1, "hold_seconds": 600, "title": "Spring"}});
    console.put("/channels/page", body).await.ok();
    way(&world, "ma", "pv.ma0", "slot").await;
    way(&world, "mb", "pw.mb", "plain").await;
    lend(&world, "pv.ma0").await;
    assert!(people::look_again(world.app(), world.corp_app()).await);
    (world, console)
}

async fn lend(world: &World, slot: &str) {
    let change = SetSlots {
        channel: channel(),
        member: MemberId::new("ma").unwrap(),
        add: vec![(SlotId::new(slot).unwrap(), 0)],
        remove: Vec::new(),
    };
    let told = world.corp_app().roster.set_slots(change, "", None).await;
    told.unwrap();
}

async fn closing(hold: &Hold, world: &World) -> Closing {
    world.written().await;
    Closing {
        subject: row(world, hold.allocation).await.subject,
        pool: None,
        member: None,
        allocation: Some(hold.allocation),
        reason: Reason::new("test").unwrap(),
    }
}

async fn off(console: &Console, member: &str) {
    let off = json!({"members": [{"member": member, "online": false}]});
    console.put("/presence", off).await.ok();
}

fn passed_over(world: &World) -> Vec<MemberId> {
    let corp = world.corp_app();
    let unshown: &Unshown = &corp.unshown;
    unshown.of(&channel(), &corp.ways, world.app().now_ms())
}

async fn of(world: &World, visitors: std::ops::Range<usize>) -> Vec<Hold> {
    let mut holds = Vec::new();
    for n in visitors {
        holds.push(held(world, &format!("v{n}")).await);
    }
    holds
}

fn members(holds: &[Hold]) -> Vec<&str> {
    holds.iter().map(|hold| hold.member.as_str()).collect()
}

#[tokio::test]
async fn nobody_is_given_to_whom_nothing_can_be_shown_of() {
    let (world, console) = world().await;
    let first = of(&world, 0..2).await;
    assert_eq!(members(&first), ["ma", "mb"]);
    assert!(first[0].slot.is_some());
    assert_eq!(passed_over(&world), []);
    // It would be his turn; the visitor sees somebody else in the same answer.
    let next = of(&world, 2..7).await;
    assert_eq!(members(&next), ["mb"; 5]);
    let ma = MemberId::new("ma").unwrap();
    assert_eq!(passed_over(&world), std::slice::from_ref(&ma));
    world.written().await;
    let rows = world.app().ledger.allocations();
    let subject = row(&world, next[0].allocation).await.subject;
    let both = rows.of_subject(&world.corp, &subject).await.unwrap();
    let [_, tried] = &both[..] else {
        panic!("{both:?}")
    };
    assert_eq!(tried.close_reason.as_deref(), Some("no_way"));
    assert_eq!(tried.member.as_ref(), Some(&ma));
    let visit = ended(&world, tried.id).await;
    assert_eq!(visit.ended_as, Some(VisitEnd::Closed));
    let counts = world.app().ledger.visits().counts(&world.corp, 0).await;
    let counts = counts.unwrap();
    assert_eq!((counts.live, counts.total), (7, 8), "once, not each time");
    let path = format!("/allocations/{}/explanation", next[4].allocation);
    let found = console.get(&path).await.ok();
    assert_eq!(found["decisions"][0]["kept_out"], json!({"avoided": 1}));
    // With a plain way he has his turns again, and at once.
    way(&world, "ma", "pw.ma", "plain").await;
    people::look_again(world.app(), world.corp_app()).await;
    assert_eq!(passed_over(&world), []);
    let next = of(&world, 7..11).await;
    let his = members(&next).into_iter().filter(|name| *name == "ma");
    assert!(his.count() > 0, "{next:?}");
    world.check().await;
}

/// Whom this process has shown to nobody yet can be shown all the same: he has a plain way.
#[tokio::test]
async fn who_was_never_shown_and_has_a_plain_way_is_enough() {
    let (world, _) = world_of(9.0).await;
    assert_eq!(members(&of(&world, 0..1).await), ["ma"]);
    assert_eq!(members(&of(&world, 1..6).await), ["mb"; 5]);
    world.check().await;
}

/// A member who was away for a moment took his slots with him: those that were lent rest from then on, and the others can be
/// lent at once, whenever they were taken out of use.
#[tokio::test]
async fn slots_that_come_back_rest_as_if_they_had_not_gone() {
    let (world, _) = world().await;
    way(&world, "ma", "pv.ma1", "slot").await;
    let lent = held(&world, "v0").await;
    assert_eq!((lent.member.as_str(), lent.slot.is_some()), ("ma", true));
    let change = SetSlots {
        channel: channel(),
        member: lent.member.clone(),
        add: Vec::new(),
        remove: vec![SlotId::new("pv.ma0").unwrap()],
    };
    let (app, corp) = (world.app(), world.corp_app());
    corp.roster.set_slots(change, "", None).await.unwrap();
    corp.roster
        .close(vec![closing(&lent, &world).await], "", None)
        .await
        .unwrap();
    let came_back = "UPDATE contact_ways SET rests_since = now() WHERE kind = 'slot'";
    sqlx::query(came_back)
        .execute(app.ledger.pool())
        .await
        .unwrap();
    let generation = corp.roster.status().await.unwrap().generation.unwrap();
    slots::tell::tell(app, corp, generation, &world.stop())
        .await
        .unwrap();
    let dump = corp.roster.dump().await.unwrap();
    let Some(Kept::Sorted(free)) = dump.keys.get("slots:page\u{1f}ma") else {
        panic!("no slots")
    };
    let since: Vec<(&[u8], bool)> = free
        .iter()
        .map(|(slot, at)| (&slot[..], *at > 0.0))
        .collect();
    assert_eq!(since, [(&b"pv.ma1"[..], false), (&b"pv.ma0"[..], true)]);
}

/// Who has a slot again is shown as soon as somebody is given it: by another process, which was not told, in seconds.
#[tokio::test]
async fn a_new_slot_ends_it() {
    let (world, _) = world().await;
    of(&world, 0..3).await;
    assert_eq!(passed_over(&world).len(), 1);
    way(&world, "ma", "pv.ma1", "slot").await;
    let ways = world.app().ledger.contact_ways();
    let status = world.corp_app().roster.status().await.unwrap();
    let untold = ways.untold(&world.corp, status.generation.unwrap(), 100);
    assert!(!untold.await.unwrap().is_empty());
    allocator::reception::slots::tell::tell(
        world.app(),
        world.corp_app(),
        status.generation.unwrap(),
        &world.stop(),
    )
    .await
    .unwrap();
    assert_eq!(passed_over(&world), []);
    let next = of(&world, 3..5).await;
    let his = next.iter().find(|hold| hold.member.as_str() == "ma");
    let slot = his.unwrap().slot.as_ref().map(SlotId::as_str);
    assert_eq!(slot, Some("pv.ma1"));
    world.check().await;
}

/// Nobody waits while somebody is free, whatever can be shown of him.
#[tokio::test]
async fn where_nobody_else_is_free_nobody_is_passed_over() {
    let (world, console) = world().await;
    of(&world, 0..3).await;
    assert_eq!(passed_over(&world).len(), 1);
    off(&console, "mb").await;
    let last = of(&world, 3..6).await;
    assert_eq!(members(&last), ["ma"; 3]);
    assert!(last.iter().all(|hold| hold.slot.is_none()));
    assert_eq!(of(&world, 3..6).await, last, "they keep what they have");
    world.check().await;
}

/// A hold that began when nothing could be shown shows the plain way as soon as there is one; the customer is found by the order of time.
#[tokio::test]
async fn a_plain_way_that_comes_later_is_shown() {
    let world = World::new().await;
    let code = channel_of(&world, &[("ma", 1.0)]).await;
    let console = world.operator().await;
    let addr = pages(&world, 0).await;
    let http = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    let page = format!("http://{addr}/c/{code}?lang=en");
    let first = http.get(&page).send().await.unwrap();
    let cookie = first.headers()["set-cookie"].to_str().unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let open = async || {
        let answer = http.get(&page).header("cookie", &cookie).send().await;
        Html::read(&answer.unwrap().text().await.unwrap())
    };
    let body = json!({"visitor": {"kind": "unionid", "id": "oUnion1"}});
    let visit = async || {
        let visit = console.post("/channels/c1/visits", body.clone()).await;
        visit.ok()
    };
    let (before, over_rest) = (open().await, visit().await);
    assert!(before.text.contains("is being prepared"), "{}", before.text);
    assert_eq!(over_rest["picture"], Value::Null);
    sqlx::query(
        "INSERT INTO contact_ways (corp_id, way, channel_id, member, kind, state, place, config_id, qr_code, picture,
            picture_type, created_at, ready_at)
         VALUES ($1, 'pw.ma', 'c1', 'ma', 'plain', 'ready', 0, 'x', 'http://qr', 'png', 'image/png', now(), now())",
    )
    .bind(world.corp.as_str())
    .execute(world.app().ledger.pool())
    .await
    .unwrap();
    let after = visit().await;
    assert_eq!(after["picture"], "/w/pw.ma.png");
    assert_eq!(after["own_code"], false);
    assert_eq!(after["allocation_id"], over_rest["allocation_id"]);
    let after = open().await;
    assert_eq!(after.of("img", "src"), Some("/w/pw.ma.png"));
    world.check().await;
}
