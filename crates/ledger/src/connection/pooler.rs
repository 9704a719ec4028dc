//! Finds out whether a pooler in transaction mode stands between us and Postgres.

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{Connection, Row};

const LOOKS: usize = 4;

/// Two connections of ours that are open at once share a server process only where a pooler lends it out by the
/// transaction. (One that pools whole sessions does not, and needs no care.)
pub(super) async fn is_between(options: &PgConnectOptions) -> Result<bool, sqlx::Error> {
    // Nothing may be kept on the server before we know.
    let options = options.clone().statement_cache_capacity(0);
    let mut one = PgConnection::connect_with(&options).await?;
    let mut two = PgConnection::connect_with(&options).await?;
    let mut shared = false;
    for _ in 0..LOOKS {
        shared = process(&mut one).await? == process(&mut two).await?;
        if shared {
            break;
        }
    }
    one.close().await?;
    two.close().await?;
    Ok(shared)
}

async fn process(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
    sqlx::raw_sql("SELECT pg_backend_pid()")
        .fetch_one(connection)
        .await?
        .try_get(0)
}
