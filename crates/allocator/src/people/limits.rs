//! What a member may be given, as Redis is told it: his limits, and when the day ends that they are counted in.
//!
//! A day is one of the clocks where he is, and how long it lasts is for zone data to say, which Redis has not. There a day
//! lasts 24 hours until another end is told, so something is told only where clocks are changed, or a limit or zone.

use std::sync::Arc;

use allocation::{Limits, SetMember, model::MemberView};
use ledger::Member;

use super::hours::{self, Everybody, Zone, next_local_midnight};
use crate::app::{App, CorpApp};

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
        let end_ms = next_local_midnight(zone.or(self.default_zone.as_ref())?, self.now_ms);
        (end_ms < u64::MAX).then_some(end_ms)
    }

    pub(super) fn change(&self, member: &Member) -> SetMember {
        SetMember {
            member: member.member.clone(),
            limits: member.limits(),
            day_end_ms: self.end(member),
            blocked: member.blocked.clone(),
        }
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

/// As Redis is told of a member.
pub(crate) async fn change(
    app: &App,
    corp: &CorpApp,
    member: &Member,
    now_ms: u64,
) -> Result<SetMember, ledger::Error> {
    let days = Days::of(app, corp, std::slice::from_ref(member), now_ms).await?;
    Ok(days.change(member))
}

/// As Redis is told of everybody.
pub(crate) async fn changes(
    app: &App,
    corp: &CorpApp,
    members: &[Member],
) -> Result<Vec<SetMember>, ledger::Error> {
    let days = Days::of(app, corp, members, app.now_ms()).await?;
    Ok(members.iter().map(|member| days.change(member)).collect())
}
