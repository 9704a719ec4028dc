//! What the admin side can fail with. Answers of the fake APIs are never errors of this type.

/// Why the simulator refused to start or to do what the admin API asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A field of the configuration; mend it and try again.
    #[error("configuration: {field}: {problem}")]
    Config {
        /// Which.
        field: String,
        /// What is wrong.
        problem: String,
    },
    /// A corp, app, member, customer, contact way or fault that does not exist.
    #[error("there is no {what} {id}")]
    Unknown {
        /// Kind of thing.
        what: &'static str,
        /// The id that was asked for.
        id: String,
    },
    /// A request that makes no sense; the text says how to make it right.
    #[error("{0}")]
    Request(String),
    /// The listener.
    #[error("listener: {0}")]
    Listener(#[from] std::io::Error),
    /// The HTTP client for callbacks could not be built.
    #[error("http client: {0}")]
    Client(#[from] reqwest::Error),
}

impl Error {
    pub(crate) fn config(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Config {
            field: field.into(),
            problem: problem.into(),
        }
    }

    pub(crate) fn unknown(what: &'static str, id: impl Into<String>) -> Self {
        Self::Unknown {
            what,
            id: id.into(),
        }
    }
}
