//! Contact ways (「联系我」): codes that lead to chosen members.
//!
//! Making one is not idempotent and spends quota: after an unknown outcome list the ways since the start time
//! and find the new one by its `state` or `remark`. Lists give ids only.

mod parts;

use serde::{Deserialize, Serialize};

pub use parts::{Conclusions, WayScene, WayType};

use super::limits::{Check, blank};
use super::{Client, Pager, api, lenient};
use crate::Error;

/// A temporary way or session lives at most this long, in seconds.
const TEMPORARY_MAX_S: u32 = 14 * 24 * 3600;
/// WeCom's limit of members of one way, expanded departments included.
const MEMBERS_MAX: usize = 100;

/// What a way can be made with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AddContactWay {
    /// One member or several.
    #[serde(rename = "type")]
    pub kind: WayType,
    /// Where it is shown.
    pub scene: WayScene,
    /// Button style in mini programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub style: Option<i64>,
    /// Ours, at most 30 characters.
    #[serde(default, skip_serializing_if = "blank")]
    pub remark: Option<String>,
    /// Without the member's consent; WeCom's default is yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_verify: Option<bool>,
    /// Comes back in events and detail; at most 30 characters.
    #[serde(default, skip_serializing_if = "blank")]
    pub state: Option<String>,
    /// The members.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user: Vec<String>,
    /// Departments; only with [`WayType::Multiple`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub party: Vec<i64>,
    /// A temporary session; only some industries may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_temp: Option<bool>,
    /// Life of a temporary code in seconds, at most 14 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<u32>,
    /// Life of a temporary session in seconds, at most 14 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_expires_in: Option<u32>,
    /// Temporary ways only.
    #[serde(default, skip_serializing_if = "blank")]
    pub unionid: Option<String>,
    /// The same customer goes to one member of the corp first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_exclusive: Option<bool>,
    /// Only for marketing apps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark_source: Option<bool>,
    /// Closing message; temporary ways only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conclusions: Option<Conclusions>,
}

impl AddContactWay {
    /// The documented limits.
    pub fn check(&self) -> Result<(), Error> {
        let check = Check::new(api::ADD_CONTACT_WAY);
        match self.kind {
            WayType::Single if self.user.len() != 1 => {
                return Err(check.not_allowed("user", "must have exactly one member for type 1"));
            }
            WayType::Single if !self.party.is_empty() => {
                return Err(check.not_allowed("party", "is allowed for type 2 only"));
            }
            WayType::Multiple if self.user.is_empty() && self.party.is_empty() => {
                return Err(check.not_allowed("user", "members or departments must be given"));
            }
            WayType::Single | WayType::Multiple => {}
        }
        check.entries("user", &self.user, MEMBERS_MAX)?;
        check_texts(
            check,
            &self.remark,
            &self.state,
            self.expires_in,
            self.chat_expires_in,
        )?;
        if let Some(conclusions) = &self.conclusions {
            if self.is_temp != Some(true) {
                return Err(check.not_allowed("conclusions", "is allowed for temporary ways only"));
            }
            conclusions.check(check)?;
        }
        if !blank(&self.unionid) && self.is_temp != Some(true) {
            return Err(check.not_allowed("unionid", "is allowed for temporary ways only"));
        }
        Ok(())
    }
}

fn check_texts(
    check: Check,
    remark: &Option<String>,
    state: &Option<String>,
    expires_in: Option<u32>,
    chat_expires_in: Option<u32>,
) -> Result<(), Error> {
    check.characters("remark", remark.as_deref().unwrap_or_default(), 30)?;
    check.characters("state", state.as_deref().unwrap_or_default(), 30)?;
    for (field, seconds) in [
        ("expires_in", expires_in),
        ("chat_expires_in", chat_expires_in),
    ] {
        if seconds.is_some_and(|seconds| seconds > TEMPORARY_MAX_S) {
            return Err(check.not_allowed(field, "is longer than 14 days"));
        }
    }
    Ok(())
}

/// A way that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddedContactWay {
    /// Without it the way can be neither changed nor deleted.
    pub config_id: String,
    /// The picture's address; only with [`WayScene::QrCode`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qr_code: Option<String>,
}

/// A way as WeCom has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ContactWay {
    /// Its id.
    pub config_id: String,
    /// 1 one member, 2 several.
    #[serde(default, rename = "type", deserialize_with = "lenient::int")]
    pub kind: Option<i64>,
    /// 1 mini program, 2 QR code.
    #[serde(default, deserialize_with = "lenient::int")]
    pub scene: Option<i64>,
    /// Ours.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub remark: String,
    /// Without the member's consent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_verify: Option<bool>,
    /// Comes back in events and detail.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub state: String,
    /// The picture's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qr_code: Option<String>,
    /// The members.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub user: Vec<String>,
    /// The departments.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub party: Vec<i64>,
    /// Temporary?
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_temp: Option<bool>,
}

