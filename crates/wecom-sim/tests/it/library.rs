//! The client library of this workspace against the simulator: both read the same pages, each checks the other.

use std::sync::Arc;

use wecom::client::{
    AddContactWay, AddCorpTag, App, AppMessage, Client as Library, MarkTag, MemoryTokenStore,
    MessageContent, Recipients, Remark, SystemClock, TransferCustomer, TransferPair,
    TransferStatus, WayScene, WayType, Webhook, WebhookMessage, Welcome,
};
use wecom_sim::{Act, Fault, ScanRequest};

use crate::harness::{AGENT, CORP, Client, DAY, SECRET, config, with_gateway};

pub(crate) fn library(client: &Client) -> Library {
    let app = App {
        corp_id: CORP.to_owned(),
        agent_id: i64::from(AGENT),
        secret: SECRET.into(),
    };
    let store = Arc::new(MemoryTokenStore::new(Arc::new(SystemClock)));
    Library::new(client.http.clone(), &client.sim.base_url(), app, store).unwrap()
}

#[tokio::test]
async fn reception_as_the_allocator_does_it() {
    let (client, gateway) = with_gateway(config()).await;
    let wecom = library(&client);
    assert_eq!(wecom.get_follow_user_list().await.unwrap().len(), 5);
    assert!(
        wecom.list_customers("mA").await.unwrap().is_empty(),
        "84061 is an empty list"
    );
    let way = AddContactWay {
        kind: WayType::Multiple,
        scene: WayScene::QrCode,
        state: Some("ch_001".to_owned()),
        user: vec!["mA".to_owned()],
        ..AddContactWay::default()
    };
    let way = wecom.add_contact_way(&way).await.unwrap();
    let scan = client
        .sim
        .scan(&ScanRequest::way(&way.config_id))
        .unwrap()
        .scans
        .remove(0);
    client.sim.idle().await;
    let event = wecom::event::Event::parse(&gateway.received()[0].plaintext).unwrap();
    let wecom::event::Body::ExternalContact(contact) = event.body else {
        panic!("not a contact event")
    };
    assert_eq!(contact.state.as_deref(), Some("ch_001"));
    let code = scan.welcome_codes[&AGENT].clone();
    wecom
        .send_welcome_msg(&Welcome::new(code.clone()).text("Welcome"))
        .await
        .unwrap();
    let again = wecom
        .send_welcome_msg(&Welcome::new(code).text("Welcome"))
        .await
        .unwrap_err();
    assert_eq!(
        (again.errcode(), again.class()),
        (Some(41051), wecom::error::Class::AlreadyDone)
    );

    let customer = wecom.get_customer_all(&scan.customer).await.unwrap();
    assert_eq!(customer.follow_user[0].userid, "mA");
    let group = wecom
        .add_corp_tag(&AddCorpTag::in_group_named("level", ["A".to_owned()]))
        .await
        .unwrap();
    let mark = MarkTag {
        userid: "mA".to_owned(),
        external_userid: scan.customer.clone(),
        add_tag: vec![group.tag[0].id.clone()],
        remove_tag: Vec::new(),
    };
    wecom.mark_tag(&mark).await.unwrap();
    let remark = Remark {
        userid: "mA".to_owned(),
        external_userid: scan.customer.clone(),
        remark: Some("VIP".into()),
        ..Remark::default()
    };
    wecom.remark(&remark).await.unwrap();
    let rows = wecom
        .batch_get_by_user_all(&["mA".to_owned(), "mB".to_owned()])
        .await
        .unwrap();
    assert_eq!(rows.0[0].follow_info.tag_id, [group.tag[0].id.clone()]);

    let transfer = TransferCustomer {
        handover_userid: "mA".to_owned(),
        takeover_userid: "mB".to_owned(),
        external_userid: vec![scan.customer.clone()],
        transfer_success_msg: None,
    };
    let started = wecom
        .transfer_customer(&transfer)
        .await
        .unwrap()
        .customer
        .unwrap();
    assert!(started[0].refusal().is_none());
    let again = wecom
        .transfer_customer(&transfer)
        .await
        .unwrap()
        .customer
        .unwrap();
    assert_eq!(
        again[0].refusal().unwrap().class,
        wecom::error::Class::AlreadyDone
    );
    let pair = TransferPair {
        handover_userid: "mA".to_owned(),
        takeover_userid: "mB".to_owned(),
    };
    let rows = wecom.transfer_result_all(&pair).await.unwrap().unwrap();
    assert_eq!(rows[0].status, TransferStatus::Waiting);
    client.sim.advance(DAY).await;
    // The token has died meanwhile: the library renews it once and repeats.
    let rows = wecom.transfer_result_all(&pair).await.unwrap().unwrap();
    assert_eq!(rows[0].status, TransferStatus::Done);
    assert_eq!(client.sim.counters().corps[CORP].gettoken[&AGENT].calls, 2);

    let message = AppMessage::new(
        Recipients::user("mB"),
        MessageContent::Text {
            content: "new customer".into(),
        },
    );
    assert!(
        wecom
            .send_message(&message)
            .await
            .unwrap()
            .invaliduser
            .is_empty()
    );
    assert_eq!(wecom.get_user("mB").await.unwrap().userid, "mB");
    assert!(!wecom.get_callback_ip().await.unwrap().is_empty());
    assert_eq!(wecom.wrong_json_count(), 0);
    let broken = client
        .sim
        .check()
        .invariants
        .into_iter()
        .filter(|invariant| !invariant.holds);
    let broken: Vec<_> = broken.map(|invariant| invariant.name).collect();
    assert_eq!(
        broken,
        ["welcome_once"],
        "the repetition above, and nothing else"
    );
}

