//! Plans, queues and skills as Redis holds them, and read back.

use std::collections::{BTreeMap, BTreeSet};

use super::dump::{most, pack, put_sorted};
use super::load::{Reader, text, unreadable};
use super::route::Route;
use super::waiting::{Drip, Queue, Waiter};
use super::windows::Windows;
use super::{Corp, SubjectKey};
use crate::dump::Value;
use crate::error::Error;
use crate::id::{ChannelId, PoolId, Skill};
use crate::plan::{Plan, check_queue, through};
use crate::text::{FIELD, Fields, join};

/// Begins the field of a plan in an open record.
pub(super) const ROUTE: char = 'p';
const INNER: char = '\u{1d}';
const PLAN: char = '\u{1c}';

pub(super) fn route_text(route: &Route) -> String {
    let Route {
        plan,
        since_ms,
        opened,
        source,
        given_ms,
    } = route;
    let source = source.as_ref().map_or("", PoolId::as_str);
    let plan = plan.text();
    let given = given_ms.map_or(String::new(), |given_ms| format!("{INNER}{given_ms}"));
    format!("{ROUTE}{since_ms}{INNER}{opened}{INNER}{source}{given}{PLAN}{plan}")
}

pub(super) fn read_route(text: &str) -> Result<Route, Error> {
    let problem = || unreadable("a plan");
    let (head, plan) = text.split_once(PLAN).ok_or_else(problem)?;
    let mut parts = head.split(INNER);
    let mut next = || parts.next().ok_or_else(problem);
    let (since, opened, source) = (next()?, next()?, next()?);
    let given = parts
        .next()
        .map(|given| given.parse().map_err(|_| problem()));
    Ok(Route {
        plan: Plan::parse(plan)?,
        since_ms: since.parse().map_err(|_| problem())?,
        opened: opened.parse().map_err(|_| problem())?,
        source: match source {
            "" => None,
            source => Some(source.parse()?),
        },
        given_ms: given.transpose()?,
    })
}

/// Whoever waits in a queue of the pool that was asked for him is named alone.
fn waiter_name(queue: &Queue, (subject, home): &Waiter) -> String {
    match queue.0 == *home {
        true => subject.to_string(),
        false => format!("{subject}{FIELD}{home}"),
    }
}

impl Corp {
    pub(super) fn dump_routes(&self, keys: &mut BTreeMap<String, Value>) {
        let mut named: BTreeMap<&PoolId, Vec<(Vec<u8>, f64)>> = BTreeMap::new();
        for (queue, list) in &self.queues {
            let (pool, needs) = queue;
            let list = list.by_turn.iter();
            let list =
                list.map(|(turn, waiter)| (waiter_name(queue, waiter).into_bytes(), *turn as f64));
            let key = match needs.as_str() {
                "" => format!("waiting:{pool}"),
                needs => format!("waiting:{pool}{FIELD}{needs}"),
            };
            put_sorted(keys, key, list.collect());
            if !needs.is_empty() {
                let entry = (needs.clone().into_bytes(), 0.0);
                named.entry(pool).or_default().push(entry);
            }
        }
        for (pool, needs) in named {
            put_sorted(keys, format!("queues:{pool}"), needs);
        }
        let patience = self.patience.iter();
        let patience = patience.map(|(at, name)| (name.clone().into_bytes(), *at as f64));
        put_sorted(keys, "patience".into(), patience.collect());
        for (pool, drip) in &self.drips {
            let text = join(&[drip.every_ms.to_string(), drip.next_ms.to_string()]);
            keys.insert(format!("drip:{pool}"), Value::Bytes(text.into_bytes()));
        }
        let mut able: BTreeMap<&Skill, Vec<(Vec<u8>, f64)>> = BTreeMap::new();
        for (member, skills) in &self.skills {
            let names: Vec<&str> = skills.iter().map(Skill::as_str).collect();
            let text = join(&names).into_bytes();
            keys.insert(format!("skills:{member}"), Value::Bytes(text));
            for skill in skills {
                let entry = (member.as_str().into(), 0.0);
                able.entry(skill).or_default().push(entry);
            }
        }
        for (skill, members) in able {
            put_sorted(keys, format!("skill:{skill}"), members);
        }
    }

