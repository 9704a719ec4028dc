//! The state as Redis holds it. The layouts are those of `lua/roster_state.lua`: numbers as little-endian doubles,
//! ids ended by a zero byte, or fields joined by 0x1f and records by 0x1e.

use std::collections::BTreeMap;

use super::configure::Config;
use super::member::Member;
use super::pool::{Pool, Score};
use super::windows::PlaceLimits;
use super::{Corp, Open, Remembered};
use crate::dump::{Dump, Value};
use crate::id::{MemberId, PoolId};
use crate::outcome::decision_fields;
use crate::pool::Strategy;
use crate::text::{join, optional};

pub(super) const RECORD: char = '\u{1e}';

/// Added to the strategy of a pool that asks its members first.
pub(super) const OFFERS: f64 = 10.0;
/// Added to the strategy of a pool that hands out those who waited slowly.
const DRIPS: f64 = 20.0;

pub(super) fn strategy_number(strategy: Strategy) -> f64 {
    match strategy {
        Strategy::WeightedRoundRobin => 1.0,
        Strategy::LeastLoad => 2.0,
    }
}

impl Corp {
    /// The state as keys and values of Redis.
    pub fn dump(&self) -> Dump {
        let mut keys = BTreeMap::new();
        let firsts = [
            self.leases.first().map(|(end, _)| *end as f64),
            self.alarms.first().map(|(end, _)| *end as f64),
            self.gate_alarms.first().map(|(end, _)| *end as f64),
        ];
        let firsts = firsts.into_iter().flatten();
        let lease = firsts.fold(f64::INFINITY, f64::min);
        let corp = pack(&[self.seq as f64, self.at_ms as f64, lease, self.turn as f64]);
        keys.insert("corp".to_owned(), Value::Bytes(corp));
        let leases = self
            .leases
            .iter()
            .map(|(end, id)| (id.as_str().into(), *end as f64));
        put_sorted(&mut keys, "leases".into(), leases.collect());
        let alarms = self.alarms.iter();
        let alarms = alarms.map(|(end, id)| (id.as_str().into(), *end as f64));
        put_sorted(&mut keys, "alarms".into(), alarms.collect());
        self.dump_gates(&mut keys);
        for (id, member) in &self.members {
            keys.insert(format!("member:{id}"), Value::Bytes(member_bytes(member)));
        }
        for (id, config) in &self.configs {
            let text = config_text(config);
            keys.insert(format!("config:{id}"), Value::Bytes(text.into_bytes()));
        }
        self.dump_routes(&mut keys);
        for (id, pool) in &self.pools {
            let mut more = 0.0;
            if self.offers.rules.contains_key(id) {
                more += OFFERS;
            }
            if self.drips.contains_key(id) {
                more += DRIPS;
            }
            let bytes = pool_bytes(pool, self.n_waiting(id), more);
            keys.insert(format!("pool:{id}"), Value::Bytes(bytes));
            put_orders(&mut keys, id, pool);
        }
        for (subject, list) in &self.opens {
            let records: Vec<String> = list.iter().map(open_text).collect();
            let text = records.join(&RECORD.to_string());
            keys.insert(format!("open:{subject}"), Value::Bytes(text.into_bytes()));
        }
        self.dump_visits(&mut keys);
        self.dump_offers(&mut keys);
        self.seats.dump(&mut keys);
        for (id, request) in &self.requests {
            if !request.is_over(self.at_ms) {
                let text = request_text(request);
                keys.insert(format!("request:{id}"), Value::Bytes(text.into_bytes()));
            }
        }
        Dump { keys }
    }
}

