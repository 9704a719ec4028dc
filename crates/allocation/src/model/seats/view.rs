//! Looking at seats, and what must always hold of them.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Corp;
use super::group::{Group, Person};
use super::{Held, Seat, Seats};
use crate::id::SubjectKey;
use crate::seats::{
    CampaignId, ChatId, ChatVersion, FillStrategy, GroupCount, GroupPoolId, GroupTags, PersonKey,
    SeatId, SeatName, SetGroup, Via,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPoolView {
    pub pool: GroupPoolId,
    pub version: u64,
    pub strategy: FillStrategy,
    /// Free seats of all its available groups.
    pub free: u64,
    pub waiting: u64,
    /// Groups that somebody may be shown now.
    pub available: u32,
}

/// A group as the rules see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupView {
    /// What it is told to be.
    pub config: SetGroup,
    /// What its people were last; None: it was never read, so nobody is shown it.
    pub seen: Option<ChatVersion>,
    /// By their keys.
    pub people: Vec<PersonView>,
    pub count: GroupCount,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonView {
    pub person: PersonKey,
    /// A read of the group is to say who it is.
    pub pending: bool,
    /// Of one who is pending: only a read that may be old says that he is in the group.
    pub doubted: bool,
    pub seat: Option<SeatName>,
}

/// The seat of a visitor in a campaign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeatView {
    pub campaign: CampaignId,
    pub subject: SubjectKey,
    pub seat: SeatId,
    pub place: SeatPlace,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeatPlace {
    Held {
        chat: ChatId,
        until_ms: u64,
        anonymous: bool,
        via: Option<Via>,
    },
    Waiting {
        pool: GroupPoolId,
        tags: GroupTags,
        until_ms: u64,
        anonymous: bool,
        via: Option<Via>,
        hold_ms: u64,
    },
    Taken {
        chat: ChatId,
        person: PersonKey,
        late: bool,
    },
    Expired {
        chat: ChatId,
        until_ms: u64,
    },
}

impl SeatView {
    pub fn name(&self) -> SeatName {
        SeatName {
            campaign: self.campaign.clone(),
            subject: self.subject,
        }
    }

    fn of(name: &SeatName, seat: &Seat) -> Self {
        let place = match seat {
            Seat::Held(held) => SeatPlace::Held {
                chat: held.chat.clone(),
                until_ms: held.until_ms,
                anonymous: held.anonymous,
                via: held.via.clone(),
            },
            Seat::Waiting(waiter) => SeatPlace::Waiting {
                pool: waiter.wanted.0.clone(),
                tags: waiter.wanted.1.clone(),
                until_ms: waiter.until_ms,
                anonymous: waiter.anonymous,
                via: waiter.via.clone(),
                hold_ms: waiter.hold_ms,
            },
            Seat::Taken(taken) => SeatPlace::Taken {
                chat: taken.chat.clone(),
                person: taken.person,
                late: taken.late,
            },
            Seat::Expired(expired) => SeatPlace::Expired {
                chat: expired.chat.clone(),
                until_ms: expired.until_ms,
            },
        };
        Self {
            campaign: name.campaign.clone(),
            subject: name.subject,
            seat: seat.id(),
            place,
        }
    }
}

impl Corp {
    pub fn group_pools(&self) -> impl Iterator<Item = GroupPoolView> + '_ {
        let pools = self.seats.pools.iter();
        pools.map(|(id, pool)| {
            let order = self.seats.free.get(&(id.clone(), None));
            GroupPoolView {
                pool: id.clone(),
                version: pool.version,
                strategy: pool.strategy,
                free: pool.free,
                waiting: self.seats.n_waiting(id) as u64,
                available: order.map_or(0, |order| order.len() as u32),
            }
        })
    }

    pub fn groups(&self) -> impl Iterator<Item = GroupView> + '_ {
        let groups = self.seats.groups.iter();
        groups.map(|(chat, group)| GroupView {
            config: SetGroup {
                chat: chat.clone(),
                version: group.version,
                content: group.content.clone(),
            },
            seen: group.seen.clone(),
            people: group
                .people
                .iter()
                .map(|(person, what)| PersonView {
                    person: *person,
                    pending: matches!(what, Person::Pending | Person::Doubted),
                    doubted: *what == Person::Doubted,
                    seat: match what {
                        Person::Seated(name) => Some(name.clone()),
                        Person::Plain | Person::Pending | Person::Doubted => None,
                    },
                })
                .collect(),
            count: group.count(),
        })
    }

    /// In the order in which those who hold or wait came; before them all others.
    pub fn seats(&self) -> Vec<SeatView> {
        let mut seats: Vec<_> = self.seats.seats.iter().collect();
        seats.sort_by_key(|(_, seat)| match seat {
            Seat::Held(held) => held.turn,
            Seat::Waiting(waiter) => waiter.turn,
            Seat::Taken(_) | Seat::Expired(_) => 0,
        });
        let views = seats.iter().map(|(name, seat)| SeatView::of(name, seat));
        views.collect()
    }

    pub fn seat(&self, name: &SeatName) -> Option<SeatView> {
        let seat = self.seats.seats.get(name)?;
        Some(SeatView::of(name, seat))
    }
}

