//! Who came into the groups of a batch and who left, what that left of them, and where it was too many.

mod excess;

use std::collections::BTreeMap;

use allocation::{ChatId, CorpId, PersonKey, Via};
use uuid::Uuid;

use super::rows::{CHUNK, column};
use crate::Error;
use crate::change::{GroupCounted, PeopleChange};
use crate::connection::Work;
use crate::row::{signed, small};
use crate::seats::CameAs;
use crate::text::clean_option;
use crate::times::{at, at_option};

type Key<'b> = (&'b ChatId, PersonKey);

/// What a batch does to those who are in groups.
#[derive(Debug, Default)]
pub(super) struct FoldedPeople<'b> {
    people: BTreeMap<Key<'b>, Stays<'b>>,
    /// Groups that were none of ours any more, since when.
    gone: BTreeMap<&'b ChatId, u64>,
    /// What the last change left of a group; None: it is gone.
    counts: BTreeMap<&'b ChatId, Option<(&'b GroupCounted, u64)>>,
    corrected: Vec<(Key<'b>, Option<CameAs>)>,
    /// In order, those that are worth a row of their own among them.
    steps: Vec<Step<'b>>,
}

/// The times that somebody was in a group.
#[derive(Debug, Default)]
struct Stays<'b> {
    /// He came, and nobody knows whether he was in it before the batch.
    first: Option<Stay<'b>>,
    /// He left for the first time.
    left_ms: Option<u64>,
    /// He came again after that.
    later: Vec<Stay<'b>>,
}

#[derive(Debug)]
struct Stay<'b> {
    seq: u64,
    joined_ms: u64,
    left_ms: Option<u64>,
    came: Option<CameAs>,
    doubted: bool,
    scanned: bool,
    via: Option<&'b Via>,
}

#[derive(Debug)]
struct Step<'b> {
    chat: &'b ChatId,
    /// None: it is gone.
    counted: Option<&'b GroupCounted>,
    at_ms: u64,
    /// How many were in it before; None: as the table says.
    before: Option<u32>,
}

impl<'b> FoldedPeople<'b> {
    pub(super) fn add(&mut self, seq: u64, at_ms: u64, change: &'b PeopleChange) {
        match change {
            PeopleChange::Left { chat, person } => {
                let is_gone = self.gone.contains_key(chat);
                let stays = self.people.entry((chat, *person)).or_default();
                stays.leave(at_ms, is_gone);
            }
            PeopleChange::Joined {
                chat,
                person,
                came,
                doubted,
                scanned,
                via,
                ..
            } => {
                let is_gone = self.gone.contains_key(chat);
                let stays = self.people.entry((chat, *person)).or_default();
                let stay = Stay {
                    seq,
                    joined_ms: at_ms,
                    left_ms: None,
                    came: *came,
                    doubted: *doubted,
                    scanned: *scanned,
                    via: via.as_ref(),
                };
                stays.come(stay, is_gone);
            }
            PeopleChange::Corrected { chat, person, came } => {
                self.corrected.push(((chat, *person), *came));
            }
            PeopleChange::Counted(counted) => {
                let before = self.counts.get(&counted.chat);
                let before = before.map(|last| last.map_or(0, |(last, _)| last.people));
                self.steps.push(Step {
                    chat: &counted.chat,
                    counted: Some(counted),
                    at_ms,
                    before,
                });
                let last = Some((counted, at_ms));
                self.counts.insert(&counted.chat, last);
            }
            PeopleChange::Gone { chat } => {
                for ((of, _), stays) in &mut self.people {
                    if *of == chat {
                        stays.leave(at_ms, self.gone.contains_key(chat));
                    }
                }
                self.gone.entry(chat).or_insert(at_ms);
                self.counts.insert(chat, None);
                self.steps.push(Step {
                    chat,
                    counted: None,
                    at_ms,
                    before: None,
                });
            }
        }
    }
}

impl<'b> Stays<'b> {
    /// `is_gone`: everybody left with the group before.
    fn leave(&mut self, at_ms: u64, is_gone: bool) {
        if self.left_ms.is_some() || is_gone {
            if let Some(last) = self.later.last_mut() {
                last.left_ms = last.left_ms.or(Some(at_ms));
            }
        } else {
            self.left_ms = Some(at_ms);
        }
    }

    fn come(&mut self, stay: Stay<'b>, is_gone: bool) {
        let present = if self.left_ms.is_some() || is_gone {
            self.later.last_mut().filter(|last| last.left_ms.is_none())
        } else {
            self.first.as_mut()
        };
        match present {
            Some(present)
                if present.came.is_none()
                    && (stay.came.is_some() || present.doubted && !stay.doubted) =>
            {
                present.came = stay.came;
                present.doubted = stay.doubted;
                present.scanned = stay.scanned;
                present.via = stay.via;
            }
            Some(_) => {}
            None if self.left_ms.is_some() || is_gone => self.later.push(stay),
            None => self.first = Some(stay),
        }
    }
}