pub(super) fn pack(numbers: &[f64]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

/// Redis knows no empty set.
pub(super) fn put_sorted(
    keys: &mut BTreeMap<String, Value>,
    key: String,
    entries: Vec<(Vec<u8>, f64)>,
) {
    if !entries.is_empty() {
        keys.insert(key, Value::Sorted(entries));
    }
}

fn put_orders(keys: &mut BTreeMap<String, Value>, id: &PoolId, pool: &Pool) {
    for (class, letter) in pool.classes.iter().zip('a'..) {
        let order = class.order.iter();
        let order = order.map(|(Score(score), member)| (member.as_str().into(), *score));
        let key = format!("class:{letter}:{id}");
        put_sorted(keys, key, order.collect());
    }
    let least = pool.least.iter();
    let least = least.map(|(Score(score), tie, member)| (least_name(*tie, member), *score));
    put_sorted(keys, format!("least:{id}"), least.collect());
}

fn least_name(tie: u64, member: &MemberId) -> Vec<u8> {
    let mut name = tie.to_be_bytes().to_vec();
    name.extend_from_slice(member.as_str().as_bytes());
    name
}

fn member_bytes(member: &Member) -> Vec<u8> {
    let mut least = member
        .places
        .iter()
        .filter(|place| place.strategy == Strategy::LeastLoad && !place.weight.is_zero());
    let mut bytes = pack(&[
        f64::from(member.load),
        member.tie as f64,
        // Of one with windows it says so, and the real one comes later: the short way of `decide` leaves him alone.
        match member.windows {
            Some(_) => 0.0,
            None => most(member.cap),
        },
        least.clone().count() as f64,
        least.next_back().map_or(0.0, |place| place.weight.as_f64()),
        member.lease_ms as f64,
        if member.on { 1.0 } else { 0.0 },
    ]);
    if let Some(windows) = &member.windows {
        bytes.push(1);
        bytes.extend(pack(&[
            most(member.cap),
            most(windows.per_hour),
            most(windows.per_day),
            f64::from(windows.hour_n),
            windows.hour_end_ms as f64,
            f64::from(windows.day_n),
            windows.day_end_ms as f64,
            if windows.told { 1.0 } else { 0.0 },
            windows.alarm_ms as f64,
        ]));
    }
    bytes.extend_from_slice(optional(member.blocked.as_ref()).as_bytes());
    bytes.push(0);
    for place in &member.places {
        bytes.extend(pack(&[
            place.weight.as_f64(),
            strategy_number(place.strategy),
            place.credit,
        ]));
        bytes.extend_from_slice(place.pool.as_str().as_bytes());
        bytes.push(0);
        if member.windows.is_some() {
            bytes.extend(place_limits(place.limits.as_ref()));
        }
    }
    bytes
}

pub(super) fn most(limit: Option<u32>) -> f64 {
    limit.map_or(f64::INFINITY, f64::from)
}

fn place_limits(limits: Option<&PlaceLimits>) -> Vec<u8> {
    let Some(counted) = limits else {
        return pack(&[0.0]);
    };
    pack(&[
        1.0,
        f64::from(counted.load),
        most(counted.limits.at_a_time),
        most(counted.limits.per_hour),
        most(counted.limits.per_day),
        f64::from(counted.hour_n),
        f64::from(counted.day_n),
        counted.since as f64,
    ])
}

fn pool_bytes(pool: &Pool, n_waiting: usize, more: f64) -> Vec<u8> {
    let mut numbers = vec![
        pool.base,
        pool.count as f64,
        pool.sum as f64,
        n_waiting as f64,
        strategy_number(pool.strategy) + more,
    ];
    for class in &pool.classes {
        numbers.extend([class.weight.as_f64(), class.head()]);
    }
    pack(&numbers)
}

fn config_text(config: &Config) -> String {
    let mut fields = vec![config.version.to_string()];
    if let Some(content) = &config.content {
        fields.extend(content.args());
    }
    join(&fields)
}

fn open_text(open: &Open) -> String {
    let mut fields = vec![
        open.id.to_string(),
        open.pool.to_string(),
        optional(open.member.as_ref()),
        optional(open.holder.as_ref()),
        open.epoch.to_string(),
        if open.settled { "1" } else { "0" }.to_owned(),
    ];
    if let Some(hold) = &open.hold {
        fields.extend([
            hold.until_ms.to_string(),
            hold.channel.to_string(),
            optional(hold.slot.as_ref()),
            hold.hold_ms.to_string(),
            hold.rest_ms.to_string(),
        ]);
    }
    if let Some(mark) = open.mark {
        fields.push(mark.to_string());
    }
    if let Some(route) = &open.route {
        fields.push(super::route_dump::route_text(route));
    }
    if let Some(offer) = &open.offer {
        fields.push(super::offer_dump::offer_text(offer));
    }
    join(&fields)
}

fn request_text(request: &Remembered) -> String {
    let [word, allocation, value] = decision_fields(&request.decision);
    join(&[request.at_ms.to_string(), word, allocation, value])
}
