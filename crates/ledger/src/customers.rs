//! The one place that says who a subject is.

use std::collections::HashMap;

use allocation::{CorpId, SubjectKey};
use uuid::Uuid;

use crate::Error;
use crate::change::Customer;
use crate::connection::Db;
use crate::error::retry;
use crate::log_write::column;
use crate::row::Columns;
use crate::text::{clean, clean_option};
use crate::times::at;

/// $1 corp, then ids, subjects, kinds and outside ids. Who was deleted and comes again is known again. Answers the ids of
/// the rows it wrote: a given one is a new row's.
pub(crate) const UPSERT: &str =
    "INSERT INTO customers AS c (corp_id, id, subject, kind, external_id)
    SELECT $1, * FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[])
    ON CONFLICT (corp_id, subject) DO UPDATE
    SET kind = excluded.kind, external_id = excluded.external_id, deleted_at = NULL
    WHERE c.external_id IS NULL AND excluded.external_id IS NOT NULL
    RETURNING c.id";

/// $1 corp, $2 subjects. Looked up one by one (LATERAL with LIMIT): joined, a planner with old statistics reads the whole
/// corp for every batch.
pub(crate) const IDS: &str = "SELECT n.subject, c.id FROM unnest($2::text[]) AS n (subject)
    CROSS JOIN LATERAL (SELECT id FROM customers WHERE corp_id = $1 AND subject = n.subject LIMIT 1) AS c";

#[derive(Debug, Clone)]
pub struct Customers {
    pub(crate) db: Db,
}

#[derive(Clone, PartialEq, Eq)]
pub struct KnownCustomer {
    pub id: Uuid,
    pub subject: SubjectKey,
    pub kind: String,
    /// None: never known, or deleted.
    pub external_id: Option<String>,
    pub deleted_ms: Option<u64>,
}

impl std::fmt::Debug for KnownCustomer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KnownCustomer")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// What `forget` emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Forgotten {
    pub customer: bool,
    pub deliveries: u64,
    pub effects: u64,
}

impl Customers {
    /// Makes sure the subjects have rows; answers their ids.
    pub async fn upsert(
        &self,
        corp: &CorpId,
        customers: &[(SubjectKey, Customer)],
    ) -> Result<HashMap<SubjectKey, Uuid>, Error> {
        let mut rows = customers.to_vec();
        rows.sort_by_key(|(subject, _)| *subject);
        rows.dedup_by_key(|(subject, _)| *subject);
        retry(|| self.try_upsert(corp, &rows)).await
    }

    async fn try_upsert(
        &self,
        corp: &CorpId,
        rows: &[(SubjectKey, Customer)],
    ) -> Result<HashMap<SubjectKey, Uuid>, Error> {
        let mut work = self.db.transaction().await?;
        let subjects = column(rows, |(subject, _)| subject.to_string());
        let query = work
            .query(UPSERT)
            .bind(corp.as_str())
            .bind(column(rows, |_| Uuid::now_v7()))
            .bind(&subjects)
            .bind(column(rows, |(_, customer)| clean(&customer.kind)))
            .bind(column(rows, |(_, customer)| {
                clean_option(customer.external_id.as_ref())
            }));
        work.execute(query).await?;
        let query = work.query(IDS).bind(corp.as_str()).bind(subjects);
        let found = work.fetch_all(query).await?;
        work.commit().await?;
        found
            .iter()
            .map(|row| Ok((row.parsed("subject")?, row.value("id")?)))
            .collect()
    }

    pub async fn find(
        &self,
        corp: &CorpId,
        subject: &SubjectKey,
    ) -> Result<Option<KnownCustomer>, Error> {
        Ok(self
            .find_many(corp, std::slice::from_ref(subject))
            .await?
            .pop())
    }

