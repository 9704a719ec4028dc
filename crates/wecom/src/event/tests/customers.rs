//! Contacts, chats, tags and acquisition links.

use rstest::rstest;

use super::*;
use crate::Redacted;

#[rstest]
#[case("add_external_contact", ExternalContactChange::Add, true)]
#[case("add_half_external_contact", ExternalContactChange::AddHalf, true)]
#[case("edit_external_contact", ExternalContactChange::Edit, true)]
#[case("del_external_contact", ExternalContactChange::Del, true)]
#[case("del_follow_user", ExternalContactChange::DelFollowUser, true)]
#[case("transfer_fail", ExternalContactChange::TransferFail, false)]
#[case("msg_audit_approved", ExternalContactChange::MsgAuditApproved, false)]
#[case("new_thing", ExternalContactChange::Other("new_thing".to_owned()), true)]
fn external_contact(
    #[case] change_type: &str,
    #[case] change: ExternalContactChange,
    #[case] repeatable: bool,
) {
    let inside = format!(
        "<ChangeType>{change_type}</ChangeType>{PAIR}<State>ch_1</State><WelcomeCode>W</WelcomeCode>\
         <Source>DELETE_BY_TRANSFER</Source><FailReason>customer_refused</FailReason><LinkId></LinkId>"
    );
    let expected = ExternalContact {
        change,
        user_id: "staff-07".to_owned(),
        external_user_id: "wm1".to_owned(),
        state: Some("ch_1".to_owned()),
        welcome_code: Some(WelcomeCode::new("W")),
        source: Some("DELETE_BY_TRANSFER".to_owned()),
        fail_reason: Some("customer_refused".to_owned()),
        link_id: None,
    };
    assert_eq!(
        body("change_external_contact", &inside),
        Body::ExternalContact(expected)
    );
    let mark = repeatable.then(|| ("pair", "staff-07\u{1f}wm1".to_owned()));
    assert_eq!(repeats("change_external_contact", &inside), mark);
}

/// Cases 11 and 37: absent and empty mean the same; half a pair marks nothing.
#[test]
fn external_contact_with_little_in_it() {
    for nothing in [
        "",
        "<State></State><WelcomeCode><![CDATA[]]></WelcomeCode><Source/><FailReason> </FailReason>",
    ] {
        let inside = format!("<ChangeType>add_external_contact</ChangeType>{nothing}{PAIR}");
        let Body::ExternalContact(contact) = body("change_external_contact", &inside) else {
            panic!()
        };
        assert_eq!(
            (contact.state, contact.welcome_code, contact.source),
            (None, None, None)
        );
    }
    let half = "<ChangeType>add_external_contact</ChangeType><ExternalUserID>wm1</ExternalUserID>";
    assert_eq!(repeats("change_external_contact", half), None);
}

#[test]
fn external_chat() {
    let with = |change: &str| format!("<ChatId>wr1</ChatId><ChangeType>{change}</ChangeType>");
    let chat = |change| {
        Body::ExternalChat(ExternalChat {
            chat_id: "wr1".to_owned(),
            change,
        })
    };
    assert_eq!(
        body("change_external_chat", &with("create")),
        chat(ChatChange::Create)
    );
    assert_eq!(
        body("change_external_chat", &with("dismiss")),
        chat(ChatChange::Dismiss)
    );
    assert_eq!(
        body("change_external_chat", &with("x")),
        chat(ChatChange::Other("x".to_owned()))
    );
    assert_eq!(repeats("change_external_chat", &with("create")), None);
    assert_eq!(
        repeats("change_external_chat", &with("update")),
        Some(("chat", "wr1".to_owned()))
    );

    let update = format!(
        "{}<UpdateDetail>del_member</UpdateDetail><QuitScene>1</QuitScene><MemChangeCnt>2</MemChangeCnt>\
         <MemChangeList><Item><![CDATA[staff-08]]></Item>\n<Item>wm9</Item></MemChangeList>\
         <LastMemVer>a</LastMemVer><CurMemVer><![CDATA[b]]></CurMemVer>",
        with("update")
    );
    let expected = ChatUpdate {
        detail: Some(UpdateDetail::DelMember),
        join_scene: None,
        quit_scene: Some(1),
        member_change_count: Some(2),
        members: vec!["staff-08".to_owned(), "wm9".to_owned()],
        last_member_version: Some("a".to_owned()),
        current_member_version: Some("b".to_owned()),
    };
    assert_eq!(
        body("change_external_chat", &update),
        chat(ChatChange::Update(expected))
    );
}

