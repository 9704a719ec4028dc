//! Who asks, and what he may do: a bearer key, known here by its SHA-256, scoped to a corp and a role.
//!
//! Keys are looked up in Postgres and kept for a few seconds. While Postgres is away a key that was valid a short
//! while ago still is, so that deciding goes on without Postgres.

use std::{sync::Arc, time::Duration};

use allocation::{CorpId, MemberId};
use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::{HeaderName, header, request::Parts},
};
use ledger::{ApiKey, AuditRecord, Role, Trail};
use moka::future::Cache;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{Api, layers, parse, problem::Problem};
use crate::{
    app::{App, CorpApp},
    caught_up, people,
};

/// A key is looked up again after this: a revoked one works so long.
const FRESH_MS: u64 = 5_000;
/// How long a key may be believed while Postgres is away.
const BELIEVED_MS: u64 = 15 * 60 * 1000;
/// How long a look at Postgres may take where something else will do.
pub(super) const LOOK_UP: Duration = Duration::from_secs(2);
const MOST_KEYS: u64 = 10_000;
/// Why something is changed, for the audit.
const REASON: HeaderName = HeaderName::from_static("x-reason");
const LONGEST_REASON: usize = 200;
/// How long a request waits for the ledger to catch up with the log; it usually takes a few milliseconds.
const CATCH_UP: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
struct Known {
    /// None: no such key.
    key: Option<ApiKey>,
    read_ms: u64,
    /// When Postgres was asked last, whether or not it answered.
    tried_ms: u64,
}

/// Keys that were seen of late, by their hash.
#[derive(Clone)]
pub(super) struct Keys(Cache<[u8; 32], Known>);

impl Default for Keys {
    fn default() -> Self {
        Self(
            Cache::builder()
                .max_capacity(MOST_KEYS)
                .time_to_live(Duration::from_millis(BELIEVED_MS))
                .build(),
        )
    }
}

impl Keys {
    async fn find(&self, app: &App, token: &str) -> Result<ApiKey, Problem> {
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let now_ms = app.now_ms();
        let known = match self.0.get(&hash).await {
            Some(known) if now_ms < known.tried_ms + FRESH_MS => known,
            old => {
                let known = Self::read(app, &hash, old, now_ms).await?;
                self.0.insert(hash, known.clone()).await;
                known
            }
        };
        known
            .key
            .filter(|key| key.is_valid(now_ms))
            .ok_or_else(Problem::unauthorized)
    }

    /// From Postgres; while it is away, what was known a short while ago, without waiting long.
    async fn read(
        app: &App,
        hash: &[u8; 32],
        old: Option<Known>,
        now_ms: u64,
    ) -> Result<Known, Problem> {
        let api_keys = app.ledger.api_keys();
        let read = api_keys.by_hash(hash);
        let old = old.filter(|old| old.key.is_some() && now_ms < old.read_ms + BELIEVED_MS);
        let believed = |old: Known| Known {
            tried_ms: now_ms,
            ..old
        };
        let found = match old {
            None => read.await?,
            Some(old) => match tokio::time::timeout(LOOK_UP, read).await {
                Ok(Ok(found)) => found,
                Ok(Err(error)) if !error.is_passing() => return Err(error.into()),
                _ => return Ok(believed(old)),
            },
        };
        Ok(Known {
            key: found,
            read_ms: now_ms,
            tried_ms: now_ms,
        })
    }
}

/// One request of an authenticated caller for one corp.
#[derive(Clone)]
pub(super) struct Ctx {
    pub(super) app: Arc<App>,
    pub(super) corp: Arc<CorpApp>,
    pub(super) key: Uuid,
    pub(super) role: Role,
    /// Whose key it is, with the role `member`.
    pub(super) member: Option<MemberId>,
    reason: Option<String>,
}

impl Ctx {
    /// Reads it from a request, once.
    pub(super) async fn of(api: &Api, parts: &mut Parts) -> Result<Self, Problem> {
        if let Some(ctx) = parts.extensions.get::<Self>() {
            return Ok(ctx.clone());
        }
        let key = api.keys.find(&api.app, bearer(parts)?).await?;
        let corp = corp_id(parts).await?;
        // Whoever may not see a corp does not learn whether it exists.
        if key.corp.as_ref().is_some_and(|own| *own != corp) {
            return Err(Problem::forbidden("The key belongs to another corp."));
        }
        let corp = api
            .app
            .corps
            .get(&corp)
            .ok_or_else(|| Problem::not_found("corp"))?;
        let ctx = Self {
            app: Arc::clone(&api.app),
            corp: Arc::clone(corp),
            key: key.id,
            role: key.role,
            member: key.member,
            reason: reason(parts)?,
        };
        parts.extensions.insert(ctx.clone());
        Ok(ctx)
    }

