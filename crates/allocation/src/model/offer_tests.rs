//! Every order in which an offer can be accepted, declined, run out, lose its member, be moved and be closed: one owner,
//! always. The state space is small, so all of it is walked.

use std::collections::BTreeMap;

use super::Corp;
use crate::*;

const MEMBERS: [&str; 3] = ["ma", "mb", "mc"];
const ACCEPT_MS: u64 = 1000;
/// Operations in one order.
const DEPTH: usize = 6;

fn member(name: &str) -> MemberId {
    MemberId::new(name).unwrap()
}

fn pool() -> PoolId {
    PoolId::new("p").unwrap()
}

fn subject() -> SubjectKey {
    SubjectKey::from_bytes([7; 16])
}

fn allocation() -> AllocationId {
    AllocationId(uuid::Uuid::from_u128(1))
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    /// By this member, with the epoch that was his when it was last this or that.
    Accept(usize, u64),
    Decline(usize, u64),
    TimeOut,
    Off(usize),
    On(usize),
    /// By somebody: to this member, or to whoever the pool picks.
    Move(Option<usize>),
    Close,
}

/// A walk: the state, the time, and what must stay true of the past.
#[derive(Clone)]
struct Walk {
    corp: Corp,
    now_ms: u64,
    /// Who has accepted, and whether that was overruled since.
    accepted: Option<MemberId>,
    /// Members whose answer ended an epoch.
    ended: BTreeMap<u64, MemberId>,
}

impl Walk {
    fn new(tries: u32) -> Self {
        let mut walk = Self {
            corp: Corp::new(),
            now_ms: 1_000_000,
            accepted: None,
            ended: BTreeMap::new(),
        };
        let members = MEMBERS.map(|name| (member(name), Weight::ONE));
        let config = PoolConfig::new(pool(), 1, Strategy::WeightedRoundRobin, members).unwrap();
        let rule = OfferRule {
            accept_ms: ACCEPT_MS,
            tries,
        };
        walk.apply(Op::SetPool(config.with_offers(Some(rule))));
        for i in 0..MEMBERS.len() {
            walk.presence(i, true);
        }
        let outcome = walk.apply(Op::Decide(vec![Request {
            allocation: allocation(),
            pool: pool(),
            subject: subject(),
            holder: None,
            request: None,
            echo: false,
            plan: None,
        }]));
        assert!(matches!(
            outcome.answer,
            Answer::Decided(ref decisions) if matches!(decisions[0], Decision::Offered { .. })
        ));
        walk
    }

    fn apply(&mut self, op: Op) -> Outcome {
        let outcome = self.corp.apply(&op, self.now_ms);
        assert_eq!(self.corp.problems(), Vec::<String>::new(), "{op:?}");
        outcome
    }

    fn presence(&mut self, i: usize, on: bool) {
        let lease_until_ms = if on { self.now_ms * 1000 } else { 0 };
        self.apply(Op::Presence(vec![PresenceChange {
            member: member(MEMBERS[i]),
            lease_until_ms,
        }]));
    }

    fn open(&self) -> Option<super::AllocationView> {
        let mut all = self.corp.allocations();
        let open = all.next();
        assert!(all.next().is_none(), "one allocation");
        open
    }

    fn answer(&mut self, i: usize, epoch: u64, declined: Option<&str>) {
        let before = self.open();
        let outcome = self.apply(Op::Respond(Response {
            allocation: allocation(),
            pool: pool(),
            subject: subject(),
            member: member(MEMBERS[i]),
            epoch,
            declined: declined.map(|why| Reason::new(why).unwrap()),
        }));
        let Answer::Responded(responded) = outcome.answer else {
            panic!("{outcome:?}")
        };
        let after = self.open();
        let is_his = before
            .as_ref()
            .is_some_and(|open| open.member == Some(member(MEMBERS[i])) && open.epoch == epoch);
        match &responded {
            Responded::Accepted => {
                assert!(is_his, "only whoever is asked accepts");
                assert_eq!(after.unwrap().offer_until_ms, None);
                assert_eq!(self.accepted, None, "one acceptance");
                assert!(!self.ended.contains_key(&epoch), "an epoch ends once");
                self.accepted = Some(member(MEMBERS[i]));
            }
            Responded::Declined(on) | Responded::Late(on) => {
                assert!(is_his);
                let after = after.unwrap();
                assert_eq!((&after.member, after.epoch), (&on.member, on.epoch));
                assert_ne!(on.member, Some(member(MEMBERS[i])), "he is not asked again");
                let before = self.ended.insert(epoch, member(MEMBERS[i]));
                assert_eq!(before, None, "an epoch ends once");
            }
            Responded::Already => {
                assert!(is_his && declined.is_none());
                assert_eq!(before, after);
            }
            Responded::Stale { .. } => {
                assert!(!is_his);
                assert_eq!(before, after);
            }
            Responded::Unknown => assert_eq!(before, after),
        }
    }

