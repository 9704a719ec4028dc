//! From the page to the chat: a visitor opens a channel's page, scans the code that it shows, and both allocators know
//! that he has come.

use allocation::{AllocationId, ChannelId, PoolId};
use allocator::reception::visits::{Visited, Visitor, VisitorKind, Wanted, visit, way_of};
use e2e::{Options, World, eventually};
use ledger::{NewChannel, Precondition, Trail, VisitEnd, Visits};
use reqwest::{Client, StatusCode, header};
use wecom_sim::{ScanOutcome, ScanRequest};

/// A channel with a page; its code.
async fn page(world: &World, slots_per_member: u32) -> String {
    page_for(world, slots_per_member, 600).await
}

/// Whose holds last so long.
pub(crate) async fn page_for(world: &World, slots_per_member: u32, hold_seconds: u32) -> String {
    let new = NewChannel {
        name: "page".to_owned(),
        pool: PoolId::new("sales").expect("a pool"),
        states: Vec::new(),
        welcome: None,
        card: false,
        needs: Vec::new(),
        limits: ledger::ChannelLimits::default(),
        visits: Some(Visits {
            slots_per_member,
            hold_seconds,
            title: "Spring".to_owned(),
        }),
    };
    let id = ChannelId::new("page").expect("a channel");
    let trail = Trail::system(world.app.now_ms(), "test");
    let channels = world.app.ledger.channels();
    channels
        .put(&world.corp, &id, &new, Precondition::None, &trail)
        .await
        .expect("a channel");
    let channel = channels.get(&world.corp, &id).await.expect("answers");
    let channel = channel.expect("it is there");
    channel.public_code.expect("a page has a code")
}

/// Waits until Redis knows so many slots: who comes before has the member's plain way.
pub(crate) async fn told(world: &World, slots: usize) {
    let corp = world.corp_app();
    eventually("the roster knows the slots", || async {
        let dump = corp.roster.dump().await.ok()?;
        let known = dump.keys.keys().filter(|key| key.starts_with("slot:"));
        (known.count() == slots).then_some(())
    })
    .await;
}

/// A browser that keeps its cookie, at whichever allocator it is sent to.
pub(crate) struct Browser<'a> {
    world: &'a World,
    http: Client,
    pub(crate) path: String,
    pub(crate) cookie: String,
}

impl<'a> Browser<'a> {
    pub(crate) async fn open(world: &'a World, code: &str) -> Self {
        let http = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .expect("a client");
        let mut browser = Self {
            world,
            http,
            path: format!("/c/{code}?lang=en"),
            cookie: String::new(),
        };
        let first = browser.get(0, &browser.path).await;
        assert_eq!(first.status(), StatusCode::SEE_OTHER);
        let line = first.headers()[header::SET_COOKIE].to_str().expect("text");
        browser.cookie = line.split(';').next().unwrap_or_default().to_owned();
        browser
    }

    async fn get(&self, allocator: usize, path: &str) -> reqwest::Response {
        let addr = self.world.allocators[allocator].public;
        let request = self.http.get(format!("http://{addr}{path}"));
        let request = request.header(header::COOKIE, &self.cookie);
        request.send().await.expect("an answer")
    }

    /// The page, once it says this.
    async fn says(&self, allocator: usize, text: &str) -> String {
        eventually(&format!("the page says {text}"), || async {
            let answer = self.get(allocator, &self.path).await;
            let html = answer.text().await.ok()?;
            html.contains(text).then_some(html)
        })
        .await
    }
}

/// The way whose picture the page shows.
fn way(html: &str) -> &str {
    let rest = html.split_once("src=\"/w/").expect("a picture").1;
    rest.split_once(".png\"").expect("its name").0
}

