//! Brings the tables to this program's version. Forward only.
//!
//! Each migration is one transaction that also takes a lock which ends with it and writes down that it is done. So
//! any number of replicas may start at once, one of them may be killed half-way, and a pooler may stand in between.

use allocation::CorpId;

use crate::connection::Work;
use crate::row::Columns;
use crate::{Error, Ledger};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    pub version: i64,
    pub name: &'static str,
    pub sql: &'static str,
}

macro_rules! migration {
    ($version:literal, $name:literal) => {
        Migration {
            version: $version,
            name: $name,
            sql: include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../migrations/",
                $name,
                ".sql"
            )),
        }
    };
}

/// All of `migrations/`, in order; a test compares.
pub const MIGRATIONS: &[Migration] = &[
    migration!(1, "0001_ledger"),
    migration!(2, "0002_configuration"),
    migration!(3, "0003_outbox_claim"),
    migration!(4, "0004_rebuild_lease"),
    migration!(5, "0005_lost"),
    migration!(6, "0006_handover"),
    migration!(7, "0007_contact_ways"),
    migration!(8, "0008_visits"),
    migration!(9, "0009_hours"),
    migration!(10, "0010_limits"),
    migration!(11, "0011_snapshots_of_rows"),
    migration!(12, "0012_offers"),
    migration!(13, "0013_policies"),
    migration!(14, "0014_routing"),
    migration!(15, "0015_first_response"),
    migration!(16, "0016_passed_over"),
    migration!(17, "0017_display_names"),
    migration!(18, "0018_fission"),
    migration!(19, "0019_channel_limits"),
    migration!(20, "0020_preferred"),
    migration!(21, "0021_seats"),
    migration!(22, "0022_group_reads"),
    migration!(23, "0023_join_ways"),
    migration!(24, "0024_supply"),
    migration!(25, "0025_inviters"),
    migration!(26, "0026_doubted_people"),
    migration!(27, "0027_auto_rooms"),
    migration!(28, "0028_inviter_ways"),
    migration!(29, "0029_unplaced_groups"),
    migration!(30, "0030_told_excess"),
    migration!(31, "0031_failed_effects"),
    migration!(32, "0032_resting_sources"),
];

/// How the database and this program fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MigrationStatus {
    /// Migrations of ours that are missing there.
    pub pending: usize,
    /// Migrations there that we do not know: a newer program ran.
    pub newer: usize,
}

const TABLE: &str = "CREATE TABLE IF NOT EXISTS migrations (
    version    bigint      PRIMARY KEY,
    name       text        NOT NULL,
    checksum   text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)";

/// That a table is there already is no news.
const QUIET: &str = "SET LOCAL client_min_messages = warning";

/// Ends with the transaction. The number means nothing, but must be the same in every replica.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7023361)";

impl Ledger {
    /// Applies what is missing; answers how many that were. Waits for another replica that is at it.
    pub async fn migrate(&self) -> Result<usize, Error> {
        let mut applied = 0;
        loop {
            let mut work = self.db.long_transaction().await?;
            work.script(QUIET).await?;
            work.script(LOCK).await?;
            work.script(TABLE).await?;
            let Some(next) = first_missing(&mut work).await? else {
                work.commit().await?;
                return Ok(applied);
            };
            work.script(next.sql).await.map_err(|error| match error {
                Error::Database(source) | Error::NotMigrated(source) => Error::Migration {
                    version: next.version,
                    problem: source.to_string(),
                },
                other => other,
            })?;
            let query = work
                .query(
                    "INSERT INTO migrations (version, name, checksum)
                     VALUES ($1, $2, encode(sha256(convert_to($3, 'UTF8')), 'hex'))",
                )
                .bind(next.version)
                .bind(next.name)
                .bind(next.sql);
            work.execute(query).await?;
            work.commit().await?;
            tracing::info!(version = next.version, name = next.name, "migrated");
            applied += 1;
        }
    }

    pub async fn migration_status(&self) -> Result<MigrationStatus, Error> {
        let mut work = self.db.single().await?;
        let query = work.query("SELECT to_regclass('migrations') IS NOT NULL AS there");
        let there: bool = work.fetch_one(query).await?.value("there")?;
        work.end().await?;
        if !there {
            return Ok(MigrationStatus {
                pending: MIGRATIONS.len(),
                newer: 0,
            });
        }
        let mut work = self.db.single().await?;
        let versions = MIGRATIONS
            .iter()
            .map(|migration| migration.version)
            .collect::<Vec<_>>();
        let query = work
            .query(
                "SELECT count(*) FILTER (WHERE version = ANY($1)) AS ours,
                    count(*) FILTER (WHERE version <> ALL($1)) AS others FROM migrations",
            )
            .bind(versions);
        let row = work.fetch_one(query).await?;
        work.end().await?;
        let (ours, newer) = (row.number("ours")? as usize, row.number("others")? as usize);
        Ok(MigrationStatus {
            pending: MIGRATIONS.len() - ours.min(MIGRATIONS.len()),
            newer,
        })
    }

    /// `migrate` and a row for each corp: what a program does at its start.
    pub async fn prepare(&self, corps: &[CorpId]) -> Result<(), Error> {
        self.migrate().await?;
        for corp in corps {
            self.corps().ensure(corp).await?;
        }
        Ok(())
    }
}

/// The first of ours that is not applied. One that was changed after it had been applied is an error.
async fn first_missing(work: &mut Work) -> Result<Option<&'static Migration>, Error> {
    for migration in MIGRATIONS {
        let query = work
            .query(
                "SELECT checksum = encode(sha256(convert_to($2, 'UTF8')), 'hex') AS same FROM migrations
                 WHERE version = $1",
            )
            .bind(migration.version)
            .bind(migration.sql);
        match work.fetch_optional(query).await? {
            None => return Ok(Some(migration)),
            Some(row) if row.value("same")? => {}
            Some(_) => {
                let problem = format!("{} was changed after it had been applied", migration.name);
                return Err(Error::Migration {
                    version: migration.version,
                    problem,
                });
            }
        }
    }
    Ok(None)
}
