//! Customers scan, members confirm.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Error;
use crate::admin::{Scan, ScanOutcome, ScanReply, ScanRequest};
use crate::callback::Event;
use crate::random::{For, Random};

use super::World;
use super::corp::Corp;
use super::customer::Follow;
use super::member::Member;

/// A customer scanned a QR code (api.md 2.3).
const ADD_WAY_SCAN: u32 = 1;

/// A scan, once the request is understood.
#[derive(Debug, Clone)]
struct Plan {
    corp: Arc<Corp>,
    config_id: Option<Arc<str>>,
    member: Option<Arc<Member>>,
    state: Option<Arc<str>>,
    name: Option<String>,
    unionid: Option<String>,
    half: Option<bool>,
}

impl World {
    /// Customers scan. See [`ScanRequest`].
    pub(crate) fn scan(self: &Arc<Self>, request: &ScanRequest) -> Result<ScanReply, Error> {
        let plan = self.plan(request)?;
        let mut reply = ScanReply::default();
        for index in 0..i64::from(request.count) {
            let customer = match &request.customer {
                Some(id) => Arc::from(id.as_str()),
                None => self.fresh_id("wm"),
            };
            if request.over_ms > 0 {
                let due_ms = self.now_ms() + request.over_ms * index / i64::from(request.count);
                let plan = plan.clone();
                self.at(
                    due_ms,
                    Box::new(move |world| drop(world.scan_once(&plan, customer))),
                );
                reply.scheduled += 1;
                continue;
            }
            let scan = self.scan_once(&plan, customer);
            reply.scanned += 1;
            *reply.outcomes.entry(scan.outcome).or_default() += 1;
            if !request.quiet {
                reply.scans.push(scan);
            }
        }
        Ok(reply)
    }

    fn plan(&self, request: &ScanRequest) -> Result<Plan, Error> {
        if request.count == 0 {
            return Err(Error::Request("count must be at least 1".to_owned()));
        }
        if request.count > 1 && (request.customer.is_some() || request.unionid.is_some()) {
            return Err(Error::Request(
                "count above 1 makes new customers: leave customer and unionid out".to_owned(),
            ));
        }
        let corp = self.corp(request.corp.as_deref())?;
        let config_id = match (&request.config_id, &request.member, &request.state) {
            (None, None, None) => {
                return Err(Error::Request(
                    "a scan needs config_id or member, or the state of a contact way".to_owned(),
                ));
            }
            (None, None, Some(state)) => {
                let id = corp.way_states.lock().get(state).cloned();
                Some(id.ok_or_else(|| Error::unknown("contact way with state", state))?)
            }
            (id, _, _) => id.as_deref().map(Arc::from),
        };
        let member = match &request.member {
            Some(userid) => Some(
                corp.member(userid)
                    .ok_or_else(|| Error::unknown("member", userid))?,
            ),
            None => None,
        };
        if let Some(id) = &config_id
            && !corp.ways.part(&**id).contains_key(id)
        {
            return Err(Error::unknown("contact way", &**id));
        }
        Ok(Plan {
            config_id,
            member,
            state: request
                .state
                .as_deref()
                .filter(|state| !state.is_empty())
                .map(Arc::from),
            name: request.name.clone(),
            unionid: request.unionid.clone(),
            half: request.half,
            corp,
        })
    }

    fn scan_once(self: &Arc<Self>, plan: &Plan, customer: Arc<str>) -> Scan {
        let mut random = self.random(For::Scan, self.number());
        let Some((member, state, skip_verify)) = self.pick(plan, &customer, &mut random) else {
            return Scan {
                customer: customer.to_string(),
                member: None,
                outcome: ScanOutcome::NoMember,
                welcome_codes: BTreeMap::new(),
            };
        };
        let half = skip_verify
            && plan
                .half
                .unwrap_or_else(|| random.chance(self.rules.get().people.half_add_rate));
        let (outcome, welcome_codes) = self.befriend(plan, &customer, &member, state, half);
        Scan {
            customer: customer.to_string(),
            member: Some(member.userid.to_string()),
            outcome,
            welcome_codes,
        }
    }

