//! One call from arrival to answer: gate, faults before, the API itself, faults after, the record.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

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

pub(crate) struct Incoming<'a> {
    pub(crate) api: Api,
    pub(crate) ip: IpAddr,
    pub(crate) post: bool,
    pub(crate) query: &'a str,
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
    Hang,
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

pub(crate) async fn serve(world: &Arc<World>, incoming: Incoming<'_>) -> Result<Answer, Dropped> {
    let rules = world.rules.get();
    let now_ms = world.now_ms();
    let seq = world.arrival();
    let api = incoming.api;
    let body = incoming.body.as_deref().unwrap_or_default();
    let fields = if api.spec().post && incoming.post {
        Fields::of_body(body)
    } else {
        Fields::of_query(incoming.query)
    };
    let mut passage = gate::pass(world, &incoming, &fields, &rules, now_ms);
    let facts = Facts {
        api,
        corp: passage.corp.as_deref().map(|corp| &*corp.id),
        agent_id: passage.agent_id,
        ip: incoming.ip,
        fields: &fields,
        seq,
        seed: rules.seed,
    };

    let outcome = match passage.refused {
        Some(code) => told(Reply::error(code), &facts, &fields),
        None => run(world, &incoming, &passage, &fields, &facts, &rules, now_ms).await,
    };

    if let Some(nth) = outcome.nth_in_block {
        passage.note_block(world, nth, &rules);
    }
    let record = CallRecord {
        seq,
        at_ms: now_ms,
        api: api.name().to_owned(),
        corp: passage.corp.as_deref().map(|corp| corp.id.to_string()),
        agent_id: passage.agent_id,
        ip: incoming.ip,
        code: outcome.code,
        status: if let Fate::Answer(answer) = &outcome.fate {
            Some(answer.status)
        } else {
            None
        },
        effect: outcome.effect,
        reply_lost: outcome.lost,
        in_flight: passage.in_flight(),
        while_blocked: passage.while_blocked,
    };
    if let Some(corp) = &passage.corp {
        corp.stat(api).count(
            record.code,
            record.effect,
            record.reply_lost,
            record.while_blocked,
        );
    }
    world.log.push(record, rules.log.calls);
    match outcome.fate {
        Fate::Answer(answer) => Ok(answer),
        Fate::Drop => Err(Dropped),
        // Recorded already. The caller's hanging up ends this future, and only then the call is no
        // longer in flight.
        Fate::Hang => std::future::pending().await,
    }
}

async fn run(
    world: &Arc<World>,
    incoming: &Incoming<'_>,
    passage: &Passage,
    fields: &Fields,
    facts: &Facts<'_>,
    rules: &Config,
    now_ms: i64,
) -> Outcome {
    if rules.latency.enabled {
        tokio::time::sleep(latency(&rules.latency, rules.seed, facts.seq)).await;
    }
    if let Some(strike) = world.faults.strike(When::Before, facts, now_ms).await {
        // A scripted refusal of gettoken is one, for its counters.
        if let (Act::Errcode(_), Who::Secret { app }, Some(corp)) =
            (&strike.act, &passage.who, &passage.corp)
        {
            corp.gettoken(app.as_deref()).lock().count(now_ms, false);
        }
        return struck(strike, Reply::error(-1), facts, fields, false);
    }
    // Time may have passed while the call was held.
    let now_ms = world.now_ms();
    let mut reply = match &passage.who {
        Who::Secret { app } => match gettoken(
            world,
            incoming.ip,
            passage,
            app.as_ref(),
            fields,
            rules,
            now_ms,
        ) {
            Ok(reply) => reply,
            Err(Refusal::Blocked { nth }) => {
                return Outcome {
                    nth_in_block: Some(nth),
                    ..told(Reply::error(45009), facts, fields)
                };
            }
        },
        Who::Webhook { number, key } => match &passage.corp {
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
                body: incoming.body.as_deref().unwrap_or_default(),
                facts,
                now_ms,
            };
            (facts.api.spec().handler)(&call)
        }
        Who::Nobody => Reply::error(-1),
    };
    match world.faults.strike(When::After, facts, now_ms).await {
        None => told(reply, facts, fields),
        Some(Strike {
            act: Act::Patch(patch),
            ..
        }) => {
            reply.merge(&patch);
            told(reply, facts, fields)
        }
        Some(strike) => struck(strike, reply, facts, fields, true),
    }
}

/// The caller learns the answer.
fn told(reply: Reply, facts: &Facts<'_>, fields: &Fields) -> Outcome {
    let (body, message) = reply.render(facts.api, facts.ip, facts.seq, fields.warned());
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
fn struck(
    strike: Strike,
    reply: Reply,
    facts: &Facts<'_>,
    fields: &Fields,
    after: bool,
) -> Outcome {
    let fate = match strike.act {
        Act::Drop => Fate::Drop,
        Act::Hang => Fate::Hang,
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
            let told = told(Reply::error(code), facts, fields);
            return Outcome {
                effect: reply.effect,
                lost: after,
                nth_in_block: strike.nth_in_block,
                ..told
            };
        }
        // These never come here: `Faults::strike` waits, `run` patches.
        Act::Hold | Act::DelayMs(_) | Act::Patch(_) => return told(reply, facts, fields),
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
