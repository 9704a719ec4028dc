//! What a visitor sees of every state, in both languages.

use allocator::public::desk::{Away, Visited};
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::public_stage::{
    Answer, CLOSED, CODE, Html, NOW, Stage, drawing, held, met, strict, waiting,
};

struct Row {
    answer: Result<Visited, Away>,
    status: u16,
    zh: &'static str,
    en: &'static str,
}

fn rows() -> [Row; 7] {
    let row = |answer, status, zh, en| Row {
        answer,
        status,
        zh,
        en,
    };
    [
        row(Ok(held()), 200, "请添加 XiaoMing", "Please add XiaoMing"),
        row(Ok(drawing()), 200, "二维码正在准备", "is being prepared"),
        row(Ok(waiting(0, 600_000)), 200, "请稍候", "You are in line"),
        row(
            Ok(met()),
            200,
            "您已添加 XiaoMing",
            "You have added XiaoMing",
        ),
        row(
            Ok(Visited::NoPool),
            503,
            "自动重试",
            "tries again by itself",
        ),
        row(Ok(Visited::Off), 410, "已关闭", "This page is closed"),
        row(Err(Away), 503, "自动重试", "tries again by itself"),
    ]
}

/// Whole, small, in one language, and nothing of it from elsewhere.
pub(crate) fn sound(answer: &Answer, tag: &str) -> Html {
    strict(answer);
    assert_eq!(answer.header("content-type"), "text/html; charset=utf-8");
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!(answer.header("content-language"), tag);
    assert!(answer.body.len() < 20_000, "{} bytes", answer.body.len());
    assert!(!answer.body.contains("://"), "{}", answer.body);
    let html = answer.html();
    assert_eq!(html.of("html", "lang"), Some(tag));
    for (element, key, value) in &html.attributes {
        let is_address = ["href", "src", "action", "data-next", "data-status"];
        if is_address.contains(&key.as_str()) {
            let ours = ["/c/", "/g/", "/w/", "?lang="]
                .iter()
                .any(|own| value.starts_with(own));
            assert!(ours, "{element} {key}={value}");
        }
        assert!(!key.starts_with("on"), "{element} {key}");
        assert_ne!(key, "style", "{element}");
    }
    // What the policy lets run, and no more.
    let policy = answer.header("content-security-policy");
    for nonce in html
        .all("style", "nonce")
        .into_iter()
        .chain(html.all("script", "nonce"))
    {
        assert!(policy.contains(&format!("'nonce-{nonce}'")), "{policy}");
    }
    assert_eq!(html.all("style", "nonce").len(), 1);
    for alt in html.all("img", "alt") {
        assert!(!alt.is_empty());
    }
    assert_eq!(html.all("img", "alt").len(), html.all("img", "src").len());
    html
}

#[tokio::test]
async fn every_state_has_a_page_in_both_languages() {
    let stage = Stage::new().await;
    let browser = stage.browser(CODE).await;
    for row in rows() {
        stage.answer(row.answer.clone());
        for (language, tag, expected) in [("zh", "zh-CN", row.zh), ("en", "en", row.en)] {
            let headers = [("cookie", browser.as_str()), ("accept-language", language)];
            let page = stage.get(&format!("/c/{CODE}"), &headers).await;
            assert_eq!(page.status.as_u16(), row.status, "{expected}");
            let html = sound(&page, tag);
            assert!(html.text.contains(expected), "{expected}: {}", html.text);
            assert!(html.text.contains("春季活动"), "{}", html.text);
        }
    }
}

