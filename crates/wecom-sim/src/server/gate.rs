//! What stands before every API: verb, token, address, permission, quotas, concurrency.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::api::{Api, Auth, Fields};
use crate::config::{Config, Rate};
use crate::quota::Verdict;
use crate::world::{App, Corp, Token, World};

use super::serve::Incoming;

/// A call on its way through. Dropping it ends its being in flight.
pub(crate) struct Passage {
    pub(crate) corp: Option<Arc<Corp>>,
    pub(crate) agent_id: Option<u32>,
    pub(crate) who: Who,
    /// Why it may not go on.
    pub(crate) refused: Option<i32>,
    pub(crate) while_blocked: bool,
    slot: Option<Slot>,
    writing: Option<Writing>,
}

/// Who calls.
pub(crate) enum Who {
    /// gettoken; the app whose secret it is.
    Secret {
        app: Option<Arc<App>>,
    },
    /// A robot of the corp.
    Webhook {
        number: usize,
        key: String,
    },
    /// An app with a good token.
    App {
        token: Arc<Token>,
    },
    Nobody,
}

/// A place among the calls in flight of one (corp, API).
struct Slot {
    corp: Arc<Corp>,
    api: Api,
    in_flight: u32,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.corp.stat(self.api).leave();
    }
}

/// A record this call is writing.
struct Writing {
    corp: Arc<Corp>,
    record: String,
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.corp
            .writing
            .part(self.record.as_str())
            .remove(&self.record);
    }
}

impl Passage {
    fn new(who: Who, corp: Option<Arc<Corp>>, agent_id: Option<u32>, api: Api) -> Self {
        let slot = corp.as_ref().map(|corp| Slot {
            in_flight: corp.stat(api).enter(),
            corp: Arc::clone(corp),
            api,
        });
        Self {
            corp,
            agent_id,
            who,
            refused: None,
            while_blocked: false,
            slot,
            writing: None,
        }
    }

    fn nobody(code: i32) -> Self {
        Self {
            corp: None,
            agent_id: None,
            who: Who::Nobody,
            refused: Some(code),
            while_blocked: false,
            slot: None,
            writing: None,
        }
    }

    fn refuse(mut self, code: i32) -> Self {
        self.refused = Some(code);
        self
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.slot.as_ref().map_or(0, |slot| slot.in_flight)
    }

    /// The `nth` call of a block; the 0th is the one that was told of it.
    pub(crate) fn note_block(&mut self, world: &World, nth: u64, rules: &Config) {
        if nth == 0 {
            return;
        }
        self.while_blocked = true;
        world.totals.while_blocked.fetch_add(1, Ordering::Relaxed);
        if nth > rules.check.excused_per_block {
            world
                .totals
                .while_blocked_unexcused
                .fetch_add(1, Ordering::Relaxed);
        }
    }
}

pub(crate) fn pass(
    world: &Arc<World>,
    incoming: &Incoming,
    fields: &Fields,
    rules: &Config,
    now_ms: i64,
) -> Passage {
    let spec = incoming.api.spec();
    let passage = identify(world, incoming, fields, now_ms);
    if passage.refused.is_some() {
        return passage;
    }
    if spec.post && !incoming.post {
        return passage.refuse(40058);
    }
    if incoming.body.is_none() {
        return passage.refuse(40206);
    }
    if let Who::App { token } = &passage.who {
        let def = token.app.def.get();
        if !def.config.enabled {
            return passage.refuse(50003);
        }
        if !def.config.trusted_ips.is_empty() && !def.config.trusted_ips.contains(&incoming.ip) {
            return passage.refuse(60020);
        }
        if spec.auth == Auth::ContactToken && !def.config.callable {
            return passage.refuse(48002);
        }
    }
    let passage = if rules.limits.enabled {
        limit(world, passage, incoming, fields, rules, now_ms)
    } else {
        passage
    };
    if passage.refused.is_none() && fields.broken() {
        return passage.refuse(40058);
    }
    passage
}

