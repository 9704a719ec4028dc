//! What surrounds the routes: limits, ids, the description and its page, probes, errors of every kind.

use std::{sync::Arc, time::Duration};

use allocator::api;
use serde_json::{Value, json};

use crate::api_support::{Answer, Options, World, answer, serve};

impl World {
    async fn raw(&self, path: &str) -> Answer {
        answer(reqwest::Client::new().get(format!("http://{}{path}", self.node().addr))).await
    }
}

/// Case 131: 413 above the limit, however the body comes; the usual answer below it; the service goes on.
#[tokio::test]
async fn a_body_above_the_limit_is_413() {
    let world = World::new().await;
    let console = world.operator().await;
    let limit = world.app().config.http.body_limit;
    assert_eq!(limit, 2 << 20);
    let post = |body: reqwest::Body| {
        let request = console
            .http
            .post(format!("{}/allocations", console.base))
            .bearer_auth(console.key.as_ref().unwrap());
        answer(
            request
                .header("content-type", "application/json")
                .body(body),
        )
    };
    for (size, status) in [
        (limit, 400),
        (limit + 1, 413),
        (2 * limit + 1, 413),
        (50 << 20, 413),
    ] {
        let answer = post(vec![b'x'; size].into()).await;
        assert_eq!(answer.status, status, "{size}: {}", answer.text);
        assert_eq!(answer.header("content-type"), "application/problem+json");
    }
    assert_eq!(console.get("/pools").await.status, 200);
}

/// The same for a body whose length is not announced.
#[tokio::test]
async fn a_chunked_body_above_the_limit_is_413() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let world = World::new().await;
    let console = world.operator().await;
    let mut stream = tokio::net::TcpStream::connect(world.node().addr)
        .await
        .unwrap();
    let head = format!(
        "POST /api/v1/corps/{}/allocations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        world.corp,
        console.key.as_ref().unwrap()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = [b"10000\r\n".as_slice(), &[b'x'; 0x10000], b"\r\n"].concat();
    for _ in 0..40 {
        stream.write_all(&chunk).await.unwrap();
    }
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 413 "), "{text}");
}

#[tokio::test]
async fn every_answer_has_its_request_id() {
    let world = World::new().await;
    let console = world.operator().await;
    let with = |id: &'static str| {
        let console = console.clone();
        async move {
            console
                .send(
                    reqwest::Method::GET,
                    "/pools/none",
                    &[("x-request-id", id)],
                    None,
                )
                .await
        }
    };
    let own = with("order-7:a.b_c").await;
    assert_eq!(own.header("x-request-id"), "order-7:a.b_c");
    assert_eq!(own.json()["request_id"], "order-7:a.b_c");
    for strange in ["", "a b", "<script>"] {
        let answer = with(strange).await;
        assert_ne!(answer.header("x-request-id"), strange);
        assert_eq!(answer.json()["request_id"], answer.header("x-request-id"));
    }
}

#[tokio::test]
async fn what_is_no_route_or_no_json_is_a_problem_too() {
    let world = World::new().await;
    let console = world.operator().await;
    assert_eq!(
        world.raw("/nowhere").await.refused(),
        (404, "not_found".to_owned())
    );
    assert_eq!(console.get("/nowhere").await.refused().0, 404);
    assert_eq!(
        console.delete("/allocations").await.refused(),
        (405, "method_not_allowed".to_owned())
    );
    let text = console
        .http
        .put(format!("{}/pools/p1", console.base))
        .bearer_auth(console.key.as_ref().unwrap());
    assert_eq!(
        answer(text.body("{}")).await.refused(),
        (415, "not_json".to_owned())
    );
    assert_eq!(
        console
            .put("/pools/%7Bp%7D", json!({"name": "x", "members": []}))
            .await
            .pointers(),
        ["path:pool_id"]
    );
    for body in ["", "null", "[]", "\"x\"", "{"] {
        let request = console
            .http
            .put(format!("{}/pools/p1", console.base))
            .bearer_auth(console.key.as_ref().unwrap());
        let status = answer(
            request
                .header("content-type", "application/json")
                .body(body),
        )
        .await
        .refused()
        .0;
        assert!(status == 400 || status == 422, "{body}: {status}");
    }
}

/// A store that says nothing: the caller gets an answer within the limit.
#[tokio::test]
async fn a_request_ends_within_its_time() {
    let proxy = test_redis::Proxy::to(test_redis::shared().addr());
    let config = "[http]\ntimeout_ms = 300".to_owned();
    let world = World::with(
        1,
        Options {
            config,
            redis: Some(proxy.redis_url()),
            ..Options::default()
        },
    )
    .await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    proxy.pause();
    let begun = std::time::Instant::now();
    let body = json!({"subject": {"kind": "wecom", "id": "wmC001"}, "pool": "p1"});
    let answer = console.post("/allocations", body).await;
    assert_eq!(answer.refused(), (503, "timeout".to_owned()));
    assert!(begun.elapsed() < Duration::from_secs(5));
    proxy.restore();
}

#[tokio::test]
async fn large_answers_are_compressed_when_asked_for() {
    let world = World::new().await;
    let request = reqwest::Client::builder()
        .no_gzip()
        .build()
        .unwrap()
        .get(format!("http://{}/openapi.json", world.node().addr));
    let response = request
        .header("accept-encoding", "gzip")
        .send()
        .await
        .unwrap();
    assert_eq!(response.headers()["content-encoding"], "gzip");
}

