//! Every family of events, in both envelopes, and what must hold for any text.

mod customers;
mod members;
mod others;

use proptest::prelude::*;

use super::*;

const CORP: &str = "ww9f0e1d2c3b4a5968";

/// The same event as a self-built app and as a suite get it.
fn both(name: &str, inside: &str) -> [Event; 2] {
    let own = format!(
        "<xml><ToUserName><![CDATA[{CORP}]]></ToUserName><FromUserName><![CDATA[sys]]></FromUserName>\
         <CreateTime>1760000000</CreateTime><MsgType><![CDATA[event]]></MsgType>\
         <Event><![CDATA[{name}]]></Event>{inside}</xml>"
    );
    let suite = format!(
        "<xml><SuiteId><![CDATA[wwsuite]]></SuiteId><AuthCorpId><![CDATA[{CORP}]]></AuthCorpId>\
         <InfoType><![CDATA[{name}]]></InfoType><TimeStamp>1760000000</TimeStamp>{inside}</xml>"
    );
    let [own, suite] = [own, suite].map(|xml| Event::parse(&xml).expect(&xml));
    assert_eq!((own.is_suite(), suite.is_suite()), (false, true));
    assert_eq!(
        (own.suite_id.as_deref(), suite.suite_id.as_deref()),
        (None, Some("wwsuite"))
    );
    assert_eq!(
        (own.from_user.as_deref(), suite.from_user.as_deref()),
        (Some("sys"), None)
    );
    for event in [&own, &suite] {
        assert_eq!((event.corp.as_str(), event.name.as_str()), (CORP, name));
        assert_eq!(
            (event.create_time, event.agent_id.as_deref()),
            (Some(1_760_000_000), None)
        );
    }
    if !matches!(own.body, Body::Unknown(_)) {
        assert_eq!(own.body, suite.body);
    }
    assert_eq!(own.change_type, suite.change_type);
    [own, suite]
}

fn body(name: &str, inside: &str) -> Body {
    both(name, inside)[0].body.clone()
}

/// The marks for a duplicate in both envelopes.
fn repeats(name: &str, inside: &str) -> Option<(&'static str, String)> {
    let [own, suite] = both(name, inside).map(|event| event.repeatable());
    assert_eq!(own, suite);
    own
}

const PAIR: &str =
    "<UserID><![CDATA[staff-07]]></UserID><ExternalUserID><![CDATA[wm1]]></ExternalUserID>";

#[test]
fn what_is_unknown_stays_whole() {
    let inside =
        "<Id>1</Id><List><Item>a</Item><Item><X> b </X><Y/></Item></List><Id>2</Id><Empty></Empty>";
    let Body::Unknown(leaves) = body("sys_approval_change", inside) else {
        panic!()
    };
    let from_there: Vec<_> = leaves
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    let expected = [
        ("Id", "1"),
        ("List/Item", "a"),
        ("List/Item/X", " b "),
        ("List/Item/Y", ""),
        ("Id", "2"),
        ("Empty", ""),
    ];
    assert!(from_there.ends_with(&expected), "{from_there:?}");
    assert_eq!(repeats("sys_approval_change", inside), None);
    // An event without a name is known to be an event, and no more.
    let nameless = Event::parse("<xml><MsgType>event</MsgType></xml>").unwrap();
    assert_eq!(
        (
            nameless.name.as_str(),
            matches!(nameless.body, Body::Unknown(_))
        ),
        ("event", true)
    );
}

#[test]
fn nested_and_repeated_nodes_do_not_become_fields() {
    let inside = format!(
        "<Extra><UserID>boss</UserID><ChangeType>create</ChangeType></Extra><ChangeType>edit_external_contact</ChangeType>\
         <State><![CDATA[</State><UserID>boss</UserID><State>]]></State>{PAIR}<UserID>boss</UserID>"
    );
    let Body::ExternalContact(contact) = body("change_external_contact", &inside) else {
        panic!()
    };
    assert_eq!(
        (contact.change, contact.user_id.as_str()),
        (ExternalContactChange::Edit, "staff-07")
    );
    assert_eq!(
        contact.state.as_deref(),
        Some("</State><UserID>boss</UserID><State>")
    );
}

#[test]
fn what_is_no_event_is_an_error() {
    assert_eq!(
        Event::parse("<xml><ToUserName>x</ToUserName></xml>"),
        Err(ParseError::NoType)
    );
    for text in ["", "hello", "{\"msgtype\":\"text\"}", "<xml>"] {
        assert!(
            matches!(
                Event::parse(text),
                Err(ParseError::Xml(XmlError::Malformed { .. }))
            ),
            "{text}"
        );
    }
    let entity =
        "<!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/hostname'>]><xml><MsgType>&e;</MsgType></xml>";
    assert_eq!(
        Event::parse(entity),
        Err(ParseError::Xml(XmlError::Doctype))
    );
}

#[test]
fn debug_shows_no_content() {
    let printed = format!(
        "{:?}",
        [
            body("change_external_contact", &format!("<ChangeType>add_external_contact</ChangeType>{PAIR}<WelcomeCode>hush</WelcomeCode>")),
            body("change_contact", "<ChangeType>create_user</ChangeType><Name>hush</Name><Mobile>hush</Mobile>"),
            body("customer_acquisition", "<ChatKey>hush</ChatKey><OnceKey>hush</OnceKey>"),
            body("kf_msg_or_event", "<Token>hush</Token>"),
            body("new_thing", "<Content>hush</Content>"),
            Event::parse("<xml><MsgType>text</MsgType><Content>hush</Content></xml>").unwrap().body,
            Event::parse("<xml><InfoType>suite_ticket</InfoType><SuiteTicket>hush</SuiteTicket><AuthCode>hush</AuthCode></xml>").unwrap().body,
        ]
    );
    assert!(!printed.contains("hush"), "{printed}");
    assert!(printed.contains("staff-07"), "{printed}");
}

proptest! {
    #[test]
    fn no_text_makes_it_panic_and_no_string_has_nul(
        text in "[\\PC\\x00\\x10\r\n]{0,60}", name in prop::sample::select(vec![
            "change_external_contact", "change_external_chat", "change_external_tag", "customer_acquisition", "change_contact",
            "kf_account_auth_change", "new_thing",
        ]),
    ) {
        // An error is as good as an event here.
        prop_assert!(Event::parse(&text).is_err() || text.contains("MsgType"));
        let inside = ["ChangeType", "UserID", "State", "Id", "AuthAddOpenKfId"]
            .map(|node| format!("<{node}><![CDATA[{text}]]></{node}><{node}>{text}</{node}>"))
            .concat();
        for xml in [
            format!("<xml><Event>{name}</Event><ToUserName>{text}</ToUserName>{inside}</xml>"),
            format!("<xml><InfoType>{name}</InfoType><AuthCorpId>{text}</AuthCorpId>{inside}</xml>"),
            format!("<xml><MsgType>{text}</MsgType>{inside}</xml>"),
        ] {
            if let Ok(event) = Event::parse(&xml) {
                prop_assert!(!event.corp.contains('\0') && !event.name.contains('\0'));
                prop_assert!(!event.repeatable().is_some_and(|(_, entity)| entity.contains('\0')));
                let leaves = leaves(&xml).unwrap();
                prop_assert!(!leaves.iter().any(|(name, text)| name.contains('\0') || text.contains('\0')));
            }
        }
    }
}
