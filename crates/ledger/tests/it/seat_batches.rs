//! However entries of seats are cut into batches: the same rows.

use std::collections::BTreeMap;

use allocation::{Reason, SeatMatch};
use ledger::{CameAs, Change, Entry, GroupCounted, NewSeat, PeopleChange, SeatChange, SeatEnd};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::batches::write;
use crate::seats::{chat, name, new_seat, person, seat, wanted};
use crate::setup::{T0, entry, setup};

const CHATS: [&str; 2] = ["wrA", "wrB"];

/// Numbers that mean something only where they can.
type Step = (u8, u8, u8, u8);

/// What Redis would have: one seat for each visitor, and who is in which group.
#[derive(Default)]
struct Redis {
    made: u64,
    /// Of each visitor: his seat, its state, and his group.
    seats: BTreeMap<u8, (u64, &'static str, &'static str)>,
    /// In each group: whether it is known who he is, and the visitor whose seat he has.
    people: BTreeMap<&'static str, BTreeMap<u8, (bool, Option<u8>)>>,
}

impl Redis {
    fn step(&mut self, (what, visitor, of, how): Step) -> Vec<Change> {
        let visitor = visitor % 4;
        let chat_name = CHATS[usize::from(of) % 2];
        let mut changes = Vec::new();
        match what % 8 {
            0 | 1 => changes.extend(self.ask(visitor, chat_name, how)),
            2 => changes.extend(self.again(visitor, how)),
            3 => changes.extend(self.end(visitor, how)),
            4..=6 => self.confirm(visitor, chat_name, how, &mut changes),
            _ if how.is_multiple_of(4) => self.remove(chat_name, &mut changes),
            _ => changes.extend(self.wake(visitor, chat_name)),
        }
        changes
    }

    fn ask(&mut self, visitor: u8, chat_name: &'static str, how: u8) -> Option<Change> {
        if self
            .seats
            .get(&visitor)
            .is_some_and(|seat| seat.1 != "past")
        {
            return None;
        }
        self.made += 1;
        let waits = how.is_multiple_of(3);
        let state = if waits { "waiting" } else { "held" };
        self.seats.insert(visitor, (self.made, state, chat_name));
        Some(Change::Seat(SeatChange::Begun(NewSeat {
            chat: (!waits).then(|| chat(chat_name)),
            until_ms: T0 + u64::from(how),
            place: u32::from(how % 3),
            ..new_seat(self.made, &visitor.to_string())
        })))
    }

    fn again(&mut self, visitor: u8, how: u8) -> Option<Change> {
        let (id, state, _) = self.seats.get_mut(&visitor)?;
        let (seat, name) = (seat(*id), name(&visitor.to_string()));
        let until_ms = T0 + u64::from(how);
        let via = how.is_multiple_of(2).then(|| "inv2".parse().unwrap());
        let wanted = wanted(how);
        match (*state, how % 5) {
            ("held", 0) => *state = "waiting",
            ("held", _) => {
                return Some(Change::Seat(SeatChange::Again {
                    seat,
                    name,
                    until_ms,
                    via,
                    wanted: None,
                }));
            }
            ("waiting", _) => {}
            _ => return None,
        }
        Some(Change::Seat(SeatChange::Waits {
            seat,
            name,
            wanted,
            until_ms,
        }))
    }

    fn wake(&mut self, visitor: u8, chat_name: &'static str) -> Option<Change> {
        let entry = self.seats.get_mut(&visitor)?;
        if entry.1 != "waiting" {
            return None;
        }
        *entry = (entry.0, "held", chat_name);
        Some(Change::Seat(SeatChange::Held {
            seat: seat(entry.0),
            name: name(&visitor.to_string()),
            chat: chat(chat_name),
            until_ms: T0 + 7,
            place: 0,
        }))
    }

    fn end(&mut self, visitor: u8, how: u8) -> Option<Change> {
        let (id, state, _) = self.seats.get(&visitor).copied()?;
        let (end, memory) = match (state, how % 3) {
            ("held", 0) => (SeatEnd::Cancelled, None),
            ("held", _) => (SeatEnd::Expired, Some(T0 + 100)),
            ("waiting", _) => (SeatEnd::Lapsed, None),
            _ => return None,
        };
        match memory {
            Some(_) => self.seats.get_mut(&visitor)?.1 = "past",
            None => {
                self.seats.remove(&visitor);
            }
        }
        Some(ended(id, visitor, end, memory))
    }

