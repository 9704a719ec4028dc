//! Customers (客户): who has them, what is known of them, a member's notes.
//!
//! Reads lag a few seconds behind events. A failed read is never an empty list.

use serde::{Deserialize, Serialize};

use super::limits::Check;
use super::{Client, Pager, api, lenient};
use crate::{Error, Redacted};

/// WeCom takes at most this many members in one [`Client::batch_get_by_user`].
pub const BATCH_MEMBERS_MAX: usize = 100;
/// And gives at most this many rows a page.
pub const BATCH_ROWS_MAX: u32 = 100;

/// A customer and the members who follow him.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Customer {
    /// The customer himself.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub external_contact: ExternalContact,
    /// One entry per member who follows him, at most 500 a page.
    #[serde(default, deserialize_with = "lenient::rows")]
    pub follow_user: Vec<FollowUser>,
    /// Not empty only with more than 500 followers.
    #[serde(
        default,
        deserialize_with = "lenient::null_is_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub next_cursor: String,
}

/// What WeCom tells about a person outside.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExternalContact {
    /// His id, as this app sees it.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub external_userid: String,
    /// Nickname.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub name: Redacted,
    /// Picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avatar: Option<Redacted>,
    /// 1 WeChat user, 2 WeCom user.
    #[serde(
        default,
        rename = "type",
        deserialize_with = "lenient::int",
        skip_serializing_if = "Option::is_none"
    )]
    pub kind: Option<i64>,
    /// 0 unknown, 1 male, 2 female.
    #[serde(
        default,
        deserialize_with = "lenient::int",
        skip_serializing_if = "Option::is_none"
    )]
    pub gender: Option<i64>,
    /// Only for WeChat users of a corp that bound a WeChat developer id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unionid: Option<String>,
    /// Only for WeCom users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corp_name: Option<Redacted>,
    /// Only for WeCom users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corp_full_name: Option<Redacted>,
    /// Only for WeCom users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Redacted>,
}

/// What one member has noted about a customer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FollowUser {
    /// The member.
    pub userid: String,
    /// His name for the customer.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub remark: Redacted,
    /// His note.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub description: Redacted,
    /// When he got the customer, seconds since the epoch.
    #[serde(default, deserialize_with = "lenient::int")]
    pub createtime: Option<i64>,
    /// Tags, personal ones included.
    #[serde(default, deserialize_with = "lenient::rows")]
    pub tags: Vec<FollowTag>,
    /// His name for the customer's company.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub remark_corp_name: Redacted,
    /// Numbers he noted.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub remark_mobiles: Vec<Redacted>,
    /// Who started it: the member, the customer, or whoever shared or allocated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oper_userid: Option<String>,
    /// How the customer came: 1 code, 16 acquisition link, 202 allocated, and more.
    #[serde(
        default,
        deserialize_with = "lenient::int",
        skip_serializing_if = "Option::is_none"
    )]
    pub add_way: Option<i64>,
    /// Channel of the contact way or link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// One tag of a member on a customer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowTag {
    /// Absent for personal tags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag_id: Option<String>,
    /// Its name.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub tag_name: String,
    /// Its group.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub group_name: String,
    /// 1 corp, 2 personal, 3 rule group.
    #[serde(default, rename = "type", deserialize_with = "lenient::int")]
    pub kind: Option<i64>,
}

/// One page of pairs of member and customer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BatchPage {
    /// One row per member and customer.
    #[serde(default, deserialize_with = "lenient::rows")]
    pub external_contact_list: Vec<BatchRow>,
    /// Empty at the end.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub next_cursor: String,
    /// Members that could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail_info: Option<FailInfo>,
}

/// Members that a batch read left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailInfo {
    /// Those without an interop licence: their customers are unknown, not none.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub unlicensed_userid_list: Vec<String>,
}

/// A member and one customer of his.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BatchRow {
    /// The customer.
    pub external_contact: ExternalContact,
    /// What the member noted.
    pub follow_info: FollowInfo,
}

/// Like [`FollowUser`], with tag ids only and without personal tags.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FollowInfo {
    /// The member.
    pub userid: String,
    /// His name for the customer.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub remark: Redacted,
    /// His note.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub description: Redacted,
    /// When he got the customer, seconds since the epoch.
    #[serde(default, deserialize_with = "lenient::int")]
    pub createtime: Option<i64>,
    /// Corp and rule-group tags.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub tag_id: Vec<String>,
    /// His name for the customer's company.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub remark_corp_name: Redacted,
    /// Numbers he noted.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub remark_mobiles: Vec<Redacted>,
    /// Channel of the contact way or link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Who started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oper_userid: Option<String>,
    /// How the customer came.
    #[serde(
        default,
        deserialize_with = "lenient::int",
        skip_serializing_if = "Option::is_none"
    )]
    pub add_way: Option<i64>,
}

/// A member's notes on a customer. Absent fields stay as they are, an empty text clears; overwrites, so it may
/// be repeated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// The member.
    pub userid: String,
    /// The customer.
    pub external_userid: String,
    /// At most 20 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<Redacted>,
    /// At most 150 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<Redacted>,
    /// At most 20 characters; only for WeChat users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark_company: Option<Redacted>,
    /// Replaces all; one empty text clears.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark_mobiles: Option<Vec<Redacted>>,
    /// From the media upload.
    #[serde(default, skip_serializing_if = "super::limits::blank")]
    pub remark_pic_mediaid: Option<String>,
}