/// The committed description is that of the code. `PAIDAN_BLESS=1` writes it anew.
#[tokio::test]
async fn the_description_is_the_committed_one() {
    let world = World::new().await;
    let now = world.raw("/openapi.json").await.ok();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    let text = format!("{}\n", serde_json::to_string_pretty(&now).unwrap());
    if std::env::var_os("PAIDAN_BLESS").is_some() {
        std::fs::write(file, &text).unwrap();
    }
    let committed: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert!(
        committed == now,
        "openapi.json is not what the code says: run this test with PAIDAN_BLESS=1 and look at the difference"
    );
    assert_eq!(now["openapi"], "3.1.0");
}

/// Every operation has an id, a tag that is explained, and answers; every reference leads somewhere; ids are text.
#[tokio::test]
async fn the_description_is_complete() {
    let world = World::new().await;
    let api = serde_json::to_value(api::openapi(Arc::clone(world.app()))).unwrap();
    let tags: Vec<&Value> = api["tags"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tag| &tag["name"])
        .collect();
    let mut ids = std::collections::BTreeSet::new();
    for (path, item) in api["paths"].as_object().unwrap() {
        for method in ["get", "put", "post", "delete"] {
            let Some(operation) = item.get(method) else {
                continue;
            };
            assert!(
                ids.insert(operation["operationId"].as_str().unwrap().to_owned()),
                "{path}"
            );
            assert!(
                tags.contains(&&operation["tags"][0]),
                "{path}: {}",
                operation["tags"]
            );
            assert!(operation["summary"].is_string(), "{method} {path}");
            assert!(
                operation["responses"]
                    .as_object()
                    .unwrap()
                    .keys()
                    .any(|status| status.starts_with('2')),
                "{method} {path}"
            );
            for name in path
                .split('{')
                .skip(1)
                .map(|part| part.split('}').next().unwrap())
            {
                let given = |list: &Value| {
                    list.as_array().is_some_and(|list| {
                        list.iter()
                            .any(|one| one["name"] == name && one["in"] == "path")
                    })
                };
                assert!(
                    given(&operation["parameters"]) || given(&item["parameters"]),
                    "{method} {path}: {name}"
                );
            }
        }
    }
    let text = api.to_string();
    for reference in text.split("\"$ref\":\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(api["components"]["schemas"].get(name).is_some(), "{name}");
    }
    for (name, schema) in api["components"]["schemas"].as_object().unwrap() {
        for (field, described) in schema["properties"].as_object().into_iter().flatten() {
            if field == "id" || field.ends_with("_id") {
                assert!(
                    described["type"] == "string" || described["type"] == json!(["string", "null"]),
                    "{name}.{field}: {described}"
                );
            }
        }
    }
}

#[tokio::test]
async fn the_page_needs_nothing_from_outside() {
    let world = World::new().await;
    let page = world.raw("/docs/").await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("swagger-ui"));
    let mut files: Vec<&str> = page
        .text
        .split(['"', '\''])
        .filter(|part| part.ends_with(".js") || part.ends_with(".css"))
        .collect();
    files.dedup();
    assert!(files.len() >= 3, "{files:?}");
    for file in files {
        assert!(!file.contains("//"), "{file}");
        assert_eq!(
            world
                .raw(&format!("/docs/{}", file.trim_start_matches("./")))
                .await
                .status,
            200,
            "{file}"
        );
    }
    let start = world.raw("/docs/swagger-initializer.js").await.text;
    assert!(
        start.contains("/openapi.json") && start.contains("\"validatorUrl\": \"none\""),
        "{start}"
    );
    assert!(
        page.header("content-security-policy")
            .starts_with("default-src 'self'")
    );
}

#[tokio::test]
async fn probes_say_what_is_wrong() {
    let world = World::new().await;
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let addr = serve(api::admin_router(
        Arc::clone(world.app()),
        recorder.handle(),
    ))
    .await;
    let get =
        async |path: &str| answer(reqwest::Client::new().get(format!("http://{addr}{path}"))).await;
    assert_eq!(get("/livez").await.status, 200);
    let ready = get("/readyz").await;
    assert_eq!(
        (ready.status.as_u16(), ready.json()),
        (200, json!({"ready": true, "problems": []}))
    );
    assert_eq!(get("/metrics").await.status, 200);
    world.written().await;
    world.corp_app().roster.begin_rebuild(99).await.unwrap();
    let closed = get("/readyz").await;
    assert_eq!(closed.status, 503);
    assert_eq!(closed.json()["problems"][0]["part"], "corp");
    world.app().ledger.close().await;
    let problems = get("/readyz").await.json()["problems"].clone();
    assert!(
        problems
            .as_array()
            .unwrap()
            .iter()
            .any(|problem| problem["part"] == "postgres"),
        "{problems}"
    );
    assert_eq!(get("/livez").await.status, 200);
    assert_eq!(get("/metrics").await.status, 200);
}

#[tokio::test]
async fn probes_notice_missing_migrations_and_a_silent_redis() {
    let proxy = test_redis::Proxy::to(test_redis::shared().addr());
    let world = World::with(
        1,
        Options {
            redis: Some(proxy.redis_url()),
            ..Options::default()
        },
    )
    .await;
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let addr = serve(api::admin_router(
        Arc::clone(world.app()),
        recorder.handle(),
    ))
    .await;
    let parts = async || {
        let ready = answer(reqwest::Client::new().get(format!("http://{addr}/readyz"))).await;
        assert_eq!(ready.status, 503);
        ready.json()["problems"]
            .as_array()
            .unwrap()
            .iter()
            .map(|problem| problem["part"].clone())
            .collect::<Vec<_>>()
    };
    sqlx::query("DELETE FROM migrations WHERE version = 2")
        .execute(&mut world.database.connect().await)
        .await
        .unwrap();
    assert_eq!(parts().await, ["migrations"]);
    proxy.pause();
    assert!(parts().await.contains(&json!("redis")));
    proxy.restore();
}
