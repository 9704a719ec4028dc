//! Group pools, groups and campaigns as operators put them, and groups as WeCom says they are.

use allocation::{CampaignId, ChatId, FillStrategy, GroupPoolId};
use ledger::{
    Campaign, Deleted, Fission, Goal, Group, GroupCaps, GroupFilter, GroupPool, GroupPoolUsers,
    GroupRead, GroupRefused, GroupSource, GroupState, Imported, NewCampaign, NewGroup,
    NewGroupPool, NewImport, NoGroupPool, OwnCaps, PageRequest, Precondition, Put, Supply,
    SupplySource, Trail, WaysOf,
};

use crate::setup::{Setup, T0, member, setup};

pub(crate) const CAPS: GroupCaps = GroupCaps {
    scan_cap: 200,
    hard_cap: 500,
    buffer: 5,
};

fn trail() -> Trail {
    Trail::system(T0, "test")
}

pub(crate) fn pool(name: &str) -> GroupPoolId {
    GroupPoolId::new(name).unwrap()
}

pub(crate) fn chat(name: &str) -> ChatId {
    ChatId::new(name).unwrap()
}

pub(crate) fn new_pool(caps: GroupCaps) -> NewGroupPool {
    NewGroupPool {
        name: "a pool".into(),
        strategy: FillStrategy::FillFirst,
        caps,
        any_group: true,
        supply: Supply::default(),
    }
}

pub(crate) fn new_group(in_pool: Option<&str>, caps: OwnCaps) -> NewGroup {
    NewGroup {
        pool: in_pool.map(pool),
        rank: 0,
        caps,
        tags: Vec::new(),
        state: GroupState::Open,
    }
}

pub(crate) fn new_campaign(of: &str) -> NewCampaign {
    NewCampaign {
        name: "a campaign".into(),
        pool: pool(of),
        hold_seconds: 600,
        title: String::new(),
        open: true,
        starts_ms: None,
        ends_ms: None,
        ways: WaysOf::Campaign,
        groups_per_way: 1,
        fission: None,
    }
}

pub(crate) fn read(name: &str, people: u32, at_ms: u64) -> GroupRead {
    GroupRead {
        chat: chat(name),
        name: format!("group {name}"),
        owner: "ZhangSan".into(),
        member_count: people,
        member_version: Some(format!("v{people}")),
        read_ms: at_ms,
    }
}

pub(crate) fn as_spare(in_pool: Option<&str>) -> NewImport {
    NewImport {
        pool: in_pool.map(pool),
        state: GroupState::Spare,
        tags: vec!["北京".parse().unwrap()],
    }
}

impl Setup {
    pub(crate) async fn put_pool(
        &self,
        id: &str,
        new: &NewGroupPool,
    ) -> Put<GroupPool, Vec<ChatId>> {
        let (table, id, trail) = (self.ledger.group_pools(), pool(id), trail());
        let put = table.put(&self.corp, &id, new, Precondition::None, &trail);
        put.await.unwrap()
    }

    pub(crate) async fn delete_pool(&self, id: &str) -> Deleted<GroupPool, GroupPoolUsers> {
        let (table, id, trail) = (self.ledger.group_pools(), pool(id), trail());
        let deleted = table.delete(&self.corp, &id, Precondition::None, &trail);
        deleted.await.unwrap()
    }

    pub(crate) async fn put_group(&self, id: &str, new: &NewGroup) -> Put<Group, GroupRefused> {
        let (table, id, trail) = (self.ledger.groups(), chat(id), trail());
        let put = table.put(&self.corp, &id, new, Precondition::None, &trail);
        put.await.unwrap()
    }

    pub(crate) async fn group(&self, id: &str) -> Option<Group> {
        let groups = self.ledger.groups();
        groups.get(&self.corp, &chat(id)).await.unwrap()
    }

    pub(crate) async fn put_campaign(
        &self,
        id: &str,
        new: &NewCampaign,
    ) -> Put<Campaign, NoGroupPool> {
        let (table, trail) = (self.ledger.campaigns(), trail());
        let id = CampaignId::new(id).unwrap();
        let put = table.put(&self.corp, &id, new, Precondition::None, &trail);
        put.await.unwrap()
    }

    pub(crate) async fn import(&self, reads: &[GroupRead], new: &NewImport) -> Imported {
        let (groups, trail) = (self.ledger.groups(), trail());
        let imported = groups.import(&self.corp, reads, new, &trail);
        imported.await.unwrap()
    }

    pub(crate) async fn refresh(&self, reads: &[GroupRead]) -> u64 {
        let groups = self.ledger.groups();
        groups.refresh(&self.corp, reads).await.unwrap()
    }

