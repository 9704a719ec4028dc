//! Reads what the steps may meet. Most batches meet nothing of it and cost a statement or two.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use allocation::{CampaignId, CorpId, InviterId, PersonKey, SeatId, SubjectKey};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::book::{Book, CIRCLE, Campaign, Edge, Inviter, OfInviter, Seat, Stay};
use super::{FoldedEdges, What};
use crate::Error;
use crate::connection::Work;
use crate::fission::{Fission, INVITER_STATE, NewTo};
use crate::log_write::column;
use crate::row::Columns;

/// None: nobody of the batch was brought by anybody, now or before.
pub(super) async fn book(
    work: &mut Work,
    corp: &CorpId,
    folded: &FoldedEdges<'_>,
) -> Result<Option<Book>, Error> {
    let mut book = Book {
        seats: seats(work, corp, folded).await?,
        ways: ways(work, corp, folded).await?,
        ..Book::default()
    };
    let persons: BTreeSet<PersonKey> = folded.steps.iter().map(|step| step.person).collect();
    let persons: Vec<PersonKey> = persons.into_iter().collect();
    edges(work, corp, &persons, &mut book).await?;
    if book.seats.is_empty() && book.ways.is_empty() && book.edges.is_empty() {
        return Ok(None);
    }
    let brought = brought(folded, &book);
    names(work, corp, &brought, &mut book).await?;
    lock(work, corp, &brought, &mut book).await?;
    // Whoever had an inviter's row until now may have changed his edges.
    edges(work, corp, &persons, &mut book).await?;
    campaigns(work, corp, &mut book).await?;
    stays(work, corp, &persons, &mut book).await?;
    customers(work, corp, &brought, &mut book).await?;
    above(work, corp, &brought, &mut book).await?;
    Ok(Some(book))
}

/// Whom the batch says to be brought: the inviter, and as whom he is known who came.
struct Brought {
    of: OfInviter,
    names: Vec<SubjectKey>,
}

fn brought(folded: &FoldedEdges<'_>, book: &Book) -> Vec<Brought> {
    let came = folded.steps.iter().filter_map(|step| {
        let What::Came { seat, via, who } = &step.what else {
            return None;
        };
        let seat = seat.and_then(|seat| book.seats.get(&seat));
        let of = match (seat, via) {
            (Some(seat), _) => (seat.campaign.clone(), seat.inviter.clone()),
            (None, Some(via)) => book.ways.get(via.as_str())?.clone(),
            (None, None) => return None,
        };
        let names = [
            Some(step.person.0),
            seat.map(|seat| seat.subject),
            who.and_then(|who| who.unionid),
        ];
        Some(Brought {
            of,
            names: names.into_iter().flatten().collect(),
        })
    });
    came.collect()
}

async fn seats(
    work: &mut Work,
    corp: &CorpId,
    folded: &FoldedEdges<'_>,
) -> Result<HashMap<SeatId, Seat>, Error> {
    let ids = folded.steps.iter().filter_map(|step| match step.what {
        What::Came { seat, .. } => seat.map(|seat| seat.0),
        What::Left => None,
    });
    let ids: Vec<Uuid> = ids.collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let query = work
        .query(
            "SELECT seat_id, campaign_id, subject, inviter, asked_at FROM seats
             WHERE corp_id = $1 AND seat_id = ANY($2) AND inviter IS NOT NULL",
        )
        .bind(corp.as_str())
        .bind(ids);
    let seat = |row: &PgRow| {
        let seat = Seat {
            campaign: row.parsed("campaign_id")?,
            subject: row.parsed("subject")?,
            inviter: row.parsed("inviter")?,
            asked_ms: row.ms("asked_at")?,
        };
        Ok((SeatId(row.value("seat_id")?), seat))
    };
    work.fetch_all(query).await?.iter().map(seat).collect()
}

