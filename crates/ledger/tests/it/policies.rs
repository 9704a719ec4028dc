//! Versions of pools, drafts, publishing and the way back.

use allocation::{Limits, MemberId, Strategy, Weight};
use futures_util::future::join_all;
use ledger::{
    Deleted, Draft, DraftRefused, MIGRATIONS, Migration, NewDraft, NewMember, NewPool,
    OperationState, PageRequest, Pool, Precondition, Publication, Put, RolledBack, Trail,
};
use serde_json::{Value, json};
use sqlx::Executor;
use test_postgres::Database;
use uuid::Uuid;

use crate::setup::{Setup, T0, member, pool, setup};

fn trail(n: u64, reason: Option<&str>) -> Trail {
    Trail {
        actor: "key:1".to_owned(),
        reason: reason.map(str::to_owned),
        request_id: None,
        now_ms: T0 + n,
    }
}

fn content(weights: &[(&str, u32)]) -> NewPool {
    let weight = |thousandths: u32| Weight::from_thousandths(thousandths).unwrap();
    let members = weights.iter();
    NewPool {
        name: "Sales".to_owned(),
        strategy: Strategy::WeightedRoundRobin,
        load_window_seconds: None,
        routing: Default::default(),
        offers: None,
        members: members
            .map(|(id, one)| (member(id), weight(*one)))
            .collect(),
        limits: Default::default(),
    }
}

fn put(back: RolledBack) -> Option<Put<ledger::Pool, ledger::PoolRefused>> {
    match back {
        RolledBack::Put(put) => Some(*put),
        _ => None,
    }
}

fn new_draft(weights: &[(&str, u32)]) -> NewDraft {
    NewDraft {
        pool: pool("p1"),
        base_version: None,
        content: content(weights),
        note: Some("more for b".to_owned()),
        author: "key:2".to_owned(),
    }
}

/// A pool of a and b, at version 1.
async fn with_pool() -> Setup {
    let setup = setup().await;
    for id in ["a", "b", "c"] {
        let new = NewMember {
            userid: id.to_owned(),
            ..NewMember::default()
        };
        let members = setup.ledger.members();
        members
            .put(
                &setup.corp,
                &member(id),
                &new,
                Precondition::None,
                &trail(0, None),
            )
            .await
            .unwrap();
    }
    setup.put(1, &[("a", 1000), ("b", 1000)]).await;
    setup
}

impl Setup {
    async fn put(&self, n: u64, weights: &[(&str, u32)]) -> Pool {
        let pools = self.ledger.pools();
        let new = content(weights);
        let why = format!("change {n}");
        let put = pools
            .put(
                &self.corp,
                &pool("p1"),
                &new,
                Precondition::None,
                &trail(n, Some(&why)),
            )
            .await
            .unwrap();
        match put {
            Put::Created(pool) | Put::Changed(pool) => pool,
            other => panic!("{other:?}"),
        }
    }

    async fn draft(&self, new: &NewDraft) -> Draft {
        let drafts = self.ledger.drafts();
        let put = drafts
            .put(
                &self.corp,
                Uuid::now_v7(),
                new,
                Precondition::Absent,
                &trail(5, None),
            )
            .await
            .unwrap();
        match put {
            Put::Created(draft) => draft,
            other => panic!("{other:?}"),
        }
    }

    async fn publish(&self, draft: &Draft, overwrite: bool) -> Publication {
        let drafts = self.ledger.drafts();
        let precondition = Precondition::Version(draft.version);
        drafts
            .publish(
                &self.corp,
                draft.id,
                precondition,
                overwrite,
                &trail(9, None),
            )
            .await
            .unwrap()
    }

    async fn versions(&self) -> Vec<(u64, bool, Option<String>)> {
        let page = PageRequest::default();
        let published = self.ledger.pools();
        let published = published.published(&self.corp, &pool("p1"), &page).await;
        let items = published.unwrap().items.into_iter();
        items
            .map(|one| (one.version, one.deleted, one.note))
            .collect()
    }

    async fn delete(&self, n: u64) {
        let pools = self.ledger.pools();
        let deleted = pools
            .delete(
                &self.corp,
                &pool("p1"),
                Precondition::None,
                &trail(n, Some("closed")),
            )
            .await
            .unwrap();
        assert!(matches!(deleted, Deleted::Deleted(_)));
    }

    async fn now(&self) -> Option<Pool> {
        let pools = self.ledger.pools();
        pools.get(&self.corp, &pool("p1")).await.unwrap()
    }
}

