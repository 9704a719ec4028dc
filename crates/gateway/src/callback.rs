//! `/callback/{endpoint}`: verify, decrypt, store, answer. What a message means is not judged here; it is read only to
//! know which acknowledgement its envelope wants and what a duplicate of it may have changed.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue},
};
use inbox::{Appended, NewDelivery};
use tokio::time::Instant;
use wecom::{
    envelope::{self, Query},
    event::Event,
};

use crate::{
    activity::Activity, body, clock, config::Kind, refusal::Refusal, routes::Route, worker::Worker,
};

pub(crate) type Answer = Response<Full<Bytes>>;

/// Answers any request to the public address.
pub(crate) async fn answer(
    worker: &Worker,
    activity: &Activity,
    peer: SocketAddr,
    request: Request<Incoming>,
) -> Answer {
    let id = request
        .uri()
        .path()
        .strip_prefix("/callback/")
        .unwrap_or_default();
    let found = worker.routes.load().find(id);
    let result = match &found {
        Ok(route) => match *request.method() {
            Method::GET => verify(route, request),
            Method::POST => receive(worker, activity, route, request).await,
            _ => Err(refuse_unread(worker, request, Refusal::Method)),
        },
        Err((refusal, _)) => Err(refuse_unread(worker, request, *refusal)),
    };
    let mut close = worker.health.draining();
    let mut answer = result.unwrap_or_else(|refusal| {
        close |= !refusal.is_ours();
        let endpoint = match &found {
            Ok(route) => &route.endpoint.id,
            Err((_, endpoint)) => endpoint,
        };
        worker.metrics.refused(endpoint, refusal);
        worker.refusals.log(refusal, endpoint, peer);
        let mut answer = plain(refusal.status(), Bytes::new());
        if refusal == Refusal::Method {
            answer
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET, POST"));
        }
        answer
    });
    // Who was refused keeps no place among the connections; and what is left of his body is not the next request.
    if close {
        answer
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// URL verification: needs no store, so that a URL can be saved in WeCom's console while everything else is down.
fn verify(route: &Route, request: Request<Incoming>) -> Result<Answer, Refusal> {
    let query = Query::parse_verification(request.uri().query().unwrap_or_default())?;
    let echo = route.endpoint.receiver.verify_url(&query)?;
    route.endpoint.metrics.verified.increment(1);
    let mut answer = plain(StatusCode::OK, echo.into());
    answer.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    Ok(answer)
}

/// 200 only after the append. Everything authentic is stored, also what nobody can read yet.
async fn receive(
    worker: &Worker,
    activity: &Activity,
    route: &Route,
    request: Request<Incoming>,
) -> Result<Answer, Refusal> {
    let begun = Instant::now();
    let metrics = &route.endpoint.metrics;
    metrics.received.increment(1);
    let (head, body) = request.into_parts();
    let (body, _share) = body::read(&head.headers, body, &worker.body_limits, activity).await?;
    let query = Query::parse(head.uri.query().unwrap_or_default())?;
    let envelope = envelope::parse(&body)?;
    let opened = route.endpoint.receiver.open(&query, &envelope.encrypt)?;
    if opened.key_index > 0 {
        metrics.older_key.increment(1);
    }

    let acknowledgement = acknowledgement(route.endpoint.kind, &opened.plaintext);
    let delivery = NewDelivery::new(&*route.endpoint.id, clock::now_ms(), opened.plaintext);
    match route
        .lane
        .store(delivery, begun + worker.store_timeout)
        .await?
    {
        Appended::New => metrics.stored.increment(1),
        Appended::Duplicate => metrics.duplicate.increment(1),
        Appended::Full => return Err(Refusal::InboxFull),
    }
    worker
        .metrics
        .acknowledged
        .record(begun.elapsed().as_secs_f64());
    Ok(plain(StatusCode::OK, Bytes::from_static(acknowledgement)))
}

/// What the message's envelope wants to hear. A suite takes anything but `success` for an error; to an app an answer
/// would be a message to the sender, so it must be empty. Only a text with the suite's mark in it is read at all.
fn acknowledgement(kind: Kind, plaintext: &str) -> &'static [u8] {
    const SUITE: &[u8] = b"success";
    let marked = memchr::memmem::find(plaintext.as_bytes(), b"<InfoType").is_some();
    if !marked && kind == Kind::App {
        return b"";
    }
    match Event::parse(plaintext) {
        Ok(event) if event.is_suite() => SUITE,
        Err(_) if kind == Kind::Suite => SUITE,
        _ => b"",
    }
}

/// Refuses a request whose body was not read.
fn refuse_unread(worker: &Worker, request: Request<Incoming>, refusal: Refusal) -> Refusal {
    let (head, body) = request.into_parts();
    body::discard(&head.headers, body, worker.body_limits.time);
    refusal
}

fn plain(status: StatusCode, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    answer
}
