//! Requests shaped like failures that others have met: the files under `cases/`.

use base64::Engine;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use wecom::crypto::{OpenError, Receiver};
use wecom::envelope::EnvelopeError;
use wecom::event::{Body, Event, ExternalContactChange, UpdateDetail};

use crate::fixtures::{Refused, get, post, read, receiver, text};

struct Case {
    id: String,
    receiver: Receiver,
    request: Value,
    expect: Value,
}

impl Case {
    fn body(&self) -> Vec<u8> {
        match self.request["body_base64"].as_str() {
            Some(body) => base64::prelude::BASE64_STANDARD.decode(body).unwrap(),
            None => self.request["body"].as_str().unwrap_or_default().into(),
        }
    }

    fn raw_query(&self) -> &str {
        self.request["raw_query"].as_str().unwrap_or_default()
    }

    fn run(&self) -> Result<Vec<u8>, Refused> {
        match text(&self.request, "method") {
            "GET" => get(&self.receiver, self.raw_query()),
            _ => post(&self.receiver, self.raw_query(), &self.body()).map(String::into_bytes),
        }
    }

    fn event(&self) -> Event {
        Event::parse(&String::from_utf8(self.run().unwrap()).unwrap()).expect(&self.id)
    }
}

/// All cases of a file that have a request.
fn cases(file: &str) -> Vec<Case> {
    let suite = read(&format!("cases/{file}.json"));
    let with_request = suite["cases"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|case| !case["request"].is_null());
    with_request
        .map(|case| Case {
            id: text(case, "id").to_owned(),
            receiver: receiver(case.get("config").unwrap_or(&suite["config"])).unwrap(),
            request: case["request"].clone(),
            expect: case["expect"].clone(),
        })
        .collect()
}

fn case(file: &str, id: &str) -> Case {
    cases(file).into_iter().find(|case| case.id == id).unwrap()
}

/// Runs a whole file as its `expect` says.
fn run_file(file: &str, n_cases: usize) {
    let cases = cases(file);
    assert_eq!(cases.len(), n_cases, "{file}");
    for case in cases {
        let answer = case.run();
        let expect = &case.expect;
        match text(expect, "outcome") {
            "accept" | "decrypts" => {
                let message = answer.unwrap_or_else(|refused| panic!("{}: {refused:?}", case.id));
                check_message(&case.id, &message, expect);
            }
            "reject" => assert!(answer.is_err(), "{}", case.id),
            "either" => {}
            outcome => panic!("{}: {outcome}", case.id),
        }
    }
}

fn check_message(id: &str, message: &[u8], expect: &Value) {
    for key in ["plaintext", "body_exact"] {
        if let Some(expected) = expect[key].as_str() {
            assert_eq!(String::from_utf8_lossy(message), expected, "{id}");
        }
    }
    if let Some(expected) = expect["body_hex"].as_str() {
        assert_eq!(hex::encode(message), expected, "{id}");
    }
    if let Some(expected) = expect["plaintext_len"].as_u64() {
        assert_eq!(message.len() as u64, expected, "{id}");
    }
    if let Some(expected) = expect["plaintext_sha256"].as_str() {
        assert_eq!(hex::encode(Sha256::digest(message)), expected, "{id}");
    }
}

/// Case 1.
#[test]
fn every_padding_length_opens() {
    run_file("crypto-padding", 32);
}

/// Case 2: the spare bits of a key are ignored.
#[test]
fn keys_with_any_spare_bits_work() {
    run_file("crypto-key-encoding", 8);
}

/// Case 2: a malformed key is refused, with the field named and the value not printed.
#[test]
fn malformed_keys_are_refused_without_printing_them() {
    let suite = read("cases/crypto-key-encoding.json");
    let mut n_refused = 0;
    for case in suite["cases"].as_array().unwrap() {
        if text(&case["expect"], "outcome") != "config_error" {
            continue;
        }
        let error = receiver(&case["config"]).expect_err(text(case, "id"));
        let printed = format!("{error} {error:?}");
        assert!(error.to_string().contains("EncodingAESKey"), "{printed}");
        let key = text(&case["config"], "encoding_aes_key");
        assert!(key.is_empty() || !printed.contains(&key[..8]), "{printed}");
        n_refused += 1;
    }
    assert_eq!(n_refused, 6);
}

