//! `forget_consumers`.

use inbox::Group;

use crate::support::{fixture_with, patient, read};

#[tokio::test]
async fn whoever_holds_something_is_kept() {
    let f = fixture_with(patient()).await;
    f.append(&["a", "b"]).await;
    let mut holder = f.consumer(Group::Decide, "holder").await;
    let mut free = f.consumer(Group::Decide, "free").await;
    assert_eq!(read(&mut holder, 1).await.len(), 1);
    let got = read(&mut free, 1).await;
    free.ack(&got).await.unwrap();
    assert_eq!(
        f.inbox
            .forget_consumers(Group::Decide, 3_600_000)
            .await
            .unwrap(),
        0
    );
    assert_eq!(f.inbox.forget_consumers(Group::Decide, 0).await.unwrap(), 1);
    let stats = f.inbox.stats(None).await.unwrap();
    assert_eq!((stats.decide.consumers, stats.decide.pending), (1, 1));
    assert!(
        f.inbox.forget_consumers(Group::Record, 0).await.is_err(),
        "no such group"
    );
}
