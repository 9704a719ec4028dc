//! A visitor who opens fifty tabs at once, at two allocators, with the program and its stores behind them.

use std::{collections::BTreeSet, net::SocketAddr};

use allocation::MemberId;
use futures_util::future::join_all;
use reqwest::{Client, StatusCode, header};
use serde_json::{Value, json};

use crate::{
    api_support::{Options, World},
    public_desk::{channel_of, pages},
    public_stage::Html,
};

const TABS: usize = 50;
/// Another visitor than the first would not see the same of these.
const MEMBERS: [(&str, f64); 5] = [
    ("mA", 1.0),
    ("mB", 1.0),
    ("mC", 1.0),
    ("mD", 1.0),
    ("mE", 1.0),
];

struct Stage {
    world: World,
    code: String,
    pages: Vec<SocketAddr>,
    http: Client,
}

/// What a tab got.
#[derive(Debug)]
struct Tab {
    status: StatusCode,
    headers: header::HeaderMap,
    body: String,
}

impl Tab {
    /// The pair that a browser would send back.
    fn cookie(&self) -> String {
        let line = self.headers[header::SET_COOKIE].to_str().unwrap();
        line.split(';').next().unwrap().to_owned()
    }

    fn location(&self) -> String {
        assert_eq!(self.status, StatusCode::SEE_OTHER, "{self:?}");
        self.headers[header::LOCATION].to_str().unwrap().to_owned()
    }

    /// Whom the page shows.
    fn member(&self) -> &'static str {
        assert_eq!(self.status, StatusCode::OK, "{self:?}");
        let text = Html::read(&self.body).text;
        let mut shown = MEMBERS.iter().filter(|(name, _)| text.contains(name));
        let (name, _) = shown.next().unwrap_or_else(|| panic!("{text}"));
        assert!(shown.next().is_none(), "{text}");
        name
    }
}

impl Stage {
    async fn new(config: &str) -> Self {
        let options = Options {
            config: config.to_owned(),
            ..Options::default()
        };
        let world = World::with(2, options).await;
        let code = channel_of(&world, &MEMBERS).await;
        let pages = vec![pages(&world, 0).await, pages(&world, 1).await];
        let http = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap();
        let stage = Self {
            world,
            code,
            pages,
            http,
        };
        // Both know the channel.
        for node in &stage.world.nodes {
            allocator::people::refresh(&node.app, node.corp())
                .await
                .unwrap();
        }
        stage
    }

    fn path(&self) -> String {
        format!("/c/{}?lang=en", self.code)
    }

