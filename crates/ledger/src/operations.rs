//! Long work that a console follows. Whoever works on an operation holds it under a lease and writes down where it
//! stands; when he dies another one goes on from there.

use allocation::CorpId;
use serde_json::Value;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::Error;
use crate::audit::{Trail, write};
use crate::connection::Db;
use crate::cursor::{Page, PageRequest, Window};
use crate::error::retry;
use crate::row::{Columns, signed};
use crate::text::{clean, clean_json};
use crate::times::at;

const LIST: &str = "operations";

#[derive(Debug, Clone)]
pub struct Operations {
    pub(crate) db: Db,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OperationState {
    Running,
    /// Somebody asked for its end; the worker has not seen it yet.
    Cancelling,
    Done,
    Failed,
    Cancelled,
}

impl OperationState {
    pub const ALL: [OperationState; 5] = [
        OperationState::Running,
        OperationState::Cancelling,
        OperationState::Done,
        OperationState::Failed,
        OperationState::Cancelled,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            OperationState::Running => "running",
            OperationState::Cancelling => "cancelling",
            OperationState::Done => "done",
            OperationState::Failed => "failed",
            OperationState::Cancelled => "cancelled",
        }
    }

    pub fn is_end(self) -> bool {
        !matches!(self, OperationState::Running | OperationState::Cancelling)
    }
}

impl std::str::FromStr for OperationState {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<OperationState, Self::Err> {
        OperationState::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or("no state of an operation")
    }
}

/// How far an operation is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    pub total: u64,
    pub done: u64,
    /// There was nothing to do for them.
    pub skipped: u64,
    pub failed: u64,
    /// The first few, as the console shows them.
    pub first_errors: Vec<Value>,
    /// Where it stands; the worker's own text.
    pub cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    pub id: Uuid,
    pub kind: String,
    pub state: OperationState,
    pub progress: Progress,
    /// What was asked for; the worker's own JSON.
    pub request: Value,
    /// What it found, once it is done; the worker's own JSON.
    pub result: Option<Value>,
    pub actor: String,
    pub created_ms: u64,
    pub updated_ms: u64,
}

/// Simulations hold much of a process's memory for long: whoever does other work does not wait for them. One at a time runs
/// in a corp.
pub const SIMULATIONS: &str = "pools.simulate";

/// Imports of customer groups wait for WeCom's quota: whoever does other work does not wait for them.
pub const GROUP_IMPORTS: &str = "groups.import";

/// Kinds that have workers of their own.
const APART: [&str; 2] = [SIMULATIONS, GROUP_IMPORTS];

macro_rules! columns {
    () => {
        "o.id, o.kind, o.state, o.total, o.done, o.skipped, o.failed, o.first_errors, o.request, o.result, o.actor, o.cursor,
         o.claim, o.created_at, o.updated_at"
    };
}

macro_rules! list {
    ($rest:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM operations AS o WHERE o.corp_id = $1 AND ($2::text IS NULL OR o.kind = $2)
                AND ($3::text IS NULL OR o.state = $3) ",
            $rest
        )
    };
}

const FORWARD: &str = list!(
    "AND ($4::timestamptz IS NULL OR (o.created_at, o.id) < ($4, $5))
     ORDER BY o.created_at DESC, o.id DESC LIMIT $6"
);
const BACKWARD: &str = list!(
    "AND ($4::timestamptz IS NULL OR (o.created_at, o.id) > ($4, $5)) ORDER BY o.created_at, o.id LIMIT $6"
);

impl Operations {
    pub async fn create(
        &self,
        corp: &CorpId,
        kind: &str,
        total: u64,
        request: &Value,
        trail: &Trail,
    ) -> Result<Operation, Error> {
        let created = self.try_create(corp, kind, total, request, trail).await?;
        created.ok_or_else(|| Error::unreadable("operation", "it runs already"))
    }

    /// None: another one runs.
    pub async fn create_simulation(
        &self,
        corp: &CorpId,
        total: u64,
        request: &Value,
        trail: &Trail,
    ) -> Result<Option<Operation>, Error> {
        self.try_create(corp, SIMULATIONS, total, request, trail)
            .await
    }

