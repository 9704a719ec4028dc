use redis::RedisError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The corp is closed: its state is absent, behind, broken or being rebuilt. Wait, then ask again.
    #[error("the corp's state is not ready")]
    NotReady,
    /// A newer generation of the state exists, or one is being written: stop rebuilding.
    #[error("a newer rebuild is under way or done")]
    Stale,
    /// More than one call can carry.
    #[error("more than one call can carry")]
    TooMany,
    /// Redis did not do it, or may have done it and did not say so: asking again is safe.
    #[error("redis")]
    Redis(#[source] RedisError),
    /// The log has an entry that this version cannot read.
    #[error("log entry {seq} of Redis cannot be read")]
    Entry { seq: u64, source: allocation::Error },
    /// Redis answered something that this version does not know.
    #[error("unexpected answer")]
    Answer(#[source] allocation::Error),
}

impl From<RedisError> for Error {
    fn from(error: RedisError) -> Self {
        match error.code() {
            Some("NOT_READY") => Error::NotReady,
            Some("STALE") => Error::Stale,
            _ => Error::Redis(error),
        }
    }
}

impl From<allocation::Error> for Error {
    fn from(error: allocation::Error) -> Self {
        Error::Answer(error)
    }
}
