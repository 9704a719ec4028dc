//! The documented limits of requests, checked before anything is sent.
//!
//! Nothing is ever cut to fit: WeCom cuts silently, and a text that lost its end is worse than an error.

use crate::error::{Error, FieldProblem, Unit};

/// Checks the fields of one request; every error names the API and the field.
#[derive(Clone, Copy)]
pub(crate) struct Check {
    api: &'static str,
}

impl Check {
    pub(crate) fn new(api: &'static str) -> Self {
        Self { api }
    }

    pub(crate) fn refuse(self, field: &'static str, problem: FieldProblem) -> Error {
        Error::Invalid {
            api: self.api,
            field,
            problem,
        }
    }

    pub(crate) fn not_allowed(self, field: &'static str, why: &'static str) -> Error {
        self.refuse(field, FieldProblem::NotAllowed(why))
    }

    /// Must not be empty.
    pub(crate) fn required(self, field: &'static str, value: &str) -> Result<(), Error> {
        if value.is_empty() {
            Err(self.refuse(field, FieldProblem::Missing))
        } else {
            Ok(())
        }
    }

    /// At most `limit` Unicode characters.
    pub(crate) fn characters(
        self,
        field: &'static str,
        value: &str,
        limit: usize,
    ) -> Result<(), Error> {
        // Bytes bound characters from above: most texts need no count.
        if value.len() <= limit {
            return Ok(());
        }
        self.length(field, value.chars().count(), limit, Unit::Characters)
    }

    /// At most `limit` bytes of UTF-8.
    pub(crate) fn bytes(self, field: &'static str, value: &str, limit: usize) -> Result<(), Error> {
        self.length(field, value.len(), limit, Unit::Bytes)
    }

    fn length(
        self,
        field: &'static str,
        given: usize,
        limit: usize,
        unit: Unit,
    ) -> Result<(), Error> {
        if given > limit {
            return Err(self.refuse(field, FieldProblem::TooLong { limit, given, unit }));
        }
        Ok(())
    }

    /// At most `limit` entries, none of them empty.
    pub(crate) fn entries(
        self,
        field: &'static str,
        values: &[String],
        limit: usize,
    ) -> Result<(), Error> {
        self.count(field, values.len(), limit)?;
        if values.iter().any(String::is_empty) {
            return Err(self.not_allowed(field, "has an empty entry"));
        }
        Ok(())
    }

    /// From one to `limit` entries, none of them empty.
    pub(crate) fn some_entries(
        self,
        field: &'static str,
        values: &[String],
        limit: usize,
    ) -> Result<(), Error> {
        if values.is_empty() {
            return Err(self.refuse(field, FieldProblem::Missing));
        }
        self.entries(field, values, limit)
    }

    pub(crate) fn count(
        self,
        field: &'static str,
        given: usize,
        limit: usize,
    ) -> Result<(), Error> {
        if given > limit {
            return Err(self.refuse(field, FieldProblem::TooMany { limit, given }));
        }
        Ok(())
    }
}

/// For optional text that WeCom takes amiss when it is there and empty.
pub(crate) fn blank(value: &Option<String>) -> bool {
    value.as_deref().is_none_or(str::is_empty)
}
