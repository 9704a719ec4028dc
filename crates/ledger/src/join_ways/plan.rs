//! What should be there against what is there: missing ways are written down as wanted, superfluous ones retire, those whose
//! groups change are changed.

use std::collections::BTreeMap;

use allocation::{CampaignId, ChatId, CorpId, GroupPoolId};
use sqlx::postgres::PgRow;

use super::arrange::{Arranged, Row, Wish, arrange};
use super::{JoinWays, campaign_via, chats, inviters, texts};
use crate::Error;
use crate::connection::Work;
use crate::contact_ways::PlanLimits;
use crate::error::retry;
use crate::groups::GroupState;
use crate::row::Columns;
use crate::text::random;
use crate::times::at;

/// Among the locks of this database; with the corp's hash. The number means nothing.
const LOCK: i64 = 7_023_363;
/// One that is about to be deleted is left to it.
pub(super) const ABOUT_TO_GO_MS: u64 = 60_000;

/// What a plan did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlannedJoinWays {
    pub wanted: u64,
    /// Resting ones that are shown again.
    pub revived: u64,
    pub changed: u64,
    pub retired: u64,
    /// They were not asked for yet.
    pub dropped: u64,
    /// No room under the limit of the corp.
    pub refused: u64,
    /// Another plan is needed at once.
    pub more: bool,
    /// Somebody else plans for this corp now.
    pub busy: bool,
}

/// A campaign that has ways.
struct Campaign {
    id: CampaignId,
    pool: GroupPoolId,
    public_code: String,
    per_way: usize,
    /// It gives seats, or will; else its ways retire.
    wants: bool,
}

impl JoinWays {
    /// Compares campaigns and groups with the rows. One at a time for a corp; a paused corp gets no new rows.
    pub async fn plan(
        &self,
        corp: &CorpId,
        limits: PlanLimits,
        now_ms: u64,
    ) -> Result<PlannedJoinWays, Error> {
        retry(|| self.try_plan(corp, limits, now_ms)).await
    }

    async fn try_plan(
        &self,
        corp: &CorpId,
        limits: PlanLimits,
        now_ms: u64,
    ) -> Result<PlannedJoinWays, Error> {
        let mut work = self.db.transaction().await?;
        if !lock(&mut work, corp).await? {
            work.roll_back().await?;
            return Ok(PlannedJoinWays {
                busy: true,
                ..PlannedJoinWays::default()
            });
        }
        try_again(&mut work, corp, now_ms).await?;
        let room = room(&mut work, corp, limits, now_ms).await?;
        let is_paused = room.is_none();
        let (mut room, mut batch) = (room.unwrap_or_default(), limits.batch);
        let mut planned = PlannedJoinWays::default();
        inviters::retire_ended(&mut work, corp, limits, now_ms, &mut planned).await?;
        for campaign in campaigns(&mut work, corp, now_ms).await? {
            let wishes = match campaign.wants {
                true => wishes(&mut work, corp, &campaign).await?,
                false => BTreeMap::new(),
            };
            let (live, resting) = rows(&mut work, corp, &campaign.id, now_ms).await?;
            let mut arranged = arrange(&wishes, campaign.per_way, live, resting);
            let lacking = arranged.add.len();
            arranged.add.truncate(room.min(batch));
            let added = arranged.add.len();
            if !is_paused {
                planned.refused += lacking.saturating_sub(room) as u64;
                planned.more |= added < lacking.min(room);
            }
            room -= added;
            batch -= added;
            write(
                &mut work,
                corp,
                &campaign,
                arranged,
                limits,
                now_ms,
                &mut planned,
            )
            .await?;
        }
        work.commit().await?;
        Ok(planned)
    }
}

/// One plans for a corp at a time, until its transaction ends. False: somebody else does.
pub(super) async fn lock(work: &mut Work, corp: &CorpId) -> Result<bool, Error> {
    let query = work
        .query("SELECT pg_try_advisory_xact_lock(hashtextextended($1, $2)) AS mine")
        .bind(corp.as_str())
        .bind(LOCK);
    work.fetch_one(query).await?.value("mine")
}

/// What was given up long ago. One whose answers got lost is given up again with the next that does.
async fn try_again(work: &mut Work, corp: &CorpId, now_ms: u64) -> Result<(), Error> {
    let query = work
        .query(
            "UPDATE join_ways SET state = CASE WHEN config_id IS NULL THEN 'wanted' ELSE 'asked' END,
                tries = 0, picture_tries = 0, next_try_at = $2
             WHERE corp_id = $1 AND state = 'failed' AND next_try_at <= $2",
        )
        .bind(corp.as_str())
        .bind(at(now_ms));
    work.execute(query).await?;
    Ok(())
}

