//! What a pool, a channel, a member and a request say of skills, of other pools and of earlier members: read and checked.

use std::collections::BTreeSet;

use allocation::{MAX_NEEDS, MAX_SKILLS, MAX_STEPS, PoolId, Skill};
use ledger::{Fallback, Otherwise, Relax, Routing, Sticky};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{problem::Problem, validate::Fields};
use crate::reception::plans;

/// The pool itself is a step of each plan, too.
const MOST_FALLBACKS: usize = MAX_STEPS - 1;
const LONGEST_WAIT_S: u64 = 30 * 24 * 60 * 60;
const LONGEST_DRIP_S: u64 = 24 * 60 * 60;
const MOST_DAYS: u64 = 3_650;

/// Another pool that serves customers of this one.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PoolFallback {
    pool: String,
    /// Counted from the request; 0: as soon as nobody of the pools before it is free.
    #[serde(default)]
    #[schema(default = 0, maximum = 2_592_000)]
    after_seconds: u64,
    /// Skills that its members need not have.
    #[serde(default)]
    without: Vec<String>,
}

/// A skill that is done without after a while.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PoolRelax {
    skill: String,
    /// Counted from the request.
    #[schema(minimum = 1, maximum = 2_592_000)]
    after_seconds: u64,
}

/// Whoever had a customer gets him again, if he is free and can do what is needed.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PoolSticky {
    /// Who had the customer longer ago does not count; in whichever pool it was.
    #[schema(minimum = 1, maximum = 3650)]
    days: u64,
    #[serde(default)]
    #[schema(default = "next")]
    otherwise: OtherwiseName,
}

/// Who gets a customer whom nobody had.
#[derive(Debug, Clone, Copy, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum OtherwiseName {
    /// Whoever is next.
    #[default]
    Next,
    /// The same customer always comes to the same member while he is free, though nothing is remembered.
    Rendezvous,
}

impl From<OtherwiseName> for Otherwise {
    fn from(name: OtherwiseName) -> Self {
        match name {
            OtherwiseName::Next => Self::Next,
            OtherwiseName::Rendezvous => Self::Rendezvous,
        }
    }
}

impl From<Otherwise> for OtherwiseName {
    fn from(otherwise: Otherwise) -> Self {
        match otherwise {
            Otherwise::Next => Self::Next,
            Otherwise::Rendezvous => Self::Rendezvous,
        }
    }
}

/// The fields of a pool that are about this.
#[derive(Debug, Clone, Copy)]
pub(super) struct PutRouting<'a> {
    pub(super) fallbacks: &'a [PoolFallback],
    pub(super) relax: &'a [PoolRelax],
    pub(super) sticky: Option<&'a PoolSticky>,
    pub(super) drip_seconds: Option<u64>,
    pub(super) alert_after_seconds: Option<u64>,
    pub(super) person_after_seconds: Option<u64>,
}

/// What this pool does, as far as it can be told without looking at others.
pub(super) fn check(id: &PoolId, wanted: PutRouting<'_>, fields: &mut Fields) -> Routing {
    let waits = 1..=LONGEST_WAIT_S;
    let alert = wanted.alert_after_seconds;
    fields.range("/alert_after_seconds", alert, waits.clone());
    let person = wanted.person_after_seconds;
    fields.range("/person_after_seconds", person, waits);
    fields.range("/drip_seconds", wanted.drip_seconds, 1..=LONGEST_DRIP_S);
    let days = wanted.sticky.map(|sticky| sticky.days);
    fields.range("/sticky/days", days, 1..=MOST_DAYS);
    let routing = Routing {
        fallbacks: check_fallbacks(id, wanted.fallbacks, fields),
        relax: check_relax(wanted.relax, fields),
        sticky: wanted.sticky.map(|sticky| Sticky {
            days: u32::try_from(sticky.days).unwrap_or(u32::MAX),
            otherwise: sticky.otherwise.into(),
        }),
        drip_seconds: wanted.drip_seconds,
        alert_after_seconds: alert,
        person_after_seconds: person,
    };
    let most = plans::most_steps(&routing);
    if most > MAX_STEPS && fields.is_empty() {
        let message = format!(
            "the pool itself, the times in `relax` and the fallbacks are {most} steps, at most {MAX_STEPS} are possible"
        );
        fields.wrong("/fallbacks", "too_many_steps", message);
    }
    routing
}

