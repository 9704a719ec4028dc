//! The operations as typed methods.

use allocation::{
    Adjusted, Adjustment, Advanced, Answer, Closed, Closing, Confirmation, Confirmed, CorpId,
    Decision, Expired, MAX_BATCH, MAX_EXCLUDED, MAX_SKILLS, MemberChange, Op, Outcome, PoolChange,
    PoolConfig, PoolId, PresenceChange, Reassigned, Reassignment, Reclaimed, Request, Responded,
    Response, SetChannel, SetMember, SetSkills, SetSlots, Settled, Settlement, SlotsChange, Visit,
    Visited,
};

use crate::call::{self, Applied};
use crate::connection::Connection;
use crate::error::Error;
use crate::keys::Keys;
use crate::scripts::SCRIPTS;

/// All corps of one Redis.
#[derive(Debug, Clone)]
pub struct Roster<C> {
    connection: C,
}

impl<C: Connection> Roster<C> {
    pub fn new(connection: C) -> Self {
        Self { connection }
    }

    /// Gives Redis all scripts, so that the first calls need not. Not needed: a missing script is sent when it is used.
    pub async fn load(&self) -> Result<(), Error> {
        for (name, script) in SCRIPTS.all() {
            let mut connection = self.connection.clone();
            redis::cmd("SCRIPT")
                .arg("LOAD")
                .arg(script.code())
                .query_async::<()>(&mut connection)
                .await?;
            tracing::debug!(script = name, "loaded");
        }
        Ok(())
    }

    pub fn corp(&self, corp: &CorpId) -> CorpRoster<C> {
        CorpRoster {
            connection: self.connection.clone(),
            keys: Keys::new(corp),
        }
    }
}

/// One corp's state. Each method is one script call (two or more where a batch is split); `payload` goes into the log
/// beside the operation ("" = none); `now_ms` is for tests, None asks Redis for the time.
#[derive(Debug, Clone)]
pub struct CorpRoster<C> {
    pub(crate) connection: C,
    pub(crate) keys: Keys,
}

