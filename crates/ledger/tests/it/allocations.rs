//! Reading allocations: lists that stay stable, loads, what is to be driven to its end.

use std::collections::HashSet;

use allocation::{AllocationId, Reason, SubjectKey};
use ledger::{
    AllocationFilter, AllocationState, Change, Error, NewAllocation, PageRequest, SettledAs,
    TransferState, TransferStep,
};

use crate::setup::{
    Setup, T0, allocation, batch, decided, entry, id, member, pool, setup, subject, transfer,
};

fn closed(n: u64) -> Change {
    Change::Closed {
        allocation: allocation(n),
        reason: Reason::new("left").unwrap(),
    }
}

async fn all(setup: &Setup, filter: &AllocationFilter) -> Vec<AllocationId> {
    let page = PageRequest {
        limit: 500,
        cursor: None,
    };
    let page = setup
        .ledger
        .allocations()
        .list(&setup.corp, filter, &page)
        .await
        .unwrap();
    assert!(page.next.is_none());
    page.items.into_iter().map(|row| row.id).collect()
}

/// Case 127.
#[tokio::test]
async fn rows_of_one_instant_are_paged_without_loss_or_repetition() {
    let setup = setup().await;
    let changes = (1..=250)
        .map(|n| Change::Decided(decided(n, Some("mA"))))
        .collect();
    setup
        .write_batch(&batch(vec![entry(1, changes)]))
        .await
        .unwrap();
    let allocations = setup.ledger.allocations();
    let filter = AllocationFilter::default();
    let page = async |cursor| {
        allocations
            .list(&setup.corp, &filter, &PageRequest { limit: 20, cursor })
            .await
            .unwrap()
    };
    let mut pages = vec![page(None).await];
    while let Some(next) = pages.last().unwrap().next.clone() {
        pages.push(page(Some(next)).await);
    }
    let rows: Vec<_> = pages
        .iter()
        .flat_map(|page| &page.items)
        .map(|row| row.id)
        .collect();
    assert_eq!((pages.len(), rows.len()), (13, 250));
    assert_eq!(rows.iter().collect::<HashSet<_>>().len(), 250);
    // And back: the same pages.
    assert!(pages[0].previous.is_none());
    for pair in pages.windows(2).rev() {
        let back = page(pair[1].previous.clone()).await;
        assert_eq!(back.items, pair[0].items);
        assert_eq!(back.previous.is_none(), pair[0].previous.is_none());
        assert!(back.next.is_some());
    }
}

#[tokio::test]
async fn cursors_of_other_lists_are_refused() {
    let setup = setup().await;
    for cursor in ["", "x", "31", &"00".repeat(40)] {
        let page = PageRequest {
            limit: 1,
            cursor: Some(cursor.into()),
        };
        let result = setup
            .ledger
            .allocations()
            .list(&setup.corp, &AllocationFilter::default(), &page)
            .await;
        assert!(matches!(result, Err(Error::Cursor)), "{cursor}");
    }
}

#[tokio::test]
async fn filters_must_all_match() {
    let setup = setup().await;
    let in_pool = |n, to, name: &str| NewAllocation {
        pool: pool(name),
        ..decided(n, to)
    };
    let in_channel = NewAllocation {
        channel: Some("ch_001".parse().unwrap()),
        ..decided(3, Some("mB"))
    };
    setup
        .write(vec![
            Change::Decided(decided(1, Some("mA"))),
            Change::Decided(in_pool(2, Some("mA"), "g2")),
        ])
        .await;
    setup
        .write(vec![
            Change::Decided(in_channel),
            Change::Decided(decided(4, None)),
            closed(1),
        ])
        .await;
    let none = AllocationFilter::default();
    assert_eq!(all(&setup, &none).await, [4, 3, 2, 1].map(allocation));
    let cases = [
        (
            AllocationFilter {
                pool: Some(pool("g2")),
                ..none.clone()
            },
            vec![2],
        ),
        (
            AllocationFilter {
                member: Some(member("MA")),
                ..none.clone()
            },
            vec![2, 1],
        ),
        (
            AllocationFilter {
                state: Some(AllocationState::Waiting),
                ..none.clone()
            },
            vec![4],
        ),
        (
            AllocationFilter {
                state: Some(AllocationState::Closed),
                ..none.clone()
            },
            vec![1],
        ),
        (
            AllocationFilter {
                channel: Some("ch_001".parse().unwrap()),
                ..none.clone()
            },
            vec![3],
        ),
        (
            AllocationFilter {
                subject: Some(subject("wmC002")),
                ..none.clone()
            },
            vec![2],
        ),
        (
            AllocationFilter {
                decided_from_ms: Some(T0 + 2),
                ..none.clone()
            },
            vec![4, 3],
        ),
        (
            AllocationFilter {
                decided_before_ms: Some(T0 + 2),
                ..none.clone()
            },
            vec![2, 1],
        ),
        (
            AllocationFilter {
                member: Some(member("mA")),
                state: Some(AllocationState::Open),
                ..none.clone()
            },
            vec![2],
        ),
    ];
    for (filter, expected) in cases {
        let expected: Vec<_> = expected.into_iter().map(allocation).collect();
        assert_eq!(all(&setup, &filter).await, expected, "{filter:?}");
    }
    let stranger = "ww0000000000000000".parse().unwrap();
    let page = setup
        .ledger
        .allocations()
        .list(&stranger, &none, &PageRequest::default())
        .await
        .unwrap();
    assert!(page.items.is_empty());
}

