//! Corp tags, and putting them on customers. Nothing here makes an event.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::world::{CorpTag, CorpTagGroup, TagBook};

use super::call::answer;
use super::{Call, Reply};

/// Everything, or the groups or tags that are named (groups win).
pub(crate) fn list(call: &Call<'_>) -> Reply {
    let book = call.corp.tags.lock();
    let groups = call.fields.texts("group_id").unwrap_or_default();
    let tags = call.fields.texts("tag_id").unwrap_or_default();
    let shown: Vec<Value> = if !groups.is_empty() {
        groups
            .iter()
            .filter_map(|id| book.shown(id, |_| true))
            .collect()
    } else if !tags.is_empty() {
        let mut of_tags: Vec<_> = tags
            .iter()
            .filter_map(|id| book.group_of.get(*id))
            .collect();
        of_tags.sort_unstable();
        of_tags.dedup();
        of_tags
            .into_iter()
            .filter_map(|group| book.shown(group, |id| tags.contains(&id)))
            .collect()
    } else {
        book.groups
            .keys()
            .filter_map(|id| book.shown(id, |_| true))
            .collect()
    };
    Reply::ok().with("tag_group", shown)
}

/// Safe to repeat: the same name inside a group is made once.
pub(crate) fn add(call: &Call<'_>) -> Reply {
    answer((|| {
        let fields = call.fields;
        let tags = fields
            .objects("tag")
            .filter(|tags| !tags.is_empty())
            .ok_or(40063)?;
        let mut wanted = Vec::new();
        for tag in tags {
            let name = tag.get("name").and_then(Value::as_str).unwrap_or_default();
            check_name(name)?;
            wanted.push((name, order(tag)?));
        }
        let mut book = call.corp.tags.lock();
        let most = call.rules.limits.corp_tags;
        if call.rules.limits.enabled && most > 0 && book.len() + wanted.len() > most {
            return Err(40126);
        }
        let group = group_for(call, &mut book)?;
        let created_s = call.now_ms.div_euclid(1_000);
        let mut ids = Vec::new();
        for (name, order) in wanted {
            let tag = CorpTag {
                name: name.to_owned(),
                created_s,
                order,
                owner: Some(call.app.agent_id),
            };
            ids.extend(book.add(&group, call.world.fresh_id("et"), tag));
        }
        let shown = book
            .shown(&group, |id| ids.iter().any(|one| **one == *id))
            .ok_or(40068)?;
        Ok(Reply::done().with("tag_group", shown))
    })())
}

/// The group of `group_id`, or the one of that name, made when it is new.
fn group_for(call: &Call<'_>, book: &mut TagBook) -> Result<Arc<str>, i32> {
    let fields = call.fields;
    // An empty group_id is not an absent one (cases.md 94).
    if fields.has("group_id") {
        let id = fields.text("group_id").ok_or(40068)?;
        return book
            .groups
            .get_key_value(id)
            .map(|(id, _)| Arc::clone(id))
            .ok_or(40068);
    }
    let name = fields.text("group_name").ok_or(40063)?;
    check_name(name)?;
    if let Some(id) = book.named(name) {
        return Ok(id);
    }
    let id = call.world.fresh_id("et");
    let group = CorpTagGroup {
        name: name.to_owned(),
        created_s: call.now_ms.div_euclid(1_000),
        order: fields.int("order").unwrap_or(0),
        owner: Some(call.app.agent_id),
        tags: BTreeMap::new(),
    };
    book.groups.insert(Arc::clone(&id), group);
    Ok(id)
}

/// Renames or reorders a tag or a group that this app made.
pub(crate) fn edit(call: &Call<'_>) -> Reply {
    answer((|| {
        let id = call.fields.filled("id").ok_or(40068)?;
        let name = call.fields.text("name");
        if let Some(name) = name {
            check_name(name)?;
        }
        let order = call.fields.int("order");
        let mut book = call.corp.tags.lock();
        let group_id = book.group_of.get(id).cloned();
        let taken = match (name, &group_id) {
            (Some(name), Some(group)) => book.named_in(group, name),
            (Some(name), None) => book.named(name),
            (None, _) => None,
        };
        if taken.is_some_and(|other| *other != *id) {
            return Err(40071);
        }
        let (owner, name_slot, order_slot) = if group_id.is_some() {
            let tag = book.tag_mut(id).ok_or(40068)?;
            (tag.owner, &mut tag.name, &mut tag.order)
        } else {
            let group = book.groups.get_mut(id).ok_or(40068)?;
            (group.owner, &mut group.name, &mut group.order)
        };
        if owner != Some(call.app.agent_id) {
            return Err(48002);
        }
        if let Some(name) = name {
            name.clone_into(name_slot);
        }
        if let Some(order) = order {
            *order_slot = order;
        }
        Ok(Reply::done())
    })())
}

/// Deletes tags and groups that this app made.
pub(crate) fn del(call: &Call<'_>) -> Reply {
    answer((|| {
        let tags = call.fields.texts("tag_id").unwrap_or_default();
        let groups = call.fields.texts("group_id").unwrap_or_default();
        if tags.is_empty() && groups.is_empty() {
            return Err(40063);
        }
        let mut book = call.corp.tags.lock();
        let us = Some(call.app.agent_id);
        for id in &tags {
            let tag = book.tag(id).ok_or(40068)?;
            if tag.owner != us {
                return Err(48002);
            }
        }
        for id in &groups {
            let group = book.groups.get(*id).ok_or(40068)?;
            if group.owner != us {
                return Err(48002);
            }
        }
        for id in tags {
            book.remove_tag(id);
        }
        for id in groups {
            book.remove_group(id);
        }
        Ok(Reply::done())
    })())
}

/// Changes the corp tags one member put on one customer; only those that are listed. Safe to repeat.
pub(crate) fn mark(call: &Call<'_>) -> Reply {
    answer((|| {
        let member = call.servant("userid")?;
        let id = call.fields.filled("external_userid").ok_or(41035)?;
        let add = call.fields.texts("add_tag").unwrap_or_default();
        let remove = call.fields.texts("remove_tag").unwrap_or_default();
        let named = add.len() + remove.len();
        if named == 0 || named > 1_000 {
            return Err(41111);
        }
        let mut part = call.corp.customers.part(id);
        let customer = part.get_mut(id).ok_or(40096)?;
        let follow = customer.follow_mut(&member.key).ok_or(84061)?;
        let book = call.corp.tags.lock();
        let mut tags = follow.tags.clone();
        tags.retain(|tag| book.group_of.contains_key(tag) && !remove.contains(&&**tag));
        for tag in add {
            let (tag, _) = book.group_of.get_key_value(tag).ok_or(40068)?;
            if !tags.contains(tag) {
                tags.push(Arc::clone(tag));
            }
        }
        let most = call.rules.limits.tags_per_customer;
        if call.rules.limits.enabled && most > 0 && tags.len() > most {
            return Err(40144);
        }
        follow.tags = tags;
        Ok(Reply::done())
    })())
}

fn check_name(name: &str) -> Result<(), i32> {
    if (1..=30).contains(&name.chars().count()) {
        Ok(())
    } else {
        Err(40072)
    }
}

fn order(tag: &Map<String, Value>) -> Result<i64, i32> {
    let order = tag.get("order").and_then(Value::as_i64).unwrap_or(0);
    if (0..1 << 32).contains(&order) {
        Ok(order)
    } else {
        Err(40035)
    }
}
