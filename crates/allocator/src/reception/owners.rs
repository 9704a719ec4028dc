//! Gives requests their plans. Where a pool is sticky, who had the customer before is looked up in the ledger: once for all
//! requests of a batch, and not for long, because a decision must not wait for Postgres.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use allocation::{ChannelId, MemberId, PoolId, Skill, SubjectKey};
use metrics::counter;

use super::{
    intake::Step,
    plans::{self, Asked, Planned},
    routes::{Pool, Routes},
};
use crate::app::{App, CorpApp};

/// How long customers wait for it.
const LOOK_UP: Duration = Duration::from_millis(300);
/// After it took too long nobody waits for it for so long.
const PAUSE_MS: u64 = 2_000;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// What one request asks for.
#[derive(Debug, Clone)]
pub struct Wish {
    pub pool: PoolId,
    pub subject: SubjectKey,
    /// Its needs are added.
    pub channel: Option<ChannelId>,
    pub needs: Vec<Skill>,
    pub prefer: Option<MemberId>,
    /// In no pool.
    pub avoid: Arc<[MemberId]>,
}

impl Wish {
    /// Its channel, if only so many who come through it are given a member.
    fn limiting(&self, routes: &Routes) -> Option<&ChannelId> {
        let channel = self.channel.as_ref()?;
        routes.channels.get(channel)?.is_limited.then_some(channel)
    }

    /// Of the channel, then its own; each once.
    fn all_needs(&self, routes: &Routes) -> Vec<Skill> {
        let channel = self.channel.as_ref();
        let channel = channel.and_then(|channel| routes.channels.get(channel));
        let mut needs = channel.map_or(Vec::new(), |channel| channel.needs.clone());
        for need in &self.needs {
            if !needs.contains(need) {
                needs.push(need.clone());
            }
        }
        needs
    }
}

/// By what each of these is served, as far as this process knows the pools; None: by its pool alone.
pub async fn plans(app: &App, corp: &CorpApp, wishes: &[Wish]) -> Vec<Option<Planned>> {
    let routes = corp.routes();
    let plain = Pool::default();
    let pool_of = |wish: &Wish| routes.pools.get(&wish.pool).unwrap_or(&plain);
    let now_ms = app.now_ms();
    let since_ms = |wish: &Wish| {
        let sticky = pool_of(wish).routing.sticky.as_ref()?;
        Some(now_ms.saturating_sub(u64::from(sticky.days) * DAY_MS))
    };
    let sticky: Vec<_> = wishes
        .iter()
        .enumerate()
        .filter_map(|(at, wish)| Some((at, (wish.subject, since_ms(wish)?))))
        .collect();
    let mut owners: Vec<Option<MemberId>> = vec![None; wishes.len()];
    if !sticky.is_empty() {
        let asked: Vec<_> = sticky.iter().map(|(_, asked)| *asked).collect();
        let found = last_owners(app, corp, &asked).await;
        for ((at, _), owner) in sticky.into_iter().zip(found) {
            owners[at] = owner;
        }
    }
    let plan = |(wish, owner): (&Wish, Option<MemberId>)| {
        let asked = Asked {
            pool: &wish.pool,
            subject: wish.subject,
            needs: &wish.all_needs(&routes),
            prefer: wish.prefer.as_ref(),
            owner: owner.as_ref(),
            avoid: &wish.avoid,
            through: wish.limiting(&routes),
        };
        plans::plan(pool_of(wish), &asked)
    };
    wishes.iter().zip(owners).map(plan).collect()
}

/// Nobody where it takes too long: they are served as if nobody had had them.
async fn last_owners(
    app: &App,
    corp: &CorpApp,
    asked: &[(SubjectKey, u64)],
) -> Vec<Option<MemberId>> {
    let nobody = || {
        let unknown = counter!("paidan_owners_not_looked_up_total", "corp" => corp.id.to_string());
        unknown.increment(asked.len() as u64);
        vec![None; asked.len()]
    };
    if app.now_ms() < corp.no_owners_before_ms.load(Relaxed) {
        return nobody();
    }
    let table = app.ledger.allocations();
    let problem = match tokio::time::timeout(LOOK_UP, table.last_owners(&corp.id, asked)).await {
        Ok(Ok(owners)) => return owners,
        Ok(Err(error)) => error.to_string(),
        Err(elapsed) => elapsed.to_string(),
    };
    tracing::warn!(corp = %corp.id, problem, "who had customers before could not be looked up: they come to whoever is next");
    let next_ms = app.now_ms() + PAUSE_MS;
    corp.no_owners_before_ms.store(next_ms, Relaxed);
    nobody()
}

/// Gives the requests among these steps their plans.
pub async fn give_plans(app: &App, corp: &CorpApp, steps: &mut [Step]) {
    let mut asked = Vec::new();
    let mut wishes = Vec::new();
    for step in steps {
        if let Step::Decide { request, context } = step {
            let channel = context.channel.clone();
            wishes.push(Wish {
                pool: request.pool.clone(),
                subject: request.subject,
                channel: channel.and_then(|channel| ChannelId::new(channel).ok()),
                needs: Vec::new(),
                prefer: None,
                avoid: Arc::default(),
            });
            asked.push((&mut request.plan, &mut context.preferred));
        }
    }
    for ((plan, preferred), planned) in asked.into_iter().zip(plans(app, corp, &wishes).await) {
        *preferred = planned.as_ref().map_or_else(Vec::new, Planned::words);
        *plan = planned.map(|planned| planned.plan);
    }
}
