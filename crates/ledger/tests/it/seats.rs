//! Seats of customer groups: what the log's writer makes of their changes, and how they are read.

use allocation::{
    CampaignId, ChatId, GroupTags, PersonKey, Reason, SeatId, SeatMatch, SeatName, SubjectKey,
};
use ledger::{
    CameAs, Change, Customer, Entry, GroupCounted, NewSeat, PageRequest, PeopleChange, Seat,
    SeatChange, SeatEnd, SeatFilter, SeatStage, Wanted,
};
use uuid::Uuid;

use crate::setup::{Setup, T0, batch, corp, entry, setup};

pub(crate) fn seat(n: u64) -> SeatId {
    SeatId(Uuid::from_u128(
        0x0192_0000_0000_7000_9000_0000_0000_0000 + u128::from(n),
    ))
}

pub(crate) fn campaign() -> CampaignId {
    "spring".parse().unwrap()
}

pub(crate) fn chat(name: &str) -> ChatId {
    name.parse().unwrap()
}

pub(crate) fn name(visitor: &str) -> SeatName {
    SeatName {
        campaign: campaign(),
        subject: SubjectKey::new(&corp(), "unionid", visitor),
    }
}

pub(crate) fn person(name: &str) -> PersonKey {
    PersonKey::customer(&corp(), name)
}

/// Of several kinds.
pub(crate) fn wanted(kind: u8) -> Wanted {
    let tags = match kind % 3 {
        0 => GroupTags::any(),
        1 => GroupTags::new(vec!["north".parse().unwrap()], false).unwrap(),
        _ => GroupTags::new(vec!["north".parse().unwrap(), "s".parse().unwrap()], true).unwrap(),
    };
    Wanted {
        pool: "g".parse().unwrap(),
        tags,
        anonymous: kind.is_multiple_of(2),
        via: (kind % 4 == 1).then(|| "inv1".parse().unwrap()),
        hold_ms: 600_000,
    }
}

/// He waits.
pub(crate) fn new_seat(n: u64, visitor: &str) -> NewSeat {
    NewSeat {
        seat: seat(n),
        name: name(visitor),
        customer: Customer {
            kind: "unionid".to_owned(),
            external_id: Some(visitor.to_owned()),
        },
        wanted: wanted(0),
        chat: None,
        until_ms: T0 + 1_000,
        place: 0,
        inviter: None,
    }
}

fn held(n: u64, visitor: &str, of: &str) -> Change {
    Change::Seat(SeatChange::Begun(NewSeat {
        chat: Some(chat(of)),
        ..new_seat(n, visitor)
    }))
}

fn waits(n: u64, visitor: &str) -> Change {
    Change::Seat(SeatChange::Begun(new_seat(n, visitor)))
}

fn ended(n: u64, visitor: &str, how: SeatEnd, reason: &str, memory_ms: u64) -> Change {
    Change::Seat(SeatChange::Ended {
        seat: seat(n),
        name: name(visitor),
        how,
        reason: Reason::new(reason).unwrap(),
        memory_until_ms: (memory_ms > 0).then_some(T0 + memory_ms),
    })
}

fn confirmed(n: u64, visitor: &str, of: &str, late: bool, from: Option<&str>) -> Change {
    Change::Seat(SeatChange::Confirmed {
        seat: seat(n),
        name: name(visitor),
        chat: chat(of),
        how: SeatMatch::Unionid,
        late,
        from: from.map(chat),
    })
}

pub(crate) fn joined(of: &str, who: &str, came: Option<CameAs>) -> Change {
    Change::People(PeopleChange::Joined {
        chat: chat(of),
        person: person(who),
        came,
        doubted: false,
        scanned: true,
        via: None,
        who: None,
    })
}

pub(crate) fn left(of: &str, who: &str) -> Change {
    Change::People(PeopleChange::Left {
        chat: chat(of),
        person: person(who),
    })
}

pub(crate) fn counted(of: &str, version: &str, people: u32, oversold: u32, past_us: u32) -> Change {
    Change::People(PeopleChange::Counted(GroupCounted {
        chat: chat(of),
        version: version.parse().unwrap(),
        people,
        oversold,
        past_us,
        mended: None,
    }))
}

impl Setup {
    async fn seat(&self, n: u64) -> Seat {
        let table = self.ledger.seats();
        let row = table.get(&self.corp, seat(n)).await.unwrap();
        row.unwrap_or_else(|| panic!("no seat {n}"))
    }

    async fn stages(&self, filter: SeatFilter) -> Vec<SeatId> {
        let table = self.ledger.seats();
        let page = PageRequest::default();
        let list = table.list(&self.corp, &campaign(), &filter, &page).await;
        list.unwrap().items.iter().map(|row| row.id).collect()
    }

