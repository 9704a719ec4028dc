//! A visitor opens a page, as a browser does, or through a landing page that asks the REST API for him. Whoever is refused
//! asks again, at the next allocator.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use allocation::SubjectKey;
use anyhow::Context;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use reqwest::{RequestBuilder, Response, StatusCode, header};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::crowd::{Crowd, Shown};
use super::{HOLD, Place};
use crate::stage::CORP;

/// Between two tries of what was refused.
const AGAIN: Duration = Duration::from_millis(200);
/// Whoever waits, or sees no code yet, looks again.
const LOOK: Duration = Duration::from_millis(1_500);
/// How long a visitor tries to reach anybody.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long he waits for a member.
const WAITS: Duration = HOLD;
const PNG: &[u8] = b"\x89PNG";

impl Crowd {
    /// What the page shows; None: he waited in vain. Others come in when he has an answer, be it to wait.
    pub(super) async fn by_page(
        &self,
        n: u64,
        place: Place,
        door: OwnedSemaphorePermit,
    ) -> anyhow::Result<Option<Shown>> {
        let mut door = Some(door);
        let mut browser = Browser {
            // Everybody has an address of his own.
            address: format!("10.{}.{}.{}", n >> 16 & 255, n >> 8 & 255, n & 255),
            cookie: String::new(),
        };
        let page = format!("/c/{}", self.code(place));
        let begun = Instant::now();
        loop {
            let Some(way) = self.load(n, &page, &mut browser).await? else {
                door.take();
                if begun.elapsed() > WAITS {
                    return Ok(None);
                }
                tokio::time::sleep(LOOK).await;
                continue;
            };
            let shown = Shown {
                visitor: browser.subject(self)?,
                way,
                at: Instant::now(),
            };
            self.picture(n, &browser, &shown.way).await?;
            if n.is_multiple_of(10) {
                self.reload(n, &page, &mut browser, &shown).await?;
            }
            return Ok(Some(shown));
        }
    }

    /// A reload is the same answer. An allocator that started a moment ago may not know the way yet: its page has no code.
    async fn reload(
        &self,
        n: u64,
        page: &str,
        browser: &mut Browser,
        shown: &Shown,
    ) -> anyhow::Result<()> {
        while shown.at.elapsed() < HOLD / 2 {
            if let Some(way) = self.load(n, page, browser).await? {
                let first = &shown.way;
                anyhow::ensure!(way == *first, "visitor {n} saw {first}, then {way}");
                return Ok(());
            }
            self.without_code.fetch_add(1, Relaxed);
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// The way that the page shows, whichever redirections lead to it.
    async fn load(
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

    async fn picture(&self, n: u64, browser: &Browser, way: &str) -> anyhow::Result<()> {
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

    pub(super) async fn by_rest(
        &self,
        n: u64,
        place: Place,
        door: OwnedSemaphorePermit,
    ) -> anyhow::Result<Option<Shown>> {
        let mut door = Some(door);
        let id = format!("oVisitor{n}");
        let body = json!({"visitor": {"kind": "unionid", "id": id}});
        let path = format!("/api/v1/corps/{CORP}/channels/{}/visits", place.name());
        let begun = Instant::now();
        loop {
            let answer = self
                .ask(n, &self.consoles, |base| {
                    let request = self.http.post(format!("{base}{path}"));
                    request.bearer_auth(&self.key).json(&body)
                })
                .await?;
            let status = answer.status();
            let view: Value = answer.json().await.unwrap_or_default();
            anyhow::ensure!(status.is_success(), "POST {path}: {status} {view}");
            if let Some(picture) = view["picture"].as_str() {
                return Ok(Some(Shown {
                    visitor: SubjectKey::new(&self.corp, "unionid", &id),
                    way: of_path(picture).context("the picture's path")?.to_owned(),
                    at: Instant::now(),
                }));
            }
            door.take();
            if begun.elapsed() > WAITS {
                return Ok(None);
            }
            tokio::time::sleep(LOOK).await;
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

struct Browser {
    address: String,
    /// As he sends it back.
    cookie: String,
}

impl Browser {
    fn get(&self, crowd: &Crowd, url: String) -> RequestBuilder {
        let request = crowd.http.get(url).header("x-forwarded-for", &self.address);
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
    fn subject(&self, crowd: &Crowd) -> anyhow::Result<SubjectKey> {
        let (_, value) = self.cookie.split_once('=').context("no cookie")?;
        let bytes = URL_SAFE_NO_PAD.decode(value)?;
        let number = bytes.get(4..20).context("a short cookie")?;
        Ok(SubjectKey::new(
            &crowd.corp,
            "visitor",
            &hex::encode(number),
        ))
    }
}

/// The contact way whose picture the page shows.
fn way_in(html: &str) -> Option<String> {
    let (_, rest) = html.split_once("src=\"")?;
    let (path, _) = rest.split_once('"')?;
    of_path(path).map(str::to_owned)
}

fn of_path(path: &str) -> Option<&str> {
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
