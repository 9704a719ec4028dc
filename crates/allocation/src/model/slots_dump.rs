//! Slots and memories as Redis holds them, and read back.

use std::collections::BTreeMap;

use super::Corp;
use super::dump::{RECORD, put_sorted};
use super::load::{text, unreadable};
use super::slots::{Past, PastKind, Slot, SlotState};
use crate::dump::Value;
use crate::error::Error;
use crate::id::{ChannelId, MemberId, PoolId, SubjectKey};
use crate::text::{FIELD, Fields, join};

fn past_text(past: &Past) -> String {
    let kind = match past.kind {
        PastKind::Lapsed => "L",
        PastKind::Met => "M",
    };
    let mut fields = vec![
        past.pool.to_string(),
        kind.to_owned(),
        past.allocation.to_string(),
        past.member.to_string(),
        past.until_ms.to_string(),
    ];
    fields.extend(past.through.as_ref().map(ChannelId::to_string));
    join(&fields)
}

fn slot_text(slot: &Slot) -> String {
    let state = match slot.state {
        SlotState::Free => "F",
        SlotState::Lent => "B",
        SlotState::Leaving => "X",
    };
    let (subject, pool) = match &slot.last {
        Some((subject, pool)) => (subject.to_string(), pool.to_string()),
        None => (String::new(), String::new()),
    };
    let fields = [
        slot.channel.to_string(),
        slot.member.to_string(),
        state.to_owned(),
        subject,
        pool,
    ];
    join(&fields)
}

fn whose(text: &str) -> Result<(ChannelId, MemberId), Error> {
    let (channel, member) = text
        .split_once(FIELD)
        .ok_or_else(|| unreadable("whose slots"))?;
    Ok((channel.parse()?, member.parse()?))
}

impl Corp {
    pub(super) fn dump_visits(&self, keys: &mut BTreeMap<String, Value>) {
        let ends = self.slots.ends.iter();
        let ends = ends.map(|(end, name)| (name.clone().into_bytes(), *end as f64));
        put_sorted(keys, "holds".into(), ends.collect());
        for (subject, list) in &self.slots.pasts {
            let records: Vec<String> = list.iter().map(past_text).collect();
            let text = records.join(&RECORD.to_string());
            keys.insert(format!("past:{subject}"), Value::Bytes(text.into_bytes()));
        }
        for (id, slot) in &self.slots.slots {
            let text = slot_text(slot);
            keys.insert(format!("slot:{id}"), Value::Bytes(text.into_bytes()));
        }
        for ((channel, member), free) in &self.slots.free {
            let free = free.iter();
            let free = free.map(|(since, id)| (id.as_str().into(), *since as f64));
            let key = format!("slots:{channel}{FIELD}{member}");
            put_sorted(keys, key, free.collect());
        }
        for ((channel, member), untold) in &self.slots.untold {
            let untold = untold.iter();
            let untold = untold.map(|(turn, (subject, pool))| {
                let name = format!("{subject}{FIELD}{pool}");
                (name.into_bytes(), *turn as f64)
            });
            let key = format!("untold:{channel}{FIELD}{member}");
            put_sorted(keys, key, untold.collect());
        }
    }

    pub(super) fn read_pasts(&mut self, subject: &str, records: &str) -> Result<(), Error> {
        let mut list = Vec::new();
        for record in records.split(RECORD) {
            let mut fields = Fields::new("past", record);
            let pool = fields.parse()?;
            let kind = match fields.next()? {
                "L" => PastKind::Lapsed,
                "M" => PastKind::Met,
                _ => return Err(unreadable("kind of a memory")),
            };
            list.push(Past {
                pool,
                kind,
                allocation: fields.parse()?,
                member: fields.parse()?,
                until_ms: fields.parse()?,
                through: match fields.is_empty() {
                    true => None,
                    false => Some(fields.parse()?),
                },
            });
            fields.end()?;
        }
        self.slots.pasts.insert(subject.parse()?, list);
        Ok(())
    }

    pub(super) fn read_slot(&mut self, id: &str, text: &str) -> Result<(), Error> {
        let mut fields = Fields::new("slot", text);
        let (channel, member) = (fields.parse()?, fields.parse()?);
        let state = match fields.next()? {
            "F" => SlotState::Free,
            "B" => SlotState::Lent,
            "X" => SlotState::Leaving,
            _ => return Err(unreadable("state of a slot")),
        };
        let subject: Option<SubjectKey> = fields.optional()?;
        let pool: Option<PoolId> = fields.optional()?;
        fields.end()?;
        let slot = Slot {
            channel,
            member,
            state,
            last: subject.zip(pool),
        };
        self.slots.slots.insert(id.parse()?, slot);
        Ok(())
    }

    pub(super) fn read_free(&mut self, of: &str, entries: &[(Vec<u8>, f64)]) -> Result<(), Error> {
        let free = self.slots.free.entry(whose(of)?).or_default();
        for (id, since) in entries {
            free.insert((*since as u64, text(id)?.parse()?));
        }
        Ok(())
    }

    pub(super) fn read_untold(
        &mut self,
        of: &str,
        entries: &[(Vec<u8>, f64)],
    ) -> Result<(), Error> {
        let untold = self.slots.untold.entry(whose(of)?).or_default();
        for (name, turn) in entries {
            let (subject, pool) = text(name)?
                .split_once(FIELD)
                .ok_or_else(|| unreadable("whose hold"))?;
            untold.insert(*turn as u64, (subject.parse()?, pool.parse()?));
        }
        Ok(())
    }
}
