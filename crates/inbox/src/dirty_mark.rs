//! Marking entities that must be read from their source again. Marks are durable and coalesce: an entity that is
//! marked a hundred times before it is read is read once.

use redis::aio::ConnectionLike;

use crate::{Error, Inbox};

/// Marks that wait, and leases that run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirtyCount {
    pub waiting: u64,
    pub taken: u64,
}

impl<C> Inbox<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    /// Marks `entity` as due at `due_ms`. If it is marked already, the earlier time stands, so that a stream of
    /// events cannot put the reading off for ever: whoever reads and fears to have read too early marks again.
    pub async fn dirty_mark(&self, kind: &str, entity: &str, due_ms: u64) -> Result<(), Error> {
        self.dirty_mark_many(kind, &[(entity, due_ms)]).await
    }

    /// As [`dirty_mark`](Self::dirty_mark), for many entities of one kind.
    pub async fn dirty_mark_many(&self, kind: &str, marks: &[(&str, u64)]) -> Result<(), Error> {
        if marks.is_empty() {
            return Ok(());
        }
        let mut cmd = redis::cmd("ZADD");
        cmd.arg(self.shared.keys.dirty(kind)).arg("LT");
        for (entity, due_ms) in marks {
            cmd.arg(due_ms).arg(entity);
        }
        Ok(cmd.query_async(&mut self.connection.clone()).await?)
    }

    /// When the first mark that waits is due, or was.
    pub async fn dirty_first(&self, kind: &str) -> Result<Option<u64>, Error> {
        let first: Vec<(String, f64)> = redis::cmd("ZRANGE")
            .arg(self.shared.keys.dirty(kind))
            .arg(0)
            .arg(0)
            .arg("WITHSCORES")
            .query_async(&mut self.connection.clone())
            .await?;
        Ok(first.first().map(|(_, due_ms)| *due_ms as u64))
    }

    pub async fn dirty_count(&self, kind: &str) -> Result<DirtyCount, Error> {
        let (waiting, taken) = redis::pipe()
            .zcard(self.shared.keys.dirty(kind))
            .zcard(self.shared.keys.taken(kind))
            .query_async(&mut self.connection.clone())
            .await?;
        Ok(DirtyCount { waiting, taken })
    }
}
