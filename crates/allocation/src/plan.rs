//! How a subject is served where a pool alone does not say it: whom it had before, who is no use to it, what a member must
//! be able to do, where it may go beside its pool and after how long; with its text form.

use crate::error::Error;
use crate::id::{AllocationId, ChannelId, MemberId, PoolId, Skill, SubjectKey};
use crate::text::Fields;

/// Steps of one plan.
pub const MAX_STEPS: usize = 8;
/// Skills that one step asks for.
pub const MAX_NEEDS: usize = 8;
/// Members whom one plan prefers.
pub const MAX_PREFERRED: usize = 4;
/// Members whom one plan avoids: each is taken out of a pool and put back for every pick.
pub const MAX_AVOIDED: usize = 256;

/// Between steps. None of these can be part of an id.
const STEP: char = '\u{1c}';
/// Between the parts of a step.
const PART: char = '\u{1d}';
/// Between the items of a list.
const ITEM: char = '\u{1a}';
/// In the name of a queue, between what is needed and who is avoided.
const AVOID: char = '\u{1b}';
/// In the name of a queue, before the channel that limits those who are in it.
const THROUGH: char = '\u{19}';

/// Where a subject may find a member from some time on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    /// Counted from the request.
    pub after_ms: u64,
    pub pool: PoolId,
    /// A member must have all of them.
    pub needs: Vec<Skill>,
}

/// How one subject is served. Whoever asks makes it, from what the pool and the channel say and from what is asked for; it
/// goes with the request into the log, and stands with the allocation as long as it is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    prefer: Vec<MemberId>,
    /// In order, each once: plans that avoid the same have the same text.
    avoid: Vec<MemberId>,
    steps: Vec<Step>,
    person_after_ms: Option<u64>,
    through: Option<ChannelId>,
}

impl Plan {
    /// `prefer`: the first of these who can be picked gets the subject, whoever else is next. `steps`: they are tried in the
    /// order of their times, those of one time in the order in which they stand here, and the first that finds a member
    /// serves; the first begins at once. `person_after_ms`: who still waits then waits for a person to decide.
    pub fn new(
        prefer: Vec<MemberId>,
        mut steps: Vec<Step>,
        person_after_ms: Option<u64>,
    ) -> Result<Self, Error> {
        for step in &mut steps {
            step.needs.sort();
            step.needs.dedup();
        }
        steps.sort_by_key(|step| step.after_ms);
        let same = |a: &Step, b: &Step| a.pool == b.pool && a.needs == b.needs;
        let again = |(i, step): (usize, &Step)| steps[..i].iter().any(|other| same(other, step));
        let problem = if steps.first().is_none_or(|first| first.after_ms > 0) {
            "no step begins at once"
        } else if steps.len() > MAX_STEPS {
            "too many steps"
        } else if steps.iter().any(|step| step.needs.len() > MAX_NEEDS) {
            "a step needs too much"
        } else if prefer.len() > MAX_PREFERRED {
            "too many members are preferred"
        } else if steps.iter().enumerate().any(again) {
            "two steps are the same"
        } else {
            return Ok(Self {
                prefer,
                avoid: Vec::new(),
                steps,
                person_after_ms,
                through: None,
            });
        };
        Err(Error::Text {
            what: "plan",
            problem,
        })
    }

    /// These never get the subject, in none of the pools, as if they were away for the moment of each pick: by it they earn
    /// nothing and lose nothing.
    pub fn avoiding(self, mut avoid: Vec<MemberId>) -> Result<Self, Error> {
        avoid.sort();
        avoid.dedup();
        if avoid.len() > MAX_AVOIDED {
            return Err(Error::Text {
                what: "plan",
                problem: "too many members are avoided",
            });
        }
        Ok(Self { avoid, ..self })
    }

    /// It comes through this channel, and is passed over while the channel gave what it may in this hour and on this day: see
    /// [`crate::SetChannel`].
    pub fn limited_by(self, channel: ChannelId) -> Self {
        Self {
            through: Some(channel),
            ..self
        }
    }

    /// The channel that limits it.
    pub fn through(&self) -> Option<&ChannelId> {
        self.through.as_ref()
    }

    pub fn prefer(&self) -> &[MemberId] {
        &self.prefer
    }

    pub fn avoid(&self) -> &[MemberId] {
        &self.avoid
    }

