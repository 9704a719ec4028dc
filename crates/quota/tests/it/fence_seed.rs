use quota::{Fence, Limits, Seeded};

use crate::support::Corp;

#[tokio::test]
async fn numbers_go_on_above_the_ledgers_and_never_back() {
    let corp = Corp::closed(Limits::default()).await;
    let fence = |generation, counter| Fence {
        generation,
        counter,
    };
    assert_eq!(corp.seed(3, 500).await, Seeded::Seeded(fence(3, 500)));
    assert_eq!(
        corp.seed(3, 20).await,
        Seeded::Seeded(fence(3, 500)),
        "twice is once"
    );
    assert_eq!(corp.seed(4, 501).await, Seeded::Seeded(fence(4, 501)));
    assert_eq!(corp.seed(3, 9_999).await, Seeded::Older(fence(4, 501)));
    assert!(fence(4, 501) > fence(3, 9_999));
}
