//! Starting transfers: all rows of one (giver, taker) in one call, at most 100. Each start is written down before it
//! leaves the house, because a start that WeCom accepted and we forgot would spend one of the customer's two moves.

use std::collections::HashMap;

use allocation::SubjectKey;
use ledger::{
    Finish, Held, OutboxRow, Outcome, Transfer, TransferState, TransferStep, window_start,
};
use quota::{Acquired, Urgency};
use uuid::Uuid;
use wecom::{
    client::{TransferCustomer, Transferred, api},
    error::Class,
};

use super::verdict::{self, Error};
use crate::{
    app::{App, CorpApp},
    backoff::jittered,
    effect::kind,
    handover::{
        end::{self, Fault},
        tasks,
    },
    permit,
};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// Another process works on one of these customers.
const BUSY_MS: u64 = 500;
/// 40100 and 40129: in a transfer already; whose, only `transfer_result` knows.
const RUNNING: [i64; 2] = [40100, 40129];
/// 2 moves in 90 natural days.
const MOVE_LIMIT: i64 = 40128;
/// A half-added customer is no relation yet (84061): the add event makes it one.
const NO_RELATION: i64 = 84061;
const HALF_ADDED_MS: u64 = 10 * 60 * 1000;

/// A row, its transfer and its customer's id at WeCom.
struct Move {
    row: OutboxRow,
    transfer: Transfer,
    external_userid: String,
}

/// Rows of one pair of members: all new, or all of unknown outcome.
pub(super) async fn start(app: &App, corp: &CorpApp, rows: Vec<OutboxRow>) -> Result<(), Error> {
    let unknown = rows.iter().any(|row| row.unknown_since_ms.is_some());
    let moves = load(app, corp, rows).await?;
    let moves = if unknown {
        look_up(app, corp, moves).await?
    } else {
        within_limits(app, corp, moves).await?
    };
    if moves.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = moves
        .iter()
        .map(|one| format!("customer:{}", one.transfer.subject))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let lock = match app.locks.acquire(corp.id.as_str(), &names).await? {
        Acquired::Held(lock) => lock,
        Acquired::Busy { .. } => {
            return put_off(app, corp, &moves, app.now_ms() + jittered(BUSY_MS)).await;
        }
    };
    let permit = match permit::take(app, corp, api::TRANSFER_CUSTOMER, Urgency::Ordinary).await {
        Ok(permit) => permit,
        Err(due_ms) => {
            lock.release().await;
            return put_off(app, corp, &moves, due_ms).await;
        }
    };
    let fence = ledger::Fence {
        generation: u64::try_from(lock.fence().generation).unwrap_or_default(),
        counter: u64::try_from(lock.fence().counter).unwrap_or_default(),
    };
    let begun = begin(app, moves, fence).await;
    let (moves, held) = match begun {
        Ok((moves, held)) if !moves.is_empty() => (moves, held),
        other => {
            permit::unused(app, corp, api::TRANSFER_CUSTOMER, &permit).await;
            lock.release().await;
            other?;
            return Ok(());
        }
    };
    let request = TransferCustomer {
        handover_userid: moves[0].transfer.giver.to_string(),
        takeover_userid: moves[0].transfer.taker.to_string(),
        external_userid: moves
            .iter()
            .map(|one| one.external_userid.clone())
            .collect(),
        transfer_success_msg: None,
    };
    let answer = corp.client.transfer_customer(&request).await;
    permit::done(app, corp, api::TRANSFER_CUSTOMER, &permit, &answer).await;
    let written = conclude(app, corp, &moves, &held, &answer).await;
    lock.release().await;
    written?;
    corp.transfers_due.notify_one();
    Ok(())
}

