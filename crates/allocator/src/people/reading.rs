//! Postgres to this process: channels, pools and spellings, as `decide` and the writer use them.

use std::{
    collections::{BTreeSet, HashMap},
    sync::atomic::Ordering::Relaxed,
    time::Duration,
};

use allocation::{MemberId, PoolId, Skill};
use ledger::Otherwise;

use super::Error;
use crate::{
    app::{App, CorpApp},
    fission::{campaigns, join_ways},
    reception::{
        routes::{self, Able, Channel, Routes, Visits, Welcome},
        slots,
    },
};

/// How long [`look_again`] may take: a customer waits for it.
const LOOK: Duration = Duration::from_millis(300);

/// For a State or channel that this process has not heard of: another one may have been told of it a moment ago, or it is
/// a contact way that was made just now. Reads what changed since the last time and answers whether it could. While Postgres does not answer, it is asked
/// once in `roster.sync_every_ms`: what cannot be known now goes by the default pool, as it would without this.
pub async fn look_again(app: &App, corp: &CorpApp) -> bool {
    if app.now_ms() < corp.no_look_before_ms.load(Relaxed) {
        return false;
    }
    let look = async {
        slots::refresh(app, corp).await?;
        join_ways::refresh(app, corp).await?;
        let mark = app.ledger.configuration_mark(&corp.id).await?;
        if mark != corp.routes().mark {
            refresh(app, corp).await?;
        }
        Ok::<_, Error>(())
    };
    let problem = match tokio::time::timeout(LOOK, look).await {
        Ok(Ok(())) => return true,
        Ok(Err(error)) => error.to_string(),
        Err(elapsed) => elapsed.to_string(),
    };
    tracing::warn!(corp = %corp.id, problem, "whether a State is new could not be looked up");
    let next_ms = app.now_ms() + app.config.roster.sync_every_ms;
    corp.no_look_before_ms.store(next_ms, Relaxed);
    false
}

/// Reads channels, pools and spellings anew. Needed once before anything is decided.
pub async fn refresh(app: &App, corp: &CorpApp) -> Result<(), Error> {
    // Read first: what changes meanwhile makes another mark.
    let mark = app.ledger.configuration_mark(&corp.id).await?;
    let members = app.ledger.members().all(&corp.id).await?;
    let skills: HashMap<MemberId, BTreeSet<Skill>> = members
        .iter()
        .map(|member| (member.member.clone(), member.skills.clone()))
        .collect();
    corp.names.set(&members);
    let mut routes = Routes {
        mark,
        default_pool: default_pool(corp),
        ..Routes::default()
    };
    let pools = app.ledger.pools().versions(&corp.id).await?;
    let pools: Vec<PoolId> = pools
        .into_iter()
        .filter(|pool| !pool.deleted)
        .map(|pool| pool.id)
        .collect();
    for pool in app.ledger.pools().get_many(&corp.id, &pools).await? {
        let load_window_ms = pool.load_window_seconds.map(|seconds| seconds * 1_000);
        let sticky = pool.routing.sticky;
        let is_rendezvous = sticky.is_some_and(|sticky| sticky.otherwise == Otherwise::Rendezvous);
        let able = pool.members.into_iter().filter(|_| is_rendezvous);
        let able = able.map(|place| Able {
            skills: skills.get(&place.member).cloned().unwrap_or_default(),
            weight: place.weight,
            member: place.member,
        });
        let settings = routes::Pool {
            load_window_ms,
            able: able.collect(),
            routing: pool.routing,
        };
        routes.pools.insert(pool.id, settings);
    }
    for channel in app.ledger.channels().all(&corp.id).await? {
        for state in channel.states.into_iter().chain(channel.retired_states) {
            routes.by_state.insert(state, channel.id.clone());
        }
        let visits = channel.public_code.and_then(|public_code| {
            let code = public_code.clone();
            routes.by_public_code.insert(code, channel.id.clone());
            channel.visits.map(|visits| Visits {
                public_code,
                slots_per_member: visits.slots_per_member,
                hold_ms: u64::from(visits.hold_seconds) * 1_000,
                title: visits.title,
            })
        });
        let welcome = channel.welcome.map(serde_json::from_value::<Welcome>);
        let welcome = welcome.transpose().unwrap_or_else(|error| {
            tracing::warn!(corp = %corp.id, channel = %channel.id, error = %error, "a welcome message cannot be read");
            None
        });
        routes.channels.insert(
            channel.id,
            Channel {
                pool: channel.pool,
                welcome,
                card: channel.card,
                needs: channel.needs,
                is_limited: !channel.limits.is_none(),
                visits,
            },
        );
    }
    let deleted = app.ledger.channels().deleted_with_ways(&corp.id).await?;
    routes.deleted = deleted.into_iter().collect();
    campaigns::refresh(app, corp).await?;
    corp.set_routes(routes);
    Ok(())
}

/// The pool of customers whose State names no channel.
pub fn default_pool(corp: &CorpApp) -> Option<PoolId> {
    corp.settings
        .default_pool
        .as_ref()
        .and_then(|pool| PoolId::new(pool.clone()).ok())
}