/// How many more the corp may have; None while it is paused.
pub(super) async fn room(
    work: &mut Work,
    corp: &CorpId,
    limits: PlanLimits,
    now_ms: u64,
) -> Result<Option<usize>, Error> {
    let query = work
        .query(
            "SELECT (SELECT count(*) FROM contact_ways WHERE corp_id = $1 AND state <> 'gone')
                    + (SELECT count(*) FROM join_ways WHERE corp_id = $1 AND state <> 'gone') AS ways,
                EXISTS (SELECT FROM join_ways WHERE corp_id = $1 AND pauses_corp_until > $2) AS paused",
        )
        .bind(corp.as_str())
        .bind(at(now_ms));
    let row = work.fetch_one(query).await?;
    if row.value("paused")? {
        return Ok(None);
    }
    let room = limits.ways.saturating_sub(row.number("ways")?);
    Ok(Some(usize::try_from(room).unwrap_or(usize::MAX)))
}

/// Those that give seats or will, and those that have ways from before.
async fn campaigns(work: &mut Work, corp: &CorpId, now_ms: u64) -> Result<Vec<Campaign>, Error> {
    let query = work
        .query(
            "SELECT * FROM (
                SELECT c.campaign_id, c.group_pool_id, c.public_code, c.groups_per_way,
                    c.deleted_at IS NULL AND c.state = 'open' AND (c.ends_at IS NULL OR c.ends_at > $2)
                        AND p.deleted_at IS NULL AS wants
                FROM campaigns AS c JOIN group_pools AS p USING (corp_id, group_pool_id)
                WHERE c.corp_id = $1) AS c
             WHERE wants OR EXISTS (SELECT FROM join_ways AS w WHERE w.corp_id = $1 AND w.campaign_id = c.campaign_id
                AND w.state IN ('wanted', 'asked', 'ready', 'failed'))
             ORDER BY campaign_id",
        )
        .bind(corp.as_str())
        .bind(at(now_ms));
    let rows = work.fetch_all(query).await?;
    rows.iter()
        .map(|row| {
            Ok(Campaign {
                id: row.parsed("campaign_id")?,
                pool: row.parsed("group_pool_id")?,
                public_code: row.value("public_code")?,
                per_way: row.small("groups_per_way")?.max(1) as usize,
                wants: row.value("wants")?,
            })
        })
        .collect()
}

/// What the groups of the pool need.
async fn wishes(
    work: &mut Work,
    corp: &CorpId,
    campaign: &Campaign,
) -> Result<BTreeMap<ChatId, Wish>, Error> {
    let query = work
        .query(
            "SELECT g.chat_id, g.state, coalesce(g.member_count >= coalesce(g.scan_cap, p.scan_cap), false) AS is_full
             FROM groups AS g JOIN group_pools AS p USING (corp_id, group_pool_id)
             WHERE g.corp_id = $1 AND g.group_pool_id = $2 AND g.deleted_at IS NULL AND g.state <> 'dismissed'
             ORDER BY g.rank, g.chat_id COLLATE \"C\"",
        )
        .bind(corp.as_str())
        .bind(campaign.pool.as_str().to_owned());
    let rows = work.fetch_all(query).await?;
    let wish = |(place, row): (usize, &PgRow)| {
        let state: GroupState = row.parsed("state")?;
        let (is_open, is_spare) = (state == GroupState::Open, state == GroupState::Spare);
        let is_full: bool = row.value("is_full")?;
        // Where a way has several groups WeCom chooses, and must not choose one that is not to be filled. One in stock gets
        // its own ahead of the time when it is opened.
        let is_alone = campaign.per_way == 1;
        let wish = Wish {
            place,
            keeps: is_open || is_alone,
            needs: !is_full && (is_open || is_spare && is_alone),
        };
        Ok((row.parsed("chat_id")?, wish))
    };
    rows.iter().enumerate().map(wish).collect()
}

