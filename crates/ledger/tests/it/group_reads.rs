//! Groups as WeCom says they are: imports, reads, and those that are no more.

use allocation::MAX_GROUPS;
use ledger::{
    GroupProblem, GroupRead, GroupRefused, GroupSource, GroupState, Imported, NewGroup, OwnCaps,
    Put,
};

use crate::groups::{
    CAPS, as_spare, changed, chat, created, new_campaign, new_group, new_pool, pool, read,
};
use crate::setup::{T0, setup};

fn written(placed: &[&str], elsewhere: &[&str]) -> Imported {
    let chats = |ids: &[&str]| ids.iter().map(|id| chat(id)).collect();
    Imported::Written {
        placed: chats(placed),
        elsewhere: chats(elsewhere),
    }
}

/// Groups are put into a pool and imported into it while it is deleted: none is left in one that is gone.
#[tokio::test]
async fn a_pool_is_deleted_while_groups_come_into_it() {
    let setup = setup().await;
    for round in 0..8 {
        setup.put_pool("p1", &new_pool(CAPS)).await;
        let (one, two) = (format!("wrA{round}"), format!("wrB{round}"));
        let group = new_group(Some("p1"), OwnCaps::default());
        let (reads, new) = ([read(&two, 3, T0)], as_spare(Some("p1")));
        let campaign = new_campaign("p1");
        tokio::join!(
            setup.put_group(&one, &group),
            setup.import(&reads, &new),
            setup.put_campaign("c1", &campaign),
            setup.delete_pool("p1"),
        );
        let dangling = "SELECT (SELECT count(*) FROM groups AS g
                JOIN group_pools AS p ON p.group_pool_id = g.group_pool_id AND p.deleted_at IS NOT NULL)
            + (SELECT count(*) FROM campaigns AS c
                JOIN group_pools AS p ON p.group_pool_id = c.group_pool_id AND p.deleted_at IS NOT NULL
                WHERE c.deleted_at IS NULL)";
        assert_eq!(setup.number(dangling).await, 0, "round {round}");
    }
}

#[tokio::test]
async fn an_import_makes_new_groups_and_refreshes_known_ones() {
    let setup = setup().await;
    setup.put_pool("p1", &new_pool(CAPS)).await;
    created(
        setup
            .put_group("wr1", &new_group(None, OwnCaps::default()))
            .await,
    );
    let mark = setup.mark().await;
    let reads = [read("wr2", 7, T0 + 5), read("wr1", 3, T0 + 5)];
    let new = as_spare(Some("p1"));
    let imported = setup.import(&reads, &new).await;
    assert_eq!(imported, written(&["wr2"], &["wr1"]));
    assert_ne!(setup.mark().await, mark);

    let (known, fresh) = (setup.group("wr1").await, setup.group("wr2").await);
    let (known, fresh) = (known.unwrap(), fresh.unwrap());
    // What its operator said stands.
    assert_eq!(
        (known.pool, known.state, known.source, known.version),
        (None, GroupState::Open, GroupSource::Console, 1)
    );
    let said = known.said.unwrap();
    assert_eq!((said.member_count, said.name.as_str()), (3, "group wr1"));
    assert_eq!(
        (fresh.pool, fresh.state, fresh.source, fresh.version),
        (Some(pool("p1")), GroupState::Spare, GroupSource::Import, 1)
    );
    assert_eq!(fresh.tags, ["北京".parse().unwrap()]);
    let said = fresh.said.unwrap();
    assert_eq!(
        (
            said.owner.as_str(),
            said.member_version.as_deref(),
            said.read_ms
        ),
        ("ZhangSan", Some("v7"), T0 + 5)
    );

    // Again: only what WeCom says, in the order of time, and no new version.
    let mark = setup.mark().await;
    let later = [read("wr1", 4, T0 + 9), read("wr2", 2, T0 + 4)];
    let imported = setup.import(&later, &new).await;
    assert_eq!(imported, written(&[], &["wr1"]));
    let count = async |id: &str| setup.group(id).await.unwrap().said.unwrap().member_count;
    assert_eq!((count("wr1").await, count("wr2").await), (4, 7));
    assert_eq!(setup.mark().await, mark);
    let reads = [read("wr2", 8, T0 + 9), read("wr9", 1, T0 + 9)];
    assert_eq!(setup.refresh(&reads).await, 1);
    assert!(setup.group("wr9").await.is_none());

    // Whatever was deleted is new again.
    setup.delete_group("wr1").await;
    assert_eq!(setup.refresh(&[read("wr1", 9, T0 + 20)]).await, 0);
    let imported = setup.import(&[read("wr1", 5, T0 + 20)], &new).await;
    assert_eq!(imported, written(&["wr1"], &[]));
    let back = setup.group("wr1").await.unwrap();
    assert_eq!((back.pool, back.version), (Some(pool("p1")), 3));
    let audited = "SELECT count(*) FROM audit WHERE action = 'group.import'";
    assert_eq!(setup.number(audited).await, 2);
}

