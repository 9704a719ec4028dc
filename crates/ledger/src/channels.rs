//! Channels: a poster, a page, an ad. Each has States, and every State it ever had leads to its pool.

use std::collections::{BTreeMap, HashMap};

use allocation::{ChannelId, CorpId, PoolId, Skill};
use serde_json::{Value, json};
use sqlx::postgres::PgRow;

use crate::Error;
use crate::audit::Trail;
use crate::configured::{self, Configured, Found, Listed};
use crate::connection::{Db, Work};
use crate::cursor::{Page, PageRequest};
use crate::log_write::column;
use crate::members::{read_skills, skills_column};
use crate::put::{Deleted, Precondition, Put};
use crate::row::Columns;
use crate::text::{clean, clean_json, random};
use crate::times::at;

mod limits;
mod visits;

pub use limits::{ChannelLimits, CountedChannel};
pub use visits::Visits;

#[derive(Debug, Clone)]
pub struct Channels {
    pub(crate) db: Db,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Channel {
    pub id: ChannelId,
    pub name: String,
    pub pool: PoolId,
    /// As its owner listed them.
    pub states: Vec<String>,
    /// No longer listed; they lead here all the same.
    pub retired_states: Vec<String>,
    /// The caller's own JSON.
    pub welcome: Option<Value>,
    pub card: bool,
    /// What a member must be able to do to get its customers; distinct.
    pub needs: Vec<Skill>,
    /// How many who come through it are given a member.
    pub limits: ChannelLimits,
    /// Its public page; None = it has none.
    pub visits: Option<Visits>,
    /// Of its public page, from the first time on that there was one.
    pub public_code: Option<String>,
    pub version: u64,
    pub created_ms: u64,
    pub updated_ms: u64,
}

/// What a caller wants a channel to be. States are distinct.
#[derive(Debug, Clone, PartialEq)]
pub struct NewChannel {
    pub name: String,
    pub pool: PoolId,
    pub states: Vec<String>,
    pub welcome: Option<Value>,
    pub card: bool,
    pub needs: Vec<Skill>,
    pub limits: ChannelLimits,
    pub visits: Option<Visits>,
}

/// Why a channel cannot be like this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelRefused {
    NoPool,
    /// It would have a public page, which shows a member at once, and its pool asks its members.
    PoolOffers,
    /// The State leads, or led, to another channel.
    StateTaken {
        state: String,
        channel: ChannelId,
    },
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT c.channel_id, c.name, c.pool_id, c.welcome, c.card, c.version, c.created_at, c.updated_at,
                c.deleted_at, c.public_code, c.slots_per_member, c.hold_seconds, c.title, c.needs,
                c.per_hour, c.per_day FROM channels AS c WHERE c.corp_id = $1 ",
            $rest
        )
    };
}

impl Channels {
    pub async fn get(&self, corp: &CorpId, id: &ChannelId) -> Result<Option<Channel>, Error> {
        configured::get(&self.db, corp, id).await
    }

    /// All that are not deleted, by id.
    pub async fn all(&self, corp: &CorpId) -> Result<Vec<Channel>, Error> {
        configured::all(&self.db, corp).await
    }

    /// Deleted ones that have contact ways at WeCom, with their pools: whoever saw one of them may still come by it.
    pub async fn deleted_with_ways(
        &self,
        corp: &CorpId,
    ) -> Result<Vec<(ChannelId, PoolId)>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT c.channel_id, c.pool_id FROM channels AS c
                 WHERE c.corp_id = $1 AND c.deleted_at IS NOT NULL AND EXISTS (SELECT FROM contact_ways AS w
                    WHERE w.corp_id = c.corp_id AND w.channel_id = c.channel_id AND w.state <> 'gone')",
            )
            .bind(corp.as_str());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let read = |row: &PgRow| Ok((row.parsed("channel_id")?, row.parsed("pool_id")?));
        rows.iter().map(read).collect()
    }

    /// The latest first.
    pub async fn list(&self, corp: &CorpId, page: &PageRequest) -> Result<Page<Channel>, Error> {
        configured::list(&self.db, corp, page).await
    }

    pub async fn put(
        &self,
        corp: &CorpId,
        id: &ChannelId,
        new: &NewChannel,
        precondition: Precondition,
        trail: &Trail,
    ) -> Result<Put<Channel, ChannelRefused>, Error> {
        configured::put(&self.db, corp, id, new, precondition, trail).await
    }

    /// Its States lead nowhere afterwards, that is to the corp's default pool.
    pub async fn delete(
        &self,
        corp: &CorpId,
        id: &ChannelId,
        precondition: Precondition,
        trail: &Trail,
    ) -> Result<Deleted<Channel, std::convert::Infallible>, Error> {
        configured::delete(&self.db, corp, id, precondition, trail).await
    }
}

