//! The pages with the program behind them: channels of Postgres, decisions of Redis.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use allocation::ChannelId;
use allocator::{
    clock,
    public::{
        self, Site,
        app_desk::AppDesk,
        desk::{Away, Desk, Door, Of, Place, Visited},
        identity::Keys,
    },
};
use reqwest::{StatusCode, header};
use serde_json::json;

use crate::{
    api_support::World,
    public_stage::{Html, KEY},
};

fn desk(world: &World, node: usize) -> AppDesk {
    AppDesk::new(Arc::clone(world.app_at(node)))
}

/// Looks until Postgres answered in time, which is short.
async fn found(desk: &AppDesk, code: &str) -> Place {
    loop {
        if let Some(place) = desk.place(Door::Channel, code).await.unwrap() {
            return place;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A channel with a page and a member who is there; its code.
async fn channel(world: &World) -> String {
    channel_of(world, &[("XiaoMing", 1.0)]).await
}

/// With these members.
pub(crate) async fn channel_of(world: &World, members: &[(&str, f64)]) -> String {
    let console = world.operator().await;
    world.pool(&console, "p1", members).await;
    let visits = json!({"slots_per_member": 0, "hold_seconds": 600, "title": "Spring"});
    let channel = json!({"name": "x", "pool": "p1", "visits": visits});
    let put = console.put("/channels/c1", channel).await.ok();
    put["public_code"].as_str().unwrap().to_owned()
}

/// The pages of one of the allocators.
pub(crate) async fn pages(world: &World, node: usize) -> SocketAddr {
    let site = Site::new(
        &world.app_at(node).config.public,
        Keys::parse(KEY).unwrap(),
        Arc::new(desk(world, node)),
        clock::system(),
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let service = public::router(site).into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    addr
}

#[tokio::test]
async fn a_visitor_sees_the_member_whom_he_has() {
    let world = World::new().await;
    let code = channel(&world).await;
    let addr = pages(&world, 0).await;
    let http = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    let page = format!("http://{addr}/c/{code}?lang=en");
    let first = http.get(&page).send().await.unwrap();
    assert_eq!(first.status(), StatusCode::SEE_OTHER);
    let cookie = first.headers()[header::SET_COOKIE].to_str().unwrap();
    let cookie = cookie.split(';').next().unwrap();
    for _ in 0..2 {
        let answer = http.get(&page).header(header::COOKIE, cookie);
        let answer = answer.send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        let html = Html::read(&answer.text().await.unwrap());
        assert!(html.text.contains("Spring"), "{}", html.text);
        assert!(html.text.contains("XiaoMing"), "{}", html.text);
    }
    // By the name that he has for visitors.
    let console = world.operator().await;
    let named = json!({"display_name": " 小明 "});
    let put = console.put("/members/XiaoMing", named).await.ok();
    assert_eq!(
        (&put["display_name"], &put["userid"]),
        (&json!("小明"), &json!("XiaoMing"))
    );
    allocator::people::refresh(world.app(), world.corp_app())
        .await
        .unwrap();
    let answer = http.get(&page).header(header::COOKIE, cookie);
    let html = Html::read(&answer.send().await.unwrap().text().await.unwrap());
    assert!(html.text.contains("小明"), "{}", html.text);
    assert!(!html.text.contains("XiaoMing"), "{}", html.text);
    world.check().await;
    let member = [crate::public_stage::member()];
    let loads = world.corp_app().roster.members(&member).await.unwrap();
    assert_eq!(loads[0].load, 1);
}

/// Made over one allocator, it is found by another one that was not told.
#[tokio::test]
async fn a_page_that_another_process_made_is_found() {
    let world = World::with(2, crate::api_support::Options::default()).await;
    let code = channel(&world).await;
    let desk = desk(&world, 1);
    assert!(world.app_at(1).corps.values().all(|corp| {
        let routes = corp.routes();
        routes.by_public_code(&code).is_none()
    }));
    let place = found(&desk, &code).await;
    assert_eq!(place.corp, world.corp);
    assert_eq!(place.of, Of::Channel(ChannelId::new("c1").unwrap()));
    assert_eq!((place.title.as_str(), place.open), ("Spring", true));
    assert_eq!(desk.place(Door::Channel, "nobodys-code").await, Ok(None));
    // Off is not gone.
    let console = world.operator().await;
    let off = json!({"name": "x", "pool": "p1"});
    console.put("/channels/c1", off).await.ok();
    let desk = self::desk(&world, 0);
    let place = desk.place(Door::Channel, &code).await.unwrap().unwrap();
    assert!(!place.open);
    let visited = desk.visit(&place, "0123456789abcdef").await;
    assert_eq!(visited, Ok(Visited::Off));
}

#[tokio::test]
async fn somebody_waits_when_nobody_is_there_and_a_closed_corp_is_away() {
    let world = World::new().await;
    let code = channel(&world).await;
    let console = world.operator().await;
    let off = json!({"members": [{"member": "XiaoMing", "online": false}]});
    console.put("/presence", off).await.ok();
    let desk = desk(&world, 0);
    let place = desk.place(Door::Channel, &code).await.unwrap().unwrap();
    let visited = desk.visit(&place, "0123456789abcdef").await.unwrap();
    let Visited::Waiting { allocation, .. } = visited else {
        panic!("{visited:?}")
    };
    let again = desk.visit(&place, "0123456789abcdef").await.unwrap();
    assert!(matches!(again, Visited::Waiting { allocation: same, .. } if same == allocation));
    let other = desk.visit(&place, "fedcba9876543210").await.unwrap();
    assert!(matches!(other, Visited::Waiting { allocation: another, .. } if another != allocation));
    // Its key that says it is whole is gone.
    let mut redis = world.app().redis.clone();
    let ready = format!("{{{}}}:v1:ready", world.corp);
    let () = redis::cmd("DEL")
        .arg(ready)
        .query_async(&mut redis)
        .await
        .unwrap();
    assert_eq!(desk.visit(&place, "0011223344556677").await, Err(Away));
}
