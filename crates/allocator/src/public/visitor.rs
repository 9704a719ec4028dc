//! Which visitor a request comes from.
//!
//! A place in line, or a member's time, is taken by people only. So the first request of a browser takes none: it is
//! answered with a cookie and a redirection to the same page with a signed, short-lived `v` in its address. What comes then
//! says what the other end is:
//!
//! | request | what it is | answer |
//! |---|---|---|
//! | cookie | a browser that was here | the page |
//! | cookie and `v` | a browser that just got its cookie | redirection to the address without `v`: that one is shared and bookmarked |
//! | neither, or none that is valid | new, or a preview, or a crawler | cookie, redirection with `v` (a bounce, good for 1 min) |
//! | `v` of a bounce, no cookie | cookies are blocked, or a crawler that follows | a page with a button, which leads on to a `v` of a person |
//! | `v` of a person, no cookie | somebody without cookies who pressed it | the page; every address on it has a `v` of its own |
//!
//! Who does not follow redirections gets no place, and who follows them without keeping cookies neither, unless he sends a
//! form: link previews and crawlers do not. The usual visitor pays two redirections, once in 30 days; WeChat's own browser
//! keeps cookies. Tabs that are opened in a browser with the cookie are one visitor; those that are opened at once before
//! there is one may be several. A `v` is bound to the browser's name (`User-Agent`) and a person's is good for an hour, so
//! that an address which is sent to a friend rarely carries its sender along.
//!
//! Nothing that a browser sends is an error: what is forged, of another corp, cut off or old counts as none
//! (`paidan_public_identities_total`), and a new one is set.

use allocation::CorpId;
use axum::http::{HeaderMap, header};
use cookie::{Cookie, SameSite};
use metrics::counter;
use sha2::{Digest, Sha256};

use super::desk::Door;
use super::identity::{Identity, Keys, Purpose, Refused};

/// Of each header; browsers send one, of a few cookies.
const MOST_COOKIES: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// By his cookie.
    Known(Identity),
    /// By his address, because he has no cookie.
    Addressed(Identity),
    /// He has his cookie now and needs the address no longer.
    Settled,
    /// He came back without the cookie.
    Cookieless(Identity),
    New(Identity),
}

pub(super) fn who(
    keys: &Keys,
    corp: &CorpId,
    headers: &HeaderMap,
    address: Option<&str>,
    now_ms: u64,
) -> Who {
    let (found, who) = look(keys, corp, headers, address, now_ms);
    counter!("paidan_public_identities_total", "found" => found).increment(1);
    who
}

fn look(
    keys: &Keys,
    corp: &CorpId,
    headers: &HeaderMap,
    address: Option<&str>,
    now_ms: u64,
) -> (&'static str, Who) {
    let mut refused: Option<Refused> = None;
    match of_cookie(keys, corp, headers, now_ms) {
        Some(Ok(_)) if address.is_some() => return ("cookie", Who::Settled),
        Some(Ok(known)) => return ("cookie", Who::Known(known)),
        Some(Err(why)) => refused = Some(why),
        None => {}
    }
    if let Some(text) = address {
        let browser = browser(headers);
        let verify = |purpose| keys.verify(purpose, corp.as_str(), text, now_ms);
        match verify(Purpose::Person(browser)) {
            Ok(known) => return ("address", Who::Addressed(known)),
            Err(Refused::Forged) => match verify(Purpose::Bounce(browser)) {
                Ok(known) => return ("bounce", Who::Cookieless(known)),
                Err(why) => refused = refused.or(Some(why)),
            },
            Err(why) => refused = refused.or(Some(why)),
        }
    }
    let found = refused.map_or("none", Refused::word);
    (found, Who::New(Identity::random()))
}

/// What the browser calls itself.
pub(super) fn browser(headers: &HeaderMap) -> &str {
    let name = headers.get(header::USER_AGENT);
    name.and_then(|name| name.to_str().ok()).unwrap_or_default()
}

fn of_cookie(
    keys: &Keys,
    corp: &CorpId,
    headers: &HeaderMap,
    now_ms: u64,
) -> Option<Result<Identity, Refused>> {
    let name = cookie_name(corp);
    let mut last = None;
    for cookie in cookies(headers).filter(|cookie| cookie.name() == name) {
        let read = keys.verify(Purpose::Cookie, corp.as_str(), cookie.value(), now_ms);
        if read.is_ok() {
            return Some(read);
        }
        last = Some(read);
    }
    last
}

pub(super) fn cookies(headers: &HeaderMap) -> impl Iterator<Item = Cookie<'_>> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| Cookie::split_parse(line).take(MOST_COOKIES))
        .filter_map(Result::ok)
}

/// Each corp has its own, so that one browser can be a visitor of several.
fn cookie_name(corp: &CorpId) -> String {
    let digest = Sha256::digest(corp.as_str());
    let short: [u8; 4] = [digest[0], digest[1], digest[2], digest[3]];
    format!("paidan_{}", hex::encode(short))
}

/// The cookie that makes the browser this visitor, signed anew.
pub(super) fn cookie(
    keys: &Keys,
    corp: &CorpId,
    identity: &Identity,
    secure: bool,
    now_ms: u64,
    door: Door,
) -> Cookie<'static> {
    let value = keys.sign(Purpose::Cookie, corp.as_str(), identity, now_ms);
    let life = i64::try_from(Purpose::Cookie.life_s()).unwrap_or_default();
    kept(cookie_name(corp), value, life, secure, door)
}

/// A cookie for the pages of channels, or of campaigns, alone, which no script reads.
pub(super) fn kept(
    name: String,
    value: String,
    life_s: i64,
    secure: bool,
    door: Door,
) -> Cookie<'static> {
    Cookie::build((name, value))
        .path(door.path())
        .max_age(time::Duration::seconds(life_s))
        .http_only(true)
        .same_site(SameSite::Lax)
        .secure(secure)
        .build()
}
