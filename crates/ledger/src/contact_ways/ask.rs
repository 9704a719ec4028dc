//! A way on its way: intent, answer, what became of a lost answer, its picture.

use std::collections::HashSet;

use allocation::{ChannelId, CorpId, MemberId};
use sqlx::postgres::PgRow;

use super::{ContactWays, Refused, WayKind};
use crate::Error;
use crate::error::retry;
use crate::row::{Columns, signed};
use crate::text::clean;
use crate::times::at;

/// WeCom is asked for this way now: that is written already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub way: String,
    pub channel: ChannelId,
    pub member: MemberId,
    /// As WeCom spells the member.
    pub userid: String,
    pub kind: WayKind,
    /// Which try this is; every answer names it.
    pub attempt: i32,
}

/// Nobody knows what became of this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    pub way: String,
    pub member: MemberId,
    pub attempt: i32,
    pub asked_ms: u64,
}

/// A way that is made and has no picture yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpictured {
    pub way: String,
    pub config_id: String,
    pub qr_code: Option<String>,
    /// This one counted.
    pub tries: i32,
}

/// Why a way is not there, and what follows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Refusal {
    pub errcode: Option<i64>,
    pub error: String,
    pub next_try_ms: u64,
    /// Nothing left the house, or WeCom's rate forbade it: it is no try.
    pub uncounted: bool,
    /// Given up until then.
    pub fails: bool,
    /// Until then nothing is asked for the corp.
    pub pauses_corp: bool,
    /// Until then nothing is asked for the member.
    pub pauses_member: bool,
    /// Who gets no way now, and is passed over while he has none; None: it says nothing about that.
    pub passes_over: Option<Refused>,
}

/// What `made` found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    Kept,
    /// Somebody found it at WeCom first.
    Known,
    /// The row is at another try, or gone: this way is one too many at WeCom.
    Stray,
}

