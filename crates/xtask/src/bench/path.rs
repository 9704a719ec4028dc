//! From the callback to the committed row: gateway, allocator, Redis and Postgres, each a process, both stores keeping
//! what they acknowledge (`appendfsync always`, fsync), as they are shipped. Every callback is a new customer at the
//! desk, for a fair pool of 50 members with the weights 1 to 6; each becomes an allocation, a transfer and its effect.
//! But for P27 there is no WeCom at the configured address, so effects are written and wait. A phase begins when the raw
//! deliveries of the one before are recorded too.
//!
//! - **P10** 10,000 callbacks at the same instant, as in P9: from the last acknowledgement until the last row is
//!   committed, milliseconds.
//! - **P11** 50,000 callbacks over 64 connections as fast as they are taken: customers a second from the first byte until
//!   the last row is committed ÷ bare axum's callbacks a second for as many.
//! - **P12** customers evenly spread at the rate of a surge, 278 a second (50,000 in 180 s), and at ten times that; a
//!   twentieth of them, the whole with `--full` (one round then). The 99th percentile of the acknowledgement, and of the
//!   time from there until a reader of the ledger sees the row; `P12-lost` are acknowledged and without an allocation,
//!   `P12-doubled` have more than one.
//! - **P23** 50,000 deliveries wait in the inbox while the allocator is stopped (SIGSTOP); from when it goes on until all
//!   are decided and committed ÷ the same with Postgres shut down, until all are decided.
//! - **P24-allocator** the allocator's resident memory after P11, MB.
//! - **P27** 3,000 customers over 64 connections until every transfer has been started and every card sent at the
//!   simulator, its limits lifted; customers a second ÷ plain SETs a second (redis-benchmark, 50 clients, no disk).

mod house;
mod tail;
mod whole;

use std::time::{Duration, Instant};

use allocation::SubjectKey;
use sqlx::Row as _;

use super::callbacks::{Added, Connections, Requests, new_customers};
use super::load::{self, Outcome, percentile};
use super::row::Sample;
use super::servers::Server;
use super::{Bench, Group, Samples, cpu, gateway, runtime};
use crate::process::signal;
use house::{House, Wishes};
use tail::Tail;
use whole::Whole;

const CONNECTIONS: usize = 64;
/// Nobody listens there.
const NOWHERE: &str = "http://127.0.0.1:9";
/// Customers a second of 50,000 in 180 s.
const SURGE: f64 = 50_000.0 / 180.0;

pub(super) fn run(bench: &Bench, samples: &mut Samples) -> anyhow::Result<()> {
    let at_once = gateway::at_once(bench.size(10_000, 200));
    runtime()?.block_on(async {
        let wishes = Wishes {
            wecom: NOWHERE.to_owned(),
            allocator: "",
            card: false,
        };
        let mut stand = Stand {
            bench,
            bare: Server::bare(&bench.place)?,
            house: House::start(&bench.place, "house", &wishes).await?,
            at_once,
        };
        let whole = Whole::start(&bench.place).await?;
        for round in 0..bench.rounds {
            stand.burst(samples).await?;
            stand.end_to_end(samples).await?;
            stand.drain(samples).await?;
            if round == 0 || !bench.full {
                stand.surge(samples).await?;
            }
            whole.round(bench, samples).await?;
            samples.tell(Group::Path, round, bench.rounds);
        }
        Ok(())
    })
}

struct Stand<'a> {
    bench: &'a Bench,
    bare: Server,
    house: House,
    at_once: usize,
}

