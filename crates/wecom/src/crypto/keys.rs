//! The two secrets of a callback endpoint, parsed once from configuration.
//!
//! Errors name the problem, never the value.

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

/// 43 characters carry 258 bits, a key has 256: WeCom leaves the last two bits at random, so a strict
/// decoder refuses three keys out of four (page 90968).
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

/// Why a token or key from configuration cannot be used. Positions count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The token is empty or longer than 32 characters.
    #[error("token must have 1 to 32 characters, has {length}")]
    TokenLength {
        /// How many it has.
        length: usize,
    },
    /// The token holds something else than letters and digits (often a line end or a blank).
    #[error("token may hold letters and digits only, character {position} is something else")]
    TokenCharacter {
        /// The first wrong character.
        position: usize,
    },
    /// The EncodingAESKey has not 43 characters.
    #[error("EncodingAESKey must have 43 characters, has {length}")]
    AesKeyLength {
        /// How many it has.
        length: usize,
    },
    /// The EncodingAESKey holds something else than letters and digits.
    #[error(
        "EncodingAESKey may hold letters and digits only, character {position} is something else"
    )]
    AesKeyCharacter {
        /// The first wrong character.
        position: usize,
    },
    /// A receiver takes one key pair, or two while keys are being changed.
    #[error("one or two key pairs are needed, got {count}")]
    KeyCount {
        /// How many were given.
        count: usize,
    },
    /// Without a receive id nothing could be accepted. An empty id must be listed as such.
    #[error("at least one receive id is needed")]
    NoReceiveId,
}

/// The callback token (Token): letters and digits, at most 32 (page 90930).
#[derive(Debug, Clone)]
pub struct CallbackToken(SecretString);

impl CallbackToken {
    /// Takes the token as it stands; a trailing line end is an error here, strip it when reading a file.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let length = text.chars().count();
        if !(1..=32).contains(&length) {
            return Err(KeyError::TokenLength { length });
        }
        match first_other_than_alphanumeric(text) {
            Some(position) => Err(KeyError::TokenCharacter { position }),
            None => Ok(Self(text.into())),
        }
    }

    pub(super) fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

/// The AES key (EncodingAESKey): 43 letters and digits that are base64 of 32 bytes (page 90968).
#[derive(Clone)]
pub struct EncodingAesKey(Zeroizing<[u8; 32]>);

impl EncodingAesKey {
    /// Lenient in the two spare bits of the last character, strict in everything else.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let length = text.chars().count();
        if length != 43 {
            return Err(KeyError::AesKeyLength { length });
        }
        if let Some(position) = first_other_than_alphanumeric(text) {
            return Err(KeyError::AesKeyCharacter { position });
        }
        let mut key = Zeroizing::new([0; 32]);
        match LENIENT.decode_slice(text, key.as_mut_slice()) {
            Ok(32) => Ok(Self(key)),
            // 43 letters and digits always decode to 32 bytes.
            _ => Err(KeyError::AesKeyLength { length }),
        }
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The initialisation vector: the first half of the key, the same for every message (page 90968).
    pub(super) fn iv(&self) -> [u8; 16] {
        let mut iv = [0; 16];
        iv.copy_from_slice(&self.0[..16]);
        iv
    }
}

impl std::fmt::Debug for EncodingAesKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EncodingAesKey([REDACTED])")
    }
}

/// One token and the AES key that goes with it.
#[derive(Debug, Clone)]
pub struct Keys {
    /// Signs.
    pub token: CallbackToken,
    /// Encrypts.
    pub aes_key: EncodingAesKey,
}

impl Keys {
    /// Both from their text in WeCom's console.
    pub fn parse(token: &str, encoding_aes_key: &str) -> Result<Self, KeyError> {
        Ok(Self {
            token: CallbackToken::parse(token)?,
            aes_key: EncodingAesKey::parse(encoding_aes_key)?,
        })
    }
}

fn first_other_than_alphanumeric(text: &str) -> Option<usize> {
    text.chars()
        .position(|c| !c.is_ascii_alphanumeric())
        .map(|index| index + 1)
}
