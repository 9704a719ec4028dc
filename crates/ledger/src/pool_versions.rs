//! Every version of a pool that was ever in force, and the way back to one.

use allocation::{CorpId, PoolId};
use serde_json::Value;
use sqlx::postgres::PgRow;

use crate::Error;
use crate::audit::Trail;
use crate::connection::Work;
use crate::cursor::{Page, PageRequest, Window};
use crate::pools::{NewPool, Pool, PoolRefused, Pools};
use crate::put::{Precondition, Put};
use crate::row::{Columns, signed};
use crate::text::{clean, clean_json, clean_option};
use crate::times::at;

const LIST: &str = "pool_versions";

/// That a pool was put or deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    pub version: u64,
    /// It was the end of the pool, until it came back.
    pub deleted: bool,
    pub published_ms: u64,
    /// None: from before this was kept.
    pub actor: Option<String>,
    pub note: Option<String>,
}

/// What a way back came to.
#[derive(Debug, Clone, PartialEq)]
pub enum RolledBack {
    Put(Box<Put<Pool, PoolRefused>>),
    /// There was no such version.
    NoVersion,
    /// The pool was deleted then.
    Deleted,
}

macro_rules! select {
    ($more:literal, $rest:literal) => {
        concat!(
            "SELECT v.version, v.content IS NULL AS deleted, v.published_at, v.actor, v.note",
            $more,
            " FROM pool_versions AS v WHERE v.corp_id = $1 AND v.pool_id = $2 ",
            $rest
        )
    };
}

const FORWARD: &str = select!(
    "",
    "AND ($3::bigint IS NULL OR v.version < $3) ORDER BY v.version DESC LIMIT $4"
);
const BACKWARD: &str = select!(
    "",
    "AND ($3::bigint IS NULL OR v.version > $3) ORDER BY v.version LIMIT $4"
);

impl Pools {
    /// The latest first; of a pool that never was none.
    pub async fn published(
        &self,
        corp: &CorpId,
        id: &PoolId,
        page: &PageRequest,
    ) -> Result<Page<Published>, Error> {
        let window = Window::read(page, LIST)?;
        let version = window.id().map(str::parse::<i64>).transpose();
        let version = version.map_err(|_| Error::Cursor)?;
        let mut work = self.db.single().await?;
        let query = work
            .query_once(if window.is_backward() {
                BACKWARD
            } else {
                FORWARD
            })
            .bind(corp.as_str())
            .bind(id.as_str().to_owned())
            .bind(version)
            .bind(window.fetch());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let published = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Ok(window.page(LIST, published, |one| {
            (at(one.published_ms), one.version.to_string())
        }))
    }

    /// One version, and what the pool was in it.
    pub async fn version(
        &self,
        corp: &CorpId,
        id: &PoolId,
        version: u64,
    ) -> Result<Option<(Published, Option<NewPool>)>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(select!(", v.content", "AND v.version = $3"))
            .bind(corp.as_str())
            .bind(id.as_str().to_owned())
            .bind(signed(version));
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        let Some(row) = row else {
            return Ok(None);
        };
        let content: Option<Value> = row.value("content")?;
        let content = content.map(NewPool::read).transpose()?;
        Ok(Some((read(&row)?, content)))
    }

    /// Puts what the pool was in this version, as a new one. A deleted pool comes back.
    pub async fn roll_back(
        &self,
        corp: &CorpId,
        id: &PoolId,
        version: u64,
        precondition: Precondition,
        trail: &Trail,
    ) -> Result<RolledBack, Error> {
        let Some((_, content)) = self.version(corp, id, version).await? else {
            return Ok(RolledBack::NoVersion);
        };
        let Some(content) = content else {
            return Ok(RolledBack::Deleted);
        };
        let note = || format!("rollback to version {version}");
        let trail = Trail {
            reason: Some(trail.reason.clone().unwrap_or_else(note)),
            ..trail.clone()
        };
        let put = self.put(corp, id, &content, precondition, &trail).await?;
        Ok(RolledBack::Put(Box::new(put)))
    }
}

/// Keeps what a pool is from now on; None: it is deleted.
pub(crate) async fn keep(
    work: &mut Work,
    corp: &CorpId,
    id: &PoolId,
    version: u64,
    content: Option<&NewPool>,
    trail: &Trail,
) -> Result<(), Error> {
    let query = work
        .query(
            "INSERT INTO pool_versions (corp_id, pool_id, version, content, published_at, actor, note)
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(corp.as_str())
        .bind(id.as_str().to_owned())
        .bind(signed(version))
        .bind(content.map(|content| clean_json(&content.document())))
        .bind(at(trail.now_ms))
        .bind(clean(&trail.actor).into_owned())
        .bind(clean_option(trail.reason.as_ref()).map(|note| note.into_owned()));
    work.execute(query).await?;
    Ok(())
}

fn read(row: &PgRow) -> Result<Published, Error> {
    Ok(Published {
        version: row.number("version")?,
        deleted: row.value("deleted")?,
        published_ms: row.ms("published_at")?,
        actor: row.value("actor")?,
        note: row.value("note")?,
    })
}