#[tokio::test]
async fn loads_are_open_rows_over_all_pools() {
    let setup = setup().await;
    let elsewhere = NewAllocation {
        pool: pool("g2"),
        ..decided(2, Some("mA"))
    };
    setup
        .write(vec![
            Change::Decided(decided(1, Some("mA"))),
            Change::Decided(elsewhere),
            Change::Decided(decided(3, Some("mB"))),
            Change::Decided(decided(4, Some("mB"))),
            Change::Decided(decided(5, None)),
            closed(4),
        ])
        .await;
    let loads = setup
        .ledger
        .allocations()
        .open_by_member(&setup.corp)
        .await
        .unwrap();
    assert_eq!(loads, [(member("mA"), 2), (member("mB"), 1)]);
}

#[tokio::test]
async fn the_load_window_finds_the_oldest_open_ones() {
    let setup = setup().await;
    for n in 1..=4 {
        let settled = Change::Settled {
            allocation: allocation(n),
            how: SettledAs::Done,
        };
        let changes = vec![Change::Decided(decided(n, Some("mA"))), settled];
        setup.write(changes).await;
    }
    setup.write(vec![closed(2)]).await;
    let old = setup
        .ledger
        .allocations()
        .open_before(&setup.corp, &pool("g1"), T0 + 4, 2)
        .await
        .unwrap();
    assert_eq!(
        old.iter().map(|row| row.id).collect::<Vec<_>>(),
        [allocation(1), allocation(3)]
    );
    assert!(
        setup
            .ledger
            .allocations()
            .open_before(&setup.corp, &pool("g2"), T0 + 9, 9)
            .await
            .unwrap()
            .is_empty()
    );
}

/// A customer on his way to a member keeps his allocation, whatever the window: the events of his transfer must find it.
#[tokio::test]
async fn the_load_window_leaves_who_is_on_his_way() {
    let setup = setup().await;
    let on_the_way = NewAllocation {
        giver: Some(member("mH")),
        ..decided(1, Some("mA"))
    };
    let changes = vec![
        Change::Decided(on_the_way),
        Change::Decided(decided(2, None)),
    ];
    setup.write(changes).await;
    let allocations = setup.ledger.allocations();
    let pool = pool("g1");
    let open = async || {
        let open = allocations.open_before(&setup.corp, &pool, T0 + 9, 9);
        let open = open.await.unwrap().into_iter();
        open.map(|row| row.id).collect::<Vec<_>>()
    };
    assert_eq!(open().await, [allocation(2)]);
    let arrived = Change::Settled {
        allocation: allocation(1),
        how: SettledAs::Done,
    };
    setup.write(vec![arrived]).await;
    assert_eq!(open().await, [allocation(1), allocation(2)]);
}

