//! What waits or has ended of one corp or kind is not walked over by the claims of another.
//!
//! Counted in pages of the outbox and its indexes that Postgres touched, whatever way the planner chose.

use allocation::CorpId;
use ledger::{Claim, EffectState, Ledger, Outbox, Reaped};
use rstest::rstest;
use sqlx::PgConnection;

use crate::outbox::claim;
use crate::setup::{Setup, T0, config, setup};

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
/// Transfers of one corp that wait and have a deadline; of each corp, what has ended.
const FLOOD: &str = "INSERT INTO outbox (id, corp_id, kind, effect_key, payload, priority, state, due_at, deadline_at,
        created_at)
    SELECT gen_random_uuid(), 'ww1f2e3d4c5b6a7988', 'transfer', n::text, '{}'::jsonb, 50, 'pending', t,
        to_timestamp(1792000900), t
    FROM generate_series(1, 5000) AS n, to_timestamp(1792000000) AS t
    UNION ALL
    SELECT gen_random_uuid(), corp_id, kind, 'ended' || n, '{}'::jsonb, 50, 'done', t, NULL, t
    FROM unnest(ARRAY['ww1f2e3d4c5b6a7988', 'ww0000000000000000']) AS corp_id,
        unnest(ARRAY['card', 'transfer']) AS kind, generate_series(1, 5000) AS n, to_timestamp(1791000000) AS t";

/// Pages of the outbox and its indexes that `work` touched. Sessions tell what they did when they end.
async fn pages<T>(
    setup: &Setup,
    outside: &mut PgConnection,
    work: impl AsyncFnOnce(Outbox) -> T,
) -> (i64, T) {
    let before = pages_so_far(outside).await;
    let ledger = Ledger::connect(config(&setup.database.url()))
        .await
        .unwrap();
    let answer = work(ledger.outbox()).await;
    ledger.close().await;
    (pages_so_far(outside).await - before, answer)
}

async fn pages_so_far(outside: &mut PgConnection) -> i64 {
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
        WHERE relname = 'outbox'";
    sqlx::query_scalar(pages).fetch_one(outside).await.unwrap()
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
