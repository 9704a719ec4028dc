//! Transfers of members in service and how they end (api.md 5.1, 5.6, 14.5).

use std::time::Duration;

use serde_json::json;
use wecom_sim::{
    By, Config, CustomerScript, DeleteRequest, MemberConfig, Outcomes, TagsCopied, TransferEnd,
};

use crate::harness::{CORP, Client, DAY, config, with_gateway};

fn script(transfer: TransferEnd, after_ms: Option<i64>) -> Option<CustomerScript> {
    Some(CustomerScript { transfer, after_ms })
}

/// Started at once, complete after 24 h, with both events.
#[tokio::test]
async fn completes_after_a_day() {
    let (client, gateway) = with_gateway(config()).await;
    client.befriend("mA", "wm1");
    let started_s = client.sim.now_ms() / 1_000;
    assert_eq!(client.transfer_one("mA", "mB", "wm1").await, 0);
    let waiting =
        json!([{"external_userid": "wm1", "status": 2, "takeover_time": started_s + 86_400}]);
    assert_eq!(client.results("mA", "mB").await, waiting);
    client.sim.advance(DAY - Duration::from_millis(1)).await;
    client.forget_tokens();
    assert_eq!(client.results("mA", "mB").await, waiting);
    assert_eq!(client.followers("wm1").await, ["mA"]);
    client.sim.advance(Duration::from_millis(1)).await;
    client.sim.idle().await;
    let done =
        json!([{"external_userid": "wm1", "status": 1, "takeover_time": started_s + 86_400}]);
    assert_eq!(client.results("mA", "mB").await, done);
    let answer = client
        .get("externalcontact/get", &[("external_userid", "wm1")])
        .await;
    let follow = &answer["follow_user"];
    assert_eq!(
        (
            follow[0]["userid"].as_str(),
            follow.as_array().unwrap().len()
        ),
        (Some("mB"), 1)
    );
    assert_eq!(
        (&follow[0]["add_way"], &follow[0]["createtime"]),
        (&json!(202), &json!(started_s + 86_400))
    );
    let mut received = gateway.received().split_off(1);
    received.sort_by_key(|event| event.change().to_owned());
    assert_eq!(
        (received[0].change(), received[0].field("UserID")),
        ("add_external_contact", Some("mB"))
    );
    assert_eq!(received[0].field("State"), None);
    assert_eq!(
        (received[1].change(), received[1].field("UserID")),
        ("del_external_contact", Some("mA"))
    );
    assert_eq!(received[1].field("Source"), Some("DELETE_BY_TRANSFER"));
    assert_eq!(received.len(), 2);
}

#[tokio::test]
async fn refusal() {
    for (keeps, followers) in [(true, vec!["mA"]), (false, vec![])] {
        let mut config = config();
        config.transfers.refused_keeps_old = keeps;
        let (client, gateway) = with_gateway(config).await;
        client.befriend("mA", "wm1");
        client
            .sim
            .script(None, "wm1", script(TransferEnd::Refuse, Some(3_600_000)))
            .unwrap();
        assert_eq!(client.transfer_one("mA", "mB", "wm1").await, 0);
        client.sim.advance(Duration::from_secs(3_600)).await;
        client.sim.idle().await;
        let refused = json!([{"external_userid": "wm1", "status": 3, "takeover_time": 0}]);
        assert_eq!(client.results("mA", "mB").await, refused);
        assert_eq!(client.followers("wm1").await, followers);
        let received = gateway.received();
        let event = received.last().unwrap();
        assert_eq!((received.len(), event.change()), (2, "transfer_fail"));
        assert_eq!(event.field("UserID"), Some("mB"), "the taker");
        assert_eq!(event.field("FailReason"), Some("customer_refused"));
    }
}

/// Full at the call is 40099, full at the end is status 4.
#[tokio::test]
async fn taker_at_his_cap() {
    let mut config = config();
    config.corps[0].members[1] = MemberConfig {
        customer_limit: 1,
        ..MemberConfig::new("mB")
    };
    let (client, gateway) = with_gateway(config).await;
    client.befriend("mA", "wm1");
    client.befriend("mA", "wm2");
    assert_eq!(client.transfer_one("mA", "mB", "wm1").await, 0);
    client.befriend("mB", "wm3");
    assert_eq!(client.transfer_one("mA", "mB", "wm2").await, 40099);
    client.sim.advance(DAY).await;
    client.sim.idle().await;
    client.forget_tokens();
    assert_eq!(client.results("mA", "mB").await[0]["status"], 4);
    assert_eq!(client.followers("wm1").await, ["mA"]);
    let received = gateway.received();
    assert_eq!(
        received.last().unwrap().field("FailReason"),
        Some("customer_limit_exceed")
    );
    client
        .sim
        .script(None, "wm2", script(TransferEnd::Cap, None))
        .unwrap();
    assert_eq!(client.transfer_one("mA", "mC", "wm2").await, 0);
    client.sim.advance(DAY).await;
    client.forget_tokens();
    assert_eq!(client.results("mA", "mC").await[0]["status"], 4, "scripted");
}

