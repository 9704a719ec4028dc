//! Contact ways of channels with a public page, made at WeCom ahead of the visitors: for every member of the channel's pool
//! (whatever his weight, unless he is blocked) so many slots, which holds borrow one by one, and one plain way.
//!
//! | step | takes → gives | what makes it safe |
//! |---|---|---|
//! | plan | channels, pools, members → wanted rows; superfluous ones retire | one planner a corp; a limit for the corp |
//! | [`ask`] | wanted row → `add_contact_way` → `config_id` | the intent is written before the call; an answer names its try |
//! | [`adopt`] | row without an answer → `list_contact_way` → adopted, or wanted again | never asked again before a whole list that was made late enough does not have its State |
//! | [`picture`] | made row → its picture → ready | bounded in size, type and time; nobody is shown a way without one |
//! | [`tell`] | ready and retiring slots → roster | told again to every generation; telling twice is telling once |
//! | [`retire`] | rested row → `del_contact_way` → gone | out of the roster first; deleting twice is deleting once |
//!
//! Every allocator runs it: rows are leased, so two never do the same. Each keeps in memory what visits need of it: whose the
//! ways are, and who has none because WeCom refuses one ([`Wayless`]).

pub mod adopt;
pub mod ask;
mod passed_over;
pub mod picture;
pub mod retire;
pub mod tell;
mod unshown;
pub(crate) mod verdict;
mod ways;

use std::{sync::Arc, time::Duration};

use allocation::CorpId;
use ledger::{PlanLimits, WayCount, WayKind, WayState};
use metrics::gauge;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use passed_over::Wayless;
pub use unshown::Unshown;
pub(crate) use ways::refresh;
pub use ways::{Owner, Picture, Ways, picture_of, picture_path};

use crate::{
    app::{App, CorpApp},
    backoff::{Backoff, sleep},
    faults::with_causes,
};

