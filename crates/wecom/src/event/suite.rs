//! Authorisation events of a suite (第三方应用授权通知), page 97172 and its neighbours.
//!
//! WeCom waits only 1 s for an answer to these.

use super::fields::Fields;
use crate::redacted::Redacted;

/// A suite's ticket, or a change of what a corp lets it do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuiteAuth {
    /// What happened.
    pub kind: SuiteAuthKind,
    /// `SuiteTicket`, sent every ten minutes. A credential.
    pub suite_ticket: Option<Redacted>,
    /// `AuthCode`, to be exchanged for a permanent code. A credential.
    pub auth_code: Option<Redacted>,
    /// `State` of the installation link.
    pub state: Option<String>,
}

/// `InfoType` of a [`SuiteAuth`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuiteAuthKind {
    /// `suite_ticket`.
    SuiteTicket,
    /// `create_auth`.
    CreateAuth,
    /// `change_auth`.
    ChangeAuth,
    /// `cancel_auth`.
    CancelAuth,
    /// `reset_permanent_code`.
    ResetPermanentCode,
}

impl SuiteAuthKind {
    pub(super) fn from_info_type(name: &str) -> Option<Self> {
        Some(match name {
            "suite_ticket" => Self::SuiteTicket,
            "create_auth" => Self::CreateAuth,
            "change_auth" => Self::ChangeAuth,
            "cancel_auth" => Self::CancelAuth,
            "reset_permanent_code" => Self::ResetPermanentCode,
            _ => return None,
        })
    }
}

impl SuiteAuth {
    pub(super) fn read(kind: SuiteAuthKind, fields: &Fields<'_>) -> Self {
        Self {
            kind,
            suite_ticket: fields.redacted("SuiteTicket"),
            auth_code: fields.redacted("AuthCode"),
            state: fields.optional("State"),
        }
    }
}
