//! A visit: somebody opens a channel's page, or a landing page says so for him. He is given a member at once, without
//! Postgres and without WeCom, and none whose code WeCom refuses; the callback of his coming confirms it later (`intake`).

mod asking;
mod standing;

use allocation::{AllocationId, ChannelId, MemberId, PoolId, Skill, SlotId, SubjectKey};
use asking::Asking;
use metrics::counter;

use crate::{
    app::{App, CorpApp},
    payload::Context,
    people,
};

/// Whether a visitor is the same as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VisitorKind {
    /// WeChat's id of a person over all apps of a company: it outranks every other way to find out who came.
    Unionid,
    /// WeChat's id of a person in one app.
    Openid,
    /// Made by us, kept in a signed cookie.
    Cookie,
    /// WeCom's id of a customer whom somebody of the corp has added already.
    ExternalId,
}

impl VisitorKind {
    /// The kind of subject he is.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unionid => "unionid",
            Self::Openid => "openid",
            Self::Cookie => "visitor",
            Self::ExternalId => "wecom",
        }
    }

    /// WeCom names people by it: whoever has one is never mistaken for somebody else.
    pub fn is_known_at_wecom(self) -> bool {
        match self {
            Self::Unionid | Self::ExternalId => true,
            Self::Openid | Self::Cookie => false,
        }
    }
}

/// Who opens the page.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Visitor {
    pub kind: VisitorKind,
    pub id: String,
}

/// Says of which kind, never who.
impl std::fmt::Debug for Visitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Visitor")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl Visitor {
    pub fn subject(&self, corp: &CorpApp) -> SubjectKey {
        SubjectKey::new(&corp.id, self.kind.as_str(), &self.id)
    }
}

/// What he sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Visited {
    Held(Hold),
    /// Nobody is free; asked again before that time he keeps his place.
    Waiting {
        allocation: AllocationId,
        until_ms: u64,
    },
    /// He has added this member.
    Met {
        allocation: AllocationId,
        member: MemberId,
    },
    /// The channel's pool does not exist (any more).
    NoPool,
    /// The channel has no public page now.
    Off,
}

/// A member is held for him.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    pub allocation: AllocationId,
    pub member: MemberId,
    /// State of the contact way that is his alone; None: the member's plain one.
    pub slot: Option<SlotId>,
    pub until_ms: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the corp is closed until its state is whole again")]
    NotReady,
    #[error("Redis")]
    Roster(#[source] roster::Error),
    #[error("a reason to end a hold")]
    Reason(#[source] allocation::Error),
}

impl From<roster::Error> for Error {
    fn from(error: roster::Error) -> Self {
        match error {
            roster::Error::NotReady => Self::NotReady,
            other => Self::Roster(other),
        }
    }
}

/// What is asked for beside a member of the channel's pool.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Beside what the channel needs.
    pub needs: Vec<Skill>,
    pub prefer: Option<MemberId>,
}

/// Decides whom a visitor sees. The same visitor keeps whom he has, unless that member was blocked since: a page that is
/// loaded again only reads.
pub async fn visit(
    app: &App,
    corp: &CorpApp,
    channel: &ChannelId,
    visitor: &Visitor,
    wanted: Wanted,
) -> Result<Visited, Error> {
    let visited = decide(app, corp, channel, visitor, wanted).await;
    if matches!(visited, Err(Error::NotReady)) {
        corp.not_ready.notify_one();
    }
    visited
}

