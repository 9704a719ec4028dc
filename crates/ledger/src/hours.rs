//! What decides beside a schedule whether a member is at work: his leaves, and what was last said of his presence.

use std::collections::HashMap;
use std::str::FromStr;

use allocation::{CorpId, MemberId, Reason, ScheduleId};
use serde_json::{Value, json};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::Error;
use crate::audit::{AuditRecord, Trail, write};
use crate::connection::{Db, Work};
use crate::error::retry;
use crate::members;
use crate::row::Columns;
use crate::text::clean;
use crate::times::{at, at_option};

/// Leaves of one member that are not over.
const MOST_LEAVES: usize = 100;

#[derive(Debug, Clone)]
pub struct Hours {
    pub(crate) db: Db,
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        pub enum $name { $($(#[$about])* $variant),+ }

        impl $name {
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(word: &str) -> Result<Self, String> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    other => Err(format!("unknown word {other}")),
                }
            }
        }
    };
}

words!(
    /// How a member with a schedule comes on within his hours.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    PresenceMode {
        /// By himself.
        #[default]
        Auto = "auto",
        /// When he, or his heartbeat, says so.
        Manual = "manual",
    }
);

words!(
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    SaidWhat {
        /// Within his hours.
        On = "on",
        Off = "off",
        /// On outside his hours too.
        Override = "override",
    }
);

/// What was last said of a member, as long as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    pub what: SaidWhat,
    /// None: until something else is said.
    pub until_ms: Option<u64>,
    pub reason: Option<Reason>,
}

impl Said {
    fn json(&self) -> Value {
        json!({"said": self.what.as_str(), "until_ms": self.until_ms, "reason": self.reason})
    }
}

/// Not at work, whatever the schedule says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leave {
    pub id: Uuid,
    pub from_ms: u64,
    pub to_ms: u64,
    pub reason: Reason,
    pub created_ms: u64,
}

impl Leave {
    fn json(&self) -> Value {
        json!({"id": self.id, "from_ms": self.from_ms, "to_ms": self.to_ms, "reason": self.reason})
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLeave {
    pub from_ms: u64,
    pub to_ms: u64,
    pub reason: Reason,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddLeave {
    Added(Leave),
    NoMember,
    /// He has as many as are possible; how many that is.
    TooMany(usize),
}

/// Everything about one member that decides whether he is at work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberHours {
    pub member: MemberId,
    pub blocked: Option<Reason>,
    pub schedule: Option<ScheduleId>,
    pub mode: PresenceMode,
    /// What stands.
    pub said: Option<Said>,
    /// Those that are not over, by their beginning.
    pub leaves: Vec<Leave>,
}

impl MemberHours {
    /// There is more to decide by than his heartbeat.
    pub fn is_any(&self) -> bool {
        self.schedule.is_some() || self.said.is_some() || !self.leaves.is_empty()
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT m.member, m.blocked, m.schedule_id, m.presence_mode, p.said, p.said_until, p.said_reason
             FROM members AS m
             LEFT JOIN member_presence AS p ON p.corp_id = m.corp_id AND p.member = m.member
                AND (p.said_until IS NULL OR p.said_until > $2)
             WHERE m.corp_id = $1 ",
            $rest
        )
    };
}

const LEAVES: &str = "SELECT l.member, l.id, l.from_at, l.to_at, l.reason, l.created_at FROM leaves AS l
     WHERE l.corp_id = $1 AND l.cancelled_at IS NULL AND l.to_at > $2 AND ($3::text IS NULL OR l.member = $3)
     ORDER BY l.from_at, l.id";

impl Hours {
    /// Changes whenever a schedule, calendar, member, leave, or what was said of somebody does.
    pub async fn mark(&self, corp: &CorpId) -> Result<String, Error> {
        let mut work = self.db.single().await?;
        // Rows stay when what they describe is deleted, and versions only rise.
        let query = work
            .query(
                "SELECT concat_ws(' ',
                    (SELECT coalesce(sum(version), 0) FROM schedules WHERE corp_id = $1),
                    (SELECT coalesce(sum(version), 0) FROM calendars WHERE corp_id = $1),
                    (SELECT coalesce(sum(version), 0) FROM members WHERE corp_id = $1),
                    (SELECT coalesce(sum(version), 0) FROM member_presence WHERE corp_id = $1)) AS mark",
            )
            .bind(corp.as_str());
        let mark = work.fetch_one(query).await?.value("mark")?;
        work.end().await?;
        Ok(mark)
    }

