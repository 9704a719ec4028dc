//! Events that come in masses, twice, late, in the wrong order or not at all.

use std::{collections::BTreeMap, time::Duration};

use allocation::{Closing, MemberId, Reason};
use e2e::{AES_KEY, Options, TOKEN, World, eventually};
use ledger::{DeliveryFilter, PageRequest, Trail};
use serde_json::json;
use wecom::{
    crypto::{Keys, Sealer},
    envelope,
};
use wecom_sim::{Act, By, CallFilter, DeleteRequest, Fault, ScanRequest};

/// A world whose only member has every customer already, so that nobody is moved.
fn alone() -> Options {
    Options {
        members: vec![("ma", 1)],
        allocator: "[outbox]\ncards_per_minute = 30\n".to_owned(),
        ..Options::default()
    }
}

fn event(world: &World, change: &str, customer: &str) -> String {
    world.plaintext(change, "ma", customer, "")
}

/// Case 21: 250 events, 50 of each type: received = stored, and each has an outcome.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_dropped_silently() {
    let world = World::start(alone()).await;
    let types = [
        ("add_external_contact", "decided"),
        ("add_half_external_contact", "decided"),
        ("edit_external_contact", "reread"),
        ("del_external_contact", "closed"),
        ("del_follow_user", "closed"),
    ];
    for n in 0..50 {
        for (change, _) in types {
            world.send(event(&world, change, &format!("wm{change}{n:03}")));
        }
    }
    world.sim.advance(Duration::from_millis(1)).await;
    let deliveries = world.app.ledger.deliveries();
    let tomorrow = world.app.now_ms() + 86_400_000;
    let outcomes = eventually("each has an outcome", || async {
        let outcomes = deliveries
            .count_outcomes(&world.corp, 0, tomorrow)
            .await
            .ok()?;
        let all: u64 = outcomes.values().sum();
        (all == 250 && !outcomes.contains_key("")).then_some(outcomes)
    })
    .await;
    let expected = BTreeMap::from([("decided", 100), ("reread", 50), ("closed", 100)]);
    let outcomes: BTreeMap<&str, u64> = outcomes.iter().map(|(k, n)| (k.as_str(), *n)).collect();
    assert_eq!(outcomes, expected);
    for (change, outcome) in types {
        let filter = DeliveryFilter {
            change_type: Some(change.to_owned()),
            ..DeliveryFilter::default()
        };
        let page = PageRequest {
            limit: 500,
            cursor: None,
        };
        let page = deliveries.list(&world.corp, &filter, &page).await;
        let items = page.expect("the ledger answers").items;
        assert_eq!(items.len(), 50, "{change}");
        assert!(
            items
                .iter()
                .all(|row| row.outcome.as_deref() == Some(outcome))
        );
    }
    world.close().await;
}

/// Case 35: whatever WeCom's answers take, a callback is answered at once, and one event is one effect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callback_does_not_wait_for_wecom() {
    let world = World::start(alone()).await;
    let slow = world.sim.add_fault(Fault::new("*", Act::Hold));
    let slow = slow.expect("a fault");
    let keys = Keys::parse(TOKEN, AES_KEY).expect("keys");
    let sealer = Sealer::new(keys, world.corp.as_str());
    let plaintext = event(&world, "add_external_contact", "wmSlow");
    let client = reqwest::Client::new();
    for nonce in ["1", "2", "3"] {
        let sealed = sealer.seal(&plaintext, "1792000000", nonce, *b"0123456789abcdef");
        let url = format!("{}?{}", world.callback_urls[0], sealed.query());
        let body = envelope::callback_body(world.corp.as_str(), Some("1000002"), &sealed.encrypt);
        let begun = tokio::time::Instant::now();
        let answer = client.post(url).body(body).send().await.expect("an answer");
        assert_eq!(answer.status(), 200);
        assert!(begun.elapsed() < Duration::from_secs(1));
        world.allocated("wmSlow").await;
    }
    world.sim.remove_fault(&slow);
    world.quiet().await;
    assert_eq!(world.rows("wmSlow").await.len(), 1);
    world.close().await;
}

