//! The handlers: a page, its status, a picture.

use std::time::Duration;

use axum::{
    Json,
    body::Body,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use cookie::Cookie;
use metrics::counter;

use super::{
    Site,
    desk::{Away, Door, Place, Seat, Visited},
    html::{Answer, Button, Page},
    identity::{Identity, Purpose},
    render::{self, Asked},
    states::{Links, Status, View},
    visitor::{self, Who},
};

/// Characters of a public code.
const CODE: std::ops::RangeInclusive<usize> = 8..=64;
/// A contact way's picture is always the same one.
const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

type Code = Result<Path<String>, PathRejection>;

/// A request for one channel or campaign: what is asked, of whom, and by whom.
struct Call {
    site: Site,
    asked: Asked,
    code: String,
    place: Place,
    now_ms: u64,
}

impl Call {
    /// Why there is no page, if there is none.
    async fn open(site: Site, code: Code, asked: &Asked) -> Result<Self, NoPage> {
        let Path(code) = code.map_err(|_| NoPage::Unknown)?;
        let plain = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
        if !CODE.contains(&code.len()) || !code.bytes().all(plain) {
            return Err(NoPage::Unknown);
        }
        let found = within(site.patience, site.desk.place(asked.door, &code)).await;
        let place = found.map_err(|Away| NoPage::Away)?.ok_or(NoPage::Unknown)?;
        let now_ms = site.clock.now_ms();
        Ok(Self {
            site,
            asked: asked.clone(),
            code,
            place,
            now_ms,
        })
    }

    fn who(&self, headers: &HeaderMap) -> Who {
        let v = self.asked.v.as_deref();
        visitor::who(&self.site.keys, &self.place.corp, headers, v, self.now_ms)
    }

    async fn visit(&self, identity: &Identity) -> Result<Visited, Away> {
        let visitor = identity.to_string();
        let visit = self.site.desk.visit(&self.place, &visitor);
        let visited = within(self.site.patience, visit).await;
        let result = match &visited {
            Ok(Visited::Held { .. }) => "held",
            Ok(Visited::Waiting { .. }) => "waiting",
            Ok(Visited::Met { .. }) => "met",
            Ok(Visited::NoPool) => "no_pool",
            Ok(Visited::Off) => "off",
            Ok(Visited::Seat(Seat::Held { .. })) => "seat_held",
            Ok(Visited::Seat(Seat::Waiting { .. })) => "seat_waiting",
            Ok(Visited::Seat(Seat::Joined { .. })) => "seat_joined",
            Ok(Visited::Seat(Seat::Preparing)) => "seat_preparing",
            Err(Away) => "away",
        };
        let corp = self.place.corp.to_string();
        counter!("paidan_public_visits_total", "corp" => corp, "result" => result).increment(1);
        visited
    }

    /// Signed for this corp, and for the browser that asks.
    fn sign(&self, purpose: Purpose<'_>, identity: &Identity) -> String {
        let corp = self.place.corp.as_str();
        self.site.keys.sign(purpose, corp, identity, self.now_ms)
    }

    fn cookie(&self, identity: &Identity) -> Cookie<'static> {
        let Self { site, place, .. } = self;
        visitor::cookie(
            &site.keys,
            &place.corp,
            identity,
            site.secure,
            self.now_ms,
            self.asked.door,
        )
    }

    fn path(&self) -> String {
        format!("{}{}", self.asked.door.path(), self.code)
    }

    /// `v` is what the addresses carry, of a visitor without a cookie.
    fn view(&self, v: Option<&str>) -> View<'_> {
        let path = self.path();
        let language = self.asked.language;
        // Without cookies the language is in the addresses too.
        let lang = (v.is_some() || self.asked.lang).then_some(language.code());
        View {
            language,
            place: &self.place,
            links: Links {
                page: address(&path, v, lang),
                status: address(&format!("{path}/status"), v, None),
                other: address(&path, v, Some(language.other().code())),
            },
            now_ms: self.now_ms,
        }
    }
}

/// There is nothing to visit.
#[derive(Debug, Clone, Copy)]
enum NoPage {
    Unknown,
    Away,
}

/// `GET /c/{code}` and `GET /g/{code}`.
pub(super) async fn page(
    State(site): State<Site>,
    asked: Asked,
    method: Method,
    headers: HeaderMap,
    code: Code,
) -> Response {
    let call = match Call::open(site, code, &asked).await {
        Ok(call) => call,
        Err(NoPage::Unknown) => return render::unknown(&asked),
        Err(NoPage::Away) => return render::away(&asked),
    };
    if !call.place.open {
        return render::answer(call.view(None).closed());
    }
    // Looking whether there is a page takes nobody's place.
    if method == Method::HEAD {
        let page = call.view(None).page(String::new());
        return render::answer(Answer::new(StatusCode::OK, page));
    }
    let (identity, address, cookie) = match call.who(&headers) {
        Who::Known(identity) => {
            let worn = identity
                .is_worn(call.now_ms)
                .then(|| call.cookie(&identity));
            (identity, None, worn)
        }
        Who::Addressed(identity) => {
            let v = call.sign(Purpose::Person(visitor::browser(&headers)), &identity);
            (identity, Some(v), None)
        }
        Who::Settled => return render::see_other(&call.view(None).links.page, None),
        Who::Cookieless(identity) => return proceed(&call, &headers, &identity),
        Who::New(identity) => {
            let v = call.sign(Purpose::Bounce(visitor::browser(&headers)), &identity);
            let cookie = call.cookie(&identity);
            let lang = call.asked.lang.then_some(call.asked.language.code());
            let to = self::address(&call.path(), Some(&v), lang);
            return render::see_other(&to, Some(cookie));
        }
    };
    let view = call.view(address.as_deref());
    let answer = match call.visit(&identity).await {
        Ok(visited) => {
            let name = match &visited {
                Visited::Held { member, .. } | Visited::Met { member, .. } => {
                    call.site.desk.name(&call.place, member)
                }
                _ => String::new(),
            };
            view.visited(&visited, &name)
        }
        Err(Away) => view.away(),
    };
    render::with_cookie(render::answer(answer), cookie)
}

