//! Writes what the steps made of edges and counts, and asks for what that leads to.

use std::collections::HashMap;

use allocation::{CampaignId, CorpId, PersonKey};
use serde_json::json;
use uuid::Uuid;

use super::book::{Book, Edge, Inviter, OfInviter, OfPerson};
use super::{EdgesWritten, FoldedEdges, What};
use crate::Error;
use crate::change::NewEffect;
use crate::connection::Work;
use crate::fission::{EdgeState, Fission, Peak, TAG, ask, reach};
use crate::log_write::column;
use crate::log_write::rows::CHUNK;
use crate::row::{Columns, signed, small};
use crate::times::{at, at_option};

/// Tags for those who came by seats of campaigns that want it.
pub(super) async fn tags(
    work: &mut Work,
    corp: &CorpId,
    folded: &FoldedEdges<'_>,
) -> Result<u64, Error> {
    let came = folded.steps.iter().filter_map(|step| match &step.what {
        What::Came {
            seat: Some(seat),
            who: Some(who),
            ..
        } => Some((
            seat.0,
            (step.person, step.at_ms, who.external_id.as_deref()?),
        )),
        _ => None,
    });
    let came: HashMap<Uuid, (PersonKey, u64, &str)> = came.collect();
    if came.is_empty() {
        return Ok(0);
    }
    let query = work
        .query(
            "SELECT s.seat_id, s.campaign_id, c.rules->>'tag_on_join' AS tag FROM seats AS s
             JOIN campaigns AS c ON c.corp_id = s.corp_id AND c.campaign_id = s.campaign_id AND c.deleted_at IS NULL
             WHERE s.corp_id = $1 AND s.seat_id = ANY($2) AND c.rules->>'tag_on_join' IS NOT NULL
             ORDER BY s.seat_id",
        )
        .bind(corp.as_str())
        .bind(came.keys().copied().collect::<Vec<_>>());
    let mut effects = Vec::new();
    for row in &work.fetch_all(query).await? {
        let seat: Uuid = row.value("seat_id")?;
        let Some((person, at_ms, external_id)) = came.get(&seat) else {
            continue;
        };
        let (campaign, tag): (CampaignId, String) = (row.parsed("campaign_id")?, row.value("tag")?);
        effects.push(NewEffect {
            kind: TAG.to_owned(),
            key: format!("join_tag:{campaign}:{person}"),
            payload: json!({"kind": TAG, "external_id": external_id, "tag": tag}),
            erase_payload: true,
            allocation: None,
            epoch: None,
            transfer: None,
            priority: 95,
            due_ms: *at_ms,
            deadline_ms: None,
        });
    }
    ask(work, corp, &effects).await?;
    Ok(effects.len() as u64)
}

pub(super) async fn save(
    work: &mut Work,
    corp: &CorpId,
    book: Book,
) -> Result<EdgesWritten, Error> {
    let edges = book.edges.iter().filter(|(_, edge)| edge.is_changed);
    for chunk in edges.collect::<Vec<_>>().chunks(CHUNK) {
        self::edges(work, corp, chunk).await?;
    }
    let inviters = book.inviters.iter().filter(|(_, one)| one.is_changed);
    let inviters: Vec<_> = inviters.collect();
    for chunk in inviters.chunks(CHUNK) {
        self::inviters(work, corp, chunk).await?;
    }
    learned(work, corp, &inviters).await?;
    let peaks = inviters.iter().filter_map(|((campaign, inviter), one)| {
        let (qualified, at_ms) = one.peak?;
        Some(Peak {
            campaign: campaign.clone(),
            inviter: inviter.clone(),
            qualified,
            at_ms,
        })
    });
    let peaks: Vec<Peak> = peaks.collect();
    let rules = book.campaigns.into_iter();
    let rules = rules.filter_map(|(id, one)| Some((id, one.fission?)));
    let rules: HashMap<CampaignId, Fission> = rules.collect();
    let (goals, effects) = reach(work, corp, &rules, &peaks).await?;
    Ok(EdgesWritten {
        goals,
        effects,
        ..book.written
    })
}

