//! What a visitor of a campaign sees of every state, in both languages, and that nobody takes a seat by looking.

use allocation::SeatId;
use allocator::public::desk::{Away, Seat, Visited};
use reqwest::{Method, StatusCode};

use crate::{
    public_pages::sound,
    public_stage::{CLOSED, CODE, NOW, SOON, Stage, allocation},
};

/// The same for the same time.
fn seat(begun_ms: u64) -> SeatId {
    let begun = allocation(begun_ms).0.as_u128() >> 80 << 80;
    SeatId(uuid::Uuid::from_u128(begun | 7 << 76 | 2 << 62))
}

fn held(group: &str, way: Option<&str>) -> Visited {
    Visited::Seat(Seat::Held {
        seat: seat(NOW),
        group: group.to_owned(),
        way: way.map(str::to_owned),
        until_ms: NOW + 600_000,
    })
}

fn waiting(position: u32, waited_ms: u64, left_ms: u64) -> Visited {
    Visited::Seat(Seat::Waiting {
        seat: seat(NOW - waited_ms),
        position,
        until_ms: NOW + left_ms,
        opens: None,
    })
}

fn joined(group: &str) -> Visited {
    Visited::Seat(Seat::Joined {
        seat: seat(NOW),
        group: group.to_owned(),
    })
}

fn path() -> String {
    format!("/g/{CODE}")
}

/// Somebody who was here: his cookie.
async fn browser(stage: &Stage) -> String {
    let first = stage.get(&path(), &[]).await;
    assert!(first.location().starts_with(&format!("/g/{CODE}?v=")));
    let [cookie] = first.set_cookies()[..] else {
        panic!("{:?}", first.set_cookies())
    };
    assert!(cookie.contains("; Path=/g/;"), "{cookie}");
    first.cookies()
}

#[tokio::test]
async fn every_state_has_a_page_in_both_languages() {
    let stage = Stage::new().await;
    let browser = browser(&stage).await;
    let way = Some("pv.abcdefgh2345");
    for (answer, status, zh, en) in [
        (
            Ok(held("深圳一群", way)),
            200,
            "请加入「深圳一群」",
            "Please join “深圳一群”",
        ),
        (
            Ok(held("", way)),
            200,
            "请加入群聊",
            "Please join the group",
        ),
        (
            Ok(held("x", None)),
            200,
            "二维码正在准备",
            "is being prepared",
        ),
        (
            Ok(waiting(3, 0, 60_000)),
            200,
            "第 3 位",
            "number 3 in line",
        ),
        (
            Ok(waiting(1_234, 0, 60_000)),
            200,
            "约有 1300 人",
            "About 1300 people",
        ),
        (
            Ok(Visited::Seat(Seat::Waiting {
                seat: seat(NOW),
                position: 2,
                until_ms: NOW + 60_000,
                opens: way.map(str::to_owned),
            })),
            200,
            "企业微信会为您新建一个群",
            "a new one is opened for you",
        ),
        (
            Ok(joined("深圳一群")),
            200,
            "您已加入「深圳一群」",
            "You have joined “深圳一群”",
        ),
        (
            Ok(joined("")),
            200,
            "您已加入群聊",
            "You have joined the group",
        ),
        (
            Ok(Visited::Seat(Seat::Preparing)),
            200,
            "正在准备",
            "being prepared",
        ),
        (Ok(Visited::NoPool), 503, "无法安排席位", "find you a seat"),
        (Ok(Visited::Off), 410, "活动已结束", "It is over"),
        (Err(Away), 503, "无法安排席位", "find you a seat"),
    ] {
        stage.answer(answer);
        for (language, tag, expected) in [("zh", "zh-CN", zh), ("en", "en", en)] {
            let headers = [("cookie", browser.as_str()), ("accept-language", language)];
            let page = stage.get(&path(), &headers).await;
            assert_eq!(page.status.as_u16(), status, "{expected}");
            let html = sound(&page, tag);
            assert!(html.text.contains(expected), "{expected}: {}", html.text);
            assert!(!html.text.contains("顾问"), "{}", html.text);
        }
    }
}

