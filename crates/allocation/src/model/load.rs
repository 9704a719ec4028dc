//! Reading a dump back.

use std::collections::BTreeSet;

use super::configure::Config;
use super::dump::{OFFERS, RECORD, strategy_number};
use super::member::{Member, Place};
use super::offer_dump::{OFFER, read_offer};
use super::pool::{Class, Pool, Score};
use super::route_dump::{ROUTE, read_route};
use super::slots::Hold;
use super::windows::{PlaceLimits, Windows};
use super::{Corp, Open, Remembered};
use crate::dump::{Dump, Value};
use crate::error::Error;
use crate::id::{MemberId, PoolId};
use crate::limits::Limits;
use crate::outcome::parse_decision;
use crate::pool::{PoolContent, Strategy};
use crate::text::{FIELD, Fields};
use crate::weight::Weight;

pub(super) fn unreadable(problem: impl Into<String>) -> Error {
    Error::unreadable("dump", problem)
}

impl Corp {
    /// The state of which this is the dump.
    pub fn from_dump(dump: &Dump) -> Result<Self, Error> {
        let mut corp = Corp::default();
        // Pools first: their sorted sets follow in the order of the keys, before or after.
        for (key, value) in &dump.keys {
            if let (Some(id), Value::Bytes(bytes)) = (key.strip_prefix("pool:"), value) {
                corp.pools.insert(id.parse()?, read_pool(bytes)?);
            }
        }
        for (key, value) in &dump.keys {
            let read = match value {
                Value::Bytes(bytes) => corp.read_bytes(key, bytes),
                Value::Sorted(entries) => corp.read_sorted(key, entries),
                Value::Hash(fields) => corp.seats.read_hash(key, fields),
            };
            read.map_err(|error| unreadable(format!("{key}: {error}")))?;
        }
        Ok(corp)
    }

    fn read_bytes(&mut self, key: &str, bytes: &[u8]) -> Result<(), Error> {
        match key.split_once(':') {
            None if key == "corp" => {
                let mut reader = Reader(bytes);
                self.seq = reader.whole()?;
                self.at_ms = reader.whole()?;
                reader.number()?;
                self.turn = reader.whole()?;
            }
            Some(("pool", _)) => {}
            Some(("member", id)) => {
                self.members.insert(id.parse()?, read_member(bytes)?);
            }
            Some(("config", id)) => {
                self.configs.insert(id.parse()?, read_config(text(bytes)?)?);
            }
            Some(("open", subject)) => {
                let records = text(bytes)?.split(RECORD).map(read_open);
                let list = records.collect::<Result<_, _>>()?;
                self.opens.insert(subject.parse()?, list);
            }
            Some(("offer", pool)) => self.read_offer_rule(pool, text(bytes)?)?,
            Some(("gate", channel)) => self.read_gate(channel, bytes)?,
            Some(("drip", pool)) => self.read_drip(pool, text(bytes)?)?,
            Some(("skills", member)) => self.read_skills(member, text(bytes)?)?,
            Some(("past", subject)) => self.read_pasts(subject, text(bytes)?)?,
            Some(("slot", id)) => self.read_slot(id, text(bytes)?)?,
            Some(("request", id)) => {
                self.remember(id.parse()?, read_request(text(bytes)?)?);
            }
            Some((family, of)) => self.seats.read_text(family, of, text(bytes)?)?,
            None => return Err(unreadable("an unknown key")),
        }
        Ok(())
    }

