//! Join ways of campaigns, made at WeCom ahead of those who ask for a seat: each leads into one group of the campaign's pool,
//! or into a few where the campaign lets WeCom choose. Built as contact ways are (`reception::slots`), with their settings
//! (`[visits]`); what differs is that WeCom lists no join ways.
//!
//! | step | takes → gives | what makes it safe |
//! |---|---|---|
//! | plan | campaigns, pools, groups → wanted rows; superfluous ones retire, others get other groups | one planner a corp; a limit for the corp, contact ways counted too |
//! | [`wishes`] | groups shown for an inviter → wanted rows of his own | limits for an inviter and for the corp; a unique index |
//! | `ask` | wanted row → `add_join_way` → `config_id` | the intent is written before the call; an answer names its try |
//! | `ask::lost` | row without an answer → wanted once more | it cannot be looked up: counted, and a few times at most |
//! | `picture` | made row → `get_join_way` → its picture → ready | as those of contact ways; fetched once |
//! | [`change`] | ready row with other groups, or that is to open rooms → `update_join_way` | the whole configuration is sent; telling twice is telling once |
//! | `retire` | rested row → `del_join_way` → gone | no longer shown first; deleting twice is deleting once |
//!
//! Every allocator runs it: rows are leased, so two never do the same. Each keeps in memory which way leads into which group.

mod ask;
pub mod change;
mod picture;
mod retire;
mod verdict;
mod view;
pub mod wishes;

use std::{sync::Arc, time::Duration};

use allocation::{ChatId, Via};
use ledger::{PlanLimits, Rooms, WayState};
use metrics::gauge;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wecom::client::JoinWay;

pub(crate) use view::refresh;
pub use view::{JoinWays, picture_of};
pub use wishes::Wishes;

use super::campaigns;
use crate::{
    app::{App, CorpApp},
    backoff::{Backoff, sleep},
    faults::with_causes,
    reception::slots,
};

/// Plans without a change of configuration: campaigns end, groups fill, and what failed long ago is tried again.
const PLAN_EVERY_MS: u64 = 30_000;
/// New rows of one plan.
const PLAN_BATCH: usize = 2_000;
/// Figures, and names of groups.
const COUNT_EVERY_MS: u64 = 15_000;
/// How long the steps of one turn go on before everything is looked at anew.
const TURN: Duration = Duration::from_secs(5);