async fn decide(
    app: &App,
    corp: &CorpApp,
    channel: &ChannelId,
    visitor: &Visitor,
    wanted: Wanted,
) -> Result<Visited, Error> {
    let Some((pool, hold_ms)) = settings(app, corp, channel).await else {
        return Ok(Visited::Off);
    };
    let subject = visitor.subject(corp);
    let standing = corp.roster.allocations_of(&subject).await?;
    let base = corp.wayless.of(channel);
    let mut is_new = true;
    if let Some(open) = standing.iter().find(|open| open.pool == pool)
        && !standing::end_of_blocked(corp, open).await?
    {
        if let Some(seen) = standing::as_it_stands(open, &base, app.now_ms()) {
            return Ok(seen);
        }
        is_new = false;
    }
    let asking = Asking {
        app,
        corp,
        channel,
        visitor,
        wanted,
        pool,
        hold_ms,
    };
    let visited = match is_new {
        true => asking.decide_anew(base).await?,
        // Who waits has his place where nobody is passed over who may have a slot in a moment.
        false => asking.ask(base).await?,
    };
    if visited == Visited::NoPool {
        corp.pool_missed.notify_one();
    }
    count(corp, &visited);
    Ok(visited)
}

/// The contact way that a visitor sees: his slot, else the member's plain one, if that is made. One that another process
/// has told the roster of a moment ago is read first, so that its picture can be shown.
pub async fn way_of(app: &App, corp: &CorpApp, channel: &ChannelId, hold: &Hold) -> Option<String> {
    let known = || match &hold.slot {
        Some(slot) => Some(slot.to_string()).filter(|way| corp.ways.owner(way).is_some()),
        None => corp.ways.plain(channel, &hold.member),
    };
    let way = known();
    if way.is_some() || !people::look_again(app, corp).await {
        return way;
    }
    known()
}

/// The channel's pool and how long its holds last, if it has a page. A channel that was made by another process is
/// looked up once.
async fn settings(app: &App, corp: &CorpApp, channel: &ChannelId) -> Option<(PoolId, u64)> {
    let known = || {
        let routes = corp.routes();
        let channel = routes.channels.get(channel)?;
        let visits = channel.visits.as_ref()?;
        Some((channel.pool.clone(), visits.hold_ms))
    };
    if let Some(found) = known() {
        return Some(found);
    }
    if !corp.routes().channels.contains_key(channel) && people::look_again(app, corp).await {
        return known();
    }
    None
}

fn context(channel: &ChannelId, visitor: &Visitor) -> Context {
    Context {
        source: "visit".to_owned(),
        subject_kind: visitor.kind.as_str().to_owned(),
        // A cookie's id says nothing to anybody: it need not be kept.
        subject_id: match visitor.kind {
            VisitorKind::Cookie => String::new(),
            VisitorKind::Unionid | VisitorKind::Openid | VisitorKind::ExternalId => {
                visitor.id.clone()
            }
        },
        channel: Some(channel.to_string()),
        ..Context::default()
    }
}

fn seen(answer: allocation::Visited) -> Visited {
    match answer {
        allocation::Visited::Held {
            allocation,
            member,
            slot,
            until_ms,
        } => Visited::Held(Hold {
            allocation,
            member,
            slot,
            until_ms,
        }),
        allocation::Visited::Again {
            allocation,
            member: Some(member),
            slot,
            until_ms,
        } if until_ms > 0 => Visited::Held(Hold {
            allocation,
            member,
            slot,
            until_ms,
        }),
        allocation::Visited::Again {
            allocation,
            member: None,
            until_ms,
            ..
        }
        | allocation::Visited::Waiting {
            allocation,
            until_ms,
        } => Visited::Waiting {
            allocation,
            until_ms,
        },
        allocation::Visited::Again {
            allocation,
            member: Some(member),
            ..
        }
        | allocation::Visited::Met { allocation, member } => Visited::Met { allocation, member },
        allocation::Visited::NoPool => Visited::NoPool,
    }
}

fn count(corp: &CorpApp, visited: &Visited) {
    let answer = match visited {
        Visited::Held(hold) if hold.slot.is_some() => "held",
        Visited::Held(_) => "held_without_slot",
        Visited::Waiting { .. } => "waiting",
        Visited::Met { .. } => "met",
        Visited::NoPool => "no_pool",
        Visited::Off => "off",
    };
    counter!("paidan_visits_total", "corp" => corp.id.to_string(), "answer" => answer).increment(1);
}
