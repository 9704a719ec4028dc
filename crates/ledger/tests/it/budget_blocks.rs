//! Blocks outlive a wiped Redis, and only their latest end counts.

use ledger::BudgetBlock;

use crate::setup::{T0, setup};

fn block(api: &str, scope: &str, until_ms: u64) -> BudgetBlock {
    BudgetBlock {
        api: api.into(),
        scope: scope.into(),
        until_ms,
    }
}

#[tokio::test]
async fn the_latest_end_of_a_block_stands() {
    let setup = setup().await;
    let blocks = setup.ledger.budget_blocks();
    let first = [
        block("b", "corp", T0 + 30),
        block("b", "corp", T0 + 10),
        block("a", "egress", T0 + 5),
    ];
    blocks.save(&setup.corp, &first).await.unwrap();
    blocks
        .save(&setup.corp, &[block("b", "corp", T0 + 20)])
        .await
        .unwrap();
    blocks.save(&setup.corp, &[]).await.unwrap();
    let load = async |now| blocks.load(&setup.corp, now).await.unwrap();
    assert_eq!(
        load(T0).await,
        [block("a", "egress", T0 + 5), block("b", "corp", T0 + 30)]
    );
    assert_eq!(load(T0 + 5).await, [block("b", "corp", T0 + 30)]);
    assert!(load(T0 + 30).await.is_empty());
    assert!(
        blocks
            .load(&"ww0000000000000000".parse().unwrap(), T0)
            .await
            .unwrap()
            .is_empty()
    );
}
