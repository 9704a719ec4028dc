//! `change_external_tag` (企业客户标签变更), pages 92130 and 92277. Who *has* a tag is not here: that is an edit of the contact.

use super::fields::Fields;

/// A corp tag or tag group was made, changed, deleted or moved. Only its id is told:
/// `externalcontact/get_corp_tag_list` has the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalTag {
    /// What happened.
    pub change: ExternalTagChange,
    /// `Id` of the tag or tag group.
    pub id: String,
    /// `TagType`; absent on [`ExternalTagChange::Shuffle`].
    pub tag_type: Option<TagType>,
    /// `StrategyId`: the rule group; a number in some samples, text in others.
    pub strategy_id: Option<String>,
}

/// `ChangeType` of `change_external_tag`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExternalTagChange {
    /// `create`.
    Create,
    /// `update`.
    Update,
    /// `delete`.
    Delete,
    /// `shuffle`: an administrator reordered tags; read the whole list.
    Shuffle,
    /// Something newer than this library.
    Other(String),
}

/// `TagType`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TagType {
    /// `tag`.
    Tag,
    /// `tag_group`.
    TagGroup,
    /// Something newer than this library.
    Other(String),
}

impl ExternalTag {
    pub(super) fn read(change_type: &str, fields: &Fields<'_>) -> Self {
        Self {
            change: match change_type {
                "create" => ExternalTagChange::Create,
                "update" => ExternalTagChange::Update,
                "delete" => ExternalTagChange::Delete,
                "shuffle" => ExternalTagChange::Shuffle,
                other => ExternalTagChange::Other(other.to_owned()),
            },
            id: fields.owned("Id"),
            tag_type: fields.get("TagType").map(|tag_type| match tag_type {
                "tag" => TagType::Tag,
                "tag_group" => TagType::TagGroup,
                other => TagType::Other(other.to_owned()),
            }),
            strategy_id: fields.optional("StrategyId"),
        }
    }

    /// A tag is made and deleted once, and changed or moved many times.
    pub(super) fn changed_tag(&self) -> Option<&str> {
        match self.change {
            ExternalTagChange::Create | ExternalTagChange::Delete => None,
            _ => Some(&self.id),
        }
    }
}
