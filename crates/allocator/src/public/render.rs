//! What a request asks for, whatever its route, and answers as HTTP has them.

use askama::Template;
use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header, request::Parts},
    response::{IntoResponse, Response},
};
use cookie::Cookie;

use super::{
    desk::Door,
    html::{Answer, Page},
    text::{Language, Texts},
    visitor,
};

const LANGUAGE_COOKIE: &str = "paidan_lang";
const LANGUAGE_LIFE_S: i64 = 365 * 24 * 60 * 60;
const AWAY_S: u64 = 5;

/// Of the query and the headers.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) language: Language,
    /// The query says which.
    pub(super) lang: bool,
    pub(super) v: Option<String>,
    pub(super) door: Door,
}

impl Asked {
    /// The query's language, else the cookie's, else what the browser prefers.
    pub(super) fn new(uri: &Uri, headers: &HeaderMap) -> Self {
        let query = uri.query().unwrap_or_default();
        let mut by_query = None;
        let mut v = None;
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "lang" => by_query = Language::of_code(&value),
                "v" => v = Some(value.into_owned()),
                _ => {}
            }
        }
        let by_cookie = || {
            let mut cookies = visitor::cookies(headers);
            let cookie = cookies.find(|cookie| cookie.name() == LANGUAGE_COOKIE)?;
            Language::of_code(cookie.value())
        };
        let by_header = || {
            let header = headers.get(header::ACCEPT_LANGUAGE);
            let header = header.and_then(|header| header.to_str().ok());
            Language::of_header(header.unwrap_or_default())
        };
        Self {
            language: by_query.or_else(by_cookie).unwrap_or_else(by_header),
            lang: by_query.is_some(),
            v,
            door: Door::of_path(uri.path()),
        }
    }

    /// Remembers the language that somebody chose.
    pub(super) fn cookie(&self, secure: bool) -> Option<Cookie<'static>> {
        let value = self.language.code().to_owned();
        self.lang.then(|| {
            visitor::kept(
                LANGUAGE_COOKIE.to_owned(),
                value,
                LANGUAGE_LIFE_S,
                secure,
                self.door,
            )
        })
    }
}

impl<S: Sync> FromRequestParts<S> for Asked {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self::new(&parts.uri, &parts.headers))
    }
}

pub(super) fn answer(answer: Answer) -> Response {
    let Answer {
        status,
        page,
        retry_s,
    } = answer;
    let mut headers = HeaderMap::new();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    headers.insert(
        header::CONTENT_LANGUAGE,
        HeaderValue::from_static(page.language.tag()),
    );
    if let Ok(policy) = HeaderValue::try_from(page.policy()) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    if let Some(seconds) = retry_s {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    match page.render() {
        Ok(html) => (status, headers, html).into_response(),
        Err(error) => {
            tracing::error!(error = %error, "a page cannot be made");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// A page of no channel and no campaign.
fn plain(
    asked: &Asked,
    status: StatusCode,
    heading: fn(&Texts) -> &'static str,
    text: fn(&Texts) -> &'static str,
) -> Answer {
    let texts = asked.language.texts();
    let page = Page::new(asked.language, heading(texts)).line(text(texts));
    Answer::new(status, page)
}

pub(super) fn unknown(asked: &Asked) -> Response {
    let status = StatusCode::NOT_FOUND;
    answer(plain(asked, status, |t| t.unknown, |t| t.unknown_text))
}

pub(super) fn wrong_method(asked: &Asked) -> Response {
    let status = StatusCode::METHOD_NOT_ALLOWED;
    answer(plain(asked, status, |t| t.method, |t| t.method_text))
}

pub(super) fn broken(asked: &Asked) -> Response {
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    answer(plain(asked, status, |t| t.broken, |t| t.broken_text))
}

pub(super) fn away(asked: &Asked) -> Response {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let text: fn(&Texts) -> &'static str = match asked.door {
        Door::Channel => |t| t.away_text,
        Door::Campaign => |t| t.seat_away_text,
    };
    answer(plain(asked, status, |t| t.away, text).again_in(AWAY_S))
}

pub(super) fn limited(asked: &Asked, seconds: u64) -> Response {
    let status = StatusCode::TOO_MANY_REQUESTS;
    answer(plain(asked, status, |t| t.limited, |t| t.limited_text).again_in(seconds))
}

pub(super) fn see_other(to: &str, cookie: Option<Cookie<'_>>) -> Response {
    let Ok(to) = HeaderValue::try_from(to) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let response = (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response();
    with_cookie(response, cookie)
}

pub(super) fn with_cookie(mut response: Response, cookie: Option<Cookie<'_>>) -> Response {
    let value = cookie.and_then(|cookie| HeaderValue::try_from(cookie.to_string()).ok());
    if let Some(value) = value {
        response.headers_mut().append(header::SET_COOKIE, value);
    }
    response
}
