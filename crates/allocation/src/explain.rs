//! Why an allocation came to whom it came to: the state just before an entry of the log and the entry itself give the whole
//! decision, with everybody who was not chosen. The rules are not told again here: what they looked at is written down while
//! they do the operation once more, and the outcome must be the recorded one.

mod words;

use serde::Serialize;

use crate::error::Error;
use crate::id::{AllocationId, MemberId, PoolId, Skill};
use crate::log::LogEntry;
use crate::model::{Candidate, Choice, Corp, How, PickRule, Turn, Wait, Watcher};
use crate::plan::Plan;
use crate::pool::Strategy;
use crate::weight::Weight;

pub use crate::model::{Filter, TieRule};
pub use words::{Rule, WaitsFor, What};

/// One decision about an allocation. The same log gives the same text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The entry of the log.
    pub seq: u64,
    pub at_ms: u64,
    /// The operation, with the version of its meaning.
    pub op: &'static str,
    pub what: What,
    pub pool: PoolId,
    /// The pool that was looked at, if that is another one: a plan leads there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<PoolId>,
    /// What a member had to be able to do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Skill>,
    /// Version of the configuration of the pool that was looked at; None: there is no such pool any more.
    pub pool_version: Option<u64>,
    pub strategy: Option<Strategy>,
    /// None: it waits, or nothing changed.
    pub chosen: Option<MemberId>,
    /// What decided, in the order in which it did.
    pub rules: Vec<Rule>,
    pub tie: Option<Tie>,
    pub waits: Option<Waits>,
    /// It was left to a person because of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited: Option<Waited>,
    /// All members of the pool, by id.
    pub candidates: Vec<Considered>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Tie {
    pub rule: TieRule,
    /// So many others had the same claim.
    pub others: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Waits {
    pub why: WaitsFor,
    /// So many waited before it in its pool for the same.
    pub behind: usize,
    /// Of [`WaitsFor::ChannelLimit`]: when the channel may give again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
}

/// How long it waited, and how long the pool let it wait when it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Waited {
    pub since_ms: u64,
    pub waited_ms: u64,
    pub person_after_ms: u64,
}

/// A member of the pool, as the rules saw him.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Considered {
    pub member: MemberId,
    pub weight: Weight,
    /// Open allocations over all pools.
    pub load: u32,
    /// Least load: load divided by weight.
    pub load_per_weight: Option<f64>,
    /// Fair pools: how far he was below (above 0) or above his exact share, in customers.
    pub credit_before: Option<f64>,
    pub credit_after: Option<f64>,
    /// Fair pools: after so many more decisions he would be owed a whole customer. The smallest is the earliest deadline.
    pub due_in: Option<f64>,
    /// The first filter that kept him out; None: he could be picked.
    pub filter: Option<Filter>,
}

/// What this entry decided about the allocation: nothing, one thing, or two, when it waited and was woken at once. `before`
/// is the state just before the entry.
pub fn explain(
    before: &Corp,
    entry: &LogEntry,
    allocation: AllocationId,
) -> Result<Vec<Explanation>, Error> {
    fold_and_explain(&mut before.clone(), entry, allocation)
}

/// As [`explain`]; the state is that after the entry then.
pub fn fold_and_explain(
    corp: &mut Corp,
    entry: &LogEntry,
    allocation: AllocationId,
) -> Result<Vec<Explanation>, Error> {
    let mut witness = Witness {
        entry,
        allocation,
        under_way: None,
        found: Vec::new(),
    };
    corp.fold_watched(entry, &mut witness)?;
    Ok(witness.found)
}

struct Witness<'a> {
    entry: &'a LogEntry,
    allocation: AllocationId,
    under_way: Option<UnderWay>,
    found: Vec<Explanation>,
}

struct UnderWay {
    pool: PoolId,
    /// That is looked at.
    source: PoolId,
    needs: Vec<Skill>,
    preferred: bool,
    how: How,
    left_out: Vec<MemberId>,
    /// By the plan.
    avoid: Vec<MemberId>,
    now_ms: u64,
    behind: usize,
    /// By the limit of its channel.
    held_back_until_ms: Option<u64>,
    candidates: Vec<Candidate>,
    choice: Option<Choice>,
}