    /// Members with a schedule, a leave that is not over, or something said of them.
    pub async fn all(&self, corp: &CorpId, now_ms: u64) -> Result<Vec<MemberHours>, Error> {
        let mut work = self.db.transaction().await?;
        let query = work.query(LEAVES).bind(corp.as_str()).bind(at(now_ms));
        let query = query.bind(None::<String>);
        let mut leaves: HashMap<MemberId, Vec<Leave>> = HashMap::new();
        for row in work.fetch_all(query).await? {
            let member = row.parsed("member")?;
            leaves.entry(member).or_default().push(read_leave(&row)?);
        }
        let on_leave: Vec<String> = leaves.keys().map(|member| member.to_string()).collect();
        let query = work
            .query(select!(
                "AND (m.schedule_id IS NOT NULL OR p.said IS NOT NULL OR m.member = ANY($3)) ORDER BY m.member"
            ))
            .bind(corp.as_str())
            .bind(at(now_ms))
            .bind(on_leave);
        let rows = work.fetch_all(query).await?;
        work.commit().await?;
        rows.iter()
            .map(|row| {
                let mut hours = read(row)?;
                hours.leaves = leaves.remove(&hours.member).unwrap_or_default();
                Ok(hours)
            })
            .collect()
    }

    /// None: there is no such member.
    pub async fn get(
        &self,
        corp: &CorpId,
        member: &MemberId,
        now_ms: u64,
    ) -> Result<Option<MemberHours>, Error> {
        let mut work = self.db.transaction().await?;
        let hours = one(&mut work, corp, member, now_ms).await?;
        work.commit().await?;
        Ok(hours)
    }

    /// Says something of a member, or with None that nothing stands any more. `decide` is asked with what is, behind a
    /// lock, and answers what is to be; answers None if there is no such member.
    pub async fn say<R>(
        &self,
        corp: &CorpId,
        member: &MemberId,
        trail: &Trail,
        decide: impl Fn(&MemberHours) -> Result<Option<Said>, R>,
    ) -> Result<Option<Result<MemberHours, R>>, Error> {
        retry(|| async {
            let mut work = self.db.transaction().await?;
            if !members::lock_row(&mut work, corp, member).await? {
                work.roll_back().await?;
                return Ok(None);
            }
            let Some(mut hours) = one(&mut work, corp, member, trail.now_ms).await? else {
                work.roll_back().await?;
                return Ok(None);
            };
            let said = match decide(&hours) {
                Ok(said) if said != hours.said => said,
                same_or_refused => {
                    work.roll_back().await?;
                    return Ok(Some(same_or_refused.map(|_| hours)));
                }
            };
            let query = work
                .query(
                    "INSERT INTO member_presence AS p
                        (corp_id, member, said, said_until, said_reason, said_by, said_at)
                     VALUES ($1, $2, $3, $4, $5, $6, $7)
                     ON CONFLICT (corp_id, member) DO UPDATE SET said = $3, said_until = $4, said_reason = $5,
                        said_by = $6, said_at = $7, version = p.version + 1",
                )
                .bind(corp.as_str())
                .bind(member.as_str().to_owned())
                .bind(said.as_ref().map(|said| said.what.as_str()))
                .bind(at_option(said.as_ref().and_then(|said| said.until_ms)))
                .bind(said.as_ref().and_then(|said| said.reason.as_ref().map(Reason::to_string)))
                .bind(clean(&trail.actor).into_owned())
                .bind(at(trail.now_ms));
            work.execute(query).await?;
            let before = hours.said.as_ref().map(Said::json);
            let record = trail.record(
                "presence.say",
                format!("members/{member}"),
                before,
                said.as_ref().map(Said::json),
            );
            write(&mut work, corp, &[&record]).await?;
            work.commit().await?;
            hours.said = said;
            Ok(Some(Ok(hours)))
        })
        .await
    }

