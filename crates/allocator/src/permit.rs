//! One call of WeCom within the quota: a permit first, and afterwards what the answer means for the next calls.

use metrics::counter;
use quota::{Outcome, Permit, Rule, Take, Urgency};
use wecom::client::Pager;

use crate::{
    app::{App, CorpApp, Redis},
    backoff::jittered,
};

/// When the quota itself cannot be asked: soon, but not at once.
const UNASKED_MS: u64 = 1_000;
/// Least time before the next attempt; windows end in the middle of somebody's burst.
const SPREAD_MS: u64 = 50;

/// The right to one call, or when to ask again. Hold nothing while you wait.
pub async fn take(
    app: &App,
    corp: &CorpApp,
    api: &'static str,
    urgency: Urgency,
) -> Result<Permit<Redis>, u64> {
    match app.quota.take(corp.id.as_str(), api, urgency, None).await {
        Ok(Take::Taken(permit)) => Ok(permit),
        Ok(Take::Wait {
            until_ms, reason, ..
        }) => {
            counter!("paidan_quota_waits_total", "corp" => corp.id.to_string(), "api" => api, "reason" => format!("{reason:?}"))
                .increment(1);
            let until = u64::try_from(until_ms).unwrap_or_default();
            Err(until.max(app.now_ms()) + jittered(SPREAD_MS))
        }
        Err(error) => {
            tracing::warn!(corp = %corp.id, api, error = %error, "the quota cannot be asked");
            Err(app.now_ms() + jittered(UNASKED_MS))
        }
    }
}

/// Gives the permit back with what the answer says about limits.
pub async fn done<T>(
    app: &App,
    corp: &CorpApp,
    api: &'static str,
    permit: &Permit<Redis>,
    answer: &Result<T, wecom::Error>,
) {
    let outcome = match answer {
        Ok(_) => Outcome::Ok,
        Err(wecom::Error::Blocked { .. } | wecom::Error::Invalid { .. }) => Outcome::Unused,
        Err(error) => match error.errcode() {
            Some(45009) => Outcome::RateLimited(Rule::Unknown),
            Some(45033) => Outcome::Concurrency,
            _ => Outcome::Failed,
        },
    };
    counter!("paidan_wecom_calls_total", "corp" => corp.id.to_string(), "api" => api, "outcome" => word(answer)).increment(1);
    give(app, corp, api, permit, outcome).await;
}

/// A list over all its pages, each a call with a permit of its own; `next` takes a page's cursor. Err: when to ask again,
/// from the first page on: what was read before a pause is not true at one moment.
pub async fn pages<P, F: Future<Output = Result<P, wecom::Error>>>(
    app: &App,
    corp: &CorpApp,
    api: &'static str,
    read: impl Fn(Option<String>) -> F,
    next: impl Fn(&mut P) -> String,
) -> Result<Result<Vec<P>, wecom::Error>, u64> {
    let mut pager = Pager::new(api);
    let mut pages = Vec::new();
    while let Some(cursor) = pager.next() {
        let cursor = cursor.map(str::to_owned);
        let permit = take(app, corp, api, Urgency::Ordinary).await?;
        let answer = read(cursor).await;
        done(app, corp, api, &permit, &answer).await;
        let step = match answer {
            Ok(mut page) => {
                let cursor = next(&mut page);
                pages.push(page);
                pager.advance(cursor)
            }
            Err(error) => {
                pages.clear();
                pager.restart_after(error)
            }
        };
        if let Err(error) = step {
            return Ok(Err(error));
        }
    }
    Ok(Ok(pages))
}

/// Gives a permit back that was not used.
pub async fn unused(app: &App, corp: &CorpApp, api: &'static str, permit: &Permit<Redis>) {
    give(app, corp, api, permit, Outcome::Unused).await;
}

async fn give(
    app: &App,
    corp: &CorpApp,
    api: &'static str,
    permit: &Permit<Redis>,
    outcome: Outcome,
) {
    match permit.done(outcome, None).await {
        Ok(None) => {}
        Ok(Some(until_ms)) => {
            tracing::warn!(corp = %corp.id, api, until_ms, "WeCom refuses this API until then");
            let until_ms = u64::try_from(until_ms).unwrap_or_default();
            let block = ledger::BudgetBlock {
                api: api.to_owned(),
                scope: "corp".to_owned(),
                until_ms,
            };
            if let Err(error) = app.ledger.budget_blocks().save(&corp.id, &[block]).await {
                tracing::warn!(corp = %corp.id, api, error = %error, "a block was not written down");
            }
        }
        // The lease gives the place back.
        Err(error) => {
            tracing::warn!(corp = %corp.id, api, error = %error, "a permit was not given back")
        }
    }
}

fn word<T>(answer: &Result<T, wecom::Error>) -> &'static str {
    match answer {
        Ok(_) => "ok",
        Err(wecom::Error::Transport { .. }) => "transport",
        Err(wecom::Error::Api { .. }) => "refused",
        Err(wecom::Error::Blocked { .. }) => "blocked",
        Err(_) => "invalid",
    }
}
