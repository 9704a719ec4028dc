//! One call from arrival to answer: gate, faults before, the API itself, faults after, the record.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::admin::CallRecord;
use crate::api::{Api, Call, Fields, Reply};
use crate::config::{Act, Config, Latency, When};
use crate::fault::{Facts, Strike};
use crate::random::{For, Random};
use crate::world::World;

use super::Dropped;
use super::gate::{self, Passage, Who};
use super::gettoken::{Refusal, gettoken};

const JSON: &str = "application/json; charset=UTF-8";

pub(crate) struct Incoming {
    pub(crate) api: Api,
    pub(crate) ip: IpAddr,
    /// By which name the caller reaches us: pictures are there too.
    pub(crate) host: String,
    pub(crate) post: bool,
    pub(crate) query: String,
    /// Nothing when it was too large.
    pub(crate) body: Option<Bytes>,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) body: Vec<u8>,
    /// Of a failure, for the headers.
    pub(crate) error: Option<(i32, String)>,
}

/// What becomes of the connection.
enum Fate {
    Answer(Answer),
    Drop,
    /// `done`: the work was finished, only the answer got lost.
    Hang {
        done: bool,
    },
}

/// What the record of a call says besides who made it.
struct Outcome {
    code: i32,
    effect: bool,
    fate: Fate,
    lost: bool,
    /// A scripted 45009: which call of its block this was.
    nth_in_block: Option<u64>,
}

/// Answers one call.
///
/// A call that waits (latency, faults) runs in a task of its own: as at WeCom, a caller who hangs up does
/// not undo it.
pub(crate) async fn serve(world: &Arc<World>, incoming: Incoming) -> Result<Answer, Dropped> {
    let visit = Visit::new(world, incoming);
    let (fate, passage) = if visit.may_wait() {
        let (tell, told) = oneshot::channel();
        let stop = world.stop.clone();
        world.tasks.spawn(async move {
            tokio::select! {
                result = visit.finish(|| tell.is_closed()) => drop(tell.send(result)),
                () = stop.cancelled() => {}
            }
        });
        told.await.map_err(|_| Dropped)?
    } else {
        visit.finish(|| false).await
    };
    match fate {
        Fate::Answer(answer) => Ok(answer),
        Fate::Drop => Err(Dropped),
        // Recorded already; the caller's hanging up ends this future. A call that was done is no longer in
        // flight, one that is stuck is until then.
        Fate::Hang { done } => {
            let _stuck = (!done).then_some(passage);
            std::future::pending().await
        }
    }
}

/// One call on its way.
struct Visit {
    world: Arc<World>,
    rules: Arc<Config>,
    incoming: Incoming,
    fields: Fields,
    passage: Passage,
    seq: u64,
    now_ms: i64,
}

impl Visit {
    fn new(world: &Arc<World>, incoming: Incoming) -> Self {
        let rules = world.rules.get();
        let now_ms = world.now_ms();
        let seq = world.arrival();
        let fields = if incoming.api.spec().post && incoming.post {
            Fields::of_body(incoming.body.as_deref().unwrap_or_default())
        } else {
            Fields::of_query(&incoming.query)
        };
        let passage = gate::pass(world, &incoming, &fields, &rules, now_ms);
        Self {
            world: Arc::clone(world),
            rules,
            incoming,
            fields,
            passage,
            seq,
            now_ms,
        }
    }

    fn may_wait(&self) -> bool {
        self.passage.refused.is_none() && (self.rules.latency.enabled || self.world.faults.any())
    }

    /// Does it and records it. `gone` says whether the caller has hung up meanwhile.
    async fn finish(mut self, gone: impl Fn() -> bool) -> (Fate, Passage) {
        let facts = Facts {
            api: self.incoming.api,
            corp: self.passage.corp.as_deref().map(|corp| &*corp.id),
            agent_id: self.passage.agent_id,
            ip: self.incoming.ip,
            fields: &self.fields,
            seq: self.seq,
            seed: self.rules.seed,
        };
        let mut outcome = match self.passage.refused {
            Some(code) => told(Reply::error(code), &facts),
            None => self.run(&facts).await,
        };
        outcome.lost |= gone();
        if let Some(nth) = outcome.nth_in_block {
            self.passage.note_block(&self.world, nth, &self.rules);
        }
        self.record(&outcome);
        (outcome.fate, self.passage)
    }

    async fn run(&self, facts: &Facts<'_>) -> Outcome {
        let (world, rules) = (&self.world, &*self.rules);
        if rules.latency.enabled {
            tokio::time::sleep(latency(&rules.latency, rules.seed, facts.seq)).await;
        }
        if let Some(strike) = world.faults.strike(When::Before, facts, self.now_ms).await {
            if let (Who::Secret { app }, Some(corp)) = (&self.passage.who, &self.passage.corp) {
                // A scripted refusal counts as one; a lost call only as a call.
                let ok = if matches!(strike.act, Act::Errcode(_)) {
                    Some(false)
                } else {
                    None
                };
                corp.gettoken(app.as_deref()).lock().count(self.now_ms, ok);
            }
            return struck(strike, Reply::error(-1), facts, false);
        }
        // Time may have passed while the call was held.
        let now_ms = world.now_ms();
        let mut reply = match self.act(facts, now_ms) {
            Ok(reply) => reply,
            Err(Refusal::Blocked { nth }) => {
                return Outcome {
                    nth_in_block: Some(nth),
                    ..told(Reply::error(45009), facts)
                };
            }
        };
        match world.faults.strike(When::After, facts, now_ms).await {
            None => told(reply, facts),
            Some(Strike {
                act: Act::Patch(patch),
                ..
            }) => {
                reply.merge(&patch);
                told(reply, facts)
            }
            Some(strike) => struck(strike, reply, facts, true),
        }
    }