/// Plans without a change of configuration: for what failed long ago, and for what another process's plan left.
const PLAN_EVERY_MS: u64 = 30_000;
/// New rows of one plan.
const PLAN_BATCH: usize = 2_000;
const COUNT_EVERY_MS: u64 = 15_000;
/// How long the steps of one turn go on before everything is looked at anew.
const TURN: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("ledger")]
    Ledger(#[from] ledger::Error),
    #[error("roster")]
    Roster(#[from] roster::Error),
    #[error("a slot's id")]
    Id(#[from] allocation::Error),
}

/// Provisions until the program stops.
pub async fn run(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    let pictures = match picture::http() {
        Ok(http) => http,
        Err(error) => {
            tracing::error!(corp = %corp.id, error = %error, "pictures of contact ways cannot be fetched");
            return;
        }
    };
    let pause = Duration::from_millis(app.config.visits.poll_ms);
    let mut here = Here::default();
    let mut backoff = Backoff::store();
    while !stop.is_cancelled() {
        match here.turn(&app, &corp, &pictures, &stop).await {
            Ok(()) => {
                backoff.reset();
                sleep(pause, &stop).await;
            }
            Err(error) => {
                if matches!(error, Error::Roster(roster::Error::NotReady)) {
                    corp.not_ready.notify_one();
                } else {
                    tracing::warn!(corp = %corp.id, error = %with_causes(&error), "contact ways wait");
                }
                backoff.wait(&stop).await;
            }
        }
    }
}

/// What this process saw last.
#[derive(Debug, Default)]
struct Here {
    /// Configuration at the last plan.
    mark: String,
    plan_at_ms: u64,
    count_at_ms: u64,
    /// No channel has a page and no row is left.
    idle: bool,
    refused: u64,
    paused: bool,
    seen: adopt::Seen,
    wayless: passed_over::Here,
}

impl Here {
    async fn turn(
        &mut self,
        app: &App,
        corp: &CorpApp,
        pictures: &reqwest::Client,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        let routes = corp.routes();
        let now_ms = app.now_ms();
        if routes.mark != self.mark || now_ms >= self.plan_at_ms {
            let more = self.plan(app, corp).await?;
            self.mark.clone_from(&routes.mark);
            self.plan_at_ms = if more { 0 } else { now_ms + PLAN_EVERY_MS };
            self.count_at_ms = self.count_at_ms.min(now_ms);
        }
        if now_ms >= self.count_at_ms {
            self.count(app, corp).await?;
            self.count_at_ms = now_ms + COUNT_EVERY_MS;
        }
        if self.idle {
            return passed_over::refresh(app, corp, &mut self.wayless, false, false).await;
        }
        ways::refresh(app, corp).await?;
        // Closed: it is told when it is open.
        let generation = corp.roster.status().await?.generation;
        let due = app
            .ledger
            .contact_ways()
            .due(&corp.id, generation.unwrap_or_default(), now_ms)
            .await?;
        self.say_paused(corp, due.paused_until_ms);
        let no_room = self.refused > 0;
        passed_over::refresh(app, corp, &mut self.wayless, due.passes_over, no_room).await?;
        let until = Instant::now() + TURN;
        let asking = due.ask && due.paused_until_ms.is_none();
        let asked = CancellationToken::new();
        let ask = async {
            let ended = when(asking, ask::run(app, corp, until, stop)).await;
            asked.cancel();
            ended
        };
        let (made, adopted, pictured, told, retired) = tokio::join!(
            ask,
            when(due.look, adopt::run(app, corp, &mut self.seen, stop)),
            when(
                due.picture || asking,
                picture::run(app, corp, pictures, &asked, until, stop)
            ),
            when(
                due.tell && generation.is_some(),
                tell::run(app, corp, generation.unwrap_or_default(), stop)
            ),
            when(due.delete, retire::run(app, corp, stop)),
        );
        made.and(adopted).and(pictured).and(told).and(retired)
    }

    /// True: another plan is needed at once.
    async fn plan(&mut self, app: &App, corp: &CorpApp) -> Result<bool, Error> {
        let rules = &app.config.visits;
        let limits = PlanLimits {
            ways: rules.max_ways,
            batch: PLAN_BATCH,
            rest_ms: rules.slot_rest_ms,
        };
        let ways = app.ledger.contact_ways();
        let planned = ways.plan(&corp.id, limits, app.now_ms()).await?;
        if planned.busy {
            return Ok(true);
        }
        gauge!("paidan_slots_refused", "corp" => corp.id.to_string()).set(planned.refused as f64);
        if planned.refused > 0 && planned.refused != self.refused {
            tracing::warn!(corp = %corp.id, refused = planned.refused, max_ways = rules.max_ways,
                "channels want more contact ways than visits.max_ways allows: lower slots_per_member or raise the limit");
        }
        self.refused = planned.refused;
        if planned.wanted + planned.retired + planned.revived > 0 {
            tracing::info!(corp = %corp.id, wanted = planned.wanted, retired = planned.retired, revived = planned.revived,
                "contact ways are planned");
        }
        ways.forget_gone(&corp.id, app.now_ms()).await?;
        Ok(planned.more)
    }

    async fn count(&mut self, app: &App, corp: &CorpApp) -> Result<(), Error> {
        let counts = app.ledger.contact_ways().counts(&corp.id).await?;
        show(&corp.id, &counts);
        let left = counts.iter().any(|one| one.state != WayState::Gone);
        let wanted = corp
            .routes()
            .channels
            .values()
            .any(|channel| channel.visits.is_some());
        self.idle = !left && !wanted;
        Ok(())
    }

    fn say_paused(&mut self, corp: &CorpApp, until_ms: Option<u64>) {
        let paused = until_ms.is_some();
        gauge!("paidan_slots_paused", "corp" => corp.id.to_string())
            .set(f64::from(u8::from(paused)));
        if paused && !self.paused {
            tracing::warn!(corp = %corp.id, until_ms, "WeCom makes no contact ways for this corp; asked again then");
        }
        self.paused = paused;
    }
}

async fn when(due: bool, step: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    if due { step.await } else { Ok(()) }
}

/// Every state, those without a way too: a gauge that is not set keeps its last value.
fn show(corp: &CorpId, counts: &[WayCount]) {
    for state in WayState::ALL {
        for kind in [WayKind::Slot, WayKind::Plain] {
            let count = counts
                .iter()
                .find(|one| one.state == state && one.kind == kind);
            let count = count.map_or(0, |one| one.count);
            gauge!("paidan_slots", "corp" => corp.to_string(), "kind" => kind.as_str(), "state" => state.as_str())
                .set(count as f64);
        }
    }
}
