//! The sending side: what WeCom does to a callback, and what a passive reply needs.

use aes::cipher::{BlockModeEncrypt, KeyIvInit, block_padding::NoPadding};
use url::form_urlencoded;

use super::{HEADER, Keys, PADDING_BLOCK, signature};

/// Seals messages with one key pair, for passive replies (page 90930, 被动回复) and for stand-ins of WeCom.
#[derive(Debug, Clone)]
pub struct Sealer {
    keys: Keys,
    receive_id: String,
}

/// A sealed message and everything its receiver needs besides the keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// Base64 ciphertext: the text of `Encrypt` or `echostr`.
    pub encrypt: String,
    /// Signature over token, timestamp, nonce and `encrypt`.
    pub msg_signature: String,
    /// As given; decimal seconds by custom.
    pub timestamp: String,
    /// As given.
    pub nonce: String,
}

impl Sealer {
    /// `receive_id` is the corp id for self-built apps, see [`Receiver::new`](super::Receiver::new).
    pub fn new(keys: Keys, receive_id: impl Into<String>) -> Self {
        Self {
            keys,
            receive_id: receive_id.into(),
        }
    }

    /// Seals one message. `random` must be fresh for every call: with the fixed IV it is all that
    /// keeps two equal messages from having equal ciphertexts. Messages stay far below 4 GiB.
    pub fn seal(&self, plaintext: &str, timestamp: &str, nonce: &str, random: [u8; 16]) -> Sealed {
        let content = HEADER + plaintext.len() + self.receive_id.len();
        // A full block of padding is added when the content already fills its last one.
        let pad = PADDING_BLOCK - content % PADDING_BLOCK;
        let mut frame = Vec::with_capacity(content + pad);
        frame.extend_from_slice(&random);
        frame.extend_from_slice(&(plaintext.len() as u32).to_be_bytes());
        frame.extend_from_slice(plaintext.as_bytes());
        frame.extend_from_slice(self.receive_id.as_bytes());
        frame.resize(content + pad, pad as u8);

        let ciphertext = cbc::Encryptor::<aes::Aes256>::new(
            self.keys.aes_key.bytes().into(),
            &self.keys.aes_key.iv().into(),
        )
        .encrypt_padded_vec::<NoPadding>(&frame);
        let encrypt = base64_simd::STANDARD.encode_to_string(ciphertext);
        let msg_signature = signature(self.keys.token.expose(), timestamp, nonce, &encrypt);
        Sealed {
            msg_signature: msg_signature.map(char::from).iter().collect(),
            encrypt,
            timestamp: timestamp.to_owned(),
            nonce: nonce.to_owned(),
        }
    }
}

impl Sealed {
    /// The query of a POST, percent-encoded once as WeCom does.
    pub fn query(&self) -> String {
        self.serialize(None)
    }

    /// The query of a URL verification (GET): the same with the ciphertext as `echostr`.
    pub fn verification_query(&self) -> String {
        self.serialize(Some(&self.encrypt))
    }

    fn serialize(&self, echostr: Option<&str>) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query
            .append_pair("msg_signature", &self.msg_signature)
            .append_pair("timestamp", &self.timestamp)
            .append_pair("nonce", &self.nonce);
        if let Some(echostr) = echostr {
            query.append_pair("echostr", echostr);
        }
        query.finish()
    }
}
