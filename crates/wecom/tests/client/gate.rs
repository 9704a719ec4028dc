//! When WeCom refuses the app as such.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wecom::Error;
use wecom::error::Class;

use crate::stub::{Answer, Stub};
use crate::support::{ManualClock, client_at};

const API: &str = "externalcontact/get_follow_user_list";

/// Case 49: 60020 to everything for two minutes, a queue of a hundred jobs that all ask every second.
#[tokio::test]
async fn an_untrusted_address_is_probed_slowly_and_jobs_wait() {
    let mended = Arc::new(AtomicBool::new(false));
    let stub = Stub::start({
        let mended = mended.clone();
        move |_| {
            if mended.load(Ordering::SeqCst) {
                Answer::ok()
            } else {
                Answer::error(60020)
            }
        }
    })
    .await;
    let clock = ManualClock::new();
    let (client, _) = client_at(&stub, &clock);
    let first = client.get_follow_user_list().await.unwrap_err();
    assert!(
        matches!(&first, Error::Api { from_ip: Some(ip), .. } if ip.to_string() == "198.51.100.7")
    );
    assert_eq!(first.class(), Class::PermanentConfig);
    for _second in 0..120 {
        for _job in 0..100 {
            let error = client.get_follow_user_list().await.unwrap_err();
            assert!(error.stops_the_app(), "{error}");
            assert_eq!(error.errcode(), Some(60020), "the alarm can name it");
        }
        clock.advance(1_000);
    }
    assert!(
        (3..=8).contains(&stub.count(API)),
        "{} calls in two minutes",
        stub.count(API)
    );
    assert_eq!(stub.gettoken_count(), 1);
    mended.store(true, Ordering::SeqCst);
    clock.advance(60_000);
    for _job in 0..100 {
        client.get_follow_user_list().await.unwrap();
    }
}

/// A hundred calls under way when the first refusal comes count as one.
#[tokio::test]
async fn calls_under_way_do_not_lengthen_the_pause() {
    let stub = Stub::start(|_| Answer::error(60020)).await;
    let clock = ManualClock::new();
    let (client, _) = client_at(&stub, &clock);
    client.ensure_token().await.unwrap();
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.get_follow_user_list().await })
        })
        .collect();
    for call in calls {
        assert!(call.await.unwrap().unwrap_err().stops_the_app());
    }
    let Err(Error::Blocked { until_ms, .. }) = client.get_follow_user_list().await else {
        panic!("open")
    };
    assert!(until_ms <= crate::support::T0_MS + 5_000);
}

/// A refusal of one API or one member says nothing about the app.
#[tokio::test]
async fn other_refusals_do_not_close_the_way() {
    let stub = Stub::start(|call| match call.api.as_str() {
        "user/get" => Answer::error(60111),
        "getcallbackip" => Answer::error(48002),
        _ => Answer::ok(),
    })
    .await;
    let clock = ManualClock::new();
    let (client, _) = client_at(&stub, &clock);
    assert_eq!(
        client.get_user("gone").await.unwrap_err().errcode(),
        Some(60111)
    );
    assert_eq!(
        client.get_callback_ip().await.unwrap_err().errcode(),
        Some(48002)
    );
    client.get_follow_user_list().await.unwrap();
}