#[tokio::test]
async fn resigned_pair_and_webhook() {
    let mut config = config();
    config.corps[0].webhooks = vec!["robot-key".into()];
    let client = Client::start(config).await;
    let wecom = library(&client);
    client.befriend("mA", "wm1");
    client
        .sim
        .patch_member(None, "mA", &serde_json::json!({"status": 5}))
        .unwrap();
    let unassigned = wecom.get_unassigned_list_all().await.unwrap();
    assert_eq!(unassigned[0].external_userid, "wm1");
    let transfer = TransferCustomer {
        handover_userid: "mA".to_owned(),
        takeover_userid: "mB".to_owned(),
        external_userid: vec!["wm1".to_owned()],
        transfer_success_msg: None,
    };
    assert!(
        wecom
            .resigned_transfer_customer(&transfer)
            .await
            .unwrap()
            .customer
            .unwrap()[0]
            .refusal()
            .is_none()
    );
    let robot = Webhook::new(
        client.http.clone(),
        &client.sim.base_url(),
        "robot-key".into(),
    )
    .unwrap();
    robot
        .send(&WebhookMessage::text("pool empty"))
        .await
        .unwrap();
    assert_eq!(client.sim.messages().len(), 1);
}

/// Case 41: one renewal for any number of callers, whenever their refusals come.
#[tokio::test]
async fn many_callers_renew_once() {
    let client = Client::start(wecom_sim::Config {
        limits: wecom_sim::Limits {
            in_flight: 0,
            ..Default::default()
        },
        ..config()
    })
    .await;
    let wecom = library(&client);
    wecom.get_callback_ip().await.unwrap();
    client.sim.invalidate_tokens(None, None);
    let calls = (0..50).map(|_| wecom.get_callback_ip());
    assert!(
        futures_util::future::join_all(calls)
            .await
            .iter()
            .all(Result::is_ok)
    );
    assert_eq!(client.sim.counters().corps[CORP].gettoken[&AGENT].calls, 2);
}

/// The library tells an answer that was lost after the effect from one that never had any.
#[tokio::test]
async fn lost_answers_are_told_apart() {
    let client = Client::start(config()).await;
    let wecom = library(&client);
    wecom.get_callback_ip().await.unwrap();
    for act in [Act::Drop, Act::Status(502), Act::Truncate] {
        client
            .sim
            .add_fault(Fault::new("getcallbackip", act.clone()).after().times(1))
            .unwrap();
        let error = wecom.get_callback_ip().await.unwrap_err();
        assert!(error.may_have_acted(), "{act:?}: {error}");
    }
}
