//! 50,000 visitors of two public pages, as fast as the machine and the slots allow, while one allocator after the other is
//! killed.
//!
//! The pool `sales` never changes: its shares have a guarantee. The members of `rush` come, go, and are full. Half of the
//! visitors are browsers, which bring their cookie back; the other half come through REST, as those of a landing page
//! do. Seven in ten add the member whom they see, in time and by the way that they are shown; one in ten does so when his
//! hold is over; a few of `rush` add somebody else; the rest never come.
//!
//! Slots rest for half a minute here, a day in production: nobody scans a way later than that, so a way that leads to
//! the wrong visit is a fault.

pub(super) mod checks;
mod crowd;
mod house;
mod page;

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::surge::settle;
use super::{Args, Played, Script as AnyScript, start};
use crate::progress::say;
use crate::stage::{Stage, Wishes};
use crowd::{Came, Crowd};

const VISITS: f64 = 50_000.0;
/// In one second at most: the slots are as many as this takes.
const PACE: u32 = 200;
/// The shortest that a channel takes.
const HOLD: Duration = Duration::from_secs(30);
const REST: Duration = Duration::from_secs(30);
const KILL_EVERY: Duration = Duration::from_secs(4);
const LIMIT: Duration = Duration::from_secs(900);

/// The two pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Sales,
    Rush,
}

impl Place {
    /// Of five visitors, three go to `sales`.
    fn of(visitor: u64) -> Self {
        if visitor % 5 < 3 {
            Self::Sales
        } else {
            Self::Rush
        }
    }

    /// Of channel and pool.
    fn name(self) -> &'static str {
        match self {
            Self::Sales => "sales",
            Self::Rush => "rush",
        }
    }

    /// The part of all visitors who come here.
    fn part(self) -> f64 {
        match self {
            Self::Sales => 0.6,
            Self::Rush => 0.4,
        }
    }

    /// The most of its visitors that one member gets for long.
    fn largest_share(self) -> f64 {
        match self {
            // Weights 1 and 2, fifteen members of each.
            Self::Sales => 2.0 / 45.0,
            // Some are off, and some are full.
            Self::Rush => 1.0 / 10.0,
        }
    }
}

/// What is known of the visitors without asking Paidan.
#[derive(Debug)]
pub(crate) struct Script {
    came: Vec<Came>,
    /// Of members of `rush`.
    cap: u32,
}

fn wishes() -> Wishes {
    let add = "externalcontact/add_contact_way";
    let rest_ms = REST.as_millis();
    Wishes {
        members: (1..=30).map(|n| (format!("s{n:02}"), 1 + n % 2)).collect(),
        others: house::rush_members(),
        // Ways are made ahead of the visitors: how fast WeCom lets us is not what is proved here.
        sim: format!(
            "[callbacks]\nconnections = 64\nduplicate_rate = 0.2\nduplicate_copies = 3\nretry_pause_ms = 300\n\
             reorder_rate = 0.2\nreorder_within_ms = 2000\n[limits]\nip_api = {{ minute = 0, hour = 0 }}\n\
             [limits.per_api.\"{add}\"]\nrate = {{ minute = 0, hour = 0 }}\nin_flight = 64\n"
        ),
        allocator: format!(
            "[visits]\nslot_rest_ms = {rest_ms}\nworkers = 16\npoll_ms = 200\n[audit]\nreread_ms = [1000, 3000]\n[quota]\n\
             egress_per_minute = 100000000\negress_per_hour = 100000000\n[quota.apis.\"{add}\"]\n\
             per_minute = 100000000\nper_hour = 100000000\nin_flight = 32\n"
        ),
        gateways: 2,
        allocators: 2,
    }
}

pub(super) async fn run(scale: f64, args: &Args) -> anyhow::Result<Played> {
    let visits = (VISITS * scale).ceil() as u64;
    let mut stage = start(args, wishes()).await?;
    let begun = Instant::now();
    let cap = house::cap(visits);
    let codes = house::open(&stage, visits, cap).await?;
    let ways = house::provisioned(&stage, visits).await?;
    let provisioned = begun.elapsed();
    say(
        "Driving",
        &format!("{visits} visitors; one allocator dies every {KILL_EVERY:?}"),
    );
    let begun = Instant::now();
    let crowd = Crowd::new(&stage, codes, args.seed)?;
    let (came, killed) = drive(&mut stage, &crowd, visits, args).await?;
    let opened = crowd.all_opened_after();
    crowd.everybody_on().await?;
    every_callback_came(&stage).await?;
    every_hold_ended(&stage).await?;
    settle(&stage).await?;
    let figures = json!({
        "visits": visits,
        "ways": ways,
        "seconds_to_provision": provisioned.as_secs_f64(),
        "seconds_to_open_all": opened.as_secs_f64(),
        "visits_per_second": visits as f64 / opened.as_secs_f64(),
        "seconds_to_quiet": begun.elapsed().as_secs_f64(),
        "killed": killed,
        "asked_again": crowd.asked_again(),
        "reloads_without_code": crowd.without_code(),
        "callbacks": stage.sim_get("counters").await?["callbacks"],
    });
    Ok(Played {
        stage,
        customers: visits,
        script: Some(AnyScript::Visits(Script { came, cap })),
        figures,
    })
}

/// Until the last visitor has done what he came for.
async fn drive(
    stage: &mut Stage,
    crowd: &Arc<Crowd>,
    visits: u64,
    args: &Args,
) -> anyhow::Result<(Vec<Came>, u64)> {
    let mut everybody = pin!(crowd.everybody(visits));
    let mut churn = pin!(crowd.churn());
    let mut kill = tokio::time::interval(KILL_EVERY);
    kill.tick().await;
    let mut killed = 0;
    loop {
        tokio::select! {
            came = &mut everybody => return Ok((came?, killed)),
            failed = &mut churn => return Err(failed),
            _ = kill.tick() => {
                let name = stage.kill_allocator()?;
                killed += 1;
                if !args.json {
                    say("Killed", &format!("{name}, started again"));
                }
            }
        }
    }
}

/// The last ones are held back, so that later ones overtake them.
async fn every_callback_came(stage: &Stage) -> anyhow::Result<()> {
    stage
        .until("no callback is on its way", LIMIT, || async {
            let clock = stage.sim_get("clock").await.ok()?;
            (clock["scheduled"] == 0 && clock["callbacks_pending"] == 0).then_some(())
        })
        .await
}

async fn every_hold_ended(stage: &Stage) -> anyhow::Result<()> {
    stage
        .until("every hold has ended", LIMIT, || async {
            let live: i64 =
                sqlx::query_scalar("SELECT count(*) FROM visits WHERE ended_as IS NULL")
                    .fetch_one(stage.ledger.pool())
                    .await
                    .ok()?;
            (live == 0).then_some(())
        })
        .await
}
