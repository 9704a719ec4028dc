//! Rows whose holder was late or lost, and rows that were given up.

use std::collections::HashSet;

use ledger::{
    Claim, EffectState, Fence, Finish, GivenUp, NewEffect, OutboxRow, Outcome, PageRequest, Reaped,
};
use uuid::Uuid;

use crate::outbox::{claim, fence, get, put, take_both, take_one};
use crate::setup::{T0, effect, setup};

#[tokio::test]
async fn a_late_holder_is_refused() {
    let setup = setup().await;
    let outbox = setup.ledger.outbox();
    put(&setup, vec![effect("card", "1")]).await;
    let first = take_one(&setup, "card", T0 + 10).await;
    assert_eq!(
        outbox
            .begin(&[first.held()], 10_000, T0 + 11)
            .await
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        outbox.reap(&["card"], 10, T0 + 10_010).await.unwrap(),
        Reaped::default()
    );
    let reaped = Reaped {
        pending: 1,
        ..Reaped::default()
    };
    assert_eq!(
        outbox.reap(&["card"], 10, T0 + 10_011).await.unwrap(),
        reaped
    );
    // Not his any more, even before somebody else has it.
    let late = Finish::new(first.held(), Outcome::Failed);
    assert_eq!(
        outbox
            .finish(std::slice::from_ref(&late), T0 + 10_011)
            .await
            .unwrap(),
        [first.id]
    );
    let second = take_one(&setup, "card", T0 + 10_012).await;
    assert_eq!(second.attempt, 2);
    assert!(
        outbox
            .begin(&[first.held()], 10_000, T0 + 10_013)
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        outbox
            .begin(&[second.held()], 10_000, T0 + 10_013)
            .await
            .unwrap()
            .len(),
        1
    );
    let done = Finish::new(second.held(), Outcome::Done);
    assert!(
        outbox
            .finish(&[done], T0 + 10_014)
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        outbox.finish(&[late], T0 + 10_015).await.unwrap(),
        [first.id]
    );
    let row = get(&setup, first.id).await;
    assert_eq!((row.state, row.tries), (EffectState::Done, 2));
}

