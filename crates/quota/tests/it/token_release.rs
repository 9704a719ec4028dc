use crate::support::T0;
use crate::token_load::tokens;

#[tokio::test]
async fn only_the_owner_releases() {
    let (_, tokens) = tokens().await;
    assert!(tokens.try_lease("a", "p", 10_000, Some(T0)).await.unwrap());
    assert!(!tokens.release("a", "q").await.unwrap());
    assert!(!tokens.try_lease("a", "q", 10_000, Some(T0)).await.unwrap());
    assert!(tokens.release("a", "p").await.unwrap());
    assert!(!tokens.release("a", "p").await.unwrap());
    assert!(tokens.try_lease("a", "q", 10_000, Some(T0)).await.unwrap());
}
