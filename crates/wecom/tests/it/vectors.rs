//! The published and generated vectors of `vectors.json`, each with the stage at which it fails.

use serde_json::Value;
use wecom::crypto::{Keys, OpenError, Sealer};
use wecom::envelope::{self, Query};
use wecom::event::{self, Event, ParseError};

use crate::fixtures::{Refused, get, post, read, receiver, text};

/// The words of the file for a refusal. A frame is one word to us, so that nothing hints at padding.
fn stages(refused: &Refused) -> &'static [&'static str] {
    match refused {
        Refused::Query(_) => &["query"],
        Refused::Envelope(_) => &["envelope"],
        Refused::Open(OpenError::Length) => &["ciphertext_length"],
        Refused::Open(OpenError::Frame) => &["padding", "length"],
        Refused::Open(error) => match error {
            OpenError::Signature => &["signature"],
            OpenError::Base64 => &["base64"],
            OpenError::ReceiveId => &["receive_id"],
            _ => &["utf8"],
        },
    }
}

fn open(vector: &Value) -> Result<String, Refused> {
    let receiver = receiver(vector).unwrap();
    let raw_query = text(vector, "raw_query");
    match text(vector, "kind") {
        "get_verify" => get(&receiver, raw_query).map(|echo| String::from_utf8(echo).unwrap()),
        "post_xml" => post(&receiver, raw_query, text(vector, "body").as_bytes()),
        "post_json" => {
            let query = Query::parse(raw_query).map_err(Refused::Query)?;
            let envelope =
                envelope::parse_json(text(vector, "body").as_bytes()).map_err(Refused::Envelope)?;
            let opened = receiver
                .open(&query, &envelope.encrypt)
                .map_err(Refused::Open)?;
            Ok(opened.plaintext)
        }
        kind => panic!("kind {kind}"),
    }
}

#[test]
fn every_vector_is_accepted_or_refused_at_its_stage() {
    let vectors = read("vectors.json");
    let mut counts = (0, 0, 0);
    for vector in vectors.as_array().unwrap() {
        let name = text(vector, "name");
        let expected = &vector["expected"];
        if text(vector, "kind") == "encrypt" {
            seals(vector);
            counts.2 += 1;
        } else if text(expected, "result") == "ok" {
            assert_eq!(open(vector).as_deref(), Ok(text(expected, "msg")), "{name}");
            counts.0 += 1;
        } else {
            let refused = open(vector).expect_err(name);
            let also = expected["also"].as_array().into_iter().flatten();
            let mut allowed = also
                .chain([&expected["stage"]])
                .map(|stage| stage.as_str().unwrap());
            assert!(
                allowed.any(|stage| stages(&refused).contains(&stage)),
                "{name}: {refused:?}"
            );
            counts.1 += 1;
        }
    }
    assert_eq!(counts, (47, 32, 2));
}

fn seals(vector: &Value) {
    let name = text(vector, "name");
    let keys = Keys::parse(text(vector, "token"), text(vector, "encoding_aes_key")).unwrap();
    let sealer = Sealer::new(keys, text(vector, "receive_id"));
    let random = hex::decode(text(vector, "random_hex"))
        .unwrap()
        .try_into()
        .unwrap();
    let sealed = sealer.seal(
        text(vector, "msg"),
        text(vector, "timestamp"),
        text(vector, "nonce"),
        random,
    );
    assert_eq!(
        sealed.encrypt,
        text(&vector["expected"], "encrypt"),
        "{name}"
    );
    assert_eq!(
        sealed.msg_signature,
        text(&vector["expected"], "msg_signature"),
        "{name}"
    );

    let receiver = receiver(vector).unwrap();
    let body = envelope::callback_body("", None, &sealed.encrypt);
    assert_eq!(
        post(&receiver, &sealed.query(), body.as_bytes()).as_deref(),
        Ok(text(vector, "msg")),
        "{name}"
    );
    let echo = get(&receiver, &sealed.verification_query()).unwrap();
    assert_eq!(echo, text(vector, "msg").as_bytes(), "{name}");
}

#[test]
fn the_fields_of_every_vector_are_read() {
    let mut checked = 0;
    for vector in read("vectors.json").as_array().unwrap() {
        let expected = &vector["expected"];
        for (key, trim) in [("fields", false), ("fields_trimmed", true)] {
            let Some(fields) = expected[key].as_object() else {
                continue;
            };
            let leaves = event::leaves(text(expected, "msg")).unwrap();
            for (field, value) in fields {
                let values = |path: &str| -> Vec<String> {
                    let found = leaves
                        .iter()
                        .filter(|(name, _)| name == path)
                        .map(|(_, text)| text.clone());
                    found
                        .map(|text| if trim { text.trim().to_owned() } else { text })
                        .collect()
                };
                match value {
                    Value::Null => assert_eq!(values(field), [""; 0], "{field}"),
                    Value::Array(_) => {
                        assert_eq!(
                            Value::from(values(&format!("{field}/Item"))),
                            *value,
                            "{field}"
                        )
                    }
                    other => assert_eq!(
                        Value::from(values(field)),
                        Value::from(vec![other.clone()]),
                        "{field}"
                    ),
                }
                checked += 1;
            }
        }
    }
    assert!(checked > 40, "{checked}");
}

#[test]
fn the_message_of_every_vector_is_an_event_or_a_clean_error() {
    for vector in read("vectors.json").as_array().unwrap() {
        let Some(message) = vector["expected"]["msg"].as_str() else {
            continue;
        };
        match Event::parse(message) {
            Ok(event) => assert!(!event.name.is_empty()),
            Err(ParseError::Xml(_)) => assert!(!message.starts_with("<xml>"), "{message}"),
            Err(error) => panic!("{message}: {error}"),
        }
    }
}
