//! Offers that nobody answers, whoever is asked, gone or restarted.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use allocation::{AllocationId, MemberId, OfferRule, PoolId, SubjectKey, Weight, model};
use allocator::{
    clock, decide, guard, people,
    reception::reclaim::{self, Turn},
};
use ledger::{AllocationState, NewPool, Offer, OfferEnd, Precondition, Trail};
use serde_json::json;

use crate::{
    api_deliveries::added,
    api_support::{Console, World},
    decide::read,
    log_lost::eventually,
};

fn member(name: &str) -> MemberId {
    MemberId::new(name).unwrap()
}

/// Members that are on, in a pool that gives each so long to accept.
async fn asking(members: &[&str], accept_ms: u64, tries: u32) -> (World, Console) {
    let world = World::new().await;
    let console = world.operator().await;
    let places: Vec<_> = members.iter().map(|member| (*member, 1.0)).collect();
    world.pool(&console, "p1", &places).await;
    // A time as short as tests want it is not to be had over REST.
    let weight = Weight::from_thousandths(1_000).unwrap();
    let new = NewPool {
        name: "p1".to_owned(),
        strategy: allocation::Strategy::WeightedRoundRobin,
        load_window_seconds: None,
        offers: Some(OfferRule { accept_ms, tries }),
        routing: Default::default(),
        members: members.iter().map(|name| (member(name), weight)).collect(),
        limits: BTreeMap::new(),
    };
    let id = PoolId::new("p1").unwrap();
    let trail = Trail::system(world.app().now_ms(), "test");
    let pools = world.app().ledger.pools();
    let put = pools.put(&world.corp, &id, &new, Precondition::None, &trail);
    put.await.unwrap();
    people::tell_pool(world.app(), world.corp_app(), &id)
        .await
        .unwrap();
    (world, console)
}

const MINUTE_MS: u64 = 60_000;

impl World {
    async fn turns(&self) -> Turn {
        let turn = reclaim::turn(self.app(), self.corp_app()).await;
        self.written().await;
        turn.unwrap()
    }

    async fn goes(&self, console: &Console, name: &str) {
        let off = json!({"members": [{"member": name, "online": false}]});
        console.put("/presence", off).await.ok();
    }

    async fn offered(&self, console: &Console, customer: &str) -> AllocationId {
        let asked = console.ask("p1", customer).await;
        assert_eq!(asked["decision"], "offered", "{asked}");
        let id = asked["allocation_id"].as_str().unwrap();
        AllocationId(id.parse().unwrap())
    }

    async fn view(&self, customer: &str) -> model::AllocationView {
        let subject = SubjectKey::new(&self.corp, "wecom", customer);
        let open = self.corp_app().roster.allocations_of(&subject).await;
        open.unwrap().pop().unwrap()
    }

    async fn offers_of(&self, id: AllocationId) -> Vec<Offer> {
        let offers = self.app().ledger.offers();
        offers.of_allocation(&self.corp, id).await.unwrap()
    }

    async fn row_of(&self, id: AllocationId) -> ledger::Allocation {
        self.written().await;
        let rows = self.app().ledger.allocations();
        rows.get(&self.corp, id).await.unwrap().unwrap()
    }

    async fn entries_logged(&self) -> u64 {
        self.corp_app().roster.status().await.unwrap().seq
    }
}

/// Nothing is asked of Redis, and so nothing logged, before an offer ends.
#[tokio::test]
async fn offers_are_left_alone_until_they_end() {
    let (world, console) = asking(&["mA"], MINUTE_MS, 2).await;
    assert_eq!(
        world.turns().await,
        Turn {
            moved: 0,
            next_ms: None
        }
    );
    let before_ms = world.app().now_ms();
    world.offered(&console, "wmC1").await;
    let entries = world.entries_logged().await;
    let turn = world.turns().await;
    assert_eq!(turn.moved, 0);
    assert!(turn.next_ms.unwrap() >= before_ms + MINUTE_MS - 1_000);
    assert_eq!(world.entries_logged().await, entries);
}