impl Watcher for Witness<'_> {
    fn begins(&mut self, corp: &Corp, turn: &Turn<'_>) {
        self.under_way = (turn.allocation == self.allocation).then(|| UnderWay {
            pool: turn.pool.clone(),
            source: turn.pool.clone(),
            needs: Vec::new(),
            preferred: false,
            how: turn.how.clone(),
            left_out: turn.left_out.to_vec(),
            avoid: Vec::new(),
            now_ms: turn.now_ms,
            behind: corp.queue_len(turn.pool, ""),
            held_back_until_ms: None,
            candidates: corp.candidates(turn.pool, turn.left_out, &[], &[], turn.now_ms),
            choice: None,
        });
    }

    /// Leases that were over may have been ended since it began.
    fn picks(&mut self, corp: &Corp, pool: &PoolId, _: &MemberId, class: usize) {
        if let Some(under_way) = &mut self.under_way {
            under_way.look(corp, pool, &[]);
            under_way.choice = corp.choice(pool, class);
        }
    }

    fn follows(&mut self, corp: &Corp, plan: &Plan) {
        if let (Some(under_way), Some(first)) = (&mut self.under_way, plan.steps().first()) {
            under_way.avoid = plan.avoid().to_vec();
            under_way.behind = corp.queue_len(&first.pool, &plan.queue(first));
            under_way.look(corp, &first.pool, &first.needs);
        }
    }

    fn held_back(&mut self, until_ms: u64) {
        if let Some(under_way) = &mut self.under_way {
            under_way.held_back_until_ms = Some(until_ms);
        }
    }

    fn picks_able(
        &mut self,
        corp: &Corp,
        pool: &PoolId,
        _: &MemberId,
        choice: Choice,
        needs: &[Skill],
    ) {
        if let Some(under_way) = &mut self.under_way {
            under_way.look(corp, pool, needs);
            under_way.choice = Some(choice);
        }
    }

    fn prefers(&mut self, corp: &Corp, pool: &PoolId, _: &MemberId, needs: &[Skill]) {
        if let Some(under_way) = &mut self.under_way {
            under_way.look(corp, pool, needs);
            under_way.preferred = true;
        }
    }

    fn gives_up(&mut self, corp: &Corp, wait: &Wait<'_>) {
        if wait.allocation == self.allocation {
            self.found.push(left_to_a_person(self.entry, corp, wait));
        }
    }

    fn ends(&mut self, corp: &Corp, member: Option<&MemberId>) {
        let Some(under_way) = self.under_way.take() else {
            return;
        };
        if member.is_none() && under_way.how == How::Woken {
            // It goes on waiting.
            return;
        }
        self.found
            .push(explanation(self.entry, under_way, corp, member));
    }
}

fn explanation(
    entry: &LogEntry,
    under_way: UnderWay,
    after: &Corp,
    member: Option<&MemberId>,
) -> Explanation {
    let policy = after.policy(&under_way.source);
    let waits = match (member, &under_way.how) {
        (None, How::Decided | How::Visited) => Some(Waits {
            why: under_way.waits_for(),
            behind: under_way.behind,
            until_ms: under_way.held_back_until_ms,
        }),
        _ => None,
    };
    Explanation {
        seq: entry.seq,
        at_ms: entry.at_ms,
        op: entry.op.name(),
        what: under_way.how.what(),
        pool_version: policy.map(|(version, _)| version),
        strategy: policy.map(|(_, strategy)| strategy),
        chosen: member.cloned(),
        rules: match (member, &under_way.how) {
            (None, How::MovedOn { .. }) => under_way.left_to_a_person(after),
            _ => under_way.rules(member.is_some()),
        },
        tie: under_way.tie(),
        waits,
        waited: None,
        candidates: considered(&under_way, after),
        source: (under_way.source != under_way.pool).then_some(under_way.source),
        needs: under_way.needs,
        pool: under_way.pool,
    }
}

/// Nobody could be picked until now; the members are shown as they are at that moment.
fn left_to_a_person(entry: &LogEntry, corp: &Corp, wait: &Wait<'_>) -> Explanation {
    let mut under_way = UnderWay {
        pool: wait.pool.clone(),
        source: wait.pool.clone(),
        needs: Vec::new(),
        preferred: false,
        how: How::Woken,
        left_out: Vec::new(),
        avoid: wait.avoid.to_vec(),
        now_ms: wait.now_ms,
        behind: 0,
        held_back_until_ms: None,
        candidates: Vec::new(),
        choice: None,
    };
    under_way.look(corp, wait.pool, wait.needs);
    Explanation {
        what: What::LeftToPerson,
        rules: vec![Rule::WaitedTooLong],
        waited: Some(Waited {
            since_ms: wait.since_ms,
            waited_ms: wait.now_ms.saturating_sub(wait.since_ms),
            person_after_ms: wait.person_after_ms,
        }),
        ..explanation(entry, under_way, corp, None)
    }
}

