//! Corp tags (企业标签): the corp's list, and the tags of one member on one customer.
//!
//! Personal tags can be neither read by id nor set. Two writers on one pair of member and customer are refused
//! with 45035: serialise per customer.

use serde::{Deserialize, Serialize};

use super::limits::{Check, blank};
use super::{Client, api, lenient};
use crate::Error;

/// A group of corp tags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagGroup {
    /// Its id.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub group_id: String,
    /// Its name.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub group_name: String,
    /// Seconds since the epoch.
    #[serde(
        default,
        deserialize_with = "lenient::int",
        skip_serializing_if = "Option::is_none"
    )]
    pub create_time: Option<i64>,
    /// Larger first.
    #[serde(
        default,
        deserialize_with = "lenient::int",
        skip_serializing_if = "Option::is_none"
    )]
    pub order: Option<i64>,
    /// Only told when ids were asked for.
    #[serde(
        default,
        deserialize_with = "lenient::null_is_default",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub deleted: bool,
    /// Its tags.
    #[serde(default, deserialize_with = "lenient::rows")]
    pub tag: Vec<Tag>,
}

/// A corp tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    /// Its id.
    pub id: String,
    /// Its name.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub name: String,
    /// Seconds since the epoch.
    #[serde(
        default,
        deserialize_with = "lenient::int",
        skip_serializing_if = "Option::is_none"
    )]
    pub create_time: Option<i64>,
    /// Larger first.
    #[serde(
        default,
        deserialize_with = "lenient::int",
        skip_serializing_if = "Option::is_none"
    )]
    pub order: Option<i64>,
    /// Only told when ids were asked for.
    #[serde(
        default,
        deserialize_with = "lenient::null_is_default",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub deleted: bool,
}

/// Which tags to read; both empty = all. If both are given WeCom looks at the groups only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetCorpTagList {
    /// Tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tag_id: Vec<String>,
    /// Groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub group_id: Vec<String>,
}

/// New tags. A name that the group already has is not made twice, so this may be repeated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddCorpTag {
    /// An existing group.
    #[serde(default, skip_serializing_if = "blank")]
    pub group_id: Option<String>,
    /// A new group, or an existing one by its name; at most 30 characters.
    #[serde(default, skip_serializing_if = "blank")]
    pub group_name: Option<String>,
    /// Order of a new group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<u32>,
    /// The tags; at least one.
    pub tag: Vec<NewTag>,
}

/// A tag to make.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTag {
    /// At most 30 characters.
    pub name: String,
    /// Larger first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<u32>,
}

impl AddCorpTag {
    /// Tags for the group of this name, which is made if it does not exist.
    pub fn in_group_named(
        group_name: impl Into<String>,
        names: impl IntoIterator<Item = String>,
    ) -> Self {
        Self {
            group_name: Some(group_name.into()),
            tag: new_tags(names),
            ..Self::default()
        }
    }

    /// Tags for an existing group.
    pub fn in_group(group_id: impl Into<String>, names: impl IntoIterator<Item = String>) -> Self {
        Self {
            group_id: Some(group_id.into()),
            tag: new_tags(names),
            ..Self::default()
        }
    }

    /// The documented limits.
    pub fn check(&self) -> Result<(), Error> {
        let check = Check::new(api::ADD_CORP_TAG);
        if blank(&self.group_id) == blank(&self.group_name) {
            return Err(check.not_allowed(
                "group_id",
                "exactly one of group_id and group_name must be given",
            ));
        }
        check.characters(
            "group_name",
            self.group_name.as_deref().unwrap_or_default(),
            30,
        )?;
        if self.tag.is_empty() {
            return Err(check.not_allowed("tag", "a group cannot be without tags"));
        }
        for tag in &self.tag {
            check.required("tag.name", &tag.name)?;
            check.characters("tag.name", &tag.name, 30)?;
        }
        Ok(())
    }
}

fn new_tags(names: impl IntoIterator<Item = String>) -> Vec<NewTag> {
    names
        .into_iter()
        .map(|name| NewTag { name, order: None })
        .collect()
}

