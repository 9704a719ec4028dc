//! A reader of the inbox in one of its groups.

use std::time::Duration;

use redis::aio::ConnectionLike;
use tokio::time::Instant;

use crate::connect::LONGEST_BLOCK;
use crate::entry::{self, Entry, Read};
use crate::{Delivery, EntryId, Error, Group, Inbox};

/// Reads deliveries, takes over those of dead consumers, and mends a group that was lost. It has a connection of
/// its own for blocking reads; everything else goes over the inbox's.
#[derive(Debug)]
pub struct Consumer<C> {
    inbox: Inbox<C>,
    blocking: C,
    group: Group,
    name: String,
    cursor: EntryId,
    next_claim: Instant,
    now_ms: Option<u64>,
}

impl<C> Consumer<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    /// `blocking` must not be used by anything else. `name` must be new in each process: what an earlier one of
    /// that name had read would only come back once it is idle.
    pub fn new(inbox: Inbox<C>, blocking: C, group: Group, name: impl Into<String>) -> Consumer<C> {
        Consumer {
            inbox,
            blocking,
            group,
            name: name.into(),
            cursor: EntryId::MIN,
            next_claim: Instant::now(),
            now_ms: None,
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn group(&self) -> Group {
        self.group
    }

    pub fn inbox(&self) -> &Inbox<C> {
        &self.inbox
    }

    /// For tests: pauses are measured with this clock instead of that of Redis, and every call looks for what
    /// is due again.
    pub fn set_clock(&mut self, now_ms: u64) {
        self.now_ms = Some(now_ms);
        self.next_claim = Instant::now();
    }

    /// Up to `max` deliveries, waiting up to `block` for the first. What is due again comes before what is new.
    /// May return nothing early. The deliveries are the caller's until they are acknowledged or failed, or
    /// until they have been idle for `claim_idle_ms`: then another consumer gets them too.
    pub async fn next(&mut self, max: usize, block: Duration) -> Result<Vec<Delivery>, Error> {
        match self.try_next(max, block).await {
            Err(error) if is_no_group(&error) => {
                self.create_group().await?;
                self.try_next(max, Duration::ZERO).await
            }
            other => other,
        }
    }

    pub async fn ack(&self, deliveries: &[Delivery]) -> Result<u64, Error> {
        let entries: Vec<_> = deliveries.iter().map(|delivery| delivery.entry).collect();
        self.inbox.ack(self.group, &entries).await
    }

    async fn try_next(&mut self, max: usize, block: Duration) -> Result<Vec<Delivery>, Error> {
        let now = Instant::now();
        if now >= self.next_claim {
            let claimed = self
                .inbox
                .claim(self.group, &self.name, self.cursor, max, self.now_ms)
                .await?;
            self.cursor = claimed.cursor;
            // A full batch, or more of the pending ones to look at: do not wait to go on.
            if claimed.entries.len() < max && claimed.cursor == EntryId::MIN {
                self.next_claim = now + Duration::from_millis(self.inbox.config().claim_every_ms);
            }
            let deliveries = self.deliveries(claimed.entries, true).await?;
            if !deliveries.is_empty() {
                return Ok(deliveries);
            }
        }
        let mut block = block.min(LONGEST_BLOCK);
        if self.next_claim > now {
            block = block.min(self.next_claim - now);
        }
        let entries = self.read_new(max, block).await?;
        self.deliveries(entries, false).await
    }

    async fn read_new(&mut self, max: usize, block: Duration) -> Result<Vec<(Entry, u32)>, Error> {
        let mut cmd = redis::cmd("XREADGROUP");
        cmd.arg("GROUP").arg(self.group.as_str()).arg(&self.name);
        cmd.arg("COUNT").arg(max);
        // BLOCK 0 would wait for ever.
        let block_ms = u64::try_from(block.as_millis()).unwrap_or(u64::MAX);
        if block_ms > 0 {
            cmd.arg("BLOCK").arg(block_ms);
        }
        cmd.arg("STREAMS")
            .arg(&self.inbox.shared.keys.inbox)
            .arg(">");
        let answer: redis::Value = cmd.query_async(&mut self.blocking).await?;
        let entries = match answer {
            redis::Value::Map(streams) => streams.into_iter().next().map(|(_, entries)| entries),
            other => match entry::array(other)?.into_iter().next() {
                Some(stream) => entry::array(stream)?.into_iter().nth(1),
                None => None,
            },
        };
        entry::array(entries.unwrap_or(redis::Value::Nil))?
            .into_iter()
            .map(|value| Ok((Entry::from_value(value)?, 0)))
            .collect()
    }

    /// Sorts out what is not for us: other groups' replays are acknowledged, foreign entries become dead letters.
    async fn deliveries(
        &self,
        entries: Vec<(Entry, u32)>,
        again: bool,
    ) -> Result<Vec<Delivery>, Error> {
        let mut deliveries = Vec::with_capacity(entries.len());
        let (mut others, mut malformed) = (Vec::new(), Vec::new());
        for (entry, tries) in entries {
            match entry.read(self.group, tries, again) {
                Read::Delivery(delivery) => deliveries.push(delivery),
                Read::ForOthers(id) => others.push(id),
                Read::Malformed(id) => malformed.push(id),
            }
        }
        if !others.is_empty() {
            self.inbox.ack(self.group, &others).await?;
        }
        if !malformed.is_empty() {
            let reason = "not an entry of the inbox";
            self.inbox
                .fail_after(1, self.group, &malformed, reason, self.now_ms)
                .await?;
        }
        Ok(deliveries)
    }

    /// From the start of the stream: what the lost group had handled comes again, and its effects are known.
    async fn create_group(&mut self) -> Result<(), Error> {
        let created: redis::RedisResult<()> = redis::cmd("XGROUP")
            .arg("CREATE")
            .arg(&self.inbox.shared.keys.inbox)
            .arg(self.group.as_str())
            .arg("0")
            .arg("MKSTREAM")
            .query_async(&mut self.inbox.connection.clone())
            .await;
        self.cursor = EntryId::MIN;
        match created {
            Ok(()) => {
                self.inbox.shared.counters.group_created();
                tracing::warn!(group = self.group.as_str(), "consumer group created");
                Ok(())
            }
            // Another consumer was quicker.
            Err(error) if error.code() == Some("BUSYGROUP") => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn is_no_group(error: &Error) -> bool {
    matches!(error, Error::Unavailable(error) if matches!(error.code(), Some("NOGROUP" | "UNBLOCKED")))
}
