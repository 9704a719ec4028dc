//! Whoever stayed long enough counts; and what an inviter is rewarded for, once and for ever.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use allocation::{CampaignId, ChatId, CorpId, InviterId, PersonKey};
use serde_json::json;
use uuid::Uuid;

use super::{EVENT, Fission, GOAL_MESSAGE, Inviters, TAG, edges::EdgeState};
use crate::Error;
use crate::change::NewEffect;
use crate::connection::Work;
use crate::error::retry;
use crate::log_write::column;
use crate::outbox;
use crate::row::{Columns, signed};
use crate::text::clean_json;
use crate::times::at;

/// Nobody can say whether he stayed.
const UNREAD: &str = "unread";
/// A group that was read a shorter time ago is not read again only to see who stayed.
const READ_EVERY_MS: u64 = 60_000;
/// At least so long until an edge is looked at again.
const LOOK_EVERY_MS: u64 = 5_000;
/// Who could not be seen in a group for so long after he was to count is given up.
const UNREAD_MS: u64 = 24 * 60 * 60 * 1000;

/// An edge whose time is over, as far as the rows say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueEdge {
    pub campaign: CampaignId,
    pub inviter: InviterId,
    pub person: PersonKey,
    pub qualifies_ms: u64,
    /// The group of the campaign's pool that he is in and that was read last; None: he is in none.
    pub chat: Option<ChatId>,
    /// When that read was begun.
    pub read_ms: Option<u64>,
}

impl DueEdge {
    /// He is in the group by a read that was begun when his time was over.
    pub fn stayed(&self) -> bool {
        self.chat.is_some() && self.read_ms >= Some(self.qualifies_ms)
    }
}

/// What a look at edges came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Looked {
    pub qualified: u64,
    /// Given up.
    pub unread: u64,
    pub goals: u64,
    /// Something is to be done outside.
    pub effects: u64,
    /// Groups that are to be read, and when.
    pub read: BTreeMap<ChatId, u64>,
}

