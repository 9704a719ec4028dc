//! The seats and people that stand after one log entry: what a state can be made of when the log cannot be folded.

use std::collections::HashMap;

use allocation::{ChatId, ChatVersion, CorpId, PersonKey, SeatId};

use super::{CameAs, GroupPerson, Seat, columns, people, read};
use crate::Error;
use crate::connection::Work;
use crate::row::Columns;
use crate::times::at;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StandingSeats {
    /// Those that are open, and those that are remembered, in the order in which they began to hold or wait.
    pub seats: Vec<Seat>,
    /// Who is in each group that has anybody.
    pub people: HashMap<ChatId, Vec<GroupPerson>>,
    /// What the people of each group were last.
    pub seen: HashMap<ChatId, ChatVersion>,
}

impl StandingSeats {
    /// Who sits on each seat.
    pub fn persons(&self) -> HashMap<SeatId, (ChatId, PersonKey)> {
        let people = self.people.iter().flat_map(|(chat, people)| {
            let seated = people.iter().filter_map(move |one| {
                let seat = one.came.and_then(CameAs::seat)?;
                Some((seat, (chat.clone(), one.person)))
            });
            seated.collect::<Vec<_>>()
        });
        people.collect()
    }
}

/// In a transaction that keeps the log's writer out.
pub(crate) async fn standing(
    work: &mut Work,
    corp: &CorpId,
    at_ms: u64,
) -> Result<StandingSeats, Error> {
    // Whoever has another seat since then has that one, whatever became of it.
    let query = work
        .query_once(concat!(
            "SELECT ",
            columns!(),
            " FROM seats AS s WHERE s.corp_id = $1 AND (s.ended_at IS NULL OR s.memory_until > $2 AND NOT EXISTS (
                SELECT FROM seats AS o WHERE o.corp_id = $1 AND o.subject = s.subject AND o.campaign_id = s.campaign_id
                    AND o.asked_seq > s.asked_seq))
              ORDER BY s.turn_seq, s.turn_place, s.seat_id"
        ))
        .bind(corp.as_str())
        .bind(at(at_ms));
    let rows = work.fetch_all(query).await?;
    let seats = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let query = work
        .query_once(
            "SELECT chat_id, person, joined_at, came_as, seat_id, scanned, via, doubted FROM group_people
             WHERE corp_id = $1 AND left_at IS NULL ORDER BY chat_id, person",
        )
        .bind(corp.as_str());
    let people = people::by_group(&work.fetch_all(query).await?)?;
    let query = work
        .query_once("SELECT chat_id, seen FROM group_counts WHERE corp_id = $1")
        .bind(corp.as_str());
    let rows = work.fetch_all(query).await?;
    let seen = rows
        .iter()
        .map(|row| Ok((row.parsed("chat_id")?, row.parsed("seen")?)));
    Ok(StandingSeats {
        seats,
        people,
        seen: seen.collect::<Result<_, Error>>()?,
    })
}
