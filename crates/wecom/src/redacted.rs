//! Text that must not reach a log.

/// A credential or a piece of personal data from WeCom. Debug shows nothing of it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Redacted(String);

impl Redacted {
    /// Wraps a value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself. Whoever calls this keeps it out of logs and error messages.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Redacted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[REDACTED]")
    }
}