#[tokio::test]
async fn every_version_is_kept_with_what_it_was() {
    let setup = with_pool().await;
    let mut changed = content(&[("a", 500), ("c", 2000)]);
    let limits = Limits {
        at_a_time: Some(3),
        ..Limits::NONE
    };
    changed.limits.insert(member("a"), limits);
    changed.load_window_seconds = Some(60);
    let pools = setup.ledger.pools();
    let id = pool("p1");
    for why in ["summer", "the same again"] {
        pools
            .put(
                &setup.corp,
                &id,
                &changed,
                Precondition::None,
                &trail(2, Some(why)),
            )
            .await
            .unwrap();
    }
    setup.delete(3).await;
    setup.put(4, &[("b", 1000)]).await;
    let note = |text: &str| Some(text.to_owned());
    let expected = [
        (4, false, note("change 4")),
        (3, true, note("closed")),
        (2, false, note("summer")),
        (1, false, note("change 1")),
    ];
    assert_eq!(setup.versions().await, expected);
    let (published, then) = pools.version(&setup.corp, &id, 2).await.unwrap().unwrap();
    assert_eq!(published.actor.as_deref(), Some("key:1"));
    assert_eq!(published.published_ms, T0 + 2);
    assert_eq!(then, Some(changed));
    let (_, deleted) = pools.version(&setup.corp, &id, 3).await.unwrap().unwrap();
    assert_eq!(deleted, None);
    assert_eq!(pools.version(&setup.corp, &id, 5).await.unwrap(), None);

    // In pages, both ways.
    let page = |cursor: Option<String>| PageRequest { limit: 3, cursor };
    let first = pools
        .published(&setup.corp, &id, &page(None))
        .await
        .unwrap();
    let second = page(first.next.clone());
    let second = pools.published(&setup.corp, &id, &second).await.unwrap();
    assert_eq!(second.items.len(), 1);
    let back = pools
        .published(&setup.corp, &id, &page(second.previous))
        .await
        .unwrap();
    assert_eq!(back.items, first.items);
}

#[tokio::test]
async fn a_version_is_put_again_as_a_new_one() {
    let setup = with_pool().await;
    setup.put(2, &[("c", 1000)]).await;
    let pools = setup.ledger.pools();
    let (corp, id) = (&setup.corp, pool("p1"));
    let back = |version, precondition| {
        let pools = pools.clone();
        let id = id.clone();
        async move {
            pools
                .roll_back(corp, &id, version, precondition, &trail(3, None))
                .await
                .unwrap()
        }
    };
    let stale = back(1, Precondition::Version(1)).await;
    assert!(matches!(put(stale), Some(Put::Stale(Some(_)))));
    let Some(Put::Changed(now)) = put(back(1, Precondition::Version(2)).await) else {
        panic!("it was not put");
    };
    assert_eq!((now.version, now.members.len()), (3, 2));
    let note = setup.versions().await[0].2.clone();
    assert_eq!(note.as_deref(), Some("rollback to version 1"));
    assert!(matches!(
        put(back(3, Precondition::None).await),
        Some(Put::Same(_))
    ));
    assert_eq!(back(7, Precondition::None).await, RolledBack::NoVersion);
    setup.delete(4).await;
    assert_eq!(back(4, Precondition::None).await, RolledBack::Deleted);
    let Some(Put::Created(now)) = put(back(2, Precondition::None).await) else {
        panic!("it did not come back");
    };
    assert_eq!((now.version, now.members[0].userid.as_str()), (5, "c"));
}

#[tokio::test]
async fn a_draft_changes_nothing_until_it_is_published() {
    let setup = with_pool().await;
    let before = setup.now().await.unwrap();
    let draft = setup.draft(&new_draft(&[("a", 1000), ("b", 2000)])).await;
    assert_eq!((draft.base_version, draft.version), (1, 1));
    assert_eq!(draft.author, "key:2");
    let drafts = setup.ledger.drafts();
    let other = new_draft(&[("b", 3000)]);
    let put = async |precondition| {
        let trail = trail(6, None);
        let put = drafts.put(&setup.corp, draft.id, &other, precondition, &trail);
        put.await.unwrap()
    };
    assert!(matches!(
        put(Precondition::Version(2)).await,
        Put::Stale(Some(_))
    ));
    let Put::Changed(draft) = put(Precondition::Version(1)).await else {
        panic!("it was not changed");
    };
    assert_eq!((draft.version, draft.base_version), (2, 1));
    assert_eq!(draft.author, "key:2", "whoever made it");
    assert_eq!(setup.now().await.unwrap(), before);
    assert_eq!(
        drafts.get(&setup.corp, draft.id).await.unwrap(),
        Some(draft.clone())
    );

    let Publication::Published(now) = setup.publish(&draft, false).await else {
        panic!("it was not published");
    };
    assert_eq!((now.version, now.members.len()), (2, 1));
    assert_eq!(setup.versions().await[0].2.as_deref(), Some("more for b"));
    assert_eq!(drafts.get(&setup.corp, draft.id).await.unwrap(), None);
    assert_eq!(setup.publish(&draft, false).await, Publication::NoDraft);
    let mut connection = setup.database.connect().await;
    let actions: Vec<String> = sqlx::query_scalar("SELECT action FROM audit ORDER BY id")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    assert!(actions.ends_with(&["pool.put".to_owned(), "draft.publish".to_owned()]));
}