/// Cases 3, 4 and 7.
#[test]
fn the_length_field_counts_bytes_and_is_bounds_checked() {
    run_file("crypto-length-field", 19);
    for case in cases("crypto-length-field") {
        if case.id.starts_with("badlen") {
            let refused = case.run().unwrap_err();
            let by_frame = matches!(
                refused,
                Refused::Open(OpenError::Frame | OpenError::ReceiveId)
            );
            assert!(by_frame, "{}: {refused:?}", case.id);
        }
        if let Some(content) = case.expect["event"]["Content"].as_str() {
            let Body::Message(message) = case.event().body else {
                panic!("{}", case.id)
            };
            assert_eq!(message.content.unwrap().expose(), content);
        }
    }
}

/// Cases 5 and 8: who it is for, and which check failed.
#[test]
fn receive_id_and_tampering() {
    run_file("crypto-receive-id", 8);
    for (id, error) in [
        ("rid-other-corp", &[OpenError::ReceiveId][..]),
        ("rid-empty", &[OpenError::ReceiveId]),
        ("rid-suite", &[OpenError::ReceiveId]),
        ("wrong-key", &[OpenError::Frame, OpenError::ReceiveId]),
        ("flip-last-byte-resigned", &[OpenError::Frame]),
        ("flip-last-byte-oldsig", &[OpenError::Signature]),
        ("truncated-base64", &[OpenError::Base64, OpenError::Length]),
    ] {
        let Err(Refused::Open(refused)) = case("crypto-receive-id", id).run() else {
            panic!("{id}")
        };
        assert!(error.contains(&refused), "{id}: {refused:?}");
    }
}

/// Cases 22, 23, 24, 26 and 27.
#[test]
fn url_verification_answers_the_decrypted_bytes_and_nothing_else() {
    run_file("verify-url", 12);
}

/// Case 25.
#[test]
fn signatures_cover_four_strings_in_byte_order() {
    run_file("signature-order", 12);
}

/// Cases 9, 13, 14 and 15: the outer document, whatever the Content-Type.
#[test]
fn envelopes() {
    run_file("xml-envelope", 19);
    for (id, error) in [
        ("two-encrypt", EnvelopeError::TwoEncrypt),
        ("xxe-file", EnvelopeError::Xml(wecom::XmlError::Doctype)),
        ("xxe-net", EnvelopeError::Xml(wecom::XmlError::Doctype)),
        ("no-encrypt", EnvelopeError::NoEncrypt),
    ] {
        assert_eq!(
            case("xml-envelope", id).run(),
            Err(Refused::Envelope(error)),
            "{id}"
        );
    }
}

/// Cases 9, 10, 11, 12, 16, 17, 18 and 20: every inner document is read, and the fields it states.
#[test]
fn events() {
    run_file("xml-events", 18);
    for case in cases("xml-events") {
        let event = case.event();
        let Some(expected) = case.expect["event"].as_object() else {
            continue;
        };
        for (field, value) in expected {
            let actual = actual(&event, field);
            match (field.as_str(), value) {
                ("Content_any_of", any_of) => {
                    assert!(
                        any_of.as_array().unwrap().contains(&Value::from(actual)),
                        "{}",
                        case.id
                    )
                }
                // Absent and empty mean the same.
                (_, Value::Null) => assert_eq!(actual, None, "{} {field}", case.id),
                (_, Value::String(text)) if text.is_empty() => {
                    assert_eq!(actual, None, "{} {field}", case.id)
                }
                (_, Value::Number(number)) => {
                    assert_eq!(actual, Some(number.to_string()), "{} {field}", case.id)
                }
                _ => assert_eq!(Value::from(actual), *value, "{} {field}", case.id),
            }
        }
    }
}

