//! Customers: who has whom.

use std::ops::Bound;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::world::{Follow, Member};

use super::call::answer;
use super::customer::{contact, follow_info, follow_user};
use super::{Call, Reply};

/// `externalcontact/get` pages its followers by this many.
const FOLLOWERS: usize = 500;

/// Visible members with the customer-contact function.
pub(crate) fn get_follow_user_list(call: &Call<'_>) -> Reply {
    let members = call.corp.members.get();
    let mut users: Vec<_> = members
        .values()
        .filter(|member| member.serves() && call.sees(member))
        .map(|member| &*member.userid)
        .collect();
    users.sort_unstable();
    Reply::ok().with("follow_user", users)
}

/// The ids of a member's customers; 84061 when he has none.
pub(crate) fn list(call: &Call<'_>) -> Reply {
    answer((|| {
        let member = call.servant("userid")?;
        let customers = member.customers.lock();
        if customers.is_empty() {
            return Err(84061);
        }
        let ids: Vec<Value> = customers.values().map(|id| Value::from(&**id)).collect();
        Ok(Reply::ok().with("external_userid", ids))
    })())
}

/// One customer and the visible members who have him.
pub(crate) fn get(call: &Call<'_>) -> Reply {
    answer((|| {
        let id = call.fields.filled("external_userid").ok_or(41035)?;
        let [skip, ..] = call.position()?;
        let skip = usize::try_from(skip).map_err(|_| 50100)?;
        let mut part = call.corp.customers.part(id);
        let customer = part
            .get_mut(id)
            .filter(|customer| customer.known())
            .ok_or(40096)?;
        customer
            .ghosts
            .retain(|(_, until_ms)| call.now_ms < *until_ms);
        let customer = &*customer;
        let follows: Vec<&Follow> = customer
            .follows
            .iter()
            .filter(|follow| !follow.half)
            .chain(customer.ghosts.iter().map(|(follow, _)| follow))
            .collect();
        if follows.is_empty() {
            return Err(84061);
        }
        let visible: Vec<&Follow> = follows
            .into_iter()
            .filter(|follow| call.sees(&follow.member))
            .collect();
        if visible.is_empty() {
            return Err(40096);
        }
        let book = call.corp.tags.lock();
        let length = call.page_length("limit", FOLLOWERS, FOLLOWERS);
        let page: Vec<Value> = visible
            .iter()
            .skip(skip)
            .take(length)
            .map(|follow| follow_user(follow, &book))
            .collect();
        let next = skip + page.len();
        let mut reply = Reply::ok()
            .with("external_contact", contact(id, customer))
            .with("follow_user", page);
        if next < visible.len() {
            reply = reply.with("next_cursor", call.cursor([next as u64, 0, 0]));
        }
        Ok(reply)
    })())
}

/// The customers of up to 100 members, a row per relation.
pub(crate) fn get_by_user(call: &Call<'_>) -> Reply {
    answer((|| {
        let userids = call
            .fields
            .texts("userid_list")
            .filter(|list| !list.is_empty())
            .ok_or(40063)?;
        if userids.len() > 100 {
            return Err(40058);
        }
        let mut members = Vec::new();
        for userid in userids {
            let member = call
                .corp
                .member(userid)
                .filter(|member| member.in_service())
                .ok_or(60111)?;
            if !call.sees(&member) {
                return Err(60011);
            }
            members.push(member);
        }
        let (members, unlicensed): (Vec<_>, Vec<_>) = members
            .into_iter()
            .partition(|member| member.def.get().licensed);
        if members.is_empty() {
            return Err(701_008);
        }
        let unlicensed: Vec<Value> = unlicensed
            .iter()
            .map(|member| Value::from(&*member.userid))
            .collect();
        let [first, after, _] = call.position()?;
        let mut index = usize::try_from(first).map_err(|_| 50100)?;
        let mut rank = after;
        let length = call.page_length("limit", 50, 100);
        let mut rows = Vec::new();
        let mut more = false;
        while let Some(member) = members.get(index) {
            let (mut ids, has_more) = next_customers(member, rank, length - rows.len());
            if let Some((last, _)) = ids.last() {
                rank = *last;
            }
            rows.extend(ids.drain(..).filter_map(|(_, id)| row(call, member, &id)));
            if has_more {
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
            .with("external_contact_list", rows)
            .with("next_cursor", next)
            .with("fail_info", json!({"unlicensed_userid_list": unlicensed})))
    })())
}

/// The next customers of a member behind `rank`, and whether there are more.
fn next_customers(member: &Member, rank: u64, most: usize) -> (Vec<(u64, Arc<str>)>, bool) {
    let customers = member.customers.lock();
    let mut behind = customers.range((Bound::Excluded(rank), Bound::Unbounded));
    let page: Vec<_> = behind
        .by_ref()
        .take(most)
        .map(|(rank, id)| (*rank, Arc::clone(id)))
        .collect();
    (page, behind.next().is_some())
}

fn row(call: &Call<'_>, member: &Member, id: &str) -> Option<Value> {
    let part = call.corp.customers.part(id);
    let customer = part.get(id)?;
    // It may have ended since the list was read.
    let follow = customer.follow(&member.key)?;
    let book = call.corp.tags.lock();
    Some(
        json!({"external_contact": contact(id, customer), "follow_info": follow_info(follow, &book)}),
    )
}

/// A member's notes on a customer. Overwrites; makes no event.
pub(crate) fn remark(call: &Call<'_>) -> Reply {
    answer((|| {
        const TEXTS: [(&str, usize); 3] =
            [("remark", 20), ("description", 150), ("remark_company", 20)];
        let member = call.servant("userid")?;
        let id = call.fields.filled("external_userid").ok_or(41035)?;
        let given = TEXTS.iter().any(|(name, _)| call.fields.has(name))
            || call.fields.has("remark_mobiles")
            || call.fields.has("remark_pic_mediaid");
        if !given {
            return Err(40063);
        }
        if TEXTS.iter().any(|(name, most)| call.too_long(name, *most)) {
            return Err(40058);
        }
        let mut part = call.corp.customers.part(id);
        let customer = part.get_mut(id).ok_or(40096)?;
        let follow = customer.follow_mut(&member.key).ok_or(84061)?;
        if let Some(text) = call.fields.text("remark") {
            text.clone_into(&mut follow.remark);
        }
        if let Some(text) = call.fields.text("description") {
            text.clone_into(&mut follow.description);
        }
        if let Some(text) = call.fields.text("remark_company") {
            text.clone_into(&mut follow.remark_company);
        }
        if let Some(mobiles) = call.fields.texts("remark_mobiles") {
            // One empty string clears.
            follow.remark_mobiles = mobiles
                .iter()
                .filter(|one| !one.is_empty())
                .map(ToString::to_string)
                .collect();
        }
        Ok(Reply::done())
    })())
}