impl ContactWays {
    /// Picks the way that is due next and writes down that it is asked for. Without an answer it is looked for when the
    /// lease is over.
    pub async fn ask_next(
        &self,
        corp: &CorpId,
        lease_ms: u64,
        now_ms: u64,
    ) -> Result<Option<Asked>, Error> {
        let row = retry(|| async {
            let mut work = self.db.single().await?;
            let query = work
                .query(
                    "WITH picked AS (
                        SELECT way FROM contact_ways WHERE corp_id = $1 AND state = 'wanted' AND next_try_at <= $2
                        ORDER BY place, way LIMIT 1 FOR UPDATE SKIP LOCKED)
                     UPDATE contact_ways AS w SET state = 'asked', asked_at = $2, tries = w.tries + 1,
                        next_try_at = $3, pauses_corp_until = NULL
                     FROM picked AS p WHERE w.corp_id = $1 AND w.way = p.way
                     RETURNING w.way, w.channel_id, w.member, w.kind, w.tries,
                        (SELECT m.userid FROM members AS m WHERE m.corp_id = w.corp_id AND m.member = w.member) AS userid",
                )
                .bind(corp.as_str())
                .bind(at(now_ms))
                .bind(at(now_ms.saturating_add(lease_ms)));
            let row = work.fetch_optional(query).await?;
            work.end().await?;
            Ok(row)
        })
        .await?;
        row.map(|row| {
            let (channel, member) = super::owner(&row)?;
            let userid: Option<String> = row.value("userid")?;
            Ok(Asked {
                way: row.value("way")?,
                userid: userid.unwrap_or_else(|| member.to_string()),
                channel,
                member,
                kind: row.parsed("kind")?,
                attempt: row.value("tries")?,
            })
        })
        .transpose()
    }

    /// It is at WeCom. Who was refused before is passed over until it can be shown; the corp is not.
    pub async fn made(
        &self,
        corp: &CorpId,
        way: &str,
        attempt: i32,
        config_id: &str,
        qr_code: Option<&str>,
        now_ms: u64,
    ) -> Result<Made, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "UPDATE contact_ways SET config_id = $4, qr_code = $5, next_try_at = $6, last_errcode = NULL,
                    last_error = NULL, passes_over = CASE WHEN passes_over IS NOT NULL THEN 'member' END
                 WHERE corp_id = $1 AND way = $2 AND tries = $3 AND state = 'asked' AND config_id IS NULL",
            )
            .bind(corp.as_str())
            .bind(way.to_owned())
            .bind(attempt)
            .bind(clean(config_id).into_owned())
            .bind(qr_code.map(|text| clean(text).into_owned()))
            .bind(at(now_ms));
        if work.execute(query).await? > 0 {
            work.end().await?;
            return Ok(Made::Kept);
        }
        let query = work
            .query("SELECT config_id FROM contact_ways WHERE corp_id = $1 AND way = $2")
            .bind(corp.as_str())
            .bind(way.to_owned());
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        let there: Option<String> = row.map(|row| row.value("config_id")).transpose()?.flatten();
        Ok(if there.as_deref() == Some(config_id) {
            Made::Known
        } else {
            Made::Stray
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
                    "WITH his AS (
                        UPDATE contact_ways SET state = CASE WHEN $4 THEN 'failed' ELSE 'wanted' END,
                            tries = tries - CASE WHEN $5 THEN 1 ELSE 0 END, next_try_at = $6,
                            pauses_corp_until = CASE WHEN $7 THEN $6::timestamptz END, last_errcode = $8, last_error = $9,
                            passes_over = coalesce($11, passes_over)
                        WHERE corp_id = $1 AND way = $2 AND tries = $3 AND state = 'asked' AND config_id IS NULL
                        RETURNING member)
                     UPDATE contact_ways AS w SET next_try_at = greatest(w.next_try_at, $6), last_errcode = $8,
                        last_error = $9, passes_over = coalesce($11, w.passes_over)
                     FROM his WHERE $10 AND w.corp_id = $1 AND w.member = his.member AND w.state = 'wanted'",
                )
                .bind(corp.as_str())
                .bind(way.to_owned())
                .bind(attempt)
                .bind(refusal.fails)
                .bind(refusal.uncounted)
                .bind(at(refusal.next_try_ms))
                .bind(refusal.pauses_corp)
                .bind(refusal.errcode)
                .bind(clean(&refusal.error).into_owned())
                .bind(refusal.pauses_member)
                .bind(refusal.passes_over.map(Refused::as_str));
            work.execute(query).await?;
            work.end().await
        })
        .await
    }

    /// Whether it is at WeCom is looked up then.
    pub async fn unanswered(
        &self,
        corp: &CorpId,
        way: &str,
        attempt: i32,
        error: &str,
        look_ms: u64,
    ) -> Result<(), Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "UPDATE contact_ways SET next_try_at = $4, last_error = $5
                 WHERE corp_id = $1 AND way = $2 AND tries = $3 AND state = 'asked' AND config_id IS NULL",
            )
            .bind(corp.as_str())
            .bind(way.to_owned())
            .bind(attempt)
            .bind(at(look_ms))
            .bind(clean(error).into_owned());
        work.execute(query).await?;
        work.end().await
    }

    /// Takes those without an answer that are due.
    pub async fn lost(
        &self,
        corp: &CorpId,
        limit: u32,
        lease_ms: u64,
        now_ms: u64,
    ) -> Result<Vec<Lost>, Error> {
        let rows = self
            .take(
                "WITH picked AS (
                    SELECT way FROM contact_ways
                    WHERE corp_id = $1 AND state = 'asked' AND config_id IS NULL AND next_try_at <= $2
                    ORDER BY next_try_at LIMIT $4 FOR UPDATE SKIP LOCKED)
                 UPDATE contact_ways AS w SET next_try_at = $3
                 FROM picked AS p WHERE w.corp_id = $1 AND w.way = p.way
                 RETURNING w.way, w.member, w.tries, w.asked_at",
                corp,
                limit,
                lease_ms,
                now_ms,
            )
            .await?;
        rows.iter()
            .map(|row| {
                Ok(Lost {
                    way: row.value("way")?,
                    member: row.parsed("member")?,
                    attempt: row.value("tries")?,
                    asked_ms: row.ms_option("asked_at")?.unwrap_or_default(),
                })
            })
            .collect()
    }

    /// Which of WeCom's ids our rows have.
    pub async fn known_configs(
        &self,
        corp: &CorpId,
        config_ids: &[String],
    ) -> Result<HashSet<String>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query("SELECT config_id FROM contact_ways WHERE corp_id = $1 AND config_id = ANY($2)")
            .bind(corp.as_str())
            .bind(config_ids.to_vec());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter().map(|row| row.value("config_id")).collect()
    }

    /// Takes those whose picture is due.
    pub async fn unpictured(
        &self,
        corp: &CorpId,
        limit: u32,
        lease_ms: u64,
        now_ms: u64,
    ) -> Result<Vec<Unpictured>, Error> {
        let rows = self
            .take(
                "WITH picked AS (
                    SELECT way FROM contact_ways
                    WHERE corp_id = $1 AND state = 'asked' AND config_id IS NOT NULL AND next_try_at <= $2
                    ORDER BY next_try_at LIMIT $4 FOR UPDATE SKIP LOCKED)
                 UPDATE contact_ways AS w SET next_try_at = $3, picture_tries = w.picture_tries + 1
                 FROM picked AS p WHERE w.corp_id = $1 AND w.way = p.way
                 RETURNING w.way, w.config_id, w.qr_code, w.picture_tries",
                corp,
                limit,
                lease_ms,
                now_ms,
            )
            .await?;
        rows.iter()
            .map(|row| {
                Ok(Unpictured {
                    way: row.value("way")?,
                    config_id: row.value("config_id")?,
                    qr_code: row.value("qr_code")?,
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
                "UPDATE contact_ways SET state = 'ready', qr_code = $3, picture = $4, picture_type = $5, next_try_at = NULL,
                    last_error = NULL, last_errcode = NULL, passes_over = NULL, roster_generation = 0, ready_at = $6,
                    changed_by = pg_current_xact_id()
                 WHERE corp_id = $1 AND way = $2 AND state = 'asked'",
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

    /// Its picture could not be had. `remade`: it is not at WeCom any more and must be asked for anew.
    pub async fn not_pictured(
        &self,
        corp: &CorpId,
        way: &str,
        refusal: &Refusal,
        remade: bool,
    ) -> Result<(), Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "UPDATE contact_ways SET next_try_at = $3, last_errcode = $4, last_error = $5,
                    state = CASE WHEN $7 THEN 'wanted' WHEN $6 THEN 'failed' ELSE state END,
                    config_id = CASE WHEN $7 THEN NULL ELSE config_id END,
                    qr_code = CASE WHEN $7 THEN NULL ELSE qr_code END, passes_over = coalesce($8, passes_over)
                 WHERE corp_id = $1 AND way = $2 AND state = 'asked' AND config_id IS NOT NULL",
            )
            .bind(corp.as_str())
            .bind(way.to_owned())
            .bind(at(refusal.next_try_ms))
            .bind(refusal.errcode)
            .bind(clean(&refusal.error).into_owned())
            .bind(refusal.fails)
            .bind(remade)
            .bind(refusal.passes_over.map(Refused::as_str));
        work.execute(query).await?;
        work.end().await
    }

    /// $1 corp, $2 now, $3 end of the lease, $4 how many.
    pub(super) async fn take(
        &self,
        sql: &'static str,
        corp: &CorpId,
        limit: u32,
        lease_ms: u64,
        now_ms: u64,
    ) -> Result<Vec<PgRow>, Error> {
        retry(|| async {
            let mut work = self.db.single().await?;
            let query = work
                .query(sql)
                .bind(corp.as_str())
                .bind(at(now_ms))
                .bind(at(now_ms.saturating_add(lease_ms)))
                .bind(signed(u64::from(limit)));
            let rows = work.fetch_all(query).await?;
            work.end().await?;
            Ok(rows)
        })
        .await
    }
}
