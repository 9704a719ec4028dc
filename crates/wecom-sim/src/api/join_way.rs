//! Join ways (「加入群聊」). An update overwrites all of one; an app sees its own only.

use std::sync::Arc;

use crate::world::{JoinPlan, JoinWay};

use super::call::answer;
use super::groupchat::check_group;
use super::{Call, Reply};

/// Not idempotent, and answers without a picture.
pub(crate) fn add(call: &Call<'_>) -> Reply {
    answer((|| {
        let plan = plan(call)?;
        let groups = &call.corp.groups;
        let way = JoinWay::new(
            call.world.fresh_id("jw"),
            call.corp.rank(),
            call.app.agent_id,
            plan,
        );
        let contact_ways = call.corp.way_order.lock();
        let mut order = groups.way_order.lock();
        let most = call.rules.limits.contact_ways;
        if call.rules.limits.enabled && most > 0 && contact_ways.len() + order.len() >= most {
            return Err(41045);
        }
        order.insert(way.rank, Arc::clone(&way.config_id));
        drop((order, contact_ways));
        remember_state(call, &way);
        let config_id = Arc::clone(&way.config_id);
        groups
            .ways
            .part(&*config_id)
            .insert(Arc::clone(&config_id), way);
        Ok(Reply::done().with("config_id", &*config_id))
    })())
}

pub(crate) fn get(call: &Call<'_>) -> Reply {
    answer((|| {
        let id = config_id(call)?;
        let part = call.corp.groups.ways.part(id);
        let way = part.get(id).filter(|way| own(call, way)).ok_or(41044)?;
        Ok(Reply::ok().with("join_way", way.shown(Some(call.host))))
    })())
}

pub(crate) fn update(call: &Call<'_>) -> Reply {
    answer((|| {
        let id = config_id(call)?;
        let plan = plan(call)?;
        let mut part = call.corp.groups.ways.part(id);
        let way = part.get_mut(id).filter(|way| own(call, way)).ok_or(41044)?;
        way.replace(plan);
        remember_state(call, way);
        Ok(Reply::done())
    })())
}

pub(crate) fn del(call: &Call<'_>) -> Reply {
    answer((|| {
        let id = config_id(call)?;
        let groups = &call.corp.groups;
        let mut part = groups.ways.part(id);
        part.get(id).filter(|way| own(call, way)).ok_or(41044)?;
        let way = part.remove(id).ok_or(41044)?;
        drop(part);
        groups.way_order.lock().remove(&way.rank);
        let mut states = groups.way_states.lock();
        if states.get(&way.plan.state) == Some(&way.config_id) {
            states.remove(&way.plan.state);
        }
        Ok(Reply::done())
    })())
}

fn config_id<'a>(call: &'a Call<'_>) -> Result<&'a str, i32> {
    call.fields.filled("config_id").ok_or(41043)
}

fn own(call: &Call<'_>, way: &JoinWay) -> bool {
    way.agent_id == call.app.agent_id
}

fn remember_state(call: &Call<'_>, way: &JoinWay) {
    if !way.plan.state.is_empty() {
        let mut states = call.corp.groups.way_states.lock();
        states.insert(way.plan.state.clone(), Arc::clone(&way.config_id));
    }
}

/// The whole configuration, as add and update alike send it.
fn plan(call: &Call<'_>) -> Result<JoinPlan, i32> {
    let fields = call.fields;
    let scene = fields
        .int("scene")
        .filter(|scene| [1, 2].contains(scene))
        .ok_or(41038)?;
    let auto_create_room = match fields.int("auto_create_room").unwrap_or(1) {
        0 => false,
        1 => true,
        _ => return Err(40058),
    };
    if call.too_long("room_base_name", 40) || call.too_long("state", 30) {
        return Err(40058);
    }
    let room_base_id = fields.int("room_base_id").unwrap_or(1);
    if room_base_id < 0 {
        return Err(40058);
    }
    let chats = fields
        .texts("chat_id_list")
        .filter(|chats| !chats.is_empty())
        .ok_or(40063)?;
    let most = call.rules.limits.chats_per_way;
    if most > 0 && chats.len() > most {
        return Err(41091);
    }
    let mut chat_ids: Vec<Arc<str>> = Vec::new();
    for chat_id in chats {
        let part = call.corp.groups.by_id.part(chat_id);
        let group = part.get(chat_id).ok_or(90501)?;
        check_group(call, group.now())?;
        if !chat_ids.contains(&group.chat_id) {
            chat_ids.push(Arc::clone(&group.chat_id));
        }
    }
    let text = |name| fields.text(name).unwrap_or_default().to_owned();
    Ok(JoinPlan {
        scene,
        // Cut without a word.
        remark: text("remark").chars().take(30).collect(),
        auto_create_room,
        room_base_name: text("room_base_name"),
        room_base_id,
        chat_ids,
        state: text("state"),
        mark_source: fields.flag("mark_source").unwrap_or(true),
    })
}
