//! Seats, groups and who is in them as Postgres has them: what a state is made of when the log cannot be folded.
//!
//! Rows do not say which group was shown last, nor which of several began first that began in one entry by different ways (some
//! were woken, others asked). Of a visitor who waited and asked in one call with others they may say that he was shown the way that
//! he asked for then, though he had been woken just before. Memories whose time is over are left out.

use allocation::model::{GroupView, PersonView, SeatPlace, SeatRows, SeatView};
use allocation::{ChatId, GroupCount, GroupPoolId, SetGroup, SetGroupPool};
use ledger::{Group, GroupState, Seat, SeatStage, StandingSeats};

use super::told;
use crate::app::{App, CorpApp};

/// What Redis is to be told of group pools and groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Configured {
    pub pools: Vec<SetGroupPool>,
    pub groups: Vec<SetGroup>,
    /// With the versions at which they were removed.
    pub removed_pools: Vec<(GroupPoolId, u64)>,
    pub removed_groups: Vec<(ChatId, u64)>,
}

/// A group that Redis cannot be told is left out.
pub(crate) async fn configured(app: &App, corp: &CorpApp) -> Result<Configured, ledger::Error> {
    let (pools, groups) = (app.ledger.group_pools(), app.ledger.groups());
    let mut configured = Configured::default();
    for pool in pools.all(&corp.id).await? {
        let of_pool = groups.of_pool(&corp.id, &pool.id).await?;
        configured.groups.extend(of_pool.iter().filter_map(config));
        configured.pools.push(SetGroupPool {
            pool: pool.id,
            version: pool.version,
            strategy: pool.strategy,
        });
    }
    let versions = pools.versions(&corp.id).await?.into_iter();
    let removed = versions.filter(|pool| pool.deleted);
    configured.removed_pools = removed.map(|pool| (pool.id, pool.version)).collect();
    let versions = groups.versions(&corp.id).await?.into_iter();
    let removed = versions.filter(|group| !group.in_pool);
    configured.removed_groups = removed.map(|group| (group.id, group.version)).collect();
    Ok(configured)
}

fn config(group: &Group) -> Option<SetGroup> {
    match group.state {
        GroupState::Dismissed => None,
        _ => told::config(group).ok()?,
    }
}

/// All of it for [`allocation::model::Corp::with_seats`].
pub fn seat_rows(standing: &StandingSeats, configured: Configured) -> SeatRows {
    let persons = standing.persons();
    let seats = standing.seats.iter().filter_map(|seat| {
        Some(SeatView {
            campaign: seat.campaign.clone(),
            subject: seat.subject,
            seat: seat.id,
            place: match seat.stage {
                SeatStage::Confirmed | SeatStage::Late => {
                    let (chat, person) = persons.get(&seat.id)?.clone();
                    let late = seat.stage == SeatStage::Late;
                    SeatPlace::Taken { chat, person, late }
                }
                _ => place(seat)?,
            },
        })
    });
    let groups = configured.groups.into_iter();
    SeatRows {
        seats: seats.collect(),
        groups: groups.map(|config| group(standing, config)).collect(),
        pools: configured.pools,
        removed_pools: configured.removed_pools,
        removed_groups: configured.removed_groups,
    }
}

/// Of a seat that nobody sits on.
fn place(seat: &Seat) -> Option<SeatPlace> {
    Some(match (seat.stage, seat.chat.clone()) {
        (SeatStage::Waiting, _) => SeatPlace::Waiting {
            pool: seat.pool.clone(),
            tags: seat.tags.clone(),
            until_ms: seat.held_until_ms,
            anonymous: seat.anonymous,
            via: seat.via.clone(),
            hold_ms: seat.hold_ms,
        },
        (SeatStage::Held, Some(chat)) => SeatPlace::Held {
            chat,
            until_ms: seat.held_until_ms,
            anonymous: seat.anonymous,
            via: seat.via.clone(),
        },
        // It is remembered.
        (_, Some(chat)) => SeatPlace::Expired {
            chat,
            until_ms: seat.memory_until_ms?,
        },
        _ => return None,
    })
}

fn group(standing: &StandingSeats, config: SetGroup) -> GroupView {
    let chat = config.chat();
    let people = standing.people.get(chat).into_iter().flatten();
    let people = people.map(|one| PersonView {
        person: one.person,
        pending: one.came.is_none(),
        doubted: one.doubted,
        // His seat says so.
        seat: None,
    });
    GroupView {
        seen: standing.seen.get(chat).cloned(),
        people: people.collect(),
        // They follow from the rest.
        count: GroupCount {
            people: 0,
            held: 0,
            free: 0,
            oversold: 0,
        },
        config,
    }
}
