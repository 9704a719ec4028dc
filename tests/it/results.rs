//! What WeCom says about transfers under way: too little, too much, or nonsense. Nobody is moved in our books for that.

use allocation::{Decision, MemberId, PoolId, Request, Strategy, Weight};
use allocator::payload::{Context, Payload};
use e2e::{Options, World, eventually};
use ledger::{NewPool, Precondition, Trail, Transfer, TransferState, TransferStep};
use serde_json::{Value, json};
use wecom_sim::{Act, Fault};

pub(crate) const RESULT: &str = "externalcontact/transfer_result";
pub(crate) const START: &str = "externalcontact/transfer_customer";

/// One member takes all of desk's customers, and the simulator's own picture is not compared with what is scripted.
pub(crate) fn one_taker(handover: &str) -> Options {
    Options {
        members: vec![("ma", 1)],
        allocator: format!("[audit]\nperiod_ms = 0\n[handover]\npoll_ms = 100\n{handover}\n"),
        ..Options::default()
    }
}

/// So many customers on their way from desk to ma.
pub(crate) async fn on_the_way(world: &World, count: usize) -> Vec<String> {
    let customers = world.scans("wmL", count).await;
    world.each_has_one(&customers).await;
    world.quiet().await;
    for customer in &customers {
        let transfer = world.transfer(customer).await;
        assert_eq!(transfer.state, TransferState::Waiting, "{transfer:?}");
    }
    customers
}

pub(crate) fn list(customers: &Value) -> Act {
    Act::Body(json!({"errcode": 0, "errmsg": "ok", "customer": customers, "next_cursor": ""}))
}

/// A row about a transfer of which WeCom says that it ended, or will end, now.
fn row(world: &World, customer: &str, status: i64) -> Value {
    let now_s = world.app.now_ms() / 1000;
    json!({"external_userid": customer, "status": status, "takeover_time": now_s})
}

pub(crate) fn script(world: &World, act: Act) -> String {
    let fault = Fault::new(RESULT, act);
    world.sim.add_fault(fault).expect("a fault")
}

/// These transfers are due to be looked at, as after an event that hints at them.
pub(crate) async fn make_due(world: &World, customers: &[String]) -> Vec<Transfer> {
    let mut transfers = Vec::new();
    for customer in customers {
        transfers.push(world.transfer(customer).await);
    }
    let now_ms = world.app.now_ms();
    let due = |transfer: &Transfer| {
        let mut step = TransferStep::new(transfer.id, transfer.state);
        step.next_check_ms = Some(now_ms);
        step
    };
    let steps: Vec<TransferStep> = transfers.iter().map(due).collect();
    let advanced = world.app.ledger.transfers().advance(&steps, now_ms).await;
    advanced.expect("the ledger answers");
    transfers
}

/// WeCom was asked about all of them, and what it said has had its consequences: the second look begins after the
/// first has ended.
async fn looked_at(world: &World, customers: &[String]) {
    for _ in 0..2 {
        let before = make_due(world, customers).await;
        for (customer, before) in customers.iter().zip(before) {
            eventually(&format!("{customer} is looked at"), || async {
                let now = world.transfer(customer).await;
                (now.checks > before.checks).then_some(())
            })
            .await;
        }
    }
}

async fn all_pending(world: &World, customers: &[String]) {
    for customer in customers {
        let transfer = world.transfer(customer).await;
        assert_eq!(transfer.state, TransferState::Waiting, "{customer}");
        let allocation = world.allocated(customer).await;
        assert_eq!(allocation.settled_as, None, "{customer}");
    }
}

/// Case 87: a list with one of ten rows advances one, an empty list nobody, a whole list all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_missing_from_the_list_stays_pending() {
    let world = World::start(one_taker("")).await;
    let customers = on_the_way(&world, 10).await;
    let (first, others) = customers.split_first().expect("ten");

    let one = script(&world, list(&json!([row(&world, first, 1)])));
    make_due(&world, &customers).await;
    assert_eq!(
        world.settled(first).await.settled_as.as_deref(),
        Some("done")
    );
    all_pending(&world, others).await;
    world.sim.remove_fault(&one);

    let none = script(&world, list(&json!([])));
    looked_at(&world, others).await;
    all_pending(&world, others).await;
    world.sim.remove_fault(&none);

    let rows: Vec<Value> = customers.iter().map(|one| row(&world, one, 1)).collect();
    script(&world, list(&json!(rows)));
    make_due(&world, others).await;
    for customer in others {
        assert_eq!(
            world.settled(customer).await.settled_as.as_deref(),
            Some("done")
        );
    }
    world.close().await;
}

