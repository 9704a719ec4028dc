//! Storing what arrived. One call stores many.

use redis::aio::ConnectionLike;

use crate::{Error, Inbox, NewDelivery, entry};

/// What became of one delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// Stored now.
    New,
    /// Stored before: acknowledge it all the same.
    Duplicate,
    /// Not stored, because the inbox is at its bound. Must not be acknowledged.
    Full,
}

/// Deliveries in one script call. More would hold up other callers of Redis for more than a millisecond or two.
const MOST_PER_CALL: usize = 256;

impl<C> Inbox<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    /// Stores the deliveries in their order and answers for each. With an error nothing is known: some may be
    /// stored. Appending again is safe.
    pub async fn append(&self, deliveries: &[NewDelivery]) -> Result<Vec<Appended>, Error> {
        let mut appended = Vec::with_capacity(deliveries.len());
        for some in deliveries.chunks(MOST_PER_CALL) {
            self.append_some(some, &mut appended).await?;
        }
        Ok(appended)
    }

    async fn append_some(
        &self,
        deliveries: &[NewDelivery],
        appended: &mut Vec<Appended>,
    ) -> Result<(), Error> {
        let shared = &*self.shared;
        let config = &shared.config;
        let size = deliveries.iter().map(|d| d.plaintext.len() + 128).sum();
        let mut call = shared
            .scripts
            .append
            .call(&[&shared.keys.inbox], size)
            .arg(config.max_length)
            .arg(config.seen_ms)
            .arg(u8::from(config.wait_replicas > 0))
            .arg(config.dirty_delay_ms);
        for delivery in deliveries {
            let (kind, entity) = delivery
                .dirty
                .as_ref()
                .map_or(("", ""), |(kind, entity)| (kind, entity));
            call.push(delivery.id().seen());
            call.push(&delivery.endpoint);
            call.push(delivery.received_ms);
            call.push(&delivery.plaintext);
            call.push(kind);
            call.push(entity);
        }
        let mut connection = self.connection.clone();
        let answer = if config.wait_replicas == 0 {
            call.invoke(&mut connection, &shared.counters).await?
        } else {
            let wanted = config.wait_replicas;
            let (answer, got) = call
                .invoke_and_wait(
                    &mut connection,
                    &shared.counters,
                    wanted,
                    config.wait_timeout_ms,
                )
                .await?;
            if got < wanted {
                return Err(Error::NotReplicated { wanted, got });
            }
            answer
        };
        decode(answer, deliveries.len(), appended)
    }
}

fn decode(answer: redis::Value, wanted: usize, appended: &mut Vec<Appended>) -> Result<(), Error> {
    let (word, mut rest) = entry::word(answer)?;
    let letters = entry::text(entry::next(&mut rest)?)?;
    if word != "APPENDED" || letters.len() != wanted {
        return Err(Error::Answer("append"));
    }
    for letter in letters.bytes() {
        appended.push(match letter {
            b'N' => Appended::New,
            b'D' => Appended::Duplicate,
            b'F' => Appended::Full,
            _ => return Err(Error::Answer("append: an unknown letter")),
        });
    }
    Ok(())
}
