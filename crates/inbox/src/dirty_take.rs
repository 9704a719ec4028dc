//! Taking dirty entities to read them.

use redis::aio::ConnectionLike;

use crate::{Error, Inbox, entry};

/// A dirty entity that is leased to the caller until then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    pub entity: String,
    pub lease_until_ms: u64,
}

impl<C> Inbox<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    /// Leases up to `count` entities that are due. If the caller does not end the lease in time
    /// ([`dirty_done`](Self::dirty_done)), they are due again.
    pub async fn dirty_take(
        &self,
        kind: &str,
        now_ms: Option<u64>,
        count: usize,
        lease_ms: u64,
    ) -> Result<Vec<Taken>, Error> {
        let shared = &*self.shared;
        let keys = &shared.keys;
        let answer = shared
            .scripts
            .dirty_take
            .call(&[&keys.dirty(kind), &keys.taken(kind)], 64)
            .arg(entry::clock(now_ms))
            .arg(count)
            .arg(lease_ms.max(1))
            .invoke(&mut self.connection.clone(), &shared.counters)
            .await?;
        let (word, mut rest) = entry::word(answer)?;
        if word != "TAKEN" {
            return Err(Error::Answer("dirty_take"));
        }
        let lease_until_ms = entry::number(entry::next(&mut rest)?)?;
        entry::array(entry::next(&mut rest)?)?
            .into_iter()
            .map(|entity| {
                Ok(Taken {
                    entity: entry::text(entity)?,
                    lease_until_ms,
                })
            })
            .collect()
    }
}
