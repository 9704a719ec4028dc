//! The desk of the running program: channels and campaigns as `people` keeps them, visits as `reception` and `fission` decide
//! them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use allocation::{ChannelId, ChatId, InviterId, MemberId};
use futures_util::future::{BoxFuture, join_all};
use ledger::InviterPage;

use super::desk::{Away, Desk, Door, Of, Picture, Place, Seat, Visited};
use crate::{
    app::{App, CorpApp},
    faults::with_causes,
    fission::{
        asking::{self, Shown},
        campaigns::{Campaign, Gives},
        inviters, join_ways,
    },
    people,
    reception::{
        slots,
        visits::{self, Hold, Visitor, VisitorKind, Wanted},
    },
};

/// A code that no channel has is looked up in Postgres this often, however many are tried.
const LOOK_EVERY_MS: u64 = 250;

#[derive(Debug)]
pub struct AppDesk {
    app: Arc<App>,
    no_look_before_ms: AtomicU64,
}

impl AppDesk {
    pub fn new(app: Arc<App>) -> Self {
        Self {
            app,
            no_look_before_ms: AtomicU64::new(0),
        }
    }

    fn known(&self, door: Door, code: &str) -> Option<Place> {
        let mut corps = self.app.corps.values();
        match door {
            Door::Channel => self.channel(code),
            Door::Campaign => corps
                .find_map(|corp| {
                    let campaign = corp.campaigns.by_public_code(code)?;
                    Some(self.campaign(corp, &campaign, None))
                })
                .or_else(|| self.of_inviter(&*self.app.inviter_pages.known(code)?)),
        }
    }

    fn campaign(&self, corp: &CorpApp, campaign: &Campaign, inviter: Option<InviterId>) -> Place {
        let gives = campaign.gives(self.app.now_ms());
        Place {
            corp: corp.id.clone(),
            of: Of::Campaign {
                id: campaign.id.clone(),
                opens_ms: match gives {
                    Gives::NotYet { starts_ms } => Some(starts_ms),
                    _ => None,
                },
                inviter,
            },
            title: campaign.title.clone(),
            open: gives == Gives::Seats,
            utc_offset_minutes: corp.settings.utc_offset_minutes,
        }
    }

    /// None: his campaign is no more, or this process has not heard of it yet.
    fn of_inviter(&self, page: &InviterPage) -> Option<Place> {
        let corp = self.app.corps.get(&page.corp)?;
        let campaign = corp.campaigns.get(&page.campaign)?;
        Some(self.campaign(corp, &campaign, Some(page.inviter.clone())))
    }

    fn channel(&self, code: &str) -> Option<Place> {
        self.app.corps.values().find_map(|corp| {
            let routes = corp.routes();
            let (id, channel) = routes.by_public_code(code)?;
            let visits = channel.visits.as_ref();
            Some(Place {
                corp: corp.id.clone(),
                of: Of::Channel(id.clone()),
                title: visits.map_or_else(String::new, |visits| visits.title.clone()),
                open: visits.is_some(),
                utc_offset_minutes: corp.settings.utc_offset_minutes,
            })
        })
    }

    /// Another process may have made the channel a moment ago.
    async fn look_again(&self) -> bool {
        let now_ms = self.app.now_ms();
        let next_ms = self.no_look_before_ms.load(Relaxed);
        let ours = now_ms >= next_ms
            && self
                .no_look_before_ms
                .compare_exchange(next_ms, now_ms + LOOK_EVERY_MS, Relaxed, Relaxed)
                .is_ok();
        if !ours {
            return false;
        }
        let corps = self.app.corps.values();
        let looks = join_all(corps.map(|corp| people::look_again(&self.app, corp))).await;
        looks.contains(&true)
    }

    fn corp(&self, place: &Place) -> Result<&CorpApp, Away> {
        self.app.corps.get(&place.corp).map(Arc::as_ref).ok_or(Away)
    }
}

