//! What people do to relations that exist: delete and edit; and the welcome codes of new ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Error;
use crate::admin::{By, DeleteRequest, EditRequest};
use crate::callback::Event;
use crate::random::For;

use super::World;
use super::corp::Corp;
use super::customer::{Code, Welcome};
use super::member::Member;

impl World {
    /// A WelcomeCode for every app that will hear of the new relation, unless WeCom gives none.
    pub(crate) fn welcome_codes(
        &self,
        corp: &Corp,
        member: &Member,
        customer: &Arc<str>,
        welcome: &Arc<Welcome>,
        now_ms: i64,
    ) -> BTreeMap<u32, Arc<str>> {
        if member.def.get().console_welcome || welcome.sent.lock().is_some() {
            return BTreeMap::new();
        }
        let apps = corp.apps.get();
        let hearing = apps
            .values()
            .filter(|app| app.def.get().hears_of(&member.key));
        hearing
            .map(|app| {
                let value: Arc<str> = self.random(For::WelcomeCode, self.number()).text(43).into();
                let code = Code {
                    welcome: Arc::clone(welcome),
                    agent_id: app.agent_id,
                    issued_ms: now_ms,
                    customer: Arc::clone(customer),
                    calls: 0,
                };
                corp.codes.part(&*value).insert(Arc::clone(&value), code);
                (app.agent_id, value)
            })
            .collect()
    }

    /// Somebody deletes somebody. See [`DeleteRequest`].
    pub(crate) fn delete(self: &Arc<Self>, request: &DeleteRequest) -> Result<(), Error> {
        let corp = self.corp(request.corp.as_deref())?;
        let member = corp
            .member(&request.member)
            .ok_or_else(|| Error::unknown("member", &request.member))?;
        let mut part = corp.customers.part(request.customer.as_str());
        let missing = || {
            Error::unknown(
                "relation",
                format!("{} with {}", request.customer, request.member),
            )
        };
        let (id, _) = part
            .get_key_value(request.customer.as_str())
            .ok_or_else(missing)?;
        let id = Arc::clone(id);
        let customer = part.get_mut(&id).ok_or_else(missing)?;
        let change = match request.by {
            By::Customer => {
                let follow = customer
                    .follows
                    .iter_mut()
                    .find(|follow| follow.member.key == member.key && !follow.one_way);
                follow.ok_or_else(missing)?.one_way = true;
                "del_follow_user"
            }
            By::Member => {
                let old = customer.unfollow(&member.key).ok_or_else(missing)?;
                let lag_ms = self.rules.get().people.read_lag_ms;
                if lag_ms > 0 {
                    customer.ghosts.push((old, self.now_ms() + lag_ms));
                }
                "del_external_contact"
            }
        };
        drop(part);
        self.emit_contact(&corp, Event::new(change, &member, &id));
        Ok(())
    }

    /// A member edits a customer. See [`EditRequest`].
    pub(crate) fn edit(self: &Arc<Self>, request: &EditRequest) -> Result<(), Error> {
        let corp = self.corp(request.corp.as_deref())?;
        let member = corp
            .member(&request.member)
            .ok_or_else(|| Error::unknown("member", &request.member))?;
        let mut part = corp.customers.part(request.customer.as_str());
        let missing = || {
            Error::unknown(
                "relation",
                format!("{} with {}", request.customer, request.member),
            )
        };
        let (id, _) = part
            .get_key_value(request.customer.as_str())
            .ok_or_else(missing)?;
        let id = Arc::clone(id);
        let follow = part
            .get_mut(&id)
            .and_then(|customer| customer.follow_mut(&member.key))
            .ok_or_else(missing)?;
        if let Some(remark) = &request.remark {
            follow.remark.clone_from(remark);
        }
        if let Some(tags) = &request.personal_tags {
            follow.personal_tags.clone_from(tags);
        }
        if let Some(tags) = &request.corp_tags {
            follow.tags = tags.iter().map(|tag| Arc::from(tag.as_str())).collect();
        }
        drop(part);
        self.emit_contact(&corp, Event::new("edit_external_contact", &member, &id));
        Ok(())
    }
}
