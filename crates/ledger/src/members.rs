//! People who can be given customers: how they are spelled, how many they take, and whether they are left out.

use std::collections::BTreeSet;

use allocation::{CorpId, Limits, MemberId, PoolId, Reason, ScheduleId, Skill};
use serde_json::{Value, json};
use sqlx::postgres::PgRow;

use crate::Error;
use crate::audit::{Trail, write};
use crate::connection::{Db, Work};
use crate::cursor::{Page, PageRequest, Window};
use crate::error::retry;
use crate::hours::PresenceMode;
use crate::log_write::column;
use crate::put::{Precondition, Put};
use crate::row::{Columns, signed};
use crate::text::clean;
use crate::times::at;

const LIST: &str = "members";

#[derive(Debug, Clone)]
pub struct Members {
    pub(crate) db: Db,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Key form: WeCom's ids ignore case.
    pub member: MemberId,
    /// As it is spelled: by WeCom, as soon as it was heard from there.
    pub userid: String,
    /// How visitors see him; None = by his userid.
    pub display_name: Option<String>,
    /// Open allocations at a time over all pools; None = no limit.
    pub cap: Option<u32>,
    /// Given in one hour, over all pools.
    pub per_hour: Option<u32>,
    /// Given on one day, from midnight to midnight where he is.
    pub per_day: Option<u32>,
    /// One of his pools limits what he is given in an hour or on a day.
    pub is_counted_in_pool: bool,
    /// Left out of every choice, and why.
    pub blocked: Option<Reason>,
    /// None: he is there when a heartbeat says so.
    pub schedule: Option<ScheduleId>,
    pub presence_mode: PresenceMode,
    /// What he can do.
    pub skills: BTreeSet<Skill>,
    pub version: u64,
    pub created_ms: u64,
    pub updated_ms: u64,
}

impl Member {
    /// Over all pools.
    pub fn limits(&self) -> Limits {
        Limits {
            at_a_time: self.cap,
            per_hour: self.per_hour,
            per_day: self.per_day,
        }
    }

    /// It matters when his hour and his day end.
    pub fn is_counted(&self) -> bool {
        self.per_hour.is_some() || self.per_day.is_some() || self.is_counted_in_pool
    }

    /// As the audit shows it.
    fn json(&self) -> Value {
        let blocked = self.blocked.as_ref().map(Reason::as_str);
        json!({
            "userid": self.userid,
            "display_name": self.display_name,
            "cap": self.cap,
            "per_hour": self.per_hour,
            "per_day": self.per_day,
            "blocked": blocked,
            "schedule": self.schedule,
            "presence_mode": self.presence_mode.as_str(),
            "skills": self.skills,
        })
    }
}

/// What a caller wants a member to be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewMember {
    pub userid: String,
    pub display_name: Option<String>,
    pub cap: Option<u32>,
    pub per_hour: Option<u32>,
    pub per_day: Option<u32>,
    pub blocked: Option<Reason>,
    pub schedule: Option<ScheduleId>,
    pub presence_mode: PresenceMode,
    pub skills: BTreeSet<Skill>,
}

/// Why a member cannot be like this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoSchedule;

/// Every field that is given must match.
#[derive(Debug, Clone, Default)]
pub struct MemberFilter {
    pub pool: Option<PoolId>,
    pub blocked: Option<bool>,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT m.member, m.userid, m.spelled_by, m.cap, m.blocked, m.schedule_id, m.presence_mode,
                m.version, m.created_at, m.updated_at, m.per_hour, m.per_day, m.skills, m.display_name,
                EXISTS (SELECT FROM pool_members AS counted
                    WHERE counted.corp_id = m.corp_id AND counted.member = m.member
                        AND (counted.per_hour IS NOT NULL OR counted.per_day IS NOT NULL)) AS counted_in_pool
             FROM members AS m WHERE m.corp_id = $1 ",
            $rest
        )
    };
}

macro_rules! list {
    ($rest:literal) => {
        concat!(
            select!(
                "AND ($2::text IS NULL OR EXISTS (SELECT FROM pool_members AS p
                    WHERE p.corp_id = $1 AND p.pool_id = $2 AND p.member = m.member))
                 AND ($3::boolean IS NULL OR $3 = (m.blocked IS NOT NULL)) "
            ),
            $rest
        )
    };
}

