//! Renewal after WeCom refused a token.

use std::sync::Arc;
use std::task::Poll;

use rstest::rstest;
use tokio::sync::watch;
use wecom::client::{MemoryTokenStore, Token, TokenStore};
use wecom::error::{Class, Scope};
use wecom::{Error, client::Client};

use crate::stub::{Answer, Stub, until};
use crate::support::{
    APP_KEY, FlakyStore, Flaw, ManualClock, client, client_at, client_of, options,
};

const API: &str = "externalcontact/get_follow_user_list";

/// Refuses every token but V`live`.
fn only(live: &'static str, errcode: i64) -> impl Fn(&crate::stub::Received) -> Answer {
    move |call| {
        if call.token() == live {
            Answer::ok()
        } else {
            Answer::error(errcode)
        }
    }
}

/// Case 40.
#[rstest]
#[tokio::test]
async fn a_refused_token_is_renewed_once_and_the_call_repeated_once(
    #[values(40014, 42001, 40001)] errcode: i64,
) {
    let stub = Stub::start(only("V2", errcode)).await;
    let client = client(&stub);
    client.get_follow_user_list().await.unwrap();
    assert_eq!(
        stub.gettoken_count(),
        2,
        "V1 at the start, V2 after the refusal"
    );
    let tokens: Vec<String> = stub
        .calls(API)
        .iter()
        .map(|call| call.token().to_owned())
        .collect();
    assert_eq!(tokens, ["V1", "V2"]);
}

/// Case 40: at most one renewal for a call, whatever comes back.
#[rstest]
#[tokio::test]
async fn a_second_refusal_surfaces_as_a_matter_for_a_person(
    #[values(40014, 42001, 40001)] errcode: i64,
) {
    let stub = Stub::start(move |_| Answer::error(errcode)).await;
    let error = client(&stub).get_follow_user_list().await.unwrap_err();
    assert_eq!(
        (error.errcode(), error.class(), error.scope()),
        (Some(errcode), Class::PermanentConfig, Scope::App)
    );
    assert!(!error.may_have_acted());
    assert_eq!((stub.gettoken_count(), stub.count(API)), (2, 2));
}

/// Case 41: fifty calls with V1, half of them refused only when V2 is in use already. Without a store the
/// process must know by itself which token is the newer one.
#[rstest]
#[case::with_a_store(Arc::new(MemoryTokenStore::default()))]
#[case::without(FlakyStore::new(Flaw::All))]
#[tokio::test]
async fn late_failures_do_not_expire_the_newer_token(#[case] store: Arc<dyn TokenStore>) {
    let (arrived, all_arrived) = watch::channel(0_usize);
    let (renewed, is_renewed) = watch::channel(false);
    let (arrived, renewed) = (Arc::new(arrived), Arc::new(renewed));
    let stub = Stub::start(move |call| {
        if call.token() == "V1" {
            arrived.send_modify(|count| *count += 1);
            let (mut all_arrived, mut is_renewed) = (all_arrived.clone(), is_renewed.clone());
            let late = call.nth % 2 == 0;
            return Answer::Later(Box::pin(async move {
                all_arrived.wait_for(|count| *count == 50).await.unwrap();
                if late {
                    is_renewed.wait_for(|is| *is).await.unwrap();
                }
                Answer::error(42001)
            }));
        }
        renewed.send_replace(true);
        Answer::ok()
    })
    .await;
    let client = client_of(&stub.url, 1_000_002, store, options());
    let calls: Vec<_> = (0..50)
        .map(|_| tokio::spawn(call(client.clone())))
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(stub.gettoken_count(), 2, "V1 and V2");
    let with_v2 = stub
        .calls(API)
        .iter()
        .filter(|call| call.token() == "V2")
        .count();
    assert_eq!(with_v2, 50);
}

async fn call(client: Client) -> Result<Vec<String>, Error> {
    client.get_follow_user_list().await
}

/// While a refused token is being renewed, new calls wait for the new one.
#[tokio::test]
async fn a_refused_token_is_not_sent_again() {
    let (release, released) = watch::channel(false);
    let stub = Stub::raw(move |call| match (call.api.as_str(), call.nth) {
        ("gettoken", 2) => {
            let mut released = released.clone();
            Answer::Later(Box::pin(async move {
                released.wait_for(|is| *is).await.unwrap();
                Answer::token(2)
            }))
        }
        ("gettoken", nth) => Answer::token(nth),
        _ if call.token() == "V1" => Answer::error(42001),
        _ => Answer::ok(),
    })
    .await;
    let client = client(&stub);
    let first = tokio::spawn(call(client.clone()));
    until("the renewal is under way", || stub.gettoken_count() == 2).await;
    let mut others: Vec<_> = (0..10).map(|_| Box::pin(call(client.clone()))).collect();
    for other in &mut others {
        // Polled once: it waits.
        assert!(poll_once(other).await.is_none());
    }
    release.send_replace(true);
    first.await.unwrap().unwrap();
    for other in others {
        other.await.unwrap();
    }
    let with_v1 = stub
        .calls(API)
        .iter()
        .filter(|call| call.token() == "V1")
        .count();
    assert_eq!((with_v1, stub.gettoken_count()), (1, 2));
}

