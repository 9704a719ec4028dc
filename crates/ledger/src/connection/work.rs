//! One piece of work on one connection.
//!
//! `sqlx` gives a connection back to its pool whatever happened on it, and a `begin()` that is dropped half-way
//! leaves a transaction open there. So a connection goes back only from `end` or `commit`; one whose work was
//! dropped, timed out or broke is closed, and the server rolls back.

use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Postgres};

use super::Db;
use crate::Error;

pub(crate) type Statement = Query<'static, Postgres, PgArguments>;

#[derive(Debug)]
pub(crate) struct Work {
    connection: Option<PoolConnection<Postgres>>,
    db: Db,
    limit: Duration,
    in_transaction: bool,
    /// No statement is under way and none broke.
    in_order: bool,
}

impl Work {
    pub(super) fn new(db: Db, connection: PoolConnection<Postgres>) -> Work {
        let limit = db.shared.statement_timeout;
        Work {
            connection: Some(connection),
            db,
            limit,
            in_transaction: false,
            in_order: true,
        }
    }

    /// A statement whose plan is kept by the connection, where there is one to keep it.
    pub(crate) fn query(&self, sql: &'static str) -> Statement {
        sqlx::query(sql).persistent(!self.db.shared.pooler)
    }

    /// A statement that is planned for its very arguments: for lists whose filters may be absent.
    pub(crate) fn query_once(&self, sql: &'static str) -> Statement {
        sqlx::query(sql).persistent(false)
    }

    /// Rows changed.
    pub(crate) async fn execute(&mut self, query: Statement) -> Result<u64, Error> {
        self.on_connection(async |connection| {
            query
                .execute(connection)
                .await
                .map(|done| done.rows_affected())
        })
        .await
    }

    pub(crate) async fn fetch_all(&mut self, query: Statement) -> Result<Vec<PgRow>, Error> {
        self.on_connection(async |connection| query.fetch_all(connection).await)
            .await
    }

    pub(crate) async fn fetch_optional(
        &mut self,
        query: Statement,
    ) -> Result<Option<PgRow>, Error> {
        self.on_connection(async |connection| query.fetch_optional(connection).await)
            .await
    }

    pub(crate) async fn fetch_one(&mut self, query: Statement) -> Result<PgRow, Error> {
        self.on_connection(async |connection| query.fetch_one(connection).await)
            .await
    }

    /// Statements without arguments, one or several.
    pub(crate) async fn script(
        &mut self,
        sql: impl Into<std::sync::Arc<str>>,
    ) -> Result<(), Error> {
        let script = sqlx::raw_sql(AssertSqlSafe(sql.into()));
        self.on_connection(async |connection| script.execute(connection).await.map(drop))
            .await
    }

    pub(super) async fn begin(&mut self) -> Result<(), Error> {
        let begin = std::sync::Arc::clone(&self.db.shared.begin);
        self.in_transaction = true;
        self.script(begin).await
    }

    pub(super) async fn set_limit(&mut self, limit: Duration) -> Result<(), Error> {
        self.limit = limit;
        self.script(format!(
            "SET LOCAL statement_timeout = {}",
            limit.as_millis()
        ))
        .await
    }

    /// Ends work of one statement, which then is done.
    pub(crate) async fn end(self) -> Result<(), Error> {
        if self.in_transaction {
            self.commit().await
        } else {
            Ok(())
        }
    }

    pub(crate) async fn commit(mut self) -> Result<(), Error> {
        self.script("COMMIT").await?;
        self.in_transaction = false;
        Ok(())
    }

    pub(crate) async fn roll_back(mut self) -> Result<(), Error> {
        self.script("ROLLBACK").await?;
        self.in_transaction = false;
        Ok(())
    }

    async fn on_connection<T>(
        &mut self,
        run: impl AsyncFnOnce(&mut sqlx::PgConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, Error> {
        let connection = self.connection.as_mut().ok_or(sqlx::Error::PoolClosed)?;
        self.in_order = false;
        let result = match tokio::time::timeout(self.limit, run(connection)).await {
            Ok(result) => result,
            Err(_) => Err(silence()),
        };
        // What the server answered, be it a refusal, leaves the connection in order.
        self.in_order = matches!(
            &result,
            Ok(_) | Err(sqlx::Error::Database(_) | sqlx::Error::RowNotFound)
        );
        result.map_err(|error| {
            if leads_nowhere(&error) {
                self.db.distrust_present_connections();
            }
            error.into()
        })
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take()
            && (self.in_transaction || !self.in_order)
        {
            drop(connection.detach());
        }
    }
}

fn silence() -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::new(
        std::io::ErrorKind::TimedOut,
        "no answer in time",
    ))
}

pub(super) async fn in_time<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, Error> {
    Ok(tokio::time::timeout(limit, work)
        .await
        .unwrap_or_else(|_| Err(silence()))?)
}

/// The connection broke, its node shuts down or has become read-only: others of the same age are no better.
fn leads_nowhere(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::Tls(_) => true,
        sqlx::Error::Database(database) => {
            matches!(
                database.code().as_deref(),
                Some("25006" | "57P01" | "57P02" | "57P03")
            )
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces of work are awaited in tasks of a runtime with several threads.
    #[test]
    fn work_can_move_between_threads() {
        fn can_move<T: Send>(_: T) {}
        async fn work(db: &Db) -> Result<(), Error> {
            let mut work = db.transaction().await?;
            let query = work.query("SELECT 1");
            work.fetch_all(query).await?;
            work.commit().await
        }
        fn check(db: &Db) {
            can_move(work(db));
        }
        let _ = check;
    }
}
