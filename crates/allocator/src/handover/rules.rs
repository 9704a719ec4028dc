//! Which transfers a decision needs. Pure.

use allocation::{AllocationId, MemberId, SubjectKey};
use ledger::{Change, NewTransfer, TransferKind};
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
    let id = Uuid::now_v7();
    changes.push(Change::Transfer(NewTransfer {
        id,
        allocation: Some(allocation),
        subject,
        giver: giver.clone(),
        taker: taker.clone(),
        kind: TransferKind::InService,
    }));
    let effect = Effect::Transfer {
        giver: giver.to_string(),
        taker: taker.to_string(),
    };
    let mut row = effect.row(id.to_string(), at_ms);
    row.allocation = Some(allocation);
    row.epoch = Some(epoch.unwrap_or_default());
    row.transfer = Some(id);
    changes.push(Change::Effect(row));
}
