//! Dropping the days of deliveries that are older than anybody wants to read them. A day goes with its outcomes, and
//! only if something came of every one of its deliveries.

use time::{Date, Duration};

use super::Deliveries;
use crate::Error;
use crate::connection::Work;
use crate::row::Columns;
use crate::times::at;

/// Any number that the other locks of ours do not use. It ends with its transaction.
const ONE_AT_A_TIME: &str = "SELECT pg_try_advisory_xact_lock(7023362) AS ours";
/// Dropping needs both tables for itself for a moment. While it waits for a long reader every write waits behind it, so
/// it soon gives up.
const PATIENCE: &str = "SET LOCAL lock_timeout = '1s'";
const DAYS: &str = "SELECT to_date(right(relname, 8), 'YYYYMMDD') AS day
    FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
    WHERE inhparent = 'deliveries'::regclass AND relname ~ '^deliveries_[0-9]{8}$' ORDER BY 1";
/// Deliveries of forgotten customers have nothing left to come of.
const UNDECIDED: &str = "SELECT count(*) AS n FROM deliveries AS d
    WHERE d.received_at >= $1 AND d.received_at < $2 AND d.scrubbed_at IS NULL AND NOT EXISTS (
        SELECT FROM delivery_outcomes AS o WHERE o.received_at >= $1 AND o.received_at < $2
            AND o.corp_id = d.corp_id AND o.delivery = d.id AND o.received_at = d.received_at)";

/// An old day of deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OldDay {
    /// In UTC.
    pub day: Date,
    /// Deliveries without an outcome, for which it was kept; 0: it was dropped.
    pub undecided: u64,
}

/// What became of a day that was looked at.
enum Look {
    Dropped,
    Undecided(u64),
    /// Another process dropped it.
    Gone,
    /// Another process drops days.
    Elsewhere,
}

impl Deliveries {
    /// Drops the days, in UTC, that were over at `before_ms`, the oldest first, at most `most` of them. The days that
    /// were dropped or kept are the answer; it is empty too when another process is at it. Contended: somebody reads
    /// the table for long; try much later.
    pub async fn drop_old(&self, before_ms: u64, most: usize) -> Result<Vec<OldDay>, Error> {
        let mut done = Vec::new();
        let mut dropped = 0;
        for day in self.days_over(before_ms).await? {
            if dropped == most {
                break;
            }
            let undecided = match self.drop_day(day).await? {
                Look::Dropped => 0,
                Look::Undecided(n) => n,
                Look::Gone => continue,
                Look::Elsewhere => break,
            };
            dropped += usize::from(undecided == 0);
            done.push(OldDay { day, undecided });
        }
        Ok(done)
    }

    async fn days_over(&self, before_ms: u64) -> Result<Vec<Date>, Error> {
        let mut work = self.db.single().await?;
        let query = work.query_once(DAYS);
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let first_kept = at(before_ms).date();
        let mut days = rows
            .iter()
            .map(|row| row.value("day"))
            .collect::<Result<Vec<Date>, _>>()?;
        days.retain(|day| *day < first_kept);
        Ok(days)
    }

    async fn drop_day(&self, day: Date) -> Result<Look, Error> {
        let mut work = self.db.long_transaction().await?;
        let query = work.query_once(ONE_AT_A_TIME);
        let ours: bool = work.fetch_one(query).await?.value("ours")?;
        if !ours {
            work.roll_back().await?;
            return Ok(Look::Elsewhere);
        }
        work.script(PATIENCE).await?;
        let [deliveries, outcomes] = partitions(day);
        if !exists(&mut work, &deliveries).await? {
            work.roll_back().await?;
            return Ok(Look::Gone);
        }
        // Nothing is added to this day while it is looked at; other days and all readers go on.
        work.script(format!("LOCK TABLE {deliveries}, {outcomes} IN SHARE MODE"))
            .await?;
        let start = day.midnight().assume_utc();
        let query = work
            .query_once(UNDECIDED)
            .bind(start)
            .bind(start + Duration::DAY);
        let undecided = work.fetch_one(query).await?.number("n")?;
        if undecided > 0 {
            work.roll_back().await?;
            return Ok(Look::Undecided(undecided));
        }
        work.script(format!("DROP TABLE {deliveries}, {outcomes}"))
            .await?;
        work.commit().await?;
        Ok(Look::Dropped)
    }
}

/// As `make_delivery_partitions` names them.
fn partitions(day: Date) -> [String; 2] {
    let (year, month, day) = day.to_calendar_date();
    let suffix = format!("{year:04}{:02}{day:02}", u8::from(month));
    ["deliveries", "delivery_outcomes"].map(|parent| format!("{parent}_{suffix}"))
}

async fn exists(work: &mut Work, table: &str) -> Result<bool, Error> {
    let query = work
        .query_once("SELECT to_regclass($1) IS NOT NULL AS there")
        .bind(table.to_owned());
    work.fetch_one(query).await?.value("there")
}
