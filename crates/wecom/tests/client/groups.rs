//! Customer groups and the ways into them: bodies as the reference shows them, and what may be missing.

use rstest::rstest;
use serde_json::{Value, json};
use wecom::Error;
use wecom::client::{
    GroupChatFilter, GroupChatStatus, GroupChatStatusFilter, GroupMemberKind, JoinScene, JoinWay,
    MemberNames, TransferGroupChat,
};
use wecom::error::{Class, FieldProblem, Scope, Unit};

use crate::stub::{Answer, Received, Stub};
use crate::support::client;

const LIST: &str = "externalcontact/groupchat/list";
const GET: &str = "externalcontact/groupchat/get";

fn sent(stub: &Stub, api: &str) -> Vec<String> {
    let calls = stub.calls(api).into_iter();
    calls.map(|call| call.text).collect()
}

fn ids(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("wr_{number}")).collect()
}

#[tokio::test]
async fn groups_are_listed_to_the_last_page() {
    let stub = Stub::start(|call: &Received| match call.json()["cursor"].as_str() {
        None => Answer::Json(json!({"errcode": 0, "errmsg": "ok", "next_cursor": "c1",
            "group_chat_list": [{"chat_id": "wr_1", "status": 0}, {"chat_id": "wr_2", "status": 1}]})),
        Some("c1") => Answer::Json(json!({"errcode": 0, "next_cursor": "c2", "group_chat_list": []})),
        _ => Answer::Json(json!({"errcode": 0, "next_cursor": "",
            "group_chat_list": [{"chat_id": "wr_3", "status": 2}, {"chat_id": "wr_4", "status": "3"},
                {"chat_id": "wr_5", "status": 9}, {"chat_id": "wr_6"}]})),
    })
    .await;
    let filter = GroupChatFilter::of_owners(["emp_a"]);
    let groups = client(&stub).list_group_chat_all(&filter).await.unwrap();
    let statuses: Vec<_> = groups.iter().map(|group| group.status).collect();
    assert_eq!(
        statuses,
        [
            GroupChatStatus::Normal,
            GroupChatStatus::OwnerResigned,
            GroupChatStatus::Inheriting,
            GroupChatStatus::Inherited,
            GroupChatStatus::Other(9),
            GroupChatStatus::Missing
        ]
    );
    assert_eq!(groups[0].chat_id, "wr_1");
    assert_eq!(
        sent(&stub, LIST),
        [
            r#"{"owner_filter":{"userid_list":["emp_a"]},"limit":1000}"#,
            r#"{"owner_filter":{"userid_list":["emp_a"]},"cursor":"c1","limit":1000}"#,
            r#"{"owner_filter":{"userid_list":["emp_a"]},"cursor":"c2","limit":1000}"#,
        ]
    );
}

#[tokio::test]
async fn a_filter_without_owners_and_with_a_status() {
    let stub = Stub::start(|_| Answer::Json(json!({"errcode": 0, "group_chat_list": null}))).await;
    let client = client(&stub);
    let filter = GroupChatFilter {
        status: GroupChatStatusFilter::Inheriting,
        owners: Vec::new(),
    };
    assert!(
        client
            .list_group_chat_all(&filter)
            .await
            .unwrap()
            .is_empty()
    );
    let all = GroupChatFilter::default();
    client.list_group_chat(&all, None).await.unwrap();
    assert_eq!(
        sent(&stub, LIST),
        [r#"{"status_filter":2,"limit":1000}"#, r#"{"limit":1000}"#]
    );
    let many = GroupChatFilter::of_owners(ids(101));
    let error = client.list_group_chat(&many, None).await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Invalid {
                field: "owner_filter.userid_list",
                problem: FieldProblem::TooMany {
                    limit: 100,
                    given: 101
                },
                ..
            }
        ),
        "{error}"
    );
}

