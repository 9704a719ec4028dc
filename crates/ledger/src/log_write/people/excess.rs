//! Which excess of a group is told of: the same people are often named one after the other, and are one excess all the same.

use std::collections::BTreeMap;

use allocation::{ChatId, CorpId};

use super::Step;
use crate::Error;
use crate::connection::Work;
use crate::log_write::column;
use crate::row::Columns;

/// What was told of each group and is still there.
pub(super) type Told<'b> = BTreeMap<&'b ChatId, u32>;

/// What was told of these groups before.
pub(super) async fn before<'b>(
    work: &mut Work,
    corp: &CorpId,
    chats: impl Iterator<Item = &'b ChatId>,
) -> Result<Told<'b>, Error> {
    let mut told: Told<'b> = chats.map(|chat| (chat, 0)).collect();
    if told.is_empty() {
        return Ok(told);
    }
    let chats: Vec<&ChatId> = told.keys().copied().collect();
    let query = work
        .query("SELECT chat_id, told_excess FROM group_counts WHERE corp_id = $1 AND chat_id = ANY($2) AND told_excess > 0")
        .bind(corp.as_str())
        .bind(column(&chats, |chat| chat.as_str()));
    for row in work.fetch_all(query).await? {
        let chat: ChatId = row.parsed("chat_id")?;
        if let Some(one) = told.get_mut(&chat) {
            *one = row.small("told_excess")?;
        }
    }
    Ok(told)
}

/// One more change of a group. True: somebody came past us, and there are more too many than was told.
pub(super) fn is_news(told: &mut Told<'_>, step: &Step<'_>) -> bool {
    let Some(told) = told.get_mut(step.chat) else {
        return false;
    };
    let Some(counted) = step.counted else {
        *told = 0;
        return false;
    };
    *told = (*told).min(counted.oversold);
    let is_news = counted.past_us > 0 && counted.oversold > *told;
    if is_news {
        *told = counted.oversold;
    }
    is_news
}
