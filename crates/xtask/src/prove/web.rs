//! How visitors reach the allocators: as a browser opens a page, and as a landing page asks the REST API. Whoever is refused
//! asks again, at the next allocator.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use allocation::{CorpId, SubjectKey};
use anyhow::Context;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use reqwest::{RequestBuilder, Response, StatusCode, header};

use crate::stage::Stage;

/// Between two tries of what was refused.
pub(super) const AGAIN: Duration = Duration::from_millis(200);
/// How long a visitor tries to reach anybody.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
const PNG: &[u8] = b"\x89PNG";

pub(super) struct Web {
    corp: CorpId,
    pub(super) http: reqwest::Client,
    pages: Vec<String>,
    pub(super) consoles: Vec<String>,
    pub(super) key: String,
    again: AtomicU64,
}

impl Web {
    pub(super) fn new(stage: &Stage) -> anyhow::Result<Self> {
        let owned = |urls: Vec<&str>| urls.into_iter().map(str::to_owned).collect();
        Ok(Self {
            corp: stage.corp.clone(),
            // Redirections are followed by hand, for the cookie.
            http: reqwest::Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .timeout(Duration::from_secs(10))
                .build()?,
            pages: owned(stage.page_urls()),
            consoles: owned(stage.consoles()),
            key: stage.key().to_owned(),
            again: AtomicU64::new(0),
        })
    }

    /// Requests that had to be sent again.
    pub(super) fn asked_again(&self) -> u64 {
        self.again.load(Relaxed)
    }

    /// Somebody whom the REST API is asked for.
    pub(super) fn subject(&self, kind: &str, id: &str) -> SubjectKey {
        SubjectKey::new(&self.corp, kind, id)
    }

    /// The way that the page shows, whichever redirections lead to it.
    pub(super) async fn load(
        &self,
        n: u64,
        page: &str,
        browser: &mut Browser,
    ) -> anyhow::Result<Option<String>> {
        let mut path = page.to_owned();
        for _ in 0..6 {
            let answer = self
                .ask(n, &self.pages, |base| {
                    browser.get(self, format!("{base}{path}"))
                })
                .await?;
            browser.keep(&answer);
            match answer.status() {
                StatusCode::SEE_OTHER => {
                    let to = answer.headers().get(header::LOCATION);
                    to.context("a redirection to nowhere")?
                        .to_str()?
                        .clone_into(&mut path);
                }
                StatusCode::OK => return Ok(way_in(&answer.text().await?)),
                other => anyhow::bail!("GET {path}: {other}"),
            }
        }
        anyhow::bail!("{page} redirects for ever")
    }

    pub(super) async fn picture(&self, n: u64, browser: &Browser, way: &str) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let answer = self
                .ask(n, &self.pages, |base| {
                    browser.get(self, format!("{base}/w/{way}.png"))
                })
                .await?;
            let status = answer.status();
            if status.is_success() {
                let bytes = answer.bytes().await?;
                anyhow::ensure!(bytes.starts_with(PNG), "/w/{way}.png is no picture");
                return Ok(());
            }
            anyhow::ensure!(begun.elapsed() < PATIENCE, "GET /w/{way}.png: {status}");
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Asks until somebody answers who is not away.
    pub(super) async fn ask(
        &self,
        n: u64,
        bases: &[String],
        request: impl Fn(&str) -> RequestBuilder,
    ) -> anyhow::Result<Response> {
        let begun = Instant::now();
        let first = usize::try_from(n)?;
        for index in first.. {
            let base = &bases[index % bases.len()];
            let failed = match request(base).send().await {
                Ok(answer) if answer.status() != StatusCode::SERVICE_UNAVAILABLE => {
                    return Ok(answer);
                }
                Ok(answer) => anyhow::anyhow!("{}", answer.status()),
                Err(error) => error.into(),
            };
            self.again.fetch_add(1, Relaxed);
            if begun.elapsed() > PATIENCE {
                return Err(failed.context(format!("{base}, for {PATIENCE:?}")));
            }
            tokio::time::sleep(AGAIN).await;
        }
        anyhow::bail!("no end")
    }
}

pub(super) struct Browser {
    address: String,
    /// As he sends it back.
    cookie: String,
}

impl Browser {
    /// Everybody has an address of his own, and no cookie yet.
    pub(super) fn new(n: u64) -> Self {
        Self {
            address: format!("10.{}.{}.{}", n >> 16 & 255, n >> 8 & 255, n & 255),
            cookie: String::new(),
        }
    }

    fn get(&self, web: &Web, url: String) -> RequestBuilder {
        let request = web.http.get(url).header("x-forwarded-for", &self.address);
        if self.cookie.is_empty() {
            request
        } else {
            request.header(header::COOKIE, &self.cookie)
        }
    }

    fn keep(&mut self, answer: &Response) {
        let cookie = answer.headers().get(header::SET_COOKIE);
        if let Some(pair) = cookie
            .and_then(|cookie| cookie.to_str().ok())
            .and_then(|cookie| cookie.split(';').next())
        {
            pair.clone_into(&mut self.cookie);
        }
    }

    /// Who he is to Paidan: the number in his cookie, behind the four bytes of the key's id.
    pub(super) fn subject(&self, web: &Web) -> anyhow::Result<SubjectKey> {
        let (_, value) = self.cookie.split_once('=').context("no cookie")?;
        let bytes = URL_SAFE_NO_PAD.decode(value)?;
        let number = bytes.get(4..20).context("a short cookie")?;
        Ok(web.subject("visitor", &hex::encode(number)))
    }
}

/// The contact way or join way whose picture the page shows.
fn way_in(html: &str) -> Option<String> {
    let (_, rest) = html.split_once("src=\"")?;
    let (path, _) = rest.split_once('"')?;
    of_path(path).map(str::to_owned)
}

pub(super) fn of_path(path: &str) -> Option<&str> {
    path.strip_prefix("/w/")?.strip_suffix(".png")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_is_in_the_address_of_the_picture() {
        let html = "<h1>Hi</h1><img class=\"qr\" src=\"/w/pv.abc234.png\" alt=\"\">";
        assert_eq!(way_in(html).as_deref(), Some("pv.abc234"));
        assert_eq!(way_in("<p>Please wait</p>"), None);
        assert_eq!(way_in("<img src=\"/logo.png\">"), None);
    }
}