impl Inviters {
    /// The first edges whose time is over.
    pub async fn due_edges(
        &self,
        corp: &CorpId,
        now_ms: u64,
        limit: u32,
    ) -> Result<Vec<DueEdge>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT e.campaign_id, e.inviter_id, e.person, e.qualifies_at, s.chat_id, s.people_read_at
                 FROM edges AS e
                 JOIN campaigns AS c ON c.corp_id = e.corp_id AND c.campaign_id = e.campaign_id
                 LEFT JOIN LATERAL (
                    SELECT p.chat_id, g.people_read_at FROM group_people AS p
                    JOIN groups AS g ON g.corp_id = p.corp_id AND g.chat_id = p.chat_id
                    WHERE p.corp_id = e.corp_id AND p.person = e.person AND p.left_at IS NULL
                        AND g.group_pool_id = c.group_pool_id
                    ORDER BY g.people_read_at DESC NULLS LAST, p.chat_id LIMIT 1) AS s ON true
                 WHERE e.corp_id = $1 AND e.next_look_at <= $2 ORDER BY e.next_look_at LIMIT $3",
            )
            .bind(corp.as_str())
            .bind(at(now_ms))
            .bind(i64::from(limit));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let due = rows.iter().map(|row| {
            Ok(DueEdge {
                campaign: row.parsed("campaign_id")?,
                inviter: row.parsed("inviter_id")?,
                person: row.parsed("person")?,
                qualifies_ms: row.ms("qualifies_at")?,
                chat: row.parsed_option("chat_id")?,
                read_ms: row.ms_option("people_read_at")?,
            })
        });
        due.collect()
    }

    /// Makes those count who stayed, gives up those of whom nobody could say it for long, and puts off the others. `due` was
    /// read before the log's writer wrote all that Redis had logged by then, so that nobody counts whose leaving is not written
    /// yet. Edges of inviters on whom somebody else works are left as they are.
    pub async fn look(&self, corp: &CorpId, due: &[DueEdge], now_ms: u64) -> Result<Looked, Error> {
        retry(|| self.try_look(corp, due, now_ms)).await
    }

    async fn try_look(&self, corp: &CorpId, due: &[DueEdge], now_ms: u64) -> Result<Looked, Error> {
        let mut work = self.db.transaction().await?;
        let of: BTreeSet<(&CampaignId, &InviterId)> = due
            .iter()
            .map(|one| (&one.campaign, &one.inviter))
            .collect();
        let of: Vec<_> = of.into_iter().collect();
        let query = work
            .query(
                "SELECT i.campaign_id, i.inviter_id, i.qualified FROM inviters AS i
                 JOIN unnest($2::text[], $3::text[]) AS n (campaign_id, inviter_id)
                    ON i.campaign_id = n.campaign_id AND i.inviter_id = n.inviter_id
                 WHERE i.corp_id = $1 ORDER BY i.campaign_id, i.inviter_id FOR UPDATE OF i SKIP LOCKED",
            )
            .bind(corp.as_str())
            .bind(column(&of, |(campaign, _)| campaign.as_str().to_owned()))
            .bind(column(&of, |(_, inviter)| inviter.as_str().to_owned()));
        let mut counts: BTreeMap<(CampaignId, InviterId), u64> = BTreeMap::new();
        for row in &work.fetch_all(query).await? {
            let of = (row.parsed("campaign_id")?, row.parsed("inviter_id")?);
            counts.insert(of, row.number("qualified")?);
        }
        let ours =
            |one: &&DueEdge| counts.contains_key(&(one.campaign.clone(), one.inviter.clone()));
        let ours: Vec<&DueEdge> = due.iter().filter(ours).collect();
        let mut looked = Looked::default();
        let (stayed, others): (Vec<&DueEdge>, Vec<&DueEdge>) =
            ours.into_iter().partition(|one| one.stayed());
        let gave_up_ms = |one: &&DueEdge| one.qualifies_ms.saturating_add(UNREAD_MS) <= now_ms;
        let (given_up, waiting): (Vec<&DueEdge>, Vec<&DueEdge>) =
            others.into_iter().partition(gave_up_ms);
        let counted = qualify(&mut work, corp, &stayed, now_ms).await?;
        looked.qualified = counted.len() as u64;
        looked.unread = give_up(&mut work, corp, &given_up, now_ms).await?;
        put_off(&mut work, corp, &waiting, now_ms, &mut looked).await?;
        let mut peaks = Vec::new();
        for of in counted {
            if let Some(count) = counts.get_mut(&of) {
                *count += 1;
            }
            peaks.push(of);
        }
        peaks.sort();
        peaks.dedup();
        let peaks = peaks.into_iter().map(|of| Peak {
            qualified: counts.get(&of).copied().unwrap_or_default(),
            campaign: of.0,
            inviter: of.1,
            at_ms: now_ms,
        });
        let peaks: Vec<Peak> = peaks.collect();
        let rules = rules(&mut work, corp, &peaks).await?;
        (looked.goals, looked.effects) = reach(&mut work, corp, &rules, &peaks).await?;
        work.commit().await?;
        Ok(looked)
    }
}

