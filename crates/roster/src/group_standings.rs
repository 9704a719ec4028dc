//! Which configuration of groups and group pools is in force: to compare with what is configured, and to know at once whose
//! people are known.

use allocation::{ChatId, ChatVersion, GroupPoolId};

use crate::connection::Connection;
use crate::corp::CorpRoster;
use crate::error::Error;
use crate::read::{PoolVersion, pool_version, unreadable};

const FIELD: char = '\u{1f}';
/// Of a group's fields: version, pool, rank, scan cap, buffer, tags, open, and then what its people were last.
const SEEN: usize = 7;

/// A group as far as one key says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupStanding {
    pub version: u64,
    /// It was removed at this version.
    pub removed: bool,
    /// What its people were last; None: it was never read.
    pub seen: Option<ChatVersion>,
}

impl<C: Connection> CorpRoster<C> {
    /// Of these groups, in their order; None: never heard of.
    pub async fn group_standings(
        &self,
        chats: &[ChatId],
    ) -> Result<Vec<Option<GroupStanding>>, Error> {
        let names: Vec<String> = chats.iter().map(|chat| format!("group:{chat}")).collect();
        let texts = self.texts(&names).await?;
        let standings = texts.iter().map(|text| text.as_deref().map(standing));
        standings.map(Option::transpose).collect()
    }

    /// The same of group pools.
    pub async fn group_pool_versions(
        &self,
        pools: &[GroupPoolId],
    ) -> Result<Vec<Option<PoolVersion>>, Error> {
        let names: Vec<String> = pools.iter().map(|pool| format!("gpool:{pool}")).collect();
        let texts = self.texts(&names).await?;
        let versions = texts.iter().map(|text| text.as_deref().map(pool_version));
        versions.map(Option::transpose).collect()
    }
}

fn standing(text: &[u8]) -> Result<GroupStanding, Error> {
    let PoolVersion { version, removed } = pool_version(text)?;
    let seen = match removed {
        true => None,
        false => {
            let text = String::from_utf8_lossy(text);
            let seen = text.split(FIELD).nth(SEEN);
            let seen = seen.ok_or_else(|| unreadable("group", "it ends too early"))?;
            match seen {
                "" => None,
                seen => Some(seen.parse()?),
            }
        }
    };
    Ok(GroupStanding {
        version,
        removed,
        seen,
    })
}
