//! HTTP: connections, the two halves of the address space, and what a fault does to a connection.

mod gate;
mod gettoken;
mod picture;
mod serve;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt;

use crate::world::World;

/// WeCom states no limit; a body beyond this is 40206.
const BODY_LIMIT: usize = 4 * 1_024 * 1_024;

/// The connection is closed without an answer.
#[derive(Debug, thiserror::Error)]
#[error("dropped on purpose")]
pub(crate) struct Dropped;

/// Accepts until the simulator stops.
pub(crate) async fn run(world: Arc<World>, listener: TcpListener, admin: Router) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = world.stop.cancelled() => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                let connection = connection(Arc::clone(&world), stream, peer, admin.clone());
                world.tasks.spawn(connection);
            }
            // Out of file handles, or the peer is gone already: the next accept may work.
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                tokio::task::yield_now().await;
            }
        }
    }
}

async fn connection(world: Arc<World>, stream: TcpStream, peer: SocketAddr, admin: Router) {
    // Small answers: waiting for more to send would only add 40 ms.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let stop = world.stop.clone();
    let service = service_fn(move |request| {
        let (world, admin) = (Arc::clone(&world), admin.clone());
        async move { answer(world, admin, peer, request).await }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .pipeline_flush(true)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        // Errors are the peer's hanging up, or ours on purpose.
        result = &mut connection => drop(result),
        () = stop.cancelled() => {}
    }
}

async fn answer(
    world: Arc<World>,
    admin: Router,
    peer: SocketAddr,
    request: Request<Incoming>,
) -> Result<Response<Body>, Dropped> {
    let path = request.uri().path();
    if path == "/sim" || path.starts_with("/sim/") {
        let Ok::<_, Infallible>(response) = admin.oneshot(request.map(Body::new)).await;
        return Ok(response);
    }
    if let Some(file) = path.strip_prefix(picture::PATH) {
        return Ok(picture::answer(&world, file));
    }
    let Some(name) = path.strip_prefix("/cgi-bin/") else {
        return Ok(not_found(path));
    };
    let Some(api) = crate::api::Api::by_name(name) else {
        return Ok(not_found(path));
    };
    let (parts, body) = request.into_parts();
    let ip = if world.rules.get().forwarded_for {
        forwarded(&parts.headers).unwrap_or(peer.ip())
    } else {
        peer.ip()
    };
    let body = if parts.method == Method::POST {
        match Limited::new(body, BODY_LIMIT).collect().await {
            Ok(body) => Some(body.to_bytes()),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => None,
            Err(_) => return Err(Dropped),
        }
    } else {
        Some(Bytes::new())
    };
    let request = serve::Incoming {
        api,
        ip,
        host: host(&parts.headers),
        post: parts.method == Method::POST,
        query: parts.uri.query().unwrap_or_default().to_owned(),
        body,
    };
    let answer = serve::serve(&world, request).await?;
    Ok(respond(answer))
}

/// As the caller wrote it: he finds pictures there too, whatever stands between him and us.
fn host(headers: &hyper::HeaderMap) -> String {
    let host = headers.get("host").and_then(|host| host.to_str().ok());
    host.unwrap_or("127.0.0.1").to_owned()
}

/// First address of X-Forwarded-For.
fn forwarded(headers: &hyper::HeaderMap) -> Option<IpAddr> {
    headers
        .get("x-forwarded-for")?
        .to_str()
        .ok()?
        .split(',')
        .next()?
        .trim()
        .parse()
        .ok()
}

fn respond(answer: serve::Answer) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::new(Bytes::from(answer.body))));
    *response.status_mut() =
        StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(
        "content-type",
        hyper::header::HeaderValue::from_static(answer.content_type),
    );
    // A capture of 2020 shows both on failures.
    if let Some((code, message)) = answer.error {
        headers.insert("error-code", code.into());
        if let Ok(message) = message.parse() {
            headers.insert("error-msg", message);
        }
    }
    response
}

fn not_found(path: &str) -> Response<Body> {
    let text = format!(
        "wecom-sim: there is nothing at {path}\n\
         APIs are under /cgi-bin/ (GET /sim/apis lists those that exist), the admin API is under /sim/ (GET /sim).\n"
    );
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}
