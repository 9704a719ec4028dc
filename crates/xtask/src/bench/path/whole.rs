//! P27: the whole path with WeCom called. The simulator runs as a process of its own, its limits and ours lifted.

use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};

use super::house::{AGENT, House, MEMBERS, SECRET, Wishes, until};
use crate::bench::callbacks::{Added, CORP, Connections, DESK, Requests, STATE};
use crate::bench::redis_benchmark::Asking;
use crate::bench::row::Sample;
use crate::bench::servers::{Place, Ready, Server};
use crate::bench::store::Store;
use crate::bench::{Bench, Samples, load};
use crate::services::Keep;

/// Nobody counts, neither there nor here.
const LIFTED: &str = "[quota]\nper_minute = 100000000\nper_hour = 1000000000\nin_flight = 64\n\
                      egress_per_minute = 100000000\negress_per_hour = 1000000000\n";

pub(super) struct Whole {
    house: House,
    sim: Server,
    http: reqwest::Client,
    /// A second Redis, without a disk, for the plain SETs.
    plain: Store,
}

impl Whole {
    pub(super) async fn start(place: &Place) -> anyhow::Result<Self> {
        let sim = simulator(place)?;
        let wishes = Wishes {
            wecom: format!("http://{}", sim.address),
            allocator: LIFTED,
            card: true,
        };
        let folder = place.folder.join("plain");
        std::fs::create_dir_all(&folder)?;
        Ok(Self {
            house: House::start(place, "whole", &wishes).await?,
            plain: Store::start(&folder, Keep::Nothing)?,
            http: reqwest::Client::new(),
            sim,
        })
    }

    pub(super) async fn round(&self, bench: &Bench, samples: &mut Samples) -> anyhow::Result<()> {
        let asking = Asking {
            port: self.plain.port(),
            clients: 50,
            pipeline: 1,
            requests: bench.size(100_000, 2_000),
        };
        let set = ["SET", "key:__rand_int__", "value"].map(str::to_owned);
        let limit = asking.run(&set)?;
        let customers = self.scan(bench.size(3_000, 50)).await?;
        let requests = Requests::seal(&customers, Connections::Kept)?;
        let (accepted, start) = (self.transfers().await?, Instant::now());
        load::kept(self.house.gateway.address, &requests, 64)
            .await?
            .all("P27")?;
        self.house.committed(Duration::from_millis(5)).await?;
        let end = self.effects_done().await?;
        let started = self.transfers().await? - accepted;
        anyhow::ensure!(
            started == customers.len() as u64,
            "WeCom started {started} transfers of {}",
            customers.len()
        );
        let ours = customers.len() as f64 / (end - start).as_secs_f64();
        samples.add("P27", Sample::ratio(ours, limit));
        Ok(())
    }

    /// New customers at the desk, of whom no event has been sent.
    async fn scan(&self, count: usize) -> anyhow::Result<Vec<Added>> {
        let body = json!({"member": DESK, "state": STATE, "count": count});
        let url = format!("http://{}/sim/scan", self.sim.address);
        let reply = self
            .http
            .post(url)
            .json(&body)
            .send()
            .await?
            .error_for_status()?;
        let reply: wecom_sim::ScanReply = reply.json().await?;
        let customers: Vec<Added> = reply
            .scans
            .into_iter()
            .filter(|scan| scan.outcome == wecom_sim::ScanOutcome::Added)
            .map(|scan| Added {
                welcome_code: scan.welcome_codes.get(&AGENT).cloned().unwrap_or_default(),
                customer: scan.customer,
            })
            .collect();
        anyhow::ensure!(
            customers.len() == count,
            "only {} could scan",
            customers.len()
        );
        Ok(customers)
    }

    /// Transfers the simulator has accepted so far.
    async fn transfers(&self) -> anyhow::Result<u64> {
        let url = format!("http://{}/sim/counters", self.sim.address);
        let counters: Value = self.http.get(url).send().await?.json().await?;
        counters["corps"][CORP]["transfers_accepted"]
            .as_u64()
            .context("the simulator does not count transfers")
    }

    async fn effects_done(&self) -> anyhow::Result<Instant> {
        let pool = self.house.ledger.pool();
        let count = async |sql: &'static str| -> anyhow::Result<i64> {
            Ok(sqlx::query_scalar(sql).fetch_one(pool).await?)
        };
        until(
            "every effect is done",
            Duration::from_millis(10),
            async || Ok(count("SELECT count(*) FROM outbox WHERE settled_at IS NULL").await? == 0),
        )
        .await?;
        let end = Instant::now();
        let failed = count("SELECT count(*) FROM outbox WHERE state <> 'done'").await?;
        anyhow::ensure!(failed == 0, "{failed} effects failed");
        Ok(end)
    }
}

fn simulator(place: &Place) -> anyhow::Result<Server> {
    let text = format!(
        "[clock]\nmode = \"real\"\n[limits]\nenabled = false\n[callbacks]\nenabled = false\n\
         [log]\ncalls = 0\nmessages = 0\n[[corps]]\nid = \"{CORP}\"\n\
         members = [{{ userid = \"{DESK}\", customer_limit = 1000000 }}]\n\
         generate = [{{ prefix = \"staff-\", count = {MEMBERS}, customer_limit = 1000000 }}]\n\
         apps = [{{ agent_id = {AGENT}, secret = \"{SECRET}\" }}]\n"
    );
    let file = place.folder.join("wecom-sim.toml");
    std::fs::write(&file, text)?;
    Server::start(place, "wecom-sim", Ready::Listens, |address, _| {
        let args = [
            "--listen",
            &address.to_string(),
            "--config",
            &file.display().to_string(),
        ];
        Ok((
            place.programs.path("wecom-sim"),
            args.map(str::to_owned).to_vec(),
        ))
    })
}
