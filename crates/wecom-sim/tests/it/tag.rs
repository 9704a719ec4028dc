//! Corp tags (api.md 4).

use serde_json::{Value, json};
use wecom_sim::{TagChange, TagGroupConfig, TagRequest};

use crate::harness::{Client, code, config, with_gateway};

const ADD: &str = "externalcontact/add_corp_tag";
const LIST: &str = "externalcontact/get_corp_tag_list";
const MARK: &str = "externalcontact/mark_tag";

async fn names(client: &Client, body: Value) -> Vec<(String, Vec<String>)> {
    let answer = client.post(LIST, body).await;
    let groups = answer["tag_group"].as_array().unwrap();
    let mut names: Vec<_> = groups
        .iter()
        .map(|group| {
            let mut tags: Vec<_> = group["tag"]
                .as_array()
                .unwrap()
                .iter()
                .map(|tag| tag["name"].as_str().unwrap().to_owned())
                .collect();
            tags.sort();
            (group["group_name"].as_str().unwrap().to_owned(), tags)
        })
        .collect();
    names.sort();
    names
}

/// Same name inside a group is made once: safe to repeat.
#[tokio::test]
async fn adding_is_safe_to_repeat() {
    let client = Client::start(config()).await;
    let body = json!({"group_name": "level", "tag": [{"name": "A"}, {"name": "B"}]});
    let first = client.post(ADD, body.clone()).await;
    let again = client.post(ADD, body).await;
    assert_eq!(first["tag_group"], again["tag_group"]);
    let group = first["tag_group"]["group_id"].clone();
    assert_eq!(
        code(
            &client
                .post(ADD, json!({"group_id": group, "tag": [{"name": "C"}]}))
                .await
        ),
        0
    );
    let level = |tags: &[&str]| {
        vec![(
            "level".to_owned(),
            tags.iter().map(ToString::to_string).collect::<Vec<_>>(),
        )]
    };
    assert_eq!(names(&client, json!({})).await, level(&["A", "B", "C"]));
    assert_eq!(
        names(&client, json!({"group_id": [group]})).await,
        level(&["A", "B", "C"])
    );
    let one = first["tag_group"]["tag"][0].clone();
    assert_eq!(
        names(&client, json!({"tag_id": [one["id"]]})).await,
        level(&[one["name"].as_str().unwrap()])
    );
    for (body, expected) in [
        (json!({"group_id": "", "tag": [{"name": "X"}]}), 40068),
        (json!({"group_name": "level", "tag": []}), 40063),
        (json!({"tag": [{"name": "X"}]}), 40063),
        (json!({"group_name": "level", "tag": [{"name": ""}]}), 40072),
        (
            json!({"group_name": "level", "tag": [{"name": "n".repeat(31)}]}),
            40072,
        ),
        (
            json!({"group_name": "level", "tag": [{"name": "X", "order": -1}]}),
            40035,
        ),
    ] {
        assert_eq!(
            code(&client.post(ADD, body.clone()).await),
            expected,
            "{body}"
        );
    }
}

#[tokio::test]
async fn an_app_edits_only_its_own() {
    let mut config = config();
    config.corps[0].tags = vec![TagGroupConfig {
        group: "console".to_owned(),
        tags: vec!["K".to_owned()],
    }];
    let client = Client::start(config).await;
    let console = client.post(LIST, json!({})).await["tag_group"][0].clone();
    let edit = "externalcontact/edit_corp_tag";
    let del = "externalcontact/del_corp_tag";
    let theirs = console["tag"][0]["id"].clone();
    assert_eq!(
        code(&client.post(edit, json!({"id": theirs, "name": "L"})).await),
        48002
    );
    assert_eq!(
        code(&client.post(del, json!({"tag_id": [theirs]})).await),
        48002
    );
    let body = json!({"group_name": "ours", "tag": [{"name": "A"}, {"name": "B"}]});
    let ours = client.post(ADD, body).await["tag_group"].clone();
    let (a, b) = (&ours["tag"][0]["id"], &ours["tag"][1]["id"]);
    let other = ours["tag"][1]["name"].as_str().unwrap();
    assert_eq!(
        code(&client.post(edit, json!({"id": a, "name": other})).await),
        40071
    );
    assert_eq!(
        code(&client.post(edit, json!({"id": a, "name": "Z"})).await),
        0
    );
    assert_eq!(
        code(
            &client
                .post(edit, json!({"id": "et-none", "name": "Z"}))
                .await
        ),
        40068
    );
    assert_eq!(code(&client.post(del, json!({})).await), 40063);
    // A group whose tags all go is removed.
    assert_eq!(code(&client.post(del, json!({"tag_id": [a, b]})).await), 0);
    assert_eq!(
        names(&client, json!({})).await,
        [("console".to_owned(), vec!["K".to_owned()])]
    );
}

