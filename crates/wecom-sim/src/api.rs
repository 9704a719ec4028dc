//! The APIs: their names, what they ask of a caller, and what they do. HTTP, tokens and quotas come before
//! them (`server`).

mod agent;
mod call;
mod contact;
mod contact_way;
mod customer;
mod errmsg;
mod fields;
mod groupchat;
mod join_way;
mod message;
mod network;
mod page;
mod reply;
mod tag;
mod transfer;
mod user;
mod welcome;

pub(crate) use call::Call;
pub(crate) use errmsg::errmsg;
pub(crate) use fields::Fields;
pub(crate) use message::webhook;
pub(crate) use reply::Reply;

/// What a call must bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Auth {
    /// corpid and corpsecret: gettoken itself.
    Secret,
    /// The key of a webhook.
    Key,
    /// An access token.
    Token,
    /// An access token of an app that may call customer-contact APIs.
    ContactToken,
}

#[derive(Debug)]
pub(crate) struct Spec {
    name: &'static str,
    pub(crate) post: bool,
    pub(crate) auth: Auth,
    /// Counted by the basic frequency (message/send has rules of its own).
    pub(crate) metered: bool,
    /// List fields that are there, empty, on errors too.
    pub(crate) lists: &'static [&'static str],
    pub(crate) handler: fn(&Call<'_>) -> Reply,
}

const GET: bool = false;
const POST: bool = true;

const fn spec(
    name: &'static str,
    post: bool,
    auth: Auth,
    lists: &'static [&'static str],
    handler: fn(&Call<'_>) -> Reply,
) -> Spec {
    Spec {
        name,
        post,
        auth,
        metered: true,
        lists,
        handler,
    }
}

use Auth::{ContactToken, Token};