    /// By their times.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub fn person_after_ms(&self) -> Option<u64> {
        self.person_after_ms
    }

    /// As it stands behind a pool in arguments, and in what Redis and the ledger keep.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if let Some(after_ms) = self.person_after_ms {
            text.push_str(&after_ms.to_string());
        }
        text.push(PART);
        push_list(&mut text, self.prefer.iter().map(MemberId::as_str));
        if !self.avoid.is_empty() || self.through.is_some() {
            text.push(PART);
            push_list(&mut text, self.avoid.iter().map(MemberId::as_str));
        }
        if let Some(channel) = &self.through {
            text.push(PART);
            text.push_str(channel.as_str());
        }
        for step in &self.steps {
            let (pool, after_ms) = (&step.pool, step.after_ms);
            text.push_str(&format!("{STEP}{pool}{PART}{after_ms}{PART}"));
            push_list(&mut text, step.needs.iter().map(Skill::as_str));
        }
        text
    }

    /// Reads [`Plan::text`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let unreadable = || Error::unreadable("plan", text);
        let mut parts = text.split(STEP);
        let head = parts.next().and_then(|head| head.split_once(PART));
        let (person, members) = head.ok_or_else(unreadable)?;
        let (prefer, rest) = members.split_once(PART).unwrap_or((members, ""));
        let (avoid, through) = rest.split_once(PART).unwrap_or((rest, ""));
        let mut steps = Vec::new();
        for step in parts {
            let mut fields = step.split(PART);
            let (Some(pool), Some(after), Some(needs), None) =
                (fields.next(), fields.next(), fields.next(), fields.next())
            else {
                return Err(unreadable());
            };
            steps.push(Step {
                after_ms: after.parse().map_err(|_| unreadable())?,
                pool: pool.parse()?,
                needs: list(needs)?,
            });
        }
        let person_after_ms = (!person.is_empty()).then(|| person.parse());
        let person_after_ms = person_after_ms.transpose().map_err(|_| unreadable())?;
        let plan = Self::new(list(prefer)?, steps, person_after_ms)?.avoiding(list(avoid)?)?;
        match through {
            "" => Ok(plan),
            channel => Ok(plan.limited_by(channel.parse()?)),
        }
    }

    /// The name of the queue of those who wait for this step: who may be served by the same members stands in the same one.
    pub(crate) fn queue(&self, step: &Step) -> String {
        let mut text = String::new();
        push_list(&mut text, step.needs.iter().map(Skill::as_str));
        if !self.avoid.is_empty() {
            text.push(AVOID);
            push_list(&mut text, self.avoid.iter().map(MemberId::as_str));
        }
        if let Some(channel) = &self.through {
            text.push(THROUGH);
            text.push_str(channel.as_str());
        }
        text
    }
}

/// One of those who wait, whose plan went on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advanced {
    pub allocation: AllocationId,
    pub pool: PoolId,
    pub subject: SubjectKey,
    pub to: AdvancedTo,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdvancedTo {
    /// More steps are open to it. If one of them found a member it is among the woken.
    Steps,
    /// It waited long enough: it stands in no list any more, a person must decide.
    Person,
}

impl Advanced {
    /// Three ids and a word.
    pub(crate) fn fields(&self) -> [String; 4] {
        let word = match self.to {
            AdvancedTo::Steps => "STEPS",
            AdvancedTo::Person => "PERSON",
        };
        [
            self.allocation.to_string(),
            self.pool.to_string(),
            self.subject.to_string(),
            word.to_owned(),
        ]
    }

    pub(crate) fn parse(fields: &mut Fields<'_>) -> Result<Self, Error> {
        Ok(Self {
            allocation: fields.parse()?,
            pool: fields.parse()?,
            subject: fields.parse()?,
            to: match fields.next()? {
                "STEPS" => AdvancedTo::Steps,
                "PERSON" => AdvancedTo::Person,
                other => return Err(Error::unreadable("advanced", other)),
            },
        })
    }
}

/// Whether this can be the name of a queue.
pub(crate) fn check_queue(text: &str) -> Result<(), Error> {
    let (text, channel) = text.split_once(THROUGH).unwrap_or((text, ""));
    let (needs, avoid) = text.split_once(AVOID).unwrap_or((text, ""));
    list::<Skill>(needs)?;
    list::<MemberId>(avoid)?;
    list::<ChannelId>(channel)?;
    Ok(())
}

/// The channel that limits those who are in the queue of this name.
pub(crate) fn through(queue: &str) -> Option<ChannelId> {
    let (_, channel) = queue.split_once(THROUGH)?;
    channel.parse().ok()
}

fn push_list<'a>(text: &mut String, items: impl Iterator<Item = &'a str>) {
    for (i, item) in items.enumerate() {
        if i > 0 {
            text.push(ITEM);
        }
        text.push_str(item);
    }
}

fn list<T: std::str::FromStr<Err = Error>>(text: &str) -> Result<Vec<T>, Error> {
    let items = text.split(ITEM).filter(|item| !item.is_empty());
    items.map(str::parse).collect()
}

/// A pool and what stands behind it: one field of arguments.
pub(crate) fn pool_field(pool: &PoolId, plan: Option<&Plan>) -> String {
    match plan {
        Some(plan) => format!("{pool}{STEP}{}", plan.text()),
        None => pool.to_string(),
    }
}

