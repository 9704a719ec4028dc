//! Reading `transfer_result`: which of its rows speaks of our attempt, and what that means. Pure.
//!
//! The answer is keyed by the pair of members, has no attempt id and lists every attempt there ever was (page 94088).

use ledger::{Transfer, TransferState, TransferStep};
use wecom::client::{TransferRow, TransferStatus};

/// A new attempt's row may be missing for some seconds; until then older attempts must not be taken for it.
const LAG_MS: u64 = 60_000;
/// WeCom's clock and ours.
const SLACK_MS: u64 = 60_000;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;
const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;

/// What to do with a transfer after a look.
pub fn step(
    transfer: &Transfer,
    external_userid: &str,
    rows: &[TransferRow],
    now_ms: u64,
    human_after_ms: u64,
) -> TransferStep {
    let started_ms = began_ms(transfer);
    let ours = rows
        .iter()
        .filter(|row| row.external_userid == external_userid && speaks_of(row, started_ms, now_ms));
    let best = ours.max_by_key(|row| (rank(row.status), row.takeover_time));
    let mut step = TransferStep::new(transfer.id, transfer.state);
    step.raw_status = best
        .and_then(|row| row.status.raw())
        .and_then(|raw| i32::try_from(raw).ok());
    step.next_check_ms = Some(now_ms + growing(transfer.checks));
    step.asked_check_ms = transfer.next_check_ms;
    match best.map(|row| (row.status, takeover_ms(row))) {
        Some((TransferStatus::Done, _)) => step.to = TransferState::Done,
        Some((TransferStatus::Waiting, takeover)) => {
            step.to = TransferState::Waiting;
            step.started_ms = Some(started_ms);
            step.takeover_ms = takeover;
            // Soon after it should be over; it may also end earlier, by refusal.
            step.next_check_ms =
                Some(takeover.unwrap_or(started_ms + DAY_MS).max(now_ms) + MINUTE_MS);
        }
        Some((TransferStatus::Refused, _)) => step.to = TransferState::Refused,
        Some((TransferStatus::ReceiverFull, _)) => step.to = TransferState::Capped,
        _ => {}
    }
    if !step.to.is_end() && too_long(transfer, now_ms, human_after_ms) {
        let of_human = a_persons_turn(transfer, now_ms);
        step.to = of_human.to;
        step.next_check_ms = of_human.next_check_ms;
    }
    step
}

/// What to do with a transfer when WeCom did not answer.
pub fn unanswered(transfer: &Transfer, now_ms: u64, human_after_ms: u64) -> TransferStep {
    if too_long(transfer, now_ms, human_after_ms) {
        return a_persons_turn(transfer, now_ms);
    }
    let mut step = TransferStep::new(transfer.id, transfer.state);
    step.next_check_ms = Some(now_ms + growing(transfer.checks));
    step.asked_check_ms = transfer.next_check_ms;
    step
}

/// A person looks at it. We go on looking, too.
pub fn a_persons_turn(transfer: &Transfer, now_ms: u64) -> TransferStep {
    let mut step = TransferStep::new(transfer.id, TransferState::Human);
    step.next_check_ms = Some(now_ms + 6 * HOUR_MS);
    step.asked_check_ms = transfer.next_check_ms;
    step
}

/// Whether it must have ended by now, whatever WeCom says or does not say.
pub fn overdue(transfer: &Transfer, now_ms: u64) -> bool {
    let ends_ms = transfer.takeover_ms.unwrap_or(began_ms(transfer) + DAY_MS);
    now_ms >= ends_ms + MINUTE_MS
}

fn too_long(transfer: &Transfer, now_ms: u64, human_after_ms: u64) -> bool {
    let first_ms = transfer.unknown_since_ms.unwrap_or(u64::MAX);
    now_ms.saturating_sub(began_ms(transfer).min(first_ms)) > human_after_ms
}

fn began_ms(transfer: &Transfer) -> u64 {
    transfer.started_ms.unwrap_or(transfer.created_ms)
}

/// Whether WeCom knows of our attempt at all.
pub fn known(step: &TransferStep) -> bool {
    step.raw_status.is_some()
}

/// Rows of attempts before ours are not ours. A refusal has no time, so it counts only once ours must be visible.
fn speaks_of(row: &TransferRow, started_ms: u64, now_ms: u64) -> bool {
    match takeover_ms(row) {
        Some(takeover) => takeover + SLACK_MS >= started_ms,
        None => now_ms >= started_ms + LAG_MS || matches!(row.status, TransferStatus::Waiting),
    }
}

fn takeover_ms(row: &TransferRow) -> Option<u64> {
    let seconds = u64::try_from(row.takeover_time?)
        .ok()
        .filter(|seconds| *seconds > 0)?;
    seconds.checked_mul(1000)
}

/// An attempt that goes on outranks the end of another one.
fn rank(status: TransferStatus) -> u8 {
    match status {
        TransferStatus::Waiting => 3,
        TransferStatus::Done => 2,
        TransferStatus::Refused | TransferStatus::ReceiverFull => 1,
        _ => 0,
    }
}

/// 30 s, doubling to an hour.
fn growing(checks: i32) -> u64 {
    let doublings = u32::try_from(checks.clamp(0, 7)).unwrap_or_default();
    (MINUTE_MS / 2 * (1 << doublings)).min(HOUR_MS)
}

#[cfg(test)]
#[path = "result_tests.rs"]
mod tests;