/// A running transfer can be ended by hand.
#[tokio::test]
async fn ended_by_admin_call() {
    let client = Client::start(config()).await;
    client.befriend("mA", "wm1");
    let path = "/sim/customers/wm1/transfer";
    let refuse = json!({"transfer": "refuse"});
    assert_eq!(
        client.admin("POST", path, refuse.clone()).await.0,
        404,
        "none is running"
    );
    client.transfer_one("mA", "mB", "wm1").await;
    assert_eq!(client.admin("POST", path, refuse).await.0, 200);
    assert_eq!(client.results("mA", "mB").await[0]["status"], 3);
    client.transfer_one("mA", "mB", "wm1").await;
    client
        .sim
        .end_transfer(None, "wm1", TransferEnd::Early)
        .unwrap();
    assert_eq!(client.followers("wm1").await, ["mB"]);
    // What was scheduled finds nothing more to do.
    client.sim.advance(DAY).await;
    client.forget_tokens();
    let statuses: Vec<_> = client
        .results("mA", "mB")
        .await
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["status"].clone())
        .collect();
    assert_eq!(statuses, [json!(3), json!(1)]);
}

#[tokio::test]
async fn early_acceptance() {
    let client = Client::start(config()).await;
    client.befriend("mA", "wm1");
    client
        .sim
        .script(None, "wm1", script(TransferEnd::Early, Some(60_000)))
        .unwrap();
    let end_s = client.sim.now_ms() / 1_000 + 60;
    assert_eq!(client.transfer_one("mA", "mB", "wm1").await, 0);
    client.sim.advance(Duration::from_secs(60)).await;
    let done = json!([{"external_userid": "wm1", "status": 1, "takeover_time": end_s}]);
    assert_eq!(client.results("mA", "mB").await, done);
}

/// No add event when the taker has the customer already, or once gave him away.
#[tokio::test]
async fn success_without_add_event() {
    let (client, gateway) = with_gateway(config()).await;
    client.befriend("mA", "wm1");
    client.befriend("mB", "wm1");
    assert_eq!(client.transfer_one("mA", "mB", "wm1").await, 0);
    client.sim.advance(DAY).await;
    client.forget_tokens();
    // And back: mA once gave him away.
    assert_eq!(client.transfer_one("mB", "mA", "wm1").await, 0);
    client.sim.advance(DAY).await;
    client.sim.idle().await;
    client.forget_tokens();
    assert_eq!(client.followers("wm1").await, ["mA"]);
    assert_eq!(client.results("mB", "mA").await[0]["status"], 1);
    let changes = gateway.changes().split_off(2);
    assert_eq!(changes, ["del_external_contact", "del_external_contact"]);
}

/// Whoever loses the customer before the end shows up as refused.
#[tokio::test]
async fn giver_loses_the_customer_meanwhile() {
    let client = Client::start(config()).await;
    client.befriend("mA", "wm1");
    assert_eq!(client.transfer_one("mA", "mB", "wm1").await, 0);
    let delete = DeleteRequest {
        corp: None,
        customer: "wm1".to_owned(),
        member: "mA".to_owned(),
        by: By::Member,
    };
    client.sim.delete(&delete).unwrap();
    client.sim.advance(DAY).await;
    client.forget_tokens();
    assert_eq!(client.results("mA", "mB").await[0]["status"], 3);
}

#[tokio::test]
async fn policies_of_tags_and_remark() {
    for (policy, corp_tags, personal_tags) in [
        (TagsCopied::None, 0, 0),
        (TagsCopied::Corp, 1, 0),
        (TagsCopied::All, 1, 1),
    ] {
        let mut config = config();
        config.transfers.tags_copied = policy;
        config.transfers.remark_copied = policy == TagsCopied::All;
        let client = Client::start(config).await;
        client.befriend("mA", "wm1");
        let edit = wecom_sim::EditRequest {
            corp: None,
            customer: "wm1".to_owned(),
            member: "mA".to_owned(),
            remark: Some("VIP".to_owned()),
            personal_tags: Some(vec!["warm".to_owned()]),
            corp_tags: Some(vec!["et1".to_owned()]),
        };
        client.sim.edit(&edit).unwrap();
        client.transfer_one("mA", "mB", "wm1").await;
        client.sim.advance(DAY).await;
        let follow = client.sim.customer(None, "wm1").unwrap().follows.remove(0);
        assert_eq!(
            (follow.tags.len(), follow.personal_tags.len()),
            (corp_tags, personal_tags),
            "{policy:?}"
        );
        assert_eq!(
            follow.remark,
            if policy == TagsCopied::All { "VIP" } else { "" }
        );
    }
}

/// What customers do by chance does not depend on the order of calls, only on the seed.
#[tokio::test]
async fn outcomes_follow_the_distribution() {
    let mut ends = Vec::new();
    for reverse in [false, true] {
        let mut config: Config = config();
        config.transfers.outcomes = Outcomes {
            refuse: 0.3,
            cap: 0.2,
            early: 0.0,
        };
        let client = Client::start(config).await;
        let mut names: Vec<String> = (0..400).map(|number| format!("wm{number}")).collect();
        if reverse {
            names.reverse();
        }
        for name in &names {
            client.befriend("mA", name);
        }
        for chunk in names.chunks(100) {
            let chunk: Vec<&str> = chunk.iter().map(String::as_str).collect();
            client.transfer("mA", "mB", &chunk).await;
        }
        client.sim.advance(DAY).await;
        let mut transfers = client
            .sim
            .state(None)
            .unwrap()
            .corps
            .remove(CORP)
            .unwrap()
            .transfers;
        transfers.sort_by(|a, b| a.customer.cmp(&b.customer));
        ends.push(
            transfers
                .iter()
                .map(|transfer| transfer.status)
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(ends[0], ends[1]);
    let count = |status| ends[0].iter().filter(|end| **end == status).count();
    assert!(
        (80..160).contains(&count(3)) && (50..110).contains(&count(4)),
        "{} {}",
        count(3),
        count(4)
    );
    assert_eq!(count(1) + count(3) + count(4), 400);
}
