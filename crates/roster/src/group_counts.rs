//! How full groups are. Who is in a group is read only where it seems to be above its cap.

use allocation::{ChatId, GroupCount};

use crate::connection::Connection;
use crate::corp::CorpRoster;
use crate::error::Error;
use crate::read::unreadable;

const FIELD: char = '\u{1f}';
/// Of a group's fields: version, pool, rank, scan cap, buffer, tags, open, what its people were last, how many they are, held.
const SCAN_CAP: usize = 3;
const BUFFER: usize = 4;
const SEEN: usize = 7;
const PEOPLE: usize = 8;
const HELD: usize = 9;
/// What is kept of people until a read says who they are.
const UNNAMED: [&[u8]; 2] = [b"?", b"~"];

impl<C: Connection> CorpRoster<C> {
    /// Of these groups, in their order; None: it is filled by nobody, or nobody has read yet who is in it.
    pub async fn group_counts(&self, chats: &[ChatId]) -> Result<Vec<Option<GroupCount>>, Error> {
        let names: Vec<String> = chats.iter().map(|chat| format!("group:{chat}")).collect();
        let texts = self.texts(&names).await?;
        let mut counts = Vec::with_capacity(texts.len());
        for (text, chat) in texts.iter().zip(chats) {
            let counted = match text {
                Some(text) => count(&String::from_utf8_lossy(text))?,
                None => None,
            };
            counts.push(match counted {
                Some(counted) if counted.oversold > 0 && counted.held > 0 => {
                    Some(above(counted, self.unnamed(chat).await?))
                }
                counted => counted,
            });
        }
        Ok(counts)
    }

    /// People of a group who have no name yet.
    async fn unnamed(&self, chat: &ChatId) -> Result<u32, Error> {
        let mut connection = self.connection.clone();
        let mut command = redis::cmd("HVALS");
        command.arg(self.keys.key(&format!("people:{chat}")));
        let values: Vec<Vec<u8>> = command.query_async(&mut connection).await?;
        let unnamed = values
            .iter()
            .filter(|value| UNNAMED.contains(&value.as_slice()));
        Ok(u32::try_from(unnamed.count()).unwrap_or(u32::MAX))
    }
}

/// Each of those who have no name yet may be one of those who were shown the group.
fn above(counted: GroupCount, n_unnamed: u32) -> GroupCount {
    let twice = n_unnamed.min(counted.held);
    GroupCount {
        oversold: counted.oversold.saturating_sub(twice),
        ..counted
    }
}

fn count(group: &str) -> Result<Option<GroupCount>, Error> {
    let fields: Vec<&str> = group.split(FIELD).collect();
    // Of one that was removed there is only the version.
    if fields.get(SEEN).is_none_or(|seen| seen.is_empty()) {
        return Ok(None);
    }
    let number = |index: usize| {
        let number = fields
            .get(index)
            .and_then(|field| field.parse::<u32>().ok());
        number.ok_or_else(|| unreadable("group", "its numbers are none"))
    };
    let (scan_cap, people, held) = (number(SCAN_CAP)?, number(PEOPLE)?, number(HELD)?);
    let taken = people.saturating_add(held);
    Ok(Some(GroupCount {
        people,
        held,
        free: scan_cap.saturating_sub(taken.saturating_add(number(BUFFER)?)),
        oversold: taken.saturating_sub(scan_cap),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_counted_as_the_rules_count_it() {
        let group = |seen: &str, people: u32, held: u32| {
            format!(
                "1\u{1f}p\u{1f}0\u{1f}10\u{1f}2\u{1f}\u{1f}1\u{1f}{seen}\u{1f}{people}\u{1f}{held}\u{1f}0"
            )
        };
        let counted = |people, held, free, oversold| {
            Some(GroupCount {
                people,
                held,
                free,
                oversold,
            })
        };
        assert_eq!(count(&group("v1", 3, 4)).unwrap(), counted(3, 4, 1, 0));
        assert_eq!(count(&group("v1", 7, 5)).unwrap(), counted(7, 5, 0, 2));
        assert_eq!(count(&group("", 0, 0)).unwrap(), None, "never read");
        assert_eq!(count("7").unwrap(), None, "removed");
        assert!(count(&group("v1", 3, 4).replace("\u{1f}3\u{1f}", "\u{1f}x\u{1f}")).is_err());
    }
}
