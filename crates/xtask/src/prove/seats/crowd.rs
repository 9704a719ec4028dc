//! The visitors: what each of them means to do, and what he did.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use allocation::SubjectKey;
use anyhow::Context;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, sleep};

use super::page::Visitor;
use super::{HOLD, Place, Size};
use crate::prove::web::Web;
use crate::stage::Stage;

/// Visitors who have no answer yet.
const AT_ONCE: usize = 96;
/// Times that somebody scans whom WeCom refuses because the group is full, and how long he waits in between.
const SCANS: u32 = 20;
const SCAN_AGAIN: Duration = Duration::from_millis(1_500);

/// What a visitor means to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Intent {
    /// Scans while the seat is held for him.
    InTime,
    /// Scans when his hold is over.
    Late,
    /// Somebody in the group brings him, and a friend.
    Invited,
    Never,
}

impl Intent {
    /// Three in ten never join; of the others 5 in a hundred are late and 3 are brought.
    fn of(chance: f64) -> Self {
        match chance {
            chance if chance < 0.3 => Self::Never,
            chance if chance < 0.335 => Self::Late,
            chance if chance < 0.356 => Self::Invited,
            _ => Self::InTime,
        }
    }
}

/// The code of a group that a visitor sees.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    /// He himself, as Paidan names him.
    pub(super) visitor: SubjectKey,
    /// Of the join way.
    pub(super) config: String,
    pub(super) chat: String,
    /// The hold ends at most its time later.
    pub(super) at: Instant,
}

/// What became of a visitor, as he tells it.
#[derive(Debug)]
pub(super) struct Came {
    pub(super) n: u64,
    pub(super) place: Place,
    /// What he saw first; None: he waited in vain, or `failed`.
    pub(super) shown: Option<Shown>,
    /// He was shown another group than at first.
    pub(super) moved: bool,
    /// He was in the waiting room.
    pub(super) waited: bool,
    pub(super) joined: Option<Joined>,
    /// Codes that let him in no more.
    pub(super) refused: u32,
    /// He saw an error.
    pub(super) failed: Option<String>,
}

/// He came into a group.
#[derive(Debug)]
pub(super) struct Joined {
    /// As WeCom names him.
    pub(super) customer: String,
    pub(super) chat: String,
    /// By a code; or else somebody brought him, and this friend.
    pub(super) friend: Option<String>,
    pub(super) late: bool,
    /// And out again.
    pub(super) left: bool,
}

pub(super) struct Crowd {
    pub(super) web: Web,
    pub(super) ledger: sqlx::PgPool,
    codes: [String; 2],
    sim_url: String,
    seed: u64,
    begun: Instant,
    n_came: AtomicU64,
    answers: Mutex<Vec<(Instant, Instant)>>,
    answered: Mutex<Duration>,
}

/// As WeCom names a visitor.
pub(super) fn customer(n: u64) -> String {
    format!("wmVisitor{n}")
}

pub(super) fn unionid(n: u64) -> String {
    format!("oVisitor{n}")
}

