//! Customer groups: read, and given to another owner. No API makes one, or lets anybody in or out.

use std::collections::HashSet;
use std::ops::Bound;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use crate::world::{Book, Group, GroupMove, Person};

use super::call::answer;
use super::{Call, Reply, errmsg};

const OWNERS_MAX: usize = 100;
const MOVED_MAX: usize = 100;

/// Ids and how their inheritance stands; dismissed groups are not listed.
pub(crate) fn list(call: &Call<'_>) -> Reply {
    answer((|| {
        let status = match call.fields.int("status_filter").unwrap_or(0) {
            status @ 0..=3 => u8::try_from(status).map_err(|_| 40058)?,
            _ => return Err(40058),
        };
        let limit = call.fields.int("limit").ok_or(40058)?;
        if !(1..=1_000).contains(&limit) {
            return Err(40058);
        }
        let owners = owners(call)?;
        let [mut after, ..] = call.position()?;
        let length = call.page_length("limit", 1_000, 1_000);
        let mut page: Vec<Value> = Vec::new();
        let mut next = String::new();
        let groups = &call.corp.groups;
        let order = groups.order.lock();
        for (rank, id) in order.range((Bound::Excluded(after), Bound::Unbounded)) {
            let part = groups.by_id.part(&**id);
            let Some(group) = part.get(id).filter(|group| shows(call, group, &owners)) else {
                continue;
            };
            let now = group.status();
            if status != 0 && status != now {
                continue;
            }
            if page.len() == length {
                next = call.cursor([after, 0, 0]);
                break;
            }
            page.push(json!({"chat_id": &**id, "status": now}));
            after = *rank;
        }
        Ok(Reply::ok()
            .with("group_chat_list", page)
            .with("next_cursor", next))
    })())
}

/// The keys of the owners that are asked for; `None` is everybody who is there.
fn owners(call: &Call<'_>) -> Result<Option<HashSet<Arc<str>>>, i32> {
    let named = call
        .fields
        .object("owner_filter")
        .and_then(|filter| filter.get("userid_list"))
        .and_then(Value::as_array)
        .filter(|named| !named.is_empty());
    let Some(named) = named else {
        let most = call.rules.limits.visible_owners;
        let members = call.corp.members.get();
        let visible = || {
            let visible = members.values().filter(|member| call.sees(member));
            visible.take(most + 1).count()
        };
        if call.rules.limits.enabled && most > 0 && visible() > most {
            return Err(81017);
        }
        return Ok(None);
    };
    if named.len() > OWNERS_MAX {
        return Err(40058);
    }
    let mut owners = HashSet::new();
    for userid in named {
        let userid = userid.as_str().ok_or(40003)?;
        let member = call.corp.member(userid).ok_or(40003)?;
        if !call.sees(&member) {
            return Err(60011);
        }
        owners.insert(Arc::clone(&member.key));
    }
    Ok(Some(owners))
}

/// The groups of an owner who has left are found by naming him only.
fn shows(call: &Call<'_>, group: &Group, owners: &Option<HashSet<Arc<str>>>) -> bool {
    let book = group.now();
    let owner = &book.owner;
    let asked = match owners {
        Some(owners) => owners.contains(&owner.key),
        None => owner.in_service() && call.sees(owner),
    };
    asked && !book.dismissed && owner.def.get().customer_contact
}

/// A group whose owner the app sees; 90501 when it is no customer group, 49008 when it is no more.
pub(super) fn check_group(call: &Call<'_>, book: &Book) -> Result<(), i32> {
    if book.dismissed {
        return Err(49008);
    }
    if !book.owner.def.get().customer_contact {
        return Err(90501);
    }
    if call.sees(&book.owner) {
        Ok(())
    } else {
        Err(60011)
    }
}

