//! Lists: empty is not failed, and the end is where the cursor ends.

use rstest::rstest;
use serde_json::{Value, json};
use wecom::Error;
use wecom::client::{ContactWayWindow, TransferPair};
use wecom::error::Class;

use crate::stub::{Answer, Received, Stub};
use crate::support::client;

fn pair() -> TransferPair {
    TransferPair {
        handover_userid: "mA".to_owned(),
        takeover_userid: "mB".to_owned(),
    }
}

/// Case 51.
#[tokio::test]
async fn a_member_without_customers_has_an_empty_list() {
    let stub = Stub::start(|call| match call.query.get("userid").map(String::as_str) {
        Some("mA") => Answer::Json(json!({"errcode": 0, "external_userid": ["1", "2", "3"]})),
        _ => Answer::error(84061),
    })
    .await;
    let client = client(&stub);
    assert_eq!(client.list_customers("mA").await.unwrap().len(), 3);
    assert!(client.list_customers("mB").await.unwrap().is_empty());
    assert_eq!(stub.count("externalcontact/list"), 2, "no retry");
}

/// 84061 means empty on that path only.
#[tokio::test]
async fn no_relation_is_an_error_everywhere_else() {
    let stub = Stub::start(|_| Answer::error(84061)).await;
    let client = client(&stub);
    assert_eq!(
        client.get_customer("wm", None).await.unwrap_err().class(),
        Class::PermanentCustomer
    );
    assert_eq!(
        client
            .batch_get_by_user_all(&["mA".to_owned()])
            .await
            .unwrap_err()
            .errcode(),
        Some(84061)
    );
}

/// Case 47: a refused read is an error, never a member without customers.
#[rstest]
#[tokio::test]
async fn a_failed_read_is_never_an_empty_list(#[values(45033, 45009, -1, 60111)] errcode: i64) {
    let stub =
        Stub::start(move |_| Answer::Json(json!({"errcode": errcode, "external_userid": []})))
            .await;
    assert_eq!(
        client(&stub)
            .list_customers("mA")
            .await
            .unwrap_err()
            .errcode(),
        Some(errcode)
    );
}

fn batch_page(rows: usize, next_cursor: &str) -> Answer {
    let rows: Vec<Value> = (0..rows)
        .map(|row| {
            json!({"external_contact": {"external_userid": format!("wm{row}"), "name": null, "type": 1},
                "follow_info": {"userid": "mA", "tag_id": null, "state": "ch_001", "add_way": 1, "createtime": 1}})
        })
        .collect();
    Answer::Json(
        json!({"errcode": 0, "external_contact_list": rows, "next_cursor": next_cursor,
        "fail_info": {"unlicensed_userid_list": ["mX"]}}),
    )
}

/// Case 52.
#[tokio::test]
async fn pages_are_walked_to_the_end() {
    let stub = Stub::start(|call: &Received| match call.json()["cursor"].as_str() {
        None => batch_page(100, "c1"),
        Some("c1") => batch_page(100, "c2"),
        Some("c2") => batch_page(37, ""),
        Some(other) => panic!("{other}"),
    })
    .await;
    let (rows, failed) = client(&stub)
        .batch_get_by_user_all(&["mA".to_owned()])
        .await
        .unwrap();
    assert_eq!(rows.len(), 237);
    assert_eq!(failed.unlicensed_userid_list, ["mX"]);
    assert_eq!(rows[0].follow_info.state.as_deref(), Some("ch_001"));
    let calls = stub.calls("externalcontact/batch/get_by_user");
    assert_eq!(calls.len(), 3);
    assert_eq!(
        calls[0].text, r#"{"userid_list":["mA"],"limit":100}"#,
        "no cursor key on page one"
    );
}

/// A cursor that comes again would walk for ever; the rows so far are not the whole list.
#[tokio::test]
async fn a_cursor_that_goes_in_a_circle_is_an_error() {
    let stub = Stub::start(|call| match call.nth {
        nth @ ..=9 => batch_page(1, if nth % 2 == 1 { "c1" } else { "c2" }),
        nth => panic!("{nth} calls"),
    })
    .await;
    let error = client(&stub)
        .batch_get_by_user_all(&["mA".to_owned()])
        .await
        .unwrap_err();
    assert!(matches!(
        error,
        Error::CursorLoop {
            api: "externalcontact/batch/get_by_user"
        }
    ));
    assert_eq!(stub.count("externalcontact/batch/get_by_user"), 3);
}

