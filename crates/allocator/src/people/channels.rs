//! Limits of channels to Redis. Their days end at midnight in the zone of `hours.default_zone`.

use std::collections::HashMap;

use allocation::{ChannelId, GivenBefore, Limits, SetChannel, model::Given};
use ledger::{ChannelLimits, CountedChannel};

use super::{Error, hours::Zone, limits, payload};
use crate::app::{App, CorpApp};

/// Around midnight two clocks may not agree on when a day ends: the next comparison does.
const ROUNDS: usize = 3;

/// When a day of a channel ends; None: at midnight UTC.
pub(super) fn day_end(app: &App, now_ms: u64) -> Option<u64> {
    limits::midnight(&Zone::named(&app.config.hours.default_zone)?, now_ms)
}

/// Tells Redis the limits of those channels of which it knows something else; answers how many that were. `only`: of this one.
pub(super) async fn tell_channels(
    app: &App,
    corp: &CorpApp,
    only: Option<&ChannelId>,
    now_ms: Option<u64>,
) -> Result<usize, Error> {
    let mut told = 0;
    for _ in 0..ROUNDS {
        let mut all = app.ledger.channels().limits(&corp.id).await?;
        all.retain(|(id, _)| only.is_none_or(|only| only == id));
        let ids: Vec<ChannelId> = all.iter().map(|(id, _)| id.clone()).collect();
        let there = corp.roster.channels(&ids).await?;
        let at_ms = now_ms.unwrap_or_else(|| app.now_ms());
        let day_end_ms = day_end(app, at_ms);
        let differing = all.into_iter().zip(there);
        let differing: Vec<_> = differing
            .filter(|((_, limits), there)| differs(*limits, *there, day_end_ms, at_ms))
            .map(|((id, limits), there)| (id, limits, there.is_none()))
            .collect();
        // Who was changed meanwhile may have been told an older word than the one that whoever changed it told.
        if differing.is_empty() {
            break;
        }
        told += differing.len();
        for change in changes_of(app, corp, differing, at_ms).await? {
            corp.roster.set_channel(change, &payload(), now_ms).await?;
        }
        corp.log_grew.notify_one();
    }
    Ok(told)
}

fn differs(
    limits: ChannelLimits,
    there: Option<Given>,
    day_end_ms: Option<u64>,
    now_ms: u64,
) -> bool {
    let Some(there) = there else {
        return !limits.is_none();
    };
    let known = ChannelLimits {
        per_hour: there.limits.per_hour,
        per_day: there.limits.per_day,
    };
    let told = there.told.then(|| there.at(now_ms).day_end_ms);
    limits != known || !limits.is_none() && day_end_ms != told
}

async fn changes_of(
    app: &App,
    corp: &CorpApp,
    wanted: Vec<(ChannelId, ChannelLimits, bool)>,
    now_ms: u64,
) -> Result<Vec<SetChannel>, ledger::Error> {
    let day_end_ms = day_end(app, now_ms);
    let (hour_ms, day_ms) = limits::counted_from(day_end_ms, now_ms);
    let uncounted = wanted
        .iter()
        .filter(|(_, limits, is_new)| *is_new && !limits.is_none());
    let uncounted: Vec<CountedChannel> = uncounted
        .map(|(channel, ..)| CountedChannel {
            channel: channel.clone(),
            hour_ms,
            day_ms,
        })
        .collect();
    let given = match uncounted.is_empty() {
        true => Vec::new(),
        false => app.ledger.channels().given(&corp.id, &uncounted).await?,
    };
    let given: HashMap<&ChannelId, (u32, u32)> = uncounted
        .iter()
        .map(|one| &one.channel)
        .zip(given)
        .collect();
    let change = |(channel, limits, _): (ChannelId, ChannelLimits, bool)| {
        let (in_hour, on_day) = given.get(&channel).copied().unwrap_or_default();
        SetChannel {
            per_hour: limits.per_hour,
            per_day: limits.per_day,
            day_end_ms,
            given: GivenBefore { in_hour, on_day },
            channel,
        }
    };
    Ok(wanted.iter().cloned().map(change).collect())
}

/// Tells Redis a channel's limits.
pub async fn tell_channel(app: &App, corp: &CorpApp, channel: &ChannelId) -> Result<(), Error> {
    tell_channels(app, corp, Some(channel), None)
        .await
        .map(drop)
}

/// As a state that is made of rows is told of all.
pub(crate) async fn changes(app: &App, corp: &CorpApp) -> Result<Vec<SetChannel>, ledger::Error> {
    let mut all = app.ledger.channels().limits(&corp.id).await?;
    all.retain(|(_, limits)| !limits.is_none());
    let all = all.into_iter().map(|(id, limits)| (id, limits, true));
    changes_of(app, corp, all.collect(), app.now_ms()).await
}

/// Until when nobody who comes through the channel is given a member.
pub async fn full_until(
    app: &App,
    corp: &CorpApp,
    channel: &ChannelId,
) -> Result<Option<u64>, roster::Error> {
    let there = corp.roster.channels(std::slice::from_ref(channel)).await?;
    let there = there.into_iter().flatten().next();
    let given = there.map(|there| there.at(app.now_ms()));
    Ok(given.and_then(|given| {
        let reached = |n: u32, most: Option<u32>| most.is_some_and(|most| n >= most);
        let Limits {
            per_hour, per_day, ..
        } = given.limits;
        if reached(given.on_day, per_day) {
            Some(given.day_end_ms)
        } else {
            reached(given.in_hour, per_hour).then_some(given.hour_end_ms)
        }
    }))
}
