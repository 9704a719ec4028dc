//! Keys, rotation, framing and properties. The published vectors are in the workspace's fixtures.

use proptest::prelude::*;

use super::*;
use crate::envelope;

const OLD_KEY: &str = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG";
const NEW_KEY: &str = "GFEDCBA9876543210zyxwvutsrqponmlkjihgfedcba";
const CORP: &str = "ww1f2e3d4c5b6a7988";

fn keys(token: &str, aes_key: &str) -> Keys {
    Keys::parse(token, aes_key).unwrap()
}

fn seal(keys: Keys, receive_id: &str, message: &str) -> Sealed {
    Sealer::new(keys, receive_id).seal(message, "1792000000", "1095117181", *b"0123456789abcdef")
}

fn open(receiver: &Receiver, sealed: &Sealed) -> Result<Opened, OpenError> {
    let query = sealed.query();
    receiver.open(&Query::parse(&query).unwrap(), &sealed.encrypt)
}

fn receiver(keys: Vec<Keys>) -> Receiver {
    Receiver::new(keys, vec![CORP.to_owned()]).unwrap()
}

#[test]
fn both_key_pairs_open_while_keys_are_changed() {
    let receiver = receiver(vec![keys("new", NEW_KEY), keys("old", OLD_KEY)]);
    for (index, keys) in [keys("new", NEW_KEY), keys("old", OLD_KEY)]
        .into_iter()
        .enumerate()
    {
        let opened = open(&receiver, &seal(keys, CORP, "hello")).unwrap();
        assert_eq!(
            (opened.plaintext.as_str(), opened.key_index),
            ("hello", index)
        );
        assert_eq!(opened.receive_id, CORP);
    }
    let other = seal(keys("other", NEW_KEY), CORP, "hello");
    assert_eq!(open(&receiver, &other), Err(OpenError::Signature));
}

/// A valid signature says nothing about the AES key: the other pair with that token must be tried.
#[test]
fn pairs_that_share_a_token_are_told_apart_by_their_aes_key() {
    let receiver = receiver(vec![keys("same", NEW_KEY), keys("same", OLD_KEY)]);
    let opened = open(&receiver, &seal(keys("same", OLD_KEY), CORP, "hello")).unwrap();
    assert_eq!(opened.key_index, 1);
    let neither = seal(keys("same", &NEW_KEY.replace('z', "y")), CORP, "hello");
    assert_eq!(open(&receiver, &neither), Err(OpenError::Frame));
}

#[test]
fn every_configured_receive_id_is_accepted_and_no_other() {
    let own = keys("token", OLD_KEY);
    let ids = ["wwprovider", "wwsuite", ""].map(str::to_owned).to_vec();
    let receiver = Receiver::new(vec![own.clone()], ids.clone()).unwrap();
    for id in &ids {
        assert_eq!(
            open(&receiver, &seal(own.clone(), id, "m"))
                .unwrap()
                .receive_id,
            *id
        );
    }
    for id in ["wwprovide", "wwproviderx", "WWSUITE", "\0"] {
        assert_eq!(
            open(&receiver, &seal(own.clone(), id, "m")),
            Err(OpenError::ReceiveId),
            "{id}"
        );
    }
}

#[test]
fn a_receiver_needs_one_or_two_pairs_and_a_receive_id() {
    let own = keys("token", OLD_KEY);
    for count in [0, 3] {
        let refused = Receiver::new(vec![own.clone(); count], vec![CORP.to_owned()]);
        assert_eq!(refused.unwrap_err(), KeyError::KeyCount { count });
    }
    assert_eq!(
        Receiver::new(vec![own], vec![]).unwrap_err(),
        KeyError::NoReceiveId
    );
}

#[test]
fn malformed_keys_are_named() {
    let long = "a".repeat(33);
    for (token, error) in [
        ("", KeyError::TokenLength { length: 0 }),
        (long.as_str(), KeyError::TokenLength { length: 33 }),
        ("abc\n", KeyError::TokenCharacter { position: 4 }),
        ("a b", KeyError::TokenCharacter { position: 2 }),
        ("令牌", KeyError::TokenCharacter { position: 1 }),
    ] {
        assert_eq!(CallbackToken::parse(token).unwrap_err(), error);
    }
    for (key, error) in [
        (format!("{OLD_KEY}="), KeyError::AesKeyLength { length: 44 }),
        (
            OLD_KEY.replace('z', "+"),
            KeyError::AesKeyCharacter { position: 26 },
        ),
        (
            OLD_KEY.replace('z', "_"),
            KeyError::AesKeyCharacter { position: 26 },
        ),
        (
            OLD_KEY.replace('z', "é"),
            KeyError::AesKeyCharacter { position: 26 },
        ),
    ] {
        assert_eq!(EncodingAesKey::parse(&key).unwrap_err(), error);
    }
}

#[test]
fn nothing_secret_is_printed() {
    let own = keys("t0kenSecret", OLD_KEY);
    let sealer = Sealer::new(own.clone(), CORP);
    let receiver = receiver(vec![own.clone()]);
    let opened = open(&receiver, &seal(own.clone(), CORP, "plainSecret")).unwrap();
    let printed = format!("{own:?} {sealer:?} {receiver:?} {opened:?}");
    for secret in ["t0kenSecret", &OLD_KEY[..8], "plainSecret"] {
        assert!(!printed.contains(secret), "{printed}");
    }
}

