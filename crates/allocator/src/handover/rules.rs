//! Which transfers a decision needs. Pure.

use allocation::{AllocationId, MemberId, SubjectKey};
use ledger::{Change, NewEffect, NewTransfer, TransferKind};
use uuid::Uuid;

use crate::effect::Effect;

/// A transfer from `giver` to `taker`, and the effect that starts it.
pub fn plan(
    at_ms: u64,
    allocation: AllocationId,
    subject: SubjectKey,
    giver: &MemberId,
    taker: &MemberId,
    epoch: Option<u64>,
    changes: &mut Vec<Change>,
) {
    let (transfer, effect) = start(at_ms, allocation, subject, giver, taker, epoch);
    changes.push(Change::Transfer(transfer));
    changes.push(Change::Effect(effect));
}

/// The two alone.
pub(super) fn start(
    at_ms: u64,
    allocation: AllocationId,
    subject: SubjectKey,
    giver: &MemberId,
    taker: &MemberId,
    epoch: Option<u64>,
) -> (NewTransfer, NewEffect) {
    let id = Uuid::now_v7();
    let transfer = NewTransfer {
        id,
        allocation: Some(allocation),
        subject,
        giver: giver.clone(),
        taker: taker.clone(),
        kind: TransferKind::InService,
    };
    let effect = Effect::Transfer {
        giver: giver.to_string(),
        taker: taker.to_string(),
    };
    let mut row = effect.row(id.to_string(), at_ms);
    row.allocation = Some(allocation);
    row.epoch = Some(epoch.unwrap_or_default());
    row.transfer = Some(id);
    (transfer, row)
}
