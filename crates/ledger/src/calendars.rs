//! Calendars: special days that several schedules share, such as a country's holidays.

use allocation::{CalendarId, CorpId, ScheduleId};
use serde_json::{Value, json};
use sqlx::postgres::PgRow;

use crate::Error;
use crate::audit::Trail;
use crate::configured::{self, Configured, Found, Listed};
use crate::connection::{Db, Work};
use crate::cursor::{Page, PageRequest};
use crate::put::{Deleted, Precondition, Put};
use crate::row::Columns;
use crate::text::{clean, clean_json};
use crate::times::at;

#[derive(Debug, Clone)]
pub struct Calendars {
    pub(crate) db: Db,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Calendar {
    pub id: CalendarId,
    pub name: String,
    /// The caller's own JSON.
    pub days: Value,
    pub version: u64,
    pub created_ms: u64,
    pub updated_ms: u64,
}

/// What a caller wants a calendar to be.
#[derive(Debug, Clone, PartialEq)]
pub struct NewCalendar {
    pub name: String,
    pub days: Value,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT c.calendar_id, c.name, c.days, c.version, c.created_at, c.updated_at, c.deleted_at
             FROM calendars AS c WHERE c.corp_id = $1 ",
            $rest
        )
    };
}

impl Calendars {
    pub async fn get(&self, corp: &CorpId, id: &CalendarId) -> Result<Option<Calendar>, Error> {
        configured::get(&self.db, corp, id).await
    }

    /// All that are not deleted, by id.
    pub async fn all(&self, corp: &CorpId) -> Result<Vec<Calendar>, Error> {
        configured::all(&self.db, corp).await
    }

    /// The latest first.
    pub async fn list(&self, corp: &CorpId, page: &PageRequest) -> Result<Page<Calendar>, Error> {
        configured::list(&self.db, corp, page).await
    }

    pub async fn put(
        &self,
        corp: &CorpId,
        id: &CalendarId,
        new: &NewCalendar,
        precondition: Precondition,
        trail: &Trail,
    ) -> Result<Put<Calendar, std::convert::Infallible>, Error> {
        configured::put(&self.db, corp, id, new, precondition, trail).await
    }

    /// Refused: the schedules that refer to it.
    pub async fn delete(
        &self,
        corp: &CorpId,
        id: &CalendarId,
        precondition: Precondition,
        trail: &Trail,
    ) -> Result<Deleted<Calendar, Vec<ScheduleId>>, Error> {
        configured::delete(&self.db, corp, id, precondition, trail).await
    }
}

impl Listed for Calendar {
    const LIST: &'static str = "calendars";
    const ONE: &'static str = select!("AND c.calendar_id = $2 AND c.deleted_at IS NULL");
    const ALL: &'static str = select!("AND c.deleted_at IS NULL ORDER BY c.calendar_id");
    const FORWARD: &'static str = select!(
        "AND c.deleted_at IS NULL AND ($2::timestamptz IS NULL OR (c.created_at, c.calendar_id) < ($2, $3))
         ORDER BY c.created_at DESC, c.calendar_id DESC LIMIT $4"
    );
    const BACKWARD: &'static str = select!(
        "AND c.deleted_at IS NULL AND ($2::timestamptz IS NULL OR (c.created_at, c.calendar_id) > ($2, $3))
         ORDER BY c.created_at, c.calendar_id LIMIT $4"
    );

    async fn read(_: &mut Work, _: &CorpId, rows: &[PgRow]) -> Result<Vec<Self>, Error> {
        rows.iter().map(read).collect()
    }

    fn place(&self) -> (u64, &str) {
        (self.created_ms, self.id.as_str())
    }
}

impl Configured for Calendar {
    type Id = CalendarId;
    type New = NewCalendar;
    type Misfit = std::convert::Infallible;
    type Use = Vec<ScheduleId>;
    const KIND: &'static str = "calendar";

    fn version(&self) -> u64 {
        self.version
    }

    fn json(&self) -> Value {
        json!({"name": self.name, "days": self.days})
    }

    fn is(&self, new: &NewCalendar) -> bool {
        self.name == new.name && self.days == new.days
    }

    async fn lock(
        work: &mut Work,
        corp: &CorpId,
        id: &CalendarId,
    ) -> Result<Option<Found<Calendar>>, Error> {
        let query = work
            .query(select!("AND c.calendar_id = $2 FOR UPDATE"))
            .bind(corp.as_str())
            .bind(id.as_str().to_owned());
        let Some(row) = work.fetch_optional(query).await? else {
            return Ok(None);
        };
        let deleted = row.ms_option("deleted_at")?.is_some();
        Ok(Some(Found {
            row: read(&row)?,
            deleted,
        }))
    }

    async fn misfit(
        _: &mut Work,
        _: &CorpId,
        _: &CalendarId,
        _: &NewCalendar,
    ) -> Result<Option<std::convert::Infallible>, Error> {
        Ok(None)
    }

    async fn save(
        work: &mut Work,
        corp: &CorpId,
        id: &CalendarId,
        new: &NewCalendar,
        found: Option<&Found<Calendar>>,
        now_ms: u64,
    ) -> Result<bool, Error> {
        let query = work
            .query(
                "INSERT INTO calendars AS c (corp_id, calendar_id, name, days, version, created_at, updated_at)
                 VALUES ($1, $2, $3, $4, 1, $5, $5)
                 ON CONFLICT (corp_id, calendar_id) DO UPDATE SET name = $3, days = $4,
                    version = c.version + 1, updated_at = $5, deleted_at = NULL,
                    created_at = CASE WHEN c.deleted_at IS NULL THEN c.created_at ELSE $5 END
                 WHERE $6",
            )
            .bind(corp.as_str())
            .bind(id.as_str().to_owned())
            .bind(clean(&new.name).into_owned())
            .bind(clean_json(&new.days))
            .bind(at(now_ms))
            .bind(found.is_some());
        Ok(work.execute(query).await? > 0)
    }

    async fn in_use(
        work: &mut Work,
        corp: &CorpId,
        id: &CalendarId,
    ) -> Result<Option<Vec<ScheduleId>>, Error> {
        let query = work
            .query(
                "SELECT schedule_id FROM schedule_calendars WHERE corp_id = $1 AND calendar_id = $2
                 ORDER BY schedule_id",
            )
            .bind(corp.as_str())
            .bind(id.as_str().to_owned());
        let rows = work.fetch_all(query).await?;
        let schedules = rows.iter().map(|row| row.parsed("schedule_id"));
        let schedules = schedules.collect::<Result<Vec<_>, _>>()?;
        Ok(Some(schedules).filter(|schedules| !schedules.is_empty()))
    }

    async fn remove(
        work: &mut Work,
        corp: &CorpId,
        id: &CalendarId,
        now_ms: u64,
    ) -> Result<(), Error> {
        let query = work
            .query(
                "UPDATE calendars SET deleted_at = $3, updated_at = $3, version = version + 1
                 WHERE corp_id = $1 AND calendar_id = $2",
            )
            .bind(corp.as_str())
            .bind(id.as_str().to_owned())
            .bind(at(now_ms));
        work.execute(query).await?;
        Ok(())
    }
}

fn read(row: &PgRow) -> Result<Calendar, Error> {
    Ok(Calendar {
        id: row.parsed("calendar_id")?,
        name: row.value("name")?,
        days: row.value("days")?,
        version: row.number("version")?,
        created_ms: row.ms("created_at")?,
        updated_ms: row.ms("updated_at")?,
    })
}
