//! The surge while everything else goes wrong too: Redis restarts, Postgres is away, WeCom limits, times out after the
//! effect, forgets tokens; and at last Redis is wiped.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Args, Played, start, surge};
use crate::progress::say;

const CUSTOMERS: f64 = 10_000.0;

pub(super) async fn run(scale: f64, args: &Args) -> anyhow::Result<Played> {
    let customers = (CUSTOMERS * scale).ceil() as u64;
    let mut stage = start(args, surge::wishes()).await?;
    let begun = Instant::now();
    let minute_ms = (60_000.0 * scale.max(0.1)) as u64;
    let away = Duration::from_secs_f64(10.0 * scale.max(0.2));
    for fault in [
        json!({"api": "externalcontact/transfer_customer", "act": "hang", "when": "after", "probability": 0.05}),
        json!({"api": "externalcontact/transfer_customer", "act": {"errcode": 45009}, "for_ms": minute_ms}),
        json!({"api": "externalcontact/send_welcome_msg", "act": "drop", "when": "after", "probability": 0.05}),
    ] {
        stage.sim("faults", &fault).await?;
    }
    let first = customers * 9 / 10;
    let seconds = (first / 500).max(10);
    say(
        "Driving",
        &format!("{first} customers while the stores and WeCom misbehave"),
    );
    let scan = |count: u64, over_s: u64| json!({"member": "desk", "state": "poster", "count": count, "over_ms": over_s * 1000, "quiet": true});
    stage.sim("scan", &scan(first, seconds)).await?;
    let mut killed = 0;
    for second in 0..seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if second == seconds / 4 {
            say("Restarting", "Redis, from its append-only file");
            tokio::task::block_in_place(|| stage.restart_redis())?;
        } else if second == seconds / 2 {
            say("Stopping", &format!("Postgres for {away:?}"));
            stage.stop_postgres_for(away).await?;
        } else if second == seconds / 3 || second == seconds * 2 / 3 {
            stage.sim("tokens/invalidate", &json!({})).await?;
        } else {
            stage.kill_one()?;
            killed += 1;
        }
    }
    surge::all_decided(&stage, first).await?;
    surge::settle(&stage).await?;
    say("Wiping", "Redis");
    stage.wipe_redis().await?;
    stage.sim("scan", &scan(customers - first, 5)).await?;
    stage
        .until(
            "the corp is open again and everybody is back",
            Duration::from_secs(120),
            || async { stage.heartbeat().await.ok() },
        )
        .await?;
    surge::all_decided(&stage, customers).await?;
    surge::settle(&stage).await?;
    let took = begun.elapsed();
    let figures =
        json!({"customers": customers, "killed": killed, "seconds_to_quiet": took.as_secs_f64()});
    Ok(Played {
        stage,
        customers,
        script: None,
        figures,
    })
}
