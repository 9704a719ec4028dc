//! What members and people do in customer groups by hand, and how anybody enters one.

use std::collections::HashSet;
use std::sync::Arc;

use crate::Error;
use crate::admin::{
    GroupChange, GroupRequest, GroupState, GroupsMade, InviteRequest, Join, JoinOutcome, JoinReply,
};
use crate::callback::{ChatEvent, MembersChange};
use crate::random::For;

use super::World;
use super::corp::Corp;
use super::group::{BY_LINK, Change, Group, INVITED, Person, SCANNED};
use super::groups::add;
use super::join_way::Newcomer;
use super::member::Member;

/// JoinScene of an event: brought by somebody, in whatever way. `groupchat/get` has other numbers.
const EVENT_INVITED: i64 = 0;

impl World {
    /// A version that no list has had.
    pub(crate) fn group_version(&self) -> Arc<str> {
        let version = self.random(For::GroupVersion, self.number()).next();
        format!("{version:016x}").into()
    }

    /// How far the next change is behind in `groupchat/get`.
    pub(crate) fn group_lag_ms(&self) -> i64 {
        match self.rules.get().groups.read_lag_ms {
            most if most > 0 => self.random(For::GroupLag, self.number()).up_to_ms(most),
            _ => 0,
        }
    }

    /// Somebody from outside as he would sit in a group, and the groups he is in.
    pub(crate) fn outsider(
        &self,
        corp: &Corp,
        newcomer: &Newcomer,
        scene: i64,
        invitor: Option<&Arc<str>>,
        state: Option<Arc<str>>,
    ) -> (Arc<Person>, Vec<Arc<str>>) {
        let mut part = corp.customers.part(&*newcomer.id);
        let customer = part.entry(Arc::clone(&newcomer.id)).or_default();
        customer.introduce(
            &newcomer.id,
            newcomer.name.as_deref(),
            newcomer.unionid.as_deref(),
        );
        let person = Person {
            id: Arc::clone(&newcomer.id),
            employee: false,
            name: customer.name.clone(),
            unionid: customer.unionid.clone(),
            joined_ms: self.now_ms(),
            scene,
            invitor: invitor.cloned(),
            state,
        };
        (Arc::new(person), customer.groups.clone())
    }

    /// Lets people into a group as far as it has room, with one event for all of them. Their outcomes, in the
    /// same order; none when there is no such group.
    pub(crate) fn seat(
        self: &Arc<Self>,
        corp: &Arc<Corp>,
        chat_id: &Arc<str>,
        people: &[Arc<Person>],
        cap: usize,
    ) -> Vec<JoinOutcome> {
        let mut part = corp.groups.by_id.part(&**chat_id);
        let Some(group) = part.get_mut(chat_id).filter(|group| !group.now().dismissed) else {
            return Vec::new();
        };
        let mut room = cap.saturating_sub(group.now().people.len());
        let mut taken = Vec::new();
        let mut ids: Vec<Arc<str>> = Vec::new();
        let outcomes = people.iter().map(|person| {
            if group.now().has(&person.id) || ids.contains(&person.id) {
                JoinOutcome::AlreadyMember
            } else if room == 0 {
                JoinOutcome::Full
            } else {
                room -= 1;
                ids.push(Arc::clone(&person.id));
                taken.push(Arc::clone(person));
                JoinOutcome::Joined
            }
        });
        let outcomes: Vec<_> = outcomes.collect();
        let Some(first) = taken.first() else {
            return outcomes;
        };
        let scene = if first.scene == SCANNED {
            SCANNED
        } else {
            EVENT_INVITED
        };
        let entering: Vec<_> = taken
            .iter()
            .filter(|person| !person.employee)
            .cloned()
            .collect();
        let last = Arc::clone(&group.now().version);
        let current = self.group_version();
        let change = Change::Join(taken, Arc::clone(&current));
        group.change(change, self.now_ms(), self.group_lag_ms());
        let owner = Arc::clone(&group.now().owner);
        drop(part);

        for person in entering {
            let mut part = corp.customers.part(&*person.id);
            let customer = part.entry(Arc::clone(&person.id)).or_default();
            customer.groups.push(Arc::clone(chat_id));
        }
        let members = MembersChange {
            joined: true,
            scene,
            ids: &ids,
            last: &last,
            current: &current,
        };
        self.emit_chat(corp, &owner, chat_id, &ChatEvent::Members(members));
        outcomes
    }

