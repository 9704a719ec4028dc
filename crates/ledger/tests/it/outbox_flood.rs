//! What waits or has ended of one corp or kind is not walked over by the claims of another, nor what is not due yet by
//! the claims of its own.
//!
//! Counted in pages of a table and its indexes that Postgres touched, whatever way the planner chose.

use allocation::CorpId;
use ledger::{Claim, EffectState, Ledger, Outbox, Reaped};
use rstest::rstest;
use sqlx::PgConnection;

use crate::outbox::claim;
use crate::setup::{Setup, T0, config, pool, setup};

/// The flood is at `CORP`, this one is quiet.
const QUIET: &str = "ww0000000000000000";

/// When it was that Postgres counted the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Analyzed {
    Never,
    /// When there were a few cards only.
    Before,
    /// With the flood there.
    Since,
}

/// Cards of each corp that are due.
const FEW: &str = "INSERT INTO outbox (id, corp_id, kind, effect_key, payload, priority, state, due_at, created_at)
    SELECT gen_random_uuid(), corp_id, 'card', n::text, '{}'::jsonb, 50, 'pending', t, t
    FROM unnest(ARRAY['ww1f2e3d4c5b6a7988', 'ww0000000000000000']) AS corp_id, generate_series(1, 3) AS n,
        to_timestamp(1792000000) AS t";
/// Transfers of one corp that wait and have a deadline, and its cards that are due in an hour; of each corp, what has
/// ended.
const FLOOD: &str = "INSERT INTO outbox (id, corp_id, kind, effect_key, payload, priority, state, due_at, deadline_at,
        created_at)
    SELECT gen_random_uuid(), 'ww1f2e3d4c5b6a7988', 'transfer', n::text, '{}'::jsonb, 50, 'pending', t,
        to_timestamp(1792000900), t
    FROM generate_series(1, 5000) AS n, to_timestamp(1792000000) AS t
    UNION ALL
    SELECT gen_random_uuid(), 'ww1f2e3d4c5b6a7988', 'card', 'later' || n, '{}'::jsonb, 50, 'pending',
        t + interval '1 hour', NULL, t
    FROM generate_series(1, 5000) AS n, to_timestamp(1792000000) AS t
    UNION ALL
    SELECT gen_random_uuid(), corp_id, kind, 'ended' || n, '{}'::jsonb, 50, 'done', t, NULL, t
    FROM unnest(ARRAY['ww1f2e3d4c5b6a7988', 'ww0000000000000000']) AS corp_id,
        unnest(ARRAY['card', 'transfer']) AS kind, generate_series(1, 5000) AS n, to_timestamp(1791000000) AS t";

/// Pages of the table and its indexes that `work` touched. Sessions tell what they did when they end.
async fn pages_of<T>(
    table: &str,
    setup: &Setup,
    outside: &mut PgConnection,
    work: impl AsyncFnOnce(&Ledger) -> T,
) -> (i64, T) {
    let before = pages_so_far(table, outside).await;
    let ledger = Ledger::connect(config(&setup.database.url()))
        .await
        .unwrap();
    let answer = work(&ledger).await;
    ledger.close().await;
    (pages_so_far(table, outside).await - before, answer)
}

async fn pages<T>(
    setup: &Setup,
    outside: &mut PgConnection,
    work: impl AsyncFnOnce(Outbox) -> T,
) -> (i64, T) {
    pages_of("outbox", setup, outside, async |ledger| {
        work(ledger.outbox()).await
    })
    .await
}

async fn pages_so_far(table: &str, outside: &mut PgConnection) -> i64 {
    let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
    while sqlx::query_scalar::<_, i64>(others)
        .fetch_one(&mut *outside)
        .await
        .unwrap()
        > 0
    {
        tokio::task::yield_now().await;
    }
    let pages = "SELECT heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read FROM pg_statio_user_tables
        WHERE relname = $1";
    sqlx::query_scalar(pages)
        .bind(table)
        .fetch_one(outside)
        .await
        .unwrap()
}

