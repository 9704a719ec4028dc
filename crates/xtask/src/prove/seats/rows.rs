//! The ledger's rows of seats, people and counts against the state that its log gives.

use std::collections::{BTreeMap, HashMap};

use allocation::model::{Corp, SeatPlace};
use allocation::{ChatId, SeatId};
use ledger::{Seat, SeatStage};

use super::log::Problems;
use crate::prove::checks::{Invariant, invariant};
use crate::stage::Stage;

/// Rows read at once.
const PAGE: u32 = 1_000;

pub(super) async fn all(stage: &Stage, corp: &Corp) -> anyhow::Result<Vec<Invariant>> {
    Ok(vec![seats(stage, corp).await?, people(stage, corp).await?])
}

/// Stage, group and end of each that is open, and of each that is remembered.
async fn seats(stage: &Stage, corp: &Corp) -> anyhow::Result<Invariant> {
    let mut rows = open_rows(stage, corp).await?;
    let mut problems = Problems::default();
    let views = corp.seats();
    for view in &views {
        let (is, ends) = match &view.place {
            SeatPlace::Held { chat, until_ms, .. } => {
                ((SeatStage::Held, Some(chat)), Some(*until_ms))
            }
            SeatPlace::Waiting { .. } => ((SeatStage::Waiting, None), None),
            SeatPlace::Taken { chat, late, .. } => {
                let stage = match late {
                    true => SeatStage::Late,
                    false => SeatStage::Confirmed,
                };
                ((stage, Some(chat)), None)
            }
            // Ended in the rows.
            SeatPlace::Expired { .. } => continue,
        };
        let row = rows.remove(&view.seat);
        let same = row.as_ref().is_some_and(|row| {
            (row.stage, row.chat.as_ref()) == is
                && row.name() == view.name()
                && ends.is_none_or(|ends| ends == row.held_until_ms)
        });
        if !same {
            problems.add(|| format!("seat {} is {is:?}, its row {row:?}", view.seat));
        }
    }
    for row in rows.values() {
        problems.add(|| format!("seat {} is {:?} in its row alone", row.id, row.stage));
    }
    let remembered = views.iter().filter_map(|view| match &view.place {
        SeatPlace::Expired { .. } => Some(view.seat),
        _ => None,
    });
    let remembered: Vec<SeatId> = remembered.collect();
    let ended = stage
        .ledger
        .seats()
        .get_many(&stage.corp, &remembered)
        .await?;
    let ended = ended
        .iter()
        .filter(|row| row.ended_ms.is_some() && row.memory_until_ms.is_some());
    let ended = ended.count();
    if ended != remembered.len() {
        problems.add(|| format!("{} are remembered, {ended} in the rows", remembered.len()));
    }
    Ok(invariant(
        "rows of seats are what the log says",
        problems.count == 0,
        views.len() as u64,
        format!("differences {}", problems.text()),
    ))
}

async fn open_rows(stage: &Stage, corp: &Corp) -> anyhow::Result<HashMap<SeatId, Seat>> {
    let table = stage.ledger.seats();
    let mut chats = table.groups(&stage.corp).await?;
    chats.extend(corp.groups().map(|group| group.config.chat().clone()));
    chats.sort_unstable();
    chats.dedup();
    let open = table.open_in(&stage.corp, &chats).await?;
    let mut rows: HashMap<SeatId, Seat> = open
        .into_values()
        .flatten()
        .map(|row| (row.id, row))
        .collect();
    let mut after = None;
    loop {
        let waiting = table.waiting(&stage.corp, after, PAGE).await?;
        let Some(last) = waiting.last() else {
            return Ok(rows);
        };
        after = Some(last.id);
        rows.extend(waiting.into_iter().map(|row| (row.id, row)));
    }
}

/// Who is in each group and whose seat that is, and how many they are.
async fn people(stage: &Stage, corp: &Corp) -> anyhow::Result<Invariant> {
    let table = stage.ledger.seats();
    let ids: HashMap<_, SeatId> = corp
        .seats()
        .into_iter()
        .map(|view| (view.name(), view.seat))
        .collect();
    let views: BTreeMap<ChatId, _> = corp
        .groups()
        .map(|group| (group.config.chat().clone(), group))
        .collect();
    let mut chats: Vec<ChatId> = table.groups(&stage.corp).await?;
    chats.extend(views.keys().cloned());
    chats.sort_unstable();
    chats.dedup();
    let mut people = table.people_in(&stage.corp, &chats).await?;
    let mut counts = table.group_counts(&stage.corp, &chats).await?;
    let mut problems = Problems::default();
    let mut checked = 0;
    for chat in chats {
        let rows = people.remove(&chat).unwrap_or_default();
        let count = counts.remove(&chat).unwrap_or_default();
        checked += rows.len() as u64;
        let rows: BTreeMap<_, _> = rows
            .into_iter()
            .map(|row| {
                let seat = row.came.and_then(ledger::CameAs::seat);
                (row.person, (row.came.is_none(), row.doubted, seat))
            })
            .collect();
        let view = views.get(&chat);
        let there: BTreeMap<_, _> = view
            .into_iter()
            .flat_map(|view| &view.people)
            .map(|one| {
                let seat = one.seat.as_ref().and_then(|name| ids.get(name).copied());
                (one.person, (one.pending, one.doubted, seat))
            })
            .collect();
        if rows != there {
            problems.add(|| format!("{chat} has {}, its rows {}", there.len(), rows.len()));
        }
        let (seen, held, n_people) = match view {
            Some(view) => (
                view.seen.clone(),
                u64::from(view.count.held),
                view.count.people,
            ),
            None => (None, 0, 0),
        };
        if (count.seen, count.held, count.people) != (seen, held, n_people) {
            problems.add(|| {
                format!(
                    "{chat} counts {} people, its row {}",
                    n_people, count.people
                )
            });
        }
    }
    Ok(invariant(
        "rows of people and counts are what the log says",
        problems.count == 0,
        checked,
        format!("differences {}", problems.text()),
    ))
}