/// Leads on whoever keeps no cookies; what follows redirections by itself stays here.
fn proceed(call: &Call, headers: &HeaderMap, identity: &Identity) -> Response {
    let view = call.view(call.asked.v.as_deref());
    let texts = view.language.texts();
    let button = Button {
        action: call.path(),
        v: call.sign(Purpose::Person(visitor::browser(headers)), identity),
        text: texts.proceed_button,
    };
    let page = Page {
        button: Some(button),
        ..view.page(texts.proceed).line(match call.asked.door {
            Door::Channel => texts.proceed_text,
            Door::Campaign => texts.seat_proceed_text,
        })
    };
    render::answer(Answer::new(StatusCode::OK, page))
}

/// `GET …/{code}/status`: what the page would show, for its script. It never makes anybody a visitor.
pub(super) async fn status(
    State(site): State<Site>,
    asked: Asked,
    method: Method,
    headers: HeaderMap,
    code: Code,
) -> Response {
    let call = match Call::open(site, code, &asked).await {
        Ok(call) => call,
        Err(NoPage::Unknown) => return told(StatusCode::NOT_FOUND, Status::of("unknown")),
        Err(NoPage::Away) => return told(StatusCode::SERVICE_UNAVAILABLE, Status::away()),
    };
    if !call.place.open {
        return told(StatusCode::GONE, Status::of("closed"));
    }
    let (Who::Known(identity) | Who::Addressed(identity)) = call.who(&headers) else {
        return told(StatusCode::OK, Status::of("unknown"));
    };
    if method == Method::HEAD {
        return told(StatusCode::OK, Status::of("unknown"));
    }
    match call.visit(&identity).await {
        Ok(Visited::Off) => told(StatusCode::GONE, Status::of("closed")),
        Ok(Visited::NoPool) | Err(Away) => told(StatusCode::SERVICE_UNAVAILABLE, Status::away()),
        Ok(visited) => told(StatusCode::OK, Status::visited(&visited, call.now_ms)),
    }
}

pub(super) fn told(status: StatusCode, what: Status) -> Response {
    let retry = what.refresh_s.filter(|_| !status.is_success());
    let mut response = (status, Json(what)).into_response();
    if let Some(seconds) = retry {
        let seconds = HeaderValue::from(seconds);
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    response
}

/// `GET /w/{way}.png`.
pub(super) async fn picture(
    State(site): State<Site>,
    asked: Asked,
    headers: HeaderMap,
    file: Code,
) -> Response {
    let file = file.map(|Path(file)| file).unwrap_or_default();
    let Some(way) = file.strip_suffix(".png") else {
        return render::unknown(&asked);
    };
    let picture = match within(site.patience, site.desk.picture(way)).await {
        Ok(Some(picture)) => picture,
        Ok(None) => return render::unknown(&asked),
        Err(Away) => return render::away(&asked),
    };
    let tag = format!("\"{}\"", picture.etag);
    let known = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|value| value.trim())
        .any(|value| value == "*" || value.trim_start_matches("W/") == tag);
    let fixed: [(HeaderName, HeaderValue); 2] = [
        (header::CACHE_CONTROL, FOR_EVER),
        (
            header::ETAG,
            HeaderValue::try_from(tag).unwrap_or(HeaderValue::from_static("\"\"")),
        ),
    ];
    if known {
        return (StatusCode::NOT_MODIFIED, fixed).into_response();
    }
    // What is shown as a picture is one; anything else is only handed out.
    let kind = match picture.content_type.as_str() {
        "image/png" => HeaderValue::from_static("image/png"),
        "image/jpeg" => HeaderValue::from_static("image/jpeg"),
        "image/gif" => HeaderValue::from_static("image/gif"),
        "image/webp" => HeaderValue::from_static("image/webp"),
        _ => HeaderValue::from_static("application/octet-stream"),
    };
    let body = Body::from(picture.bytes.clone());
    (fixed, [(header::CONTENT_TYPE, kind)], body).into_response()
}

async fn within<T>(
    patience: Duration,
    work: impl Future<Output = Result<T, Away>>,
) -> Result<T, Away> {
    tokio::time::timeout(patience, work)
        .await
        .unwrap_or(Err(Away))
}

/// `v` and codes need no escaping.
fn address(path: &str, v: Option<&str>, lang: Option<&str>) -> String {
    let query: Vec<String> = [("v", v), ("lang", lang)]
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", value?)))
        .collect();
    if query.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{}", query.join("&"))
    }
}
