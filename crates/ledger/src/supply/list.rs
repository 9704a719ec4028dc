//! Supply tasks for people, newest first, and those that are open for whoever works on them.

use allocation::{CorpId, GroupPoolId};
use uuid::Uuid;

use super::{SupplyTask, SupplyTaskState, SupplyTasks, columns, read};
use crate::Error;
use crate::cursor::{Page, PageRequest, Window};
use crate::group_pools::SupplySource;
use crate::row::Columns;
use crate::times::at;

const LIST: &str = "supply_tasks";

/// Every field that is given must match.
#[derive(Debug, Clone, Default)]
pub struct SupplyTaskFilter {
    pub pool: Option<GroupPoolId>,
    pub state: Option<SupplyTaskState>,
    pub source: Option<SupplySource>,
}

macro_rules! list {
    ($rest:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM supply_tasks AS s WHERE s.corp_id = $1 AND ($2::text IS NULL OR s.group_pool_id = $2)
                AND ($3::text IS NULL OR s.state = $3) AND ($4::text IS NULL OR s.source = $4) ",
            $rest
        )
    };
}

const FORWARD: &str = list!(
    "AND ($5::timestamptz IS NULL OR (s.created_at, s.task_id) < ($5, $6))
     ORDER BY s.created_at DESC, s.task_id DESC LIMIT $7"
);
const BACKWARD: &str = list!(
    "AND ($5::timestamptz IS NULL OR (s.created_at, s.task_id) > ($5, $6)) ORDER BY s.created_at, s.task_id LIMIT $7"
);

impl SupplyTasks {
    pub async fn get(&self, corp: &CorpId, task: Uuid) -> Result<Option<SupplyTask>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(concat!(
                "SELECT ",
                columns!(),
                " FROM supply_tasks AS s WHERE s.corp_id = $1 AND s.task_id = $2"
            ))
            .bind(corp.as_str())
            .bind(task);
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        row.as_ref().map(read).transpose()
    }

    pub async fn list(
        &self,
        corp: &CorpId,
        filter: &SupplyTaskFilter,
        page: &PageRequest,
    ) -> Result<Page<SupplyTask>, Error> {
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
            .bind(filter.pool.as_ref().map(|pool| pool.as_str().to_owned()))
            .bind(filter.state.map(SupplyTaskState::as_str))
            .bind(filter.source.map(SupplySource::as_str))
            .bind(window.time())
            .bind(id)
            .bind(window.fetch());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let tasks = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Ok(window.page(LIST, tasks, |task| {
            (at(task.created_ms), task.id.to_string())
        }))
    }

    /// All that have not ended, the oldest first.
    pub async fn open(&self, corp: &CorpId) -> Result<Vec<SupplyTask>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(concat!(
                "SELECT ",
                columns!(),
                " FROM supply_tasks AS s WHERE s.corp_id = $1 AND s.settled_at IS NULL ORDER BY s.created_at, s.task_id"
            ))
            .bind(corp.as_str());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter().map(read).collect()
    }

    /// How many there are in each state. What there are none of is missing.
    pub async fn counts(&self, corp: &CorpId) -> Result<Vec<(SupplyTaskState, u64)>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query("SELECT state, count(*) AS n FROM supply_tasks WHERE corp_id = $1 GROUP BY 1 ORDER BY 1")
            .bind(corp.as_str());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter()
            .map(|row| Ok((row.parsed("state")?, row.number("n")?)))
            .collect()
    }
}
