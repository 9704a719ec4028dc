//! Transfers that the log's writer plans, a batch at a time.

use ledger::{Change, Conflict, NewAllocation, NewTransfer};

use crate::{
    setup::{allocation, decided, effect_of, id, subject, transfer},
    transfers::{plan, transfers, with_customers},
};

/// A row that stands in the way of one new row of a batch costs none of the others: the batch is written again with a look
/// for it, and nothing of the first try stays.
#[tokio::test]
async fn what_stands_in_the_way_costs_the_others_nothing() {
    let setup = with_customers().await;
    plan(&setup, 1, 1, "mB").await;
    let known = [decided(1, Some("mA")), decided(90, Some("mA"))];
    let written = setup
        .write(vec![
            // An open one of the same subject stands.
            Change::Decided(NewAllocation {
                allocation: allocation(91),
                ..known[0].clone()
            }),
            Change::Decided(known[1].clone()),
            // The same is under way.
            Change::Transfer(transfer(2, 1, "mB", "mA")),
            Change::Transfer(transfer(3, 90, "mB", "mA")),
            Change::Effect(effect_of(90, "k", None)),
        ])
        .await;
    assert_eq!(
        written.conflicts,
        [Conflict {
            lost: allocation(91),
            stands: allocation(1)
        }]
    );
    assert_eq!(written.transfers_under_way, [id(2)]);
    let rows = setup.ledger.allocations();
    let row = rows.get(&setup.corp, allocation(91)).await.unwrap();
    assert_eq!(row.unwrap().close_reason.as_deref(), Some("conflict"));
    let row = rows.get(&setup.corp, allocation(90)).await.unwrap();
    assert_eq!(row.unwrap().close_reason, None);
    let planned = transfers(&setup).get(&setup.corp, id(3)).await.unwrap();
    assert_eq!(planned.unwrap().subject, subject("wmC090"));
    let effects = setup.ledger.outbox();
    let effects = effects.of_allocation(&setup.corp, allocation(90)).await;
    assert_eq!(effects.unwrap().len(), 1);
}

/// A transfer of somebody whom nobody knows is not planned, and what belongs to it is not done.
#[tokio::test]
async fn nobody_is_moved_who_is_unknown() {
    let setup = with_customers().await;
    let new = NewTransfer {
        allocation: None,
        ..transfer(7, 500, "mB", "mA")
    };
    let written = setup.write(vec![Change::Transfer(new)]).await;
    assert_eq!(written.transfers_under_way, [id(7)]);
    assert_eq!(
        transfers(&setup).get(&setup.corp, id(7)).await.unwrap(),
        None
    );
}
