//! Somebody asks for a seat: he opens a campaign's page, or a landing page says so for him. He is shown a group that has
//! room, at once, without Postgres and without WeCom; that he came into it is found out later.
//!
//! A group is shown by its join way. While a campaign has none at all nobody is given a seat; a seat in a group whose way is
//! still being made is *preparing*: it is his, and the code follows.
//!
//! Where inviters have ways of their own, whoever comes for one is shown that inviter's way into his group if there is one. He is
//! expected by the State of the way that he is shown, and is shown the same one while he holds the seat.
//!
//! A few of those who wait are shown the code of a full group, for WeCom opens a room for one of them (`supply::rooms`).
//!
//! Whoever finds no free seat waits a moment for one (`waiting`): often a group is opened for him. Then he has his place in the
//! waiting room. He who comes back into it is answered at once: its page asks by itself, and need not hold a connection.

mod seat;

use allocation::{
    CampaignId, ChatId, GroupTag, GroupTags, InviterId, Reserved, SeatId, SeatName,
    model::{SeatPlace, SeatView},
};
use ledger::InviterWish;
use metrics::counter;
use tokio::time::{Duration, Instant, timeout, timeout_at};

use self::seat::{held, own_via, reserve, shown_by};
use super::{
    campaigns::{Campaign, Gives},
    supply::rooms,
};
use crate::{
    app::{App, CorpApp},
    faults::with_causes,
    people,
    reception::visits::{Error, Visitor},
};

/// A place in the waiting room is kept so long after it was last asked for. Pages ask several times in it; whoever has gone
/// soon keeps nobody else from a seat.
pub const WAIT_MS: u64 = 120_000;

/// Those few who may be shown a full group wait so long for Postgres, which counts them.
const OPENING: Duration = Duration::from_secs(1);

/// What he sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    Held(Hold),
    /// No group has room: asked again before that time he keeps his place.
    Waiting {
        seat: SeatId,
        /// Counted from 1.
        position: u32,
        until_ms: u64,
        /// The join way of a full group, which he is to scan all the same: WeCom opens a room then.
        opens: Option<String>,
    },
    /// He is in the group.
    Joined {
        seat: SeatId,
        chat: ChatId,
    },
    /// The campaign has no join way yet; nothing was reserved.
    Preparing,
    /// The campaign gives no seats now.
    Shut(Gives),
    /// Redis has not heard of the campaign's group pool (yet).
    NoPool,
    NoCampaign,
}

/// A seat is held for him.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    pub seat: SeatId,
    pub chat: ChatId,
    /// The join way that leads into the group; None: it is still being made.
    pub way: Option<String>,
    pub until_ms: u64,
}

/// Whose seat it is.
pub fn name(corp: &CorpApp, campaign: &CampaignId, visitor: &Visitor) -> SeatName {
    SeatName {
        campaign: campaign.clone(),
        subject: visitor.subject(corp),
    }
}

/// Decides what a visitor sees. The same visitor keeps what he has: a page that is loaded again only reads. `tags`: groups
/// with the first of them that has room come first. `inviter`: who brought him; whoever has a seat or a place already keeps the
/// one who brought him then.
pub async fn ask(
    app: &App,
    corp: &CorpApp,
    campaign: &CampaignId,
    visitor: &Visitor,
    tags: Vec<GroupTag>,
    inviter: Option<InviterId>,
) -> Result<Shown, Error> {
    let who = Who {
        visitor,
        tags: &tags,
        inviter: inviter.as_ref(),
    };
    let shown = match decide(app, corp, campaign, &who).await {
        Ok(Decided { shown, is_new }) => {
            if matches!(shown, Shown::Waiting { .. }) {
                corp.seats_lacking.notify_one();
            }
            let shown = opening(app, corp, campaign, &who, shown).await;
            match (is_new, &shown) {
                (true, Shown::Waiting { opens: None, .. }) => {
                    match wait(app, corp, campaign, &who, shown).await {
                        Ok(shown) => Ok(opening(app, corp, campaign, &who, shown).await),
                        Err(error) => Err(error),
                    }
                }
                _ => Ok(shown),
            }
        }
        Err(error) => Err(error),
    };
    if matches!(shown, Err(Error::NotReady)) {
        corp.not_ready.notify_one();
    }
    shown
}

