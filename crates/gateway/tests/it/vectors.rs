//! The published and generated vectors of `tests/fixtures/vectors.json`, over HTTP.

use serde_json::Value;

use crate::harness::{App, Setup, cases, get, stored};

#[tokio::test]
async fn every_vector_is_answered_as_it_says() {
    let redis = test_redis::shared();
    let path = format!(
        "{}/../../tests/fixtures/vectors.json",
        env!("CARGO_MANIFEST_DIR")
    );
    let vectors: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut tried = 0;
    for vector in vectors.as_array().unwrap() {
        let text = |key: &str| vector[key].as_str().unwrap_or_default().to_owned();
        let (name, kind) = (text("name"), text("kind"));
        // Robots' JSON is for another kind of endpoint than an app's or a suite's; we send no replies.
        if kind != "get_verify" && kind != "post_xml" {
            continue;
        }
        tried += 1;
        let app = App::new()
            .receives(&[&text("receive_id")])
            .with_keys(&[(&text("token"), &text("encoding_aes_key"))]);
        let gateway = Setup::new(&redis.url())
            .endpoint("sales", &app)
            .start()
            .await;
        let reply = if kind == "get_verify" {
            get(
                gateway.addr,
                &format!("/callback/sales?{}", text("raw_query")),
            )
            .await
        } else {
            let request = serde_json::json!({
                "method": "POST", "raw_query": text("raw_query"), "body": text("body"),
            });
            cases::send(gateway.addr, "sales", &request).await
        };
        let expected = &vector["expected"];
        let plaintexts = stored::plaintexts(redis, &app.corp).await;
        if expected["result"] == "ok" {
            assert_eq!(reply.status, 200, "{name}");
            let message = expected["msg"].as_str().unwrap();
            if kind == "get_verify" {
                assert_eq!(reply.text(), message, "{name}");
            } else {
                let answer = if message.contains("<InfoType>") {
                    "success"
                } else {
                    ""
                };
                assert_eq!(
                    (reply.text(), plaintexts),
                    (answer, vec![message.to_owned()]),
                    "{name}"
                );
            }
        } else {
            let envelope = expected["stage"] == "envelope";
            assert_eq!(reply.status, if envelope { 400 } else { 403 }, "{name}");
            assert!(reply.body.is_empty() && plaintexts.is_empty(), "{name}");
        }
        gateway.finish().await.unwrap();
    }
    assert!(tried > 60, "{tried} vectors");
}
