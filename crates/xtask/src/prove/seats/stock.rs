//! Groups that get into stock late. That they are opened in time is for Paidan's supply.

use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use super::Place;
use super::crowd::Crowd;
use super::house::{self, Size};
use crate::prove::web::Web;
use crate::stage::{CORP, Stage};

/// The others get into stock one after the other, when this share of the visitors has come and until all have.
const LATE_FROM: f64 = 0.66;
const LOOK: Duration = Duration::from_millis(50);

pub(super) struct Stock {
    web: Web,
    sim_url: String,
    size: Size,
}

impl Stock {
    pub(super) fn new(stage: &Stage, size: Size) -> anyhow::Result<Self> {
        Ok(Self {
            web: Web::new(stage)?,
            sim_url: stage.sim_url.clone(),
            size,
        })
    }

    /// Members make the last groups one after the other. Answers only when that is not possible any more.
    pub(super) async fn fetch(&self, crowd: &Crowd, visitors: u64) -> anyhow::Error {
        match self.try_fetch(crowd, visitors).await {
            Ok(()) => std::future::pending().await,
            Err(error) => error,
        }
    }

    async fn try_fetch(&self, crowd: &Crowd, visitors: u64) -> anyhow::Result<()> {
        let there = (self.size.open() + self.size.stock()) as u64;
        let all = self.size.groups as u64;
        for n in there..all {
            let share = (n - there + 1) as f64 / (all - there) as f64;
            let share = LATE_FROM + (1.0 - LATE_FROM) * share;
            while (crowd.came() as f64) < visitors as f64 * share {
                tokio::time::sleep(LOOK).await;
            }
            for place in Place::ALL {
                let made = self.web.http.post(format!("{}/sim/groups", self.sim_url));
                let made = made.json(&house::new_group(n, place)).send().await?;
                let made: Value = made.error_for_status()?.json().await?;
                let chat = made["chat_ids"][0].as_str().context("no group was made")?;
                self.put(chat, n, place).await?;
            }
        }
        Ok(())
    }

    async fn put(&self, chat: &str, n: u64, place: Place) -> anyhow::Result<()> {
        let body = house::put_group(n, place, "spare");
        let answer = self
            .web
            .ask(n, &self.web.consoles, |base| {
                let url = format!("{base}/api/v1/corps/{CORP}/groups/{chat}");
                self.web
                    .http
                    .put(url)
                    .bearer_auth(&self.web.key)
                    .json(&body)
            })
            .await?;
        answer.error_for_status()?;
        Ok(())
    }
}
