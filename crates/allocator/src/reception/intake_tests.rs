use std::collections::HashMap;

use allocation::{ChannelId, CorpId, PoolId};
use uuid::Uuid;

use super::super::routes::{Channel, Routes};
use super::{Arrival, Pair, Places, Step, step};

fn routes(default: Option<&str>) -> Routes {
    let channel = ChannelId::new("spring").unwrap();
    let pool = PoolId::new("pool_a").unwrap();
    Routes {
        channels: HashMap::from([(
            channel.clone(),
            Channel {
                pool,
                welcome: None,
                card: true,
                needs: Vec::new(),
                is_limited: false,
                visits: None,
            },
        )]),
        by_state: HashMap::from([("ch_001".to_owned(), channel)]),
        default_pool: default.map(|pool| PoolId::new(pool).unwrap()),
        pools: HashMap::new(),
        ..Routes::default()
    }
}

fn contact(change: &str, fields: &str) -> String {
    format!(
        "<xml><ToUserName>ww1</ToUserName><FromUserName>sys</FromUserName><CreateTime>1792000000</CreateTime>\
         <MsgType>event</MsgType><Event>change_external_contact</Event><ChangeType>{change}</ChangeType>\
         <UserID>ZhangSan</UserID><ExternalUserID>wmC001</ExternalUserID>{fields}</xml>"
    )
}

fn read(plaintext: &str, routes: &Routes) -> Step {
    let corp = CorpId::new("ww1").unwrap();
    let arrival = Arrival {
        corp: &corp,
        delivery: "d1",
        received_ms: 7,
        plaintext,
    };
    let owners = HashMap::from([
        ("pv.slot1".to_owned(), ChannelId::new("spring").unwrap()),
        ("pw.plain1".to_owned(), ChannelId::new("spring").unwrap()),
    ]);
    let places = Places {
        routes,
        owners: &owners,
    };
    step(&arrival, &places, Uuid::from_u128(1))
}

fn pair() -> Pair {
    Pair {
        userid: "ZhangSan".to_owned(),
        external_userid: "wmC001".to_owned(),
    }
}

#[test]
fn an_add_asks_for_the_pool_of_its_channel() {
    let event = contact(
        "add_external_contact",
        "<State>ch_001</State><WelcomeCode>WC</WelcomeCode>",
    );
    let Step::Decide { request, context } = read(&event, &routes(None)) else {
        panic!("no decision")
    };
    assert_eq!(request.pool.as_str(), "pool_a");
    assert!(request.echo, "an add may be the end of our own transfer");
    assert_eq!(context.channel.as_deref(), Some("spring"));
    assert_eq!(context.welcome_code.as_deref(), Some("WC"));
    assert_eq!(context.received_ms, 7);
}

/// Case 129.
#[test]
fn the_member_is_one_whatever_the_case_and_keeps_his_spelling() {
    let event = contact("add_external_contact", "<State>ch_001</State>");
    let Step::Decide { request, context } = read(&event, &routes(None)) else {
        panic!("no decision")
    };
    assert_eq!(request.holder.unwrap().as_str(), "zhangsan");
    assert_eq!(context.holder.as_deref(), Some("ZhangSan"));
}

/// Case 20.
#[test]
fn an_unknown_state_goes_to_the_default_pool_and_is_kept() {
    let event = contact(
        "add_external_contact",
        "<State>last_trade_no_400807</State>",
    );
    let Step::Decide { request, context } = read(&event, &routes(Some("rest"))) else {
        panic!("no decision")
    };
    assert_eq!(request.pool.as_str(), "rest");
    assert_eq!(
        context.unknown_state.as_deref(),
        Some("last_trade_no_400807")
    );
    let Step::Nowhere(whose) = read(&event, &routes(None)) else {
        panic!("a channel may be on its way")
    };
    assert_eq!(whose, pair());
    let stateless = contact("add_external_contact", "");
    assert!(matches!(
        read(&stateless, &routes(None)),
        Step::Ignore("no_pool")
    ));
}

/// Case 11.
#[test]
fn an_empty_state_and_none_are_the_same() {
    for fields in ["", "<State></State>", "<State><![CDATA[]]></State>"] {
        let event = contact("add_half_external_contact", fields);
        let Step::Decide { request, context } = read(&event, &routes(Some("rest"))) else {
            panic!("no decision")
        };
        assert_eq!(request.pool.as_str(), "rest");
        assert_eq!(context.unknown_state, None);
        assert_eq!(context.welcome_code, None);
    }
}