#[tokio::test]
async fn a_held_place_is_shown_with_its_picture_and_its_end() {
    let stage = Stage::new().await;
    let browser = stage.browser(CODE).await;
    let page = stage
        .get(&format!("/c/{CODE}?lang=en"), &[("cookie", &browser)])
        .await;
    let html = sound(&page, "en");
    assert_eq!(html.of("img", "src"), Some("/w/pv.abcdefgh2345.png"));
    assert_eq!(html.of("img", "alt"), Some("WeChat QR code of XiaoMing"));
    // At least 240 pixels, and the page does not jump when it comes.
    let side = |name| html.of("img", name).unwrap().parse::<u32>().unwrap();
    assert!(side("width") >= 240 && side("width") == side("height"));
    // 2027-01-15 08:00 UTC and ten minutes, at a corp in China.
    assert!(
        html.text.contains("until 16:10 (about 10 min)"),
        "{}",
        html.text
    );
    assert!(html.text.contains("keeps the same person"), "{}", html.text);
    // A page that is left open must not ask for another place.
    assert_eq!(html.of("meta", "http-equiv"), None);
    assert_eq!(html.of("main", "data-left"), Some("600"));
}

#[tokio::test]
async fn names_and_titles_are_text() {
    let stage = Stage::new().await;
    let evil = "\"><script>alert('x')</script> {time} & Söhne";
    *stage.desk.name.lock().unwrap() = evil.to_owned();
    *stage.desk.title.lock().unwrap() = evil.to_owned();
    let browser = stage.browser(CODE).await;
    for answer in [held(), met(), drawing()] {
        stage.answer(Ok(answer));
        let page = stage
            .get(&format!("/c/{CODE}?lang=en"), &[("cookie", &browser)])
            .await;
        let html = sound(&page, "en");
        assert!(html.text.contains(evil), "{}", html.text);
        assert!(!page.body.contains("<script>"), "{}", page.body);
    }
}

#[tokio::test]
async fn who_waits_comes_again_less_and_less_often() {
    let stage = Stage::new().await;
    let browser = stage.browser(CODE).await;
    let refresh = async |answer: Visited| {
        stage.answer(Ok(answer));
        let page = stage
            .get(&format!("/c/{CODE}"), &[("cookie", &browser)])
            .await;
        let html = page.html();
        let lines = html.all("meta", "content");
        let line = lines.iter().find(|line| line.contains("url="))?;
        // Where there are scripts, the script looks.
        assert!(page.body.contains("<noscript><meta http-equiv"));
        assert!(page.body.contains("<script nonce="));
        let (seconds, to) = line.split_once("; url=").unwrap();
        assert_eq!(to, format!("/c/{CODE}"));
        assert_eq!(html.of("main", "data-pause"), Some(seconds));
        Some(seconds.parse::<u64>().unwrap())
    };
    let first = refresh(waiting(0, 600_000)).await.unwrap();
    let later = refresh(waiting(60_000, 600_000)).await.unwrap();
    let late = refresh(waiting(3_000_000, 600_000)).await.unwrap();
    assert!(first < later && later < late && late <= 40);
    // Before his place in line is given up.
    let short = refresh(waiting(3_000_000, 20_000)).await.unwrap();
    assert!(short <= 10, "{short}");
    // A picture is waited for only as long as its member is held.
    assert!(refresh(drawing()).await.is_some());
    stage.clock.advance(598_000);
    assert_eq!(refresh(drawing()).await, None);
}

#[tokio::test]
async fn a_place_in_line_that_lasts_longer_is_no_other_one() {
    let stage = Stage::new().await;
    let browser = stage.browser(CODE).await;
    let mut seen = Vec::new();
    let first = waiting(0, 300_000);
    let Visited::Waiting { allocation, .. } = first else {
        panic!("{first:?}")
    };
    let longer = Visited::Waiting {
        allocation,
        until_ms: NOW + 600_000,
    };
    for answer in [first, longer, waiting(0, 600_000)] {
        stage.answer(Ok(answer));
        let status = format!("/c/{CODE}/status");
        let told = stage.get(&status, &[("cookie", &browser)]).await;
        let told: Value = serde_json::from_str(&told.body).unwrap();
        seen.push(told["seen"].clone());
    }
    assert!(seen[0] == seen[1] && seen[1] != seen[2], "{seen:?}");
}

