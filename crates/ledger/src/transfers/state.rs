//! Words for how far a transfer is.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransferKind {
    /// The giver is still there.
    InService,
    /// The giver has left the company.
    Resigned,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransferState {
    /// To be submitted.
    Planned,
    /// Accepted; it takes a day.
    Submitted,
    /// It may have been accepted.
    Unknown,
    /// Seen under way.
    Waiting,
    /// No end in time: a person looks at it.
    Human,
    Done,
    /// By the customer.
    Refused,
    /// The taker has too many customers.
    Capped,
    /// Refused by WeCom, or given up.
    Failed,
    Cancelled,
}

macro_rules! words {
    ($type:ident, $what:literal, $($variant:ident => $word:literal),+ $(,)?) => {
        impl $type {
            pub fn as_str(self) -> &'static str {
                match self { $($type::$variant => $word),+ }
            }
        }

        impl std::str::FromStr for $type {
            type Err = &'static str;
            fn from_str(text: &str) -> Result<$type, Self::Err> {
                match text { $($word => Ok($type::$variant),)+ _ => Err($what) }
            }
        }
    };
}

words!(TransferKind, "no kind of a transfer", InService => "in_service", Resigned => "resigned");
words!(TransferState, "no state of a transfer",
    Planned => "planned", Submitted => "submitted", Unknown => "unknown", Waiting => "waiting", Human => "human",
    Done => "done", Refused => "refused", Capped => "capped", Failed => "failed", Cancelled => "cancelled");

impl TransferState {
    pub fn is_end(self) -> bool {
        use TransferState::{Cancelled, Capped, Done, Failed, Refused};
        matches!(self, Done | Refused | Capped | Failed | Cancelled)
    }
}

impl TransferState {
    /// Steps lead upwards or stay on a level.
    pub(super) fn level(self) -> i32 {
        use TransferState::{Human, Planned, Submitted, Unknown, Waiting};
        match self {
            Planned => 0,
            Submitted | Unknown => 1,
            Waiting | Human => 2,
            _ => 3,
        }
    }
}