    pub async fn add_leave(
        &self,
        corp: &CorpId,
        member: &MemberId,
        new: &NewLeave,
        trail: &Trail,
    ) -> Result<AddLeave, Error> {
        let leave = Leave {
            id: Uuid::now_v7(),
            from_ms: new.from_ms,
            to_ms: new.to_ms,
            reason: new.reason.clone(),
            created_ms: trail.now_ms,
        };
        retry(|| async {
            let mut work = self.db.transaction().await?;
            if !members::lock_row(&mut work, corp, member).await? {
                work.roll_back().await?;
                return Ok(AddLeave::NoMember);
            }
            if leaves(&mut work, corp, member, trail.now_ms).await?.len() >= MOST_LEAVES {
                work.roll_back().await?;
                return Ok(AddLeave::TooMany(MOST_LEAVES));
            }
            let query = work
                .query(
                    "INSERT INTO leaves (id, corp_id, member, from_at, to_at, reason, created_at)
                     VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
                )
                .bind(leave.id)
                .bind(corp.as_str())
                .bind(member.as_str().to_owned())
                .bind(at(leave.from_ms))
                .bind(at(leave.to_ms))
                .bind(leave.reason.as_str().to_owned())
                .bind(at(leave.created_ms));
            work.execute(query).await?;
            let record = trail.record(
                "leave.add",
                format!("members/{member}"),
                None,
                Some(leave.json()),
            );
            changed(work, corp, member, &record).await?;
            Ok(AddLeave::Added(leave.clone()))
        })
        .await
    }

    /// None: he has no such leave, or it is over.
    pub async fn cancel_leave(
        &self,
        corp: &CorpId,
        member: &MemberId,
        id: Uuid,
        trail: &Trail,
    ) -> Result<Option<Leave>, Error> {
        retry(|| async {
            let mut work = self.db.transaction().await?;
            let query = work
                .query(
                    "UPDATE leaves SET cancelled_at = $4
                     WHERE id = $3 AND corp_id = $1 AND member = $2 AND cancelled_at IS NULL AND to_at > $4
                     RETURNING id, from_at, to_at, reason, created_at",
                )
                .bind(corp.as_str())
                .bind(member.as_str().to_owned())
                .bind(id)
                .bind(at(trail.now_ms));
            let Some(row) = work.fetch_optional(query).await? else {
                work.roll_back().await?;
                return Ok(None);
            };
            let leave = read_leave(&row)?;
            let record = trail.record(
                "leave.cancel",
                format!("members/{member}"),
                Some(leave.json()),
                None,
            );
            changed(work, corp, member, &record).await?;
            Ok(Some(leave))
        })
        .await
    }
}

/// A member's leaves changed: so does what processes compare.
async fn changed(
    mut work: Work,
    corp: &CorpId,
    member: &MemberId,
    record: &AuditRecord,
) -> Result<(), Error> {
    let query = work
        .query(
            "INSERT INTO member_presence AS p (corp_id, member) VALUES ($1, $2)
             ON CONFLICT (corp_id, member) DO UPDATE SET version = p.version + 1",
        )
        .bind(corp.as_str())
        .bind(member.as_str().to_owned());
    work.execute(query).await?;
    write(&mut work, corp, &[record]).await?;
    work.commit().await
}

async fn one(
    work: &mut Work,
    corp: &CorpId,
    member: &MemberId,
    now_ms: u64,
) -> Result<Option<MemberHours>, Error> {
    let query = work
        .query(select!("AND m.member = $3"))
        .bind(corp.as_str())
        .bind(at(now_ms))
        .bind(member.as_str().to_owned());
    let Some(row) = work.fetch_optional(query).await? else {
        return Ok(None);
    };
    let mut hours = read(&row)?;
    hours.leaves = leaves(work, corp, member, now_ms).await?;
    Ok(Some(hours))
}

async fn leaves(
    work: &mut Work,
    corp: &CorpId,
    member: &MemberId,
    now_ms: u64,
) -> Result<Vec<Leave>, Error> {
    let query = work.query(LEAVES).bind(corp.as_str()).bind(at(now_ms));
    let query = query.bind(Some(member.as_str().to_owned()));
    let rows = work.fetch_all(query).await?;
    rows.iter().map(read_leave).collect()
}

fn read(row: &PgRow) -> Result<MemberHours, Error> {
    let what: Option<SaidWhat> = row.parsed_option("said")?;
    let said = match what {
        Some(what) => Some(Said {
            what,
            until_ms: row.ms_option("said_until")?,
            reason: row.parsed_option("said_reason")?,
        }),
        None => None,
    };
    Ok(MemberHours {
        member: row.parsed("member")?,
        blocked: row.parsed_option("blocked")?,
        schedule: row.parsed_option("schedule_id")?,
        mode: row.parsed("presence_mode")?,
        said,
        leaves: Vec::new(),
    })
}

fn read_leave(row: &PgRow) -> Result<Leave, Error> {
    Ok(Leave {
        id: row.value("id")?,
        from_ms: row.ms("from_at")?,
        to_ms: row.ms("to_at")?,
        reason: row.parsed("reason")?,
        created_ms: row.ms("created_at")?,
    })
}
