//! Messages of a webhook robot (消息推送): no token, the key in the address is the secret. At most 20 a minute
//! per key; delivered at least once, because there is no duplicate check.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use super::call::encode;
use super::http::{Call, Http};
use super::limits::Check;
use super::{CALL_LIMIT, api};
use crate::{Error, Redacted};

/// One robot.
pub struct Webhook {
    http: Http,
    key: SecretString,
}

/// What a robot says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "msgtype", rename_all = "lowercase")]
#[non_exhaustive]
pub enum WebhookMessage {
    /// Plain text.
    Text {
        /// The text.
        text: WebhookText,
    },
    /// A subset of markdown.
    Markdown {
        /// The text.
        markdown: WebhookText,
    },
}

/// The text of a robot's message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookText {
    /// At most 2048 bytes as text, 4096 as markdown.
    pub content: Redacted,
}

impl WebhookMessage {
    /// Plain text, at most 2048 bytes.
    pub fn text(content: impl Into<Redacted>) -> Self {
        Self::Text {
            text: WebhookText {
                content: content.into(),
            },
        }
    }

    /// Markdown, at most 4096 bytes.
    pub fn markdown(content: impl Into<Redacted>) -> Self {
        Self::Markdown {
            markdown: WebhookText {
                content: content.into(),
            },
        }
    }

    /// The documented limits.
    pub fn check(&self) -> Result<(), Error> {
        let (field, content, limit) = match self {
            Self::Text { text } => ("text.content", &text.content, 2048),
            Self::Markdown { markdown } => ("markdown.content", &markdown.content, 4096),
        };
        let check = Check::new(api::WEBHOOK_SEND);
        check.required(field, content.expose())?;
        check.bytes(field, content.expose(), limit)
    }
}

impl Webhook {
    /// A robot by its key.
    pub fn new(http: reqwest::Client, base_url: &str, key: SecretString) -> Result<Self, Error> {
        if key.expose_secret().is_empty() {
            return Err(Error::Config {
                field: "key",
                problem: "is empty",
            });
        }
        Ok(Self {
            http: Http::new(http, base_url, CALL_LIMIT)?,
            key,
        })
    }

    /// Says something.
    pub async fn send(&self, message: &WebhookMessage) -> Result<(), Error> {
        message.check()?;
        let body = encode(api::WEBHOOK_SEND, message)?;
        let call = Call {
            api: api::WEBHOOK_SEND,
            query: &[],
            body: Some(&body),
        };
        self.http
            .exchange(call, ("key", self.key.expose_secret()))
            .await
            .map(|_| ())
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").finish_non_exhaustive()
    }
}