    /// Whom the customer gets, with which state, and whether a half-add is possible.
    fn pick(
        &self,
        plan: &Plan,
        customer: &Arc<str>,
        random: &mut Random,
    ) -> Option<(Arc<Member>, Option<Arc<str>>, bool)> {
        let Some(config_id) = &plan.config_id else {
            let member = plan.member.clone()?;
            return Some((member, plan.state.clone(), true));
        };
        let now_ms = self.now_ms();
        let way = {
            let mut part = plan.corp.ways.part(config_id);
            let way = part.get_mut(config_id)?;
            if !way.usable(now_ms) {
                return None;
            }
            way.used = true;
            way.clone()
        };
        let state = if way.state.is_empty() {
            plan.state.clone()
        } else {
            Some(Arc::from(way.state.as_str()))
        };
        if let Some(member) = &plan.member {
            return Some((Arc::clone(member), state, way.skip_verify));
        }
        let mut candidates: Vec<Arc<Member>> = way
            .users
            .iter()
            .filter(|member| member.serves())
            .cloned()
            .collect();
        if !way.party.is_empty() {
            let members = plan.corp.members.get();
            let mut of_party: Vec<_> = members
                .values()
                .filter(|member| {
                    let def = member.def.get();
                    member.serves()
                        && def
                            .departments
                            .iter()
                            .any(|id| way.party.contains(&i64::from(*id)))
                })
                .filter(|member| {
                    !candidates
                        .iter()
                        .any(|candidate| candidate.key == member.key)
                })
                .cloned()
                .collect();
            of_party.sort_by(|a, b| a.key.cmp(&b.key));
            candidates.extend(of_party);
        }
        if way.is_exclusive
            && let Some(known) = self.first_known(&plan.corp, customer, &candidates)
        {
            return Some((known, state, way.skip_verify));
        }
        let index = usize::try_from(random.below(candidates.len() as u64)).ok()?;
        candidates
            .get(index)
            .cloned()
            .map(|member| (member, state, way.skip_verify))
    }

    fn first_known(
        &self,
        corp: &Corp,
        customer: &Arc<str>,
        candidates: &[Arc<Member>],
    ) -> Option<Arc<Member>> {
        let part = corp.customers.part(&**customer);
        let known = part.get(customer)?;
        candidates
            .iter()
            .find(|member| known.follow(&member.key).is_some())
            .cloned()
    }

    fn befriend(
        self: &Arc<Self>,
        plan: &Plan,
        customer_id: &Arc<str>,
        member: &Arc<Member>,
        state: Option<Arc<str>>,
        half: bool,
    ) -> (ScanOutcome, BTreeMap<u32, String>) {
        let corp = &plan.corp;
        let now_ms = self.now_ms();
        let mut part = corp.customers.part(&**customer_id);
        let customer = part.entry(Arc::clone(customer_id)).or_default();
        customer.introduce(customer_id, plan.name.as_deref(), plan.unionid.as_deref());
        let known = customer
            .follows
            .iter()
            .any(|follow| follow.member.key == member.key && !follow.one_way);
        if known {
            return (ScanOutcome::AlreadyFriend, BTreeMap::new());
        }
        let old = customer.unfollow(&member.key);
        if member.full() {
            customer.follows.extend(old.inspect(|old| {
                member
                    .customers
                    .lock()
                    .insert(old.rank, Arc::clone(customer_id));
            }));
            return (ScanOutcome::MemberFull, BTreeMap::new());
        }
        let mut follow = Follow::new(member, corp.rank(), now_ms);
        follow.state = state.clone();
        follow.add_way = ADD_WAY_SCAN;
        follow.oper_userid = Arc::clone(customer_id);
        follow.half = half;
        if let Some(old) = old {
            // What the member had written down about him comes back.
            follow.remark = old.remark;
            follow.description = old.description;
            follow.tags = old.tags;
            follow.personal_tags = old.personal_tags;
        }
        let welcome = Arc::clone(&follow.welcome);
        if !half {
            member
                .customers
                .lock()
                .insert(follow.rank, Arc::clone(customer_id));
        }
        customer.follows.push(follow);
        drop(part);

        let codes = self.welcome_codes(corp, member, customer_id, &welcome, now_ms);
        let shown = codes
            .iter()
            .map(|(agent_id, code)| (*agent_id, code.to_string()))
            .collect();
        let change = if half {
            "add_half_external_contact"
        } else {
            "add_external_contact"
        };
        let event = Event::new(change, member, customer_id)
            .state(state.as_deref())
            .welcome(codes);
        self.emit_contact(corp, event);
        if half {
            let (corp, member, id) = (
                Arc::clone(corp),
                Arc::clone(member),
                Arc::clone(customer_id),
            );
            let due_ms = now_ms + self.rules.get().people.half_confirm_ms;
            self.at(
                due_ms,
                Box::new(move |world| world.confirm(&corp, &member, &id)),
            );
        }
        (
            if half {
                ScanOutcome::Half
            } else {
                ScanOutcome::Added
            },
            shown,
        )
    }

    /// The member confirms a half-add.
    fn confirm(self: &Arc<Self>, corp: &Arc<Corp>, member: &Arc<Member>, customer_id: &Arc<str>) {
        let mut part = corp.customers.part(&**customer_id);
        let Some(customer) = part.get_mut(customer_id) else {
            return;
        };
        let half = customer
            .follows
            .iter_mut()
            .find(|follow| follow.half && follow.member.key == member.key);
        let Some(follow) = half else { return };
        follow.half = false;
        let (state, welcome) = (follow.state.clone(), Arc::clone(&follow.welcome));
        member
            .customers
            .lock()
            .insert(follow.rank, Arc::clone(customer_id));
        drop(part);
        // The code of the half-add may be used up; then the add carries none.
        let codes = self.welcome_codes(corp, member, customer_id, &welcome, self.now_ms());
        let event = Event::new("add_external_contact", member, customer_id);
        self.emit_contact(corp, event.state(state.as_deref()).welcome(codes));
    }
}
