//! The visitors, and the members who come and go meanwhile.

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

use super::{HOLD, PACE, Place, house};
use crate::prove::web::Web;
use crate::stage::{CORP, Stage};

/// Pages that are being opened at once.
const AT_ONCE: usize = 64;
const CHANGE_EVERY: Duration = Duration::from_millis(500);
/// Once in so many changes, first at the fourth, nobody of `rush` is there for a moment, and its visitors wait.
const NOBODY_EVERY: u64 = 40;
const NOBODY_FIRST: u64 = 4;
const NOBODY_FOR: Duration = Duration::from_secs(2);

/// What a visitor means to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Intent {
    /// Adds the member while he is held for him.
    InTime,
    /// Adds him when his hold is over.
    Late,
    /// Adds somebody else, who shows him his own code.
    Other,
    Never,
}

impl Intent {
    /// 70, 10, 3 and 17 in 100 over both pages. Whoever adds somebody else moves shares, so in `sales` nobody does.
    fn of(place: Place, chance: f64) -> Self {
        let others = match place {
            Place::Sales => 0.0,
            Place::Rush => 0.03 / Place::Rush.part(),
        };
        match chance {
            chance if chance < 0.7 => Self::InTime,
            chance if chance < 0.8 => Self::Late,
            chance if chance < 0.8 + others => Self::Other,
            _ => Self::Never,
        }
    }
}

/// What a visitor sees.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    /// He himself, as Paidan names him.
    pub(super) visitor: SubjectKey,
    /// State of the way whose picture he sees.
    pub(super) way: String,
    /// The hold ends at most its time later.
    pub(super) at: Instant,
}

/// What became of a visitor, as he tells it.
#[derive(Debug)]
pub(super) struct Came {
    /// None: he waited in vain.
    pub(super) shown: Option<Shown>,
    pub(super) added: Option<Added>,
}

#[derive(Debug)]
pub(super) struct Added {
    /// The visitor, as WeCom names him.
    pub(super) customer: String,
    pub(super) member: String,
}

pub(super) struct Crowd {
    pub(super) web: Web,
    pub(super) without_code: AtomicU64,
    codes: [String; 2],
    sim_url: String,
    seed: u64,
    begun: Instant,
    opened: Mutex<Duration>,
}

