//! Finds out whether a pooler in transaction mode stands between us and Postgres.

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{Connection, Row};

use super::Session;

const LOOKS: usize = 4;

/// Whether our sessions are not ours: settings given at the start are refused or forgotten (the mark of PgBouncer,
/// whatever else goes on there), or two connections of ours that are open at once share a server process.
pub(super) async fn is_between(
    options: &PgConnectOptions,
    session: &Session,
) -> Result<bool, sqlx::Error> {
    // Nothing may be kept on the server before we know.
    let options = session.on(options.clone().statement_cache_capacity(0));
    let mut one = match PgConnection::connect_with(&options).await {
        Err(refused) if is_about_settings(&refused) => return Ok(true),
        connected => connected?,
    };
    let between = if keeps(&mut one, session).await? {
        let mut two = PgConnection::connect_with(&options).await?;
        let shared = share_a_process(&mut one, &mut two).await?;
        two.close().await?;
        shared
    } else {
        true
    };
    one.close().await?;
    Ok(between)
}

/// PgBouncer: "unsupported startup parameter", a violation of the protocol in its eyes.
fn is_about_settings(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| {
        error.code().as_deref() == Some("08P01") || error.message().contains("startup parameter")
    })
}

/// A pooler told to ignore what it does not support leaves the server's own values in force.
async fn keeps(connection: &mut PgConnection, session: &Session) -> Result<bool, sqlx::Error> {
    let row = sqlx::raw_sql(
        "SELECT setting::bigint FROM pg_catalog.pg_settings WHERE name = 'statement_timeout'",
    )
    .fetch_one(connection)
    .await?;
    let in_force: i64 = row.try_get(0)?;
    Ok(u128::try_from(in_force) == Ok(session.statement_ms))
}

/// A pooler that lends out by the transaction may still give two idle clients a process each, so this is looked at
/// more than once; one that pools whole sessions shares none, and needs no care.
async fn share_a_process(
    one: &mut PgConnection,
    two: &mut PgConnection,
) -> Result<bool, sqlx::Error> {
    for _ in 0..LOOKS {
        if process(one).await? == process(two).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn process(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
    sqlx::raw_sql("SELECT pg_backend_pid()")
        .fetch_one(connection)
        .await?
        .try_get(0)
}
