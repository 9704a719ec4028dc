//! A group that was found may be one that somebody was asked to make, or a room that WeCom opened.

use ledger::{FoundGroup, GroupRead, SupplyTask, Trail};

use super::count;
use crate::app::{App, CorpApp};

/// Puts it into the pool whose task waited for it. `made_ms`: since when it is there at WeCom. True: one waited.
pub(in crate::fission) async fn adopt(
    app: &App,
    corp: &CorpApp,
    read: &GroupRead,
    made_ms: u64,
) -> Result<bool, ledger::Error> {
    let trail = Trail::system(app.now_ms(), "supply");
    let found = FoundGroup {
        chat: &read.chat,
        owner: &read.owner,
        name: &read.name,
        made_ms,
    };
    let tasks = app.ledger.supply_tasks();
    let Some(adopted) = tasks.found(&corp.id, &found, &trail).await? else {
        return Ok(false);
    };
    came(corp, &read.chat, &adopted.task);
    Ok(true)
}

/// It is the pool's from now on.
pub(super) fn came(corp: &CorpApp, chat: &allocation::ChatId, task: &SupplyTask) {
    count(corp, task.source.as_str(), "came");
    tracing::info!(corp = %corp.id, group = %chat, pool = %task.pool, task = %task.id, lacking = task.lacking(),
        "a group came that a pool lacked");
    corp.groups_changed.notify_one();
}