/// The official way to keep a member list: apply what follows the stored version, else read the group.
#[rstest]
#[case::next("add_member", "<Item>wm1</Item><Item>wm2</Item>", "2", "b", Some(true))]
#[case::left("del_member", "<Item>wm1</Item>", "1", "b", Some(false))]
#[case::no_count("add_member", "<Item>wm1</Item>", "", "b", Some(true))]
#[case::empty_items(
    "add_member",
    "<Item></Item><Item><![CDATA[wm1]]></Item>",
    "1",
    "b",
    Some(true)
)]
#[case::without_list("add_member", "", "1", "b", None)]
#[case::list_cut_short("add_member", "<Item>wm1</Item>", "2", "b", None)]
#[case::negative_count("add_member", "<Item>wm1</Item>", "-1", "b", None)]
#[case::no_version_after("add_member", "<Item>wm1</Item>", "1", "", None)]
#[case::not_members("change_name", "<Item>wm1</Item>", "1", "b", None)]
#[case::nothing_said("", "<Item>wm1</Item>", "1", "b", None)]
fn a_change_of_members_applies_to_the_version_before_it(
    #[case] detail: &str,
    #[case] items: &str,
    #[case] count: &str,
    #[case] after: &str,
    #[case] joined: Option<bool>,
) {
    let inside = format!(
        "<ChatId>wr1</ChatId><ChangeType>update</ChangeType><UpdateDetail>{detail}</UpdateDetail><JoinScene>9</JoinScene>\
         <MemChangeCnt>{count}</MemChangeCnt><MemChangeList>{items}</MemChangeList>\
         <LastMemVer>a</LastMemVer><CurMemVer>{after}</CurMemVer>"
    );
    let Body::ExternalChat(chat) = body("change_external_chat", &inside) else {
        panic!()
    };
    let ChatChange::Update(update) = chat.change else {
        panic!()
    };
    assert_eq!(update.join_scene, Some(9), "an open number");
    let diff = update.diff_after("a");
    assert_eq!(diff.map(|diff| diff.joined), joined);
    if let Some(diff) = diff {
        assert_eq!(diff.version, "b");
        assert!(diff.members.iter().all(|id| id.starts_with("wm")));
    }
    assert_eq!(update.diff_after("z"), None, "another version");
    assert_eq!(update.diff_after(""), None);
}

#[rstest]
#[case("add_member", Some(UpdateDetail::AddMember))]
#[case("change_owner", Some(UpdateDetail::ChangeOwner))]
#[case("change_name", Some(UpdateDetail::ChangeName))]
#[case("change_notice", Some(UpdateDetail::ChangeNotice))]
#[case("new_thing", Some(UpdateDetail::Other("new_thing".to_owned())))]
#[case("", None)]
fn chat_update_detail(#[case] text: &str, #[case] detail: Option<UpdateDetail>) {
    let inside = format!(
        "<ChangeType>update</ChangeType><UpdateDetail>{text}</UpdateDetail><MemChangeList/>"
    );
    let Body::ExternalChat(chat) = body("change_external_chat", &inside) else {
        panic!()
    };
    let ChatChange::Update(update) = chat.change else {
        panic!()
    };
    assert_eq!((update.detail, update.members), (detail, vec![]));
}

