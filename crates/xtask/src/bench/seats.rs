//! Seats of customer groups in Redis, without Postgres and WeCom.
//!
//! A private Redis without an append-only file; `redis-benchmark` asks for seats in one pool that is filled evenly, the strategy
//! that does most. Every visitor is new, and no group gets full. The limit is the shortest script that writes anything, asked in
//! the same way: what a call of a script costs at all.
//!
//! - **P30** the whole script (one seat for each visitor, choice, group, end of the hold, log) ÷ that limit: one visitor a call,
//!   16 in flight, and 64 visitors a call, one in flight; with 10, 100 and 1,000 groups.

use allocation::model::Corp;
use allocation::{
    ChatId, ConfirmSeats, CorpId, FillStrategy, GroupPoolId, MAX_RESERVES, MAX_SCAN_CAP, SetGroup,
    SetGroupPool,
};
use inbox::connect::{self, Connection};
use roster::{CorpRoster, Roster};

use super::callbacks::CORP;
use super::redis_benchmark::Asking;
use super::row::Sample;
use super::store::Store;
use super::{Bench, Group, Samples, runtime};
use crate::services::Keep;

const CLIENTS: usize = 50;
const PIPELINE: usize = 16;
const CAMPAIGN: &str = "spring";
const POOL: &str = "spring";
/// Ten groups have room for so many.
const SEATS: usize = 16_000;
const INCR: &str = "#!lua\nreturn redis.call('INCR', KEYS[1])\n";
const ROWS: [(u32, &str, &str); 3] = [
    (10, "P30-10", "P30-batch-10"),
    (100, "P30-100", "P30-batch-100"),
    (1_000, "P30-1000", "P30-batch-1000"),
];

pub(super) fn run(bench: &Bench, samples: &mut Samples) -> anyhow::Result<()> {
    let mut store = Store::start(&bench.place.folder, Keep::Nothing)?;
    let runtime = runtime()?;
    let connection = runtime.block_on(connect::connect(&connect::Config::single(&store.url())))?;
    let corp = CorpId::new(CORP)?;
    let log = roster::bench::log_key(&corp);
    let seats = bench.size(SEATS, 1_280);
    runtime.block_on(async {
        for round in 0..bench.rounds {
            for (groups, one_row, batch_row) in ROWS {
                let batch = u8::try_from(MAX_RESERVES)?;
                for (row, visitors, pipeline) in [(one_row, 1, PIPELINE), (batch_row, batch, 1)] {
                    store.empty()?;
                    let asking = Asking {
                        port: store.port(),
                        clients: CLIENTS,
                        pipeline,
                        requests: seats / usize::from(visitors),
                    };
                    let incr: String = store.ask(&["SCRIPT", "LOAD", INCR])?;
                    let command = words(&["EVALSHA", &incr, "1", "counter"]);
                    let shortest = Asking {
                        requests: bench.size(100_000, 2_000),
                        ..asking
                    };
                    let limit = measure(&mut store, shortest, &command)?;
                    let corp = open(&connection, &corp, groups).await?;
                    let mut command =
                        words(&["EVALSHA", roster::bench::reserve_hash(), "1", &log, "", ""]);
                    command.extend(
                        (0..visitors)
                            .flat_map(|salt| roster::bench::reserve_request(CAMPAIGN, POOL, salt)),
                    );
                    let ours = measure(&mut store, asking, &command)?;
                    all_were_served(&corp, groups, row).await?;
                    let each = f64::from(visitors);
                    let sample = Sample::ratio(ours.0 * each, limit.0).cpu(ours.1 / each / limit.1);
                    samples.add(row, sample);
                }
            }
            samples.tell(Group::Seats, round, bench.rounds);
        }
        anyhow::Ok(())
    })
}

/// Calls a second, and the CPU that one costs Redis.
fn measure(store: &mut Store, asking: Asking, command: &[String]) -> anyhow::Result<(f64, f64)> {
    let before = store.cpu()?;
    let per_second = asking.run(command)?;
    let used = store.cpu()?.saturating_sub(before);
    Ok((per_second, used.as_secs_f64() / asking.requests as f64))
}

/// An open corp with so many empty groups.
async fn open(
    connection: &Connection,
    corp: &CorpId,
    groups: u32,
) -> anyhow::Result<CorpRoster<Connection>> {
    let roster = Roster::new(connection.clone());
    roster.load().await?;
    let corp = roster.corp(corp);
    corp.begin_rebuild(1).await?;
    corp.finish_rebuild(Corp::new(), 1, None).await?;
    let pool = GroupPoolId::new(POOL)?;
    let set = SetGroupPool {
        pool: pool.clone(),
        version: 1,
        strategy: FillStrategy::LeastFilled,
    };
    corp.set_group_pool(set, "", None).await?;
    for n in 0..groups {
        let chat = ChatId::new(format!("wr_{n}"))?;
        let group = SetGroup::new(chat.clone(), 1, pool.clone(), MAX_SCAN_CAP, 5)?;
        corp.set_group(group, "", None).await?;
        let read = ConfirmSeats {
            chat,
            from: None,
            version: "v1".parse()?,
            force: false,
            left: Vec::new(),
            joined: Vec::new(),
        };
        corp.confirm_seats(read, "", None).await?;
    }
    Ok(corp)
}

/// An error unless every visitor was shown a group.
async fn all_were_served(
    corp: &CorpRoster<Connection>,
    groups: u32,
    row: &str,
) -> anyhow::Result<()> {
    let pool = corp.group_pool(&GroupPoolId::new(POOL)?).await?;
    let open = pool.is_some_and(|pool| pool.waiting == 0 && pool.available == groups);
    anyhow::ensure!(open, "{row}: somebody waits, or a group is full");
    Ok(())
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