/// A new name or order for a tag or a group of ours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditCorpTag {
    /// Of a tag or a group.
    pub id: String,
    /// At most 30 characters.
    #[serde(default, skip_serializing_if = "blank")]
    pub name: Option<String>,
    /// Larger first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<u32>,
}

impl EditCorpTag {
    /// The documented limits.
    pub fn check(&self) -> Result<(), Error> {
        let check = Check::new(api::EDIT_CORP_TAG);
        check.required("id", &self.id)?;
        check.characters("name", self.name.as_deref().unwrap_or_default(), 30)?;
        if blank(&self.name) && self.order.is_none() {
            return Err(check.not_allowed("name", "name or order must be given"));
        }
        Ok(())
    }
}

/// Tags or groups to delete. A group goes with its last tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelCorpTag {
    /// Tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tag_id: Vec<String>,
    /// Whole groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub group_id: Vec<String>,
}

impl DelCorpTag {
    /// The documented limits.
    pub fn check(&self) -> Result<(), Error> {
        let check = Check::new(api::DEL_CORP_TAG);
        if self.tag_id.is_empty() && self.group_id.is_empty() {
            return Err(check.not_allowed("tag_id", "tag_id and group_id are both empty"));
        }
        check.entries("tag_id", &self.tag_id, usize::MAX)?;
        check.entries("group_id", &self.group_id, usize::MAX)
    }
}

/// Tags to put on a customer or take off, in the name of a member. Only the listed tags change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkTag {
    /// The member.
    pub userid: String,
    /// The customer.
    pub external_userid: String,
    /// To put on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add_tag: Vec<String>,
    /// To take off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove_tag: Vec<String>,
}

impl MarkTag {
    /// The documented limits; 1000 tags is what error 41111 names.
    pub fn check(&self) -> Result<(), Error> {
        let check = Check::new(api::MARK_TAG);
        check.required("userid", &self.userid)?;
        check.required("external_userid", &self.external_userid)?;
        if self.add_tag.is_empty() && self.remove_tag.is_empty() {
            return Err(check.not_allowed("add_tag", "add_tag and remove_tag are both empty"));
        }
        check.entries("add_tag", &self.add_tag, 1000)?;
        check.entries("remove_tag", &self.remove_tag, 1000)
    }
}

#[derive(Deserialize)]
struct TagList {
    #[serde(default, deserialize_with = "lenient::rows")]
    tag_group: Vec<TagGroup>,
}

#[derive(Deserialize)]
struct AddedTags {
    tag_group: TagGroup,
}

impl Client {
    /// Reads the corp's tags.
    pub async fn get_corp_tag_list(
        &self,
        request: &GetCorpTagList,
    ) -> Result<Vec<TagGroup>, Error> {
        let list: TagList = self.post(api::GET_CORP_TAG_LIST, request).await?;
        Ok(list.tag_group)
    }

    /// Makes tags; the answer has their ids. No event follows.
    pub async fn add_corp_tag(&self, request: &AddCorpTag) -> Result<TagGroup, Error> {
        request.check()?;
        let added: AddedTags = self.post(api::ADD_CORP_TAG, request).await?;
        Ok(added.tag_group)
    }

    /// Renames or moves a tag or group that this app made.
    pub async fn edit_corp_tag(&self, request: &EditCorpTag) -> Result<(), Error> {
        request.check()?;
        self.post_plain(api::EDIT_CORP_TAG, request).await
    }

    /// Deletes tags or groups that this app made.
    pub async fn del_corp_tag(&self, request: &DelCorpTag) -> Result<(), Error> {
        request.check()?;
        self.post_plain(api::DEL_CORP_TAG, request).await
    }

    /// Puts tags on a customer and takes others off. May be repeated.
    pub async fn mark_tag(&self, request: &MarkTag) -> Result<(), Error> {
        request.check()?;
        self.post_plain(api::MARK_TAG, request).await
    }
}
