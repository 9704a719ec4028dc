//! What tests may rely on: a fresh migrated database each, a server that can be stopped and
//! started at the same address, a pooler.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first surprise, helpers too"
)]

use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor, Row};
use test_postgres::{Database, Options, Pooler, Server};

const MIGRATION: &str = "create table things (name text)";

async fn migrated() -> Database {
    Database::migrated(MIGRATION, |url| async move {
        let mut connection = PgConnection::connect(&url).await.unwrap();
        connection.execute(MIGRATION).await.unwrap();
        connection.close().await.unwrap();
    })
    .await
}

async fn count(connection: &mut PgConnection) -> i64 {
    sqlx::query("select count(*) from things")
        .fetch_one(connection)
        .await
        .unwrap()
        .get(0)
}

#[tokio::test]
async fn each_test_has_its_own_migrated_database() {
    let (one, two) = (migrated().await, migrated().await);
    let mut connection = one.connect().await;
    connection
        .execute("insert into things values ('a')")
        .await
        .unwrap();
    assert_eq!(count(&mut connection).await, 1);
    assert_eq!(count(&mut two.connect().await).await, 0);
}

#[tokio::test]
async fn many_at_once_share_one_template() {
    let made = (0..8).map(|_| tokio::spawn(migrated()));
    for task in made.collect::<Vec<_>>() {
        let database = task.await.unwrap();
        assert_eq!(count(&mut database.connect().await).await, 0);
    }
}

#[tokio::test]
async fn a_database_is_gone_with_its_value() {
    let database = Database::empty().await;
    let (name, options) = (database.name().to_owned(), database.options());
    let _left_open = database.connect().await;
    drop(database);
    let mut admin = PgConnection::connect_with(&options.database("postgres"))
        .await
        .unwrap();
    let query = sqlx::query("select count(*) from pg_database where datname = $1").bind(&name);
    let left: i64 = query.fetch_one(&mut admin).await.unwrap().get(0);
    assert_eq!(left, 0);
}

#[tokio::test]
async fn a_server_of_ones_own_keeps_its_data_over_stop_and_crash() {
    let mut server = Server::start(Options::default().set("max_connections", "20")).await;
    let mut connection = PgConnection::connect(&server.url()).await.unwrap();
    connection.execute(MIGRATION).await.unwrap();
    connection
        .execute("insert into things values ('a')")
        .await
        .unwrap();
    server.stop().await;
    assert!(
        connection
            .execute("insert into things values ('b')")
            .await
            .is_err()
    );
    assert!(PgConnection::connect(&server.url()).await.is_err());
    server.resume().await;
    let mut connection = PgConnection::connect(&server.url()).await.unwrap();
    assert_eq!(count(&mut connection).await, 1);
    connection.execute("checkpoint").await.unwrap();
    server.crash().await;
    server.resume().await;
    let mut connection = PgConnection::connect(&server.url()).await.unwrap();
    assert_eq!(count(&mut connection).await, 1);
}

#[tokio::test]
async fn a_pooler_hands_one_server_connection_to_many_clients() {
    let database = migrated().await;
    let pooler = Pooler::start(&database, 1).await;
    let mut one = PgConnection::connect_with(&pooler.options()).await.unwrap();
    let mut two = PgConnection::connect_with(&pooler.options()).await.unwrap();
    let mut backends = Vec::new();
    for connection in [&mut one, &mut two] {
        let row = sqlx::raw_sql("select pg_backend_pid()")
            .fetch_one(connection)
            .await
            .unwrap();
        backends.push(row.get::<i32, _>(0));
    }
    assert_eq!(backends[0], backends[1]);
}
