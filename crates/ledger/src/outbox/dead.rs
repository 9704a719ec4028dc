//! Dead letters, and what WeCom refused for good: seen by people, tried again when they say so.

use std::collections::HashMap;

use allocation::CorpId;
use uuid::Uuid;

use super::{Outbox, OutboxRow, columns, read_all};
use crate::Error;
use crate::cursor::{Page, PageRequest, Window};
use crate::error::retry;
use crate::row::Columns;
use crate::times::at;

const LIST: &str = "dead";

macro_rules! list {
    ($state:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM outbox AS o WHERE o.corp_id = $1 AND o.state = '",
            $state,
            "' AND ($2::text IS NULL OR o.kind = $2) ",
            $rest
        )
    };
}

// Each by its own partial index.
macro_rules! forward {
    ($state:literal) => {
        list!(
            $state,
            "AND ($3::timestamptz IS NULL OR (o.settled_at, o.id) < ($3, $4))
             ORDER BY o.settled_at DESC, o.id DESC LIMIT $5"
        )
    };
}

macro_rules! backward {
    ($state:literal) => {
        list!(
            $state,
            "AND ($3::timestamptz IS NULL OR (o.settled_at, o.id) > ($3, $4)) ORDER BY o.settled_at, o.id LIMIT $5"
        )
    };
}

/// What became of an effect that is not tried any more by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenUp {
    /// A person is to decide.
    Dead,
    /// WeCom refused it for good, it was too late, or something that it needs is missing.
    Failed,
}

impl Outbox {
    /// Newest first.
    pub async fn given_up(
        &self,
        corp: &CorpId,
        state: GivenUp,
        kind: Option<&str>,
        page: &PageRequest,
    ) -> Result<Page<OutboxRow>, Error> {
        let window = Window::read(page, LIST)?;
        let id = window.uuid()?;
        let mut work = self.db.single().await?;
        let query = work
            .query_once(match (state, window.is_backward()) {
                (GivenUp::Dead, false) => forward!("dead"),
                (GivenUp::Dead, true) => backward!("dead"),
                (GivenUp::Failed, false) => forward!("failed"),
                (GivenUp::Failed, true) => backward!("failed"),
            })
            .bind(corp.as_str())
            .bind(kind.map(str::to_owned))
            .bind(window.time())
            .bind(id)
            .bind(window.fetch());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let rows = read_all(&rows)?;
        Ok(window.page(LIST, rows, |row| {
            (at(row.settled_ms.unwrap_or_default()), row.id.to_string())
        }))
    }

    /// Those of these rows that start a transfer, each with its transfer.
    pub async fn starts_of_transfers(
        &self,
        corp: &CorpId,
        ids: &[Uuid],
    ) -> Result<HashMap<Uuid, Uuid>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT id, transfer_id FROM outbox
                 WHERE corp_id = $1 AND id = ANY($2) AND transfer_id IS NOT NULL",
            )
            .bind(corp.as_str())
            .bind(ids.to_vec());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter()
            .map(|row| Ok((row.value("id")?, row.value("transfer_id")?)))
            .collect()
    }

    /// Takes dead rows (and those refused for good) up again, without their old deadline. Those whose payload was
    /// erased cannot be, and the start of a transfer is its transfer's business (`Transfers::resolve`): sent again on its
    /// own, it would be found to be over, or be a second start. Answers the others.
    pub async fn replay(
        &self,
        corp: &CorpId,
        ids: &[Uuid],
        now_ms: u64,
    ) -> Result<Vec<Uuid>, Error> {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        retry(|| async {
            let mut work = self.db.single().await?;
            let query = work
                .query(
                    "UPDATE outbox SET state = 'pending', due_at = $3, deadline_at = NULL, settled_at = NULL,
                        tries = 0, unknown_since = NULL, outcome = NULL
                     WHERE corp_id = $1 AND id = ANY($2) AND state IN ('dead', 'failed') AND NOT erase_payload
                        AND payload <> '{}' AND transfer_id IS NULL
                     RETURNING id",
                )
                .bind(corp.as_str())
                .bind(ids.clone())
                .bind(at(now_ms));
            let rows = work.fetch_all(query).await?;
            work.end().await?;
            rows.iter().map(|row| row.value("id")).collect()
        })
        .await
    }
}
