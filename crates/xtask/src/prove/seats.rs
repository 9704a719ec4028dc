//! 50,000 visitors of two campaigns within three minutes, while one allocator after the other is killed, WeCom loses callbacks,
//! sends them twice and in another order, groups get into stock late, and Redis is wiped when half of the visitors have come.
//!
//! `spring` fills one group after the other, `summer` the emptiest one. Half of the groups are open from the start, the others
//! are in stock or come into it. Half of the visitors are browsers, which bring their cookie back and are nobody to WeCom; the
//! other half come through REST, named by their unionid or their external id. Three in ten never join. Of those who do, five
//! in a hundred scan when their hold is over, and three are brought into the group by somebody in it, with a friend who never asked for
//! a seat. Two in a hundred leave again.

pub(super) mod checks;
mod crowd;
mod house;
mod log;
mod page;
mod rows;
pub(crate) mod sabotage;
mod stock;

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use roster::Roster;
use serde_json::{Value, json};

use super::surge::settle;
use super::{Args, Played, Script as AnyScript, start};
use crate::progress::say;
use crate::stage::{Stage, Wishes};
use crowd::{Came, Crowd};
use house::Size;
use stock::Stock;

const VISITORS: f64 = 50_000.0;
/// The shortest that a campaign takes.
const HOLD: Duration = Duration::from_secs(30);
const KILL_EVERY: Duration = Duration::from_secs(4);
/// So long after the last visitor had his first answer; what a dead process had in its hands is anybody's after 15 s.
const KILL_ON: Duration = Duration::from_secs(10);
/// The most that WeCom's reads are behind.
const LAG_MS: u64 = 2_000;
const LIMIT: Duration = Duration::from_secs(900);

/// The two campaigns, each with a group pool of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Spring,
    Summer,
}

impl Place {
    const ALL: [Self; 2] = [Self::Spring, Self::Summer];

    fn of(visitor: u64) -> Self {
        if (visitor / 2).is_multiple_of(2) {
            Self::Spring
        } else {
            Self::Summer
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Spring => "spring",
            Self::Summer => "summer",
        }
    }

    fn strategy(self) -> &'static str {
        match self {
            Self::Spring => "fill_first",
            Self::Summer => "least_filled",
        }
    }
}

/// What is known without asking Paidan.
#[derive(Debug)]
pub(crate) struct Script {
    came: Vec<Came>,
    size: Size,
    /// Open from the start, of each pool.
    open: usize,
    wipe: Wipe,
    /// Answers to visitors: when they asked, and when they had it.
    answers: Vec<(Instant, Instant)>,
    asked_again: u64,
}

/// Redis lost everything.
#[derive(Debug, Clone, Copy)]
struct Wipe {
    at: Instant,
    /// The corp was still closed then.
    closed: Instant,
    /// And open again then.
    open: Instant,
}

fn wishes(size: Size) -> Wishes {
    let Size {
        scan_cap, hard_cap, ..
    } = size;
    Wishes {
        members: ["m1", "m2"].map(|member| (member.to_owned(), 1)).into(),
        others: house::owners(),
        sim: format!(
            "[callbacks]\nconnections = 64\nduplicate_rate = 0.2\nduplicate_copies = 3\nretry_pause_ms = 300\n\
             reorder_rate = 0.2\nreorder_within_ms = 2000\nloss_rate = 0.02\n\
             [groups]\nscan_cap = {scan_cap}\nhard_cap = {hard_cap}\nread_lag_ms = {LAG_MS}\n"
        ),
        allocator: format!(
            "[visits]\nworkers = 8\npoll_ms = 200\nask_lease_ms = 6000\nlook_after_ms = 1000\nunknown_for_ms = 2000\n\
             [roster]\nsync_every_ms = 500\n[fission]\nread_after_ms = 1000\nread_lag_ms = {}\nperiod_ms = {}\npoll_ms = 200\n",
            LAG_MS + 200,
            size.period.as_millis(),
        ),
        gateways: 2,
        allocators: 2,
    }
}

