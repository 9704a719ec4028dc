//! Inviters: made once, and found by their id or the code of their page.

use std::str::FromStr;

use allocation::{CampaignId, CorpId, InviterId, PersonKey, SubjectKey};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::Inviters;
use crate::Error;
use crate::audit::{Trail, write};
use crate::cursor::{Page, PageRequest, Window};
use crate::error::retry;
use crate::put::{Precondition, Put};
use crate::row::Columns;
use crate::text::{clean, random};
use crate::times::at;

const LIST: &str = "inviters";

/// What an inviter is named by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InviterKind {
    /// A customer, by WeCom's id.
    ExternalId,
    /// Anybody, by WeChat's id that is the same in all apps of a company.
    Unionid,
    /// One of the corp's own people.
    Member,
    /// Somebody whom only his caller knows.
    Other,
}

impl InviterKind {
    pub const ALL: [Self; 4] = [Self::ExternalId, Self::Unionid, Self::Member, Self::Other];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::ExternalId => "external_id",
            Self::Unionid => "unionid",
            Self::Member => "member",
            Self::Other => "other",
        }
    }
}

impl FromStr for InviterKind {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.into_iter();
        all.find(|kind| kind.as_str() == text)
            .ok_or("no kind of an inviter")
    }
}

/// Somebody who is to bring others.
#[derive(Debug, Clone)]
pub struct NewInviter {
    pub kind: InviterKind,
    pub subject: SubjectKey,
    /// Surrogate id; a member has none.
    pub customer: Option<Uuid>,
    /// Of a member.
    pub userid: Option<String>,
    /// As whom he is in groups, where that is known.
    pub person: Option<PersonKey>,
    /// Empty: none.
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inviter {
    pub id: InviterId,
    pub campaign: CampaignId,
    pub public_code: String,
    pub kind: InviterKind,
    pub subject: SubjectKey,
    pub customer: Option<Uuid>,
    pub userid: Option<String>,
    pub person: Option<PersonKey>,
    pub name: String,
    /// Edges that count or did.
    pub joined: u64,
    pub pending: u64,
    pub qualified: u64,
    pub revoked: u64,
    /// Edges that never counted.
    pub refused: u64,
    pub ranked_ms: u64,
    pub blocked_ms: Option<u64>,
    pub blocked_reason: Option<String>,
    pub version: u64,
    pub created_ms: u64,
    pub updated_ms: u64,
}

/// What an operator says of an inviter.
#[derive(Debug, Clone, Default)]
pub struct InviterSaid {
    /// Empty: none.
    pub name: String,
    /// Why he earns nothing more.
    pub blocked: Option<String>,
}

/// What a page needs of an inviter; none of it ever changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InviterPage {
    pub corp: CorpId,
    pub campaign: CampaignId,
    pub inviter: InviterId,
    pub public_code: String,
}

/// A goal that somebody reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    pub count: u64,
    pub name: String,
    pub reached_ms: u64,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT i.inviter_id, i.campaign_id, i.public_code, i.kind, i.subject, i.customer_id, i.userid, i.person, i.name,
                i.joined, i.pending, i.qualified, i.revoked, i.refused, i.ranked_at, i.blocked_at, i.blocked_reason,
                i.version, i.created_at, i.updated_at
             FROM inviters AS i WHERE i.corp_id = $1 AND i.campaign_id = $2 ",
            $rest
        )
    };
}
pub(super) use select;

const FORWARD: &str = select!(
    "AND ($3::timestamptz IS NULL OR (i.created_at, i.inviter_id) < ($3, $4))
     ORDER BY i.created_at DESC, i.inviter_id DESC LIMIT $5"
);
const BACKWARD: &str = select!(
    "AND ($3::timestamptz IS NULL OR (i.created_at, i.inviter_id) > ($3, $4))
     ORDER BY i.created_at, i.inviter_id LIMIT $5"
);

impl Inviters {
    /// The same inviter of a campaign keeps what he has; only a name is put in where he has none. Answers whether he is new.
    /// None: there is no such campaign.
    pub async fn register(
        &self,
        corp: &CorpId,
        campaign: &CampaignId,
        new: &NewInviter,
        trail: &Trail,
    ) -> Result<Option<(Inviter, bool)>, Error> {
        retry(|| self.try_register(corp, campaign, new, trail)).await
    }

