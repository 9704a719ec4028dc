//! Writing configuration: conditional on the version that the caller saw, with its audit in the same transaction.

/// What must be true of the present version for a write to happen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Precondition {
    #[default]
    None,
    /// There must be none yet.
    Absent,
    /// There must be one, whichever.
    Present,
    /// It must be this one.
    Version(u64),
}

impl Precondition {
    pub(crate) fn holds(self, version: Option<u64>) -> bool {
        match self {
            Precondition::None => true,
            Precondition::Absent => version.is_none(),
            Precondition::Present => version.is_some(),
            Precondition::Version(wanted) => version == Some(wanted),
        }
    }
}

/// What a write came to. Only the first two changed anything.
#[derive(Debug, Clone, PartialEq)]
pub enum Put<T, R> {
    Created(T),
    Changed(T),
    /// It was like this already.
    Same(T),
    /// The precondition does not hold: this is what is there.
    Stale(Option<T>),
    /// It does not fit what else is configured.
    Refused(R),
}

/// What a deletion came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Deleted<T, R> {
    Deleted(T),
    Absent,
    Stale(T),
    Refused(R),
}

#[cfg(test)]
mod tests {
    use super::Precondition::{Absent, None, Present, Version};

    #[test]
    fn a_precondition_is_about_the_present_version() {
        for (precondition, of_none, of_three) in [
            (None, true, true),
            (Absent, true, false),
            (Present, false, true),
            (Version(3), false, true),
            (Version(2), false, false),
        ] {
            assert_eq!(
                precondition.holds(Option::None),
                of_none,
                "{precondition:?}"
            );
            assert_eq!(precondition.holds(Some(3)), of_three, "{precondition:?}");
        }
    }
}