#[tokio::test]
async fn cap_of_the_corp() {
    let mut config = config();
    config.limits.corp_tags = 2;
    let client = Client::start(config).await;
    let body = |names: &[&str]| json!({"group_name": "g", "tag": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()});
    assert_eq!(code(&client.post(ADD, body(&["A", "B", "C"])).await), 40126);
    assert_eq!(code(&client.post(ADD, body(&["A", "B"])).await), 0);
}

/// Case 98: only what is listed changes; and no event follows.
#[tokio::test]
async fn marking_changes_what_is_listed() {
    let mut config = config();
    config.limits.tags_per_customer = 3;
    let (client, gateway) = with_gateway(config).await;
    client.befriend("mA", "wm1");
    let tags: Vec<Value> = ["1", "2", "3", "4"]
        .iter()
        .map(|name| json!({"name": name}))
        .collect();
    let group = client
        .post(ADD, json!({"group_name": "g", "tag": tags}))
        .await["tag_group"]
        .clone();
    let id = |index: usize| group["tag"][index]["id"].clone();
    let mark = |add: Vec<Value>, remove: Vec<Value>| json!({"userid": "mA", "external_userid": "wm1", "add_tag": add, "remove_tag": remove});
    assert_eq!(
        code(&client.post(MARK, mark(vec![id(0), id(1)], vec![])).await),
        0
    );
    assert_eq!(
        code(&client.post(MARK, mark(vec![id(0)], vec![])).await),
        0,
        "present already"
    );
    assert_eq!(
        code(&client.post(MARK, mark(vec![], vec![id(3)])).await),
        0,
        "absent already"
    );
    assert_eq!(
        code(&client.post(MARK, mark(vec![id(2)], vec![id(0)])).await),
        0
    );
    assert_eq!(
        client.sim.customer(None, "wm1").unwrap().follows[0].tags,
        [id(1), id(2)].map(|id| id.as_str().unwrap().to_owned())
    );
    assert_eq!(
        code(&client.post(MARK, mark(vec![id(0), id(3)], vec![])).await),
        40144
    );
    assert_eq!(
        code(
            &client
                .post(MARK, mark(vec![json!("et-none")], vec![]))
                .await
        ),
        40068
    );
    assert_eq!(code(&client.post(MARK, mark(vec![], vec![])).await), 41111);
    assert_eq!(
        code(&client.post(MARK, mark(vec![id(0); 1_001], vec![])).await),
        41111
    );
    let stranger = json!({"userid": "mB", "external_userid": "wm1", "add_tag": [id(0)]});
    assert_eq!(code(&client.post(MARK, stranger).await), 84061);
    client.sim.idle().await;
    assert_eq!(
        gateway.changes(),
        ["add_external_contact"],
        "API actions make no events"
    );
}

/// Case 99: a tag deleted in the console is gone from customers, and an event says so.
#[tokio::test]
async fn console_changes_are_told() {
    let (client, gateway) = with_gateway(config()).await;
    client.befriend("mA", "wm1");
    let change = |change| TagRequest { corp: None, change };
    let create = TagChange::Create {
        group: "g".to_owned(),
        name: "A".to_owned(),
    };
    let ids = client.sim.change_tags(&change(create)).unwrap();
    let tag = ids[1].clone();
    let mark = json!({"userid": "mA", "external_userid": "wm1", "add_tag": [tag]});
    assert_eq!(code(&client.post(MARK, mark).await), 0);
    client
        .sim
        .change_tags(&change(TagChange::Rename {
            id: tag.clone(),
            name: "B".to_owned(),
        }))
        .unwrap();
    client
        .sim
        .change_tags(&change(TagChange::Delete { id: tag.clone() }))
        .unwrap();
    client.sim.idle().await;
    let answer = client
        .get("externalcontact/get", &[("external_userid", "wm1")])
        .await;
    assert_eq!(answer["follow_user"][0]["tags"], json!([]));
    let received = gateway.received();
    let mut events: Vec<_> = received[1..]
        .iter()
        .map(|event| format!("{} {}", event.change(), event.field("TagType").unwrap()))
        .collect();
    events.sort();
    assert_eq!(
        events,
        ["create tag", "create tag_group", "delete tag", "update tag"]
    );
    assert!(
        received[1..]
            .iter()
            .all(|event| event.field("Event") == Some("change_external_tag"))
    );
}