/// An event told of them, or an import without a pool: the next one that names a pool brings them in, once.
#[tokio::test]
async fn an_import_brings_in_what_nobody_has_said_anything_of() {
    let setup = setup().await;
    for id in ["p1", "p2"] {
        setup.put_pool(id, &new_pool(CAPS)).await;
    }
    for id in ["wrHeard", "wrTaken", "wrGone"] {
        assert!(setup.heard(id).await);
    }
    setup
        .import(&[read("wrListed", 3, T0)], &as_spare(None))
        .await;
    let group = |pool| new_group(pool, OwnCaps::default());
    // Put into a pool and taken out of it again: an operator's word.
    changed(setup.put_group("wrTaken", &group(Some("p1"))).await);
    changed(setup.put_group("wrTaken", &group(None)).await);
    assert!(setup.dismiss("wrGone").await);

    // Neither another event nor an import without a pool says anything of them.
    assert!(!setup.heard("wrHeard").await);
    let all = ["wrGone", "wrHeard", "wrListed", "wrTaken"].map(|id| read(id, 3, T0 + 5));
    let mark = setup.mark().await;
    assert_eq!(setup.import(&all, &as_spare(None)).await, written(&[], &[]));
    assert_eq!(setup.mark().await, mark);

    let mut open = as_spare(Some("p1"));
    open.state = GroupState::Open;
    let imported = setup.import(&all, &open).await;
    assert_eq!(
        imported,
        written(&["wrHeard", "wrListed"], &["wrGone", "wrTaken"])
    );
    assert_ne!(setup.mark().await, mark);
    let heard = setup.group("wrHeard").await.unwrap();
    assert_eq!(
        (heard.pool, heard.state, heard.source, heard.version),
        (Some(pool("p1")), GroupState::Open, GroupSource::Event, 2)
    );
    assert_eq!(heard.tags, open.tags);
    let taken = setup.group("wrTaken").await.unwrap();
    assert_eq!((taken.pool, taken.version), (None, 3));
    // Once they are in a pool, another import leaves them there.
    let imported = setup.import(&all[1..3], &as_spare(Some("p2"))).await;
    assert_eq!(imported, written(&[], &["wrHeard", "wrListed"]));
    let audited = "SELECT count(*) FROM audit WHERE action = 'group.import'";
    assert_eq!(setup.number(audited).await, 3);
}