#[tokio::test]
async fn a_seat_is_shown_with_its_code_and_its_end() {
    let stage = Stage::new().await;
    let browser = browser(&stage).await;
    let evil = "\"><script>alert('x')</script> {time} & Söhne";
    stage.answer(Ok(held(evil, Some("pv.abcdefgh2345"))));
    let address = format!("{}?lang=en", path());
    let page = stage.get(&address, &[("cookie", &browser)]).await;
    let html = sound(&page, "en");
    assert!(html.text.contains(evil) && !page.body.contains("<script>"));
    assert_eq!(html.of("img", "src"), Some("/w/pv.abcdefgh2345.png"));
    assert!(html.text.contains("until 16:10 (about 10 min)"));
    let status = format!("/g/{CODE}/status");
    assert_eq!(html.of("main", "data-status"), Some(status.as_str()));
    // The language that he chose is for these pages.
    let chosen = page.set_cookies();
    assert!(
        chosen.iter().any(|cookie| cookie.contains("; Path=/g/;")),
        "{chosen:?}"
    );
    let told = stage.get(&status, &[("cookie", &browser)]).await;
    let told: serde_json::Value = serde_json::from_str(&told.body).unwrap();
    assert_eq!(told["state"], "held");
    assert_eq!(told["seen"], html.of("main", "data-seen").unwrap());
}

/// A place in a long line moves all the time: the page is another one only when it says something else.
#[tokio::test]
async fn who_waits_comes_again_by_itself_before_his_place_is_over() {
    let stage = Stage::new().await;
    let browser = browser(&stage).await;
    let seen = async |answer: Visited| {
        stage.answer(Ok(answer));
        let page = stage.get(&path(), &[("cookie", &browser)]).await;
        let html = page.html();
        let lines = html.all("meta", "content");
        let line = lines.iter().find(|line| line.contains("url="));
        let (seconds, to) = line.unwrap().split_once("; url=").unwrap();
        assert_eq!(to, path());
        let seen = html.of("main", "data-seen").unwrap().to_owned();
        (seconds.parse::<u64>().unwrap(), seen)
    };
    let (soon, far) = seen(waiting(1_234, 0, 60_000)).await;
    let (late, still) = seen(waiting(1_201, 3_000_000, 60_000)).await;
    let (short, near) = seen(waiting(9, 3_000_000, 10_000)).await;
    assert!(soon <= 4 && (20..=30).contains(&late) && short <= 5);
    assert!(far != still, "another seat");
    assert_eq!(still, seen(waiting(1_299, 3_000_000, 50_000)).await.1);
    assert_ne!(near, seen(waiting(8, 3_000_000, 10_000)).await.1);
}

#[tokio::test]
async fn looking_takes_no_seat() {
    let stage = Stage::new().await;
    // Link previews and crawlers: no cookie, no following, or following without cookies.
    let first = stage.get(&path(), &[]).await;
    let bounced = stage
        .get(&first.location(), &[("accept-language", "en")])
        .await;
    assert_eq!(bounced.status, StatusCode::OK);
    let html = sound(&bounced, "en");
    assert!(html.text.contains("find a seat for you"), "{}", html.text);
    assert_eq!(html.of("form", "action"), Some(path().as_str()));
    stage.send(Method::HEAD, &path(), &[]).await;
    stage.get(&format!("/g/{CODE}/status"), &[]).await;
    assert_eq!(stage.visits(), [""; 0]);
    // His cookie of a channel's page is none here, and the other way round: each page has its own path.
    let browser = browser(&stage).await;
    stage.get(&path(), &[("cookie", &browser)]).await;
    assert_eq!(stage.visits().len(), 1);
}

#[tokio::test]
async fn before_and_after_its_time_a_campaign_says_so() {
    let stage = Stage::new().await;
    let page = stage
        .get(&format!("/g/{SOON}"), &[("accept-language", "en")])
        .await;
    assert_eq!(page.status, StatusCode::OK);
    // 2027-01-15 09:00 UTC, at a corp in China.
    let html = sound(&page, "en");
    assert!(
        html.text.contains("begins on 2027-01-15 17:00"),
        "{}",
        html.text
    );
    let page = stage.get(&format!("/g/{CLOSED}"), &[]).await;
    assert_eq!(page.status, StatusCode::GONE);
    assert!(sound(&page, "zh-CN").text.contains("活动已结束"));
    assert!(page.set_cookies().is_empty());
    let page = stage.get(&format!("/c/{SOON}"), &[]).await;
    assert_eq!(page.status, StatusCode::NOT_FOUND, "it is no channel's");
    assert_eq!(stage.visits(), [""; 0]);
}
