//! People leave groups, or are removed from them.

use std::sync::Arc;

use crate::Error;
use crate::admin::{LeaveReply, LeaveRequest};
use crate::callback::{ChatEvent, MembersChange};
use crate::random::For;

use super::World;
use super::corp::Corp;
use super::group::{Change, Group};
use super::group_people::known_group;
use super::groups::add;

/// Who went, and the versions of the list around it.
struct Gone {
    ids: Vec<Arc<str>>,
    last: Arc<str>,
    current: Arc<str>,
}

impl World {
    /// People leave. See [`LeaveRequest`].
    pub(crate) fn leave(self: &Arc<Self>, request: &LeaveRequest) -> Result<LeaveReply, Error> {
        let corp = self.corp(request.corp.as_deref())?;
        let mut reply = LeaveReply::default();
        if let Some(chat_id) = &request.chat_id {
            let gone = self.leave_group(
                &corp,
                chat_id,
                &request.people,
                request.count as usize,
                request.removed,
            )?;
            reply.left = gone.into_iter().map(|id| (id, chat_id.clone())).collect();
            return Ok(reply);
        }
        if request.count > 0 {
            return Err(Error::Request("count needs a chat_id".to_owned()));
        }
        for id in &request.people {
            let groups = {
                let part = corp.customers.part(id.as_str());
                let customer = part.get(id.as_str());
                let customer = customer.ok_or_else(|| Error::unknown("customer", id))?;
                customer.groups.clone()
            };
            let one = std::slice::from_ref(id);
            for chat_id in groups {
                self.leave_group(&corp, &chat_id, one, 0, request.removed)?;
                reply.left.push((id.clone(), chat_id.to_string()));
            }
        }
        Ok(reply)
    }

    fn leave_group(
        self: &Arc<Self>,
        corp: &Arc<Corp>,
        chat_id: &str,
        people: &[String],
        count: usize,
        removed: bool,
    ) -> Result<Vec<String>, Error> {
        let mut part = corp.groups.by_id.part(chat_id);
        let group = known_group(part.get(chat_id), chat_id)?;
        let ids = self.who_leaves(group, people, count)?;
        let owner = Arc::clone(&group.now().owner);
        let group = part
            .get_mut(chat_id)
            .ok_or_else(|| Error::unknown("group", chat_id))?;
        // Removed all at once, or gone one after the other.
        let at_once = if removed { ids.len().max(1) } else { 1 };
        let mut events = Vec::new();
        for ids in ids.chunks(at_once) {
            let (last, current) = (Arc::clone(&group.now().version), self.group_version());
            let change = Change::Leave(ids.to_vec(), Arc::clone(&current));
            group.change(change, self.now_ms(), self.group_lag_ms());
            events.push(Gone {
                ids: ids.to_vec(),
                last,
                current,
            });
        }
        drop(part);
        add(&corp.groups.totals.left, ids.len());
        for id in &ids {
            corp.forget_group(id, chat_id);
        }
        for gone in &events {
            let members = MembersChange {
                joined: false,
                scene: i64::from(removed),
                ids: &gone.ids,
                last: &gone.last,
                current: &gone.current,
            };
            self.emit_chat(corp, &owner, chat_id, &ChatEvent::Members(members));
        }
        Ok(ids.iter().map(|id| id.to_string()).collect())
    }

    fn who_leaves(
        &self,
        group: &Group,
        people: &[String],
        count: usize,
    ) -> Result<Vec<Arc<str>>, Error> {
        let book = group.now();
        let mut ids: Vec<Arc<str>> = Vec::new();
        for id in people {
            let found = book.people.iter().find(|person| *person.id == **id);
            let found = found.ok_or_else(|| Error::unknown("member of the group", id))?;
            if found.id == book.owner.userid {
                return Err(Error::Request(
                    "an owner cannot leave: give the group another owner, or dismiss it".to_owned(),
                ));
            }
            if !ids.contains(&found.id) {
                ids.push(Arc::clone(&found.id));
            }
        }
        let mut others: Vec<Arc<str>> = (book.people.iter())
            .filter(|person| !person.employee && !ids.contains(&person.id))
            .map(|person| Arc::clone(&person.id))
            .collect();
        let mut random = self.random(For::GroupLeave, self.number());
        for _ in 0..count.min(others.len()) {
            let index = usize::try_from(random.below(others.len() as u64)).unwrap_or(0);
            ids.push(others.swap_remove(index));
        }
        Ok(ids)
    }
}

impl Corp {
    /// Somebody from outside is no longer in a group.
    pub(crate) fn forget_group(&self, id: &str, chat_id: &str) {
        if let Some(customer) = self.customers.part(id).get_mut(id) {
            customer.groups.retain(|group| **group != *chat_id);
        }
    }
}
