//! Customer service, conversations, suites and messages.

use rstest::rstest;

use super::*;
use crate::Redacted;

#[test]
fn kf() {
    let wake = "<Token>ENC1</Token><OpenKfId>wk1</OpenKfId>";
    let expected = Kf::Wake {
        open_kf_id: "wk1".to_owned(),
        token: Some(Redacted::new("ENC1")),
    };
    assert_eq!(body("kf_msg_or_event", wake), Body::Kf(expected));
    assert_eq!(
        repeats("kf_msg_or_event", wake),
        Some(("kf", "wk1".to_owned()))
    );
    assert_eq!(repeats("kf_msg_or_event", ""), None);

    let accounts = "<AuthAddOpenKfId>wk1</AuthAddOpenKfId><AuthDelOpenKfId>wk3</AuthDelOpenKfId><AuthAddOpenKfId>wk2</AuthAddOpenKfId>";
    let expected = Kf::AccountAuthChange {
        added: vec!["wk1".to_owned(), "wk2".to_owned()],
        removed: vec!["wk3".to_owned()],
    };
    assert_eq!(body("kf_account_auth_change", accounts), Body::Kf(expected));
    assert_eq!(repeats("kf_account_auth_change", accounts), None);
}

#[test]
fn conversations() {
    assert_eq!(body("msgaudit_notify", ""), Body::MsgAudit);
    assert_eq!(
        repeats("msgaudit_notify", ""),
        Some(("msgaudit", CORP.to_owned()))
    );
    for (name, kind) in [
        ("conversation_new_message", ConversationKind::NewMessage),
        ("hit_keyword", ConversationKind::HitKeyword),
    ] {
        let expected = Conversation {
            kind,
            token: Some(Redacted::new("t")),
        };
        assert_eq!(body(name, "<Token>t</Token>"), Body::Conversation(expected));
    }
}

#[rstest]
#[case("suite_ticket", SuiteAuthKind::SuiteTicket)]
#[case("create_auth", SuiteAuthKind::CreateAuth)]
#[case("change_auth", SuiteAuthKind::ChangeAuth)]
#[case("cancel_auth", SuiteAuthKind::CancelAuth)]
#[case("reset_permanent_code", SuiteAuthKind::ResetPermanentCode)]
fn suite_auth(#[case] name: &str, #[case] kind: SuiteAuthKind) {
    let event = Event::parse(&format!(
        "<xml><SuiteId>wwsuite</SuiteId><InfoType>{name}</InfoType><TimeStamp>1</TimeStamp>\
         <SuiteTicket>t</SuiteTicket><AuthCode>c</AuthCode><State>s</State></xml>"
    ))
    .unwrap();
    let expected = SuiteAuth {
        kind,
        suite_ticket: Some(Redacted::new("t")),
        auth_code: Some(Redacted::new("c")),
        state: Some("s".to_owned()),
    };
    assert_eq!(event.body, Body::SuiteAuth(expected));
    assert_eq!(
        (event.corp.as_str(), event.is_suite(), event.repeatable()),
        ("", true, None)
    );
}

/// Case 17: a message has no `Event`. Its text is not trimmed, its id may exceed 2^53.
#[test]
fn messages() {
    let event = Event::parse(
        "<xml><ToUserName>ww1</ToUserName><FromUserName>mA</FromUserName><CreateTime>1</CreateTime><MsgType> text </MsgType>\
         <Content><![CDATA[ 在吗\n]]></Content><MsgId>9223372036854775807</MsgId><AgentID>2</AgentID></xml>",
    )
    .unwrap();
    let Body::Message(message) = &event.body else {
        panic!()
    };
    assert_eq!(
        (event.name.as_str(), event.is_suite(), event.repeatable()),
        ("text", false, None)
    );
    assert_eq!(
        message.content.as_ref().map(Redacted::expose),
        Some(" 在吗\n")
    );
    assert_eq!(message.msg_id.as_deref(), Some("9223372036854775807"));
    assert_eq!(message.leaves.len(), 7);
}
