//! The welcome message: once, within 20 s of the event, never after an unknown outcome.

use ledger::{Finish, OutboxRow, Outcome};
use metrics::histogram;
use quota::Urgency;
use wecom::client::{Attachment, Welcome, api};

use super::verdict::{self, Error};
use crate::{
    app::{App, CorpApp},
    backoff::jittered,
    effect::{Effect, kind},
    permit,
};

/// Another app is sending; it may fail, so we try again soon, as long as the code lives.
const BEING_SENT: i64 = 41096;

pub(super) async fn send(app: &App, corp: &CorpApp, rows: Vec<OutboxRow>) -> Result<(), Error> {
    for row in rows {
        one(app, corp, row).await?;
    }
    Ok(())
}

async fn one(app: &App, corp: &CorpApp, row: OutboxRow) -> Result<(), Error> {
    // A call that may have greeted is never repeated.
    if row.unknown_since_ms.is_some() {
        let mut finish = Finish::new(row.held(), Outcome::Failed);
        finish.error = Some("unknown whether it was sent; not repeated".to_owned());
        return verdict::write(app, corp, kind::WELCOME, &[finish]).await;
    }
    let Some(message) = message(&row) else {
        let mut finish = Finish::new(row.held(), Outcome::Dead);
        finish.error = Some("the message cannot be read".to_owned());
        return verdict::write(app, corp, kind::WELCOME, &[finish]).await;
    };
    let permit = match permit::take(app, corp, api::SEND_WELCOME_MSG, Urgency::Urgent).await {
        Ok(permit) => permit,
        Err(due_ms) => return verdict::put_off(app, corp, kind::WELCOME, &[row], due_ms).await,
    };
    let ours = app
        .ledger
        .outbox()
        .begin(&[row.held()], app.config.outbox.lease_ms, app.now_ms())
        .await;
    if !matches!(&ours, Ok(ours) if !ours.is_empty()) {
        permit::unused(app, corp, api::SEND_WELCOME_MSG, &permit).await;
        ours?;
        return Ok(());
    }
    let answer = corp.client.send_welcome_msg(&message).await;
    permit::done(app, corp, api::SEND_WELCOME_MSG, &permit, &answer).await;
    let outcome = match &answer {
        Ok(()) => {
            histogram!("paidan_welcome_seconds")
                .record(app.now_ms().saturating_sub(row.created_ms) as f64 / 1000.0);
            Outcome::Done
        }
        Err(error) if error.may_have_acted() => Outcome::Failed,
        Err(error) if error.errcode() == Some(BEING_SENT) => Outcome::Again {
            due_ms: app.now_ms() + jittered(1_000),
        },
        Err(error) => verdict::after_refusal(app, corp, error, row.tries + 1),
    };
    let finish = verdict::finish(row.held(), outcome, answer.as_ref().err());
    verdict::write(app, corp, kind::WELCOME, &[finish]).await
}

fn message(row: &OutboxRow) -> Option<Welcome> {
    let Ok(Effect::Welcome {
        welcome_code,
        text,
        attachments,
    }) = serde_json::from_value(row.payload.clone())
    else {
        return None;
    };
    let mut message = Welcome::new(welcome_code);
    if let Some(text) = text {
        message = message.text(text);
    }
    for attachment in attachments {
        message = message.attach(serde_json::from_value::<Attachment>(attachment).ok()?);
    }
    Some(message)
}
