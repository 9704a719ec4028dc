//! Raw deliveries and what became of them. Recording and deciding run side by side; either may be first.

mod outcomes;
mod retention;

use std::collections::{BTreeMap, BTreeSet};

use allocation::{AllocationId, CorpId, SubjectKey};
use sqlx::postgres::PgRow;
use time::Date;

use crate::Error;
use crate::change::DeliveryOutcome;
use crate::connection::{Db, Work};
use crate::cursor::{Page, PageRequest, Window};
use crate::error::retry;
use crate::log_write::{Meeting, column};
use crate::row::Columns;
use crate::text::{clean, clean_option};
use crate::times::{at, at_option};

pub(crate) use outcomes::write_outcomes;
pub use retention::OldDay;

const CHUNK: usize = 5_000;
const LIST: &str = "deliveries";

#[derive(Debug, Clone)]
pub struct Deliveries {
    pub(crate) db: Db,
}

/// One delivery as it came, readable or not.
#[derive(Clone, PartialEq, Eq)]
pub struct NewDelivery {
    /// As the inbox has it, in hex.
    pub id: String,
    pub received_ms: u64,
    pub endpoint: String,
    /// The plaintext.
    pub body: String,
    pub event: Option<String>,
    pub change_type: Option<String>,
    /// When the event says it happened.
    pub event_ms: Option<u64>,
    /// Whom it is about: deleting a customer finds the delivery by it.
    pub subject: Option<SubjectKey>,
    /// Why it could not be read.
    pub problem: Option<String>,
}

/// The plaintext is not for logs.
impl std::fmt::Debug for NewDelivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewDelivery")
            .field("id", &self.id)
            .field("event", &self.event)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, PartialEq, Eq)]
pub struct Delivery {
    pub delivery: NewDelivery,
    /// Its customer was deleted: the body is empty.
    pub scrubbed_ms: Option<u64>,
    /// None: it is still under way.
    pub outcome: Option<String>,
    pub outcome_ms: Option<u64>,
    pub reason: Option<String>,
    pub allocation: Option<AllocationId>,
}

impl std::fmt::Debug for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delivery")
            .field("delivery", &self.delivery)
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}

/// Every field that is given must match.
#[derive(Debug, Clone, Default)]
pub struct DeliveryFilter {
    pub endpoint: Option<String>,
    pub event: Option<String>,
    pub change_type: Option<String>,
    pub outcome: Option<String>,
    /// Only those without an outcome.
    pub pending: bool,
    /// Only those that could not be read.
    pub unreadable: bool,
    pub subject: Option<SubjectKey>,
    pub received_from_ms: Option<u64>,
    pub received_before_ms: Option<u64>,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT d.id, d.received_at, d.endpoint, d.body, d.event, d.change_type, d.event_at, d.subject,
                d.problem, d.scrubbed_at, o.outcome, o.at AS outcome_at, o.reason, o.allocation_id
             FROM deliveries AS d LEFT JOIN delivery_outcomes AS o
                ON o.corp_id = d.corp_id AND o.delivery = d.id AND o.received_at = d.received_at
             WHERE d.corp_id = $1 ",
            $rest
        )
    };
}

macro_rules! list {
    ($rest:literal) => {
        concat!(
            select!(
                "AND ($2::text IS NULL OR d.endpoint = $2) AND ($3::text IS NULL OR d.event = $3)
                AND ($4::text IS NULL OR d.change_type = $4) AND ($5::text IS NULL OR o.outcome = $5)
                AND (NOT $6 OR o.outcome IS NULL) AND (NOT $7 OR d.problem IS NOT NULL)
                AND ($8::text IS NULL OR d.subject = $8)
                AND ($9::timestamptz IS NULL OR d.received_at >= $9)
                AND ($10::timestamptz IS NULL OR d.received_at < $10) "
            ),
            $rest
        )
    };
}

macro_rules! record {
    ($rest:literal) => {
        concat!(
            "INSERT INTO deliveries (corp_id, id, received_at, endpoint, body, event, change_type, event_at, subject,
                problem)
             SELECT $1, * FROM unnest($2::text[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::text[],
                $8::timestamptz[], $9::text[], $10::text[])",
            $rest
        )
    };
}

const FORWARD: &str = list!(
    "AND ($11::timestamptz IS NULL OR (d.received_at, d.id) < ($11, $12))
     ORDER BY d.received_at DESC, d.id DESC LIMIT $13"
);
const BACKWARD: &str = list!(
    "AND ($11::timestamptz IS NULL OR (d.received_at, d.id) > ($11, $12))
     ORDER BY d.received_at, d.id LIMIT $13"
);