/// Answers the inviter of each that counts now.
async fn qualify(
    work: &mut Work,
    corp: &CorpId,
    stayed: &[&DueEdge],
    now_ms: u64,
) -> Result<Vec<(CampaignId, InviterId)>, Error> {
    if stayed.is_empty() {
        return Ok(Vec::new());
    }
    // He may have left since.
    let query = work
        .query(
            "UPDATE edges AS e SET state = 'qualified', qualified_at = $2, changed_at = $2, next_look_at = NULL,
                chat_id = n.chat_id
             FROM unnest($3::text[], $4::text[], $5::text[]) AS n (campaign_id, person, chat_id)
             WHERE e.corp_id = $1 AND e.campaign_id = n.campaign_id AND e.person = n.person AND e.state = 'pending'
                AND e.qualifies_at <= $2 AND EXISTS (SELECT FROM group_people AS p WHERE p.corp_id = $1
                    AND p.chat_id = n.chat_id AND p.person = n.person AND p.left_at IS NULL)
             RETURNING e.campaign_id, e.inviter_id",
        )
        .bind(corp.as_str())
        .bind(at(now_ms))
        .bind(column(stayed, |one| one.campaign.as_str().to_owned()))
        .bind(column(stayed, |one| one.person.to_string()))
        .bind(column(stayed, |one| {
            one.chat.as_ref().map(|chat| chat.as_str().to_owned())
        }));
    let rows = work.fetch_all(query).await?;
    let of = rows
        .iter()
        .map(|row| Ok((row.parsed("campaign_id")?, row.parsed("inviter_id")?)));
    let of = of.collect::<Result<Vec<(CampaignId, InviterId)>, Error>>()?;
    recount(work, corp, &of, EdgeState::Qualified, now_ms).await?;
    Ok(of)
}

async fn give_up(
    work: &mut Work,
    corp: &CorpId,
    edges: &[&DueEdge],
    now_ms: u64,
) -> Result<u64, Error> {
    if edges.is_empty() {
        return Ok(0);
    }
    let query = work
        .query(
            "UPDATE edges AS e SET state = 'revoked', was = 'pending', reason = $5, changed_at = $2, next_look_at = NULL
             FROM unnest($3::text[], $4::text[]) AS n (campaign_id, person)
             WHERE e.corp_id = $1 AND e.campaign_id = n.campaign_id AND e.person = n.person AND e.state = 'pending'
                AND e.next_look_at <= $2
             RETURNING e.campaign_id, e.inviter_id",
        )
        .bind(corp.as_str())
        .bind(at(now_ms))
        .bind(column(edges, |one| one.campaign.as_str().to_owned()))
        .bind(column(edges, |one| one.person.to_string()))
        .bind(UNREAD);
    let rows = work.fetch_all(query).await?;
    let of = rows
        .iter()
        .map(|row| Ok((row.parsed("campaign_id")?, row.parsed("inviter_id")?)));
    let of = of.collect::<Result<Vec<(CampaignId, InviterId)>, Error>>()?;
    recount(work, corp, &of, EdgeState::Revoked, now_ms).await?;
    Ok(of.len() as u64)
}

/// Edges of these inviters, one for each time that he is named, are pending no more.
async fn recount(
    work: &mut Work,
    corp: &CorpId,
    of: &[(CampaignId, InviterId)],
    state: EdgeState,
    now_ms: u64,
) -> Result<(), Error> {
    let query = work
        .query(
            "UPDATE inviters AS i SET pending = i.pending - n.n,
                qualified = i.qualified + CASE WHEN $4 THEN n.n ELSE 0 END,
                revoked = i.revoked + CASE WHEN $4 THEN 0 ELSE n.n END,
                ranked_at = CASE WHEN $4 THEN $5 ELSE i.ranked_at END
             FROM (SELECT campaign_id, inviter_id, count(*) AS n
                FROM unnest($2::text[], $3::text[]) AS n (campaign_id, inviter_id) GROUP BY 1, 2) AS n
             WHERE i.corp_id = $1 AND i.campaign_id = n.campaign_id AND i.inviter_id = n.inviter_id",
        )
        .bind(corp.as_str())
        .bind(column(of, |(campaign, _)| campaign.as_str().to_owned()))
        .bind(column(of, |(_, inviter)| inviter.as_str().to_owned()))
        .bind(state == EdgeState::Qualified)
        .bind(at(now_ms));
    work.execute(query).await?;
    Ok(())
}