/// Rows that cannot be carried out end here: their transfer is over, or nobody knows the customer's id any more.
async fn load(app: &App, corp: &CorpApp, rows: Vec<OutboxRow>) -> Result<Vec<Move>, Error> {
    let ids: Vec<Uuid> = rows.iter().filter_map(|row| row.transfer).collect();
    let mut transfers: HashMap<Uuid, Transfer> = app
        .ledger
        .transfers()
        .get_many(&corp.id, &ids)
        .await?
        .into_iter()
        .map(|transfer| (transfer.id, transfer))
        .collect();
    let subjects: Vec<SubjectKey> = transfers
        .values()
        .map(|transfer| transfer.subject)
        .collect();
    let customers: HashMap<SubjectKey, String> = app
        .ledger
        .customers()
        .find_many(&corp.id, &subjects)
        .await?
        .into_iter()
        .filter_map(|customer| Some((customer.subject, customer.external_id?)))
        .collect();
    let (mut moves, mut over, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        let transfer = row.transfer.and_then(|id| transfers.remove(&id));
        match transfer {
            Some(transfer)
                if !transfer.state.is_end() && transfer.state != TransferState::Waiting =>
            {
                match customers.get(&transfer.subject) {
                    Some(external_userid) => {
                        moves.push(Move {
                            row,
                            transfer,
                            external_userid: external_userid.clone(),
                        });
                    }
                    None => {
                        over.push(Finish::new(row.held(), Outcome::Cancelled));
                        steps.push(TransferStep::new(transfer.id, TransferState::Cancelled));
                    }
                }
            }
            Some(transfer)
                if transfer.state == TransferState::Waiting
                    || transfer.state == TransferState::Done =>
            {
                over.push(Finish::new(row.held(), Outcome::Done));
            }
            _ => over.push(Finish::new(row.held(), Outcome::Cancelled)),
        }
    }
    if !steps.is_empty() {
        app.ledger.transfers().advance(&steps, app.now_ms()).await?;
    }
    verdict::write(app, corp, kind::TRANSFER, &over).await?;
    Ok(moves)
}

/// The two moves in 90 natural days, by our own records, before anybody is asked.
async fn within_limits(app: &App, corp: &CorpApp, moves: Vec<Move>) -> Result<Vec<Move>, Error> {
    let now_ms = app.now_ms();
    let since = window_start(
        now_ms,
        app.config.handover.window_days,
        corp.settings.utc_offset_minutes,
    );
    let subjects: Vec<SubjectKey> = moves.iter().map(|one| one.transfer.subject).collect();
    let made = app
        .ledger
        .transfers()
        .moves_since(&corp.id, &subjects, since)
        .await?;
    let (allowed, refused): (Vec<Move>, Vec<Move>) = moves.into_iter().partition(|one| {
        // An attempt of this very transfer that may have been accepted is not one more.
        let own = u32::from(one.transfer.started_ms.is_some());
        made.get(&one.transfer.subject).copied().unwrap_or_default()
            - own.min(made.get(&one.transfer.subject).copied().unwrap_or_default())
            < app.config.handover.max_moves
    });
    for one in &refused {
        let mut step = TransferStep::new(one.transfer.id, TransferState::Failed);
        step.errcode = Some(i32::try_from(MOVE_LIMIT).unwrap_or_default());
        app.ledger.transfers().advance(&[step], now_ms).await?;
        let mut finish = Finish::new(one.row.held(), Outcome::Failed);
        finish.error = Some(
            "move_limit: the customer was moved as often as WeCom allows in 90 days".to_owned(),
        );
        verdict::write(app, corp, kind::TRANSFER, &[finish]).await?;
        after(
            corp,
            end::refused(app, corp, &one.transfer, Fault::Customer).await,
        );
    }
    Ok(allowed)
}

/// Attempts of unknown outcome: `transfer_result` says which WeCom knows. Answers those to be sent again: unknown to
/// WeCom for long enough.
async fn look_up(app: &App, corp: &CorpApp, moves: Vec<Move>) -> Result<Vec<Move>, Error> {
    let now_ms = app.now_ms();
    let handover = &app.config.handover;
    let since = |one: &Move| one.row.unknown_since_ms.unwrap_or(one.row.created_ms);
    // WeCom itself needs some seconds to know.
    let (ripe, early): (Vec<Move>, Vec<Move>) = moves
        .into_iter()
        .partition(|one| now_ms >= since(one) + handover.settle_after_ms);
    let wait: Vec<Finish> = early
        .iter()
        .map(|one| {
            Finish::new(
                one.row.held(),
                Outcome::Unknown {
                    due_ms: since(one) + jittered(handover.settle_after_ms),
                },
            )
        })
        .collect();
    verdict::write(app, corp, kind::TRANSFER, &wait).await?;
    if ripe.is_empty() {
        return Ok(Vec::new());
    }
    let transfers: Vec<(Transfer, String)> = ripe
        .iter()
        .map(|one| (one.transfer.clone(), one.external_userid.clone()))
        .collect();
    let known = match tasks::look(app, corp, &transfers).await {
        Ok(known) => known,
        Err(error) => {
            tracing::warn!(corp = %corp.id, error = %error, "transfers of unknown outcome were not looked up");
            let due_ms = now_ms + jittered(handover.settle_after_ms);
            let later: Vec<Finish> = ripe
                .iter()
                .map(|one| Finish::new(one.row.held(), Outcome::Unknown { due_ms }))
                .collect();
            verdict::write(app, corp, kind::TRANSFER, &later).await?;
            return Ok(Vec::new());
        }
    };
    let (mut finishes, mut missing) = (Vec::new(), Vec::new());
    for one in ripe {
        let age_ms = now_ms.saturating_sub(since(&one));
        if known.contains(&one.transfer.id) {
            finishes.push(Finish::new(one.row.held(), Outcome::Done));
        } else if age_ms >= handover.human_after_ms {
            finishes.push(Finish::new(one.row.held(), Outcome::Dead));
        } else if age_ms >= handover.unknown_for_ms {
            missing.push(one);
        } else {
            let due_ms = now_ms + jittered(handover.settle_after_ms);
            finishes.push(Finish::new(one.row.held(), Outcome::Unknown { due_ms }));
        }
    }
    verdict::write(app, corp, kind::TRANSFER, &finishes).await?;
    let never: Vec<TransferStep> = missing
        .iter()
        .map(|one| {
            let mut step = TransferStep::new(one.transfer.id, TransferState::Submitted);
            step.never_started = true;
            step
        })
        .collect();
    if !never.is_empty() {
        app.ledger.transfers().advance(&never, now_ms).await?;
    }
    Ok(missing)
}

