//! Postgres stopped, restarted, read-only, silent, and connections cut at the worst moment.

use std::time::Duration;

use ledger::{Change, Config, Error, Ledger, WriteBatch};
use sqlx::{Connection, Executor, PgConnection};
use test_postgres::{Options, Server};
use test_redis::Proxy;

use crate::setup::{batch, config, corp, customer, decided, entry, subject};

/// A server of one's own behind a proxy, with a ledger that went through it.
struct Faulty {
    server: Server,
    proxy: Proxy,
    ledger: Ledger,
}

fn quick(url: &str) -> Config {
    Config {
        acquire_timeout: Duration::from_millis(700),
        statement_timeout: Duration::from_millis(700),
        max_connections: 3,
        ..config(url)
    }
}

async fn faulty() -> Faulty {
    let server = Server::start(Options::default()).await;
    let proxy = Proxy::to(("127.0.0.1", server.port()));
    let url = format!("postgres://app@{}/postgres", proxy.addr());
    Ledger::connect(config(&url))
        .await
        .unwrap()
        .prepare(&[corp()])
        .await
        .unwrap();
    let ledger = Ledger::connect(quick(&url)).await.unwrap();
    Faulty {
        server,
        proxy,
        ledger,
    }
}

impl Faulty {
    async fn try_write(&self, batch: &WriteBatch) -> Result<Option<ledger::Written>, Error> {
        match self.ledger.begin_log_write(&corp()).await? {
            Some(write) => write.commit(batch).await.map(Some),
            None => Ok(None),
        }
    }

    /// As the writer's loop does: again and again until it is in the ledger. Answers the errors on the way.
    async fn write(&self, batch: &WriteBatch) -> Vec<Error> {
        let last = batch.entries.last().unwrap().seq;
        let mut errors = Vec::new();
        loop {
            match self.try_write(batch).await {
                Ok(Some(written)) if written.log_seq >= last => return errors,
                Ok(_) => tokio::task::yield_now().await,
                Err(error) => {
                    assert!(error.is_passing(), "{error:?}");
                    errors.push(error);
                }
            }
        }
    }

    async fn number(&self, sql: &'static str) -> i64 {
        let mut connection = PgConnection::connect(&self.server.url()).await.unwrap();
        sqlx::query_scalar(sql)
            .fetch_one(&mut connection)
            .await
            .unwrap()
    }
}

fn one(seq: u64) -> WriteBatch {
    batch(vec![entry(
        seq,
        vec![Change::Decided(decided(seq, Some("mA")))],
    )])
}

/// Case 134's ledger: an error in bounded time while Postgres is away, and back by itself.
#[tokio::test]
async fn stopped_and_started_again() {
    let mut faulty = faulty().await;
    faulty.write(&one(1)).await;
    faulty.server.stop().await;
    for _ in 0..3 {
        let error = tokio::time::timeout(Duration::from_secs(5), faulty.try_write(&one(2)))
            .await
            .unwrap()
            .unwrap_err();
        assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
        assert!(matches!(
            faulty.ledger.ping().await,
            Err(Error::Unavailable(_))
        ));
    }
    faulty.server.resume().await;
    faulty.write(&one(2)).await;
    faulty.ledger.ping().await.unwrap();
    assert_eq!(faulty.number("SELECT count(*) FROM allocations").await, 2);
}

#[tokio::test]
async fn crashed_under_load_nothing_is_lost_or_doubled() {
    let mut faulty = faulty().await;
    let ledger = faulty.ledger.clone();
    let writer = tokio::spawn(async move {
        let mut seq = 1;
        while seq <= 300 {
            let Ok(Some(write)) = ledger.begin_log_write(&corp()).await else {
                tokio::task::yield_now().await;
                continue;
            };
            // What the log says, not what we remember, comes next.
            let next = write.log_seq() + 1;
            if write.commit(&one(next)).await.is_ok() {
                seq = next + 1;
            }
        }
    });
    for _ in 0..3 {
        let before = faulty.number("SELECT log_seq FROM corps").await;
        while !writer.is_finished()
            && faulty.number("SELECT log_seq FROM corps").await < before + 20
        {
            tokio::task::yield_now().await;
        }
        faulty.server.crash().await;
        faulty.server.resume().await;
    }
    writer.await.unwrap();
    assert_eq!(faulty.number("SELECT log_seq FROM corps").await, 300);
    assert_eq!(faulty.number("SELECT count(*) FROM log").await, 300);
    assert_eq!(faulty.number("SELECT count(*) FROM allocations").await, 300);
}

/// The answer to COMMIT is lost: the batch is in the ledger or not. Written again, it is there once.
#[tokio::test]
async fn a_commit_whose_answer_is_lost() {
    let faulty = faulty().await;
    faulty.write(&one(1)).await;
    // Makes the commit wait long enough to cut the answer off.
    let mut gate = PgConnection::connect(&faulty.server.url()).await.unwrap();
    gate.execute(
        "CREATE FUNCTION wait_at_commit() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$;
         CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON log DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION wait_at_commit();
         SELECT pg_advisory_lock(1)",
    )
    .await
    .unwrap();
    let write = faulty
        .ledger
        .begin_log_write(&corp())
        .await
        .unwrap()
        .unwrap();
    let commit = tokio::spawn(async move { write.commit(&one(2)).await });
    while faulty
        .number("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        .await
        == 0
    {
        tokio::task::yield_now().await;
    }
    faulty.proxy.drop_replies();
    gate.execute("SELECT pg_advisory_unlock(1)").await.unwrap();
    let error = commit.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::CommitUnknown(_)), "{error:?}");
    assert!(error.is_passing());
    faulty.proxy.restore();
    faulty.write(&one(2)).await;
    let again = faulty.try_write(&one(2)).await.unwrap().unwrap();
    assert_eq!((again.entries, again.log_seq), (0, 2));
    assert_eq!(faulty.number("SELECT count(*) FROM allocations").await, 2);
}

