//! Envelopes and queries by example, and against noise.

use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn refused(body: &str) -> EnvelopeError {
    parse(body.as_bytes()).expect_err(body)
}

#[test]
fn nodes_may_stand_in_any_order_and_shape() {
    for body in [
        "<xml><ToUserName><![CDATA[ww1]]></ToUserName><AgentID><![CDATA[2]]></AgentID><Encrypt><![CDATA[QUJD]]></Encrypt></xml>",
        "<xml><Encrypt>QUJD</Encrypt><AgentID>2</AgentID><ToUserName>ww1</ToUserName></xml>",
        "\u{feff}<?xml version=\"1.0\"?>\r\n<xml a=\"b\">\r\n<ToUserName>\n<![CDATA[ww1]]>\n</ToUserName>\
         <Foo><Encrypt>no</Encrypt><ToUserName>no</ToUserName></Foo><AgentID> 2</AgentID>\
         <Encrypt k='v'><x>no</x> QU<![CDATA[JD]]>\r\n</Encrypt></xml>\n<!-- end -->",
    ] {
        let envelope = parse(body.as_bytes()).expect(body);
        assert_eq!(envelope.to_user_name, "ww1");
        assert_eq!(envelope.agent_id.as_deref(), Some("2"));
        assert_eq!(envelope.encrypt, "QUJD");
    }
}

#[test]
fn absent_and_empty_agent_ids_are_the_same() {
    for agent_id in [
        "",
        "<AgentID/>",
        "<AgentID></AgentID>",
        "<AgentID><![CDATA[]]></AgentID>",
    ] {
        let body = format!("<xml>{agent_id}<Encrypt>x</Encrypt></xml>");
        assert_eq!(
            parse(body.as_bytes()).map(|envelope| envelope.agent_id),
            Ok(None)
        );
    }
}

#[test]
fn the_usual_envelope_is_borrowed() {
    let body = callback_body("ww1", Some("2"), "QUJD");
    let envelope = parse(body.as_bytes()).expect("own body");
    assert!(matches!(envelope.encrypt, Cow::Borrowed(_)));
    assert!(matches!(envelope.to_user_name, Cow::Borrowed(_)));
}

#[test]
fn only_one_direct_child_counts() {
    assert_eq!(
        refused("<xml><Encrypt>a</Encrypt><Encrypt>a</Encrypt></xml>"),
        EnvelopeError::TwoEncrypt
    );
    assert_eq!(
        refused("<xml><Encrypt/><Encrypt>a</Encrypt></xml>"),
        EnvelopeError::TwoEncrypt
    );
    assert_eq!(
        refused("<xml><a><Encrypt>a</Encrypt></a></xml>"),
        EnvelopeError::NoEncrypt
    );
    assert_eq!(
        refused("<xml><Encrypt> </Encrypt></xml>"),
        EnvelopeError::NoEncrypt
    );
    assert_eq!(
        refused("<xml><encrypt>a</encrypt></xml>"),
        EnvelopeError::NoEncrypt
    );
    assert_eq!(refused("<Encrypt>a</Encrypt>"), EnvelopeError::Root);
    assert_eq!(
        refused("<html><Encrypt>a</Encrypt></html>"),
        EnvelopeError::Root
    );
}

#[test]
fn documents_that_are_not_ours_are_refused() {
    assert_eq!(
        parse(b"<xml><Encrypt>\xff</Encrypt></xml>"),
        Err(EnvelopeError::Utf8)
    );
    let entity = "<!DOCTYPE xml [<!ENTITY x SYSTEM \"file:///etc/hostname\">]><xml><Encrypt>&x;</Encrypt></xml>";
    assert_eq!(refused(entity), EnvelopeError::Xml(XmlError::Doctype));
    let bomb = format!("<xml>{}<Encrypt>a</Encrypt>", "<a>".repeat(100));
    assert_eq!(refused(&bomb), EnvelopeError::Xml(XmlError::Depth));
    let flood = format!(
        "<xml><Encrypt>{}</Encrypt></xml>",
        "A".repeat(crate::MAX_BYTES)
    );
    assert_eq!(refused(&flood), EnvelopeError::Xml(XmlError::Size));
    for body in [
        "",
        "{\"encrypt\":\"a\"}",
        "xml=<xml><Encrypt>a</Encrypt></xml>",
        "<xml><Encrypt>a</Encrypt>",
    ] {
        assert!(
            matches!(
                refused(body),
                EnvelopeError::Xml(XmlError::Malformed { .. })
            ),
            "{body}"
        );
    }
}

