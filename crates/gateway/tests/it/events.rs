//! The inner document: everything authentic is stored as it is, whether anybody can read it or not.

use crate::harness::{App, Setup, cases::Suite, setup, stored};

/// Cases 9 to 12 and 16 to 20, as far as the gateway goes: stored byte for byte, acknowledged with nothing.
#[tokio::test]
async fn events_are_stored_as_they_came() {
    let redis = test_redis::shared();
    let suite = Suite::load("xml-events");
    let app = suite.cases()[0].app();
    let gateway = Setup::new(&redis.url())
        .endpoint("sales", &app)
        .start()
        .await;
    let mut expected = Vec::new();
    for case in suite.cases() {
        let reply = case.send(gateway.addr, "sales").await;
        assert_eq!((reply.status, reply.text()), (200, ""), "{}", case.id);
        expected.push(case.value["plaintext"].as_str().unwrap().to_owned());
    }
    assert_eq!(stored::plaintexts(redis, &app.corp).await, expected);
    assert_eq!(
        gateway
            .metric("gateway_stored_total{endpoint=\"sales\"}")
            .await,
        expected.len() as f64
    );
    gateway.finish().await.unwrap();
}

/// Case 21: received = stored, by type.
#[tokio::test]
async fn nothing_is_dropped_silently() {
    let redis = test_redis::shared();
    let app = App::new();
    let gateway = Setup::new(&redis.url())
        .endpoint("sales", &app)
        .start()
        .await;
    let kinds = [
        "add_external_contact",
        "add_half_external_contact",
        "edit_external_contact",
        "del_external_contact",
        "del_follow_user",
    ];
    for index in 0..250 {
        let kind = kinds[index % kinds.len()];
        let plaintext =
            setup::event(&app.corp, &format!("wm{index}")).replace("add_external_contact", kind);
        assert_eq!(
            gateway
                .send("sales", &app.seal(&plaintext, "n"))
                .await
                .status,
            200
        );
    }
    assert_eq!(
        gateway
            .metric("gateway_received_total{endpoint=\"sales\"}")
            .await,
        250.0
    );
    assert_eq!(
        gateway
            .metric("gateway_stored_total{endpoint=\"sales\"}")
            .await,
        250.0
    );
    let plaintexts = stored::plaintexts(redis, &app.corp).await;
    for kind in kinds {
        let tag = format!("<![CDATA[{kind}]]>");
        assert_eq!(
            plaintexts
                .iter()
                .filter(|plaintext| plaintext.contains(&tag))
                .count(),
            50,
            "{kind}"
        );
    }
    gateway.finish().await.unwrap();
}

/// What is authentic and unreadable is stored and acknowledged too.
#[tokio::test]
async fn unreadable_messages_are_kept() {
    let redis = test_redis::shared();
    let app = App::new();
    let gateway = Setup::new(&redis.url())
        .endpoint("sales", &app)
        .start()
        .await;
    let texts = [
        "",
        "not xml",
        "{\"msgtype\":\"text\"}",
        "<xml><Event>",
        "<?xml version=\"1.0\"?><!DOCTYPE x []><xml/>",
    ];
    for (index, text) in texts.into_iter().enumerate() {
        let reply = gateway
            .send("sales", &app.seal(text, &index.to_string()))
            .await;
        assert_eq!((reply.status, reply.text()), (200, ""), "{text:?}");
    }
    assert_eq!(stored::plaintexts(redis, &app.corp).await, texts);
    gateway.finish().await.unwrap();
}

const SUITE_EVENT: &str = "<xml><SuiteId><![CDATA[dk1]]></SuiteId><AuthCorpId><![CDATA[wwauth]]></AuthCorpId>\
    <InfoType><![CDATA[change_external_contact]]></InfoType><TimeStamp>1792000000</TimeStamp>\
    <ChangeType><![CDATA[edit_external_contact]]></ChangeType><UserID><![CDATA[mA]]></UserID>\
    <ExternalUserID><![CDATA[wm1]]></ExternalUserID></xml>";

/// The envelope decides the acknowledgement: `success` for a suite's event, nothing for an app's, also where both
/// come to one URL.
#[tokio::test]
async fn suite_events_are_answered_with_success() {
    let redis = test_redis::shared();
    let mut app = App::new().receives(&["dk1", "wwprovider"]);
    app.kind = "suite";
    let gateway = Setup::new(&redis.url())
        .endpoint("suite", &app)
        .start()
        .await;
    for (text, answer) in [
        (SUITE_EVENT.to_owned(), "success"),
        (SUITE_EVENT.to_owned(), "success"),
        ("<xml><SuiteId>dk1</SuiteId><InfoType>suite_ticket</InfoType><SuiteTicket>t</SuiteTicket></xml>".to_owned(), "success"),
        (setup::event("wwauth", "wm2"), ""),
        ("unreadable".to_owned(), "success"),
    ] {
        let reply = gateway.send("suite", &app.seal(&text, "n")).await;
        assert_eq!((reply.status, reply.text()), (200, answer), "{text}");
    }
    // Addressed to the provider, as some events are.
    let sealed = setup::seal(&app.keys[0], "wwprovider", SUITE_EVENT, "n");
    assert_eq!(gateway.send("suite", &sealed).await.text(), "success");
    assert_eq!(stored::plaintexts(redis, &app.corp).await.len(), 4);
    gateway.finish().await.unwrap();
}

/// An empty receive id is a value like any other: accepted where it is configured, and only it.
#[tokio::test]
async fn the_empty_receive_id_is_explicit() {
    let redis = test_redis::shared();
    let app = App::new().receives(&[""]);
    let gateway = Setup::new(&redis.url())
        .endpoint("robot", &app)
        .start()
        .await;
    assert_eq!(
        gateway.send("robot", &app.seal("{}", "n")).await.status,
        200
    );
    let sealed = setup::seal(&app.keys[0], &app.corp, "{}", "n");
    assert_eq!(gateway.send("robot", &sealed).await.status, 403);
    gateway.finish().await.unwrap();
}