/// Too many owners in range: the request must be split, and it is no empty list.
#[rstest]
#[case(81017, Class::PermanentConfig, Scope::Request)]
#[case(45033, Class::RateLimited, Scope::Api)]
#[tokio::test]
async fn a_refused_list_is_an_error(
    #[case] errcode: i64,
    #[case] class: Class,
    #[case] scope: Scope,
) {
    let stub =
        Stub::start(move |_| Answer::Json(json!({"errcode": errcode, "group_chat_list": []})))
            .await;
    let filter = GroupChatFilter::default();
    let error = client(&stub)
        .list_group_chat_all(&filter)
        .await
        .unwrap_err();
    assert_eq!((error.errcode(), error.class()), (Some(errcode), class));
    assert_eq!(wecom::error::classify(errcode).scope, scope);
}

/// The sample of page 92122, an invited member, and numbers that are not documented.
fn group() -> Value {
    json!({"errcode": 0, "errmsg": "ok", "group_chat": {
        "chat_id": "wr_1", "name": "VIP 10", "owner": "emp_a", "create_time": 1_767_225_600, "notice": "hi",
        "member_list": [
            {"userid": "emp_a", "type": 1, "join_time": 1_767_225_600, "join_scene": 1, "name": "A"},
            {"userid": "wm_1", "type": 2, "unionid": "o_1", "join_time": 1_767_225_700, "join_scene": 3,
             "state": "ch_001", "group_nickname": "Lan", "name": "Lan"},
            {"userid": "wm_2", "type": 2, "join_time": "1767225800", "join_scene": 1, "invitor": {"userid": "emp_a"}},
            {"userid": "wm_3", "type": 7, "join_scene": 42, "invitor": {}},
            {"userid": "wm_4"},
            {"type": 2}],
        "admin_list": [{"userid": "emp_b"}], "member_version": "9f86d081884c7d65"}})
}

#[tokio::test]
async fn a_group_is_read_with_its_members() {
    let stub = Stub::start(|_| Answer::Json(group())).await;
    let client = client(&stub);
    let group = client
        .get_group_chat("wr_1", MemberNames::Shown)
        .await
        .unwrap();
    client
        .get_group_chat("wr_1", MemberNames::Hidden)
        .await
        .unwrap();
    assert_eq!(
        sent(&stub, GET),
        [
            r#"{"chat_id":"wr_1","need_name":1}"#,
            r#"{"chat_id":"wr_1","need_name":0}"#
        ]
    );
    assert_eq!(
        (group.name.as_str(), group.owner.as_str(), group.create_time),
        ("VIP 10", "emp_a", Some(1_767_225_600))
    );
    assert_eq!(group.notice.expose(), "hi");
    assert_eq!(group.admin_list[0].userid, "emp_b");
    assert_eq!(group.member_version.as_deref(), Some("9f86d081884c7d65"));
    let members = group.member_list.unwrap();
    let seen: Vec<_> = members
        .iter()
        .map(|member| (member.userid.as_str(), member.kind, member.join_scene))
        .collect();
    assert_eq!(
        seen,
        [
            ("emp_a", GroupMemberKind::Employee, JoinScene::Invited),
            ("wm_1", GroupMemberKind::External, JoinScene::Scanned),
            ("wm_2", GroupMemberKind::External, JoinScene::Invited),
            ("wm_3", GroupMemberKind::Other(7), JoinScene::Other(42)),
            ("wm_4", GroupMemberKind::Missing, JoinScene::Missing),
        ],
        "who has no id is left out, all others stay"
    );
    assert_eq!(members[1].unionid.as_deref(), Some("o_1"));
    assert_eq!(members[1].state.as_deref(), Some("ch_001"));
    assert_eq!(members[1].name.as_ref().unwrap().expose(), "Lan");
    assert_eq!(members[2].invitor.as_ref().unwrap().userid, "emp_a");
    assert_eq!(members[2].join_time, Some(1_767_225_800));
    assert_eq!((&members[2].state, &members[2].unionid), (&None, &None));
    let printed = format!("{:?}", members[1]);
    assert!(!printed.contains("Lan"), "{printed}");
}

