//! 45009, 45033, 45035 (api.md 12.4, 14.3).

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use wecom_sim::{
    Act, ApiLimit, AppConfig, CorpConfig, Fault, MemberConfig, Rate, When, WindowKind,
};

use crate::harness::{CORP, Client, HOUR, MINUTE, SECRET, code, config};

const TAGS: &str = "externalcontact/get_corp_tag_list";

async fn codes(client: &Client, api: &str, n: usize) -> Vec<i64> {
    let mut codes = Vec::new();
    for _ in 0..n {
        codes.push(code(&client.post(api, json!({})).await));
    }
    codes
}

/// The minute rule blocks this (corp, API) for 60 s and nothing else.
#[tokio::test]
async fn minute_rule_blocks_one_pair() {
    let mut config = config();
    config.limits.corp_api = Rate::new(3, 0);
    let client = Client::start(config).await;
    assert_eq!(codes(&client, TAGS, 5).await, [0, 0, 0, 45009, 45009]);
    let other = client
        .post("externalcontact/get_unassigned_list", json!({}))
        .await;
    assert_eq!(code(&other), 0, "another API of the same corp");
    client.sim.advance(MINUTE - Duration::from_millis(1)).await;
    assert_eq!(codes(&client, TAGS, 1).await, [45009]);
    client.sim.advance(Duration::from_millis(1)).await;
    assert_eq!(codes(&client, TAGS, 1).await, [0]);
}

#[tokio::test]
async fn hour_rule_blocks_for_an_hour() {
    let mut config = config();
    config.limits.corp_api = Rate::new(0, 3);
    let client = Client::start(config).await;
    assert_eq!(codes(&client, TAGS, 4).await, [0, 0, 0, 45009]);
    client.forget_tokens();
    client.sim.advance(HOUR - Duration::from_millis(1)).await;
    assert_eq!(codes(&client, TAGS, 1).await, [45009]);
    client.sim.advance(Duration::from_millis(1)).await;
    assert_eq!(codes(&client, TAGS, 1).await, [0]);
}

/// A fixed window lets twice the rate through across its edge, a sliding one does not.
#[tokio::test]
async fn fixed_and_sliding_windows_differ_at_the_edge() {
    for (kind, expected) in [(WindowKind::Fixed, 0), (WindowKind::Sliding, 45009)] {
        let mut config = config();
        config.limits.corp_api = Rate::new(2, 0);
        config.limits.window = kind;
        // 59 s into a minute.
        config.clock.start_ms = Some(1_792_000_019_000 / 60_000 * 60_000 + 59_000);
        let client = Client::start(config).await;
        assert_eq!(codes(&client, TAGS, 2).await, [0, 0]);
        client.sim.advance(Duration::from_secs(2)).await;
        assert_eq!(codes(&client, TAGS, 1).await, [expected], "{kind:?}");
    }
}

/// One address, two corps: they share its budget per API.
#[tokio::test]
async fn address_rule_is_shared_by_corps() {
    let mut config = config();
    config.corps.push(CorpConfig {
        id: "wwother".to_owned(),
        apps: vec![AppConfig {
            secret: "other".into(),
            ..AppConfig::default()
        }],
        members: vec![MemberConfig::new("mA")],
        ..CorpConfig::default()
    });
    config.limits.ip_api = Rate::new(3, 0);
    let client = Client::start(config).await;
    let (ours, other) = (
        client.token().await,
        client.token_of("wwother", "other").await,
    );
    let call = |token: &str, ip: &'static str| {
        let token = token.to_owned();
        let client = &client;
        async move { code(&client.post_as(&token, ip, TAGS, json!({})).await.unwrap()) }
    };
    assert_eq!(call(&ours, "198.51.100.1").await, 0);
    assert_eq!(call(&other, "198.51.100.1").await, 0);
    assert_eq!(call(&ours, "198.51.100.1").await, 0);
    assert_eq!(call(&other, "198.51.100.1").await, 45009);
    assert_eq!(call(&other, "198.51.100.2").await, 0, "another address");
}

#[tokio::test]
async fn exceptions_by_api_and_debug() {
    let mut config = config();
    config.limits.per_api.insert(
        TAGS.to_owned(),
        ApiLimit {
            rate: Some(Rate::new(1, 0)),
            in_flight: None,
        },
    );
    let client = Client::start(config).await;
    assert_eq!(codes(&client, TAGS, 2).await, [0, 45009]);
    let api = "externalcontact/get_unassigned_list?debug=1";
    let token = client.token().await;
    let mut seen = Vec::new();
    for _ in 0..6 {
        let url = client.url(&format!("/cgi-bin/{api}&access_token={token}"));
        let answer: Value = client
            .http
            .post(url)
            .json(&json!({}))
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap();
        seen.push(code(&answer));
    }
    assert_eq!(seen, [0, 0, 0, 0, 0, 45009]);
}

