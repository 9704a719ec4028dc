//! A pool that asks its members first, from the scan to WeCom: nothing is moved before somebody accepts, and then once.

use allocation::{AllocationId, OfferRule, PresenceChange, Responded, Response};
use allocator::{commands::key::insert_key, payload::Payload};
use e2e::{Options, World, eventually};
use futures_util::future::join_all;
use ledger::{Allocation, AllocationState, Offer, OfferEnd, Role};
use reqwest::StatusCode;
use serde_json::{Value, json};

fn options(accept_ms: u64, tries: u32) -> Options {
    Options {
        allocators: 2,
        allocator: "[handover]\npoll_ms = 100\n".to_owned(),
        offers: Some(OfferRule { accept_ms, tries }),
        ..Options::default()
    }
}

const HOUR_MS: u64 = 3_600_000;

/// What members and operators say over REST.
struct Desk {
    key: String,
    http: reqwest::Client,
}

impl Desk {
    async fn new(world: &World) -> Self {
        let key = insert_key(&world.app, Some(world.corp.clone()), Role::Operator).await;
        Self {
            key: key.expect("a key"),
            http: reqwest::Client::new(),
        }
    }

    /// To one of the allocators.
    async fn post(
        &self,
        world: &World,
        node: usize,
        of: AllocationId,
        what: &str,
        body: Value,
    ) -> (StatusCode, Value) {
        let (api, corp) = (world.allocators[node].api, &world.corp);
        let url = format!("http://{api}/api/v1/corps/{corp}/allocations/{of}/{what}");
        let request = self.http.post(url).bearer_auth(&self.key).json(&body);
        let answer = request.send().await.expect("an answer");
        let status = answer.status();
        (status, answer.json().await.expect("JSON"))
    }

    async fn accept(&self, world: &World, node: usize, row: &Allocation) -> StatusCode {
        let body = json!({"member": row.member, "epoch": row.epoch});
        self.post(world, node, row.id, "accept", body).await.0
    }
}

/// The customer is offered to somebody, as the ledger has it.
async fn offered(world: &World, customer: &str) -> Allocation {
    let row = world.allocated(customer).await;
    assert_eq!(row.state, AllocationState::Offered, "{row:?}");
    row
}

async fn row(world: &World, id: AllocationId) -> Allocation {
    let rows = world.app.ledger.allocations();
    let row = rows.get(&world.corp, id).await.expect("answers");
    row.expect("a row")
}

async fn until_state(world: &World, id: AllocationId, state: AllocationState) -> Allocation {
    eventually(&format!("it is {}", state.as_str()), || async {
        let row = row(world, id).await;
        (row.state == state).then_some(row)
    })
    .await
}

async fn offers(world: &World, id: AllocationId) -> Vec<Offer> {
    let offers = world.app.ledger.offers();
    let offers = offers.of_allocation(&world.corp, id).await;
    offers.expect("the ledger answers")
}

/// What members were told.
fn cards(world: &World) -> Vec<String> {
    let messages = world.sim.messages().into_iter();
    let cards =
        messages.filter(|message| message.kind == "app" && message.corp == world.corp.as_str());
    cards
        .map(|card| card.body["textcard"]["description"].to_string())
        .collect()
}

fn moved(world: &World) -> (u64, u64) {
    let counters = world.sim.counters();
    let corp = &counters.corps[world.corp.as_str()];
    (corp.transfers_accepted, corp.same_pair_transfers_max.into())
}

/// Each acceptance comes to both allocators at once: both say yes, and each customer is moved once. Before, he is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn customers_move_when_they_are_accepted_and_once() {
    let world = World::start(options(HOUR_MS, 3)).await;
    let desk = Desk::new(&world).await;
    let customers = world.scans("wmAcc", 12).await;
    let mut rows = Vec::new();
    for customer in &customers {
        rows.push(offered(&world, customer).await);
    }
    world.quiet().await;
    assert_eq!(moved(&world).0, 0, "nobody has accepted");
    let texts = cards(&world);
    assert!(texts.len() >= 3, "each member was asked: {texts:?}");
    let asks = |text: &String| text.to_lowercase().contains("accept within 3600 s");
    assert!(texts.iter().all(asks), "{texts:?}");
    let said = rows.iter().flat_map(|row| [(0, row), (1, row)]);
    let said = said.map(|(node, row)| desk.accept(&world, node, row));
    for status in join_all(said).await {
        assert_eq!(status, StatusCode::OK);
    }
    for (customer, row) in customers.iter().zip(&rows) {
        until_state(&world, row.id, AllocationState::Open).await;
        let transfer = world.transfer(customer).await;
        assert_eq!(Some(&transfer.taker), row.member.as_ref());
    }
    world.quiet().await;
    assert_eq!(moved(&world), (12, 1));
    // Then each is told whom he has, in other words.
    let told = |text: &&String| text.contains("yours");
    assert!(cards(&world).iter().filter(told).count() >= 3);
    world.each_has_one(&customers).await;
    world.close().await;
}