    fn read_sorted(&mut self, key: &str, entries: &[(Vec<u8>, f64)]) -> Result<(), Error> {
        match key.split_once(':') {
            None if key == "leases" => {
                for (member, end) in entries {
                    self.leases.insert((*end as u64, text(member)?.parse()?));
                }
            }
            None if key == "offers" => self.read_offers(entries)?,
            Some(("offered", member)) => self.read_offered(member, entries)?,
            None if key == "alarms" => {
                for (member, end) in entries {
                    self.alarms.insert((*end as u64, text(member)?.parse()?));
                }
            }
            None if key == "holds" => {
                for (name, end) in entries {
                    let name = text(name)?.to_owned();
                    self.slots.ends.insert((*end as u64, name));
                }
            }
            Some(("slots", whose)) => self.read_free(whose, entries)?,
            Some(("untold", whose)) => self.read_untold(whose, entries)?,
            Some(("class", rest)) => {
                let (letter, id) = rest
                    .split_once(':')
                    .ok_or_else(|| unreadable("no letter"))?;
                let at = ('a'..).position(|one| letter.chars().eq([one]));
                let classes = &mut self.pool_mut(id)?.classes;
                let class = at.and_then(|at| classes.get_mut(at));
                let class = class.ok_or_else(|| unreadable("no such class"))?;
                for (member, score) in entries {
                    class.put(&text(member)?.parse()?, *score);
                }
            }
            Some(("least", id)) => {
                let pool = self.pool_mut(id)?;
                for (name, score) in entries {
                    let (tie, member) = name
                        .split_first_chunk::<8>()
                        .ok_or_else(|| unreadable("no tie"))?;
                    let member: MemberId = text(member)?.parse()?;
                    pool.least
                        .insert((Score(*score), u64::from_be_bytes(*tie), member));
                }
            }
            Some(("waiting", rest)) => self.read_waiting(rest, entries)?,
            None if key == "patience" => {
                for (name, at) in entries {
                    let name = text(name)?.to_owned();
                    self.patience.insert((*at as u64, name));
                }
            }
            None if key == "gates" => self.read_gate_alarms(entries)?,
            // The queues and the members say this, too.
            Some(("queues" | "skill" | "gated", _)) => {}
            _ => self.seats.read_sorted(key, entries)?,
        }
        Ok(())
    }

    fn pool_mut(&mut self, id: &str) -> Result<&mut Pool, Error> {
        let id: PoolId = id.parse()?;
        self.pools
            .get_mut(&id)
            .ok_or_else(|| unreadable("of a pool that is missing"))
    }
}

pub(super) fn text(bytes: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(bytes).map_err(|_| unreadable("it is no text"))
}

/// Takes numbers and zero-ended texts from the front.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn number(&mut self) -> Result<f64, Error> {
        let (bytes, rest) = self
            .0
            .split_first_chunk::<8>()
            .ok_or_else(|| unreadable("it ends too early"))?;
        self.0 = rest;
        Ok(f64::from_le_bytes(*bytes))
    }

    pub(super) fn whole(&mut self) -> Result<u64, Error> {
        Ok(self.number()? as u64)
    }

    pub(super) fn most(&mut self) -> Result<Option<u32>, Error> {
        let number = self.number()?;
        Ok(number.is_finite().then_some(number as u32))
    }

    fn place_limits(&mut self) -> Result<Option<PlaceLimits>, Error> {
        if self.number()? == 0.0 {
            return Ok(None);
        }
        Ok(Some(PlaceLimits {
            load: self.number()? as u32,
            limits: Limits {
                at_a_time: self.most()?,
                per_hour: self.most()?,
                per_day: self.most()?,
            },
            hour_n: self.number()? as u32,
            day_n: self.number()? as u32,
            since: self.whole()?,
        }))
    }

    fn text(&mut self) -> Result<&'a str, Error> {
        let end = self.0.iter().position(|byte| *byte == 0);
        let end = end.ok_or_else(|| unreadable("a text without end"))?;
        let (bytes, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        text(bytes)
    }

    fn weight(&mut self) -> Result<Weight, Error> {
        let thousandths = u32::try_from(self.whole()?).map_err(|_| unreadable("weight"))?;
        Weight::from_thousandths(thousandths)
    }

    fn strategy(&mut self) -> Result<Strategy, Error> {
        let number = self.number()? % OFFERS;
        let all = [Strategy::WeightedRoundRobin, Strategy::LeastLoad];
        let strategy = all.into_iter().find(|one| strategy_number(*one) == number);
        strategy.ok_or_else(|| unreadable("strategy"))
    }
}

