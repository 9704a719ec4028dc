//! Rows of seats that say otherwise than Redis.

use std::collections::{BTreeMap, BTreeSet};

use allocation::{ChatId, PersonKey, SeatId};
use allocator::audit::seat_rows::seat_rows;
use allocator::guard::{self, Wanted};
use allocator::reread::Error;
use ledger::{CameAs, GroupCount, GroupEventKind, PageRequest, SeatFilter, SeatStage};

use crate::api_support::World;
use crate::seat_rebuild::{GROUPS, chat};

type Stages = BTreeMap<SeatId, (SeatStage, Option<ChatId>, u64)>;
type People = BTreeMap<PersonKey, Option<CameAs>>;

impl World {
    /// What the rows say, but for what is over.
    async fn rows(&self) -> (Stages, BTreeMap<ChatId, (People, GroupCount)>) {
        let table = self.app().ledger.seats();
        let campaign = self.seat_name("a").campaign;
        let filter = SeatFilter::default();
        let page = PageRequest {
            limit: 500,
            cursor: None,
        };
        let seats = table.list(&self.corp, &campaign, &filter, &page).await;
        let seats = seats.unwrap().items.into_iter();
        let seats = seats
            .filter(|seat| seat.ended_ms.is_none())
            .map(|seat| (seat.id, (seat.stage, seat.chat, seat.held_until_ms)));
        let chats = table.groups(&self.corp).await.unwrap();
        let mut people = table.people_in(&self.corp, &chats).await.unwrap();
        let mut counts = table.group_counts(&self.corp, &chats).await.unwrap();
        let groups = chats.into_iter().map(|chat| {
            let people = people.remove(&chat).unwrap_or_default().into_iter();
            let people = people.map(|one| (one.person, one.came)).collect();
            let count = counts.remove(&chat).unwrap_or_default();
            (chat, (people, count))
        });
        (seats.collect(), groups.collect())
    }

    async fn mended(&self) -> usize {
        seat_rows(self.app(), self.corp_app()).await.unwrap()
    }
}

/// Three hold, one is in a group, one came past us, two wait.
async fn world() -> World {
    let world = World::new().await;
    world.groups().await;
    world.come("wr1", Some("v1"), "v2", &["past us"]).await;
    world.ask_seats(&["a", "b", "c", "d", "e", "f", "g"]).await;
    world.come("wr1", Some("v2"), "v3", &["a"]).await;
    world.written().await;
    world
}

/// Whatever somebody does to the rows: they say again what Redis says, and it is told what was mended.
#[tokio::test]
async fn rows_become_what_redis_has() {
    let world = world().await;
    let before = world.rows().await;
    let stages: BTreeSet<_> = before.0.values().map(|seat| seat.0).collect();
    assert_eq!(stages.len(), 3, "{before:?}");
    assert_eq!(world.mended().await, 0);
    for (damage, reasons) in [
        (
            "DELETE FROM seats WHERE state = 'held' AND chat_id = 'wr1'",
            "seat_not_in_rows: 1",
        ),
        (
            "UPDATE seats SET state = 'expired', ended_at = now(), reason = 'x' WHERE state = 'confirmed'",
            "seat_not_in_rows: 1",
        ),
        (
            "UPDATE seats SET state = 'waiting', chat_id = NULL WHERE state = 'held' AND chat_id = 'wr1'",
            "seat_not_in_rows: 1",
        ),
        (
            "UPDATE seats SET held_until = now() WHERE state = 'held' AND chat_id = 'wr1'",
            "seat_differs: 1",
        ),
        (
            "UPDATE seats SET chat_id = 'wr1' WHERE chat_id = 'wr2'",
            "seat_differs: 3",
        ),
        (
            "INSERT INTO seats (seat_id, corp_id, campaign_id, group_pool_id, customer_id, subject, anonymous, tags, hold_ms,
                state, chat_id, asked_at, held_until, asked_seq, turn_seq, turn_place)
             SELECT gen_random_uuid(), corp_id, campaign_id, group_pool_id, customer_id, md5('x'), anonymous, tags, hold_ms,
                state, chat_id, asked_at, held_until, asked_seq, turn_seq, turn_place
             FROM seats WHERE state = 'held' AND chat_id = 'wr1'",
            "seat_not_in_redis: 1",
        ),
        (
            "DELETE FROM group_people WHERE came_as = 'direct'",
            "person_not_in_rows: 1",
        ),
        (
            "UPDATE group_people SET came_as = NULL, seat_id = NULL",
            "person_differs: 2",
        ),
        (
            "UPDATE group_people SET came_as = 'direct', seat_id = NULL WHERE came_as = 'seat'",
            "person_differs: 1",
        ),
        (
            "INSERT INTO group_people (corp_id, chat_id, person, joined_seq, joined_at, came_as, scanned)
             SELECT corp_id, chat_id, md5('x'), joined_seq, joined_at, 'direct', scanned FROM group_people LIMIT 1",
            "person_not_in_redis: 1",
        ),
        (
            "UPDATE group_counts SET people = 7, seen = 'v0' WHERE chat_id = 'wr1'",
            "count_differs: 1",
        ),
        (
            "DELETE FROM group_counts WHERE chat_id = 'wr1'; DELETE FROM group_people; DELETE FROM seats WHERE state = 'held'",
            "count_differs: 1, person_not_in_rows: 2, seat_not_in_rows: 1",
        ),
    ] {
        world.sql(damage).await;
        assert_ne!(world.rows().await, before, "{damage}");
        assert!(world.mended().await > 0, "{damage}");
        assert_eq!(world.rows().await, before, "{damage}");
        assert_eq!(world.mended().await, 0, "{damage}");
        let table = world.app().ledger.seats();
        let (kind, page) = (Some(GroupEventKind::Mended), PageRequest::default());
        let events = table.group_events(&world.corp, None, kind, &page).await;
        // Of all groups that had something to mend the last one.
        let last = events.unwrap().items.into_iter();
        let last = last.filter(|event| GROUPS.contains(&event.chat.as_str()));
        let last = last.filter_map(|event| event.reason).take(2);
        assert!(last.collect::<Vec<_>>().contains(&reasons.to_owned()), "{damage}");
    }
}

