//! Who a visitor is, without knowing him: a random number that we signed. It is in a cookie for 30 days, or in the
//! address of a page for minutes.
//!
//! Form: base64url of key id (4 bytes), number (16), time of issue in seconds (8) and an HMAC-SHA256 (32) over what it is
//! for, the corp and those. So one that was made for another corp, for another purpose or, in an address, for another
//! browser is as good as a forged one. It says nothing about the person, and nothing in it is secret.

use std::fmt;

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

const KEY_BYTES: usize = 32;
const ID_BYTES: usize = 16;
const MAC_BYTES: usize = 32;
/// Key id, number, time of issue.
const HEAD_BYTES: usize = 4 + ID_BYTES + 8;
/// What every one of them is long.
pub const TEXT_CHARS: usize = (HEAD_BYTES + MAC_BYTES) / 3 * 4;
/// Clocks of allocators differ by less than this.
const SKEW_S: u64 = 300;

/// What one is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose<'a> {
    /// In the visitor's browser.
    Cookie,
    /// In the address that the first answer leads to, for the browser with this name.
    Bounce(&'a str),
    /// In the address of somebody whose browser keeps no cookies, and who went on nevertheless.
    Person(&'a str),
}

impl Purpose<'_> {
    /// How long one is good for, seconds.
    pub const fn life_s(self) -> u64 {
        match self {
            Self::Cookie => 30 * 24 * 60 * 60,
            Self::Bounce(_) => 60,
            Self::Person(_) => 60 * 60,
        }
    }
}

/// A visitor, for one corp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    id: [u8; ID_BYTES],
    issued_s: u64,
    /// Signed with the key that signs now.
    newest: bool,
}

impl Identity {
    /// Somebody new.
    pub fn random() -> Self {
        Self {
            id: rand::random(),
            issued_s: 0,
            newest: false,
        }
    }

    /// A cookie that has less than half of its life left, or was signed with an older key, is written again.
    pub fn is_worn(&self, now_ms: u64) -> bool {
        !self.newest || now_ms / 1_000 > self.issued_s + Purpose::Cookie.life_s() / 2
    }
}

/// The number, as text.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.id))
    }
}

/// Why one is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Cut off, too long, or no base64url.
    Malformed,
    UnknownKey,
    /// Altered, or made for something else.
    Forged,
    Expired,
}

impl Refused {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::UnknownKey => "unknown_key",
            Self::Forged => "forged",
            Self::Expired => "expired",
        }
    }
}

#[derive(Clone)]
struct Key {
    id: [u8; 4],
    mac: Hmac<Sha256>,
}

/// The first signs, all are accepted.
#[derive(Clone)]
pub struct Keys(Vec<Key>);

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Keys").field(&self.0.len()).finish()
    }
}

impl Keys {
    /// Keys of 32 bytes as base64, with commas between.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const WRONG: &str = "must be 32 bytes of base64, as `openssl rand -base64 32` makes them; several with commas between";
        let key = |text: &str| {
            let bytes = STANDARD.decode(text.trim()).ok()?;
            if bytes.len() != KEY_BYTES {
                return None;
            }
            let name = Sha256::new()
                .chain_update(b"paidan cookie key\0")
                .chain_update(&bytes)
                .finalize();
            Some(Key {
                id: [name[0], name[1], name[2], name[3]],
                mac: Hmac::new_from_slice(&bytes).ok()?,
            })
        };
        let keys: Option<Vec<Key>> = text.split(',').map(key).collect();
        keys.map(Self).ok_or(WRONG)
    }

    /// Signs anew, with the time as its issue.
    pub fn sign(
        &self,
        purpose: Purpose<'_>,
        corp: &str,
        identity: &Identity,
        now_ms: u64,
    ) -> String {
        // There is always one: a text without a comma is one part too.
        let Some(key) = self.0.first() else {
            return String::new();
        };
        let mut bytes = Vec::with_capacity(HEAD_BYTES + MAC_BYTES);
        bytes.extend_from_slice(&key.id);
        bytes.extend_from_slice(&identity.id);
        bytes.extend_from_slice(&(now_ms / 1_000).to_be_bytes());
        let mac = over(key, purpose, corp, &bytes).finalize().into_bytes();
        bytes.extend_from_slice(&mac);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    pub fn verify(
        &self,
        purpose: Purpose<'_>,
        corp: &str,
        text: &str,
        now_ms: u64,
    ) -> Result<Identity, Refused> {
        if text.len() != TEXT_CHARS {
            return Err(Refused::Malformed);
        }
        let bytes = URL_SAFE_NO_PAD
            .decode(text)
            .map_err(|_| Refused::Malformed)?;
        let (head, mac) = bytes
            .split_at_checked(HEAD_BYTES)
            .ok_or(Refused::Malformed)?;
        let (key_id, rest) = head.split_at_checked(4).ok_or(Refused::Malformed)?;
        let (id, issued) = rest
            .split_first_chunk::<ID_BYTES>()
            .ok_or(Refused::Malformed)?;
        let issued_s = u64::from_be_bytes(issued.try_into().map_err(|_| Refused::Malformed)?);
        let place = self.0.iter().position(|key| key.id == key_id);
        let (place, key) = place
            .and_then(|place| Some((place, self.0.get(place)?)))
            .ok_or(Refused::UnknownKey)?;
        // Takes the same time wherever it differs.
        over(key, purpose, corp, head)
            .verify_slice(mac)
            .map_err(|_| Refused::Forged)?;
        let now_s = now_ms / 1_000;
        if now_s.saturating_sub(issued_s) > purpose.life_s() || issued_s > now_s + SKEW_S {
            return Err(Refused::Expired);
        }
        Ok(Identity {
            id: *id,
            issued_s,
            newest: place == 0,
        })
    }
}