#[rstest]
#[case("create", ExternalTagChange::Create, false)]
#[case("update", ExternalTagChange::Update, true)]
#[case("delete", ExternalTagChange::Delete, false)]
#[case("shuffle", ExternalTagChange::Shuffle, true)]
#[case("new_thing", ExternalTagChange::Other("new_thing".to_owned()), true)]
fn external_tag(
    #[case] change_type: &str,
    #[case] change: ExternalTagChange,
    #[case] repeatable: bool,
) {
    // A shuffle has no TagType.
    let inside =
        format!("<Id>et1</Id><ChangeType>{change_type}</ChangeType><StrategyId>1</StrategyId>");
    let tag = ExternalTag {
        change,
        id: "et1".to_owned(),
        tag_type: None,
        strategy_id: Some("1".to_owned()),
    };
    assert_eq!(
        body("change_external_tag", &inside),
        Body::ExternalTag(tag.clone())
    );
    assert_eq!(
        repeats("change_external_tag", &inside),
        repeatable.then(|| ("tag", "et1".to_owned()))
    );
    for (text, tag_type) in [
        ("tag", TagType::Tag),
        ("tag_group", TagType::TagGroup),
        ("x", TagType::Other("x".to_owned())),
    ] {
        let inside = format!("{inside}<TagType>{text}</TagType>");
        let tag = ExternalTag {
            tag_type: Some(tag_type),
            ..tag.clone()
        };
        assert_eq!(body("change_external_tag", &inside), Body::ExternalTag(tag));
    }
}

#[rstest]
#[case("balance_low", CustomerAcquisitionChange::BalanceLow)]
#[case("balance_exhausted", CustomerAcquisitionChange::BalanceExhausted)]
#[case("balance_increased", CustomerAcquisitionChange::BalanceIncreased)]
#[case("quota_expire_soon", CustomerAcquisitionChange::QuotaExpireSoon)]
#[case("link_unavailable", CustomerAcquisitionChange::LinkUnavailable)]
#[case("delete_link", CustomerAcquisitionChange::DeleteLink)]
#[case("open_profile", CustomerAcquisitionChange::OpenProfile)]
#[case("friend_request", CustomerAcquisitionChange::FriendRequest)]
#[case("customer_start_chat", CustomerAcquisitionChange::CustomerStartChat)]
#[case(
    "message_from_customer",
    CustomerAcquisitionChange::MessageFromCustomer
)]
#[case("del_follow_user", CustomerAcquisitionChange::DelFollowUser)]
#[case("service_balance_low", CustomerAcquisitionChange::ServiceBalanceLow)]
#[case(
    "service_balance_exhausted",
    CustomerAcquisitionChange::ServiceBalanceExhausted
)]
#[case(
    "service_balance_consumed",
    CustomerAcquisitionChange::ServiceBalanceConsumed
)]
#[case("change_price", CustomerAcquisitionChange::ChangePrice)]
#[case("new_thing", CustomerAcquisitionChange::Other("new_thing".to_owned()))]
fn customer_acquisition(#[case] change_type: &str, #[case] change: CustomerAcquisitionChange) {
    let inside = format!(
        "<ChangeType>{change_type}</ChangeType>{PAIR}<LinkId>cawc1</LinkId><State>s</State><ChatKey>k</ChatKey>\
         <ChatSeq>3</ChatSeq><ExpireTime>1760000001</ExpireTime><ExpireQuotaNum>7</ExpireQuotaNum>\
         <OnceKey>o</OnceKey><Price>990</Price><EffectiveTime>1760000002</EffectiveTime>"
    );
    let expected = CustomerAcquisition {
        change,
        link_id: Some("cawc1".to_owned()),
        user_id: Some("staff-07".to_owned()),
        external_user_id: Some("wm1".to_owned()),
        state: Some("s".to_owned()),
        chat_key: Some(Redacted::new("k")),
        chat_seq: Some(3),
        expire_time: Some(1_760_000_001),
        expire_quota: Some(7),
        once_key: Some(Redacted::new("o")),
        price_fen: Some(990),
        effective_time: Some(1_760_000_002),
    };
    assert_eq!(
        body("customer_acquisition", &inside),
        Body::CustomerAcquisition(expected)
    );
    assert_eq!(repeats("customer_acquisition", &inside), None);
}

#[test]
fn customer_acquisition_permit_change_has_no_change_type() {
    let Body::CustomerAcquisition(event) = body("customer_acquisition_permit_change", "") else {
        panic!()
    };
    assert_eq!(event.change, CustomerAcquisitionChange::PermitChange);
}
