//! A member who is blocked, or has left, is shown to nobody any more, also not to those who had seen him.

use std::collections::BTreeSet;

use allocation::{MemberId, Reason, SetMember};
use allocator::{
    people,
    reception::visits::{Hold, Visited, Wanted, visit},
};
use futures_util::future::join_all;
use ledger::VisitEnd;
use reqwest::{StatusCode, header};
use serde_json::{Value, json};

use crate::{
    api_support::{Console, Options, World},
    public_desk::{channel_of, pages},
    public_stage::Html,
    visits::{adds, ended, held, opens, row, visitor, world},
};

async fn block(console: &Console, member: &MemberId, why: Value) {
    let path = format!("/members/{member}");
    console.put(&path, json!({"blocked": why})).await.ok();
}

/// What became of a hold whose member was blocked.
async fn is_ended(world: &World, hold: &Hold) {
    world.written().await;
    let visit = ended(world, hold.allocation).await;
    assert_eq!(visit.ended_as, Some(VisitEnd::Closed));
    let row = row(world, hold.allocation).await;
    assert_eq!(row.close_reason.as_deref(), Some("member_blocked"));
    assert_eq!(row.member.as_ref(), Some(&hold.member));
}

#[tokio::test]
async fn who_was_blocked_is_shown_to_nobody_any_more() {
    let (world, console) = world().await;
    let first = held(&world, "v1").await;
    // Only off: he is still there for those who have his code.
    let off = json!({"members": [{"member": first.member.as_str(), "online": false}]});
    console.put("/presence", off).await.ok();
    assert_eq!(held(&world, "v1").await, first);
    console.on(&[first.member.as_str()]).await;
    block(&console, &first.member, json!("ill")).await;
    let second = held(&world, "v1").await;
    assert_ne!(second.member, first.member);
    assert_ne!(second.allocation, first.allocation);
    assert!(second.slot.is_some() && second.slot != first.slot);
    for _ in 0..3 {
        assert_eq!(held(&world, "v1").await, second);
    }
    is_ended(&world, &first).await;
    let visits = world.app().ledger.visits();
    let counts = visits.counts(&world.corp, 0).await.unwrap();
    assert_eq!((counts.live, counts.total), (1, 2));
    world.check().await;
    // He comes by the code of the first all the same: it is he who has him, and the second is free again.
    let slot = first.slot.clone().unwrap();
    adds(&world, "wmC1", first.member.as_str(), slot.as_str()).await;
    let visit = ended(&world, second.allocation).await;
    assert_eq!(visit.ended_as, Some(VisitEnd::Mismatched));
    let new = row(&world, visit.next_allocation.unwrap()).await;
    assert_eq!(new.member.as_ref(), Some(&first.member));
    world.check().await;
    // What he has added stays his, blocked or not.
    let met = opens(&world, "v1").await;
    assert!(matches!(met, Visited::Met { member, .. } if member == first.member));
}

/// As when WeCom says that he has left and what he had is not ended yet; nobody else is there.
#[tokio::test]
async fn where_nobody_else_is_the_visitor_waits() {
    let (world, console) = world().await;
    let off = |names: &[&str]| -> Value {
        let off = names.iter();
        off.map(|name| json!({"member": name, "online": false}))
            .collect()
    };
    let away = json!({"members": off(&["mb", "mc"])});
    console.put("/presence", away).await.ok();
    let first = held(&world, "v1").await;
    assert_eq!(first.member.as_str(), "ma");
    let left = Reason::new("left").unwrap();
    let left = SetMember::capped(first.member.clone(), None, Some(left));
    let roster = &world.corp_app().roster;
    roster.set_member(left, "", None).await.unwrap();
    let Visited::Waiting { allocation, .. } = opens(&world, "v1").await else {
        panic!("nobody else is there");
    };
    let again = opens(&world, "v1").await;
    assert!(matches!(again, Visited::Waiting { allocation: same, .. } if same == allocation));
    is_ended(&world, &first).await;
    console.on(&["mb"]).await;
    let second = held(&world, "v1").await;
    assert_eq!(
        (second.allocation, second.member.as_str()),
        (allocation, "mb")
    );
    world.check().await;
}