#[tokio::test]
async fn what_was_changed_meanwhile_is_not_overwritten_unasked() {
    let setup = with_pool().await;
    let draft = setup.draft(&new_draft(&[("b", 3000)])).await;
    setup.put(6, &[("c", 1000)]).await;
    assert_eq!(
        setup.publish(&draft, false).await,
        Publication::BaseMoved(2)
    );
    let stale = Draft {
        version: 7,
        ..draft.clone()
    };
    assert!(matches!(
        setup.publish(&stale, true).await,
        Publication::Stale(_)
    ));
    assert_eq!(setup.now().await.unwrap().version, 2);
    let published = setup.publish(&draft, true).await;
    assert!(matches!(published, Publication::Published(pool) if pool.version == 3));

    let draft = setup.draft(&new_draft(&[("a", 1000)])).await;
    assert_eq!(draft.base_version, 3);
    setup.delete(7).await;
    for overwrite in [false, true] {
        assert_eq!(
            setup.publish(&draft, overwrite).await,
            Publication::NoPool,
            "{overwrite}"
        );
    }
    assert_eq!(setup.now().await, None);
}

#[tokio::test]
async fn a_draft_with_unknown_members_is_kept_and_not_published() {
    let setup = with_pool().await;
    let draft = setup.draft(&new_draft(&[("a", 1000), ("z", 1000)])).await;
    assert!(matches!(
        setup.publish(&draft, true).await,
        Publication::Refused(_)
    ));
    assert_eq!(setup.now().await.unwrap().version, 1);
    let kept = setup.ledger.drafts().get(&setup.corp, draft.id).await;
    assert_eq!(kept.unwrap(), Some(draft));
}

#[tokio::test]
async fn a_draft_is_of_a_pool_and_of_a_version_that_it_had() {
    let setup = with_pool().await;
    let drafts = setup.ledger.drafts();
    let refused = async |new: &NewDraft| {
        let put = drafts
            .put(
                &setup.corp,
                Uuid::now_v7(),
                new,
                Precondition::Absent,
                &trail(5, None),
            )
            .await
            .unwrap();
        match put {
            Put::Refused(why) => why,
            other => panic!("{other:?}"),
        }
    };
    let mut new = new_draft(&[]);
    new.base_version = Some(2);
    assert_eq!(refused(&new).await, DraftRefused::NoVersion);
    new.pool = pool("p2");
    assert_eq!(refused(&new).await, DraftRefused::NoPool);
    let of_first = NewDraft {
        base_version: Some(1),
        ..new_draft(&[])
    };
    setup.put(2, &[("c", 1000)]).await;
    assert_eq!(setup.draft(&of_first).await.base_version, 1);
    for _ in 1..ledger::MOST_DRAFTS {
        setup.draft(&new_draft(&[])).await;
    }
    assert_eq!(refused(&new_draft(&[])).await, DraftRefused::TooMany);
    let page = PageRequest {
        limit: 60,
        cursor: None,
    };
    let first = drafts.list(&setup.corp, &pool("p1"), &page).await.unwrap();
    let page = PageRequest {
        cursor: first.next.clone(),
        ..page
    };
    let second = drafts.list(&setup.corp, &pool("p1"), &page).await.unwrap();
    assert_eq!((first.items.len(), second.items.len()), (60, 40));
    let one = &second.items[0];
    let delete = async |precondition| {
        let trail = trail(8, None);
        let deleted = drafts.delete(&setup.corp, one.id, precondition, &trail);
        deleted.await.unwrap()
    };
    assert!(matches!(
        delete(Precondition::Version(4)).await,
        Deleted::Stale(_)
    ));
    assert!(matches!(
        delete(Precondition::Version(1)).await,
        Deleted::Deleted(_)
    ));
    assert_eq!(delete(Precondition::None).await, Deleted::Absent);
}

/// Case 126: of many who publish at once each draft is published once, and nobody overwrites what he did not see.
#[tokio::test]
async fn one_of_many_publishers_is_first() {
    let setup = with_pool().await;
    let mut drafts = Vec::new();
    for thousandths in 1..=4 {
        drafts.push(setup.draft(&new_draft(&[("b", thousandths * 1000)])).await);
    }
    let all = drafts.iter().chain(&drafts);
    let ends = join_all(all.map(|draft| setup.publish(draft, false))).await;
    let is_done = |end: &&Publication| matches!(end, Publication::Published(_));
    assert_eq!(ends.iter().filter(is_done).count(), 1);
    let others = ends.iter().filter(|end| !is_done(end));
    for end in others {
        assert!(
            matches!(end, Publication::NoDraft | Publication::BaseMoved(2)),
            "{end:?}"
        );
    }
    assert_eq!(setup.now().await.unwrap().version, 2);
    assert_eq!(setup.versions().await.len(), 2);
}

