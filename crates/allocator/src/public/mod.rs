//! The pages that visitors see, on a listener of their own: nothing of the API is here, and none of this is there.
//!
//! | route | what |
//! |---|---|
//! | `GET /c/{public_code}` | decides which member the visitor gets, and shows how to add him |
//! | `GET /c/{public_code}/status` | the same as a few words of JSON, for the page's script |
//! | `GET /g/{public_code}` | decides which customer group the visitor of a campaign gets, and shows how to join it |
//! | `GET /g/{public_code}/status` | the same for its script |
//! | `GET /w/{way}.png` | the picture of a contact way or join way, from memory |
//! | `GET /livez` | for the proxy |
//!
//! A page is whole without scripts: where something is waited for it comes again by itself, the less often the longer it
//! took. The script only asks in between whether that is worth while, and stops when what the visitor has is over, so that
//! a page which nobody looks at keeps nobody's time. `visitor` says who is a visitor.

pub mod app_desk;
mod client;
pub mod desk;
mod html;
pub mod identity;
mod layers;
mod pages;
mod render;
mod seats;
pub(crate) mod states;
mod text;
mod visitor;

use std::{sync::Arc, time::Duration};

use axum::{Router, http::StatusCode, routing::get};

use self::{client::Limits, desk::Desk, identity::Keys};
use crate::{
    clock::Clock,
    config::{Network, Public},
};

/// A visitor waits no longer for the stores.
const PATIENCE: Duration = Duration::from_secs(5);
const LIVEZ: &str = "/livez";

/// What the routes share.
#[derive(Clone)]
pub struct Site {
    desk: Arc<dyn Desk>,
    keys: Keys,
    /// Cookies over TLS only.
    secure: bool,
    trusted: Arc<[Network]>,
    limits: Arc<Limits>,
    patience: Duration,
    clock: Clock,
}

impl std::fmt::Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site")
            .field("keys", &self.keys)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Site {
    pub fn new(config: &Public, keys: Keys, desk: Arc<dyn Desk>, clock: Clock) -> Self {
        Self {
            desk,
            keys,
            secure: config.is_secure(),
            trusted: config.trusted_proxies.clone().into(),
            limits: Arc::new(Limits::new(
                config.per_minute,
                config.burst,
                Arc::clone(&clock),
            )),
            patience: PATIENCE,
            clock,
        }
    }

    /// Another patience than a person's.
    #[must_use]
    pub fn waiting_at_most(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }
}

/// All of it; to be served with the address of the peer (`ConnectInfo`).
pub fn router(site: Site) -> Router {
    let routes = Router::new()
        .route("/c/{code}", get(pages::page))
        .route("/c/{code}/status", get(pages::status))
        .route("/g/{code}", get(pages::page))
        .route("/g/{code}/status", get(pages::status))
        .route("/w/{file}", get(pages::picture))
        // Browsers ask for it whatever the page says.
        .route("/favicon.ico", get(async || StatusCode::NO_CONTENT))
        .route(LIVEZ, get(async || "ok\n"));
    layers::around(routes, &site).with_state(site)
}