async fn ways(
    work: &mut Work,
    corp: &CorpId,
    folded: &FoldedEdges<'_>,
) -> Result<HashMap<String, OfInviter>, Error> {
    let codes = folded.steps.iter().filter_map(|step| match step.what {
        What::Came { via: Some(via), .. } => via.as_str().strip_prefix(INVITER_STATE),
        _ => None,
    });
    let codes: BTreeSet<&str> = codes.collect();
    if codes.is_empty() {
        return Ok(HashMap::new());
    }
    let query = work
        .query(
            "SELECT public_code, campaign_id, inviter_id FROM inviters WHERE corp_id = $1 AND public_code = ANY($2)",
        )
        .bind(corp.as_str())
        .bind(codes.into_iter().map(str::to_owned).collect::<Vec<_>>());
    let way = |row: &PgRow| {
        let code: String = row.value("public_code")?;
        let of = (row.parsed("campaign_id")?, row.parsed("inviter_id")?);
        Ok((format!("{INVITER_STATE}{code}"), of))
    };
    work.fetch_all(query).await?.iter().map(way).collect()
}

async fn edges(
    work: &mut Work,
    corp: &CorpId,
    persons: &[PersonKey],
    book: &mut Book,
) -> Result<(), Error> {
    let query = work
        .query(
            "SELECT campaign_id, person, inviter_id, subject, seat_id, chat_id, state, reason, was, joined_at, qualifies_at,
                qualified_at, changed_at, rejoins
             FROM edges WHERE corp_id = $1 AND person = ANY($2)",
        )
        .bind(corp.as_str())
        .bind(column(persons, PersonKey::to_string));
    book.edges.clear();
    book.edges_of.clear();
    for row in &work.fetch_all(query).await? {
        let edge = Edge {
            inviter: row.parsed("inviter_id")?,
            subject: row.parsed_option("subject")?,
            seat: row.value::<Option<Uuid>>("seat_id")?.map(SeatId),
            chat: row.parsed("chat_id")?,
            state: row.parsed("state")?,
            reason: row.value("reason")?,
            was: row.parsed_option("was")?,
            joined_ms: row.ms("joined_at")?,
            qualifies_ms: row.ms("qualifies_at")?,
            qualified_ms: row.ms_option("qualified_at")?,
            changed_ms: row.ms("changed_at")?,
            rejoins: row.small("rejoins")?,
            is_changed: false,
        };
        let (person, campaign): (PersonKey, CampaignId) =
            (row.parsed("person")?, row.parsed("campaign_id")?);
        book.edges_of
            .entry(person)
            .or_default()
            .push(campaign.clone());
        book.edges.insert((person, campaign), edge);
    }
    Ok(())
}

/// Those who were brought and are inviters of the campaign themselves.
async fn names(
    work: &mut Work,
    corp: &CorpId,
    brought: &[Brought],
    book: &mut Book,
) -> Result<(), Error> {
    let names = brought.iter().flat_map(|one| {
        let campaign = one.of.0.as_str();
        one.names.iter().map(move |name| (campaign, *name))
    });
    let names: BTreeSet<(&str, SubjectKey)> = names.collect();
    let names: Vec<_> = names.into_iter().collect();
    if names.is_empty() {
        return Ok(());
    }
    // Looked up one by one, as customers are.
    let query = work
        .query(
            "SELECT n.campaign_id, n.name, i.inviter_id FROM unnest($2::text[], $3::text[]) AS n (campaign_id, name)
             CROSS JOIN LATERAL (
                (SELECT inviter_id FROM inviters WHERE corp_id = $1 AND campaign_id = n.campaign_id AND subject = n.name
                    LIMIT 1)
                UNION ALL
                (SELECT inviter_id FROM inviters WHERE corp_id = $1 AND person = n.name AND campaign_id = n.campaign_id
                    LIMIT 1)
                LIMIT 1) AS i",
        )
        .bind(corp.as_str())
        .bind(column(&names, |(campaign, _)| (*campaign).to_owned()))
        .bind(column(&names, |(_, name)| name.to_string()));
    for row in &work.fetch_all(query).await? {
        let key = (row.parsed("campaign_id")?, row.parsed("name")?);
        book.as_inviter.insert(key, row.parsed("inviter_id")?);
    }
    Ok(())
}