    /// A member makes groups by hand. See [`GroupRequest`].
    pub(crate) fn make_groups(
        self: &Arc<Self>,
        request: &GroupRequest,
    ) -> Result<GroupsMade, Error> {
        let corp = self.corp(request.corp.as_deref())?;
        let owner = known_member(&corp, &request.owner)?;
        let mut members = Vec::new();
        for userid in &request.members {
            members.push(known_member(&corp, userid)?);
        }
        if request.count == 0 || (request.count > 1 && request.chat_id.is_some()) {
            return Err(Error::Request(
                "count must be at least 1; above 1 leave chat_id out".to_owned(),
            ));
        }
        let hard_cap = self.rules.get().groups.hard_cap;
        if 1 + members.len() + request.people as usize > hard_cap {
            return Err(Error::Request(format!(
                "a group has at most {hard_cap} members (groups.hard_cap)"
            )));
        }
        let mut made = GroupsMade::default();
        for number in 1..=request.count {
            let chat_id: Arc<str> = match &request.chat_id {
                Some(id)
                    if corp
                        .groups
                        .by_id
                        .part(id.as_str())
                        .contains_key(id.as_str()) =>
                {
                    return Err(Error::Request(format!("there is a group {id} already")));
                }
                Some(id) => id.as_str().into(),
                None => self.fresh_id("wr"),
            };
            let name = match &request.name {
                Some(name) if request.count > 1 => format!("{name}{number}"),
                name => name.clone().unwrap_or_default(),
            };
            self.make_group(
                &corp,
                &chat_id,
                name,
                &owner,
                &members,
                request.people as usize,
            );
            made.chat_ids.push(chat_id.to_string());
        }
        Ok(made)
    }

    /// Who is in it from the start is in no event: `create` says nothing of them.
    fn make_group(
        self: &Arc<Self>,
        corp: &Arc<Corp>,
        chat_id: &Arc<str>,
        name: String,
        owner: &Arc<Member>,
        members: &[Arc<Member>],
        people: usize,
    ) {
        let now_ms = self.now_ms();
        let version = self.group_version();
        let rank = corp.rank();
        let mut group = Group::new(Arc::clone(chat_id), rank, name, owner, version, now_ms);
        let by = Some(&owner.userid);
        let mut first: Vec<Arc<Person>> = members
            .iter()
            .filter(|member| member.key != owner.key)
            .map(|member| Arc::new(Person::employee(member, by, now_ms)))
            .collect();
        for newcomer in self.newcomers(&[], people) {
            let (person, _) = self.outsider(corp, &newcomer, INVITED, by, None);
            let mut part = corp.customers.part(&*person.id);
            let customer = part.entry(Arc::clone(&person.id)).or_default();
            customer.groups.push(Arc::clone(chat_id));
            first.push(person);
        }
        add(&corp.groups.totals.invited, people);
        if !first.is_empty() {
            let change = Change::Join(first, self.group_version());
            group.change(change, now_ms, self.group_lag_ms());
        }
        corp.groups.insert(group);
        self.emit_chat(corp, owner, chat_id, &ChatEvent::Create);
    }