    pub(crate) async fn people(&self, of: &str) -> Vec<(PersonKey, Option<CameAs>)> {
        let table = self.ledger.seats();
        let of = chat(of);
        let people = table.people_in(&self.corp, std::slice::from_ref(&of)).await;
        let people = people.unwrap().remove(&of).unwrap_or_default();
        people.iter().map(|one| (one.person, one.came)).collect()
    }
}

/// Shown, confirmed, gone; and the visitor is known by his surrogate.
#[tokio::test]
async fn a_seat_goes_its_way() {
    let setup = setup().await;
    setup.write(vec![held(1, "a", "wrA")]).await;
    let row = setup.seat(1).await;
    let customers = setup.ledger.customers();
    let customer = customers.find(&setup.corp, &name("a").subject).await;
    let customer = customer.unwrap().unwrap();
    assert_eq!(customer.external_id.as_deref(), Some("a"));
    let as_asked = Seat {
        id: seat(1),
        campaign: campaign(),
        pool: "g".parse().unwrap(),
        customer: customer.id,
        subject: name("a").subject,
        anonymous: true,
        via: None,
        tags: GroupTags::any(),
        hold_ms: 600_000,
        stage: SeatStage::Held,
        chat: Some(chat("wrA")),
        moved_from: None,
        matched: None,
        asked_ms: T0 + 1,
        held_ms: Some(T0 + 1),
        held_until_ms: T0 + 1_000,
        confirmed_ms: None,
        ended_ms: None,
        reason: None,
        memory_until_ms: None,
    };
    assert_eq!(row, as_asked);
    let again = SeatChange::Again {
        seat: seat(1),
        name: name("a"),
        until_ms: T0 + 2_000,
        via: Some("inv1".parse().unwrap()),
        wanted: None,
    };
    setup.write(vec![Change::Seat(again)]).await;
    let shown_again = Seat {
        via: Some("inv1".parse().unwrap()),
        held_until_ms: T0 + 2_000,
        ..as_asked
    };
    assert_eq!(setup.seat(1).await, shown_again);
    setup
        .write(vec![
            joined("wrB", "p", Some(CameAs::Seat(seat(1)))),
            confirmed(1, "a", "wrB", false, Some("wrA")),
            counted("wrB", "v1", 1, 0, 0),
        ])
        .await;
    let moved = Seat {
        stage: SeatStage::Confirmed,
        chat: Some(chat("wrB")),
        moved_from: Some(chat("wrA")),
        matched: Some("unionid".to_owned()),
        confirmed_ms: Some(T0 + 3),
        ..shown_again
    };
    assert_eq!(setup.seat(1).await, moved);
    let in_group = setup.people("wrB").await;
    assert_eq!(in_group, [(person("p"), Some(CameAs::Seat(seat(1))))]);
    setup
        .write(vec![
            left("wrB", "p"),
            ended(1, "a", SeatEnd::Left, "left", 0),
            counted("wrB", "v2", 0, 0, 0),
        ])
        .await;
    let gone = Seat {
        stage: SeatStage::Left,
        ended_ms: Some(T0 + 4),
        reason: Some("left".to_owned()),
        ..moved
    };
    assert_eq!(setup.seat(1).await, gone);
    assert_eq!(setup.people("wrB").await, []);
}

/// A seat that was given back counts when its visitor comes after all; one that somebody waits for is held when it is his turn.
#[tokio::test]
async fn who_is_late_and_who_waits() {
    let setup = setup().await;
    setup.write(vec![held(1, "a", "wrA"), waits(2, "b")]).await;
    let expired = ended(1, "a", SeatEnd::Expired, "expired", 5_000);
    let woken = SeatChange::Held {
        seat: seat(2),
        name: name("b"),
        chat: chat("wrA"),
        until_ms: T0 + 3_000,
        place: 0,
    };
    setup.write(vec![expired, Change::Seat(woken)]).await;
    let row = setup.seat(1).await;
    assert_eq!(
        (row.stage, row.ended_ms),
        (SeatStage::Expired, Some(T0 + 2))
    );
    assert_eq!(row.memory_until_ms, Some(T0 + 5_000));
    let row = setup.seat(2).await;
    assert_eq!((row.stage, row.asked_ms), (SeatStage::Held, T0 + 1));
    assert_eq!((row.held_ms, row.held_until_ms), (Some(T0 + 2), T0 + 3_000));
    setup
        .write(vec![confirmed(1, "a", "wrA", true, None)])
        .await;
    let row = setup.seat(1).await;
    assert_eq!((row.stage, row.held_ms), (SeatStage::Late, Some(T0 + 1)));
    assert_eq!((row.ended_ms, row.memory_until_ms), (None, None));
    // The group of the held one is full by now: he waits again.
    let waits = SeatChange::Waits {
        seat: seat(2),
        name: name("b"),
        wanted: wanted(1),
        until_ms: T0 + 9_000,
    };
    setup.write(vec![Change::Seat(waits)]).await;
    let row = setup.seat(2).await;
    assert_eq!(
        (row.stage, row.chat, row.held_ms),
        (SeatStage::Waiting, None, None)
    );
    assert_eq!((row.tags, row.via), (wanted(1).tags, wanted(1).via));
}

