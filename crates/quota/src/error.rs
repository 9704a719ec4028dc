use redis::RedisError;

/// What went wrong, by what the caller can do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The corp's quota was lost with Redis and is not seeded again: wait for the rebuild.
    #[error("the quota of this corp is closed until Redis is rebuilt")]
    Closed,
    /// Redis did not do it, or did it and could not say so: try again later.
    #[error("redis: {0}")]
    Redis(#[source] RedisError),
    /// A script of another version answered: stop and look.
    #[error("{script} gave an answer this version does not know")]
    Answer { script: &'static str },
}

impl From<RedisError> for Error {
    fn from(error: RedisError) -> Self {
        if error.code() == Some("CLOSED") {
            Error::Closed
        } else {
            Error::Redis(error)
        }
    }
}