impl Crowd {
    pub(super) fn new(stage: &Stage, codes: [String; 2], seed: u64) -> anyhow::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            web: Web::new(stage)?,
            without_code: AtomicU64::new(0),
            codes,
            sim_url: stage.sim_url.clone(),
            seed,
            begun: Instant::now(),
            opened: Mutex::default(),
        }))
    }

    pub(super) fn code(&self, place: Place) -> &str {
        let [sales, rush] = &self.codes;
        match place {
            Place::Sales => sales,
            Place::Rush => rush,
        }
    }

    /// Requests that had to be sent again.
    pub(super) fn asked_again(&self) -> u64 {
        self.web.asked_again()
    }

    /// Pages without a code, of visitors who had seen theirs.
    pub(super) fn without_code(&self) -> u64 {
        self.without_code.load(Relaxed)
    }

    /// How long it took until the last visitor saw his page.
    pub(super) fn all_opened_after(&self) -> Duration {
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All come, one after the other, and do what they mean to.
    pub(super) async fn everybody(self: &Arc<Self>, visits: u64) -> anyhow::Result<Vec<Came>> {
        let mut pace = tokio::time::interval(Duration::from_secs(1) / PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let doors = Arc::new(Semaphore::new(AT_ONCE));
        let mut visitors = JoinSet::new();
        let mut came = Vec::new();
        for n in 0..visits {
            pace.tick().await;
            let door = Arc::clone(&doors).acquire_owned().await?;
            let crowd = Arc::clone(self);
            visitors.spawn(async move {
                let place = Place::of(n);
                let opened = if n.is_multiple_of(2) {
                    crowd.by_page(n, place, door).await
                } else {
                    crowd.by_rest(n, place, door).await
                };
                crowd.took();
                crowd
                    .goes_on(n, place, opened?)
                    .await
                    .with_context(|| format!("visitor {n} of {}", place.name()))
            });
            while let Some(done) = visitors.try_join_next() {
                came.push(done??);
            }
        }
        while let Some(done) = visitors.join_next().await {
            came.push(done??);
        }
        Ok(came)
    }

    fn took(&self) {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        *opened = (*opened).max(self.begun.elapsed());
    }

    /// With what he sees.
    async fn goes_on(&self, n: u64, place: Place, shown: Option<Shown>) -> anyhow::Result<Came> {
        let Some(shown) = shown else {
            return Ok(Came {
                shown: None,
                added: None,
            });
        };
        let mut random = StdRng::seed_from_u64(self.seed ^ (n << 20));
        let intent = Intent::of(place, random.random_range(0.0..1.0));
        let others = house::steady();
        let other =
            (intent == Intent::Other).then(|| others[random.random_range(0..others.len())].clone());
        let pause = match intent {
            Intent::InTime | Intent::Other => random.random_range(300..6_000),
            Intent::Late => {
                let left = HOLD.saturating_sub(shown.at.elapsed());
                left.as_millis() as u64 + random.random_range(1_500..4_000)
            }
            Intent::Never => {
                return Ok(Came {
                    shown: Some(shown),
                    added: None,
                });
            }
        };
        sleep(Duration::from_millis(pause)).await;
        let customer = format!("wmVisitor{n}");
        let member = self.scan(&customer, &shown.way, other).await?;
        Ok(Came {
            shown: Some(shown),
            added: Some(Added { customer, member }),
        })
    }

    /// Answers the member whom he has now.
    async fn scan(
        &self,
        customer: &str,
        way: &str,
        other: Option<String>,
    ) -> anyhow::Result<String> {
        let body = json!({"state": way, "customer": customer, "member": other});
        let answer = self.web.http.post(format!("{}/sim/scan", self.sim_url));
        let answer = answer.json(&body).send().await?.error_for_status()?;
        let reply: Value = answer.json().await?;
        let scan = &reply["scans"][0];
        anyhow::ensure!(scan["outcome"] == "added", "a scan of {way}: {reply}");
        let member = scan["member"].as_str().context("nobody was added")?;
        Ok(member.to_owned())
    }

    /// Members of `rush` come and go, until the crowd is gone. Answers only when that is not possible any more.
    pub(super) async fn churn(&self) -> anyhow::Error {
        match self.change().await {
            Ok(never) => match never {},
            Err(error) => error.context("presence"),
        }
    }

    async fn change(&self) -> anyhow::Result<std::convert::Infallible> {
        let mut random = StdRng::seed_from_u64(self.seed);
        let restless = house::restless();
        let mut off = vec![false; restless.len()];
        for number in 1.. {
            sleep(CHANGE_EVERY).await;
            if number % NOBODY_EVERY == NOBODY_FIRST {
                self.presence(&house::off(&house::rush_members())).await?;
                sleep(NOBODY_FOR).await;
                self.everybody_on().await?;
                off.fill(false);
                continue;
            }
            let index = random.random_range(0..restless.len());
            off[index] = !off[index];
            let one = &restless[index..=index];
            let change = if off[index] {
                house::off(one)
            } else {
                house::on(one)
            };
            self.presence(&change).await?;
        }
        anyhow::bail!("no end")
    }

    /// Everybody of `rush`.
    pub(super) async fn everybody_on(&self) -> anyhow::Result<()> {
        self.presence(&house::on(&house::rush_members())).await
    }

    async fn presence(&self, change: &Value) -> anyhow::Result<()> {
        let answer = self
            .web
            .ask(0, &self.web.consoles, |base| {
                let request = self
                    .web
                    .http
                    .put(format!("{base}/api/v1/corps/{CORP}/presence"));
                request.bearer_auth(&self.web.key).json(change)
            })
            .await?;
        answer.error_for_status()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intents_have_their_parts() {
        let mut counts = [0; 4];
        for n in 0..100_000_u64 {
            let intent = Intent::of(Place::of(n), (n / 5) as f64 / 20_000.0);
            counts[intent as usize] += 1;
        }
        for (count, wanted) in counts.into_iter().zip([70_000, 10_000, 3_000, 17_000]) {
            assert!(i32::abs(count - wanted) <= 5, "{counts:?}");
        }
    }
}
