//! What WeCom's answer to a start means for one customer: his transfer, the row that asked, and whose fault it was.
//! Pure but for the clock that is passed in.

use ledger::{Finish, Held, Outcome, TransferState, TransferStep};
use wecom::{client::Transferred, error::Class};

use super::{
    transfer::{MOVE_LIMIT, Move},
    verdict,
};
use crate::{
    app::{App, CorpApp},
    backoff::jittered,
    handover::end::{Fault, GONE},
};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// 40100 and 40129: in a transfer already; whose, only `transfer_result` knows.
const RUNNING: [i64; 2] = [40100, 40129];
/// A half-added customer is no relation yet (84061): the add event makes it one.
const NO_RELATION: i64 = 84061;
const HALF_ADDED_MS: u64 = 10 * 60 * 1000;

pub(super) fn verdict_of(
    app: &App,
    corp: &CorpApp,
    one: &Move,
    held: Held,
    answer: &Result<Transferred, wecom::Error>,
    now_ms: u64,
) -> (TransferStep, Finish, Option<Fault>) {
    let settle_after = app.config.handover.settle_after_ms;
    let unknown = |errcode: Option<i64>| {
        let mut step = TransferStep::new(one.transfer.id, TransferState::Unknown);
        step.errcode = errcode.and_then(|code| i32::try_from(code).ok());
        let mut finish = Finish::new(
            held,
            Outcome::Unknown {
                due_ms: now_ms + jittered(one.pause_ms(settle_after, now_ms)),
            },
        );
        finish.errcode = step.errcode;
        (step, finish, None)
    };
    // Another transfer of ours moves him: nothing was started for this one. Should the other end sooner, that is told.
    let running = |code: i64| match one.busy_until_ms {
        Some(until_ms) => {
            let mut step = never_started(one);
            step.errcode = i32::try_from(code).ok();
            let due_ms = until_ms.max(now_ms) + jittered(settle_after);
            let mut finish = Finish::new(held, Outcome::Again { due_ms });
            finish.errcode = step.errcode;
            (step, finish, None)
        }
        None => unknown(Some(code)),
    };
    let transferred = match answer {
        Ok(transferred) => transferred,
        Err(error) if error.may_have_acted() => return unknown(None),
        Err(error) if error.errcode().is_some_and(|code| RUNNING.contains(&code)) => {
            return running(error.errcode().unwrap_or_default());
        }
        Err(error) => return refused_whole(app, corp, one, held, error),
    };
    let item = transferred.customer.as_ref().and_then(|items| {
        items
            .iter()
            .find(|item| item.external_userid == one.external_userid)
    });
    match item.map(|item| item.errcode) {
        Some(0) => {
            let mut step = TransferStep::new(one.transfer.id, TransferState::Waiting);
            step.started_ms = Some(now_ms);
            step.takeover_ms = Some(now_ms + DAY_MS);
            step.next_check_ms = Some(now_ms + jittered(settle_after));
            (step, Finish::new(held, Outcome::Done), None)
        }
        // Our customer is not in the answer: nothing is known.
        None => unknown(None),
        Some(code) if RUNNING.contains(&code) => running(code),
        Some(code) => refused_one(app, corp, one, held, code, now_ms),
    }
}

/// Whether WeCom says of this customer, or of all of the call, that he is being moved already.
pub(super) fn is_running(one: &Move, answer: &Result<Transferred, wecom::Error>) -> bool {
    let code = match answer {
        Ok(transferred) => transferred.customer.as_ref().and_then(|items| {
            let his =
                |item: &&wecom::client::TransferItem| item.external_userid == one.external_userid;
            items.iter().find(his).map(|item| item.errcode)
        }),
        Err(error) => error.errcode(),
    };
    code.is_some_and(|code| RUNNING.contains(&code))
}

/// The whole call was refused: no transfer of it was started.
fn refused_whole(
    app: &App,
    corp: &CorpApp,
    one: &Move,
    held: Held,
    error: &wecom::Error,
) -> (TransferStep, Finish, Option<Fault>) {
    if let Some(code) = error.errcode()
        && !error.stops_the_app()
        && let Some(fault) = fault(code)
    {
        return ended(one, held, code, fault);
    }
    let outcome = match verdict::after_refusal(app, corp, error, one.row.tries + 1) {
        // A code that means "done" elsewhere says nothing about these customers.
        Outcome::Done => verdict::again(app, one.row.tries + 1),
        outcome => outcome,
    };
    let mut step = never_started(one);
    if outcome == Outcome::Dead || outcome == Outcome::Failed {
        step.to = TransferState::Failed;
    }
    let fault = (step.to == TransferState::Failed).then_some(Fault::Picture);
    (step, verdict::finish(held, outcome, Some(error)), fault)
}

fn refused_one(
    app: &App,
    corp: &CorpApp,
    one: &Move,
    held: Held,
    code: i64,
    now_ms: u64,
) -> (TransferStep, Finish, Option<Fault>) {
    // The customer was added a moment ago and has not been confirmed: soon he may be.
    if code == NO_RELATION && now_ms.saturating_sub(one.row.created_ms) < HALF_ADDED_MS {
        let pause = app.config.outbox.backoff_max_ms.min(5_000);
        let mut finish = Finish::new(
            held,
            Outcome::Again {
                due_ms: now_ms + jittered(pause),
            },
        );
        finish.errcode = i32::try_from(code).ok();
        return (never_started(one), finish, None);
    }
    if let Some(fault) = fault(code) {
        return ended(one, held, code, fault);
    }
    let outcome = match wecom::error::classify(code).class {
        Class::RetryWithBackoff | Class::RateLimited => verdict::again(app, one.row.tries + 1),
        Class::PermanentCustomer => Outcome::Failed,
        _ => Outcome::Dead,
    };
    let mut step = never_started(one);
    let mut finish = Finish::new(held, outcome);
    finish.errcode = i32::try_from(code).ok();
    step.errcode = finish.errcode;
    if matches!(outcome, Outcome::Failed | Outcome::Dead) {
        tracing::warn!(corp = %corp.id, errcode = code, "a transfer was refused for good");
        step.to = TransferState::Failed;
        return (step, finish, Some(Fault::Picture));
    }
    (step, finish, None)
}

/// Codes that say whose fault it is (page 90313; classes in `wecom::error`).
fn fault(code: i64) -> Option<Fault> {
    match code {
        MOVE_LIMIT | 40130 => Some(Fault::Customer),
        40096 | 40131 | NO_RELATION | 84084 => Some(Fault::Picture),
        40099 => Some(Fault::Taker { blocked: None }),
        40098 => Some(Fault::Taker {
            blocked: Some("not_verified"),
        }),
        40143 => Some(Fault::Taker {
            blocked: Some("banned"),
        }),
        // One of the two has not logged in for a year; no call says which.
        40205 => Some(Fault::Login),
        84074 | 84083 => Some(Fault::Taker {
            blocked: Some("no_customer_contact"),
        }),
        code if GONE.contains(&code) => Some(Fault::Member),
        _ => None,
    }
}

fn ended(one: &Move, held: Held, code: i64, fault: Fault) -> (TransferStep, Finish, Option<Fault>) {
    let mut step = never_started(one);
    step.to = TransferState::Failed;
    step.errcode = i32::try_from(code).ok();
    let mut finish = Finish::new(held, Outcome::Failed);
    finish.errcode = step.errcode;
    (step, finish, Some(fault))
}

/// WeCom started nothing, so no move is spent.
fn never_started(one: &Move) -> TransferStep {
    let mut step = TransferStep::new(one.transfer.id, TransferState::Submitted);
    step.never_started = true;
    step
}
