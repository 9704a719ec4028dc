//! Seats of customer groups: the operations as typed methods, and what can be looked at without one.

use std::collections::BTreeMap;

use allocation::model::{Corp, GroupPoolView, GroupView, SeatPlace, SeatView};
use allocation::{
    Answer, ChatId, ConfirmSeats, Dump, EndedSeat, GroupChange, GroupPoolChange, GroupPoolId,
    MAX_CANDIDATES, MAX_FORGET, MAX_PEOPLE, MAX_RELEASES, MAX_RESERVES, MAX_SEAT_WAKE, Op,
    ReleaseSeat, Released, ReserveSeat, Reserved, SeatName, SeatOp, SeatResult, SeatsConfirmed,
    SetGroup, SetGroupPool, Value, WokenSeat,
};

use crate::connection::Connection;
use crate::corp::CorpRoster;
use crate::error::Error;
use crate::read::unreadable;
use crate::scripts::SCRIPTS;

/// Persons, and what is known of them.
type People = BTreeMap<Vec<u8>, Vec<u8>>;

/// What an operation on seats answered, and where it stands in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeatsApplied<T> {
    pub seq: u64,
    pub at_ms: u64,
    pub answer: T,
    /// Those who waited and found a seat in the same call.
    pub woken: Vec<WokenSeat>,
    /// Those who waited and whose time was found to be over in the same call.
    pub lapsed: Vec<EndedSeat>,
    /// There are still free seats and people who wait for them: call `wake_seats`.
    pub more: bool,
}