/// Case 6: a full last block gets a whole block of padding.
#[test]
fn padding_is_to_32_bytes() {
    for (message_len, frame_len) in [(25, 64), (26, 96)] {
        let message = "x".repeat(message_len);
        let sealed = seal(keys("token", OLD_KEY), CORP, &message);
        let frame = base64_simd::STANDARD
            .decode_to_vec(&sealed.encrypt)
            .unwrap();
        assert_eq!(frame.len(), frame_len);
        assert_eq!(
            open(&receiver(vec![keys("token", OLD_KEY)]), &sealed)
                .unwrap()
                .plaintext,
            message
        );
    }
}

#[test]
fn a_frame_must_hold_together() {
    let frame = |length: u32, padding: &[u8]| {
        let mut frame = vec![7; 16];
        frame.extend(length.to_be_bytes());
        frame.extend(b"messageid");
        frame.extend(padding);
        frame
    };
    assert_eq!(
        split_frame(&frame(7, &[3, 3, 3])),
        Some((20..27, &b"id"[..]))
    );
    assert_eq!(split_frame(&frame(9, &[3, 3, 3])), Some((20..29, &b""[..])));
    for (length, padding) in [
        (10, &[3, 3, 3][..]),
        (u32::MAX, &[3, 3, 3]),
        (i32::MAX as u32, &[3, 3, 3]),
        (7, &[2, 3, 3]),
        (7, &[0]),
        (7, &[33; 33]),
        (7, &[30]),
    ] {
        assert_eq!(
            split_frame(&frame(length, padding)),
            None,
            "{length} {padding:?}"
        );
    }
    assert_eq!(split_frame(&[]), None);
    assert_eq!(split_frame(&[1; 16]), None);
}

#[test]
fn a_query_without_echostr_verifies_nothing() {
    let own = keys("token", OLD_KEY);
    let sealed = seal(own.clone(), CORP, "12345");
    let (post, get) = (sealed.query(), sealed.verification_query());
    let receiver = receiver(vec![own]);
    let verify = |raw| receiver.verify_url(&Query::parse(raw).unwrap());
    assert_eq!(verify(&get), Ok(b"12345".to_vec()));
    assert_eq!(verify(&post), Err(OpenError::Signature));
}

proptest! {
    #[test]
    fn whatever_is_sealed_opens(
        message: String, receive_id: String, timestamp in "[0-9]{1,12}", nonce in "[ -~]{1,20}", random: [u8; 16],
    ) {
        let own = keys("token", NEW_KEY);
        let sealed = Sealer::new(own.clone(), receive_id.clone()).seal(&message, &timestamp, &nonce, random);
        let receiver = Receiver::new(vec![own], vec![receive_id]).unwrap();
        let body = envelope::callback_body("]]>", Some("]]>&"), &sealed.encrypt);
        let envelope = envelope::parse(body.as_bytes()).unwrap();
        let query = sealed.query();
        let opened = receiver.open(&Query::parse(&query).unwrap(), &envelope.encrypt).unwrap();
        prop_assert_eq!(&opened.plaintext, &message);
        let query = sealed.verification_query();
        let query = Query::parse_verification(&query).unwrap();
        prop_assert_eq!(receiver.verify_url(&query).unwrap(), message.into_bytes());
    }

    /// Whatever the ciphertext decrypts to, with a signature that holds.
    #[test]
    fn signed_noise_is_refused(mut noise in prop::collection::vec(any::<u8>(), 0..200), whole_blocks: bool) {
        if whole_blocks {
            noise.truncate(noise.len() / 32 * 32);
        }
        let text = base64_simd::STANDARD.encode_to_string(&noise);
        check_signed_text(&text);
    }

    #[test]
    fn signed_text_is_refused(text: String) {
        check_signed_text(&text);
    }

    /// Ciphertext is read as the strict standard alphabet, whatever decoder is used for speed.
    #[test]
    fn base64_is_as_strict_as_the_plain_decoder(text in "[A-Za-z0-9+/=_\\- \n]{0,40}") {
        use base64::{Engine, prelude::BASE64_STANDARD};
        prop_assert_eq!(base64_simd::STANDARD.decode_to_vec(&text).ok(), BASE64_STANDARD.decode(&text).ok());
    }

    #[test]
    fn a_changed_signature_is_refused(at in 0..40usize, digit in "[0-9a-fA-F]") {
        let own = keys("token", NEW_KEY);
        let mut sealed = seal(own.clone(), CORP, "hello");
        let right = sealed.msg_signature.clone();
        sealed.msg_signature.replace_range(at..=at, &digit);
        let opened = open(&receiver(vec![own]), &sealed);
        prop_assert_eq!(opened.is_ok(), sealed.msg_signature == right);
    }
}

fn check_signed_text(text: &str) {
    let msg_signature: String = signature("token", "1", "2", text)
        .map(char::from)
        .iter()
        .collect();
    let query = Query {
        msg_signature: msg_signature.into(),
        timestamp: "1".into(),
        nonce: "2".into(),
        echostr: None,
    };
    let refused = receiver(vec![keys("token", NEW_KEY)]).open(&query, text);
    assert!(refused.is_err_and(|error| error != OpenError::Signature));
}
