//! Lists for people, newest first.

use allocation::{ChannelId, CorpId, MemberId, PoolId, SubjectKey};

use super::{Allocation, AllocationState, Allocations, columns, read_all};
use crate::Error;
use crate::cursor::{Page, PageRequest, Window};
use crate::times::{at, at_option};

const LIST: &str = "allocations";

/// Every field that is given must match. Who looks for an outside id makes the subject of it.
#[derive(Debug, Clone, Default)]
pub struct AllocationFilter {
    pub pool: Option<PoolId>,
    pub member: Option<MemberId>,
    pub state: Option<AllocationState>,
    pub channel: Option<ChannelId>,
    pub subject: Option<SubjectKey>,
    pub decided_from_ms: Option<u64>,
    pub decided_before_ms: Option<u64>,
}

macro_rules! list {
    ($state:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM allocations AS a WHERE a.corp_id = $1
                AND ($2::text IS NULL OR a.pool_id = $2) AND ($3::text IS NULL OR a.member = $3)
                AND ",
            $state,
            " AND ($5::text IS NULL OR a.channel_id = $5)
                AND ($6::text IS NULL OR a.subject = $6)
                AND ($7::timestamptz IS NULL OR a.decided_at >= $7)
                AND ($8::timestamptz IS NULL OR a.decided_at < $8) ",
            $rest
        )
    };
}

/// Forward and backward.
macro_rules! both {
    ($state:literal) => {
        (
            list!(
                $state,
                "AND ($9::timestamptz IS NULL OR (a.decided_at, a.id) < ($9, $10))
                 ORDER BY a.decided_at DESC, a.id DESC LIMIT $11"
            ),
            list!(
                $state,
                "AND ($9::timestamptz IS NULL OR (a.decided_at, a.id) > ($9, $10)) ORDER BY a.decided_at, a.id LIMIT $11"
            ),
        )
    };
}

const ANY: (&str, &str) = both!("($4::text IS NULL OR a.state = $4 AND a.offer IS NULL)");
// These two have an index each, which is found by the word alone: they are few among very many.
const OFFERED: (&str, &str) = both!("$4::text IS NOT NULL AND a.offer = 'offered'");
const UNDECIDED: (&str, &str) = both!("$4::text IS NOT NULL AND a.offer = 'undecided'");

impl Allocations {
    pub async fn list(
        &self,
        corp: &CorpId,
        filter: &AllocationFilter,
        page: &PageRequest,
    ) -> Result<Page<Allocation>, Error> {
        let window = Window::read(page, LIST)?;
        let id = window.uuid()?;
        let (forward, backward) = match filter.state {
            Some(AllocationState::Offered) => OFFERED,
            Some(AllocationState::Undecided) => UNDECIDED,
            _ => ANY,
        };
        let mut work = self.db.single().await?;
        let query = work
            .query_once(if window.is_backward() {
                backward
            } else {
                forward
            })
            .bind(corp.as_str())
            .bind(filter.pool.as_ref().map(|pool| pool.as_str()))
            .bind(filter.member.as_ref().map(|member| member.as_str()))
            .bind(filter.state.map(AllocationState::as_str))
            .bind(filter.channel.as_ref().map(|channel| channel.as_str()))
            .bind(filter.subject.map(|subject| subject.to_string()))
            .bind(at_option(filter.decided_from_ms))
            .bind(at_option(filter.decided_before_ms))
            .bind(window.time())
            .bind(id)
            .bind(window.fetch());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        Ok(window.page(LIST, read_all(&rows)?, |row| {
            (at(row.decided_ms), row.id.to_string())
        }))
    }
}
