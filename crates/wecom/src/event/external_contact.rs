//! `change_external_contact` (企业客户变更), pages 92130 and 92277.

use super::fields::Fields;
use crate::redacted::Redacted;

/// The code for one welcome message: 20 s, once, first app to call wins (page 92599). A credential.
pub type WelcomeCode = Redacted;

/// A member and a customer: added, changed, lost. The event carries no tags, no remark and no new
/// owner; `externalcontact/get` has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalContact {
    /// What happened.
    pub change: ExternalContactChange,
    /// The serving member (`UserID`). Empty only in the third-party acquisition form.
    pub user_id: String,
    /// The customer (`ExternalUserID`).
    pub external_user_id: String,
    /// The `state` of the contact way or the `customer_channel` of the acquisition link it came through.
    pub state: Option<String>,
    /// Absent when a welcome message is configured at WeCom, the chat has begun, or the code was spent.
    pub welcome_code: Option<WelcomeCode>,
    /// Of [`ExternalContactChange::Del`]: `DELETE_BY_TRANSFER` if a transfer removed the customer.
    pub source: Option<String>,
    /// Of [`ExternalContactChange::TransferFail`]: `customer_refused` or `customer_limit_exceed`.
    pub fail_reason: Option<String>,
    /// The acquisition link, in the third-party acquisition form only.
    pub link_id: Option<String>,
}

/// `ChangeType` of `change_external_contact`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExternalContactChange {
    /// `add_external_contact`: a member has a new customer.
    Add,
    /// `add_half_external_contact`: a customer added a member who need not confirm, and has not yet.
    AddHalf,
    /// `edit_external_contact`: remark or tags changed.
    Edit,
    /// `del_external_contact`: the member deleted the customer, or a transfer did (`source`).
    Del,
    /// `del_follow_user`: the customer deleted the member.
    DelFollowUser,
    /// `transfer_fail`: a transfer ended without moving the customer.
    TransferFail,
    /// `msg_audit_approved`: the customer agreed to chat archiving (page 92005).
    MsgAuditApproved,
    /// Something newer than this library.
    Other(String),
}

impl ExternalContact {
    pub(super) fn read(change_type: &str, fields: &Fields<'_>) -> Self {
        use ExternalContactChange as Change;
        Self {
            change: match change_type {
                "add_external_contact" => Change::Add,
                "add_half_external_contact" => Change::AddHalf,
                "edit_external_contact" => Change::Edit,
                "del_external_contact" => Change::Del,
                "del_follow_user" => Change::DelFollowUser,
                "transfer_fail" => Change::TransferFail,
                "msg_audit_approved" => Change::MsgAuditApproved,
                other => Change::Other(other.to_owned()),
            },
            user_id: fields.owned("UserID"),
            external_user_id: fields.owned("ExternalUserID"),
            state: fields.optional("State"),
            welcome_code: fields.redacted("WelcomeCode"),
            source: fields.optional("Source"),
            fail_reason: fields.optional("FailReason"),
            link_id: fields.optional("LinkId"),
        }
    }

    /// Whether a customer was gained, changed or lost; a transfer fails and an approval is given once.
    pub(super) fn pair(&self) -> Option<String> {
        let once = matches!(
            self.change,
            ExternalContactChange::TransferFail | ExternalContactChange::MsgAuditApproved
        );
        let known = !self.user_id.is_empty() && !self.external_user_id.is_empty();
        (known && !once).then(|| format!("{}\u{1f}{}", self.user_id, self.external_user_id))
    }
}