pub(super) async fn write(
    work: &mut Work,
    corp: &CorpId,
    folded: &FoldedPeople<'_>,
) -> Result<(), Error> {
    let people = || folded.people.iter();
    let first = people().filter_map(|(key, stays)| Some((key, stays.first.as_ref()?)));
    for chunk in first.collect::<Vec<_>>().chunks(CHUNK) {
        insert(work, corp, chunk).await?;
    }
    let left = people().filter_map(|(key, stays)| Some((key, stays.left_ms?)));
    for chunk in left.collect::<Vec<_>>().chunks(CHUNK) {
        let query = work
            .query(
                "UPDATE group_people AS p SET left_at = n.at
                 FROM unnest($2::text[], $3::text[], $4::timestamptz[]) AS n (chat_id, person, at)
                 WHERE p.corp_id = $1 AND p.chat_id = n.chat_id AND p.person = n.person AND p.left_at IS NULL",
            )
            .bind(corp.as_str())
            .bind(column(chunk, |((chat, _), _)| chat.as_str()))
            .bind(column(chunk, |((_, person), _)| person.to_string()))
            .bind(column(chunk, |(_, at_ms)| at(*at_ms)));
        work.execute(query).await?;
    }
    let gone: Vec<_> = folded.gone.iter().collect();
    for chunk in gone.chunks(CHUNK) {
        let query = work
            .query(
                "UPDATE group_people AS p SET left_at = n.at
                 FROM unnest($2::text[], $3::timestamptz[]) AS n (chat_id, at)
                 WHERE p.corp_id = $1 AND p.chat_id = n.chat_id AND p.left_at IS NULL",
            )
            .bind(corp.as_str())
            .bind(column(chunk, |(chat, _)| chat.as_str()))
            .bind(column(chunk, |(_, at_ms)| at(**at_ms)));
        work.execute(query).await?;
    }
    let later = people().flat_map(|(key, stays)| stays.later.iter().map(move |stay| (key, stay)));
    for chunk in later.collect::<Vec<_>>().chunks(CHUNK) {
        insert(work, corp, chunk).await?;
    }
    for chunk in folded.corrected.chunks(CHUNK) {
        let query = work
            .query(
                "UPDATE group_people AS p SET came_as = n.came_as, seat_id = n.seat_id,
                    doubted = p.doubted AND n.came_as IS NULL
                 FROM unnest($2::text[], $3::text[], $4::text[], $5::uuid[]) AS n (chat_id, person, came_as, seat_id)
                 WHERE p.corp_id = $1 AND p.chat_id = n.chat_id AND p.person = n.person AND p.left_at IS NULL",
            )
            .bind(corp.as_str())
            .bind(column(chunk, |((chat, _), _)| chat.as_str()))
            .bind(column(chunk, |((_, person), _)| person.to_string()))
            .bind(column(chunk, |(_, came)| came.map(CameAs::as_str)))
            .bind(column(chunk, |(_, came)| {
                came.and_then(CameAs::seat).map(|seat| seat.0)
            }));
        work.execute(query).await?;
    }
    let mut told = excess::before(work, corp, folded.counts.keys().copied()).await?;
    let told_of = folded.steps.iter().filter_map(|step| {
        let is_news = excess::is_news(&mut told, step);
        let counted = step.counted?;
        (is_news || counted.mended.is_some()).then_some((step, counted, is_news))
    });
    for chunk in told_of.collect::<Vec<_>>().chunks(CHUNK) {
        steps(work, corp, chunk).await?;
    }
    counts(work, corp, folded, &told).await
}

async fn insert(
    work: &mut Work,
    corp: &CorpId,
    rows: &[(&Key<'_>, &Stay<'_>)],
) -> Result<(), Error> {
    let query = work
        .query(
            "INSERT INTO group_people AS p (corp_id, chat_id, person, joined_seq, joined_at, left_at, came_as, seat_id,
                scanned, via, doubted)
             SELECT $1, * FROM unnest($2::text[], $3::text[], $4::bigint[], $5::timestamptz[], $6::timestamptz[],
                $7::text[], $8::uuid[], $9::boolean[], $10::text[], $11::boolean[])
             ON CONFLICT (corp_id, chat_id, person) WHERE left_at IS NULL DO UPDATE SET
                came_as = excluded.came_as, seat_id = excluded.seat_id, scanned = excluded.scanned, via = excluded.via,
                doubted = excluded.doubted
             WHERE p.came_as IS NULL AND (excluded.came_as IS NOT NULL OR p.doubted AND NOT excluded.doubted)",
        )
        .bind(corp.as_str())
        .bind(column(rows, |((chat, _), _)| chat.as_str()))
        .bind(column(rows, |((_, person), _)| person.to_string()))
        .bind(column(rows, |(_, stay)| signed(stay.seq)))
        .bind(column(rows, |(_, stay)| at(stay.joined_ms)))
        .bind(column(rows, |(_, stay)| at_option(stay.left_ms)))
        .bind(column(rows, |(_, stay)| stay.came.map(CameAs::as_str)))
        .bind(column(rows, |(_, stay)| {
            stay.came.and_then(CameAs::seat).map(|seat| seat.0)
        }))
        .bind(column(rows, |(_, stay)| stay.scanned))
        .bind(column(rows, |(_, stay)| stay.via.map(Via::as_str)))
        .bind(column(rows, |(_, stay)| stay.doubted));
    work.execute(query).await?;
    Ok(())
}