fn considered(under_way: &UnderWay, after: &Corp) -> Vec<Considered> {
    let can_be_picked = |one: &&Candidate| one.filter.is_none();
    let free = under_way.candidates.iter().filter(can_be_picked);
    let sum: f64 = free.map(|one| one.weight.as_f64()).sum();
    let afterwards = after.candidates(&under_way.source, &[], &[], &[], under_way.now_ms);
    let credit_after = |member: &MemberId| {
        let at = afterwards.binary_search_by(|one| one.member.cmp(member));
        at.ok().and_then(|at| afterwards[at].credit)
    };
    let one = |one: &Candidate| {
        let weight = one.weight.as_f64();
        let is_free = one.filter.is_none();
        let due_in = one.credit.filter(|_| is_free);
        let per_weight = f64::from(one.load) * 1000.0 / weight;
        Considered {
            member: one.member.clone(),
            weight: one.weight,
            load: one.load,
            load_per_weight: (one.credit.is_none() && weight > 0.0).then(|| short(per_weight)),
            credit_before: one.credit.map(short),
            credit_after: credit_after(&one.member).map(short),
            due_in: due_in.map(|credit| short((1.0 - credit) * sum / weight)),
            filter: one.filter,
        }
    };
    under_way.candidates.iter().map(one).collect()
}

/// A millionth of a customer is exact enough to be read, and there is no −0.
pub(crate) fn short(number: f64) -> f64 {
    (number * 1e6).round() / 1e6 + 0.0
}

impl How {
    fn what(&self) -> What {
        match self {
            How::Decided => What::Decided,
            How::Visited => What::Visited,
            How::Woken => What::Woken,
            How::Reassigned { .. } => What::Reassigned,
            How::MovedOn { .. } => What::MovedOn,
            How::Confirmed | How::Late | How::Mismatched | How::Direct => What::Confirmed,
            How::Kept { .. } => What::Kept,
        }
    }
}

impl UnderWay {
    /// At the members of this pool, and whether they can do this.
    fn look(&mut self, corp: &Corp, pool: &PoolId, needs: &[Skill]) {
        self.candidates = corp.candidates(pool, &self.left_out, &self.avoid, needs, self.now_ms);
        self.source = pool.clone();
        self.needs = needs.to_vec();
    }

    fn rules(&self, is_chosen: bool) -> Vec<Rule> {
        let first = match self.how {
            How::Decided | How::Visited => None,
            How::Woken => Some(Rule::LongestWaitingWoken),
            How::Reassigned { .. } => Some(Rule::Reassigned),
            How::MovedOn { .. } => Some(Rule::OfferOver),
            How::Confirmed => Some(Rule::Held),
            How::Late => Some(Rule::Late),
            How::Mismatched => Some(Rule::Mismatched),
            How::Direct => Some(Rule::Direct),
            How::Kept { .. } => Some(Rule::Kept),
        };
        let picked = self.choice.map(|choice| match choice.rule {
            PickRule::EarliestDeadline => Rule::EarliestDeadline,
            PickRule::MostCredit => Rule::MostCredit,
            PickRule::LeastLoad => Rule::LeastLoad,
        });
        let named = matches!(self.how, How::Reassigned { asked: true, .. }).then_some(Rule::Named);
        let preferred = self.preferred.then_some(Rule::Preferred);
        let rules = [first, preferred, picked, named].into_iter().flatten();
        rules.filter(|_| is_chosen).collect()
    }

    fn left_to_a_person(&self, after: &Corp) -> Vec<Rule> {
        let offer = after.content(&self.pool).and_then(|content| content.offer);
        let tries = offer.map_or(0, |offer| offer.tries as usize);
        let why = match self.left_out.len() < tries {
            true => Rule::NobodyLeft,
            false => Rule::TriesUsedUp,
        };
        vec![Rule::OfferOver, why]
    }

    fn tie(&self) -> Option<Tie> {
        let (rule, others) = self.choice?.tie?;
        Some(Tie { rule, others })
    }

    fn waits_for(&self) -> WaitsFor {
        if self.held_back_until_ms.is_some() {
            WaitsFor::ChannelLimit
        } else if self.behind > 0 {
            WaitsFor::BehindOthers
        } else if self.candidates.iter().any(|one| one.filter.is_none()) {
            WaitsFor::LeasesEnding
        } else {
            WaitsFor::NobodyFree
        }
    }
}

#[cfg(test)]
mod tests;
