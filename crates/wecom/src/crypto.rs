//! Opening and sealing callbacks: signature, AES-256-CBC frame, receive id.
//!
//! The scheme is WeCom's page 90968 (加解密方案说明). One frame is
//! `16 random bytes | u32 big-endian length | message | receive id`, padded to blocks of **32** bytes,
//! encrypted with a fixed IV (the first half of the key) and signed with SHA-1 over the base64 text.
//!
//! This module knows neither XML nor HTTP: it takes the text of `Encrypt` (or `echostr`) and the query.
//! It does not judge whether a time stamp is fresh: the page names no window and retries may be old.

mod keys;
mod seal;

pub use keys::{CallbackToken, EncodingAesKey, KeyError, Keys};
pub use seal::{Sealed, Sealer};

use aes::cipher::{BlockModeDecrypt, InnerIvInit, KeyInit, block_padding::NoPadding};
use sha1::{Digest, Sha1};
use subtle::ConstantTimeEq;

use crate::envelope::Query;

/// Messages are padded to this many bytes, although an AES block has 16 (page 90968).
const PADDING_BLOCK: usize = 32;
/// What precedes the message in a frame: 16 random bytes and its length.
const HEADER: usize = 20;

/// Why a callback was not opened. Tell the sender none of it; [`OpenError::check`] is for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// `msg_signature` is not the signature of this text under any of our tokens.
    #[error("signature does not match")]
    Signature,
    /// The signed text is not strict standard base64.
    #[error("ciphertext is not base64")]
    Base64,
    /// The ciphertext is empty or not a multiple of 32 bytes.
    #[error("ciphertext has an impossible length")]
    Length,
    /// Decrypted to something that is no frame: bad padding or message length, usually a wrong AES key.
    #[error("decrypted bytes are not a frame")]
    Frame,
    /// The message is for somebody else.
    #[error("receive id is not one of ours")]
    ReceiveId,
    /// The message is not UTF-8.
    #[error("message is not UTF-8")]
    Utf8,
}

impl OpenError {
    /// The check that failed, one word for logs and counters.
    pub fn check(&self) -> &'static str {
        match self {
            Self::Signature => "signature",
            Self::Base64 => "base64",
            Self::Length => "length",
            Self::Frame => "frame",
            Self::ReceiveId => "receive_id",
            Self::Utf8 => "utf8",
        }
    }
}

/// An authentic message.
#[derive(Clone, PartialEq, Eq)]
pub struct Opened {
    /// The decrypted message, exactly as sent. XML for apps, JSON for smart robots.
    pub plaintext: String,
    /// Which of the configured receive ids it was addressed to.
    pub receive_id: String,
    /// Which of the receiver's keys opened it; above 0 the sender still uses the older pair.
    pub key_index: usize,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened")
            .field("plaintext_len", &self.plaintext.len())
            .field("receive_id", &self.receive_id)
            .field("key_index", &self.key_index)
            .finish()
    }
}

/// Opens the callbacks of one endpoint.
///
/// Holds one or two key pairs, so that a key can be changed in WeCom's console without losing what
/// was sealed with the old one, and the set of receive ids that are meant for this endpoint.
#[derive(Debug)]
pub struct Receiver {
    openers: Vec<Opener>,
    receive_ids: Vec<String>,
}

struct Opener {
    token: CallbackToken,
    cipher: aes::Aes256Dec,
    iv: [u8; 16],
}

impl std::fmt::Debug for Opener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Opener([REDACTED])")
    }
}

impl Receiver {
    /// `keys`: one or two pairs, newest first. `receive_ids`: every id this endpoint accepts, compared
    /// for equality. The corp id for self-built apps; the provider's corp id *and* the suite id for a
    /// suite's command URL; the empty string, named explicitly, for smart robots (page 90968, 101033).
    pub fn new(keys: Vec<Keys>, receive_ids: Vec<String>) -> Result<Self, KeyError> {
        if keys.is_empty() || keys.len() > 2 {
            return Err(KeyError::KeyCount { count: keys.len() });
        }
        if receive_ids.is_empty() {
            return Err(KeyError::NoReceiveId);
        }
        let openers = keys
            .into_iter()
            .map(|keys| Opener {
                cipher: aes::Aes256Dec::new(keys.aes_key.bytes().into()),
                iv: keys.aes_key.iv(),
                token: keys.token,
            })
            .collect();
        Ok(Self {
            openers,
            receive_ids,
        })
    }

    /// Verifies and decrypts the `Encrypt` text of a POST (page 90930).
    ///
    /// The checks run in this order: signature, base64, length, frame, receive id, UTF-8. Nothing is
    /// decoded before the signature holds.
    pub fn open(&self, query: &Query<'_>, encrypt: &str) -> Result<Opened, OpenError> {
        let (frame, key_index, receive_id) = self.open_frame(query, encrypt)?;
        let plaintext = String::from_utf8(frame).map_err(|_| OpenError::Utf8)?;
        Ok(Opened {
            plaintext,
            receive_id: receive_id.to_owned(),
            key_index,
        })
    }