const FORWARD: &str = list!(
    "AND ($4::timestamptz IS NULL OR (m.created_at, m.member) < ($4, $5))
     ORDER BY m.created_at DESC, m.member DESC LIMIT $6"
);
const BACKWARD: &str = list!(
    "AND ($4::timestamptz IS NULL OR (m.created_at, m.member) > ($4, $5))
     ORDER BY m.created_at, m.member LIMIT $6"
);

impl Members {
    pub async fn get(&self, corp: &CorpId, member: &MemberId) -> Result<Option<Member>, Error> {
        Ok(self
            .get_many(corp, std::slice::from_ref(member))
            .await?
            .pop())
    }

    /// In no particular order; who is not known is left out.
    pub async fn get_many(
        &self,
        corp: &CorpId,
        members: &[MemberId],
    ) -> Result<Vec<Member>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(select!("AND m.member = ANY($2)"))
            .bind(corp.as_str())
            .bind(column(members, |member| member.as_str().to_owned()));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter().map(read).collect()
    }

    pub async fn all(&self, corp: &CorpId) -> Result<Vec<Member>, Error> {
        let mut work = self.db.single().await?;
        let query = work.query(select!("ORDER BY m.member")).bind(corp.as_str());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter().map(read).collect()
    }

    /// The latest first.
    pub async fn list(
        &self,
        corp: &CorpId,
        filter: &MemberFilter,
        page: &PageRequest,
    ) -> Result<Page<Member>, Error> {
        let window = Window::read(page, LIST)?;
        let mut work = self.db.single().await?;
        let query = work
            .query_once(if window.is_backward() {
                BACKWARD
            } else {
                FORWARD
            })
            .bind(corp.as_str())
            .bind(filter.pool.as_ref().map(|pool| pool.as_str().to_owned()))
            .bind(filter.blocked)
            .bind(window.time())
            .bind(window.id().map(str::to_owned))
            .bind(window.fetch());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let members = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Ok(window.page(LIST, members, |member| {
            (at(member.created_ms), member.member.as_str().to_owned())
        }))
    }

    pub async fn put(
        &self,
        corp: &CorpId,
        member: &MemberId,
        new: &NewMember,
        precondition: Precondition,
        trail: &Trail,
    ) -> Result<Put<Member, NoSchedule>, Error> {
        loop {
            let put = retry(|| self.try_put(corp, member, new, precondition, trail)).await?;
            if let Some(put) = put {
                return Ok(put);
            }
        }
    }

    /// None: somebody else has just made the row.
    async fn try_put(
        &self,
        corp: &CorpId,
        member: &MemberId,
        new: &NewMember,
        precondition: Precondition,
        trail: &Trail,
    ) -> Result<Option<Put<Member, NoSchedule>>, Error> {
        let mut work = self.db.transaction().await?;
        let found = lock(&mut work, corp, member).await?;
        let present = found.as_ref().map(|(member, _)| member.clone());
        if !precondition.holds(present.as_ref().map(|member| member.version)) {
            work.roll_back().await?;
            return Ok(Some(Put::Stale(present)));
        }
        if !has_schedule(&mut work, corp, new.schedule.as_ref()).await? {
            work.roll_back().await?;
            return Ok(Some(Put::Refused(NoSchedule)));
        }
        let Some((before, spelled_by_wecom)) = found else {
            let after = Member {
                member: member.clone(),
                userid: new.userid.clone(),
                display_name: new.display_name.clone(),
                cap: new.cap,
                per_hour: new.per_hour,
                per_day: new.per_day,
                is_counted_in_pool: false,
                blocked: new.blocked.clone(),
                schedule: new.schedule.clone(),
                presence_mode: new.presence_mode,
                skills: new.skills.clone(),
                version: 1,
                created_ms: trail.now_ms,
                updated_ms: trail.now_ms,
            };
            let query = work
                .query(
                    "INSERT INTO members (corp_id, member, userid, spelled_by, cap, blocked, created_at, updated_at,
                        schedule_id, presence_mode, per_hour, per_day, skills, display_name)
                     VALUES ($1, $2, $3, 'console', $4, $5, $6, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT DO NOTHING",
                )
                .bind(corp.as_str())
                .bind(member.as_str().to_owned())
                .bind(clean(&new.userid).into_owned())
                .bind(new.cap.map(i64::from))
                .bind(new.blocked.as_ref().map(|reason| reason.as_str().to_owned()))
                .bind(at(trail.now_ms))
                .bind(new.schedule.as_ref().map(|id| id.as_str().to_owned()))
                .bind(new.presence_mode.as_str())
                .bind(new.per_hour.map(i64::from))
                .bind(new.per_day.map(i64::from))
                .bind(skills_column(&new.skills))
                .bind(display_name(new.display_name.as_ref()));
            if work.execute(query).await? == 0 {
                work.roll_back().await?;
                return Ok(None);
            }
            finish(work, corp, trail, None, &after).await?;
            return Ok(Some(Put::Created(after)));
        };
        let mut after = before.clone();
        (after.cap, after.blocked) = (new.cap, new.blocked.clone());
        (after.per_hour, after.per_day) = (new.per_hour, new.per_day);
        (after.schedule, after.presence_mode) = (new.schedule.clone(), new.presence_mode);
        after.skills.clone_from(&new.skills);
        after.display_name.clone_from(&new.display_name);
        if !spelled_by_wecom {
            after.userid.clone_from(&new.userid);
        }
        if after == before {
            work.roll_back().await?;
            return Ok(Some(Put::Same(before)));
        }
        update(&mut work, corp, trail, &mut after).await?;
        finish(work, corp, trail, Some(&before), &after).await?;
        Ok(Some(Put::Changed(after)))
    }

    /// Blocks a member, or ends that; None: there is no such member.
    pub async fn set_blocked(
        &self,
        corp: &CorpId,
        member: &MemberId,
        blocked: Option<&Reason>,
        trail: &Trail,
    ) -> Result<Option<Member>, Error> {
        retry(|| async {
            let mut work = self.db.transaction().await?;
            let Some((before, _)) = lock(&mut work, corp, member).await? else {
                work.roll_back().await?;
                return Ok(None);
            };
            let mut after = before.clone();
            after.blocked = blocked.cloned();
            if after == before {
                work.roll_back().await?;
                return Ok(Some(before));
            }
            update(&mut work, corp, trail, &mut after).await?;
            finish(work, corp, trail, Some(&before), &after).await?;
            Ok(Some(after))
        })
        .await
    }

    /// WeCom spells these members like this: known ones are shown so from now on. Answers how many changed.
    pub async fn heard(
        &self,
        corp: &CorpId,
        userids: &[String],
        now_ms: u64,
    ) -> Result<u64, Error> {
        let mut spelled: Vec<(MemberId, String)> = userids
            .iter()
            .filter_map(|userid| Some((MemberId::new(userid.clone()).ok()?, userid.clone())))
            .collect();
        spelled.sort();
        spelled.dedup_by(|one, two| one.0 == two.0);
        retry(|| async {
            let mut work = self.db.single().await?;
            let query = work
                .query(
                    "WITH locked AS (
                        SELECT m.member, s.userid FROM members AS m
                        JOIN unnest($2::text[], $3::text[]) AS s (member, userid) ON s.member = m.member
                        WHERE m.corp_id = $1 AND (m.userid <> s.userid OR m.spelled_by <> 'wecom')
                        ORDER BY m.member FOR UPDATE OF m)
                     UPDATE members AS m SET userid = locked.userid, spelled_by = 'wecom',
                        version = m.version + 1, updated_at = $4
                     FROM locked WHERE m.corp_id = $1 AND m.member = locked.member",
                )
                .bind(corp.as_str())
                .bind(column(&spelled, |(member, _)| member.as_str().to_owned()))
                .bind(column(&spelled, |(_, userid)| clean(userid).into_owned()))
                .bind(at(now_ms));
            let changed = work.execute(query).await?;
            work.end().await?;
            Ok(changed)
        })
        .await
    }
}