/// A visitor has one open seat in a campaign, whatever the log says: what a state that was made of rows left out ends when its
/// visitor gets another one.
#[tokio::test]
async fn an_open_seat_gives_way_to_the_next() {
    let setup = setup().await;
    setup
        .write(vec![held(1, "a", "wrA"), held(2, "b", "wrA")])
        .await;
    setup.write(vec![waits(3, "a"), held(4, "c", "wrA")]).await;
    let row = setup.seat(1).await;
    assert_eq!(
        (row.stage, row.ended_ms),
        (SeatStage::Cancelled, Some(T0 + 2))
    );
    assert_eq!(row.reason.as_deref(), Some("replaced"));
    assert_eq!(setup.seat(2).await.stage, SeatStage::Held);
    // The same within one batch, and a seat's id that is used again is the new one.
    let entries: Vec<Entry> = vec![
        entry(3, vec![held(5, "c", "wrA")]),
        entry(4, vec![held(6, "c", "wrB")]),
        entry(5, vec![ended(2, "b", SeatEnd::Expired, "expired", 0)]),
        entry(6, vec![held(2, "b", "wrB")]),
    ];
    setup.write_batch(&batch(entries)).await.unwrap();
    let stages = [2, 3, 4, 5, 6].map(|n| setup.seat(n));
    let stages = futures_util::future::join_all(stages).await;
    let stages: Vec<_> = stages.iter().map(|row| row.stage.as_str()).collect();
    assert_eq!(
        stages,
        ["held", "waiting", "cancelled", "cancelled", "held"]
    );
    assert_eq!(setup.seat(2).await.chat, Some(chat("wrB")));
}

#[tokio::test]
async fn seats_are_listed_and_counted() {
    let setup = setup().await;
    for n in 1..=5 {
        setup.write(vec![held(n, &n.to_string(), "wrA")]).await;
    }
    setup
        .write(vec![
            waits(6, "6"),
            confirmed(2, "2", "wrB", false, Some("wrA")),
            ended(3, "3", SeatEnd::Expired, "expired", 0),
        ])
        .await;
    let all = setup.stages(SeatFilter::default()).await;
    assert_eq!(all, [6, 5, 4, 3, 2, 1].map(seat));
    for (filter, expected) in [
        (
            SeatFilter {
                stage: Some(SeatStage::Held),
                ..SeatFilter::default()
            },
            vec![5, 4, 1],
        ),
        (
            SeatFilter {
                chat: Some(chat("wrB")),
                ..SeatFilter::default()
            },
            vec![2],
        ),
        (
            SeatFilter {
                subject: Some(name("3").subject),
                ..SeatFilter::default()
            },
            vec![3],
        ),
    ] {
        let expected: Vec<SeatId> = expected.into_iter().map(seat).collect();
        assert_eq!(setup.stages(filter).await, expected);
    }
    let table = setup.ledger.seats();
    let mut page = PageRequest {
        limit: 4,
        cursor: None,
    };
    let filter = SeatFilter::default();
    let first = table.list(&setup.corp, &campaign(), &filter, &page).await;
    page.cursor = first.unwrap().next;
    let rest = table.list(&setup.corp, &campaign(), &filter, &page).await;
    let rest = rest.unwrap();
    let ids: Vec<_> = rest.items.iter().map(|row| row.id).collect();
    assert_eq!(ids, [2, 1].map(seat));
    page.cursor = rest.previous;
    let back = table.list(&setup.corp, &campaign(), &filter, &page).await;
    let ids: Vec<_> = back.unwrap().items.iter().map(|row| row.id).collect();
    assert_eq!(ids, [6, 5, 4, 3].map(seat));
    let counts = table.counts(&setup.corp, &campaign()).await.unwrap();
    let of = |stage| counts.get(&stage).copied();
    assert_eq!(of(SeatStage::Held), Some(3));
    assert_eq!(of(SeatStage::Waiting), Some(1));
    assert_eq!(of(SeatStage::Expired), Some(1));
    assert_eq!(of(SeatStage::Left), None);
    let chats = ["wrA", "wrB", "wrC"].map(chat);
    let open = table.open_in(&setup.corp, &chats).await.unwrap();
    let of_a: Vec<_> = open[&chats[0]].iter().map(|row| row.id).collect();
    assert_eq!(of_a, [1, 4, 5].map(seat));
    assert_eq!(open.len(), 2);
    assert_eq!(table.groups(&setup.corp).await.unwrap(), chats[..2]);
    let waiting = table.waiting(&setup.corp, None, 10).await.unwrap();
    assert_eq!(
        waiting.iter().map(|row| row.id).collect::<Vec<_>>(),
        [seat(6)]
    );
    let after = table.waiting(&setup.corp, Some(seat(6)), 10).await;
    assert_eq!(after.unwrap(), []);
}
