//! Contact ways (「联系我」). Making one is not idempotent: every call makes another.

use std::ops::Bound;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::world::{Member, Way};

use super::call::answer;
use super::{Call, Reply};

const DAY_S: i64 = 86_400;

pub(crate) fn add(call: &Call<'_>) -> Reply {
    answer((|| {
        let fields = call.fields;
        let kind = fields
            .int("type")
            .filter(|kind| [1, 2].contains(kind))
            .ok_or(41037)?;
        let scene = fields
            .int("scene")
            .filter(|scene| [1, 2].contains(scene))
            .ok_or(41038)?;
        let style = fields.int("style");
        if style.is_some_and(|style| !(1..=3).contains(&style)) {
            return Err(41042);
        }
        check_texts(call)?;
        let users = users(call)?;
        let party = fields.ints("party").unwrap_or_default();
        check_members(call, kind, &users, &party)?;
        let is_temp = fields.flag("is_temp").unwrap_or(false);
        if is_temp && !call.corp.settings.get().temp_ways {
            return Err(48002);
        }
        let life = |name, default| fields.int(name).unwrap_or(default);
        let way = Way {
            config_id: call.world.fresh_id("cw"),
            rank: call.corp.rank(),
            created_ms: call.now_ms,
            kind,
            scene,
            style,
            remark: fields.text("remark").unwrap_or_default().to_owned(),
            skip_verify: fields.flag("skip_verify").unwrap_or(true),
            state: fields.text("state").unwrap_or_default().to_owned(),
            users,
            party,
            is_temp,
            expires_in: life("expires_in", 7 * DAY_S).min(14 * DAY_S),
            chat_expires_in: life("chat_expires_in", DAY_S).min(14 * DAY_S),
            unionid: fields.text("unionid").unwrap_or_default().to_owned(),
            is_exclusive: fields.flag("is_exclusive").unwrap_or(false),
            mark_source: fields.flag("mark_source").unwrap_or(true),
            conclusions: fields
                .object("conclusions")
                .map_or(Value::Null, |map| Value::Object(map.clone())),
            used: false,
        };
        let mut order = call.corp.way_order.lock();
        let most = call.rules.limits.contact_ways;
        // Join ways count too; their order is never locked before this one.
        let made = order.len() + call.corp.groups.way_order.lock().len();
        if call.rules.limits.enabled && most > 0 && !is_temp && made >= most {
            return Err(41045);
        }
        if !is_temp {
            order.insert(way.rank, (call.now_ms, Arc::clone(&way.config_id)));
        }
        drop(order);
        let mut reply = Reply::done().with("config_id", &*way.config_id);
        if let Some(qr_code) = way.qr_code(call.host) {
            reply = reply.with("qr_code", qr_code);
        }
        if !way.state.is_empty() {
            let mut states = call.corp.way_states.lock();
            states.insert(way.state.clone(), Arc::clone(&way.config_id));
        }
        call.corp
            .ways
            .part(&*way.config_id)
            .insert(Arc::clone(&way.config_id), way);
        Ok(reply)
    })())
}

pub(crate) fn get(call: &Call<'_>) -> Reply {
    answer((|| {
        let id = config_id(call)?;
        let part = call.corp.ways.part(id);
        let way = part.get(id).ok_or(41044)?;
        Ok(Reply::ok().with("contact_way", way.shown(Some(call.host))))
    })())
}

/// `user` and `party` replace the old lists; type and scene stay.
pub(crate) fn update(call: &Call<'_>) -> Reply {
    answer((|| {
        let fields = call.fields;
        let id = config_id(call)?;
        check_texts(call)?;
        let new_users = if fields.has("user") {
            Some(users(call)?)
        } else {
            None
        };
        let new_party = fields.ints("party");
        let mut part = call.corp.ways.part(id);
        let way = part.get_mut(id).ok_or(41044)?;
        if !way.usable(call.now_ms) {
            return Err(41044);
        }
        if new_users.is_some() || new_party.is_some() {
            let users = new_users.unwrap_or_else(|| way.users.clone());
            let party = new_party.unwrap_or_else(|| way.party.clone());
            check_members(call, way.kind, &users, &party)?;
            way.users = users;
            way.party = party;
        }
        if let Some(style) = fields.int("style") {
            if !(1..=3).contains(&style) {
                return Err(41042);
            }
            way.style = Some(style);
        }
        if let Some(text) = fields.text("remark") {
            text.clone_into(&mut way.remark);
        }
        if let Some(text) = fields.text("state") {
            text.clone_into(&mut way.state);
            let mut states = call.corp.way_states.lock();
            states.insert(text.to_owned(), Arc::clone(&way.config_id));
        }
        if let Some(flag) = fields.flag("skip_verify") {
            way.skip_verify = flag;
        }
        if let Some(flag) = fields.flag("mark_source") {
            way.mark_source = flag;
        }
        Ok(Reply::done())
    })())
}

