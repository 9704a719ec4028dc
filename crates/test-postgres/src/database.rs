//! One database per test, cloned from a migrated template and dropped with the value.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::str::FromStr;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, Row};

use crate::shared::shared;

#[derive(Debug)]
pub struct Database {
    name: String,
    server: PgConnectOptions,
}

impl Database {
    /// An empty database.
    pub async fn empty() -> Database {
        Database::clone_of("template1").await
    }

    /// A database as `migrate` leaves an empty one. `migrations` is whatever changes when the result
    /// would change (the texts of the migrations): the template is made once per value of it and
    /// server. `migrate` gets the URL of the template and must close its connections.
    pub async fn migrated<Migrations, Migrate, Done>(
        migrations: Migrations,
        migrate: Migrate,
    ) -> Database
    where
        Migrations: Hash,
        Migrate: FnOnce(String) -> Done,
        Done: Future<Output = ()>,
    {
        let mut hasher = DefaultHasher::new();
        migrations.hash(&mut hasher);
        let template = format!("template_{:016x}", hasher.finish());
        make_template(&template, migrate).await;
        Database::clone_of(&template).await
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn options(&self) -> PgConnectOptions {
        self.server.clone().database(&self.name)
    }

    pub fn url(&self) -> String {
        url_of(&self.options())
    }

    /// A connection beside those of the code under test: it sees what is visible from outside.
    pub async fn connect(&self) -> PgConnection {
        PgConnection::connect_with(&self.options())
            .await
            .expect("the test database answers")
    }

    pub async fn pool(&self, max_connections: u32) -> PgPool {
        let options = PgPoolOptions::new().max_connections(max_connections);
        options
            .connect_with(self.options())
            .await
            .expect("the test database answers")
    }

    async fn clone_of(template: &str) -> Database {
        let mut admin = admin().await;
        let name = format!("test_{}", uuid::Uuid::new_v4().simple());
        execute(
            &mut admin,
            format!("create database {name} template {template}"),
        )
        .await;
        drop(admin.close().await);
        Database {
            name,
            server: admin_options(),
        }
    }
}

impl Drop for Database {
    /// Dropping is work for an own thread: this may run inside a runtime, or while a test panics.
    fn drop(&mut self) {
        let (name, server) = (self.name.clone(), self.server.clone());
        let work = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                let mut admin = PgConnection::connect_with(&server).await?;
                admin
                    .execute(AssertSqlSafe(format!(
                        "drop database if exists {name} with (force)"
                    )))
                    .await?;
                admin.close().await
            })?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
        });
        // A database that could not be dropped goes with the server.
        drop(work.join());
    }
}

async fn make_template<Migrate, Done>(template: &str, migrate: Migrate)
where
    Migrate: FnOnce(String) -> Done,
    Done: Future<Output = ()>,
{
    let mut admin = admin().await;
    if exists(&mut admin, template).await {
        drop(admin.close().await);
        return;
    }
    // One maker at a time on this server; the lock ends with the connection.
    execute(&mut admin, "select pg_advisory_lock(7072656)".to_owned()).await;
    if !exists(&mut admin, template).await {
        let building = format!("{template}_building");
        execute(
            &mut admin,
            format!("drop database if exists {building} with (force)"),
        )
        .await;
        execute(&mut admin, format!("create database {building}")).await;
        migrate(url_of(&admin_options().database(&building))).await;
        // A pool that was dropped, not closed, may still be saying good-bye.
        let cut = format!(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = '{building}'"
        );
        execute(&mut admin, cut).await;
        execute(
            &mut admin,
            format!("alter database {building} rename to {template}"),
        )
        .await;
    }
    drop(admin.close().await);
}

fn admin_options() -> PgConnectOptions {
    let url = &shared().admin_url;
    PgConnectOptions::from_str(url)
        .unwrap_or_else(|e| panic!("PAIDAN_TEST_POSTGRES is no Postgres URL: {e}"))
}

async fn admin() -> PgConnection {
    PgConnection::connect_with(&admin_options())
        .await
        .unwrap_or_else(|e| panic!("the test server does not answer: {e}"))
}

fn url_of(options: &PgConnectOptions) -> String {
    options.to_url_lossy().to_string()
}

async fn exists(admin: &mut PgConnection, name: &str) -> bool {
    let query =
        sqlx::query("select exists (select from pg_database where datname = $1)").bind(name);
    query
        .fetch_one(admin)
        .await
        .expect("the test server answers")
        .get(0)
}

async fn execute(admin: &mut PgConnection, statement: String) {
    admin
        .execute(AssertSqlSafe(statement.clone()))
        .await
        .unwrap_or_else(|e| panic!("{statement}: {e}"));
}
