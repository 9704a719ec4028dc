//! Ending the leases of dirty entities.

use redis::aio::ConnectionLike;

use crate::{Error, Inbox, Taken, entry};

impl<C> Inbox<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    /// The entities were read, or, with `again_ms`, are to be read (again) then. Answers how many leases were
    /// still the caller's; a mark made meanwhile stays in any case.
    pub async fn dirty_done(
        &self,
        kind: &str,
        leases: &[Taken],
        again_ms: Option<u64>,
    ) -> Result<u64, Error> {
        if leases.is_empty() {
            return Ok(0);
        }
        let shared = &*self.shared;
        let keys = &shared.keys;
        let mut call = shared
            .scripts
            .dirty_done
            .call(&[&keys.dirty(kind), &keys.taken(kind)], leases.len() * 64)
            .arg(entry::clock(again_ms));
        for lease in leases {
            call.push(&lease.entity);
            call.push(lease.lease_until_ms);
        }
        let answer = call
            .invoke(&mut self.connection.clone(), &shared.counters)
            .await?;
        let (word, mut rest) = entry::word(answer)?;
        if word != "DONE" {
            return Err(Error::Answer("dirty_done"));
        }
        entry::number(entry::next(&mut rest)?)
    }
}