#[tokio::test]
async fn an_older_fence_is_refused() {
    let setup = setup().await;
    let outbox = setup.ledger.outbox();
    put(&setup, vec![effect("transfer", "1")]).await;
    let row = take_one(&setup, "transfer", T0 + 10).await;
    assert_eq!(
        outbox
            .begin(&[row.held_with(fence(6))], 10_000, T0 + 11)
            .await
            .unwrap()
            .len(),
        1
    );
    for wrong in [row.held(), row.held_with(fence(5)), row.held_with(fence(7))] {
        let finish = Finish::new(wrong, Outcome::Done);
        assert_eq!(
            outbox.finish(&[finish], T0 + 12).await.unwrap(),
            [row.id],
            "{wrong:?}"
        );
    }
    let again = Finish::new(row.held_with(fence(6)), Outcome::Again { due_ms: T0 + 12 });
    assert!(outbox.finish(&[again], T0 + 12).await.unwrap().is_empty());
    let row = take_one(&setup, "transfer", T0 + 13).await;
    assert_eq!(row.fence, Some(fence(6)));
    assert!(
        outbox
            .begin(&[row.held_with(fence(5))], 10_000, T0 + 14)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(
        outbox
            .begin(&[row.held()], 10_000, T0 + 14)
            .await
            .unwrap()
            .is_empty()
    );
    // What was not begun needs no fence to be given up.
    let newer = Fence {
        generation: 2,
        counter: 1,
    };
    assert_eq!(
        outbox
            .begin(&[row.held_with(newer)], 10_000, T0 + 14)
            .await
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        outbox.greatest_fence(&setup.corp).await.unwrap(),
        Some(newer)
    );
    let done = Finish::new(row.held_with(newer), Outcome::Done);
    assert!(outbox.finish(&[done], T0 + 15).await.unwrap().is_empty());
    assert_eq!(outbox.greatest_fence(&setup.corp).await.unwrap(), None);
}

#[tokio::test]
async fn nobody_begins_after_his_lease_or_twice() {
    let setup = setup().await;
    let outbox = setup.ledger.outbox();
    put(&setup, vec![effect("card", "1")]).await;
    let row = take_one(&setup, "card", T0 + 10).await;
    assert!(
        outbox
            .begin(&[row.held()], 10_000, T0 + 10_010)
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        outbox
            .begin(&[row.held()], 10_000, T0 + 10_009)
            .await
            .unwrap(),
        [row.held()]
    );
    assert!(
        outbox
            .begin(&[row.held()], 10_000, T0 + 10_009)
            .await
            .unwrap()
            .is_empty()
    );
}

/// A claim may be short: what was not begun in it goes back, what was begun has the lease of the call.
#[tokio::test]
async fn the_lease_of_a_call_begins_with_the_call() {
    let setup = setup().await;
    let outbox = setup.ledger.outbox();
    put(
        &setup,
        vec![effect("welcome", "begun"), effect("welcome", "not begun")],
    )
    .await;
    let short = Claim {
        lease_ms: 3_000,
        ..claim("welcome", 9)
    };
    let rows = outbox.claim(&short, T0 + 10).await.unwrap();
    let row = |key: &str| rows.iter().find(|row| row.key == key).unwrap();
    let begun = row("begun").held();
    assert_eq!(
        outbox.begin(&[begun], 15_000, T0 + 3_009).await.unwrap(),
        [begun]
    );
    let reaped = |pending, unknown| Reaped {
        pending,
        unknown,
        failed: 0,
    };
    assert_eq!(
        outbox.reap(&[], 10, T0 + 3_009).await.unwrap(),
        reaped(0, 0)
    );
    assert_eq!(
        outbox.reap(&[], 10, T0 + 3_010).await.unwrap(),
        reaped(1, 0)
    );
    // It comes before what became due meanwhile.
    let back = get(&setup, row("not begun").id).await;
    assert_eq!((back.state, back.due_ms), (EffectState::Pending, T0));
    assert_eq!(
        outbox.reap(&[], 10, T0 + 18_008).await.unwrap(),
        reaped(0, 0)
    );
    assert_eq!(
        outbox.reap(&[], 10, T0 + 18_009).await.unwrap(),
        reaped(0, 1)
    );
    // A shorter lease for the call than what is left of the claim is what the caller asked for.
    let rows = outbox
        .claim(&claim("welcome", 9), T0 + 20_000)
        .await
        .unwrap();
    let again = rows.iter().find(|row| row.key == "not begun").unwrap();
    outbox
        .begin(&[again.held()], 1_000, T0 + 20_001)
        .await
        .unwrap();
    assert_eq!(
        outbox.reap(&[], 10, T0 + 21_001).await.unwrap(),
        reaped(0, 1)
    );
}

/// Who waited too long with a row does not begin it any more. What is unknown is looked up at any time.
#[tokio::test]
async fn nothing_is_begun_after_its_deadline() {
    let setup = setup().await;
    let outbox = setup.ledger.outbox();
    let row = |key: &str| NewEffect {
        deadline_ms: Some(T0 + 1_000),
        ..effect("welcome", key)
    };
    put(&setup, vec![row("late"), row("unknown")]).await;
    let rows = outbox.claim(&claim("welcome", 9), T0 + 10).await.unwrap();
    let held = |rows: &[OutboxRow], key: &str| {
        let row = rows.iter().find(|row| row.key == key).unwrap();
        row.held()
    };
    let (late, lost) = (held(&rows, "late"), held(&rows, "unknown"));
    assert!(
        outbox
            .begin(&[late], 10_000, T0 + 1_000)
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(outbox.begin(&[lost], 100, T0 + 999).await.unwrap(), [lost]);
    let reaped = outbox.reap(&[], 10, T0 + 10_010).await.unwrap();
    assert_eq!(
        reaped,
        Reaped {
            pending: 1,
            unknown: 1,
            failed: 1
        }
    );
    assert_eq!(get(&setup, late.id).await.state, EffectState::Failed);
    let rows = outbox
        .claim(&claim("welcome", 9), T0 + 10_011)
        .await
        .unwrap();
    let lost = held(&rows, "unknown");
    assert_eq!(
        outbox.begin(&[lost], 100, T0 + 10_012).await.unwrap(),
        [lost]
    );
}

#[tokio::test]
async fn what_its_holder_lost_goes_back_or_is_unknown() {
    let setup = setup().await;
    let outbox = setup.ledger.outbox();
    put(
        &setup,
        vec![
            effect("card", "not begun"),
            effect("card", "begun"),
            effect("welcome", "not begun"),
            effect("welcome", "begun"),
        ],
    )
    .await;
    let rows = take_both(&setup, T0 + 10).await;
    let begun: Vec<_> = rows
        .iter()
        .filter(|row| row.key == "begun")
        .map(OutboxRow::held)
        .collect();
    outbox.begin(&begun, 10_000, T0 + 11).await.unwrap();
    let late = NewEffect {
        deadline_ms: Some(T0 + 20),
        erase_payload: true,
        ..effect("welcome", "late")
    };
    put(&setup, vec![late]).await;
    let reaped = outbox.reap(&["card"], 10, T0 + 20_000).await.unwrap();
    assert_eq!(
        reaped,
        Reaped {
            pending: 3,
            unknown: 1,
            failed: 1
        }
    );
    let unknown = outbox.unfinished(Some(&setup.corp)).await.unwrap();
    let view: Vec<_> = unknown
        .iter()
        .map(|row| (row.kind.as_str(), row.state, row.count))
        .collect();
    assert_eq!(
        view,
        [
            ("card", EffectState::Pending, 2),
            ("welcome", EffectState::Pending, 1),
            ("welcome", EffectState::Unknown, 1)
        ]
    );
    let rows = take_both(&setup, T0 + 20_001).await;
    let lost = rows
        .iter()
        .find(|row| row.kind == "welcome" && row.key == "begun")
        .unwrap();
    assert_eq!(lost.unknown_since_ms, Some(T0 + 11));
    assert_eq!(
        setup
            .number("SELECT count(*) FROM outbox WHERE last_error = 'deadline' AND payload = '{}'")
            .await,
        1
    );
    // Lost again while it is looked up: as unknown as before.
    let reaped = outbox.reap(&["card"], 10, T0 + 40_000).await.unwrap();
    assert_eq!(
        reaped,
        Reaped {
            pending: 3,
            unknown: 1,
            failed: 0
        }
    );
    assert_eq!(get(&setup, lost.id).await.unknown_since_ms, Some(T0 + 11));
}

#[tokio::test]
async fn dead_letters_are_listed_and_replayed() {
    let setup = setup().await;
    let outbox = setup.ledger.outbox();
    put(
        &setup,
        (0..7).map(|n| effect("card", &n.to_string())).collect(),
    )
    .await;
    let rows = outbox.claim(&claim("card", 9), T0 + 10).await.unwrap();
    let dead: Vec<_> = rows
        .iter()
        .map(|row| Finish::new(row.held(), Outcome::Dead))
        .collect();
    outbox.finish(&dead, T0 + 20).await.unwrap();
    let page = |cursor| PageRequest { limit: 3, cursor };
    let first = outbox
        .given_up(&setup.corp, GivenUp::Dead, None, &page(None))
        .await
        .unwrap();
    let second = outbox
        .given_up(
            &setup.corp,
            GivenUp::Dead,
            Some("card"),
            &page(first.next.clone()),
        )
        .await
        .unwrap();
    let third = outbox
        .given_up(&setup.corp, GivenUp::Dead, None, &page(second.next.clone()))
        .await
        .unwrap();
    let ids: HashSet<Uuid> = [&first, &second, &third]
        .into_iter()
        .flat_map(|page| &page.items)
        .map(|row| row.id)
        .collect();
    assert_eq!(
        (ids.len(), third.items.len(), third.next.is_none()),
        (7, 1, true)
    );
    let back = outbox
        .given_up(&setup.corp, GivenUp::Dead, None, &page(second.previous))
        .await
        .unwrap();
    assert_eq!(back.items, first.items);
    assert!(
        outbox
            .given_up(&setup.corp, GivenUp::Dead, Some("welcome"), &page(None))
            .await
            .unwrap()
            .items
            .is_empty()
    );
    let one = first.items[0].id;
    assert_eq!(
        outbox
            .replay(&setup.corp, &[one, Uuid::nil()], T0 + 30)
            .await
            .unwrap(),
        [one]
    );
    let row = take_one(&setup, "card", T0 + 30).await;
    assert_eq!((row.id, row.tries, row.settled_ms), (one, 0, None));
}

/// An attempt of unknown outcome that is repeated makes it unknown anew: from when the repetition began.
#[tokio::test]
async fn what_is_sent_again_is_unknown_since_then() {
    let setup = setup().await;
    let outbox = setup.ledger.outbox();
    put(&setup, vec![effect("card", "1")]).await;
    let row = take_one(&setup, "card", T0 + 10).await;
    outbox.begin(&[row.held()], 100, T0 + 10).await.unwrap();
    let unknown = |row: &OutboxRow, due_ms| Finish::new(row.held(), Outcome::Unknown { due_ms });
    outbox
        .finish(&[unknown(&row, T0 + 20)], T0 + 15)
        .await
        .unwrap();
    // Looked for, and not found.
    let row = take_one(&setup, "card", T0 + 20).await;
    outbox
        .finish(&[unknown(&row, T0 + 30)], T0 + 25)
        .await
        .unwrap();
    assert_eq!(get(&setup, row.id).await.unknown_since_ms, Some(T0 + 10));
    let row = take_one(&setup, "card", T0 + 30).await;
    outbox.begin(&[row.held()], 100, T0 + 31).await.unwrap();
    outbox
        .finish(&[unknown(&row, T0 + 40)], T0 + 35)
        .await
        .unwrap();
    assert_eq!(get(&setup, row.id).await.unknown_since_ms, Some(T0 + 31));
    // Nor does a dead holder's attempt count from an earlier one.
    let row = take_one(&setup, "card", T0 + 40).await;
    outbox.begin(&[row.held()], 100, T0 + 41).await.unwrap();
    outbox.reap(&[], 10, T0 + 1_000).await.unwrap();
    assert_eq!(get(&setup, row.id).await.unknown_since_ms, Some(T0 + 41));
}
