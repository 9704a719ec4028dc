//! Customers and remarks (api.md 2).

use std::time::Duration;

use serde_json::{Value, json};
use wecom_sim::{By, DeleteRequest, EditRequest, ScanRequest};

use crate::harness::{Client, HOUR, code, config};

#[tokio::test]
async fn who_has_a_customer() {
    let client = Client::start(config()).await;
    let scan = ScanRequest {
        unionid: Some("o_1".to_owned()),
        ..ScanRequest::member("mA", "ch_001").customer("wm1")
    };
    client.sim.scan(&scan).unwrap();
    let answer = client
        .get("externalcontact/get", &[("external_userid", "wm1")])
        .await;
    assert_eq!(answer["external_contact"]["external_userid"], "wm1");
    assert_eq!(answer["external_contact"]["unionid"], "o_1");
    let follow = &answer["follow_user"][0];
    assert_eq!(follow["userid"], "mA");
    assert_eq!(follow["state"], "ch_001");
    assert_eq!(follow["add_way"], 1);
    assert_eq!(follow["oper_userid"], "wm1");
    assert_eq!(follow["createtime"], client.sim.now_ms() / 1_000);
    assert_eq!(
        code(
            &client
                .get("externalcontact/get", &[("external_userid", "wm2")])
                .await
        ),
        40096
    );
    assert_eq!(code(&client.get("externalcontact/get", &[]).await), 41035);
}

/// Case 51: a member without customers answers 84061, not an empty list.
#[tokio::test]
async fn list_of_a_member() {
    let client = Client::start(config()).await;
    assert_eq!(
        code(
            &client
                .get("externalcontact/list", &[("userid", "mA")])
                .await
        ),
        84061
    );
    client.befriend("mA", "wm2");
    client.befriend("mA", "wm1");
    let answer = client
        .get("externalcontact/list", &[("userid", "ma")])
        .await;
    assert_eq!(answer["external_userid"], json!(["wm2", "wm1"]));
    assert_eq!(
        code(
            &client
                .get("externalcontact/list", &[("userid", "nobody")])
                .await
        ),
        60111
    );
}

/// The customer's deleting leaves a one-way relation that works; the member's ends it.
#[tokio::test]
async fn both_ways_of_deleting() {
    let client = Client::start(config()).await;
    client.befriend("mA", "wm1");
    let delete = |by| DeleteRequest {
        corp: None,
        customer: "wm1".to_owned(),
        member: "mA".to_owned(),
        by,
    };
    client.sim.delete(&delete(By::Customer)).unwrap();
    assert_eq!(client.followers("wm1").await, ["mA"]);
    client.sim.delete(&delete(By::Member)).unwrap();
    assert_eq!(
        code(
            &client
                .get("externalcontact/get", &[("external_userid", "wm1")])
                .await
        ),
        84061
    );
    assert!(client.sim.delete(&delete(By::Member)).is_err());
}

/// Reads may lag behind a deletion.
#[tokio::test]
async fn read_lag() {
    let mut config = config();
    config.people.read_lag_ms = 3_000;
    let client = Client::start(config).await;
    client.befriend("mA", "wm1");
    let request = DeleteRequest {
        corp: None,
        customer: "wm1".to_owned(),
        member: "mA".to_owned(),
        by: By::Member,
    };
    client.sim.delete(&request).unwrap();
    assert_eq!(client.followers("wm1").await, ["mA"]);
    client.sim.advance(Duration::from_secs(3)).await;
    assert!(client.followers("wm1").await.is_empty());
}

async fn pages(client: &Client, limit: i64) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    let mut cursor = String::new();
    loop {
        let body = json!({"userid_list": ["mA", "mB", "mC"], "cursor": cursor, "limit": limit});
        let answer = client.post("externalcontact/batch/get_by_user", body).await;
        assert_eq!(code(&answer), 0);
        let rows = answer["external_contact_list"].as_array().unwrap();
        pages.push(
            rows.iter()
                .map(|row| {
                    let id = row["external_contact"]["external_userid"].as_str().unwrap();
                    format!("{} {id}", row["follow_info"]["userid"].as_str().unwrap())
                })
                .collect(),
        );
        cursor = answer["next_cursor"].as_str().unwrap().to_owned();
        if cursor.is_empty() {
            return pages;
        }
    }
}

#[tokio::test]
async fn batch_pages_over_members() {
    let client = Client::start(config()).await;
    for (member, customers) in [("mA", 3), ("mC", 4)] {
        for number in 0..customers {
            client.befriend(member, &format!("wm{number}"));
        }
    }
    let expected = [
        "mA wm0", "mA wm1", "mA wm2", "mC wm0", "mC wm1", "mC wm2", "mC wm3",
    ];
    for limit in 1..=8 {
        let pages = pages(&client, limit).await;
        assert!(
            pages
                .iter()
                .all(|page| page.len() <= usize::try_from(limit).unwrap())
        );
        assert_eq!(pages.concat(), expected, "limit {limit}");
    }
    // The general cap makes pages shorter than what was asked.
    client
        .sim
        .patch_config(&json!({"paging": {"cap": 2}}))
        .unwrap();
    assert_eq!(pages(&client, 100).await[0].len(), 2);
}

