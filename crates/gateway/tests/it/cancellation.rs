//! Senders that go away in the middle.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::harness::{
    App, Setup,
    client::{message, read_to_end},
    setup::event,
    stored, wait_until,
};

/// Case 114: every third sender leaves 0 to 5 ms after sending. Everybody else gets the answer to his own request, and
/// what was acknowledged is stored, once.
#[tokio::test]
async fn an_answer_never_belongs_to_another_request() {
    const CALLBACKS: usize = 1500;
    let redis = test_redis::shared();
    let app = Arc::new(App::new());
    let gateway = Setup::new(&redis.url())
        .endpoint("sales", &app)
        .start()
        .await;
    let addr = gateway.addr;
    let places = Arc::new(tokio::sync::Semaphore::new(64));
    let send = |index: usize| {
        let (app, places) = (Arc::clone(&app), Arc::clone(&places));
        async move {
            let _place = places.acquire().await.unwrap();
            let plaintext = event(&app.corp, &format!("wm{index}"));
            let (query, body) = app.seal(&plaintext, &index.to_string());
            // Every fifth is refused: its answer must not go to anybody else.
            let query = if index.is_multiple_of(5) {
                query.replace("msg_signature=", "msg_signature=0")
            } else {
                query
            };
            let request = message(
                "POST",
                &format!("/callback/sales?{query}"),
                &[],
                body.as_bytes(),
            );
            let mut stream = TcpStream::connect(addr).await.unwrap();
            stream.write_all(&request).await.unwrap();
            if index.is_multiple_of(3) {
                tokio::time::sleep(Duration::from_millis(index as u64 % 6)).await;
                return None;
            }
            let reply = read_to_end(&mut stream).await.expect("an answer");
            assert_eq!(
                reply.status,
                if index.is_multiple_of(5) { 403 } else { 200 },
                "{index}"
            );
            (reply.status == 200).then_some(plaintext)
        }
    };
    let tasks: Vec<_> = (0..CALLBACKS)
        .map(|index| tokio::spawn(send(index)))
        .collect();
    let mut acknowledged = BTreeSet::new();
    for task in tasks {
        acknowledged.extend(task.await.unwrap());
    }
    let depth = format!("gateway_queue_depth{{corp=\"{}\"}}", app.corp);
    wait_until("nothing waits", async || {
        gateway.metric(&depth).await == 0.0
    })
    .await;
    gateway.wait_for_metric("gateway_connections", 0.0).await;
    gateway.finish().await.unwrap();

    let stored = stored::plaintexts(redis, &app.corp).await;
    let distinct: BTreeSet<_> = stored.iter().cloned().collect();
    assert_eq!(distinct.len(), stored.len(), "each once");
    assert!(
        acknowledged.is_subset(&distinct),
        "acknowledged but not stored"
    );
    assert!(acknowledged.len() > CALLBACKS / 2, "{}", acknowledged.len());
    let refused = event(&app.corp, "wm5");
    assert!(!distinct.contains(&refused));
}
