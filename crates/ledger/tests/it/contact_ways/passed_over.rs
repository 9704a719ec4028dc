//! Whom visits pass over, because WeCom refuses his ways.

use ledger::{Asked, Refusal, Refused};

use super::{LIMITS, all_ready, ask, plan, put_channel, put_member, put_pool, ways, with_slots};
use crate::setup::{Setup, T0};

/// Whom visits of the channel pass over, and whether somebody else is left.
async fn passed_over(setup: &Setup, no_room: bool) -> Option<(Vec<String>, bool)> {
    let ways = ways(setup);
    let found = ways.passed_over(&setup.corp, no_room).await.unwrap();
    assert!(found.len() <= 1, "{found:?}");
    let due = ways.due(&setup.corp, 1, T0).await.unwrap();
    assert!(no_room || due.passes_over || found.is_empty());
    let found = found.into_iter().next()?;
    assert_eq!(found.channel.as_str(), "page");
    let members = found.members.iter().map(ToString::to_string);
    Some((members.collect(), found.others))
}

async fn refuse(setup: &Setup, asked: &Asked, passes_over: Option<Refused>) {
    let refusal = Refusal {
        error: "no".into(),
        next_try_ms: T0,
        fails: passes_over == Some(Refused::Member),
        pauses_member: passes_over == Some(Refused::Member),
        passes_over,
        ..Refusal::default()
    };
    ways(setup)
        .refused(&setup.corp, &asked.way, asked.attempt, &refusal)
        .await
        .unwrap();
}

async fn make(setup: &Setup, asked: &Asked) {
    let config = format!("cfg-{}", asked.way);
    ways(setup)
        .made(&setup.corp, &asked.way, asked.attempt, &config, None, T0)
        .await
        .unwrap();
}

async fn picture(setup: &Setup, asked: &Asked) {
    let shown = ways(setup)
        .pictured(
            &setup.corp,
            &asked.way,
            "http://qr",
            b"png",
            "image/png",
            T0,
        )
        .await
        .unwrap();
    assert!(shown);
}

/// A refusal counts while its member has nothing to show; what says nothing about that changes nothing.
#[tokio::test]
async fn who_is_refused_is_passed_over_until_he_can_be_shown() {
    let setup = with_slots(1).await;
    plan(&setup, LIMITS, T0).await;
    assert_eq!(
        passed_over(&setup, false).await,
        None,
        "nobody was asked for"
    );
    let first = ask(&setup, T0).await.unwrap();
    let his = first.member.to_string();
    refuse(&setup, &first, Some(Refused::Member)).await;
    let only_him = Some((vec![his.clone()], true));
    assert_eq!(passed_over(&setup, false).await, only_him);
    // The other one is asked for too fast, then the corp is full: he has nothing either.
    let mut other = ask(&setup, T0).await.unwrap();
    assert_ne!(other.member, first.member);
    let plain = other.way.clone();
    refuse(&setup, &other, None).await;
    assert_eq!(passed_over(&setup, false).await, only_him);
    other = ask(&setup, T0).await.unwrap();
    assert_eq!(other.way, plain);
    refuse(&setup, &other, Some(Refused::Corp)).await;
    let both = Some((vec!["ma".to_owned(), "mb".to_owned()], false));
    assert_eq!(passed_over(&setup, false).await, both);
    // While he is asked for again, and until his picture is there, he cannot be shown.
    other = ask(&setup, T0).await.unwrap();
    assert_eq!(
        (&other.way, passed_over(&setup, false).await),
        (&plain, both.clone())
    );
    make(&setup, &other).await;
    assert_eq!(passed_over(&setup, false).await, both);
    picture(&setup, &other).await;
    assert_eq!(passed_over(&setup, false).await, only_him);
    // One way that can be shown is enough.
    plan(&setup, LIMITS, T0).await;
    let mut again = ask(&setup, T0).await.unwrap();
    while again.member != first.member {
        again = ask(&setup, T0).await.unwrap();
    }
    make(&setup, &again).await;
    picture(&setup, &again).await;
    assert_eq!(passed_over(&setup, false).await, None);
}

/// Who has no row under a limit that is reached has nothing to wait for; who is blocked is nobody's.
#[tokio::test]
async fn who_has_no_room_is_passed_over() {
    let setup = with_slots(0).await;
    plan(&setup, LIMITS, T0).await;
    all_ready(&setup, T0).await;
    put_member(&setup, "mc", None).await;
    put_pool(&setup, &["ma", "mb", "mc"]).await;
    assert_eq!(passed_over(&setup, false).await, None);
    let newcomer = Some((vec!["mc".to_owned()], true));
    assert_eq!(passed_over(&setup, true).await, newcomer);
    put_member(&setup, "mc", Some("on_leave")).await;
    assert_eq!(passed_over(&setup, true).await, None);
    put_member(&setup, "mc", None).await;
    plan(&setup, LIMITS, T0).await;
    assert_eq!(passed_over(&setup, true).await, None, "his way is wanted");
    put_channel(&setup, None).await;
    assert_eq!(passed_over(&setup, true).await, None);
}
