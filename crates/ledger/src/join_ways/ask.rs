//! A way on its way: intent, answer, no answer, its picture.

use allocation::{CampaignId, ChatId, CorpId, Via};

use super::{JoinWays, chats, owner, texts};
use crate::Error;
use crate::contact_ways::{Made, Refusal};
use crate::error::retry;
use crate::row::Columns;
use crate::text::clean;
use crate::times::at;

/// WeCom is asked for this way now: that is written already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedJoinWay {
    pub way: String,
    pub campaign: CampaignId,
    pub via: Via,
    pub chats: Vec<ChatId>,
    /// Which try this is; every answer names it.
    pub attempt: i32,
}

/// A way that is made and has no picture yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnpicturedJoinWay {
    pub way: String,
    pub config_id: String,
    /// This one counted.
    pub tries: i32,
}

/// What became of those whose answer never came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LostJoinWays {
    /// They are asked for once more.
    pub again: u64,
    pub given_up: u64,
}

impl JoinWays {
    /// Picks the way that is due next and writes down that it is asked for.
    pub async fn ask_next(
        &self,
        corp: &CorpId,
        lease_ms: u64,
        now_ms: u64,
    ) -> Result<Option<AskedJoinWay>, Error> {
        let rows = self
            .take(
                "WITH picked AS (
                    SELECT way FROM join_ways WHERE corp_id = $1 AND state = 'wanted' AND next_try_at <= $2
                    ORDER BY next_try_at, created_at, way LIMIT $4 FOR UPDATE SKIP LOCKED)
                 UPDATE join_ways AS w SET state = 'asked', asked_at = $2, tries = w.tries + 1, next_try_at = $3,
                    pauses_corp_until = NULL
                 FROM picked AS p WHERE w.corp_id = $1 AND w.way = p.way
                 RETURNING w.way, w.campaign_id, w.via, w.chats, w.tries",
                corp,
                1,
                lease_ms,
                now_ms,
            )
            .await?;
        let row = rows.first();
        row.map(|row| {
            let (campaign, via) = owner(row)?;
            Ok(AskedJoinWay {
                way: row.value("way")?,
                campaign,
                via,
                chats: chats(row, "chats")?,
                attempt: row.value("tries")?,
            })
        })
        .transpose()
    }

    /// It is at WeCom and leads into the groups that were asked for.
    pub async fn made(
        &self,
        corp: &CorpId,
        asked: &AskedJoinWay,
        config_id: &str,
        now_ms: u64,
    ) -> Result<Made, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "UPDATE join_ways SET config_id = $4, told_chats = $5, next_try_at = $6, last_errcode = NULL, last_error = NULL
                 WHERE corp_id = $1 AND way = $2 AND tries = $3 AND state = 'asked' AND config_id IS NULL",
            )
            .bind(corp.as_str())
            .bind(asked.way.clone())
            .bind(asked.attempt)
            .bind(clean(config_id).into_owned())
            .bind(texts(&asked.chats))
            .bind(at(now_ms));
        if work.execute(query).await? > 0 {
            work.end().await?;
            return Ok(Made::Kept);
        }
        let query = work
            .query("SELECT config_id FROM join_ways WHERE corp_id = $1 AND way = $2")
            .bind(corp.as_str())
            .bind(asked.way.clone());
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        let there: Option<String> = row.map(|row| row.value("config_id")).transpose()?.flatten();
        Ok(match there.as_deref() == Some(config_id) {
            true => Made::Known,
            false => Made::Stray,
        })
    }

    /// It is not at WeCom, that is certain.
    pub async fn refused(
        &self,
        corp: &CorpId,
        way: &str,
        attempt: i32,
        refusal: &Refusal,
    ) -> Result<(), Error> {
        retry(|| async {
            let mut work = self.db.single().await?;
            let query = work
                .query(
                    "UPDATE join_ways SET state = CASE WHEN $4 THEN 'failed' ELSE 'wanted' END,
                        tries = tries - CASE WHEN $5 THEN 1 ELSE 0 END, next_try_at = $6,
                        pauses_corp_until = CASE WHEN $7 THEN $6::timestamptz END, last_errcode = $8, last_error = $9
                     WHERE corp_id = $1 AND way = $2 AND tries = $3 AND state = 'asked' AND config_id IS NULL",
                )
                .bind(corp.as_str())
                .bind(way.to_owned())
                .bind(attempt)
                .bind(refusal.fails)
                .bind(refusal.uncounted)
                .bind(at(refusal.next_try_ms))
                .bind(refusal.pauses_corp)
                .bind(refusal.errcode)
                .bind(clean(&refusal.error).into_owned());
            work.execute(query).await?;
            work.end().await
        })
        .await
    }

    /// It may be at WeCom: an answer is waited for until then.
    pub async fn unanswered(
        &self,
        corp: &CorpId,
        way: &str,
        attempt: i32,
        error: &str,
        until_ms: u64,
    ) -> Result<(), Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "UPDATE join_ways SET next_try_at = $4, last_error = $5
                 WHERE corp_id = $1 AND way = $2 AND tries = $3 AND state = 'asked' AND config_id IS NULL",
            )
            .bind(corp.as_str())
            .bind(way.to_owned())
            .bind(attempt)
            .bind(at(until_ms))
            .bind(clean(error).into_owned());
        work.execute(query).await?;
        work.end().await
    }

    /// Those whose answer never came are asked for once more, those that this happened to more than `most` times are given up
    /// until `failed_until_ms`.
    pub async fn lost(
        &self,
        corp: &CorpId,
        most: i32,
        failed_until_ms: u64,
        now_ms: u64,
    ) -> Result<LostJoinWays, Error> {
        let rows = retry(|| async {
            let mut work = self.db.single().await?;
            let query = work
                .query(
                    "UPDATE join_ways SET lost = lost + 1,
                        state = CASE WHEN lost >= $3 THEN 'failed' ELSE 'wanted' END,
                        next_try_at = CASE WHEN lost >= $3 THEN $4::timestamptz ELSE $2 END,
                        last_error = coalesce(last_error, 'WeCom did not answer')
                     WHERE corp_id = $1 AND state = 'asked' AND config_id IS NULL AND next_try_at <= $2
                     RETURNING state = 'failed' AS given_up",
                )
                .bind(corp.as_str())
                .bind(at(now_ms))
                .bind(most)
                .bind(at(failed_until_ms));
            let rows = work.fetch_all(query).await?;
            work.end().await?;
            Ok(rows)
        })
        .await?;
        let mut lost = LostJoinWays::default();
        for row in rows {
            match row.value("given_up")? {
                true => lost.given_up += 1,
                false => lost.again += 1,
            }
        }
        Ok(lost)
    }

    /// Takes those whose picture is due.
    pub async fn unpictured(
        &self,
        corp: &CorpId,
        limit: u32,
        lease_ms: u64,
        now_ms: u64,
    ) -> Result<Vec<UnpicturedJoinWay>, Error> {
        let rows = self
            .take(
                "WITH picked AS (
                    SELECT way FROM join_ways
                    WHERE corp_id = $1 AND state = 'asked' AND config_id IS NOT NULL AND next_try_at <= $2
                    ORDER BY next_try_at LIMIT $4 FOR UPDATE SKIP LOCKED)
                 UPDATE join_ways AS w SET next_try_at = $3, picture_tries = w.picture_tries + 1
                 FROM picked AS p WHERE w.corp_id = $1 AND w.way = p.way
                 RETURNING w.way, w.config_id, w.picture_tries",
                corp,
                limit,
                lease_ms,
                now_ms,
            )
            .await?;
        rows.iter()
            .map(|row| {
                Ok(UnpicturedJoinWay {
                    way: row.value("way")?,
                    config_id: row.value("config_id")?,
                    tries: row.value("picture_tries")?,
                })
            })
            .collect()
    }

    /// It can be shown. False: it is no longer waited for.
    pub async fn pictured(
        &self,
        corp: &CorpId,
        way: &str,
        qr_code: &str,
        picture: &[u8],
        picture_type: &str,
        now_ms: u64,
    ) -> Result<bool, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "UPDATE join_ways SET state = 'ready', qr_code = $3, picture = $4, picture_type = $5, tries = 0,
                    next_try_at = CASE WHEN told_chats <> chats THEN $6::timestamptz END,
                    last_error = NULL, last_errcode = NULL, ready_at = $6, changed_by = pg_current_xact_id()
                 WHERE corp_id = $1 AND way = $2 AND state = 'asked' AND config_id IS NOT NULL",
            )
            .bind(corp.as_str())
            .bind(way.to_owned())
            .bind(clean(qr_code).into_owned())
            .bind(picture.to_vec())
            .bind(picture_type.to_owned())
            .bind(at(now_ms));
        let changed = work.execute(query).await?;
        work.end().await?;
        Ok(changed > 0)
    }

    /// Its picture could not be had, or its groups not be changed. `remade`: it is not at WeCom any more and must be asked for
    /// anew.
    pub async fn not_yet(
        &self,
        corp: &CorpId,
        way: &str,
        refusal: &Refusal,
        remade: bool,
    ) -> Result<(), Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "UPDATE join_ways SET next_try_at = $3, last_errcode = $4, last_error = $5,
                    changed_by = pg_current_xact_id(), tries = CASE WHEN $7 THEN 0 ELSE tries END,
                    picture_tries = CASE WHEN $7 THEN 0 ELSE picture_tries END,
                    state = CASE WHEN $7 THEN 'wanted' WHEN $6 AND state = 'asked' THEN 'failed' ELSE state END,
                    config_id = CASE WHEN $7 THEN NULL ELSE config_id END,
                    told_chats = CASE WHEN $7 THEN NULL ELSE told_chats END,
                    qr_code = CASE WHEN $7 THEN NULL ELSE qr_code END,
                    picture = CASE WHEN $7 THEN NULL ELSE picture END,
                    rooms_for = CASE WHEN $7 THEN NULL ELSE rooms_for END,
                    told_rooms = CASE WHEN $7 THEN false ELSE told_rooms END
                 WHERE corp_id = $1 AND way = $2 AND state IN ('asked', 'ready') AND config_id IS NOT NULL",
            )
            .bind(corp.as_str())
            .bind(way.to_owned())
            .bind(at(refusal.next_try_ms))
            .bind(refusal.errcode)
            .bind(clean(&refusal.error).into_owned())
            .bind(refusal.fails)
            .bind(remade);
        work.execute(query).await?;
        work.end().await
    }
}