fn over(key: &Key, purpose: Purpose<'_>, corp: &str, head: &[u8]) -> Hmac<Sha256> {
    let (label, browser) = match purpose {
        Purpose::Cookie => ("cookie", ""),
        Purpose::Bounce(browser) => ("bounce", browser),
        Purpose::Person(browser) => ("person", browser),
    };
    let mut mac = key.mac.clone();
    // A corp's id and a header have no NUL, so the parts cannot run into each other.
    for part in [
        b"paidan visitor 1",
        label.as_bytes(),
        corp.as_bytes(),
        browser.as_bytes(),
    ] {
        mac.update(part);
        mac.update(&[0]);
    }
    mac.update(head);
    mac
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
    const NOW: u64 = 1_800_000_000_000;

    fn key(byte: u8) -> String {
        STANDARD.encode([byte; KEY_BYTES])
    }

    fn keys(text: &str) -> Keys {
        Keys::parse(text).unwrap()
    }

    #[test]
    fn keys_have_32_bytes() {
        for wrong in [
            "",
            "hush",
            ",",
            &STANDARD.encode([1; 31]),
            &STANDARD.encode([1; 33]),
            &format!("{},", key(1)),
            &format!("{},hush", key(1)),
        ] {
            assert!(Keys::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(keys(&format!("{} , {}", key(1), key(2))).0.len(), 2);
        assert!(!format!("{:?}", keys(&key(1))).contains(&key(1)));
    }

    #[test]
    fn what_was_signed_is_known_until_its_time_is_over() {
        let keys = keys(&key(1));
        for purpose in [
            Purpose::Cookie,
            Purpose::Bounce("agent"),
            Purpose::Person("agent"),
        ] {
            let one = Identity::random();
            let text = keys.sign(purpose, "ww1", &one, NOW);
            assert_eq!(text.len(), TEXT_CHARS);
            let life_ms = purpose.life_s() * 1_000;
            for now in [NOW - SKEW_S * 1_000, NOW, NOW + life_ms] {
                let known = keys.verify(purpose, "ww1", &text, now).unwrap();
                assert_eq!(known.to_string(), one.to_string());
            }
            for now in [NOW - (SKEW_S + 1) * 1_000, NOW + life_ms + 1_000] {
                let refused = keys.verify(purpose, "ww1", &text, now);
                assert_eq!(refused, Err(Refused::Expired));
            }
        }
    }

    #[test]
    fn another_corp_purpose_or_browser_is_a_forgery() {
        let keys = keys(&key(1));
        let one = Identity::random();
        let cookie = keys.sign(Purpose::Cookie, "ww1", &one, NOW);
        let bounce = keys.sign(Purpose::Bounce("a"), "ww1", &one, NOW);
        let forged = Err(Refused::Forged);
        assert_eq!(keys.verify(Purpose::Cookie, "ww2", &cookie, NOW), forged);
        assert_eq!(
            keys.verify(Purpose::Bounce(""), "ww1", &cookie, NOW),
            forged
        );
        assert_eq!(keys.verify(Purpose::Cookie, "ww1", &bounce, NOW), forged);
        assert_eq!(
            keys.verify(Purpose::Bounce("b"), "ww1", &bounce, NOW),
            forged
        );
        assert_eq!(
            keys.verify(Purpose::Person("a"), "ww1", &bounce, NOW),
            forged
        );
    }

    #[test]
    fn keys_rotate_without_losing_anybody() {
        let (old, new) = (key(1), key(2));
        let one = Identity::random();
        let by = |keys: &Keys, text: &str| {
            keys.verify(Purpose::Cookie, "ww1", text, NOW)
                .map(|known| (known.to_string() == one.to_string(), known.is_worn(NOW)))
        };
        let signed = keys(&old).sign(Purpose::Cookie, "ww1", &one, NOW);
        assert_eq!(by(&keys(&old), &signed), Ok((true, false)));
        assert_eq!(
            by(&keys(&format!("{old},{new}")), &signed),
            Ok((true, false))
        );
        // Known, and to be signed again with the new one.
        assert_eq!(
            by(&keys(&format!("{new},{old}")), &signed),
            Ok((true, true))
        );
        assert_eq!(by(&keys(&new), &signed), Err(Refused::UnknownKey));
    }

    #[test]
    fn a_cookie_is_written_again_at_half_of_its_life() {
        let keys = keys(&key(1));
        let text = keys.sign(Purpose::Cookie, "ww1", &Identity::random(), NOW);
        let known = keys.verify(Purpose::Cookie, "ww1", &text, NOW).unwrap();
        assert!(!known.is_worn(NOW + 15 * DAY_MS));
        assert!(known.is_worn(NOW + 15 * DAY_MS + 1_000));
    }

    proptest! {
        /// Whatever is changed, cut off or put on: it is refused, and nothing panics.
        #[test]
        fn nothing_else_is_accepted(place in 0..TEXT_CHARS, with in any::<char>(), cut in 0..TEXT_CHARS, junk in ".*") {
            let keys = keys(&key(1));
            let text = keys.sign(Purpose::Cookie, "ww1", &Identity::random(), NOW);
            let mut other: Vec<char> = text.chars().collect();
            other[place] = with;
            let other: String = other.into_iter().collect();
            for wrong in [other, text[..cut].to_owned(), format!("{text}{junk}A"), junk] {
                prop_assume!(wrong != text);
                prop_assert!(keys.verify(Purpose::Cookie, "ww1", &wrong, NOW).is_err());
            }
        }
    }
}