/// Case 36: what happened while no callback arrived is found by comparing, each once; comparing again finds nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missed_events_are_found_by_comparing() {
    let world = World::start(alone()).await;
    let scan = |customer: &str| {
        let scan = ScanRequest::member("ma", "poster").customer(customer);
        world.sim.scan(&scan).expect("a scan");
    };
    for customer in ["wmGone1", "wmGone2", "wmStays"] {
        scan(customer);
        world.allocated(customer).await;
    }
    world.quiet().await;
    let lost = json!({ "callbacks": { "loss_rate": 1.0 } });
    world
        .sim
        .patch_config(&lost)
        .expect("no event arrives any more");
    for customer in ["wmNew1", "wmNew2", "wmNew3"] {
        scan(customer);
    }
    for customer in ["wmGone1", "wmGone2"] {
        let delete = DeleteRequest {
            corp: None,
            customer: customer.to_owned(),
            member: "ma".to_owned(),
            by: By::Member,
        };
        world.sim.delete(&delete).expect("deleted");
    }
    world.sim.advance(Duration::from_millis(1)).await;
    let doubts = allocator::audit::everybody(&world.app, world.corp_app()).await;
    assert_eq!(doubts.expect("compared"), 5);
    for customer in ["wmNew1", "wmNew2", "wmNew3"] {
        assert_eq!(world.allocated(customer).await.source, "reread");
    }
    for customer in ["wmGone1", "wmGone2"] {
        eventually("he is gone", || async {
            let rows = world.rows(customer).await;
            (rows[0].close_reason.as_deref() == Some("relation_gone")).then_some(())
        })
        .await;
    }
    world.quiet().await;
    let again = allocator::audit::everybody(&world.app, world.corp_app()).await;
    assert_eq!(again.expect("compared"), 0);
    for customer in [
        "wmNew1", "wmNew2", "wmNew3", "wmGone1", "wmGone2", "wmStays",
    ] {
        assert_eq!(world.rows(customer).await.len(), 1, "{customer}");
    }
    world.close().await;
}

/// Most customers of a corp have no open allocation: they came before, or their load has ended. Comparing reads them by
/// the hundred, and asks about none of them alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn comparing_does_not_ask_for_each_old_customer() {
    let world = World::start(alone()).await;
    let customers: Vec<String> = (0..150).map(|n| format!("wmOld{n}")).collect();
    for customer in &customers {
        world.scan_member("ma", "poster", customer);
    }
    world.each_has_one(&customers).await;
    world.quiet().await;
    let closing = |customer: &String| Closing {
        subject: world.subject(customer),
        pool: None,
        member: None,
        allocation: None,
        reason: Reason::new("window_passed").expect("a reason"),
    };
    let closings = customers.iter().map(closing).collect();
    let closed = world.corp_app().roster.close(closings, "", None).await;
    closed.expect("their loads end");
    eventually("the ledger knows", || async {
        let rows = world.rows("wmOld149").await;
        rows[0].closed_ms.map(drop)
    })
    .await;
    world.quiet().await;
    let before = world.sim.calls(&CallFilter::default());
    let doubts = allocator::audit::everybody(&world.app, world.corp_app()).await;
    assert_eq!(doubts.expect("compared"), 0);
    let filter = CallFilter {
        after: before.last().map_or(0, |call| call.seq),
        ..CallFilter::default()
    };
    let calls = world.sim.calls(&filter);
    let of = |api: &str| calls.iter().filter(|call| call.api == api).count();
    assert_eq!(of("externalcontact/batch/get_by_user"), 2);
    assert_eq!(of("externalcontact/get"), 0);
    world.close().await;
}

/// Case 37: closed by an event, but WeCom says that the relation is there: open again, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relation_that_is_there_is_opened_again() {
    let world = World::start(alone()).await;
    let scan = ScanRequest::member("ma", "poster").customer("wmBack");
    world.sim.scan(&scan).expect("a scan");
    world.allocated("wmBack").await;
    world.send(event(&world, "del_external_contact", "wmBack"));
    eventually("closed", || async {
        let rows = world.rows("wmBack").await;
        rows.iter().all(|row| row.closed_ms.is_some()).then_some(())
    })
    .await;
    world.send(event(&world, "edit_external_contact", "wmBack"));
    let open = world.allocated("wmBack").await;
    assert_eq!(open.source, "reread");
    world.quiet().await;
    let all = world.rows("wmBack").await;
    assert_eq!(
        (
            all.len(),
            all.iter().filter(|row| row.closed_ms.is_none()).count()
        ),
        (2, 1)
    );
    let held = world
        .app
        .ledger
        .allocations()
        .open_by_member(&world.corp)
        .await;
    assert_eq!(held.expect("the ledger answers")[0].1, 1);
    world.close().await;
}

