//! A visit is decided: by the script, and once more where nothing could be shown of whom it chose.

use std::sync::Arc;

use allocation::{AllocationId, ChannelId, MAX_AVOIDED, MemberId, PoolId, Visit};
use metrics::counter;
use uuid::Uuid;

use super::{Error, Hold, Visited, Visitor, Wanted, context, seen, standing};
use crate::{
    app::{App, CorpApp},
    payload::{Context, Payload},
    people,
    reception::{
        owners::{self, Wish},
        plans::Planned,
    },
};

/// Why a hold ends at once: there is no code that the visitor could be shown.
const NO_WAY: &str = "no_way";

/// Who asks for what.
pub(super) struct Asking<'a> {
    pub(super) app: &'a App,
    pub(super) corp: &'a CorpApp,
    pub(super) channel: &'a ChannelId,
    pub(super) visitor: &'a Visitor,
    pub(super) wanted: Wanted,
    pub(super) pool: PoolId,
    pub(super) hold_ms: u64,
}

impl Asking<'_> {
    /// For one who has nothing yet. The first who is given to a member of whom nothing can be shown is given to somebody else
    /// at once; those after him never come to that member, until there may be a slot again.
    pub(super) async fn decide_anew(&self, base: Arc<[MemberId]>) -> Result<Visited, Error> {
        let visited = self.ask_for_shown(&base).await?;
        let Visited::Held(hold) = &visited else {
            return Ok(visited);
        };
        if !self.passes_over(hold).await {
            return Ok(visited);
        }
        let subject = self.visitor.subject(self.corp);
        let ends = (hold.allocation, &hold.member);
        standing::end(self.corp, subject, &self.pool, ends, NO_WAY).await?;
        let visited = self.ask_for_shown(&base).await?;
        if let Visited::Held(hold) = &visited {
            self.passes_over(hold).await;
        }
        Ok(visited)
    }

    /// Where nobody else is free nobody is passed over.
    async fn ask_for_shown(&self, base: &Arc<[MemberId]>) -> Result<Visited, Error> {
        let unshown = &self.corp.unshown;
        let unshown = unshown.of(self.channel, &self.corp.ways, self.app.now_ms());
        if unshown.is_empty() {
            return self.ask(Arc::clone(base)).await;
        }
        let mut avoid = base.to_vec();
        avoid.extend(unshown);
        avoid.sort();
        avoid.dedup();
        avoid.truncate(MAX_AVOIDED);
        match self.ask(avoid.into()).await? {
            Visited::Waiting { .. } => self.ask(Arc::clone(base)).await,
            visited => Ok(visited),
        }
    }

    /// Keeps in mind whether something can be shown. True: nothing can, and visits pass over the member from now on.
    async fn passes_over(&self, hold: &Hold) -> bool {
        let Self { app, corp, .. } = *self;
        let (unshown, member) = (&corp.unshown, &hold.member);
        let is_there = || hold.slot.is_some() || corp.ways.plain(self.channel, member).is_some();
        let is_shown = || {
            let is_there = is_there();
            if is_there {
                unshown.shown(self.channel, member, app.now_ms());
            }
            is_there
        };
        if is_shown() {
            return false;
        }
        let passes_over = unshown.not_shown(self.channel, member, &corp.ways, app.now_ms());
        // His plain way may have been made a moment ago, elsewhere.
        if passes_over && people::look_again(app, corp).await && is_shown() {
            return false;
        }
        let labels = [
            ("corp", corp.id.to_string()),
            ("passed_over", passes_over.to_string()),
        ];
        counter!("paidan_visits_without_way_total", &labels).increment(1);
        passes_over
    }

    /// The script.
    pub(super) async fn ask(&self, avoid: Arc<[MemberId]>) -> Result<Visited, Error> {
        let Self { app, corp, .. } = *self;
        let subject = self.visitor.subject(corp);
        let wish = Wish {
            pool: self.pool.clone(),
            subject,
            channel: Some(self.channel.clone()),
            needs: self.wanted.needs.clone(),
            prefer: self.wanted.prefer.clone(),
            avoid,
        };
        let planned = owners::plans(app, corp, &[wish]).await.pop().flatten();
        let preferred = planned.as_ref().map_or_else(Vec::new, Planned::words);
        let visit = Visit {
            allocation: AllocationId(Uuid::now_v7()),
            pool: self.pool.clone(),
            subject,
            channel: self.channel.clone(),
            hold_ms: self.hold_ms,
            rest_ms: app.config.visits.slot_rest_ms,
            plan: planned.map(|planned| planned.plan),
        };
        let payload = Payload {
            contexts: vec![Context {
                preferred,
                ..context(self.channel, self.visitor)
            }],
            ..Payload::default()
        };
        let applied = corp
            .roster
            .visit(vec![visit], &payload.text(), None)
            .await?;
        corp.log_grew.notify_one();
        let answer = applied.answer.into_iter().next();
        Ok(answer.map_or(Visited::NoPool, seen))
    }
}
