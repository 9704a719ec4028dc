//! Transfers: a result per customer, statuses as they come, the right one of two APIs.

use rstest::rstest;
use serde_json::json;
use wecom::Error;
use wecom::client::{TransferCustomer, TransferPair, TransferStatus};
use wecom::error::{Class, FieldProblem};

use crate::stub::{Answer, Stub};
use crate::support::client;

fn four() -> TransferCustomer {
    TransferCustomer {
        handover_userid: "mA".to_owned(),
        takeover_userid: "mB".to_owned(),
        external_userid: (1..=4).map(|number| format!("wmC00{number}")).collect(),
        transfer_success_msg: None,
    }
}

fn pair() -> TransferPair {
    TransferPair {
        handover_userid: "mA".to_owned(),
        takeover_userid: "mB".to_owned(),
    }
}

/// Case 85.
#[tokio::test]
async fn every_customer_has_a_result_of_his_own() {
    let stub = Stub::start(|_| {
        Answer::Json(json!({"errcode": 0, "errmsg": "ok", "customer": [
            {"external_userid": "wmC001", "errcode": 0},
            {"external_userid": "wmC002", "errcode": 40096},
            {"external_userid": "wmC003", "errcode": 40129},
            {"external_userid": "wmC004", "errcode": 40131},
        ]}))
    })
    .await;
    let items = client(&stub)
        .transfer_customer(&four())
        .await
        .unwrap()
        .customer
        .unwrap();
    let classes: Vec<_> = items
        .iter()
        .map(|item| item.refusal().map(|refusal| refusal.class))
        .collect();
    assert_eq!(
        classes,
        [
            None,
            Some(Class::PermanentCustomer),
            Some(Class::AlreadyDone),
            Some(Class::PermanentCustomer)
        ]
    );
}

/// Case 93, at the start: an answer without a list leaves every customer unknown.
#[tokio::test]
async fn an_answer_without_a_list_tells_nothing() {
    let stub = Stub::start(|_| Answer::ok()).await;
    assert_eq!(
        client(&stub)
            .transfer_customer(&four())
            .await
            .unwrap()
            .customer,
        None
    );
}

/// Case 89.
#[tokio::test]
async fn unknown_statuses_are_kept_raw_and_spoil_nothing() {
    let stub = Stub::start(|_| {
        Answer::Json(json!({"errcode": 0, "customer": [
            {"external_userid": "1", "status": 1, "takeover_time": 1_792_000_000},
            {"external_userid": "2", "status": 5, "takeover_time": 0},
            {"external_userid": "3", "status": 0},
            {"external_userid": "4", "status": 9},
            {"external_userid": "5"},
            {"external_userid": "6", "status": "2", "takeover_time": "1792086400"},
            {"external_userid": "7", "status": {}},
            {"status": 1},
            "rubbish",
            {"external_userid": "8", "status": 3, "takeover_time": 0},
            {"external_userid": "9", "status": 4},
        ], "next_cursor": ""}))
    })
    .await;
    let rows = client(&stub)
        .transfer_result_all(&pair())
        .await
        .unwrap()
        .unwrap();
    let seen: Vec<_> = rows
        .iter()
        .map(|row| (row.external_userid.as_str(), row.status))
        .collect();
    assert_eq!(
        seen,
        [
            ("1", TransferStatus::Done),
            ("2", TransferStatus::Other(5)),
            ("3", TransferStatus::Other(0)),
            ("4", TransferStatus::Other(9)),
            ("5", TransferStatus::Missing),
            ("6", TransferStatus::Waiting),
            ("7", TransferStatus::Missing),
            ("8", TransferStatus::Refused),
            ("9", TransferStatus::ReceiverFull),
        ]
    );
    assert_eq!(rows[1].status.raw(), Some(5));
    assert_eq!(rows[5].takeover_time, Some(1_792_086_400));
}

/// Case 90.
#[tokio::test]
async fn members_in_service_and_members_who_left_have_their_own_apis() {
    let stub = Stub::start(|_| Answer::ok()).await;
    let client = client(&stub);
    client.transfer_customer(&four()).await.unwrap();
    client.transfer_result(&pair(), None).await.unwrap();
    client.resigned_transfer_customer(&four()).await.unwrap();
    client
        .resigned_transfer_result(&pair(), Some("c1"))
        .await
        .unwrap();
    let calls: Vec<(String, String)> = stub
        .received()
        .into_iter()
        .skip(1)
        .map(|call| (call.api, call.text))
        .collect();
    let body = r#"{"handover_userid":"mA","takeover_userid":"mB","external_userid":["wmC001","wmC002","wmC003","wmC004"]}"#;
    assert_eq!(
        calls,
        [
            ("externalcontact/transfer_customer", body),
            (
                "externalcontact/transfer_result",
                r#"{"handover_userid":"mA","takeover_userid":"mB"}"#
            ),
            ("externalcontact/resigned/transfer_customer", body),
            (
                "externalcontact/resigned/transfer_result",
                r#"{"handover_userid":"mA","takeover_userid":"mB","cursor":"c1"}"#
            ),
        ]
        .map(|(api, text)| (api.to_owned(), text.to_owned()))
    );
}

/// Case 91, the part that a client can see: nobody gives to himself, in whatever spelling.
#[rstest]
#[tokio::test]
async fn giver_and_receiver_must_differ(#[values("mA", "MA")] takeover: &str) {
    let stub = Stub::start(|_| Answer::ok()).await;
    let mut request = four();
    request.takeover_userid = takeover.to_owned();
    let error = client(&stub).transfer_customer(&request).await.unwrap_err();
    assert!(matches!(
        error,
        Error::Invalid {
            field: "takeover_userid",
            problem: FieldProblem::NotAllowed(_),
            ..
        }
    ));
    assert!(
        stub.received().is_empty(),
        "refused before any call, even for a token"
    );
}
