//! What happens to seats meanwhile.

use uuid::Uuid;

use super::{History, MINUTE_MS, Random, subject};
use crate::model::{SeatPlace, SeatView};
use crate::{
    CampaignId, ChatId, ConfirmSeats, FillStrategy, GroupPoolId, GroupTag, GroupTags, JoinedPerson,
    Op, PersonKey, Reason, ReleaseSeat, ReserveSeat, SeatCandidate, SeatId, SeatMatch, SeatOp,
    SetGroup, SetGroupPool, Via,
};

const TAGS: [&str; 2] = ["north", "south"];

fn campaign(i: usize) -> CampaignId {
    CampaignId::new(format!("k{i}")).unwrap()
}

fn group_pool(i: usize) -> GroupPoolId {
    GroupPoolId::new(format!("g{i}")).unwrap()
}

fn chat(i: usize) -> ChatId {
    ChatId::new(format!("wr{i}")).unwrap()
}

fn person(i: usize) -> PersonKey {
    PersonKey(subject(1000 + i))
}

impl Random {
    fn via(&mut self) -> Option<Via> {
        let i = self.below(3);
        (i > 0).then(|| Via::new(format!("inv{i}")).unwrap())
    }

    fn group_tags(&mut self) -> Vec<GroupTag> {
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
}

impl History {
    /// Nothing, or a few: the rest is to happen, too.
    pub(super) fn random_seats(&mut self, random: &mut Random) {
        while random.one_in(2) {
            let op = self.random_seat_op(random);
            self.apply(Op::Seats(op));
        }
    }

    fn random_seat_op(&mut self, random: &mut Random) -> SeatOp {
        let seats = self.corp.seats();
        let some = (!seats.is_empty()).then(|| &seats[random.below(seats.len())]);
        let version = random.below(3) as u64 + self.entries.len() as u64 / 4;
        match (random.below(20), some) {
            (0..=7, _) => {
                let asked = (0..1 + random.below(3)).map(|_| self.random_reserve(random));
                SeatOp::Reserve(asked.collect())
            }
            (8..=10, Some(some)) => SeatOp::Release(vec![release(random, some)]),
            (11..=14, _) => SeatOp::Confirm(self.random_confirm(random)),
            (15, _) => SeatOp::SetPool(SetGroupPool {
                pool: group_pool(random.below(2)),
                version,
                strategy: [
                    FillStrategy::FillFirst,
                    FillStrategy::Spread,
                    FillStrategy::LeastFilled,
                ][random.below(3)],
            }),
            (16..=17, _) => {
                let (of, cap) = (group_pool(random.below(2)), random.below(8) as u32);
                let buffer = random.below(3) as u32;
                let group = SetGroup::new(chat(random.below(4)), version, of, cap, buffer);
                let group = group.unwrap().with_rank(random.below(3) as u32);
                let group = group.with_open(!random.one_in(5));
                SeatOp::SetGroup(group.with_tags(random.group_tags()).unwrap())
            }
            (18, _) if random.one_in(3) => SeatOp::RemoveGroup {
                chat: chat(random.below(4)),
                version,
            },
            (18, _) if random.one_in(3) => SeatOp::RemovePool {
                pool: group_pool(random.below(2)),
                version,
            },
            (18, _) => SeatOp::Wake {
                pool: group_pool(random.below(2)),
                limit: random.below(4) as u32,
            },
            _ => SeatOp::Forget {
                limit: random.below(5) as u32,
            },
        }
    }

    fn random_reserve(&mut self, random: &mut Random) -> ReserveSeat {
        self.made += 1;
        let tags = GroupTags::new(random.group_tags(), random.one_in(2));
        ReserveSeat {
            seat: SeatId(Uuid::from_u128(self.made as u128)),
            campaign: campaign(random.below(2)),
            pool: group_pool(random.below(2)),
            subject: subject(random.below(20)),
            anonymous: random.one_in(2),
            via: random.via(),
            tags: tags.unwrap(),
            hold_ms: 5 * MINUTE_MS,
            wait_ms: [1000, MINUTE_MS][random.below(2)],
        }
    }

    fn random_confirm(&mut self, random: &mut Random) -> ConfirmSeats {
        let chat = chat(random.below(4));
        let mut groups = self.corp.groups();
        let seen = groups.find(|view| *view.config.chat() == chat);
        let seen = seen.and_then(|view| view.seen);
        let version = format!("v{}", self.entries.len());
        ConfirmSeats {
            from: match random.one_in(5) {
                true => None,
                false => seen,
            },
            version: version.parse().unwrap(),
            force: random.one_in(8),
            left: (0..random.below(4))
                .map(|_| person(random.below(30)))
                .collect(),
            joined: (0..random.below(4)).map(|_| random.person()).collect(),
            chat,
        }
    }
}

fn release(random: &mut Random, some: &SeatView) -> ReleaseSeat {
    let until_ms = match &some.place {
        SeatPlace::Held { until_ms, .. } | SeatPlace::Waiting { until_ms, .. } => *until_ms,
        SeatPlace::Taken { .. } | SeatPlace::Expired { .. } => 0,
    };
    ReleaseSeat {
        campaign: some.campaign.clone(),
        subject: some.subject,
        seat: some.seat,
        expect_until_ms: random
            .one_in(2)
            .then(|| until_ms + u64::from(random.one_in(4))),
        reason: Reason::new("expired").unwrap(),
        memory_ms: [0, MINUTE_MS, 60 * MINUTE_MS][random.below(3)],
    }
}
