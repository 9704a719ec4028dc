//! Reading seats back from a dump.

use std::collections::BTreeMap;

use super::super::load::{text, unreadable};
use super::super::pool::Score;
use super::dump::{DOUBTED, PENDING};
use super::group::{Group, GroupPool, Person};
use super::{Expired, Held, Seat, Seats, Taken, Waiter};
use crate::error::Error;
use crate::seats::{FillStrategy, GroupContent, SeatName};
use crate::text::{FIELD, Fields};

impl Seats {
    pub(in super::super) fn read_text(
        &mut self,
        family: &str,
        of: &str,
        value: &str,
    ) -> Result<(), Error> {
        let mut fields = Fields::new("value", value);
        match family {
            "gpool" => {
                let version = fields.parse()?;
                if fields.is_empty() {
                    self.removed_pools.insert(of.parse()?, version);
                    return Ok(());
                }
                let pool = GroupPool {
                    version,
                    strategy: FillStrategy::parse(fields.next()?)?,
                    free: fields.parse()?,
                };
                // Those who wait are counted by their queues.
                fields.next()?;
                self.pools.insert(of.parse()?, pool);
            }
            "group" => {
                let version = fields.parse()?;
                if fields.is_empty() {
                    self.removed_groups.insert(of.parse()?, version);
                    return Ok(());
                }
                let content = GroupContent::parse(&mut fields)?;
                let seen = fields.optional()?;
                // And people by their set.
                fields.next()?;
                let group = Group {
                    version,
                    content,
                    seen,
                    people: BTreeMap::new(),
                    n_held: fields.parse()?,
                    picked: fields.parse()?,
                };
                self.groups.insert(of.parse()?, group);
            }
            "seat" => {
                let seat = read_seat(&mut fields)?;
                self.seats.insert(of.parse()?, seat);
            }
            _ => return Err(unreadable("an unknown key")),
        }
        fields.end()
    }

    pub(in super::super) fn read_hash(
        &mut self,
        key: &str,
        fields: &BTreeMap<Vec<u8>, Vec<u8>>,
    ) -> Result<(), Error> {
        let Some(("people", chat)) = key.split_once(':') else {
            return Err(unreadable("an unknown key"));
        };
        // In the order of the keys groups come first.
        let group = self.groups.get_mut(&chat.parse()?);
        let group = group.ok_or_else(|| unreadable("of a group that is missing"))?;
        for (person, value) in fields {
            let what = match text(value)? {
                "" => Person::Plain,
                PENDING => Person::Pending,
                DOUBTED => Person::Doubted,
                name => Person::Seated(name.parse()?),
            };
            group.people.insert(text(person)?.parse()?, what);
        }
        Ok(())
    }

    pub(in super::super) fn read_sorted(
        &mut self,
        key: &str,
        entries: &[(Vec<u8>, f64)],
    ) -> Result<(), Error> {
        let names = || {
            let names = entries.iter().map(|(name, score)| {
                let name: SeatName = text(name)?.parse()?;
                Ok((*score as u64, name))
            });
            names.collect::<Result<Vec<_>, Error>>()
        };
        let ends = || {
            let ends = entries
                .iter()
                .map(|(name, end)| Ok((*end as u64, text(name)?.to_owned())));
            ends.collect::<Result<_, Error>>()
        };
        match key.split_once(':') {
            None if key == "gends" => self.ends = ends()?,
            None if key == "gpast" => self.pasts = ends()?,
            Some(("groups", pool)) => {
                let chats = entries.iter().map(|(chat, _)| text(chat)?.parse());
                let chats = chats.collect::<Result<_, Error>>()?;
                self.of_pool.insert(pool.parse()?, chats);
            }
            Some(("gfree", of)) => {
                let (pool, tag) = read_within(of)?;
                let order = entries
                    .iter()
                    .map(|(name, score)| Ok((Score(*score), text(name)?.to_owned())));
                let order = order.collect::<Result<_, Error>>()?;
                self.free.insert((pool, tag), order);
            }
            Some(("gheld", chat)) => {
                let held = names()?.into_iter().collect();
                self.held.insert(chat.parse()?, held);
            }
            Some(("ganon", of)) => {
                let held = names()?.into_iter().collect();
                self.anonymous.insert(read_within(of)?, held);
            }
            Some(("gwait", of)) => {
                let wanted = of.split_once(FIELD);
                let (pool, tags) = wanted.ok_or_else(|| unreadable("no tags"))?;
                let queue = self.queues.entry((pool.parse()?, tags.parse()?));
                let queue = queue.or_default();
                for (turn, name) in names()? {
                    queue.add(turn, name);
                }
            }
            // The queues say this, too.
            Some(("gqueues", _)) => {}
            _ => return Err(unreadable("an unknown key")),
        }
        Ok(())
    }
}

fn read_within<O, P>(of: &str) -> Result<(O, Option<P>), Error>
where
    O: std::str::FromStr<Err = Error>,
    P: std::str::FromStr<Err = Error>,
{
    match of.split_once(FIELD) {
        Some((of, part)) => Ok((of.parse()?, Some(part.parse()?))),
        None => Ok((of.parse()?, None)),
    }
}

fn read_seat(fields: &mut Fields<'_>) -> Result<Seat, Error> {
    let kind = fields.next()?;
    let seat = fields.parse()?;
    Ok(match kind {
        "H" => Seat::Held(Held {
            seat,
            chat: fields.parse()?,
            anonymous: fields.next()? == "1",
            via: fields.optional()?,
            until_ms: fields.parse()?,
            turn: fields.parse()?,
        }),
        "W" => {
            let pool = fields.parse()?;
            let anonymous = fields.next()? == "1";
            let via = fields.optional()?;
            let (until_ms, turn) = (fields.parse()?, fields.parse()?);
            Seat::Waiting(Waiter {
                seat,
                wanted: (pool, fields.next()?.parse()?),
                anonymous,
                via,
                until_ms,
                turn,
                hold_ms: fields.parse()?,
            })
        }
        "C" | "L" => Seat::Taken(Taken {
            seat,
            chat: fields.parse()?,
            person: fields.parse()?,
            late: kind == "L",
        }),
        "E" => Seat::Expired(Expired {
            seat,
            chat: fields.parse()?,
            until_ms: fields.parse()?,
        }),
        _ => return Err(unreadable("kind of a seat")),
    })
}