/// The typed event's value for a node of the file.
fn actual(event: &Event, field: &str) -> Option<String> {
    match (field, &event.body) {
        ("ChangeType", _) => event.change_type.clone(),
        ("CreateTime", _) => event.create_time.map(|seconds| seconds.to_string()),
        ("MsgType", Body::Message(_)) => Some(event.name.clone()),
        ("Event", Body::Message(_)) => None,
        ("Content_any_of", Body::Message(message)) => message
            .content
            .as_ref()
            .map(|text| text.expose().to_owned()),
        ("UserID", Body::ExternalContact(contact)) => Some(contact.user_id.clone()),
        ("ExternalUserID", Body::ExternalContact(contact)) => {
            Some(contact.external_user_id.clone())
        }
        ("State", Body::ExternalContact(contact)) => contact.state.clone(),
        ("Source", Body::ExternalContact(contact)) => contact.source.clone(),
        ("FailReason", Body::ExternalContact(contact)) => contact.fail_reason.clone(),
        ("WelcomeCode", Body::ExternalContact(contact)) => contact
            .welcome_code
            .as_ref()
            .map(|code| code.expose().to_owned()),
        ("ChatId", Body::ExternalChat(chat)) => Some(chat.chat_id.clone()),
        ("UpdateDetail", Body::ExternalChat(_)) => Some("add_member".to_owned()),
        other => panic!("{other:?}"),
    }
}

/// Case 19: the nested list is read as a list and leaks into no other field.
#[test]
fn chat_member_list() {
    let event = case("xml-events", "chat-memchange").event();
    let Body::ExternalChat(chat) = event.body else {
        panic!()
    };
    let wecom::event::ChatChange::Update(update) = chat.change else {
        panic!()
    };
    assert_eq!(update.detail, Some(UpdateDetail::AddMember));
    assert_eq!(update.members.len(), 2);
}

/// Case 21: each of the five change types is its own.
#[test]
fn change_types_are_told_apart() {
    for (id, change) in [
        ("add-full", ExternalContactChange::Add),
        (
            "ct-add_half_external_contact",
            ExternalContactChange::AddHalf,
        ),
        ("ct-edit_external_contact", ExternalContactChange::Edit),
        ("ct-del_external_contact", ExternalContactChange::Del),
        ("ct-del_follow_user", ExternalContactChange::DelFollowUser),
        ("transfer-fail", ExternalContactChange::TransferFail),
    ] {
        let Body::ExternalContact(contact) = case("xml-events", id).event().body else {
            panic!("{id}")
        };
        assert_eq!(contact.change, change);
    }
}

/// Cases 28 to 33: the plaintext, and nothing less, tells two events apart.
#[test]
fn plaintext_is_the_identity_of_an_event() {
    let suite = read("cases/dedupe-sequences.json");
    for sequence in suite["cases"].as_array().unwrap() {
        let receiver = receiver(sequence.get("config").unwrap_or(&suite["config"])).unwrap();
        let mut distinct = HashSet::new();
        let steps = sequence["steps"].as_array().unwrap();
        for step in steps {
            let request = &step["request"];
            let plaintext = post(
                &receiver,
                text(request, "raw_query"),
                text(request, "body").as_bytes(),
            )
            .unwrap();
            assert_eq!(plaintext, text(step, "plaintext"));
            Event::parse(&plaintext).unwrap();
            distinct.insert(plaintext);
        }
        let expect = &sequence["expect"];
        if let Some(processed) = expect["processed"].as_u64() {
            assert_eq!(distinct.len() as u64, processed, "{}", text(sequence, "id"));
        }
        if let Some(duplicates) = expect["duplicates"].as_u64() {
            assert_eq!(
                (steps.len() - distinct.len()) as u64,
                duplicates,
                "{}",
                text(sequence, "id")
            );
        }
    }
}