/// Nothing of a group or a visitor that Redis does not know.
#[tokio::test]
async fn rows_of_nobody_end() {
    let world = world().await;
    let before = world.rows().await;
    world
        .sql(
            "INSERT INTO group_counts SELECT corp_id, 'wr9', seen, people, oversold, changed_at, told_excess FROM group_counts LIMIT 1;
             INSERT INTO group_people (corp_id, chat_id, person, joined_seq, joined_at, came_as, seat_id, scanned)
                SELECT corp_id, 'wr9', person, joined_seq, joined_at, came_as, seat_id, scanned FROM group_people;
             INSERT INTO seats (seat_id, corp_id, campaign_id, group_pool_id, customer_id, subject, anonymous, tags, hold_ms,
                state, chat_id, asked_at, held_until, asked_seq, turn_seq, turn_place)
             SELECT gen_random_uuid(), corp_id, campaign_id, group_pool_id, customer_id, md5(state), anonymous, tags, hold_ms,
                state, CASE WHEN state = 'held' THEN 'wr9' END, asked_at, held_until, asked_seq, turn_seq, turn_place
             FROM seats WHERE state = 'waiting' OR state = 'held' AND chat_id = 'wr1'",
        )
        .await;
    // Both who are in it, the seat and the count of the group; two who wait.
    assert_eq!(world.mended().await, 6);
    assert_eq!(world.rows().await, before);
    let rows = world.app().ledger.seats();
    let (gone, page) = (chat("wr9"), PageRequest::default());
    let events = rows.group_events(&world.corp, Some(&gone), None, &page);
    assert_eq!(events.await.unwrap().items, []);
    assert_eq!(world.mended().await, 0);
}

/// A Redis that has nothing any more is no reason to end anything.
#[tokio::test]
async fn a_closed_corp_ends_no_rows() {
    let world = world().await;
    let before = world.rows().await;
    let keys = ["ready", "group:wr1", "people:wr1", "groups:g", "gheld:wr1"];
    let keys = keys.map(|key| format!("{{{}}}:v1:{key}", world.corp));
    let mut command = vec!["DEL"];
    command.extend(keys.iter().map(String::as_str));
    test_redis::shared().cli(&command);
    let refused = seat_rows(world.app(), world.corp_app()).await;
    assert!(
        matches!(refused, Err(Error::Roster(roster::Error::NotReady))),
        "{refused:?}"
    );
    assert_eq!(world.rows().await, before);
    guard::rebuild(world.app(), world.corp_app(), Wanted::default())
        .await
        .unwrap();
    assert_eq!(world.mended().await, 0);
    assert_eq!(world.rows().await, before);
}

/// While people come and ask all the time, nothing is taken for a difference that is only not written yet.
#[tokio::test]
async fn what_is_only_late_is_no_difference() {
    let world = world().await;
    let busy = async {
        for n in 0..60 {
            let (version, next) = (format!("v{}", n + 3), format!("v{}", n + 4));
            let visitor = format!("n{n}");
            world.ask_seats(&[&visitor, "b", "g"]).await;
            world.come("wr1", Some(&version), &next, &[&visitor]).await;
        }
    };
    let audit = async {
        let mut n_mended = 0;
        for _ in 0..6 {
            n_mended += world.mended().await;
        }
        n_mended
    };
    let ((), n_mended) = tokio::join!(busy, audit);
    assert_eq!(n_mended, 0);
    world.written().await;
    assert_eq!(world.mended().await, 0);
    let (seats, groups) = world.rows().await;
    assert_eq!(groups[&chat("wr1")].1.people, 62);
    let confirmed = seats.values();
    let confirmed = confirmed.filter(|seat| seat.0 == SeatStage::Confirmed);
    assert_eq!(confirmed.count(), 61);
}