    pub(super) fn read_waiting(
        &mut self,
        rest: &str,
        entries: &[(Vec<u8>, f64)],
    ) -> Result<(), Error> {
        let (pool, needs) = rest.split_once(FIELD).unwrap_or((rest, ""));
        let pool: PoolId = pool.parse()?;
        check_queue(needs)?;
        let queue = (pool.clone(), needs.to_owned());
        let list = self.queues.entry(queue).or_default();
        for (name, turn) in entries {
            let name = text(name)?;
            let waiter: (SubjectKey, PoolId) = match name.split_once(FIELD) {
                Some((subject, home)) => (subject.parse()?, home.parse()?),
                None => (name.parse()?, pool.clone()),
            };
            list.add(*turn as u64, waiter);
        }
        Ok(())
    }

    pub(super) fn read_drip(&mut self, pool: &str, text: &str) -> Result<(), Error> {
        let mut fields = Fields::new("drip", text);
        let drip = Drip {
            every_ms: fields.parse()?,
            next_ms: fields.parse()?,
        };
        fields.end()?;
        self.drips.insert(pool.parse()?, drip);
        Ok(())
    }

    pub(super) fn read_skills(&mut self, member: &str, text: &str) -> Result<(), Error> {
        let skills: Result<BTreeSet<Skill>, Error> = text.split(FIELD).map(str::parse).collect();
        self.skills.insert(member.parse()?, skills?);
        Ok(())
    }

    pub(super) fn dump_gates(&self, keys: &mut BTreeMap<String, Value>) {
        for (channel, gate) in &self.gates {
            let bytes = pack(&[
                most(gate.per_hour),
                most(gate.per_day),
                f64::from(gate.hour_n),
                gate.hour_end_ms as f64,
                f64::from(gate.day_n),
                gate.day_end_ms as f64,
                if gate.told { 1.0 } else { 0.0 },
                gate.alarm_ms as f64,
            ]);
            keys.insert(format!("gate:{channel}"), Value::Bytes(bytes));
        }
        let alarms = self.gate_alarms.iter();
        let alarms = alarms.map(|(at, channel)| (channel.as_str().into(), *at as f64));
        put_sorted(keys, "gates".into(), alarms.collect());
        let mut gated: BTreeMap<ChannelId, Vec<(Vec<u8>, f64)>> = BTreeMap::new();
        for (pool, needs) in self.queues.keys() {
            if let Some(channel) = through(needs) {
                let name = format!("{pool}{FIELD}{needs}").into_bytes();
                gated.entry(channel).or_default().push((name, 0.0));
            }
        }
        for (channel, queues) in gated {
            put_sorted(keys, format!("gated:{channel}"), queues);
        }
    }

    pub(super) fn read_gate(&mut self, channel: &str, bytes: &[u8]) -> Result<(), Error> {
        let mut reader = Reader(bytes);
        let gate = Windows {
            per_hour: reader.most()?,
            per_day: reader.most()?,
            hour_n: reader.number()? as u32,
            hour_end_ms: reader.whole()?,
            day_n: reader.number()? as u32,
            day_end_ms: reader.whole()?,
            told: reader.number()? == 1.0,
            alarm_ms: reader.whole()?,
        };
        self.gates.insert(channel.parse()?, gate);
        Ok(())
    }

    pub(super) fn read_gate_alarms(&mut self, entries: &[(Vec<u8>, f64)]) -> Result<(), Error> {
        for (channel, at) in entries {
            let channel = text(channel)?.parse()?;
            self.gate_alarms.insert((*at as u64, channel));
        }
        Ok(())
    }
}
