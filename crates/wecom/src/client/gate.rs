//! Closes the way for one app when WeCom refuses it whatever it asks for (address not trusted, app disabled):
//! then one call at a time looks, with growing pauses, whether a person has mended it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Error;

const FIRST_PAUSE_MS: u64 = 5_000;
const LONGEST_PAUSE_MS: u64 = 60_000;
/// A probe that brings no answer leaves the gate closed for this long.
const PROBE_MS: u64 = 15_000;

#[derive(Default)]
pub(crate) struct Gate {
    closed: Mutex<Option<Closed>>,
}

#[derive(Clone, Copy)]
struct Closed {
    errcode: i64,
    until_ms: u64,
    pause_ms: u64,
}

/// Held by a call that was let through.
#[derive(Clone, Copy)]
pub(crate) struct Pass {
    probe: bool,
}

impl Gate {
    pub(crate) fn enter(&self, api: &'static str, now_ms: u64) -> Result<Pass, Error> {
        match self.lock().as_mut() {
            None => Ok(Pass { probe: false }),
            Some(closed) if now_ms < closed.until_ms => Err(Error::Blocked {
                api,
                until_ms: closed.until_ms,
                errcode: Some(closed.errcode),
            }),
            Some(closed) => {
                closed.until_ms = now_ms + PROBE_MS;
                Ok(Pass { probe: true })
            }
        }
    }

    /// What WeCom answered to a call that was let through.
    pub(crate) fn leave<T>(&self, pass: Pass, answer: &Result<T, Error>, app: &str, now_ms: u64) {
        match answer {
            Err(Error::Api {
                api,
                errcode,
                from_ip,
                ..
            }) if crate::error::stops_the_app(*errcode) => {
                let mut closed = self.lock();
                let pause_ms = match *closed {
                    // Calls that were under way when it closed.
                    Some(_) if !pass.probe => return,
                    Some(closed) => (closed.pause_ms * 2).min(LONGEST_PAUSE_MS),
                    None => FIRST_PAUSE_MS,
                };
                *closed = Some(Closed {
                    errcode: *errcode,
                    until_ms: now_ms + pause_ms,
                    pause_ms,
                });
                drop(closed);
                tracing::error!(
                    app,
                    api,
                    errcode,
                    ?from_ip,
                    pause_ms,
                    "WeCom refuses this app: calls wait"
                );
            }
            Ok(_) | Err(Error::Api { .. }) => {
                if self.lock().take().is_some() {
                    tracing::info!(app, "WeCom takes this app's calls again");
                }
            }
            // No answer says nothing.
            Err(_) => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Closed>> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
