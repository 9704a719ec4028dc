//! Whatever may happen to seats.

use allocation::model::{Corp, SeatView};
use allocation::{
    CampaignId, ChatId, ConfirmSeats, FillStrategy, GroupPoolId, GroupTag, GroupTags, JoinedPerson,
    PersonKey, Reason, ReleaseSeat, ReserveSeat, SeatCandidate, SeatId, SeatMatch, SeatOp,
    SetGroup, SetGroupPool, SubjectKey, Via,
};
use uuid::Uuid;

pub(crate) const MINUTE_MS: u64 = 60_000;
const TAGS: [&str; 2] = ["north", "south"];

/// A small generator that gives the same numbers everywhere.
pub(crate) struct Random {
    state: u64,
    seed: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed, seed }
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.state >> 33) as usize) % n
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn via(&mut self) -> Option<Via> {
        let i = self.below(3);
        (i > 0).then(|| format!("inv{i}").parse().unwrap())
    }

    fn tags(&mut self) -> Vec<GroupTag> {
        let tags = TAGS.into_iter().filter(|_| self.one_in(2));
        tags.map(|tag| tag.parse().unwrap()).collect()
    }

    fn person(&mut self) -> JoinedPerson {
        let names = (0..self.below(3)).map(|_| SeatCandidate {
            how: [SeatMatch::Unionid, SeatMatch::ExternalId][self.below(2)],
            campaign: campaign(self.below(2)),
            subject: subject(self.below(20)),
        });
        let names = names.collect();
        let identified = !self.one_in(3);
        JoinedPerson {
            person: person(self.below(30)),
            identified,
            doubted: !identified && self.one_in(2),
            scanned: self.one_in(2),
            state: self.via(),
            names,
        }
    }

    fn reserve(&mut self, n: u64) -> ReserveSeat {
        let seat = u128::from(self.seed) << 64 | u128::from(n);
        ReserveSeat {
            seat: SeatId(Uuid::from_u128(seat)),
            campaign: campaign(self.below(2)),
            pool: group_pool(self.below(2)),
            subject: subject(self.below(20)),
            anonymous: self.one_in(2),
            via: self.via(),
            tags: GroupTags::new(self.tags(), self.one_in(2)).unwrap(),
            hold_ms: [0, 5 * MINUTE_MS, 5 * MINUTE_MS][self.below(3)],
            wait_ms: [1000, MINUTE_MS][self.below(2)],
        }
    }

    fn confirm(&mut self, corp: &Corp, n: usize) -> ConfirmSeats {
        let chat = chat(self.below(4));
        let mut groups = corp.groups();
        let seen = groups.find(|view| *view.config.chat() == chat);
        let seen = seen.and_then(|view| view.seen);
        ConfirmSeats {
            from: seen.filter(|_| !self.one_in(5)),
            version: format!("v{n}").parse().unwrap(),
            force: self.one_in(8),
            left: (0..self.below(4)).map(|_| person(self.below(30))).collect(),
            joined: (0..self.below(4)).map(|_| self.person()).collect(),
            chat,
        }
    }

    fn release(&mut self, some: &SeatView) -> ReleaseSeat {
        let reason = ["expired", "cancelled"][self.below(2)];
        ReleaseSeat {
            campaign: some.campaign.clone(),
            subject: some.subject,
            seat: some.seat,
            expect_until_ms: None,
            reason: Reason::new(reason).unwrap(),
            memory_ms: [0, MINUTE_MS, 60 * MINUTE_MS][self.below(3)],
        }
    }

    pub(crate) fn op(&mut self, corp: &Corp, n: usize) -> SeatOp {
        let seats = corp.seats();
        let some = (!seats.is_empty()).then(|| &seats[self.below(seats.len())]);
        let version = self.below(3) as u64 + n as u64 / 4;
        match (self.below(20), some) {
            (0..=7, _) => {
                let asked = (0..1 + self.below(3)).map(|i| self.reserve((n * 4 + i + 1) as u64));
                SeatOp::Reserve(asked.collect())
            }
            (8..=10, Some(some)) => SeatOp::Release(vec![self.release(some)]),
            (11..=14, _) => SeatOp::Confirm(self.confirm(corp, n)),
            (15, _) => SeatOp::SetPool(SetGroupPool {
                pool: group_pool(self.below(2)),
                version,
                strategy: [
                    FillStrategy::FillFirst,
                    FillStrategy::Spread,
                    FillStrategy::LeastFilled,
                ][self.below(3)],
            }),
            (16..=17, _) => {
                let (of, cap) = (group_pool(self.below(2)), self.below(8) as u32);
                let buffer = self.below(3) as u32;
                let group = SetGroup::new(chat(self.below(4)), version, of, cap, buffer);
                let group = group.unwrap().with_rank(self.below(3) as u32);
                let group = group.with_open(!self.one_in(5));
                SeatOp::SetGroup(group.with_tags(self.tags()).unwrap())
            }
            (18, _) if self.one_in(3) => SeatOp::RemoveGroup {
                chat: chat(self.below(4)),
                version,
            },
            (18, _) => SeatOp::Wake {
                pool: group_pool(self.below(2)),
                limit: self.below(4) as u32,
            },
            _ => SeatOp::Forget {
                limit: self.below(5) as u32,
            },
        }
    }
}

fn campaign(i: usize) -> CampaignId {
    format!("k{i}").parse().unwrap()
}

fn group_pool(i: usize) -> GroupPoolId {
    format!("g{i}").parse().unwrap()
}

fn chat(i: usize) -> ChatId {
    format!("wr{i}").parse().unwrap()
}

fn subject(i: usize) -> SubjectKey {
    SubjectKey::from_bytes((i as u128 + 1).to_be_bytes())
}

fn person(i: usize) -> PersonKey {
    PersonKey(subject(1000 + i))
}