/// Those that live, and those that rest and can be shown again.
async fn rows(
    work: &mut Work,
    corp: &CorpId,
    campaign: &CampaignId,
    now_ms: u64,
) -> Result<(Vec<Row>, Vec<Row>), Error> {
    let query = work
        .query(
            "SELECT way, chats, state = 'retiring' AS rests FROM join_ways
             WHERE corp_id = $1 AND campaign_id = $2 AND inviter_id IS NULL
                AND (state IN ('wanted', 'asked', 'ready', 'failed')
                    OR state = 'retiring' AND picture IS NOT NULL AND next_try_at > $3)
             ORDER BY created_at, way",
        )
        .bind(corp.as_str())
        .bind(campaign.as_str().to_owned())
        .bind(at(now_ms.saturating_add(ABOUT_TO_GO_MS)));
    let (mut live, mut resting) = (Vec::new(), Vec::new());
    for row in work.fetch_all(query).await? {
        let one = (row.value("way")?, chats(&row, "chats")?);
        match row.value("rests")? {
            true => resting.push(one),
            false => live.push(one),
        }
    }
    Ok((live, resting))
}

async fn write(
    work: &mut Work,
    corp: &CorpId,
    campaign: &Campaign,
    arranged: Arranged,
    limits: PlanLimits,
    now_ms: u64,
    planned: &mut PlannedJoinWays,
) -> Result<(), Error> {
    if !arranged.retire.is_empty() {
        retire(work, corp, arranged.retire, limits, now_ms, planned).await?;
    }
    planned.revived += arranged.revive.len() as u64;
    planned.changed += arranged.change.len() as u64;
    for (way, chats) in arranged.revive.iter().chain(&arranged.change) {
        // What is on its way is changed when it is there.
        let query = work
            .query(
                "UPDATE join_ways SET chats = $3, changed_by = pg_current_xact_id(),
                    state = CASE WHEN state = 'retiring' THEN 'ready' ELSE state END,
                    next_try_at = CASE WHEN state NOT IN ('ready', 'retiring') THEN next_try_at
                        WHEN told_chats = $3 AND told_rooms = (rooms_for IS NOT NULL) THEN NULL ELSE $4 END,
                    tries = CASE WHEN state IN ('ready', 'retiring') THEN 0 ELSE tries END
                 WHERE corp_id = $1 AND way = $2",
            )
            .bind(corp.as_str())
            .bind(way.clone())
            .bind(texts(chats))
            .bind(at(now_ms));
        work.execute(query).await?;
    }
    let Some(via) = campaign_via(&campaign.public_code) else {
        return Ok(());
    };
    for chats in &arranged.add {
        let query = work
            .query(
                "INSERT INTO join_ways (corp_id, way, campaign_id, via, chats, state, next_try_at, created_at)
                 VALUES ($1, $2, $3, $4, $5, 'wanted', $6, $6)",
            )
            .bind(corp.as_str())
            .bind(format!("pj.{}", random(20)))
            .bind(campaign.id.as_str().to_owned())
            .bind(via.to_string())
            .bind(texts(chats))
            .bind(at(now_ms));
        planned.wanted += work.execute(query).await?;
    }
    Ok(())
}

/// What was not asked for goes at once, and so does what WeCom may open rooms for; what is being asked for is looked at when its
/// answer is there.
pub(super) async fn retire(
    work: &mut Work,
    corp: &CorpId,
    ways: Vec<String>,
    limits: PlanLimits,
    now_ms: u64,
    planned: &mut PlannedJoinWays,
) -> Result<(), Error> {
    let query = work
        .query(
            "WITH dropped AS (
                DELETE FROM join_ways WHERE corp_id = $1 AND way = ANY($2) AND config_id IS NULL
                    AND state IN ('wanted', 'failed')
                RETURNING way),
             retired AS (
                UPDATE join_ways SET state = 'retiring', changed_by = pg_current_xact_id(), tries = 0,
                    next_try_at = CASE WHEN state = 'ready' AND NOT told_rooms THEN $4::timestamptz ELSE $3 END
                WHERE corp_id = $1 AND way = ANY($2) AND config_id IS NOT NULL
                    AND state IN ('asked', 'ready', 'failed')
                RETURNING way)
             SELECT (SELECT count(*) FROM dropped) AS dropped, (SELECT count(*) FROM retired) AS retired",
        )
        .bind(corp.as_str())
        .bind(ways)
        .bind(at(now_ms))
        .bind(at(now_ms.saturating_add(limits.rest_ms)));
    let row = work.fetch_one(query).await?;
    planned.dropped += row.number("dropped")?;
    planned.retired += row.number("retired")?;
    Ok(())
}
