//! The store: failing, slow, with a dead holder of the lease, with somebody faster.

use std::sync::Arc;

use rstest::rstest;
use wecom::client::{
    Client, Clock, MemoryTokenStore, Options, StoreFuture, TOKEN_LEASE, Token, TokenStore,
};

use crate::stub::{Answer, Stub};
use crate::support::{
    APP_KEY, FlakyStore, Flaw, ManualClock, T0_MS, client_at, client_of, impatient, options,
};

/// Case 44: two hundred calls over a store that fails are one token call.
#[rstest]
#[tokio::test]
async fn a_failing_store_is_never_fatal(
    #[values(Flaw::Writes, Flaw::All, Flaw::Hangs)] flaw: Flaw,
) {
    let stub = Stub::start(|_| Answer::ok()).await;
    let mut options = impatient();
    options.call_limit = wecom::client::CALL_LIMIT;
    let client = client_of(&stub.url, 1_000_002, FlakyStore::new(flaw), options);
    let calls: Vec<_> = (0..200)
        .map(|_| tokio::spawn(call(client.clone())))
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(stub.gettoken_count(), 1);
}

async fn call(client: Client) {
    client.get_follow_user_list().await.unwrap();
}

/// Case 45: the holder of the lease died; the next process gets a token when the lease ends.
#[tokio::test]
async fn a_dead_holder_costs_one_lease() {
    let stub = Stub::start(|_| Answer::ok()).await;
    let clock = ManualClock::new();
    let (client, store) = client_at(&stub, &clock);
    let lease_ms = u64::try_from(TOKEN_LEASE.as_millis()).unwrap();
    assert!(
        store
            .try_lease(APP_KEY, "the dead one", lease_ms)
            .await
            .unwrap()
    );
    client.get_follow_user_list().await.unwrap();
    assert_eq!(clock.now_ms(), T0_MS + lease_ms);
    assert_eq!(stub.gettoken_count(), 1);
    assert!(
        store.load(APP_KEY).await.unwrap().is_some(),
        "the next process finds it"
    );
    assert!(
        store.try_lease(APP_KEY, "another", lease_ms).await.unwrap(),
        "the lease was given back"
    );
}

/// A lease that never ends (a broken store) delays by one lease too, no longer.
#[tokio::test]
async fn a_lease_that_never_ends_is_passed_by() {
    let stub = Stub::start(|_| Answer::ok()).await;
    let clock = ManualClock::new();
    let (client, store) = client_at(&stub, &clock);
    assert!(
        store
            .try_lease(APP_KEY, "for ever", u64::MAX / 2)
            .await
            .unwrap()
    );
    client.get_follow_user_list().await.unwrap();
    assert_eq!(clock.now_ms(), T0_MS + 10_000);
}

/// The holder stores a token while another waits for the lease, or just before the other gets it: that one is
/// used, WeCom is not asked.
#[rstest]
#[tokio::test]
async fn a_process_takes_what_the_holder_stored_meanwhile(#[values(false, true)] gets_lease: bool) {
    struct HolderFinishes(MemoryTokenStore, bool);

    impl TokenStore for HolderFinishes {
        fn load<'a>(&'a self, app_key: &'a str) -> StoreFuture<'a, Option<Token>> {
            self.0.load(app_key)
        }

        fn store_if<'a>(
            &'a self,
            app_key: &'a str,
            failed: Option<&'a str>,
            token: &'a Token,
        ) -> StoreFuture<'a, bool> {
            self.0.store_if(app_key, failed, token)
        }

        /// Somebody else has the lease until now, and has just stored a token.
        fn try_lease<'a>(&'a self, app_key: &'a str, _: &'a str, _: u64) -> StoreFuture<'a, bool> {
            Box::pin(async move {
                self.0
                    .store_if(app_key, None, &Token::new("theirs", T0_MS + 6_900_000))
                    .await?;
                Ok(self.1)
            })
        }

        fn release<'a>(&'a self, app_key: &'a str, owner: &'a str) -> StoreFuture<'a, ()> {
            self.0.release(app_key, owner)
        }
    }

    let stub = Stub::start(|_| Answer::ok()).await;
    let clock = ManualClock::new();
    let store = Arc::new(HolderFinishes(
        MemoryTokenStore::new(clock.clone()),
        gets_lease,
    ));
    let client = client_of(&stub.url, 1_000_002, store, Options { clock, ..options() });
    client.get_follow_user_list().await.unwrap();
    assert_eq!(stub.gettoken_count(), 0);
    assert_eq!(stub.received()[0].token(), "theirs");
}

/// A process whose lease was lost while it asked does not overwrite what others use by now.
#[tokio::test]
async fn a_slow_renewal_does_not_replace_a_newer_token() {
    let clock = ManualClock::new();
    let store = Arc::new(MemoryTokenStore::new(clock.clone()));
    let stub = Stub::raw({
        let store = store.clone();
        move |call| {
            if call.api != "gettoken" {
                return Answer::ok();
            }
            let store = store.clone();
            Answer::Later(Box::pin(async move {
                store
                    .store_if(APP_KEY, None, &Token::new("theirs", T0_MS + 6_900_000))
                    .await
                    .unwrap();
                Answer::token(1)
            }))
        }
    })
    .await;
    let options = Options { clock, ..options() };
    let client = client_of(&stub.url, 1_000_002, store.clone(), options);
    client.get_follow_user_list().await.unwrap();
    assert_eq!(
        store.load(APP_KEY).await.unwrap().unwrap().expose(),
        "theirs"
    );
    assert_eq!(stub.received().last().unwrap().token(), "theirs");
}

/// A process that starts finds the token of the others.
#[tokio::test]
async fn a_stored_token_is_used_without_asking() {
    let stub = Stub::start(|_| Answer::ok()).await;
    let clock = ManualClock::new();
    let (first, store) = client_at(&stub, &clock);
    first.get_follow_user_list().await.unwrap();
    let second = client_of(&stub.url, 1_000_002, store, Options { clock, ..options() });
    second.get_follow_user_list().await.unwrap();
    assert_eq!(stub.gettoken_count(), 1);
}

#[tokio::test]
async fn the_memory_store_replaces_only_what_failed() {
    let clock = ManualClock::new();
    let store = MemoryTokenStore::new(clock.clone());
    let token = |value: &str| Token::new(value, T0_MS + 1_000);
    assert!(
        store
            .store_if("a", Some("whatever"), &token("1"))
            .await
            .unwrap(),
        "nothing was stored"
    );
    assert!(!store.store_if("a", None, &token("2")).await.unwrap());
    assert!(!store.store_if("a", Some("0"), &token("2")).await.unwrap());
    assert!(store.store_if("a", Some("1"), &token("2")).await.unwrap());
    assert!(store.load("b").await.unwrap().is_none());
    clock.advance(1_000);
    assert!(
        store.store_if("a", None, &token("3")).await.unwrap(),
        "what was stored is over"
    );

    assert!(store.try_lease("a", "x", 10).await.unwrap());
    assert!(!store.try_lease("a", "y", 10).await.unwrap());
    assert!(store.try_lease("b", "y", 10).await.unwrap());
    store.release("a", "y").await.unwrap();
    assert!(
        !store.try_lease("a", "y", 10).await.unwrap(),
        "not his to give back"
    );
    store.release("a", "x").await.unwrap();
    assert!(store.try_lease("a", "y", 10).await.unwrap());
    clock.advance(10);
    assert!(
        store.try_lease("a", "x", 10).await.unwrap(),
        "ended by itself"
    );
}
