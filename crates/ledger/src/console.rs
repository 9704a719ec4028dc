//! What only people ask for or do: figures per endpoint, giving up dead effects, lifting a block.

use std::borrow::Cow;

use allocation::CorpId;
use uuid::Uuid;

use crate::audit::{Trail, write};
use crate::error::retry;
use crate::row::Columns;
use crate::text::{clean, clean_option};
use crate::times::{at, at_option};
use crate::{
    ApiKeys, Audit, BudgetBlocks, Calendars, Campaigns, Channels, Deliveries, DeliveryFilter,
    Drafts, Error, GroupPools, Groups, Hours, Idempotency, Ledger, Members, Operations, Outbox,
    Pools, Schedules,
};

macro_rules! tables {
    ($($name:ident: $type:ident),+ $(,)?) => {
        /// What people configure, and what the REST API needs.
        impl Ledger {
            $(pub fn $name(&self) -> $type {
                $type { db: self.db.clone() }
            })+
        }
    };
}

tables!(
    api_keys: ApiKeys,
    audit: Audit,
    calendars: Calendars,
    campaigns: Campaigns,
    channels: Channels,
    drafts: Drafts,
    group_pools: GroupPools,
    groups: Groups,
    hours: Hours,
    idempotency: Idempotency,
    members: Members,
    operations: Operations,
    pools: Pools,
    schedules: Schedules,
);

/// What came in at one endpoint in a span of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointCount {
    pub endpoint: String,
    pub received: u64,
    /// Those that could not be read.
    pub unreadable: u64,
    /// Those without an outcome yet.
    pub pending: u64,
    pub last_received_ms: u64,
}

impl Ledger {
    /// Changes whenever a pool, member, channel, group pool, group or campaign of the corp does; not with what WeCom says of a
    /// group.
    pub async fn configuration_mark(&self, corp: &CorpId) -> Result<String, Error> {
        let mut work = self.db.single().await?;
        // Rows stay when what they describe is deleted, and versions only rise.
        let query = work
            .query(
                "SELECT concat_ws(' ',
                    (SELECT coalesce(sum(version), 0) FROM pools WHERE corp_id = $1),
                    (SELECT coalesce(sum(version), 0) FROM members WHERE corp_id = $1),
                    (SELECT coalesce(sum(version), 0) FROM channels WHERE corp_id = $1),
                    (SELECT coalesce(sum(version), 0) FROM group_pools WHERE corp_id = $1),
                    (SELECT coalesce(sum(version), 0) FROM groups WHERE corp_id = $1),
                    (SELECT coalesce(sum(version), 0) FROM campaigns WHERE corp_id = $1)) AS mark",
            )
            .bind(corp.as_str());
        let mark = work.fetch_one(query).await?.value("mark")?;
        work.end().await?;
        Ok(mark)
    }
}

/// How many deliveries there are of a kind, and how many of them a replay would take up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Replayable {
    pub matched: u64,
    /// Those that had no effect: without an outcome, ignored or discarded.
    pub replayable: u64,
    /// Those of them that came before the time that was asked about.
    pub late: u64,
}

