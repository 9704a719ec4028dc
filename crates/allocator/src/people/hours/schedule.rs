//! Hours of work as values: when somebody is at work, until when, and when next. No clock, no I/O.
//!
//! Hours belong to the date on which they begin, so a night shift that begins on the eve of a holiday ends in its morning;
//! a special date says what begins on it, in place of what its weekday would.

use std::collections::BTreeMap;

use jiff::{Span, civil::Date};

use super::zone::Zone;

/// How far an end is looked for. Who is at work for longer without a break has none that matters.
const DAYS_OPEN: usize = 32;
/// How far an opening is looked for.
const DAYS_CLOSED: usize = 800;

/// From a minute after the midnight that begins a date to another one, at most a day later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hours {
    pub from: u16,
    pub to: u16,
}

/// When people work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    zone: Zone,
    /// From Monday on; each day's hours in their order.
    week: [Vec<Hours>; 7],
    /// What begins on these dates instead; nothing: closed.
    days: BTreeMap<Date, Vec<Hours>>,
}

/// How it is at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// At work; None: for longer than a month.
    Open { until_ms: Option<u64> },
    /// Not at work; None: not in the next two years.
    Closed { opens_ms: Option<u64> },
}

impl Schedule {
    /// Of a date that several know the first one counts.
    pub fn new(
        zone: Zone,
        mut week: [Vec<Hours>; 7],
        days: impl IntoIterator<Item = (Date, Vec<Hours>)>,
    ) -> Self {
        week.iter_mut().for_each(|hours| hours.sort_unstable());
        let mut special = BTreeMap::new();
        for (date, mut hours) in days {
            hours.sort_unstable();
            special.entry(date).or_insert(hours);
        }
        Self {
            zone,
            week,
            days: special,
        }
    }

    /// Nobody is ever at work.
    pub fn never(zone: Zone) -> Self {
        Self::new(zone, Default::default(), [])
    }

    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    pub fn state(&self, at_ms: u64) -> State {
        // Hours of the day before may reach into today, and where a whole date is skipped "yesterday" is two days ago.
        let mut date = self.zone.date(at_ms).saturating_sub(Span::new().days(2));
        // What was found: hours that touch or overlap are one.
        let mut found: Option<(u64, u64)> = None;
        for n_days in 0.. {
            let limit = match found {
                Some((from, _)) if from <= at_ms => DAYS_OPEN,
                _ => DAYS_CLOSED,
            };
            if n_days > limit {
                break;
            }
            for hours in self.beginning_on(date) {
                let (from, to) = (
                    self.zone.moment(date, hours.from),
                    self.zone.moment(date, hours.to),
                );
                // Over already; or all of it skipped by the clocks.
                if to <= at_ms || from >= to {
                    continue;
                }
                found = match found {
                    None if from > at_ms => return closed(from),
                    None => Some((from, to)),
                    Some((_, end)) if from > end => return open(end),
                    Some((start, end)) => Some((start, end.max(to))),
                };
            }
            // What begins from now on begins later.
            let next = date.saturating_add(Span::new().days(1));
            if let Some((_, end)) = found
                && self.zone.moment(next, 0) > end
            {
                return open(end);
            }
            if next == date {
                break;
            }
            date = next;
        }
        match found {
            Some(_) => State::Open { until_ms: None },
            None => State::Closed { opens_ms: None },
        }
    }

    /// Until when at the latest he is at work; the inner None: longer than a month. None: he is not.
    pub fn open_until(&self, at_ms: u64) -> Option<Option<u64>> {
        match self.state(at_ms) {
            State::Open { until_ms } => Some(until_ms),
            State::Closed { .. } => None,
        }
    }

    /// When he comes or goes next, as far as that is looked for.
    pub fn next_change(&self, at_ms: u64) -> Option<u64> {
        match self.state(at_ms) {
            State::Open { until_ms: next } | State::Closed { opens_ms: next } => next,
        }
    }

    /// When he comes next, after the end of what goes on.
    pub fn next_open(&self, at_ms: u64) -> Option<u64> {
        match self.state(at_ms) {
            State::Closed { opens_ms } => opens_ms,
            State::Open { until_ms } => self.next_change(until_ms?),
        }
    }

    fn beginning_on(&self, date: Date) -> &[Hours] {
        self.days.get(&date).unwrap_or_else(|| {
            let weekday = date.weekday().to_monday_zero_offset();
            &self.week[usize::try_from(weekday).unwrap_or_default() % 7]
        })
    }
}

fn open(until_ms: u64) -> State {
    State::Open {
        until_ms: Some(until_ms),
    }
}

fn closed(opens_ms: u64) -> State {
    State::Closed {
        opens_ms: Some(opens_ms),
    }
}
