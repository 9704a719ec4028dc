//! People scan join ways: the first group with room takes them, or a room is opened (api.md 14.7).

use std::sync::Arc;

use crate::Error;
use crate::admin::{GroupPerson, Join, JoinOutcome, JoinReply, JoinRequest};
use crate::callback::ChatEvent;

use super::World;
use super::corp::Corp;
use super::group::{Group, Person, SCANNED};
use super::groups::add;
use super::join_way::{JoinWay, Newcomer};
use super::member::Member;

impl World {
    /// People scan a join way. See [`JoinRequest`].
    pub(crate) fn join(self: &Arc<Self>, request: &JoinRequest) -> Result<JoinReply, Error> {
        let corp = self.corp(request.corp.as_deref())?;
        let config_id: Arc<str> = match (&request.config_id, &request.state) {
            (Some(id), _) => id.as_str().into(),
            (None, Some(state)) => (corp.groups.way_states.lock().get(state).cloned())
                .ok_or_else(|| Error::unknown("join way with state", state))?,
            (None, None) => {
                return Err(Error::Request(
                    "a scan needs the config_id or the state of a join way".to_owned(),
                ));
            }
        };
        if !corp.groups.ways.part(&*config_id).contains_key(&config_id) {
            return Err(Error::unknown("join way", &*config_id));
        }
        let one = usize::from(request.people.is_empty() && request.count == 0);
        let newcomers = self.newcomers(&request.people, request.count as usize + one);
        let mut reply = JoinReply::default();
        let all = i64::try_from(newcomers.len()).unwrap_or(i64::MAX);
        for (newcomer, index) in newcomers.into_iter().zip(0_i64..) {
            if request.over_ms > 0 {
                let due_ms = self.now_ms() + request.over_ms * index / all;
                let (corp, config_id) = (Arc::clone(&corp), Arc::clone(&config_id));
                let scan =
                    move |world: &Arc<World>| drop(world.join_once(&corp, &config_id, newcomer));
                self.at(due_ms, Box::new(scan));
                reply.scheduled += 1;
                continue;
            }
            let join = self.join_once(&corp, &config_id, newcomer);
            reply.scanned += 1;
            *reply.outcomes.entry(join.outcome).or_default() += 1;
            if !request.quiet {
                reply.joins.push(join);
            }
        }
        Ok(reply)
    }

    /// Those who are named, then `count` new ones.
    pub(crate) fn newcomers(&self, people: &[GroupPerson], count: usize) -> Vec<Newcomer> {
        let unnamed = GroupPerson::default();
        people
            .iter()
            .chain(std::iter::repeat_n(&unnamed, count))
            .map(|person| Newcomer {
                id: match &person.customer {
                    Some(id) => id.as_str().into(),
                    None => self.fresh_id("wm"),
                },
                name: person.name.clone(),
                unionid: person.unionid.clone(),
            })
            .collect()
    }

    fn join_once(self: &Arc<Self>, corp: &Arc<Corp>, config_id: &str, newcomer: Newcomer) -> Join {
        let id = newcomer.id.to_string();
        let (chat_id, outcome) = self.join_way(corp, config_id, newcomer);
        let totals = &corp.groups.totals;
        match outcome {
            JoinOutcome::Joined => add(&totals.scanned_in, 1),
            JoinOutcome::Full => add(&totals.refused_full, 1),
            JoinOutcome::AlreadyMember | JoinOutcome::Waiting => {}
        }
        Join {
            customer: id,
            chat_id: chat_id.map(|id| id.to_string()),
            outcome,
        }
    }

    fn join_way(
        self: &Arc<Self>,
        corp: &Arc<Corp>,
        config_id: &str,
        newcomer: Newcomer,
    ) -> (Option<Arc<str>>, JoinOutcome) {
        let mut ways = corp.groups.ways.part(config_id);
        let Some(way) = ways.get_mut(config_id) else {
            // Deleted while this scan was to come.
            return (None, JoinOutcome::Full);
        };
        let (person, his) = self.scanner(corp, way, &newcomer);
        if let Some(chat_id) = way.chats().find(|chat_id| his.contains(chat_id)) {
            return (Some(Arc::clone(chat_id)), JoinOutcome::AlreadyMember);
        }
        let rules = self.rules.get();
        let one = std::slice::from_ref(&person);
        let cap = rules.groups.scan_cap;
        // Most groups of a large way are full: they are not searched for him once more.
        let open = |chat_id: &&Arc<str>| corp.groups.size(chat_id).is_some_and(|size| size < cap);
        let seated = way.chats().filter(open).find_map(|chat_id| {
            match self.seat(corp, chat_id, one, cap).first() {
                Some(JoinOutcome::Full) | None => None,
                Some(outcome) => Some((Some(Arc::clone(chat_id)), *outcome)),
            }
        });
        let waits = way.waiting.iter().position(|other| other.id == newcomer.id);
        if let Some(seated) = seated {
            waits.map(|index| way.waiting.remove(index));
            return seated;
        }
        if waits.is_some() {
            return (None, JoinOutcome::Waiting);
        }
        let owner = way.plan.auto_create_room.then(|| room_owner(corp, way));
        let Some(owner) = owner.flatten() else {
            return (None, JoinOutcome::Full);
        };
        if rules.groups.room_delay_ms > 0 {
            way.waiting.push_back(newcomer);
            self.expect_room(corp, way, rules.groups.room_delay_ms);
            return (None, JoinOutcome::Waiting);
        }
        let room = self.open_room(corp, way, &owner, &[person]);
        (Some(room), JoinOutcome::Joined)
    }