impl Deliveries {
    /// Scrubbed ones are not counted.
    pub async fn count(
        &self,
        corp: &CorpId,
        filter: &DeliveryFilter,
        late_before_ms: u64,
    ) -> Result<Replayable, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query_once(
                "SELECT count(*) AS matched,
                    count(*) FILTER (WHERE o.outcome IS NULL OR o.outcome IN ('ignored', 'discarded')) AS replayable,
                    count(*) FILTER (WHERE (o.outcome IS NULL OR o.outcome IN ('ignored', 'discarded'))
                        AND d.received_at < $11) AS late
                 FROM deliveries AS d LEFT JOIN delivery_outcomes AS o
                    ON o.corp_id = d.corp_id AND o.delivery = d.id AND o.received_at = d.received_at
                 WHERE d.corp_id = $1 AND d.scrubbed_at IS NULL
                    AND ($2::text IS NULL OR d.endpoint = $2) AND ($3::text IS NULL OR d.event = $3)
                    AND ($4::text IS NULL OR d.change_type = $4) AND ($5::text IS NULL OR o.outcome = $5)
                    AND (NOT $6 OR o.outcome IS NULL) AND (NOT $7 OR d.problem IS NOT NULL)
                    AND ($8::text IS NULL OR d.subject = $8)
                    AND ($9::timestamptz IS NULL OR d.received_at >= $9)
                    AND ($10::timestamptz IS NULL OR d.received_at < $10)",
            )
            .bind(corp.as_str())
            .bind(clean_option(filter.endpoint.as_ref()).map(Cow::into_owned))
            .bind(clean_option(filter.event.as_ref()).map(Cow::into_owned))
            .bind(clean_option(filter.change_type.as_ref()).map(Cow::into_owned))
            .bind(clean_option(filter.outcome.as_ref()).map(Cow::into_owned))
            .bind(filter.pending)
            .bind(filter.unreadable)
            .bind(filter.subject.map(|subject| subject.to_string()))
            .bind(at_option(filter.received_from_ms))
            .bind(at_option(filter.received_before_ms))
            .bind(at(late_before_ms));
        let row = work.fetch_one(query).await?;
        work.end().await?;
        Ok(Replayable {
            matched: row.number("matched")?,
            replayable: row.number("replayable")?,
            late: row.number("late")?,
        })
    }

    /// By name; an endpoint without deliveries in that time is left out.
    pub async fn by_endpoint(
        &self,
        corp: &CorpId,
        from_ms: u64,
        before_ms: u64,
    ) -> Result<Vec<EndpointCount>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query_once(
                "SELECT d.endpoint, count(*) AS received, count(d.problem) AS unreadable,
                    count(*) FILTER (WHERE o.outcome IS NULL) AS pending, max(d.received_at) AS last
                 FROM deliveries AS d LEFT JOIN delivery_outcomes AS o
                    ON o.corp_id = d.corp_id AND o.delivery = d.id AND o.received_at = d.received_at
                    AND o.received_at >= $2 AND o.received_at < $3
                 WHERE d.corp_id = $1 AND d.received_at >= $2 AND d.received_at < $3
                 GROUP BY d.endpoint ORDER BY d.endpoint",
            )
            .bind(corp.as_str())
            .bind(at(from_ms))
            .bind(at(before_ms));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter()
            .map(|row| {
                Ok(EndpointCount {
                    endpoint: row.value("endpoint")?,
                    received: row.number("received")?,
                    unreadable: row.number("unreadable")?,
                    pending: row.number("pending")?,
                    last_received_ms: row.ms("last")?,
                })
            })
            .collect()
    }
}

impl Outbox {
    /// Dead effects; with ids, those of them that are dead or were refused for good.
    pub async fn count_dead(&self, corp: &CorpId, ids: Option<&[Uuid]>) -> Result<u64, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query_once(
                "SELECT count(*) AS n FROM outbox
                 WHERE corp_id = $1 AND (state = 'dead' AND $2::uuid[] IS NULL OR state IN ('dead', 'failed') AND id = ANY($2))",
            )
            .bind(corp.as_str())
            .bind(ids.map(<[Uuid]>::to_vec));
        let n = work.fetch_one(query).await?.number("n")?;
        work.end().await?;
        Ok(n)
    }

    /// Gives dead effects up for good; answers those that were dead.
    pub async fn discard(
        &self,
        corp: &CorpId,
        ids: &[Uuid],
        trail: &Trail,
    ) -> Result<Vec<Uuid>, Error> {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        retry(|| async {
            let mut work = self.db.transaction().await?;
            let query = work
                .query(
                    "UPDATE outbox SET state = 'cancelled', settled_at = $3,
                        last_error = coalesce($4, last_error),
                        payload = CASE WHEN erase_payload THEN '{}' ELSE payload END
                     WHERE corp_id = $1 AND id = ANY($2) AND state = 'dead' RETURNING id",
                )
                .bind(corp.as_str())
                .bind(ids.clone())
                .bind(at(trail.now_ms))
                .bind(
                    trail
                        .reason
                        .as_deref()
                        .map(|reason| clean(reason).into_owned()),
                );
            let rows = work.fetch_all(query).await?;
            let gone = rows
                .iter()
                .map(|row| row.value("id"))
                .collect::<Result<Vec<Uuid>, _>>()?;
            let records: Vec<_> = gone
                .iter()
                .map(|id| trail.record("effect.discard", format!("effects/{id}"), None, None))
                .collect();
            write(&mut work, corp, &records.iter().collect::<Vec<_>>()).await?;
            work.commit().await?;
            Ok(gone)
        })
        .await
    }
}

impl BudgetBlocks {
    /// A person says that WeCom takes calls of this API again; true if it was blocked here.
    pub async fn lift(&self, corp: &CorpId, api: &str, trail: &Trail) -> Result<bool, Error> {
        let mut work = self.db.transaction().await?;
        let query = work
            .query("DELETE FROM budget_blocks WHERE corp_id = $1 AND api = $2 AND scope = 'corp' AND until > $3")
            .bind(corp.as_str())
            .bind(clean(api).into_owned())
            .bind(at(trail.now_ms));
        let lifted = work.execute(query).await? > 0;
        let record = trail.record("quota.unblock", format!("quotas/{api}"), None, None);
        write(&mut work, corp, &[&record]).await?;
        work.commit().await?;
        Ok(lifted)
    }
}
