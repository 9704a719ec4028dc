//! How long a token is used, and what happens when there is none to be had.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::watch;
use wecom::Error;
use wecom::client::{Clock, TokenStore};
use wecom::error::{Class, Scope};

use crate::stub::{Answer, Stub, until};
use crate::support::{APP_KEY, ManualClock, T0_MS, client, client_at};

const API: &str = "externalcontact/get_follow_user_list";

/// Case 46.
#[rstest]
#[case::usual(json!(7200), 6_900_000)]
#[case::text(json!("7200"), 6_900_000)]
#[case::nothing(json!(0), 60_000)]
#[case::missing(Value::Null, 60_000)]
#[case::negative(json!(-1), 60_000)]
#[case::short(json!(10), 9_000)]
#[case::very_short(json!(1), 5_000)]
#[case::absurd(json!(i64::MAX), 86_400_000)]
#[tokio::test]
async fn a_token_is_kept_less_long_than_wecom_says(
    #[case] expires_in: Value,
    #[case] kept_ms: u64,
) {
    let stub = Stub::raw(move |call| {
        if call.api != "gettoken" {
            return Answer::ok();
        }
        let mut answer = json!({"errcode": 0, "access_token": format!("V{}", call.nth)});
        if !expires_in.is_null() {
            answer["expires_in"] = expires_in.clone();
        }
        Answer::Json(answer)
    })
    .await;
    let clock = ManualClock::new();
    let (client, store) = client_at(&stub, &clock);
    for _ in 0..20 {
        client.get_follow_user_list().await.unwrap();
    }
    assert_eq!(stub.gettoken_count(), 1, "no busy loop");
    let stored = store.load(APP_KEY).await.unwrap().unwrap();
    assert_eq!(stored.expires_at_ms, T0_MS + kept_ms);
    clock.advance(kept_ms);
    client.get_follow_user_list().await.unwrap();
    assert_eq!(stub.calls(API).last().unwrap().token(), "V2");
}

/// While the old token is live a renewal makes nobody wait.
#[tokio::test]
async fn renewal_before_expiry_goes_on_in_the_background() {
    let (release, released) = watch::channel(false);
    let stub = Stub::raw(move |call| {
        if call.api == "gettoken" && call.nth == 2 {
            let mut released = released.clone();
            return Answer::Later(Box::pin(async move {
                released.wait_for(|is| *is).await.unwrap();
                Answer::token(2)
            }));
        }
        if call.api == "gettoken" {
            Answer::token(call.nth)
        } else {
            Answer::ok()
        }
    })
    .await;
    let clock = ManualClock::new();
    let (client, _) = client_at(&stub, &clock);
    client.get_follow_user_list().await.unwrap();
    clock.advance(6_700_000);
    for _ in 0..5 {
        client.get_follow_user_list().await.unwrap();
    }
    until("a renewal is under way", || stub.gettoken_count() == 2).await;
    client.get_follow_user_list().await.unwrap();
    assert!(stub.calls(API).iter().all(|call| call.token() == "V1"));
    release.send_replace(true);
    let mut expires_at_ms = 0;
    while expires_at_ms <= clock.now_ms() + 6_000_000 {
        expires_at_ms = client.ensure_token().await.unwrap();
        tokio::task::yield_now().await;
    }
    client.get_follow_user_list().await.unwrap();
    assert_eq!(stub.calls(API).last().unwrap().token(), "V2");
    assert_eq!(stub.gettoken_count(), 2);
}

/// A cold start asks once, and a caller that gives up does not leave the others without.
#[tokio::test]
async fn any_number_of_waiting_callers_make_one_token_call() {
    let (release, released) = watch::channel(false);
    let stub = Stub::raw(move |call| {
        if call.api != "gettoken" {
            return Answer::ok();
        }
        let mut released = released.clone();
        Answer::Later(Box::pin(async move {
            released.wait_for(|is| *is).await.unwrap();
            Answer::token(1)
        }))
    })
    .await;
    let client = client(&stub);
    let first = tokio::spawn({
        let client = client.clone();
        async move { client.get_follow_user_list().await }
    });
    until("the token call is under way", || stub.gettoken_count() == 1).await;
    let others: Vec<_> = (0..100)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.get_follow_user_list().await })
        })
        .collect();
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    release.send_replace(true);
    for other in others {
        other.await.unwrap().unwrap();
    }
    assert_eq!(stub.gettoken_count(), 1);
}

