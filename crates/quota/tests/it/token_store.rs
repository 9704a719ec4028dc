use quota::token_store::Stored;
use redis::AsyncCommands;

use crate::support::{T0, assert_all_expire};
use crate::token_load::{token, tokens, value};

/// Case 41: of many late failures only the first replaces the token.
#[tokio::test]
async fn case_41_a_late_failure_does_not_replace_a_newer_token() {
    let (_, tokens) = tokens().await;
    let end = T0 + 7_000_000;
    let store = async |failed: Option<&str>, new: &str| {
        value(
            tokens
                .store_if("a", failed, &token(new, end), Some(T0))
                .await
                .unwrap(),
        )
    };
    assert_eq!(store(None, "V1").await, "V1");
    assert_eq!(store(Some("V1"), "V2").await, "V2");
    assert_eq!(store(Some("V1"), "V3").await, "V2");
    assert_eq!(store(None, "V4").await, "V2");
    assert_eq!(store(Some("V2"), "V5").await, "V5");
}

/// Case 46: a token always ends, before WeCom says it does.
#[tokio::test]
async fn case_46_always_a_time_to_live() {
    let (corp, tokens) = tokens().await;
    for (expires_in_s, most_ms) in [(7_200, 7_140_000), (99_999_999, 7_140_000), (10, 10_000)] {
        let new = token("V", T0 + expires_in_s * 1_000);
        let stored = tokens
            .store_if("a", Some("V"), &new, Some(T0))
            .await
            .unwrap();
        assert!(
            matches!(&stored, Stored::Stored(token) if token.expires_at_ms <= T0 + most_ms),
            "{stored:?}"
        );
        let ttl: i64 = corp.conn().pttl(&corp.keys().await[0]).await.unwrap();
        assert!(ttl > 0 && ttl <= most_ms, "{ttl}");
        assert_all_expire(&corp.conn, &corp.id).await;
    }
    for expires_in_s in [0, -1] {
        let new = token("W", T0 + expires_in_s * 1_000);
        let stored = tokens.store_if("b", None, &new, Some(T0)).await.unwrap();
        assert!(matches!(stored, Stored::Expired), "{stored:?}");
    }
}

#[tokio::test]
async fn an_expired_token_is_replaced_by_anyone() {
    let (_, tokens) = tokens().await;
    tokens
        .store_if("a", None, &token("V1", T0 + 1_000), Some(T0))
        .await
        .unwrap();
    let stored = tokens
        .store_if("a", None, &token("V2", T0 + 9_000), Some(T0 + 1_000))
        .await;
    assert_eq!(value(stored.unwrap()), "V2");
}
