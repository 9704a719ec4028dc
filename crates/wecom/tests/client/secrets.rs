//! Case 136: no secret, token, key, code or name in any error, `Debug` or log line, at TRACE.

use std::io::Write;
use std::sync::{Arc, Mutex};

use secrecy::SecretString;
use serde_json::json;
use wecom::client::{
    App, AppMessage, Client, Customer, MemoryTokenStore, MessageContent, Options, Recipients,
    Remark, TextCard, Token, Webhook, WebhookMessage, Welcome, http_client,
};

use crate::stub::{Answer, Stub};
use crate::support::impatient;

const SECRET: &str = "s3cr3t+of/the=app";
const TOKEN: &str = "t0ken+of/the=app";
const KEY: &str = "k3y+of/the=hook";
const CODE: &str = "c0de+of/the=welcome";
const NAME: &str = "Lan Private 蓝";

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// How a secret could look: as it is, in a URL, in `Debug`, in JSON.
fn disguises(secret: &str) -> Vec<String> {
    let percent: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    let bytes = format!("{:?}", secret.as_bytes());
    vec![
        secret.to_owned(),
        percent.to_lowercase(),
        percent,
        secret.escape_debug().to_string(),
        secret.escape_unicode().to_string(),
        bytes.trim_matches(['[', ']']).to_owned(),
    ]
}

fn assert_clean(what: &str, text: &str) {
    for secret in [SECRET, TOKEN, KEY, CODE, NAME] {
        for disguise in disguises(secret) {
            assert!(!text.contains(&disguise), "{what} shows {disguise}");
        }
    }
}

fn client(url: &str, options: Options) -> Client {
    let app = App {
        corp_id: "wwcase136".to_owned(),
        agent_id: 1,
        secret: SecretString::from(SECRET),
    };
    Client::with(
        http_client().unwrap(),
        url,
        app,
        Arc::new(MemoryTokenStore::default()),
        options,
    )
    .unwrap()
}

fn welcome() -> Welcome {
    Welcome::new(CODE).text(NAME)
}

fn card() -> AppMessage {
    let card = TextCard {
        title: NAME.into(),
        description: NAME.into(),
        url: NAME.into(),
        btntxt: None,
    };
    AppMessage::new(Recipients::user("mA"), MessageContent::TextCard(card))
}

/// What a caller might print of a client and its calls.
async fn all_texts(url: &str, options: impl Fn() -> Options) -> Vec<String> {
    let client = client(url, options());
    let webhook = Webhook::new(http_client().unwrap(), url, SecretString::from(KEY)).unwrap();
    let mut texts = vec![format!("{client:?} {webhook:?} {:?}", client.app())];
    let errors = [
        client.send_welcome_msg(&welcome()).await.err(),
        client.send_message(&card()).await.err(),
        client.get_customer("wmC001", Some("cursor")).await.err(),
        client.get_follow_user_list().await.err(),
        client.ensure_token().await.err(),
    ];
    for error in errors.into_iter().flatten() {
        texts.push(format!("{error} {error:?} {error:#?}"));
        let mut cause: Option<&dyn std::error::Error> = Some(&error);
        while let Some(error) = cause {
            texts.push(format!("{error} {error:?} {error:#?}"));
            cause = error.source();
        }
    }
    texts
}

fn token_or(answer: impl Fn() -> Answer) -> impl Fn(&crate::stub::Received) -> Answer {
    move |call| match call.api.as_str() {
        "gettoken" => {
            Answer::Json(json!({"errcode": 0, "access_token": TOKEN, "expires_in": 7200}))
        }
        _ => answer(),
    }
}

#[tokio::test]
async fn no_secret_in_errors_debug_or_logs_at_trace() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .init();

    let mut texts = Vec::new();
    // Nobody listens; never an answer; 500; refused; HTML; success in another shape; everything fine.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    texts.extend(all_texts(&nobody, Options::default).await);

    let hangs = Stub::raw(|_| Answer::Hang).await;
    texts.extend(all_texts(&hangs.url, impatient).await);
    let hangs_later = Stub::raw(token_or(|| Answer::Hang)).await;
    texts.extend(all_texts(&hangs_later.url, impatient).await);
    let fails = Stub::raw(|_| Answer::Raw(500, "text/html", "<html>".to_owned())).await;
    texts.extend(all_texts(&fails.url, Options::default).await);
    let fails_later = Stub::raw(token_or(|| {
        Answer::Raw(500, "text/html", "<html>".to_owned())
    }))
    .await;
    texts.extend(all_texts(&fails_later.url, Options::default).await);
    // A server that echoes what it was sent, in errmsg and in its hint.
    let echoes = Stub::raw(token_or(|| {
        Answer::Json(json!({"errcode": 40014, "errmsg": format!("bad {TOKEN}, hint: [{TOKEN}], from ip: {TOKEN}, {NAME}")}))
    }))
    .await;
    texts.extend(all_texts(&echoes.url, Options::default).await);
    let refuses = Stub::raw(|_| {
        Answer::Json(
            json!({"errcode": 40001, "errmsg": format!("corpsecret {SECRET}, hint: [{SECRET}]")}),
        )
    })
    .await;
    texts.extend(all_texts(&refuses.url, Options::default).await);
    let odd = Stub::raw(token_or(|| {
        Answer::Json(json!({"errcode": 0, "external_contact": NAME, "follow_user": NAME, "invaliduser": [TOKEN]}))
    }))
    .await;
    texts.extend(all_texts(&odd.url, Options::default).await);
    let fine = Stub::raw(token_or(Answer::ok)).await;
    texts.extend(all_texts(&fine.url, Options::default).await);
    assert_eq!(fine.gettoken_count(), 1);
    let webhook = Webhook::new(http_client().unwrap(), &nobody, SecretString::from(KEY)).unwrap();
    let error = webhook.send(&WebhookMessage::text(NAME)).await.unwrap_err();
    texts.push(format!(
        "{error} {error:?} {:?}",
        std::error::Error::source(&error)
    ));

    texts.push(format!(
        "{:?} {:?} {:?}",
        Token::new(TOKEN, 1),
        welcome(),
        card()
    ));
    texts.push(format!("{:?}", WebhookMessage::markdown(NAME)));
    let remark = Remark {
        remark: Some(NAME.into()),
        remark_mobiles: Some(vec![NAME.into()]),
        ..Remark::default()
    };
    let customer: Customer = serde_json::from_value(json!({
        "external_contact": {"external_userid": "wm", "name": NAME, "avatar": NAME, "corp_name": NAME},
        "follow_user": [{"userid": "mA", "remark": NAME, "description": NAME, "remark_mobiles": [NAME],
            "remark_corp_name": NAME}],
    }))
    .unwrap();
    texts.push(format!("{remark:?} {customer:?}"));

    assert!(texts.len() > 60, "the calls did fail: {}", texts.len());
    for text in &texts {
        assert_clean("an error or Debug", text);
    }
    let log = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(
        log.contains("TRACE") && log.contains("no token"),
        "the log was on"
    );
    assert_clean("the log", &log);
}
