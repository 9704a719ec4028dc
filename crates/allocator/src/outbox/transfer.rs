//! Starting transfers: all rows of one (giver, taker) in one call, at most 100. Each start is written down before it
//! leaves the house, because a start that WeCom accepted and we forgot would spend one of the customer's two moves.

use std::collections::HashMap;

use allocation::SubjectKey;
use ledger::{
    Finish, Held, OutboxRow, Outcome, Transfer, TransferState, TransferStep, window_start,
};
use quota::Acquired;
use uuid::Uuid;
use wecom::client::{TransferCustomer, Transferred};

use super::{
    hands::Hands,
    transfer_answer::{is_running, verdict_of},
    transfer_unknown::look_up,
    verdict::{self, Error},
};
use crate::{
    app::{App, CorpApp},
    backoff::jittered,
    effect::kind,
    handover::end::{self, Fault},
};

/// Another process works on one of these customers.
const BUSY_MS: u64 = 500;
/// 2 moves in 90 natural days.
pub(super) const MOVE_LIMIT: i64 = 40128;

/// A row, its transfer and its customer's id at WeCom.
pub(super) struct Move {
    pub(super) row: OutboxRow,
    pub(super) transfer: Transfer,
    pub(super) external_userid: String,
    /// Until when another transfer of ours moves the customer, if WeCom says that he is being moved.
    pub(super) busy_until_ms: Option<u64>,
}

impl Move {
    /// The state of its transfer while the call is on its way.
    fn begun(&self) -> TransferState {
        match self.row.unknown_since_ms {
            Some(_) => TransferState::Unknown,
            None => TransferState::Submitted,
        }
    }
}

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Rows of one pair of members: all new, or all of unknown outcome.
pub(super) async fn start(hands: &Hands, rows: Vec<OutboxRow>, until_ms: u64) -> Result<(), Error> {
    let (app, corp) = (&hands.app, &hands.corp);
    let unknown = rows.iter().any(|row| row.unknown_since_ms.is_some());
    let moves = load(app, corp, rows).await?;
    let moves = if unknown {
        look_up(app, corp, moves).await?
    } else {
        moves
    };
    if moves.is_empty() {
        return Ok(());
    }
    // The budget before the locks: nobody else waits for a customer because we wait for a place.
    let Some(permit) = hands.permit(until_ms).await else {
        let rows: Vec<OutboxRow> = moves.into_iter().map(|one| one.row).collect();
        return hands.put_back(&rows).await;
    };
    let names: Vec<String> = moves
        .iter()
        .map(|one| format!("customer:{}", one.transfer.subject))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let lock = match app.locks.acquire(corp.id.as_str(), &names).await {
        Ok(Acquired::Held(lock)) => lock,
        Ok(Acquired::Busy { .. }) => {
            hands.unused(&permit).await;
            let rows: Vec<OutboxRow> = moves.into_iter().map(|one| one.row).collect();
            let due_ms = app.now_ms() + jittered(BUSY_MS);
            return verdict::put_off(app, corp, kind::TRANSFER, &rows, due_ms).await;
        }
        Err(error) => {
            hands.unused(&permit).await;
            return Err(error.into());
        }
    };
    let (moves, held) = match last_look(app, corp, moves, unknown, &lock).await {
        Ok((moves, held)) if !moves.is_empty() => (moves, held),
        other => {
            hands.unused(&permit).await;
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
    hands.done(&permit, &answer).await;
    let written = match others(app, corp, moves, &answer).await {
        Ok(moves) => conclude(app, corp, &moves, &held, &answer).await,
        Err(error) => Err(error),
    };
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
                            busy_until_ms: None,
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

/// What may leave the house now, looked at under the customers' lock: nobody else moves one of them meanwhile.
async fn last_look(
    app: &App,
    corp: &CorpApp,
    moves: Vec<Move>,
    unknown: bool,
    lock: &quota::Held,
) -> Result<(Vec<Move>, HashMap<Uuid, Held>), Error> {
    let moves = if unknown {
        moves
    } else {
        within_limits(app, corp, moves).await?
    };
    if moves.is_empty() {
        return Ok((moves, HashMap::new()));
    }
    let fence = ledger::Fence {
        generation: u64::try_from(lock.fence().generation).unwrap_or_default(),
        counter: u64::try_from(lock.fence().counter).unwrap_or_default(),
    };
    let (moves, held) = begin(app, moves, fence).await?;
    if lock.lost().is_cancelled() {
        take_back(app, corp, &moves, &held).await?;
        return Ok((Vec::new(), HashMap::new()));
    }
    Ok((moves, held))
}

/// What was written down as begun and does not leave the house: it was no try, and no move.
async fn take_back(
    app: &App,
    corp: &CorpApp,
    moves: &[Move],
    held: &HashMap<Uuid, Held>,
) -> Result<(), Error> {
    let now_ms = app.now_ms();
    let due_ms = now_ms + jittered(BUSY_MS);
    let steps: Vec<TransferStep> = moves
        .iter()
        .map(|one| {
            let mut step = TransferStep::new(one.transfer.id, one.begun());
            step.never_started = true;
            step
        })
        .collect();
    app.ledger.transfers().advance(&steps, now_ms).await?;
    let finishes: Vec<Finish> = held
        .values()
        .map(|held| Finish::new(*held, Outcome::NotTried { due_ms }))
        .collect();
    verdict::write(app, corp, kind::TRANSFER, &finishes).await
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
        let all = made.get(&one.transfer.subject).copied().unwrap_or_default();
        // An attempt of this very transfer that may have been accepted is not one more.
        let own = u32::from(one.transfer.started_ms.is_some());
        all.saturating_sub(own) < app.config.handover.max_moves
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
        .begin(&held, app.config.outbox.lease_ms, now_ms)
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
            let mut step = TransferStep::new(one.transfer.id, one.begun());
            step.started_ms = Some(now_ms);
            step
        })
        .collect();
    if !steps.is_empty() {
        app.ledger.transfers().advance(&steps, now_ms).await?;
    }
    Ok((moves, ours))
}

/// Of the customers who are being moved already, says WeCom: whether another transfer of ours moves them.
async fn others(
    app: &App,
    corp: &CorpApp,
    mut moves: Vec<Move>,
    answer: &Result<Transferred, wecom::Error>,
) -> Result<Vec<Move>, Error> {
    for one in &mut moves {
        if !is_running(one, answer) {
            continue;
        }
        let transfers = app.ledger.transfers();
        let open = transfers.open_for(&corp.id, &one.transfer.subject).await?;
        one.busy_until_ms = open
            .into_iter()
            .filter(|other| {
                let moving = matches!(other.state, TransferState::Waiting | TransferState::Human);
                other.id != one.transfer.id && moving
            })
            .filter_map(|other| {
                let ends = other.takeover_ms;
                ends.or_else(|| other.started_ms.map(|started| started + DAY_MS))
            })
            .max();
    }
    Ok(moves)
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

/// What could not be settled now is found by the task that looks for unsettled allocations.
fn after(corp: &CorpApp, settled: Result<(), end::Error>) {
    if let Err(error) = settled {
        tracing::warn!(corp = %corp.id, error = %error, "an allocation is settled later");
    }
}
