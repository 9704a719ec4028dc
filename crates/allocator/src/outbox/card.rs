//! Cards that tell a member about his customers. WeCom drops more than 30 a minute to one member without a word, so
//! several that are due together become one digest, and there is room for the cards of other apps.

use std::collections::HashMap;

use allocation::AllocationId;
use ledger::{Allocation, AllocationState, Finish, OutboxRow, Outcome};
use quota::{
    BudgetKeys, BudgetLimits,
    budget_take::{BudgetTake, Taken},
};
use wecom::client::{AppMessage, MessageContent, Recipients, TextCard, api};

use super::{
    hands::Hands,
    verdict::{self, Error},
};
use crate::{
    app::{App, CorpApp},
    effect::{Effect, kind},
};

/// WeCom drops what is above 1,000 an hour to one member; other apps of the corp send too.
const CARDS_PER_HOUR: u32 = 900;
/// `invaliduser` may name everybody the message was for.
const ALL_INVALID: i64 = 81013;

/// The rows of one member: one message, whether it speaks of one customer or of a hundred.
pub(super) async fn send(hands: &Hands, rows: Vec<OutboxRow>, until_ms: u64) -> Result<(), Error> {
    let (app, corp) = (&hands.app, &hands.corp);
    let rows = wanted(app, corp, rows).await?;
    if rows.is_empty() {
        return Ok(());
    }
    let Some(member) = rows.first().and_then(member) else {
        let dead: Vec<Finish> = rows
            .iter()
            .map(|row| Finish::new(row.held(), Outcome::Dead))
            .collect();
        return verdict::write(app, corp, kind::MEMBER_CARD, &dead).await;
    };
    let Some(permit) = hands.permit(until_ms).await else {
        return hands.put_back(&rows).await;
    };
    match enough(app, corp, &member).await {
        Ok(None) => {}
        Ok(Some(due_ms)) => {
            hands.unused(&permit).await;
            return verdict::put_off(app, corp, kind::MEMBER_CARD, &rows, due_ms).await;
        }
        Err(error) => {
            hands.unused(&permit).await;
            return Err(error);
        }
    }
    let held: Vec<_> = rows.iter().map(OutboxRow::held).collect();
    let lease_ms = app.config.outbox.lease_ms;
    let begun = app
        .ledger
        .outbox()
        .begin(&held, lease_ms, app.now_ms())
        .await;
    let ours = match begun {
        Ok(ours) if !ours.is_empty() => ours,
        other => {
            hands.unused(&permit).await;
            other?;
            return Ok(());
        }
    };
    let mut rows: Vec<OutboxRow> = rows
        .into_iter()
        .filter(|row| ours.iter().any(|held| held.id == row.id))
        .collect();
    rows.sort_by_key(|row| row.id);
    let answer = corp
        .client
        .send_message(&message(app, &member, &rows))
        .await;
    hands.done(&permit, &answer).await;
    let tries = rows.iter().map(|row| row.tries).max().unwrap_or_default() + 1;
    // One time for all of them: what is sent again must be the same message.
    let outcome = match &answer {
        Ok(sent) if sent.invaliduser.is_empty() => Outcome::Done,
        // Nobody to tell: he left, or the app may not see him. That stops no customer.
        Ok(_) => Outcome::Failed,
        Err(error) if error.errcode() == Some(ALL_INVALID) => Outcome::Failed,
        // The duplicate check makes a repetition harmless.
        Err(error) if error.may_have_acted() => verdict::again(app, tries),
        Err(error) => verdict::after_refusal(app, corp, error, tries),
    };
    let finishes: Vec<Finish> = rows
        .iter()
        .map(|row| verdict::finish(row.held(), outcome, answer.as_ref().err()))
        .collect();
    verdict::write(app, corp, kind::MEMBER_CARD, &finishes).await
}