impl Deliveries {
    /// Stores what is not there yet; answers how many that were. Order and repetition do not matter.
    pub async fn record(&self, corp: &CorpId, deliveries: &[NewDelivery]) -> Result<u64, Error> {
        let sorted: BTreeMap<(&str, u64), &NewDelivery> = deliveries
            .iter()
            .map(|delivery| ((delivery.id.as_str(), delivery.received_ms), delivery))
            .collect();
        let rows: Vec<&NewDelivery> = sorted.into_values().collect();
        let mut new = 0;
        for chunk in rows.chunks(CHUNK) {
            let recorded = retry(|| self.try_record(corp, chunk, Meeting::Nothing)).await;
            new += match recorded {
                Err(error) if error.is_duplicate() => {
                    retry(|| self.try_record(corp, chunk, Meeting::Rows)).await?
                }
                recorded => recorded?,
            };
        }
        Ok(new)
    }

    async fn try_record(
        &self,
        corp: &CorpId,
        rows: &[&NewDelivery],
        meeting: Meeting,
    ) -> Result<u64, Error> {
        let mut work = self.db.transaction().await?;
        make_partitions(&mut work, rows.iter().map(|row| row.received_ms)).await?;
        let query = work
            .query(match meeting {
                Meeting::Nothing => record!(""),
                Meeting::Rows => record!(" ON CONFLICT DO NOTHING"),
            })
            .bind(corp.as_str())
            .bind(column(rows, |row| clean(&row.id)))
            .bind(column(rows, |row| at(row.received_ms)))
            .bind(column(rows, |row| clean(&row.endpoint)))
            .bind(column(rows, |row| clean(&row.body)))
            .bind(column(rows, |row| clean_option(row.event.as_ref())))
            .bind(column(rows, |row| clean_option(row.change_type.as_ref())))
            .bind(column(rows, |row| at_option(row.event_ms)))
            .bind(column(rows, |row| {
                row.subject.map(|subject| subject.to_string())
            }))
            .bind(column(rows, |row| clean_option(row.problem.as_ref())));
        let new = work.execute(query).await?;
        work.commit().await?;
        Ok(new)
    }

    /// For outcomes that no log entry carries; a later one replaces an earlier one.
    pub async fn set_outcomes(
        &self,
        corp: &CorpId,
        outcomes: &[DeliveryOutcome],
        now_ms: u64,
    ) -> Result<(), Error> {
        let outcomes: Vec<_> = outcomes.iter().map(|outcome| (outcome, now_ms)).collect();
        retry(|| async {
            let mut work = self.db.transaction().await?;
            write_outcomes(&mut work, corp, &outcomes, Meeting::Rows).await?;
            work.commit().await
        })
        .await
    }

