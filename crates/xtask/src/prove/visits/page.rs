//! A visitor opens a page, as a browser does, or through a landing page that asks the REST API for him.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::crowd::{Crowd, Shown};
use super::{HOLD, Place};
use crate::prove::web::{Browser, of_path};
use crate::stage::CORP;

/// Whoever waits, or sees no code yet, looks again.
const LOOK: Duration = Duration::from_millis(1_500);
/// How long he waits for a member.
const WAITS: Duration = HOLD;

impl Crowd {
    /// What the page shows; None: he waited in vain. Others come in when he has an answer, be it to wait.
    pub(super) async fn by_page(
        &self,
        n: u64,
        place: Place,
        door: OwnedSemaphorePermit,
    ) -> anyhow::Result<Option<Shown>> {
        let mut door = Some(door);
        let mut browser = Browser::new(n);
        let page = format!("/c/{}", self.code(place));
        let begun = Instant::now();
        loop {
            let Some(way) = self.web.load(n, &page, &mut browser).await? else {
                door.take();
                if begun.elapsed() > WAITS {
                    return Ok(None);
                }
                tokio::time::sleep(LOOK).await;
                continue;
            };
            let shown = Shown {
                visitor: browser.subject(&self.web)?,
                way,
                at: Instant::now(),
            };
            self.web.picture(n, &browser, &shown.way).await?;
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
            if let Some(way) = self.web.load(n, page, browser).await? {
                let first = &shown.way;
                anyhow::ensure!(way == *first, "visitor {n} saw {first}, then {way}");
                return Ok(());
            }
            self.without_code.fetch_add(1, Relaxed);
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
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
                .web
                .ask(n, &self.web.consoles, |base| {
                    let request = self.web.http.post(format!("{base}{path}"));
                    request.bearer_auth(&self.web.key).json(&body)
                })
                .await?;
            let status = answer.status();
            let view: Value = answer.json().await.unwrap_or_default();
            anyhow::ensure!(status.is_success(), "POST {path}: {status} {view}");
            if let Some(picture) = view["picture"].as_str() {
                return Ok(Some(Shown {
                    visitor: self.web.subject("unionid", &id),
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
}