#[test]
fn both_deletions_close_what_that_member_has() {
    for (change, reason) in [
        ("del_external_contact", "member_deleted_customer"),
        ("del_follow_user", "customer_left"),
    ] {
        let Step::Close { closing, pair: of } = read(&contact(change, ""), &routes(None)) else {
            panic!("no closing")
        };
        assert_eq!(closing.member.unwrap().as_str(), "zhangsan");
        assert_eq!(closing.reason.as_str(), reason);
        assert_eq!(of, pair());
    }
}

/// Case 88: the giver's deletion is part of a transfer, not churn.
#[test]
fn a_deletion_by_transfer_closes_nothing() {
    let event = contact(
        "del_external_contact",
        "<Source>DELETE_BY_TRANSFER</Source>",
    );
    assert!(matches!(
        read(&event, &routes(None)),
        Step::Advance { taker: None, .. }
    ));
}

/// Case 86: the failure names the taker only.
#[test]
fn a_failed_transfer_asks_for_its_result() {
    let event = contact("transfer_fail", "<FailReason>customer_refused</FailReason>");
    let Step::Advance {
        taker,
        external_userid,
        ..
    } = read(&event, &routes(None))
    else {
        panic!("no step")
    };
    assert_eq!(taker.as_deref(), Some("ZhangSan"));
    assert_eq!(external_userid, "wmC001");
}

/// Case 37.
#[test]
fn an_edit_is_read_again() {
    let Step::Reread(of) = read(&contact("edit_external_contact", ""), &routes(None)) else {
        panic!("no reread")
    };
    assert_eq!(of, pair());
}

/// Cases 16 and 17, and every family that is not about who gets a customer.
#[test]
fn everything_else_is_ignored_with_a_reason() {
    let kf = "<xml><ToUserName>ww1</ToUserName><MsgType>event</MsgType><Event>kf_msg_or_event</Event><OpenKfId>wk1</OpenKfId></xml>";
    let text = "<xml><ToUserName>ww1</ToUserName><FromUserName>mA</FromUserName><MsgType>text</MsgType><Content>hi</Content></xml>";
    let new =
        "<xml><ToUserName>ww1</ToUserName><MsgType>event</MsgType><Event>brand_new</Event></xml>";
    for (plaintext, reason) in [
        (kf, "not_for_allocation"),
        (text, "message"),
        (new, "unknown_event"),
        ("not xml", "unreadable"),
        ("", "unreadable"),
    ] {
        match read(plaintext, &routes(Some("rest"))) {
            Step::Ignore(got) => assert_eq!(got, reason),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_member_who_leaves_the_range_is_checked() {
    let event = "<xml><ToUserName>ww1</ToUserName><FromUserName>LiSi</FromUserName><CreateTime>1</CreateTime>\
                 <MsgType>event</MsgType><Event>unsubscribe</Event></xml>";
    assert!(matches!(read(event, &routes(None)), Step::CheckMember(who) if who == "LiSi"));
}

/// A slot says whose visit it was; a plain way leaves the oldest to be guessed; a way that nobody knows (yet) is read
/// again, and never goes to the default pool.
#[test]
fn contact_ways_of_ours_confirm_visits() {
    for (state, slot, channel) in [
        ("pv.slot1", Some("pv.slot1"), None),
        ("pw.plain1", None, Some("spring")),
    ] {
        let event = contact(
            "add_external_contact",
            &format!("<State>{state}</State><WelcomeCode>code</WelcomeCode>"),
        );
        let Step::Confirm {
            confirmation,
            context,
        } = read(&event, &routes(Some("rest")))
        else {
            panic!("{state} confirms a visit");
        };
        assert_eq!(confirmation.slot.map(String::from).as_deref(), slot);
        assert_eq!(confirmation.channel.map(String::from).as_deref(), channel);
        assert_eq!(confirmation.pool.as_str(), "pool_a");
        assert_eq!(confirmation.member.as_str(), "zhangsan");
        assert_eq!(context.channel.as_deref(), Some("spring"));
        assert_eq!(context.welcome_code.as_deref(), Some("code"));
    }
    let event = contact("add_external_contact", "<State>pv.unknown</State>");
    let step = read(&event, &routes(Some("rest")));
    assert!(step.is_of_unknown_state());
    assert!(matches!(step, Step::Nowhere(_)));
}