    pub(super) fn id(&self) -> &CorpId {
        &self.corp.id
    }

    /// Who changes something, for the audit; `reason` outranks the header.
    pub(super) fn trail(&self, reason: Option<String>) -> Trail {
        Trail {
            actor: self.actor(),
            reason: reason.or_else(|| self.reason.clone()),
            request_id: layers::request_id(),
            now_ms: self.app.now_ms(),
        }
    }

    pub(super) fn actor(&self) -> String {
        format!("key:{}", self.key)
    }

    /// How a member is spelled.
    pub(super) async fn userid(&self, member: &MemberId) -> String {
        people::learn(&self.app, &self.corp, vec![member.clone()]).await;
        self.corp.names.userid(member)
    }

    /// For changes that are not in Postgres and have no place in the corp's log.
    pub(super) async fn audit(&self, record: AuditRecord) -> Result<(), Problem> {
        Ok(self.app.ledger.audit().add(self.id(), &[record]).await?)
    }

    /// As a problem; a closed corp is looked at at once.
    pub(super) fn roster(&self, error: roster::Error) -> Problem {
        if matches!(error, roster::Error::NotReady) {
            self.corp.not_ready.notify_one();
        }
        error.into()
    }

    /// Waits until the ledger has what the corp's log has now: what a caller was just told is then found there.
    pub(super) async fn caught_up(&self) -> Result<(), Problem> {
        let has = caught_up::within::<Problem>(&self.app, &self.corp, CATCH_UP).await;
        match has {
            Ok(true) => Ok(()),
            Ok(false) => {
                let detail =
                    "The ledger has not caught up with the latest decisions yet. Try again.";
                Err(Problem::unavailable("ledger_behind", detail, 1))
            }
            Err(problem) => {
                // A closed corp is looked at at once.
                self.corp.not_ready.notify_one();
                Err(problem)
            }
        }
    }

    fn need(self, role: Role) -> Result<Self, Problem> {
        if self.role >= role {
            return Ok(self);
        }
        Err(Problem::forbidden(format!(
            "This needs the role {}; the key has {}.",
            role.as_str(),
            self.role.as_str()
        )))
    }
}

fn bearer(parts: &Parts) -> Result<&str, Problem> {
    let value = parts
        .headers
        .get(header::AUTHORIZATION)
        .ok_or_else(Problem::unauthorized)?;
    let (scheme, token) = value
        .to_str()
        .ok()
        .and_then(|text| text.split_once(' '))
        .ok_or_else(Problem::unauthorized)?;
    let token = token.trim();
    if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() {
        return Err(Problem::unauthorized());
    }
    Ok(token)
}

async fn corp_id(parts: &mut Parts) -> Result<CorpId, Problem> {
    let params = RawPathParams::from_request_parts(parts, &())
        .await
        .map_err(|_| parse::not_utf8("The path"))?;
    let (_, corp) = params
        .iter()
        .find(|(name, _)| *name == "corp_id")
        .ok_or_else(|| Problem::not_found("corp"))?;
    CorpId::new(corp).map_err(|_| {
        let detail = "The corp id in the path must be WeCom's: 1 to 64 of A-Z a-z 0-9 _ - .";
        Problem::bad_request("invalid_path", detail)
    })
}

/// The header is percent-encoded UTF-8.
fn reason(parts: &Parts) -> Result<Option<String>, Problem> {
    let Some(value) = parts.headers.get(REASON) else {
        return Ok(None);
    };
    let wrong = || {
        let detail = format!(
            "X-Reason: send at most {LONGEST_REASON} characters, percent-encoded where they are not ASCII."
        );
        Problem::bad_request("invalid_reason", detail)
    };
    let text = value.to_str().map_err(|_| wrong())?;
    // As one value of a form: the decoder at hand for percent signs.
    let text = text.replace('+', "%2B").replace('&', "%26");
    let decoded = url::form_urlencoded::parse(format!("r={text}").as_bytes())
        .next()
        .map(|(_, reason)| reason.into_owned());
    let decoded = decoded.unwrap_or_default();
    if decoded.chars().count() > LONGEST_REASON || decoded.chars().any(char::is_control) {
        return Err(wrong());
    }
    Ok(Some(decoded).filter(|reason| !reason.trim().is_empty()))
}

macro_rules! roles {
    ($($(#[$doc:meta])* $name:ident needs $role:ident),+ $(,)?) => { $(
        $(#[$doc])*
        pub(super) struct $name(pub(super) Ctx);

        impl FromRequestParts<Api> for $name {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
                Ctx::of(api, parts).await?.need(Role::$role).map(Self)
            }
        }
    )+ };
}

roles!(
    /// Any valid key, a member's too: the handler looks whose.
    Anyone needs Member,
    Viewer needs Viewer,
    Operator needs Operator,
    Admin needs Admin,
);
