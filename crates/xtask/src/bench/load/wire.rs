//! One HTTP/1.1 connection of the sender: writes a ready request, reads one answer.

use std::net::SocketAddr;

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Wire {
    pub(super) async fn open(to: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(to)
            .await
            .with_context(|| format!("cannot connect to {to}"))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            read: Vec::with_capacity(512),
        })
    }

    /// Answers the status.
    pub(super) async fn ask(&mut self, request: &[u8]) -> anyhow::Result<u16> {
        self.stream.write_all(request).await?;
        self.read.clear();
        loop {
            if let Some(status) = whole_answer(&self.read)? {
                return Ok(status);
            }
            let n = self.stream.read_buf(&mut self.read).await?;
            anyhow::ensure!(n > 0, "the connection ended before the answer");
        }
    }
}

/// The status, once head and body are there.
fn whole_answer(bytes: &[u8]) -> anyhow::Result<Option<u16>> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(bytes.get(..end).unwrap_or_default())?;
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1)?.parse().ok())
        .context("not an HTTP answer")?;
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .context("an answer without a length")?;
    let length: usize = length.1.trim().parse()?;
    Ok((bytes.len() >= end + 4 + length).then_some(status))
}

#[cfg(test)]
mod tests {
    use super::whole_answer;

    #[test]
    fn an_answer_is_whole_with_its_body() {
        let answer = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nno";
        assert_eq!(whole_answer(answer).unwrap(), Some(503));
        for end in 0..answer.len() {
            assert_eq!(whole_answer(&answer[..end]).unwrap(), None, "{end}");
        }
        assert!(whole_answer(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
