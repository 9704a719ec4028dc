//! WeCom (企业微信) as a library: callbacks on one side, the server API on the other.
//!
//! - [`envelope`]: the query string and the XML around a ciphertext.
//! - [`crypto`]: signature, decryption, encryption.
//! - [`event`]: typed events from the decrypted message.
//! - [`client`]: typed API calls, token included. [`error`]: what can be done about a failed one.
//!
//! It knows no web framework and no store, and reads the clock only where the caller gives it none. "Page
//! 90968" in these docs means `https://developer.work.weixin.qq.com/document/path/90968`.

#![warn(missing_docs)]

pub mod client;
pub mod crypto;
pub mod envelope;
pub mod error;
pub mod event;
#[cfg(feature = "measure")]
#[doc(hidden)]
pub mod measure;
mod redacted;
mod xml;

pub use error::Error;
pub use redacted::Redacted;
pub use xml::{MAX_BYTES, MAX_DEPTH, XmlError};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