impl Listed for Channel {
    const LIST: &'static str = "channels";
    const ONE: &'static str = select!("AND c.channel_id = $2 AND c.deleted_at IS NULL");
    const ALL: &'static str = select!("AND c.deleted_at IS NULL ORDER BY c.channel_id");
    const FORWARD: &'static str = select!(
        "AND c.deleted_at IS NULL AND ($2::timestamptz IS NULL OR (c.created_at, c.channel_id) < ($2, $3))
         ORDER BY c.created_at DESC, c.channel_id DESC LIMIT $4"
    );
    const BACKWARD: &'static str = select!(
        "AND c.deleted_at IS NULL AND ($2::timestamptz IS NULL OR (c.created_at, c.channel_id) > ($2, $3))
         ORDER BY c.created_at, c.channel_id LIMIT $4"
    );
    const IN_PARTS: bool = true;

    async fn read(work: &mut Work, corp: &CorpId, rows: &[PgRow]) -> Result<Vec<Self>, Error> {
        with_states(work, corp, rows).await
    }

    fn place(&self) -> (u64, &str) {
        (self.created_ms, self.id.as_str())
    }
}

impl Configured for Channel {
    type Id = ChannelId;
    type New = NewChannel;
    type Misfit = ChannelRefused;
    type Use = std::convert::Infallible;
    const KIND: &'static str = "channel";

    fn version(&self) -> u64 {
        self.version
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "pool": self.pool,
            "states": self.states,
            "welcome": self.welcome,
            "card": self.card,
            "needs": self.needs,
            "per_hour": self.limits.per_hour,
            "per_day": self.limits.per_day,
            "visits": self.visits.as_ref().map(Visits::json),
        })
    }

    fn is(&self, new: &NewChannel) -> bool {
        self.name == new.name
            && self.pool == new.pool
            && self.states == new.states
            && self.welcome == new.welcome
            && self.card == new.card
            && self.needs == new.needs
            && self.limits == new.limits
            && self.visits == new.visits
    }

    async fn lock(
        work: &mut Work,
        corp: &CorpId,
        id: &ChannelId,
    ) -> Result<Option<Found<Channel>>, Error> {
        let query = work
            .query(select!("AND c.channel_id = $2 FOR UPDATE"))
            .bind(corp.as_str())
            .bind(id.as_str().to_owned());
        let Some(row) = work.fetch_optional(query).await? else {
            return Ok(None);
        };
        let deleted = row.ms_option("deleted_at")?.is_some();
        let channels = with_states(work, corp, std::slice::from_ref(&row)).await?;
        let channel = channels.into_iter().next();
        Ok(channel.map(|row| Found { row, deleted }))
    }

    /// What of the wish does not fit: the pool must be there, the States nobody else's. The pool stays while the
    /// transaction lasts.
    async fn misfit(
        work: &mut Work,
        corp: &CorpId,
        id: &ChannelId,
        new: &NewChannel,
    ) -> Result<Option<ChannelRefused>, Error> {
        let query = work
            .query(
                "SELECT offer_tries IS NOT NULL AS asks FROM pools
                 WHERE corp_id = $1 AND pool_id = $2 AND deleted_at IS NULL FOR SHARE",
            )
            .bind(corp.as_str())
            .bind(new.pool.as_str().to_owned());
        let Some(pool) = work.fetch_optional(query).await? else {
            return Ok(Some(ChannelRefused::NoPool));
        };
        if new.visits.is_some() && pool.value("asks")? {
            return Ok(Some(ChannelRefused::PoolOffers));
        }
        let query = work
            .query(
                "SELECT s.state, s.channel_id FROM channel_states AS s
                 JOIN channels AS c ON c.corp_id = s.corp_id AND c.channel_id = s.channel_id
                 WHERE s.corp_id = $1 AND s.state = ANY($2) AND s.channel_id <> $3 AND c.deleted_at IS NULL
                 ORDER BY s.state LIMIT 1",
            )
            .bind(corp.as_str())
            .bind(new.states.clone())
            .bind(id.as_str().to_owned());
        let taken = work.fetch_optional(query).await?;
        taken
            .map(|row| {
                Ok(ChannelRefused::StateTaken {
                    state: row.value("state")?,
                    channel: row.parsed("channel_id")?,
                })
            })
            .transpose()
    }

    async fn save(
        work: &mut Work,
        corp: &CorpId,
        id: &ChannelId,
        new: &NewChannel,
        found: Option<&Found<Channel>>,
        now_ms: u64,
    ) -> Result<bool, Error> {
        let query = work
            .query(
                "INSERT INTO channels AS c
                    (corp_id, channel_id, name, pool_id, welcome, card, version, created_at, updated_at,
                     slots_per_member, hold_seconds, title, public_code, needs,
                     per_hour, per_day)
                 VALUES ($1, $2, $3, $4, $5, $6, 1, $7, $7, $9, $10, $11, $12, $13, $14, $15)
                 ON CONFLICT (corp_id, channel_id) DO UPDATE SET name = $3, pool_id = $4, welcome = $5, card = $6,
                    slots_per_member = $9, hold_seconds = $10, title = $11, needs = $13,
                    per_hour = $14, per_day = $15,
                    public_code = coalesce(c.public_code, excluded.public_code),
                    version = c.version + 1, updated_at = $7, deleted_at = NULL,
                    created_at = CASE WHEN c.deleted_at IS NULL THEN c.created_at ELSE $7 END
                 WHERE $8",
            )
            .bind(corp.as_str())
            .bind(id.as_str().to_owned())
            .bind(clean(&new.name).into_owned())
            .bind(new.pool.as_str().to_owned())
            .bind(new.welcome.as_ref().map(clean_json))
            .bind(new.card)
            .bind(at(now_ms))
            .bind(found.is_some())
            .bind(new.visits.as_ref().map(Visits::slots))
            .bind(new.visits.as_ref().map(Visits::hold))
            .bind(new.visits.as_ref().map(|visits| clean(&visits.title).into_owned()))
            .bind(new.visits.as_ref().map(|_| random(22)))
            .bind(skills_column(&new.needs))
            .bind(limits::number(new.limits.per_hour))
            .bind(limits::number(new.limits.per_day));
        Ok(work.execute(query).await? > 0
            && save_states(work, corp, id, &new.states, now_ms).await?)
    }

    async fn in_use(
        _: &mut Work,
        _: &CorpId,
        _: &ChannelId,
    ) -> Result<Option<std::convert::Infallible>, Error> {
        Ok(None)
    }

    async fn remove(
        work: &mut Work,
        corp: &CorpId,
        id: &ChannelId,
        now_ms: u64,
    ) -> Result<(), Error> {
        let query = work
            .query(
                "UPDATE channels SET deleted_at = $3, updated_at = $3, version = version + 1
                 WHERE corp_id = $1 AND channel_id = $2",
            )
            .bind(corp.as_str())
            .bind(id.as_str().to_owned())
            .bind(at(now_ms));
        work.execute(query).await?;
        Ok(())
    }
}

