//! The page as HTML: one file, nothing from elsewhere but the picture. It is XML as well, so that a test can say whether
//! it is whole.

use askama::Template;
use axum::http::StatusCode;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

use super::text::Language;

/// A QR code.
#[derive(Debug)]
pub(super) struct Code {
    pub(super) source: String,
    pub(super) alt: String,
}

/// A page whose state may change while it is looked at.
#[derive(Debug)]
pub(super) struct Watch {
    /// Where that is asked.
    pub(super) status: String,
    /// What the page shows, as the status names it.
    pub(super) seen: String,
    /// Seconds until it ends by itself, and until it is asked first.
    pub(super) left_s: u64,
    pub(super) pause_s: u64,
    /// What it says then, and on its button.
    pub(super) over: &'static str,
    pub(super) again: &'static str,
}

/// Leads on with `v`.
#[derive(Debug)]
pub(super) struct Button {
    pub(super) action: String,
    pub(super) v: String,
    pub(super) text: &'static str,
}

#[derive(Debug, Template)]
#[template(path = "page.html")]
pub(super) struct Page {
    pub(super) language: Language,
    pub(super) nonce: String,
    pub(super) title: String,
    pub(super) heading: String,
    pub(super) lines: Vec<String>,
    /// A sign that all is well.
    pub(super) done: bool,
    pub(super) code: Option<Code>,
    pub(super) watch: Option<Watch>,
    pub(super) button: Option<Button>,
    /// The page comes again after so many seconds; of one that is watched, only where there are no scripts.
    pub(super) refresh: Option<u64>,
    /// This page's own address.
    pub(super) next: String,
    /// The same in the other language.
    pub(super) other: String,
}

impl Page {
    pub(super) fn new(language: Language, heading: impl Into<String>) -> Self {
        Self {
            language,
            nonce: URL_SAFE_NO_PAD.encode(rand::random::<[u8; 16]>()),
            title: language.texts().untitled.to_owned(),
            heading: heading.into(),
            lines: Vec::new(),
            done: false,
            code: None,
            watch: None,
            button: None,
            refresh: None,
            next: String::new(),
            other: format!("?lang={}", language.other().code()),
        }
    }

    pub(super) fn line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// What a browser may load and run for it: its own style and script, pictures and answers from here.
    pub(super) fn policy(&self) -> String {
        format!(
            "default-src 'none'; style-src 'nonce-{0}'; script-src 'nonce-{0}'; img-src 'self'; connect-src 'self'; \
             form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
            self.nonce
        )
    }
}

/// A page and its status.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) page: Page,
    /// Seconds, for `Retry-After`.
    pub(super) retry_s: Option<u64>,
}

impl Answer {
    pub(super) fn new(status: StatusCode, page: Page) -> Self {
        Self {
            status,
            page,
            retry_s: None,
        }
    }

    /// Comes again by itself.
    pub(super) fn again_in(mut self, seconds: u64) -> Self {
        self.retry_s = Some(seconds);
        self.page.refresh = Some(seconds);
        self
    }
}
