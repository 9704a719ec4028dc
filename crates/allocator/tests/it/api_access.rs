//! Keys: who gets in, what each role may do, and that a key for one corp opens no other.

use std::sync::Arc;

use ledger::Role;
use reqwest::Method;
use serde_json::{Value, json};

use crate::api_support::{Console, World, serve};

#[tokio::test]
async fn without_a_valid_key_nothing_is_told() {
    let world = World::new().await;
    let mut console = world.operator().await;
    for key in [None, Some("pdn_wrong"), Some("")] {
        console.key = key.map(str::to_owned);
        let answer = console.get("/pools").await;
        assert_eq!(answer.refused(), (401, "unauthorized".to_owned()));
        assert_eq!(answer.header("www-authenticate"), "Bearer");
    }
}

#[tokio::test]
async fn a_key_opens_its_corp_only() {
    let world = World::new().await;
    let console = world.operator().await;
    let here = console.base.clone();
    for other in ["wwffffffffffffffff", "ww0"] {
        let base = here.replace(world.corp.as_str(), other);
        let answer = Console {
            base,
            ..console.clone()
        }
        .get("/pools")
        .await;
        assert_eq!(
            answer.refused(),
            (403, "forbidden".to_owned()),
            "whether it exists or not"
        );
    }
    let everywhere = allocator::commands::key::insert_key(world.app(), None, Role::Admin)
        .await
        .unwrap();
    let admin = world.at(0, &everywhere);
    admin.get("/pools").await.ok();
    let base = here.replace(world.corp.as_str(), "wwffffffffffffffff");
    assert_eq!(Console { base, ..admin }.get("/pools").await.status, 404);
}

#[tokio::test]
async fn a_revoked_or_expired_key_stops_working() {
    let world = World::new().await;
    let app = world.app();
    let console = world.operator().await;
    console.get("/pools").await.ok();
    let keys = app.ledger.api_keys().list(Some(&world.corp)).await.unwrap();
    let trail = ledger::Trail::system(app.now_ms(), "test");
    assert!(
        app.ledger
            .api_keys()
            .revoke(keys[0].id, &trail)
            .await
            .unwrap()
    );
    // An allocator that has not seen it refuses it; one that has forgets it within seconds.
    let again = serve(allocator::api::router(Arc::clone(app))).await;
    let base = console
        .base
        .replace(&world.node().addr.to_string(), &again.to_string());
    let elsewhere = Console { base, ..console };
    assert_eq!(
        elsewhere.get("/pools").await.refused(),
        (401, "unauthorized".to_owned())
    );
}

/// Every route of the description, with every role: whoever may not is refused before anything is looked at.
#[tokio::test]
async fn each_route_needs_its_role() {
    let world = World::new().await;
    let description =
        serde_json::to_value(allocator::api::openapi(Arc::clone(world.app()))).unwrap();
    let member = world.member_key("mA").await;
    let viewer = world.console(Role::Viewer).await;
    let operator = world.operator().await;
    let mut n_routes = 0;
    for (path, item) in description["paths"].as_object().unwrap() {
        let path = path
            .strip_prefix("/api/v1/corps/{corp_id}")
            .unwrap()
            .replace(['{', '}'], "x");
        for method in [Method::GET, Method::PUT, Method::POST, Method::DELETE] {
            if item.get(method.as_str().to_ascii_lowercase()).is_none() {
                continue;
            }
            n_routes += 1;
            let of_offers = ["/offers", "/accept", "/decline"];
            let own = path.contains("/presence") || of_offers.iter().any(|of| path.ends_with(of));
            let send = async |console: &Console| {
                let body = (method != Method::GET).then_some(json!({"?": 1}));
                console
                    .send(method.clone(), &path, &[], body)
                    .await
                    .status
                    .as_u16()
            };
            if !own || (method == Method::GET && path == "/presence") {
                assert_eq!(send(&member).await, 403, "{method} {path} as member");
            }
            if method != Method::GET && !own {
                assert_eq!(send(&viewer).await, 403, "{method} {path} as viewer");
            }
            let expected = if path.starts_with("/customers") {
                403
            } else {
                0
            };
            let status = send(&operator).await;
            assert_eq!(
                if status == 403 { 403 } else { 0 },
                expected,
                "{method} {path} as operator: {status}"
            );
            assert!(status < 500, "{method} {path}: {status}");
        }
    }
    assert!(n_routes > 30, "{n_routes}");
}

#[tokio::test]
async fn a_viewer_is_not_told_who_a_customer_is() {
    let world = World::new().await;
    let operator = world.operator().await;
    world.pool(&operator, "p1", &[("mA", 1.0)]).await;
    let decided = operator.ask("p1", "wmSecret").await;
    let path = format!(
        "/allocations/{}",
        decided["allocation_id"].as_str().unwrap()
    );
    let seen = operator.get(&path).await.ok();
    assert_eq!(seen["customer"]["external_id"], "wmSecret");
    let viewer = world.console(Role::Viewer).await;
    let seen = viewer.get(&path).await.ok();
    assert_eq!(seen["customer"]["external_id"], Value::Null);
    assert!(!viewer.get("/audit").await.text.contains("wmSecret"));
    assert!(
        !operator.get("/audit").await.text.contains("wmSecret"),
        "nor does the audit keep it"
    );
}

/// Deciding, heartbeats and known keys go on while Postgres is away.
#[tokio::test]
async fn known_keys_work_while_postgres_is_away() {
    let world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    world.written().await;
    world.app().ledger.close().await;
    assert_eq!(console.ask("p1", "wmC001").await["decision"], "assigned");
    console.on(&["mA"]).await;
    let answer = console.get("/pools").await;
    assert_eq!(answer.refused(), (503, "store_unavailable".to_owned()));
    assert_eq!(answer.header("retry-after"), "2");
}