/// Those of `members` that are not known. They cannot go while the transaction lasts.
pub(crate) async fn unknown(
    work: &mut Work,
    corp: &CorpId,
    members: &[MemberId],
) -> Result<Vec<MemberId>, Error> {
    let query = work
        .query(
            "SELECT member FROM members WHERE corp_id = $1 AND member = ANY($2) ORDER BY member FOR KEY SHARE",
        )
        .bind(corp.as_str())
        .bind(column(members, |member| member.as_str().to_owned()));
    let rows = work.fetch_all(query).await?;
    let known = rows
        .iter()
        .map(|row| row.parsed("member"))
        .collect::<Result<std::collections::HashSet<MemberId>, _>>()?;
    Ok(members
        .iter()
        .filter(|member| !known.contains(member))
        .cloned()
        .collect())
}

/// Whether it is there; it stays while the transaction lasts.
async fn has_schedule(
    work: &mut Work,
    corp: &CorpId,
    schedule: Option<&ScheduleId>,
) -> Result<bool, Error> {
    let Some(schedule) = schedule else {
        return Ok(true);
    };
    let query = work
        .query(
            "SELECT FROM schedules WHERE corp_id = $1 AND schedule_id = $2 AND deleted_at IS NULL FOR SHARE",
        )
        .bind(corp.as_str())
        .bind(schedule.as_str().to_owned());
    Ok(work.fetch_optional(query).await?.is_some())
}