impl<C: Connection> CorpRoster<C> {
    /// Any operation. The typed methods are this.
    pub async fn apply(
        &self,
        op: &Op,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<Applied<Outcome>, Error> {
        call::apply(&self.connection, &self.keys, op, payload, now_ms).await
    }

    /// Decides for at most [`MAX_BATCH`] subjects; answers in the order of the requests. More are refused, not split:
    /// the payload may speak about each request.
    pub async fn decide(
        &self,
        requests: Vec<Request>,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<Applied<Vec<Decision>>, Error> {
        if requests.len() > MAX_BATCH {
            return Err(Error::TooMany);
        }
        let applied = self.apply(&Op::Decide(requests), payload, now_ms).await?;
        pick(applied, |answer| match answer {
            Answer::Decided(decisions) => Some(decisions),
            _ => None,
        })
    }

    /// Ends allocations. More than [`MAX_BATCH`] closings are several calls; the payload goes with the first.
    pub async fn close(
        &self,
        closings: Vec<Closing>,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<Applied<Vec<Closed>>, Error> {
        let ops = chunks(closings, Op::Close);
        let applied = self.apply_all(ops, payload, now_ms).await?;
        let mut closed = Vec::new();
        merge(applied, |answer| match answer {
            Answer::Closed(part) => {
                closed.extend(part);
                Some(())
            }
            _ => None,
        })
        .map(|applied| applied.with(closed))
    }

    /// Settles one allocation; doing it twice is doing it once.
    pub async fn settle(
        &self,
        settlement: Settlement,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<Applied<Settled>, Error> {
        let applied = self.apply(&Op::Settle(settlement), payload, now_ms).await?;
        pick(applied, |answer| match answer {
            Answer::Settled(settled) => Some(settled),
            _ => None,
        })
    }

    /// Moves an open allocation to another member.
    pub async fn reassign(
        &self,
        reassignment: Reassignment,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<Applied<Reassigned>, Error> {
        if reassignment.exclude.len() > MAX_EXCLUDED {
            return Err(Error::TooMany);
        }
        let applied = self
            .apply(&Op::Reassign(reassignment), payload, now_ms)
            .await?;
        pick(applied, |answer| match answer {
            Answer::Reassigned(reassigned) => Some(reassigned),
            _ => None,
        })
    }

    /// Heartbeats and goodbyes. More than [`MAX_BATCH`] are several calls; the payload goes with the first.
    pub async fn presence(
        &self,
        changes: Vec<PresenceChange>,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<Applied<()>, Error> {
        let ops = chunks(changes, Op::Presence);
        let applied = self.apply_all(ops, payload, now_ms).await?;
        merge(applied, only_ok)
    }

    /// Sets how many of those who come through a channel are given a member in an hour and on a day.
    pub async fn set_channel(
        &self,
        change: SetChannel,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<Applied<MemberChange>, Error> {
        let applied = self.apply(&Op::SetChannel(change), payload, now_ms).await?;
        pick(applied, |answer| match answer {
            Answer::Member(change) => Some(change),
            _ => None,
        })
    }

    /// Sets a member's cap and block.
    pub async fn set_member(
        &self,
        change: SetMember,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<Applied<MemberChange>, Error> {
        let applied = self.apply(&Op::SetMember(change), payload, now_ms).await?;
        pick(applied, |answer| match answer {
            Answer::Member(change) => Some(change),
            _ => None,
        })
    }

    /// Makes a pool what the configuration says; loading an unchanged one changes nothing.
    pub async fn set_pool(
        &self,
        config: PoolConfig,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<Applied<PoolChange>, Error> {
        let applied = self.apply(&Op::SetPool(config), payload, now_ms).await?;
        pick(applied, pool_change)
    }

    /// Members leave the pool; its open allocations and its waiting list stay until they are closed.
    pub async fn remove_pool(
        &self,
        pool: PoolId,
        version: u64,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<Applied<PoolChange>, Error> {
        let op = Op::RemovePool { pool, version };
        pick(self.apply(&op, payload, now_ms).await?, pool_change)
    }

    /// Hands out waiting subjects of a pool, oldest first, at most `limit` and at most
    /// [`MAX_WAKE`](allocation::MAX_WAKE).
    pub async fn wake(
        &self,
        pool: PoolId,
        limit: u32,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<Applied<()>, Error> {
        let op = Op::Wake { pool, limit };
        pick(self.apply(&op, payload, now_ms).await?, only_ok)
    }

    /// Says whom at most [`MAX_BATCH`] visitors see; answers in their order.
    pub async fn visit(
        &self,
        visits: Vec<Visit>,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<Applied<Vec<Visited>>, Error> {
        if visits.len() > MAX_BATCH {
            return Err(Error::TooMany);
        }
        let applied = self.apply(&Op::Visit(visits), payload, now_ms).await?;
        pick(applied, |answer| match answer {
            Answer::Visited(visited) => Some(visited),
            _ => None,
        })
    }

    /// Finds the visits of at most [`MAX_BATCH`] customers who came by our ways; answers in their order.
    pub async fn confirm(
        &self,
        confirmations: Vec<Confirmation>,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<Applied<Vec<Confirmed>>, Error> {
        if confirmations.len() > MAX_BATCH {
            return Err(Error::TooMany);
        }
        let op = Op::Confirm(confirmations);
        pick(
            self.apply(&op, payload, now_ms).await?,
            |answer| match answer {
                Answer::Confirmed(confirmed) => Some(confirmed),
                _ => None,
            },
        )
    }

    /// Ends holds whose time is over and forgets old memories: at most `limit` together, at most [`MAX_BATCH`]. Answers
    /// how many were taken, and the holds among them.
    pub async fn expire(
        &self,
        limit: u32,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<Applied<(u32, Vec<Expired>)>, Error> {
        let limit = limit.min(MAX_BATCH as u32);
        let op = Op::Expire { limit };
        pick(
            self.apply(&op, payload, now_ms).await?,
            |answer| match answer {
                Answer::Expired { taken, expired } => Some((taken, expired)),
                _ => None,
            },
        )
    }

    /// Says what a member can do; of more than [`MAX_SKILLS`] skills none is taken.
    pub async fn set_skills(
        &self,
        change: SetSkills,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<Applied<MemberChange>, Error> {
        if change.skills.len() > MAX_SKILLS {
            return Err(Error::TooMany);
        }
        let applied = self.apply(&Op::SetSkills(change), payload, now_ms).await?;
        pick(applied, |answer| match answer {
            Answer::Member(change) => Some(change),
            _ => None,
        })
    }

    /// Lets the plans of at most `limit` of those who wait go on, at most [`MAX_BATCH`]; answers whose did.
    pub async fn advance(
        &self,
        limit: u32,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<Applied<Vec<Advanced>>, Error> {
        let limit = limit.min(MAX_BATCH as u32);
        let applied = self.apply(&Op::Advance { limit }, payload, now_ms).await?;
        pick(applied, |answer| match answer {
            Answer::Advanced(advanced) => Some(advanced),
            _ => None,
        })
    }

    /// Slots that may be lent, or must not be lent any more: at most [`MAX_BATCH`]. Doing it twice is doing it once.
    pub async fn set_slots(
        &self,
        change: SetSlots,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<Applied<SlotsChange>, Error> {
        if change.add.len() + change.remove.len() > MAX_BATCH {
            return Err(Error::TooMany);
        }
        let op = Op::SetSlots(change);
        pick(
            self.apply(&op, payload, now_ms).await?,
            |answer| match answer {
                Answer::Slots(change) => Some(change),
                _ => None,
            },
        )
    }

    /// A credit entry: a member of a fair pool is owed more, or less.
    pub async fn adjust(
        &self,
        adjustment: Adjustment,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<Applied<Adjusted>, Error> {
        let op = Op::Adjust(adjustment);
        pick(
            self.apply(&op, payload, now_ms).await?,
            |answer| match answer {
                Answer::Adjusted(adjusted) => Some(adjusted),
                _ => None,
            },
        )
    }

    /// A member accepts or declines an offer.
    pub async fn respond(
        &self,
        response: Response,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<Applied<Responded>, Error> {
        let op = Op::Respond(response);
        pick(
            self.apply(&op, payload, now_ms).await?,
            |answer| match answer {
                Answer::Responded(responded) => Some(responded),
                _ => None,
            },
        )
    }

    /// Moves on offers whose time is over: at most `limit`, at most [`MAX_WAKE`](allocation::MAX_WAKE).
    pub async fn reclaim(
        &self,
        limit: u32,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<Applied<Vec<Reclaimed>>, Error> {
        let limit = limit.min(allocation::MAX_WAKE as u32);
        let op = Op::Reclaim { limit };
        pick(
            self.apply(&op, payload, now_ms).await?,
            |answer| match answer {
                Answer::Reclaimed(reclaimed) => Some(reclaimed),
                _ => None,
            },
        )
    }

    /// Writes a payload into the log, nothing else.
    pub async fn note(&self, payload: &str, now_ms: Option<u64>) -> Result<Applied<()>, Error> {
        pick(self.apply(&Op::Note, payload, now_ms).await?, only_ok)
    }

    async fn apply_all(
        &self,
        ops: Vec<Op>,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<Vec<Applied<Outcome>>, Error> {
        let mut all = Vec::with_capacity(ops.len());
        for (i, op) in ops.iter().enumerate() {
            let payload = if i == 0 { payload } else { "" };
            all.push(self.apply(op, payload, now_ms).await?);
        }
        Ok(all)
    }
}

/// One operation for each [`MAX_BATCH`] items; an empty batch is still one.
fn chunks<T>(mut items: Vec<T>, op: impl Fn(Vec<T>) -> Op) -> Vec<Op> {
    let mut ops = Vec::new();
    while items.len() > MAX_BATCH {
        let rest = items.split_off(MAX_BATCH);
        ops.push(op(items));
        items = rest;
    }
    ops.push(op(items));
    ops
}

fn only_ok(answer: Answer) -> Option<()> {
    matches!(answer, Answer::Ok).then_some(())
}

fn pool_change(answer: Answer) -> Option<PoolChange> {
    match answer {
        Answer::Pool(change) => Some(change),
        _ => None,
    }
}

/// Several calls of one operation as one answer: the last position, all woken.
fn merge(
    all: Vec<Applied<Outcome>>,
    mut each: impl FnMut(Answer) -> Option<()>,
) -> Result<Applied<()>, Error> {
    let mut merged = Applied {
        seq: 0,
        at_ms: 0,
        answer: (),
        woken: Vec::new(),
        more: false,
    };
    for applied in all {
        let mut part = pick(applied, &mut each)?;
        part.woken.splice(0..0, merged.woken);
        merged = part;
    }
    Ok(merged)
}

fn pick<T>(
    applied: Applied<Outcome>,
    of: impl FnOnce(Answer) -> Option<T>,
) -> Result<Applied<T>, Error> {
    let Applied {
        seq,
        at_ms,
        answer,
        woken,
        more,
    } = applied;
    let answer = of(answer.answer).ok_or(allocation::Error::Unreadable {
        what: "answer",
        problem: "it belongs to another operation".into(),
    })?;
    Ok(Applied {
        seq,
        at_ms,
        answer,
        woken,
        more,
    })
}
