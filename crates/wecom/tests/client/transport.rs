//! No usable answer: may the call have had its effect?

use std::time::Duration;

use rstest::rstest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wecom::Error;
use wecom::client::{Client, Options, TransferCustomer};
use wecom::error::{Class, Scope, TransportProblem};

use crate::stub::{Answer, Stub};
use crate::support::{client, client_of, options};

const API: &str = "externalcontact/transfer_customer";

fn hundred() -> TransferCustomer {
    TransferCustomer {
        handover_userid: "mA".to_owned(),
        takeover_userid: "mB".to_owned(),
        external_userid: (1..=100).map(|number| format!("wmC{number:03}")).collect(),
        transfer_success_msg: None,
    }
}

/// Cases 48 and 92: no answer leaves the outcome unknown, and the client sends nothing twice.
#[rstest]
#[case::bad_gateway(
    502,
    "<html>502</html>",
    TransportProblem::Status(502),
    Class::RetryWithBackoff
)]
#[case::unavailable(503, "", TransportProblem::Status(503), Class::RetryWithBackoff)]
#[case::failing_front(
    500,
    r#"{"errcode":40058}"#,
    TransportProblem::Status(500),
    Class::RetryWithBackoff
)]
#[case::html(
    200,
    "<html>login</html>",
    TransportProblem::NotJson,
    Class::RetryWithBackoff
)]
#[case::cut_off(
    200,
    r#"{"errcode":0,"customer":[{"exte"#,
    TransportProblem::NotJson,
    Class::RetryWithBackoff
)]
#[case::empty(200, "", TransportProblem::NotJson, Class::RetryWithBackoff)]
#[case::array(200, "[]", TransportProblem::NotJson, Class::RetryWithBackoff)]
#[case::odd_errcode(
    200,
    r#"{"errcode":{}}"#,
    TransportProblem::NotJson,
    Class::RetryWithBackoff
)]
#[case::odd_list(
    200,
    r#"{"errcode":0,"customer":7}"#,
    TransportProblem::Shape,
    Class::RetryWithBackoff
)]
#[case::redirect(302, "", TransportProblem::Status(302), Class::RetryWithBackoff)]
#[case::not_found(404, "nginx", TransportProblem::Status(404), Class::PermanentConfig)]
#[tokio::test]
async fn an_unusable_answer_is_an_unknown_outcome(
    #[case] status: u16,
    #[case] body: &'static str,
    #[case] problem: TransportProblem,
    #[case] class: Class,
) {
    let stub = Stub::start(move |_| Answer::Raw(status, "text/html", body.to_owned())).await;
    let error = client(&stub)
        .transfer_customer(&hundred())
        .await
        .unwrap_err();
    assert!(error.may_have_acted(), "{error}");
    assert_eq!(
        (error.class(), error.scope(), error.errcode()),
        (class, Scope::Platform, None)
    );
    assert!(
        matches!(error, Error::Transport { problem: seen, .. } if seen == problem),
        "{error:?}"
    );
    assert_eq!(stub.count(API), 1);
}

/// Cases 48 and 92: executed, but the answer comes after the limit.
#[tokio::test]
async fn a_time_out_is_an_unknown_outcome() {
    let stub = Stub::start(|_| Answer::Hang).await;
    let store = std::sync::Arc::new(wecom::client::MemoryTokenStore::default());
    client_of(&stub.url, 1_000_002, store.clone(), options())
        .ensure_token()
        .await
        .unwrap();
    // Long enough for a busy machine to connect and send.
    let patience = Options {
        call_limit: Duration::from_secs(1),
        ..options()
    };
    let client = client_of(&stub.url, 1_000_002, store, patience);
    let error = client.transfer_customer(&hundred()).await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Transport {
                sent: true,
                problem: TransportProblem::TimedOut,
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(stub.count(API), 1);
}

/// Cases 48 and 92: refused before anything was sent.
#[tokio::test]
async fn a_refused_connection_had_no_effect() {
    let client = unreachable().await;
    let error = client.transfer_customer(&hundred()).await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Transport {
                sent: false,
                problem: TransportProblem::Connect,
                api: API,
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(error.class(), Class::RetryWithBackoff);
}

/// A client with a token, whose WeCom nobody listens for.
async fn unreachable() -> Client {
    let stub = Stub::start(|_| Answer::ok()).await;
    let store = std::sync::Arc::new(wecom::client::MemoryTokenStore::default());
    client_of(&stub.url, 1_000_002, store.clone(), options())
        .ensure_token()
        .await
        .unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    client_of(&format!("http://{address}"), 1_000_002, store, options())
}

/// The connection breaks after the request was read, with nothing or with half an answer sent.
#[rstest]
#[case::nothing("")]
#[case::half("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"errcode\":0,")]
#[tokio::test]
async fn a_broken_connection_is_an_unknown_outcome(#[case] half: &'static str) {
    let stub = Stub::start(|_| Answer::ok()).await;
    let store = std::sync::Arc::new(wecom::client::MemoryTokenStore::default());
    client_of(&stub.url, 1_000_002, store.clone(), options())
        .ensure_token()
        .await
        .unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let mut connections = 0;
        while let Ok((mut stream, _)) = listener.accept().await {
            connections += 1;
            let mut request = Vec::new();
            while !request.ends_with(b"wmC100\"]}") {
                stream.read_buf(&mut request).await.unwrap();
            }
            stream.write_all(half.as_bytes()).await.unwrap();
            drop(stream);
            if connections > 1 {
                panic!("sent twice");
            }
        }
    });
    let error = client_of(&url, 1_000_002, store, options())
        .transfer_customer(&hundred())
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::Transport {
                sent: true,
                problem: TransportProblem::Interrupted,
                ..
            }
        ),
        "{error:?}"
    );
    assert!(!server.is_finished());
    server.abort();
}