#[tokio::test]
async fn pools_from_before_have_their_present_version() {
    let database = Database::empty().await;
    let mut connection = database.connect().await;
    let is_before = |migration: &&Migration| migration.name < "0013";
    for migration in MIGRATIONS.iter().filter(is_before) {
        connection.execute(migration.sql).await.unwrap();
    }
    let rows = "INSERT INTO corps (corp_id) VALUES ('c');
        INSERT INTO members (corp_id, member, userid, spelled_by, created_at, updated_at)
            VALUES ('c', 'b', 'B', 'console', now(), now()), ('c', 'a', 'A', 'console', now(), now());
        INSERT INTO pools (corp_id, pool_id, name, strategy, load_window_seconds, version, created_at, updated_at, deleted_at,
                offer_accept_seconds, offer_tries)
            VALUES ('c', 'p', 'P', 'least_load', 60, 7, now(), now(), NULL, 30, 2),
                ('c', 'gone', 'G', 'least_load', NULL, 3, now(), now(), now(), NULL, NULL),
                ('c', 'empty', 'E', 'least_load', NULL, 1, now(), now(), NULL, NULL, NULL);
        INSERT INTO pool_members (corp_id, pool_id, member, weight, per_day)
            VALUES ('c', 'p', 'b', 1.5, 4), ('c', 'p', 'a', 1, NULL);";
    connection.execute(rows).await.unwrap();
    for migration in MIGRATIONS.iter().filter(|one| !is_before(one)) {
        connection.execute(migration.sql).await.unwrap();
    }
    let found: Vec<(String, i64, Option<Value>)> =
        sqlx::query_as("SELECT pool_id, version, content FROM pool_versions ORDER BY pool_id")
            .fetch_all(&mut connection)
            .await
            .unwrap();
    let of = |members: Value, name: &str, window: Value, offers: Value| {
        Some(json!({"format": 1, "name": name, "strategy": "least_load",
            "load_window_seconds": window, "offers": offers, "members": members}))
    };
    let none = Value::Null;
    let offers = json!({"accept_seconds": 30, "tries": 2});
    let members = json!([
        {"member": "a", "weight": "1", "cap": none, "per_hour": none, "per_day": none},
        {"member": "b", "weight": "1.5", "cap": none, "per_hour": none, "per_day": 4},
    ]);
    let expected = [
        (
            "empty".to_owned(),
            1,
            of(json!([]), "E", none.clone(), none.clone()),
        ),
        ("gone".to_owned(), 3, None),
        ("p".to_owned(), 7, of(members, "P", json!(60), offers)),
    ];
    assert_eq!(found, expected);
    // It is what the program reads.
    let ledger = ledger::Ledger::connect(crate::setup::config(&database.url()))
        .await
        .unwrap();
    let corp = allocation::CorpId::new("c").unwrap();
    let pools = ledger.pools();
    let (_, content) = pools.version(&corp, &pool("p"), 7).await.unwrap().unwrap();
    let pool = pools.get(&corp, &pool("p")).await.unwrap().unwrap();
    assert_eq!(content, Some(pool.content()));
    let id: MemberId = member("b");
    assert_eq!(pool.content().limits[&id].per_day, Some(4));
}

#[tokio::test]
async fn one_simulation_runs_at_a_time_and_others_do_not_wait_for_it() {
    let setup = setup().await;
    let operations = setup.ledger.operations();
    let corp = &setup.corp;
    let begin = async || {
        let trail = trail(0, None);
        let begun = operations.create_simulation(corp, 9, &Value::Null, &trail);
        begun.await.unwrap()
    };
    let first = begin().await.unwrap();
    assert_eq!(begin().await, None);
    let trail = trail(1, None);
    let other = operations.create(corp, "deliveries.replay", 1, &Value::Null, &trail);
    let other = other.await.unwrap();
    let (claimed, _) = operations.claim(corp, 1000, T0).await.unwrap().unwrap();
    assert_eq!(claimed.id, other.id);
    assert!(operations.claim(corp, 1000, T0).await.unwrap().is_none());
    let (claimed, claim) = operations
        .claim_simulation(corp, 1000, T0)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(claimed.id, first.id);
    let found = json!({"differences": 0});
    let done = OperationState::Done;
    assert!(
        operations
            .end_with(first.id, claim, done, Some(&found), T0 + 5)
            .await
            .unwrap()
    );
    let ended = operations.get(corp, first.id).await.unwrap().unwrap();
    assert_eq!((ended.state, ended.result), (done, Some(found)));
    assert!(begin().await.is_some());
}
