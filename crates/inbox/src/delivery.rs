//! What is stored, and what comes back.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// The identity of a delivery: SHA-256 of endpoint, 0x1f and plaintext. Two sealings of one text are one delivery.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeliveryId(pub [u8; 32]);

impl DeliveryId {
    pub fn of(endpoint: &str, plaintext: &str) -> DeliveryId {
        let mut hash = Sha256::new();
        hash.update(endpoint);
        hash.update([0x1f]);
        hash.update(plaintext);
        DeliveryId(hash.finalize().into())
    }

    /// 32 hex characters name the `seen` key: 128 bits are enough to tell deliveries of a day apart, and the key
    /// is what a queued delivery costs most.
    pub(crate) fn seen(&self) -> String {
        hex::encode(&self.0[..16])
    }
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeliveryId({self})")
    }
}

/// A delivery to store. Its plaintext holds customers' ids and welcome codes, so `Debug` leaves it out.
#[derive(Clone)]
pub struct NewDelivery {
    id: DeliveryId,
    pub endpoint: String,
    pub received_ms: u64,
    pub plaintext: String,
    /// Kind and entity to mark as dirty when this turns out to be a duplicate: of an event that may legitimately
    /// repeat with the same text, a second occurrence must not vanish.
    pub dirty: Option<(String, String)>,
}

impl NewDelivery {
    pub fn new(
        endpoint: impl Into<String>,
        received_ms: u64,
        plaintext: impl Into<String>,
    ) -> NewDelivery {
        let (endpoint, plaintext) = (endpoint.into(), plaintext.into());
        NewDelivery {
            id: DeliveryId::of(&endpoint, &plaintext),
            endpoint,
            received_ms,
            plaintext,
            dirty: None,
        }
    }

    pub fn with_dirty(self, kind: impl Into<String>, entity: impl Into<String>) -> NewDelivery {
        NewDelivery {
            dirty: Some((kind.into(), entity.into())),
            ..self
        }
    }

    pub fn id(&self) -> DeliveryId {
        self.id
    }
}

impl fmt::Debug for NewDelivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewDelivery")
            .field("id", &self.id)
            .field("endpoint", &self.endpoint)
            .field("received_ms", &self.received_ms)
            .field("bytes", &self.plaintext.len())
            .finish_non_exhaustive()
    }
}

/// A delivery as a reader gets it.
#[derive(Clone, PartialEq, Eq)]
pub struct Delivery {
    /// What to acknowledge.
    pub entry: EntryId,
    pub id: DeliveryId,
    pub endpoint: String,
    pub received_ms: u64,
    pub plaintext: String,
    /// How often it has failed by its own fault before.
    pub tries: u32,
    /// True when it was read before, by us or by a consumer that died: its effects may exist already.
    pub again: bool,
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("entry", &self.entry)
            .field("id", &self.id)
            .field("endpoint", &self.endpoint)
            .field("received_ms", &self.received_ms)
            .field("bytes", &self.plaintext.len())
            .field("tries", &self.tries)
            .field("again", &self.again)
            .finish()
    }
}

/// The place of an entry in a stream. Its first half is Redis' clock when it was stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryId {
    pub ms: u64,
    pub seq: u64,
}

impl EntryId {
    pub const MIN: EntryId = EntryId { ms: 0, seq: 0 };
    pub const MAX: EntryId = EntryId {
        ms: u64::MAX,
        seq: u64::MAX,
    };
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

/// The text is not `<milliseconds>-<number>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an entry id")]
pub struct NotAnEntryId;

impl FromStr for EntryId {
    type Err = NotAnEntryId;

    fn from_str(text: &str) -> Result<EntryId, NotAnEntryId> {
        let (ms, seq) = text.split_once('-').ok_or(NotAnEntryId)?;
        match (ms.parse(), seq.parse()) {
            (Ok(ms), Ok(seq)) => Ok(EntryId { ms, seq }),
            _ => Err(NotAnEntryId),
        }
    }
}

impl redis::ToRedisArgs for EntryId {
    fn write_redis_args<W: ?Sized + redis::RedisWrite>(&self, out: &mut W) {
        out.write_arg_fmt(self);
    }
}

impl redis::ToSingleRedisArg for EntryId {}