    /// Which of these (id and time of receipt) have an outcome, and its word.
    pub async fn decided(
        &self,
        corp: &CorpId,
        deliveries: &[(String, u64)],
    ) -> Result<BTreeMap<String, String>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT o.delivery, o.outcome FROM unnest($2::text[], $3::timestamptz[]) AS d (id, received_at)
                 JOIN delivery_outcomes AS o
                    ON o.corp_id = $1 AND o.delivery = d.id AND o.received_at = d.received_at",
            )
            .bind(corp.as_str())
            .bind(column(deliveries, |delivery| delivery.0.clone()))
            .bind(column(deliveries, |delivery| at(delivery.1)));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter()
            .map(|row| Ok((row.value("delivery")?, row.value("outcome")?)))
            .collect()
    }

    /// The last delivery of that id, should it have come again after the inbox had forgotten it.
    pub async fn get(&self, corp: &CorpId, id: &str) -> Result<Option<Delivery>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(select!("AND d.id = $2 ORDER BY d.received_at DESC LIMIT 1"))
            .bind(corp.as_str())
            .bind(clean(id));
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        row.as_ref().map(read).transpose()
    }

    /// Newest first.
    pub async fn list(
        &self,
        corp: &CorpId,
        filter: &DeliveryFilter,
        page: &PageRequest,
    ) -> Result<Page<Delivery>, Error> {
        let window = Window::read(page, LIST)?;
        let mut work = self.db.single().await?;
        let sql = if window.is_backward() {
            BACKWARD
        } else {
            FORWARD
        };
        let query = work
            .query_once(sql)
            .bind(corp.as_str())
            .bind(clean_option(filter.endpoint.as_ref()))
            .bind(clean_option(filter.event.as_ref()))
            .bind(clean_option(filter.change_type.as_ref()))
            .bind(clean_option(filter.outcome.as_ref()))
            .bind(filter.pending)
            .bind(filter.unreadable)
            .bind(filter.subject.map(|subject| subject.to_string()))
            .bind(at_option(filter.received_from_ms))
            .bind(at_option(filter.received_before_ms))
            .bind(window.time())
            .bind(window.id().map(str::to_owned))
            .bind(window.fetch());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let rows = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Ok(window.page(LIST, rows, |row| {
            (at(row.delivery.received_ms), row.delivery.id.clone())
        }))
    }

    /// For a replay: oldest first, after `(received_ms, id)` where the last call ended. Scrubbed ones are left out, and
    /// with `pending` those that have an outcome.
    pub async fn range(
        &self,
        corp: &CorpId,
        (from_ms, before_ms): (u64, u64),
        pending: bool,
        after: Option<(u64, &str)>,
        limit: u32,
    ) -> Result<Vec<Delivery>, Error> {
        let mut work = self.db.single().await?;
        let (after_ms, after_id) = after.unwrap_or((from_ms, ""));
        let query = work
            .query_once(select!(
                "AND d.received_at >= $2 AND d.received_at < $3 AND (d.received_at, d.id) > ($4, $5)
                 AND d.scrubbed_at IS NULL AND (NOT $7 OR o.outcome IS NULL)
                 ORDER BY d.received_at, d.id LIMIT $6"
            ))
            .bind(corp.as_str())
            .bind(at(from_ms))
            .bind(at(before_ms))
            .bind(at(after_ms))
            .bind(clean(after_id))
            .bind(i64::from(limit))
            .bind(pending);
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter().map(read).collect()
    }

    /// How many were received in that time, by outcome; the empty word stands for those without one.
    pub async fn count_outcomes(
        &self,
        corp: &CorpId,
        from_ms: u64,
        before_ms: u64,
    ) -> Result<BTreeMap<String, u64>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query_once(
                "SELECT coalesce(o.outcome, '') AS outcome, count(*) AS n
                 FROM deliveries AS d LEFT JOIN delivery_outcomes AS o
                    ON o.corp_id = d.corp_id AND o.delivery = d.id AND o.received_at = d.received_at
                    AND o.received_at >= $2 AND o.received_at < $3
                 WHERE d.corp_id = $1 AND d.received_at >= $2 AND d.received_at < $3 GROUP BY 1",
            )
            .bind(corp.as_str())
            .bind(at(from_ms))
            .bind(at(before_ms));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter()
            .map(|row| Ok((row.value("outcome")?, row.number("n")?)))
            .collect()
    }

    /// Makes the daily partitions from the day of `now_ms` on, so that no write has to. Repeat it daily.
    pub async fn make_partitions_ahead(&self, now_ms: u64, days: u32) -> Result<u64, Error> {
        const DAY_MS: u64 = 24 * 60 * 60 * 1000;
        let mut work = self.db.transaction().await?;
        let made = make_partitions(
            &mut work,
            (0..u64::from(days)).map(|day| now_ms + day * DAY_MS),
        )
        .await?;
        work.commit().await?;
        Ok(made)
    }
}

pub(crate) async fn make_partitions(
    work: &mut Work,
    times_ms: impl Iterator<Item = u64>,
) -> Result<u64, Error> {
    let days: BTreeSet<Date> = times_ms.map(|ms| at(ms).date()).collect();
    let query = work
        .query("SELECT coalesce(sum(make_delivery_partitions(day, day)), 0) AS made FROM unnest($1::date[]) AS day")
        .bind(days.into_iter().collect::<Vec<_>>());
    work.fetch_one(query).await?.number("made")
}

fn read(row: &PgRow) -> Result<Delivery, Error> {
    Ok(Delivery {
        delivery: NewDelivery {
            id: row.value("id")?,
            received_ms: row.ms("received_at")?,
            endpoint: row.value("endpoint")?,
            body: row.value("body")?,
            event: row.value("event")?,
            change_type: row.value("change_type")?,
            event_ms: row.ms_option("event_at")?,
            subject: row.parsed_option("subject")?,
            problem: row.value("problem")?,
        },
        scrubbed_ms: row.ms_option("scrubbed_at")?,
        outcome: row.value("outcome")?,
        outcome_ms: row.ms_option("outcome_at")?,
        reason: row.value("reason")?,
        allocation: row
            .value::<Option<uuid::Uuid>>("allocation_id")?
            .map(AllocationId),
    })
}
