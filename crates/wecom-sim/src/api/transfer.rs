//! Hand-over of customers. errcode 0 of a row says *started*; the end comes 24 h later.

use std::ops::Bound;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::world::{Member, Start, start};

use super::call::answer;
use super::{Call, Reply};

/// In service: two moves in 90 days.
pub(crate) fn transfer_customer(call: &Call<'_>) -> Reply {
    answer(transfer(call, false))
}

/// Of a member who has left.
pub(crate) fn resigned_transfer_customer(call: &Call<'_>) -> Reply {
    answer(transfer(call, true))
}

fn transfer(call: &Call<'_>, resigned: bool) -> Result<Reply, i32> {
    let fields = call.fields;
    let ids = fields
        .texts("external_userid")
        .filter(|ids| !ids.is_empty())
        .ok_or(41035)?;
    if ids.len() > 100 || call.too_long("transfer_success_msg", 200) {
        return Err(40058);
    }
    let takeover = fields.filled("takeover_userid").ok_or(40003)?;
    let takeover = call.corp.member(takeover).ok_or(60111)?;
    match takeover.taker_code() {
        0 => {}
        code => return Err(code),
    }
    if !call.sees(&takeover) {
        return Err(60011);
    }
    let handover = fields.filled("handover_userid").ok_or(40003)?;
    let handover = giver(call, handover, resigned)?;
    let sees = |key: &str| call.def.sees(key);
    let plan = Start {
        handover: &handover,
        takeover: &takeover,
        resigned,
        sees: &sees,
    };
    let mut effect = false;
    let rows: Vec<Value> = ids
        .iter()
        .map(|id| {
            let scripted = call.world.faults.row_code(call.facts, id, call.now_ms);
            let code = scripted.unwrap_or_else(|| {
                start(call.world, call.corp, &plan, id, call.rules, call.now_ms)
            });
            effect |= code == 0 && scripted.is_none();
            json!({"external_userid": id, "errcode": code})
        })
        .collect();
    let mut reply = Reply::ok().with("customer", rows);
    reply.effect = effect;
    Ok(reply)
}

fn giver(call: &Call<'_>, userid: &str, resigned: bool) -> Result<Arc<Member>, i32> {
    let member = call
        .corp
        .member(userid)
        .ok_or(if resigned { 40097 } else { 40003 })?;
    let code = if resigned {
        member.resigned_giver_code(call.now_ms)
    } else if !member.in_service() {
        40003
    } else if !call.sees(&member) {
        60011
    } else if member.def.get().last_login_days > 365 {
        40205
    } else {
        0
    };
    if code == 0 { Ok(member) } else { Err(code) }
}

/// All attempts of a pair, in service.
pub(crate) fn transfer_result(call: &Call<'_>) -> Reply {
    answer(result(call, false))
}

/// All attempts of a pair, resigned.
pub(crate) fn resigned_transfer_result(call: &Call<'_>) -> Reply {
    answer(result(call, true))
}

fn result(call: &Call<'_>, resigned: bool) -> Result<Reply, i32> {
    let handover = call.fields.filled("handover_userid").ok_or(40003)?;
    let takeover = call.fields.filled("takeover_userid").ok_or(40003)?;
    let handover = call.corp.member(handover).ok_or(60111)?;
    let takeover = call.corp.member(takeover).ok_or(60111)?;
    let [skip, ..] = call.position()?;
    let skip = usize::try_from(skip).map_err(|_| 50100)?;
    let length = call.page_length("limit", 1_000, 1_000);
    let pair = (
        Arc::clone(&handover.key),
        Arc::clone(&takeover.key),
        resigned,
    );
    let part = call.corp.pairs.part(&pair);
    let attempts = part.get(&pair).map(Vec::as_slice).unwrap_or_default();
    let page = attempts.get(skip..).unwrap_or_default();
    let page = page.get(..length).unwrap_or(page);
    let rows: Vec<Value> = page
        .iter()
        .filter_map(|attempt| {
            let (status, at_ms) = attempt.result(call.now_ms)?;
            let at_s = at_ms.div_euclid(1_000);
            Some(json!({"external_userid": &*attempt.customer, "status": status, "takeover_time": at_s}))
        })
        .collect();
    let next = skip + page.len();
    let next = if next < attempts.len() {
        call.cursor([next as u64, 0, 0])
    } else {
        String::new()
    };
    Ok(Reply::ok().with("customer", rows).with("next_cursor", next))
}

/// Customers of members who have left.
pub(crate) fn get_unassigned_list(call: &Call<'_>) -> Reply {
    answer((|| {
        if call.fields.has("page_id") && call.fields.filled("cursor").is_some() {
            return Err(40058);
        }
        let [first, after, _] = call.position()?;
        let mut index = usize::try_from(first).map_err(|_| 50100)?;
        let mut rank = after;
        let length = call.page_length("page_size", 1_000, 1_000);
        let members = call.corp.members.get();
        let mut gone: Vec<&Arc<Member>> = members
            .values()
            .filter(|member| !member.in_service())
            .collect();
        gone.sort_by(|a, b| a.key.cmp(&b.key));
        let mut rows: Vec<Value> = Vec::new();
        let mut more = false;
        while let Some(member) = gone.get(index) {
            let left_s = member
                .def
                .get()
                .resigned_ms
                .unwrap_or(call.now_ms)
                .div_euclid(1_000);
            let customers = member.customers.lock();
            let mut behind = customers.range((Bound::Excluded(rank), Bound::Unbounded));
            for (at, id) in behind.by_ref().take(length - rows.len()) {
                rank = *at;
                rows.push(json!({
                    "handover_userid": &*member.userid, "external_userid": &**id, "dimission_time": left_s,
                }));
            }
            if behind.next().is_some() {
                more = true;
                break;
            }
            index += 1;
            rank = 0;
        }
        let next = if more {
            call.cursor([index as u64, rank, 0])
        } else {
            String::new()
        };
        Ok(Reply::ok()
            .with("info", rows)
            .with("is_last", !more)
            .with("next_cursor", next))
    })())
}
