//! Lists for people, newest first.

use allocation::{CorpId, MemberId, SubjectKey};

use super::{Transfer, TransferState, Transfers, columns, read_all};
use crate::Error;
use crate::cursor::{Page, PageRequest, Window};
use crate::times::at;

const LIST: &str = "transfers";

/// Every field that is given must match.
#[derive(Debug, Clone, Default)]
pub struct TransferFilter {
    pub state: Option<TransferState>,
    /// Giver or taker.
    pub member: Option<MemberId>,
    pub subject: Option<SubjectKey>,
}

// Few are under way and fewer are a person's turn: that they have not ended is said too, because an index has only those.
macro_rules! list {
    ($rest:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM transfers AS t WHERE t.corp_id = $1
                AND ($2::text IS NULL OR t.state = $2) AND (NOT $3 OR t.ended_at IS NULL)
                AND ($4::text IS NULL OR t.giver = $4 OR t.taker = $4)
                AND ($5::text IS NULL OR t.subject = $5) ",
            $rest
        )
    };
}

const FORWARD: &str = list!(
    "AND ($6::timestamptz IS NULL OR (t.created_at, t.id) < ($6, $7))
     ORDER BY t.created_at DESC, t.id DESC LIMIT $8"
);
const BACKWARD: &str = list!(
    "AND ($6::timestamptz IS NULL OR (t.created_at, t.id) > ($6, $7)) ORDER BY t.created_at, t.id LIMIT $8"
);

impl Transfers {
    pub async fn list(
        &self,
        corp: &CorpId,
        filter: &TransferFilter,
        page: &PageRequest,
    ) -> Result<Page<Transfer>, Error> {
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
            .bind(filter.state.map(TransferState::as_str))
            .bind(filter.state.is_some_and(|state| !state.is_end()))
            .bind(filter.member.as_ref().map(|member| member.as_str()))
            .bind(filter.subject.map(|subject| subject.to_string()))
            .bind(window.time())
            .bind(id)
            .bind(window.fetch());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        Ok(window.page(LIST, read_all(&rows)?, |row| {
            (at(row.created_ms), row.id.to_string())
        }))
    }
}
