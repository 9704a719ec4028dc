//! `trim`.

use inbox::Group;

use crate::support::{fixture, read};

#[tokio::test]
async fn only_what_both_groups_are_done_with_goes() {
    let f = fixture().await;
    assert_eq!(f.inbox.trim().await.unwrap(), 0, "no stream");
    f.append(&["a", "b", "c", "d"]).await;
    assert_eq!(f.inbox.trim().await.unwrap(), 0, "no groups");
    let mut record = f.consumer(Group::Record, "r").await;
    let recorded = read(&mut record, 4).await;
    record.ack(&recorded).await.unwrap();
    assert_eq!(
        f.inbox.trim().await.unwrap(),
        0,
        "the other group has read nothing"
    );
    let mut decide = f.consumer(Group::Decide, "d").await;
    let decided = read(&mut decide, 3).await;
    assert_eq!(f.inbox.trim().await.unwrap(), 0, "read is not acknowledged");
    f.inbox
        .ack(Group::Decide, &[decided[0].entry, decided[2].entry])
        .await
        .unwrap();
    assert_eq!(
        f.inbox.trim().await.unwrap(),
        1,
        "b is pending and holds back c"
    );
    f.inbox
        .ack(Group::Decide, &[decided[1].entry])
        .await
        .unwrap();
    assert_eq!(
        f.inbox.trim().await.unwrap(),
        2,
        "d was never given to decide"
    );
    assert_eq!(f.inbox.stats(None).await.unwrap().length, 1);
}
