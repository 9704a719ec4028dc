//! Ways of inviters: each leads into one group and has its inviter's State. One is asked for when somebody is to be shown that
//! group for him, as most groups of a campaign are never shown by most of its inviters.

use std::collections::BTreeMap;

use allocation::{CampaignId, ChatId, CorpId, InviterId, Via};
use sqlx::postgres::PgRow;

use super::plan::{ABOUT_TO_GO_MS, PlannedJoinWays, lock, retire, room};
use super::{JoinWays, texts};
use crate::Error;
use crate::connection::Work;
use crate::contact_ways::PlanLimits;
use crate::error::retry;
use crate::fission::inviter_via;
use crate::log_write::column;
use crate::row::{Columns, signed};
use crate::text::random;
use crate::times::at;

/// That a group be shown by an inviter's own way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InviterWish {
    pub campaign: CampaignId,
    pub inviter: InviterId,
    /// None: the first open group of the campaign's pool that has room.
    pub chat: Option<ChatId>,
}

/// How many there may be.
#[derive(Debug, Clone, Copy)]
pub struct InviterWayLimits {
    /// Of one inviter in one campaign, those that rest not counted.
    pub of_inviter: u64,
    /// Of all inviters of the corp, those that rest counted.
    pub of_corp: u64,
    /// Of all ways of the corp.
    pub plan: PlanLimits,
}

/// A wish that can be granted.
struct Granted {
    campaign: CampaignId,
    inviter: InviterId,
    via: Option<Via>,
    chat: ChatId,
    /// Those that he has.
    ways: u64,
}

impl JoinWays {
    /// Writes ways down that are wished for; what is there already, or whose inviter or group is not to have any, is left out. Where
    /// an inviter has as many as he may, those into groups that are full make room.
    pub async fn wish(
        &self,
        corp: &CorpId,
        wishes: &[InviterWish],
        limits: InviterWayLimits,
        now_ms: u64,
    ) -> Result<PlannedJoinWays, Error> {
        retry(|| self.try_wish(corp, wishes, limits, now_ms)).await
    }

    async fn try_wish(
        &self,
        corp: &CorpId,
        wishes: &[InviterWish],
        limits: InviterWayLimits,
        now_ms: u64,
    ) -> Result<PlannedJoinWays, Error> {
        let mut work = self.db.transaction().await?;
        let mut planned = PlannedJoinWays::default();
        if !lock(&mut work, corp).await? {
            work.roll_back().await?;
            planned.busy = true;
            return Ok(planned);
        }
        let granted = granted(&mut work, corp, wishes, now_ms).await?;
        // While the corp is paused nothing is asked for; whoever comes later wishes it again.
        let Some(of_all) = room(&mut work, corp, limits.plan, now_ms).await? else {
            work.roll_back().await?;
            return Ok(planned);
        };
        let of_inviters = limits
            .of_corp
            .saturating_sub(n_ways(&mut work, corp).await?);
        let mut left = (of_all as u64).min(of_inviters);
        let mut of: BTreeMap<(CampaignId, InviterId), u64> = BTreeMap::new();
        for one in granted {
            let has = of.entry((one.campaign.clone(), one.inviter.clone()));
            let has = has.or_insert(one.ways);
            if *has >= limits.of_inviter {
                let before = planned.retired + planned.dropped;
                let full = full(&mut work, corp, &one).await?;
                retire(&mut work, corp, full, limits.plan, now_ms, &mut planned).await?;
                *has = has.saturating_sub(planned.retired + planned.dropped - before);
            }
            if *has >= limits.of_inviter {
                planned.refused += 1;
                continue;
            }
            if revive(&mut work, corp, &one, now_ms).await? {
                planned.revived += 1;
                *has += 1;
                continue;
            }
            if left == 0 {
                planned.refused += 1;
                continue;
            }
            let n = insert(&mut work, corp, &one, now_ms).await?;
            planned.wanted += n;
            left -= n;
            *has += n;
        }
        work.commit().await?;
        Ok(planned)
    }
}