/// Too many are those who came and took nobody's seat: whoever held one here was counted before. What was mended is told
/// whatever it left.
async fn steps(
    work: &mut Work,
    corp: &CorpId,
    steps: &[(&Step<'_>, &GroupCounted, bool)],
) -> Result<(), Error> {
    let query = work
        .query(
            "WITH n AS (
                SELECT n.*, coalesce(n.before, c.people, 0) AS people_before
                FROM unnest($2::text[], $3::timestamptz[], $4::integer[], $5::integer[], $6::integer[], $7::boolean[],
                        $8::text[], $9::uuid[], $10::uuid[])
                    AS n (chat_id, at, before, people, oversold, is_news, reason, oversold_id, mended_id)
                LEFT JOIN group_counts AS c ON c.corp_id = $1 AND c.chat_id = n.chat_id)
             INSERT INTO group_changes (corp_id, id, chat_id, at, kind, people_before, people, excess, reason)
             SELECT $1, oversold_id, chat_id, at, 'oversold', people_before, people, oversold, NULL FROM n
                WHERE is_news
             UNION ALL
             SELECT $1, mended_id, chat_id, at, 'mended', people_before, people, NULL, reason FROM n
                WHERE reason IS NOT NULL",
        )
        .bind(corp.as_str())
        .bind(column(steps, |(step, ..)| step.chat.as_str()))
        .bind(column(steps, |(step, ..)| at(step.at_ms)))
        .bind(column(steps, |(step, ..)| step.before.map(small)))
        .bind(column(steps, |(_, counted, _)| small(counted.people)))
        .bind(column(steps, |(_, counted, _)| small(counted.oversold)))
        .bind(column(steps, |(.., is_news)| *is_news))
        .bind(column(steps, |(_, counted, _)| clean_option(counted.mended.as_ref())))
        .bind(column(steps, |_| Uuid::now_v7()))
        .bind(column(steps, |_| Uuid::now_v7()));
    work.execute(query).await?;
    Ok(())
}

/// After the steps, which look at what was there before.
async fn counts(
    work: &mut Work,
    corp: &CorpId,
    folded: &FoldedPeople<'_>,
    told: &excess::Told<'_>,
) -> Result<(), Error> {
    let there: Vec<_> = folded.counts.values().flatten().collect();
    for chunk in there.chunks(CHUNK) {
        let query = work
            .query(
                "INSERT INTO group_counts (corp_id, chat_id, seen, people, oversold, changed_at, told_excess)
                 SELECT $1, * FROM unnest($2::text[], $3::text[], $4::integer[], $5::integer[], $6::timestamptz[],
                    $7::integer[])
                 ON CONFLICT (corp_id, chat_id) DO UPDATE SET seen = excluded.seen, people = excluded.people,
                    oversold = excluded.oversold, changed_at = excluded.changed_at, told_excess = excluded.told_excess",
            )
            .bind(corp.as_str())
            .bind(column(chunk, |(counted, _)| counted.chat.as_str()))
            .bind(column(chunk, |(counted, _)| counted.version.as_str()))
            .bind(column(chunk, |(counted, _)| small(counted.people)))
            .bind(column(chunk, |(counted, _)| small(counted.oversold)))
            .bind(column(chunk, |(_, at_ms)| at(*at_ms)))
            .bind(column(chunk, |(counted, _)| {
                small(told.get(&counted.chat).copied().unwrap_or_default())
            }));
        work.execute(query).await?;
    }
    let gone = folded.counts.iter().filter(|(_, left)| left.is_none());
    let gone: Vec<_> = gone.map(|(chat, _)| chat.as_str()).collect();
    if !gone.is_empty() {
        let query = work
            .query("DELETE FROM group_counts WHERE corp_id = $1 AND chat_id = ANY($2)")
            .bind(corp.as_str())
            .bind(gone);
        work.execute(query).await?;
    }
    Ok(())
}
