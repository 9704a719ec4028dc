//! A migrated database for each test, and short ways to say what is written to it.

use std::time::{Duration, Instant};

use allocation::{AllocationId, CorpId, MemberId, PoolId, Reason, SubjectKey};
use ledger::{
    Change, Config, Customer, Entry, Ledger, LogWrite, NewAllocation, NewEffect, NewTransfer,
    TransferKind, WriteBatch, Written,
};
use serde_json::json;
use sqlx::Row;
use test_postgres::Database;
use uuid::Uuid;

/// The clock of all tests.
pub(crate) const T0: u64 = 1_792_000_000_000;
pub(crate) const CORP: &str = "ww1f2e3d4c5b6a7988";

pub(crate) struct Setup {
    pub(crate) database: Database,
    pub(crate) ledger: Ledger,
    pub(crate) corp: CorpId,
}

pub(crate) async fn setup() -> Setup {
    setup_with(|config| config).await
}

pub(crate) async fn setup_with(change: impl FnOnce(Config) -> Config) -> Setup {
    let database = migrated().await;
    let ledger = Ledger::connect(change(config(&database.url())))
        .await
        .unwrap();
    let corp = corp();
    ledger.corps().ensure(&corp).await.unwrap();
    Setup {
        database,
        ledger,
        corp,
    }
}

pub(crate) async fn migrated() -> Database {
    let texts: Vec<&str> = ledger::MIGRATIONS
        .iter()
        .map(|migration| migration.sql)
        .collect();
    Database::migrated(texts, |url| async move {
        let ledger = Ledger::connect(config(&url)).await.unwrap();
        ledger.migrate().await.unwrap();
        ledger.close().await;
    })
    .await
}

pub(crate) fn config(url: &str) -> Config {
    Config {
        max_connections: 5,
        acquire_timeout: Duration::from_secs(20),
        ..Config::new(url)
    }
}

pub(crate) fn corp() -> CorpId {
    CorpId::new(CORP).unwrap()
}

pub(crate) fn pool(name: &str) -> PoolId {
    PoolId::new(name).unwrap()
}

pub(crate) fn member(name: &str) -> MemberId {
    MemberId::new(name).unwrap()
}

pub(crate) fn subject(external_id: &str) -> SubjectKey {
    SubjectKey::new(&corp(), "wecom", external_id)
}

pub(crate) fn customer(external_id: &str) -> Customer {
    Customer {
        kind: "wecom".into(),
        external_id: Some(external_id.into()),
    }
}

/// A test's allocation number `n`.
pub(crate) fn allocation(n: u64) -> AllocationId {
    AllocationId(Uuid::from_u128(
        0x0192_0000_0000_7000_8000_0000_0000_0000 + u128::from(n),
    ))
}

pub(crate) fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

/// Customer `wmC<n>` to a member (or waiting) in pool `g1`.
pub(crate) fn decided(n: u64, to: Option<&str>) -> NewAllocation {
    let external_id = format!("wmC{n:03}");
    NewAllocation {
        allocation: allocation(n),
        pool: pool("g1"),
        subject: subject(&external_id),
        customer: customer(&external_id),
        member: to.map(member),
        giver: None,
        channel: None,
        source: "callback".into(),
        delivery: None,
        request: None,
        echo: false,
        plan: None,
        preferred: Vec::new(),
    }
}

pub(crate) fn effect(kind: &str, key: &str) -> NewEffect {
    NewEffect {
        kind: kind.into(),
        key: key.into(),
        payload: json!({"for": key}),
        erase_payload: false,
        allocation: None,
        epoch: None,
        transfer: None,
        priority: 50,
        due_ms: T0,
        deadline_ms: None,
    }
}

pub(crate) fn transfer(n: u128, of: u64, giver: &str, taker: &str) -> NewTransfer {
    NewTransfer {
        id: id(n),
        allocation: Some(allocation(of)),
        subject: subject(&format!("wmC{of:03}")),
        giver: member(giver),
        taker: member(taker),
        kind: TransferKind::InService,
    }
}

pub(crate) fn closed(n: u64) -> Change {
    Change::Closed {
        allocation: allocation(n),
        reason: Reason::new("customer_left").unwrap(),
    }
}

pub(crate) fn assigned(n: u64, to: &str, epoch: Option<u64>) -> Change {
    Change::Assigned {
        allocation: allocation(n),
        member: member(to),
        giver: None,
        epoch,
    }
}

pub(crate) fn effect_of(n: u64, key: &str, epoch: Option<u64>) -> NewEffect {
    NewEffect {
        allocation: Some(allocation(n)),
        epoch,
        ..effect("card", key)
    }
}

/// A log entry at T0 + seq.
pub(crate) fn entry(seq: u64, changes: Vec<Change>) -> Entry {
    Entry {
        seq,
        at_ms: T0 + seq,
        op: "note.1".into(),
        args: String::new(),
        result: String::new(),
        changes,
    }
}

pub(crate) fn batch(entries: Vec<Entry>) -> WriteBatch {
    WriteBatch {
        generation: 0,
        entries,
    }
}

impl Setup {
    /// One entry after what is there.
    pub(crate) async fn write(&self, changes: Vec<Change>) -> Written {
        let write = self.begin().await;
        let batch = batch(vec![entry(write.log_seq() + 1, changes)]);
        write.commit(&batch).await.unwrap()
    }

    pub(crate) async fn write_batch(&self, batch: &WriteBatch) -> Result<Written, ledger::Error> {
        self.begin().await.commit(batch).await
    }

    /// The corp's row is free as soon as the server has noticed that whoever held it is gone.
    async fn begin(&self) -> LogWrite {
        let limit = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(write) = self.ledger.begin_log_write(&self.corp).await.unwrap() {
                return write;
            }
            assert!(Instant::now() < limit, "somebody else writes");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The one number that a statement answers, seen from outside.
    pub(crate) async fn number(&self, sql: &'static str) -> i64 {
        let mut connection = self.database.connect().await;
        sqlx::query(sql)
            .fetch_one(&mut connection)
            .await
            .unwrap()
            .get(0)
    }

    pub(crate) async fn run(&self, sql: &'static str) {
        let mut connection = self.database.connect().await;
        sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    }
}