pub(super) async fn run(scale: f64, args: &Args) -> anyhow::Result<Played> {
    let visitors = (VISITORS * scale).ceil() as u64;
    let size = Size::of(visitors);
    let mut stage = start(args, wishes(size)).await?;
    let begun = Instant::now();
    let house = house::open(&stage, size).await?;
    house::provisioned(&stage, &house).await?;
    let provisioned = begun.elapsed();
    slow_down(&stage).await?;
    say(
        "Driving",
        &format!(
            "{visitors} visitors into {} groups; one allocator dies every {KILL_EVERY:?}",
            2 * size.groups
        ),
    );
    let begun = Instant::now();
    let crowd = Crowd::new(&stage, house.codes.clone(), args.seed)?;
    let stock = Stock::new(&stage, size)?;
    let (came, killed, wipe) = drive(&mut stage, &crowd, &stock, visitors, args).await?;
    let answered = crowd.all_answered_after();
    quiet(&stage).await?;
    let quiet = begun.elapsed();
    stage.end_programs();
    let script = Script {
        came,
        size,
        open: size.open(),
        wipe,
        answers: crowd.answers(),
        asked_again: crowd.web.asked_again(),
    };
    let figures = json!({
        "visitors": visitors,
        "groups": 2 * size.groups,
        "seconds_to_provision": provisioned.as_secs_f64(),
        "seconds_to_answer_all": answered.as_secs_f64(),
        "visitors_per_second": visitors as f64 / answered.as_secs_f64(),
        "answers_ms": times(&script.answers),
        "seconds_to_quiet": quiet.as_secs_f64(),
        "seconds_closed": (wipe.open - wipe.at).as_secs_f64(),
        "killed": killed,
        "supplied": supplied(&stage).await?,
        "asked_again": script.asked_again,
        "seats": seats(&stage).await?,
        "callbacks": stage.sim_get("counters").await?["callbacks"],
    });
    Ok(Played {
        stage,
        customers: visitors,
        script: Some(AnyScript::Seats(script)),
        figures,
    })
}

/// From now on WeCom takes its time: half of the reads of a group, and every call that makes a code.
async fn slow_down(stage: &Stage) -> anyhow::Result<()> {
    let slow = |api: &str, ms: u64, probability: f64| json!({"api": format!("externalcontact/groupchat/{api}"), "act": {"delay_ms": ms}, "probability": probability});
    stage.sim("faults", &slow("get", 150, 0.5)).await?;
    stage.sim("faults", &slow("add_join_way", 400, 1.0)).await?;
    stage.sim("faults", &slow("get_join_way", 400, 1.0)).await?;
    Ok(())
}

/// Until the last visitor has done what he came for.
async fn drive(
    stage: &mut Stage,
    crowd: &Arc<Crowd>,
    stock: &Stock,
    visitors: u64,
    args: &Args,
) -> anyhow::Result<(Vec<Came>, u64, Wipe)> {
    let mut everybody = pin!(crowd.everybody(visitors));
    let mut fetching = pin!(stock.fetch(crowd, visitors));
    let mut wiping = pin!(wipe(stage, crowd, visitors / 2));
    let mut wiped = None;
    let mut came = None;
    let mut kill = tokio::time::interval(KILL_EVERY);
    kill.tick().await;
    let mut killed = 0;
    loop {
        if let (Some(came), Some(wipe)) = (&mut came, wiped) {
            return Ok((std::mem::take(came), killed, wipe));
        }
        tokio::select! {
            all = &mut everybody, if came.is_none() => came = Some(all?),
            failed = &mut fetching => return Err(failed.context("stock")),
            wipe = &mut wiping, if wiped.is_none() => wiped = Some(wipe?),
            _ = kill.tick(), if crowd.answered_since() < KILL_ON => {
                let name = stage.kill_allocator()?;
                killed += 1;
                if !args.json {
                    say("Killed", &format!("{name}, started again"));
                }
            }
        }
    }
}

