//! The public pages over a socket, with somebody at the desk who answers what the test says.

use std::{
    collections::HashMap,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use allocation::{AllocationId, CampaignId, ChannelId, CorpId, MemberId};
use allocator::{
    config::Public,
    public::{
        self, Site,
        desk::{Away, Desk, Door, Of, Picture, Place, Visited},
        identity::Keys,
    },
};
use futures_util::future::BoxFuture;
use quick_xml::events::Event;
use reqwest::{Method, StatusCode, header};
use uuid::{NoContext, Timestamp, Uuid};

pub(crate) const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
pub(crate) const NOW: u64 = 1_800_000_000_000;
/// Of the corps `ww1` and `ww2`.
pub(crate) const CODE: &str = "sPring-2027_a";
pub(crate) const OTHER: &str = "autumn-2027_b";
pub(crate) const CLOSED: &str = "closed-2027_c";
/// Of a campaign that begins in an hour.
pub(crate) const SOON: &str = "soon-2027_e";
pub(crate) const BROKEN: &str = "broken-2027_d";

pub(crate) struct Hand(AtomicU64);

impl Hand {
    pub(crate) fn advance(&self, ms: u64) {
        self.0.fetch_add(ms, Relaxed);
    }
}

impl wecom::client::Clock for Hand {
    fn now_ms(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }
}

/// Answers everybody the same, and remembers who came.
pub(crate) struct Someone {
    pub(crate) answer: Mutex<Result<Visited, Away>>,
    pub(crate) title: Mutex<String>,
    pub(crate) name: Mutex<String>,
    pub(crate) picture: Mutex<Option<Picture>>,
    pub(crate) visits: Mutex<Vec<(CorpId, String)>>,
    /// Never answers.
    pub(crate) hangs: bool,
}

impl Desk for Someone {
    fn place<'a>(
        &'a self,
        door: Door,
        code: &'a str,
    ) -> BoxFuture<'a, Result<Option<Place>, Away>> {
        Box::pin(async move {
            let corp = match code {
                CODE | CLOSED => "ww1",
                OTHER => "ww2",
                BROKEN => panic!("the desk breaks"),
                "nobody-2027" => return Err(Away),
                SOON if door == Door::Campaign => "ww1",
                _ => return Ok(None),
            };
            Ok(Some(Place {
                corp: CorpId::new(corp).unwrap(),
                of: match door {
                    Door::Channel => Of::Channel(ChannelId::new("spring").unwrap()),
                    Door::Campaign => Of::Campaign {
                        id: CampaignId::new("spring").unwrap(),
                        opens_ms: (code == SOON).then_some(NOW + 3_600_000),
                        inviter: None,
                    },
                },
                title: self.title.lock().unwrap().clone(),
                open: code != CLOSED && code != SOON,
                utc_offset_minutes: 480,
            }))
        })
    }

    fn visit<'a>(
        &'a self,
        place: &'a Place,
        visitor: &'a str,
    ) -> BoxFuture<'a, Result<Visited, Away>> {
        let came = (place.corp.clone(), visitor.to_owned());
        self.visits.lock().unwrap().push(came);
        let answer = self.answer.lock().unwrap().clone();
        Box::pin(async move {
            if self.hangs {
                std::future::pending::<()>().await;
            }
            answer
        })
    }

    fn name(&self, _: &Place, _: &MemberId) -> String {
        self.name.lock().unwrap().clone()
    }

    fn picture<'a>(&'a self, way: &'a str) -> BoxFuture<'a, Result<Option<Arc<Picture>>, Away>> {
        Box::pin(async move {
            let picture = self.picture.lock().unwrap().clone();
            match way {
                "pv.abcdefgh2345" => Ok(picture.map(Arc::new)),
                "pv.away" => Err(Away),
                _ => Ok(None),
            }
        })
    }
}

pub(crate) struct Stage {
    pub(crate) desk: Arc<Someone>,
    pub(crate) clock: Arc<Hand>,
    pub(crate) addr: SocketAddr,
    http: reqwest::Client,
}

pub(crate) struct Wishes {
    pub(crate) base_url: &'static str,
    pub(crate) keys: String,
    pub(crate) burst: u32,
    pub(crate) hangs: bool,
    pub(crate) patience: Duration,
}

