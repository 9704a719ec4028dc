//! Telling that a group is done with entries.

use redis::aio::ConnectionLike;

use crate::{EntryId, Error, Group, Inbox, entry};

const MOST_PER_CALL: usize = 1000;

impl<C> Inbox<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    /// Answers how many were still pending. An entry that another consumer has acknowledged meanwhile, or whose
    /// group is gone, is not.
    pub async fn ack(&self, group: Group, entries: &[EntryId]) -> Result<u64, Error> {
        let shared = &*self.shared;
        let retry = shared.keys.retry(group);
        let mut acked = 0;
        for some in entries.chunks(MOST_PER_CALL) {
            let mut call = shared
                .scripts
                .ack
                .call(&[&shared.keys.inbox, &retry], some.len() * 24)
                .arg(group.as_str());
            for entry in some {
                call.push(entry);
            }
            let answer = call
                .invoke(&mut self.connection.clone(), &shared.counters)
                .await?;
            let (word, mut rest) = entry::word(answer)?;
            if word != "ACKED" {
                return Err(Error::Answer("ack"));
            }
            acked += entry::number(entry::next(&mut rest)?)?;
        }
        Ok(acked)
    }
}
