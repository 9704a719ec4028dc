//! WeChat customer service (微信客服), pages 94699 and 97712.

use super::fields::Fields;
use crate::redacted::Redacted;

/// A wake-up of the customer service. Neither sender nor content is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kf {
    /// `kf_msg_or_event`: the account has something new; `kf/sync_msg` fetches it.
    Wake {
        /// `OpenKfId`.
        open_kf_id: String,
        /// `Token`: lifts the rate limit of `kf/sync_msg` for 10 minutes. A credential.
        token: Option<Redacted>,
    },
    /// `kf_account_auth_change`: accounts were given to or taken from this app.
    AccountAuthChange {
        /// Every `AuthAddOpenKfId`.
        added: Vec<String>,
        /// Every `AuthDelOpenKfId`.
        removed: Vec<String>,
    },
}

impl Kf {
    pub(super) fn read(name: &str, fields: &Fields<'_>) -> Self {
        if name == "kf_account_auth_change" {
            Self::AccountAuthChange {
                added: fields.repeated("AuthAddOpenKfId"),
                removed: fields.repeated("AuthDelOpenKfId"),
            }
        } else {
            Self::Wake {
                open_kf_id: fields.owned("OpenKfId"),
                token: fields.redacted("Token"),
            }
        }
    }
}
