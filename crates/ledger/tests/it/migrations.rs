//! Migrations: the list, several replicas at once, one killed half-way.

use futures_util::future::join_all;
use ledger::{Error, Ledger, MIGRATIONS, MigrationStatus};
use sqlx::Executor;
use test_postgres::Database;

use crate::setup::{config, migrated};

#[test]
fn the_list_is_the_folder() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let listed: Vec<String> = MIGRATIONS
        .iter()
        .map(|migration| format!("{}.sql", migration.name))
        .collect();
    assert_eq!(files, listed);
    for (place, migration) in MIGRATIONS.iter().enumerate() {
        assert_eq!(migration.version, place as i64 + 1);
        assert!(
            migration
                .name
                .starts_with(&format!("{:04}_", migration.version))
        );
    }
}

/// Case 120.
#[tokio::test]
async fn three_replicas_migrate_an_empty_database_at_once() {
    let database = Database::empty().await;
    let replicas = join_all((0..3).map(|_| async {
        let ledger = Ledger::connect(config(&database.url())).await.unwrap();
        assert_eq!(ledger.migration_status().await.unwrap().newer, 0);
        let applied = ledger.migrate().await.unwrap();
        (ledger, applied)
    }))
    .await;
    let applied: usize = replicas.iter().map(|(_, applied)| applied).sum();
    assert_eq!(applied, MIGRATIONS.len());
    for (ledger, _) in &replicas {
        assert_eq!(
            ledger.migration_status().await.unwrap(),
            MigrationStatus {
                pending: 0,
                newer: 0
            }
        );
    }
    let mut connection = database.connect().await;
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database =
        (SELECT oid FROM pg_database WHERE datname = current_database())";
    let left: i64 = sqlx::query_scalar(locks)
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(left, 0);
}

/// Case 120: a replica that is killed in the middle leaves nothing behind, least of all a lock.
#[tokio::test]
async fn a_replica_killed_half_way_is_no_trouble() {
    let database = Database::empty().await;
    // Stops the second migration where it makes `members`, until the test lets it go on.
    let mut gate = database.connect().await;
    gate.execute("CREATE TABLE members (x int)").await.unwrap();
    let ledger = Ledger::connect(config(&database.url())).await.unwrap();
    assert!(matches!(
        ledger.migrate().await,
        Err(Error::Migration { version: 2, .. })
    ));
    gate.execute("DROP TABLE members").await.unwrap();
    gate.execute("BEGIN; CREATE TABLE members (x int)")
        .await
        .unwrap();
    let killed = tokio::spawn({
        let ledger = ledger.clone();
        async move { ledger.migrate().await }
    });
    let mut outside = database.connect().await;
    let waiting =
        "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'";
    while !sqlx::query_scalar::<_, bool>(waiting)
        .fetch_one(&mut outside)
        .await
        .unwrap()
    {
        assert!(!killed.is_finished(), "{:?}", killed.await);
        tokio::task::yield_now().await;
    }
    killed.abort();
    assert!(killed.await.unwrap_err().is_cancelled());
    gate.execute("ROLLBACK").await.unwrap();
    let other = Ledger::connect(config(&database.url())).await.unwrap();
    assert_eq!(other.migrate().await.unwrap(), MIGRATIONS.len() - 1);
    assert_eq!(other.migrate().await.unwrap(), 0);
}

#[tokio::test]
async fn a_migration_changed_after_it_was_applied_is_refused() {
    let database = migrated().await;
    let ledger = Ledger::connect(config(&database.url())).await.unwrap();
    database
        .connect()
        .await
        .execute("UPDATE migrations SET checksum = 'other' WHERE version = 1")
        .await
        .unwrap();
    assert!(matches!(
        ledger.migrate().await,
        Err(Error::Migration { version: 1, .. })
    ));
}

#[tokio::test]
async fn a_database_of_another_program_version_is_told() {
    let database = Database::empty().await;
    let ledger = Ledger::connect(config(&database.url())).await.unwrap();
    let missing = MigrationStatus {
        pending: MIGRATIONS.len(),
        newer: 0,
    };
    assert_eq!(ledger.migration_status().await.unwrap(), missing);
    assert!(matches!(
        ledger.counters().await,
        Err(Error::NotMigrated(_))
    ));
    ledger.migrate().await.unwrap();
    database
        .connect()
        .await
        .execute("INSERT INTO migrations (version, name, checksum) VALUES (9999, 'later', '')")
        .await
        .unwrap();
    assert_eq!(
        ledger.migration_status().await.unwrap(),
        MigrationStatus {
            pending: 0,
            newer: 1
        }
    );
    assert_eq!(ledger.migrate().await.unwrap(), 0);
}
