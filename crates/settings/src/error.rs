//! What is wrong with a configuration.

use std::fmt;

/// One key, and what is wrong with it. Of a value that may be a secret it never shows anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// For example `endpoints.sales.keys[0].token`, or the path of a file. Empty where none is to blame alone.
    pub key: String,
    pub problem: String,
}

impl Error {
    pub fn new(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            problem: problem.into(),
        }
    }

    /// The same, found inside of `parent`.
    #[must_use]
    pub fn under(self, parent: &str) -> Self {
        let key = match self.key.as_str() {
            "" => parent.to_owned(),
            key if key.starts_with('[') => format!("{parent}{key}"),
            key => format!("{parent}.{key}"),
        };
        Self { key, ..self }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            return f.write_str(&self.problem);
        }
        write!(f, "{}: {}", self.key, self.problem)
    }
}

impl std::error::Error for Error {}

/// Everything that is wrong, so that it can be mended in one go; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errors {
    first: Error,
    more: Vec<Error>,
}

impl Errors {
    /// `Ok` if nothing is wrong.
    pub fn none_of(errors: Vec<Error>) -> Result<(), Self> {
        let mut errors = errors.into_iter();
        match errors.next() {
            None => Ok(()),
            Some(first) => Err(Self {
                first,
                more: errors.collect(),
            }),
        }
    }

    pub fn first(&self) -> &Error {
        &self.first
    }

    pub fn iter(&self) -> impl Iterator<Item = &Error> {
        std::iter::once(&self.first).chain(&self.more)
    }
}

impl From<Error> for Errors {
    fn from(first: Error) -> Self {
        Self {
            first,
            more: Vec::new(),
        }
    }
}

/// A line for each.
impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first.fmt(f)?;
        self.more
            .iter()
            .try_for_each(|error| write!(f, "\n{error}"))
    }
}

impl std::error::Error for Errors {}
