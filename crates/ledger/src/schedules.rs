//! Schedules: hours of work that members share. What the hours mean is the caller's business.

use std::collections::HashMap;

use allocation::{CalendarId, CorpId, MemberId, ScheduleId};
use serde_json::{Value, json};
use sqlx::postgres::PgRow;

use crate::Error;
use crate::audit::Trail;
use crate::configured::{self, Configured, Found, Listed};
use crate::connection::{Db, Work};
use crate::cursor::{Page, PageRequest};
use crate::log_write::column;
use crate::put::{Deleted, Precondition, Put};
use crate::row::Columns;
use crate::text::{clean, clean_json};
use crate::times::at;

#[derive(Debug, Clone)]
pub struct Schedules {
    pub(crate) db: Db,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    pub id: ScheduleId,
    pub name: String,
    pub zone: String,
    /// The caller's own JSON.
    pub weekly: Value,
    pub days: Value,
    /// Of two that know a date the earlier one counts.
    pub calendars: Vec<CalendarId>,
    pub version: u64,
    pub created_ms: u64,
    pub updated_ms: u64,
}

/// What a caller wants a schedule to be. Calendars are distinct.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSchedule {
    pub name: String,
    pub zone: String,
    pub weekly: Value,
    pub days: Value,
    pub calendars: Vec<CalendarId>,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT s.schedule_id, s.name, s.zone, s.weekly, s.days, s.version, s.created_at, s.updated_at,
                s.deleted_at FROM schedules AS s WHERE s.corp_id = $1 ",
            $rest
        )
    };
}

impl Schedules {
    pub async fn get(&self, corp: &CorpId, id: &ScheduleId) -> Result<Option<Schedule>, Error> {
        configured::get(&self.db, corp, id).await
    }

    /// All that are not deleted, by id.
    pub async fn all(&self, corp: &CorpId) -> Result<Vec<Schedule>, Error> {
        configured::all(&self.db, corp).await
    }

    /// The latest first.
    pub async fn list(&self, corp: &CorpId, page: &PageRequest) -> Result<Page<Schedule>, Error> {
        configured::list(&self.db, corp, page).await
    }

    /// Refused: the calendars that are not there.
    pub async fn put(
        &self,
        corp: &CorpId,
        id: &ScheduleId,
        new: &NewSchedule,
        precondition: Precondition,
        trail: &Trail,
    ) -> Result<Put<Schedule, Vec<CalendarId>>, Error> {
        configured::put(&self.db, corp, id, new, precondition, trail).await
    }

    /// Refused: the members whose hours these are.
    pub async fn delete(
        &self,
        corp: &CorpId,
        id: &ScheduleId,
        precondition: Precondition,
        trail: &Trail,
    ) -> Result<Deleted<Schedule, Vec<MemberId>>, Error> {
        configured::delete(&self.db, corp, id, precondition, trail).await
    }
}

impl Listed for Schedule {
    const LIST: &'static str = "schedules";
    const ONE: &'static str = select!("AND s.schedule_id = $2 AND s.deleted_at IS NULL");
    const ALL: &'static str = select!("AND s.deleted_at IS NULL ORDER BY s.schedule_id");
    const FORWARD: &'static str = select!(
        "AND s.deleted_at IS NULL AND ($2::timestamptz IS NULL OR (s.created_at, s.schedule_id) < ($2, $3))
         ORDER BY s.created_at DESC, s.schedule_id DESC LIMIT $4"
    );
    const BACKWARD: &'static str = select!(
        "AND s.deleted_at IS NULL AND ($2::timestamptz IS NULL OR (s.created_at, s.schedule_id) > ($2, $3))
         ORDER BY s.created_at, s.schedule_id LIMIT $4"
    );
    const IN_PARTS: bool = true;

    async fn read(work: &mut Work, corp: &CorpId, rows: &[PgRow]) -> Result<Vec<Self>, Error> {
        with_calendars(work, corp, rows).await
    }

    fn place(&self) -> (u64, &str) {
        (self.created_ms, self.id.as_str())
    }
}

impl Configured for Schedule {
    type Id = ScheduleId;
    type New = NewSchedule;
    type Misfit = Vec<CalendarId>;
    type Use = Vec<MemberId>;
    const KIND: &'static str = "schedule";