/// Leaves out those whose channel wants no cards, and those that ask about what is not offered any more. A customer who was
/// assigned late or given to another comes without his channel: his allocation knows it.
async fn wanted(app: &App, corp: &CorpApp, rows: Vec<OutboxRow>) -> Result<Vec<OutboxRow>, Error> {
    let asked: Vec<_> = rows
        .iter()
        .filter(|row| card(row).is_some_and(|card| card.is_looked_up()))
        .filter_map(|row| row.allocation)
        .collect();
    if asked.is_empty() {
        return Ok(rows);
    }
    let allocations = app.ledger.allocations();
    let allocations = allocations.get_many(&corp.id, &asked).await?;
    let allocations = allocations.into_iter().map(|row| (row.id, row));
    let allocations: HashMap<AllocationId, Allocation> = allocations.collect();
    let routes = corp.routes();
    let is_silent = |allocation: &Allocation| {
        let channel = allocation.channel.as_ref();
        let channel = channel.and_then(|id| routes.channels.get(id));
        channel.is_some_and(|channel| !channel.card)
    };
    let (unwanted, wanted): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| {
        let (Some(card), Some(allocation)) = (
            card(row),
            row.allocation.and_then(|id| allocations.get(&id)),
        ) else {
            return false;
        };
        let is_offered =
            allocation.state == AllocationState::Offered && Some(allocation.epoch) == row.epoch;
        (card.channel.is_none() && is_silent(allocation))
            || (card.accept_seconds.is_some() && !is_offered)
    });
    let cancelled: Vec<Finish> = unwanted
        .iter()
        .map(|row| Finish::new(row.held(), Outcome::Cancelled))
        .collect();
    verdict::write(app, corp, kind::MEMBER_CARD, &cancelled).await?;
    Ok(wanted)
}

/// Counts one card to the member, over all processes; or says when he may get the next one.
pub(crate) async fn enough(app: &App, corp: &CorpApp, member: &str) -> Result<Option<u64>, Error> {
    let name = format!("{}:{member}", api::SEND_MESSAGE);
    let limits = BudgetLimits {
        per_minute: app.config.outbox.cards_per_minute,
        per_hour: CARDS_PER_HOUR,
        in_flight: 0,
        lease_ms: 1,
        grow_back_ms: 1,
    };
    let keys = BudgetKeys::member(corp.id.as_str(), api::SEND_MESSAGE, member);
    let id = uuid::Uuid::now_v7().simple().to_string();
    let taken = BudgetTake::default()
        .call(
            &mut app.redis.clone(),
            &keys,
            &name,
            &id,
            limits,
            false,
            None,
        )
        .await?;
    Ok(match taken {
        Taken::Taken { .. } => None,
        Taken::Wait { until_ms, .. } => Some(u64::try_from(until_ms).unwrap_or_default()),
    })
}

fn member(row: &OutboxRow) -> Option<String> {
    card(row).map(|card| card.member)
}

struct Card {
    member: String,
    /// As far as the decision knew it.
    channel: Option<String>,
    accept_seconds: Option<u64>,
}

impl Card {
    fn is_looked_up(&self) -> bool {
        self.channel.is_none() || self.accept_seconds.is_some()
    }
}

fn card(row: &OutboxRow) -> Option<Card> {
    match serde_json::from_value(row.payload.clone()) {
        Ok(Effect::MemberCard {
            member,
            channel,
            accept_seconds,
        }) => Some(Card {
            member,
            channel,
            accept_seconds,
        }),
        _ => None,
    }
}

/// The same rows give the same text, so that WeCom's duplicate check knows a repetition.
fn message(app: &App, member: &str, rows: &[OutboxRow]) -> AppMessage {
    let settings = &app.config.card;
    // All of a message ask, or none does.
    let seconds = rows
        .iter()
        .filter_map(|row| card(row)?.accept_seconds)
        .min();
    let (title, one, digest) = match seconds {
        Some(_) => (
            &settings.offer_title,
            &settings.offer_description,
            &settings.offer_digest,
        ),
        None => (&settings.title, &settings.description, &settings.digest),
    };
    let text = match rows {
        [_] => one.clone(),
        many => digest.replace("{count}", &many.len().to_string()),
    };
    let description = text.replace("{seconds}", &seconds.unwrap_or_default().to_string());
    let first = rows
        .first()
        .and_then(|row| row.allocation)
        .map(|id| id.to_string())
        .unwrap_or_default();
    let url = settings.url.replace("{allocation}", &first);
    let card = TextCard {
        title: title.clone().into(),
        description: description.into(),
        url: url.into(),
        btntxt: None,
    };
    AppMessage::new(Recipients::user(member), MessageContent::TextCard(card))
}