    /// One leaves and one comes.
    fn confirm(
        &mut self,
        visitor: u8,
        chat_name: &'static str,
        how: u8,
        changes: &mut Vec<Change>,
    ) {
        let people = self.people.entry(chat_name).or_default();
        let (leaves, comes) = (how % 5, how / 5 % 5);
        if how.is_multiple_of(2) {
            changes.push(Change::People(PeopleChange::Left {
                chat: chat(chat_name),
                person: person(&leaves.to_string()),
            }));
            if let Some((_, Some(visitor))) = people.remove(&leaves)
                && let Some((id, ..)) = self.seats.remove(&visitor)
            {
                changes.push(ended(id, visitor, SeatEnd::Left, None));
            }
        }
        let known = people.get(&comes).map(|(known, _)| *known);
        let identified = !how.is_multiple_of(3);
        let mut past_us = 0;
        if known != Some(true) {
            let of = self.seats.get_mut(&visitor);
            let takes = of.filter(|of| identified && of.1 != "taken");
            let came = match &takes {
                Some(of) => Some(CameAs::Seat(seat(of.0))),
                None => identified.then_some(CameAs::Direct),
            };
            changes.push(Change::People(PeopleChange::Joined {
                chat: chat(chat_name),
                person: person(&comes.to_string()),
                came,
                doubted: !identified && how.is_multiple_of(2),
                scanned: how.is_multiple_of(2),
                via: None,
                who: None,
            }));
            past_us = u32::from(identified);
            people.insert(comes, (identified, takes.as_ref().map(|_| visitor)));
            if let Some(of) = takes {
                past_us = u32::from(of.1 != "held" || of.2 != chat_name);
                changes.push(Change::Seat(SeatChange::Confirmed {
                    seat: seat(of.0),
                    name: name(&visitor.to_string()),
                    chat: chat(chat_name),
                    how: SeatMatch::Count,
                    late: of.1 == "past",
                    from: (of.2 != chat_name).then(|| chat(of.2)),
                }));
                *of = (of.0, "taken", chat_name);
            }
        }
        let n_people = people.len() as u32;
        changes.push(Change::People(PeopleChange::Counted(GroupCounted {
            chat: chat(chat_name),
            version: format!("v{how}").parse().unwrap(),
            people: n_people,
            oversold: n_people.saturating_sub(2),
            past_us,
            mended: how.is_multiple_of(7).then(|| "audit".to_owned()),
        })));
    }

    fn remove(&mut self, chat_name: &'static str, changes: &mut Vec<Change>) {
        for (_, of) in self.people.remove(chat_name).unwrap_or_default() {
            if let Some(visitor) = of.1
                && let Some((id, ..)) = self.seats.remove(&visitor)
            {
                changes.push(ended(id, visitor, SeatEnd::Left, None));
            }
        }
        self.seats.retain(|visitor, (id, state, of)| {
            let held = *state == "held" && *of == chat_name;
            if held {
                changes.push(ended(*id, *visitor, SeatEnd::Cancelled, None));
            }
            !held
        });
        changes.push(Change::People(PeopleChange::Gone {
            chat: chat(chat_name),
        }));
    }
}

fn ended(id: u64, visitor: u8, how: SeatEnd, memory_until_ms: Option<u64>) -> Change {
    Change::Seat(SeatChange::Ended {
        seat: seat(id),
        name: name(&visitor.to_string()),
        how,
        reason: Reason::new("why").unwrap(),
        memory_until_ms,
    })
}

#[test]
fn any_batches_leave_the_same_seats() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let setup = runtime.block_on(setup());
    let mut runner = TestRunner::new(Config {
        failure_persistence: None,
        ..Config::with_cases(24)
    });
    let steps = prop::collection::vec(any::<Step>(), 20..60);
    let sizes = prop::collection::vec(1_usize..12, 1..4);
    let outcome = runner.run(&(steps, sizes), |(steps, sizes)| {
        let mut redis = Redis::default();
        let steps = steps.into_iter().zip(1..);
        let entries: Vec<Entry> = steps
            .map(|(step, seq)| entry(seq, redis.step(step)))
            .collect();
        let (one_by_one, in_batches) = runtime.block_on(async {
            let one_by_one = write(&setup, &entries, &[1]).await;
            (one_by_one, write(&setup, &entries, &sizes).await)
        });
        for (one, other) in one_by_one.iter().zip(&in_batches) {
            prop_assert_eq!(one, other);
        }
        prop_assert_eq!(one_by_one.len(), in_batches.len());
        Ok(())
    });
    runtime.block_on(async { drop(setup) });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}