/// Reads [`pool_field`].
pub(crate) fn read_pool_field(text: &str) -> Result<(PoolId, Option<Plan>), Error> {
    match text.split_once(STEP) {
        Some((pool, plan)) => Ok((pool.parse()?, Some(Plan::parse(plan)?))),
        None => Ok((text.parse()?, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(pool: &str, after_ms: u64, needs: &[&str]) -> Step {
        Step {
            after_ms,
            pool: pool.parse().unwrap(),
            needs: needs.iter().map(|need| need.parse().unwrap()).collect(),
        }
    }

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let steps = vec![
            step("b", 60_000, &[]),
            step("a", 0, &["vip", "lang:en", "vip"]),
        ];
        let plan = Plan::new(vec!["LiSi".parse().unwrap()], steps, Some(600_000)).unwrap();
        assert_eq!(plan.steps()[0], step("a", 0, &["lang:en", "vip"]));
        assert_eq!(Plan::parse(&plan.text()), Ok(plan.clone()));
        let bare = Plan::new(Vec::new(), vec![step("a", 0, &[])], None).unwrap();
        assert_eq!(Plan::parse(&bare.text()), Ok(bare.clone()));
        assert_eq!(bare.text(), "\u{1d}\u{1c}a\u{1d}0\u{1d}");
        let pool = "a".parse().unwrap();
        let avoid = |plan: &Plan| plan.clone().avoiding(members(&["mb", "ma", "mb"]));
        let (choosy, both) = (avoid(&bare).unwrap(), avoid(&plan).unwrap());
        assert_eq!(choosy.avoid(), members(&["ma", "mb"]));
        assert_eq!(choosy.text(), "\u{1d}\u{1d}ma\u{1a}mb\u{1c}a\u{1d}0\u{1d}");
        for plan in [None, Some(plan), Some(bare), Some(choosy), Some(both)] {
            let field = pool_field(&pool, plan.as_ref());
            assert_eq!(read_pool_field(&field), Ok((pool.clone(), plan)));
        }
    }

    fn members(names: &[&str]) -> Vec<MemberId> {
        let names = names.iter();
        names.map(|name| name.parse().unwrap()).collect()
    }

    /// Who avoids somebody must not hold up who does not, so they stand in different queues.
    #[test]
    fn a_queue_is_named_after_who_may_serve_it() {
        let needs = step("a", 0, &["vip", "en"]);
        let plan = Plan::new(Vec::new(), vec![needs, step("b", 5, &[])], None).unwrap();
        let names = |plan: &Plan| -> Vec<String> {
            let names = plan.steps().iter().map(|step| plan.queue(step));
            names.inspect(|name| check_queue(name).unwrap()).collect()
        };
        assert_eq!(names(&plan), ["en\u{1a}vip", ""]);
        let plan = plan.avoiding(members(&["mb", "ma"])).unwrap();
        let avoid = "\u{1b}ma\u{1a}mb";
        assert_eq!(names(&plan), [format!("en\u{1a}vip{avoid}"), avoid.into()]);
        assert!(check_queue("en\u{1b}m\u{1d}").is_err());
    }

    #[test]
    fn what_cannot_be_followed_is_refused() {
        let plan = |prefer: usize, steps: Vec<Step>| {
            let prefer = (0..prefer).map(|i| format!("m{i}").parse().unwrap());
            Plan::new(prefer.collect(), steps, None).map(|_| ())
        };
        let needs: Vec<String> = (0..9).map(|i| format!("s{i}")).collect();
        let needs: Vec<&str> = needs.iter().map(String::as_str).collect();
        for (prefer, steps, problem) in [
            (0, vec![], "no step begins at once"),
            (0, vec![step("a", 1, &[])], "no step begins at once"),
            (
                0,
                vec![step("a", 0, &[]), step("a", 9, &[])],
                "two steps are the same",
            ),
            (5, vec![step("a", 0, &[])], "too many members are preferred"),
            (0, vec![step("a", 0, &needs)], "a step needs too much"),
        ] {
            let what = "plan";
            assert_eq!(plan(prefer, steps), Err(Error::Text { what, problem }));
        }
        let many = (0..=MAX_AVOIDED).map(|i| format!("m{i}").parse().unwrap());
        let problem = "too many members are avoided";
        let plan = Plan::new(Vec::new(), vec![step("a", 0, &[])], None).unwrap();
        assert_eq!(
            plan.avoiding(many.collect()),
            Err(Error::Text {
                what: "plan",
                problem
            })
        );
        assert!(Plan::parse("").is_err());
        assert!(Plan::parse("x\u{1d}\u{1c}a\u{1d}0\u{1d}").is_err());
    }
}