/// Provisions until the program stops.
pub async fn run(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    let pictures = match slots::picture::http() {
        Ok(http) => http,
        Err(error) => {
            tracing::error!(corp = %corp.id, error = %error, "pictures of join ways cannot be fetched");
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
                tracing::warn!(corp = %corp.id, error = %with_causes(&error), "join ways wait");
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
    /// There are no campaigns and no row is left.
    idle: bool,
    refused: u64,
    paused: bool,
}

impl Here {
    async fn turn(
        &mut self,
        app: &App,
        corp: &CorpApp,
        pictures: &reqwest::Client,
        stop: &CancellationToken,
    ) -> Result<(), ledger::Error> {
        // `people` reads it before it reads campaigns and groups.
        let mark = corp.routes().mark.clone();
        let now_ms = app.now_ms();
        if mark != self.mark || now_ms >= self.plan_at_ms {
            let more = self.plan(app, corp).await?;
            self.mark = mark;
            self.plan_at_ms = if more { 0 } else { now_ms + PLAN_EVERY_MS };
            self.count_at_ms = self.count_at_ms.min(now_ms);
        }
        if wishes::write(app, corp, limits(app)).await? {
            self.count_at_ms = self.count_at_ms.min(now_ms);
        }
        if now_ms >= self.count_at_ms {
            self.count(app, corp).await?;
            self.count_at_ms = now_ms + COUNT_EVERY_MS;
        }
        if self.idle {
            return Ok(());
        }
        view::refresh(app, corp).await?;
        let due = app.ledger.join_ways().due(&corp.id, now_ms).await?;
        self.say_paused(corp, due.paused_until_ms);
        let until = Instant::now() + TURN;
        let asking = due.ask && due.paused_until_ms.is_none();
        let asked = CancellationToken::new();
        let ask = async {
            let ended = when(asking, ask::run(app, corp, until, stop)).await;
            asked.cancel();
            ended
        };
        let (made, lost, pictured, changed, retired) = tokio::join!(
            ask,
            when(due.lost, ask::lost(app, corp)),
            when(
                due.picture || asking,
                picture::run(app, corp, pictures, &asked, until, stop)
            ),
            when(due.change, change::run(app, corp, stop)),
            when(due.delete, retire::run(app, corp, stop)),
        );
        view::refresh(app, corp).await?;
        made.and(lost).and(pictured).and(changed).and(retired)
    }

    /// True: another plan is needed at once.
    async fn plan(&mut self, app: &App, corp: &CorpApp) -> Result<bool, ledger::Error> {
        let rules = &app.config.visits;
        let ways = app.ledger.join_ways();
        let planned = ways.plan(&corp.id, limits(app), app.now_ms()).await?;
        if planned.busy {
            return Ok(true);
        }
        gauge!("paidan_join_ways_refused", "corp" => corp.id.to_string())
            .set(planned.refused as f64);
        if planned.refused > 0 && planned.refused != self.refused {
            tracing::warn!(corp = %corp.id, refused = planned.refused, max_ways = rules.max_ways,
                "campaigns need more join ways than visits.max_ways allows");
        }
        self.refused = planned.refused;
        if planned.wanted + planned.retired + planned.revived + planned.changed > 0 {
            tracing::info!(corp = %corp.id, wanted = planned.wanted, changed = planned.changed, retired = planned.retired,
                revived = planned.revived, "join ways are planned");
        }
        ways.forget_gone(&corp.id, app.now_ms()).await?;
        Ok(planned.more)
    }

    async fn count(&mut self, app: &App, corp: &CorpApp) -> Result<(), ledger::Error> {
        let counts = app.ledger.join_ways().counts(&corp.id).await?;
        // Every state, those without a way too: a gauge that is not set keeps its last value.
        for state in WayState::ALL {
            let count = counts.iter().find(|(one, _)| *one == state);
            let count = count.map_or(0, |(_, count)| *count);
            gauge!("paidan_join_ways", "corp" => corp.id.to_string(), "state" => state.as_str())
                .set(count as f64);
        }
        let left = counts.iter().any(|(state, _)| *state != WayState::Gone);
        self.idle = !left && corp.campaigns.is_empty();
        if !self.idle {
            campaigns::refresh_names(app, corp).await?;
        }
        Ok(())
    }

    fn say_paused(&mut self, corp: &CorpApp, until_ms: Option<u64>) {
        let paused = until_ms.is_some();
        gauge!("paidan_join_ways_paused", "corp" => corp.id.to_string())
            .set(f64::from(u8::from(paused)));
        if paused && !self.paused {
            tracing::warn!(corp = %corp.id, until_ms, "WeCom makes no join ways for this corp; asked again then");
        }
        self.paused = paused;
    }
}

fn limits(app: &App) -> PlanLimits {
    let rules = &app.config.visits;
    PlanLimits {
        ways: rules.max_ways,
        batch: PLAN_BATCH,
        rest_ms: rules.slot_rest_ms,
    }
}

async fn when(
    due: bool,
    step: impl Future<Output = Result<(), ledger::Error>>,
) -> Result<(), ledger::Error> {
    if due { step.await } else { Ok(()) }
}

/// All that WeCom is told of a way, to make it and to change it: what is left out of a change is gone. It opens rooms only where
/// supply waits for one.
fn configuration(via: &Via, chats: &[ChatId], rooms: Option<&Rooms>) -> JoinWay {
    JoinWay {
        remark: Some("paidan campaign".to_owned()),
        state: Some(via.to_string()),
        auto_create_room: rooms.is_some(),
        room_base_name: rooms.map(|rooms| rooms.name.clone()),
        room_base_id: rooms.map(|rooms| rooms.number),
        ..JoinWay::into_groups(chats.iter().map(ChatId::as_str))
    }
}
