/// Why a value is refused or a text cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An id, name or word that is empty, too long or has characters that are not allowed.
    #[error("{what}: {problem}")]
    Text {
        what: &'static str,
        problem: &'static str,
    },
    #[error("weight: {0}")]
    Weight(&'static str),
    #[error("pool: more than {} distinct weights", crate::MAX_WEIGHTS)]
    TooManyWeights,
    #[error("pool: more than {} members", crate::MAX_MEMBERS)]
    TooManyMembers,
    #[error("pool: member {0} is named twice")]
    MemberTwice(crate::MemberId),
    #[error("reassign: more than {} members left out", crate::MAX_EXCLUDED)]
    TooManyExcluded,
    /// The text of an operation, an outcome or a dump is not what this version wrote.
    #[error("{what} cannot be read: {problem}")]
    Unreadable { what: &'static str, problem: String },
    /// The log and the rules disagree: the log has a gap, or another outcome than the fold.
    #[error("log entry {seq}: {problem}")]
    Fold { seq: u64, problem: String },
}

impl Error {
    pub(crate) fn unreadable(what: &'static str, problem: impl Into<String>) -> Error {
        Error::Unreadable {
            what,
            problem: problem.into(),
        }
    }
}