/// The group of each wish that is open, has room and is not shown by a way of that inviter.
async fn granted(
    work: &mut Work,
    corp: &CorpId,
    wishes: &[InviterWish],
    now_ms: u64,
) -> Result<Vec<Granted>, Error> {
    let query = work
        .query(
            "WITH wished AS (
                SELECT DISTINCT n.campaign_id, n.inviter_id, g.chat_id
                FROM unnest($2::text[], $3::text[], $4::text[]) AS n (campaign_id, inviter_id, chat_id)
                    JOIN campaigns AS c ON c.corp_id = $1 AND c.campaign_id = n.campaign_id
                    JOIN group_pools AS p ON p.corp_id = $1 AND p.group_pool_id = c.group_pool_id
                    CROSS JOIN LATERAL (
                        SELECT g.chat_id FROM groups AS g
                        WHERE g.corp_id = $1 AND g.group_pool_id = c.group_pool_id AND g.deleted_at IS NULL
                            AND g.state = 'open' AND (n.chat_id IS NULL OR g.chat_id = n.chat_id)
                            AND NOT coalesce(g.member_count >= coalesce(g.scan_cap, p.scan_cap)
                                - coalesce(g.buffer, p.buffer), false)
                        ORDER BY g.rank, g.chat_id COLLATE \"C\" LIMIT 1) AS g
                WHERE c.ways = 'inviter' AND c.deleted_at IS NULL AND c.state = 'open'
                    AND (c.ends_at IS NULL OR c.ends_at > $5) AND p.deleted_at IS NULL)
             SELECT n.campaign_id, n.inviter_id, n.chat_id, i.public_code,
                (SELECT count(*) FROM join_ways AS w WHERE w.corp_id = $1 AND w.campaign_id = n.campaign_id
                    AND w.inviter_id = n.inviter_id AND w.state IN ('wanted', 'asked', 'ready', 'failed')) AS ways
             FROM wished AS n
                JOIN inviters AS i ON i.corp_id = $1 AND i.campaign_id = n.campaign_id AND i.inviter_id = n.inviter_id
             WHERE i.blocked_at IS NULL AND NOT EXISTS (
                SELECT FROM join_ways AS w WHERE w.corp_id = $1 AND w.campaign_id = n.campaign_id
                    AND w.inviter_id = n.inviter_id AND w.chats[1] = n.chat_id
                    AND w.state IN ('wanted', 'asked', 'ready', 'failed'))
             ORDER BY n.campaign_id, n.inviter_id, n.chat_id",
        )
        .bind(corp.as_str())
        .bind(column(wishes, |wish| wish.campaign.as_str().to_owned()))
        .bind(column(wishes, |wish| wish.inviter.as_str().to_owned()))
        .bind(column(wishes, |wish| {
            wish.chat.as_ref().map(|chat| chat.as_str().to_owned())
        }))
        .bind(at(now_ms));
    let granted = |row: &PgRow| {
        Ok(Granted {
            campaign: row.parsed("campaign_id")?,
            inviter: row.parsed("inviter_id")?,
            via: inviter_via(row.value("public_code")?),
            chat: row.parsed("chat_id")?,
            ways: row.number("ways")?,
        })
    };
    work.fetch_all(query).await?.iter().map(granted).collect()
}

async fn n_ways(work: &mut Work, corp: &CorpId) -> Result<u64, Error> {
    let query = work
        .query(
            "SELECT count(*) AS n FROM join_ways WHERE corp_id = $1 AND inviter_id IS NOT NULL AND state <> 'gone'",
        )
        .bind(corp.as_str());
    work.fetch_one(query).await?.number("n")
}

/// One that rests is shown again. False: there is none.
async fn revive(work: &mut Work, corp: &CorpId, one: &Granted, now_ms: u64) -> Result<bool, Error> {
    let query = work
        .query(
            "UPDATE join_ways SET state = 'ready', next_try_at = NULL, tries = 0, changed_by = pg_current_xact_id()
             WHERE corp_id = $1 AND way = (
                SELECT way FROM join_ways
                WHERE corp_id = $1 AND campaign_id = $2 AND inviter_id = $3 AND chats[1] = $4 AND told_chats = chats
                    AND state = 'retiring' AND picture IS NOT NULL AND next_try_at > $5
                ORDER BY created_at, way LIMIT 1)",
        )
        .bind(corp.as_str())
        .bind(one.campaign.as_str().to_owned())
        .bind(one.inviter.as_str().to_owned())
        .bind(one.chat.as_str().to_owned())
        .bind(at(now_ms.saturating_add(ABOUT_TO_GO_MS)));
    Ok(work.execute(query).await? > 0)
}

