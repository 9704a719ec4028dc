//! How much opening a callback costs beside the work that no implementation can avoid.
//!
//! Not part of the library's interface: only for the benchmark tool, behind the feature `measure`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use aes::cipher::{BlockModeDecrypt, InnerIvInit, KeyInit, block_padding::NoPadding};
use base64::{Engine, prelude::BASE64_STANDARD};
use sha1::{Digest, Sha1};

use crate::crypto::{Keys, Receiver, Sealer};
use crate::envelope::{self, Query};
use crate::event::Event;

const TOKEN: &str = "measureT0ken";
const AES_KEY: &str = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG";
const CORP: &str = "ww0000000000000000";
const MESSAGE: &str = "<xml><ToUserName><![CDATA[ww0000000000000000]]></ToUserName>\
    <FromUserName><![CDATA[sys]]></FromUserName><CreateTime>1760000000</CreateTime>\
    <MsgType><![CDATA[event]]></MsgType><Event><![CDATA[change_external_contact]]></Event>\
    <ChangeType><![CDATA[add_external_contact]]></ChangeType><UserID><![CDATA[staff-07]]></UserID>\
    <ExternalUserID><![CDATA[wmAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA]]></ExternalUserID>\
    <State><![CDATA[channel-42]]></State>\
    <WelcomeCode><![CDATA[AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA]]></WelcomeCode></xml>";

/// One round: the time of one call of each.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    /// Query, envelope, signature, decryption.
    pub open: Duration,
    /// The same and the typed event.
    pub open_and_parse: Duration,
    /// SHA-1, base64 and AES of the same bytes, with the same crates: the fastest we know.
    pub limit: Duration,
    /// The same with the `base64` crate, which does not use vector instructions.
    pub limit_plain_base64: Duration,
}

/// Times an `add_external_contact` callback of usual size, interleaved, in `rounds` of `calls` each.
pub fn open(rounds: usize, calls: u32) -> Vec<Round> {
    let keys = Keys::parse(TOKEN, AES_KEY).expect("constants");
    let sealed = Sealer::new(keys.clone(), CORP).seal(
        MESSAGE,
        "1760000000",
        "1372623149",
        *b"0123456789abcdef",
    );
    let raw_query = sealed.query();
    let body = envelope::callback_body(CORP, Some("1000002"), &sealed.encrypt);
    let receiver = Receiver::new(vec![keys], vec![CORP.to_owned()]).expect("constants");
    let cipher = aes::Aes256Dec::new(&[7; 32].into());

    let open = || {
        let query = Query::parse(black_box(&raw_query)).expect("own query");
        let envelope = envelope::parse(black_box(body.as_bytes())).expect("own body");
        receiver
            .open(&query, &envelope.encrypt)
            .expect("own seal")
            .plaintext
    };
    let hash_and_decrypt = |decode: fn(&str) -> Vec<u8>| {
        let text = black_box(&sealed.encrypt);
        let mut sha1 = Sha1::new();
        for part in [TOKEN, "1760000000", "1372623149", text] {
            sha1.update(part);
        }
        black_box(sha1.finalize());
        let mut bytes = decode(text);
        let decryptor = cbc::Decryptor::inner_iv_init(&cipher, &[0; 16].into());
        black_box(decryptor.decrypt_padded::<NoPadding>(&mut bytes).is_ok());
        bytes
    };
    let simd = |text: &str| base64_simd::STANDARD.decode_to_vec(text).expect("own seal");
    let plain = |text: &str| BASE64_STANDARD.decode(text).expect("own seal");

    let rounds = (0..rounds).map(|_| Round {
        limit: time(calls, || hash_and_decrypt(simd)),
        limit_plain_base64: time(calls, || hash_and_decrypt(plain)),
        open: time(calls, open),
        open_and_parse: time(calls, || Event::parse(&open()).expect("own message")),
    });
    rounds.collect()
}

fn time<T>(calls: u32, mut call: impl FnMut() -> T) -> Duration {
    let start = Instant::now();
    for _ in 0..calls {
        black_box(call());
    }
    start.elapsed() / calls
}