#[tokio::test]
async fn two_imports_at_once_make_each_group_once() {
    let setup = setup().await;
    setup.put_pool("p1", &new_pool(CAPS)).await;
    let reads: Vec<GroupRead> = (0..50).map(|n| read(&format!("wr{n}"), n, T0)).collect();
    let mut backwards = reads.clone();
    backwards.reverse();
    let new = as_spare(None);
    let (one, two, three) = tokio::join!(
        setup.import(&reads, &new),
        setup.import(&backwards, &new),
        setup.import(&reads[10..20], &new),
    );
    let n_new = |imported: Imported| match imported {
        Imported::Written { placed, .. } => placed.len(),
        Imported::Refused(why) => panic!("{why:?}"),
    };
    assert_eq!(n_new(one) + n_new(two) + n_new(three), 50);
    assert_eq!(setup.number("SELECT count(*) FROM groups").await, 50);
    let audited = "SELECT count(*) FROM audit WHERE action = 'group.import'";
    assert_eq!(setup.number(audited).await, 50);
}

#[tokio::test]
async fn a_pool_takes_so_many_groups_and_no_more() {
    let setup = setup().await;
    setup.put_pool("p1", &new_pool(CAPS)).await;
    setup
        .run(
            "INSERT INTO groups (corp_id, chat_id, group_pool_id, state, source, created_at, updated_at)
             SELECT corp_id, 'wr' || n, 'p1', 'open', 'import', now(), now()
             FROM group_pools, generate_series(1, 9999) AS n",
        )
        .await;
    let full = GroupRefused::PoolFull(MAX_GROUPS);
    let new = as_spare(Some("p1"));
    let two = [read("wrX", 1, T0), read("wrY", 1, T0)];
    assert_eq!(
        setup.import(&two, &new).await,
        Imported::Refused(full.clone())
    );
    assert!(setup.group("wrX").await.is_none());
    let group = new_group(Some("p1"), OwnCaps::default());
    created(setup.put_group("wrX", &group).await);
    assert!(matches!(setup.put_group("wrY", &group).await, Put::Refused(why) if why == full));
    // What is in it can be changed and read all the same.
    let ranked = NewGroup { rank: 7, ..group };
    changed(setup.put_group("wrX", &ranked).await);
    let known = [read("wrX", 1, T0), read("wr1", 1, T0)];
    assert_eq!(setup.import(&known, &new).await, written(&[], &[]));
    let gone = new_pool(CAPS);
    setup.put_pool("p2", &gone).await;
    setup.delete_pool("p2").await;
    let refused = setup.import(&known, &as_spare(Some("p2"))).await;
    assert_eq!(refused, Imported::Refused(GroupRefused::NoPool));
}

#[tokio::test]
async fn a_group_that_is_no_more_stays_so() {
    let setup = setup().await;
    setup.put_pool("p1", &new_pool(CAPS)).await;
    let group = new_group(Some("p1"), OwnCaps::default());
    created(setup.put_group("wr1", &group).await);
    let groups = setup.ledger.groups();
    let problem = GroupProblem {
        errcode: Some(49008),
        error: "dissolved".into(),
    };
    groups
        .not_read(&setup.corp, &chat("wr1"), &problem)
        .await
        .unwrap();
    assert!(setup.dismiss("wr1").await);
    assert!(!setup.dismiss("wr1").await && !setup.dismiss("wr9").await);
    let gone = setup.group("wr1").await.unwrap();
    assert_eq!(
        (gone.state, gone.version, gone.problem),
        (GroupState::Dismissed, 2, Some(problem))
    );
    let versions = groups.versions(&setup.corp).await.unwrap();
    assert!(!versions[0].in_pool);
    let put = setup.put_group("wr1", &group).await;
    assert!(matches!(put, Put::Refused(GroupRefused::Dismissed)));
    // A read that was under way does not bring it back.
    let imported = setup
        .import(&[read("wr1", 3, T0)], &as_spare(Some("p1")))
        .await;
    assert_eq!(imported, written(&[], &[]));
    let read = setup.group("wr1").await.unwrap();
    assert_eq!((read.state, read.problem), (GroupState::Dismissed, None));
    // Forgotten, it can be made anew.
    setup.delete_group("wr1").await;
    let back = created(setup.put_group("wr1", &group).await);
    assert_eq!((back.state, back.version), (GroupState::Open, 4));
}
