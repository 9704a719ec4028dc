//! Changing the keys of a URL while callbacks arrive: none is lost, whichever keys it was sealed with.

use crate::harness::{
    App, Setup,
    setup::{AES_KEY, OTHER_AES_KEY, OTHER_TOKEN, TOKEN, event, seal},
    stored,
};

const OLD: (&str, &str) = (TOKEN, AES_KEY);
const NEW: (&str, &str) = (OTHER_TOKEN, OTHER_AES_KEY);

fn owned(keys: (&str, &str)) -> (String, String) {
    (keys.0.to_owned(), keys.1.to_owned())
}

#[tokio::test]
async fn both_pairs_are_accepted_while_they_are_configured() {
    let redis = test_redis::shared();
    let app = App::new().with_keys(&[NEW, OLD]);
    let gateway = Setup::new(&redis.url())
        .endpoint("sales", &app)
        .start()
        .await;
    for (customer, keys) in [("wm1", OLD), ("wm2", NEW), ("wm3", OLD)] {
        let sealed = seal(&owned(keys), &app.corp, &event(&app.corp, customer), "n");
        assert_eq!(
            gateway.send("sales", &sealed).await.status,
            200,
            "{customer}"
        );
    }
    // A token of one pair with the AES key of the other is no pair.
    let mixed = seal(
        &owned((NEW.0, OLD.1)),
        &app.corp,
        &event(&app.corp, "wm4"),
        "n",
    );
    assert_eq!(gateway.send("sales", &mixed).await.status, 403);
    assert_eq!(stored::plaintexts(redis, &app.corp).await.len(), 3);
    assert_eq!(
        gateway
            .metric("gateway_older_key_total{endpoint=\"sales\"}")
            .await,
        2.0
    );
    gateway.finish().await.unwrap();
}

/// Old → new and old → new, by two reloads, under a stream of callbacks of both kinds.
#[tokio::test]
async fn keys_rotate_without_loss() {
    let redis = test_redis::shared();
    let app = App::new();
    let mut gateway = Setup::new(&redis.url())
        .endpoint("sales", &app)
        .start()
        .await;
    let mut sent = Vec::new();
    let steps = [
        (vec![NEW, OLD], OLD),
        (vec![NEW, OLD], NEW),
        (vec![NEW], NEW),
    ];
    for (step, (configured, sealed_with)) in steps.into_iter().enumerate() {
        // Callbacks under way while the configuration changes.
        let before = gateway
            .metric("gateway_reloads_total{result=\"applied\"}")
            .await;
        gateway
            .setup
            .replace("sales", &app.clone().with_keys(&configured));
        gateway.signals.reload.notify_one();
        let mut customer = 0;
        loop {
            let applied = gateway
                .metric("gateway_reloads_total{result=\"applied\"}")
                .await
                > before;
            let text = event(&app.corp, &format!("wm{step}-{customer}"));
            // Until the new keys are known, WeCom still seals with the old.
            let keys = if step == 1 || applied {
                sealed_with
            } else if step == 0 {
                OLD
            } else {
                NEW
            };
            assert_eq!(
                gateway
                    .send("sales", &seal(&owned(keys), &app.corp, &text, "n"))
                    .await
                    .status,
                200
            );
            sent.push(text);
            customer += 1;
            if applied && customer >= 20 {
                break;
            }
        }
    }
    assert_eq!(stored::plaintexts(redis, &app.corp).await, sent);
    let old = seal(&owned(OLD), &app.corp, &event(&app.corp, "late"), "n");
    crate::harness::wait_until("the old keys are gone", || async {
        gateway.send("sales", &old).await.status == 403
    })
    .await;
    gateway.finish().await.unwrap();
}