impl Remark {
    /// The documented limits.
    pub fn check(&self) -> Result<(), Error> {
        let check = Check::new(api::REMARK);
        check.required("userid", &self.userid)?;
        check.required("external_userid", &self.external_userid)?;
        check.characters("remark", text(&self.remark), 20)?;
        check.characters("description", text(&self.description), 150)?;
        check.characters("remark_company", text(&self.remark_company), 20)?;
        if self.remark_mobiles.as_ref().is_some_and(Vec::is_empty) {
            return Err(check.not_allowed(
                "remark_mobiles",
                "is empty: one empty text clears the numbers",
            ));
        }
        let nothing = self.remark.is_none()
            && self.description.is_none()
            && self.remark_company.is_none()
            && self.remark_mobiles.is_none()
            && super::limits::blank(&self.remark_pic_mediaid);
        if nothing {
            return Err(check.not_allowed("remark", "one of the five notes must be given"));
        }
        Ok(())
    }
}

fn text(value: &Option<Redacted>) -> &str {
    value.as_ref().map(Redacted::expose).unwrap_or_default()
}

#[derive(Deserialize)]
struct FollowUserList {
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    follow_user: Vec<String>,
}

#[derive(Deserialize)]
struct CustomerList {
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    external_userid: Vec<String>,
}

#[derive(Serialize)]
struct BatchRequest<'a> {
    userid_list: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<&'a str>,
    limit: u32,
}

impl Client {
    /// Members with the customer-contact function, as far as the app sees them.
    pub async fn get_follow_user_list(&self) -> Result<Vec<String>, Error> {
        let list: FollowUserList = self.get(api::GET_FOLLOW_USER_LIST, &[]).await?;
        Ok(list.follow_user)
    }

    /// Ids of a member's customers. WeCom answers 84061 for a member without any: that is an empty list here,
    /// and only here.
    pub async fn list_customers(&self, userid: &str) -> Result<Vec<String>, Error> {
        Check::new(api::LIST_CUSTOMERS).required("userid", userid)?;
        match self
            .get::<CustomerList>(api::LIST_CUSTOMERS, &[("userid", userid)])
            .await
        {
            Ok(list) => Ok(list.external_userid),
            Err(Error::Api { errcode: 84061, .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// One page of a customer's followers, with the customer himself.
    pub async fn get_customer(
        &self,
        external_userid: &str,
        cursor: Option<&str>,
    ) -> Result<Customer, Error> {
        Check::new(api::GET_CUSTOMER).required("external_userid", external_userid)?;
        match cursor {
            Some(cursor) => {
                let query = [("external_userid", external_userid), ("cursor", cursor)];
                self.get(api::GET_CUSTOMER, &query).await
            }
            None => {
                self.get(api::GET_CUSTOMER, &[("external_userid", external_userid)])
                    .await
            }
        }
    }

    /// A customer with all his followers, over all pages.
    pub async fn get_customer_all(&self, external_userid: &str) -> Result<Customer, Error> {
        let mut pager = Pager::new(api::GET_CUSTOMER);
        let mut all: Option<Customer> = None;
        while let Some(cursor) = pager.next() {
            match self.get_customer(external_userid, cursor).await {
                Ok(mut page) => {
                    pager.advance(std::mem::take(&mut page.next_cursor))?;
                    match &mut all {
                        Some(customer) => customer.follow_user.append(&mut page.follow_user),
                        None => all = Some(page),
                    }
                }
                Err(error) => {
                    pager.restart_after(error)?;
                    all = None;
                }
            }
        }
        Ok(all.unwrap_or_default())
    }

    /// One page of the customers of up to 100 members, with detail.
    pub async fn batch_get_by_user(
        &self,
        userid_list: &[String],
        cursor: Option<&str>,
    ) -> Result<BatchPage, Error> {
        Check::new(api::BATCH_GET_BY_USER).some_entries(
            "userid_list",
            userid_list,
            BATCH_MEMBERS_MAX,
        )?;
        self.post(
            api::BATCH_GET_BY_USER,
            &BatchRequest {
                userid_list,
                cursor,
                limit: BATCH_ROWS_MAX,
            },
        )
        .await
    }

    /// All pages of [`Client::batch_get_by_user`], with the members that could not be read.
    pub async fn batch_get_by_user_all(
        &self,
        userid_list: &[String],
    ) -> Result<(Vec<BatchRow>, FailInfo), Error> {
        let mut pager = Pager::new(api::BATCH_GET_BY_USER);
        let mut all = Vec::new();
        let mut failed = FailInfo::default();
        while let Some(cursor) = pager.next() {
            match self.batch_get_by_user(userid_list, cursor).await {
                Ok(page) => {
                    all.extend(page.external_contact_list);
                    failed.add(page.fail_info);
                    pager.advance(page.next_cursor)?;
                }
                Err(error) => {
                    pager.restart_after(error)?;
                    all.clear();
                }
            }
        }
        Ok((all, failed))
    }

    /// Overwrites a member's notes on a customer.
    pub async fn remark(&self, request: &Remark) -> Result<(), Error> {
        request.check()?;
        self.post_plain(api::REMARK, request).await
    }
}

impl FailInfo {
    fn add(&mut self, page: Option<FailInfo>) {
        for userid in page.unwrap_or_default().unlicensed_userid_list {
            if !self.unlicensed_userid_list.contains(&userid) {
                self.unlicensed_userid_list.push(userid);
            }
        }
    }
}