impl Seats {
    pub(in super::super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        self.check_orders(&mut problems);
        self.check_seats(&mut problems);
        problems
    }

    /// Available groups, and no others, are where they are looked for; pools know their free seats.
    fn check_orders(&self, problems: &mut Vec<String>) {
        let mut orders: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        let mut of_pool: BTreeMap<&GroupPoolId, BTreeSet<ChatId>> = BTreeMap::new();
        let mut free: BTreeMap<&GroupPoolId, u64> = BTreeMap::new();
        for (chat, group) in &self.groups {
            let id = &group.content.pool;
            of_pool.entry(id).or_default().insert(chat.clone());
            let Some(pool) = self.pools.get(id) else {
                problems.push(format!("group {chat} is in pool {id}, which is missing"));
                continue;
            };
            *free.entry(id).or_default() += u64::from(group.free());
            if group.free() > 0 {
                for order in group.orders() {
                    let order = orders.entry(order).or_default();
                    order.insert(group.place(chat, pool.strategy));
                }
            }
        }
        if !of_pool
            .into_iter()
            .eq(self.of_pool.iter().map(|(id, chats)| (id, chats.clone())))
        {
            problems.push("groups are not listed in their pools".to_owned());
        }
        if orders != self.free {
            problems.push(format!("free groups {:?}, should be {orders:?}", self.free));
        }
        for (id, pool) in &self.pools {
            let sum = free.get(id).copied().unwrap_or(0);
            if pool.free != sum {
                problems.push(format!("{id} has {} free, its groups {sum}", pool.free));
            }
            if self.removed_pools.contains_key(id) {
                problems.push(format!("pool {id} is there and removed"));
            }
        }
        for chat in self.removed_groups.keys() {
            if self.groups.contains_key(chat) {
                problems.push(format!("group {chat} is there and removed"));
            }
        }
    }

    /// Every seat is where it is looked for, and nothing else is there.
    fn check_seats(&self, problems: &mut Vec<String>) {
        let (mut ends, mut pasts) = (BTreeSet::new(), BTreeSet::new());
        let mut held: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        let mut anonymous: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        let mut queues: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        let mut seated = 0;
        let mut ids = BTreeSet::new();
        for (name, seat) in &self.seats {
            if !ids.insert(seat.id()) {
                problems.push(format!("seat {} is two people's", seat.id()));
            }
            match seat {
                Seat::Held(one) => {
                    let Held { until_ms, turn, .. } = one;
                    ends.insert((*until_ms, name.to_string()));
                    let of_group = held.entry(one.chat.clone()).or_default();
                    of_group.insert((*turn, name.clone()));
                    for key in one.guesses() {
                        let of_way = anonymous.entry(key).or_default();
                        of_way.insert((*turn, name.clone()));
                    }
                }
                Seat::Waiting(waiter) => {
                    pasts.insert((waiter.until_ms, name.to_string()));
                    let queue = queues.entry(waiter.wanted.clone()).or_default();
                    queue.insert((waiter.turn, name.clone()));
                }
                Seat::Expired(expired) => {
                    pasts.insert((expired.until_ms, name.to_string()));
                }
                Seat::Taken(taken) => {
                    seated += 1;
                    let group = self.groups.get(&taken.chat);
                    let person = group.and_then(|group| group.people.get(&taken.person));
                    if person != Some(&Person::Seated(name.clone())) {
                        problems.push(format!("{name} is not in the group where his seat is"));
                    }
                }
            }
        }
        let mut n_seated = 0;
        for (chat, group) in &self.groups {
            n_seated += group.n_seated();
            let n_held = held.get(chat).map_or(0, BTreeSet::len);
            if group.n_held as usize != n_held {
                let said = group.n_held;
                problems.push(format!("{chat} says that {said} are held, {n_held} are"));
            }
        }
        let there: BTreeMap<_, BTreeSet<_>> = self
            .queues
            .iter()
            .map(|(wanted, queue)| {
                let names = queue.iter().map(|(turn, name)| (turn, name.clone()));
                (wanted.clone(), names.collect())
            })
            .collect();
        for (what, is_so) in [
            ("people with seats", n_seated == seated),
            ("holds of groups", held == self.held),
            ("holds that nothing names", anonymous == self.anonymous),
            ("queues", queues == there),
            ("ends of holds", ends == self.ends),
            ("ends of places and memories", pasts == self.pasts),
        ] {
            if !is_so {
                problems.push(format!("{what} are not those of the seats"));
            }
        }
        for chat in self.held.keys() {
            if !self.groups.contains_key(chat) {
                problems.push(format!("{chat} has holds and is not there"));
            }
        }
    }
}

impl Group {
    fn n_seated(&self) -> usize {
        let people = self.people.values();
        people
            .filter(|what| matches!(what, Person::Seated(_)))
            .count()
    }
}
