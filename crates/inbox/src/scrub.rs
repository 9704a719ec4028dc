//! What the console asks: the latest dead letters, and removing what names a person.

use std::collections::BTreeSet;

use redis::aio::ConnectionLike;

use crate::entry::{self, Entry};
use crate::{DeadLetter, EntryId, Error, Inbox, dead};

const PAGE: usize = 500;

impl<C> Inbox<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    /// Dead letters older than `before` (all without it), the latest first.
    pub async fn dead_latest(
        &self,
        before: Option<EntryId>,
        count: usize,
    ) -> Result<Vec<DeadLetter>, Error> {
        let from = before.map_or_else(|| "+".to_owned(), |before| format!("({before}"));
        let answer: redis::Value = redis::cmd("XREVRANGE")
            .arg(&self.shared.keys.dead)
            .arg(from)
            .arg("-")
            .arg("COUNT")
            .arg(count)
            .query_async(&mut self.connection.clone())
            .await?;
        entry::array(answer)?
            .into_iter()
            .map(|item| dead::decode(Entry::from_value(item)?))
            .collect()
    }

    /// Deletes every delivery whose endpoint and plaintext `is_his` says yes to, from the inbox and from its dead
    /// letters, handled or not; answers how many. What comes in meanwhile is not looked at.
    pub async fn scrub(&self, is_his: impl Fn(&str, &str) -> bool) -> Result<u64, Error> {
        let mut deleted = 0;
        for stream in [&self.shared.keys.inbox, &self.shared.keys.dead] {
            deleted += self.scrub_stream(stream, &is_his).await?;
        }
        Ok(deleted)
    }

    /// Removes the marks and leases of every entity that `is_his` says yes to; answers how many entities. Whoever
    /// holds such a lease reads once more and then finds it gone.
    pub async fn dirty_forget(
        &self,
        kind: &str,
        is_his: impl Fn(&str) -> bool,
    ) -> Result<u64, Error> {
        let mut connection = self.connection.clone();
        let keys = [self.shared.keys.dirty(kind), self.shared.keys.taken(kind)];
        let mut his = BTreeSet::new();
        for key in &keys {
            let mut cursor = 0_u64;
            loop {
                let (next, page): (u64, Vec<(String, f64)>) = redis::cmd("ZSCAN")
                    .arg(key)
                    .arg(cursor)
                    .arg("COUNT")
                    .arg(PAGE)
                    .query_async(&mut connection)
                    .await?;
                let found = page.into_iter().map(|(entity, _)| entity);
                his.extend(found.filter(|entity| is_his(entity)));
                if next == 0 {
                    break;
                }
                cursor = next;
            }
        }
        if his.is_empty() {
            return Ok(0);
        }
        // From both at once: a mark that is taken in between is then not missed.
        let mut removal = redis::pipe();
        removal.atomic();
        for key in &keys {
            removal.cmd("ZREM").arg(key).arg(&his).ignore();
        }
        removal.query_async::<()>(&mut connection).await?;
        Ok(his.len() as u64)
    }

    async fn scrub_stream(
        &self,
        stream: &str,
        is_his: &impl Fn(&str, &str) -> bool,
    ) -> Result<u64, Error> {
        let mut connection = self.connection.clone();
        let (mut from, mut deleted) = ("-".to_owned(), 0);
        let Some(end) = self.last(stream).await? else {
            return Ok(0);
        };
        loop {
            let answer: redis::Value = redis::cmd("XRANGE")
                .arg(stream)
                .arg(&from)
                .arg(end)
                .arg("COUNT")
                .arg(PAGE)
                .query_async(&mut connection)
                .await?;
            let page = entry::array(answer)?;
            let (n_read, mut his) = (page.len(), Vec::new());
            for item in page {
                let mut entry = Entry::from_value(item)?;
                from = format!("({}", entry.id);
                let endpoint = entry.take("e").unwrap_or_default();
                let plaintext = entry.take("x").unwrap_or_default();
                if is_his(&endpoint, &plaintext) {
                    his.push(entry.id);
                }
            }
            if !his.is_empty() {
                let n: u64 = redis::cmd("XDEL")
                    .arg(stream)
                    .arg(&his)
                    .query_async(&mut connection)
                    .await?;
                deleted += n;
            }
            if n_read < PAGE {
                return Ok(deleted);
            }
        }
    }

    async fn last(&self, stream: &str) -> Result<Option<EntryId>, Error> {
        let answer: redis::Value = redis::cmd("XREVRANGE")
            .arg(stream)
            .arg("+")
            .arg("-")
            .arg("COUNT")
            .arg(1)
            .query_async(&mut self.connection.clone())
            .await?;
        let last = entry::array(answer)?.into_iter().next();
        last.map(|item| Ok(Entry::from_value(item)?.id)).transpose()
    }
}