/// Case 79: a member with 150 offers goes; two processes look after them at once. Batch by batch each moves once, to whoever is
/// there; when nobody is, each is for a person, once.
#[tokio::test]
async fn offers_of_who_goes_move_once_and_in_batches() {
    let (world, console) = asking(&["mA"], 60 * MINUTE_MS, 3).await;
    let mut ids = Vec::new();
    for n in 0..150 {
        ids.push(world.offered(&console, &format!("wmC{n}")).await);
    }
    world.pool_of(&["mA", "mB"]).await;
    console.put("/members/mB", json!({})).await.ok();
    console.on(&["mB"]).await;
    world.goes(&console, "mA").await;
    let first = world.turns().await;
    assert_eq!(first.moved, allocation::MAX_WAKE);
    let stop = world.stop().child_token();
    let mut loops = Vec::new();
    for _ in 0..2 {
        let app = world.process(clock::system()).await;
        let corp = Arc::clone(app.corps.values().next().unwrap());
        loops.push(tokio::spawn(reclaim::run(app, corp, stop.clone())));
    }
    let all = |end: OfferEnd, of: usize| {
        let (world, ids) = (&world, &ids);
        async move {
            eventually("all have moved", async || {
                world.written().await;
                for id in ids {
                    let offers = world.offers_of(*id).await;
                    let ended = offers.get(of).is_some_and(|offer| offer.ended_ms.is_some());
                    if !ended {
                        return None;
                    }
                    assert_eq!(offers[of].ended_as, Some(end));
                }
                Some(())
            })
            .await;
        }
    };
    all(OfferEnd::Offline, 0).await;
    for id in &ids {
        assert_eq!(world.row_of(*id).await.member, Some(member("mb")));
    }
    world.goes(&console, "mB").await;
    all(OfferEnd::Offline, 1).await;
    stop.cancel();
    for one in loops {
        one.await.unwrap();
    }
    for id in &ids {
        let row = world.row_of(*id).await;
        assert_eq!((row.state, row.epoch), (AllocationState::Undecided, 2));
        assert_eq!(world.offers_of(*id).await.len(), 2);
    }
    world.check().await;
}

impl World {
    /// Members may come to the pool; how it asks stays.
    async fn pool_of(&self, members: &[&str]) {
        let id = PoolId::new("p1").unwrap();
        let pools = self.app().ledger.pools();
        let pool = pools.get(&self.corp, &id).await.unwrap().unwrap();
        let trail = Trail::system(self.app().now_ms(), "test");
        for name in members {
            let new = ledger::NewMember {
                userid: (*name).to_owned(),
                ..ledger::NewMember::default()
            };
            let table = self.app().ledger.members();
            let id = member(name);
            let put = table.put(&self.corp, &id, &new, Precondition::None, &trail);
            put.await.unwrap();
        }
        let weight = Weight::from_thousandths(1_000).unwrap();
        let new = NewPool {
            name: pool.name,
            strategy: pool.strategy,
            load_window_seconds: None,
            offers: pool.offers,
            routing: Default::default(),
            members: members.iter().map(|name| (member(name), weight)).collect(),
            limits: BTreeMap::new(),
        };
        let put = pools.put(&self.corp, &id, &new, Precondition::None, &trail);
        put.await.unwrap();
        people::tell_pool(self.app(), self.corp_app(), &id)
            .await
            .unwrap();
    }
}

/// Case 78: who lets his time pass is not asked again; the next one is, and then a person.
#[tokio::test]
async fn who_does_not_answer_in_time_is_passed_over() {
    let (world, console) = asking(&["mA", "mB"], 1_000, 3).await;
    let id = world.offered(&console, "wmC1").await;
    let row = eventually("nobody is left to ask", async || {
        world.turns().await;
        let row = world.row_of(id).await;
        (row.state == AllocationState::Undecided).then_some(row)
    })
    .await;
    assert_eq!((row.member, row.epoch), (None, 2));
    let offers = world.offers_of(id).await;
    let told: Vec<_> = offers
        .iter()
        .map(|offer| (offer.member.as_str(), offer.ended_as.unwrap()))
        .collect();
    assert_eq!(
        told,
        [("ma", OfferEnd::TimedOut), ("mb", OfferEnd::TimedOut)]
    );
    for offer in offers {
        assert!(offer.ended_ms.unwrap() >= offer.until_ms);
    }
    let path = format!("/allocations/{id}/accept");
    let late = console
        .post(&path, json!({"member": "mA", "epoch": 0}))
        .await;
    assert_eq!(late.refused(), (409, "offer_over".to_owned()));
    world.check().await;
}

/// Case 83: what is offered of a pool that is gone, and to a member who is blocked, moves like the others: none keeps the rest.
#[tokio::test]
async fn what_has_no_pool_or_member_any_more_moves_too() {
    let (world, console) = asking(&["mA", "mB"], 60 * MINUTE_MS, 3).await;
    let mut ids = Vec::new();
    for n in 0..6 {
        ids.push(world.offered(&console, &format!("wmC{n}")).await);
    }
    assert_eq!(console.delete("/pools/p1").await.status, 204);
    let blocked = json!({"blocked": "on_leave"});
    console.put("/members/mA", blocked).await.ok();
    world.goes(&console, "mB").await;
    assert_eq!(world.turns().await.moved, 6);
    for id in ids {
        assert_eq!(world.row_of(id).await.state, AllocationState::Undecided);
    }
    world.check().await;
}

