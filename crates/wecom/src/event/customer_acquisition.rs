//! `customer_acquisition` (获客助手), pages 97299, 97402 and 99485.

use super::fields::Fields;
use crate::redacted::Redacted;

/// Something about acquisition links, their quota, or a customer who came through one. Which fields
/// are there depends on the change and on the date of WeCom's release; all are optional.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomerAcquisition {
    /// What happened.
    pub change: CustomerAcquisitionChange,
    /// `LinkId`.
    pub link_id: Option<String>,
    /// `UserID`.
    pub user_id: Option<String>,
    /// `ExternalUserID`.
    pub external_user_id: Option<String>,
    /// `State`: the link's `customer_channel`.
    pub state: Option<String>,
    /// `ChatKey`: a credential for about 30 minutes (since 2024-12-19).
    pub chat_key: Option<Redacted>,
    /// `ChatSeq`: which message of the customer it was (before that date).
    pub chat_seq: Option<i64>,
    /// `ExpireTime`, seconds since the epoch.
    pub expire_time: Option<i64>,
    /// `ExpireQuotaNum`.
    pub expire_quota: Option<i64>,
    /// `OnceKey`, third-party component form.
    pub once_key: Option<Redacted>,
    /// `Price` in fen, third-party component form.
    pub price_fen: Option<i64>,
    /// `EffectiveTime`, third-party component form.
    pub effective_time: Option<i64>,
}

/// `ChangeType` of `customer_acquisition`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CustomerAcquisitionChange {
    /// `balance_low`: less than 20 left.
    BalanceLow,
    /// `balance_exhausted`.
    BalanceExhausted,
    /// `balance_increased`: from nothing.
    BalanceIncreased,
    /// `quota_expire_soon`: 14, 7, 3, 2 and 1 days before.
    QuotaExpireSoon,
    /// `link_unavailable`.
    LinkUnavailable,
    /// `delete_link`, in client or console; deletion by API is silent.
    DeleteLink,
    /// `open_profile`: a customer opened the link.
    OpenProfile,
    /// `friend_request`: a customer asked to be added through it.
    FriendRequest,
    /// `customer_start_chat`: the first message.
    CustomerStartChat,
    /// `message_from_customer`: the 3rd, 5th and 10th.
    MessageFromCustomer,
    /// `del_follow_user`: the customer deleted the member.
    DelFollowUser,
    /// `service_balance_low`, third-party component form.
    ServiceBalanceLow,
    /// `service_balance_exhausted`, third-party component form.
    ServiceBalanceExhausted,
    /// `service_balance_consumed`, third-party component form.
    ServiceBalanceConsumed,
    /// `change_price`, third-party component form.
    ChangePrice,
    /// The `InfoType` `customer_acquisition_permit_change`: other members may be used now (page 92277).
    PermitChange,
    /// Something newer than this library.
    Other(String),
}

impl CustomerAcquisition {
    pub(super) fn read(name: &str, change_type: &str, fields: &Fields<'_>) -> Self {
        use CustomerAcquisitionChange as Change;
        Self {
            change: match change_type {
                _ if name == "customer_acquisition_permit_change" => Change::PermitChange,
                "balance_low" => Change::BalanceLow,
                "balance_exhausted" => Change::BalanceExhausted,
                "balance_increased" => Change::BalanceIncreased,
                "quota_expire_soon" => Change::QuotaExpireSoon,
                "link_unavailable" => Change::LinkUnavailable,
                "delete_link" => Change::DeleteLink,
                "open_profile" => Change::OpenProfile,
                "friend_request" => Change::FriendRequest,
                "customer_start_chat" => Change::CustomerStartChat,
                "message_from_customer" => Change::MessageFromCustomer,
                "del_follow_user" => Change::DelFollowUser,
                "service_balance_low" => Change::ServiceBalanceLow,
                "service_balance_exhausted" => Change::ServiceBalanceExhausted,
                "service_balance_consumed" => Change::ServiceBalanceConsumed,
                "change_price" => Change::ChangePrice,
                other => Change::Other(other.to_owned()),
            },
            link_id: fields.optional("LinkId"),
            user_id: fields.optional("UserID"),
            external_user_id: fields.optional("ExternalUserID"),
            state: fields.optional("State"),
            chat_key: fields.redacted("ChatKey"),
            chat_seq: fields.number("ChatSeq"),
            expire_time: fields.number("ExpireTime"),
            expire_quota: fields.number("ExpireQuotaNum"),
            once_key: fields.redacted("OnceKey"),
            price_fen: fields.number("Price"),
            effective_time: fields.number("EffectiveTime"),
        }
    }
}
