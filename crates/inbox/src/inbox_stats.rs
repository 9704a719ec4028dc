//! How full the inbox is and how far its readers are, for metrics and for people.

use redis::aio::ConnectionLike;

use crate::{Error, Group, Inbox, entry};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    pub length: u64,
    pub dead: u64,
    /// Redis' estimate for the stream; the memory of duplicates comes on top.
    pub bytes: u64,
    /// Of the first entry that is still there; 0 when there is none.
    pub oldest_age_ms: u64,
    pub record: GroupStats,
    pub decide: GroupStats,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupStats {
    /// Read and not acknowledged.
    pub pending: u64,
    /// Not read yet. `None` when Redis cannot tell, or when the group does not exist.
    pub unread: Option<u64>,
    pub consumers: u64,
}

impl<C> Inbox<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    pub async fn stats(&self, now_ms: Option<u64>) -> Result<Stats, Error> {
        let shared = &*self.shared;
        let answer = shared
            .scripts
            .inbox_stats
            .call(&[&shared.keys.inbox, &shared.keys.dead], 64)
            .arg(entry::clock(now_ms))
            .arg(Group::Record.as_str())
            .arg(Group::Decide.as_str())
            .invoke(&mut self.connection.clone(), &shared.counters)
            .await?;
        let (word, mut rest) = entry::word(answer)?;
        if word != "STATS" {
            return Err(Error::Answer("inbox_stats"));
        }
        let length = entry::number(entry::next(&mut rest)?)?;
        let dead = entry::number(entry::next(&mut rest)?)?;
        let bytes = entry::number(entry::next(&mut rest)?)?;
        let oldest_age_ms = entry::number(entry::next(&mut rest)?)?;
        let mut groups = entry::array(entry::next(&mut rest)?)?.into_iter();
        Ok(Stats {
            length,
            dead,
            bytes,
            oldest_age_ms,
            record: group(entry::next(&mut groups)?)?,
            decide: group(entry::next(&mut groups)?)?,
        })
    }
}

/// Negative numbers mean that it is not known.
fn group(value: redis::Value) -> Result<GroupStats, Error> {
    let mut parts = entry::array(value)?.into_iter();
    let mut known = || match entry::next(&mut parts)? {
        redis::Value::Int(number) => Ok(u64::try_from(number).ok()),
        _ => Err(Error::Answer("inbox_stats: not a number")),
    };
    Ok(GroupStats {
        pending: known()?.unwrap_or_default(),
        unread: known()?,
        consumers: known()?.unwrap_or_default(),
    })
}