/// A change; absent fields stay as they are. Type and scene cannot change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UpdateContactWay {
    /// Which way.
    pub config_id: String,
    /// At most 30 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
    /// Without the member's consent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_verify: Option<bool>,
    /// Button style.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub style: Option<i64>,
    /// At most 30 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Replaces the whole old list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Vec<String>>,
    /// Replaces the whole old list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub party: Option<Vec<i64>>,
    /// Life of a temporary code in seconds, at most 14 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<u32>,
    /// Life of a temporary session in seconds, at most 14 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_expires_in: Option<u32>,
    /// Only for marketing apps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark_source: Option<bool>,
    /// Closing message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conclusions: Option<Conclusions>,
}

impl UpdateContactWay {
    /// The documented limits.
    pub fn check(&self) -> Result<(), Error> {
        let check = Check::new(api::UPDATE_CONTACT_WAY);
        check.required("config_id", &self.config_id)?;
        check.entries(
            "user",
            self.user.as_deref().unwrap_or_default(),
            MEMBERS_MAX,
        )?;
        check_texts(
            check,
            &self.remark,
            &self.state,
            self.expires_in,
            self.chat_expires_in,
        )?;
        self.conclusions
            .as_ref()
            .map_or(Ok(()), |conclusions| conclusions.check(check))
    }
}

/// Which ways to list; WeCom's own window is the last 90 days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContactWayWindow {
    /// Seconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<i64>,
    /// Seconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<i64>,
}

/// One page of ids, at most 1000.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContactWayPage {
    /// Permanent ways only.
    #[serde(default, deserialize_with = "lenient::rows")]
    pub contact_way: Vec<ContactWayId>,
    /// Empty at the end.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub next_cursor: String,
}

/// An id in a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContactWayId {
    /// The id.
    pub config_id: String,
}

#[derive(Serialize)]
struct ById<'a> {
    config_id: &'a str,
}

#[derive(Deserialize)]
struct GotContactWay {
    contact_way: ContactWay,
}

#[derive(Serialize)]
struct ListRequest<'a> {
    #[serde(flatten)]
    window: ContactWayWindow,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<&'a str>,
    limit: u32,
}

#[derive(Serialize)]
struct CloseTempChat<'a> {
    userid: &'a str,
    external_userid: &'a str,
}

impl Client {
    /// Makes a way. Not idempotent: see the module's head.
    pub async fn add_contact_way(&self, request: &AddContactWay) -> Result<AddedContactWay, Error> {
        request.check()?;
        self.post(api::ADD_CONTACT_WAY, request).await
    }

    /// Reads a way.
    pub async fn get_contact_way(&self, config_id: &str) -> Result<ContactWay, Error> {
        Check::new(api::GET_CONTACT_WAY).required("config_id", config_id)?;
        let got: GotContactWay = self.post(api::GET_CONTACT_WAY, &ById { config_id }).await?;
        Ok(got.contact_way)
    }

    /// Changes a way.
    pub async fn update_contact_way(&self, request: &UpdateContactWay) -> Result<(), Error> {
        request.check()?;
        self.post_plain(api::UPDATE_CONTACT_WAY, request).await
    }

    /// Deletes a way.
    pub async fn del_contact_way(&self, config_id: &str) -> Result<(), Error> {
        Check::new(api::DEL_CONTACT_WAY).required("config_id", config_id)?;
        self.post_plain(api::DEL_CONTACT_WAY, &ById { config_id })
            .await
    }

    /// One page of ids of ways.
    pub async fn list_contact_way(
        &self,
        window: ContactWayWindow,
        cursor: Option<&str>,
    ) -> Result<ContactWayPage, Error> {
        self.post(
            api::LIST_CONTACT_WAY,
            &ListRequest {
                window,
                cursor,
                limit: 1000,
            },
        )
        .await
    }

    /// All pages of [`Client::list_contact_way`].
    pub async fn list_contact_way_all(
        &self,
        window: ContactWayWindow,
    ) -> Result<Vec<String>, Error> {
        let mut pager = Pager::new(api::LIST_CONTACT_WAY);
        let mut all = Vec::new();
        while let Some(cursor) = pager.next() {
            match self.list_contact_way(window, cursor).await {
                Ok(page) => {
                    all.extend(page.contact_way.into_iter().map(|way| way.config_id));
                    pager.advance(page.next_cursor)?;
                }
                Err(error) => {
                    pager.restart_after(error)?;
                    all.clear();
                }
            }
        }
        Ok(all)
    }

    /// Ends a temporary session.
    pub async fn close_temp_chat(&self, userid: &str, external_userid: &str) -> Result<(), Error> {
        let check = Check::new(api::CLOSE_TEMP_CHAT);
        check.required("userid", userid)?;
        check.required("external_userid", external_userid)?;
        self.post_plain(
            api::CLOSE_TEMP_CHAT,
            &CloseTempChat {
                userid,
                external_userid,
            },
        )
        .await
    }
}