pub(crate) fn del(call: &Call<'_>) -> Reply {
    answer((|| {
        let id = config_id(call)?;
        let way = call.corp.ways.part(id).remove(id).ok_or(41044)?;
        call.corp.way_order.lock().remove(&way.rank);
        let mut states = call.corp.way_states.lock();
        if states.get(&way.state) == Some(&way.config_id) {
            states.remove(&way.state);
        }
        Ok(Reply::done())
    })())
}

/// Ids only, of the last 90 days unless asked otherwise; no temporary ways.
pub(crate) fn list(call: &Call<'_>) -> Reply {
    answer((|| {
        let now_s = call.now_ms.div_euclid(1_000);
        let start_s = call.fields.int("start_time").unwrap_or(now_s - 90 * DAY_S);
        let end_s = call.fields.int("end_time").unwrap_or(now_s);
        let [after, ..] = call.position()?;
        let length = call.page_length("limit", 100, 1_000);
        let order = call.corp.way_order.lock();
        let mut behind = order
            .range((Bound::Excluded(after), Bound::Unbounded))
            .filter(|(_, (made_ms, _))| (start_s..=end_s).contains(&made_ms.div_euclid(1_000)));
        let page: Vec<_> = behind
            .by_ref()
            .take(length)
            .map(|(rank, (_, id))| (*rank, Arc::clone(id)))
            .collect();
        let next = match (page.last(), behind.next()) {
            (Some((rank, _)), Some(_)) => call.cursor([*rank, 0, 0]),
            _ => String::new(),
        };
        let ways: Vec<Value> = page
            .iter()
            .map(|(_, id)| json!({"config_id": &**id}))
            .collect();
        Ok(Reply::ok()
            .with("contact_way", ways)
            .with("next_cursor", next))
    })())
}

/// Ends a temporary session.
pub(crate) fn close_temp_chat(call: &Call<'_>) -> Reply {
    answer((|| {
        let member = call.servant("userid")?;
        let id = call.fields.filled("external_userid").ok_or(41035)?;
        let part = call.corp.customers.part(id);
        part.get(id)
            .ok_or(40096)?
            .follow(&member.key)
            .ok_or(84061)?;
        Ok(Reply::done())
    })())
}

fn config_id<'a>(call: &'a Call<'_>) -> Result<&'a str, i32> {
    call.fields.filled("config_id").ok_or(41043)
}

fn check_texts(call: &Call<'_>) -> Result<(), i32> {
    if call.too_long("remark", 30) || call.too_long("state", 30) {
        Err(40058)
    } else {
        Ok(())
    }
}

/// The members named by `user`, each visible and able to serve.
fn users(call: &Call<'_>) -> Result<Vec<Arc<Member>>, i32> {
    let mut users: Vec<Arc<Member>> = Vec::new();
    for userid in call.fields.texts("user").unwrap_or_default() {
        let member = call
            .corp
            .member(userid)
            .filter(|member| member.in_service())
            .ok_or(40003)?;
        if !call.sees(&member) {
            return Err(60011);
        }
        let def = member.def.get();
        if def.status != 1 || !def.verified {
            return Err(41054);
        }
        if !def.customer_contact {
            return Err(84074);
        }
        if users.iter().all(|other| other.key != member.key) {
            users.push(member);
        }
    }
    Ok(users)
}

/// One for type 1; at most 100 with those of the departments for type 2.
fn check_members(
    call: &Call<'_>,
    kind: i64,
    users: &[Arc<Member>],
    party: &[i64],
) -> Result<(), i32> {
    if kind == 1 {
        return match (users.len(), party.len()) {
            (1, 0) => Ok(()),
            (0, _) => Err(40063),
            (1, _) => Err(40058),
            _ => Err(41041),
        };
    }
    if users.is_empty() && party.is_empty() {
        return Err(40063);
    }
    let of_party = |member: &Member| {
        member
            .def
            .get()
            .departments
            .iter()
            .any(|id| party.contains(&i64::from(*id)))
    };
    let expanded = if party.is_empty() {
        0
    } else {
        let members = call.corp.members.get();
        members
            .values()
            .filter(|member| of_party(member) && !users.iter().any(|user| user.key == member.key))
            .count()
    };
    let most = call.rules.limits.members_per_way;
    if most > 0 && users.len() + expanded > most {
        Err(41041)
    } else {
        Ok(())
    }
}