    pub(crate) async fn delete_group(&self, id: &str) {
        let (groups, id, trail) = (self.ledger.groups(), chat(id), trail());
        let deleted = groups.delete(&self.corp, &id, Precondition::None, &trail);
        assert!(matches!(deleted.await.unwrap(), Deleted::Deleted(_)));
    }

    pub(crate) async fn delete_campaign(&self, id: &CampaignId) {
        let (campaigns, trail) = (self.ledger.campaigns(), trail());
        let deleted = campaigns.delete(&self.corp, id, Precondition::None, &trail);
        assert!(matches!(deleted.await.unwrap(), Deleted::Deleted(_)));
    }

    pub(crate) async fn dismiss(&self, id: &str) -> bool {
        let (groups, id, trail) = (self.ledger.groups(), chat(id), trail());
        groups.dismissed(&self.corp, &id, &trail).await.unwrap()
    }

    /// WeCom told of this one.
    pub(crate) async fn heard(&self, id: &str) -> bool {
        let (groups, read, trail) = (self.ledger.groups(), read(id, 3, T0), trail());
        groups.found(&self.corp, &read, &trail).await.unwrap()
    }

    pub(crate) async fn mark(&self) -> String {
        self.ledger.configuration_mark(&self.corp).await.unwrap()
    }
}

