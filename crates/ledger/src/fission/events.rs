//! What others want to hear of, as a feed.

use allocation::CorpId;
use serde_json::Value;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::Inviters;
use crate::Error;
use crate::row::Columns;
use crate::times::at;

#[derive(Debug, Clone, PartialEq)]
pub struct OutgoingEvent {
    pub id: Uuid,
    pub kind: String,
    pub body: Value,
    pub at_ms: u64,
    /// Where the feed goes on after it.
    pub position: EventsAfter,
}

/// A place in the feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventsAfter {
    written_by: u64,
    id: Uuid,
}

impl std::fmt::Display for EventsAfter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.written_by, self.id.simple())
    }
}

impl std::str::FromStr for EventsAfter {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const NONE: &str = "no place in the feed of events";
        let (written_by, id) = text.split_once('-').ok_or(NONE)?;
        Ok(Self {
            written_by: written_by.parse().map_err(|_| NONE)?,
            id: Uuid::try_parse(id).map_err(|_| NONE)?,
        })
    }
}

impl Inviters {
    /// Those after this place, in an order in which none is ever put before one that was read: what a transaction that is still
    /// open wrote is not there yet, nor what came after it.
    pub async fn events(
        &self,
        corp: &CorpId,
        after: EventsAfter,
        limit: u32,
    ) -> Result<Vec<OutgoingEvent>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT id, kind, body, at, written_by::text AS written_by FROM outgoing_events
                 WHERE corp_id = $1 AND (written_by, id) > ($2::text::xid8, $3)
                    AND written_by < pg_snapshot_xmin(pg_current_snapshot())
                 ORDER BY outgoing_events.written_by, id LIMIT $4",
            )
            .bind(corp.as_str())
            .bind(after.written_by.to_string())
            .bind(after.id)
            .bind(i64::from(limit));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter().map(read).collect()
    }

    pub async fn event(&self, corp: &CorpId, id: Uuid) -> Result<Option<OutgoingEvent>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT id, kind, body, at, written_by::text AS written_by FROM outgoing_events
                 WHERE corp_id = $1 AND id = $2",
            )
            .bind(corp.as_str())
            .bind(id);
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        row.as_ref().map(read).transpose()
    }

    /// Removes what is older; answers how many, at most `limit`.
    pub async fn forget_events(&self, before_ms: u64, limit: u32) -> Result<u64, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "DELETE FROM outgoing_events WHERE (corp_id, id) IN (
                    SELECT corp_id, id FROM outgoing_events WHERE at < $1 ORDER BY at LIMIT $2)",
            )
            .bind(at(before_ms))
            .bind(i64::from(limit));
        let n = work.execute(query).await;
        work.end().await?;
        n
    }
}

fn read(row: &PgRow) -> Result<OutgoingEvent, Error> {
    let id = row.value("id")?;
    Ok(OutgoingEvent {
        id,
        kind: row.value("kind")?,
        body: row.value("body")?,
        at_ms: row.ms("at")?,
        position: EventsAfter {
            written_by: row.parsed("written_by")?,
            id,
        },
    })
}