/// His ways into groups that nobody is shown any more.
async fn full(work: &mut Work, corp: &CorpId, one: &Granted) -> Result<Vec<String>, Error> {
    let query = work
        .query(
            "SELECT w.way FROM join_ways AS w
                JOIN groups AS g ON g.corp_id = w.corp_id AND g.chat_id = w.chats[1]
                JOIN group_pools AS p ON p.corp_id = g.corp_id AND p.group_pool_id = g.group_pool_id
             WHERE w.corp_id = $1 AND w.campaign_id = $2 AND w.inviter_id = $3
                AND w.state IN ('wanted', 'asked', 'ready', 'failed')
                AND g.member_count >= coalesce(g.scan_cap, p.scan_cap)
                    - coalesce(g.buffer, p.buffer)",
        )
        .bind(corp.as_str())
        .bind(one.campaign.as_str().to_owned())
        .bind(one.inviter.as_str().to_owned());
    let rows = work.fetch_all(query).await?;
    rows.iter().map(|row| row.value("way")).collect()
}

async fn insert(work: &mut Work, corp: &CorpId, one: &Granted, now_ms: u64) -> Result<u64, Error> {
    let Some(via) = &one.via else {
        return Ok(0);
    };
    let query = work
        .query(
            "INSERT INTO join_ways (corp_id, way, campaign_id, inviter_id, via, chats, state, next_try_at, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, 'wanted', $7, $7) ON CONFLICT DO NOTHING",
        )
        .bind(corp.as_str())
        .bind(format!("pj.{}", random(20)))
        .bind(one.campaign.as_str().to_owned())
        .bind(one.inviter.as_str().to_owned())
        .bind(via.to_string())
        .bind(texts(std::slice::from_ref(&one.chat)))
        .bind(at(now_ms));
    work.execute(query).await
}

/// Retires those whose inviter, campaign or group is to have none any more.
pub(super) async fn retire_ended(
    work: &mut Work,
    corp: &CorpId,
    limits: PlanLimits,
    now_ms: u64,
    planned: &mut PlannedJoinWays,
) -> Result<(), Error> {
    let query = work
        .query(
            "SELECT w.way FROM join_ways AS w
                JOIN campaigns AS c ON c.corp_id = w.corp_id AND c.campaign_id = w.campaign_id
                JOIN group_pools AS p ON p.corp_id = c.corp_id AND p.group_pool_id = c.group_pool_id
                LEFT JOIN inviters AS i ON i.corp_id = w.corp_id AND i.campaign_id = w.campaign_id
                    AND i.inviter_id = w.inviter_id
                LEFT JOIN groups AS g ON g.corp_id = w.corp_id AND g.chat_id = w.chats[1]
                    AND g.group_pool_id = c.group_pool_id AND g.deleted_at IS NULL AND g.state = 'open'
             WHERE w.corp_id = $1 AND w.inviter_id IS NOT NULL AND w.state IN ('wanted', 'asked', 'ready', 'failed')
                AND (c.ways <> 'inviter' OR c.deleted_at IS NOT NULL OR c.state <> 'open' OR c.ends_at <= $2
                    OR p.deleted_at IS NOT NULL OR i.inviter_id IS NULL OR i.blocked_at IS NOT NULL OR g.chat_id IS NULL)
             LIMIT $3",
        )
        .bind(corp.as_str())
        .bind(at(now_ms))
        .bind(signed(limits.batch as u64));
    let rows = work.fetch_all(query).await?;
    let ways: Vec<String> = rows
        .iter()
        .map(|row| row.value("way"))
        .collect::<Result<_, Error>>()?;
    planned.more |= ways.len() >= limits.batch;
    if !ways.is_empty() {
        retire(work, corp, ways, limits, now_ms, planned).await?;
    }
    Ok(())
}