pub(crate) fn created<T: std::fmt::Debug, R: std::fmt::Debug>(put: Put<T, R>) -> T {
    match put {
        Put::Created(row) => row,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn changed<T: std::fmt::Debug, R: std::fmt::Debug>(put: Put<T, R>) -> T {
    match put {
        Put::Changed(row) => row,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_group_pool_is_as_it_was_put_and_its_version_goes_on() {
    let setup = setup().await;
    let whole = NewGroupPool {
        name: "城市 Cities".into(),
        strategy: FillStrategy::LeastFilled,
        caps: GroupCaps {
            scan_cap: 100,
            hard_cap: 300,
            buffer: 0,
        },
        any_group: false,
        supply: Supply {
            min_free: 80,
            ahead_seconds: 600,
            sources: vec![SupplySource::Person, SupplySource::Spare],
            keeper: Some(member("lisi")),
            deadline_seconds: 60,
        },
    };
    let made = created(setup.put_pool("cities", &whole).await);
    let kept = NewGroupPool {
        name: made.name.clone(),
        strategy: made.strategy,
        caps: made.caps,
        any_group: made.any_group,
        supply: made.supply.clone(),
    };
    assert_eq!((kept, made.version), (whole.clone(), 1));
    let again = setup.put_pool("cities", &whole).await;
    assert!(matches!(again, Put::Same(_)));
    let table = setup.ledger.group_pools();
    let found = table.get(&setup.corp, &pool("cities")).await.unwrap();
    assert_eq!(found.as_ref(), Some(&made));
    assert_eq!(table.all(&setup.corp).await.unwrap(), [made]);

    assert!(matches!(
        setup.delete_pool("cities").await,
        Deleted::Deleted(_)
    ));
    let gone = table.versions(&setup.corp).await.unwrap();
    assert_eq!((gone[0].version, gone[0].deleted), (2, true));
    assert!(
        table
            .get(&setup.corp, &pool("cities"))
            .await
            .unwrap()
            .is_none()
    );
    let back = created(setup.put_pool("cities", &new_pool(CAPS)).await);
    assert_eq!((back.version, back.supply), (3, Supply::default()));
    let audited = "SELECT count(*) FROM audit WHERE entity = 'group_pools/cities'";
    assert_eq!(setup.number(audited).await, 3);
}

#[tokio::test]
async fn groups_have_a_pool_that_is_there_and_caps_that_go_with_it() {
    let setup = setup().await;
    let refused = setup
        .put_group("wr1", &new_group(Some("p1"), OwnCaps::default()))
        .await;
    assert!(matches!(refused, Put::Refused(GroupRefused::NoPool)));
    setup.put_pool("p1", &new_pool(CAPS)).await;
    let scan = |scan_cap| OwnCaps {
        scan_cap: Some(scan_cap),
        ..OwnCaps::default()
    };
    for (own, scan_cap) in [(scan(501), 501), (scan(5), 5)] {
        let refused = setup.put_group("wr1", &new_group(Some("p1"), own)).await;
        let caps = GroupCaps { scan_cap, ..CAPS };
        assert!(matches!(refused, Put::Refused(GroupRefused::Caps(found)) if found == caps));
    }
    let made = created(
        setup
            .put_group("wr1", &new_group(Some("p1"), scan(100)))
            .await,
    );
    let caps = GroupCaps {
        scan_cap: 100,
        ..CAPS
    };
    assert_eq!(
        (made.caps, made.own_caps, made.source),
        (Some(caps), scan(100), GroupSource::Console)
    );
    assert!(made.said.is_none() && made.problem.is_none());
    // A group in no pool has nobody's caps, and its own are nobody's business yet.
    let alone = created(setup.put_group("wr2", &new_group(None, scan(501))).await);
    assert_eq!((alone.pool, alone.caps), (None, None));

    // The pool's numbers must go with those of its groups, too.
    let low = GroupCaps {
        scan_cap: 50,
        hard_cap: 90,
        buffer: 5,
    };
    let refused = setup.put_pool("p1", &new_pool(low)).await;
    assert!(matches!(refused, Put::Refused(groups) if groups == [chat("wr1")]));
    assert!(setup.dismiss("wr1").await);
    changed(setup.put_pool("p1", &new_pool(low)).await);
}

/// Redis is told by versions: a group that has its pool's numbers is another group when they change.
#[tokio::test]
async fn a_pools_new_caps_are_new_versions_of_its_groups() {
    let setup = setup().await;
    setup.put_pool("p1", &new_pool(CAPS)).await;
    setup.put_pool("p2", &new_pool(CAPS)).await;
    let own = |scan_cap, hard_cap, buffer| OwnCaps {
        scan_cap,
        hard_cap,
        buffer,
    };
    for (id, of, caps) in [
        ("wr1", "p1", OwnCaps::default()),
        ("wr2", "p1", own(Some(100), None, None)),
        ("wr3", "p1", own(Some(100), Some(500), Some(5))),
        ("wr4", "p2", OwnCaps::default()),
    ] {
        setup.put_group(id, &new_group(Some(of), caps)).await;
    }
    let versions = async || {
        let groups = setup.ledger.groups();
        let versions = groups.versions(&setup.corp).await.unwrap();
        let versions = versions.into_iter().map(|group| group.version);
        versions.collect::<Vec<_>>()
    };
    let mut named = new_pool(CAPS);
    named.name = "another name".into();
    changed(setup.put_pool("p1", &named).await);
    assert_eq!(versions().await, [1, 1, 1, 1]);
    let scan = GroupCaps {
        scan_cap: 180,
        ..CAPS
    };
    changed(setup.put_pool("p1", &new_pool(scan)).await);
    assert_eq!(versions().await, [2, 1, 1, 1]);
    let buffer = GroupCaps { buffer: 9, ..scan };
    changed(setup.put_pool("p1", &new_pool(buffer)).await);
    assert_eq!(versions().await, [3, 2, 1, 1]);
    assert_eq!(setup.group("wr1").await.unwrap().caps, Some(buffer));
}

#[tokio::test]
async fn a_group_pool_in_use_stays_and_says_by_whom() {
    let setup = setup().await;
    setup.put_pool("p1", &new_pool(CAPS)).await;
    for id in ["spring", "autumn"] {
        created(setup.put_campaign(id, &new_campaign("p1")).await);
    }
    for n in 0..25 {
        let id = format!("wr{n:02}");
        setup
            .put_group(&id, &new_group(Some("p1"), OwnCaps::default()))
            .await;
    }
    let Deleted::Refused(users) = setup.delete_pool("p1").await else {
        panic!("it is in use");
    };
    let names: Vec<&str> = users.campaigns.iter().map(CampaignId::as_str).collect();
    assert_eq!(names, ["autumn", "spring"]);
    assert_eq!((users.groups.len(), users.n_groups), (20, 25));
    assert_eq!(users.groups[0], chat("wr00"));

    for id in users.campaigns {
        setup.delete_campaign(&id).await;
    }
    for n in 0..24 {
        setup.delete_group(&format!("wr{n:02}")).await;
    }
    let last = GroupPoolUsers {
        groups: vec![chat("wr24")],
        n_groups: 1,
        ..GroupPoolUsers::default()
    };
    assert!(matches!(setup.delete_pool("p1").await, Deleted::Refused(users) if users == last));
    // What is no more at WeCom holds nobody up, and is in no pool then.
    assert!(setup.dismiss("wr24").await);
    assert!(matches!(setup.delete_pool("p1").await, Deleted::Deleted(_)));
    let left = setup.group("wr24").await.unwrap();
    assert_eq!(
        (left.pool, left.state, left.version),
        (None, GroupState::Dismissed, 3)
    );
}

#[tokio::test]
async fn groups_are_listed_by_pool_and_state() {
    let setup = setup().await;
    setup.put_pool("p1", &new_pool(CAPS)).await;
    for (id, rank, state, in_pool) in [
        ("wr1", 2, GroupState::Open, Some("p1")),
        ("wr2", 1, GroupState::Spare, Some("p1")),
        ("wr3", 1, GroupState::Open, Some("p1")),
        ("wr4", 0, GroupState::Closed, None),
    ] {
        let new = NewGroup {
            rank,
            state,
            ..new_group(in_pool, OwnCaps::default())
        };
        created(setup.put_group(id, &new).await);
    }
    let groups = setup.ledger.groups();
    let listed = async |of: Option<&str>, state| {
        let filter = GroupFilter {
            pool: of.map(pool),
            state,
        };
        let (mut ids, mut request) = (Vec::new(), PageRequest::default());
        request.limit = 2;
        loop {
            let page = groups.list(&setup.corp, &filter, &request).await.unwrap();
            ids.extend(page.items.into_iter().map(|group| String::from(group.id)));
            match page.next {
                Some(next) => request.cursor = Some(next),
                None => return ids,
            }
        }
    };
    assert_eq!(listed(None, None).await, ["wr4", "wr3", "wr2", "wr1"]);
    assert_eq!(listed(Some("p1"), None).await, ["wr3", "wr2", "wr1"]);
    let open = Some(GroupState::Open);
    assert_eq!(listed(Some("p1"), open).await, ["wr3", "wr1"]);
    assert_eq!(listed(None, Some(GroupState::Closed)).await, ["wr4"]);
    let ordered = groups.of_pool(&setup.corp, &pool("p1")).await.unwrap();
    let ordered: Vec<&str> = ordered.iter().map(|group| group.id.as_str()).collect();
    assert_eq!(ordered, ["wr2", "wr3", "wr1"]);
}

#[tokio::test]
async fn a_campaign_has_a_pool_and_keeps_its_code() {
    let setup = setup().await;
    let refused = setup.put_campaign("spring", &new_campaign("p1")).await;
    assert!(matches!(refused, Put::Refused(NoGroupPool)));
    setup.put_pool("p1", &new_pool(CAPS)).await;
    let whole = NewCampaign {
        hold_seconds: 30,
        title: "春 Spring".into(),
        open: false,
        starts_ms: Some(T0),
        ends_ms: Some(T0 + 1),
        ways: WaysOf::Inviter,
        groups_per_way: 5,
        fission: Some(Fission {
            stay_seconds: 60,
            goals: vec![Goal {
                count: 3,
                name: "三人".into(),
                message: None,
                tag: None,
                event: true,
            }],
            ..Fission::default()
        }),
        ..new_campaign("p1")
    };
    let made = created(setup.put_campaign("spring", &whole).await);
    assert_eq!((&made.content, made.version), (&whole, 1));
    assert_eq!(made.public_code.len(), 22);
    assert!(matches!(
        setup.put_campaign("spring", &whole).await,
        Put::Same(_)
    ));
    let plain = changed(setup.put_campaign("spring", &new_campaign("p1")).await);
    assert_eq!(
        (plain.public_code.as_str(), plain.content.starts_ms),
        (made.public_code.as_str(), None)
    );
    let campaigns = setup.ledger.campaigns();
    assert_eq!(
        campaigns.get(&setup.corp, &made.id).await.unwrap().as_ref(),
        Some(&plain)
    );
    setup.delete_campaign(&made.id).await;
    assert!(campaigns.all(&setup.corp).await.unwrap().is_empty());
    let back = created(setup.put_campaign("spring", &whole).await);
    assert_eq!((back.public_code, back.version), (made.public_code, 4));
    let other = created(setup.put_campaign("autumn", &whole).await);
    assert_ne!(other.public_code, plain.public_code);
}

/// Whoever keeps configuration in memory compares this: it rises with every change of one of them.
#[tokio::test]
async fn the_mark_covers_group_pools_groups_and_campaigns() {
    let setup = setup().await;
    let mut marks = vec![setup.mark().await];
    setup.put_pool("p1", &new_pool(CAPS)).await;
    marks.push(setup.mark().await);
    setup
        .put_group("wr1", &new_group(Some("p1"), OwnCaps::default()))
        .await;
    marks.push(setup.mark().await);
    setup.put_campaign("c1", &new_campaign("p1")).await;
    marks.push(setup.mark().await);
    assert!(setup.dismiss("wr1").await);
    marks.push(setup.mark().await);
    let distinct: std::collections::BTreeSet<&String> = marks.iter().collect();
    assert_eq!(distinct.len(), marks.len(), "{marks:?}");
}