/// Case 87: without an end in the stated time a person is told; an end that comes later still counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_end_it_is_a_persons_turn() {
    let world = World::start(one_taker("settle_after_ms = 200\nhuman_after_ms = 1")).await;
    let none = script(&world, list(&json!([])));
    world.scan("wmLong");
    eventually("a person's turn", || async {
        let transfer = world.transfer("wmLong").await;
        (transfer.state == TransferState::Human).then_some(())
    })
    .await;
    assert_eq!(world.allocated("wmLong").await.settled_as, None);
    world.sim.remove_fault(&none);
    script(&world, list(&json!([row(&world, "wmLong", 1)])));
    make_due(&world, &["wmLong".to_owned()]).await;
    assert_eq!(
        world.settled("wmLong").await.settled_as.as_deref(),
        Some("done")
    );
    world.close().await;
}

/// Case 89: numbers that nobody knows, and no number: kept as they came, nothing follows; a good row beside them counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_status_concludes_nothing() {
    let world = World::start(one_taker("")).await;
    let customers = on_the_way(&world, 5).await;
    began_long_ago(&world).await;
    let (good, odd) = customers.split_last().expect("five");
    let mut rows: Vec<Value> = odd
        .iter()
        .zip([json!(5), json!(0), json!(9)])
        .map(|(customer, status)| json!({"external_userid": customer, "status": status, "takeover_time": 0}))
        .collect();
    rows.push(json!({"external_userid": odd[3]}));
    rows.push(row(&world, good, 1));
    script(&world, list(&json!(rows)));
    make_due(&world, &customers).await;
    assert_eq!(
        world.settled(good).await.settled_as.as_deref(),
        Some("done")
    );
    all_pending(&world, odd).await;
    for (customer, raw) in odd.iter().zip([Some(5), Some(0), Some(9), None]) {
        assert_eq!(world.transfer(customer).await.raw_status, raw, "{customer}");
    }
    world.close().await;
}

/// Refusals have no time, so they are not believed of a transfer that has only just begun.
async fn began_long_ago(world: &World) {
    let earlier =
        "UPDATE transfers SET started_at = started_at - interval '2 minutes' WHERE corp_id = $1";
    sqlx::query(earlier)
        .bind(world.corp.as_str())
        .execute(world.app.ledger.pool())
        .await
        .expect("the ledger answers");
}

/// Case 93: a list that is absent, null or empty is nothing known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_without_a_list_concludes_nothing() {
    let world = World::start(one_taker("")).await;
    let customers = on_the_way(&world, 3).await;
    let absent = Act::Body(json!({"errcode": 0, "errmsg": "ok"}));
    for act in [absent, list(&Value::Null), list(&json!([]))] {
        let fault = script(&world, act);
        looked_at(&world, &customers).await;
        all_pending(&world, &customers).await;
        world.sim.remove_fault(&fault);
    }
    world.close().await;
}

/// Case 93: an empty page with a cursor and a full page of others are walked past, to the page that has ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_are_walked_to_the_end() {
    let world = World::start(one_taker("")).await;
    let customers = on_the_way(&world, 1).await;
    let others: Vec<Value> = (0..1000)
        .map(|n| row(&world, &format!("wmOther{n}"), 1))
        .collect();
    let pages = [
        (json!([]), "c1"),
        (json!(others), "c2"),
        (json!([row(&world, &customers[0], 1)]), ""),
    ];
    for (customers, cursor) in pages {
        let body =
            json!({"errcode": 0, "errmsg": "ok", "customer": customers, "next_cursor": cursor});
        let page = Fault::new(RESULT, Act::Body(body)).times(1);
        world.sim.add_fault(page).expect("a fault");
    }
    make_due(&world, &customers).await;
    let settled = world.settled(&customers[0]).await;
    assert_eq!(settled.settled_as.as_deref(), Some("done"));
    let read: Vec<u64> = world.sim.faults().iter().map(|page| page.hits).collect();
    assert_eq!(read, [1, 1, 1]);
    world.close().await;
}

