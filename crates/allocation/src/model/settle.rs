//! What became of one assignment of an allocation.

use super::{Call, How};
use crate::op::{Settlement, SettlementOutcome};
use crate::outcome::Settled;

impl Call<'_> {
    pub(super) fn settle(&mut self, settlement: &Settlement) -> Settled {
        let Settlement {
            allocation,
            pool,
            subject,
            outcome,
            expect,
        } = settlement;
        let Some(mut open) = self.find(subject, pool, *allocation) else {
            return Settled::Unknown;
        };
        let former = open.member.clone();
        if let Some(expect) = expect
            && (expect.member != former || expect.epoch != open.epoch)
        {
            return Settled::Stale { member: former };
        }
        let is_open_ended = open.hold.is_some() || open.offer.is_some();
        if is_open_ended && !matches!(outcome, SettlementOutcome::Void(_)) {
            // Only the customer's coming says what becomes of a visit, and the member of an offer.
            return Settled::Unknown;
        }
        match outcome {
            SettlementOutcome::Void(_) => {
                if let Some(member) = &former {
                    self.watched(|watcher, _| watcher.closes(pool, member, open.settled));
                }
                self.drop_open(&open, subject);
                self.wake();
                Settled::Void { member: former }
            }
            SettlementOutcome::Done => match former {
                None => Settled::Unknown,
                Some(_) if open.settled => Settled::Already,
                Some(member) => {
                    open.settled = true;
                    self.put(subject, open);
                    Settled::Done { member }
                }
            },
            SettlementOutcome::Kept(member) => {
                if former.as_ref() == Some(member) && open.settled {
                    return Settled::Already;
                }
                let moved = former.as_ref() != Some(member);
                self.begins(open.id, pool, How::Kept { moved }, &[]);
                if moved {
                    self.release(&open, subject);
                    self.create(member);
                    open.mark = self.add_load(member, pool);
                    open.member = Some(member.clone());
                    open.epoch += 1;
                    if let Some(route) = &mut open.route {
                        route.source = None;
                    }
                }
                self.ends(Some(member));
                open.holder = Some(member.clone());
                open.settled = true;
                self.put(subject, open);
                self.wake();
                Settled::Kept { from: former }
            }
        }
    }
}
