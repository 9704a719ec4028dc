//! Drives transfers to an end: looks at `transfer_result` when a check is due or an event hints at it, settles what has
//! ended, and finds allocations that were left unsettled.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use allocation::SubjectKey;
use ledger::{Transfer, TransferKind, TransferState, TransferStep, Unsettled};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use wecom::client::{TransferPair, TransferResultPage, TransferRow, api};

use super::{end, result};
use crate::{
    app::{App, CorpApp},
    backoff::Backoff,
    decide::dirty,
    permit,
    reception::intake::WECOM,
};

/// Transfers looked at in one turn.
const TURN: u32 = 500;
/// Long enough for the calls of one turn.
const LEASE_MS: u64 = 60_000;
/// An allocation without a transfer under way is left alone this long: its own settling may be on its way.
const UNSETTLED_MS: u64 = 5_000;
/// Pages of such allocations looked at in one turn, and the pause before they are looked through again.
const PAGES: usize = 4;
const SWEEP_MS: u64 = 2_000;
const MARKS: usize = 200;

/// Looks and settles until the program stops.
pub async fn run(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    let pause = Duration::from_millis(app.config.handover.poll_ms);
    let mut backoff = Backoff::store();
    let mut sweep = Sweep::default();
    while !stop.is_cancelled() {
        match turn(&app, &corp, &mut sweep, &stop).await {
            Ok(()) => {
                backoff.reset();
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = corp.transfers_due.notified() => {}
                    () = stop.cancelled() => {}
                }
            }
            Err(error) => {
                if matches!(error, end::Error::Roster(roster::Error::NotReady)) {
                    corp.not_ready.notify_one();
                }
                tracing::warn!(corp = %corp.id, error = %error, "transfers were not looked at");
                backoff.wait(&stop).await;
            }
        }
    }
}

/// Events that hint at transfers, then checks that are due, then what was left unsettled.
async fn turn(
    app: &App,
    corp: &CorpApp,
    sweep: &mut Sweep,
    stop: &CancellationToken,
) -> Result<(), end::Error> {
    hints(app, corp).await?;
    let due = app
        .ledger
        .transfers()
        .claim_due(&corp.id, TURN, LEASE_MS, app.now_ms())
        .await?;
    check(app, corp, due, stop).await?;
    sweep.go_on(app, corp, stop).await
}

/// An event named a customer and perhaps the taker: his transfers are due now.
async fn hints(app: &App, corp: &CorpApp) -> Result<(), end::Error> {
    let taken = match corp
        .inbox
        .dirty_take(dirty::TRANSFER, None, MARKS, LEASE_MS)
        .await
    {
        Ok(taken) if taken.is_empty() => return Ok(()),
        Ok(taken) => taken,
        Err(error) => {
            tracing::warn!(corp = %corp.id, error = %error, "hints at transfers cannot be read");
            return Ok(());
        }
    };
    let now_ms = app.now_ms();
    let mut steps = Vec::new();
    for mark in &taken {
        let (external_userid, taker) = mark
            .entity
            .split_once(dirty::SEPARATOR)
            .unwrap_or((&mark.entity, ""));
        let subject = SubjectKey::new(&corp.id, WECOM, external_userid);
        for transfer in app.ledger.transfers().open_for(&corp.id, &subject).await? {
            let his = taker.is_empty() || transfer.taker.as_str() == taker.to_ascii_lowercase();
            if his && transfer.state != TransferState::Planned {
                let mut step = TransferStep::new(transfer.id, transfer.state);
                step.next_check_ms = Some(now_ms);
                steps.push(step);
            }
        }
    }
    app.ledger.transfers().advance(&steps, now_ms).await?;
    if let Err(error) = corp.inbox.dirty_done(dirty::TRANSFER, &taken, None).await {
        tracing::warn!(corp = %corp.id, error = %error, "hints at transfers stay marked");
    }
    Ok(())
}