async fn comes(slots_per_member: u32, kind: &str) {
    let world = World::start(Options {
        allocators: 2,
        allocator: "[visits]\npoll_ms = 50\n".to_owned(),
        ..Options::default()
    })
    .await;
    let code = page(&world, slots_per_member).await;
    told(&world, 3 * slots_per_member as usize).await;
    let browser = Browser::open(&world, &code).await;
    // An allocator may not know the way yet: its page says so and comes again.
    let html = browser.says(0, "<img src=\"/w/").await;
    assert!(
        html.contains("Spring") && html.contains("Please add m"),
        "{html}"
    );
    let way = way(&html).to_owned();
    assert!(way.starts_with(kind), "{way}");
    // The other allocator shows the same.
    let other = browser.says(1, "<img src=\"/w/").await;
    assert!(other.contains(&format!("/w/{way}.png")), "{other}");
    let picture = browser.get(1, &format!("/w/{way}.png")).await;
    assert_eq!(picture.status(), StatusCode::OK);
    assert_eq!(picture.headers()[header::CONTENT_TYPE], "image/png");
    let bytes = picture.bytes().await.expect("a body");
    assert!(bytes.starts_with(b"\x89PNG"));
    let scan = ScanRequest::way_with(&way).customer("wmVisitor");
    let scan = &world.sim.scan(&scan).expect("a scan").scans[0];
    assert_eq!(scan.outcome, ScanOutcome::Added);
    let member = scan.member.clone().expect("a member");
    for allocator in [0, 1] {
        let met = format!("You have added {member}");
        browser.says(allocator, &met).await;
    }
    let allocation = world.allocated("wmVisitor").await;
    assert_eq!(allocation.member.expect("a member").as_str(), member);
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_visitor_scans_his_slot_and_is_met() {
    comes(2, "pv.").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_visitor_scans_the_plain_way_and_is_met() {
    comes(0, "pw.").await;
}

/// Each of them has somebody, and no two the same slot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_visitors_at_both_allocators_share_no_slot() {
    let world = World::start(Options {
        allocators: 2,
        allocator: "[visits]\npoll_ms = 50\n".to_owned(),
        ..Options::default()
    })
    .await;
    let code = page(&world, 4).await;
    told(&world, 12).await;
    let mut ways = std::collections::BTreeSet::new();
    for n in 0..6 {
        let browser = Browser::open(&world, &code).await;
        let html = browser.says(n % 2, "<img src=\"/w/").await;
        let way = way(&html).to_owned();
        let again = browser.says((n + 1) % 2, "<img src=\"/w/").await;
        assert!(again.contains(&way), "{way}: {again}");
        assert!(way.starts_with("pv."), "{way}");
        assert!(ways.insert(way.clone()), "{way} is shown to two");
    }
    world.close().await;
}

/// Without a slot the order of time is a guess. Where WeCom tells who a customer is, the visit that was his ends, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customer_is_found_by_his_unionid() {
    let world = World::start(Options {
        allocator:
            "[visits]\npoll_ms = 50\nlook_up_unionid = true\n[audit]\nreread_ms = [100, 300]\n"
                .to_owned(),
        ..Options::default()
    })
    .await;
    page(&world, 0).await;
    let channel = ChannelId::new("page").expect("a channel");
    let (app, corp) = (&*world.app, world.corp_app());
    let visitor = |n: usize| Visitor {
        kind: VisitorKind::Unionid,
        id: format!("oUnion{n}"),
    };
    // Of four visitors two see one of three members.
    let mut holds = Vec::new();
    for n in 0..4 {
        let hold = eventually("a member is held", || async {
            match visit(app, corp, &channel, &visitor(n), Wanted::default()).await {
                Ok(Visited::Held(hold)) => Some(hold),
                _ => None,
            }
        });
        holds.push(hold.await);
    }
    let seen = &holds[3].member;
    let first = holds.iter().position(|hold| hold.member == *seen);
    let first = first.expect("somebody sees him");
    let way = eventually("his plain way is made", || async {
        way_of(app, corp, &channel, &holds[3]).await
    })
    .await;
    // The later of the two scans first.
    let scan = ScanRequest {
        unionid: Some("oUnion3".to_owned()),
        ..ScanRequest::way_with(&way).customer("wmLater")
    };
    let scan = &world.sim.scan(&scan).expect("a scan").scans[0];
    assert_eq!(scan.outcome, ScanOutcome::Added);
    let (end, matched) = ended(&world, holds[first].allocation).await;
    assert_eq!(
        (end, matched.as_deref()),
        (VisitEnd::Confirmed, Some("time"))
    );
    let (end, matched) = ended(&world, holds[3].allocation).await;
    assert_eq!(
        (end, matched.as_deref()),
        (VisitEnd::Known, Some("visitor"))
    );
    let allocation = world.allocated("wmLater").await;
    assert_eq!(allocation.member.as_ref(), Some(seen));
    world.close().await;
}

/// How a visit ended, and how it was matched.
async fn ended(world: &World, id: AllocationId) -> (VisitEnd, Option<String>) {
    eventually("the visit has ended", || async {
        let visits = world.app.ledger.visits();
        let found = visits.of(&world.corp, &[id]).await.ok()?;
        let visit = found.into_values().next()?;
        Some((visit.ended_as?, visit.matched))
    })
    .await
}