/// Waits for a seat, if that is what he lacks, until he has one or the time for it is over; then his place in the waiting room
/// is the answer.
async fn wait(
    app: &App,
    corp: &CorpApp,
    campaign: &CampaignId,
    who: &Who<'_>,
    mut shown: Shown,
) -> Result<Shown, Error> {
    let wait_ms = app
        .config
        .fission
        .wait_ms
        .min(app.config.http.timeout_ms / 2);
    if wait_ms == 0 || !matches!(shown, Shown::Waiting { .. }) {
        return Ok(shown);
    }
    let Some(place) = corp.waiters.enter(name(corp, campaign, who.visitor)) else {
        count(corp, "too_many_wait");
        return Ok(shown);
    };
    let until = Instant::now() + Duration::from_millis(wait_ms);
    while timeout_at(until, place.told()).await.is_ok() {
        shown = decide(app, corp, campaign, who).await?.shown;
        if !matches!(shown, Shown::Waiting { .. }) {
            count(corp, "waited");
            return Ok(shown);
        }
    }
    Ok(shown)
}

/// With the code of a full group, if he is one of those who wait and are shown it.
async fn opening(
    app: &App,
    corp: &CorpApp,
    campaign: &CampaignId,
    who: &Who<'_>,
    mut shown: Shown,
) -> Shown {
    let Shown::Waiting {
        seat,
        position,
        opens,
        ..
    } = &mut shown
    else {
        return shown;
    };
    let Some(campaign) = corp.campaigns.get(campaign) else {
        return shown;
    };
    let Ok(tags) = GroupTags::new(who.tags.to_vec(), campaign.any_group) else {
        return shown;
    };
    let show = rooms::show(app, corp, &campaign, *seat, *position, &tags);
    // His place is not in doubt, and his answer waits for nothing else.
    match timeout(OPENING, show).await {
        Ok(Ok(way)) => *opens = way,
        Ok(Err(error)) => {
            tracing::debug!(corp = %corp.id, error = %with_causes(&error), "nobody is shown a code that opens a room");
        }
        Err(_) => {
            tracing::debug!(corp = %corp.id, "whether somebody is shown a code that opens a room was not known in time");
        }
    }
    shown
}

/// Who asks, and what is right for him.
struct Who<'a> {
    visitor: &'a Visitor,
    tags: &'a [GroupTag],
    inviter: Option<&'a InviterId>,
}

/// What he sees now.
struct Decided {
    shown: Shown,
    /// He did not stand in the waiting room before.
    is_new: bool,
}

async fn decide(
    app: &App,
    corp: &CorpApp,
    campaign: &CampaignId,
    who: &Who<'_>,
) -> Result<Decided, Error> {
    let Some(campaign) = known(app, corp, campaign).await else {
        return Ok(Decided {
            shown: Shown::NoCampaign,
            is_new: false,
        });
    };
    let name = name(corp, &campaign.id, who.visitor);
    let standing = corp.roster.seat(&name).await?;
    let waited = standing
        .as_ref()
        .is_some_and(|seat| matches!(seat.place, SeatPlace::Waiting { .. }));
    let shown = seat_of(app, corp, &campaign, who, standing).await?;
    Ok(Decided {
        shown,
        is_new: !waited,
    })
}

