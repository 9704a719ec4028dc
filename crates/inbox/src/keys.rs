//! The keys of one corp's inbox. Its id is the hash tag, so all of them are in one slot.

/// Who reads the stream. Every delivery goes to each group once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// Keeps the raw delivery.
    Record,
    /// Acts on it.
    Decide,
}

impl Group {
    pub const ALL: [Group; 2] = [Group::Record, Group::Decide];

    pub fn as_str(self) -> &'static str {
        match self {
            Group::Record => "record",
            Group::Decide => "decide",
        }
    }

    pub(crate) fn parse(name: &[u8]) -> Option<Group> {
        Group::ALL
            .into_iter()
            .find(|group| group.as_str().as_bytes() == name)
    }
}

#[derive(Debug)]
pub(crate) struct Keys {
    prefix: String,
    pub(crate) inbox: String,
    pub(crate) dead: String,
}

impl Keys {
    pub(crate) fn new(corp_id: &str) -> Keys {
        let prefix = format!("{{{corp_id}}}:v1:");
        Keys {
            inbox: format!("{prefix}inbox"),
            dead: format!("{prefix}inbox:dead"),
            prefix,
        }
    }

    /// Entries of the group that failed at least once.
    pub(crate) fn retry(&self, group: Group) -> String {
        format!("{}:retry:{}", self.inbox, group.as_str())
    }

    pub(crate) fn dirty(&self, kind: &str) -> String {
        format!("{}dirty:{kind}", self.prefix)
    }

    pub(crate) fn taken(&self, kind: &str) -> String {
        format!("{}dirty:{kind}:taken", self.prefix)
    }
}
