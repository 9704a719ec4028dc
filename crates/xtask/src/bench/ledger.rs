//! The ledger's one writer, beside the fastest way to get the same rows into the same tables.
//!
//! - **P20-1000**, **P20-5000** 50,000 decisions, as an allocator reads them from the log (200 a log entry, each with a
//!   customer, an allocation, a transfer, two effects and the outcome of its delivery), written in transactions of
//!   1,000 and of 5,000 ÷ `COPY` of the very rows they left, all tables in one transaction. Tables are emptied and a
//!   checkpoint is made before each; indexes are as the migrations made them. Decisions a second, each one row in six
//!   tables. Postgres keeps what it commits (fsync), as in production.

use std::time::Instant;

use allocation::{CorpId, PoolId};
use futures_util::TryStreamExt;
use ledger::{Entry, Ledger, WriteBatch};
use sqlx::{PgPool, Row as _};

use super::callbacks::CORP;
use super::row::Sample;
use super::{Bench, Group, Samples, runtime};
use crate::services::{Keep, Package, Postgres, ensure};

mod decisions;

/// Those that a decision writes.
const TABLES: [&str; 6] = [
    "log",
    "customers",
    "allocations",
    "transfers",
    "outbox",
    "delivery_outcomes",
];

pub(super) fn run(bench: &Bench, samples: &mut Samples) -> anyhow::Result<()> {
    ensure(&[Package::Postgres])?;
    let postgres = Postgres::start(&bench.place.folder, Keep::Everything, None)?;
    runtime()?.block_on(async {
        let ledger = Ledger::connect(ledger::Config::new(postgres.url("postgres"))).await?;
        let corp = CorpId::new(CORP)?;
        ledger.migrate().await?;
        let count = bench.size(50_000, 1_000);
        let entries = decisions::entries(&corp, &PoolId::new("sales")?, count)?;
        for round in 0..bench.rounds {
            for (row, batch) in [("P20-1000", 1_000), ("P20-5000", 5_000)] {
                empty(ledger.pool()).await?;
                let ours = write(&ledger, &corp, &entries, batch).await?;
                let rows = read_out(ledger.pool(), count).await?;
                empty(ledger.pool()).await?;
                let limit = copy(ledger.pool(), &rows).await?;
                let rate = |seconds: f64| count as f64 / seconds;
                samples.add(row, Sample::ratio(rate(ours), rate(limit)));
            }
            samples.tell(Group::Ledger, round, bench.rounds);
        }
        ledger.close().await;
        Ok(())
    })
}

/// Nothing written, nothing left to write: the corp's row stays.
async fn empty(pool: &PgPool) -> anyhow::Result<()> {
    let tables = TABLES.join(", ");
    let sql = format!("TRUNCATE {tables}; UPDATE corps SET log_seq = 0");
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql))
        .execute(pool)
        .await?;
    sqlx::raw_sql("CHECKPOINT").execute(pool).await?;
    Ok(())
}

/// Seconds it took in transactions of so many decisions.
async fn write(
    ledger: &Ledger,
    corp: &CorpId,
    entries: &[Entry],
    decisions: usize,
) -> anyhow::Result<f64> {
    let batches: Vec<WriteBatch> = entries
        .chunks(decisions / decisions::PER_ENTRY)
        .map(|entries| WriteBatch {
            generation: 0,
            entries: entries.to_vec(),
        })
        .collect();
    ledger.prepare(std::slice::from_ref(corp)).await?;
    let start = Instant::now();
    for batch in &batches {
        let Some(write) = ledger.begin_log_write(corp).await? else {
            anyhow::bail!("somebody else holds the corp's row");
        };
        let written = write.commit(batch).await?;
        anyhow::ensure!(written.conflicts.is_empty(), "{written:?}");
    }
    Ok(start.elapsed().as_secs_f64())
}

/// A table's columns and its rows as COPY gives them.
struct Copied {
    into: String,
    rows: Vec<u8>,
}

async fn read_out(pool: &PgPool, decisions: usize) -> anyhow::Result<Vec<Copied>> {
    let made: i64 = sqlx::query("SELECT count(*) FROM allocations")
        .fetch_one(pool)
        .await?
        .get(0);
    anyhow::ensure!(made == decisions as i64, "{made} allocations were written");
    let mut copied = Vec::new();
    for table in TABLES {
        // Generated columns are made again.
        let columns: String = sqlx::query(
            "SELECT string_agg(quote_ident(column_name), ', ' ORDER BY ordinal_position)
             FROM information_schema.columns
             WHERE table_schema = current_schema AND table_name = $1 AND is_generated = 'NEVER'",
        )
        .bind(table)
        .fetch_one(pool)
        .await?
        .get(0);
        let mut connection = pool.acquire().await?;
        let sql = format!("COPY (SELECT {columns} FROM {table}) TO STDOUT");
        let stream = connection.copy_out_raw(&sql).await?;
        let rows = stream
            .try_fold(Vec::new(), |mut all, part| async move {
                all.extend_from_slice(&part);
                Ok(all)
            })
            .await?;
        let into = format!("COPY {table} ({columns}) FROM STDIN");
        copied.push(Copied { into, rows });
    }
    Ok(copied)
}

/// Seconds it took to copy everything in, one transaction.
async fn copy(pool: &PgPool, tables: &[Copied]) -> anyhow::Result<f64> {
    let mut connection = pool.acquire().await?;
    let start = Instant::now();
    sqlx::raw_sql("BEGIN").execute(&mut *connection).await?;
    for Copied { into, rows } in tables {
        let mut copy = connection.copy_in_raw(into).await?;
        for part in rows.chunks(1 << 20) {
            copy.send(part).await?;
        }
        copy.finish().await?;
    }
    sqlx::raw_sql("COMMIT").execute(&mut *connection).await?;
    Ok(start.elapsed().as_secs_f64())
}