/// A wrong secret never loops: pauses grow, one call at a time looks whether it is mended.
#[rstest]
#[tokio::test]
async fn a_wrong_secret_never_loops(#[values(40001, 40013, 40091, 41004)] errcode: i64) {
    let mended = Arc::new(AtomicBool::new(false));
    let stub = Stub::raw({
        let mended = mended.clone();
        move |call| match call.api.as_str() {
            "gettoken" if mended.load(Ordering::SeqCst) => Answer::token(1),
            "gettoken" => Answer::error(errcode),
            _ => Answer::ok(),
        }
    })
    .await;
    let clock = ManualClock::new();
    let (client, _) = client_at(&stub, &clock);
    let first = client.get_follow_user_list().await.unwrap_err();
    assert!(
        matches!(
            first,
            Error::Api {
                api: "gettoken",
                ..
            }
        ),
        "{first}"
    );
    assert_eq!(
        (first.class(), first.scope(), first.errcode()),
        (Class::PermanentConfig, Scope::App, Some(errcode))
    );
    let mut until_ms = 0;
    for _ in 0..3_600 {
        clock.advance(1_000);
        match client.get_follow_user_list().await {
            Err(Error::Blocked {
                until_ms: until,
                errcode: Some(code),
                ..
            }) => {
                assert_eq!(code, errcode);
                until_ms = until;
            }
            Err(Error::Api {
                api: "gettoken", ..
            }) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(
        (5..=12).contains(&stub.gettoken_count()),
        "{} token calls in an hour",
        stub.gettoken_count()
    );
    assert_eq!(stub.count(API), 0);
    mended.store(true, Ordering::SeqCst);
    clock.advance(until_ms.saturating_sub(clock.now_ms()));
    client.get_follow_user_list().await.unwrap();
}

/// Fifty callers at once with a wrong secret are one attempt, not fifty.
#[tokio::test]
async fn many_callers_with_a_wrong_secret_are_one_attempt() {
    let stub = Stub::raw(|_| Answer::error(40001)).await;
    let clock = ManualClock::new();
    let (client, _) = client_at(&stub, &clock);
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.get_follow_user_list().await })
        })
        .collect();
    for call in calls {
        assert!(call.await.unwrap().unwrap_err().stops_the_app());
    }
    assert_eq!(stub.gettoken_count(), 1);
}

/// When no token comes, the business call was not sent, however unclear the fate of `gettoken` is.
#[rstest]
#[case::html(502, "<html>bad gateway</html>")]
#[case::cut_off(200, "{\"errcode\":0,\"access_tok")]
#[case::empty_token(200, "{\"errcode\":0,\"access_token\":\"\"}")]
#[case::no_token(200, "{\"errcode\":0}")]
#[tokio::test]
async fn without_a_token_nothing_was_sent(#[case] status: u16, #[case] body: &'static str) {
    let stub = Stub::raw(move |call| match (call.api.as_str(), call.nth) {
        ("gettoken", 1) => Answer::Raw(status, "text/html", body.to_owned()),
        ("gettoken", nth) => Answer::token(nth),
        _ => Answer::ok(),
    })
    .await;
    let clock = ManualClock::new();
    let (client, _) = client_at(&stub, &clock);
    let error = client.get_follow_user_list().await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Transport {
                api: "gettoken",
                sent: false,
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(error.class(), Class::RetryWithBackoff);
    assert!(matches!(
        client.get_follow_user_list().await,
        Err(Error::Blocked { errcode: None, .. })
    ));
    clock.advance(1_000);
    client.get_follow_user_list().await.unwrap();
}

/// A renewal in the background that fails leaves the live token in use.
#[tokio::test]
async fn a_failed_background_renewal_harms_nobody() {
    let stub = Stub::raw(|call| match (call.api.as_str(), call.nth) {
        ("gettoken", 1) => Answer::token(1),
        ("gettoken", _) => Answer::error(-1),
        _ => Answer::ok(),
    })
    .await;
    let clock = ManualClock::new();
    let (client, _) = client_at(&stub, &clock);
    client.get_follow_user_list().await.unwrap();
    clock.advance(6_700_000);
    client.get_follow_user_list().await.unwrap();
    until("the renewal was tried", || stub.gettoken_count() == 2).await;
    for _ in 0..20 {
        client.get_follow_user_list().await.unwrap();
    }
    assert_eq!(stub.gettoken_count(), 2, "the pause holds");
}