/// They are looked at again when their groups were read.
async fn put_off(
    work: &mut Work,
    corp: &CorpId,
    edges: &[&DueEdge],
    now_ms: u64,
    looked: &mut Looked,
) -> Result<(), Error> {
    if edges.is_empty() {
        return Ok(());
    }
    let soonest_ms = now_ms + LOOK_EVERY_MS;
    let again_ms = |one: &&DueEdge| {
        let read_ms = one
            .read_ms
            .unwrap_or_default()
            .saturating_add(READ_EVERY_MS);
        match one.chat {
            Some(_) => read_ms.max(now_ms),
            // Nobody knows where to look.
            None => now_ms.saturating_add(READ_EVERY_MS),
        }
    };
    for one in edges {
        if let Some(chat) = &one.chat {
            let first_ms = again_ms(one);
            let at_ms = looked.read.entry(chat.clone()).or_insert(first_ms);
            *at_ms = first_ms.min(*at_ms);
        }
    }
    let query = work
        .query(
            "UPDATE edges AS e SET next_look_at = n.at
             FROM unnest($2::text[], $3::text[], $4::timestamptz[]) AS n (campaign_id, person, at)
             WHERE e.corp_id = $1 AND e.campaign_id = n.campaign_id AND e.person = n.person AND e.state = 'pending'",
        )
        .bind(corp.as_str())
        .bind(column(edges, |one| one.campaign.as_str().to_owned()))
        .bind(column(edges, |one| one.person.to_string()))
        .bind(column(edges, |one| at(again_ms(one).max(soonest_ms))));
    work.execute(query).await?;
    Ok(())
}

async fn rules(
    work: &mut Work,
    corp: &CorpId,
    peaks: &[Peak],
) -> Result<HashMap<CampaignId, Fission>, Error> {
    if peaks.is_empty() {
        return Ok(HashMap::new());
    }
    let query = work
        .query("SELECT campaign_id, rules FROM campaigns WHERE corp_id = $1 AND campaign_id = ANY($2) AND deleted_at IS NULL")
        .bind(corp.as_str())
        .bind(column(peaks, |peak| peak.campaign.as_str().to_owned()));
    let mut rules = HashMap::new();
    for row in &work.fetch_all(query).await? {
        if let Some(fission) = Fission::read(row)? {
            rules.insert(row.parsed("campaign_id")?, fission);
        }
    }
    Ok(rules)
}

/// So many whom he brought count now, or did for a moment.
#[derive(Debug)]
pub(crate) struct Peak {
    pub(crate) campaign: CampaignId,
    pub(crate) inviter: InviterId,
    pub(crate) qualified: u64,
    pub(crate) at_ms: u64,
}

