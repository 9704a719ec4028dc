//! The desk of the running program: channels as `people` keeps them, visits as `reception` decides them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use allocation::MemberId;
use futures_util::future::{BoxFuture, join_all};

use super::desk::{Away, Desk, Picture, Place, Visited};
use crate::{
    app::{App, CorpApp},
    faults::with_causes,
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

    fn known(&self, code: &str) -> Option<Place> {
        self.app.corps.values().find_map(|corp| {
            let routes = corp.routes();
            let (id, channel) = routes.by_public_code(code)?;
            let visits = channel.visits.as_ref();
            Some(Place {
                corp: corp.id.clone(),
                channel: id.clone(),
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
    fn place<'a>(&'a self, code: &'a str) -> BoxFuture<'a, Result<Option<Place>, Away>> {
        Box::pin(async move {
            let known = self.known(code);
            if known.is_some() || !self.look_again().await {
                return Ok(known);
            }
            Ok(self.known(code))
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
            match visits::visit(&self.app, corp, &place.channel, &visitor, Wanted::default()).await
            {
                Ok(visited) => Ok(shown(corp, place, visited)),
                Err(error @ visits::Error::NotReady) => {
                    tracing::debug!(corp = %corp.id, error = %error, "a visit is not decided");
                    Err(Away)
                }
                Err(error) => {
                    tracing::warn!(corp = %corp.id, channel = %place.channel, error = %with_causes(&error), "a visit is not decided");
                    Err(Away)
                }
            }
        })
    }

    fn name(&self, place: &Place, member: &MemberId) -> String {
        self.corp(place)
            .map_or_else(|Away| member.to_string(), |corp| corp.names.shown(member))
    }

    fn picture<'a>(&'a self, way: &'a str) -> BoxFuture<'a, Result<Option<Arc<Picture>>, Away>> {
        Box::pin(async move {
            let mut corps = self.app.corps.values();
            let Some(corp) = corps.find(|corp| corp.ways.owner(way).is_some()) else {
                return Ok(None);
            };
            slots::picture_of(&self.app, corp, way).await.map_err(|error| {
                tracing::warn!(corp = %corp.id, way, error = %with_causes(&error), "a picture cannot be read");
                Away
            })
        })
    }
}

fn shown(corp: &CorpApp, place: &Place, visited: visits::Visited) -> Visited {
    match visited {
        visits::Visited::Held(hold) => Visited::Held {
            way: way(corp, place, &hold),
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
fn way(corp: &CorpApp, place: &Place, hold: &Hold) -> Option<String> {
    let way = match &hold.slot {
        Some(slot) => slot.to_string(),
        None => corp.ways.plain(&place.channel, &hold.member)?,
    };
    corp.ways.owner(&way).is_some().then_some(way)
}
