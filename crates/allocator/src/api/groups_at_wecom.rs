//! A chat_id that somebody typed is looked up, once: a wrong one would be a group that nobody is ever shown.

use std::{sync::Arc, time::Duration};

use allocation::ChatId;
use tokio::time::timeout;

use super::{access::Ctx, problem::Problem};
use crate::fission::get::missing;

/// Longer than this nobody waits for it: the reader will say it.
const WAIT: Duration = Duration::from_secs(3);

/// Refuses one that was never read, and that WeCom does not have. Where the quota lets no call go, or WeCom does not answer, nobody
/// knows.
pub(super) async fn at_wecom(ctx: &Ctx, chat: &ChatId, pointer: &str) -> Result<(), Problem> {
    let known = ctx.app.ledger.groups().get(ctx.id(), chat).await?;
    if known.is_some_and(|group| group.said.is_some()) {
        return Ok(());
    }
    let (app, corp, id) = (Arc::clone(&ctx.app), Arc::clone(&ctx.corp), chat.clone());
    // The call goes on to its end whoever waits for it: what it comes to is the quota's, too.
    let asked = tokio::spawn(async move { missing(&app, &corp, &id).await });
    match timeout(WAIT, asked).await {
        Ok(Ok(Some(problem))) => {
            let message = format!(
                "is no customer group that this app sees at WeCom ({problem}): take the chat_id from groupchat/list or an import"
            );
            Err(Problem::field(pointer, "unknown_group", message))
        }
        _ => Ok(()),
    }
}