    /// False: it means nothing here.
    fn step(&mut self, step: Step) -> bool {
        match step {
            Step::Accept(i, back) | Step::Decline(i, back) => {
                let Some(epoch) = self.open().and_then(|open| open.epoch.checked_sub(back)) else {
                    return false;
                };
                let declined = matches!(step, Step::Decline(..)).then_some("busy");
                self.answer(i, epoch, declined);
            }
            Step::TimeOut => {
                let before = self.open();
                let Some(open) = before.filter(|open| open.offer_until_ms > Some(0)) else {
                    return false;
                };
                self.now_ms += ACCEPT_MS;
                let outcome = self.apply(Op::Reclaim { limit: 10 });
                let Answer::Reclaimed(reclaimed) = outcome.answer else {
                    panic!("{outcome:?}")
                };
                assert_eq!(reclaimed.len(), 1);
                assert_eq!(Some(&reclaimed[0].from), open.member.as_ref());
                self.ended.insert(open.epoch, reclaimed[0].from.clone());
                let again = self.apply(Op::Reclaim { limit: 10 });
                assert_eq!(again.answer, Answer::Reclaimed(Vec::new()), "once");
            }
            Step::Off(i) => {
                let his = self.open().is_some_and(|open| {
                    open.offer_until_ms.is_some() && open.member == Some(member(MEMBERS[i]))
                });
                self.presence(i, false);
                let outcome = self.apply(Op::Reclaim { limit: 10 });
                let Answer::Reclaimed(reclaimed) = outcome.answer else {
                    panic!("{outcome:?}")
                };
                assert_eq!(
                    reclaimed.len(),
                    usize::from(his),
                    "his offers move, no others"
                );
                for one in reclaimed {
                    self.ended.insert(one.to.epoch - 1, one.from);
                }
            }
            Step::On(i) => self.presence(i, true),
            Step::Move(to) => {
                let Some(open) = self.open() else {
                    return false;
                };
                let outcome = self.apply(Op::Reassign(Reassignment {
                    allocation: allocation(),
                    pool: pool(),
                    subject: subject(),
                    to: to.map(|i| member(MEMBERS[i])),
                    exclude: Vec::new(),
                    expect_epoch: open.epoch,
                }));
                if let Answer::Reassigned(Reassigned::Moved { member, epoch }) = outcome.answer {
                    let after = self.open().unwrap();
                    assert_eq!((after.member, after.epoch), (Some(member), epoch));
                    assert_eq!(
                        after.offer_until_ms, None,
                        "whoever is told need not accept"
                    );
                    // Somebody decided: what was accepted before is over.
                    self.accepted = None;
                }
            }
            Step::Close => {
                self.apply(Op::Close(vec![Closing {
                    subject: subject(),
                    pool: None,
                    member: None,
                    allocation: None,
                    reason: Reason::new("left").unwrap(),
                }]));
                assert!(self.open().is_none());
                assert!(self.corp.members().all(|member| member.load == 0));
            }
        }
        self.check();
        true
    }

    fn check(&self) {
        let loads: u32 = self.corp.members().map(|member| member.load).sum();
        let open = self.open();
        let owner = open.as_ref().and_then(|open| open.member.clone());
        assert_eq!(
            loads,
            u32::from(owner.is_some()),
            "one has the load, or nobody"
        );
        if let (Some(open), Some(accepted)) = (&open, &self.accepted) {
            assert_eq!(
                open.member.as_ref(),
                Some(accepted),
                "who accepted keeps it"
            );
            assert_eq!(open.offer_until_ms, None);
        }
    }
}

fn steps() -> Vec<Step> {
    let mut steps = vec![
        Step::TimeOut,
        Step::Move(None),
        Step::Move(Some(2)),
        Step::Close,
    ];
    for i in 0..MEMBERS.len() {
        steps.extend([Step::Off(i), Step::On(i)]);
        for back in 0..2 {
            steps.extend([Step::Accept(i, back), Step::Decline(i, back)]);
        }
    }
    steps
}

#[test]
fn an_offer_has_one_owner_whatever_happens_in_whatever_order() {
    let steps = steps();
    let mut states = 0usize;
    for tries in [1, 2, 5] {
        // States that were seen, each once: with the same state and time left, the same follows.
        let mut seen: std::collections::HashSet<String> = std::collections::HashSet::new();
        let mut walks = vec![Walk::new(tries)];
        for _ in 0..DEPTH {
            let mut next = Vec::new();
            for walk in &walks {
                for step in &steps {
                    let mut walk = walk.clone();
                    if walk.step(*step) && seen.insert(walk.print()) {
                        next.push(walk);
                    }
                }
            }
            walks = next;
        }
        states += seen.len();
    }
    eprintln!("{states} states");
    assert!(states > 1000, "{states} states were walked");
}

impl Walk {
    /// Two walks of one print go on alike: number and time of the last operation, ties and virtual time aside.
    fn print(&self) -> String {
        let shares = self.corp.shares(&pool()).unwrap();
        let shares: Vec<_> = shares
            .iter()
            .map(|share| (share.eligible, (share.credit * 1e6).round() as i64))
            .collect();
        let open = self.open().map(|open| {
            (
                open.member,
                open.epoch,
                open.offer_until_ms
                    .map(|until| until.saturating_sub(self.now_ms)),
            )
        });
        let tried = self.corp.opens.get(&subject()).into_iter().flatten();
        let tried: Vec<_> = tried
            .map(|open| open.offer.as_ref().map(|offer| offer.tried.clone()))
            .collect();
        format!("{shares:?} {open:?} {tried:?} {:?}", self.accepted)
    }
}