    async fn try_register(
        &self,
        corp: &CorpId,
        campaign: &CampaignId,
        new: &NewInviter,
        trail: &Trail,
    ) -> Result<Option<(Inviter, bool)>, Error> {
        let mut work = self.db.transaction().await?;
        let query = work
            .query(
                "INSERT INTO inviters AS i (corp_id, campaign_id, inviter_id, public_code, kind, subject, customer_id, userid,
                    person, name, ranked_at, created_at, updated_at)
                 SELECT $1, campaign_id, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11, $11 FROM campaigns
                 WHERE corp_id = $1 AND campaign_id = $2 AND deleted_at IS NULL
                 ON CONFLICT (corp_id, campaign_id, subject) DO UPDATE SET
                    name = $10, version = i.version + 1, updated_at = $11
                 WHERE i.name = '' AND $10 <> ''
                 RETURNING i.inviter_id = $3 AS is_new",
            )
            .bind(corp.as_str())
            .bind(campaign.as_str().to_owned())
            .bind(random(16))
            .bind(random(22))
            .bind(new.kind.as_str())
            .bind(new.subject.to_string())
            .bind(new.customer)
            .bind(new.userid.as_deref().map(|userid| clean(userid).into_owned()))
            .bind(new.person.map(|person| person.to_string()))
            .bind(clean(&new.name).into_owned())
            .bind(at(trail.now_ms));
        let is_new = match work.fetch_optional(query).await? {
            Some(row) => row.value("is_new")?,
            None => false,
        };
        let query = work
            .query(select!("AND i.subject = $3"))
            .bind(corp.as_str())
            .bind(campaign.as_str().to_owned())
            .bind(new.subject.to_string());
        let Some(row) = work.fetch_optional(query).await? else {
            work.roll_back().await?;
            return Ok(None);
        };
        let inviter = read(&row)?;
        work.commit().await?;
        Ok(Some((inviter, is_new)))
    }

    pub async fn get(
        &self,
        corp: &CorpId,
        campaign: &CampaignId,
        id: &InviterId,
    ) -> Result<Option<Inviter>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(select!("AND i.inviter_id = $3"))
            .bind(corp.as_str())
            .bind(campaign.as_str().to_owned())
            .bind(id.as_str().to_owned());
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        row.as_ref().map(read).transpose()
    }

    /// The latest first.
    pub async fn list(
        &self,
        corp: &CorpId,
        campaign: &CampaignId,
        page: &PageRequest,
    ) -> Result<Page<Inviter>, Error> {
        let window = Window::read(page, LIST)?;
        let mut work = self.db.single().await?;
        let query = work
            .query_once(if window.is_backward() {
                BACKWARD
            } else {
                FORWARD
            })
            .bind(corp.as_str())
            .bind(campaign.as_str().to_owned())
            .bind(window.time())
            .bind(window.id().map(str::to_owned))
            .bind(window.fetch());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let inviters = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Ok(window.page(LIST, inviters, |inviter| {
            (at(inviter.created_ms), inviter.id.as_str().to_owned())
        }))
    }

    /// Whose page has this code, of whichever corp; its campaign may be deleted.
    pub async fn by_code(&self, code: &str) -> Result<Option<InviterPage>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query("SELECT corp_id, campaign_id, inviter_id, public_code FROM inviters WHERE public_code = $1")
            .bind(code.to_owned());
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        row.as_ref().map(page).transpose()
    }

    /// The same by his id.
    pub async fn page(
        &self,
        corp: &CorpId,
        campaign: &CampaignId,
        id: &InviterId,
    ) -> Result<Option<InviterPage>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT corp_id, campaign_id, inviter_id, public_code FROM inviters
                 WHERE corp_id = $1 AND campaign_id = $2 AND inviter_id = $3",
            )
            .bind(corp.as_str())
            .bind(campaign.as_str().to_owned())
            .bind(id.as_str().to_owned());
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        row.as_ref().map(page).transpose()
    }

    /// In the order of their counts.
    pub async fn reached(
        &self,
        corp: &CorpId,
        campaign: &CampaignId,
        id: &InviterId,
    ) -> Result<Vec<Reached>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT count, name, reached_at FROM goals_reached
                 WHERE corp_id = $1 AND campaign_id = $2 AND inviter_id = $3 ORDER BY count",
            )
            .bind(corp.as_str())
            .bind(campaign.as_str().to_owned())
            .bind(id.as_str().to_owned());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let reached = |row: &PgRow| {
            Ok(Reached {
                count: row.number("count")?,
                name: row.value("name")?,
                reached_ms: row.ms("reached_at")?,
            })
        };
        rows.iter().map(reached).collect()
    }

    /// Whoever is blocked (and why) earns nothing from then on; what he has stays. None: there is no such inviter.
    pub async fn change(
        &self,
        corp: &CorpId,
        campaign: &CampaignId,
        id: &InviterId,
        said: &InviterSaid,
        precondition: Precondition,
        trail: &Trail,
    ) -> Result<Option<Put<Inviter, std::convert::Infallible>>, Error> {
        retry(|| self.try_change(corp, campaign, id, said, precondition, trail)).await
    }

    async fn try_change(
        &self,
        corp: &CorpId,
        campaign: &CampaignId,
        id: &InviterId,
        said: &InviterSaid,
        precondition: Precondition,
        trail: &Trail,
    ) -> Result<Option<Put<Inviter, std::convert::Infallible>>, Error> {
        let mut work = self.db.transaction().await?;
        let query = work
            .query(select!("AND i.inviter_id = $3 FOR UPDATE"))
            .bind(corp.as_str())
            .bind(campaign.as_str().to_owned())
            .bind(id.as_str().to_owned());
        let Some(row) = work.fetch_optional(query).await? else {
            work.roll_back().await?;
            return Ok(None);
        };
        let before = read(&row)?;
        if !precondition.holds(Some(before.version)) {
            work.roll_back().await?;
            return Ok(Some(Put::Stale(Some(before))));
        }
        let mut after = before.clone();
        after.name = clean(&said.name).into_owned();
        let blocked = said.blocked.as_ref();
        after.blocked_reason = blocked.map(|reason| clean(reason).into_owned());
        after.blocked_ms = blocked.map(|_| before.blocked_ms.unwrap_or(trail.now_ms));
        if after == before {
            work.roll_back().await?;
            return Ok(Some(Put::Same(before)));
        }
        let query = work
            .query(
                "UPDATE inviters SET name = $4, blocked_at = $5, blocked_reason = $6, version = version + 1,
                    updated_at = $7
                 WHERE corp_id = $1 AND campaign_id = $2 AND inviter_id = $3",
            )
            .bind(corp.as_str())
            .bind(campaign.as_str().to_owned())
            .bind(id.as_str().to_owned())
            .bind(after.name.clone())
            .bind(crate::times::at_option(after.blocked_ms))
            .bind(after.blocked_reason.clone())
            .bind(at(trail.now_ms));
        work.execute(query).await?;
        after.version += 1;
        after.updated_ms = trail.now_ms;
        let json = |inviter: &Inviter| serde_json::json!({"blocked": inviter.blocked_reason});
        let record = trail.record(
            "inviter.change",
            format!("inviter:{campaign}/{id}"),
            Some(json(&before)),
            Some(json(&after)),
        );
        write(&mut work, corp, &[&record]).await?;
        work.commit().await?;
        Ok(Some(Put::Changed(after)))
    }

    /// How many inviters a campaign has.
    pub async fn count(&self, corp: &CorpId, campaign: &CampaignId) -> Result<u64, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query("SELECT count(*) AS n FROM inviters WHERE corp_id = $1 AND campaign_id = $2")
            .bind(corp.as_str())
            .bind(campaign.as_str().to_owned());
        let n = work.fetch_one(query).await?.number("n");
        work.end().await?;
        n
    }
}

fn page(row: &PgRow) -> Result<InviterPage, Error> {
    Ok(InviterPage {
        corp: row.parsed("corp_id")?,
        campaign: row.parsed("campaign_id")?,
        inviter: row.parsed("inviter_id")?,
        public_code: row.value("public_code")?,
    })
}

pub(super) fn read(row: &PgRow) -> Result<Inviter, Error> {
    Ok(Inviter {
        id: row.parsed("inviter_id")?,
        campaign: row.parsed("campaign_id")?,
        public_code: row.value("public_code")?,
        kind: row.parsed("kind")?,
        subject: row.parsed("subject")?,
        customer: row.value("customer_id")?,
        userid: row.value("userid")?,
        person: row.parsed_option("person")?,
        name: row.value("name")?,
        joined: row.number("joined")?,
        pending: row.number("pending")?,
        qualified: row.number("qualified")?,
        revoked: row.number("revoked")?,
        refused: row.number("refused")?,
        ranked_ms: row.ms("ranked_at")?,
        blocked_ms: row.ms_option("blocked_at")?,
        blocked_reason: row.value("blocked_reason")?,
        version: row.number("version")?,
        created_ms: row.ms("created_at")?,
        updated_ms: row.ms("updated_at")?,
    })
}
