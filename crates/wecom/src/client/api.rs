//! The name of every API, as WeCom's path has it after `/cgi-bin/`. Budgets, errors and metrics use these names.

/// Get a token for the app.
pub const GETTOKEN: &str = "gettoken";
/// The addresses WeCom's callbacks come from.
pub const GET_CALLBACK_IP: &str = "getcallbackip";
/// The addresses of WeCom's API.
pub const GET_API_DOMAIN_IP: &str = "get_api_domain_ip";

/// Members with the customer-contact function.
pub const GET_FOLLOW_USER_LIST: &str = "externalcontact/get_follow_user_list";
/// A member's customers, ids only.
pub const LIST_CUSTOMERS: &str = "externalcontact/list";
/// One customer with all who follow him.
pub const GET_CUSTOMER: &str = "externalcontact/get";
/// The customers of up to 100 members, with detail.
pub const BATCH_GET_BY_USER: &str = "externalcontact/batch/get_by_user";
/// Write a member's notes on a customer.
pub const REMARK: &str = "externalcontact/remark";

/// Make a contact way.
pub const ADD_CONTACT_WAY: &str = "externalcontact/add_contact_way";
/// Read a contact way.
pub const GET_CONTACT_WAY: &str = "externalcontact/get_contact_way";
/// Change a contact way.
pub const UPDATE_CONTACT_WAY: &str = "externalcontact/update_contact_way";
/// Delete a contact way.
pub const DEL_CONTACT_WAY: &str = "externalcontact/del_contact_way";
/// List contact ways, ids only.
pub const LIST_CONTACT_WAY: &str = "externalcontact/list_contact_way";
/// End a temporary session.
pub const CLOSE_TEMP_CHAT: &str = "externalcontact/close_temp_chat";

/// Greet a new customer.
pub const SEND_WELCOME_MSG: &str = "externalcontact/send_welcome_msg";

/// Read the corp's tags.
pub const GET_CORP_TAG_LIST: &str = "externalcontact/get_corp_tag_list";
/// Make corp tags.
pub const ADD_CORP_TAG: &str = "externalcontact/add_corp_tag";
/// Rename a corp tag or group.
pub const EDIT_CORP_TAG: &str = "externalcontact/edit_corp_tag";
/// Delete corp tags or groups.
pub const DEL_CORP_TAG: &str = "externalcontact/del_corp_tag";
/// Put tags on a customer, or take them off.
pub const MARK_TAG: &str = "externalcontact/mark_tag";

/// Move customers of a member in service.
pub const TRANSFER_CUSTOMER: &str = "externalcontact/transfer_customer";
/// How such moves stand.
pub const TRANSFER_RESULT: &str = "externalcontact/transfer_result";
/// Move customers of a member who has left.
pub const RESIGNED_TRANSFER_CUSTOMER: &str = "externalcontact/resigned/transfer_customer";
/// How those moves stand.
pub const RESIGNED_TRANSFER_RESULT: &str = "externalcontact/resigned/transfer_result";
/// Customers of members who have left.
pub const GET_UNASSIGNED_LIST: &str = "externalcontact/get_unassigned_list";

/// Customer groups, ids and how their inheritance stands.
pub const LIST_GROUP_CHAT: &str = "externalcontact/groupchat/list";
/// One customer group with its members.
pub const GET_GROUP_CHAT: &str = "externalcontact/groupchat/get";
/// Give groups of an owner in service to another.
pub const ONJOB_TRANSFER_GROUP_CHAT: &str = "externalcontact/groupchat/onjob_transfer";
/// Give groups of an owner who has left to another.
pub const TRANSFER_GROUP_CHAT: &str = "externalcontact/groupchat/transfer";

/// Make a way into groups.
pub const ADD_JOIN_WAY: &str = "externalcontact/groupchat/add_join_way";
/// Read a way into groups.
pub const GET_JOIN_WAY: &str = "externalcontact/groupchat/get_join_way";
/// Replace the configuration of a way into groups.
pub const UPDATE_JOIN_WAY: &str = "externalcontact/groupchat/update_join_way";
/// Delete a way into groups.
pub const DEL_JOIN_WAY: &str = "externalcontact/groupchat/del_join_way";

/// A message from the app to members.
pub const SEND_MESSAGE: &str = "message/send";
/// A message of a webhook robot.
pub const WEBHOOK_SEND: &str = "webhook/send";

/// One member.
pub const GET_USER: &str = "user/get";

/// An app of a corp: what its own token may read of it.
pub const GET_AGENT: &str = "agent/get";

/// All of them.
pub const ALL: &[&str] = &[
    GETTOKEN,
    GET_CALLBACK_IP,
    GET_API_DOMAIN_IP,
    GET_FOLLOW_USER_LIST,
    LIST_CUSTOMERS,
    GET_CUSTOMER,
    BATCH_GET_BY_USER,
    REMARK,
    ADD_CONTACT_WAY,
    GET_CONTACT_WAY,
    UPDATE_CONTACT_WAY,
    DEL_CONTACT_WAY,
    LIST_CONTACT_WAY,
    CLOSE_TEMP_CHAT,
    SEND_WELCOME_MSG,
    GET_CORP_TAG_LIST,
    ADD_CORP_TAG,
    EDIT_CORP_TAG,
    DEL_CORP_TAG,
    MARK_TAG,
    TRANSFER_CUSTOMER,
    TRANSFER_RESULT,
    RESIGNED_TRANSFER_CUSTOMER,
    RESIGNED_TRANSFER_RESULT,
    GET_UNASSIGNED_LIST,
    LIST_GROUP_CHAT,
    GET_GROUP_CHAT,
    ONJOB_TRANSFER_GROUP_CHAT,
    TRANSFER_GROUP_CHAT,
    ADD_JOIN_WAY,
    GET_JOIN_WAY,
    UPDATE_JOIN_WAY,
    DEL_JOIN_WAY,
    SEND_MESSAGE,
    WEBHOOK_SEND,
    GET_USER,
    GET_AGENT,
];

#[cfg(test)]
mod tests {
    #[test]
    fn none_is_left_out() {
        let consts = include_str!("api.rs").matches(": &str = ").count();
        // The count itself has the text once more.
        assert_eq!(super::ALL.len(), consts - 1);
    }
}
