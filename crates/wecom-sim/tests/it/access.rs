//! Verbs, permissions and the form of answers (api.md 0.2, 14.1, 14.2).

use serde_json::{Value, json};
use wecom_sim::AppConfig;

use crate::harness::{CORP, Client, SECRET, code, config};

#[tokio::test]
async fn errors_have_wecoms_form() {
    let client = Client::start(config()).await;
    let token = client.token().await;
    let url = client.url(&format!(
        "/cgi-bin/externalcontact/get?access_token={token}&external_userid=wmX"
    ));
    let answer = client
        .http
        .get(url)
        .header("x-forwarded-for", "198.51.100.9, 10.0.0.1")
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["error-code"], "40096");
    let body: Value = answer.json().await.unwrap();
    assert_eq!(body["errcode"], 40096);
    let message = body["errmsg"].as_str().unwrap();
    assert!(
        message.starts_with("invalid external userid, hint: ["),
        "{message}"
    );
    assert!(message.contains("], from ip: 198.51.100.9, more info at https://open.work.weixin.qq.com/devtool/query?e=40096"));
    assert_eq!(body["follow_user"], json!([]));
}

#[tokio::test]
async fn get_on_a_post_path_and_unknown_paths() {
    let client = Client::start(config()).await;
    assert_eq!(
        code(&client.get("externalcontact/transfer_customer", &[]).await),
        40058
    );
    let answer = client
        .http
        .get(client.url("/cgi-bin/externalcontact/nothing"))
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 404);
    assert!(answer.text().await.unwrap().contains("GET /sim/apis"));
}

#[tokio::test]
async fn broken_json_and_wrong_types_are_warned_of() {
    let client = Client::start(config()).await;
    client.befriend("mA", "wm1");
    let token = client.token().await;
    let url = client.url(&format!(
        "/cgi-bin/externalcontact/mark_tag?access_token={token}"
    ));
    let answer: Value = client
        .http
        .post(url)
        .body("{\"userid\":")
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(code(&answer), 40058);
    assert!(
        answer["errmsg"]
            .as_str()
            .unwrap()
            .contains("Warning: wrong json format.")
    );
    // Accepted in part: the rest of the request still decides.
    let body = json!({"userid": "mA", "external_userid": 7, "remark": "x"});
    let answer = client.post("externalcontact/remark", body).await;
    assert_eq!(code(&answer), 41035);
    assert!(
        answer["errmsg"]
            .as_str()
            .unwrap()
            .contains("Warning: wrong json format.")
    );
    // Unknown fields are ignored without a word.
    let body = json!({"userid": "mA", "external_userid": "wm1", "remark": "x", "unknown": [1]});
    assert_eq!(
        client.post("externalcontact/remark", body).await["errmsg"],
        "ok"
    );
}

#[tokio::test]
async fn too_large_a_body() {
    let client = Client::start(config()).await;
    let body = json!({"pad": "x".repeat(5 * 1_024 * 1_024)});
    assert_eq!(
        code(&client.post("externalcontact/mark_tag", body).await),
        40206
    );
}

#[tokio::test]
async fn trusted_addresses() {
    let mut config = config();
    config.corps[0].apps[0].trusted_ips = vec!["198.51.100.1".parse().unwrap()];
    let client = Client::start(config).await;
    // gettoken itself is not refused.
    let token = client.token().await;
    let call = |ip: &'static str| {
        client.post_as(&token, ip, "externalcontact/get_corp_tag_list", json!({}))
    };
    let refused = call("198.51.100.2").await.unwrap();
    assert_eq!(code(&refused), 60020);
    assert!(
        refused["errmsg"]
            .as_str()
            .unwrap()
            .starts_with("not allow to access from your ip, hint:")
    );
    assert_eq!(code(&call("198.51.100.1").await.unwrap()), 0);
}

#[tokio::test]
async fn callable_app_and_visible_range() {
    let mut config = config();
    config.corps[0].apps.push(AppConfig {
        agent_id: 2,
        secret: "not-callable".into(),
        callable: false,
        ..AppConfig::default()
    });
    config.corps[0].apps.push(AppConfig {
        agent_id: 3,
        secret: "sees-mb".into(),
        visible: vec!["MB".to_owned()],
        ..AppConfig::default()
    });
    let client = Client::start(config).await;
    client.befriend("mA", "wm1");
    let remark = |member: &str| json!({"userid": member, "external_userid": "wm1", "remark": "x"});
    let api = "externalcontact/remark";
    assert_eq!(
        code(&client.post_by("not-callable", api, remark("mA")).await),
        48002
    );
    assert_eq!(
        code(&client.post_by("sees-mb", api, remark("mA")).await),
        60011
    );
    assert_eq!(
        code(&client.post_by("sees-mb", api, remark("mB")).await),
        84061
    );
    assert_eq!(code(&client.post_by(SECRET, api, remark("mA")).await), 0);
    // user/get needs no customer contact, but sees only the range.
    let token = client.token_of(CORP, "sees-mb").await;
    let url = client.url(&format!("/cgi-bin/user/get?access_token={token}&userid=mA"));
    let answer: Value = client
        .http
        .get(url)
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(code(&answer), 60111);
}

#[tokio::test]
async fn app_stopped_while_its_token_lives() {
    let client = Client::start(config()).await;
    client.token().await;
    let mut changed = client.sim.config();
    changed.corps[0].apps[0].enabled = false;
    client.sim.put_config(changed).unwrap();
    assert_eq!(code(&client.get("getcallbackip", &[]).await), 50003);
}

#[tokio::test]
async fn address_lists() {
    let client = Client::start(config()).await;
    for api in ["getcallbackip", "get_api_domain_ip"] {
        let answer = client.get(api, &[]).await;
        assert_eq!(code(&answer), 0);
        assert!(!answer["ip_list"].as_array().unwrap().is_empty());
    }
}