    async fn try_create(
        &self,
        corp: &CorpId,
        kind: &str,
        total: u64,
        request: &Value,
        trail: &Trail,
    ) -> Result<Option<Operation>, Error> {
        let operation = Operation {
            id: Uuid::now_v7(),
            kind: kind.to_owned(),
            state: OperationState::Running,
            progress: Progress {
                total,
                ..Progress::default()
            },
            request: request.clone(),
            result: None,
            actor: trail.actor.clone(),
            created_ms: trail.now_ms,
            updated_ms: trail.now_ms,
        };
        let mut work = self.db.transaction().await?;
        let query = work
            .query(
                "INSERT INTO operations (corp_id, id, kind, state, total, request, actor, created_at, updated_at)
                 VALUES ($1, $2, $3, 'running', $4, $5, $6, $7, $7)
                 ON CONFLICT (corp_id) WHERE kind = 'pools.simulate' AND state IN ('running', 'cancelling') DO NOTHING",
            )
            .bind(corp.as_str())
            .bind(operation.id)
            .bind(kind.to_owned())
            .bind(signed(total))
            .bind(clean_json(request))
            .bind(clean(&trail.actor).into_owned())
            .bind(at(trail.now_ms));
        if work.execute(query).await? == 0 {
            work.roll_back().await?;
            return Ok(None);
        }
        let entity = format!("operations/{}", operation.id);
        let record = trail.record(kind, entity, None, Some(request.clone()));
        write(&mut work, corp, &[&record]).await?;
        work.commit().await?;
        Ok(Some(operation))
    }