    /// What the API itself does.
    fn act(&self, facts: &Facts<'_>, now_ms: i64) -> Result<Reply, Refusal> {
        let (world, rules, fields) = (&self.world, &*self.rules, &self.fields);
        Ok(match &self.passage.who {
            Who::Secret { app } => {
                return gettoken(
                    world,
                    self.incoming.ip,
                    &self.passage,
                    app.as_ref(),
                    fields,
                    rules,
                    now_ms,
                );
            }
            Who::Webhook { number, key } => match &self.passage.corp {
                Some(corp) => crate::api::webhook(world, corp, *number, key, fields, rules, now_ms),
                None => Reply::error(93000),
            },
            Who::App { token } => {
                let call = Call {
                    world,
                    corp: &token.corp,
                    app: &token.app,
                    def: token.app.def.get(),
                    rules,
                    fields,
                    host: &self.incoming.host,
                    body: self.incoming.body.as_deref().unwrap_or_default(),
                    facts,
                    now_ms,
                };
                (facts.api.spec().handler)(&call)
            }
            Who::Nobody => Reply::error(-1),
        })
    }

    fn record(&self, outcome: &Outcome) {
        let (passage, api) = (&self.passage, self.incoming.api);
        if let Some(corp) = &passage.corp {
            corp.stat(api).count(
                outcome.code,
                outcome.effect,
                outcome.lost,
                passage.while_blocked,
            );
        }
        let capacity = self.rules.log.calls;
        if capacity == 0 {
            return;
        }
        let record = CallRecord {
            seq: self.seq,
            at_ms: self.now_ms,
            api: api.name().to_owned(),
            corp: passage.corp.as_deref().map(|corp| corp.id.to_string()),
            agent_id: passage.agent_id,
            ip: self.incoming.ip,
            code: outcome.code,
            status: match &outcome.fate {
                Fate::Answer(answer) => Some(answer.status),
                Fate::Drop | Fate::Hang { .. } => None,
            },
            effect: outcome.effect,
            reply_lost: outcome.lost,
            in_flight: passage.in_flight(),
            while_blocked: passage.while_blocked,
        };
        self.world.log.push(record, capacity);
    }
}

/// The caller learns the answer.
fn told(reply: Reply, facts: &Facts<'_>) -> Outcome {
    let (body, message) = reply.render(facts.api, facts.ip, facts.seq, facts.fields.warned());
    let error = (reply.code != 0).then_some((reply.code, message));
    Outcome {
        code: reply.code,
        effect: reply.effect,
        fate: Fate::Answer(Answer {
            status: 200,
            content_type: JSON,
            body,
            error,
        }),
        lost: false,
        nth_in_block: None,
    }
}

/// A fault takes the place of the answer.
fn struck(strike: Strike, reply: Reply, facts: &Facts<'_>, after: bool) -> Outcome {
    let fate = match strike.act {
        Act::Drop => Fate::Drop,
        Act::Hang => Fate::Hang { done: after },
        Act::Status(status) => {
            let body = format!(
                "<html><head><title>{status}</title></head><body><h1>{status}</h1></body></html>\n"
            );
            Fate::Answer(Answer {
                status,
                content_type: "text/html",
                body: body.into_bytes(),
                error: None,
            })
        }
        Act::Truncate => {
            let whole = if after { reply.clone() } else { Reply::ok() };
            let (mut body, _) = whole.render(facts.api, facts.ip, facts.seq, false);
            body.truncate(body.len() / 2);
            Fate::Answer(Answer {
                status: 200,
                content_type: JSON,
                body,
                error: None,
            })
        }
        Act::Body(body) => {
            let code = body
                .get("errcode")
                .and_then(serde_json::Value::as_i64)
                .unwrap_or(0);
            let answer = Answer {
                status: 200,
                content_type: JSON,
                body: body.to_string().into_bytes(),
                error: None,
            };
            return Outcome {
                code: i32::try_from(code).unwrap_or(-1),
                effect: reply.effect,
                fate: Fate::Answer(answer),
                lost: after,
                nth_in_block: None,
            };
        }
        Act::Errcode(code) => {
            let told = told(Reply::error(code), facts);
            return Outcome {
                effect: reply.effect,
                lost: after,
                nth_in_block: strike.nth_in_block,
                ..told
            };
        }
        // These never come here: `Faults::strike` waits, `run` patches.
        Act::Hold | Act::DelayMs(_) | Act::Patch(_) => return told(reply, facts),
    };
    Outcome {
        code: reply.code,
        effect: reply.effect,
        fate,
        lost: true,
        nth_in_block: None,
    }
}

/// Log-normal, with rare stalls.
fn latency(rules: &Latency, seed: u64, seq: u64) -> Duration {
    /// The standard normal distribution's 99th percentile.
    const Z99: f64 = 2.326_347_874;
    let mut random = Random::new(seed, For::Latency, seq);
    let sigma = (rules.p99_ms / rules.p50_ms).ln() / Z99;
    let mut ms = rules.p50_ms * (sigma * random.normal()).exp();
    if random.chance(rules.stall_rate) {
        ms += rules.stall_ms as f64;
    }
    Duration::try_from_secs_f64(ms / 1e3).unwrap_or_default()
}