#[test]
fn json_envelopes() {
    let robot = parse_json(br#"{"encrypt":"QU\/JD"}"#).expect("robot");
    assert_eq!(
        (
            robot.to_user_name.as_ref(),
            robot.agent_id.as_deref(),
            robot.encrypt.as_ref()
        ),
        ("", None, "QU/JD")
    );
    let app =
        parse_json(br#"{"tousername":"ww1","Encrypt":"QUJD","agentid":"2","x":1}"#).expect("app");
    assert_eq!(
        (app.to_user_name.as_ref(), app.agent_id.as_deref()),
        ("ww1", Some("2"))
    );
    assert_eq!(parse_json(b"{}"), Err(EnvelopeError::NoEncrypt));
    for body in [
        "",
        "[]",
        "<xml/>",
        r#"{"encrypt":1}"#,
        r#"{"encrypt":"a","encrypt":"b"}"#,
    ] {
        assert_eq!(
            parse_json(body.as_bytes()),
            Err(EnvelopeError::Json),
            "{body}"
        );
    }
}

#[test]
fn bodies_we_write_can_be_read() {
    let sealed = Sealed {
        encrypt: "QUJD".to_owned(),
        msg_signature: "0a".to_owned(),
        timestamp: "1".to_owned(),
        nonce: "]]>".to_owned(),
    };
    assert_eq!(
        reply_body(&sealed),
        "<xml><Encrypt><![CDATA[QUJD]]></Encrypt><MsgSignature><![CDATA[0a]]></MsgSignature>\
         <TimeStamp><![CDATA[1]]></TimeStamp><Nonce><![CDATA[]]]]><![CDATA[>]]></Nonce></xml>"
    );
    let body = callback_body("<&]]>", Some(""), "QUJD");
    let envelope = parse(body.as_bytes()).expect("own body");
    assert_eq!(
        (envelope.to_user_name.as_ref(), envelope.agent_id),
        ("<&]]>", None)
    );
}

#[rstest]
#[case("", QueryError::Missing("msg_signature"))]
#[case(
    "timestamp=1&nonce=2&signature=3",
    QueryError::Missing("msg_signature")
)]
#[case(
    "msg_signature=&timestamp=1&nonce=2",
    QueryError::Missing("msg_signature")
)]
#[case(
    "msg_signature&timestamp=1&nonce=2",
    QueryError::Missing("msg_signature")
)]
#[case("msg_signature=a&nonce=2", QueryError::Missing("timestamp"))]
#[case("msg_signature=a&timestamp=1", QueryError::Missing("nonce"))]
#[case("msg_signature=a&timestamp=1&nonce=2", QueryError::Missing("echostr"))]
#[case(
    "msg_signature=a&timestamp=1&nonce=2&nonce=2&echostr=x",
    QueryError::Repeated("nonce")
)]
fn queries_that_lack_something(#[case] raw: &str, #[case] error: QueryError) {
    assert_eq!(Query::parse_verification(raw), Err(error));
}

/// Case 26: decoded exactly once.
#[rstest]
#[case("a%2Bb%2fc%3D%3D", "a+b/c==")]
#[case("a+b", "a b")]
#[case("a==", "a==")]
#[case("%252B", "%2B")]
#[case("%", "%")]
#[case("%2", "%2")]
#[case("%zz%+1", "%zz% 1")]
#[case("%E4%BD%A0%FF", "你\u{fffd}")]
#[case("你", "你")]
fn values_are_decoded_once(#[case] raw: &str, #[case] value: &str) {
    let raw = format!("other=1&echostr={raw}&&nonce=2&timestamp=1&msg_signature=a");
    let query = Query::parse_verification(&raw).expect("complete");
    assert_eq!(query.echostr.as_deref(), Some(value));
}

proptest! {
    #[test]
    fn no_body_and_no_query_makes_it_panic(body: Vec<u8>, text: String) {
        prop_assert!(parse(&body).is_err());
        prop_assert!(parse_json(&body).is_err());
        let _nothing_to_say = (Query::parse(&text), parse_json(text.as_bytes()));
        let wrapped = format!("<xml><Encrypt>{text}</Encrypt></xml>");
        if let Ok(envelope) = parse(wrapped.as_bytes()) {
            prop_assert!(!envelope.encrypt.is_empty());
        }
    }

    #[test]
    fn what_a_form_encodes_is_decoded(nonce in ".{1,20}") {
        let raw = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs([("msg_signature", "a"), ("timestamp", "1"), ("nonce", nonce.as_str())])
            .finish();
        prop_assert_eq!(Query::parse(&raw).map(|query| query.nonce.into_owned()), Ok(nonce));
    }
}
