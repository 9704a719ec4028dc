//! Answers that are given again to a repeated Idempotency-Key.
//!
//! The first request takes the key under a lease, runs, and leaves its answer. Should it die, the lease ends and the
//! next one runs: whatever a request does must bear being done again.

use allocation::CorpId;
use serde_json::Value;
use uuid::Uuid;

use crate::Error;
use crate::connection::Db;
use crate::error::retry;
use crate::row::Columns;
use crate::text::clean;
use crate::times::at;

#[derive(Debug, Clone)]
pub struct Idempotency {
    pub(crate) db: Db,
}

/// One key of one caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    pub corp: CorpId,
    /// The API key that asks.
    pub caller: Uuid,
    pub key: String,
    /// Hash of route and body.
    pub request: [u8; 32],
}

#[derive(Debug, Clone, PartialEq)]
pub struct KeptAnswer {
    pub status: u16,
    pub body: String,
    /// Headers that belong to the answer.
    pub headers: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Begun {
    /// It is ours to run; the claim belongs to the answer.
    Run(Uuid),
    Answered(KeptAnswer),
    /// Another one runs it, at most until then.
    Running {
        until_ms: u64,
    },
    /// The key was used for another request.
    Other,
}

impl Idempotency {
    pub async fn begin(
        &self,
        key: &IdempotencyKey,
        lease_ms: u64,
        now_ms: u64,
    ) -> Result<Begun, Error> {
        loop {
            let begun = retry(|| self.try_begin(key, lease_ms, now_ms)).await?;
            if let Some(begun) = begun {
                return Ok(begun);
            }
        }
    }

    /// None: the row went while we looked.
    async fn try_begin(
        &self,
        key: &IdempotencyKey,
        lease_ms: u64,
        now_ms: u64,
    ) -> Result<Option<Begun>, Error> {
        let claim = Uuid::now_v7();
        let mut work = self.db.transaction().await?;
        // A claim whose lease is over is taken along with the row; an answer stands.
        let query = work
            .query(
                "INSERT INTO idempotency AS i (corp_id, caller, key, request, claim, lease_until, created_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7)
                 ON CONFLICT (corp_id, caller, key) DO UPDATE SET claim = $5, lease_until = $6
                 WHERE i.status IS NULL AND i.lease_until <= $7 AND i.request = $4
                 RETURNING claim",
            )
            .bind(key.corp.as_str())
            .bind(key.caller)
            .bind(clean(&key.key).into_owned())
            .bind(key.request.to_vec())
            .bind(claim)
            .bind(at(now_ms.saturating_add(lease_ms)))
            .bind(at(now_ms));
        if work.fetch_optional(query).await?.is_some() {
            work.commit().await?;
            return Ok(Some(Begun::Run(claim)));
        }
        let query = work
            .query(
                "SELECT request, lease_until, status, answer, headers FROM idempotency
                 WHERE corp_id = $1 AND caller = $2 AND key = $3",
            )
            .bind(key.corp.as_str())
            .bind(key.caller)
            .bind(clean(&key.key).into_owned());
        let row = work.fetch_optional(query).await?;
        work.commit().await?;
        let Some(row) = row else { return Ok(None) };
        if row.value::<Vec<u8>>("request")? != key.request {
            return Ok(Some(Begun::Other));
        }
        let Some(status) = row.value::<Option<i16>>("status")? else {
            let until_ms = row.ms("lease_until")?;
            return Ok(Some(Begun::Running { until_ms }));
        };
        Ok(Some(Begun::Answered(KeptAnswer {
            status: u16::try_from(status).unwrap_or_default(),
            body: row.value::<Option<String>>("answer")?.unwrap_or_default(),
            headers: row.value::<Option<Value>>("headers")?.unwrap_or_default(),
        })))
    }

    /// Keeps the answer. False: the lease was over and another one runs, or ran, the request.
    pub async fn finish(
        &self,
        key: &IdempotencyKey,
        claim: Uuid,
        answer: &KeptAnswer,
    ) -> Result<bool, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "UPDATE idempotency SET status = $5, answer = $6, headers = $7
                 WHERE corp_id = $1 AND caller = $2 AND key = $3 AND claim = $4 AND status IS NULL",
            )
            .bind(key.corp.as_str())
            .bind(key.caller)
            .bind(clean(&key.key).into_owned())
            .bind(claim)
            .bind(i16::try_from(answer.status).unwrap_or_default())
            .bind(clean(&answer.body).into_owned())
            .bind(answer.headers.clone());
        let kept = work.execute(query).await? > 0;
        work.end().await?;
        Ok(kept)
    }

    /// Nothing came of it (a store was away): the same key may be tried at once.
    pub async fn give_up(&self, key: &IdempotencyKey, claim: Uuid) -> Result<(), Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "DELETE FROM idempotency
                 WHERE corp_id = $1 AND caller = $2 AND key = $3 AND claim = $4 AND status IS NULL",
            )
            .bind(key.corp.as_str())
            .bind(key.caller)
            .bind(clean(&key.key).into_owned())
            .bind(claim);
        work.execute(query).await?;
        work.end().await
    }

    /// Forgets what is older, at most `limit` rows; answers how many.
    pub async fn prune(&self, before_ms: u64, limit: u32) -> Result<u64, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "DELETE FROM idempotency WHERE ctid = ANY(ARRAY(
                    SELECT ctid FROM idempotency WHERE created_at < $1 ORDER BY created_at LIMIT $2
                    FOR UPDATE SKIP LOCKED))",
            )
            .bind(at(before_ms))
            .bind(i64::from(limit));
        let gone = work.execute(query).await?;
        work.end().await?;
        Ok(gone)
    }
}
