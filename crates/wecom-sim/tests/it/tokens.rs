//! gettoken and what tokens are worth (api.md 1.1, 14.2).

use std::time::Duration;

use serde_json::json;
use wecom_sim::{AppConfig, CorpConfig, RepeatToken};

use crate::harness::{AGENT, CORP, Client, HOUR, SECRET, code, config};

#[tokio::test]
async fn token_works_until_it_expires() {
    let client = Client::start(config()).await;
    let answer = client.gettoken(CORP, SECRET).await;
    assert_eq!(code(&answer), 0);
    assert_eq!(answer["expires_in"], 7_200);
    let token = answer["access_token"].as_str().unwrap();
    assert!((64..=512).contains(&token.len()));
    client.sim.advance(Duration::from_secs(7_199)).await;
    let body = json!({});
    let answer = client
        .post_as(
            token,
            "127.0.0.1",
            "externalcontact/get_corp_tag_list",
            body.clone(),
        )
        .await
        .unwrap();
    assert_eq!(code(&answer), 0);
    client.sim.advance(Duration::from_secs(1)).await;
    let answer = client
        .post_as(
            token,
            "127.0.0.1",
            "externalcontact/get_corp_tag_list",
            body,
        )
        .await
        .unwrap();
    assert_eq!(code(&answer), 42001);
    assert_eq!(
        answer["tag_group"],
        json!([]),
        "list fields stand there empty on an error"
    );
}

#[tokio::test]
async fn unknown_and_absent_tokens() {
    let client = Client::start(config()).await;
    let answer = client
        .post_as("nonsense", "127.0.0.1", "message/send", json!({}))
        .await
        .unwrap();
    assert_eq!(code(&answer), 40014);
    let url = client.url("/cgi-bin/message/send");
    let answer: serde_json::Value = client
        .http
        .post(url)
        .json(&json!({}))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(code(&answer), 41001);
}

#[tokio::test]
async fn wrong_secrets_and_corps() {
    let mut config = config();
    config.corps.push(CorpConfig {
        id: "wwother".to_owned(),
        apps: vec![AppConfig {
            secret: "other-secret".into(),
            ..AppConfig::default()
        }],
        ..CorpConfig::default()
    });
    config.corps[0].apps.push(AppConfig {
        agent_id: 9,
        secret: "stopped".into(),
        enabled: false,
        ..AppConfig::default()
    });
    let client = Client::start(config).await;
    for (corp, secret, expected) in [
        (CORP, "wrong", 40001),
        (CORP, "other-secret", 40091),
        (CORP, "stopped", 40001),
        ("wwnobody", SECRET, 40013),
        ("", SECRET, 41002),
        (CORP, "", 41004),
    ] {
        assert_eq!(
            code(&client.gettoken(corp, secret).await),
            expected,
            "{corp} {secret}"
        );
    }
}

/// The same token, a new one beside it, a new one instead of it.
#[tokio::test]
async fn repeated_gettoken_by_mode() {
    for (mode, same, old_lives) in [
        (RepeatToken::Same, true, true),
        (RepeatToken::NewKeepsOld, false, true),
        (RepeatToken::NewKillsOld, false, false),
    ] {
        let mut config = config();
        config.tokens.repeat = mode;
        let client = Client::start(config).await;
        let first = client.gettoken(CORP, SECRET).await["access_token"].clone();
        client.sim.advance(Duration::from_secs(100)).await;
        let answer = client.gettoken(CORP, SECRET).await;
        assert_eq!(answer["access_token"] == first, same, "{mode:?}");
        assert_eq!(answer["expires_in"], if same { 7_100 } else { 7_200 });
        let api = "externalcontact/get_corp_tag_list";
        let answer = client
            .post_as(first.as_str().unwrap(), "127.0.0.1", api, json!({}))
            .await
            .unwrap();
        assert_eq!(code(&answer), if old_lives { 0 } else { 40014 }, "{mode:?}");
    }
}

#[tokio::test]
async fn early_death_by_admin_call() {
    let client = Client::start(config()).await;
    let token = client.token().await;
    let (status, answer) = client
        .admin("POST", "/sim/tokens/invalidate", json!({"agent_id": AGENT}))
        .await;
    assert_eq!((status, &answer["killed"]), (200, &json!(1)));
    let api = "externalcontact/get_corp_tag_list";
    assert_eq!(
        code(
            &client
                .post_as(&token, "127.0.0.1", api, json!({}))
                .await
                .unwrap()
        ),
        40014
    );
    assert_ne!(
        client.gettoken(CORP, SECRET).await["access_token"],
        json!(token),
        "a dead token is not given again"
    );
}

/// Too many wrong secrets shut one address out for an hour, right secrets included.
#[tokio::test]
async fn wrong_secrets_block_the_address() {
    let mut config = config();
    config.limits.wrong_secret.attempts = 3;
    let client = Client::start(config).await;
    for _ in 0..3 {
        assert_eq!(
            code(&client.gettoken_from(CORP, "wrong", "198.51.100.7").await),
            40001
        );
    }
    assert_eq!(
        code(&client.gettoken_from(CORP, SECRET, "198.51.100.7").await),
        45009
    );
    assert_eq!(
        code(&client.gettoken_from(CORP, SECRET, "198.51.100.8").await),
        0,
        "another address"
    );
    client.sim.advance(HOUR - Duration::from_millis(1)).await;
    assert_eq!(
        code(&client.gettoken_from(CORP, SECRET, "198.51.100.7").await),
        45009
    );
    client.sim.advance(Duration::from_millis(1)).await;
    assert_eq!(
        code(&client.gettoken_from(CORP, SECRET, "198.51.100.7").await),
        0
    );
}

/// Failures spread over more than an hour do not add up.
#[tokio::test]
async fn old_wrong_secrets_are_forgotten() {
    let mut config = config();
    config.limits.wrong_secret.attempts = 3;
    let client = Client::start(config).await;
    for _ in 0..2 {
        client.gettoken(CORP, "wrong").await;
    }
    client.sim.advance(HOUR).await;
    for _ in 0..2 {
        assert_eq!(code(&client.gettoken(CORP, "wrong").await), 40001);
    }
    assert_eq!(code(&client.gettoken(CORP, SECRET).await), 0);
}

/// Same seed, same calls: same tokens.
#[tokio::test]
async fn seed_decides_the_tokens() {
    let first = Client::start(config()).await.token().await;
    let again = Client::start(config()).await.token().await;
    let other = Client::start(wecom_sim::Config {
        seed: 2,
        ..config()
    })
    .await
    .token()
    .await;
    assert_eq!(first, again);
    assert_ne!(first, other);
}