/// When so many have come.
fn wipe(
    stage: &Stage,
    crowd: &Arc<Crowd>,
    visitors: u64,
) -> impl Future<Output = anyhow::Result<Wipe>> + use<> {
    let mut redis = stage.redis.clone();
    let roster = Roster::new(stage.redis.clone()).corp(&stage.corp);
    let crowd = Arc::clone(crowd);
    async move {
        let look = Duration::from_millis(10);
        while crowd.came() < visitors {
            tokio::time::sleep(look).await;
        }
        say("Wiping", "Redis");
        redis::cmd("FLUSHALL").query_async::<()>(&mut redis).await?;
        let at = Instant::now();
        let mut closed = at;
        loop {
            let looked = Instant::now();
            if roster.status().await?.generation.is_some() {
                break;
            }
            closed = looked;
            anyhow::ensure!(at.elapsed() < LIMIT, "the corp stays closed");
            tokio::time::sleep(look).await;
        }
        let open = Instant::now();
        say("Rebuilt", &format!("after {:.1?}", open - at));
        Ok(Wipe { at, closed, open })
    }
}

/// Nothing is on its way any more: no callback, no hold, no place in the waiting room, no read of a group.
async fn quiet(stage: &Stage) -> anyhow::Result<()> {
    stage
        .until("no callback is on its way", LIMIT, || async {
            let clock = stage.sim_get("clock").await.ok()?;
            (clock["scheduled"] == 0 && clock["callbacks_pending"] == 0).then_some(())
        })
        .await?;
    let none = async |what: &str, count: &'static str| {
        let probe = || async {
            let left: i64 = sqlx::query_scalar(count)
                .fetch_one(stage.ledger.pool())
                .await
                .ok()?;
            (left == 0).then_some(())
        };
        stage.until(what, LIMIT, probe).await
    };
    none(
        "every hold and every wait has ended",
        "SELECT count(*) FROM seats WHERE ended_at IS NULL AND state IN ('held', 'waiting')",
    )
    .await?;
    // What WeCom shows from now on is all that has happened.
    tokio::time::sleep(Duration::from_millis(LAG_MS)).await;
    let since: i64 =
        sqlx::query_scalar("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
            .fetch_one(stage.ledger.pool())
            .await?;
    let probe = || async {
        let left: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM groups WHERE group_pool_id IS NOT NULL AND state <> 'dismissed'
                AND (people_read_at IS NULL OR people_read_at < to_timestamp($1 / 1000.0) OR doubt IS NOT NULL)",
        )
        .bind(since)
        .fetch_one(stage.ledger.pool())
        .await
        .ok()?;
        (left == 0).then_some(())
    };
    stage.until("every group was read", LIMIT, probe).await?;
    none(
        "what was lost with Redis is taken up",
        "SELECT count(*) FROM operations WHERE state IN ('running', 'cancelling')",
    )
    .await?;
    settle(stage).await
}

/// Of all answers, in milliseconds.
fn times(answers: &[(Instant, Instant)]) -> Value {
    let mut times: Vec<u64> = answers
        .iter()
        .map(|(asked, had)| (*had - *asked).as_millis() as u64)
        .collect();
    times.sort_unstable();
    let at = |share: f64| times.get(((times.len() as f64 - 1.0) * share) as usize);
    json!({"count": times.len(), "p50": at(0.5), "p95": at(0.95), "most": times.last()})
}

/// Groups that supply opened, and its tasks by what became of them.
async fn supplied(stage: &Stage) -> anyhow::Result<Value> {
    let rows: Vec<(String, i64, i64)> = sqlx::query_as(
        "SELECT state, count(*), sum(cardinality(chats))::bigint FROM supply_tasks GROUP BY 1 ORDER BY 1",
    )
    .fetch_all(stage.ledger.pool())
    .await?;
    let rows = rows
        .into_iter()
        .map(|(state, tasks, groups)| (state, json!({"tasks": tasks, "groups": groups})));
    Ok(rows.collect::<serde_json::Map<_, _>>().into())
}

/// Seats by what became of them.
async fn seats(stage: &Stage) -> anyhow::Result<Value> {
    let rows: Vec<(String, i64)> =
        sqlx::query_as("SELECT state, count(*) FROM seats GROUP BY 1 ORDER BY 1")
            .fetch_all(stage.ledger.pool())
            .await?;
    Ok(rows
        .into_iter()
        .map(|(state, count)| (state, json!(count)))
        .collect::<serde_json::Map<_, _>>()
        .into())
}
