//! Who is a visitor: a browser that keeps its cookie, or somebody without who pressed the button. Nobody else takes a
//! place.

use std::collections::BTreeSet;

use base64::{Engine, engine::general_purpose::STANDARD};
use futures_util::future::join_all;
use metrics_exporter_prometheus::PrometheusBuilder;
use reqwest::StatusCode;

use crate::public_stage::{CODE, KEY, OTHER, Stage, Wishes, strict};

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

fn path() -> String {
    format!("/c/{CODE}")
}

#[tokio::test]
async fn a_browser_gets_its_cookie_and_then_its_page_at_the_plain_address() {
    let stage = Stage::new().await;
    let first = stage.get(&path(), &[]).await;
    strict(&first);
    assert_eq!(first.header("cache-control"), "no-store");
    let bounce = first.location();
    assert!(bounce.starts_with(&format!("{}?v=", path())), "{bounce}");
    let [cookie] = first.set_cookies()[..] else {
        panic!("{:?}", first.set_cookies())
    };
    for attribute in ["HttpOnly", "SameSite=Lax", "Path=/c/", "Max-Age=2592000"] {
        assert!(cookie.contains(&format!("; {attribute}")), "{cookie}");
    }
    assert!(!cookie.contains("Secure"), "{cookie}");
    let cookies = first.cookies();
    let second = stage.get(&bounce, &[("cookie", &cookies)]).await;
    assert_eq!(second.location(), path());
    assert!(second.set_cookies().is_empty());
    assert_eq!(stage.visits(), [""; 0]);
    let page = stage.get(&path(), &[("cookie", &cookies)]).await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.set_cookies().is_empty());
    let again = stage.get(&path(), &[("cookie", &cookies)]).await;
    assert_eq!(again.status, StatusCode::OK);
    let [one, other] = &stage.visits()[..] else {
        panic!("{:?}", stage.visits())
    };
    assert_eq!(one, other);
    assert_eq!(one.len(), 32);
}

#[tokio::test]
async fn over_tls_the_cookies_are_secure() {
    let wishes = Wishes {
        base_url: "https://go.example.com",
        ..Wishes::default()
    };
    let stage = Stage::with(wishes).await;
    let first = stage.get(&format!("{}?lang=en", path()), &[]).await;
    let cookies = first.set_cookies();
    assert_eq!(cookies.len(), 2);
    assert!(
        cookies.iter().all(|line| line.contains("; Secure")),
        "{cookies:?}"
    );
    // The choice of language is not lost on the way.
    assert!(
        first.location().ends_with("&lang=en"),
        "{}",
        first.location()
    );
}

#[tokio::test]
async fn fifty_tabs_with_the_cookie_are_one_visitor() {
    let stage = Stage::new().await;
    let cookies = stage.browser(CODE).await;
    let path = path();
    let headers = [("cookie", cookies.as_str())];
    let pages = join_all((0..50).map(|_| stage.get(&path, &headers))).await;
    assert!(pages.iter().all(|page| page.status == StatusCode::OK));
    let visitors: BTreeSet<String> = stage.visits().into_iter().collect();
    assert_eq!((stage.visits().len(), visitors.len()), (50, 1));
}

#[tokio::test]
async fn fifty_requests_that_do_not_follow_take_nobodys_place() {
    let stage = Stage::new().await;
    let path = path();
    let pages = join_all((0..50).map(|_| stage.get(&path, &[]))).await;
    let cookies: BTreeSet<String> = pages.iter().map(|page| page.cookies()).collect();
    assert_eq!(cookies.len(), 50);
    assert_eq!(stage.visits(), [""; 0]);
}

#[tokio::test]
async fn a_crawler_that_follows_without_cookies_stays_at_the_button() {
    let stage = Stage::new().await;
    let first = stage.get(&path(), &[("user-agent", "bot")]).await;
    let page = stage.get(&first.location(), &[("user-agent", "bot")]).await;
    assert_eq!(page.status, StatusCode::OK);
    assert_eq!(stage.visits(), [""; 0]);
    let html = page.html();
    // Nothing leads on by itself: no refresh, and no link but that of the language.
    assert_eq!(html.of("meta", "http-equiv"), None);
    assert_eq!(html.all("a", "rel"), ["nofollow"]);
    let other = html.of("a", "href").unwrap().to_owned();
    let translated = stage.get(&other, &[("user-agent", "bot")]).await;
    assert_eq!(translated.html().of("html", "lang"), Some("en"));
    assert_eq!(stage.visits(), [""; 0]);
}