/// Case 84: offers outlive a rebuild, from the log and from the rows: whose, which, until when, and who was asked before. An
/// acceptance counts afterwards, though everybody is off until his heartbeat.
#[tokio::test]
async fn offers_outlive_a_rebuild() {
    let (world, console) = asking(&["mA", "mB", "mC"], 60 * MINUTE_MS, 3).await;
    let (first, second) = (
        world.offered(&console, "wmC1").await,
        world.offered(&console, "wmC2").await,
    );
    let third = world.offered(&console, "wmC3").await;
    let say = async |id: AllocationId, what: &str| {
        let row = world.row_of(id).await;
        let said = json!({"member": row.member, "epoch": row.epoch});
        let path = format!("/allocations/{id}/{what}");
        console.post(&path, said).await.ok();
    };
    say(first, "decline").await;
    for _ in 0..3 {
        say(second, "decline").await;
    }
    world.written().await;
    let names = ["wmC1", "wmC2", "wmC3"];
    let mut before = Vec::new();
    for name in names {
        before.push(world.view(name).await);
    }
    assert_eq!(before[0].tried.len(), 1);
    assert_eq!(
        (before[1].offer_until_ms, before[1].tried.len()),
        (Some(0), 3)
    );
    let ends = world.corp_app().roster.first_offer_end().await.unwrap();
    for from_rows in [false, true] {
        let wanted = guard::Wanted {
            from_rows,
            ..guard::Wanted::default()
        };
        guard::rebuild(world.app(), world.corp_app(), wanted)
            .await
            .unwrap();
        for (name, before) in names.iter().zip(&before) {
            assert_eq!(world.view(name).await, *before, "from rows: {from_rows}");
        }
        let after = world.corp_app().roster.first_offer_end().await.unwrap();
        assert_eq!(after, ends, "from rows: {from_rows}");
        assert_eq!(world.turns().await.moved, 0, "nobody's time is over");
        world.check().await;
    }
    say(third, "accept").await;
    let row = world.row_of(third).await;
    assert_eq!(
        (row.state, row.settled_as.as_deref()),
        (AllocationState::Open, Some("done"))
    );
    // Whoever was asked before is not asked again.
    console.on(&["mA", "mB", "mC"]).await;
    say(first, "decline").await;
    say(first, "decline").await;
    let row = world.row_of(first).await;
    assert_eq!((row.state, row.epoch), (AllocationState::Undecided, 3));
    let mut asked: Vec<_> = world.offers_of(first).await;
    asked.sort_by(|one, two| one.member.cmp(&two.member));
    let asked: Vec<_> = asked.iter().map(|offer| offer.member.as_str()).collect();
    assert_eq!(asked, ["ma", "mb", "mc"]);
    world.check().await;
}

/// A customer who leaves whoever has him while a member is asked about him is nobody's any more.
#[tokio::test]
async fn who_leaves_while_he_is_offered_is_not_handed_on() {
    let (world, console) = asking(&["mA"], 60 * MINUTE_MS, 1).await;
    let channel = json!({"name": "x", "pool": "p1", "states": ["c1"]});
    console.put("/channels/c1", channel).await.ok();
    let left =
        |customer: &str| added(customer, "").replace("add_external_contact", "del_follow_user");
    let (app, corp) = (world.app(), world.corp_app());
    let events = ["wmC1", "wmC2"].map(|customer| added(customer, "c1"));
    let batch = read(&world, &events).await;
    decide::decide(app, corp, &batch, false).await.unwrap();
    // Of the second one nobody is left to ask.
    let view = world.view("wmC2").await;
    let path = format!("/allocations/{}/decline", view.allocation);
    console
        .post(&path, json!({"member": "mA", "epoch": 0}))
        .await
        .ok();
    let batch = read(&world, &["wmC1", "wmC2"].map(left)).await;
    decide::decide(app, corp, &batch, false).await.unwrap();
    world.written().await;
    let rows = console.all("/allocations").await;
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(
            (&row["state"], &row["close_reason"]),
            (&json!("closed"), &json!("customer_left")),
            "{row}"
        );
    }
    let ends = console.all("/offers").await;
    let mut ends: Vec<_> = ends.iter().map(|offer| offer["state"].as_str()).collect();
    ends.sort();
    assert_eq!(ends, [Some("closed"), Some("declined")]);
    tokio::time::timeout(Duration::from_secs(10), world.check())
        .await
        .unwrap();
}
