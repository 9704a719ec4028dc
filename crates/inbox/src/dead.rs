//! Looking at dead letters.

use std::fmt;

use redis::aio::ConnectionLike;

use crate::entry::Entry;
use crate::{DeliveryId, EntryId, Error, Group, Inbox, entry};

/// A delivery that a group has given up.
#[derive(Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its place among the dead letters.
    pub id: EntryId,
    /// The group that gave it up. The other one may have handled it.
    pub group: Group,
    /// Its place in the inbox when it failed.
    pub entry: EntryId,
    pub tries: u32,
    pub reason: String,
    pub failed_ms: u64,
    pub delivery: DeliveryId,
    /// Empty, as the plaintext, for an entry that was not written by us.
    pub endpoint: String,
    pub received_ms: u64,
    pub plaintext: String,
}

impl fmt::Debug for DeadLetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLetter")
            .field("id", &self.id)
            .field("group", &self.group)
            .field("delivery", &self.delivery)
            .field("endpoint", &self.endpoint)
            .field("tries", &self.tries)
            .field("reason", &self.reason)
            .field("bytes", &self.plaintext.len())
            .finish_non_exhaustive()
    }
}

impl<C> Inbox<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    /// Dead letters from `from` to `to`, both included, oldest first, at most `count`. The next page begins
    /// behind the last id.
    pub async fn dead_list(
        &self,
        from: EntryId,
        to: EntryId,
        count: usize,
    ) -> Result<Vec<DeadLetter>, Error> {
        let answer: redis::Value = redis::cmd("XRANGE")
            .arg(&self.shared.keys.dead)
            .arg(from)
            .arg(to)
            .arg("COUNT")
            .arg(count)
            .query_async(&mut self.connection.clone())
            .await?;
        entry::array(answer)?
            .into_iter()
            .map(|item| decode(Entry::from_value(item)?))
            .collect()
    }

    /// Removes dead letters for good; answers how many.
    pub async fn dead_remove(&self, letters: &[EntryId]) -> Result<u64, Error> {
        if letters.is_empty() {
            return Ok(0);
        }
        Ok(redis::cmd("XDEL")
            .arg(&self.shared.keys.dead)
            .arg(letters)
            .query_async(&mut self.connection.clone())
            .await?)
    }
}

pub(crate) fn decode(mut entry: Entry) -> Result<DeadLetter, Error> {
    let unreadable = Error::Answer("a dead letter without its own fields");
    let group = entry.take("g").and_then(|g| Group::parse(g.as_bytes()));
    let from = entry.take("i").and_then(|i| i.parse().ok());
    let tries = entry.take("n").and_then(|n| n.parse().ok());
    let failed = entry.take("f").and_then(|f| f.parse().ok());
    let (Some(group), Some(from), Some(tries), Some(failed_ms)) = (group, from, tries, failed)
    else {
        return Err(unreadable);
    };
    let endpoint = entry.take("e").unwrap_or_default();
    let plaintext = entry.take("x").unwrap_or_default();
    Ok(DeadLetter {
        id: entry.id,
        group,
        entry: from,
        tries,
        reason: entry.take("r").unwrap_or_default(),
        failed_ms,
        delivery: DeliveryId::of(&endpoint, &plaintext),
        endpoint,
        received_ms: entry
            .take("t")
            .and_then(|t| t.parse().ok())
            .unwrap_or_default(),
        plaintext,
    })
}
