//! What is sent, to the letter: WeCom takes empty optional fields amiss.

use serde_json::{Value, json};
use wecom::client::{
    AddContactWay, AddCorpTag, AppMessage, Attachment, DelCorpTag, EditCorpTag, GetCorpTagList,
    Link, MarkTag, MessageContent, Recipients, Remark, TextCard, UpdateContactWay, UserStatus,
    Webhook, WebhookMessage, Welcome, http_client,
};

use crate::stub::{Answer, Stub};
use crate::support::client;

/// The one body that was sent to an API.
fn body(stub: &Stub, api: &str) -> String {
    let calls = stub.calls(api);
    assert_eq!(calls.len(), 1, "{api}");
    assert_eq!(calls[0].method, axum::http::Method::POST);
    calls[0].text.clone()
}

/// Case 94.
#[tokio::test]
async fn new_tags_carry_no_id_and_the_group_by_name_or_by_id() {
    let stub = Stub::start(|_| {
        Answer::Json(
            json!({"errcode": 0, "tag_group": {"group_id": "eg1", "group_name": "level",
            "tag": [{"id": "etNEW1", "name": "A", "create_time": 1, "order": 4_294_967_295_u32}]}}),
        )
    })
    .await;
    let client = client(&stub);
    let names = ["A".to_owned(), "B".to_owned()];
    let group = client
        .add_corp_tag(&AddCorpTag::in_group_named("level", names))
        .await
        .unwrap();
    assert_eq!(
        (group.group_id.as_str(), group.tag[0].id.as_str()),
        ("eg1", "etNEW1")
    );
    client
        .add_corp_tag(&AddCorpTag::in_group(group.group_id, ["C".to_owned()]))
        .await
        .unwrap();
    let sent: Vec<String> = stub
        .calls("externalcontact/add_corp_tag")
        .into_iter()
        .map(|call| call.text)
        .collect();
    assert_eq!(
        sent,
        [
            r#"{"group_name":"level","tag":[{"name":"A"},{"name":"B"}]}"#,
            r#"{"group_id":"eg1","tag":[{"name":"C"}]}"#
        ]
    );
}

