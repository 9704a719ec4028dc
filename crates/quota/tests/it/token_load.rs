use quota::token_store::Stored;
use quota::{Limits, Token, Tokens};
use secrecy::ExposeSecret;

use crate::support::{Conn, Corp, T0};

pub(crate) async fn tokens() -> (Corp, Tokens<Conn>) {
    let corp = Corp::closed(Limits::default()).await;
    let tokens = Tokens::new(corp.conn(), &corp.id);
    (corp, tokens)
}

pub(crate) fn token(value: &str, expires_at_ms: i64) -> Token {
    Token {
        value: value.into(),
        expires_at_ms,
    }
}

#[track_caller]
pub(crate) fn value(stored: Stored) -> String {
    match stored {
        Stored::Stored(token) | Stored::Kept(token) => token.value.expose_secret().to_owned(),
        Stored::Expired => panic!("{stored:?}"),
    }
}

/// Case 43: one token per app.
#[tokio::test]
async fn case_43_apps_do_not_share_tokens() {
    let (_, tokens) = tokens().await;
    tokens
        .store_if("1000002", None, &token("V1", T0 + 1_000), Some(T0))
        .await
        .unwrap();
    assert!(tokens.load("1000003", Some(T0)).await.unwrap().is_none());
    let loaded = tokens.load("1000002", Some(T0)).await.unwrap().unwrap();
    assert_eq!(
        (loaded.value.expose_secret(), loaded.expires_at_ms),
        ("V1", T0 + 1_000)
    );
    assert!(
        tokens
            .load("1000002", Some(T0 + 1_000))
            .await
            .unwrap()
            .is_none()
    );
}

/// Case 136, our part: no value in what can be printed.
#[tokio::test]
async fn case_136_a_token_is_never_printed() {
    let (_, tokens) = tokens().await;
    let stored = tokens
        .store_if("a", None, &token("SECRETVALUE", T0 + 1_000), Some(T0))
        .await;
    let text = format!("{stored:?} {:?} {tokens:?}", token("SECRETVALUE", 1));
    assert!(!text.contains("SECRETVALUE"), "{text}");
}
