//! `dead_replay`, with the lists it works on.

use inbox::{DeadLetter, EntryId, Group, Replayed, Selection};

use crate::support::{Fixture, T0, fixture, read, texts};

async fn kill(f: &Fixture<'_>, group: Group, text: &str) -> DeadLetter {
    f.append(&[text]).await;
    let mut consumer = f.consumer(group, "killer").await;
    let got = read(&mut consumer, 100).await;
    for delivery in got {
        if delivery.plaintext == text {
            for _ in 0..5 {
                f.inbox
                    .fail(group, &[delivery.entry], "bad", Some(T0))
                    .await
                    .unwrap();
            }
        }
    }
    let letters = f
        .inbox
        .dead_list(EntryId::MIN, EntryId::MAX, 1000)
        .await
        .unwrap();
    letters.into_iter().next_back().unwrap()
}

#[tokio::test]
async fn a_letter_comes_back_to_its_group_alone() {
    let f = fixture().await;
    let letter = kill(&f, Group::Decide, "a").await;
    let mut record = f.consumer(Group::Record, "r").await;
    assert_eq!(
        read(&mut record, 10).await.len(),
        1,
        "the other group had its own copy"
    );

    let one = Selection::Ids(vec![letter.id]);
    let dry = f.inbox.dead_replay(&one, true).await.unwrap();
    assert_eq!(
        dry,
        Replayed {
            matched: 1,
            replayed: 0
        }
    );
    let done = f.inbox.dead_replay(&one, false).await.unwrap();
    assert_eq!(
        done,
        Replayed {
            matched: 1,
            replayed: 1
        }
    );
    assert_eq!(
        f.inbox.dead_replay(&one, false).await.unwrap(),
        Replayed::default()
    );

    let mut decide = f.consumer(Group::Decide, "d").await;
    let again = read(&mut decide, 10).await;
    assert_eq!(texts(&again), ["a"]);
    assert_eq!((again[0].id, again[0].received_ms), (letter.delivery, T0));
    assert_eq!(again[0].tries, 0);
    decide.ack(&again).await.unwrap();
    let rest = read(&mut record, 10).await;
    assert_eq!(
        texts(&rest),
        ["a"],
        "only the old one, which is still pending"
    );
    record.ack(&rest).await.unwrap();
    assert!(read(&mut record, 10).await.is_empty());
    assert_eq!(
        f.inbox.stats(None).await.unwrap().record.pending,
        0,
        "acknowledged unseen"
    );
    f.inbox.trim().await.unwrap();
    assert_eq!(f.inbox.stats(None).await.unwrap().length, 0);
}

#[tokio::test]
async fn ranges_and_second_deaths() {
    let f = fixture().await;
    let mut letters = Vec::new();
    for text in ["a", "b", "c"] {
        letters.push(kill(&f, Group::Record, text).await);
    }
    let range = Selection::Range {
        from: letters[1].id,
        to: EntryId::MAX,
    };
    assert_eq!(f.inbox.dead_replay(&range, true).await.unwrap().matched, 2);
    assert_eq!(
        f.inbox.dead_replay(&range, false).await.unwrap().replayed,
        2
    );
    assert_eq!(f.inbox.stats(None).await.unwrap().dead, 1);

    // Dies again: the letter is whole, and can be replayed again.
    let mut consumer = f.consumer(Group::Record, "one").await;
    let got = read(&mut consumer, 10).await;
    assert_eq!(texts(&got), ["b", "c"]);
    for _ in 0..5 {
        f.inbox
            .fail(Group::Record, &[got[0].entry], "again", Some(T0))
            .await
            .unwrap();
    }
    let letters = f
        .inbox
        .dead_list(EntryId::MIN, EntryId::MAX, 10)
        .await
        .unwrap();
    assert_eq!(letters[1].plaintext, "b");
    assert_eq!(letters[1].reason, "again");
    f.inbox
        .dead_replay(&Selection::Ids(vec![letters[1].id]), false)
        .await
        .unwrap();
    assert_eq!(
        f.inbox
            .dead_remove(&[letters[0].id, letters[1].id])
            .await
            .unwrap(),
        1
    );
    assert_eq!(f.inbox.dead_remove(&[]).await.unwrap(), 0);
    assert_eq!(f.inbox.stats(None).await.unwrap().dead, 0);
}

#[tokio::test]
async fn a_range_longer_than_a_page_is_replayed_whole() {
    let f = fixture().await;
    let names: Vec<String> = (0..450).map(|n| n.to_string()).collect();
    f.append(&names.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    let mut consumer = f.consumer(Group::Decide, "one").await;
    let got = read(&mut consumer, 450).await;
    let entries: Vec<_> = got.iter().map(|delivery| delivery.entry).collect();
    for _ in 0..5 {
        f.inbox
            .fail(Group::Decide, &entries, "bad", Some(T0))
            .await
            .unwrap();
    }
    let all = Selection::Range {
        from: EntryId::MIN,
        to: EntryId::MAX,
    };
    assert_eq!(f.inbox.dead_replay(&all, true).await.unwrap().matched, 450);
    let done = f.inbox.dead_replay(&all, false).await.unwrap();
    assert_eq!(
        done,
        Replayed {
            matched: 450,
            replayed: 450
        }
    );
    assert_eq!(read(&mut consumer, 500).await.len(), 450);
}
