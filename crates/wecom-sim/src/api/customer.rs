//! A customer as the contact APIs show him.

use serde_json::{Map, Value, json};

use crate::world::{Customer, Follow, TagBook};

/// `external_contact` of `externalcontact/get` and of batch rows.
pub(super) fn contact(id: &str, customer: &Customer) -> Value {
    let mut contact = Map::new();
    contact.insert("external_userid".to_owned(), id.into());
    contact.insert("name".to_owned(), customer.name.as_str().into());
    contact.insert("avatar".to_owned(), "https://img.example/0".into());
    contact.insert("type".to_owned(), 1.into());
    contact.insert("gender".to_owned(), 0.into());
    if let Some(unionid) = &customer.unionid {
        contact.insert("unionid".to_owned(), unionid.as_str().into());
    }
    Value::Object(contact)
}

/// What both forms of a relation share.
fn relation(follow: &Follow) -> Map<String, Value> {
    let mut relation = Map::new();
    relation.insert("userid".to_owned(), (&*follow.member.userid).into());
    relation.insert("remark".to_owned(), follow.remark.as_str().into());
    relation.insert("description".to_owned(), follow.description.as_str().into());
    relation.insert(
        "createtime".to_owned(),
        follow.created_ms.div_euclid(1_000).into(),
    );
    relation.insert(
        "remark_corp_name".to_owned(),
        follow.remark_company.as_str().into(),
    );
    relation.insert("remark_mobiles".to_owned(), json!(follow.remark_mobiles));
    relation.insert("oper_userid".to_owned(), (&*follow.oper_userid).into());
    relation.insert("add_way".to_owned(), follow.add_way.into());
    if let Some(state) = &follow.state {
        relation.insert("state".to_owned(), (&**state).into());
    }
    relation
}

/// A row of `follow_user`, personal tags (without id) included.
pub(super) fn follow_user(follow: &Follow, book: &TagBook) -> Value {
    let corp_tags = follow.tags.iter().filter_map(|id| {
        let group = book.groups.get(book.group_of.get(id)?)?;
        let tag = group.tags.get(id)?;
        Some(json!({"group_name": group.name, "tag_name": tag.name, "tag_id": &**id, "type": 1}))
    });
    let personal_tags = follow
        .personal_tags
        .iter()
        .map(|name| json!({"group_name": "Personal", "tag_name": name, "type": 2}));
    let mut relation = relation(follow);
    relation.insert("tags".to_owned(), corp_tags.chain(personal_tags).collect());
    Value::Object(relation)
}

/// `follow_info` of a batch row: corp tags only, by id.
pub(super) fn follow_info(follow: &Follow, book: &TagBook) -> Value {
    let tags = follow
        .tags
        .iter()
        .filter(|id| book.group_of.contains_key(*id));
    let mut relation = relation(follow);
    relation.insert(
        "tag_id".to_owned(),
        tags.map(|id| Value::from(&**id)).collect(),
    );
    Value::Object(relation)
}
