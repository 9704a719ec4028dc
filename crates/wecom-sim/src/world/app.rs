//! An app, its callback settings and its tokens.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use wecom::crypto::{Keys, Sealer};

use crate::Error;
use crate::config::{AppConfig, RepeatToken};
use crate::random::For;
use crate::sync::{Lock, Slot};

use super::World;
use super::corp::Corp;
use super::stats::Gettoken;

#[derive(Debug)]
pub(crate) struct App {
    pub(crate) agent_id: u32,
    pub(crate) def: Slot<AppDef>,
    pub(crate) gettoken: Lock<Gettoken>,
    /// The newest token.
    current: Lock<Option<Arc<str>>>,
    /// Whose turn it is among the callback URLs.
    pub(crate) turn: AtomicU64,
    /// Events that failed in a row, and until when events are dropped for it.
    pub(crate) failed_in_a_row: AtomicU64,
    pub(crate) dropping_until_ms: AtomicI64,
    /// (day, person-times).
    pub(crate) sent_today: Lock<(i64, u64)>,
}

/// What the configuration says about an app, made ready.
#[derive(Debug)]
pub(crate) struct AppDef {
    pub(crate) config: AppConfig,
    visible: Option<HashSet<String>>,
    pub(crate) sealer: Option<Sealer>,
}

impl AppDef {
    fn new(corp_id: &str, config: AppConfig) -> Result<Self, Error> {
        let sealer = config.callback.as_ref().map(|callback| {
            let keys = Keys::parse(&callback.token.0, &callback.aes_key.0)
                .map_err(|error| Error::config("callback", error.to_string()))?;
            Ok::<_, Error>(Sealer::new(
                keys,
                callback.receive_id.as_deref().unwrap_or(corp_id),
            ))
        });
        let visible = (!config.visible.is_empty()).then(|| {
            config
                .visible
                .iter()
                .map(|userid| userid.to_ascii_lowercase())
                .collect()
        });
        Ok(Self {
            visible,
            sealer: sealer.transpose()?,
            config,
        })
    }

    /// The member is inside the visible range.
    pub(crate) fn sees(&self, member_key: &str) -> bool {
        self.visible
            .as_ref()
            .is_none_or(|visible| visible.contains(member_key))
    }

    /// Contact events of this member go to the app.
    pub(crate) fn hears_of(&self, member_key: &str) -> bool {
        self.config.enabled
            && self.config.callable
            && self
                .config
                .callback
                .as_ref()
                .is_some_and(|callback| callback.contact_events)
            && self.sees(member_key)
    }
}

impl App {
    pub(crate) fn new(corp_id: &str, config: AppConfig) -> Result<Self, Error> {
        Ok(Self {
            agent_id: config.agent_id,
            def: Slot::new(AppDef::new(corp_id, config)?),
            gettoken: Lock::default(),
            current: Lock::default(),
            turn: AtomicU64::new(0),
            failed_in_a_row: AtomicU64::new(0),
            dropping_until_ms: AtomicI64::new(i64::MIN),
            sent_today: Lock::default(),
        })
    }

    pub(crate) fn configure(&self, corp_id: &str, config: AppConfig) -> Result<(), Error> {
        self.def.set(AppDef::new(corp_id, config)?);
        Ok(())
    }
}

/// An access token that was handed out.
#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) value: Arc<str>,
    pub(crate) corp: Arc<Corp>,
    pub(crate) app: Arc<App>,
    pub(crate) expires_ms: i64,
    dead: AtomicBool,
}

/// How long an expired token is remembered, so that it answers 42001 and not 40014.
const REMEMBERED_MS: i64 = 86_400_000;

impl World {
    /// gettoken with the right secret: the token and the seconds it still has.
    pub(crate) fn token_for(
        &self,
        corp: &Arc<Corp>,
        app: &Arc<App>,
        now_ms: i64,
    ) -> (Arc<str>, i64) {
        let rules = self.rules.get();
        let mut current = app.current.lock();
        let old = current
            .as_ref()
            .and_then(|value| self.tokens.part(value).get(value).cloned());
        if let Some(old) = old.filter(|old| !old.dead() && now_ms < old.expires_ms) {
            match rules.tokens.repeat {
                RepeatToken::Same => {
                    return (
                        Arc::clone(&old.value),
                        (old.expires_ms - now_ms).div_euclid(1_000),
                    );
                }
                RepeatToken::NewKeepsOld => {}
                RepeatToken::NewKillsOld => old.kill(),
            }
        }
        // As long as WeCom's are.
        let value: Arc<str> = self.random(For::Token, self.number()).text(214).into();
        let token = Token {
            value: Arc::clone(&value),
            corp: Arc::clone(corp),
            app: Arc::clone(app),
            expires_ms: now_ms.saturating_add(rules.tokens.life_s.saturating_mul(1_000)),
            dead: AtomicBool::new(false),
        };
        let mut part = self.tokens.part(&value);
        part.retain(|_, token| now_ms.saturating_sub(token.expires_ms) < REMEMBERED_MS);
        part.insert(Arc::clone(&value), Arc::new(token));
        drop(part);
        *current = Some(Arc::clone(&value));
        (value, rules.tokens.life_s)
    }

    /// Who calls with this token; who held it, when it is dead or expired.
    pub(crate) fn bearer(
        &self,
        value: &str,
        now_ms: i64,
    ) -> Result<Arc<Token>, Option<Arc<Token>>> {
        let token = self.tokens.part(value).get(value).cloned().ok_or(None)?;
        if token.dead() || now_ms >= token.expires_ms {
            Err(Some(token))
        } else {
            Ok(token)
        }
    }

    /// Kills tokens before their time; how many died.
    pub(crate) fn kill_tokens(&self, corp_id: Option<&str>, agent_id: Option<u32>) -> u64 {
        let now_ms = self.now_ms();
        let mut killed = 0;
        self.tokens.for_each(|_, token| {
            let meant = corp_id.is_none_or(|id| *token.corp.id == *id)
                && agent_id.is_none_or(|id| token.app.agent_id == id);
            if meant && !token.dead() && now_ms < token.expires_ms {
                token.kill();
                killed += 1;
            }
        });
        killed
    }
}

impl Token {
    pub(crate) fn dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    fn kill(&self) {
        self.dead.store(true, Ordering::Release);
    }
}