impl Default for Wishes {
    fn default() -> Self {
        Self {
            base_url: "http://127.0.0.1",
            keys: KEY.to_owned(),
            burst: 10_000,
            hangs: false,
            patience: Duration::from_secs(60),
        }
    }
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::with(Wishes::default()).await
    }

    pub(crate) async fn with(wishes: Wishes) -> Self {
        let desk = Arc::new(Someone {
            answer: Mutex::new(Ok(held())),
            title: Mutex::new("春季活动".to_owned()),
            name: Mutex::new("XiaoMing".to_owned()),
            picture: Mutex::new(Some(Picture {
                bytes: b"picture".as_slice().into(),
                content_type: "image/png".to_owned(),
                etag: "e1".to_owned(),
                qr_code: String::new(),
            })),
            visits: Mutex::default(),
            hangs: wishes.hangs,
        });
        let clock = Arc::new(Hand(AtomicU64::new(NOW)));
        let config = Public {
            listen: None,
            base_url: Some(wishes.base_url.to_owned()),
            cookie_key: None,
            per_minute: 60,
            burst: wishes.burst,
            trusted_proxies: vec!["127.0.0.1".parse().unwrap()],
        };
        let site = Site::new(
            &config,
            Keys::parse(&wishes.keys).unwrap(),
            Arc::clone(&desk) as Arc<dyn Desk>,
            Arc::clone(&clock) as allocator::clock::Clock,
        )
        .waiting_at_most(wishes.patience);
        let router = public::router(site);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, service).await });
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap();
        Self {
            desk,
            clock,
            addr,
            http,
        }
    }

    pub(crate) fn answer(&self, answer: Result<Visited, Away>) {
        *self.desk.answer.lock().unwrap() = answer;
    }

    /// Who came, in order.
    pub(crate) fn visits(&self) -> Vec<String> {
        let visits = self.desk.visits.lock().unwrap();
        visits.iter().map(|(_, visitor)| visitor.clone()).collect()
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        let mut request = self
            .http
            .request(method, format!("http://{}{path}", self.addr));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.unwrap();
        Answer {
            status: response.status(),
            headers: response.headers().clone(),
            body: response.text().await.unwrap(),
        }
    }

    pub(crate) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.send(Method::GET, path, headers).await
    }

    /// A browser that was here: its cookies, as it sends them back.
    pub(crate) async fn browser(&self, code: &str) -> String {
        let first = self.get(&format!("/c/{code}"), &[]).await;
        assert_eq!(first.status, StatusCode::SEE_OTHER);
        first.cookies()
    }
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: header::HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn set_cookies(&self) -> Vec<&str> {
        let lines = self.headers.get_all(header::SET_COOKIE).iter();
        lines.map(|line| line.to_str().unwrap()).collect()
    }

    /// What a browser would send back.
    pub(crate) fn cookies(&self) -> String {
        let pairs = self.set_cookies().into_iter();
        let pairs: Vec<&str> = pairs.map(|line| line.split(';').next().unwrap()).collect();
        pairs.join("; ")
    }

    pub(crate) fn location(&self) -> String {
        assert_eq!(self.status, StatusCode::SEE_OTHER);
        self.header("location").to_owned()
    }

    pub(crate) fn html(&self) -> Html {
        Html::read(&self.body)
    }
}

/// What a page has, read strictly.
#[derive(Debug, Default)]
pub(crate) struct Html {
    /// Element, attribute, value.
    pub(crate) attributes: Vec<(String, String, String)>,
    pub(crate) text: String,
}

impl Html {
    /// Panics where it is not whole.
    pub(crate) fn read(body: &str) -> Self {
        let mut reader = quick_xml::Reader::from_str(body);
        reader.config_mut().check_end_names = true;
        let mut html = Self::default();
        let mut open: Vec<String> = Vec::new();
        loop {
            match reader.read_event().unwrap() {
                Event::Start(start) => {
                    let element = start.name().0.to_owned();
                    html.take(&element, &start);
                    open.push(element);
                }
                Event::Empty(empty) => html.take(empty.name().0, &empty),
                Event::End(_) => drop(open.pop().unwrap()),
                Event::Text(text) => {
                    let inside = open.last().map(String::as_str);
                    if !matches!(inside, Some("style" | "script")) {
                        html.text.push_str(&text);
                    }
                }
                Event::GeneralRef(reference) => {
                    let c = reference.resolve_char_ref().unwrap();
                    html.text.push(c.unwrap());
                }
                Event::Eof => break,
                _ => {}
            }
        }
        assert!(open.is_empty(), "{open:?}");
        html
    }

    fn take(&mut self, element: &str, start: &quick_xml::events::BytesStart<'_>) {
        for attribute in start.attributes() {
            let attribute = attribute.unwrap();
            let key = attribute.key.0.to_owned();
            let value = attribute
                .normalized_value(quick_xml::XmlVersion::Implicit1_0)
                .unwrap();
            self.attributes
                .push((element.to_owned(), key, value.into_owned()));
        }
    }

    pub(crate) fn of(&self, element: &str, attribute: &str) -> Option<&str> {
        self.all(element, attribute).into_iter().next()
    }

    pub(crate) fn all(&self, element: &str, attribute: &str) -> Vec<&str> {
        let found = self
            .attributes
            .iter()
            .filter(|(it, key, _)| it == element && key == attribute);
        found.map(|(.., value)| value.as_str()).collect()
    }
}

pub(crate) fn allocation(begun_ms: u64) -> AllocationId {
    let begun = Timestamp::from_unix(NoContext, begun_ms / 1_000, 0);
    AllocationId(Uuid::new_v7(begun))
}

pub(crate) fn member() -> MemberId {
    MemberId::new("xiaoming").unwrap()
}

/// For ten minutes.
pub(crate) fn held() -> Visited {
    Visited::Held {
        allocation: allocation(NOW),
        member: member(),
        way: Some("pv.abcdefgh2345".to_owned()),
        until_ms: NOW + 600_000,
    }
}

pub(crate) fn drawing() -> Visited {
    Visited::Held {
        allocation: allocation(NOW),
        member: member(),
        way: None,
        until_ms: NOW + 600_000,
    }
}

pub(crate) fn waiting(waited_ms: u64, left_ms: u64) -> Visited {
    Visited::Waiting {
        allocation: allocation(NOW - waited_ms),
        until_ms: NOW + left_ms,
    }
}

pub(crate) fn met() -> Visited {
    Visited::Met {
        allocation: allocation(NOW),
        member: member(),
    }
}

/// What every answer has.
pub(crate) fn strict(answer: &Answer) {
    let fixed: HashMap<&str, &str> = HashMap::from([
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("x-frame-options", "DENY"),
        ("cross-origin-resource-policy", "same-origin"),
        ("x-robots-tag", "noindex, nofollow"),
    ]);
    for (name, value) in fixed {
        assert_eq!(answer.header(name), value, "{name}");
    }
    let policy = answer.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; "), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
}