#[tokio::test]
async fn a_store_that_is_away_is_said_and_tried_again() {
    let stage = Stage::new().await;
    let browser = stage.browser(CODE).await;
    stage.answer(Err(Away));
    for path in [format!("/c/{CODE}"), "/c/nobody-2027".to_owned()] {
        let page = stage.get(&path, &[("cookie", &browser)]).await;
        assert_eq!(page.status, StatusCode::SERVICE_UNAVAILABLE);
        let html = sound(&page, "zh-CN");
        let seconds = page.header("retry-after");
        assert!(
            (5..=12).contains(&seconds.parse::<u64>().unwrap()),
            "{seconds}"
        );
        let refresh = html.all("meta", "content");
        assert!(
            refresh
                .iter()
                .any(|it| it.starts_with(&format!("{seconds}; url="))),
            "{refresh:?}"
        );
        // Its own address, if it has none.
        assert!(
            refresh
                .iter()
                .any(|it| it.ends_with("url=") || it.ends_with(CODE)),
            "{refresh:?}"
        );
    }
}

#[tokio::test]
async fn what_is_not_there_is_said_kindly() {
    let stage = Stage::new().await;
    for path in [
        "/",
        "/c",
        "/c/",
        "/c/unknown-2027",
        "/c/short",
        "/c/with%20space",
        "/c/%ff%fe%fd%fc%fb%fa%f9%f8",
        &format!("/c/{}", "a".repeat(65)),
        &format!("/c/{CODE}/"),
        &format!("/c/{CODE}/more"),
        &format!("/c/{CODE}/status/more"),
        "/w/pv.unknown.png",
        "/w/pv.abcdefgh2345",
        "/w/pv.abcdefgh2345.jpg",
        "/w/..%2f..%2fetc.png",
    ] {
        let page = stage.get(path, &[("accept-language", "en")]).await;
        assert_eq!(page.status, StatusCode::NOT_FOUND, "{path}");
        let html = sound(&page, "en");
        assert!(html.text.contains("There is no such page"), "{path}");
        assert!(page.set_cookies().is_empty(), "{path}");
    }
    let page = stage.get(&format!("/c/{CLOSED}"), &[]).await;
    assert_eq!(page.status, StatusCode::GONE);
    assert!(sound(&page, "zh-CN").text.contains("此渠道不再接待访客"));
    assert!(page.set_cookies().is_empty());
    assert_eq!(stage.visits(), [""; 0]);
}

#[tokio::test]
async fn the_language_is_chosen_remembered_or_guessed() {
    let stage = Stage::new().await;
    let browser = stage.browser(CODE).await;
    let path = format!("/c/{CODE}");
    let tag = async |path: &str, cookie: &str, header: &str| {
        let headers = [("cookie", cookie), ("accept-language", header)];
        let page = stage.get(path, &headers).await;
        page.html().of("html", "lang").unwrap().to_owned()
    };
    assert_eq!(tag(&path, &browser, "en-GB").await, "en");
    assert_eq!(tag(&path, &browser, "zh-TW").await, "zh-CN");
    assert_eq!(tag(&path, &browser, "").await, "zh-CN");
    let chosen = stage
        .get(
            &format!("{path}?lang=en"),
            &[("cookie", &browser), ("accept-language", "zh")],
        )
        .await;
    assert_eq!(chosen.html().of("html", "lang"), Some("en"));
    let [cookie] = chosen.set_cookies()[..] else {
        panic!("{:?}", chosen.set_cookies())
    };
    assert!(cookie.starts_with("paidan_lang=en; "), "{cookie}");
    let both = format!("{browser}; {}", chosen.cookies());
    assert_eq!(tag(&path, &both, "zh").await, "en");
    assert_eq!(tag(&format!("{path}?lang=zh"), &both, "en").await, "zh-CN");
    for unknown in ["fr", "", "%ff", "en%00"] {
        let path = format!("{path}?lang={unknown}");
        assert_eq!(tag(&path, &browser, "zh").await, "zh-CN");
    }
    // A page leads to its other language.
    assert_eq!(chosen.html().of("a", "hreflang"), Some("zh-CN"));
    let links = chosen.html();
    assert!(
        links
            .all("a", "href")
            .contains(&format!("{path}?lang=zh").as_str())
    );
}