fn read_pool(bytes: &[u8]) -> Result<Pool, Error> {
    let mut reader = Reader(bytes);
    let (base, count, sum) = (reader.number()?, reader.whole()?, reader.whole()?);
    reader.number()?;
    let mut pool = Pool::new(reader.strategy()?, &BTreeSet::new());
    (pool.base, pool.count, pool.sum) = (base, count, sum);
    while !reader.0.is_empty() {
        let weight = reader.weight()?;
        reader.number()?;
        pool.classes.push(Class::new(weight));
    }
    Ok(pool)
}

fn read_member(bytes: &[u8]) -> Result<Member, Error> {
    let mut reader = Reader(bytes);
    let load = reader.number()? as u32;
    let tie = reader.whole()?;
    let mut cap = reader.most()?;
    // The places say this, too.
    reader.number()?;
    reader.number()?;
    let lease_ms = reader.whole()?;
    let on = reader.number()? == 1.0;
    let mut windows = None;
    if let Some(rest) = reader.0.strip_prefix(&[1]) {
        reader.0 = rest;
        cap = reader.most()?;
        windows = Some(Windows {
            per_hour: reader.most()?,
            per_day: reader.most()?,
            hour_n: reader.number()? as u32,
            hour_end_ms: reader.whole()?,
            day_n: reader.number()? as u32,
            day_end_ms: reader.whole()?,
            told: reader.number()? == 1.0,
            alarm_ms: reader.whole()?,
        });
    }
    let blocked = match reader.text()? {
        "" => None,
        reason => Some(reason.parse()?),
    };
    let mut member = Member {
        load,
        tie,
        cap,
        lease_ms,
        blocked,
        on,
        places: Vec::new(),
        windows,
    };
    while !reader.0.is_empty() {
        let (weight, strategy, credit) = (reader.weight()?, reader.strategy()?, reader.number()?);
        let mut place = Place {
            pool: reader.text()?.parse()?,
            weight,
            strategy,
            credit,
            within: false,
            limits: None,
        };
        if member.windows.is_some() {
            place.limits = reader.place_limits()?;
        }
        place.within = member.belongs_in(&place);
        member.places.push(place);
    }
    Ok(member)
}

fn read_config(text: &str) -> Result<Config, Error> {
    let mut fields = Fields::new("config", text);
    let version = fields.parse()?;
    if fields.is_empty() {
        return Ok(Config {
            version,
            content: None,
        });
    }
    let content = PoolContent::parse(&mut fields)?;
    Ok(Config {
        version,
        content: Some(content),
    })
}

fn read_open(text: &str) -> Result<Open, Error> {
    let mut fields = Fields::new("open", text);
    let mut open = Open {
        id: fields.parse()?,
        pool: fields.parse()?,
        member: fields.optional()?,
        holder: fields.optional()?,
        epoch: fields.parse()?,
        settled: fields.next()? == "1",
        hold: None,
        mark: None,
        offer: None,
        route: None,
    };
    let n_more = text.split(FIELD).count() - 6;
    if n_more >= 5 {
        open.hold = Some(Hold {
            until_ms: fields.parse()?,
            channel: fields.parse()?,
            slot: fields.optional()?,
            hold_ms: fields.parse()?,
            rest_ms: fields.parse()?,
        });
    }
    while !fields.is_empty() {
        let field = fields.next()?;
        match (field.strip_prefix(OFFER), field.strip_prefix(ROUTE)) {
            (Some(offer), _) => open.offer = Some(read_offer(offer)?),
            (_, Some(route)) => open.route = Some(Box::new(read_route(route)?)),
            (None, None) => {
                let mark = field.parse().map_err(|_| unreadable("a mark"))?;
                open.mark = Some(mark);
            }
        }
    }
    Ok(open)
}

fn read_request(text: &str) -> Result<Remembered, Error> {
    let mut fields = Fields::new("request", text);
    let request = Remembered {
        at_ms: fields.parse()?,
        decision: parse_decision(&mut fields)?,
    };
    fields.end()?;
    Ok(request)
}