/// Writes down the goals that were reached, each once for ever, and asks for what is to be done then; answers how many of both.
pub(crate) async fn reach(
    work: &mut Work,
    corp: &CorpId,
    rules: &HashMap<CampaignId, Fission>,
    peaks: &[Peak],
) -> Result<(u64, u64), Error> {
    let reached = peaks.iter().flat_map(|peak| {
        let rules = rules.get(&peak.campaign);
        let goals = rules.map_or(&[][..], |rules| &rules.goals);
        let goals = goals.iter().filter(|goal| goal.count <= peak.qualified);
        goals.map(move |goal| (peak, goal))
    });
    let reached: Vec<_> = reached.collect();
    if reached.is_empty() {
        return Ok((0, 0));
    }
    let query = work
        .query(
            "INSERT INTO goals_reached (corp_id, campaign_id, inviter_id, count, name, reached_at)
             SELECT $1, * FROM unnest($2::text[], $3::text[], $4::bigint[], $5::text[], $6::timestamptz[])
             ON CONFLICT DO NOTHING RETURNING campaign_id, inviter_id, count",
        )
        .bind(corp.as_str())
        .bind(column(&reached, |(peak, _)| peak.campaign.as_str().to_owned()))
        .bind(column(&reached, |(peak, _)| peak.inviter.as_str().to_owned()))
        .bind(column(&reached, |(_, goal)| signed(goal.count)))
        .bind(column(&reached, |(_, goal)| goal.name.clone()))
        .bind(column(&reached, |(peak, _)| at(peak.at_ms)));
    let rows = work.fetch_all(query).await?;
    let new = rows.iter().map(|row| {
        let of = (row.parsed("campaign_id")?, row.parsed("inviter_id")?);
        Ok((of, row.number("count")?))
    });
    let new = new.collect::<Result<BTreeSet<((CampaignId, InviterId), u64)>, Error>>()?;
    let (mut effects, mut events) = (Vec::new(), Vec::new());
    for (peak, goal) in reached {
        let of = (peak.campaign.clone(), peak.inviter.clone());
        if !new.contains(&(of, goal.count)) {
            continue;
        }
        let key = format!("goal:{}:{}:{}", peak.campaign, peak.inviter, goal.count);
        let effect = |kind: &str, payload| NewEffect {
            kind: kind.to_owned(),
            key: key.clone(),
            payload,
            erase_payload: false,
            allocation: None,
            epoch: None,
            transfer: None,
            priority: 92,
            due_ms: peak.at_ms,
            deadline_ms: None,
        };
        let about = json!({"campaign": peak.campaign, "inviter": peak.inviter, "goal": goal.name});
        let with = |kind: &str, name: &str, value: &str| {
            let mut payload = about.clone();
            payload["kind"] = kind.into();
            payload[name] = value.into();
            payload
        };
        if let Some(message) = &goal.message {
            effects.push(effect(GOAL_MESSAGE, with(GOAL_MESSAGE, "text", message)));
        }
        if let Some(tag) = &goal.tag {
            effects.push(effect(TAG, with(TAG, "tag", tag)));
        }
        if goal.event {
            let id = Uuid::now_v7();
            let body = json!({
                "campaign_id": peak.campaign, "inviter_id": peak.inviter, "count": goal.count,
                "goal": goal.name, "qualified": peak.qualified,
            });
            events.push((id, clean_json(&body), peak.at_ms));
            effects.push(effect(EVENT, json!({"kind": EVENT, "id": id})));
        }
    }
    let query = work
        .query(
            "INSERT INTO outgoing_events (corp_id, id, kind, body, at)
             SELECT $1, n.id, 'goal.reached', n.body, n.at
             FROM unnest($2::uuid[], $3::jsonb[], $4::timestamptz[]) AS n (id, body, at)",
        )
        .bind(corp.as_str())
        .bind(column(&events, |(id, ..)| *id))
        .bind(column(&events, |(_, body, _)| body.clone()))
        .bind(column(&events, |(.., at_ms)| at(*at_ms)));
    if !events.is_empty() {
        work.execute(query).await?;
    }
    ask(work, corp, &effects).await?;
    Ok((new.len() as u64, effects.len() as u64))
}

/// Rows of the outbox; what was asked for before stays as it is.
pub(crate) async fn ask(work: &mut Work, corp: &CorpId, rows: &[NewEffect]) -> Result<(), Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut rows: Vec<&NewEffect> = rows.iter().collect();
    rows.sort_by(|one, two| (&one.kind, &one.key).cmp(&(&two.kind, &two.key)));
    let none = || column(&rows, |_| None::<Uuid>);
    let query = work
        .query(outbox::INSERT)
        .bind(corp.as_str())
        .bind(column(&rows, |_| Uuid::now_v7()))
        .bind(column(&rows, |row| row.kind.clone()))
        .bind(column(&rows, |row| row.key.clone()))
        .bind(none())
        .bind(column(&rows, |_| None::<i64>))
        .bind(none())
        .bind(column(&rows, |row| clean_json(&row.payload)))
        .bind(column(&rows, |row| row.erase_payload))
        .bind(column(&rows, |row| row.priority))
        .bind(column(&rows, |row| at(row.due_ms)))
        .bind(column(&rows, |_| None::<time::OffsetDateTime>))
        .bind(column(&rows, |row| at(row.due_ms)))
        .bind(column(&rows, |_| false));
    work.execute(query).await?;
    Ok(())
}