impl Stand<'_> {
    /// P10.
    async fn burst(&self, samples: &mut Samples) -> anyhow::Result<()> {
        let house = &self.house;
        let before = house.allocations().await?;
        let requests = Requests::new(self.at_once, Connections::ClosedByServer)?;
        let outcome = load::at_once(house.gateway.address, &requests)
            .await?
            .all("P10")?;
        let last = house.committed(Duration::from_millis(1)).await?;
        self.made(before, requests.len()).await?;
        house.recorded().await?;
        let behind =
            last_ack(&outcome).map_or(Duration::ZERO, |ack| last.saturating_duration_since(ack));
        samples.add("P10", Sample::figure(behind.as_secs_f64() * 1000.0, None));
        Ok(())
    }

    /// P11 and P24.
    async fn end_to_end(&self, samples: &mut Samples) -> anyhow::Result<()> {
        let house = &self.house;
        let count = self.bench.size(50_000, 300);
        let requests = Requests::new(count, Connections::Kept)?;
        let limit = load::kept(self.bare.address, &requests, CONNECTIONS).await?;
        let before = house.allocations().await?;
        let start = Instant::now();
        load::kept(house.gateway.address, &requests, CONNECTIONS)
            .await?
            .all("P11")?;
        let end = house.committed(Duration::from_millis(5)).await?;
        self.made(before, count).await?;
        house.recorded().await?;
        let ours = count as f64 / (end - start).as_secs_f64();
        samples.add("P11", Sample::ratio(ours, limit.per_second()));
        let memory = cpu::resident_mb(house.allocator.pid())?;
        samples.add("P24-allocator", Sample::figure(memory, None));
        Ok(())
    }

    async fn made(&self, before: i64, count: usize) -> anyhow::Result<()> {
        let made = self.house.allocations().await? - before;
        anyhow::ensure!(
            made == count as i64,
            "{made} allocations of {count} customers"
        );
        Ok(())
    }

    /// P23.
    async fn drain(&mut self, samples: &mut Samples) -> anyhow::Result<()> {
        let count = self.bench.size(50_000, 300);
        let look = Duration::from_millis(2);
        let pid = self.house.allocator.pid();

        signal(pid, "STOP");
        self.house.fill(count).await?;
        let start = Instant::now();
        signal(pid, "CONT");
        let with = self.house.committed(look).await? - start;
        self.house.recorded().await?;

        let port = self.house.postgres_port()?;
        signal(pid, "STOP");
        self.house.fill(count).await?;
        self.house.stop_postgres();
        let start = Instant::now();
        signal(pid, "CONT");
        let without = self.house.decided(look).await? - start;
        self.house.start_postgres(port)?;
        self.house.committed(look).await?;
        self.house.recorded().await?;

        let rate = |took: Duration| count as f64 / took.as_secs_f64();
        samples.add("P23", Sample::ratio(rate(with), rate(without)));
        Ok(())
    }

    /// P12.
    async fn surge(&self, samples: &mut Samples) -> anyhow::Result<()> {
        let count = if self.bench.full {
            50_000
        } else {
            self.bench.size(2_500, 60)
        };
        for (ack, row, speed) in [
            ("P12-ack", "P12-row", 1.0),
            ("P12-ack-10x", "P12-row-10x", 10.0),
        ] {
            let customers = new_customers(count);
            let requests = Requests::seal(&customers, Connections::Kept)?;
            let after = self.house.roster.status().await?.seq;
            let tail = Tail::start(&self.house.postgres_url, &self.house.corp, after);
            let to = self.house.gateway.address;
            let outcome = load::paced(to, &requests, CONNECTIONS, SURGE * speed).await?;
            self.house.committed(Duration::from_millis(5)).await?;
            let seen = tail.end()?;
            let mut waited = Vec::new();
            for (customer, acked) in customers.iter().zip(&outcome.acks) {
                if let (Some(acked), Some(seen)) = (acked, seen.get(&self.subject(customer))) {
                    waited.push(seen.saturating_duration_since(acked.at));
                }
            }
            let p99 = percentile(&mut waited, 0.99).as_secs_f64() * 1000.0;
            samples.add(ack, Sample::figure(outcome.p99_ms(), None));
            samples.add(row, Sample::figure(p99, None));
            self.count(&customers, &outcome, samples).await?;
        }
        Ok(())
    }

    async fn count(
        &self,
        customers: &[Added],
        outcome: &Outcome,
        samples: &mut Samples,
    ) -> anyhow::Result<()> {
        let acked = customers
            .iter()
            .zip(&outcome.acks)
            .filter(|(_, ack)| ack.is_some());
        let subjects: Vec<String> = acked
            .map(|(customer, _)| self.subject(customer).to_string())
            .collect();
        let row = sqlx::query(
            "SELECT count(*), count(*) FILTER (WHERE n > 1) FROM
                (SELECT count(*) AS n FROM allocations WHERE subject = ANY($1) GROUP BY subject) AS each",
        )
        .bind(&subjects)
        .fetch_one(self.house.ledger.pool())
        .await?;
        let (found, doubled): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        let lost = subjects.len() as i64 - found;
        samples.add("P12-lost", Sample::figure(lost as f64, None));
        samples.add("P12-doubled", Sample::figure(doubled as f64, None));
        Ok(())
    }

    fn subject(&self, customer: &Added) -> SubjectKey {
        SubjectKey::new(&self.house.corp, "wecom", &customer.customer)
    }
}

fn last_ack(outcome: &Outcome) -> Option<Instant> {
    outcome.acks.iter().flatten().map(|ack| ack.at).max()
}