/// Everybody whose counts may change, in the order of their keys: nobody else changes them, or their edges, until the end.
async fn lock(
    work: &mut Work,
    corp: &CorpId,
    brought: &[Brought],
    book: &mut Book,
) -> Result<(), Error> {
    let of_edges = book.edges.iter();
    let of_edges = of_edges.map(|((_, campaign), edge)| (campaign.clone(), edge.inviter.clone()));
    let themselves = book.as_inviter.iter();
    let themselves = themselves.map(|((campaign, _), id)| (campaign.clone(), id.clone()));
    let wanted: BTreeSet<OfInviter> = brought
        .iter()
        .map(|one| one.of.clone())
        .chain(of_edges)
        .chain(themselves)
        .collect();
    book.inviters = locked(work, corp, wanted).await?;
    Ok(())
}

async fn locked(
    work: &mut Work,
    corp: &CorpId,
    wanted: BTreeSet<OfInviter>,
) -> Result<BTreeMap<OfInviter, Inviter>, Error> {
    let wanted: Vec<OfInviter> = wanted.into_iter().collect();
    let query = work
        .query(
            "SELECT i.campaign_id, i.inviter_id, i.subject, i.person, i.blocked_at IS NOT NULL AS is_blocked, i.joined,
                i.pending, i.qualified, i.revoked, i.refused
             FROM inviters AS i JOIN unnest($2::text[], $3::text[]) AS n (campaign_id, inviter_id)
                ON i.campaign_id = n.campaign_id AND i.inviter_id = n.inviter_id
             WHERE i.corp_id = $1 ORDER BY i.campaign_id, i.inviter_id FOR UPDATE OF i",
        )
        .bind(corp.as_str())
        .bind(column(&wanted, |(campaign, _)| {
            campaign.as_str().to_owned()
        }))
        .bind(column(&wanted, |(_, inviter)| inviter.as_str().to_owned()));
    let inviter = |row: &PgRow| {
        let inviter = Inviter {
            subject: row.parsed_option("subject")?,
            person: row.parsed_option("person")?,
            is_blocked: row.value("is_blocked")?,
            joined: row.number("joined")?,
            pending: row.number("pending")?,
            qualified: row.number("qualified")?,
            revoked: row.number("revoked")?,
            refused: row.number("refused")?,
            ..Inviter::default()
        };
        let of = (row.parsed("campaign_id")?, row.parsed("inviter_id")?);
        Ok((of, inviter))
    };
    work.fetch_all(query).await?.iter().map(inviter).collect()
}

async fn campaigns(work: &mut Work, corp: &CorpId, book: &mut Book) -> Result<(), Error> {
    let ids: BTreeSet<&CampaignId> = book.inviters.keys().map(|(campaign, _)| campaign).collect();
    let ids: Vec<&CampaignId> = ids.into_iter().collect();
    let query = work
        .query(
            "SELECT campaign_id, group_pool_id, rules, deleted_at FROM campaigns
             WHERE corp_id = $1 AND campaign_id = ANY($2)",
        )
        .bind(corp.as_str())
        .bind(column(&ids, |id| id.as_str().to_owned()));
    for row in &work.fetch_all(query).await? {
        let is_deleted = row.ms_option("deleted_at")?.is_some();
        let campaign = Campaign {
            pool: row.parsed("group_pool_id")?,
            fission: Fission::read(row)?.filter(|_| !is_deleted),
        };
        book.campaigns.insert(row.parsed("campaign_id")?, campaign);
    }
    Ok(())
}

async fn stays(
    work: &mut Work,
    corp: &CorpId,
    persons: &[PersonKey],
    book: &mut Book,
) -> Result<(), Error> {
    let query = work
        .query(
            "SELECT p.person, p.chat_id, g.group_pool_id, p.joined_seq, p.joined_at, p.left_at
             FROM group_people AS p LEFT JOIN groups AS g ON g.corp_id = p.corp_id AND g.chat_id = p.chat_id
             WHERE p.corp_id = $1 AND p.person = ANY($2)",
        )
        .bind(corp.as_str())
        .bind(column(persons, PersonKey::to_string));
    for row in &work.fetch_all(query).await? {
        let stay = Stay {
            chat: row.parsed("chat_id")?,
            pool: row.parsed_option("group_pool_id")?,
            seq: row.number("joined_seq")?,
            joined_ms: row.ms("joined_at")?,
            left_ms: row.ms_option("left_at")?,
        };
        let person: PersonKey = row.parsed("person")?;
        book.stays.entry(person).or_default().push(stay);
    }
    Ok(())
}