static SPECS: [Spec; 38] = [
    Spec {
        metered: true,
        ..spec("gettoken", GET, Auth::Secret, &[], |_| Reply::error(40001))
    },
    spec(
        "getcallbackip",
        GET,
        Token,
        &["ip_list"],
        network::getcallbackip,
    ),
    spec(
        "get_api_domain_ip",
        GET,
        Token,
        &["ip_list"],
        network::get_api_domain_ip,
    ),
    spec("agent/get", GET, Token, &[], agent::get),
    spec("user/get", GET, Token, &[], user::get),
    spec(
        "user/simplelist",
        GET,
        Token,
        &["userlist"],
        user::simplelist,
    ),
    spec(
        "externalcontact/get_follow_user_list",
        GET,
        ContactToken,
        &["follow_user"],
        contact::get_follow_user_list,
    ),
    spec(
        "externalcontact/list",
        GET,
        ContactToken,
        &["external_userid"],
        contact::list,
    ),
    spec(
        "externalcontact/get",
        GET,
        ContactToken,
        &["follow_user"],
        contact::get,
    ),
    spec(
        "externalcontact/batch/get_by_user",
        POST,
        ContactToken,
        &["external_contact_list"],
        contact::get_by_user,
    ),
    spec(
        "externalcontact/remark",
        POST,
        ContactToken,
        &[],
        contact::remark,
    ),
    spec(
        "externalcontact/add_contact_way",
        POST,
        ContactToken,
        &[],
        contact_way::add,
    ),
    spec(
        "externalcontact/get_contact_way",
        POST,
        ContactToken,
        &[],
        contact_way::get,
    ),
    spec(
        "externalcontact/update_contact_way",
        POST,
        ContactToken,
        &[],
        contact_way::update,
    ),
    spec(
        "externalcontact/del_contact_way",
        POST,
        ContactToken,
        &[],
        contact_way::del,
    ),
    spec(
        "externalcontact/list_contact_way",
        POST,
        ContactToken,
        &["contact_way"],
        contact_way::list,
    ),
    spec(
        "externalcontact/send_welcome_msg",
        POST,
        ContactToken,
        &[],
        welcome::send,
    ),
    spec(
        "externalcontact/get_corp_tag_list",
        POST,
        ContactToken,
        &["tag_group"],
        tag::list,
    ),
    spec(
        "externalcontact/add_corp_tag",
        POST,
        ContactToken,
        &[],
        tag::add,
    ),
    spec(
        "externalcontact/edit_corp_tag",
        POST,
        ContactToken,
        &[],
        tag::edit,
    ),
    spec(
        "externalcontact/del_corp_tag",
        POST,
        ContactToken,
        &[],
        tag::del,
    ),
    spec(
        "externalcontact/mark_tag",
        POST,
        ContactToken,
        &[],
        tag::mark,
    ),
    spec(
        "externalcontact/transfer_customer",
        POST,
        ContactToken,
        &["customer"],
        transfer::transfer_customer,
    ),
    spec(
        "externalcontact/transfer_result",
        POST,
        ContactToken,
        &["customer"],
        transfer::transfer_result,
    ),
    spec(
        "externalcontact/resigned/transfer_customer",
        POST,
        ContactToken,
        &["customer"],
        transfer::resigned_transfer_customer,
    ),
    spec(
        "externalcontact/resigned/transfer_result",
        POST,
        ContactToken,
        &["customer"],
        transfer::resigned_transfer_result,
    ),
    spec(
        "externalcontact/get_unassigned_list",
        POST,
        ContactToken,
        &["info"],
        transfer::get_unassigned_list,
    ),
    Spec {
        metered: false,
        ..spec("message/send", POST, Token, &[], message::send)
    },
    Spec {
        metered: false,
        ..spec("webhook/send", POST, Auth::Key, &[], |_| {
            Reply::error(93000)
        })
    },
    spec(
        "externalcontact/close_temp_chat",
        POST,
        ContactToken,
        &[],
        contact_way::close_temp_chat,
    ),
    spec(
        "externalcontact/groupchat/list",
        POST,
        ContactToken,
        &["group_chat_list"],
        groupchat::list,
    ),
    spec(
        "externalcontact/groupchat/get",
        POST,
        ContactToken,
        &[],
        groupchat::get,
    ),
    spec(
        "externalcontact/groupchat/onjob_transfer",
        POST,
        ContactToken,
        &["failed_chat_list"],
        groupchat::onjob_transfer,
    ),
    spec(
        "externalcontact/groupchat/transfer",
        POST,
        ContactToken,
        &["failed_chat_list"],
        groupchat::transfer,
    ),
    spec(
        "externalcontact/groupchat/add_join_way",
        POST,
        ContactToken,
        &[],
        join_way::add,
    ),
    spec(
        "externalcontact/groupchat/get_join_way",
        POST,
        ContactToken,
        &[],
        join_way::get,
    ),
    spec(
        "externalcontact/groupchat/update_join_way",
        POST,
        ContactToken,
        &[],
        join_way::update,
    ),
    spec(
        "externalcontact/groupchat/del_join_way",
        POST,
        ContactToken,
        &[],
        join_way::del,
    ),
];

/// One API of the fake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Api(u8);

impl Api {
    /// By its path after `/cgi-bin/`.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        // Few, and the lengths tell most of them apart.
        let index = SPECS.iter().position(|spec| spec.name == name)?;
        u8::try_from(index).ok().map(Self)
    }

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..SPECS.len()).filter_map(|index| u8::try_from(index).ok().map(Self))
    }

    pub(crate) fn count() -> usize {
        SPECS.len()
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    pub(crate) fn spec(self) -> &'static Spec {
        &SPECS[self.index()]
    }

    pub(crate) fn name(self) -> &'static str {
        self.spec().name
    }

    /// Answers a code per customer.
    pub(crate) fn is_transfer(self) -> bool {
        self.name().ends_with("transfer_customer")
    }

    /// Answers the codes of the groups that it refused.
    pub(crate) fn is_group_transfer(self) -> bool {
        matches!(
            self.name(),
            "externalcontact/groupchat/onjob_transfer" | "externalcontact/groupchat/transfer"
        )
    }
}