/// The address that the button leads to.
async fn pressed(stage: &Stage, agent: &str) -> String {
    let first = stage.get(&path(), &[("user-agent", agent)]).await;
    let page = stage.get(&first.location(), &[("user-agent", agent)]).await;
    let html = page.html();
    assert_eq!(html.of("form", "method"), Some("get"));
    assert_eq!(html.of("form", "action"), Some(path().as_str()));
    assert_eq!(html.all("input", "name"), ["v", "lang"]);
    let v = html.of("input", "value").unwrap();
    format!("{}?v={v}&lang=zh", path())
}

#[tokio::test]
async fn somebody_without_cookies_is_one_visitor_by_his_address() {
    let stage = Stage::new().await;
    let agent = [("user-agent", "a phone")];
    let address = pressed(&stage, "a phone").await;
    let page = stage.get(&address, &agent).await;
    assert_eq!(page.status, StatusCode::OK);
    // Each address on the page has him, for an hour from now.
    stage.clock.advance(30 * 60 * 1_000);
    let html = page.html();
    let next = html.of("main", "data-next").unwrap();
    let status = html.of("main", "data-status").unwrap();
    let other = html.all("a", "href").into_iter().last().unwrap();
    for address in [next, other] {
        assert_eq!(stage.get(address, &agent).await.status, StatusCode::OK);
    }
    let told = stage.get(status, &agent).await;
    assert!(told.body.contains("\"held\""), "{}", told.body);
    assert!(other.ends_with("lang=en"), "{other}");
    let visitors: BTreeSet<String> = stage.visits().into_iter().collect();
    assert_eq!((stage.visits().len(), visitors.len()), (4, 1));
    // Renewed by every page: the newest is good when the first is over.
    let renewed = stage.get(next, &agent).await.html();
    stage.clock.advance(31 * 60 * 1_000);
    let newest = renewed.of("main", "data-next").unwrap();
    assert_eq!(stage.get(newest, &agent).await.status, StatusCode::OK);
    assert_eq!(stage.get(next, &agent).await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn an_address_that_was_sent_on_does_not_carry_its_sender() {
    let stage = Stage::new().await;
    let address = pressed(&stage, "a phone").await;
    // To another phone; to a browser that has a cookie; to the page of another corp.
    let friend = stage
        .get(&address, &[("user-agent", "another phone")])
        .await;
    assert_eq!(friend.status, StatusCode::SEE_OTHER);
    assert_eq!(friend.set_cookies().len(), 2);
    let cookies = stage.browser(CODE).await;
    let headers = [("user-agent", "a phone"), ("cookie", cookies.as_str())];
    let settled = stage.get(&address, &headers).await;
    assert_eq!(settled.location(), format!("{}?lang=zh", path()));
    let elsewhere = address.replace(CODE, OTHER);
    let elsewhere = stage.get(&elsewhere, &[("user-agent", "a phone")]).await;
    assert_eq!(elsewhere.status, StatusCode::SEE_OTHER);
    assert_eq!(stage.visits(), [""; 0]);
}

#[tokio::test]
async fn a_bounce_is_good_for_a_minute_and_for_its_browser() {
    let stage = Stage::new().await;
    let bounce = stage
        .get(&path(), &[("user-agent", "a phone")])
        .await
        .location();
    let other = stage.get(&bounce, &[("user-agent", "another")]).await;
    assert_eq!(other.status, StatusCode::SEE_OTHER);
    stage.clock.advance(61_000);
    let late = stage.get(&bounce, &[("user-agent", "a phone")]).await;
    assert_ne!(late.location(), bounce);
}

/// What is no cookie of ours makes a new visitor, never an error; and it is counted.
#[tokio::test]
async fn a_cookie_that_is_not_right_is_none() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let figures = recorder.handle();
    let _local = metrics::set_default_local_recorder(&recorder);
    let stage = Stage::new().await;
    let right = stage.browser(CODE).await;
    let (name, value) = right.split_once('=').unwrap();
    let stolen = stage.browser(OTHER).await;
    let (_, of_other_corp) = stolen.split_once('=').unwrap();
    let mut forged = value.to_owned();
    let last = if forged.pop() == Some('A') { 'B' } else { 'A' };
    forged.push(last);
    let foreign = Stage::with(Wishes {
        keys: STANDARD.encode([9; 32]),
        ..Wishes::default()
    })
    .await;
    let foreign = foreign.browser(CODE).await;
    for wrong in [
        format!("{name}={forged}"),
        format!("{name}={of_other_corp}"),
        format!("{name}={}", &value[..value.len() - 1]),
        format!("{name}={value}A"),
        format!("{name}={}", "A".repeat(6_000)),
        format!("{name}=\"{}\"", "%00".repeat(20)),
        format!("{name}="),
        name.to_owned(),
        "=; ;;; =".to_owned(),
        stolen.clone(),
        foreign.clone(),
        format!("someone={value}"),
    ] {
        let answer = stage.get(&path(), &[("cookie", &wrong)]).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{wrong}");
        assert_eq!(answer.set_cookies().len(), 1, "{wrong}");
        assert_ne!(answer.cookies(), right);
    }
    assert_eq!(stage.visits(), [""; 0]);
    // Beside one that is right they do not matter.
    let both = format!("{name}={forged}; {right}; {name}={forged}");
    let answer = stage.get(&path(), &[("cookie", &both)]).await;
    assert_eq!(answer.status, StatusCode::OK);
    let text = figures.render();
    for (found, times) in [
        ("forged", 2),
        ("malformed", 5),
        ("unknown_key", 1),
        ("cookie", 1),
    ] {
        let line = format!("paidan_public_identities_total{{found=\"{found}\"}} {times}");
        assert!(text.contains(&line), "{line}: {text}");
    }
}

#[tokio::test]
async fn a_browser_can_be_a_visitor_of_several_corps() {
    let stage = Stage::new().await;
    let (one, other) = (stage.browser(CODE).await, stage.browser(OTHER).await);
    let both = format!("{one}; {other}");
    for code in [CODE, OTHER] {
        let page = stage.get(&format!("/c/{code}"), &[("cookie", &both)]).await;
        assert_eq!(page.status, StatusCode::OK);
    }
    let visits = stage.desk.visits.lock().unwrap().clone();
    let [(first, a), (second, b)] = &visits[..] else {
        panic!("{visits:?}")
    };
    assert_eq!((first.as_str(), second.as_str()), ("ww1", "ww2"));
    assert_ne!(a, b);
}

#[tokio::test]
async fn a_cookie_is_renewed_before_it_ends_and_stays_the_same_visitor() {
    let stage = Stage::new().await;
    let cookies = stage.browser(CODE).await;
    stage.clock.advance(16 * DAY_MS);
    let page = stage.get(&path(), &[("cookie", &cookies)]).await;
    assert_eq!(page.status, StatusCode::OK);
    let renewed = page.cookies();
    assert_ne!(renewed, cookies);
    stage.clock.advance(15 * DAY_MS);
    let old = stage.get(&path(), &[("cookie", &cookies)]).await;
    assert_eq!(old.status, StatusCode::SEE_OTHER);
    let new = stage.get(&path(), &[("cookie", &renewed)]).await;
    assert_eq!(new.status, StatusCode::OK);
    let visitors: BTreeSet<String> = stage.visits().into_iter().collect();
    assert_eq!(visitors.len(), 1);
}

#[tokio::test]
async fn keys_rotate_and_nobody_notices() {
    let new = STANDARD.encode([7; 32]);
    let with = async |keys: String| {
        Stage::with(Wishes {
            keys,
            ..Wishes::default()
        })
        .await
    };
    let before = with(KEY.to_owned()).await;
    let cookies = before.browser(CODE).await;
    let between = with(format!("{new},{KEY}")).await;
    let page = between.get(&path(), &[("cookie", &cookies)]).await;
    assert_eq!(page.status, StatusCode::OK);
    let signed_anew = page.cookies();
    let after = with(new).await;
    let page = after.get(&path(), &[("cookie", &signed_anew)]).await;
    assert_eq!(page.status, StatusCode::OK);
    assert_eq!(between.visits(), after.visits());
}

/// The status is for a page that is there already.
#[tokio::test]
async fn asking_for_the_status_makes_nobody_a_visitor() {
    let stage = Stage::new().await;
    let status = format!("{}/status", path());
    for cookie in ["", "paidan_00000000=x"] {
        let answer = stage.get(&status, &[("cookie", cookie)]).await;
        assert_eq!(answer.status, StatusCode::OK);
        assert_eq!(answer.body, "{\"state\":\"unknown\"}");
        assert!(answer.set_cookies().is_empty());
    }
    assert_eq!(stage.visits(), [""; 0]);
}