/// Where it matters who is a customer.
async fn customers(
    work: &mut Work,
    corp: &CorpId,
    brought: &[Brought],
    book: &mut Book,
) -> Result<(), Error> {
    let matters = |campaign: &CampaignId| {
        let rules = book.campaigns.get(campaign);
        let rules = rules.and_then(|one| one.fission.as_ref());
        rules.is_some_and(|rules| rules.new_to == NewTo::Corp)
    };
    let names = brought.iter().filter(|one| matters(&one.of.0));
    let names: BTreeSet<SubjectKey> = names.flat_map(|one| one.names.iter().copied()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let names: Vec<SubjectKey> = names.into_iter().collect();
    let query = work
        .query(
            "SELECT n.subject, a.decided_at FROM unnest($2::text[]) AS n (subject)
             CROSS JOIN LATERAL (SELECT min(decided_at) AS decided_at FROM allocations
                WHERE corp_id = $1 AND subject = n.subject AND assigned_at IS NOT NULL) AS a
             WHERE a.decided_at IS NOT NULL",
        )
        .bind(corp.as_str())
        .bind(column(&names, SubjectKey::to_string));
    for row in &work.fetch_all(query).await? {
        book.customers
            .insert(row.parsed("subject")?, row.ms("decided_at")?);
    }
    Ok(())
}

/// Who brought the inviters, and those who brought them, as far as it is looked.
async fn above(
    work: &mut Work,
    corp: &CorpId,
    brought: &[Brought],
    book: &mut Book,
) -> Result<(), Error> {
    let of: BTreeSet<&OfInviter> = brought.iter().map(|one| &one.of).collect();
    if of.is_empty() || book.as_inviter.is_empty() {
        return Ok(());
    }
    let of: Vec<&OfInviter> = of.into_iter().collect();
    let query = work
        .query(
            "WITH RECURSIVE up AS (
                SELECT n.campaign_id, n.inviter_id AS one, e.inviter_id AS above, 1 AS depth
                FROM unnest($2::text[], $3::text[]) AS n (campaign_id, inviter_id)
                JOIN inviters AS i ON i.corp_id = $1 AND i.campaign_id = n.campaign_id AND i.inviter_id = n.inviter_id
                CROSS JOIN LATERAL (SELECT e.inviter_id FROM edges AS e WHERE e.corp_id = $1
                    AND e.campaign_id = i.campaign_id AND (e.person = i.person OR e.subject = i.subject)
                    AND e.state <> 'refused' LIMIT 1) AS e
                UNION
                SELECT up.campaign_id, up.above, e.inviter_id, up.depth + 1
                FROM up JOIN inviters AS i
                    ON i.corp_id = $1 AND i.campaign_id = up.campaign_id AND i.inviter_id = up.above
                CROSS JOIN LATERAL (SELECT e.inviter_id FROM edges AS e WHERE e.corp_id = $1
                    AND e.campaign_id = i.campaign_id AND (e.person = i.person OR e.subject = i.subject)
                    AND e.state <> 'refused' LIMIT 1) AS e
                WHERE up.depth < $4)
             SELECT DISTINCT campaign_id, one, above FROM up",
        )
        .bind(corp.as_str())
        .bind(column(&of, |(campaign, _)| campaign.as_str().to_owned()))
        .bind(column(&of, |(_, inviter)| inviter.as_str().to_owned()))
        .bind(i32::try_from(CIRCLE).unwrap_or(i32::MAX));
    for row in &work.fetch_all(query).await? {
        let one: InviterId = row.parsed("one")?;
        let of = (row.parsed("campaign_id")?, one);
        book.above.insert(of, row.parsed("above")?);
    }
    Ok(())
}
