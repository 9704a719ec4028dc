//! Who is in groups, and which got too many.

use ledger::{CameAs, Change, GroupCount, GroupCounted, GroupEventKind, PageRequest, PeopleChange};

use crate::seats::{chat, counted, joined, left, person};
use crate::setup::{T0, setup};

/// Each time that somebody is in a group is a row; who was pending is known later; and nobody is in a group that is gone.
#[tokio::test]
async fn people_come_and_go() {
    let setup = setup().await;
    setup
        .write(vec![
            joined("wrA", "p", None),
            joined("wrA", "q", Some(CameAs::Direct)),
            counted("wrA", "v1", 2, 0, 0),
        ])
        .await;
    setup
        .write(vec![
            left("wrA", "q"),
            left("wrA", "nobody"),
            joined("wrA", "p", Some(CameAs::Already)),
            counted("wrA", "v2", 1, 0, 0),
        ])
        .await;
    setup
        .write(vec![
            joined("wrA", "p", None),
            joined("wrA", "q", None),
            joined("wrB", "p", None),
            counted("wrA", "v3", 2, 0, 0),
            counted("wrB", "v1", 1, 0, 0),
        ])
        .await;
    let mut expected = [(person("p"), Some(CameAs::Already)), (person("q"), None)];
    expected.sort_by_key(|(person, _)| *person);
    assert_eq!(setup.people("wrA").await, expected);
    let rows = setup.number("SELECT count(*) FROM group_people").await;
    assert_eq!(rows, 4);
    let table = setup.ledger.seats();
    let chats = ["wrA", "wrB", "wrC"].map(chat);
    let counts = table.group_counts(&setup.corp, &chats).await.unwrap();
    assert_eq!(counts.len(), 2);
    let of_a = GroupCount {
        seen: Some("v3".parse().unwrap()),
        people: 2,
        ..GroupCount::default()
    };
    assert_eq!(counts[&chat("wrA")], of_a);
    let gone = Change::People(PeopleChange::Gone { chat: chat("wrA") });
    setup.write(vec![gone]).await;
    assert_eq!(setup.people("wrA").await, []);
    assert_eq!(setup.people("wrB").await.len(), 1);
    let counts = table.group_counts(&setup.corp, &chats).await.unwrap();
    assert_eq!(counts.len(), 1);
}

/// Too many are those who come past us: whoever comes on a seat that was held for him is none of them.
#[tokio::test]
async fn who_comes_past_us_is_told() {
    let setup = setup().await;
    let mended = Change::People(PeopleChange::Counted(GroupCounted {
        chat: chat("wrA"),
        version: "v5".parse().unwrap(),
        people: 3,
        oversold: 1,
        past_us: 1,
        mended: Some("read_by_audit".to_owned()),
    }));
    let steps = [
        counted("wrA", "v1", 2, 0, 2), // two came and there is room
        counted("wrA", "v2", 4, 2, 1), // two more, one of them on a seat of his own: too many
        counted("wrA", "v3", 5, 2, 0), // one on a seat of his own
        counted("wrA", "v4", 2, 0, 0),
        mended,
        counted("wrA", "v6", 4, 2, 1),
    ];
    for step in steps {
        setup.write(vec![step]).await;
    }
    let table = setup.ledger.seats();
    let chat = chat("wrA");
    let page = PageRequest::default();
    let events = table.group_events(&setup.corp, Some(&chat), None, &page);
    let events = events.await.unwrap().items;
    let told: Vec<_> = events
        .iter()
        .map(|one| {
            (
                one.at_ms - T0,
                one.kind.as_str(),
                one.people_before,
                one.people,
                one.excess,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            (6, "oversold", 3, 4, Some(2)),
            (5, "mended", 2, 3, None),
            (5, "oversold", 2, 3, Some(1)),
            (2, "oversold", 2, 4, Some(2)),
        ]
    );
    assert_eq!(events[1].reason.as_deref(), Some("read_by_audit"));
    // Those who came past us are named one after the other: one excess, told of once; then somebody more.
    let named = [
        counted("wrA", "v7", 4, 2, 1),
        counted("wrA", "v7", 4, 2, 1),
        counted("wrA", "v8", 5, 3, 1),
        counted("wrA", "v9", 4, 2, 0),
        counted("wrA", "v10", 5, 3, 1),
    ];
    setup.write(named[..2].to_vec()).await;
    setup.write(named[2..].to_vec()).await;
    let events = table.group_events(&setup.corp, Some(&chat), None, &page);
    let events = events.await.unwrap().items;
    let excesses: Vec<_> = events.iter().map(|one| one.excess).collect();
    assert_eq!(excesses[..3], [Some(3), Some(3), Some(2)]);
    assert_eq!(events.len(), 6);
    let mended = Some(GroupEventKind::Mended);
    let events = table.group_events(&setup.corp, None, mended, &page).await;
    assert_eq!(events.unwrap().items.len(), 1);
}
