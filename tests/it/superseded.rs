//! A customer is given to somebody else while WeCom is moving him already.

use allocation::{MemberId, Reassigned, Reassignment};
use allocator::payload::Payload;
use e2e::{Options, World, eventually};
use ledger::{Allocation, EffectState, Transfer, TransferState};
use wecom_sim::TransferEnd;

async fn two_takers() -> World {
    World::start(Options {
        members: vec![("ma", 1), ("mb", 1)],
        allocator: "[audit]\nperiod_ms = 0\n[handover]\npoll_ms = 100\nsettle_after_ms = 200\nunknown_for_ms = 500\n"
            .to_owned(),
        cards: false,
        ..Options::default()
    })
    .await
}

/// Gives him to the other of the two; answers the two, in the order they were chosen.
async fn reassign(world: &World, customer: &str) -> (MemberId, MemberId) {
    let row = world.allocated(customer).await;
    let first = row.member.clone().expect("a member");
    let second = if first.as_str() == "ma" { "mb" } else { "ma" };
    let second = MemberId::new(second).expect("a member");
    let payload = Payload {
        giver: Some("desk".to_owned()),
        ..Payload::default()
    };
    let reassignment = Reassignment {
        allocation: row.id,
        pool: row.pool,
        subject: row.subject,
        to: Some(second.clone()),
        exclude: Vec::new(),
        expect_epoch: 0,
    };
    let roster = &world.corp_app().roster;
    let applied = roster.reassign(reassignment, &payload.text(), None).await;
    let answer = applied.expect("Redis answers").answer;
    assert!(matches!(answer, Reassigned::Moved { .. }), "{answer:?}");
    world.corp_app().log_grew.notify_one();
    (first, second)
}

async fn transfers(world: &World, of: &Allocation) -> Vec<Transfer> {
    let transfers = world.app.ledger.transfers();
    let of = transfers.of_allocations(&world.corp, &[of.id]).await;
    of.expect("the ledger answers")
}

async fn state_of(world: &World, of: &Allocation, giver: &str, taker: &str) -> TransferState {
    eventually(&format!("a transfer from {giver} to {taker}"), || async {
        transfers(world, of)
            .await
            .into_iter()
            .find(|one| one.giver.as_str() == giver && one.taker.as_str() == taker)
            .map(|one| one.state)
    })
    .await
}

fn end(world: &World, customer: &str, end: TransferEnd) {
    let corp = Some(world.corp.as_str());
    world.sim.end_transfer(corp, customer, end).expect("an end");
}

/// The first transfer ends with the customer at a member whom he is not for any more. From him he goes on to the one he
/// is for; the books never say that he is where he is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_an_earlier_transfer_leads_on() {
    let world = two_takers().await;
    let customer = "wmOnward";
    world.scan(customer);
    let row = world.allocated(customer).await;
    world.quiet().await;
    let (first, second) = reassign(&world, customer).await;
    eventually("WeCom says that he is being moved", || async {
        let all = transfers(&world, &row).await;
        (all.len() == 2 && all[1].errcode == Some(40129)).then_some(())
    })
    .await;
    // Our own transfer moves him: the new one has spent none of his two moves, and is asked for when the other ends.
    eventually("it waits", || async {
        let waiting = transfers(&world, &row).await.remove(1);
        let effects = world.app.ledger.outbox();
        let effects = effects.of_allocation(&world.corp, row.id).await.ok()?;
        let start = effects
            .into_iter()
            .find(|one| one.transfer == Some(waiting.id))?;
        let later = start.due_ms > world.app.now_ms() + 3_600_000;
        (waiting.started_ms.is_none() && start.state == EffectState::Pending && later).then_some(())
    })
    .await;

    end(&world, customer, TransferEnd::Early);
    eventually("he goes on", || async {
        let state = state_of(&world, &row, first.as_str(), second.as_str()).await;
        (state == TransferState::Waiting).then_some(())
    })
    .await;
    let now = world.allocated(customer).await;
    assert_eq!((now.member.as_ref(), now.settled_as), (Some(&second), None));

    end(&world, customer, TransferEnd::Early);
    let settled = world.settled(customer).await;
    assert_eq!(settled.settled_as.as_deref(), Some("done"));
    assert_eq!(settled.member, Some(second));
    assert_eq!(settled.holder, Some(first));
    // Nor is anybody told who should not be: his channel wants no cards, whoever gets him.
    world.quiet().await;
    assert_eq!(world.sim.messages(), []);
    world.close().await;
}

/// The customer refuses the first one: nobody has moved him, and the member he is for gets him from the first holder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_earlier_transfer_that_fails_settles_nothing() {
    let world = two_takers().await;
    let customer = "wmRefuses";
    world.scan(customer);
    let row = world.allocated(customer).await;
    world.quiet().await;
    // A refusal is not believed of a transfer that has only just begun.
    let earlier = "UPDATE transfers SET started_at = started_at - interval '2 minutes'";
    let earlier = sqlx::query(earlier).execute(world.app.ledger.pool()).await;
    earlier.expect("the ledger answers");
    let (first, second) = reassign(&world, customer).await;
    end(&world, customer, TransferEnd::Refuse);
    eventually("the first one is over", || async {
        let state = state_of(&world, &row, "desk", first.as_str()).await;
        (state == TransferState::Refused).then_some(())
    })
    .await;
    eventually("the second is on its way", || async {
        let state = state_of(&world, &row, "desk", second.as_str()).await;
        (state == TransferState::Waiting).then_some(())
    })
    .await;
    let now = world.allocated(customer).await;
    assert_eq!((now.member, now.settled_as), (Some(second), None));
    world.close().await;
}
