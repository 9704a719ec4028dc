//! Seats as Redis holds them. The layouts are those of `lua/seats_state.lua`.

use std::collections::BTreeMap;

use super::super::dump::put_sorted;
use super::super::pool::Score;
use super::group::{Group, Person};
use super::{Seat, Seats};
use crate::dump::Value;
use crate::seats::name::flag;
use crate::seats::{GroupTag, SeatName};
use crate::text::{FIELD, join, optional};

/// A person who is in a group until a read says who it is.
pub(super) const PENDING: &str = "?";
pub(super) const DOUBTED: &str = "~";

impl Seats {
    pub(in super::super) fn dump(&self, keys: &mut BTreeMap<String, Value>) {
        let mut put = |key: String, text: String| {
            keys.insert(key, Value::Bytes(text.into_bytes()));
        };
        for (id, pool) in &self.pools {
            let fields = [
                pool.version.to_string(),
                pool.strategy.as_str().to_owned(),
                pool.free.to_string(),
                self.n_waiting(id).to_string(),
            ];
            put(format!("gpool:{id}"), join(&fields));
        }
        for (id, version) in &self.removed_pools {
            put(format!("gpool:{id}"), version.to_string());
        }
        for (chat, group) in &self.groups {
            put(format!("group:{chat}"), group_text(group));
        }
        for (chat, version) in &self.removed_groups {
            put(format!("group:{chat}"), version.to_string());
        }
        for (name, seat) in &self.seats {
            put(format!("seat:{name}"), seat_text(seat));
        }
        for (chat, group) in &self.groups {
            let people = group.people.iter().map(|(person, what)| {
                let value = match what {
                    Person::Plain => String::new(),
                    Person::Pending => PENDING.to_owned(),
                    Person::Doubted => DOUBTED.to_owned(),
                    Person::Seated(name) => name.to_string(),
                };
                (person.to_string().into_bytes(), value.into_bytes())
            });
            let people: BTreeMap<_, _> = people.collect();
            if !people.is_empty() {
                keys.insert(format!("people:{chat}"), Value::Hash(people));
            }
        }
        self.dump_orders(keys);
    }

    fn dump_orders(&self, keys: &mut BTreeMap<String, Value>) {
        for (pool, chats) in &self.of_pool {
            let chats = chats.iter().map(|chat| (chat.as_str().into(), 0.0));
            put_sorted(keys, format!("groups:{pool}"), chats.collect());
        }
        for ((pool, tag), order) in &self.free {
            let order = order.iter();
            let order = order.map(|(Score(score), name)| (name.clone().into_bytes(), *score));
            let key = format!("gfree:{}", within(pool, tag.as_ref().map(GroupTag::as_str)));
            put_sorted(keys, key, order.collect());
        }
        let by_turn =
            |(turn, name): &(u64, SeatName)| (name.to_string().into_bytes(), *turn as f64);
        for (chat, held) in &self.held {
            let key = format!("gheld:{chat}");
            put_sorted(keys, key, held.iter().map(by_turn).collect());
        }
        for ((chat, via), held) in &self.anonymous {
            let key = format!("ganon:{}", within(chat, via.as_ref().map(AsRef::as_ref)));
            put_sorted(keys, key, held.iter().map(by_turn).collect());
        }
        let mut queues: BTreeMap<String, Vec<(Vec<u8>, f64)>> = BTreeMap::new();
        for ((pool, tags), queue) in &self.queues {
            let tags = tags.to_string();
            let names = queue.iter();
            let names = names.map(|(turn, name)| (name.to_string().into_bytes(), turn as f64));
            put_sorted(keys, format!("gwait:{pool}{FIELD}{tags}"), names.collect());
            let of_pool = queues.entry(format!("gqueues:{pool}")).or_default();
            of_pool.push((tags.into_bytes(), 0.0));
        }
        for (key, mut tags) in queues {
            tags.sort_by(|(left, _), (right, _)| left.cmp(right));
            put_sorted(keys, key, tags);
        }
        for (key, ends) in [("gends", &self.ends), ("gpast", &self.pasts)] {
            let ends = ends.iter();
            let ends = ends.map(|(end, name)| (name.clone().into_bytes(), *end as f64));
            put_sorted(keys, key.to_owned(), ends.collect());
        }
    }
}

/// All of a pool or group, or a part of it.
fn within(of: &impl ToString, part: Option<&str>) -> String {
    match part {
        Some(part) => format!("{}{FIELD}{part}", of.to_string()),
        None => of.to_string(),
    }
}

fn group_text(group: &Group) -> String {
    let mut fields = vec![group.version.to_string()];
    fields.extend(group.content.args());
    fields.extend([
        optional(group.seen.as_ref()),
        group.n_people().to_string(),
        group.n_held.to_string(),
        group.picked.to_string(),
    ]);
    join(&fields)
}

fn seat_text(seat: &Seat) -> String {
    match seat {
        Seat::Held(held) => join(&[
            "H".to_owned(),
            held.seat.to_string(),
            held.chat.to_string(),
            flag(held.anonymous),
            optional(held.via.as_ref()),
            held.until_ms.to_string(),
            held.turn.to_string(),
        ]),
        Seat::Waiting(waiter) => join(&[
            "W".to_owned(),
            waiter.seat.to_string(),
            waiter.wanted.0.to_string(),
            flag(waiter.anonymous),
            optional(waiter.via.as_ref()),
            waiter.until_ms.to_string(),
            waiter.turn.to_string(),
            waiter.wanted.1.to_string(),
            waiter.hold_ms.to_string(),
        ]),
        Seat::Taken(taken) => join(&[
            if taken.late { "L" } else { "C" }.to_owned(),
            taken.seat.to_string(),
            taken.chat.to_string(),
            taken.person.to_string(),
        ]),
        Seat::Expired(expired) => join(&[
            "E".to_owned(),
            expired.seat.to_string(),
            expired.chat.to_string(),
            expired.until_ms.to_string(),
        ]),
    }
}
