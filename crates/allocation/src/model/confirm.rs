//! A customer has come by one of our ways: whose visit was that?

use super::slots::{Past, PastKind};
use super::{Call, How, Open};
use crate::id::{AllocationId, ChannelId, MemberId, PoolId, SubjectKey};
use crate::visit::{Confirmation, Confirmed, Match};

/// The hold that a customer came from.
pub(super) struct Found {
    pub(super) visitor: SubjectKey,
    by: Match,
    pub(super) hold: Trace,
}

pub(super) enum Trace {
    Live(Open),
    Lapsed(Past),
}

impl Found {
    pub(super) fn pool(&self) -> &PoolId {
        match &self.hold {
            Trace::Live(open) => &open.pool,
            Trace::Lapsed(past) => &past.pool,
        }
    }

    /// The channel that limited the visitor, or counted him.
    fn through(&self) -> Option<&ChannelId> {
        match &self.hold {
            Trace::Live(open) => open.route.as_ref()?.plan.through(),
            Trace::Lapsed(past) => past.through.as_ref(),
        }
    }

    fn allocation(&self) -> AllocationId {
        match &self.hold {
            Trace::Live(open) => open.id,
            Trace::Lapsed(past) => past.allocation,
        }
    }

    /// Whom the visitor saw; None: he waits.
    pub(super) fn member(&self) -> Option<&MemberId> {
        match &self.hold {
            Trace::Live(open) => open.member.as_ref(),
            Trace::Lapsed(past) => Some(&past.member),
        }
    }
}