/// The connection breaks between any two statements of a write: nothing or everything.
#[tokio::test]
async fn cut_in_the_middle_of_a_write() {
    let faulty = faulty().await;
    for seq in 1..=30_u64 {
        let write = tokio::spawn({
            let ledger = faulty.ledger.clone();
            async move {
                ledger
                    .begin_log_write(&corp())
                    .await?
                    .unwrap()
                    .commit(&one(seq))
                    .await
            }
        });
        for _ in 0..seq * 3 {
            tokio::task::yield_now().await;
        }
        faulty.proxy.cut();
        drop(write.await);
        faulty.proxy.restore();
        faulty.write(&one(seq)).await;
    }
    assert_eq!(faulty.number("SELECT count(*) FROM log").await, 30);
    assert_eq!(faulty.number("SELECT count(*) FROM allocations").await, 30);
}

/// Who lost his connection does not hold the row any more, and is told so before he draws conclusions.
#[tokio::test]
async fn a_writer_whose_connection_broke_holds_nothing() {
    let faulty = faulty().await;
    let begin = async || {
        let begun = faulty.ledger.begin_log_write(&corp()).await;
        begun.unwrap().unwrap()
    };
    let mut write = begin().await;
    assert_eq!(write.last().await.unwrap(), None);
    faulty.proxy.cut();
    assert!(write.last().await.unwrap_err().is_passing());
    drop(write);
    faulty.proxy.restore();
}

/// Case 121: the node behind the address becomes read-only, sessions stay open; later another node is there.
#[tokio::test]
async fn a_read_only_node_and_a_swap() {
    let mut faulty = faulty().await;
    faulty.write(&one(1)).await;
    // New statements of every session, also of those that are open: a standby in all but name.
    let mut admin = PgConnection::connect(&faulty.server.url()).await.unwrap();
    admin
        .execute("ALTER SYSTEM SET default_transaction_read_only = on")
        .await
        .unwrap();
    admin.execute("SELECT pg_reload_conf()").await.unwrap();
    loop {
        match faulty.try_write(&one(2)).await {
            Err(Error::ReadOnly) => break,
            Ok(_) => tokio::task::yield_now().await,
            Err(error) => panic!("{error:?}"),
        }
    }
    let customers = faulty.ledger.customers();
    let upsert = customers
        .upsert(&corp(), &[(subject("wm1"), customer("wm1"))])
        .await;
    assert!(matches!(upsert, Err(Error::ReadOnly)));
    assert!(matches!(faulty.ledger.ping().await, Err(Error::ReadOnly)));
    // Reading goes on.
    assert!(
        customers
            .find(&corp(), &subject("wmC001"))
            .await
            .unwrap()
            .is_some()
    );

    // The swap: sessions to the old node stay open and read-only for ever, new ones reach the new node.
    let new = Server::start(Options::default()).await;
    Ledger::connect(config(&new.url()))
        .await
        .unwrap()
        .prepare(&[corp()])
        .await
        .unwrap();
    faulty
        .proxy
        .retarget_new(([127, 0, 0, 1], new.port()).into());
    let errors = faulty.write(&one(1)).await;
    assert!(errors.len() <= 4, "{errors:?}");
    faulty.ledger.ping().await.unwrap();
    faulty.server.stop().await;
}

/// Case 116: the server accepts and never answers.
#[tokio::test]
async fn a_silent_server_is_an_error_in_time() {
    let faulty = faulty().await;
    faulty.write(&one(1)).await;
    faulty.proxy.pause();
    let second = one(2);
    for _ in 0..2 {
        let write = tokio::time::timeout(Duration::from_secs(10), faulty.try_write(&second));
        assert!(matches!(write.await.unwrap(), Err(Error::Unavailable(_))));
    }
    let url = format!("postgres://app@{}/postgres", faulty.proxy.addr());
    let connect = tokio::time::timeout(Duration::from_secs(10), Ledger::connect(quick(&url)));
    assert!(matches!(connect.await.unwrap(), Err(Error::Unavailable(_))));
    faulty.proxy.restore();
    faulty.write(&one(2)).await;
}

/// A process that hangs while it holds a corp's row loses it.
#[tokio::test]
async fn a_writer_that_hangs_gives_the_row_back() {
    let faulty = faulty().await;
    let held = faulty
        .ledger
        .begin_log_write(&corp())
        .await
        .unwrap()
        .unwrap();
    // Longer than three statements' time: the server ends the session.
    faulty.write(&one(1)).await;
    let late = held.commit(&one(1)).await;
    assert!(
        matches!(late, Err(Error::Unavailable(_) | Error::CommitUnknown(_))),
        "{late:?}"
    );
    assert_eq!(faulty.number("SELECT count(*) FROM allocations").await, 1);
}

#[tokio::test]
async fn wrong_addresses_are_told_at_once_and_without_secrets() {
    let error = Ledger::connect(Config::new("postgres://app:s3cret@[::bad/x"))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Config(_)));
    assert!(!format!("{error} {error:?}").contains("s3cret"));
    assert!(!format!("{:?}", Config::new("postgres://app:s3cret@host/x")).contains("s3cret"));
    let nobody = Ledger::connect(quick("postgres://app@127.0.0.1:1/x"))
        .await
        .unwrap_err();
    assert!(matches!(nobody, Error::Unavailable(_)));
}
