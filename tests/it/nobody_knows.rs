//! Transfers of which WeCom cannot say, or cannot be asked, what became of them.

use allocation::MemberId;
use e2e::{World, eventually};
use ledger::{Allocation, EffectState, TransferState};
use serde_json::json;
use wecom_sim::{Act, CallFilter, Fault};

use crate::results::{RESULT, START, list, make_due, on_the_way, one_taker, script};

async fn run(world: &World, sql: &'static str) {
    let done = sqlx::query(sql)
        .bind(world.corp.as_str())
        .execute(world.app.ledger.pool())
        .await;
    assert_eq!(done.expect("the ledger answers").rows_affected(), 1);
}

/// Its transfer ended without telling where the customer is (what was to start it was given up): who has him decides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_cancelled_transfer_who_has_him_decides() {
    let world = World::start(one_taker("")).await;
    let customers = on_the_way(&world, 1).await;
    run(
        &world,
        "UPDATE transfers SET state = 'cancelled', ended_at = now(), next_check_at = NULL WHERE corp_id = $1",
    )
    .await;
    let settled = world.settled(&customers[0]).await;
    assert_eq!(settled.settled_as.as_deref(), Some("kept"));
    assert_eq!(settled.member, MemberId::new("desk").ok());
    world.close().await;
}

/// Without his id nobody can ask what became of his transfer: it ends, and he is nobody's load.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whom_nobody_knows_any_more_is_nobodys() {
    let world = World::start(one_taker("")).await;
    let customers = on_the_way(&world, 2).await;
    let row = world.allocated(&customers[0]).await;
    let other = world.allocated(&customers[1]).await;
    let forget = "UPDATE customers SET external_id = NULL, deleted_at = now() WHERE id = $1";
    let forgotten = sqlx::query(forget).bind(row.customer);
    let forgotten = forgotten.execute(world.app.ledger.pool()).await;
    forgotten.expect("the ledger answers");
    make_due(&world, &customers).await;
    let closed: Allocation = eventually("he is nobody's", || async {
        let rows = world.rows(&customers[0]).await;
        rows.into_iter().find(|row| row.closed_ms.is_some())
    })
    .await;
    assert_eq!(closed.settled_as.as_deref(), Some("void"));
    let ended = world.transfer_of(row.id).await;
    assert_eq!(ended.state, TransferState::Cancelled);
    // The one beside him in the same look was asked about.
    let goes_on = eventually("WeCom was asked about the other", || async {
        let transfer = world.transfer_of(other.id).await;
        (transfer.raw_status == Some(2)).then_some(transfer)
    })
    .await;
    assert_eq!(goes_on.state, TransferState::Waiting);
    world.close().await;
}

/// A start whose answer was lost and of which WeCom does not know, or does not say, for so long that nobody will find out
/// by asking: a person's turn. It is not sent again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_stays_unknown_is_a_persons_turn() {
    let world = World::start(one_taker(
        "settle_after_ms = 200\nunknown_for_ms = 60000\nhuman_after_ms = 1",
    ))
    .await;
    let says = [
        ("wmSilent", list(&json!([]))),
        ("wmRefused", Act::Errcode(40058)),
    ];
    for (customer, act) in says {
        let says = script(&world, act);
        let lost = Fault::new(START, Act::Drop).customer(customer);
        let lost = world.sim.add_fault(lost).expect("a fault");
        world.scan(customer);
        let row = world.allocated(customer).await;
        let start = eventually("it is given up", || async {
            let effects = world.app.ledger.outbox();
            let effects = effects.of_allocation(&world.corp, row.id).await.ok()?;
            let mut effects = effects.into_iter();
            effects.find(|one| one.kind == "transfer" && one.state == EffectState::Dead)
        })
        .await;
        assert_eq!(start.tries, 1, "{customer}");
        let transfer = world.transfer_of(row.id).await;
        assert_eq!(transfer.state, TransferState::Human, "{customer}");
        // It may have been a move.
        assert!(transfer.started_ms.is_some(), "{customer}");
        assert_eq!(world.allocated(customer).await.settled_as, None);
        world.sim.remove_fault(&lost);
        world.sim.remove_fault(&says);
    }
    let asked = |api: &str| {
        let filter = CallFilter {
            api: Some(api.to_owned()),
            ..CallFilter::default()
        };
        world.sim.calls(&filter).len()
    };
    assert_eq!(asked(START), 2);
    assert!(asked(RESULT) >= 2);
    world.close().await;
}
