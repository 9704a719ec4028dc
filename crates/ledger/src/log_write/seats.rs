//! The seats of a batch: what was there before is updated once, what began in it is inserted as it ended.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use allocation::{ChatId, SeatId, SeatMatch, SeatName, SubjectKey, Via};
use time::OffsetDateTime;

use crate::change::{NewSeat, SeatChange, Wanted};
use crate::seats::SeatStage;
use crate::times::at_option;

mod write;

pub(super) use write::write;

/// Why a seat ends whose visitor has another one of the campaign: the state was made of rows that it did not fit.
const REPLACED: &str = "replaced";

/// What a batch does to seats.
#[derive(Debug, Default)]
pub(super) struct FoldedSeats<'b> {
    rows: BTreeMap<SeatId, Row<'b>>,
    of_name: HashMap<&'b SeatName, BTreeSet<SeatId>>,
    /// Whose seats began, and when the first did: what they have open besides ends then.
    began: BTreeMap<&'b SeatName, u64>,
}

#[derive(Debug, Default)]
struct Row<'b> {
    /// It began in this batch, in this entry.
    new: Option<(&'b NewSeat, u64, u64)>,
    patch: Patch<'b>,
}

/// Absent fields stay as they are.
#[derive(Debug, Default)]
struct Patch<'b> {
    wanted: Option<&'b Wanted>,
    via: Option<&'b Via>,
    until_ms: Option<u64>,
    turn: Option<(u64, u32)>,
    place: Option<Place<'b>>,
    stage: Option<Stage<'b>>,
}

/// Where his seat is.
#[derive(Debug, Clone, Copy, Default)]
struct Place<'b> {
    chat: Option<&'b ChatId>,
    /// Since when he was shown it; None: as it was, Some(None): he waits.
    held_ms: Option<Option<u64>>,
    /// How he came into it.
    matched: Option<SeatMatch>,
    from: Option<&'b ChatId>,
    confirmed_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Stage<'b> {
    is: SeatStage,
    ended_ms: Option<u64>,
    reason: Option<&'b str>,
    memory_until_ms: Option<u64>,
}

impl Stage<'_> {
    fn open(is: SeatStage) -> Self {
        Self {
            is,
            ended_ms: None,
            reason: None,
            memory_until_ms: None,
        }
    }

    fn replaced(at_ms: u64) -> Self {
        Self {
            is: SeatStage::Cancelled,
            ended_ms: Some(at_ms),
            reason: Some(REPLACED),
            memory_until_ms: None,
        }
    }
}

impl<'b> FoldedSeats<'b> {
    pub(super) fn add(&mut self, seq: u64, at_ms: u64, change: &'b SeatChange) {
        let of_name = self.of_name.entry(change.name()).or_default();
        if let SeatChange::Begun(new) = change {
            for other in of_name.iter().filter(|other| **other != new.seat) {
                if let Some(row) = self.rows.get_mut(other) {
                    row.replace(at_ms);
                }
            }
            self.began.entry(&new.name).or_insert(at_ms);
        }
        of_name.insert(change.seat());
        self.rows
            .entry(change.seat())
            .or_default()
            .add(seq, at_ms, change);
    }

    /// Those whose seats began, with the customers that they are.
    pub(super) fn customers(&self) -> impl Iterator<Item = (SubjectKey, &'b crate::Customer)> {
        let new = self.rows.values().filter_map(|row| row.new);
        new.map(|(new, ..)| (new.name.subject, &new.customer))
    }
}

impl<'b> Row<'b> {
    fn replace(&mut self, at_ms: u64) {
        let ended = self.patch.stage.and_then(|stage| stage.ended_ms);
        if ended.is_none() {
            self.patch.stage = Some(Stage::replaced(at_ms));
        }
    }

    fn add(&mut self, seq: u64, at_ms: u64, change: &'b SeatChange) {
        let patch = &mut self.patch;
        match change {
            SeatChange::Begun(new) => {
                *self = Row {
                    new: Some((new, seq, at_ms)),
                    patch: Patch::default(),
                };
            }
            SeatChange::Waits {
                wanted, until_ms, ..
            } => {
                patch.want(wanted);
                patch.until_ms = Some(*until_ms);
                patch.place = Some(Place {
                    held_ms: Some(None),
                    ..Place::default()
                });
                patch.stage = Some(Stage::open(SeatStage::Waiting));
            }
            SeatChange::Again {
                until_ms,
                via,
                wanted,
                ..
            } => {
                if let Some(wanted) = wanted {
                    patch.want(wanted);
                }
                patch.until_ms = Some(*until_ms);
                patch.via = via.as_ref().or(patch.via);
            }
            SeatChange::Held {
                chat,
                until_ms,
                place,
                ..
            } => {
                patch.until_ms = Some(*until_ms);
                patch.turn = Some((seq, *place));
                patch.place = Some(Place {
                    chat: Some(chat),
                    held_ms: Some(Some(at_ms)),
                    ..Place::default()
                });
                patch.stage = Some(Stage::open(SeatStage::Held));
            }
            SeatChange::Confirmed {
                chat,
                how,
                late,
                from,
                ..
            } => {
                patch.place = Some(Place {
                    chat: Some(chat),
                    held_ms: patch.place.and_then(|place| place.held_ms),
                    matched: Some(*how),
                    from: from.as_ref(),
                    confirmed_ms: Some(at_ms),
                });
                patch.stage = Some(Stage::open(match late {
                    true => SeatStage::Late,
                    false => SeatStage::Confirmed,
                }));
            }
            SeatChange::Ended {
                how,
                reason,
                memory_until_ms,
                ..
            } => {
                patch.stage = Some(Stage {
                    is: (*how).into(),
                    ended_ms: Some(at_ms),
                    reason: Some(reason.as_str()),
                    memory_until_ms: *memory_until_ms,
                });
            }
        }
    }

    /// What a row that began in this batch is at its end.
    fn whole(&self, new: &'b NewSeat, at_ms: u64) -> (Place<'b>, Stage<'b>) {
        let began = Place {
            chat: new.chat.as_ref(),
            held_ms: Some(new.chat.as_ref().map(|_| at_ms)),
            ..Place::default()
        };
        let mut place = self.patch.place.unwrap_or(began);
        place.held_ms = place.held_ms.or(began.held_ms);
        let stage = self.patch.stage.unwrap_or(Stage::open(match new.chat {
            Some(_) => SeatStage::Held,
            None => SeatStage::Waiting,
        }));
        (place, stage)
    }
}

impl<'b> Patch<'b> {
    fn want(&mut self, wanted: &'b Wanted) {
        self.wanted = Some(wanted);
        self.via = None;
    }

    fn via(&self, wanted: Option<&'b Wanted>) -> Option<&'b str> {
        let of_wanted = wanted.and_then(|wanted| wanted.via.as_ref());
        self.via.or(of_wanted).map(Via::as_str)
    }
}

/// As columns.
impl<'b> Place<'b> {
    fn chat(self) -> Option<&'b str> {
        self.chat.map(ChatId::as_str)
    }

    fn from(self) -> Option<&'b str> {
        self.from.map(ChatId::as_str)
    }

    fn matched(self) -> Option<&'static str> {
        self.matched.map(SeatMatch::as_str)
    }

    fn held_at(self) -> Option<OffsetDateTime> {
        at_option(self.held_ms.flatten())
    }

    fn confirmed_at(self) -> Option<OffsetDateTime> {
        at_option(self.confirmed_ms)
    }
}