impl<C: Connection> CorpRoster<C> {
    /// Which groups these visitors are shown, at most [`MAX_RESERVES`]; answers in their order.
    pub async fn reserve_seats(
        &self,
        asked: Vec<ReserveSeat>,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<SeatsApplied<Vec<Reserved>>, Error> {
        at_most(asked.len(), MAX_RESERVES)?;
        let op = SeatOp::Reserve(asked);
        self.apply_seats(op, payload, now_ms, |result| match result {
            SeatResult::Reserved(reserved) => Some(reserved),
            _ => None,
        })
        .await
    }

    /// Gives back seats that nobody came for, and places in the waiting room: at most [`MAX_RELEASES`]; answers in their
    /// order.
    pub async fn release_seats(
        &self,
        asked: Vec<ReleaseSeat>,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<SeatsApplied<Vec<Released>>, Error> {
        at_most(asked.len(), MAX_RELEASES)?;
        let op = SeatOp::Release(asked);
        self.apply_seats(op, payload, now_ms, |result| match result {
            SeatResult::Released(released) => Some(released),
            _ => None,
        })
        .await
    }

    /// What changed in a group: at most [`MAX_PEOPLE`], each of whom may have one of [`MAX_CANDIDATES`] seats.
    pub async fn confirm_seats(
        &self,
        change: ConfirmSeats,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<SeatsApplied<SeatsConfirmed>, Error> {
        at_most(change.left.len() + change.joined.len(), MAX_PEOPLE)?;
        let candidates = change.joined.iter().map(|person| person.names.len());
        at_most(candidates.max().unwrap_or(0), MAX_CANDIDATES)?;
        let op = SeatOp::Confirm(change);
        self.apply_seats(op, payload, now_ms, |result| match result {
            SeatResult::Confirmed(confirmed) => Some(confirmed),
            _ => None,
        })
        .await
    }

    /// Makes a group pool what the configuration says; loading an unchanged one again changes nothing.
    pub async fn set_group_pool(
        &self,
        set: SetGroupPool,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<SeatsApplied<GroupPoolChange>, Error> {
        let op = SeatOp::SetPool(set);
        self.apply_seats(op, payload, now_ms, pool_change).await
    }

    /// Refused while groups are in it.
    pub async fn remove_group_pool(
        &self,
        pool: GroupPoolId,
        version: u64,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<SeatsApplied<GroupPoolChange>, Error> {
        let op = SeatOp::RemovePool { pool, version };
        self.apply_seats(op, payload, now_ms, pool_change).await
    }

    /// Makes a group what the configuration says; its people and seats stay. One that was never read is shown to nobody.
    pub async fn set_group(
        &self,
        set: SetGroup,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<SeatsApplied<GroupChange>, Error> {
        let op = SeatOp::SetGroup(set);
        self.apply_seats(op, payload, now_ms, |result| match result {
            SeatResult::Group(change) => Some(change),
            _ => None,
        })
        .await
    }

    /// A group was dismissed, or is no longer ours to fill. Answers whose seats ended by that.
    pub async fn remove_group(
        &self,
        chat: ChatId,
        version: u64,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<SeatsApplied<(GroupChange, Vec<EndedSeat>)>, Error> {
        let op = SeatOp::RemoveGroup { chat, version };
        self.apply_seats(op, payload, now_ms, |result| match result {
            SeatResult::Removed { change, ended } => Some((change, ended)),
            _ => None,
        })
        .await
    }

    /// Gives free seats of a pool to those who wait, oldest first, at most `limit` and at most [`MAX_SEAT_WAKE`].
    pub async fn wake_seats(
        &self,
        pool: GroupPoolId,
        limit: u32,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<SeatsApplied<()>, Error> {
        let limit = limit.min(MAX_SEAT_WAKE as u32);
        let op = SeatOp::Wake { pool, limit };
        self.apply_seats(op, payload, now_ms, |result| match result {
            SeatResult::Ok => Some(()),
            _ => None,
        })
        .await
    }

    /// Ends places in the waiting room and memories whose time is over: at most `limit` together, at most [`MAX_FORGET`].
    /// Answers how many were taken; as many as were asked for: there may be more.
    pub async fn forget_seats(
        &self,
        limit: u32,
        payload: &str,
        now_ms: Option<u64>,
    ) -> Result<SeatsApplied<u32>, Error> {
        let limit = limit.min(MAX_FORGET as u32);
        let op = SeatOp::Forget { limit };
        self.apply_seats(op, payload, now_ms, |result| match result {
            SeatResult::Forgotten { taken } => Some(taken),
            _ => None,
        })
        .await
    }

    async fn apply_seats<T>(
        &self,
        op: SeatOp,
        payload: &str,
        now_ms: Option<u64>,
        of: impl FnOnce(SeatResult) -> Option<T>,
    ) -> Result<SeatsApplied<T>, Error> {
        let applied = self.apply(&Op::Seats(op), payload, now_ms).await?;
        let another = || unreadable("answer", "it belongs to another operation");
        let Answer::Seats(answer) = applied.answer.answer else {
            return Err(another());
        };
        Ok(SeatsApplied {
            seq: applied.seq,
            at_ms: applied.at_ms,
            answer: of(answer.result).ok_or_else(another)?,
            woken: answer.woken,
            lapsed: answer.lapsed,
            more: applied.more,
        })
    }

    /// What a visitor has in a campaign.
    pub async fn seat(&self, name: &SeatName) -> Result<Option<SeatView>, Error> {
        let names = std::slice::from_ref(name);
        Ok(self.seats(names).await?.pop().flatten())
    }

    /// The same of many, in their order.
    pub async fn seats(&self, names: &[SeatName]) -> Result<Vec<Option<SeatView>>, Error> {
        let keys = names.iter().map(|name| format!("seat:{name}")).collect();
        let corp = Corp::from_dump(&self.part(keys).await?)?;
        Ok(names.iter().map(|name| corp.seat(name)).collect())
    }

    /// Held seats whose time is over by then, the oldest first, at most `limit`: it is to be looked for their visitors at WeCom,
    /// and then they are to be released.
    pub async fn seats_due(&self, by_ms: u64, limit: u32) -> Result<Vec<SeatView>, Error> {
        let mut connection = self.connection.clone();
        let due: Vec<String> = redis::cmd("ZRANGE")
            .arg(self.keys.key("gends"))
            .arg("-inf")
            .arg(by_ms)
            .arg("BYSCORE")
            .arg("LIMIT")
            .arg(0)
            .arg(limit)
            .query_async(&mut connection)
            .await?;
        let names = due.iter().map(|name| name.parse());
        let names: Vec<SeatName> = names.collect::<Result<_, _>>()?;
        let seats = self.seats(&names).await?.into_iter().flatten();
        // Somebody may have been faster.
        let is_due = |seat: &SeatView| match seat.place {
            SeatPlace::Held { until_ms, .. } => until_ms <= by_ms,
            SeatPlace::Waiting { .. } | SeatPlace::Taken { .. } | SeatPlace::Expired { .. } => {
                false
            }
        };
        Ok(seats.filter(is_due).collect())
    }

    /// Whose seats are held in a group, in the order in which they began.
    pub async fn held_in(&self, chat: &ChatId) -> Result<Vec<SeatName>, Error> {
        let mut connection = self.connection.clone();
        let held: Vec<String> = redis::cmd("ZRANGE")
            .arg(self.keys.key(&format!("gheld:{chat}")))
            .arg(0)
            .arg(-1)
            .query_async(&mut connection)
            .await?;
        let names = held.iter().map(|name| name.parse());
        Ok(names.collect::<Result<_, _>>()?)
    }

    /// When the first held seat ends, or ended.
    pub async fn first_seat_end(&self) -> Result<Option<u64>, Error> {
        self.first_of("gends").await
    }

    /// When the first place in the waiting room, or memory of a seat, ends.
    pub async fn first_place_end(&self) -> Result<Option<u64>, Error> {
        self.first_of("gpast").await
    }

    /// A group and its people, as of one moment: the people are those of the version that it says.
    pub async fn group(&self, chat: &ChatId) -> Result<Option<GroupView>, Error> {
        let args = [chat.as_str().as_bytes()];
        let (group, people): (Option<Vec<u8>>, People) = SCRIPTS
            .group_read
            .call(&self.connection, self.keys.log(), &args)
            .await?;
        let Some(group) = group else {
            return Ok(None);
        };
        let mut dump = Dump::default();
        dump.keys
            .insert(format!("group:{chat}"), Value::Bytes(group));
        if !people.is_empty() {
            dump.keys
                .insert(format!("people:{chat}"), Value::Hash(people));
        }
        Ok(Corp::from_dump(&dump)?.groups().next())
    }

    /// Nobody can scan his way into this group any more: others came past us, or it is not filled. Read without its people.
    pub async fn is_full(&self, chat: &ChatId) -> Result<bool, Error> {
        let key = format!("group:{chat}");
        let part = self.part(vec![key.clone()]).await?;
        let Some(Value::Bytes(text)) = part.keys.get(&key) else {
            return Ok(true);
        };
        is_full(&String::from_utf8_lossy(text))
    }

    /// All groups of a pool, whatever room they have.
    pub async fn groups_of(&self, pool: &GroupPoolId) -> Result<Vec<ChatId>, Error> {
        let mut connection = self.connection.clone();
        let chats: Vec<String> = redis::cmd("ZRANGE")
            .arg(self.keys.key(&format!("groups:{pool}")))
            .arg(0)
            .arg(-1)
            .query_async(&mut connection)
            .await?;
        let chats = chats.iter().map(|chat| chat.parse());
        Ok(chats.collect::<Result<_, _>>()?)
    }

    /// How many seats of a pool are free, and how many wait for one.
    pub async fn group_pool(&self, pool: &GroupPoolId) -> Result<Option<GroupPoolView>, Error> {
        let key = format!("gpool:{pool}");
        let part = self.part(vec![key.clone()]).await?;
        // The queues are not read, but the pool knows how long they are.
        let waiting = match part.keys.get(&key) {
            Some(Value::Bytes(text)) => waiting(&String::from_utf8_lossy(text))?,
            _ => return Ok(None),
        };
        let corp = Corp::from_dump(&part)?;
        let Some(view) = corp.group_pools().next() else {
            return Ok(None);
        };
        let mut connection = self.connection.clone();
        let available: u32 = redis::cmd("ZCARD")
            .arg(self.keys.key(&format!("gfree:{pool}")))
            .query_async(&mut connection)
            .await?;
        Ok(Some(GroupPoolView {
            waiting,
            available,
            ..view
        }))
    }

    /// Where one who waits stands in his queue, counted from 1. None: he does not wait.
    pub async fn waiting_position(&self, name: &SeatName) -> Result<Option<u32>, Error> {
        let seat = self.seat(name).await?;
        let Some(SeatPlace::Waiting { pool, tags, .. }) = seat.map(|seat| seat.place) else {
            return Ok(None);
        };
        let mut connection = self.connection.clone();
        let before: Option<u32> = redis::cmd("ZRANK")
            .arg(self.keys.key(&format!("gwait:{pool}\u{1f}{tags}")))
            .arg(name.to_string())
            .query_async(&mut connection)
            .await?;
        Ok(before.map(|before| before + 1))
    }
}

fn at_most(many: usize, most: usize) -> Result<(), Error> {
    match many > most {
        true => Err(Error::TooMany),
        false => Ok(()),
    }
}

fn pool_change(result: SeatResult) -> Option<GroupPoolChange> {
    match result {
        SeatResult::Pool(change) => Some(change),
        _ => None,
    }
}

/// Version, pool, rank, scan cap, buffer, tags, open, version at WeCom, people, …; only the version when it was removed.
fn is_full(group: &str) -> Result<bool, Error> {
    let mut fields = group.split('\u{1f}').skip(3);
    let (Some(scan_cap), people) = (fields.next(), fields.nth(4)) else {
        return Ok(true);
    };
    let number = |field: Option<&str>| {
        let number = field.and_then(|field| field.parse::<u32>().ok());
        number.ok_or_else(|| unreadable("group", "its people and its cap are no numbers"))
    };
    Ok(number(people)? >= number(Some(scan_cap))?)
}

/// Version, strategy, free, waiting; only the version when the pool was removed.
fn waiting(pool: &str) -> Result<u64, Error> {
    match pool.split('\u{1f}').nth(3) {
        Some(waiting) => waiting
            .parse()
            .map_err(|_| unreadable("group pool", "no number of those who wait")),
        None => Ok(0),
    }
}