    /// Members bring people in. See [`InviteRequest`].
    pub(crate) fn invite(self: &Arc<Self>, request: &InviteRequest) -> Result<JoinReply, Error> {
        let corp = self.corp(request.corp.as_deref())?;
        let chat_id: Arc<str> = request.chat_id.as_str().into();
        let (owner, knows) = {
            let part = corp.groups.by_id.part(&*chat_id);
            let group = known_group(part.get(&chat_id), &chat_id)?;
            let by = request.by.as_deref();
            let knows = by.is_some_and(|by| group.now().has(by));
            (Arc::clone(&group.now().owner), knows)
        };
        let by = match &request.by {
            None => Some(Arc::clone(&owner.userid)),
            Some(by) => match corp.member(by) {
                Some(member) => Some(Arc::clone(&member.userid)),
                // WeCom does not say which outsider brought somebody.
                None if knows => None,
                None => return Err(Error::unknown("member of the group", by)),
            },
        };
        let scene = if request.link { BY_LINK } else { INVITED };
        let mut people = Vec::new();
        for userid in &request.members {
            let member = known_member(&corp, userid)?;
            people.push(Arc::new(Person {
                scene,
                ..Person::employee(&member, by.as_ref(), self.now_ms())
            }));
        }
        for newcomer in self.newcomers(&request.people, request.count as usize) {
            people.push(self.outsider(&corp, &newcomer, scene, by.as_ref(), None).0);
        }
        let cap = self.rules.get().groups.hard_cap;
        let at_once = if request.link { 1 } else { people.len().max(1) };
        let mut reply = JoinReply::default();
        for chunk in people.chunks(at_once) {
            let outcomes = self.seat(&corp, &chat_id, chunk, cap);
            for (person, outcome) in chunk.iter().zip(outcomes) {
                reply.scanned += 1;
                *reply.outcomes.entry(outcome).or_default() += 1;
                let joined = outcome == JoinOutcome::Joined && !person.employee;
                add(&corp.groups.totals.invited, usize::from(joined));
                reply.joins.push(Join {
                    customer: person.id.to_string(),
                    chat_id: (outcome != JoinOutcome::Full).then(|| chat_id.to_string()),
                    outcome,
                });
            }
        }
        Ok(reply)
    }

    /// A member changes a group. See [`GroupChange`].
    pub(crate) fn change_group(
        self: &Arc<Self>,
        chat_id: &str,
        request: &GroupChange,
    ) -> Result<GroupState, Error> {
        let corp = self.corp(request.corp.as_deref())?;
        let new_owner = match &request.owner {
            Some(userid) => Some(known_member(&corp, userid)?),
            None => None,
        };
        let id: Arc<str> = chat_id.into();
        known_group(corp.groups.by_id.part(chat_id).get(chat_id), chat_id)?;
        if let Some(owner) = &new_owner {
            let person = Arc::new(Person::employee(owner, None, self.now_ms()));
            self.seat(&corp, &id, &[person], usize::MAX);
        }
        let mut part = corp.groups.by_id.part(chat_id);
        let group = part
            .get_mut(chat_id)
            .ok_or_else(|| Error::unknown("group", chat_id))?;
        let mut details = Vec::new();
        let mut change = |change, detail| {
            group.change(change, self.now_ms(), self.group_lag_ms());
            details.push(detail);
        };
        if let Some(name) = &request.name {
            change(Change::Name(name.clone()), "change_name");
        }
        if let Some(owner) = new_owner {
            change(Change::Owner(owner), "change_owner");
        }
        if let Some(notice) = &request.notice {
            change(Change::Notice(notice.clone()), "change_notice");
        }
        let (owner, state) = (Arc::clone(&group.now().owner), group.state(false));
        drop(part);
        for detail in details {
            self.emit_chat(&corp, &owner, chat_id, &ChatEvent::Detail(detail));
        }
        Ok(state)
    }

    /// Its owner dissolves a group.
    pub(crate) fn dismiss_group(
        self: &Arc<Self>,
        corp: Option<&str>,
        chat_id: &str,
    ) -> Result<(), Error> {
        let corp = self.corp(corp)?;
        let mut part = corp.groups.by_id.part(chat_id);
        known_group(part.get(chat_id), chat_id)?;
        let group = part
            .get_mut(chat_id)
            .ok_or_else(|| Error::unknown("group", chat_id))?;
        let people: HashSet<Arc<str>> = (group.now().people.iter())
            .map(|person| Arc::clone(&person.id))
            .collect();
        let owner = Arc::clone(&group.now().owner);
        group.change(Change::Dismiss, self.now_ms(), self.group_lag_ms());
        drop(part);
        for id in &people {
            corp.forget_group(id, chat_id);
        }
        self.emit_chat(&corp, &owner, chat_id, &ChatEvent::Dismiss);
        Ok(())
    }
}

/// A group that exists.
pub(super) fn known_group<'a>(group: Option<&'a Group>, chat_id: &str) -> Result<&'a Group, Error> {
    group
        .filter(|group| !group.now().dismissed)
        .ok_or_else(|| Error::unknown("group", chat_id))
}

/// A member who is in the corp.
fn known_member(corp: &Corp, userid: &str) -> Result<Arc<Member>, Error> {
    corp.member(userid)
        .filter(|member| member.in_service())
        .ok_or_else(|| Error::unknown("member", userid))
}
