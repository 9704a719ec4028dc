//! Handing out what is due again. Readers use it through [`Consumer`](crate::Consumer).

use redis::aio::ConnectionLike;

use crate::entry::{self, Entry};
use crate::{EntryId, Error, Group, Inbox};

/// What a claim brought.
#[derive(Debug)]
pub(crate) struct Claimed {
    /// Where the next claim goes on.
    pub(crate) cursor: EntryId,
    /// Pending entries that are gone from the stream; they are pending no more.
    pub(crate) lost: u64,
    pub(crate) entries: Vec<(Entry, u32)>,
}

impl<C> Inbox<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    pub(crate) async fn claim(
        &self,
        group: Group,
        consumer: &str,
        cursor: EntryId,
        count: usize,
        now_ms: Option<u64>,
    ) -> Result<Claimed, Error> {
        let shared = &*self.shared;
        let answer = shared
            .scripts
            .claim
            .call(&[&shared.keys.inbox, &shared.keys.retry(group)], 128)
            .arg(group.as_str())
            .arg(consumer)
            .arg(entry::clock(now_ms))
            .arg(shared.config.claim_idle_ms)
            .arg(count)
            .arg(cursor)
            .invoke(&mut self.connection.clone(), &shared.counters)
            .await?;
        let claimed = decode(answer)?;
        shared.counters.lost(claimed.lost);
        Ok(claimed)
    }
}

fn decode(answer: redis::Value) -> Result<Claimed, Error> {
    let (word, mut rest) = entry::word(answer)?;
    if word != "CLAIMED" {
        return Err(Error::Answer("claim"));
    }
    let cursor = entry::text(entry::next(&mut rest)?)?
        .parse()
        .map_err(|_| Error::Answer("claim: no cursor"))?;
    let lost = entry::number(entry::next(&mut rest)?)?;
    let mut entries = Vec::new();
    for item in entry::array(entry::next(&mut rest)?)? {
        let mut parts = entry::array(item)?;
        let tries = entry::number(parts.pop().unwrap_or(redis::Value::Nil))?;
        let entry = Entry::from_value(redis::Value::Array(parts))?;
        entries.push((entry, u32::try_from(tries).unwrap_or(u32::MAX)));
    }
    Ok(Claimed {
        cursor,
        lost,
        entries,
    })
}
