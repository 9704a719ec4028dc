//! Reading the corp's log. Entry `<seq>-0` has the fields o (operation), t (time), a (arguments), r (result) and,
//! if there is one, p (payload).

use std::time::Duration;

use allocation::{CorpId, LogEntry};
use redis::streams::{StreamId, StreamReadReply};

use crate::connection::Connection;
use crate::corp::CorpRoster;
use crate::error::Error;
use crate::keys::Keys;

impl<C: Connection> CorpRoster<C> {
    /// Entries after `after_seq`, oldest first; at once, also when there are none. [`Error::Entry`] if one of them cannot
    /// be read.
    pub async fn log_read(&self, after_seq: u64, count: usize) -> Result<Vec<LogEntry>, Error> {
        let page = self.log_page(after_seq, count).await?;
        page.into_iter().collect()
    }

    /// The same, and each that cannot be read as the error that it is.
    pub async fn log_page(
        &self,
        after_seq: u64,
        count: usize,
    ) -> Result<Vec<Result<LogEntry, Error>>, Error> {
        let mut connection = self.connection.clone();
        read(&mut connection, &self.keys, after_seq, count, None).await
    }

    /// Entries that are there: the ledger may not have them yet.
    pub async fn log_length(&self) -> Result<u64, Error> {
        let mut connection = self.connection.clone();
        Ok(redis::cmd("XLEN")
            .arg(self.keys.log())
            .query_async(&mut connection)
            .await?)
    }

    /// Forgets entries before `first`. The last one that the ledger has is to be kept: whoever writes the next ones
    /// compares it.
    pub async fn log_trim(&self, first: u64) -> Result<(), Error> {
        let mut connection = self.connection.clone();
        redis::cmd("XTRIM")
            .arg(self.keys.log())
            .arg("MINID")
            .arg(format!("{first}-0"))
            .query_async::<()>(&mut connection)
            .await?;
        Ok(())
    }
}

/// Waits for entries of one corp on a connection of its own: a blocking read stalls everybody who shares one. The
/// connection must have no response time-out, or one longer than the waits.
#[derive(Debug)]
pub struct LogReader<B> {
    connection: B,
    keys: Keys,
}

impl<B: redis::aio::ConnectionLike + Send> LogReader<B> {
    pub fn new(connection: B, corp: &CorpId) -> Self {
        Self {
            connection,
            keys: Keys::new(corp),
        }
    }

    /// Entries after `after_seq`, oldest first; waits until there is one, at most `timeout`.
    pub async fn log_wait(
        &mut self,
        after_seq: u64,
        count: usize,
        timeout: Duration,
    ) -> Result<Vec<LogEntry>, Error> {
        // BLOCK 0 would wait for ever.
        let block_ms = timeout.as_millis().max(1);
        let page = read(
            &mut self.connection,
            &self.keys,
            after_seq,
            count,
            Some(block_ms),
        );
        page.await?.into_iter().collect()
    }
}

async fn read(
    connection: &mut (impl redis::aio::ConnectionLike + Send),
    keys: &Keys,
    after_seq: u64,
    count: usize,
    block_ms: Option<u128>,
) -> Result<Vec<Result<LogEntry, Error>>, Error> {
    let mut command = redis::cmd("XREAD");
    command.arg("COUNT").arg(count);
    if let Some(block_ms) = block_ms {
        command.arg("BLOCK").arg(block_ms.to_string());
    }
    command
        .arg("STREAMS")
        .arg(keys.log())
        .arg(format!("{after_seq}-0"));
    let reply: Option<StreamReadReply> = command.query_async(connection).await?;
    let entries = reply.into_iter().flat_map(|reply| reply.keys);
    let entries = entries.flat_map(|stream| stream.ids);
    Ok(entries.map(|id| entry(&id)).collect())
}

fn entry(id: &StreamId) -> Result<LogEntry, Error> {
    let (number, part) = id.id.split_once('-').unwrap_or_default();
    let seq = number.parse().unwrap_or_default();
    let read = || {
        let unreadable = |problem: &str| allocation::Error::Unreadable {
            what: "log entry",
            problem: problem.to_owned(),
        };
        if part != "0" {
            return Err(unreadable("its number is not one of ours"));
        }
        let text = |name: &str| id.get::<String>(name);
        let field = |name: &str| text(name).ok_or_else(|| unreadable(name));
        let at_ms = field("t")?.parse().map_err(|_| unreadable("t"))?;
        let entry = LogEntry::from_parts(seq, at_ms, &field("o")?, &field("a")?, &field("r")?)?;
        Ok(entry.with_payload(text("p")))
    };
    read().map_err(|source| Error::Entry { seq, source })
}