/// Whoever declines, or goes, hands on; whoever was late is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_offer_moves_from_who_declines_and_from_who_goes() {
    let world = World::start(options(HOUR_MS, 3)).await;
    let desk = Desk::new(&world).await;
    world.scan("wmMove");
    let first = offered(&world, "wmMove").await;
    let body = json!({"member": first.member, "epoch": 0, "reason": "busy"});
    let declined = desk.post(&world, 0, first.id, "decline", body).await;
    assert_eq!(declined.0, StatusCode::OK);
    let second = eventually("the next one is asked", || async {
        let row = row(&world, first.id).await;
        (row.epoch == 1).then_some(row)
    })
    .await;
    assert_ne!(second.member, first.member);
    let off = PresenceChange {
        member: second.member.clone().expect("a member"),
        lease_until_ms: 0,
    };
    let roster = &world.corp_app().roster;
    roster.presence(vec![off], "", None).await.expect("off");
    let third = eventually("the last one is asked", || async {
        let row = row(&world, first.id).await;
        (row.epoch == 2).then_some(row)
    })
    .await;
    assert_eq!(desk.accept(&world, 1, &second).await, StatusCode::CONFLICT);
    assert_eq!(desk.accept(&world, 1, &third).await, StatusCode::OK);
    until_state(&world, first.id, AllocationState::Open).await;
    let transfer = world.transfer("wmMove").await;
    assert_eq!(Some(&transfer.taker), third.member.as_ref());
    let ends: Vec<_> = offers(&world, first.id)
        .await
        .iter()
        .map(|offer| offer.ended_as)
        .collect();
    assert_eq!(
        ends,
        [
            Some(OfferEnd::Declined),
            Some(OfferEnd::Offline),
            Some(OfferEnd::Accepted)
        ]
    );
    world.quiet().await;
    assert_eq!(moved(&world), (1, 1));
    world.close().await;
}

/// Nobody answers: each is asked once, then a person decides, and that moves the customer once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_accepts_is_for_a_person() {
    let world = World::start(options(1_000, 3)).await;
    let desk = Desk::new(&world).await;
    let customers = world.scans("wmTime", 6).await;
    let mut rows = Vec::new();
    for customer in &customers {
        let row = world.allocated(customer).await;
        rows.push(until_state(&world, row.id, AllocationState::Undecided).await);
    }
    for row in &rows {
        assert_eq!((&row.member, row.epoch), (&None, 3));
        let offers = offers(&world, row.id).await;
        let mut asked: Vec<_> = offers.iter().map(|offer| offer.member.as_str()).collect();
        asked.sort();
        assert_eq!(asked, ["ma", "mb", "mc"]);
        let timed_out = |offer: &Offer| offer.ended_as == Some(OfferEnd::TimedOut);
        assert!(offers.iter().all(timed_out), "{offers:?}");
    }
    assert_eq!(moved(&world).0, 0);
    for row in &rows {
        let body = json!({"to": "mb", "expect_epoch": row.epoch});
        let given = desk.post(&world, 0, row.id, "reassign", body).await;
        assert_eq!(given.0, StatusCode::OK, "{}", given.1);
    }
    world.quiet().await;
    assert_eq!(moved(&world), (6, 1));
    let counts = world.each_has_one(&customers).await;
    assert_eq!(counts["mb"], 6);
    world.close().await;
}

/// Case 77: all allocators die when an acceptance was logged and nothing of it written or done: those that start anew do it, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acceptance_outlives_who_heard_it() {
    let mut world = World::start(options(HOUR_MS, 3)).await;
    let customers = world.scans("wmDie", 8).await;
    let mut rows = Vec::new();
    for customer in &customers {
        rows.push(offered(&world, customer).await);
    }
    world.quiet().await;
    world.kill_allocator(0);
    world.kill_allocator(0);
    let roster = &world.corp_app().roster;
    for row in &rows {
        let payload = Payload {
            giver: row.holder.clone().map(String::from),
            ..Payload::default()
        };
        let response = || Response {
            allocation: row.id,
            pool: row.pool.clone(),
            subject: row.subject,
            member: row.member.clone().expect("a member"),
            epoch: row.epoch,
            declined: None,
        };
        let said = roster.respond(response(), &payload.text(), None).await;
        assert_eq!(said.expect("answers").answer, Responded::Accepted);
        // Whoever got no answer says it again.
        let said = roster.respond(response(), &payload.text(), None).await;
        assert_eq!(said.expect("answers").answer, Responded::Already);
    }
    assert_eq!(moved(&world).0, 0);
    world.start_allocator().await;
    world.start_allocator().await;
    for (customer, row) in customers.iter().zip(&rows) {
        let open = until_state(&world, row.id, AllocationState::Open).await;
        assert_eq!(open.member, row.member);
        let transfer = world.transfer(customer).await;
        assert_eq!(Some(&transfer.taker), row.member.as_ref());
    }
    world.quiet().await;
    assert_eq!(moved(&world), (8, 1));
    world.each_has_one(&customers).await;
    world.close().await;
}

/// Offers that end while nobody looks are moved on by whoever starts; those that do not are left alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offers_end_after_a_restart() {
    let mut world = World::start(options(HOUR_MS, 3)).await;
    world.scan("wmRest");
    let first = offered(&world, "wmRest").await;
    world.scan("wmOther");
    let other = offered(&world, "wmOther").await;
    assert_ne!(first.member, other.member);
    world.quiet().await;
    world.kill_allocator(0);
    world.kill_allocator(0);
    let gone = first.member.clone().expect("a member");
    let off = PresenceChange {
        member: gone.clone(),
        lease_until_ms: 0,
    };
    let roster = &world.corp_app().roster;
    roster.presence(vec![off], "", None).await.expect("off");
    world.start_allocator().await;
    let second = eventually("it has moved", || async {
        let row = row(&world, first.id).await;
        (row.epoch == 1).then_some(row)
    })
    .await;
    assert!(second.member.is_some() && second.member != Some(gone));
    let same = row(&world, other.id).await;
    assert_eq!((same.member, same.epoch), (other.member, 0));
    let desk = Desk::new(&world).await;
    assert_eq!(desk.accept(&world, 0, &second).await, StatusCode::OK);
    until_state(&world, first.id, AllocationState::Open).await;
    world.transfer("wmRest").await;
    world.quiet().await;
    assert_eq!(moved(&world), (1, 1));
    world.close().await;
}