fn check_fallbacks(id: &PoolId, wanted: &[PoolFallback], fields: &mut Fields) -> Vec<Fallback> {
    if wanted.len() > MOST_FALLBACKS {
        let message = format!("at most {MOST_FALLBACKS} fallbacks are possible");
        fields.wrong("/fallbacks", "too_many", message);
    }
    let mut fallbacks: Vec<Fallback> = Vec::new();
    for (index, one) in wanted.iter().enumerate().take(MOST_FALLBACKS) {
        let pointer = |field| format!("/fallbacks/{index}/{field}");
        let after = Some(one.after_seconds);
        fields.range(pointer("after_seconds"), after, 0..=LONGEST_WAIT_S);
        let without = skills(fields, &pointer("without"), &one.without, MAX_SKILLS);
        let without = without.into_iter().collect();
        let Some(pool) = fields.parse::<PoolId>(pointer("pool"), &one.pool) else {
            continue;
        };
        let is_same = |known: &Fallback| known.pool == pool && known.without == without;
        if pool == *id {
            let message = "a pool cannot be its own fallback; see `relax`";
            fields.wrong(pointer("pool"), "itself", message);
        } else if fallbacks.iter().any(is_same) {
            let message = format!("{pool} is in the list twice, without the same skills");
            fields.wrong(pointer("pool"), "duplicate_fallback", message);
        }
        fallbacks.push(Fallback {
            pool,
            after_seconds: one.after_seconds,
            without,
        });
    }
    fallbacks
}

/// Fallbacks that are not there.
pub(super) fn unknown_pools(wanted: &[PoolFallback], unknown: &[PoolId]) -> Problem {
    let mut fields = Fields::default();
    for (index, one) in wanted.iter().enumerate() {
        if one.pool.parse().is_ok_and(|pool| unknown.contains(&pool)) {
            let message = format!("there is no pool {}", one.pool);
            fields.wrong(format!("/fallbacks/{index}/pool"), "unknown_pool", message);
        }
    }
    let problem = fields.check().err();
    problem.unwrap_or_else(|| Problem::not_found("pool"))
}

fn check_relax(wanted: &[PoolRelax], fields: &mut Fields) -> Vec<Relax> {
    if wanted.len() > MAX_SKILLS {
        let message = format!("at most {MAX_SKILLS} skills are possible");
        fields.wrong("/relax", "too_many", message);
    }
    let mut seen = BTreeSet::new();
    let mut relax = Vec::new();
    for (index, one) in wanted.iter().enumerate().take(MAX_SKILLS) {
        let pointer = |field| format!("/relax/{index}/{field}");
        let after = Some(one.after_seconds);
        fields.range(pointer("after_seconds"), after, 1..=LONGEST_WAIT_S);
        let Some(skill) = fields.parse::<Skill>(pointer("skill"), &one.skill) else {
            continue;
        };
        if !seen.insert(skill.clone()) {
            let message = format!("{skill} is in the list twice");
            fields.wrong(pointer("skill"), "duplicate_skill", message);
        }
        relax.push(Relax {
            skill,
            after_seconds: one.after_seconds,
        });
    }
    relax
}

/// A list of skills, each once and at most so many.
pub(super) fn skills(
    fields: &mut Fields,
    pointer: &str,
    wanted: &[String],
    most: usize,
) -> Vec<Skill> {
    if wanted.len() > most {
        let message = format!("at most {most} skills are possible");
        fields.wrong(pointer, "too_many", message);
    }
    let mut skills = BTreeSet::new();
    for (index, text) in wanted.iter().enumerate().take(most) {
        let pointer = format!("{pointer}/{index}");
        let Some(skill) = fields.parse::<Skill>(pointer.clone(), text) else {
            continue;
        };
        if !skills.insert(skill.clone()) {
            let message = format!("{skill} is in the list twice");
            fields.wrong(pointer, "duplicate_skill", message);
        }
    }
    skills.into_iter().collect()
}

/// What a member must be able to do.
pub(super) fn needs(fields: &mut Fields, wanted: &[String]) -> Vec<Skill> {
    skills(fields, "/needs", wanted, MAX_NEEDS)
}

/// As a request has them, with those of its channel.
pub(super) fn needs_with(
    fields: &mut Fields,
    wanted: &[String],
    of_channel: &[Skill],
) -> Vec<Skill> {
    let needs: BTreeSet<Skill> = needs(fields, wanted)
        .into_iter()
        .chain(of_channel.iter().cloned())
        .collect();
    if needs.len() > MAX_NEEDS && wanted.len() <= MAX_NEEDS {
        let message = format!(
            "with those of the channel they are {}, at most {MAX_NEEDS} are possible",
            needs.len()
        );
        fields.wrong("/needs", "too_many", message);
    }
    needs.into_iter().collect()
}

pub(super) fn names<'s>(skills: impl IntoIterator<Item = &'s Skill>) -> Vec<String> {
    skills.into_iter().map(Skill::to_string).collect()
}

impl From<&Fallback> for PoolFallback {
    fn from(fallback: &Fallback) -> Self {
        Self {
            pool: fallback.pool.to_string(),
            after_seconds: fallback.after_seconds,
            without: names(&fallback.without),
        }
    }
}

impl From<&Relax> for PoolRelax {
    fn from(relax: &Relax) -> Self {
        Self {
            skill: relax.skill.to_string(),
            after_seconds: relax.after_seconds,
        }
    }
}

impl From<Sticky> for PoolSticky {
    fn from(sticky: Sticky) -> Self {
        Self {
            days: sticky.days.into(),
            otherwise: sticky.otherwise.into(),
        }
    }
}