/// Case 88: what a transfer's end sends, in any order and twice, is no new customer, no churn and no new greeting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_events_of_a_finished_transfer_decide_nothing() {
    let world = World::start(Options {
        welcome: Some("欢迎"),
        sim: "[callbacks]\nduplicate_rate = 0.5\nreorder_rate = 0.3\n".to_owned(),
        ..Options::default()
    })
    .await;
    let customers: Vec<String> = (0..12).map(|n| format!("wmE{n:02}")).collect();
    for customer in &customers {
        world.scan(customer);
    }
    world.sim.advance(Duration::from_millis(1)).await;
    let before = world.each_has_one(&customers).await;
    // Whose event is held back may have been found by the audit before it comes; but the event brings the code for the
    // greeting, and a code lives 20 s: it must not be on its way when a day passes.
    eventually("everybody is greeted", || async {
        let counters = world.sim.counters();
        (counters.corps[world.corp.as_str()].welcomes_delivered == 12).then_some(())
    })
    .await;
    world.quiet().await;
    world.sim.advance(Duration::from_secs(25 * 3600)).await;
    for customer in &customers {
        eventually("settled", || async {
            let rows = world.rows(customer).await;
            (rows[0].settled_as.as_deref() == Some("done")).then_some(())
        })
        .await;
    }
    world.sim.idle().await;
    world.quiet().await;
    assert_eq!(world.each_has_one(&customers).await, before);
    let counters = world.sim.counters();
    let corp = &counters.corps[world.corp.as_str()];
    assert_eq!(corp.transfers_accepted, 12, "{corp:?}");
    assert_eq!((corp.welcomes_delivered, corp.welcomes_repeated), (12, 0));
    world.close().await;
}

/// Who left gets nothing more, what he had ends, and who comes then waits for somebody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_member_who_left_had_ends() {
    a_member_leaves(false).await;
}

/// The same when a process blocked him and died before it ended what he had.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_blocked_member_who_left_had_ends() {
    a_member_leaves(true).await;
}

async fn a_member_leaves(blocked_before: bool) {
    let world = World::start(Options {
        allocator: "[outbox]\ncards_per_minute = 30\n[audit]\nperiod_ms = 0\n".to_owned(),
        ..alone()
    })
    .await;
    let customers = ["wmLeft1", "wmLeft2", "wmLeft3"];
    for customer in customers {
        world.scan_member("ma", "poster", customer);
        world.allocated(customer).await;
    }
    world.quiet().await;
    if blocked_before {
        let reason = Reason::new("left_or_not_visible").expect("a reason");
        let ma = MemberId::new("ma").expect("a member");
        let trail = Trail::system(world.app.now_ms(), "test");
        let members = world.app.ledger.members();
        let blocked = members.set_blocked(&world.corp, &ma, Some(&reason), &trail);
        blocked.await.expect("the ledger answers");
    }
    let left = json!({ "status": 5 });
    let corp = world.corp.as_str();
    let patched = world.sim.patch_member(Some(corp), "ma", &left);
    patched.expect("he leaves");
    for customer in customers {
        eventually("his allocations end", || async {
            let rows = world.rows(customer).await;
            (rows[0].close_reason.as_deref() == Some("member_left")).then_some(())
        })
        .await;
    }
    let allocations = world.app.ledger.allocations();
    let held = allocations.open_by_member(&world.corp).await;
    assert_eq!(held.expect("the ledger answers"), []);
    world.scan("wmLeft4");
    assert_eq!(world.allocated("wmLeft4").await.member, None);
    world.close().await;
}

/// No event told that he left. The audit cannot list him: it leaves him alone, and he is looked at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_notices_who_left() {
    let world = World::start(alone()).await;
    let inbox = &world.corp_app().inbox;
    let audited = async || {
        let count = inbox.dirty_count("audit").await.ok()?;
        Some(count.waiting + count.taken)
    };
    eventually("ma and desk are marked", || async {
        (audited().await? == 2).then_some(())
    })
    .await;
    let lost = json!({ "callbacks": { "loss_rate": 1.0 } });
    world.sim.patch_config(&lost).expect("no event arrives");
    let left = json!({ "status": 5 });
    let patched = world
        .sim
        .patch_member(Some(world.corp.as_str()), "ma", &left);
    patched.expect("he leaves");
    let now_ms = world.app.now_ms();
    let marked = inbox.dirty_mark("audit", "ma", now_ms).await;
    marked.expect("Redis answers");
    eventually("he is in the audit no more", || async {
        (audited().await? == 1).then_some(())
    })
    .await;
    let ma = MemberId::new("ma").expect("a member");
    eventually("he is left out", || async {
        let members = world.app.ledger.members();
        members.get(&world.corp, &ma).await.ok()??.blocked
    })
    .await;
    world.close().await;
}
