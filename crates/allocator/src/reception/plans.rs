//! The plan of a request: what its pool says of other pools and skills, what its channel needs, whom the customer had before,
//! and who cannot be shown to a visitor. Pure; `owners` looks up who had him.

use allocation::{
    ChannelId, MAX_NEEDS, MAX_PREFERRED, MAX_STEPS, MemberId, Plan, PoolId, Skill, Step,
    SubjectKey, Weight,
};
use ledger::{Fallback, Otherwise, Preference, Routing};
use sha2::{Digest, Sha256};

use super::routes::{Able, Pool};

/// So many are preferred of whom nobody had: the first may be off.
const RENDEZVOUS: usize = 3;

/// What one request asks for.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub pool: &'a PoolId,
    pub subject: SubjectKey,
    /// Of the channel and of the request.
    pub needs: &'a [Skill],
    /// Whoever asks prefers him.
    pub prefer: Option<&'a MemberId>,
    /// Who had the customer last, if that matters.
    pub owner: Option<&'a MemberId>,
    /// These cannot have him now.
    pub avoid: &'a [MemberId],
    /// He comes through this channel, and only so many who do are given a member.
    pub through: Option<&'a ChannelId>,
}

/// A plan, and what is told of it beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    pub plan: Plan,
    /// Why the plan prefers each of those whom it prefers, in its order.
    pub why: Vec<Preference>,
}

impl Planned {
    /// As they stand in the payload.
    pub fn words(&self) -> Vec<String> {
        self.why.iter().map(|why| why.as_str().to_owned()).collect()
    }
}

/// None: the pool alone serves whoever comes, which is quicker.
pub fn plan(pool: &Pool, asked: &Asked<'_>) -> Option<Planned> {
    let steps = steps(&pool.routing, asked.pool, asked.needs);
    let (prefer, why) = preferred(pool, asked).into_iter().unzip();
    let plan = Made {
        steps,
        prefer,
        avoid: asked.avoid,
        through: asked.through,
    };
    let plan = plan.with(&pool.routing)?;
    Some(Planned { plan, why })
}

/// Of a request that had this plan, had its pool said this: it needs the same, prefers and
/// avoids the same members, and came through the same channel.
pub fn again(routing: &Routing, pool: &PoolId, was: Option<&Plan>) -> Option<Plan> {
    let first = was.and_then(|plan| plan.steps().first());
    let needs = first.map_or(&[][..], |step| &step.needs);
    let prefer = was.map_or_else(Vec::new, |plan| plan.prefer().to_vec());
    let avoid = was.map_or(&[][..], Plan::avoid);
    let plan = Made {
        steps: steps(routing, pool, needs),
        prefer,
        avoid,
        through: was.and_then(Plan::through),
    };
    plan.with(routing)
}

struct Made<'a> {
    steps: Vec<Step>,
    prefer: Vec<MemberId>,
    avoid: &'a [MemberId],
    through: Option<&'a ChannelId>,
}

impl Made<'_> {
    fn with(self, routing: &Routing) -> Option<Plan> {
        let person_after_ms = routing.person_after_seconds.map(|seconds| seconds * 1_000);
        let is_one = self.steps.len() == 1 && self.steps.iter().all(|step| step.needs.is_empty());
        let is_anybody = self.prefer.is_empty() && self.avoid.is_empty();
        if is_one && is_anybody && person_after_ms.is_none() && self.through.is_none() {
            return None;
        }
        // `steps` and `preferred` make nothing that cannot be followed, and nobody asks to avoid more than can be.
        let plan = Plan::new(self.prefer, self.steps, person_after_ms).ok()?;
        let plan = plan.avoiding(self.avoid.to_vec()).ok()?;
        Some(match self.through {
            Some(channel) => plan.limited_by(channel.clone()),
            None => plan,
        })
    }
}