    /// In no particular order; who has no row is left out.
    pub async fn find_many(
        &self,
        corp: &CorpId,
        subjects: &[SubjectKey],
    ) -> Result<Vec<KnownCustomer>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT id, subject, kind, external_id, deleted_at FROM customers
                 WHERE corp_id = $1 AND subject = ANY($2)",
            )
            .bind(corp.as_str())
            .bind(column(subjects, SubjectKey::to_string));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter().map(read).collect()
    }

    /// Deletes the mapping and empties what else names the customer: raw deliveries, payloads and answers of
    /// effects. Effects not sent yet are cancelled, transfers end. Rows that refer to the
    /// surrogate stay, and name nobody: only who has the id still can make the surrogate of it.
    pub async fn forget(
        &self,
        corp: &CorpId,
        subject: &SubjectKey,
        now_ms: u64,
    ) -> Result<Forgotten, Error> {
        retry(|| self.try_forget(corp, subject, now_ms)).await
    }

    async fn try_forget(
        &self,
        corp: &CorpId,
        subject: &SubjectKey,
        now_ms: u64,
    ) -> Result<Forgotten, Error> {
        let mut work = self.db.transaction().await?;
        let subject = subject.to_string();
        let query = work
            .query(
                "UPDATE customers SET external_id = NULL, deleted_at = $3
                 WHERE corp_id = $1 AND subject = $2 AND deleted_at IS NULL",
            )
            .bind(corp.as_str())
            .bind(&subject)
            .bind(at(now_ms));
        let customer = work.execute(query).await? > 0;
        let query = work
            .query(
                "UPDATE outbox AS o SET payload = '{}', outcome = NULL, last_error = NULL,
                    state = CASE WHEN f.unsent THEN 'cancelled' ELSE o.state END,
                    settled_at = CASE WHEN f.unsent THEN $3 ELSE o.settled_at END,
                    lease_until = CASE WHEN f.unsent THEN NULL ELSE o.lease_until END
                 FROM (
                    SELECT e.id, e.state = 'pending' OR e.state = 'running' AND e.sent_at IS NULL AS unsent
                    FROM outbox AS e WHERE e.id IN (
                        SELECT e.id FROM outbox AS e JOIN allocations AS a ON a.id = e.allocation_id
                        WHERE a.corp_id = $1 AND a.subject = $2
                        UNION
                        SELECT e.id FROM outbox AS e JOIN transfers AS t ON t.id = e.transfer_id
                        WHERE t.corp_id = $1 AND t.subject = $2
                        UNION
                        SELECT e.id FROM campaigns AS c JOIN outbox AS e ON e.corp_id = c.corp_id AND e.kind = 'tag'
                            AND e.effect_key = 'join_tag:' || c.campaign_id || ':' || $2
                        WHERE c.corp_id = $1)
                        AND (e.payload <> '{}' OR e.outcome IS NOT NULL OR e.last_error IS NOT NULL
                            OR e.state = 'pending' OR e.state = 'running' AND e.sent_at IS NULL)
                    ORDER BY e.id FOR UPDATE) AS f
                 WHERE o.id = f.id",
            )
            .bind(corp.as_str())
            .bind(&subject)
            .bind(at(now_ms));
        let effects = work.execute(query).await?;
        let query = work
            .query("UPDATE inviters SET name = '' WHERE corp_id = $1 AND (subject = $2 OR person = $2) AND name <> ''")
            .bind(corp.as_str())
            .bind(&subject);
        work.execute(query).await?;
        // Without his id nobody can ask WeCom what became of them. A start still counts against his moves.
        let query = work
            .query(
                "UPDATE transfers SET state = 'cancelled', ended_at = $3, next_check_at = NULL
                 WHERE corp_id = $1 AND subject = $2 AND ended_at IS NULL",
            )
            .bind(corp.as_str())
            .bind(&subject)
            .bind(at(now_ms));
        work.execute(query).await?;
        // By subject, and by what was decided for him, should the recorder not have known.
        let query = work
            .query(
                "UPDATE deliveries SET body = '', scrubbed_at = $3
                 WHERE corp_id = $1 AND scrubbed_at IS NULL AND id IN (
                    SELECT id FROM deliveries WHERE corp_id = $1 AND subject = $2
                    UNION
                    SELECT delivery FROM allocations WHERE corp_id = $1 AND subject = $2 AND delivery IS NOT NULL)",
            )
            .bind(corp.as_str())
            .bind(&subject)
            .bind(at(now_ms));
        let deliveries = work.execute(query).await?;
        work.commit().await?;
        Ok(Forgotten {
            customer,
            deliveries,
            effects,
        })
    }
}

pub(crate) fn read(row: &sqlx::postgres::PgRow) -> Result<KnownCustomer, Error> {
    Ok(KnownCustomer {
        id: row.value("id")?,
        subject: row.parsed("subject")?,
        kind: row.value("kind")?,
        external_id: row.value("external_id")?,
        deleted_ms: row.ms_option("deleted_at")?,
    })
}
