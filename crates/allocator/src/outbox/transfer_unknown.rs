//! Starts of unknown outcome: looked up, with growing pauses, before they are sent again; a person's turn in the end.

use ledger::{Finish, Outcome, Transfer, TransferState, TransferStep};

use super::{
    transfer::Move,
    verdict::{self, Error},
};
use crate::{
    app::{App, CorpApp},
    backoff::jittered,
    effect::kind,
    handover::{result, tasks},
};

/// The longest pause between two looks for an unknown start.
const LONGEST_PAUSE_MS: u64 = 60 * 60 * 1000;

impl Move {
    /// When the last attempt of unknown outcome began.
    fn unknown_since_ms(&self) -> u64 {
        self.row.unknown_since_ms.unwrap_or(self.row.created_ms)
    }

    /// When the first one did.
    fn first_unknown_ms(&self) -> u64 {
        let since = self.unknown_since_ms();
        self.transfer
            .unknown_since_ms
            .map_or(since, |first| first.min(since))
    }

    /// Nobody will find out any more by asking WeCom.
    fn too_long(&self, now_ms: u64, human_after_ms: u64) -> bool {
        now_ms >= self.first_unknown_ms() + human_after_ms
    }

    /// The longer nobody knows, the later it is looked for again.
    pub(super) fn pause_ms(&self, settle_after_ms: u64, now_ms: u64) -> u64 {
        let first_ms = match self.row.unknown_since_ms {
            Some(_) => self.first_unknown_ms(),
            None => now_ms,
        };
        let age_ms = now_ms.saturating_sub(first_ms);
        (age_ms / 4).min(LONGEST_PAUSE_MS).max(settle_after_ms)
    }
}

/// Attempts of unknown outcome: `transfer_result` says which WeCom knows. Answers those to be sent again: unknown to
/// WeCom for long enough.
pub(super) async fn look_up(
    app: &App,
    corp: &CorpApp,
    moves: Vec<Move>,
) -> Result<Vec<Move>, Error> {
    let now_ms = app.now_ms();
    let handover = &app.config.handover;
    let pause = |one: &Move| jittered(one.pause_ms(handover.settle_after_ms, now_ms));
    // WeCom itself needs some seconds to know.
    let (ripe, early): (Vec<Move>, Vec<Move>) = moves
        .into_iter()
        .partition(|one| now_ms >= one.unknown_since_ms() + handover.settle_after_ms);
    let wait: Vec<Finish> = early
        .iter()
        .map(|one| {
            Finish::new(
                one.row.held(),
                Outcome::Unknown {
                    due_ms: one.unknown_since_ms() + jittered(handover.settle_after_ms),
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
            let later: Vec<Finish> = ripe
                .iter()
                .map(|one| match one.too_long(now_ms, handover.human_after_ms) {
                    true => Finish::new(one.row.held(), Outcome::Dead),
                    false => {
                        let due_ms = now_ms + pause(one);
                        Finish::new(one.row.held(), Outcome::Unknown { due_ms })
                    }
                })
                .collect();
            persons_turn(app, &ripe, now_ms).await?;
            verdict::write(app, corp, kind::TRANSFER, &later).await?;
            return Ok(Vec::new());
        }
    };
    let (mut finishes, mut missing) = (Vec::new(), Vec::new());
    let unknown: Vec<Move> = ripe
        .into_iter()
        .filter_map(|one| {
            let is_known = known.contains(&one.transfer.id);
            if is_known {
                finishes.push(Finish::new(one.row.held(), Outcome::Done));
            }
            (!is_known).then_some(one)
        })
        .collect();
    persons_turn(app, &unknown, now_ms).await?;
    for one in unknown {
        let age_ms = now_ms.saturating_sub(one.unknown_since_ms());
        if one.too_long(now_ms, handover.human_after_ms) {
            finishes.push(Finish::new(one.row.held(), Outcome::Dead));
        } else if age_ms >= handover.unknown_for_ms {
            missing.push(one);
        } else {
            let due_ms = now_ms + pause(&one);
            finishes.push(Finish::new(one.row.held(), Outcome::Unknown { due_ms }));
        }
    }
    verdict::write(app, corp, kind::TRANSFER, &finishes).await?;
    let never: Vec<TransferStep> = missing
        .iter()
        .map(|one| {
            // Unknown it stays: nobody saw that it was not started.
            let mut step = TransferStep::new(one.transfer.id, TransferState::Unknown);
            step.never_started = true;
            step
        })
        .collect();
    if !never.is_empty() {
        app.ledger.transfers().advance(&never, now_ms).await?;
    }
    Ok(missing)
}

/// Nobody knows what became of these for so long that a person is to look.
async fn persons_turn(app: &App, moves: &[Move], now_ms: u64) -> Result<(), Error> {
    let human_after_ms = app.config.handover.human_after_ms;
    let steps: Vec<TransferStep> = moves
        .iter()
        .filter(|one| one.too_long(now_ms, human_after_ms))
        .map(|one| result::a_persons_turn(&one.transfer, now_ms))
        .collect();
    if !steps.is_empty() {
        app.ledger.transfers().advance(&steps, now_ms).await?;
    }
    Ok(())
}