/// A group without a list is not a group without members.
#[rstest]
#[case::absent(json!({"chat_id": "wr_1"}), None)]
#[case::null(json!({"chat_id": "wr_1", "member_list": null, "admin_list": null}), None)]
#[case::empty(json!({"chat_id": "wr_1", "member_list": []}), Some(0))]
#[tokio::test]
async fn a_missing_member_list_is_not_an_empty_one(
    #[case] group: Value,
    #[case] members: Option<usize>,
) {
    let stub = Stub::start(move |_| Answer::Json(json!({"errcode": 0, "group_chat": group}))).await;
    let group = client(&stub)
        .get_group_chat("wr_1", MemberNames::Hidden)
        .await
        .unwrap();
    assert_eq!(group.member_list.map(|list| list.len()), members);
    assert_eq!(group.member_version, None);
}

fn way() -> JoinWay {
    JoinWay {
        remark: Some("spring".to_owned()),
        auto_create_room: true,
        room_base_name: Some("VIP".to_owned()),
        room_base_id: Some(1),
        state: Some("ch_001".to_owned()),
        ..JoinWay::into_groups(["wr_1"])
    }
}

/// An update has all of it: what it leaves out is gone at WeCom.
#[tokio::test]
async fn join_ways_are_made_read_replaced_and_deleted() {
    let stub = Stub::start(|call| match call.api.as_str() {
        "externalcontact/groupchat/add_join_way" => {
            Answer::Json(json!({"errcode": 0, "errmsg": "ok", "config_id": "jw_1"}))
        }
        "externalcontact/groupchat/get_join_way" => {
            Answer::Json(json!({"errcode": 0, "join_way": {"config_id": "jw_1", "scene": 2, "remark": "spring",
                "auto_create_room": 1, "room_base_name": "VIP", "room_base_id": 1, "chat_id_list": ["wr_1", "wr_9"],
                "qr_code": "https://img.example/qr", "state": "ch_001", "mark_source": true}}))
        }
        _ => Answer::ok(),
    })
    .await;
    let client = client(&stub);
    assert_eq!(client.add_join_way(&way()).await.unwrap().config_id, "jw_1");
    assert_eq!(
        sent(&stub, "externalcontact/groupchat/add_join_way"),
        [
            r#"{"scene":2,"remark":"spring","auto_create_room":1,"room_base_name":"VIP","room_base_id":1,"chat_id_list":["wr_1"],"state":"ch_001"}"#
        ]
    );
    let read = client.get_join_way("jw_1").await.unwrap();
    assert_eq!(read.qr_code.as_deref(), Some("https://img.example/qr"));
    let changed = JoinWay {
        auto_create_room: false,
        ..read.configuration().unwrap()
    };
    client.update_join_way("jw_1", &changed).await.unwrap();
    assert_eq!(
        sent(&stub, "externalcontact/groupchat/update_join_way"),
        [
            r#"{"config_id":"jw_1","scene":2,"remark":"spring","auto_create_room":0,"room_base_name":"VIP","room_base_id":1,"chat_id_list":["wr_1","wr_9"],"state":"ch_001","mark_source":true}"#
        ]
    );
    client.del_join_way("jw_1").await.unwrap();
    assert_eq!(
        sent(&stub, "externalcontact/groupchat/del_join_way"),
        [r#"{"config_id":"jw_1"}"#]
    );
}

/// Nothing is replaced by a guess.
#[tokio::test]
async fn a_way_that_was_read_in_part_is_no_configuration() {
    for way in [
        json!({"config_id": "jw_1", "scene": 2}),
        json!({"config_id": "jw_1", "chat_id_list": ["wr_1"]}),
        json!({"config_id": "jw_1", "scene": 3, "chat_id_list": ["wr_1"]}),
    ] {
        let stub =
            Stub::start(move |_| Answer::Json(json!({"errcode": 0, "join_way": way.clone()})))
                .await;
        let read = client(&stub).get_join_way("jw_1").await.unwrap();
        assert_eq!(read.configuration(), None);
    }
}

#[test]
fn limits_of_join_ways() {
    let chinese = |count: usize| Some("群".repeat(count));
    let good = JoinWay {
        remark: chinese(30),
        room_base_name: chinese(40),
        state: chinese(30),
        ..JoinWay::into_groups(ids(5))
    };
    good.check().unwrap();
    let long = |limit| FieldProblem::TooLong {
        limit,
        given: limit + 1,
        unit: Unit::Characters,
    };
    for (way, field, problem) in [
        (
            JoinWay::into_groups(ids(6)),
            "chat_id_list",
            FieldProblem::TooMany { limit: 5, given: 6 },
        ),
        (JoinWay::default(), "chat_id_list", FieldProblem::Missing),
        (
            JoinWay {
                remark: chinese(31),
                ..good.clone()
            },
            "remark",
            long(30),
        ),
        (
            JoinWay {
                room_base_name: chinese(41),
                ..good.clone()
            },
            "room_base_name",
            long(40),
        ),
        (
            JoinWay {
                state: chinese(31),
                ..good.clone()
            },
            "state",
            long(30),
        ),
    ] {
        match way.check().unwrap_err() {
            Error::Invalid {
                field: found,
                problem: why,
                ..
            } => assert_eq!((found, why), (field, problem)),
            other => panic!("{other}"),
        }
    }
}

fn transfer() -> TransferGroupChat {
    TransferGroupChat {
        chat_id_list: vec!["wr_1".to_owned(), "wr_2".to_owned()],
        new_owner: "emp_b".to_owned(),
    }
}

/// Only failures are listed; the two calls differ in their path.
#[tokio::test]
async fn transfers_list_their_failures() {
    let stub = Stub::start(|call| match call.api.as_str() {
        "externalcontact/groupchat/onjob_transfer" => {
            Answer::Json(json!({"errcode": 0, "errmsg": "ok",
            "failed_chat_list": [
                {"chat_id": "wr_2", "errcode": 90501, "errmsg": "chat is not external group chat"},
                {"chat_id": "wr_3", "errcode": 90507}, {"chat_id": "wr_4"}]}))
        }
        _ => Answer::ok(),
    })
    .await;
    let client = client(&stub);
    let done = client.onjob_transfer_group_chat(&transfer()).await.unwrap();
    let class = |id: &str| {
        done.refusal(id)
            .map(|refusal| (refusal.class, refusal.scope))
    };
    assert_eq!(class("wr_1"), None);
    assert_eq!(class("wr_2"), Some((Class::PermanentConfig, Scope::Group)));
    assert_eq!(class("wr_3"), Some((Class::AlreadyDone, Scope::Group)));
    assert_eq!(
        class("wr_4"),
        Some((Class::Unknown, Scope::Unknown)),
        "listed is refused, with or without a reason"
    );
    let done = client.transfer_group_chat(&transfer()).await.unwrap();
    assert!(done.failed_chat_list.is_empty());
    let body = r#"{"chat_id_list":["wr_1","wr_2"],"new_owner":"emp_b"}"#;
    for api in ["onjob_transfer", "transfer"] {
        assert_eq!(
            sent(&stub, &format!("externalcontact/groupchat/{api}")),
            [body]
        );
    }
    for chats in [Vec::new(), ids(101), vec![String::new()]] {
        let request = TransferGroupChat {
            chat_id_list: chats,
            ..transfer()
        };
        request.check().unwrap_err();
        client.transfer_group_chat(&request).await.unwrap_err();
    }
    let nobody = TransferGroupChat {
        new_owner: String::new(),
        ..transfer()
    };
    nobody.check().unwrap_err();
    assert_eq!(stub.count("externalcontact/groupchat/transfer"), 1);
}
