//! How far Redis knows who is in a group, and which groups are to be read at WeCom for it.

use std::collections::HashMap;

use allocation::{ChatId, CorpId, GroupPoolId};

use super::Groups;
use crate::Error;
use crate::row::{Columns, signed};
use crate::times::{at, at_option};

/// What Redis had of a group when a read of it said something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    pub digest: String,
    pub at_ms: u64,
}

/// What whoever reads a group must know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDoubt {
    pub pool: Option<GroupPoolId>,
    pub doubt: Option<Doubt>,
}

/// The last read that Redis was told whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupKnown {
    /// When it was begun.
    pub read_ms: u64,
    /// The corp's, when it was told.
    pub generation: u64,
}

/// Groups by what they are, for people who look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupCounts {
    pub open: u64,
    pub closed: u64,
    pub spare: u64,
    pub dismissed: u64,
    /// Of those in pools: Redis does not know who is in them.
    pub unread: u64,
    /// Of those in pools: they could not be read the last time.
    pub failing: u64,
}

impl Groups {
    /// Groups in pools that Redis knows nobody of, or has not been told for so long, the longest first; those that could not
    /// be read rest.
    pub async fn due(
        &self,
        corp: &CorpId,
        generation: u64,
        before_ms: Option<u64>,
        now_ms: u64,
        limit: u32,
    ) -> Result<Vec<ChatId>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT chat_id FROM groups
                 WHERE corp_id = $1 AND group_pool_id IS NOT NULL AND deleted_at IS NULL AND state <> 'dismissed'
                    AND (people_read_at IS NULL OR people_generation IS DISTINCT FROM $2 OR people_read_at < $3)
                    AND (next_read_at IS NULL OR next_read_at <= $4)
                 ORDER BY people_read_at NULLS FIRST, chat_id LIMIT $5",
            )
            .bind(corp.as_str())
            .bind(signed(generation))
            .bind(at_option(before_ms))
            .bind(at(now_ms))
            .bind(i64::from(limit));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter().map(|row| row.parsed("chat_id")).collect()
    }

    /// None: it is not known, or no more.
    pub async fn doubt(&self, corp: &CorpId, chat: &ChatId) -> Result<Option<GroupDoubt>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT group_pool_id, doubt, doubted_at FROM groups
                 WHERE corp_id = $1 AND chat_id = $2 AND deleted_at IS NULL AND state <> 'dismissed'",
            )
            .bind(corp.as_str())
            .bind(chat.as_str().to_owned());
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        let Some(row) = row else {
            return Ok(None);
        };
        let digest: Option<String> = row.value("doubt")?;
        let at_ms = row.ms_option("doubted_at")?;
        Ok(Some(GroupDoubt {
            pool: row.parsed_option("group_pool_id")?,
            doubt: digest
                .zip(at_ms)
                .map(|(digest, at_ms)| Doubt { digest, at_ms }),
        }))
    }

    /// A group was read: what Redis knows of it now, if that read was told whole, and what is still in doubt.
    pub async fn reckoned(
        &self,
        corp: &CorpId,
        chat: &ChatId,
        known: Option<GroupKnown>,
        doubt: Option<&Doubt>,
    ) -> Result<(), Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "UPDATE groups SET next_read_at = NULL, doubt = $5, doubted_at = $6,
                    people_generation = CASE WHEN $3::timestamptz IS NULL THEN people_generation ELSE $4 END,
                    people_read_at = coalesce($3, people_read_at)
                 WHERE corp_id = $1 AND chat_id = $2 AND deleted_at IS NULL",
            )
            .bind(corp.as_str())
            .bind(chat.as_str().to_owned())
            .bind(at_option(known.map(|known| known.read_ms)))
            .bind(known.map(|known| signed(known.generation)))
            .bind(doubt.map(|doubt| doubt.digest.clone()))
            .bind(at_option(doubt.map(|doubt| doubt.at_ms)));
        work.execute(query).await?;
        work.end().await
    }

    /// A group was read, and Redis has just that; but what is in doubt since `before_ms` or later stays so: that read may be as old
    /// as the one that Redis has it from. Answers since when it is.
    pub async fn exact(
        &self,
        corp: &CorpId,
        chat: &ChatId,
        known: Option<GroupKnown>,
        before_ms: u64,
    ) -> Result<Option<u64>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "UPDATE groups SET next_read_at = NULL,
                    doubt = CASE WHEN doubted_at > $5 THEN doubt END,
                    doubted_at = CASE WHEN doubted_at > $5 THEN doubted_at END,
                    people_generation = CASE WHEN $3::timestamptz IS NULL THEN people_generation ELSE $4 END,
                    people_read_at = coalesce($3, people_read_at)
                 WHERE corp_id = $1 AND chat_id = $2 AND deleted_at IS NULL RETURNING doubted_at",
            )
            .bind(corp.as_str())
            .bind(chat.as_str().to_owned())
            .bind(at_option(known.map(|known| known.read_ms)))
            .bind(known.map(|known| signed(known.generation)))
            .bind(at(before_ms));
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        Ok(row
            .map(|row| row.ms_option("doubted_at"))
            .transpose()?
            .flatten())
    }

    /// It could not be read: not again before, unless there is news of it.
    pub async fn rests(&self, corp: &CorpId, chat: &ChatId, until_ms: u64) -> Result<(), Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query("UPDATE groups SET next_read_at = $3 WHERE corp_id = $1 AND chat_id = $2")
            .bind(corp.as_str())
            .bind(chat.as_str().to_owned())
            .bind(at(until_ms));
        work.execute(query).await?;
        work.end().await
    }

    /// Redis knows nobody of these after all; answers of how many that was news.
    pub async fn unknown(&self, corp: &CorpId, chats: &[ChatId]) -> Result<u64, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "UPDATE groups SET people_read_at = NULL
                 WHERE corp_id = $1 AND chat_id = ANY($2) AND people_read_at IS NOT NULL",
            )
            .bind(corp.as_str())
            .bind(names(chats));
        let changed = work.execute(query).await?;
        work.end().await?;
        Ok(changed)
    }

    /// When the reads were begun that this generation was told whole; others are left out.
    pub async fn known_since(
        &self,
        corp: &CorpId,
        generation: u64,
        chats: &[ChatId],
    ) -> Result<HashMap<ChatId, u64>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT chat_id, people_read_at FROM groups WHERE corp_id = $1 AND chat_id = ANY($2)
                    AND people_generation = $3 AND people_read_at IS NOT NULL",
            )
            .bind(corp.as_str())
            .bind(names(chats))
            .bind(signed(generation));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter()
            .map(|row| Ok((row.parsed("chat_id")?, row.ms("people_read_at")?)))
            .collect()
    }

    pub async fn counts(&self, corp: &CorpId, generation: u64) -> Result<GroupCounts, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "WITH g AS (
                    SELECT state, group_pool_id IS NOT NULL AND state <> 'dismissed' AS filled, last_error IS NOT NULL AS fails,
                        people_read_at IS NULL OR people_generation IS DISTINCT FROM $2 AS unread
                    FROM groups WHERE corp_id = $1 AND deleted_at IS NULL)
                 SELECT count(*) FILTER (WHERE state = 'open') AS open, count(*) FILTER (WHERE state = 'closed') AS closed,
                    count(*) FILTER (WHERE state = 'spare') AS spare,
                    count(*) FILTER (WHERE state = 'dismissed') AS dismissed,
                    count(*) FILTER (WHERE filled AND unread) AS unread, count(*) FILTER (WHERE filled AND fails) AS failing
                 FROM g",
            )
            .bind(corp.as_str())
            .bind(signed(generation));
        let row = work.fetch_one(query).await?;
        work.end().await?;
        Ok(GroupCounts {
            open: row.number("open")?,
            closed: row.number("closed")?,
            spare: row.number("spare")?,
            dismissed: row.number("dismissed")?,
            unread: row.number("unread")?,
            failing: row.number("failing")?,
        })
    }
}

fn names(chats: &[ChatId]) -> Vec<String> {
    chats.iter().map(|chat| chat.as_str().to_owned()).collect()
}