    async fn get(&self, tab: usize, path: &str, headers: &[(&str, &str)]) -> Tab {
        let addr = self.pages[tab % self.pages.len()];
        let mut request = self.http.get(format!("http://{addr}{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.unwrap();
        Tab {
            status: response.status(),
            headers: response.headers().clone(),
            body: response.text().await.unwrap(),
        }
    }

    /// All tabs at once; each has its own path and cookie.
    async fn open(&self, tabs: &[(String, Option<String>)]) -> Vec<Tab> {
        let tabs = tabs
            .iter()
            .enumerate()
            .map(|(tab, (path, cookie))| async move {
                let cookie = cookie.as_deref().map(|cookie| ("cookie", cookie));
                self.get(tab, path, cookie.as_slice()).await
            });
        join_all(tabs).await
    }

    /// Holds in the ledger, and the loads in Redis: the same number.
    async fn holds(&self) -> u64 {
        self.world.check().await;
        let corp = self.world.corp_app();
        let members = MEMBERS.map(|(name, _)| MemberId::new(name).unwrap());
        let views = corp.roster.members(&members).await.unwrap();
        let loads: u32 = views.iter().map(|view| view.load).sum();
        let visits = self.world.app().ledger.visits();
        let counts = visits.counts(&corp.id, 0).await.unwrap();
        assert_eq!(counts.live, u64::from(loads));
        assert_eq!(counts.total, counts.live);
        counts.live
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_tabs_of_a_browser_with_its_cookie_are_one_hold() {
    let stage = Stage::new("").await;
    let cookie = stage.get(0, &stage.path(), &[]).await.cookie();
    assert_eq!(stage.holds().await, 0);
    let tabs = vec![(stage.path(), Some(cookie.clone())); TABS];
    let shown = stage.open(&tabs).await;
    let seen: BTreeSet<&str> = shown.iter().map(Tab::member).collect();
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!(stage.holds().await, 1);
    // The cookie again, from elsewhere: it is the same visitor, and takes nobody else's time.
    let replayed = [
        ("cookie", cookie.as_str()),
        ("user-agent", "another browser"),
    ];
    let replayed = stage.get(1, &stage.path(), &replayed).await;
    assert!(seen.contains(replayed.member()));
    assert_eq!(stage.holds().await, 1);
    // Another visitor is another.
    let other = stage.get(0, &stage.path(), &[]).await.cookie();
    let other = [(stage.path(), Some(other))];
    assert!(!seen.contains(stage.open(&other).await[0].member()));
    assert_eq!(stage.holds().await, 2);
}

/// Nobody is a visitor before he comes back with what he was given. Once the browser has one cookie, all of its tabs are one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_tabs_before_there_is_a_cookie_take_nobodys_time() {
    let stage = Stage::new("").await;
    let first = stage.open(&vec![(stage.path(), None); TABS]).await;
    let cookies: BTreeSet<String> = first.iter().map(Tab::cookie).collect();
    assert_eq!(cookies.len(), TABS);
    assert_eq!(stage.holds().await, 0);
    // Each tab goes where it was sent; the browser keeps the cookie that came last.
    let kept = first.last().map(Tab::cookie);
    let follow = |cookie: &Option<String>| -> Vec<_> {
        let sent = first.iter().map(Tab::location);
        sent.map(|path| (path, cookie.clone())).collect()
    };
    let settled = stage.open(&follow(&kept)).await;
    assert!(settled.iter().all(|tab| tab.location() == stage.path()));
    assert_eq!(stage.holds().await, 0);
    let shown = stage.open(&vec![(stage.path(), kept); TABS]).await;
    let seen: BTreeSet<&str> = shown.iter().map(Tab::member).collect();
    assert_eq!((seen.len(), stage.holds().await), (1, 1));
    // Without any cookie there is a button, which somebody has to press.
    let buttons = stage.open(&follow(&None)).await;
    for tab in &buttons {
        assert_eq!(tab.status, StatusCode::OK);
        assert_eq!(Html::read(&tab.body).all("input", "name"), ["v", "lang"]);
    }
    assert_eq!(stage.holds().await, 1);
}

/// Whoever throws cookies away after each page is a new visitor each time; how often he may be is limited.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_can_be_only_so_many_visitors() {
    let stage = Stage::new("[public]\nper_minute = 1\nburst = 60\n").await;
    let path = stage.path();
    let first = join_all((0..TABS).map(|_| stage.get(0, &path, &[]))).await;
    let cookies: Vec<String> = first.iter().map(Tab::cookie).collect();
    let second = cookies.iter().map(|cookie| async {
        let headers = [("cookie", cookie.as_str())];
        stage.get(0, &path, &headers).await
    });
    let second = join_all(second).await;
    let (shown, refused): (Vec<_>, Vec<_>) =
        second.iter().partition(|tab| tab.status == StatusCode::OK);
    assert!((10..15).contains(&shown.len()), "{}", shown.len());
    for tab in refused {
        assert_eq!(tab.status, StatusCode::TOO_MANY_REQUESTS);
        assert!(tab.headers.contains_key(header::RETRY_AFTER));
    }
    assert_eq!(stage.holds().await, shown.len() as u64);
}

/// The same visitor over REST, at both allocators.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_visits_of_one_visitor_at_once_are_one_hold() {
    let stage = Stage::new("").await;
    let operator = stage.world.operator().await;
    let there = stage.world.at(1, operator.key.as_deref().unwrap());
    let consoles = [operator, there];
    let visit = async |n: usize, kind: &str| {
        let body = json!({"visitor": {"kind": kind, "id": "oUnion1"}});
        consoles[n % 2].post("/channels/c1/visits", body).await.ok()
    };
    let answers = join_all((0..TABS).map(|n| visit(n, "unionid"))).await;
    let different: BTreeSet<String> = answers.iter().map(Value::to_string).collect();
    assert_eq!(different.len(), 1, "{different:?}");
    assert_eq!(answers[0]["state"], "held");
    assert_eq!(stage.holds().await, 1);
    // The same text as another kind of id is somebody else.
    let other = visit(0, "openid").await;
    assert_ne!(other["allocation_id"], answers[0]["allocation_id"]);
    assert_eq!(stage.holds().await, 2);
}