fn identify(world: &Arc<World>, incoming: &Incoming, fields: &Fields, now_ms: i64) -> Passage {
    let api = incoming.api;
    match api.spec().auth {
        Auth::Secret => {
            let corp = fields
                .filled("corpid")
                .and_then(|id| world.corps.get().get(id).cloned());
            let app = corp
                .as_deref()
                .zip(fields.filled("corpsecret"))
                .and_then(|(corp, secret)| corp.app_of(secret));
            if corp.is_none() {
                world
                    .totals
                    .unknown_corp_gettoken
                    .fetch_add(1, Ordering::Relaxed);
            }
            let agent_id = app.as_ref().map(|app| app.agent_id);
            Passage::new(Who::Secret { app }, corp, agent_id, api)
        }
        Auth::Key => {
            let Some(key) = parameter(&incoming.query, "key") else {
                return Passage::nobody(93000);
            };
            for corp in world.corps.get().values() {
                let found = corp
                    .settings
                    .get()
                    .webhooks
                    .iter()
                    .position(|webhook| webhook.0 == key);
                if let Some(number) = found {
                    return Passage::new(
                        Who::Webhook { number, key },
                        Some(Arc::clone(corp)),
                        None,
                        api,
                    );
                }
            }
            Passage::nobody(93000)
        }
        Auth::Token | Auth::ContactToken => {
            let Some(value) =
                parameter(&incoming.query, "access_token").filter(|value| !value.is_empty())
            else {
                return Passage::nobody(41001);
            };
            match world.bearer(&value, now_ms) {
                Ok(token) => {
                    let (corp, agent_id) = (Arc::clone(&token.corp), token.app.agent_id);
                    Passage::new(Who::App { token }, Some(corp), Some(agent_id), api)
                }
                Err(Some(token)) => {
                    let (corp, agent_id) = (Arc::clone(&token.corp), token.app.agent_id);
                    let code = if token.dead() { 40014 } else { 42001 };
                    Passage::new(Who::Nobody, Some(corp), Some(agent_id), api).refuse(code)
                }
                Err(None) => {
                    world.totals.unknown_token.fetch_add(1, Ordering::Relaxed);
                    Passage::nobody(40014)
                }
            }
        }
    }
}

/// 45009, 45033, 45035.
fn limit(
    world: &Arc<World>,
    mut passage: Passage,
    incoming: &Incoming,
    fields: &Fields,
    rules: &Config,
    now_ms: i64,
) -> Passage {
    let (api, limits) = (incoming.api, &rules.limits);
    let spec = api.spec();
    let special = limits.per_api.get(api.name());
    let Some(corp) = passage.corp.clone() else {
        return passage;
    };
    if spec.metered {
        let debug = parameter(&incoming.query, "debug").as_deref() == Some("1");
        let corp_rate = match special.and_then(|special| special.rate.as_ref()) {
            _ if debug => &Rate::new(5, 0),
            Some(rate) => rate,
            None => &limits.corp_api,
        };
        let mut verdict = corp.stat(api).meter.take(corp_rate, limits, now_ms);
        if verdict == Verdict::Free {
            verdict =
                world.caller(incoming.ip).meters[api.index()].take(&limits.ip_api, limits, now_ms);
        }
        if let Verdict::Blocked { nth } = verdict {
            passage.note_block(world, nth, rules);
            return passage.refuse(45009);
        }
    }
    let most = special
        .and_then(|special| special.in_flight)
        .unwrap_or(limits.in_flight);
    let concurrent = matches!(spec.auth, Auth::Token | Auth::ContactToken);
    if concurrent && most > 0 && passage.in_flight() > most {
        return passage.refuse(45033);
    }
    if limits.same_record
        && let Some(record) = record_of(api, fields)
    {
        let mut part = corp.writing.part(record.as_str());
        if part.contains_key(&record) {
            return passage_refused(part, passage);
        }
        part.insert(record.clone(), ());
        drop(part);
        passage.writing = Some(Writing { corp, record });
    }
    passage
}

/// The lock must go before the passage does: dropping a passage may take it.
fn passage_refused<T>(lock: T, passage: Passage) -> Passage {
    drop(lock);
    passage.refuse(45035)
}

/// What two calls must not write at once.
fn record_of(api: Api, fields: &Fields) -> Option<String> {
    match api.name() {
        "externalcontact/mark_tag" => {
            let member = fields.text("userid")?.to_ascii_lowercase();
            Some(format!(
                "tags of {} with {member}",
                fields.text("external_userid")?
            ))
        }
        "externalcontact/resigned/transfer_customer" => Some(format!(
            "transfers to {}",
            fields.text("takeover_userid")?.to_ascii_lowercase()
        )),
        _ => None,
    }
}

/// One parameter of a query. Most values need no decoding, and then nothing is.
fn parameter(query: &str, name: &str) -> Option<String> {
    let pair = query
        .split('&')
        .find(|pair| pair.split('=').next() == Some(name))?;
    let (_, value) = pair.split_once('=').unwrap_or((pair, ""));
    if value.contains(['%', '+']) {
        return url::form_urlencoded::parse(pair.as_bytes())
            .next()
            .map(|(_, value)| value.into_owned());
    }
    Some(value.to_owned())
}
