//! Who changed what, when and why. Rows are added and never changed; the table itself refuses it.

use allocation::CorpId;
use serde_json::Value;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::Error;
use crate::connection::{Db, Work};
use crate::cursor::{Page, PageRequest, Window};
use crate::log_write::column;
use crate::row::Columns;
use crate::text::{clean, clean_json, clean_option};
use crate::times::{at, at_option};

const LIST: &str = "audit";

#[derive(Debug, Clone)]
pub struct Audit {
    pub(crate) db: Db,
}

/// Who changes something, and why: goes with every change of configuration into the same transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trail {
    /// `key:<id>` of an API key, `system`, …
    pub actor: String,
    pub reason: Option<String>,
    pub request_id: Option<String>,
    pub now_ms: u64,
}

impl Trail {
    /// For what the program does by itself.
    pub fn system(now_ms: u64, reason: &str) -> Trail {
        Trail {
            actor: "system".to_owned(),
            reason: Some(reason.to_owned()),
            request_id: None,
            now_ms,
        }
    }

    /// One change by this trail.
    pub fn record(
        &self,
        action: &str,
        entity: String,
        before: Option<Value>,
        after: Option<Value>,
    ) -> AuditRecord {
        AuditRecord {
            id: Uuid::now_v7(),
            at_ms: self.now_ms,
            actor: self.actor.clone(),
            action: action.to_owned(),
            entity,
            before,
            after,
            reason: self.reason.clone(),
            request_id: self.request_id.clone(),
        }
    }
}

/// One change. Its id makes it unique: written twice, it is there once.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditRecord {
    pub id: Uuid,
    pub at_ms: u64,
    pub actor: String,
    /// `pool.put`, `allocation.close`, …
    pub action: String,
    /// `pools/<id>`, `allocations/<id>`, …; never an outside id of a customer.
    pub entity: String,
    pub before: Option<Value>,
    pub after: Option<Value>,
    pub reason: Option<String>,
    pub request_id: Option<String>,
}

/// Every field that is given must match.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    pub actor: Option<String>,
    pub action: Option<String>,
    pub entity: Option<String>,
    pub from_ms: Option<u64>,
    pub before_ms: Option<u64>,
}

macro_rules! list {
    ($rest:literal) => {
        concat!(
            "SELECT id, at, actor, action, entity, before, after, reason, request_id FROM audit
             WHERE corp_id = $1 AND ($2::text IS NULL OR actor = $2) AND ($3::text IS NULL OR action = $3)
                AND ($4::text IS NULL OR entity = $4) AND ($5::timestamptz IS NULL OR at >= $5)
                AND ($6::timestamptz IS NULL OR at < $6) ",
            $rest
        )
    };
}

const FORWARD: &str = list!(
    "AND ($7::timestamptz IS NULL OR (at, id) < ($7, $8)) ORDER BY at DESC, id DESC LIMIT $9"
);
const BACKWARD: &str =
    list!("AND ($7::timestamptz IS NULL OR (at, id) > ($7, $8)) ORDER BY at, id LIMIT $9");

impl Audit {
    /// For changes that are not in Postgres.
    pub async fn add(&self, corp: &CorpId, records: &[AuditRecord]) -> Result<(), Error> {
        let mut work = self.db.single().await?;
        write(&mut work, corp, &records.iter().collect::<Vec<_>>()).await?;
        work.end().await
    }

    /// Newest first.
    pub async fn list(
        &self,
        corp: &CorpId,
        filter: &AuditFilter,
        page: &PageRequest,
    ) -> Result<Page<AuditRecord>, Error> {
        let window = Window::read(page, LIST)?;
        let id = window.uuid()?;
        let mut work = self.db.single().await?;
        let query = work
            .query_once(if window.is_backward() {
                BACKWARD
            } else {
                FORWARD
            })
            .bind(corp.as_str())
            .bind(clean_option(filter.actor.as_ref()))
            .bind(clean_option(filter.action.as_ref()))
            .bind(clean_option(filter.entity.as_ref()))
            .bind(at_option(filter.from_ms))
            .bind(at_option(filter.before_ms))
            .bind(window.time())
            .bind(id)
            .bind(window.fetch());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let records = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Ok(window.page(LIST, records, |record| {
            (at(record.at_ms), record.id.to_string())
        }))
    }
}

pub(crate) async fn write(
    work: &mut Work,
    corp: &CorpId,
    records: &[&AuditRecord],
) -> Result<(), Error> {
    if records.is_empty() {
        return Ok(());
    }
    let query = work
        .query(
            "INSERT INTO audit (corp_id, id, at, actor, action, entity, before, after, reason, request_id)
             SELECT $1, * FROM unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[],
                $7::jsonb[], $8::jsonb[], $9::text[], $10::text[])
             ON CONFLICT DO NOTHING",
        )
        .bind(corp.as_str())
        .bind(column(records, |record| record.id))
        .bind(column(records, |record| at(record.at_ms)))
        .bind(column(records, |record| clean(&record.actor)))
        .bind(column(records, |record| clean(&record.action)))
        .bind(column(records, |record| clean(&record.entity)))
        .bind(column(records, |record| record.before.as_ref().map(clean_json)))
        .bind(column(records, |record| record.after.as_ref().map(clean_json)))
        .bind(column(records, |record| clean_option(record.reason.as_ref())))
        .bind(column(records, |record| clean_option(record.request_id.as_ref())));
    work.execute(query).await?;
    Ok(())
}

fn read(row: &PgRow) -> Result<AuditRecord, Error> {
    Ok(AuditRecord {
        id: row.value("id")?,
        at_ms: row.ms("at")?,
        actor: row.value("actor")?,
        action: row.value("action")?,
        entity: row.value("entity")?,
        before: row.value("before")?,
        after: row.value("after")?,
        reason: row.value("reason")?,
        request_id: row.value("request_id")?,
    })
}