#[tokio::test]
async fn limits_can_be_lifted_while_it_runs() {
    let mut config = config();
    config.limits.corp_api = Rate::new(1, 0);
    let client = Client::start(config).await;
    assert_eq!(codes(&client, TAGS, 2).await, [0, 45009]);
    client
        .sim
        .patch_config(&json!({"limits": {"enabled": false}}))
        .unwrap();
    assert_eq!(codes(&client, TAGS, 3).await, [0, 0, 0]);
}

/// The sixth at once gets 45033, without a block; the five go on.
#[tokio::test]
async fn sixth_in_flight_is_refused_at_once() {
    let client = Client::start(config()).await;
    client.befriend("mA", "wm1");
    let hold = client
        .sim
        .add_fault(Fault::new(TAGS, Act::Hold).times(5))
        .unwrap();
    let token = client.token().await;
    let call = || client.post_as(&token, "127.0.0.1", TAGS, json!({}));
    let held = join_all((0..5).map(|_| call()));
    let probe = async {
        in_flight(&client, TAGS, 5).await;
        let sixth = code(&call().await.unwrap());
        let other = code(
            &client
                .post("externalcontact/get_unassigned_list", json!({}))
                .await,
        );
        assert!(client.sim.remove_fault(&hold));
        (sixth, other)
    };
    let (held, (sixth, other)) = tokio::join!(held, probe);
    assert_eq!((sixth, other), (45033, 0));
    assert!(held.into_iter().all(|answer| code(&answer.unwrap()) == 0));
    assert_eq!(code(&call().await.unwrap()), 0, "no block time");
    let counters = client.sim.counters();
    let stat = &counters.corps[CORP].apis[TAGS];
    assert_eq!((stat.in_flight_max, stat.codes[&45033]), (6, 1));
}

/// Waits until so many calls of the API are held.
pub(crate) async fn in_flight(client: &Client, api: &str, n: u64) {
    loop {
        let hits: u64 = client
            .sim
            .faults()
            .iter()
            .filter(|fault| fault.fault.api == api)
            .map(|fault| fault.hits)
            .sum();
        if hits >= n {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// Two writers on one (member, customer) → 45035; another customer is free.
#[tokio::test]
async fn two_mark_tags_on_one_pair() {
    let mut config = config();
    config.corps[0].tags = vec![wecom_sim::TagGroupConfig {
        group: "Level".to_owned(),
        tags: vec!["A".to_owned()],
    }];
    let client = Client::start(config).await;
    client.befriend("mA", "wm1");
    client.befriend("mA", "wm2");
    let tags = client.post(TAGS, json!({})).await;
    let tag = tags["tag_group"][0]["tag"][0]["id"].clone();
    let api = "externalcontact/mark_tag";
    let body =
        |customer: &str| json!({"userid": "mA", "external_userid": customer, "add_tag": [tag]});
    let hold = client
        .sim
        .add_fault(Fault::new(api, Act::Hold).customer("wm1"))
        .unwrap();
    let probe = async {
        in_flight(&client, api, 1).await;
        let same = code(&client.post(api, body("wm1")).await);
        let other = code(&client.post(api, body("wm2")).await);
        client.sim.remove_fault(&hold);
        (same, other)
    };
    let (held, probed) = tokio::join!(client.post(api, body("wm1")), probe);
    assert_eq!((code(&held), probed), (0, (45035, 0)));
    assert_eq!(code(&client.post(api, body("wm1")).await), 0, "free again");
}

/// Two resigned transfers to one taker → 45035.
#[tokio::test]
async fn two_resigned_transfers_to_one_taker() {
    let client = Client::start(config()).await;
    client.befriend("mA", "wm1");
    client.befriend("mA", "wm2");
    client
        .sim
        .patch_member(None, "mA", &json!({"status": 5}))
        .unwrap();
    let api = "externalcontact/resigned/transfer_customer";
    let body = |customer: &str, taker: &str| json!({"handover_userid": "mA", "takeover_userid": taker, "external_userid": [customer]});
    let hold = client
        .sim
        .add_fault(
            Fault {
                when: When::After,
                ..Fault::new(api, Act::Hold)
            }
            .times(1),
        )
        .unwrap();
    let probe = async {
        in_flight(&client, api, 1).await;
        let same = code(&client.post(api, body("wm2", "MB")).await);
        let other = code(&client.post(api, body("wm2", "mC")).await);
        client.sim.remove_fault(&hold);
        (same, other)
    };
    let (held, probed) = tokio::join!(client.post(api, body("wm1", "mB")), probe);
    assert_eq!((code(&held), probed), (0, (45035, 0)));
}

/// message/send is outside the basic frequency.
#[tokio::test]
async fn messages_have_rules_of_their_own() {
    let mut config = config();
    config.limits.corp_api = Rate::new(1, 1);
    let client = Client::start(config).await;
    let body =
        json!({"touser": "mA", "msgtype": "text", "agentid": 1_000_002, "text": {"content": "x"}});
    for _ in 0..5 {
        assert_eq!(
            code(&client.post_by(SECRET, "message/send", body.clone()).await),
            0
        );
    }
}