/// Case 96.
#[tokio::test]
async fn absent_fields_are_absent() {
    let stub = Stub::start(|_| Answer::ok()).await;
    let client = client(&stub);
    let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
    client
        .del_corp_tag(&DelCorpTag {
            tag_id: ids(&["etA"]),
            group_id: Vec::new(),
        })
        .await
        .unwrap();
    client
        .del_corp_tag(&DelCorpTag {
            tag_id: Vec::new(),
            group_id: ids(&["etG"]),
        })
        .await
        .unwrap();
    let sent: Vec<String> = stub
        .calls("externalcontact/del_corp_tag")
        .into_iter()
        .map(|call| call.text)
        .collect();
    assert_eq!(sent, [r#"{"tag_id":["etA"]}"#, r#"{"group_id":["etG"]}"#]);
    let edit = EditCorpTag {
        id: "etA".to_owned(),
        name: Some("warm".to_owned()),
        order: None,
    };
    client.edit_corp_tag(&edit).await.unwrap();
    assert_eq!(
        body(&stub, "externalcontact/edit_corp_tag"),
        r#"{"id":"etA","name":"warm"}"#
    );
    client
        .get_corp_tag_list(&GetCorpTagList::default())
        .await
        .unwrap();
    assert_eq!(body(&stub, "externalcontact/get_corp_tag_list"), "{}");
}

/// Case 97.
#[tokio::test]
async fn mark_tag_has_exactly_four_fields() {
    let stub = Stub::start(|_| Answer::ok()).await;
    let request = MarkTag {
        userid: "mA".to_owned(),
        external_userid: "wmC001".to_owned(),
        add_tag: vec!["etA".to_owned()],
        remove_tag: vec!["etB".to_owned()],
    };
    client(&stub).mark_tag(&request).await.unwrap();
    assert_eq!(
        body(&stub, "externalcontact/mark_tag"),
        r#"{"userid":"mA","external_userid":"wmC001","add_tag":["etA"],"remove_tag":["etB"]}"#
    );
}

/// Case 98: adding takes nothing away.
#[tokio::test]
async fn adding_a_tag_names_no_tag_to_remove() {
    let stub = Stub::start(|_| Answer::ok()).await;
    let request = MarkTag {
        add_tag: vec!["et3".to_owned()],
        ..mark_of("mA", "wmC001")
    };
    client(&stub).mark_tag(&request).await.unwrap();
    assert_eq!(
        body(&stub, "externalcontact/mark_tag"),
        r#"{"userid":"mA","external_userid":"wmC001","add_tag":["et3"]}"#
    );
}

fn mark_of(userid: &str, external_userid: &str) -> MarkTag {
    MarkTag {
        userid: userid.to_owned(),
        external_userid: external_userid.to_owned(),
        ..MarkTag::default()
    }
}

#[tokio::test]
async fn a_remark_sends_what_changes_and_clears_with_an_empty_text() {
    let stub = Stub::start(|_| Answer::ok()).await;
    let request = Remark {
        userid: "mA".to_owned(),
        external_userid: "wm".to_owned(),
        remark: Some("兰 😀".into()),
        remark_mobiles: Some(vec!["".into()]),
        ..Remark::default()
    };
    client(&stub).remark(&request).await.unwrap();
    // Raw UTF-8: escapes are refused with 40033.
    assert_eq!(
        body(&stub, "externalcontact/remark"),
        r#"{"userid":"mA","external_userid":"wm","remark":"兰 😀","remark_mobiles":[""]}"#
    );
}

#[tokio::test]
async fn contact_ways_are_made_read_changed_and_deleted() {
    let stub = Stub::start(|call| match call.api.as_str() {
        "externalcontact/add_contact_way" => Answer::Json(
            json!({"errcode": 0, "config_id": "cw_1", "qr_code": "https://img.example/qr"}),
        ),
        "externalcontact/get_contact_way" => {
            Answer::Json(json!({"errcode": 0, "contact_way": {"config_id": "cw_1",
            "type": 2, "scene": 2, "state": "ch_001", "user": ["mA", "mB"], "party": null}}))
        }
        _ => Answer::ok(),
    })
    .await;
    let client = client(&stub);
    let request = AddContactWay {
        remark: Some("spring".to_owned()),
        skip_verify: Some(true),
        state: Some("ch_001".to_owned()),
        user: vec!["mA".to_owned()],
        ..AddContactWay::default()
    };
    let made = client.add_contact_way(&request).await.unwrap();
    assert_eq!(
        (made.config_id.as_str(), made.qr_code.as_deref()),
        ("cw_1", Some("https://img.example/qr"))
    );
    assert_eq!(
        body(&stub, "externalcontact/add_contact_way"),
        r#"{"type":1,"scene":2,"remark":"spring","skip_verify":true,"state":"ch_001","user":["mA"]}"#
    );
    let way = client.get_contact_way("cw_1").await.unwrap();
    assert_eq!(
        (way.kind, way.user.len(), way.state.as_str()),
        (Some(2), 2, "ch_001")
    );
    let change = UpdateContactWay {
        config_id: "cw_1".to_owned(),
        user: Some(vec!["mB".to_owned()]),
        ..UpdateContactWay::default()
    };
    client.update_contact_way(&change).await.unwrap();
    assert_eq!(
        body(&stub, "externalcontact/update_contact_way"),
        r#"{"config_id":"cw_1","user":["mB"]}"#
    );
    client.del_contact_way("cw_1").await.unwrap();
    client.close_temp_chat("mA", "wm").await.unwrap();
}

#[tokio::test]
async fn a_welcome_message_has_its_attachments_under_their_type() {
    let stub = Stub::start(|_| Answer::ok()).await;
    let link = Link {
        title: "Guide".to_owned(),
        url: "https://example.test/g".to_owned(),
        ..Link::default()
    };
    let welcome = Welcome::new("WC_1")
        .text("Welcome")
        .attach(Attachment::Link(link));
    client(&stub).send_welcome_msg(&welcome).await.unwrap();
    let sent = body(&stub, "externalcontact/send_welcome_msg");
    assert_eq!(
        sent,
        r#"{"welcome_code":"WC_1","text":{"content":"Welcome"},"attachments":[{"msgtype":"link","link":{"title":"Guide","url":"https://example.test/g"}}]}"#
    );
    assert_eq!(serde_json::from_str::<Welcome>(&sent).unwrap(), welcome);
}

/// A repeat within the window is the same JSON to the byte: that is what the duplicate check compares.
#[tokio::test]
async fn a_message_repeated_is_the_same_text() {
    let stub = Stub::start(|_| {
        Answer::Json(json!({"errcode": 0, "invaliduser": "emp_b|emp_c", "invalidparty": null, "msgid": "m_1"}))
    })
    .await;
    let client = client(&stub);
    let card = TextCard {
        title: "New customer".into(),
        description: "ch_001".into(),
        url: "https://example.test/c/1".into(),
        btntxt: None,
    };
    let message = AppMessage::new(Recipients::user("emp_a"), MessageContent::TextCard(card));
    let sent = client.send_message(&message).await.unwrap();
    client.send_message(&message).await.unwrap();
    assert_eq!(
        (sent.invaliduser, sent.msgid.as_str()),
        (vec!["emp_b".to_owned(), "emp_c".to_owned()], "m_1")
    );
    let calls = stub.calls("message/send");
    assert_eq!(calls[0].text, calls[1].text);
    assert_eq!(
        calls[0].text,
        r#"{"touser":"emp_a","msgtype":"textcard","agentid":1000002,"textcard":{"title":"New customer","description":"ch_001","url":"https://example.test/c/1"},"enable_duplicate_check":1,"duplicate_check_interval":1800}"#
    );
}

#[tokio::test]
async fn a_webhook_sends_its_key_and_no_token() {
    let stub = Stub::start(|_| Answer::ok()).await;
    let webhook = Webhook::new(
        http_client().unwrap(),
        &stub.url,
        "SIMKEY".to_owned().into(),
    )
    .unwrap();
    webhook
        .send(&WebhookMessage::markdown("**pool empty**"))
        .await
        .unwrap();
    let calls = stub.received();
    assert_eq!(
        (
            calls.len(),
            calls[0].query["key"].as_str(),
            calls[0].token()
        ),
        (1, "SIMKEY", "")
    );
    assert_eq!(
        calls[0].text,
        r#"{"msgtype":"markdown","markdown":{"content":"**pool empty**"}}"#
    );
}

#[tokio::test]
async fn members_and_addresses_are_read() {
    let stub = Stub::start(|call| {
        Answer::Json(match call.api.as_str() {
            "user/get" => json!({"errcode": 0, "userid": "ZhangSan", "name": "张三", "department": [1, 2], "status": 5}),
            "agent/get" => json!({"errcode": 0, "agentid": 1000002, "name": "派单", "close": 0}),
            "getcallbackip" => json!({"ip_list": ["101.226.0.1", "101.226.62.*"], "errcode": 0}),
            "get_api_domain_ip" => json!({"ip_list": ["182.254.11.176"], "errcode": 0}),
            _ => json!({"errcode": 0, "follow_user": ["emp_a", "emp_b"]}),
        })
    })
    .await;
    let client = client(&stub);
    let user = client.get_user("zhangsan").await.unwrap();
    assert_eq!(
        (user.userid.as_str(), user.status),
        ("ZhangSan", UserStatus::Left),
        "WeCom's own spelling"
    );
    let agent = client.get_agent().await.unwrap();
    assert_eq!((agent.agentid, agent.close), (Some(1_000_002), Some(0)));
    let asked = &stub.calls("agent/get")[0];
    assert_eq!(
        asked.query["agentid"],
        client.app().agent_id.to_string(),
        "its own"
    );
    assert_eq!(client.get_callback_ip().await.unwrap().len(), 2);
    assert_eq!(
        client.get_api_domain_ip().await.unwrap(),
        ["182.254.11.176"]
    );
    assert_eq!(
        client.get_follow_user_list().await.unwrap(),
        ["emp_a", "emp_b"]
    );
    for call in stub.received() {
        assert_eq!(call.method, axum::http::Method::GET, "{}", call.api);
        assert!(call.json() == Value::Null, "no body");
    }
    let token_call = &stub.calls("gettoken")[0];
    assert_eq!(token_call.query["corpid"], "ww1f2e3d4c5b6a7988");
    assert_eq!(token_call.query["corpsecret"], "secret-of-1000002");
}

/// A base URL with a path (a proxy in front) keeps it.
#[tokio::test]
async fn a_base_url_may_have_a_path() {
    let stub = Stub::start(|_| Answer::ok()).await;
    let store = std::sync::Arc::new(wecom::client::MemoryTokenStore::default());
    let app = crate::support::app(1);
    let url = format!("{}/wecom/", stub.url);
    let client = wecom::client::Client::new(http_client().unwrap(), &url, app, store).unwrap();
    client.ensure_token().await.unwrap_err();
    assert_eq!(stub.received()[0].api, "/wecom/cgi-bin/gettoken");
}
