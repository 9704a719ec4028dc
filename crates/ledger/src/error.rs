//! What can go wrong, by what the caller can do about it.

use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Postgres cannot be reached, does not answer in time or has no connection left for us. Try later; a write that
    /// was under way may or may not have happened, and may be repeated.
    #[error("Postgres is not available")]
    Unavailable(#[source] sqlx::Error),
    /// The node takes no writes (a standby, a swap under way). Connections are made anew; try later.
    #[error("Postgres is read-only")]
    ReadOnly,
    /// The connection broke while a log write was committed: it is in the ledger or not. Begin again; what is there
    /// already is skipped.
    #[error("whether the log was written is unknown")]
    CommitUnknown(#[source] sqlx::Error),
    /// Lost against another transaction (deadlock, serialization, lock time-out), more than once. Try again.
    #[error("Postgres gave way to another transaction")]
    Contended(#[source] sqlx::Error),
    /// A log write must go on where the ledger ends.
    #[error("log entry {expected} must come next, not {found}")]
    Gap { expected: u64, found: u64 },
    /// The entries are of a generation that was replaced: a newer one is open already.
    #[error("generation {generation} is over: {opened} is open")]
    Stale { generation: u64, opened: u64 },
    /// Tables are missing or old: run `allocator migrate`.
    #[error("the tables are not there: migrations must be run")]
    NotMigrated(#[source] sqlx::Error),
    #[error("migration {version}: {problem}")]
    Migration { version: i64, problem: String },
    /// A page cursor that this program did not make, or made for another list.
    #[error("the cursor is not one of ours")]
    Cursor,
    #[error("the database address cannot be used: {0}")]
    Config(String),
    /// A row holds what this program cannot read.
    #[error("{what} in the ledger cannot be read: {problem}")]
    Unreadable { what: &'static str, problem: String },
    /// A mistake of ours, or a database that is not ours.
    #[error("Postgres refused a statement")]
    Database(#[source] sqlx::Error),
}

impl Error {
    /// Whether the same call may do better later.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Error::Unavailable(_) | Error::ReadOnly | Error::CommitUnknown(_) | Error::Contended(_)
        )
    }

    /// Whether what was written or asked for is to blame, and not the database as a whole: other data would do better.
    pub fn is_of_the_data(&self) -> bool {
        match self {
            // data exception, integrity constraint, program limit
            Error::Database(error) => error
                .as_database_error()
                .and_then(|database| database.code())
                .is_some_and(|code| {
                    ["22", "23", "54"]
                        .iter()
                        .any(|class| code.starts_with(class))
                }),
            Error::Unreadable { .. } => true,
            _ => false,
        }
    }

    /// A row stands in the way of a new one.
    pub(crate) fn is_duplicate(&self) -> bool {
        match self {
            Error::Database(error) => error
                .as_database_error()
                .is_some_and(|database| database.is_unique_violation()),
            _ => false,
        }
    }

    pub(crate) fn unreadable(what: &'static str, problem: impl ToString) -> Error {
        Error::Unreadable {
            what,
            problem: problem.to_string(),
        }
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Error {
        let code = error
            .as_database_error()
            .and_then(|database| database.code());
        match code.as_deref() {
            // serialization failure, deadlock, lock not available
            Some("40001" | "40P01" | "55P03") => Error::Contended(error),
            Some("25006") => Error::ReadOnly,
            // undefined table, column, function
            Some("42P01" | "42703" | "42883") => Error::NotMigrated(error),
            // shutdown, crash, starting up, too many connections, statement or idle time-out, connection classes
            Some("57P01" | "57P02" | "57P03" | "53300" | "57014" | "25P03" | "25P04") => {
                Error::Unavailable(error)
            }
            Some(code) if code.starts_with("08") || code.starts_with("53") => {
                Error::Unavailable(error)
            }
            Some(_) => Error::Database(error),
            None => match error {
                sqlx::Error::Io(_)
                | sqlx::Error::Tls(_)
                | sqlx::Error::Protocol(_)
                | sqlx::Error::PoolTimedOut
                | sqlx::Error::PoolClosed
                | sqlx::Error::BeginFailed
                | sqlx::Error::WorkerCrashed => Error::Unavailable(error),
                sqlx::Error::Configuration(problem) => Error::Config(problem.to_string()),
                other => Error::Database(other),
            },
        }
    }
}

const RETRIES: u32 = 5;

/// Repeats what lost against another transaction, after a random pause that grows. `work` is whole: it begins and
/// commits its own transaction.
pub(crate) async fn retry<T, Work>(mut work: impl FnMut() -> Work) -> Result<T, Error>
where
    Work: Future<Output = Result<T, Error>>,
{
    for tried in 0..RETRIES {
        match work().await {
            Err(Error::Contended(_)) => {}
            result => return result,
        }
        let longest = 10_u64 << tried;
        let random = u64::from(uuid::Uuid::new_v4().as_fields().0);
        tokio::time::sleep(Duration::from_millis(1 + random % longest)).await;
    }
    work().await
}