/// False: another channel took one of them in the meantime.
async fn save_states(
    work: &mut Work,
    corp: &CorpId,
    id: &ChannelId,
    states: &[String],
    now_ms: u64,
) -> Result<bool, Error> {
    let query = work
        .query(
            "UPDATE channel_states SET retired_at = coalesce(retired_at, $4)
             WHERE corp_id = $1 AND channel_id = $2 AND state <> ALL($3)",
        )
        .bind(corp.as_str())
        .bind(id.as_str().to_owned())
        .bind(states.to_vec())
        .bind(at(now_ms));
    work.execute(query).await?;
    // In the order of their keys, so that two channels that want the same do not wait for each other.
    let mut placed: Vec<(&String, i32)> = states.iter().zip(0..).collect();
    placed.sort();
    let query = work
        .query(
            "INSERT INTO channel_states AS s (corp_id, state, channel_id, position, created_at)
             SELECT $1, n.state, $2, n.position, $5 FROM unnest($3::text[], $4::integer[]) AS n (state, position)
             ON CONFLICT (corp_id, state) DO UPDATE SET channel_id = $2, position = excluded.position,
                retired_at = NULL
             WHERE s.channel_id = $2 OR EXISTS (SELECT FROM channels AS c
                WHERE c.corp_id = s.corp_id AND c.channel_id = s.channel_id AND c.deleted_at IS NOT NULL)",
        )
        .bind(corp.as_str())
        .bind(id.as_str().to_owned())
        .bind(column(&placed, |(state, _)| (*state).clone()))
        .bind(column(&placed, |(_, position)| *position))
        .bind(at(now_ms));
    Ok(work.execute(query).await? == placed.len() as u64)
}

async fn with_states(
    work: &mut Work,
    corp: &CorpId,
    rows: &[PgRow],
) -> Result<Vec<Channel>, Error> {
    let mut channels = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let query = work
        .query(
            "SELECT channel_id, state, position, retired_at FROM channel_states
             WHERE corp_id = $1 AND channel_id = ANY($2)",
        )
        .bind(corp.as_str())
        .bind(column(&channels, |channel| channel.id.as_str().to_owned()));
    let mut listed: HashMap<ChannelId, BTreeMap<(i32, String), bool>> = HashMap::new();
    for row in work.fetch_all(query).await? {
        let place = (row.value("position")?, row.value("state")?);
        let retired = row.ms_option("retired_at")?.is_some();
        listed
            .entry(row.parsed("channel_id")?)
            .or_default()
            .insert(place, retired);
    }
    for channel in &mut channels {
        for ((_, state), retired) in listed.remove(&channel.id).unwrap_or_default() {
            if retired {
                channel.retired_states.push(state);
            } else {
                channel.states.push(state);
            }
        }
    }
    Ok(channels)
}

fn read(row: &PgRow) -> Result<Channel, Error> {
    Ok(Channel {
        id: row.parsed("channel_id")?,
        name: row.value("name")?,
        pool: row.parsed("pool_id")?,
        states: Vec::new(),
        retired_states: Vec::new(),
        welcome: row.value("welcome")?,
        card: row.value("card")?,
        needs: read_skills(row, "needs")?,
        limits: limits::read(row)?,
        visits: Visits::read(row)?,
        public_code: row.value("public_code")?,
        version: row.number("version")?,
        created_ms: row.ms("created_at")?,
        updated_ms: row.ms("updated_at")?,
    })
}
