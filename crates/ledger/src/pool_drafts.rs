//! Drafts: what a pool could be. They are written like other configuration, with versions and an audit, and are nobody's rule
//! until they are published, which puts the pool and ends the draft in one transaction.

use allocation::{CorpId, PoolId};
use serde_json::{Value, json};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::Error;
use crate::audit::{Trail, write};
use crate::configured::{self, Configured, Found};
use crate::connection::{Db, Work};
use crate::cursor::{Page, PageRequest, Window};
use crate::error::retry;
use crate::pools::{NewPool, Pool, PoolRefused};
use crate::put::{Deleted, Precondition, Put};
use crate::row::{Columns, signed};
use crate::text::{clean, clean_json, clean_option};
use crate::times::at;

const LIST: &str = "pool_drafts";
/// Of one pool; each may be as large as the pool.
pub const MOST_DRAFTS: u64 = 100;

#[derive(Debug, Clone)]
pub struct Drafts {
    pub(crate) db: Db,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    pub id: Uuid,
    pub pool: PoolId,
    /// The version in force that it was made from.
    pub base_version: u64,
    /// Its members may be unknown.
    pub content: NewPool,
    pub note: Option<String>,
    /// Who made it.
    pub author: String,
    pub version: u64,
    pub created_ms: u64,
    pub updated_ms: u64,
}

/// What a caller wants a draft to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDraft {
    pub pool: PoolId,
    /// None: as it was, or of a new draft the version in force.
    pub base_version: Option<u64>,
    pub content: NewPool,
    pub note: Option<String>,
    /// Whose it is when it is new.
    pub author: String,
}

/// Why a draft cannot be like this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DraftRefused {
    /// There is no such pool (any more).
    NoPool,
    /// The pool never had this version.
    NoVersion,
    TooMany,
}

/// What publishing a draft came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Publication {
    /// The pool is like this now, and the draft is no more.
    Published(Pool),
    NoDraft,
    /// The draft is not what the caller saw.
    Stale(Draft),
    /// The pool has changed since the draft was made from it: it is at this version.
    BaseMoved(u64),
    /// The pool was deleted.
    NoPool,
    Refused(PoolRefused),
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT d.id, d.pool_id, d.base_version, d.content, d.note, d.author, d.version, d.created_at, d.updated_at
             FROM pool_drafts AS d WHERE d.corp_id = $1 ",
            $rest
        )
    };
}

const FORWARD: &str = select!(
    "AND d.pool_id = $2 AND ($3::timestamptz IS NULL OR (d.created_at, d.id) < ($3, $4))
     ORDER BY d.created_at DESC, d.id DESC LIMIT $5"
);
const BACKWARD: &str = select!(
    "AND d.pool_id = $2 AND ($3::timestamptz IS NULL OR (d.created_at, d.id) > ($3, $4))
     ORDER BY d.created_at, d.id LIMIT $5"
);

impl Drafts {
    pub async fn get(&self, corp: &CorpId, id: Uuid) -> Result<Option<Draft>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(select!("AND d.id = $2"))
            .bind(corp.as_str())
            .bind(id);
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        row.as_ref().map(read).transpose()
    }

    /// Of one pool, the latest first.
    pub async fn list(
        &self,
        corp: &CorpId,
        pool: &PoolId,
        page: &PageRequest,
    ) -> Result<Page<Draft>, Error> {
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
            .bind(pool.as_str().to_owned())
            .bind(window.time())
            .bind(id)
            .bind(window.fetch());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let drafts = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Ok(window.page(LIST, drafts, |draft| {
            (at(draft.created_ms), draft.id.to_string())
        }))
    }

    pub async fn put(
        &self,
        corp: &CorpId,
        id: Uuid,
        new: &NewDraft,
        precondition: Precondition,
        trail: &Trail,
    ) -> Result<Put<Draft, DraftRefused>, Error> {
        configured::put(&self.db, corp, &id, new, precondition, trail).await
    }

    pub async fn delete(
        &self,
        corp: &CorpId,
        id: Uuid,
        precondition: Precondition,
        trail: &Trail,
    ) -> Result<Deleted<Draft, ()>, Error> {
        configured::delete(&self.db, corp, &id, precondition, trail).await
    }

    /// The precondition is about the draft. `overwrite`: whatever the pool has become since the draft was made from it.
    pub async fn publish(
        &self,
        corp: &CorpId,
        id: Uuid,
        precondition: Precondition,
        overwrite: bool,
        trail: &Trail,
    ) -> Result<Publication, Error> {
        loop {
            let published = retry(|| self.try_publish(corp, id, precondition, overwrite, trail));
            if let Some(published) = published.await? {
                return Ok(published);
            }
        }
    }

    /// None: somebody else was quicker with the pool.
    async fn try_publish(
        &self,
        corp: &CorpId,
        id: Uuid,
        precondition: Precondition,
        overwrite: bool,
        trail: &Trail,
    ) -> Result<Option<Publication>, Error> {
        let mut work = self.db.transaction().await?;
        let Some(Found { row: draft, .. }) = Draft::lock(&mut work, corp, &id).await? else {
            work.roll_back().await?;
            return Ok(Some(Publication::NoDraft));
        };
        if !precondition.holds(Some(draft.version)) {
            work.roll_back().await?;
            return Ok(Some(Publication::Stale(draft)));
        }
        let trail = Trail {
            reason: trail.reason.clone().or_else(|| draft.note.clone()),
            ..trail.clone()
        };
        let base = match overwrite {
            true => Precondition::Present,
            false => Precondition::Version(draft.base_version),
        };
        let put =
            configured::put_in::<Pool>(&mut work, corp, &draft.pool, &draft.content, base, &trail)
                .await?;
        let refused = match put {
            Some(Put::Created(pool) | Put::Changed(pool) | Put::Same(pool)) => {
                Draft::remove(&mut work, corp, &id, trail.now_ms).await?;
                let after = json!({"pool": pool.id, "version": pool.version});
                let record = trail.record(
                    "draft.publish",
                    format!("drafts/{id}"),
                    Some(draft.json()),
                    Some(after),
                );
                write(&mut work, corp, &[&record]).await?;
                work.commit().await?;
                return Ok(Some(Publication::Published(pool)));
            }
            None => None,
            Some(Put::Stale(Some(pool))) => Some(Publication::BaseMoved(pool.version)),
            Some(Put::Stale(None)) => Some(Publication::NoPool),
            Some(Put::Refused(misfit)) => Some(Publication::Refused(misfit)),
        };
        work.roll_back().await?;
        Ok(refused)
    }
}

