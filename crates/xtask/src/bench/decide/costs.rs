//! P28: what a pool's further features cost: the time of one decision ÷ that of a plain pool of as many members, 16 in
//! flight, at 50, 500 and 5,000 members. A pool that does not use a feature pays nothing for it; that is what P13 to P18
//! show.
//!
//! - `windows`: every member has limits by the hour and by the day.
//! - `skills`: one member in ten can do what is needed; only those earn by the decision, each of them is written.
//! - `tiers`: the pool that is asked is full, another one serves.
//! - `sticky`: the member who had the customer before can be picked, and is.
//! - `offers`: the member who is picked is asked first.
//! - `channel`: the channel it comes through has limits.

use allocation::{
    ChannelId, GivenBefore, Limits, OfferRule, Plan, PoolConfig, PoolId, SetChannel, SetMember,
    SetSkills, Skill, Step, Strategy, Weight,
};
use inbox::connect::Connection;
use roster::CorpRoster;

use super::corp::{POOL, Shape, member};
use super::{CLIENTS, Measured, PIPELINE, Stand, words};
use crate::bench::Samples;
use crate::bench::row::Sample;

const ROWS: [(u32, [&str; 6]); 3] = [
    (
        50,
        [
            "P28-windows-50",
            "P28-skills-50",
            "P28-tiers-50",
            "P28-sticky-50",
            "P28-offers-50",
            "P28-channel-50",
        ],
    ),
    (
        500,
        [
            "P28-windows-500",
            "P28-skills-500",
            "P28-tiers-500",
            "P28-sticky-500",
            "P28-offers-500",
            "P28-channel-500",
        ],
    ),
    (
        5_000,
        [
            "P28-windows-5000",
            "P28-skills-5000",
            "P28-tiers-5000",
            "P28-sticky-5000",
            "P28-offers-5000",
            "P28-channel-5000",
        ],
    ),
];
const REQUESTS: usize = 20_000;
/// Never reached.
const LIMIT: u32 = 10_000_000;
const DAY_MS: u64 = 24 * 3_600_000;
const FULL: &str = "full";

pub(super) async fn round(stand: &mut Stand<'_>, samples: &mut Samples) -> anyhow::Result<()> {
    for (members, [windows, skills, tiers, sticky, offers, channel]) in ROWS {
        let shape = Shape {
            members,
            ..Shape::FAIR
        };
        stand.open(shape).await?;
        let plain = ask(stand, None)?;
        let mut add = |row, ours: Measured| {
            samples.add(row, Sample::ratio(plain.per_second, ours.per_second));
        };

        let corp = stand.open(shape).await?;
        limit(&corp, members).await?;
        add(windows, ask(stand, None)?);

        let corp = stand.open(shape).await?;
        teach(&corp, members).await?;
        let needs = vec![Skill::new("lang:en")?];
        let plan = Plan::new(Vec::new(), vec![step(POOL, needs)?], None)?;
        add(skills, ask(stand, Some(&plan))?);

        let corp = stand.open(shape).await?;
        let full = PoolConfig::new(PoolId::new(FULL)?, 1, Strategy::WeightedRoundRobin, [])?;
        corp.set_pool(full, "", None).await?;
        let steps = vec![step(FULL, Vec::new())?, step(POOL, Vec::new())?];
        add(
            tiers,
            ask_for(stand, FULL, Some(&Plan::new(Vec::new(), steps, None)?))?,
        );

        stand.open(shape).await?;
        let steps = vec![step(POOL, Vec::new())?];
        let plan = Plan::new(vec![member(members / 2)?], steps, None)?;
        add(sticky, ask(stand, Some(&plan))?);

        let corp = stand.open(shape).await?;
        let rule = OfferRule {
            accept_ms: DAY_MS,
            tries: 3,
        };
        corp.set_pool(pool(shape, 2)?.with_offers(Some(rule)), "", None)
            .await?;
        add(offers, ask(stand, None)?);

        let corp = stand.open(shape).await?;
        let through = ChannelId::new("c")?;
        corp.set_channel(open(through.clone()), "", None).await?;
        let plan = Plan::new(Vec::new(), vec![step(POOL, Vec::new())?], None)?;
        add(channel, ask(stand, Some(&plan.limited_by(through)))?);
    }
    Ok(())
}

/// Limits that are never reached.
fn open(channel: ChannelId) -> SetChannel {
    SetChannel {
        channel,
        per_hour: Some(LIMIT),
        per_day: Some(LIMIT),
        day_end_ms: None,
        given: GivenBefore::default(),
    }
}

fn step(pool: &str, needs: Vec<Skill>) -> anyhow::Result<Step> {
    Ok(Step {
        after_ms: 0,
        pool: PoolId::new(pool)?,
        needs,
    })
}

fn pool(shape: Shape, version: u64) -> anyhow::Result<PoolConfig> {
    let mut members = Vec::new();
    for number in 0..shape.members {
        let weight = Weight::from_thousandths(shape.weight(number) * 1_000)?;
        members.push((member(number)?, weight));
    }
    Ok(PoolConfig::new(
        PoolId::new(POOL)?,
        version,
        shape.strategy,
        members,
    )?)
}

async fn limit(corp: &CorpRoster<Connection>, members: u32) -> anyhow::Result<()> {
    for number in 0..members {
        let limits = Limits {
            at_a_time: Some(LIMIT),
            per_hour: Some(LIMIT),
            per_day: Some(LIMIT),
        };
        let change = SetMember {
            limits,
            ..SetMember::capped(member(number)?, None, None)
        };
        corp.set_member(change, "", None).await?;
    }
    Ok(())
}

/// Every tenth speaks English.
async fn teach(corp: &CorpRoster<Connection>, members: u32) -> anyhow::Result<()> {
    for number in (0..members).step_by(10) {
        let change = SetSkills {
            member: member(number)?,
            skills: [Skill::new("lang:en")?].into(),
        };
        corp.set_skills(change, "", None).await?;
    }
    Ok(())
}

fn ask(stand: &Stand<'_>, plan: Option<&Plan>) -> anyhow::Result<Measured> {
    ask_for(stand, POOL, plan)
}

fn ask_for(stand: &Stand<'_>, pool: &str, plan: Option<&Plan>) -> anyhow::Result<Measured> {
    let asking = stand.asking(CLIENTS, PIPELINE, REQUESTS);
    let log = roster::bench::log_key(&stand.corp);
    let mut command = words(&["EVALSHA", roster::bench::decide_hash(), "1", &log, "", ""]);
    command.extend(roster::bench::decide_request_with(pool, plan, 0));
    stand.ask(asking, &command)
}