    fn version(&self) -> u64 {
        self.version
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "zone": self.zone,
            "weekly": self.weekly,
            "days": self.days,
            "calendars": self.calendars,
        })
    }

    fn is(&self, new: &NewSchedule) -> bool {
        self.name == new.name
            && self.zone == new.zone
            && self.weekly == new.weekly
            && self.days == new.days
            && self.calendars == new.calendars
    }

    async fn lock(
        work: &mut Work,
        corp: &CorpId,
        id: &ScheduleId,
    ) -> Result<Option<Found<Schedule>>, Error> {
        let query = work
            .query(select!("AND s.schedule_id = $2 FOR UPDATE"))
            .bind(corp.as_str())
            .bind(id.as_str().to_owned());
        let Some(row) = work.fetch_optional(query).await? else {
            return Ok(None);
        };
        let deleted = row.ms_option("deleted_at")?.is_some();
        let schedules = with_calendars(work, corp, std::slice::from_ref(&row)).await?;
        let schedule = schedules.into_iter().next();
        Ok(schedule.map(|row| Found { row, deleted }))
    }

    /// The calendars stay while the transaction lasts.
    async fn misfit(
        work: &mut Work,
        corp: &CorpId,
        _: &ScheduleId,
        new: &NewSchedule,
    ) -> Result<Option<Vec<CalendarId>>, Error> {
        let query = work
            .query(
                "SELECT calendar_id FROM calendars WHERE corp_id = $1 AND calendar_id = ANY($2)
                    AND deleted_at IS NULL ORDER BY calendar_id FOR SHARE",
            )
            .bind(corp.as_str())
            .bind(column(&new.calendars, |id| id.as_str().to_owned()));
        let rows = work.fetch_all(query).await?;
        let known = rows.iter().map(|row| row.parsed("calendar_id"));
        let known = known.collect::<Result<Vec<CalendarId>, _>>()?;
        let unknown: Vec<CalendarId> = new
            .calendars
            .iter()
            .filter(|id| !known.contains(id))
            .cloned()
            .collect();
        Ok(Some(unknown).filter(|unknown| !unknown.is_empty()))
    }

    async fn save(
        work: &mut Work,
        corp: &CorpId,
        id: &ScheduleId,
        new: &NewSchedule,
        found: Option<&Found<Schedule>>,
        now_ms: u64,
    ) -> Result<bool, Error> {
        let query = work
            .query(
                "INSERT INTO schedules AS s
                    (corp_id, schedule_id, name, zone, weekly, days, version, created_at, updated_at)
                 VALUES ($1, $2, $3, $4, $5, $6, 1, $7, $7)
                 ON CONFLICT (corp_id, schedule_id) DO UPDATE SET name = $3, zone = $4, weekly = $5, days = $6,
                    version = s.version + 1, updated_at = $7, deleted_at = NULL,
                    created_at = CASE WHEN s.deleted_at IS NULL THEN s.created_at ELSE $7 END
                 WHERE $8",
            )
            .bind(corp.as_str())
            .bind(id.as_str().to_owned())
            .bind(clean(&new.name).into_owned())
            .bind(clean(&new.zone).into_owned())
            .bind(clean_json(&new.weekly))
            .bind(clean_json(&new.days))
            .bind(at(now_ms))
            .bind(found.is_some());
        if work.execute(query).await? == 0 {
            return Ok(false);
        }
        save_calendars(work, corp, id, &new.calendars).await?;
        Ok(true)
    }

    async fn in_use(
        work: &mut Work,
        corp: &CorpId,
        id: &ScheduleId,
    ) -> Result<Option<Vec<MemberId>>, Error> {
        let query = work
            .query(
                "SELECT member FROM members WHERE corp_id = $1 AND schedule_id = $2 ORDER BY member",
            )
            .bind(corp.as_str())
            .bind(id.as_str().to_owned());
        let rows = work.fetch_all(query).await?;
        let members = rows.iter().map(|row| row.parsed("member"));
        let members = members.collect::<Result<Vec<_>, _>>()?;
        Ok(Some(members).filter(|members| !members.is_empty()))
    }

    async fn remove(
        work: &mut Work,
        corp: &CorpId,
        id: &ScheduleId,
        now_ms: u64,
    ) -> Result<(), Error> {
        save_calendars(work, corp, id, &[]).await?;
        let query = work
            .query(
                "UPDATE schedules SET deleted_at = $3, updated_at = $3, version = version + 1
                 WHERE corp_id = $1 AND schedule_id = $2",
            )
            .bind(corp.as_str())
            .bind(id.as_str().to_owned())
            .bind(at(now_ms));
        work.execute(query).await?;
        Ok(())
    }
}

async fn save_calendars(
    work: &mut Work,
    corp: &CorpId,
    id: &ScheduleId,
    calendars: &[CalendarId],
) -> Result<(), Error> {
    let query = work
        .query("DELETE FROM schedule_calendars WHERE corp_id = $1 AND schedule_id = $2")
        .bind(corp.as_str())
        .bind(id.as_str().to_owned());
    work.execute(query).await?;
    let placed: Vec<(&CalendarId, i32)> = calendars.iter().zip(0..).collect();
    let query = work
        .query(
            "INSERT INTO schedule_calendars (corp_id, schedule_id, calendar_id, position)
             SELECT $1, $2, n.calendar_id, n.position FROM unnest($3::text[], $4::integer[]) AS n (calendar_id, position)",
        )
        .bind(corp.as_str())
        .bind(id.as_str().to_owned())
        .bind(column(&placed, |(id, _)| id.as_str().to_owned()))
        .bind(column(&placed, |(_, position)| *position));
    work.execute(query).await?;
    Ok(())
}

async fn with_calendars(
    work: &mut Work,
    corp: &CorpId,
    rows: &[PgRow],
) -> Result<Vec<Schedule>, Error> {
    let mut schedules = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let query = work
        .query(
            "SELECT schedule_id, calendar_id FROM schedule_calendars
             WHERE corp_id = $1 AND schedule_id = ANY($2) ORDER BY schedule_id, position",
        )
        .bind(corp.as_str())
        .bind(column(&schedules, |schedule| {
            schedule.id.as_str().to_owned()
        }));
    let mut of: HashMap<ScheduleId, Vec<CalendarId>> = HashMap::new();
    for row in work.fetch_all(query).await? {
        of.entry(row.parsed("schedule_id")?)
            .or_default()
            .push(row.parsed("calendar_id")?);
    }
    for schedule in &mut schedules {
        schedule.calendars = of.remove(&schedule.id).unwrap_or_default();
    }
    Ok(schedules)
}

fn read(row: &PgRow) -> Result<Schedule, Error> {
    Ok(Schedule {
        id: row.parsed("schedule_id")?,
        name: row.value("name")?,
        zone: row.value("zone")?,
        weekly: row.value("weekly")?,
        days: row.value("days")?,
        calendars: Vec::new(),
        version: row.number("version")?,
        created_ms: row.ms("created_at")?,
        updated_ms: row.ms("updated_at")?,
    })
}