    /// Who scans, as he would sit in a group, and the groups he is in.
    fn scanner(
        &self,
        corp: &Corp,
        way: &JoinWay,
        newcomer: &Newcomer,
    ) -> (Arc<Person>, Vec<Arc<str>>) {
        let state = Some(way.plan.state.as_str()).filter(|state| !state.is_empty());
        self.outsider(corp, newcomer, SCANNED, None, state.map(Arc::from))
    }

    /// A room will be there in a while; whoever waits joins then.
    fn expect_room(self: &Arc<Self>, corp: &Arc<Corp>, way: &mut JoinWay, delay_ms: i64) {
        if std::mem::replace(&mut way.opening, true) {
            return;
        }
        let (corp, config_id) = (Arc::clone(corp), Arc::clone(&way.config_id));
        let open = move |world: &Arc<World>| world.open_expected(&corp, &config_id);
        self.at(self.now_ms() + delay_ms, Box::new(open));
    }

    fn open_expected(self: &Arc<Self>, corp: &Arc<Corp>, config_id: &str) {
        let rules = self.rules.get();
        let mut ways = corp.groups.ways.part(config_id);
        let Some(way) = ways.get_mut(config_id) else {
            return;
        };
        way.opening = false;
        let totals = &corp.groups.totals;
        let Some(owner) = room_owner(corp, way) else {
            add(&totals.refused_full, way.waiting.len());
            way.waiting.clear();
            return;
        };
        // One place is the owner's.
        let seats = rules
            .groups
            .scan_cap
            .saturating_sub(1)
            .min(way.waiting.len());
        let waiting: Vec<Newcomer> = way.waiting.drain(..seats).collect();
        let mut people = Vec::new();
        for newcomer in &waiting {
            let (person, his) = self.scanner(corp, way, newcomer);
            // A place may have come free for him in the meantime.
            if !way.chats().any(|chat_id| his.contains(chat_id)) {
                people.push(person);
            }
        }
        self.open_room(corp, way, &owner, &people);
        add(&totals.scanned_in, people.len());
        if !way.waiting.is_empty() {
            self.expect_room(corp, way, rules.groups.room_delay_ms);
        }
    }

    /// A new group of a way, in the name of `owner`, with people who each scanned for themselves.
    fn open_room(
        self: &Arc<Self>,
        corp: &Arc<Corp>,
        way: &mut JoinWay,
        owner: &Arc<Member>,
        people: &[Arc<Person>],
    ) -> Arc<str> {
        let rules = self.rules.get();
        let chat_id = self.fresh_id("wr");
        let name = format!("{}{}", way.plan.room_base_name, way.next_room);
        let mut group = Group::new(
            Arc::clone(&chat_id),
            corp.rank(),
            name,
            owner,
            self.group_version(),
            self.now_ms(),
        );
        group.opened_by = Some(Arc::clone(&way.config_id));
        corp.groups.insert(group);
        add(&corp.groups.totals.rooms_opened, 1);
        way.add_room(
            Arc::clone(&chat_id),
            rules.groups.room_listed,
            rules.limits.chats_per_way,
        );
        self.emit_chat(corp, owner, &chat_id, &ChatEvent::Create);
        for person in people {
            let one = std::slice::from_ref(person);
            self.seat(corp, &chat_id, one, rules.groups.scan_cap);
        }
        chat_id
    }
}

/// In whose name a room is opened: the owner of the way's last group, if he can have one.
fn room_owner(corp: &Corp, way: &JoinWay) -> Option<Arc<Member>> {
    let owner = |chat_id: &Arc<str>| {
        let part = corp.groups.by_id.part(&**chat_id);
        part.get(chat_id)
            .map(|group| Arc::clone(&group.now().owner))
    };
    let chats: Vec<&Arc<str>> = way.chats().collect();
    chats
        .into_iter()
        .rev()
        .find_map(owner)
        .filter(|owner| owner.serves())
}
