//! The corp's tags.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

/// All tag groups of a corp.
#[derive(Debug, Default)]
pub(crate) struct TagBook {
    pub(crate) groups: BTreeMap<Arc<str>, TagGroup>,
    /// Group of each tag.
    pub(crate) group_of: BTreeMap<Arc<str>, Arc<str>>,
}

#[derive(Debug)]
pub(crate) struct TagGroup {
    pub(crate) name: String,
    pub(crate) created_s: i64,
    pub(crate) order: i64,
    /// The app that made it; the admin console when absent.
    pub(crate) owner: Option<u32>,
    pub(crate) tags: BTreeMap<Arc<str>, Tag>,
}

#[derive(Debug)]
pub(crate) struct Tag {
    pub(crate) name: String,
    pub(crate) created_s: i64,
    pub(crate) order: i64,
    pub(crate) owner: Option<u32>,
}

impl TagBook {
    pub(crate) fn len(&self) -> usize {
        self.group_of.len()
    }

    pub(crate) fn tag(&self, id: &str) -> Option<&Tag> {
        self.groups.get(self.group_of.get(id)?)?.tags.get(id)
    }

    pub(crate) fn tag_mut(&mut self, id: &str) -> Option<&mut Tag> {
        self.groups
            .get_mut(self.group_of.get(id)?)?
            .tags
            .get_mut(id)
    }

    /// The group of that name.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<str>> {
        self.groups
            .iter()
            .find(|(_, group)| group.name == name)
            .map(|(id, _)| Arc::clone(id))
    }

    /// The tag of that name in a group.
    pub(crate) fn named_in(&self, group: &str, name: &str) -> Option<Arc<str>> {
        let tags = &self.groups.get(group)?.tags;
        tags.iter()
            .find(|(_, tag)| tag.name == name)
            .map(|(id, _)| Arc::clone(id))
    }

    /// Adds a tag; the same name inside a group is made once.
    pub(crate) fn add(&mut self, group: &Arc<str>, tag_id: Arc<str>, tag: Tag) -> Option<Arc<str>> {
        if let Some(id) = self.named_in(group, &tag.name) {
            return Some(id);
        }
        self.groups
            .get_mut(group)?
            .tags
            .insert(Arc::clone(&tag_id), tag);
        self.group_of.insert(Arc::clone(&tag_id), Arc::clone(group));
        Some(tag_id)
    }

    /// Removes a tag, and its group when it was the last. False when there is none.
    pub(crate) fn remove_tag(&mut self, id: &str) -> bool {
        let Some(group_id) = self.group_of.remove(id) else {
            return false;
        };
        if let Some(group) = self.groups.get_mut(&group_id) {
            group.tags.remove(id);
            if group.tags.is_empty() {
                self.groups.remove(&group_id);
            }
        }
        true
    }

    /// Removes a group and all its tags. False when there is none.
    pub(crate) fn remove_group(&mut self, id: &str) -> bool {
        let Some(group) = self.groups.remove(id) else {
            return false;
        };
        for tag in group.tags.keys() {
            self.group_of.remove(tag);
        }
        true
    }

    /// One group as get_corp_tag_list shows it, with those of its tags that `wanted` lets through.
    pub(crate) fn shown(&self, id: &str, wanted: impl Fn(&str) -> bool) -> Option<Value> {
        let group = self.groups.get(id)?;
        let mut tags: Vec<_> = group.tags.iter().filter(|(id, _)| wanted(id)).collect();
        // Larger first, then older.
        tags.sort_by_key(|(_, tag)| (std::cmp::Reverse(tag.order), tag.created_s));
        let tags: Vec<_> = tags
            .into_iter()
            .map(|(id, tag)| json!({"id": &**id, "name": tag.name, "create_time": tag.created_s, "order": tag.order}))
            .collect();
        Some(json!({
            "group_id": id, "group_name": group.name, "create_time": group.created_s, "order": group.order, "tag": tags,
        }))
    }
}