/// Case 48: WeCom says it is busy. That is a refusal, without effect; the repetition is the caller's.
#[rstest]
#[case(-1, Class::RetryWithBackoff)]
#[case(45009, Class::RateLimited)]
#[case(45033, Class::RateLimited)]
#[case(424_242, Class::Unknown)]
#[tokio::test]
async fn a_refusal_has_no_effect_and_is_not_repeated_here(
    #[case] errcode: i64,
    #[case] class: Class,
) {
    let stub = Stub::start(move |_| Answer::error(errcode)).await;
    let error = client(&stub)
        .transfer_customer(&hundred())
        .await
        .unwrap_err();
    assert_eq!(
        (error.errcode(), error.class(), error.may_have_acted()),
        (Some(errcode), class, false)
    );
    assert_eq!(stub.count(API), 1);
    let Error::Api { errmsg_hint, .. } = error else {
        panic!()
    };
    assert_eq!(errmsg_hint.as_deref(), Some("1792000000123_abc"));
}

/// A business refusal is one whatever the HTTP status, as long as it is not a failing front's.
#[tokio::test]
async fn a_refusal_with_a_4xx_status_is_a_refusal() {
    let stub =
        Stub::start(|_| Answer::Raw(403, "application/json", r#"{"errcode":"48002"}"#.to_owned()))
            .await;
    let error = client(&stub).get_callback_ip().await.unwrap_err();
    assert_eq!(
        (error.errcode(), error.class()),
        (Some(48002), Class::PermanentConfig)
    );
}

/// Some APIs leave `errcode` out on success.
#[rstest]
#[case("{}")]
#[case(r#"{"errcode":null}"#)]
#[case(r#"{"errcode":0,"errmsg":"not ok at all"}"#)]
#[case(r#"{"errcode":"0"}"#)]
#[case("  {\"errcode\":0}\r\n")]
#[tokio::test]
async fn success_is_the_absence_of_a_non_zero_errcode(#[case] body: &'static str) {
    let stub = Stub::start(move |_| Answer::Raw(200, "text/plain", body.to_owned())).await;
    assert!(client(&stub).get_callback_ip().await.unwrap().is_empty());
}

/// WeCom read only a part of our JSON: counted, and marked on the error.
#[tokio::test]
async fn wrong_json_is_counted_as_our_bug() {
    let stub = Stub::start(|call| {
        let errcode = if call.nth == 1 { 41035 } else { 0 };
        let errmsg = "Warning: wrong json format. missing external userid, hint: [x]";
        Answer::Json(serde_json::json!({"errcode": errcode, "errmsg": errmsg}))
    })
    .await;
    let client = client(&stub);
    let error = client.transfer_customer(&hundred()).await.unwrap_err();
    assert!(matches!(
        error,
        Error::Api {
            wrong_json: true,
            errcode: 41035,
            ..
        }
    ));
    client.transfer_customer(&hundred()).await.unwrap();
    assert_eq!(client.wrong_json_count(), 2);
}

/// A base URL that would put the token in the wrong place is refused without being printed.
#[rstest]
#[case("not a url")]
#[case("ftp://example.test")]
#[case("https://user:pass@example.test")]
#[case("https://example.test/?x=1")]
#[tokio::test]
async fn a_base_url_that_cannot_be_used_is_refused(#[case] url: &str) {
    let store = std::sync::Arc::new(wecom::client::MemoryTokenStore::default());
    let error = Client::new(
        wecom::client::http_client().unwrap(),
        url,
        crate::support::app(1),
        store,
    )
    .unwrap_err();
    assert!(matches!(
        error,
        Error::Config {
            field: "base_url",
            ..
        }
    ));
    assert!(!format!("{error} {error:?}").contains("pass"));
}