    pub async fn get(&self, corp: &CorpId, id: Uuid) -> Result<Option<Operation>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(concat!(
                "SELECT ",
                columns!(),
                " FROM operations AS o WHERE o.corp_id = $1 AND o.id = $2"
            ))
            .bind(corp.as_str())
            .bind(id);
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        row.as_ref().map(read).transpose()
    }

    /// The latest first.
    pub async fn list(
        &self,
        corp: &CorpId,
        kind: Option<&str>,
        state: Option<OperationState>,
        page: &PageRequest,
    ) -> Result<Page<Operation>, Error> {
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
            .bind(kind.map(|kind| clean(kind).into_owned()))
            .bind(state.map(OperationState::as_str))
            .bind(window.time())
            .bind(id)
            .bind(window.fetch());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let operations = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Ok(window.page(LIST, operations, |operation| {
            (at(operation.created_ms), operation.id.to_string())
        }))
    }

    /// Takes the oldest unfinished operation that nobody works on, with the claim that [`save`](Self::save) needs. Simulations
    /// and imports are left to [`claim_simulation`](Self::claim_simulation) and [`claim_import`](Self::claim_import).
    pub async fn claim(
        &self,
        corp: &CorpId,
        lease_ms: u64,
        now_ms: u64,
    ) -> Result<Option<(Operation, Uuid)>, Error> {
        self.claim_one(corp, None, lease_ms, now_ms).await
    }

    pub async fn claim_simulation(
        &self,
        corp: &CorpId,
        lease_ms: u64,
        now_ms: u64,
    ) -> Result<Option<(Operation, Uuid)>, Error> {
        self.claim_one(corp, Some(SIMULATIONS), lease_ms, now_ms)
            .await
    }

    pub async fn claim_import(
        &self,
        corp: &CorpId,
        lease_ms: u64,
        now_ms: u64,
    ) -> Result<Option<(Operation, Uuid)>, Error> {
        self.claim_one(corp, Some(GROUP_IMPORTS), lease_ms, now_ms)
            .await
    }

    async fn claim_one(
        &self,
        corp: &CorpId,
        only: Option<&'static str>,
        lease_ms: u64,
        now_ms: u64,
    ) -> Result<Option<(Operation, Uuid)>, Error> {
        let row = retry(|| async {
            let mut work = self.db.single().await?;
            let query = work
                .query_once(concat!(
                    "UPDATE operations AS o SET claim = $2, lease_until = $3 WHERE o.id = (
                        SELECT id FROM operations
                        WHERE corp_id = $1 AND state IN ('running', 'cancelling') AND (kind = $5 OR $5::text IS NULL AND kind <> ALL($6))
                            AND (lease_until IS NULL OR lease_until <= $4)
                        ORDER BY created_at, id LIMIT 1 FOR UPDATE SKIP LOCKED)
                     RETURNING ",
                    columns!()
                ))
                .bind(corp.as_str())
                .bind(Uuid::now_v7())
                .bind(at(now_ms.saturating_add(lease_ms)))
                .bind(at(now_ms))
                .bind(only)
                .bind(&APART[..]);
            let row = work.fetch_optional(query).await?;
            work.end().await?;
            Ok(row)
        })
        .await?;
        row.map(|row| Ok((read(&row)?, row.value("claim")?)))
            .transpose()
    }

    /// Writes down how far it is, and keeps the lease. Answers the state as it is now; None: it is not ours any more.
    pub async fn save(
        &self,
        id: Uuid,
        claim: Uuid,
        progress: &Progress,
        lease_ms: u64,
        now_ms: u64,
    ) -> Result<Option<OperationState>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "UPDATE operations SET total = $3, done = $4, skipped = $5, failed = $6, first_errors = $7,
                    cursor = $8, lease_until = $9, updated_at = $10
                 WHERE id = $1 AND claim = $2 AND state IN ('running', 'cancelling') RETURNING state",
            )
            .bind(id)
            .bind(claim)
            .bind(signed(progress.total))
            .bind(signed(progress.done))
            .bind(signed(progress.skipped))
            .bind(signed(progress.failed))
            .bind(clean_json(&Value::Array(progress.first_errors.clone())))
            .bind(progress.cursor.clone())
            .bind(at(now_ms.saturating_add(lease_ms)))
            .bind(at(now_ms));
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        row.map(|row| row.parsed("state")).transpose()
    }

    /// Ends it, if it is still ours.
    pub async fn end(
        &self,
        id: Uuid,
        claim: Uuid,
        state: OperationState,
        now_ms: u64,
    ) -> Result<bool, Error> {
        self.end_with(id, claim, state, None, now_ms).await
    }

    /// As `end`; with what it found.
    pub async fn end_with(
        &self,
        id: Uuid,
        claim: Uuid,
        state: OperationState,
        result: Option<&Value>,
        now_ms: u64,
    ) -> Result<bool, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "UPDATE operations SET state = $3, lease_until = NULL, updated_at = $4, result = $5
                 WHERE id = $1 AND claim = $2 AND state IN ('running', 'cancelling')",
            )
            .bind(id)
            .bind(claim)
            .bind(state.as_str())
            .bind(at(now_ms))
            .bind(result.map(clean_json));
        let ended = work.execute(query).await? > 0;
        work.end().await?;
        Ok(ended)
    }

    /// Gives it back unfinished: another one may go on at once.
    pub async fn release(&self, id: Uuid, claim: Uuid) -> Result<(), Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query("UPDATE operations SET lease_until = NULL WHERE id = $1 AND claim = $2")
            .bind(id)
            .bind(claim);
        work.execute(query).await?;
        work.end().await
    }

    /// Asks for its end; None: there is no such operation. One at its end stays as it is.
    pub async fn cancel(
        &self,
        corp: &CorpId,
        id: Uuid,
        trail: &Trail,
    ) -> Result<Option<Operation>, Error> {
        let mut work = self.db.transaction().await?;
        let query = work
            .query(concat!(
                "UPDATE operations AS o SET state = 'cancelling', updated_at = $3
                 WHERE o.corp_id = $1 AND o.id = $2 AND o.state = 'running' RETURNING ",
                columns!()
            ))
            .bind(corp.as_str())
            .bind(id)
            .bind(at(trail.now_ms));
        let Some(row) = work.fetch_optional(query).await? else {
            work.roll_back().await?;
            return self.get(corp, id).await;
        };
        let record = trail.record("operation.cancel", format!("operations/{id}"), None, None);
        write(&mut work, corp, &[&record]).await?;
        work.commit().await?;
        Ok(Some(read(&row)?))
    }
}

fn read(row: &PgRow) -> Result<Operation, Error> {
    let errors: Value = row.value("first_errors")?;
    Ok(Operation {
        id: row.value("id")?,
        kind: row.value("kind")?,
        state: row.parsed("state")?,
        progress: Progress {
            total: row.number("total")?,
            done: row.number("done")?,
            skipped: row.number("skipped")?,
            failed: row.number("failed")?,
            first_errors: errors.as_array().cloned().unwrap_or_default(),
            cursor: row.value("cursor")?,
        },
        request: row.value("request")?,
        result: row.value("result")?,
        actor: row.value("actor")?,
        created_ms: row.ms("created_at")?,
        updated_ms: row.ms("updated_at")?,
    })
}