impl Crowd {
    pub(super) fn new(stage: &Stage, codes: [String; 2], seed: u64) -> anyhow::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            web: Web::new(stage)?,
            ledger: stage.ledger.pool().clone(),
            codes,
            sim_url: stage.sim_url.clone(),
            seed,
            begun: Instant::now(),
            n_came: AtomicU64::new(0),
            answers: Mutex::default(),
            answered: Mutex::default(),
        }))
    }

    pub(super) fn code(&self, place: Place) -> &str {
        let [spring, summer] = &self.codes;
        match place {
            Place::Spring => spring,
            Place::Summer => summer,
        }
    }

    /// How many have come.
    pub(super) fn came(&self) -> u64 {
        self.n_came.load(Relaxed)
    }

    /// Of all who asked, when they did and when they had an answer.
    pub(super) fn answers(&self) -> Vec<(Instant, Instant)> {
        let answers = self.answers.lock();
        answers.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Somebody has an answer.
    pub(super) fn answered(&self, asked: Instant) {
        let answers = self.answers.lock();
        let mut answers = answers.unwrap_or_else(PoisonError::into_inner);
        answers.push((asked, Instant::now()));
    }

    /// How long it took until the last visitor had his first answer.
    pub(super) fn all_answered_after(&self) -> Duration {
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long ago somebody had his first answer.
    pub(super) fn answered_since(&self) -> Duration {
        self.begun
            .elapsed()
            .saturating_sub(self.all_answered_after())
    }

    pub(super) fn has_first_answer(&self) {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        *answered = (*answered).max(self.begun.elapsed());
    }

    /// All come, one after the other, and do what they mean to.
    pub(super) async fn everybody(self: &Arc<Self>, visitors: u64) -> anyhow::Result<Vec<Came>> {
        let pace = Size::of(visitors).pace;
        let mut pace = tokio::time::interval(Duration::from_secs(1) / pace);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let doors = Arc::new(Semaphore::new(AT_ONCE));
        let mut visits = JoinSet::new();
        let mut came = Vec::new();
        for n in 0..visitors {
            pace.tick().await;
            let door = Arc::clone(&doors).acquire_owned().await?;
            let crowd = Arc::clone(self);
            self.n_came.fetch_add(1, Relaxed);
            visits.spawn(async move {
                let mut came = Came {
                    n,
                    place: Place::of(n),
                    shown: None,
                    moved: false,
                    waited: false,
                    joined: None,
                    refused: 0,
                    failed: None,
                };
                let mut visitor = Visitor::new(n, door);
                if let Err(error) = crowd.comes(&mut came, &mut visitor).await {
                    came.failed = Some(format!("{error:#}"));
                }
                came
            });
            while let Some(done) = visits.try_join_next() {
                came.push(done?);
            }
        }
        while let Some(done) = visits.join_next().await {
            came.push(done?);
        }
        Ok(came)
    }

    async fn comes(&self, came: &mut Came, visitor: &mut Visitor) -> anyhow::Result<()> {
        let Some(first) = self.sees(came, visitor).await? else {
            return Ok(());
        };
        came.shown = Some(first.clone());
        let n = came.n;
        if n.is_multiple_of(10)
            && let Some(again) = self.sees(came, visitor).await?
        {
            came.moved = again.chat != first.chat;
        }
        let mut random = StdRng::seed_from_u64(self.seed ^ (n << 20));
        let intent = Intent::of(random.random_range(0.0..1.0));
        let pause = match intent {
            Intent::Never => return Ok(()),
            Intent::InTime | Intent::Invited => random.random_range(300..6_000),
            Intent::Late => {
                let left = HOLD.saturating_sub(first.at.elapsed());
                left.as_millis() as u64 + random.random_range(1_500..5_000)
            }
        };
        sleep(Duration::from_millis(pause)).await;
        came.joined = match intent {
            Intent::Invited => self.is_brought(n, &first).await?,
            _ => {
                let late = intent == Intent::Late;
                self.scans(came, visitor, first, late).await?
            }
        };
        if let Some(joined) = &mut came.joined
            && random.random_range(0.0..1.0) < 0.02
        {
            sleep(Duration::from_millis(random.random_range(500..4_000))).await;
            let body = json!({"chat_id": joined.chat, "people": [joined.customer]});
            self.sim("groups/leave", &body).await?;
            joined.left = true;
        }
        Ok(())
    }

    /// Where WeCom lets nobody in any more, he asks again.
    async fn scans(
        &self,
        came: &mut Came,
        visitor: &mut Visitor,
        first: Shown,
        late: bool,
    ) -> anyhow::Result<Option<Joined>> {
        let mut shown = first;
        let customer = customer(came.n);
        let person = json!({"customer": customer, "unionid": unionid(came.n)});
        for _ in 0..SCANS {
            let body = json!({"config_id": shown.config, "people": [person]});
            let reply = self.sim("groups/scan", &body).await?;
            let join = &reply["joins"][0];
            match join["outcome"].as_str() {
                Some("joined") => {
                    let chat = join["chat_id"].as_str().unwrap_or_default().to_owned();
                    return Ok(Some(Joined {
                        customer,
                        chat,
                        friend: None,
                        late,
                        left: false,
                    }));
                }
                Some("full") => came.refused += 1,
                _ => anyhow::bail!("a scan of {}: {reply}", shown.config),
            }
            sleep(SCAN_AGAIN).await;
            let Some(other) = self.sees(came, visitor).await? else {
                return Ok(None);
            };
            came.moved |= other.chat != shown.chat;
            shown = other;
        }
        Ok(None)
    }

    async fn is_brought(&self, n: u64, shown: &Shown) -> anyhow::Result<Option<Joined>> {
        let (customer, friend) = (customer(n), format!("wmFriend{n}"));
        let people = json!([
            {"customer": customer, "unionid": unionid(n)},
            {"customer": friend, "unionid": format!("oFriend{n}")},
        ]);
        let body = json!({"chat_id": shown.chat, "people": people});
        let reply = self.sim("groups/invite", &body).await?;
        let joins = reply["joins"].as_array().context("no joins")?;
        let all = joins.iter().all(|join| join["outcome"] == "joined");
        anyhow::ensure!(all, "{customer} was not let in: {reply}");
        Ok(Some(Joined {
            customer,
            chat: shown.chat.clone(),
            friend: Some(friend),
            late: false,
            left: false,
        }))
    }

    async fn sim(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let answer = self.web.http.post(format!("{}/sim/{path}", self.sim_url));
        let answer = answer.json(body).send().await?;
        let status = answer.status();
        let text = answer.text().await?;
        anyhow::ensure!(status.is_success(), "POST /sim/{path}: {status} {text}");
        Ok(serde_json::from_str(&text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intents_have_their_parts() {
        let mut counts = [0; 4];
        for n in 0..100_000 {
            let intent = Intent::of(f64::from(n) / 100_000.0);
            counts[intent as usize] += 1;
        }
        for (count, wanted) in counts.into_iter().zip([64_400, 3_500, 2_100, 30_000]) {
            assert!(i32::abs(count - wanted) <= 5, "{counts:?}");
        }
    }
}
