//! SIGHUP's other end: all or nothing, and nobody waits.

use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use crate::harness::{App, Running, Setup, get, setup::event, wait_until};

const APPLIED: &str = "gateway_reloads_total{result=\"applied\"}";
const REFUSED: &str = "gateway_reloads_total{result=\"refused\"}";

/// Case 135: whatever is wrong with the new configuration, the old one goes on.
#[tokio::test]
async fn a_malformed_reload_changes_nothing() {
    let redis = test_redis::shared();
    let app = App::new();
    let gateway = Setup::new(&redis.url())
        .endpoint("sales", &app)
        .start()
        .await;
    let file = gateway.setup.file();
    let good = fs::read_to_string(&file).unwrap();
    let endpoint = "[endpoints.extra]\ncorp_id = \"wwx\"\n";
    let pair = "keys = [{ token = \"env:NOBODY_SET_THIS\", aes_key = \"env:NOR_THIS\" }]\n";
    let broken = [
        (
            "[endpoints\nsales = \"not-a-secret\"".to_owned(),
            "is not TOML: line 1",
        ),
        (String::new(), "endpoints"),
        (
            format!("{good}[endpoints.extra]\nkeys = []\n"),
            "endpoints.extra.corp_id",
        ),
        (format!("{good}{endpoint}"), "endpoints.extra.keys"),
        (
            format!("{good}{endpoint}keys = []\n"),
            "endpoints.extra.keys",
        ),
        (
            format!("{good}{endpoint}{pair}"),
            "endpoints.extra.keys[0].token",
        ),
        (
            format!("{good}{endpoint}unknown_key = 1\n{pair}"),
            "unknown_key",
        ),
        (
            format!("{good}{endpoint}keys = [{{ token = \"plain-text\", aes_key = \"env:X\" }}]\n"),
            "token",
        ),
        (
            format!("{good}{endpoint}agent_id = -1\n{pair}"),
            "endpoints.extra.agent_id",
        ),
        (format!("{good}[unknown_part]\nx = 1\n"), "unknown_part"),
        (
            good.replace("[http]", "[http]\nbody_limit = -5"),
            "http.body_limit",
        ),
        (good.replace(&app.corp, ""), "endpoints.sales.corp_id"),
    ];
    let count = broken.len();
    for (index, (text, named)) in broken.into_iter().enumerate() {
        fs::write(&file, text).unwrap();
        reload_and_expect(&gateway, REFUSED, index + 1).await;
        let ready = get(gateway.admin, "/readyz").await;
        let report: serde_json::Value = serde_json::from_slice(&ready.body).unwrap();
        let problem = report["problems"][0].clone();
        assert_eq!(problem["part"], "reload");
        let text = problem["problem"].as_str().unwrap();
        assert!(text.contains(named), "{named}: {text}");
        assert!(
            !text.contains("not-a-secret") && !text.contains("plain-text"),
            "{text}"
        );
        let sealed = app.seal(&event(&app.corp, &format!("wm{index}")), "n");
        assert_eq!(
            gateway.send("sales", &sealed).await.status,
            200,
            "{named}: the old configuration works"
        );
    }
    fs::remove_file(&file).unwrap();
    reload_and_expect(&gateway, REFUSED, count + 1).await;
    fs::write(&file, good).unwrap();
    reload_and_expect(&gateway, APPLIED, 1).await;
    let ready = get(gateway.admin, "/readyz").await;
    assert_eq!(ready.text(), "{\"ready\":true,\"problems\":[]}");
    gateway.finish().await.unwrap();
}

