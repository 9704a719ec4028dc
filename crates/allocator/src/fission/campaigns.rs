//! Campaigns and the names of their groups in memory, so that a visitor's page needs no Postgres.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use allocation::{CampaignId, ChatId, GroupPoolId, Via};
use ledger::{WaysOf, campaign_via};

use crate::app::{App, CorpApp};

/// What a visit needs of a campaign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Campaign {
    pub id: CampaignId,
    pub pool: GroupPoolId,
    /// A visitor for whose tags no group has room gets any other.
    pub any_group: bool,
    /// State of its join ways.
    pub via: Option<Via>,
    pub hold_ms: u64,
    /// What its page is headed with; may be empty.
    pub title: String,
    /// Not closed by an operator.
    pub open: bool,
    pub starts_ms: Option<u64>,
    pub ends_ms: Option<u64>,
    /// Somebody is rewarded for those who come.
    pub rewards: bool,
    /// They are to have a tag.
    pub tags: bool,
    /// Inviters have ways of their own.
    pub own_ways: bool,
}

/// Where the page of a campaign, or of an inviter, is on the public listener.
pub fn public_path(public_code: &str) -> String {
    format!("/g/{public_code}")
}

/// Whether a campaign gives seats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gives {
    Seats,
    NotYet {
        starts_ms: u64,
    },
    NoMore,
    /// An operator closed it.
    Closed,
}

impl Campaign {
    pub fn gives(&self, now_ms: u64) -> Gives {
        if self.ends_ms.is_some_and(|ends_ms| ends_ms <= now_ms) {
            return Gives::NoMore;
        }
        if !self.open {
            return Gives::Closed;
        }
        match self.starts_ms.filter(|starts_ms| *starts_ms > now_ms) {
            Some(starts_ms) => Gives::NotYet { starts_ms },
            None => Gives::Seats,
        }
    }
}

/// Kept up by `people` (campaigns) and `join_ways` (names).
#[derive(Debug, Default)]
pub struct Campaigns {
    known: RwLock<Arc<Known>>,
    names: RwLock<Arc<HashMap<ChatId, String>>>,
}

#[derive(Debug, Default)]
struct Known {
    all: HashMap<CampaignId, Arc<Campaign>>,
    by_public_code: HashMap<String, Arc<Campaign>>,
}

impl Campaigns {
    pub fn get(&self, id: &CampaignId) -> Option<Arc<Campaign>> {
        self.known().all.get(id).cloned()
    }

    /// Also one that gives no seats: a printed address outlives a pause.
    pub fn by_public_code(&self, code: &str) -> Option<Arc<Campaign>> {
        self.known().by_public_code.get(code).cloned()
    }

    pub fn is_empty(&self) -> bool {
        self.known().all.is_empty()
    }

    /// How the group is called; empty: it has no name, or it is not known.
    pub fn name_of(&self, chat: &ChatId) -> String {
        let names = Arc::clone(&self.names.read().unwrap_or_else(PoisonError::into_inner));
        names.get(chat).cloned().unwrap_or_default()
    }

    fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Reads the campaigns anew.
pub async fn refresh(app: &App, corp: &CorpApp) -> Result<(), ledger::Error> {
    let pools = app.ledger.group_pools().all(&corp.id).await?;
    let any_group: HashMap<GroupPoolId, bool> = pools
        .into_iter()
        .map(|pool| (pool.id, pool.any_group))
        .collect();
    let mut known = Known::default();
    for campaign in app.ledger.campaigns().all(&corp.id).await? {
        let content = campaign.content;
        let campaign_here = Arc::new(Campaign {
            id: campaign.id.clone(),
            any_group: any_group.get(&content.pool).copied().unwrap_or(true),
            pool: content.pool,
            via: campaign_via(&campaign.public_code),
            hold_ms: u64::from(content.hold_seconds) * 1_000,
            title: content.title,
            open: content.open,
            starts_ms: content.starts_ms,
            ends_ms: content.ends_ms,
            tags: content
                .fission
                .as_ref()
                .is_some_and(|rules| rules.tag_on_join.is_some()),
            rewards: content.fission.is_some(),
            own_ways: content.ways == WaysOf::Inviter,
        });
        let code = campaign.public_code;
        known
            .by_public_code
            .insert(code, Arc::clone(&campaign_here));
        known.all.insert(campaign.id, campaign_here);
    }
    let put = &corp.campaigns.known;
    *put.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(known);
    Ok(())
}

/// Reads the names of all groups that are in a pool.
pub(super) async fn refresh_names(app: &App, corp: &CorpApp) -> Result<(), ledger::Error> {
    let names = app.ledger.join_ways().group_names(&corp.id).await?;
    let put = &corp.campaigns.names;
    *put.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(names.into_iter().collect());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_campaign_gives_seats_in_its_time() {
        let campaign = |open, starts_ms, ends_ms| Campaign {
            id: CampaignId::new("spring").unwrap(),
            pool: GroupPoolId::new("g").unwrap(),
            any_group: true,
            via: None,
            hold_ms: 1,
            title: String::new(),
            open,
            starts_ms,
            ends_ms,
            rewards: false,
            tags: false,
            own_ways: false,
        };
        let gives = |open, starts_ms, ends_ms| campaign(open, starts_ms, ends_ms).gives(10);
        assert_eq!(gives(true, None, None), Gives::Seats);
        assert_eq!(gives(true, Some(10), Some(11)), Gives::Seats);
        assert_eq!(gives(true, Some(11), None), Gives::NotYet { starts_ms: 11 });
        assert_eq!(gives(true, None, Some(10)), Gives::NoMore);
        assert_eq!(gives(false, None, Some(10)), Gives::NoMore);
        assert_eq!(gives(false, Some(11), None), Gives::Closed);
    }
}
