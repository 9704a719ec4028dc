//! Removing the names of dead consumers, of which every process start makes new ones.

use redis::aio::ConnectionLike;

use crate::{Error, Group, Inbox, entry};

impl<C> Inbox<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    /// Removes consumers that hold nothing and were silent for `idle_ms`; answers how many. An hour is a good
    /// time, and once an hour often enough.
    pub async fn forget_consumers(&self, group: Group, idle_ms: u64) -> Result<u64, Error> {
        let shared = &*self.shared;
        let answer = shared
            .scripts
            .forget_consumers
            .call(&[&shared.keys.inbox], 32)
            .arg(group.as_str())
            .arg(idle_ms)
            .invoke(&mut self.connection.clone(), &shared.counters)
            .await?;
        let (word, mut rest) = entry::word(answer)?;
        if word != "FORGOTTEN" {
            return Err(Error::Answer("forget_consumers"));
        }
        entry::number(entry::next(&mut rest)?)
    }
}