/// Where a subject of this pool may find a member, and from when on. No two are the same, the first begins at once, and
/// where more are configured than a plan can have, the last to begin are left out.
pub fn steps(routing: &Routing, pool: &PoolId, needs: &[Skill]) -> Vec<Step> {
    let mut needs = needs.to_vec();
    needs.sort();
    needs.dedup();
    needs.truncate(MAX_NEEDS);
    let needed_after = |after_ms: u64| {
        let relaxed = |need: &&Skill| {
            let mut relax = routing.relax.iter();
            relax.any(|relax| relax.skill == **need && relax.after_seconds * 1_000 <= after_ms)
        };
        let needs = needs.iter().filter(|need| !relaxed(need));
        needs.cloned().collect::<Vec<_>>()
    };
    let own = |after_ms| Step {
        after_ms,
        pool: pool.clone(),
        needs: match after_ms {
            0 => needs.clone(),
            _ => needed_after(after_ms),
        },
    };
    let other = |fallback: &Fallback| {
        let after_ms = fallback.after_seconds * 1_000;
        let mut needs = needed_after(after_ms);
        needs.retain(|need| !fallback.without.contains(need));
        Step {
            after_ms,
            pool: fallback.pool.clone(),
            needs,
        }
    };
    let times = routing
        .relax
        .iter()
        .map(|relax| relax.after_seconds * 1_000);
    let mut all: Vec<Step> = std::iter::once(0).chain(times).map(own).collect();
    all.extend(routing.fallbacks.iter().map(other));
    // Of those that begin together the pool itself stays first.
    all.sort_by_key(|step| step.after_ms);
    let mut steps: Vec<Step> = Vec::with_capacity(all.len());
    for step in all {
        let is_same = |known: &Step| known.pool == step.pool && known.needs == step.needs;
        if !steps.iter().any(is_same) {
            steps.push(step);
        }
    }
    steps.truncate(MAX_STEPS);
    steps
}

/// At most so many steps a plan of this pool has, whatever is needed.
pub fn most_steps(routing: &Routing) -> usize {
    let times = routing.relax.iter().map(|relax| relax.after_seconds);
    let times: std::collections::BTreeSet<u64> = times.collect();
    1 + times.len() + routing.fallbacks.len()
}

/// Each once, for the first reason that there is.
fn preferred(pool: &Pool, asked: &Asked<'_>) -> Vec<(MemberId, Preference)> {
    let mut prefer: Vec<(MemberId, Preference)> = Vec::new();
    fn is_new(prefer: &[(MemberId, Preference)], member: &MemberId) -> bool {
        prefer.iter().all(|(known, _)| known != member)
    }
    let wanted = asked.prefer.map(|member| (member, Preference::AskedFor));
    let owner = asked.owner.map(|member| (member, Preference::EarlierOwner));
    for (member, why) in wanted.into_iter().chain(owner) {
        if is_new(&prefer, member) && !asked.avoid.contains(member) {
            prefer.push((member.clone(), why));
        }
    }
    let is_rendezvous = |sticky: &ledger::Sticky| sticky.otherwise == Otherwise::Rendezvous;
    if asked.owner.is_none() && pool.routing.sticky.as_ref().is_some_and(is_rendezvous) {
        let is_able = |able: &&Able| {
            asked.needs.iter().all(|need| able.skills.contains(need))
                && !asked.avoid.contains(&able.member)
        };
        let able = pool.able.iter().filter(is_able);
        let able = able.map(|able| (&able.member, able.weight));
        for member in rendezvous(asked.subject, able, RENDEZVOUS) {
            if is_new(&prefer, &member) {
                prefer.push((member, Preference::Rendezvous));
            }
        }
    }
    prefer.truncate(MAX_PREFERRED);
    prefer
}

/// Of these the first so many for a subject, always the same: each has a share of all subjects in proportion to his
/// weight, and when one leaves only his subjects come to others. (Weighted rendezvous hashing: who has the largest
/// -weight / ln(u), u the hash of subject and member as a number between 0 and 1.)
pub fn rendezvous<'a>(
    subject: SubjectKey,
    members: impl Iterator<Item = (&'a MemberId, Weight)>,
    n: usize,
) -> Vec<MemberId> {
    let subject = subject.to_string();
    let scored = members.filter(|(_, weight)| !weight.is_zero());
    let mut scored: Vec<(f64, &MemberId)> = scored
        .map(|(member, weight)| {
            (
                -f64::from(weight.thousandths()) / unit(&subject, member).ln(),
                member,
            )
        })
        .collect();
    scored.sort_by(|one, two| two.0.total_cmp(&one.0).then_with(|| one.1.cmp(two.1)));
    let first = scored.into_iter().take(n);
    first.map(|(_, member)| member.clone()).collect()
}

/// Between 0 and 1, neither of them.
fn unit(subject: &str, member: &MemberId) -> f64 {
    const BITS: u32 = 52;
    let digest = Sha256::digest(format!("{subject}\u{1f}{member}").as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    let number = u64::from_be_bytes(first) >> (u64::BITS - BITS);
    (number as f64 + 0.5) / (1_u64 << BITS) as f64
}

#[cfg(test)]
#[path = "plans_tests.rs"]
mod tests;