/// One group with all who are in it, as it was a moment ago.
pub(crate) fn get(call: &Call<'_>) -> Reply {
    answer((|| {
        let id = call.fields.filled("chat_id").ok_or(40050)?;
        let names = call.fields.int("need_name") == Some(1);
        let mut part = call.corp.groups.by_id.part(id);
        let group = part.get_mut(id).ok_or(90501)?;
        let create_time = group.created_ms.div_euclid(1_000);
        let book = group.shown(call.now_ms);
        check_group(call, book)?;
        let shown = ShownGroup {
            chat_id: id,
            name: &book.name,
            owner: &book.owner.userid,
            create_time,
            notice: (!book.notice.is_empty()).then_some(&book.notice),
            member_list: (book.people.iter())
                .map(|person| ShownMember::new(person, names))
                .collect(),
            admin_list: [],
            member_version: &book.version,
        };
        // Texts and numbers: writing them cannot fail.
        let shown = serde_json::to_string(&shown).unwrap_or_default();
        Ok(Reply::ok().with_json("group_chat", shown))
    })())
}

/// `group_chat`. Written straight from the book: no copy of 200 people for every call.
#[derive(Serialize)]
struct ShownGroup<'a> {
    chat_id: &'a str,
    name: &'a str,
    owner: &'a str,
    create_time: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<&'a String>,
    member_list: Vec<ShownMember<'a>>,
    admin_list: [(); 0],
    member_version: &'a str,
}

#[derive(Serialize)]
struct ShownMember<'a> {
    userid: &'a str,
    r#type: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    unionid: Option<&'a str>,
    join_time: i64,
    join_scene: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    invitor: Option<ShownInvitor<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

#[derive(Serialize)]
struct ShownInvitor<'a> {
    userid: &'a str,
}

impl<'a> ShownMember<'a> {
    fn new(person: &'a Person, names: bool) -> Self {
        Self {
            userid: &person.id,
            r#type: if person.employee { 1 } else { 2 },
            unionid: person.unionid.as_deref(),
            join_time: person.joined_ms.div_euclid(1_000),
            join_scene: person.scene,
            invitor: (person.invitor.as_deref()).map(|userid| ShownInvitor { userid }),
            state: person.state.as_deref(),
            name: names.then_some(&person.name),
        }
    }
}

/// Owners in service.
pub(crate) fn onjob_transfer(call: &Call<'_>) -> Reply {
    answer(moved(call, false))
}

/// Owners who have left.
pub(crate) fn transfer(call: &Call<'_>) -> Reply {
    answer(moved(call, true))
}

/// Only refusals are listed; whatever is not was accepted.
fn moved(call: &Call<'_>, resigned: bool) -> Result<Reply, i32> {
    let chats = call
        .fields
        .texts("chat_id_list")
        .filter(|chats| !chats.is_empty())
        .ok_or(40063)?;
    if chats.len() > MOVED_MAX {
        return Err(40058);
    }
    let new_owner = call.fields.filled("new_owner").ok_or(40003)?;
    let new_owner = call.corp.member(new_owner).ok_or(60111)?;
    match new_owner.taker_code() {
        0 => {}
        code => return Err(code),
    }
    if !call.sees(&new_owner) {
        return Err(60011);
    }
    let sees = |key: &str| call.def.sees(key);
    let plan = GroupMove {
        new_owner: &new_owner,
        resigned,
        sees: &sees,
    };
    let mut effect = false;
    let mut failed: Vec<Value> = Vec::new();
    for chat_id in chats {
        let (world, now_ms) = (call.world, call.now_ms);
        let scripted = world.faults.row_code(call.facts, chat_id, now_ms);
        let code = scripted
            .unwrap_or_else(|| world.move_group(call.corp, &plan, chat_id, call.rules, now_ms));
        if code == 0 {
            effect |= scripted.is_none();
        } else {
            failed.push(json!({"chat_id": chat_id, "errcode": code, "errmsg": errmsg(code)}));
        }
    }
    let mut reply = Reply::ok().with("failed_chat_list", failed);
    reply.effect = effect;
    Ok(reply)
}
