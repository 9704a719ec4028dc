//! What the gateway keeps in memory, and what a queued callback and a lock take in Redis.
//!
//! - **P24-gateway-64**, **P24-gateway-1000** resident memory of a gateway that was just started and has served
//!   callbacks over 64 connections, then over 1,000; MB, with bare axum's beside it.
//! - **P25-callback** bytes of Redis for one callback that waits in the inbox, its XML not counted: what is given back
//!   when the inbox is deleted. **P25-seen** is what stays for a day so that the callback is known as a duplicate.
//! - **P25-lock** bytes of Redis for one lock on a customer while it is held.

use inbox::connect::{self, Connection};
use inbox::{Inbox, NewDelivery};
use quota::LockKeys;
use quota::fence_seed::FenceSeed;
use quota::lock_acquire::{Answered, LockAcquire};

use super::callbacks::{CORP, Connections, ENDPOINT, Requests, new_customers, plaintext};
use super::load;
use super::row::Sample;
use super::servers::Server;
use super::store::Store;
use super::{Bench, Samples, cpu, now_ms, runtime};
use crate::services::Keep;

pub(super) fn run(bench: &Bench, samples: &mut Samples) -> anyhow::Result<()> {
    let mut store = Store::start(&bench.place.folder, Keep::Nothing)?;
    super::gateway::at_once(bench.size(1_000, 100));
    let runtime = runtime()?;
    for _ in 0..bench.rounds {
        runtime.block_on(programs(bench, &mut store, samples))?;
        let config = connect::Config::single(&store.url());
        let connection = runtime.block_on(connect::connect(&config))?;
        runtime.block_on(queued(bench, &mut store, connection.clone(), samples))?;
        runtime.block_on(locks(bench, &mut store, connection, samples))?;
    }
    Ok(())
}

async fn programs(bench: &Bench, store: &mut Store, samples: &mut Samples) -> anyhow::Result<()> {
    store.empty()?;
    let gateway = Server::gateway(&bench.place, &store.url())?;
    let bare = Server::bare(&bench.place)?;
    let cases = [
        ("P24-gateway-64", 64),
        ("P24-gateway-1000", bench.size(1_000, 100)),
    ];
    for (row, connections) in cases {
        let requests = Requests::new(bench.size(10_000, 300), Connections::Kept)?;
        load::kept(gateway.address, &requests, connections)
            .await?
            .all(row)?;
        let ours = cpu::resident_mb(gateway.pid())?;
        load::kept(bare.address, &requests, connections).await?;
        let limit = cpu::resident_mb(bare.pid())?;
        samples.add(row, Sample::figure(ours, Some(limit)));
    }
    gateway.stop()?;
    bare.stop()
}

async fn queued(
    bench: &Bench,
    store: &mut Store,
    connection: Connection,
    samples: &mut Samples,
) -> anyhow::Result<()> {
    let inbox = Inbox::new(connection, CORP, inbox::Config::default());
    store.empty()?;
    let count = bench.size(20_000, 500);
    let timestamp = (now_ms() / 1000).to_string();
    let deliveries: Vec<NewDelivery> = new_customers(count)
        .iter()
        .map(|added| NewDelivery::new(ENDPOINT, now_ms(), plaintext(added, &timestamp)))
        .collect();
    let xml: usize = deliveries
        .iter()
        .map(|delivery| delivery.plaintext.len())
        .sum();
    // The script and its connection are there before we look.
    let (first, rest) = deliveries.split_at(1);
    inbox.append(first).await?;
    let before = store.memory()?;
    for batch in rest.chunks(64) {
        inbox.append(batch).await?;
    }
    let full = store.memory()?;
    store.ask::<()>(&["DEL", &format!("{{{CORP}}}:v1:inbox")])?;
    let without = store.memory()?;
    let each = |bytes: f64| bytes / count as f64;
    samples.add(
        "P25-callback",
        Sample::figure(each(full - without - xml as f64), None),
    );
    samples.add("P25-seen", Sample::figure(each(without - before), None));
    Ok(())
}

async fn locks(
    bench: &Bench,
    store: &mut Store,
    mut connection: Connection,
    samples: &mut Samples,
) -> anyhow::Result<()> {
    store.empty()?;
    FenceSeed::default()
        .call(&mut connection, &LockKeys::new(CORP, &[]), 1, 0)
        .await?;
    let acquire = LockAcquire::default();
    let count = bench.size(10_000, 300);
    let mut before = 0.0;
    for number in 0..=count {
        if number == 1 {
            before = store.memory()?;
        }
        let name = format!("customer:{number:032x}");
        let keys = LockKeys::new(CORP, &[&name]);
        let owner = format!("{number:08}");
        let answered = acquire
            .call(&mut connection, &keys, &owner, 60_000, 600_000, None)
            .await?;
        anyhow::ensure!(matches!(answered, Answered::Held { .. }), "{answered:?}");
    }
    let bytes = (store.memory()? - before) / count as f64;
    samples.add("P25-lock", Sample::figure(bytes, None));
    Ok(())
}
