//! What is told of a decision: the welcome to the customer, the card to the member, and why its plan preferred whom. Pure.

use allocation::{AllocationId, ChannelId, MemberId};
use ledger::{Change, Preference};
use sha2::{Digest, Sha256};

use super::routes::Routes;
use crate::{effect::Effect, payload::Context};

/// A welcome code works for 20 s after the event; what is left must still reach WeCom.
const WELCOME_MS: u64 = 20_000;

/// The one who has the customer greets him, whoever will get him: the code is his and lives 20 s.
pub(super) fn welcome(
    at_ms: u64,
    allocation: Option<AllocationId>,
    context: &Context,
    routes: &Routes,
    changes: &mut Vec<Change>,
) {
    let channel = context
        .channel
        .as_ref()
        .and_then(|channel| ChannelId::new(channel.clone()).ok());
    let wanted = channel
        .and_then(|channel| routes.channels.get(&channel))
        .and_then(|channel| channel.welcome.as_ref());
    let (Some(code), Some(wanted)) = (&context.welcome_code, wanted) else {
        return;
    };
    let effect = Effect::Welcome {
        welcome_code: code.clone(),
        text: wanted.text.clone(),
        attachments: wanted.attachments.clone(),
    };
    // One code is one message, whichever delivery or endpoint brought it; the key must not be the code itself.
    let mut row = effect.row(hex::encode(Sha256::digest(code.as_bytes())), at_ms);
    row.erase_payload = true;
    row.allocation = allocation;
    row.deadline_ms = Some(context.received_ms + WELCOME_MS);
    changes.push(Change::Effect(row));
}

/// What a member is told: that a customer is his, or that he may accept one.
pub(super) struct Card<'a> {
    pub(super) allocation: AllocationId,
    pub(super) member: &'a MemberId,
    /// As far as it is known here: the allocation knows it.
    pub(super) channel: Option<String>,
    pub(super) epoch: Option<u64>,
    /// He is asked, until then.
    pub(super) accept_until_ms: Option<u64>,
}

pub(super) fn card(at_ms: u64, card: Card<'_>, routes: &Routes, changes: &mut Vec<Change>) {
    let silent = card
        .channel
        .as_ref()
        .and_then(|channel| ChannelId::new(channel.clone()).ok())
        .and_then(|channel| routes.channels.get(&channel))
        .is_some_and(|channel| !channel.card);
    if silent {
        return;
    }
    let epoch = card.epoch.unwrap_or_default();
    let (allocation, until_ms) = (card.allocation, card.accept_until_ms);
    let key = match until_ms {
        Some(_) => format!("offer:{allocation}:{epoch}"),
        None => format!("{allocation}:{epoch}"),
    };
    let effect = Effect::MemberCard {
        member: card.member.to_string(),
        channel: card.channel,
        accept_seconds: until_ms.map(|until_ms| until_ms.saturating_sub(at_ms) / 1_000),
    };
    let mut row = effect.row(key, at_ms);
    row.allocation = Some(allocation);
    row.epoch = Some(epoch);
    // Too late it asks for nothing.
    row.deadline_ms = until_ms;
    changes.push(Change::Effect(row));
}

/// Why the plan prefers whom; nothing, if one of the words is a newer program's.
pub(super) fn preferred(context: &Context) -> Vec<Preference> {
    let words = context.preferred.iter();
    let known: Result<_, _> = words.map(|word| word.parse()).collect();
    known.unwrap_or_default()
}
