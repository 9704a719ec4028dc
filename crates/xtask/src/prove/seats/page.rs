//! A visitor asks for a seat: he opens the campaign's page, as a browser does, or a landing page asks the REST API for him.

use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::crowd::{Came, Crowd, Shown, customer, unionid};
use super::{HOLD, Place};
use crate::prove::web::{Browser, of_path};
use crate::stage::CORP;

/// Whoever waits, or sees no code yet, looks again.
const LOOK: Duration = Duration::from_millis(1_500);
/// How long he waits for a seat: longer than others hold theirs.
const WAITS: Duration = HOLD.saturating_mul(2);

/// How he asks.
enum Door {
    Page(Browser),
    /// By which of his ids he is named.
    Rest(&'static str, String),
}

pub(super) struct Visitor {
    door: Door,
    /// The next one comes in when he has his first answer.
    place: Option<OwnedSemaphorePermit>,
}

impl Visitor {
    pub(super) fn new(n: u64, place: OwnedSemaphorePermit) -> Self {
        let door = match (n % 2, n % 8 < 4) {
            (0, _) => Door::Page(Browser::new(n)),
            (_, true) => Door::Rest("unionid", unionid(n)),
            (_, false) => Door::Rest("external_id", customer(n)),
        };
        Self {
            door,
            place: Some(place),
        }
    }
}

/// Nothing names him to WeCom.
pub(super) fn is_anonymous(n: u64) -> bool {
    n.is_multiple_of(2)
}

impl Crowd {
    /// The code that he is shown; None: he waited in vain.
    pub(super) async fn sees(
        &self,
        came: &mut Came,
        visitor: &mut Visitor,
    ) -> anyhow::Result<Option<Shown>> {
        let begun = Instant::now();
        loop {
            let asked = Instant::now();
            let seen = self.asks(came.n, came.place, &mut visitor.door).await?;
            self.answered(asked);
            if visitor.place.take().is_some() {
                self.has_first_answer();
            }
            if seen.is_some() {
                return Ok(seen);
            }
            came.waited = true;
            if begun.elapsed() > WAITS {
                return Ok(None);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// None: he is to wait, or the code is not there yet.
    async fn asks(&self, n: u64, place: Place, door: &mut Door) -> anyhow::Result<Option<Shown>> {
        match door {
            Door::Page(browser) => self.loads(n, place, browser).await,
            Door::Rest(kind, id) => self.posts(n, place, kind, id).await,
        }
    }

    async fn loads(
        &self,
        n: u64,
        place: Place,
        browser: &mut Browser,
    ) -> anyhow::Result<Option<Shown>> {
        let page = format!("/g/{}", self.code(place));
        let Some(way) = self.web.load(n, &page, browser).await? else {
            return Ok(None);
        };
        let at = Instant::now();
        self.web.picture(n, browser, &way).await?;
        let (config, chat) = self.behind(&way).await?;
        Ok(Some(Shown {
            visitor: browser.subject(&self.web)?,
            config,
            chat,
            at,
        }))
    }

    /// What the picture leads to.
    async fn behind(&self, way: &str) -> anyhow::Result<(String, String)> {
        let row: (String, Vec<String>) =
            sqlx::query_as("SELECT config_id, told_chats FROM join_ways WHERE way = $1")
                .bind(way)
                .fetch_one(&self.ledger)
                .await?;
        let chat = row.1.into_iter().next().context("a way into no group")?;
        Ok((row.0, chat))
    }

    async fn posts(
        &self,
        n: u64,
        place: Place,
        kind: &str,
        id: &str,
    ) -> anyhow::Result<Option<Shown>> {
        let body = json!({"visitor": {"kind": kind, "id": id}});
        let path = format!("/api/v1/corps/{CORP}/campaigns/{}/seats", place.name());
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
        let (Some(picture), Some(chat)) = (view["picture"].as_str(), view["chat_id"].as_str())
        else {
            return Ok(None);
        };
        let at = Instant::now();
        let way = of_path(picture).context("the picture's path")?;
        let (config, leads_to) = self.behind(way).await?;
        anyhow::ensure!(leads_to == chat, "{way} leads to {leads_to}, not to {chat}");
        let kind = if kind == "external_id" { "wecom" } else { kind };
        Ok(Some(Shown {
            visitor: self.web.subject(kind, id),
            config,
            chat: chat.to_owned(),
            at,
        }))
    }
}