/// For what belongs to a member: of two changes one waits for the other. False: there is no such member.
pub(crate) async fn lock_row(
    work: &mut Work,
    corp: &CorpId,
    member: &MemberId,
) -> Result<bool, Error> {
    Ok(lock(work, corp, member).await?.is_some())
}

/// The row, and whether the spelling is WeCom's.
async fn lock(
    work: &mut Work,
    corp: &CorpId,
    member: &MemberId,
) -> Result<Option<(Member, bool)>, Error> {
    let query = work
        .query(select!("AND m.member = $2 FOR NO KEY UPDATE"))
        .bind(corp.as_str())
        .bind(member.as_str().to_owned());
    let row = work.fetch_optional(query).await?;
    row.as_ref()
        .map(|row| Ok((read(row)?, row.value::<&str>("spelled_by")? == "wecom")))
        .transpose()
}

async fn update(
    work: &mut Work,
    corp: &CorpId,
    trail: &Trail,
    after: &mut Member,
) -> Result<(), Error> {
    after.version += 1;
    after.updated_ms = trail.now_ms;
    let query = work
        .query(
            "UPDATE members SET userid = $3, cap = $4, blocked = $5, version = $6, updated_at = $7,
                schedule_id = $8, presence_mode = $9, per_hour = $10, per_day = $11, skills = $12,
                display_name = $13
             WHERE corp_id = $1 AND member = $2",
        )
        .bind(corp.as_str())
        .bind(after.member.as_str().to_owned())
        .bind(clean(&after.userid).into_owned())
        .bind(after.cap.map(i64::from))
        .bind(
            after
                .blocked
                .as_ref()
                .map(|reason| reason.as_str().to_owned()),
        )
        .bind(signed(after.version))
        .bind(at(trail.now_ms))
        .bind(after.schedule.as_ref().map(|id| id.as_str().to_owned()))
        .bind(after.presence_mode.as_str())
        .bind(after.per_hour.map(i64::from))
        .bind(after.per_day.map(i64::from))
        .bind(skills_column(&after.skills))
        .bind(display_name(after.display_name.as_ref()));
    work.execute(query).await?;
    Ok(())
}

async fn finish(
    mut work: Work,
    corp: &CorpId,
    trail: &Trail,
    before: Option<&Member>,
    after: &Member,
) -> Result<(), Error> {
    let entity = format!("members/{}", after.member);
    let record = trail.record(
        "member.put",
        entity,
        before.map(Member::json),
        Some(after.json()),
    );
    write(&mut work, corp, &[&record]).await?;
    work.commit().await
}

fn read(row: &PgRow) -> Result<Member, Error> {
    Ok(Member {
        member: row.parsed("member")?,
        userid: row.value("userid")?,
        display_name: row.value("display_name")?,
        cap: limit(row, "cap")?,
        per_hour: limit(row, "per_hour")?,
        per_day: limit(row, "per_day")?,
        is_counted_in_pool: row.value("counted_in_pool")?,
        blocked: row.parsed_option("blocked")?,
        schedule: row.parsed_option("schedule_id")?,
        presence_mode: row.parsed("presence_mode")?,
        skills: read_skills(row, "skills")?.into_iter().collect(),
        version: row.number("version")?,
        created_ms: row.ms("created_at")?,
        updated_ms: row.ms("updated_at")?,
    })
}

fn display_name(name: Option<&String>) -> Option<String> {
    name.map(|name| clean(name).into_owned())
}

pub(crate) fn skills_column<'s>(skills: impl IntoIterator<Item = &'s Skill>) -> Vec<String> {
    let skills = skills.into_iter();
    skills.map(|skill| skill.as_str().to_owned()).collect()
}

pub(crate) fn read_skills(row: &PgRow, name: &'static str) -> Result<Vec<Skill>, Error> {
    let skills: Vec<String> = row.value(name)?;
    let skills = skills.into_iter().map(Skill::new).collect::<Result<_, _>>();
    skills.map_err(|problem| Error::unreadable(name, problem))
}

/// None: no limit.
pub(crate) fn limit(row: &PgRow, name: &'static str) -> Result<Option<u32>, Error> {
    let limit: Option<i64> = row.value(name)?;
    Ok(limit.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX)))
}
