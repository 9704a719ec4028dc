//! Two sealings of one event are one delivery; two events of one second are two.

use redis::AsyncCommands;

use crate::harness::{
    App, Setup,
    cases::{self, Suite},
    setup, stored,
};

/// Cases 28 to 31 and 33: the counts of the file. Time between the steps plays no part here (case 32 is below).
#[tokio::test]
async fn sequences_are_stored_as_often_as_the_file_says() {
    let redis = test_redis::shared();
    for case in Suite::load("dedupe-sequences").cases() {
        let (id, app) = (&case.id, case.app());
        let gateway = Setup::new(&redis.url())
            .endpoint("sales", &app)
            .start()
            .await;
        let steps = case.value["steps"].as_array().unwrap();
        for step in steps {
            let reply = cases::send(gateway.addr, "sales", &step["request"]).await;
            assert_eq!((reply.status, reply.text()), (200, ""), "{id}");
        }
        let stored = stored::plaintexts(redis, &app.corp).await.len() as u64;
        let expect = case.expect();
        match expect["processed"].as_u64() {
            Some(processed) => assert_eq!(stored, processed, "{id}"),
            None => assert!(
                stored >= expect["processed_min"].as_u64().unwrap(),
                "{id}: {stored}"
            ),
        }
        let duplicates = steps.len() as u64 - stored;
        assert_eq!(
            gateway
                .metric("gateway_stored_total{endpoint=\"sales\"}")
                .await,
            stored as f64,
            "{id}"
        );
        assert_eq!(
            gateway
                .metric("gateway_duplicate_total{endpoint=\"sales\"}")
                .await,
            duplicates as f64,
            "{id}"
        );
        gateway.finish().await.unwrap();
    }
}

/// Case 32: remembered for a day, by Redis' own clock, which nobody moves here.
#[tokio::test]
async fn a_delivery_is_remembered_for_a_day() {
    let redis = test_redis::shared();
    let app = App::new();
    let gateway = Setup::new(&redis.url())
        .endpoint("sales", &app)
        .start()
        .await;
    assert_eq!(
        gateway.send("sales", &app.seal("<xml/>", "n")).await.status,
        200
    );
    let mut connection = redis.connection().await;
    let keys: Vec<String> = connection
        .keys(format!("{{{}}}:v1:seen:*", app.corp))
        .await
        .unwrap();
    let [key] = keys.as_slice() else {
        panic!("{keys:?}")
    };
    let left: i64 = connection.pttl(key).await.unwrap();
    assert!(left > 23 * 3_600_000, "{left} ms");
    gateway.finish().await.unwrap();
}

/// A duplicate of an event that may happen twice in one second is no second delivery, but what it is about will be
/// read again.
#[tokio::test]
async fn duplicates_of_repeatable_events_leave_a_mark() {
    let redis = test_redis::shared();
    let app = App::new();
    let gateway = Setup::new(&redis.url())
        .endpoint("sales", &app)
        .start()
        .await;
    let edit = setup::event(&app.corp, "wm1").replace("add_external", "edit_external");
    let message = "<xml><ToUserName>w</ToUserName><FromUserName>mA</FromUserName><CreateTime>1</CreateTime>\
        <MsgType>text</MsgType><Content>hi</Content><MsgId>1</MsgId></xml>";
    let chat = "<xml><ToUserName>w</ToUserName><FromUserName>sys</FromUserName><CreateTime>1</CreateTime>\
        <MsgType>event</MsgType><Event>change_external_chat</Event><ChatId>wr1</ChatId>\
        <ChangeType>update</ChangeType><UpdateDetail>change_name</UpdateDetail></xml>";
    // A tag's change may happen twice too, but nobody reads tags again: its mark would stay for ever.
    let tag = "<xml><ToUserName>w</ToUserName><FromUserName>sys</FromUserName><CreateTime>1</CreateTime>\
        <MsgType>event</MsgType><Event>change_external_tag</Event><Id>et1</Id><TagType>tag</TagType>\
        <ChangeType>update</ChangeType></xml>";
    let texts = [edit.as_str(), message, chat, tag];
    for text in texts {
        assert_eq!(
            gateway.send("sales", &app.seal(text, "1")).await.status,
            200
        );
    }
    assert!(stored::dirty(redis, &app.corp, "pair").await.is_empty());
    for text in texts {
        assert_eq!(
            gateway.send("sales", &app.seal(text, "2")).await.status,
            200
        );
    }
    assert_eq!(stored::plaintexts(redis, &app.corp).await.len(), 4);
    let marks = stored::dirty(redis, &app.corp, "pair").await;
    assert!(marks.len() == 1 && marks[0].contains("wm1"), "{marks:?}");
    assert_eq!(stored::dirty(redis, &app.corp, "chat").await, ["wr1"]);
    assert!(stored::dirty(redis, &app.corp, "tag").await.is_empty());
    gateway.finish().await.unwrap();
}

/// The same event through two URLs is two deliveries of one corp: each app has its own view of it.
#[tokio::test]
async fn each_endpoint_has_deliveries_of_its_own() {
    let redis = test_redis::shared();
    let app = App::new();
    let gateway = Setup::new(&redis.url())
        .endpoint("sales", &app)
        .endpoint("contacts", &app)
        .start()
        .await;
    let sealed = app.seal(&setup::event(&app.corp, "wm1"), "n");
    for endpoint in ["sales", "contacts", "sales"] {
        assert_eq!(gateway.send(endpoint, &sealed).await.status, 200);
    }
    let endpoints: Vec<_> = stored::deliveries(redis, &app.corp)
        .await
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    assert_eq!(endpoints, ["sales", "contacts"]);
    gateway.finish().await.unwrap();
}