async fn edges(work: &mut Work, corp: &CorpId, rows: &[(&OfPerson, &Edge)]) -> Result<(), Error> {
    let query = work
        .query(
            "INSERT INTO edges AS e (corp_id, campaign_id, person, inviter_id, subject, seat_id, chat_id, state, reason, was,
                joined_at, qualifies_at, qualified_at, changed_at, rejoins, next_look_at)
             SELECT $1, n.*, CASE WHEN n.state = 'pending' THEN n.qualifies_at END
             FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::uuid[], $7::text[], $8::text[], $9::text[],
                $10::text[], $11::timestamptz[], $12::timestamptz[], $13::timestamptz[], $14::timestamptz[],
                $15::integer[])
                AS n (campaign_id, person, inviter_id, subject, seat_id, chat_id, state, reason, was, joined_at,
                    qualifies_at, qualified_at, changed_at, rejoins)
             ON CONFLICT (corp_id, person, campaign_id) DO UPDATE SET chat_id = excluded.chat_id, state = excluded.state,
                reason = excluded.reason, was = excluded.was, changed_at = excluded.changed_at,
                rejoins = excluded.rejoins, next_look_at = excluded.next_look_at",
        )
        .bind(corp.as_str())
        .bind(column(rows, |((_, campaign), _)| campaign.as_str().to_owned()))
        .bind(column(rows, |((person, _), _)| person.to_string()))
        .bind(column(rows, |(_, edge)| edge.inviter.as_str().to_owned()))
        .bind(column(rows, |(_, edge)| edge.subject.map(|subject| subject.to_string())))
        .bind(column(rows, |(_, edge)| edge.seat.map(|seat| seat.0)))
        .bind(column(rows, |(_, edge)| edge.chat.as_str().to_owned()))
        .bind(column(rows, |(_, edge)| edge.state.as_str()))
        .bind(column(rows, |(_, edge)| edge.reason.clone()))
        .bind(column(rows, |(_, edge)| edge.was.map(EdgeState::as_str)))
        .bind(column(rows, |(_, edge)| at(edge.joined_ms)))
        .bind(column(rows, |(_, edge)| at(edge.qualifies_ms)))
        .bind(column(rows, |(_, edge)| at_option(edge.qualified_ms)))
        .bind(column(rows, |(_, edge)| at(edge.changed_ms)))
        .bind(column(rows, |(_, edge)| small(edge.rejoins)));
    work.execute(query).await?;
    Ok(())
}

async fn inviters(
    work: &mut Work,
    corp: &CorpId,
    rows: &[(&OfInviter, &Inviter)],
) -> Result<(), Error> {
    let query = work
        .query(
            "UPDATE inviters AS i SET joined = n.joined, pending = n.pending, qualified = n.qualified, revoked = n.revoked,
                refused = n.refused, person = n.person, ranked_at = coalesce(n.ranked_at, i.ranked_at)
             FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
                    $9::text[], $10::timestamptz[])
                AS n (campaign_id, inviter_id, joined, pending, qualified, revoked, refused, person, ranked_at)
             WHERE i.corp_id = $1 AND i.campaign_id = n.campaign_id AND i.inviter_id = n.inviter_id",
        )
        .bind(corp.as_str())
        .bind(column(rows, |((campaign, _), _)| campaign.as_str().to_owned()))
        .bind(column(rows, |((_, inviter), _)| inviter.as_str().to_owned()))
        .bind(column(rows, |(_, one)| signed(one.joined)))
        .bind(column(rows, |(_, one)| signed(one.pending)))
        .bind(column(rows, |(_, one)| signed(one.qualified)))
        .bind(column(rows, |(_, one)| signed(one.revoked)))
        .bind(column(rows, |(_, one)| signed(one.refused)))
        .bind(column(rows, |(_, one)| one.person.map(|person| person.to_string())))
        .bind(column(rows, |(_, one)| at_option(one.ranked_ms)));
    work.execute(query).await?;
    Ok(())
}

/// Inviters of whom it is known now who they are at WeCom: what they reach may have to be done to them.
async fn learned(
    work: &mut Work,
    corp: &CorpId,
    rows: &[(&OfInviter, &Inviter)],
) -> Result<(), Error> {
    let learned = rows.iter().filter_map(|(_, one)| {
        let id = one.learned.as_ref()?.as_ref()?;
        Some((one.person?, id.clone()))
    });
    let mut learned: Vec<(PersonKey, String)> = learned.collect();
    learned.sort();
    learned.dedup_by_key(|(person, _)| *person);
    if learned.is_empty() {
        return Ok(());
    }
    let query = work
        .query(crate::customers::UPSERT)
        .bind(corp.as_str())
        .bind(column(&learned, |_| Uuid::now_v7()))
        .bind(column(&learned, |(person, _)| person.to_string()))
        .bind(column(&learned, |_| "wecom"))
        .bind(column(&learned, |(_, id)| id.clone()));
    work.fetch_all(query).await?;
    Ok(())
}