#[tokio::test]
async fn the_status_is_what_the_page_shows() {
    let stage = Stage::new().await;
    let browser = stage.browser(CODE).await;
    let (page, status) = (format!("/c/{CODE}"), format!("/c/{CODE}/status"));
    let read = async || {
        let answer = stage.get(&status, &[("cookie", &browser)]).await;
        strict(&answer);
        assert_eq!(answer.header("content-type"), "application/json");
        assert_eq!(answer.header("cache-control"), "no-store");
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        (answer.status.as_u16(), body)
    };
    let mut all = Vec::new();
    for (answer, state, refreshes) in [
        (held(), "held", true),
        (drawing(), "held", true),
        (waiting(0, 600_000), "waiting", true),
        (met(), "met", false),
    ] {
        stage.answer(Ok(answer));
        let (code, body) = read().await;
        assert_eq!((code, &body["state"]), (200, &json!(state)));
        assert_eq!(body["refresh_s"].is_u64(), refreshes, "{body}");
        let shown = stage.get(&page, &[("cookie", &browser)]).await.html();
        if state != "met" {
            assert_eq!(shown.of("main", "data-seen"), body["seen"].as_str());
            assert_eq!(shown.of("main", "data-status"), Some(status.as_str()));
        }
        let (_, again) = read().await;
        assert_eq!(again["seen"], body["seen"]);
        assert!(!all.contains(&body["seen"]), "{state}");
        all.push(body["seen"].clone());
    }
    for (answer, code, state) in [
        (Ok(Visited::Off), 410, "closed"),
        (Ok(Visited::NoPool), 503, "away"),
        (Err(Away), 503, "away"),
    ] {
        stage.answer(answer);
        let (found, body) = read().await;
        assert_eq!((found, &body["state"]), (code, &json!(state)));
    }
    for (path, code) in [
        ("/c/unknown-2027/status".to_owned(), 404),
        (format!("/c/{CLOSED}/status"), 410),
        ("/c/nobody-2027/status".to_owned(), 503),
    ] {
        let answer = stage.get(&path, &[("cookie", &browser)]).await;
        assert_eq!(answer.status.as_u16(), code, "{path}");
        assert!(serde_json::from_str::<Value>(&answer.body).is_ok());
    }
}

#[tokio::test]
async fn the_end_of_a_place_is_told_in_time_that_is_left() {
    let stage = Stage::new().await;
    let browser = stage.browser(CODE).await;
    let shown = async |until_ms: u64| {
        let Visited::Held {
            allocation,
            member,
            way,
            ..
        } = held()
        else {
            panic!("it is held")
        };
        stage.answer(Ok(Visited::Held {
            allocation,
            member,
            way,
            until_ms,
        }));
        let path = format!("/c/{CODE}?lang=en");
        let html = stage.get(&path, &[("cookie", &browser)]).await.html();
        let left = html.of("main", "data-left").unwrap().to_owned();
        (html.text, left)
    };
    assert_eq!(NOW % 60_000, 0);
    for (left_ms, said, left) in [
        // The clock that set the end may be ahead.
        (600_050, "until 16:10 (about 10 min)", "600"),
        (541_000, "until 16:09 (about 9 min)", "541"),
        (59_000, "until 16:00 (about 1 min)", "59"),
        (1_000, "until 16:00 (about 1 min)", "1"),
    ] {
        let (text, seconds) = shown(NOW + left_ms).await;
        assert!(text.contains(said), "{said}: {text}");
        assert_eq!(seconds, left);
    }
}
