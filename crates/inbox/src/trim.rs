//! Removing what nobody needs any more.

use redis::aio::ConnectionLike;

use crate::{Error, Group, Inbox, entry};

impl<C> Inbox<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    /// Removes the entries that both groups have acknowledged and answers how many. To be called now and then,
    /// by any process. While a group does not exist nothing is removed.
    pub async fn trim(&self) -> Result<u64, Error> {
        let shared = &*self.shared;
        let mut call = shared.scripts.trim.call(&[&shared.keys.inbox], 32);
        for group in Group::ALL {
            call.push(group.as_str());
        }
        let answer = call
            .invoke(&mut self.connection.clone(), &shared.counters)
            .await?;
        let (word, mut rest) = entry::word(answer)?;
        match word.as_str() {
            "TRIMMED" => entry::number(entry::next(&mut rest)?),
            "UNREAD" => Ok(0),
            _ => Err(Error::Answer("trim")),
        }
    }
}