impl Configured for Draft {
    type Id = Uuid;
    type New = NewDraft;
    type Misfit = DraftRefused;
    type Use = ();
    const KIND: &'static str = "draft";

    fn version(&self) -> u64 {
        self.version
    }

    fn json(&self) -> Value {
        json!({
            "pool": self.pool,
            "base_version": self.base_version,
            "content": self.content.document(),
            "note": self.note,
        })
    }

    fn is(&self, new: &NewDraft) -> bool {
        self.content.document() == new.content.document()
            && self.note == new.note
            && new
                .base_version
                .is_none_or(|base| base == self.base_version)
    }

    async fn lock(work: &mut Work, corp: &CorpId, id: &Uuid) -> Result<Option<Found<Self>>, Error> {
        let query = work
            .query(select!("AND d.id = $2 FOR UPDATE"))
            .bind(corp.as_str())
            .bind(*id);
        let row = work.fetch_optional(query).await?;
        row.map(|row| {
            Ok(Found {
                row: read(&row)?,
                deleted: false,
            })
        })
        .transpose()
    }

    async fn misfit(
        work: &mut Work,
        corp: &CorpId,
        id: &Uuid,
        new: &NewDraft,
    ) -> Result<Option<DraftRefused>, Error> {
        let query = work
            .query(
                "SELECT p.deleted_at IS NULL AS live,
                    $3::bigint IS NULL OR EXISTS (SELECT FROM pool_versions AS v WHERE v.corp_id = $1 AND v.pool_id = $2
                        AND v.version = $3 AND v.content IS NOT NULL) AS based,
                    (SELECT count(*) FROM pool_drafts AS d
                     WHERE d.corp_id = $1 AND d.pool_id = $2 AND d.id <> $4) AS drafts
                 FROM pools AS p WHERE p.corp_id = $1 AND p.pool_id = $2",
            )
            .bind(corp.as_str())
            .bind(new.pool.as_str().to_owned())
            .bind(new.base_version.map(signed))
            .bind(*id);
        let row = work.fetch_optional(query).await?;
        let Some(row) = row.filter(|row| row.value("live").unwrap_or(false)) else {
            return Ok(Some(DraftRefused::NoPool));
        };
        if !row.value::<bool>("based")? {
            return Ok(Some(DraftRefused::NoVersion));
        }
        Ok((row.number("drafts")? >= MOST_DRAFTS).then_some(DraftRefused::TooMany))
    }

    async fn save(
        work: &mut Work,
        corp: &CorpId,
        id: &Uuid,
        new: &NewDraft,
        found: Option<&Found<Self>>,
        now_ms: u64,
    ) -> Result<bool, Error> {
        let query = if found.is_some() {
            work.query(
                "UPDATE pool_drafts SET base_version = coalesce($4, base_version), content = $5, note = $6,
                    version = version + 1, updated_at = $7
                 WHERE corp_id = $1 AND id = $2 AND pool_id = $3 AND $8::text IS NOT NULL",
            )
        } else {
            work.query(
                "INSERT INTO pool_drafts (corp_id, id, pool_id, base_version, content, note, author, created_at, updated_at)
                 SELECT $1, $2, p.pool_id, coalesce($4, p.version), $5, $6, $8, $7, $7
                 FROM pools AS p WHERE p.corp_id = $1 AND p.pool_id = $3 ON CONFLICT DO NOTHING",
            )
        };
        let query = query
            .bind(corp.as_str())
            .bind(*id)
            .bind(new.pool.as_str().to_owned())
            .bind(new.base_version.map(signed))
            .bind(clean_json(&new.content.document()))
            .bind(clean_option(new.note.as_ref()).map(|note| note.into_owned()))
            .bind(at(now_ms))
            .bind(clean(&new.author).into_owned());
        Ok(work.execute(query).await? > 0)
    }

    async fn in_use(_: &mut Work, _: &CorpId, _: &Uuid) -> Result<Option<()>, Error> {
        Ok(None)
    }

    async fn remove(work: &mut Work, corp: &CorpId, id: &Uuid, _: u64) -> Result<(), Error> {
        let query = work
            .query("DELETE FROM pool_drafts WHERE corp_id = $1 AND id = $2")
            .bind(corp.as_str())
            .bind(*id);
        work.execute(query).await?;
        Ok(())
    }
}

fn read(row: &PgRow) -> Result<Draft, Error> {
    Ok(Draft {
        id: row.value("id")?,
        pool: row.parsed("pool_id")?,
        base_version: row.number("base_version")?,
        content: NewPool::read(row.value("content")?)?,
        note: row.value("note")?,
        author: row.value("author")?,
        version: row.number("version")?,
        created_ms: row.ms("created_at")?,
        updated_ms: row.ms("updated_at")?,
    })
}