async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(
        |context| match std::pin::Pin::new(&mut *future).poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => Poll::Ready(None),
        },
    )
    .await
}

/// Two processes with the same dead token: one asks WeCom, the other takes what it stored.
#[tokio::test]
async fn processes_that_share_a_store_renew_once() {
    let stub = Stub::raw(|call| match call.api.as_str() {
        "gettoken" => Answer::token(call.nth + 1),
        _ if call.token() == "V2" => Answer::ok(),
        _ => Answer::error(42001),
    })
    .await;
    let store = Arc::new(MemoryTokenStore::default());
    store
        .store_if(APP_KEY, None, &Token::new("V1", u64::MAX / 2))
        .await
        .unwrap();
    let processes: Vec<Client> = (0..5)
        .map(|_| client_of(&stub.url, 1_000_002, store.clone(), options()))
        .collect();
    let calls: Vec<_> = (0..50)
        .map(|nth| tokio::spawn(call(processes[nth % 5].clone())))
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(stub.gettoken_count(), 1);
}

/// Case 42: one call a second for a minute, every token refused.
#[tokio::test]
async fn tokens_that_never_work_do_not_loop() {
    let stub = Stub::start(|_| Answer::error(40014)).await;
    let clock = ManualClock::new();
    let (client, _) = client_at(&stub, &clock);
    for second in 0..60 {
        let before = stub.count(API);
        let error = client.get_follow_user_list().await.unwrap_err();
        assert!(
            error.stops_the_app() && !error.may_have_acted(),
            "second {second}: {error}"
        );
        assert_eq!(error.errcode(), Some(40014));
        assert!(stub.count(API) - before <= 2);
        clock.advance(1_000);
    }
    assert!(
        stub.gettoken_count() <= 5,
        "{} token calls",
        stub.gettoken_count()
    );
}

/// Pauses between renewals hold back nothing that the store can give.
#[tokio::test]
async fn another_processs_token_is_taken_in_spite_of_a_pause() {
    let stub = Stub::start(only("elsewhere", 40014)).await;
    let clock = ManualClock::new();
    let (client, store) = client_at(&stub, &clock);
    for _ in 0..3 {
        client.get_follow_user_list().await.unwrap_err();
    }
    let token_calls = stub.gettoken_count();
    assert!(matches!(
        client.get_follow_user_list().await,
        Err(Error::Blocked {
            errcode: Some(40014),
            ..
        })
    ));
    let stored = store.load(APP_KEY).await.unwrap().unwrap();
    let other = Token::new("elsewhere", stored.expires_at_ms);
    assert!(
        store
            .store_if(APP_KEY, Some(stored.expose()), &other)
            .await
            .unwrap()
    );
    client.get_follow_user_list().await.unwrap();
    assert_eq!(stub.gettoken_count(), token_calls);
}

/// WeCom may give the same token again; the call is repeated with it.
#[tokio::test]
async fn the_same_token_again_is_tried_again() {
    let stub = Stub::raw(|call| match (call.api.as_str(), call.nth) {
        ("gettoken", _) => Answer::token(1),
        (_, 1) => Answer::error(42001),
        _ => Answer::ok(),
    })
    .await;
    client(&stub).get_follow_user_list().await.unwrap();
    assert_eq!((stub.gettoken_count(), stub.count(API)), (2, 2));
}

/// Case 43.
#[tokio::test]
async fn apps_of_one_corp_never_mix_their_tokens() {
    let stub = Stub::raw(|call| {
        if call.api == "gettoken" {
            let secret = call.query.get("corpsecret").cloned().unwrap_or_default();
            return Answer::Json(serde_json::json!({"errcode": 0, "access_token": format!("T-{secret}"), "expires_in": 7200}));
        }
        Answer::ok()
    })
    .await;
    let store = Arc::new(MemoryTokenStore::default());
    let apps =
        [1_000_002, 1_000_003].map(|agent| client_of(&stub.url, agent, store.clone(), options()));
    for _ in 0..10 {
        apps[0].get_follow_user_list().await.unwrap();
        apps[1].get_callback_ip().await.unwrap();
    }
    assert_eq!(stub.gettoken_count(), 2);
    assert!(
        stub.calls(API)
            .iter()
            .all(|call| call.token() == "T-secret-of-1000002")
    );
    assert!(
        stub.calls("getcallbackip")
            .iter()
            .all(|call| call.token() == "T-secret-of-1000003")
    );
}
