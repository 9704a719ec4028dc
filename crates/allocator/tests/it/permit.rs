//! One permit, one call of WeCom.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use allocation::CorpId;
use allocator::handover::end;
use axum::{Json, Router, extract::RawQuery, routing::get};
use serde_json::{Value, json};
use wecom::client::api;

use crate::api_support::{Options, World, serve};

/// A customer whose followers are on this many pages.
const PAGES: usize = 3;

/// A WeCom that tells a customer page by page and counts the calls.
async fn wecom(calls: Arc<AtomicUsize>) -> String {
    let token = json!({"errcode": 0, "errmsg": "ok", "access_token": "t", "expires_in": 7200});
    let customer = async move |RawQuery(query): RawQuery| {
        calls.fetch_add(1, Ordering::Relaxed);
        let query = query.unwrap_or_default();
        let page: usize = query
            .split_once("cursor=page")
            .map_or(0, |(_, page)| page[..1].parse().unwrap());
        let next = if page + 1 < PAGES {
            format!("page{}", page + 1)
        } else {
            String::new()
        };
        let follower = json!({"userid": format!("m{page}"), "createtime": 1_700_000_000 + page});
        Json::<Value>(
            json!({"errcode": 0, "errmsg": "ok", "follow_user": [follower], "next_cursor": next,
            "external_contact": {"external_userid": "wmC001", "name": "x", "type": 1}}),
        )
    };
    let router = Router::new()
        .route("/cgi-bin/gettoken", get(async || Json(token)))
        .route("/cgi-bin/externalcontact/get", get(customer));
    format!("http://{}", serve(router).await)
}

async fn world(config: &str, calls: &Arc<AtomicUsize>) -> World {
    let corp = CorpId::new(test_redis::corp()).unwrap();
    let options = Options {
        config: config.to_owned(),
        wecom: Some((corp, wecom(Arc::clone(calls)).await)),
        ..Options::default()
    };
    World::with(1, options).await
}

#[tokio::test]
async fn every_page_of_a_customer_is_a_call_within_the_budget() {
    let calls = Arc::default();
    let world = world("", &calls).await;
    let (app, corp) = (world.app(), world.corp_app());
    let relations = end::relations(app, corp, "wmC001").await.unwrap();
    let followers: Vec<&str> = relations.iter().map(|one| one.userid.as_str()).collect();
    assert_eq!(followers, ["m0", "m1", "m2"]);
    assert_eq!(calls.load(Ordering::Relaxed), PAGES);
    let usage = app.quota.usage(corp.id.as_str(), None).await.unwrap();
    let of_get = usage.iter().find(|usage| usage.api == api::GET_CUSTOMER);
    assert_eq!(of_get.unwrap().minute_used, PAGES as i64);
    assert_eq!(of_get.unwrap().in_flight, 0);
}

#[tokio::test]
async fn no_page_is_read_beyond_the_budget() {
    let calls = Arc::default();
    let config =
        "[quota]\nshare_percent = 100\n[quota.apis.\"externalcontact/get\"]\nper_minute = 2";
    let world = world(config, &calls).await;
    let (app, corp) = (world.app(), world.corp_app());
    let refused = end::relations(app, corp, "wmC001").await.unwrap_err();
    assert!(matches!(refused, end::Error::Budget { .. }), "{refused}");
    let n_calls = calls.load(Ordering::Relaxed);
    assert!((1..=2).contains(&n_calls), "{n_calls}");
}