#[rstest]
#[tokio::test]
async fn nobody_walks_over_the_rows_of_others(
    #[values(Analyzed::Never, Analyzed::Before, Analyzed::Since)] analyzed: Analyzed,
) {
    let setup = setup().await;
    setup.ledger.close().await;
    let mut outside = setup.database.connect().await;
    setup
        .run("ALTER TABLE outbox SET (autovacuum_enabled = false)")
        .await;
    setup.run(FEW).await;
    if analyzed == Analyzed::Before {
        setup.run("ANALYZE outbox").await;
    }
    setup.run(FLOOD).await;
    if analyzed == Analyzed::Since {
        setup.run("ANALYZE outbox").await;
    }

    let quiet: CorpId = QUIET.parse().unwrap();
    let mut touched = Vec::new();
    for corp in [&setup.corp, &quiet] {
        // Writing three rows is most of the first: each goes out of some indexes and into others.
        for (kind, rows, limit) in [("card", 3, 100), ("card", 0, 40), ("welcome", 0, 40)] {
            let claim = Claim {
                corp: corp.clone(),
                ..claim(kind, 10)
            };
            let (pages, claimed) = pages(&setup, &mut outside, async |outbox| {
                outbox.claim(&claim, T0 + 9).await.unwrap().len()
            })
            .await;
            assert_eq!(claimed, rows, "{corp} {kind}");
            touched.push((format!("{rows} {kind} of {corp}"), pages, limit));
        }
    }
    let (pages_of_reap, reaped) = pages(&setup, &mut outside, async |outbox| {
        outbox.reap(&[], 500, T0 + 9).await.unwrap()
    })
    .await;
    assert_eq!(reaped, Reaped::default());
    touched.push(("reap".into(), pages_of_reap, 40));
    let (pages_of_unfinished, unfinished) = pages(&setup, &mut outside, async |outbox| {
        outbox.unfinished(Some(&quiet)).await.unwrap()
    })
    .await;
    let unfinished: Vec<_> = unfinished
        .iter()
        .map(|row| (row.state, row.count))
        .collect();
    assert_eq!(unfinished, [(EffectState::Running, 3)]);
    let (pages_of_fence, _) = pages(&setup, &mut outside, async |outbox| {
        outbox.greatest_fence(&quiet).await.unwrap()
    })
    .await;
    // Whoever asks these seldom may read it all while Postgres still thinks that everything is due.
    if analyzed != Analyzed::Before {
        touched.push(("unfinished".into(), pages_of_unfinished, 40));
        touched.push(("greatest fence".into(), pages_of_fence, 40));
    }
    assert!(
        touched.iter().all(|(_, pages, limit)| pages < limit),
        "{touched:#?}"
    );
}

/// Transfers of one corp whose check is due long since; of the quiet one, three that are, and many that are not.
const CHECKS: &str = "INSERT INTO transfers (id, corp_id, customer_id, subject, giver, taker, kind, state, created_at,
        next_check_at)
    SELECT gen_random_uuid(), corp_id, gen_random_uuid(), md5(n::text), 'ma', 'mb', 'in_service', 'waiting', t,
        CASE WHEN corp_id = 'ww1f2e3d4c5b6a7988' OR n <= 3 THEN t ELSE t + interval '1 day' END
    FROM unnest(ARRAY['ww1f2e3d4c5b6a7988', 'ww0000000000000000']) AS corp_id, generate_series(1, 5000) AS n,
        to_timestamp(1792000000) AS t";

/// Transfers are looked at by the corp they are of: nobody walks over those of another, still less takes them away.
#[rstest]
#[tokio::test]
async fn transfers_of_others_are_not_walked_over(#[values(false, true)] analyzed: bool) {
    let setup = setup().await;
    setup.ledger.close().await;
    let mut outside = setup.database.connect().await;
    setup
        .run("ALTER TABLE transfers SET (autovacuum_enabled = false)")
        .await;
    setup.run(CHECKS).await;
    if analyzed {
        setup.run("ANALYZE transfers").await;
    }
    let quiet: CorpId = QUIET.parse().unwrap();
    for (due, limit) in [(3, 100), (0, 20)] {
        let claim = async |ledger: &Ledger| {
            let transfers = ledger.transfers();
            transfers.claim_due(&quiet, 10, 60_000, T0 + 9).await
        };
        let (pages, claimed) = pages_of("transfers", &setup, &mut outside, claim).await;
        let claimed = claimed.unwrap();
        assert!(claimed.iter().all(|transfer| transfer.corp == quiet));
        assert_eq!(claimed.len(), due);
        assert!(pages < limit, "{pages} pages for {due}");
    }
}

/// Open allocations of one pool: those of days ago that are still to be carried out, and those of today.
const OPEN: &str = "INSERT INTO allocations (id, corp_id, pool_id, customer_id, subject, member, source, decided_at,
        assigned_at, settled_at, settled_as, decided_seq, changed_seq)
    SELECT gen_random_uuid(), 'ww1f2e3d4c5b6a7988', 'g1', gen_random_uuid(), md5(n::text), 'ma', 'callback',
        decided, decided, CASE WHEN settled THEN decided END, CASE WHEN settled THEN 'done' END, n, n
    FROM generate_series(1, 10000) AS n,
        LATERAL (SELECT n <= 3 OR n > 5000 AS settled,
            to_timestamp(1792000000) - CASE WHEN n <= 5000 THEN interval '2 days' ELSE interval '1 hour' END AS decided) AS t";

/// A pool's window is looked at every few seconds: it reads what it ends, not all that is open.
#[rstest]
#[tokio::test]
async fn a_window_reads_what_it_ends(#[values(false, true)] analyzed: bool) {
    let setup = setup().await;
    setup.ledger.close().await;
    let mut outside = setup.database.connect().await;
    setup
        .run("ALTER TABLE allocations SET (autovacuum_enabled = false)")
        .await;
    setup.run(OPEN).await;
    if analyzed {
        setup.run("ANALYZE allocations").await;
    }
    let before_ms = T0 - 24 * 60 * 60 * 1000;
    let (pages, found) = pages_of("allocations", &setup, &mut outside, async |ledger| {
        let allocations = ledger.allocations();
        allocations
            .open_before(&setup.corp, &pool("g1"), before_ms, 200)
            .await
    })
    .await;
    assert_eq!(found.unwrap().len(), 3);
    assert!(pages < 20, "{pages} pages");
}