/// Of a visitor whose seat stands like this.
async fn seat_of(
    app: &App,
    corp: &CorpApp,
    campaign: &Campaign,
    who: &Who<'_>,
    standing: Option<SeatView>,
) -> Result<Shown, Error> {
    let now_ms = app.now_ms();
    let gives = campaign.gives(now_ms);
    if let Some(SeatView {
        seat,
        place: SeatPlace::Taken { chat, .. },
        ..
    }) = standing
    {
        return Ok(Shown::Joined { seat, chat });
    }
    if gives != Gives::Seats {
        return Ok(Shown::Shut(gives));
    }
    let tags = GroupTags::new(who.tags.to_vec(), campaign.any_group)
        .map_err(|error| Error::Roster(roster::Error::from(error)))?;
    if let Some(standing) = &standing
        && let Some(shown) = as_it_stands(corp, campaign, standing, &tags, now_ms).await?
    {
        return Ok(shown);
    }
    if standing.is_none() && !has_ways(app, corp, campaign).await {
        count(corp, "preparing");
        return Ok(Shown::Preparing);
    }
    let own = own_via(app, corp, campaign, who);
    let mut via = match &standing {
        // What he was shown last he may have in his hands.
        Some(SeatView {
            place: SeatPlace::Held { chat, .. },
            ..
        }) => standing
            .as_ref()
            .and_then(shown_by)
            .filter(|via| corp.join_ways.own(via, chat).is_some())
            .cloned(),
        _ => own.clone().filter(|own| corp.join_ways.has_own(own)),
    };
    let mut reserved = reserve(corp, campaign, who, &tags, via.clone()).await?;
    if let Reserved::Held { chat, .. } | Reserved::Again { chat, .. } = &reserved {
        if let (Some(own), Some(inviter)) = (&own, who.inviter)
            && corp.join_ways.own(own, chat).is_none()
        {
            corp.inviter_wishes.add(InviterWish {
                campaign: campaign.id.clone(),
                inviter: inviter.clone(),
                chat: Some(chat.clone()),
            });
        }
        // The inviter has no way into this group: he is shown the campaign's, and comes by its State.
        if via
            .as_ref()
            .is_some_and(|via| corp.join_ways.own(via, chat).is_none())
        {
            via = None;
            reserved = reserve(corp, campaign, who, &tags, None).await?;
        }
    }
    count(corp, word(&reserved));
    Ok(match reserved {
        Reserved::Held {
            seat,
            chat,
            until_ms,
        }
        | Reserved::Again {
            seat,
            chat,
            until_ms,
        } => held(corp, campaign, via.as_ref(), seat, chat, until_ms),
        Reserved::Joined { seat, chat } => Shown::Joined { seat, chat },
        Reserved::Waiting {
            seat,
            position,
            until_ms,
            ..
        } => Shown::Waiting {
            seat,
            position,
            until_ms,
            opens: None,
        },
        Reserved::NoPool => {
            // Redis has lost it, or was never told.
            corp.groups_changed.notify_one();
            Shown::NoPool
        }
    })
}

/// One that was made by another process is looked up once.
async fn known(app: &App, corp: &CorpApp, id: &CampaignId) -> Option<std::sync::Arc<Campaign>> {
    let known = corp.campaigns.get(id);
    if known.is_some() || !people::look_again(app, corp).await {
        return known;
    }
    corp.campaigns.get(id)
}

/// Without a code nobody could use his seat. One that another process made a moment ago is looked up.
async fn has_ways(app: &App, corp: &CorpApp, campaign: &Campaign) -> bool {
    corp.join_ways.has_any(&campaign.id)
        || people::look_again(app, corp).await && corp.join_ways.has_any(&campaign.id)
}

/// What he has, if it lasts: a hold that is over, or whose group others have filled, and a place that he must ask for again
/// are for the script.
async fn as_it_stands(
    corp: &CorpApp,
    campaign: &Campaign,
    standing: &SeatView,
    wanted: &GroupTags,
    now_ms: u64,
) -> Result<Option<Shown>, Error> {
    let seat = standing.seat;
    Ok(match &standing.place {
        SeatPlace::Held { chat, until_ms, .. } if *until_ms > now_ms => {
            let own = shown_by(standing);
            let is_there = own.is_none_or(|own| corp.join_ways.own(own, chat).is_some());
            match !is_there || corp.roster.is_full(chat).await? {
                true => None,
                false => Some(held(corp, campaign, own, seat, chat.clone(), *until_ms)),
            }
        }
        SeatPlace::Waiting { tags, until_ms, .. }
            if *until_ms > now_ms + WAIT_MS / 2 && tags == wanted =>
        {
            let position = corp.roster.waiting_position(&standing.name()).await?;
            position.map(|position| Shown::Waiting {
                seat,
                position,
                until_ms: *until_ms,
                opens: None,
            })
        }
        _ => None,
    })
}

fn word(reserved: &Reserved) -> &'static str {
    match reserved {
        Reserved::Held { .. } => "held",
        Reserved::Again { .. } => "again",
        Reserved::Joined { .. } => "joined",
        Reserved::Waiting { .. } => "waiting",
        Reserved::NoPool => "no_pool",
    }
}

fn count(corp: &CorpApp, answer: &'static str) {
    counter!("paidan_seats_asked_total", "corp" => corp.id.to_string(), "answer" => answer)
        .increment(1);
}