/// Transfers whose check is due, one call for each pair of members. When the program stops, the pairs that are left come
/// again when their lease ends.
async fn check(
    app: &App,
    corp: &CorpApp,
    due: Vec<Transfer>,
    stop: &CancellationToken,
) -> Result<(), end::Error> {
    let mut pairs: BTreeMap<(String, String, bool), Vec<Transfer>> = BTreeMap::new();
    for transfer in due {
        let resigned = transfer.kind == TransferKind::Resigned;
        let pair = (
            transfer.giver.to_string(),
            transfer.taker.to_string(),
            resigned,
        );
        pairs.entry(pair).or_default().push(transfer);
    }
    for transfers in pairs.into_values() {
        if stop.is_cancelled() {
            break;
        }
        let subjects: Vec<SubjectKey> = transfers.iter().map(|transfer| transfer.subject).collect();
        let customers = app
            .ledger
            .customers()
            .find_many(&corp.id, &subjects)
            .await?;
        let (mut known, mut nobodys) = (Vec::new(), Vec::new());
        for transfer in transfers {
            let customer = customers
                .iter()
                .find(|customer| customer.subject == transfer.subject);
            match customer.and_then(|customer| customer.external_id.clone()) {
                Some(external_userid) => known.push((transfer, external_userid)),
                None => nobodys.push(transfer),
            }
        }
        forgotten(app, corp, &nobodys).await?;
        match look(app, corp, &known).await {
            Ok(_) => {}
            // The lease puts the checks off; the call is made when there is a budget for it.
            Err(end::Error::Budget { .. }) => {}
            Err(end::Error::Wecom(error)) => {
                tracing::warn!(corp = %corp.id, error = %error, "transfer results were not read");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Transfers of customers whom nobody knows any more: WeCom cannot be asked about them.
async fn forgotten(app: &App, corp: &CorpApp, transfers: &[Transfer]) -> Result<(), end::Error> {
    let steps: Vec<TransferStep> = transfers
        .iter()
        .map(|transfer| TransferStep::new(transfer.id, TransferState::Cancelled))
        .collect();
    app.ledger.transfers().advance(&steps, app.now_ms()).await?;
    for transfer in transfers {
        end::settle(app, corp, transfer, TransferState::Cancelled).await?;
    }
    Ok(())
}

/// Reads the results of one pair and takes the steps they tell. Answers the transfers that WeCom knows.
pub async fn look(
    app: &App,
    corp: &CorpApp,
    transfers: &[(Transfer, String)],
) -> Result<HashSet<Uuid>, end::Error> {
    let Some((first, _)) = transfers.first() else {
        return Ok(HashSet::new());
    };
    let rows = match results(app, corp, first).await {
        Ok(rows) => rows,
        Err(error) => {
            unanswered(app, corp, transfers, &error).await?;
            return Err(error);
        }
    };
    let now_ms = app.now_ms();
    let steps: Vec<TransferStep> = transfers
        .iter()
        .map(|(transfer, external_userid)| {
            result::step(
                transfer,
                external_userid,
                &rows,
                now_ms,
                app.config.handover.human_after_ms,
            )
        })
        .collect();
    app.ledger.transfers().advance(&steps, now_ms).await?;
    for ((transfer, _), step) in transfers.iter().zip(&steps) {
        if step.to.is_end() {
            metrics::counter!("paidan_transfers_ended_total", "corp" => corp.id.to_string(), "state" => step.to.as_str())
                .increment(1);
            end::settle(app, corp, transfer, step.to).await?;
            let transfers = app.ledger.transfers();
            if transfers
                .hasten(&corp.id, &transfer.subject, now_ms)
                .await?
                > 0
            {
                corp.effects_due.notify_waiters();
            }
        }
    }
    Ok(steps
        .iter()
        .filter(|step| result::known(step))
        .map(|step| step.id)
        .collect())
}

/// WeCom did not say how far they are. Nobody waits for that for ever: past its time a transfer is a person's turn; and if
/// one of the two members is gone, so that WeCom will never say, who has the customer decides as soon as it must be over.
async fn unanswered(
    app: &App,
    corp: &CorpApp,
    transfers: &[(Transfer, String)],
    error: &end::Error,
) -> Result<(), end::Error> {
    let now_ms = app.now_ms();
    let gone = matches!(error, end::Error::Wecom(error) if error.errcode().is_some_and(|code| end::GONE.contains(&code)));
    let mut steps = Vec::new();
    for (transfer, external_userid) in transfers {
        if !gone || !result::overdue(transfer, now_ms) {
            let human_after_ms = app.config.handover.human_after_ms;
            steps.push(result::unanswered(transfer, now_ms, human_after_ms));
            continue;
        }
        let relations = end::relations(app, corp, external_userid).await?;
        let taken = relations
            .iter()
            .any(|one| one.userid.to_ascii_lowercase() == transfer.taker.as_str());
        let to = if taken {
            TransferState::Done
        } else {
            TransferState::Failed
        };
        let step = TransferStep::new(transfer.id, to);
        app.ledger.transfers().advance(&[step], now_ms).await?;
        end::settle(app, corp, transfer, to).await?;
    }
    app.ledger.transfers().advance(&steps, now_ms).await?;
    Ok(())
}

async fn results(
    app: &App,
    corp: &CorpApp,
    transfer: &Transfer,
) -> Result<Vec<TransferRow>, end::Error> {
    let resigned = transfer.kind == TransferKind::Resigned;
    let api = if resigned {
        api::RESIGNED_TRANSFER_RESULT
    } else {
        api::TRANSFER_RESULT
    };
    let pair = TransferPair {
        handover_userid: transfer.giver.to_string(),
        takeover_userid: transfer.taker.to_string(),
    };
    let pair = &pair;
    let read = |cursor: Option<String>| async move {
        let cursor = cursor.as_deref();
        if resigned {
            corp.client.resigned_transfer_result(pair, cursor).await
        } else {
            corp.client.transfer_result(pair, cursor).await
        }
    };
    let next = |page: &mut TransferResultPage| std::mem::take(&mut page.next_cursor);
    let pages = permit::pages(app, corp, api, read, next)
        .await
        .map_err(|until_ms| end::Error::Budget { until_ms })??;
    // No list: nothing is known, every transfer stays as it is.
    Ok(pages
        .into_iter()
        .flat_map(|page| page.customer.unwrap_or_default())
        .collect())
}

/// Looks through the open allocations for those with a member, no settlement and no transfer under way: a process died
/// between two steps. Some pages a turn, and from the beginning again after a pause.
#[derive(Debug, Default)]
struct Sweep {
    after: Option<ledger::Place>,
    /// The next one begins then.
    due_ms: u64,
}

impl Sweep {
    async fn go_on(
        &mut self,
        app: &App,
        corp: &CorpApp,
        stop: &CancellationToken,
    ) -> Result<(), end::Error> {
        let now_ms = app.now_ms();
        if self.after.is_none() && now_ms < self.due_ms {
            return Ok(());
        }
        let before_ms = now_ms.saturating_sub(UNSETTLED_MS);
        for _ in 0..PAGES {
            let page = app
                .ledger
                .allocations()
                .unsettled(&corp.id, before_ms, self.after, TURN)
                .await?;
            let settled = settle_all(app, corp, page.rows, stop).await?;
            if settled {
                self.after = page.next;
            }
            if self.after.is_none() {
                self.due_ms = now_ms + SWEEP_MS;
            }
            if !settled || self.after.is_none() {
                break;
            }
        }
        Ok(())
    }
}

/// False: WeCom cannot be asked now, or the program stops, and the rest is for another time.
async fn settle_all(
    app: &App,
    corp: &CorpApp,
    left: Vec<Unsettled>,
    stop: &CancellationToken,
) -> Result<bool, end::Error> {
    for one in left {
        if stop.is_cancelled() {
            return Ok(false);
        }
        let settled = match &one.transfer {
            Some(transfer) => end::settle(app, corp, transfer, transfer.state).await,
            None => end::settle_by_truth(app, corp, &one.allocation).await,
        };
        match settled {
            Ok(()) => {}
            Err(end::Error::Budget { .. }) => return Ok(false),
            Err(end::Error::Wecom(error)) => {
                tracing::warn!(corp = %corp.id, error = %error, "an unsettled allocation waits for WeCom");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