impl Call<'_> {
    pub(super) fn confirm(&mut self, confirmations: &[Confirmation]) -> Vec<Confirmed> {
        let confirmed = confirmations.iter().map(|one| self.confirm_one(one));
        let confirmed = confirmed.collect();
        self.wake();
        confirmed
    }

    fn confirm_one(&mut self, asked: &Confirmation) -> Confirmed {
        let list = self.corp.opens.get(&asked.subject);
        let is_echo = |open: &&Open| {
            let given = open
                .holder
                .as_ref()
                .is_some_and(|giver| *giver != asked.member);
            given && open.member.as_ref() == Some(&asked.member)
        };
        if let Some(open) = list.and_then(|list| list.iter().find(is_echo)) {
            return Confirmed::Echo {
                allocation: open.id,
                pool: open.pool.clone(),
            };
        }
        let Some(found) = self.trace(asked) else {
            return self.direct(asked);
        };
        let pool = found.pool().clone();
        let (held, by) = (found.allocation(), found.by);
        let own = self.open_in(&asked.subject, &pool);
        if let Some(open) = own.filter(|_| found.visitor != asked.subject) {
            if let Trace::Live(hold) = &found.hold {
                self.drop_open(hold, &found.visitor);
            }
            let member = open.member.unwrap_or_else(|| asked.member.clone());
            self.remember_past(&found.visitor, &pool, PastKind::Met, open.id, member, None);
            return Confirmed::Already {
                allocation: open.id,
                held: Some(held),
                by: Some(by),
            };
        }
        let mark;
        let as_seen = found.member() == Some(&asked.member);
        let confirmed = match &found.hold {
            Trace::Live(hold) if as_seen => {
                self.begins(held, &pool, How::Confirmed, &[]);
                self.ends(Some(&asked.member));
                self.move_hold(hold, &found.visitor, &asked.subject);
                self.met(&found, held, asked);
                return Confirmed::Confirmed { held, by };
            }
            Trace::Live(hold) => {
                self.drop_open(hold, &found.visitor);
                mark = self.pay_instead(&found, asked);
                Confirmed::Mismatched {
                    allocation: asked.allocation,
                    pool: pool.clone(),
                    held,
                    by,
                }
            }
            Trace::Lapsed(_) if as_seen => {
                self.create(&asked.member);
                self.begins(asked.allocation, &pool, How::Late, &[]);
                mark = self.add_load(&asked.member, &pool);
                self.ends(Some(&asked.member));
                Confirmed::Late {
                    allocation: asked.allocation,
                    pool: pool.clone(),
                    held,
                    by,
                }
            }
            Trace::Lapsed(_) => {
                mark = self.pay_instead(&found, asked);
                Confirmed::Mismatched {
                    allocation: asked.allocation,
                    pool: pool.clone(),
                    held,
                    by,
                }
            }
        };
        // What it counts where it came through stays with who has him.
        if let Some(channel) = found.through() {
            self.count_through(channel);
        }
        self.open_for(asked, pool, mark);
        self.met(&found, asked.allocation, asked);
        confirmed
    }

    pub(super) fn trace(&self, asked: &Confirmation) -> Option<Found> {
        if let Some(visitor) = asked.visitor {
            let opens = self.corp.opens.get(&visitor).map_or(&[][..], Vec::as_slice);
            let pasts = self.corp.slots.pasts.get(&visitor);
            let mut holds = opens.iter().filter(|open| open.hold.is_some());
            let mut lapsed = pasts
                .map_or(&[][..], Vec::as_slice)
                .iter()
                .filter(|past| past.kind == PastKind::Lapsed && past.until_ms > self.now_ms);
            let hold = holds
                .clone()
                .find(|open| open.pool == asked.pool)
                .or_else(|| holds.next())
                .cloned()
                .map(Trace::Live);
            let hold = hold.or_else(|| {
                lapsed
                    .clone()
                    .find(|past| past.pool == asked.pool)
                    .or_else(|| lapsed.next())
                    .cloned()
                    .map(Trace::Lapsed)
            });
            if let Some(hold) = hold {
                return Some(Found {
                    visitor,
                    by: Match::Visitor,
                    hold,
                });
            }
        }
        if let Some(id) = &asked.slot {
            let (visitor, pool) = self.corp.slots.slots.get(id)?.last.clone()?;
            return self.trace_in(visitor, &pool, Match::Slot);
        }
        let channel = asked.channel.clone()?;
        let untold = self
            .corp
            .slots
            .untold
            .get(&(channel, asked.member.clone()))?;
        let (visitor, pool) = untold.first_key_value()?.1.clone();
        self.trace_in(visitor, &pool, Match::Time)
    }

    fn trace_in(&self, visitor: SubjectKey, pool: &PoolId, by: Match) -> Option<Found> {
        let open = self.open_in(&visitor, pool);
        let hold = match open.filter(|open| open.hold.is_some()) {
            Some(open) => Trace::Live(open),
            None => {
                let past = self.corp.slots.past(&visitor, pool, self.now_ms)?;
                if past.kind != PastKind::Lapsed {
                    return None;
                }
                Trace::Lapsed(past.clone())
            }
        };
        Some(Found { visitor, by, hold })
    }

    /// The visitor's hold becomes the customer's allocation; the load stays where it is.
    fn move_hold(&mut self, hold: &Open, visitor: &SubjectKey, customer: &SubjectKey) {
        self.end_hold(visitor, hold);
        self.take_out(visitor, &hold.pool);
        let list = self.corp.opens.entry(*customer).or_default();
        list.push(Open {
            holder: hold.member.clone(),
            settled: true,
            hold: None,
            ..hold.clone()
        });
    }

    fn met(&mut self, found: &Found, allocation: AllocationId, asked: &Confirmation) {
        let member = asked.member.clone();
        self.remember_past(
            &found.visitor,
            found.pool(),
            PastKind::Met,
            allocation,
            member,
            None,
        );
    }

    /// Nobody saw this member on our page, and he has the customer.
    fn direct(&mut self, asked: &Confirmation) -> Confirmed {
        if !self.corp.pools.contains_key(&asked.pool) {
            return Confirmed::NoPool;
        }
        if let Some(open) = self.open_in(&asked.subject, &asked.pool) {
            return Confirmed::Already {
                allocation: open.id,
                held: None,
                by: None,
            };
        }
        self.create(&asked.member);
        self.begins(asked.allocation, &asked.pool, How::Direct, &[]);
        self.charge_unasked(&asked.pool, &asked.member);
        let mark = self.assign(&asked.member, &asked.pool);
        self.ends(Some(&asked.member));
        self.open_for(asked, asked.pool.clone(), mark);
        Confirmed::Direct {
            allocation: asked.allocation,
        }
    }

    fn open_for(&mut self, asked: &Confirmation, pool: PoolId, mark: Option<u64>) {
        let list = self.corp.opens.entry(asked.subject).or_default();
        list.push(Open {
            id: asked.allocation,
            pool,
            member: Some(asked.member.clone()),
            holder: Some(asked.member.clone()),
            epoch: 0,
            settled: true,
            hold: None,
            mark,
            offer: None,
            route: None,
        });
    }

    /// The member who has him pays instead of the one whom the visitor saw.
    fn pay_instead(&mut self, found: &Found, asked: &Confirmation) -> Option<u64> {
        self.create(&asked.member);
        let pool = found.pool();
        self.begins(asked.allocation, pool, How::Mismatched, &[]);
        match found.member() {
            None => self.charge_unasked(pool, &asked.member),
            Some(seen) => {
                let seen = seen.clone();
                if self.has_credit(pool, &seen) && self.has_credit(pool, &asked.member) {
                    self.add_credit(pool, &seen, 1.0);
                    self.watched(|watcher, _| watcher.pays(pool, &seen, -1));
                    self.add_credit(pool, &asked.member, -1.0);
                    self.watched(|watcher, _| watcher.pays(pool, &asked.member, 1));
                }
            }
        }
        let mark = self.assign(&asked.member, pool);
        self.ends(Some(&asked.member));
        mark
    }
}
