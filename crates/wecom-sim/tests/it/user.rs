//! Members (api.md 11).

use serde_json::json;

use crate::harness::{Client, code, config};

#[tokio::test]
async fn one_member_in_any_spelling() {
    let client = Client::start(config()).await;
    let answer = client.get("user/get", &[("userid", "MA")]).await;
    assert_eq!(code(&answer), 0);
    assert_eq!(
        (&answer["userid"], &answer["status"]),
        (&json!("mA"), &json!(1))
    );
    assert_eq!(
        code(&client.get("user/get", &[("userid", "nobody")]).await),
        60111
    );
    assert_eq!(code(&client.get("user/get", &[]).await), 40003);
}

#[tokio::test]
async fn who_left_is_gone_and_who_is_disabled_is_shown() {
    let client = Client::start(config()).await;
    client
        .sim
        .patch_member(None, "mA", &json!({"status": 5}))
        .unwrap();
    client
        .sim
        .patch_member(None, "mB", &json!({"status": 2}))
        .unwrap();
    assert_eq!(
        code(&client.get("user/get", &[("userid", "mA")]).await),
        60111
    );
    assert_eq!(
        client.get("user/get", &[("userid", "mB")]).await["status"],
        2
    );
    let answer = client
        .get("externalcontact/get_follow_user_list", &[])
        .await;
    assert_eq!(answer["follow_user"], json!(["mC", "mD", "mE"]));
}

/// An app reads itself and no other.
#[tokio::test]
async fn the_app_itself() {
    let client = Client::start(config()).await;
    let own = config().corps[0].apps[0].agent_id;
    let answer = client
        .get("agent/get", &[("agentid", &own.to_string())])
        .await;
    assert_eq!(
        (code(&answer), answer["agentid"].as_u64()),
        (0, Some(u64::from(own)))
    );
    let other = (own + 1).to_string();
    assert_eq!(
        code(&client.get("agent/get", &[("agentid", &other)]).await),
        301002
    );
    assert_eq!(code(&client.get("agent/get", &[]).await), 40056);
}

#[tokio::test]
async fn members_of_a_department() {
    let mut config = config();
    config.corps[0].members[1].departments = vec![7];
    let client = Client::start(config).await;
    let answer = client
        .get("user/simplelist", &[("department_id", "7")])
        .await;
    assert_eq!(
        answer["userlist"],
        json!([{"userid": "mB", "name": "mB", "department": [7]}])
    );
    assert_eq!(code(&client.get("user/simplelist", &[]).await), 60123);
}

#[tokio::test]
async fn generated_members() {
    let mut config = config();
    config.corps[0].generate = vec![wecom_sim::Generate::new("gen", 300)];
    let client = Client::start(config).await;
    let answer = client
        .get("externalcontact/get_follow_user_list", &[])
        .await;
    assert_eq!(answer["follow_user"].as_array().unwrap().len(), 305);
    assert_eq!(
        code(&client.get("user/get", &[("userid", "gen300")]).await),
        0
    );
}
