//! Events on their way to the callback URLs: who hears of what, lost, doubled, delayed, out of order.
//!
//! Sealing and the network are in `deliver`. API calls make no events; only people do, and the ends of
//! transfers (api.md 5.7).

mod deliver;
mod event;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::{Notify, mpsc};

pub(crate) use deliver::{run, verify};
pub(crate) use event::{ChatEvent, Event, MembersChange, presence, tag};

use crate::Error;
use crate::admin::CallbackCounters;
use crate::config::CallbackRules;
use crate::random::{For, Random};
use crate::sync::Lock;
use crate::world::{App, Corp, Member, World};

/// A plaintext for one app.
#[derive(Debug, Clone)]
pub(crate) struct Outbound {
    pub(crate) corp: Arc<Corp>,
    pub(crate) app: Arc<App>,
    pub(crate) plaintext: Arc<str>,
    /// Only what is about the app itself names it in the envelope.
    pub(crate) names_app: bool,
}

/// The post office.
#[derive(Debug)]
pub(crate) struct Callbacks {
    /// Without TLS: reading the system's certificates takes a tenth of a second, and tests start many
    /// simulators.
    plain: reqwest::Client,
    /// Built when the first https URL is called.
    tls: OnceLock<reqwest::Client>,
    queue: mpsc::UnboundedSender<Outbound>,
    waiting: Lock<Option<mpsc::UnboundedReceiver<Outbound>>>,
    pub(crate) connections: usize,
    pending: AtomicU64,
    idle: Notify,
    pub(crate) counts: Counts,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) events: AtomicU64,
    pub(crate) duplicated: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) acked: AtomicU64,
    pub(crate) retried: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) unsent: AtomicU64,
    pub(crate) slowest_ms: AtomicU64,
}

/// One more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Callbacks {
    pub(crate) fn new(rules: &CallbackRules) -> Result<Self, Error> {
        let (queue, waiting) = mpsc::unbounded_channel();
        Ok(Self {
            plain: client(rules.connections).tls_certs_only([]).build()?,
            tls: OnceLock::new(),
            queue,
            waiting: Lock::new(Some(waiting)),
            connections: rules.connections,
            pending: AtomicU64::new(0),
            idle: Notify::new(),
            counts: Counts::default(),
        })
    }

    /// The client for this URL.
    fn client(&self, url: &str) -> &reqwest::Client {
        if !url.starts_with("https:") {
            return &self.plain;
        }
        // Without a TLS back end the plain one fails with a clear error.
        self.tls.get_or_init(|| {
            client(self.connections)
                .build()
                .unwrap_or_else(|_| self.plain.clone())
        })
    }

    fn push(&self, outbound: Outbound) {
        self.pending.fetch_add(1, Ordering::AcqRel);
        if self.queue.send(outbound).is_err() {
            // The simulator is stopping.
            self.done();
        }
    }

    fn done(&self) {
        if self.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.idle.notify_waiters();
        }
    }

    pub(crate) fn pending(&self) -> u64 {
        self.pending.load(Ordering::Acquire)
    }

    /// Returns when nothing is queued or being delivered.
    pub(crate) async fn idle(&self) {
        loop {
            let idle = self.idle.notified();
            tokio::pin!(idle);
            // Registered before the look, so that the last delivery is not missed.
            idle.as_mut().enable();
            if self.pending() == 0 {
                return;
            }
            idle.await;
        }
    }

    pub(crate) fn counters(&self) -> CallbackCounters {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &self.counts;
        CallbackCounters {
            events: load(&counts.events),
            duplicated: load(&counts.duplicated),
            sent: load(&counts.sent),
            acked: load(&counts.acked),
            retried: load(&counts.retried),
            lost: load(&counts.lost),
            failed: load(&counts.failed),
            dropped: load(&counts.dropped),
            unsent: load(&counts.unsent),
            slowest_ms: load(&counts.slowest_ms),
        }
    }
}

fn client(connections: usize) -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .pool_max_idle_per_host(connections)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .http1_only()
        .tcp_nodelay(true)
}

impl World {
    /// A contact event, to every app that has the member in its range.
    pub(crate) fn emit_contact(self: &Arc<Self>, corp: &Arc<Corp>, event: Event) {
        for app in corp.apps.get().values() {
            if app.def.get().hears_of(event.member_key()) {
                self.emit(Outbound {
                    corp: Arc::clone(corp),
                    app: Arc::clone(app),
                    plaintext: event
                        .plaintext(&corp.id, app.agent_id, self.now_ms())
                        .into(),
                    names_app: false,
                });
            }
        }
    }

    /// An event of a group, to every app that has its owner in its range. Without the customer-contact function
    /// of its owner it is no customer group, and nobody hears of it.
    pub(crate) fn emit_chat(
        self: &Arc<Self>,
        corp: &Arc<Corp>,
        owner: &Member,
        chat_id: &str,
        event: &ChatEvent<'_>,
    ) {
        if !owner.def.get().customer_contact {
            return;
        }
        let mut plaintext: Option<Arc<str>> = None;
        for app in corp.apps.get().values() {
            if app.def.get().hears_of(&owner.key) {
                let plaintext = plaintext.get_or_insert_with(|| {
                    event::chat(&corp.id, chat_id, event, self.now_ms()).into()
                });
                self.emit(Outbound {
                    corp: Arc::clone(corp),
                    app: Arc::clone(app),
                    plaintext: Arc::clone(plaintext),
                    names_app: false,
                });
            }
        }
    }

    /// The same plaintext to every app that hears of contacts.
    pub(crate) fn emit_to_all(self: &Arc<Self>, corp: &Arc<Corp>, plaintext: &Arc<str>) {
        for app in corp.apps.get().values() {
            let def = app.def.get();
            if def
                .config
                .callback
                .as_ref()
                .is_some_and(|callback| callback.contact_events)
                && def.config.callable
            {
                self.emit(Outbound {
                    corp: Arc::clone(corp),
                    app: Arc::clone(app),
                    plaintext: Arc::clone(plaintext),
                    names_app: false,
                });
            }
        }
    }

    /// Sends an event, with what the configured unreliability does to it.
    pub(crate) fn emit(self: &Arc<Self>, outbound: Outbound) {
        let rules = self.rules.get();
        let counts = &self.callbacks.counts;
        count(&counts.events);
        let has_url = outbound
            .app
            .def
            .get()
            .config
            .callback
            .as_ref()
            .is_some_and(|to| !to.urls.is_empty());
        if !rules.callbacks.enabled || !has_url {
            count(&counts.unsent);
            return;
        }
        let mut random = Random::new(rules.seed, For::Callback, self.number());
        if random.chance(rules.callbacks.loss_rate) {
            count(&counts.lost);
            return;
        }
        let copies = if random.chance(rules.callbacks.duplicate_rate) {
            count(&counts.duplicated);
            rules.callbacks.duplicate_copies.max(1)
        } else {
            1
        };
        for _ in 0..copies {
            let mut delay_ms = random.up_to_ms(rules.callbacks.delay_ms);
            if random.chance(rules.callbacks.reorder_rate) {
                delay_ms += random.up_to_ms(rules.callbacks.reorder_within_ms.max(1) - 1) + 1;
            }
            let outbound = outbound.clone();
            if delay_ms > 0 {
                let due_ms = self.now_ms() + delay_ms;
                self.at(
                    due_ms,
                    Box::new(move |world| world.callbacks.push(outbound)),
                );
            } else {
                self.callbacks.push(outbound);
            }
        }
    }
}
