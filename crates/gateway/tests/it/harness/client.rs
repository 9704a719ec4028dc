//! HTTP by hand: nothing is decoded, encoded or added behind the test's back.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::PATIENCE;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

pub(crate) async fn get(addr: SocketAddr, target: &str) -> Reply {
    request(addr, "GET", target, &[], b"").await
}

pub(crate) async fn post(addr: SocketAddr, target: &str, body: impl AsRef<[u8]>) -> Reply {
    request(
        addr,
        "POST",
        target,
        &[("Content-Type", "text/xml")],
        body.as_ref(),
    )
    .await
}

pub(crate) async fn request(
    addr: SocketAddr,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Reply {
    raw(addr, &message(method, target, headers, body))
        .await
        .expect("no answer")
}

/// A request as bytes, asking to close the connection.
pub(crate) fn message(
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Vec<u8> {
    let mut head =
        format!("{method} {target} HTTP/1.1\r\nHost: gateway.test\r\nConnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if method == "POST" || !body.is_empty() {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    [head.as_bytes(), body].concat()
}

/// Sends bytes and reads to the end. None: the connection ended without an answer.
pub(crate) async fn raw(addr: SocketAddr, message: &[u8]) -> Option<Reply> {
    let exchange = async {
        let mut stream = TcpStream::connect(addr).await.ok()?;
        stream.write_all(message).await.ok()?;
        read_to_end(&mut stream).await
    };
    tokio::time::timeout(PATIENCE, exchange)
        .await
        .expect("no answer in time")
}

pub(crate) async fn read_to_end(stream: &mut TcpStream) -> Option<Reply> {
    let mut answer = Vec::new();
    // A reset after the answer does not make it less of one.
    stream.read_to_end(&mut answer).await.ok();
    parse(&answer)
}

fn parse(answer: &[u8]) -> Option<Reply> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().unwrap();
    let header = |line: &str| {
        let (name, value) = line.split_once(": ").unwrap_or((line, ""));
        (name.to_ascii_lowercase(), value.to_owned())
    };
    Some(Reply {
        status,
        headers: lines.map(header).collect(),
        body: answer[end + 4..].to_vec(),
    })
}
