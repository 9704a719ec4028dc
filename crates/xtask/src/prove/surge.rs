//! 10,000 customers, one event in five delivered three times, from 64 connections, while one process dies every second.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Args, Played, start};
use crate::progress::say;
use crate::stage::{Stage, Wishes};

const CUSTOMERS: f64 = 10_000.0;
/// Long enough for the audit to find what no callback brought.
const LIMIT: Duration = Duration::from_secs(900);

pub(super) fn wishes() -> Wishes {
    Wishes {
        members: (1..=20).map(|n| (format!("m{n:02}"), 1 + n % 4)).collect(),
        others: Vec::new(),
        sim: "[callbacks]\nconnections = 64\nduplicate_rate = 0.2\nduplicate_copies = 3\nretry_pause_ms = 300\n".to_owned(),
        // A killed gateway refuses connections for a moment: what WeCom gives up on is found by the audit.
        // A start that died with its process is looked up at once and sent again soon: the fake WeCom does not lag.
        allocator: "[audit]\nperiod_ms = 15000\nreread_ms = [1000, 3000]\n[handover]\nsettle_after_ms = 2000\n\
                    unknown_for_ms = 10000\n"
            .to_owned(),
        gateways: 2,
        allocators: 2,
    }
}

pub(super) async fn run(scale: f64, args: &Args) -> anyhow::Result<Played> {
    let customers = (CUSTOMERS * scale).ceil() as u64;
    let mut stage = start(args, wishes()).await?;
    let begun = Instant::now();
    say(
        "Driving",
        &format!("{customers} customers; one process dies every second"),
    );
    let seconds = (customers / 500).max(5);
    stage
        .sim(
            "scan",
            &json!({"member": "desk", "state": "poster", "count": customers, "over_ms": seconds * 1000, "quiet": true}),
        )
        .await?;
    let mut killed = 0;
    for _ in 0..seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let name = stage.kill_one()?;
        killed += 1;
        if !args.json {
            say("Killed", &format!("{name}, started again"));
        }
    }
    let decided = all_decided(&stage, customers).await?;
    settle(&stage).await?;
    let took = begun.elapsed();
    let figures = json!({
        "customers": customers,
        "killed": killed,
        "seconds_to_decide_all": decided.as_secs_f64(),
        "seconds_to_quiet": took.as_secs_f64(),
        "callbacks": stage.sim_get("counters").await?["callbacks"],
    });
    Ok(Played {
        stage,
        customers,
        script: None,
        figures,
    })
}

/// Waits until every customer is in the ledger.
pub(super) async fn all_decided(stage: &Stage, customers: u64) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    let wanted = i64::try_from(customers)?;
    stage
        .until("every customer has a member", LIMIT, || async {
            let open: i64 =
                sqlx::query_scalar("SELECT count(*) FROM allocations WHERE state = 'open'")
                    .fetch_one(stage.ledger.pool())
                    .await
                    .ok()?;
            (open >= wanted).then_some(())
        })
        .await?;
    Ok(begun.elapsed())
}

/// Waits until nothing moves any more.
pub(crate) async fn settle(stage: &Stage) -> anyhow::Result<()> {
    let inbox = inbox::Inbox::new(
        stage.redis.clone(),
        stage.corp.as_str(),
        inbox::Config::default(),
    );
    let roster = roster::Roster::new(stage.redis.clone()).corp(&stage.corp);
    stage
        .until("it gets quiet", LIMIT, || async {
            let stats = inbox.stats(None).await.ok()?;
            let unfinished = stage
                .ledger
                .outbox()
                .unfinished(Some(&stage.corp))
                .await
                .ok()?;
            let row = stage.ledger.corps().get(&stage.corp).await.ok()??;
            let status = roster.status().await.ok()?;
            let doubts = inbox.dirty_count("pair").await.ok()?;
            let quiet = stats.length == 0
                && unfinished.is_empty()
                && row.log_seq == status.seq
                && doubts.waiting + doubts.taken == 0;
            quiet.then_some(())
        })
        .await
}