#[tokio::test]
async fn what_is_not_carried_out_is_driven_again_until_it_is() {
    let setup = setup().await;
    let holder = |n| NewAllocation {
        giver: Some(member("mH")),
        ..decided(n, Some("mA"))
    };
    setup
        .write(vec![
            Change::Decided(decided(1, Some("mA"))),
            Change::Decided(holder(2)),
            Change::Transfer(transfer(7, 2, "mH", "mA")),
            Change::Decided(decided(3, None)),
            Change::Decided(decided(4, Some("mA"))),
            Change::Settled {
                allocation: allocation(4),
                how: SettledAs::Done,
            },
        ])
        .await;
    let allocations = setup.ledger.allocations();
    let unsettled = async |after| {
        let rows = allocations
            .unsettled(&setup.corp, T0 + 100, after, 10)
            .await
            .unwrap()
            .rows;
        rows.into_iter()
            .map(|row| {
                (
                    row.allocation.id,
                    row.transfer.map(|transfer| transfer.state),
                )
            })
            .collect::<Vec<_>>()
    };
    // A transfer under way is driven by its own checks.
    assert_eq!(unsettled(None).await, [(allocation(1), None)]);
    // A page is what was looked at, not what was found.
    let page = |after| allocations.unsettled(&setup.corp, T0 + 100, after, 1);
    let first = page(None).await.unwrap();
    let second = page(first.next).await.unwrap();
    assert_eq!((first.rows.len(), second.rows.len()), (1, 0));
    assert_eq!(second.next.map(|(_, id)| id), Some(allocation(2)));
    let end = page(second.next).await.unwrap();
    assert_eq!((end.rows.len(), end.next), (0, None));
    let step = TransferStep::new(id(7), TransferState::Refused);
    setup
        .ledger
        .transfers()
        .advance(&[step], T0 + 50)
        .await
        .unwrap();
    assert_eq!(
        unsettled(None).await,
        [
            (allocation(1), None),
            (allocation(2), Some(TransferState::Refused))
        ]
    );
    assert_eq!(unsettled(Some((T0 + 1, allocation(1)))).await.len(), 1);
    assert!(
        allocations
            .unsettled(&setup.corp, T0, None, 10)
            .await
            .unwrap()
            .rows
            .is_empty()
    );
    let settled = |n, how| Change::Settled {
        allocation: allocation(n),
        how,
    };
    setup
        .write(vec![
            settled(1, SettledAs::Done),
            settled(
                2,
                SettledAs::Kept {
                    member: member("mA"),
                    moved: false,
                },
            ),
        ])
        .await;
    assert!(unsettled(None).await.is_empty());
}

#[tokio::test]
async fn a_transfer_to_a_former_member_says_nothing_of_the_present_one() {
    let setup = setup().await;
    setup
        .write(vec![
            Change::Decided(decided(1, Some("mA"))),
            Change::Transfer(transfer(7, 1, "mH", "mA")),
        ])
        .await;
    let step = TransferStep::new(id(7), TransferState::Refused);
    setup
        .ledger
        .transfers()
        .advance(&[step], T0 + 50)
        .await
        .unwrap();
    let assigned = Change::Assigned {
        allocation: allocation(1),
        member: member("mB"),
        giver: None,
        epoch: Some(1),
    };
    setup.write(vec![assigned]).await;
    let rows = setup
        .ledger
        .allocations()
        .unsettled(&setup.corp, T0 + 100, None, 10)
        .await
        .unwrap()
        .rows;
    assert_eq!((rows.len(), &rows[0].transfer), (1, &None));
}

/// Case 117: ids that look like numbers are the same before and after.
#[tokio::test]
async fn ids_that_look_like_numbers_stay_text() {
    let setup = setup().await;
    for (n, name) in ["7459035031717794886", "000123", "1e5", "0x10"]
        .into_iter()
        .enumerate()
    {
        let n = n as u64 + 1;
        let new = NewAllocation {
            pool: pool(name),
            channel: Some(name.parse().unwrap()),
            request: Some(name.parse().unwrap()),
            subject: SubjectKey::new(&setup.corp, "wecom", name),
            ..decided(n, Some(name))
        };
        setup.write(vec![Change::Decided(new)]).await;
        let row = setup
            .ledger
            .allocations()
            .by_request(&setup.corp, &name.parse().unwrap())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            (row.pool.as_str(), row.member.unwrap().as_str()),
            (name, name)
        );
        assert_eq!(
            (row.channel.unwrap().as_str(), row.request.unwrap().as_str()),
            (name, name)
        );
    }
}
