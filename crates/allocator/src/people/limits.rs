//! What a member may be given, as Redis is told it: his limits, and when the day ends that they are counted in.
//!
//! A day is one of the clocks where he is, and how long it lasts is for zone data to say, which Redis has not. There a day
//! lasts 24 hours until another end is told, so something is told only where clocks are changed, or a limit or zone.

use std::{collections::HashMap, sync::Arc};

use allocation::{GivenBefore, Limits, MemberId, SetMember, model::MemberView};
use ledger::{Counted, Member};

use super::hours::{self, Everybody, Zone, next_local_midnight};
use crate::app::{App, CorpApp};

const HOUR_MS: u64 = 60 * 60 * 1_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// The next one there; None: there is none to come.
pub(super) fn midnight(zone: &Zone, now_ms: u64) -> Option<u64> {
    let end_ms = next_local_midnight(zone, now_ms);
    (end_ms < u64::MAX).then_some(end_ms)
}

/// When this hour and this day began, of a day that ends then. As the rules count: a day has 24 hours, counted back from
/// its end.
pub(super) fn counted_from(day_end_ms: Option<u64>, now_ms: u64) -> (u64, u64) {
    let day_end_ms = day_end_ms.unwrap_or((now_ms / DAY_MS + 1) * DAY_MS);
    let hours_left = (day_end_ms.saturating_sub(now_ms + 1)) / HOUR_MS;
    (day_end_ms - (hours_left + 1) * HOUR_MS, day_end_ms - DAY_MS)
}

/// When days end, at one moment.
pub(super) struct Days {
    everybody: Arc<Everybody>,
    /// Of who has no schedule.
    default_zone: Option<Zone>,
    now_ms: u64,
}

impl Days {
    /// For these members.
    pub(super) async fn of(
        app: &App,
        corp: &CorpApp,
        members: &[Member],
        now_ms: u64,
    ) -> Result<Self, ledger::Error> {
        let mut everybody = corp.hours.now();
        let mut counted = members.iter().filter(|member| member.is_counted());
        if counted.any(|member| !everybody.knows_schedule(member.schedule.as_ref())) {
            everybody = hours::refresh(app, corp, now_ms).await?;
        }
        Ok(Self {
            everybody,
            default_zone: Zone::named(&app.config.hours.default_zone),
            now_ms,
        })
    }

    /// When his day ends; None: it does not matter.
    pub(super) fn end(&self, member: &Member) -> Option<u64> {
        if !member.is_counted() {
            return None;
        }
        let schedule = member.schedule.as_ref();
        let zone = schedule.and_then(|id| self.everybody.zone_of(id));
        midnight(zone.or(self.default_zone.as_ref())?, self.now_ms)
    }

    pub(super) fn change(&self, member: &Member) -> SetMember {
        SetMember {
            member: member.member.clone(),
            limits: member.limits(),
            day_end_ms: self.end(member),
            blocked: member.blocked.clone(),
            given: None,
        }
    }

    /// From when on he is counted; None: he is not.
    fn counted(&self, member: &Member) -> Option<Counted> {
        let is_counted = member.per_hour.is_some() || member.per_day.is_some();
        let (hour_ms, day_ms) = counted_from(self.end(member), self.now_ms);
        is_counted.then(|| Counted {
            member: member.member.clone(),
            hour_ms,
            day_ms,
        })
    }

    /// Whether Redis must be told of him. A day that ended since the last operation about him is over there too.
    pub(super) fn differs(&self, member: &Member, view: Option<&MemberView>) -> bool {
        let given = view.and_then(|view| view.given);
        let limits = match given {
            Some(given) => given.limits,
            None => Limits {
                at_a_time: view.and_then(|view| view.cap),
                ..Limits::NONE
            },
        };
        let blocked = view.and_then(|view| view.blocked.as_ref());
        if member.limits() != limits || member.blocked.as_ref() != blocked {
            return true;
        }
        let told = given.filter(|given| given.told);
        self.end(member) != told.map(|given| given.at(self.now_ms).day_end_ms)
    }
}

/// As Redis is told of a member whose limits are as they were.
pub(crate) async fn change(
    app: &App,
    corp: &CorpApp,
    member: &Member,
    now_ms: u64,
) -> Result<SetMember, ledger::Error> {
    let days = Days::of(app, corp, std::slice::from_ref(member), now_ms).await?;
    Ok(days.change(member))
}

/// What these members were given before, which counts against limits that they may have by now: for those of whom Redis has
/// not counted.
pub(super) async fn given_before<'m>(
    app: &App,
    corp: &CorpApp,
    days: &Days,
    members: impl Iterator<Item = &'m Member>,
) -> Result<HashMap<MemberId, GivenBefore>, ledger::Error> {
    let counted = members.filter_map(|member| days.counted(member));
    let given = given(app, corp, counted.collect()).await?;
    Ok(given.into_iter().collect())
}

async fn given(
    app: &App,
    corp: &CorpApp,
    counted: Vec<Counted>,
) -> Result<Vec<(MemberId, GivenBefore)>, ledger::Error> {
    if counted.is_empty() {
        return Ok(Vec::new());
    }
    let given = app.ledger.allocations().given(&corp.id, &counted).await?;
    let given = given
        .into_iter()
        .map(|(in_hour, on_day)| GivenBefore { in_hour, on_day });
    Ok(counted
        .into_iter()
        .map(|one| one.member)
        .zip(given)
        .collect())
}

/// As a state that is made of rows is told of everybody.
pub(crate) async fn changes(
    app: &App,
    corp: &CorpApp,
    members: &[Member],
) -> Result<Vec<SetMember>, ledger::Error> {
    let days = Days::of(app, corp, members, app.now_ms()).await?;
    let given = given_before(app, corp, &days, members.iter()).await?;
    let change = |member: &Member| SetMember {
        given: given.get(&member.member).copied(),
        ..days.change(member)
    };
    Ok(members.iter().map(change).collect())
}