/// Case 86: two members give the same customer to mb, and an event says that he refused, not whom. Only the transfer
/// that `transfer_result` calls refused ends, after WeCom was asked about both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_that_names_the_taker_only_ends_the_right_transfer() {
    let world = World::start(Options {
        members: vec![("mb", 1), ("mc", 0)],
        ..one_taker("")
    })
    .await;
    let customer = "wmTwo";
    world.scan(customer);
    let first = world.allocated(customer).await;
    world.quiet().await;

    // The simulator, as WeCom, lets nobody be in two transfers: the second is scripted.
    world.scan_member("mc", "poster", customer);
    let accepted = list(&json!([{"external_userid": customer, "errcode": 0}]));
    let accepted = Fault::new(START, accepted).member("mc");
    world.sim.add_fault(accepted).expect("a fault");
    let second = of_another_pool(&world, customer, "mc").await;
    world.quiet().await;
    began_long_ago(&world).await;
    let givers = [
        (
            "desk",
            json!({"external_userid": customer, "status": 3, "takeover_time": 0}),
        ),
        ("mc", row(&world, customer, 2)),
    ];
    for (giver, row) in givers {
        let fault = Fault::new(RESULT, list(&json!([row]))).member(giver);
        world.sim.add_fault(fault).expect("a fault");
    }
    for id in [first.id, second] {
        assert_eq!(world.transfer_of(id).await.state, TransferState::Waiting);
    }

    let refused = "<FailReason><![CDATA[customer_refused]]></FailReason>";
    world.send(world.plaintext("transfer_fail", "mb", customer, refused));
    eventually("one was refused", || async {
        let transfer = world.transfer_of(first.id).await;
        (transfer.state == TransferState::Refused).then_some(())
    })
    .await;
    let other = eventually("WeCom was asked about the other", || async {
        let transfer = world.transfer_of(second).await;
        (transfer.raw_status == Some(2)).then_some(transfer)
    })
    .await;
    assert_eq!(other.state, TransferState::Waiting);
    world.quiet().await;
    let rows = world.rows(customer).await;
    let of = |id| rows.iter().find(|row| row.id == id).expect("a row");
    assert_eq!(of(first.id).settled_as.as_deref(), Some("kept"));
    assert_eq!(of(first.id).member, MemberId::new("desk").ok());
    assert_eq!(of(second).settled_as, None);
    assert_eq!(of(second).member, MemberId::new("mb").ok());
    world.close().await;
}

/// The customer, whom `holder` has, is to go to mb in a second pool as well.
async fn of_another_pool(world: &World, customer: &str, holder: &str) -> allocation::AllocationId {
    let id = PoolId::new("second").expect("a pool");
    let pool = NewPool {
        name: "second".to_owned(),
        strategy: Strategy::WeightedRoundRobin,
        load_window_seconds: None,
        offers: None,
        routing: Default::default(),
        members: vec![(
            MemberId::new("mb").expect("a member"),
            Weight::from_thousandths(1000).expect("a weight"),
        )],
        limits: Default::default(),
    };
    let trail = Trail::system(world.app.now_ms(), "test");
    let pools = world.app.ledger.pools();
    let put = pools.put(&world.corp, &id, &pool, Precondition::None, &trail);
    put.await.expect("a pool");
    let payload = Payload {
        contexts: vec![Context {
            source: "test".to_owned(),
            subject_kind: "wecom".to_owned(),
            subject_id: customer.to_owned(),
            holder: Some(holder.to_owned()),
            ..Context::default()
        }],
        ..Payload::default()
    };
    eventually("decided in the second pool", || async {
        let request = Request {
            allocation: allocation::AllocationId(uuid::Uuid::now_v7()),
            pool: id.clone(),
            subject: world.subject(customer),
            holder: MemberId::new(holder).ok(),
            request: None,
            echo: false,
            plan: None,
        };
        let roster = &world.corp_app().roster;
        let applied = roster.decide(vec![request], &payload.text(), None).await;
        match applied.expect("Redis answers").answer.remove(0) {
            Decision::Assigned { allocation, .. } => Some(allocation),
            Decision::NoPool => None,
            other => panic!("{other:?}"),
        }
    })
    .await
}

/// A member left while the customer was on his way, and WeCom says nothing about such a pair. Who has the customer decides
/// once the transfer must be over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_him_decides_when_wecom_does_not_know_the_pair() {
    let world = World::start(one_taker("")).await;
    let customers = on_the_way(&world, 1).await;
    let gone = script(&world, Act::Errcode(60111));
    looked_at(&world, &customers).await;
    all_pending(&world, &customers).await;
    let yesterday = "UPDATE transfers SET started_at = started_at - interval '25 hours',
        takeover_at = takeover_at - interval '25 hours' WHERE corp_id = $1";
    sqlx::query(yesterday)
        .bind(world.corp.as_str())
        .execute(world.app.ledger.pool())
        .await
        .expect("the ledger answers");
    make_due(&world, &customers).await;
    let settled = world.settled(&customers[0]).await;
    assert_eq!(settled.settled_as.as_deref(), Some("kept"));
    assert_eq!(settled.member, MemberId::new("desk").ok());
    world.sim.remove_fault(&gone);
    world.close().await;
}

/// As long as WeCom does not answer, time passes all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_answer_it_is_a_persons_turn_too() {
    let world = World::start(one_taker("settle_after_ms = 200\nhuman_after_ms = 1")).await;
    let refused = script(&world, Act::Errcode(40058));
    world.scan("wmLong");
    eventually("a person's turn", || async {
        let transfer = world.transfer("wmLong").await;
        (transfer.state == TransferState::Human).then_some(())
    })
    .await;
    world.sim.remove_fault(&refused);
    world.close().await;
}
