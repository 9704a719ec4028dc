//! What arrived, and what must be read again: one durable stream per corp, in Redis.
//!
//! The gateway [`append`](Inbox::append)s deliveries and acknowledges a callback only after that. Two groups read
//! every delivery: [`Group::Record`] keeps it, [`Group::Decide`] acts on it. What neither needs any more is
//! [`trim`](Inbox::trim)med; a delivery that fails by its own fault goes to the dead letters. Beside the stream
//! stand the dirty marks: entities that must be read from the source again, each once however often it is marked.
//!
//! It does not know what a delivery means: endpoint and plaintext are text, a dirty entity is a name.

mod ack;
mod append;
mod claim;
pub mod connect;
mod consumer;
mod counters;
mod dead;
mod dead_replay;
mod delivery;
mod dirty_done;
mod dirty_mark;
mod dirty_take;
mod entry;
mod error;
mod fail;
mod forget_consumers;
mod inbox_stats;
mod keys;
mod script;
mod scrub;
mod settings;
mod trim;

use std::sync::Arc;

pub use append::Appended;
pub use consumer::Consumer;
pub use counters::Counted;
pub use dead::DeadLetter;
pub use dead_replay::{Replayed, Selection};
pub use delivery::{Delivery, DeliveryId, EntryId, NewDelivery};
pub use dirty_mark::DirtyCount;
pub use dirty_take::Taken;
pub use error::Error;
pub use fail::Failed;
pub use inbox_stats::{GroupStats, Stats};
pub use keys::Group;
pub use settings::Config;

use counters::Counters;
use keys::Keys;
use script::Scripts;

/// The inbox of one corp. A cheap clone.
#[derive(Clone, Debug)]
pub struct Inbox<C> {
    connection: C,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    keys: Keys,
    config: Config,
    scripts: Scripts,
    counters: Counters,
}

impl<C> Inbox<C>
where
    C: redis::aio::ConnectionLike + Clone + Send + Sync + 'static,
{
    /// `corp_id` becomes the hash tag of all keys; it must not contain braces.
    pub fn new(connection: C, corp_id: &str, config: Config) -> Inbox<C> {
        Inbox {
            connection,
            shared: Arc::new(Shared {
                keys: Keys::new(corp_id),
                config,
                scripts: Scripts::default(),
                counters: Counters::default(),
            }),
        }
    }

    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// What happened since this inbox was made, for metrics.
    pub fn counters(&self) -> Counted {
        self.shared.counters.read()
    }
}