    /// Verifies the `echostr` of a GET and returns the bytes that must be the whole answer, within
    /// one second (page 90930, 验证URL有效性).
    ///
    /// A query without `echostr` is no verification and fails as [`OpenError::Signature`];
    /// [`Query::parse_verification`] tells the two apart earlier.
    pub fn verify_url(&self, query: &Query<'_>) -> Result<Vec<u8>, OpenError> {
        let echostr = query.echostr.as_deref().ok_or(OpenError::Signature)?;
        self.open_frame(query, echostr).map(|(message, ..)| message)
    }

    fn open_frame(
        &self,
        query: &Query<'_>,
        text: &str,
    ) -> Result<(Vec<u8>, usize, &str), OpenError> {
        let mut failure = OpenError::Signature;
        for (key_index, opener) in self.openers.iter().enumerate() {
            if !opener.signed(query, text) {
                continue;
            }
            match opener.decrypt(text, &self.receive_ids) {
                Ok((message, receive_id)) => return Ok((message, key_index, receive_id)),
                // Both pairs may share a token; only the AES key then tells them apart.
                Err(error) if failure == OpenError::Signature => failure = error,
                Err(_) => {}
            }
        }
        Err(failure)
    }
}

impl Opener {
    fn signed(&self, query: &Query<'_>, text: &str) -> bool {
        let ours = signature(self.token.expose(), &query.timestamp, &query.nonce, text);
        same(&ours, query.msg_signature.as_bytes())
    }

    /// The message and the receive id it is addressed to.
    fn decrypt<'r>(
        &self,
        text: &str,
        receive_ids: &'r [String],
    ) -> Result<(Vec<u8>, &'r str), OpenError> {
        let mut frame = base64_simd::STANDARD
            .decode_to_vec(text)
            .map_err(|_| OpenError::Base64)?;
        if frame.is_empty() || !frame.len().is_multiple_of(PADDING_BLOCK) {
            return Err(OpenError::Length);
        }
        cbc::Decryptor::inner_iv_init(&self.cipher, &self.iv.into())
            .decrypt_padded::<NoPadding>(&mut frame)
            .map_err(|_| OpenError::Length)?;
        let (message, receive_id) = split_frame(&frame).ok_or(OpenError::Frame)?;
        let receive_id = receive_ids
            .iter()
            .find(|id| id.as_bytes() == receive_id)
            .ok_or(OpenError::ReceiveId)?;
        let end = message.end;
        frame.truncate(end);
        frame.drain(..HEADER);
        Ok((frame, receive_id))
    }
}

/// Where the message lies in a decrypted frame, and the receive id behind it.
fn split_frame(frame: &[u8]) -> Option<(std::ops::Range<usize>, &[u8])> {
    let pad = usize::from(*frame.last()?);
    if !(1..=PADDING_BLOCK).contains(&pad) {
        return None;
    }
    let (content, padding) = frame.split_at_checked(frame.len().checked_sub(pad)?)?;
    if padding.iter().any(|byte| usize::from(*byte) != pad) {
        return None;
    }
    let length = content
        .get(16..HEADER)?
        .try_into()
        .map(u32::from_be_bytes)
        .ok()?;
    let end = usize::try_from(length).ok()?.checked_add(HEADER)?;
    Some((HEADER..end, content.get(end..)?))
}

/// Lower-case hex SHA-1 over the four strings in byte order, joined with nothing between (page 90968).
fn signature(token: &str, timestamp: &str, nonce: &str, text: &str) -> [u8; 40] {
    let mut parts = [
        token.as_bytes(),
        timestamp.as_bytes(),
        nonce.as_bytes(),
        text.as_bytes(),
    ];
    parts.sort_unstable();
    let mut sha1 = Sha1::new();
    for part in parts {
        sha1.update(part);
    }
    hex(sha1.finalize().into())
}

fn hex(digest: [u8; 20]) -> [u8; 40] {
    let mut hex = [0; 40];
    for (pair, byte) in hex.as_chunks_mut().0.iter_mut().zip(digest) {
        *pair = [byte >> 4, byte & 15];
    }
    for digit in &mut hex {
        *digit += if *digit > 9 { b'a' - 10 } else { b'0' };
    }
    hex
}

/// Compares in constant time, eight bytes at once: byte by byte it costs a tenth of the whole call.
fn same(ours: &[u8; 40], theirs: &[u8]) -> bool {
    let (ours, theirs) = (ours.as_chunks::<8>().0, theirs.as_chunks::<8>());
    if theirs.0.len() != ours.len() || !theirs.1.is_empty() {
        return false;
    }
    let words = ours.iter().zip(theirs.0);
    let difference = words.fold(0, |difference, (ours, theirs)| {
        difference | (u64::from_ne_bytes(*ours) ^ u64::from_ne_bytes(*theirs))
    });
    difference.ct_eq(&0).into()
}

#[cfg(test)]
mod tests;