/// Endpoints come, change and go while requests are under way; not one of those is dropped.
#[tokio::test]
async fn endpoints_change_without_a_dropped_request() {
    let redis = test_redis::shared();
    let (sales, other) = (App::new(), App::new());
    let mut gateway = Setup::new(&redis.url())
        .endpoint("sales", &sales)
        .start()
        .await;
    let target = gateway.addr;
    let ended = AtomicBool::new(false);
    let stream = async {
        let mut sent = 0;
        while !ended.load(Relaxed) {
            let (query, body) = sales.seal(&event(&sales.corp, &format!("wm{sent}")), "n");
            let reply =
                crate::harness::post(target, &format!("/callback/sales?{query}"), body).await;
            assert_eq!(reply.status, 200);
            sent += 1;
        }
        sent
    };
    let changes = async {
        for round in 1..=10 {
            gateway.setup.replace("other", &other);
            reload_and_expect(&gateway, APPLIED, 2 * round - 1).await;
            let sealed = other.seal(&event(&other.corp, &format!("wm{round}")), "n");
            wait_until("the new endpoint", || async {
                gateway.send("other", &sealed).await.status == 200
            })
            .await;
            gateway.setup.remove("other");
            reload_and_expect(&gateway, APPLIED, 2 * round).await;
            wait_until("it is gone", || async {
                gateway.send("other", &sealed).await.status == 404
            })
            .await;
        }
        ended.store(true, Relaxed);
    };
    let (sent, ()) = tokio::join!(stream, changes);
    assert_eq!(
        crate::harness::stored::plaintexts(redis, &sales.corp)
            .await
            .len(),
        sent
    );
    assert_eq!(
        crate::harness::stored::plaintexts(redis, &other.corp)
            .await
            .len(),
        10
    );
    gateway.finish().await.unwrap();
}

/// A secret that changed in its file is in force after a reload, without a change of the configuration file.
#[tokio::test]
async fn secrets_in_files_are_read_again() {
    let redis = test_redis::shared();
    let app = App::new();
    let gateway = Setup::new(&redis.url())
        .endpoint("sales", &app)
        .start()
        .await;
    fs::write(gateway.setup.secret("sales", 0, "token"), "An0therToken").unwrap();
    reload_and_expect(&gateway, APPLIED, 1).await;
    let sealed = app
        .with_keys(&[("An0therToken", crate::harness::setup::AES_KEY)])
        .seal("<xml/>", "n");
    wait_until("the new token", || async {
        gateway.send("sales", &sealed).await.status == 200
    })
    .await;
    gateway.finish().await.unwrap();
}

/// Case 138 with several apps: the broken one is off, shown, and answers 503 so that WeCom comes again; the others run.
#[tokio::test]
async fn a_malformed_endpoint_is_off_and_the_others_run() {
    let redis = test_redis::shared();
    let good = App::new();
    let bad_key = App::new().with_keys(&[("tok", "short")]);
    let bad_token = App::new().with_keys(&[("tok-with-dashes", crate::harness::setup::AES_KEY)]);
    let mut no_corp = App::new();
    no_corp.corp = String::new();
    let gateway = Setup::new(&redis.url())
        .endpoint("good", &good)
        .endpoint("key", &bad_key)
        .endpoint("token", &bad_token)
        .endpoint("corp", &no_corp)
        .start()
        .await;
    assert_eq!(
        gateway.send("good", &good.seal("<xml/>", "n")).await.status,
        200
    );
    for off in ["key", "token", "corp"] {
        assert_eq!(
            gateway.send(off, &good.seal("<xml/>", "n")).await.status,
            503,
            "{off}"
        );
        assert_eq!(
            get(gateway.addr, &format!("/callback/{off}")).await.status,
            503,
            "{off}"
        );
    }
    let ready = get(gateway.admin, "/readyz").await;
    assert_eq!(ready.status, 200, "the good one would suffer");
    let text = ready.text();
    for named in [
        "endpoints.key.keys[0].aes_key",
        "endpoints.token.keys[0].token",
        "endpoints.corp.corp_id",
    ] {
        assert!(text.contains(named), "{named}: {text}");
    }
    assert!(
        !text.contains("short") && !text.contains("tok-with-dashes"),
        "{text}"
    );
    assert_eq!(
        gateway.metric("gateway_endpoints{state=\"off\"}").await,
        3.0
    );
    assert_eq!(
        gateway.metric("gateway_endpoints{state=\"live\"}").await,
        1.0
    );
    gateway.finish().await.unwrap();
}

async fn reload_and_expect(gateway: &Running, counter: &str, value: usize) {
    gateway.signals.reload.notify_one();
    gateway.wait_for_metric(counter, value as f64).await;
}
