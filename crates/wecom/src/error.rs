//! What can go wrong in a call to WeCom, named by what the caller can do about it.
//!
//! No variant ever holds a token, a secret, a request body or a whole `errmsg`: `errmsg` may change at any
//! time and is never matched; of it only the hint id (support asks for it) and the caller's address are kept.

mod codes;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::client::api::GETTOKEN;
pub(crate) use codes::stops_the_app;
pub use codes::{Class, Classification, Scope, classify};

/// Why a call did not end well.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no usable answer. `sent` decides what may follow.
    #[error("{api}: no usable answer: {problem}{}", if *.sent { " (it may have had its effect)" } else { " (it had no effect)" })]
    Transport {
        /// The API that was called; `gettoken` when no token could be had.
        api: &'static str,
        /// `true`: the request may have reached WeCom and done its work. `false`: it certainly has not.
        sent: bool,
        /// What happened.
        problem: TransportProblem,
        /// The cause, without its URL (which would carry the token).
        source: Option<Arc<reqwest::Error>>,
    },

    /// WeCom answered with a non-zero `errcode`: the call as a whole was refused.
    #[error("{api}: refused with errcode {errcode} ({class}){}", Hint(.errmsg_hint.as_deref()))]
    Api {
        /// The API that refused; `gettoken` when WeCom refuses to give a token.
        api: &'static str,
        /// WeCom's number.
        errcode: i64,
        /// What can be done. A token error that repeats with a fresh token is `PermanentConfig`.
        class: Class,
        /// What is at fault.
        scope: Scope,
        /// The id between `hint: [` and `]`.
        errmsg_hint: Option<String>,
        /// The address WeCom saw us come from (for 60020).
        from_ip: Option<IpAddr>,
        /// WeCom could read only a part of our JSON: a bug of this crate, to be alerted.
        wrong_json: bool,
    },

    /// The request is outside a documented limit. Nothing was sent.
    #[error("{api}: {field}: {problem}")]
    Invalid {
        /// The API that was meant.
        api: &'static str,
        /// WeCom's name of the field.
        field: &'static str,
        /// What is wrong with it.
        problem: FieldProblem,
    },

    /// The client itself cannot be set up like this.
    #[error("{field}: {problem}")]
    Config {
        /// The setting.
        field: &'static str,
        /// What is wrong with it; never its value.
        problem: &'static str,
    },

    /// Not sent: WeCom refuses this app for a reason that only a person can mend. Try again at `until_ms`.
    #[error("{api}: not sent before {until_ms}{}", Because(.errcode))]
    Blocked {
        /// The API that was meant; `gettoken` when there is no token and none may be asked for yet.
        api: &'static str,
        /// Milliseconds since the epoch.
        until_ms: u64,
        /// The refusal that closed the way, if it was one.
        errcode: Option<i64>,
    },

    /// A list's cursor came back to one it had already given: the list is not complete.
    #[error("{api}: the cursor goes in a circle, the list is not complete")]
    CursorLoop {
        /// The API that was walked.
        api: &'static str,
    },
}

impl Error {
    /// What can be done about it.
    pub fn class(&self) -> Class {
        match self {
            Self::Api { class, .. } => *class,
            Self::Transport {
                problem: TransportProblem::Status(400..=499),
                ..
            } => Class::PermanentConfig,
            Self::Transport { .. } | Self::Blocked { .. } | Self::CursorLoop { .. } => {
                Class::RetryWithBackoff
            }
            Self::Invalid { .. } | Self::Config { .. } => Class::PermanentConfig,
        }
    }

    /// What is at fault.
    pub fn scope(&self) -> Scope {
        match self {
            Self::Api { scope, .. } => *scope,
            Self::Invalid { .. } => Scope::Request,
            Self::Config { .. } | Self::Blocked { .. } => Scope::App,
            Self::Transport { .. } | Self::CursorLoop { .. } => Scope::Platform,
        }
    }

    /// WeCom's number, if it gave one.
    pub fn errcode(&self) -> Option<i64> {
        match self {
            Self::Api { errcode, .. } => Some(*errcode),
            Self::Blocked { errcode, .. } => *errcode,
            _ => None,
        }
    }

    /// May the call have had its effect all the same? Then the state must be read before anything is repeated.
    pub fn may_have_acted(&self) -> bool {
        matches!(self, Self::Transport { sent: true, .. })
    }

    /// Nothing of this app can succeed now, and the request is not to blame: keep it and wait. So it is when
    /// there is no token, when WeCom refuses fresh tokens too, and when it refuses the app or its address.
    pub fn stops_the_app(&self) -> bool {
        match self {
            Self::Blocked { .. } => true,
            Self::Api {
                api,
                errcode,
                class,
                ..
            } => {
                *api == GETTOKEN
                    || stops_the_app(*errcode)
                    || (classify(*errcode).class == Class::RefreshToken
                        && *class == Class::PermanentConfig)
            }
            Self::Transport { api, .. } => *api == GETTOKEN,
            Self::Invalid { .. } | Self::Config { .. } | Self::CursorLoop { .. } => false,
        }
    }
}

/// Why there is no usable answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransportProblem {
    /// No connection: name, address, TLS or refused.
    Connect,
    /// The call limit passed.
    TimedOut,
    /// The connection broke on the way.
    Interrupted,
    /// An HTTP status other than 2xx.
    Status(u16),
    /// The body is not one whole JSON object (HTML, cut off, empty).
    NotJson,
    /// The body says success but lacks what the API promises.
    Shape,
    /// The body is larger than anything WeCom documents.
    TooLarge,
    /// The request could not even be built.
    Request,
}

impl fmt::Display for TransportProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect => f.write_str("no connection"),
            Self::TimedOut => f.write_str("timed out"),
            Self::Interrupted => f.write_str("connection broke"),
            Self::Status(status) => write!(f, "HTTP status {status}"),
            Self::NotJson => f.write_str("the answer is not JSON"),
            Self::Shape => f.write_str("the answer lacks what it must have"),
            Self::TooLarge => f.write_str("the answer is too large"),
            Self::Request => f.write_str("the request could not be built"),
        }
    }
}

/// What is wrong with a field of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldProblem {
    /// Required and empty or absent.
    Missing,
    /// More entries than allowed.
    TooMany {
        /// The most WeCom takes.
        limit: usize,
        /// How many there are.
        given: usize,
    },
    /// Longer than allowed.
    TooLong {
        /// The most WeCom takes.
        limit: usize,
        /// How long it is.
        given: usize,
        /// In what the two are counted.
        unit: Unit,
    },
    /// Not allowed in this combination or out of range.
    NotAllowed(&'static str),
}

impl fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("is missing"),
            Self::TooMany { limit, given } => {
                write!(f, "has {given} entries, at most {limit} are allowed")
            }
            Self::TooLong { limit, given, unit } => {
                write!(f, "has {given} {unit}, at most {limit} are allowed")
            }
            Self::NotAllowed(why) => f.write_str(why),
        }
    }
}

/// In what a length is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Unicode scalar values.
    Characters,
    /// Bytes of UTF-8.
    Bytes,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Characters => "characters",
            Self::Bytes => "bytes",
        })
    }
}

struct Hint<'a>(Option<&'a str>);

impl fmt::Display for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(hint) => write!(f, ", hint {hint}"),
            None => Ok(()),
        }
    }
}

struct Because<'a>(&'a Option<i64>);

impl fmt::Display for Because<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(errcode) => write!(f, ", because of errcode {errcode}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