/// 50100: the cursor has expired; the walk starts again at page one, once, and counts nothing twice.
#[tokio::test]
async fn an_expired_cursor_starts_the_walk_again_once() {
    let stub = Stub::start(|call| match call.nth {
        1 | 3 => batch_page(100, "c1"),
        2 => Answer::error(50100),
        _ => batch_page(5, ""),
    })
    .await;
    let (rows, _) = client(&stub)
        .batch_get_by_user_all(&["mA".to_owned()])
        .await
        .unwrap();
    assert_eq!(rows.len(), 105);

    let stub = Stub::start(|call| {
        if call.nth % 2 == 1 {
            batch_page(100, "c1")
        } else {
            Answer::error(50100)
        }
    })
    .await;
    let error = client(&stub)
        .batch_get_by_user_all(&["mA".to_owned()])
        .await
        .unwrap_err();
    assert_eq!(error.errcode(), Some(50100));
    assert_eq!(stub.count("externalcontact/batch/get_by_user"), 4);
}

fn transfer_rows(from: usize, count: usize) -> Value {
    (from..from + count)
        .map(|row| json!({"external_userid": format!("wmC{row}"), "status": 2, "takeover_time": 1_792_086_400}))
        .collect()
}

/// Case 93: no list is "nothing known", which is not the same as no rows.
#[rstest]
#[case::absent(json!({"errcode": 0}), None)]
#[case::null(json!({"errcode": 0, "customer": null}), None)]
#[case::empty(json!({"errcode": 0, "customer": []}), Some(0))]
#[tokio::test]
async fn a_missing_list_is_not_an_empty_one(#[case] answer: Value, #[case] rows: Option<usize>) {
    let stub = Stub::start(move |_| Answer::Json(answer.clone())).await;
    let client = client(&stub);
    let all = client.transfer_result_all(&pair()).await.unwrap();
    assert_eq!(all.map(|rows| rows.len()), rows);
    let all = client.resigned_transfer_result_all(&pair()).await.unwrap();
    assert_eq!(all.map(|rows| rows.len()), rows);
}

/// Case 93: an empty page is not the end, and a thousand rows with a cursor are not all.
#[tokio::test]
async fn result_pages_are_walked_through_empty_ones() {
    let stub = Stub::start(|call| {
        Answer::Json(match call.json()["cursor"].as_str() {
            None => json!({"errcode": 0, "customer": transfer_rows(0, 1000), "next_cursor": "c1"}),
            Some("c1") => json!({"errcode": 0, "customer": [], "next_cursor": "c2"}),
            Some("c2") => json!({"errcode": 0, "next_cursor": "c3"}),
            _ => json!({"errcode": 0, "customer": transfer_rows(1000, 3), "next_cursor": null}),
        })
    })
    .await;
    let rows = client(&stub)
        .transfer_result_all(&pair())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(rows.len(), 1003);
    assert_eq!(stub.count("externalcontact/transfer_result"), 4);
}

#[tokio::test]
async fn customers_of_resigned_members_end_with_is_last() {
    let stub = Stub::start(|call| {
        let info = json!([{"handover_userid": "gone", "external_userid": format!("wm{}", call.nth), "dimission_time": 5}]);
        Answer::Json(json!({"errcode": 0, "info": info, "is_last": call.nth == 2, "next_cursor": format!("c{}", call.nth)}))
    })
    .await;
    assert_eq!(
        client(&stub).get_unassigned_list_all().await.unwrap().len(),
        2
    );
}

#[tokio::test]
async fn followers_and_contact_ways_come_from_all_pages() {
    let stub = Stub::start(|call| {
        let cursor = if call.nth == 1 { "c1" } else { "" };
        Answer::Json(match call.api.as_str() {
            "externalcontact/get" => json!({"errcode": 0,
                "external_contact": {"external_userid": "wm", "name": "Lan"},
                "follow_user": [{"userid": format!("m{}", call.nth), "tags": [{"tag_name": "warm", "type": 2}]}],
                "next_cursor": cursor}),
            _ => json!({"errcode": 0, "contact_way": [{"config_id": format!("cw{}", call.nth)}], "next_cursor": cursor}),
        })
    })
    .await;
    let client = client(&stub);
    let customer = client.get_customer_all("wm").await.unwrap();
    assert_eq!(customer.external_contact.name.expose(), "Lan");
    let followers: Vec<&str> = customer
        .follow_user
        .iter()
        .map(|follower| follower.userid.as_str())
        .collect();
    assert_eq!(followers, ["m1", "m2"]);
    assert_eq!(
        customer.follow_user[0].tags[0].tag_id, None,
        "personal tags have no id"
    );
    assert_eq!(stub.calls("externalcontact/get")[1].query["cursor"], "c1");
    let ways = client
        .list_contact_way_all(ContactWayWindow {
            start_time: Some(1),
            end_time: None,
        })
        .await
        .unwrap();
    assert_eq!(ways, ["cw1", "cw2"]);
    assert_eq!(
        stub.calls("externalcontact/list_contact_way")[0].text,
        r#"{"start_time":1,"limit":1000}"#
    );
}