impl Desk for AppDesk {
    fn place<'a>(
        &'a self,
        door: Door,
        code: &'a str,
    ) -> BoxFuture<'a, Result<Option<Place>, Away>> {
        Box::pin(async move {
            let known = self.known(door, code);
            if known.is_some() {
                return Ok(known);
            }
            if door == Door::Campaign && self.app.inviter_pages.known(code).is_none() {
                let page = inviters::by_code(&self.app, code).await;
                let page = page.map_err(|inviters::Busy| Away)?;
                if let Some(place) = page.and_then(|page| self.of_inviter(&page)) {
                    return Ok(Some(place));
                }
            }
            if !self.look_again().await {
                return Ok(None);
            }
            Ok(self.known(door, code))
        })
    }

    fn visit<'a>(
        &'a self,
        place: &'a Place,
        visitor: &'a str,
    ) -> BoxFuture<'a, Result<Visited, Away>> {
        Box::pin(async move {
            let corp = self.corp(place)?;
            let visitor = Visitor {
                kind: VisitorKind::Cookie,
                id: visitor.to_owned(),
            };
            let visited = match &place.of {
                Of::Channel(channel) => {
                    let wanted = Wanted::default();
                    let visit = visits::visit(&self.app, corp, channel, &visitor, wanted).await;
                    visit.map(|visited| shown(corp, channel, visited))
                }
                Of::Campaign { id, inviter, .. } => {
                    let inviter = inviter.clone();
                    let ask = asking::ask(&self.app, corp, id, &visitor, Vec::new(), inviter).await;
                    ask.map(|shown| seat(corp, shown))
                }
            };
            visited.map_err(|error| {
                if matches!(error, visits::Error::NotReady) {
                    tracing::debug!(corp = %corp.id, error = %error, "a visit is not decided");
                } else {
                    tracing::warn!(corp = %corp.id, of = ?place.of, error = %with_causes(&error), "a visit is not decided");
                }
                Away
            })
        })
    }

    fn name(&self, place: &Place, member: &MemberId) -> String {
        self.corp(place)
            .map_or_else(|Away| member.to_string(), |corp| corp.names.shown(member))
    }

    fn picture<'a>(&'a self, way: &'a str) -> BoxFuture<'a, Result<Option<Arc<Picture>>, Away>> {
        Box::pin(async move {
            let mut corps = self.app.corps.values();
            let knows =
                |corp: &&Arc<CorpApp>| corp.ways.owner(way).is_some() || corp.join_ways.knows(way);
            let Some(corp) = corps.find(knows) else {
                return Ok(None);
            };
            let picture = match corp.join_ways.knows(way) {
                true => join_ways::picture_of(&self.app, corp, way).await,
                false => slots::picture_of(&self.app, corp, way).await,
            };
            picture.map_err(|error| {
                tracing::warn!(corp = %corp.id, way, error = %with_causes(&error), "a picture cannot be read");
                Away
            })
        })
    }
}

fn shown(corp: &CorpApp, channel: &ChannelId, visited: visits::Visited) -> Visited {
    match visited {
        visits::Visited::Held(hold) => Visited::Held {
            way: way(corp, channel, &hold),
            allocation: hold.allocation,
            member: hold.member,
            until_ms: hold.until_ms,
        },
        visits::Visited::Waiting {
            allocation,
            until_ms,
        } => Visited::Waiting {
            allocation,
            until_ms,
        },
        visits::Visited::Met { allocation, member } => Visited::Met { allocation, member },
        visits::Visited::NoPool => Visited::NoPool,
        visits::Visited::Off => Visited::Off,
    }
}

/// The picture that leads to the member: his slot's, else his plain one. A way that another process made a moment ago is
/// not known here yet.
fn way(corp: &CorpApp, channel: &ChannelId, hold: &Hold) -> Option<String> {
    let way = match &hold.slot {
        Some(slot) => slot.to_string(),
        None => corp.ways.plain(channel, &hold.member)?,
    };
    corp.ways.owner(&way).is_some().then_some(way)
}

fn seat(corp: &CorpApp, shown: Shown) -> Visited {
    let name = |chat: &ChatId| corp.campaigns.name_of(chat);
    Visited::Seat(match shown {
        Shown::Held(hold) => Seat::Held {
            seat: hold.seat,
            group: name(&hold.chat),
            way: hold.way,
            until_ms: hold.until_ms,
        },
        Shown::Waiting {
            seat,
            position,
            until_ms,
            opens,
        } => Seat::Waiting {
            seat,
            position,
            until_ms,
            opens,
        },
        Shown::Joined { seat, chat } => Seat::Joined {
            seat,
            group: name(&chat),
        },
        Shown::Preparing => Seat::Preparing,
        Shown::NoPool => return Visited::NoPool,
        Shown::Shut(_) | Shown::NoCampaign => return Visited::Off,
    })
}