/// The last look: which rows are still ours, and that they may be on their way from now on.
async fn begin(
    app: &App,
    moves: Vec<Move>,
    fence: ledger::Fence,
) -> Result<(Vec<Move>, HashMap<Uuid, Held>), Error> {
    let now_ms = app.now_ms();
    let held: Vec<Held> = moves.iter().map(|one| one.row.held_with(fence)).collect();
    let ours: HashMap<Uuid, Held> = app
        .ledger
        .outbox()
        .begin(&held, now_ms)
        .await?
        .into_iter()
        .map(|held| (held.id, held))
        .collect();
    let moves: Vec<Move> = moves
        .into_iter()
        .filter(|one| ours.contains_key(&one.row.id))
        .collect();
    let steps: Vec<TransferStep> = moves
        .iter()
        .map(|one| {
            let mut step = TransferStep::new(one.transfer.id, TransferState::Submitted);
            step.started_ms = Some(now_ms);
            step
        })
        .collect();
    if !steps.is_empty() {
        app.ledger.transfers().advance(&steps, now_ms).await?;
    }
    Ok((moves, ours))
}

/// What the answer means for each customer: first the transfers, then the rows, then the allocations.
async fn conclude(
    app: &App,
    corp: &CorpApp,
    moves: &[Move],
    held: &HashMap<Uuid, Held>,
    answer: &Result<Transferred, wecom::Error>,
) -> Result<(), Error> {
    let now_ms = app.now_ms();
    let (mut steps, mut finishes, mut faults) = (Vec::new(), Vec::new(), Vec::new());
    for one in moves {
        let Some(held) = held.get(&one.row.id) else {
            continue;
        };
        let (step, finish, fault) = verdict_of(app, corp, one, *held, answer, now_ms);
        steps.push(step);
        finishes.push(finish);
        faults.extend(fault.map(|fault| (one, fault)));
    }
    app.ledger.transfers().advance(&steps, now_ms).await?;
    verdict::write(app, corp, kind::TRANSFER, &finishes).await?;
    for (one, fault) in faults {
        after(corp, end::refused(app, corp, &one.transfer, fault).await);
    }
    Ok(())
}

fn verdict_of(
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
                due_ms: now_ms + jittered(settle_after),
            },
        );
        finish.errcode = step.errcode;
        (step, finish, None)
    };
    let transferred = match answer {
        Ok(transferred) => transferred,
        Err(error) if error.may_have_acted() => return unknown(None),
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
        Some(code) if RUNNING.contains(&code) => unknown(Some(code)),
        Some(code) => refused_one(app, corp, one, held, code, now_ms),
    }
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
        40205 => Some(Fault::Taker {
            blocked: Some("no_login_for_a_year"),
        }),
        84074 | 84083 => Some(Fault::Taker {
            blocked: Some("no_customer_contact"),
        }),
        60111 | 40003 => Some(Fault::Taker {
            blocked: Some("left_or_not_visible"),
        }),
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

async fn put_off(app: &App, corp: &CorpApp, moves: &[Move], due_ms: u64) -> Result<(), Error> {
    let rows: Vec<OutboxRow> = moves.iter().map(|one| one.row.clone()).collect();
    verdict::put_off(app, corp, kind::TRANSFER, &rows, due_ms).await
}

/// What could not be settled now is found by the task that looks for unsettled allocations.
fn after(corp: &CorpApp, settled: Result<(), end::Error>) {
    if let Err(error) = settled {
        tracing::warn!(corp = %corp.id, error = %error, "an allocation is settled later");
    }
}
