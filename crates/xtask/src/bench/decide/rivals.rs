//! P17: how customers are given to members elsewhere, with the same 64 callers and 50 members.
//!
//! - **P17-for-update** one Postgres statement: the member of least load, `FOR UPDATE`, his load + 1, a ledger row.
//! - **P17-skip-locked** the same with `SKIP LOCKED`; who finds nobody asks again at once.
//! - **P17-lock** our own script between a lock (`SET NX PX`, tried again after 1 to 3 ms) and its release.
//! - **P17-rotation** a list of members in Redis, as a well-known help desk has it: read, take the next one out, put him
//!   in at the other end, write down who it was; four commands one after the other.
//!
//! Each is kinder to the rival than life: Postgres has neither fsync nor a second table to read, the lock is polled
//! quickly, the list knows neither presence nor caps. Fairness is not compared: none of them but the lock has ours.

use std::sync::Arc;
use std::time::Instant;

use allocation::PoolId;
use anyhow::Context;
use inbox::connect::Connection;
use redis::AsyncCommands;
use roster::CorpRoster;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::task::JoinSet;

use super::corp::{Shape, assigned, member, request};
use super::{CALLERS, POOL, Stand, while_long};
use crate::bench::row::Sample;
use crate::bench::{Bench, Samples};
use crate::services::{Keep, Package, Postgres, ensure};

const TABLES: &str = "
    CREATE TABLE rival_members (id text PRIMARY KEY, load int NOT NULL, cap int NOT NULL, turn bigint NOT NULL)
        WITH (fillfactor = 20);
    CREATE TABLE rival_ledger (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, subject text NOT NULL,
        member text NOT NULL, at timestamptz NOT NULL DEFAULT now());
    CREATE SEQUENCE rival_turns";

macro_rules! pick {
    ($lock:literal) => {
        concat!(
            "WITH picked AS (SELECT id FROM rival_members WHERE load < cap ORDER BY load, turn LIMIT 1 ",
            $lock,
            "), taken AS (UPDATE rival_members AS m SET load = m.load + 1, turn = nextval('rival_turns')
                FROM picked WHERE m.id = picked.id RETURNING m.id)
             INSERT INTO rival_ledger (subject, member) SELECT $1, id FROM taken RETURNING member"
        )
    };
}
const FOR_UPDATE: &str = pick!("FOR UPDATE");
const SKIP_LOCKED: &str = pick!("FOR UPDATE SKIP LOCKED");

const UNLOCK: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end\nreturn 0";

pub(super) struct Rivals {
    pool: PgPool,
    _postgres: Postgres,
}

impl Rivals {
    pub(super) async fn start(bench: &Bench) -> anyhow::Result<Self> {
        ensure(&[Package::Postgres])?;
        let postgres = Postgres::start(&bench.place.folder, Keep::Nothing, None)?;
        let callers = u32::try_from(CALLERS)?;
        let pool = PgPoolOptions::new()
            .max_connections(callers)
            .min_connections(callers)
            .connect(&postgres.url("postgres"))
            .await?;
        sqlx::raw_sql(TABLES).execute(&pool).await?;
        for number in 0..Shape::FAIR.members {
            sqlx::query("INSERT INTO rival_members VALUES ($1, 0, 100000000, 0)")
                .bind(member(number)?.to_string())
                .execute(&pool)
                .await?;
        }
        Ok(Self {
            pool,
            _postgres: postgres,
        })
    }

    pub(super) async fn round(
        &self,
        stand: &mut Stand<'_>,
        ours: f64,
        samples: &mut Samples,
    ) -> anyhow::Result<()> {
        for (row, sql) in [
            ("P17-for-update", FOR_UPDATE),
            ("P17-skip-locked", SKIP_LOCKED),
        ] {
            let pool = self.pool.clone();
            let rival = rate(stand.bench, |until| in_postgres(pool.clone(), sql, until)).await?;
            samples.add(row, Sample::ratio(ours, rival));
        }
        let corp = stand.open(Shape::FAIR).await?;
        let connection = stand.connection.clone();
        let rival = rate(stand.bench, |until| {
            locked(corp.clone(), connection.clone(), until)
        })
        .await?;
        samples.add("P17-lock", Sample::ratio(ours, rival));
        stand.store.empty()?;
        for number in 0..Shape::FAIR.members {
            let name = member(number)?.to_string();
            stand.store.ask::<()>(&["RPUSH", "rival:list", &name])?;
        }
        let rival = rate(stand.bench, |until| rotated(connection.clone(), until)).await?;
        samples.add("P17-rotation", Sample::ratio(ours, rival));
        Ok(())
    }
}

/// Customers a second of all callers together.
async fn rate<F>(bench: &Bench, caller: impl Fn(Instant) -> F) -> anyhow::Result<f64>
where
    F: Future<Output = anyhow::Result<u64>> + Send + 'static,
{
    let start = Instant::now();
    let until = start + while_long(bench);
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        callers.spawn(caller(until));
    }
    let mut served = 0;
    while let Some(done) = callers.join_next().await {
        served += done??;
    }
    anyhow::ensure!(served > 0, "nobody was served");
    Ok(served as f64 / start.elapsed().as_secs_f64())
}

async fn in_postgres(pool: PgPool, sql: &'static str, until: Instant) -> anyhow::Result<u64> {
    let mut connection = pool.acquire().await?;
    let mut served = 0;
    while Instant::now() < until {
        let subject = uuid::Uuid::now_v7().to_string();
        let found = sqlx::query(sql)
            .bind(subject)
            .fetch_optional(&mut *connection)
            .await?;
        served += u64::from(found.is_some());
    }
    Ok(served)
}

async fn locked(
    corp: CorpRoster<Connection>,
    mut connection: Connection,
    until: Instant,
) -> anyhow::Result<u64> {
    let pool = PoolId::new(POOL)?;
    let unlock = Arc::new(redis::Script::new(UNLOCK));
    let owner: u64 = rand::random();
    let mut served = 0;
    while Instant::now() < until {
        let got: Option<String> = redis::cmd("SET")
            .arg("rival:lock")
            .arg(owner)
            .arg(&["NX", "PX", "5000"])
            .query_async(&mut connection)
            .await?;
        if got.is_none() {
            let pause = std::time::Duration::from_millis(rand::random_range(1..=3));
            tokio::time::sleep(pause).await;
            continue;
        }
        let applied = corp.decide(vec![request(&pool)], "", None).await?;
        assigned(&applied.answer)?;
        unlock
            .key("rival:lock")
            .arg(owner)
            .invoke_async::<i64>(&mut connection)
            .await?;
        served += 1;
    }
    Ok(served)
}

async fn rotated(mut connection: Connection, until: Instant) -> anyhow::Result<u64> {
    let mut served = 0;
    while Instant::now() < until {
        let members: Vec<String> = connection.lrange("rival:list", 0, -1).await?;
        // Two may read the same list: then the second removes nobody, as it happens there too.
        let next = members.first().context("the list is empty")?;
        connection.lrem::<_, _, ()>("rival:list", 1, next).await?;
        connection.rpush::<_, _, ()>("rival:list", next).await?;
        let subject = uuid::Uuid::now_v7().to_string();
        let row = [("subject", subject.as_str()), ("member", next)];
        connection
            .xadd::<_, _, _, _, ()>("rival:ledger", "*", &row)
            .await?;
        served += 1;
    }
    Ok(served)
}