#[tokio::test]
async fn cursors_expire_and_cannot_be_made_up() {
    let client = Client::start(config()).await;
    client.befriend("mA", "wm1");
    client.befriend("mA", "wm2");
    let api = "externalcontact/batch/get_by_user";
    let ask = |cursor: &Value| json!({"userid_list": ["mA"], "cursor": cursor, "limit": 1});
    let cursor = client.post(api, ask(&json!(""))).await["next_cursor"].clone();
    client.sim.advance(HOUR).await;
    assert_eq!(code(&client.post(api, ask(&cursor)).await), 0);
    client.sim.advance(Duration::from_millis(1)).await;
    assert_eq!(code(&client.post(api, ask(&cursor)).await), 50100);
    assert_eq!(
        code(&client.post(api, ask(&json!("nonsense"))).await),
        50100
    );
}

#[tokio::test]
async fn limits_of_batch() {
    let client = Client::start(config()).await;
    let api = "externalcontact/batch/get_by_user";
    assert_eq!(
        code(&client.post(api, json!({"userid_list": []})).await),
        40063
    );
    assert_eq!(
        code(
            &client
                .post(api, json!({"userid_list": vec!["mA"; 101]}))
                .await
        ),
        40058
    );
    assert_eq!(
        code(&client.post(api, json!({"userid_list": ["nobody"]})).await),
        60111
    );
}

/// Members without an interop licence are listed; if all lack it the call fails.
#[tokio::test]
async fn members_without_licence() {
    let client = Client::start(config()).await;
    for member in ["mA", "mB"] {
        client.befriend(member, "wm1");
    }
    client
        .sim
        .patch_member(None, "mA", &json!({"licensed": false}))
        .unwrap();
    let api = "externalcontact/batch/get_by_user";
    let answer = client.post(api, json!({"userid_list": ["mA", "mB"]})).await;
    assert_eq!(answer["external_contact_list"].as_array().unwrap().len(), 1);
    assert_eq!(answer["fail_info"]["unlicensed_userid_list"], json!(["mA"]));
    assert_eq!(
        code(&client.post(api, json!({"userid_list": ["mA"]})).await),
        701_008
    );
}

/// More than 500 followers come in pages.
#[tokio::test]
async fn many_followers_come_in_pages() {
    let mut config = config();
    config.corps[0].generate = vec![wecom_sim::Generate::new("gen", 501)];
    let client = Client::start(config).await;
    for number in 1..=501 {
        client.befriend(&format!("gen{number}"), "wm1");
    }
    let api = "externalcontact/get";
    let first = client.get(api, &[("external_userid", "wm1")]).await;
    assert_eq!(first["follow_user"].as_array().unwrap().len(), 500);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = client
        .get(api, &[("external_userid", "wm1"), ("cursor", cursor)])
        .await;
    assert_eq!(second["follow_user"][0]["userid"], "gen501");
    assert!(second.get("next_cursor").is_none());
}

#[tokio::test]
async fn remark_overwrites_what_is_given() {
    let client = Client::start(config()).await;
    client.befriend("mA", "wm1");
    let api = "externalcontact/remark";
    let body = |extra: Value| {
        let mut body = json!({"userid": "mA", "external_userid": "wm1"});
        body.as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        body
    };
    assert_eq!(
        code(&client.post(api, body(json!({}))).await),
        40063,
        "one of the five is needed"
    );
    assert_eq!(
        code(
            &client
                .post(api, body(json!({"remark": "客".repeat(21)})))
                .await
        ),
        40058
    );
    let given =
        json!({"remark": "客".repeat(20), "description": "d", "remark_mobiles": ["13900000000"]});
    assert_eq!(code(&client.post(api, body(given)).await), 0);
    assert_eq!(
        code(
            &client
                .post(api, body(json!({"remark_mobiles": [""]})))
                .await
        ),
        0,
        "one empty string clears"
    );
    let answer = client
        .get("externalcontact/get", &[("external_userid", "wm1")])
        .await;
    let follow = &answer["follow_user"][0];
    assert_eq!(follow["remark"], "客".repeat(20));
    assert_eq!(
        (&follow["description"], &follow["remark_mobiles"]),
        (&json!("d"), &json!([]))
    );
    let wrong = json!({"userid": "mB", "external_userid": "wm1", "remark": "x"});
    assert_eq!(code(&client.post(api, wrong).await), 84061);
}

/// Personal tags have no id and never come back in batches.
#[tokio::test]
async fn personal_tags_are_shown_without_id() {
    let client = Client::start(config()).await;
    client.befriend("mA", "wm1");
    let edit = EditRequest {
        corp: None,
        customer: "wm1".to_owned(),
        member: "mA".to_owned(),
        remark: None,
        personal_tags: Some(vec!["warm".to_owned()]),
        corp_tags: None,
    };
    client.sim.edit(&edit).unwrap();
    let answer = client
        .get("externalcontact/get", &[("external_userid", "wm1")])
        .await;
    assert_eq!(
        answer["follow_user"][0]["tags"],
        json!([{"group_name": "Personal", "tag_name": "warm", "type": 2}])
    );
    let body = json!({"userid_list": ["mA"]});
    let answer = client.post("externalcontact/batch/get_by_user", body).await;
    assert_eq!(
        answer["external_contact_list"][0]["follow_info"]["tag_id"],
        json!([])
    );
}
