//! What went wrong, by what the caller can do about it.

use redis::{ErrorKind, RedisError, ServerErrorKind};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Redis cannot do it now: gone, silent, loading, read-only, full. Try again later. After a time-out the
    /// call may have had its effect; every call of this crate may be repeated.
    #[error("redis is not available: {0}")]
    Unavailable(#[source] RedisError),
    /// Stored, but not on as many replicas as wanted. Append again: it will be a duplicate and wait again.
    #[error("stored on {got} of {wanted} replicas")]
    NotReplicated { wanted: u32, got: u32 },
    /// Redis will never do it as asked: wrong type, no permission, wrong password. Trying again does not help.
    #[error("redis refused: {0}")]
    Refused(#[source] RedisError),
    /// An answer that this version does not understand.
    #[error("unexpected answer of redis: {0}")]
    Answer(&'static str),
    /// The settings cannot work.
    #[error("redis settings: {0}")]
    Config(String),
}

impl Error {
    /// True when the same call may succeed later without anybody mending anything.
    pub fn is_passing(&self) -> bool {
        matches!(self, Error::Unavailable(_) | Error::NotReplicated { .. })
    }
}

impl From<RedisError> for Error {
    fn from(error: RedisError) -> Error {
        let passing = match error.kind() {
            ErrorKind::Io
            | ErrorKind::ClusterConnectionNotFound
            | ErrorKind::MasterNameNotFoundBySentinel
            | ErrorKind::NoValidReplicasFoundBySentinel => true,
            ErrorKind::Server(kind) => matches!(
                kind,
                ServerErrorKind::BusyLoading
                    | ServerErrorKind::TryAgain
                    | ServerErrorKind::ClusterDown
                    | ServerErrorKind::MasterDown
                    | ServerErrorKind::ReadOnly
                    | ServerErrorKind::Moved
                    | ServerErrorKind::Ask
                    | ServerErrorKind::NoScript
            ),
            _ => matches!(
                error.code(),
                Some("OOM" | "MISCONF" | "NOREPLICAS" | "BUSY" | "UNBLOCKED" | "NOGROUP")
            ),
        };
        if passing {
            Error::Unavailable(error)
        } else {
            Error::Refused(error)
        }
    }
}
