//! The listener with the pages as HTTP: methods, headers, pictures, limits, and that it is apart from the API's.

use std::{sync::Arc, time::Duration};

use allocator::{api, public::desk::Picture};
use reqwest::{Method, StatusCode};

use crate::{
    api_support::World,
    public_stage::{BROKEN, CODE, Stage, Wishes, strict},
};

#[tokio::test]
async fn looking_whether_there_is_a_page_takes_nobodys_place() {
    let stage = Stage::new().await;
    let cookies = stage.browser(CODE).await;
    for (path, status) in [
        (format!("/c/{CODE}"), 200),
        (format!("/c/{CODE}/status"), 200),
        ("/w/pv.abcdefgh2345.png".to_owned(), 200),
        ("/livez".to_owned(), 200),
        ("/favicon.ico".to_owned(), 204),
        ("/c/unknown-2027".to_owned(), 404),
    ] {
        for headers in [vec![], vec![("cookie", cookies.as_str())]] {
            let head = stage.send(Method::HEAD, &path, &headers).await;
            assert_eq!(head.status.as_u16(), status, "{path}");
            assert_eq!(head.body, "");
            strict(&head);
            assert!(head.set_cookies().is_empty(), "{path}");
        }
    }
    assert_eq!(stage.visits(), [""; 0]);
}

#[tokio::test]
async fn nothing_but_reading_is_possible() {
    let stage = Stage::new().await;
    let cookies = stage.browser(CODE).await;
    for path in [
        format!("/c/{CODE}"),
        format!("/c/{CODE}/status"),
        "/w/pv.abcdefgh2345.png".to_owned(),
        "/livez".to_owned(),
    ] {
        for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let headers = [("cookie", cookies.as_str()), ("accept-language", "en")];
            let answer = stage.send(method.clone(), &path, &headers).await;
            assert_eq!(answer.status.as_u16(), 405, "{method} {path}");
            assert_eq!(answer.header("allow"), "GET,HEAD", "{method} {path}");
            strict(&answer);
            assert!(answer.html().text.contains("cannot be done here"));
        }
    }
    assert_eq!(stage.visits(), [""; 0]);
}

#[tokio::test]
async fn a_picture_is_kept_for_ever_and_known_by_its_tag() {
    let stage = Stage::new().await;
    let path = "/w/pv.abcdefgh2345.png";
    let answer = stage.get(path, &[]).await;
    strict(&answer);
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.body, "picture");
    assert_eq!(answer.header("content-type"), "image/png");
    assert_eq!(answer.header("content-length"), "7");
    assert_eq!(answer.header("etag"), "\"e1\"");
    assert_eq!(
        answer.header("cache-control"),
        "public, max-age=31536000, immutable"
    );
    for known in ["\"e1\"", "W/\"e1\"", "\"e0\", \"e1\"", "*"] {
        let answer = stage.get(path, &[("if-none-match", known)]).await;
        assert_eq!(answer.status, StatusCode::NOT_MODIFIED, "{known}");
        assert_eq!(answer.body, "");
        assert_eq!(answer.header("etag"), "\"e1\"");
    }
    for other in ["\"e2\"", "e1", ""] {
        let answer = stage.get(path, &[("if-none-match", other)]).await;
        assert_eq!(answer.status, StatusCode::OK, "{other}");
    }
    let answer = stage.get("/w/pv.away.png", &[]).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.header("cache-control"), "no-store");
    // What could run is handed out, not shown.
    for (kind, sent) in [
        ("image/jpeg", "image/jpeg"),
        ("image/svg+xml", "application/octet-stream"),
        ("text/html", "application/octet-stream"),
        ("a\nb", "application/octet-stream"),
    ] {
        *stage.desk.picture.lock().unwrap() = Some(Picture {
            bytes: b"picture".as_slice().into(),
            content_type: kind.to_owned(),
            etag: "e1".to_owned(),
            qr_code: String::new(),
        });
        let answer = stage.get(path, &[]).await;
        assert_eq!(answer.header("content-type"), sent, "{kind}");
    }
}

#[tokio::test]
async fn who_asks_too_often_is_told_when_to_come_again() {
    let wishes = Wishes {
        burst: 3,
        ..Wishes::default()
    };
    let stage = Stage::with(wishes).await;
    let one = [
        ("x-forwarded-for", "198.51.100.7"),
        ("accept-language", "en"),
    ];
    for _ in 0..3 {
        let answer = stage.get("/c/unknown-2027", &one).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND);
    }
    let answer = stage.get(&format!("/c/{CODE}"), &one).await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    strict(&answer);
    assert_eq!(answer.header("retry-after"), "1");
    let html = answer.html();
    assert!(html.text.contains("Too many requests"), "{}", html.text);
    assert!(html.all("meta", "content").contains(&"1; url="));
    let answer = stage.get(&format!("/c/{CODE}/status"), &one).await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answer.header("content-type"), "application/json");
    assert!(
        answer
            .body
            .starts_with("{\"state\":\"away\",\"refresh_s\":")
    );
    // The proxy's probe is no visitor, and another client has his own bucket. What a client writes himself is not believed.
    assert_eq!(stage.get("/livez", &one).await.status, StatusCode::OK);
    let other = [("x-forwarded-for", "198.51.100.7, 198.51.100.8")];
    let answer = stage.get("/c/unknown-2027", &other).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    let same = [("x-forwarded-for", "203.0.113.1, 198.51.100.7")];
    let answer = stage.get("/c/unknown-2027", &same).await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    stage.clock.advance(1_000);
    let answer = stage.get("/c/unknown-2027", &one).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_handler_that_breaks_is_a_page_too() {
    let stage = Stage::new().await;
    let answer = stage
        .get(&format!("/c/{BROKEN}"), &[("accept-language", "en")])
        .await;
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
    strict(&answer);
    assert!(answer.html().text.contains("Something went wrong"));
}

#[tokio::test]
async fn stores_that_do_not_answer_are_away() {
    let wishes = Wishes {
        hangs: true,
        patience: Duration::from_millis(50),
        ..Wishes::default()
    };
    let stage = Stage::with(wishes).await;
    let cookies = stage.browser(CODE).await;
    let answer = stage
        .get(&format!("/c/{CODE}"), &[("cookie", &cookies)])
        .await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(stage.visits().len(), 1);
}

#[tokio::test]
async fn neither_listener_has_what_the_other_one_has() {
    let stage = Stage::new().await;
    let world = World::new().await;
    let key = world.operator().await.key.unwrap();
    let bearer = format!("Bearer {key}");
    let api = api::openapi(Arc::clone(world.app()));
    assert!(api.paths.paths.len() > 20);
    let paths = api.paths.paths.keys();
    let paths = paths.map(|path| {
        path.replace("{corp_id}", world.corp.as_str())
            .replace(['{', '}'], "x")
    });
    let more = ["/docs", "/docs/", "/openapi.json", "/readyz", "/metrics"].map(str::to_owned);
    for path in paths.chain(more) {
        for method in [Method::GET, Method::POST, Method::PUT, Method::DELETE] {
            let answer = stage
                .send(method.clone(), &path, &[("authorization", &bearer)])
                .await;
            assert_eq!(answer.status, StatusCode::NOT_FOUND, "{method} {path}");
        }
    }
    let http = reqwest::Client::new();
    for path in [
        format!("/c/{CODE}"),
        format!("/c/{CODE}/status"),
        "/w/pv.abcdefgh2345.png".to_owned(),
        "/livez".to_owned(),
    ] {
        let url = format!("http://{}{path}", world.node().addr);
        let answer = http.get(url).bearer_auth(&key).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{path}");
    }
}
