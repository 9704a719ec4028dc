//! Whose seats those may be who come into a group, and figures of what became of them.

use std::collections::HashSet;

use allocation::{
    CampaignId, GroupPoolId, JoinedAs, MAX_CANDIDATES, SeatName, SeatsConfirmed, SetGroup,
    SubjectKey,
};
use metrics::counter;

use super::seat_rules::past_us;
use crate::app::{App, CorpApp};

/// Seats of a person: by unionid and by external id.
const KINDS: usize = 2;

/// Those that fill a pool, by id.
pub(super) async fn campaigns(
    app: &App,
    corp: &CorpApp,
    pool: Option<&GroupPoolId>,
) -> Result<Vec<CampaignId>, ledger::Error> {
    let all = app.ledger.campaigns().all(&corp.id).await?;
    let ours = all.into_iter();
    let ours = ours.filter(|campaign| Some(&campaign.content.pool) == pool);
    Ok(ours.map(|campaign| campaign.id).collect())
}

/// Which of many seats there are. None: they are few enough to ask for all.
pub(super) struct Existing(Option<HashSet<SeatName>>);

impl Existing {
    pub(super) fn has(&self, campaign: &CampaignId, subject: &SubjectKey) -> bool {
        self.0.as_ref().is_none_or(|seats| {
            seats.contains(&SeatName {
                campaign: campaign.clone(),
                subject: *subject,
            })
        })
    }
}

/// Where so many campaigns fill a group that not all of them can be asked about in one call, those are looked for in which
/// somebody has a seat. Whoever gets one in between is found by the next read only if he is still to be named.
pub(super) async fn existing(
    corp: &CorpApp,
    campaigns: &[CampaignId],
    subjects: &[SubjectKey],
) -> Result<Existing, roster::Error> {
    if campaigns.len() * KINDS <= MAX_CANDIDATES {
        return Ok(Existing(None));
    }
    let names = subjects.iter().flat_map(|subject| {
        campaigns.iter().map(|campaign| SeatName {
            campaign: campaign.clone(),
            subject: *subject,
        })
    });
    let names: Vec<SeatName> = names.collect();
    let seats = corp.roster.seats(&names).await?;
    let there = names.into_iter().zip(seats);
    let there = there.filter_map(|(name, seat)| seat.map(|_| name));
    Ok(Existing(Some(there.collect())))
}

/// Counts what a change of a group came to.
pub(super) fn tally(corp: &CorpApp, group: &SetGroup, confirmed: &SeatsConfirmed) {
    let SeatsConfirmed::Counted {
        count,
        left,
        joined,
        ..
    } = confirmed
    else {
        return;
    };
    let id = || corp.id.to_string();
    for one in joined {
        let (how, was) = match &one.joined {
            JoinedAs::Seat { how, was, .. } => (how.as_str(), was.as_str()),
            JoinedAs::Already { how, was, .. } => (how.as_str(), was.as_str()),
            JoinedAs::Direct => ("direct", ""),
        };
        counter!("paidan_group_joins_total", "corp" => id(), "how" => how, "was" => was.to_lowercase())
            .increment(1);
    }
    if !left.is_empty() {
        counter!("paidan_seats_left_total", "corp" => id()).increment(left.len() as u64);
    }
    if count.oversold > 0 && past_us(joined) > 0 {
        tracing::warn!(corp = %corp.id, group = %group.chat(), people = count.people, held = count.held,
            oversold = count.oversold, "people came into a group past us: a larger buffer keeps room for them");
        counter!("paidan_groups_oversold_total", "corp" => id()).increment(1);
    }
}