/// Both allocators, all at once: the first who comes ends it, and there is one new hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tabs_at_once_are_one_new_hold() {
    let world = World::with(2, Options::default()).await;
    let console = world.operator().await;
    let members: Vec<(&str, f64)> = vec![("ma", 1.0), ("mb", 1.0), ("mc", 1.0)];
    channel_of(&world, &members).await;
    let channel = allocation::ChannelId::new("c1").unwrap();
    for node in &world.nodes {
        people::refresh(&node.app, node.corp()).await.unwrap();
    }
    let opens = async |tab: usize| {
        let node = &world.nodes[tab % 2];
        let (corp, visitor) = (node.corp(), visitor("v1"));
        let seen = visit(&node.app, corp, &channel, &visitor, Wanted::default());
        match seen.await.unwrap() {
            Visited::Held(hold) => hold,
            other => panic!("{other:?}"),
        }
    };
    let mut shown = vec![opens(0).await];
    // He is blocked, then so is the next one.
    for n in 1..=2 {
        let last = shown.last().unwrap().clone();
        block(&console, &last.member, json!("ill")).await;
        let tabs = join_all((0..50).map(&opens)).await;
        assert!(tabs.iter().all(|hold| *hold == tabs[0]), "{tabs:?}");
        assert_ne!(tabs[0].member, last.member);
        is_ended(&world, &last).await;
        shown.push(tabs[0].clone());
        let visits = world.app().ledger.visits();
        let counts = visits.counts(&world.corp, 0).await.unwrap();
        assert_eq!((counts.live, counts.total), (1, 1 + n));
    }
    let members: BTreeSet<&MemberId> = shown.iter().map(|hold| &hold.member).collect();
    assert_eq!(members.len(), 3);
    world.check().await;
}

/// The page, its script, and the same over REST.
#[tokio::test]
async fn pages_show_somebody_else() {
    let world = World::new().await;
    let console = world.operator().await;
    let members = [("XiaoMing", 1.0), ("LiSi", 1.0)];
    let code = channel_of(&world, &members).await;
    let addr = pages(&world, 0).await;
    let http = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    let page = format!("http://{addr}/c/{code}?lang=en");
    let first = http.get(&page).send().await.unwrap();
    assert_eq!(first.status(), StatusCode::SEE_OTHER);
    let cookie = first.headers()[header::SET_COOKIE].to_str().unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let get = async |path: &str| {
        let answer = http.get(path).header(header::COOKIE, &cookie);
        let answer = answer.send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        answer.text().await.unwrap()
    };
    let shown = async || {
        let text = Html::read(&get(&page).await).text;
        let mut shown = members.iter().filter(|(name, _)| text.contains(name));
        let (name, _) = shown.next().unwrap_or_else(|| panic!("{text}"));
        assert!(shown.next().is_none(), "{text}");
        *name
    };
    let status = async || {
        let status = get(&format!("http://{addr}/c/{code}/status")).await;
        let status: Value = serde_json::from_str(&status).unwrap();
        assert_eq!(status["state"], "held");
        status["seen"].clone()
    };
    let (before, seen) = (shown().await, status().await);
    assert_eq!((shown().await, status().await), (before, seen.clone()));
    let body = json!({"visitor": {"kind": "unionid", "id": "oUnion1"}, "prefer": before});
    let visits = "/channels/c1/visits";
    let over_rest = console.post(visits, body.clone()).await.ok();
    assert_eq!(over_rest["member"], before);
    block(&console, &MemberId::new(before).unwrap(), json!("ill")).await;
    assert_ne!(status().await, seen);
    let after = shown().await;
    assert_ne!(after, before);
    let again = console.post(visits, body).await.ok();
    assert_eq!(
        (&again["member"], &again["state"]),
        (&json!(after), &json!("held"))
    );
    assert_ne!(again["allocation_id"], over_rest["allocation_id"]);
    world.written().await;
    let id = over_rest["allocation_id"].as_str().unwrap();
    let record = console.get(&format!("/visits/{id}")).await.ok();
    assert_eq!(record["ended_as"], "closed");
    let allocation = console.get(&format!("/allocations/{id}")).await.ok();
    assert_eq!(allocation["close_reason"], "member_blocked");
    world.check().await;
}
