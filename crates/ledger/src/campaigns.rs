//! Campaigns: each fills the groups of one pool and has a public page.

use allocation::{CampaignId, CorpId, GroupPoolId};
use serde_json::{Value, json};
use sqlx::postgres::PgRow;

use crate::Error;
use crate::audit::Trail;
use crate::configured::{self, Configured, Found, Listed};
use crate::connection::{Db, Work};
use crate::cursor::{Page, PageRequest};
use crate::fission::Fission;
use crate::put::{Deleted, Precondition, Put};
use crate::row::{Columns, small};
use crate::text::{clean, clean_json, random};
use crate::times::{at, at_option};

#[derive(Debug, Clone)]
pub struct Campaigns {
    pub(crate) db: Db,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Campaign {
    pub id: CampaignId,
    /// Names its public page; made once and kept.
    pub public_code: String,
    pub content: NewCampaign,
    pub version: u64,
    pub created_ms: u64,
    pub updated_ms: u64,
}

/// What a caller wants a campaign to be. It ends after it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCampaign {
    pub name: String,
    pub pool: GroupPoolId,
    /// How long a seat is held for a visitor.
    pub hold_seconds: u32,
    /// What the page is headed with; empty = nothing.
    pub title: String,
    /// Not closed by an operator.
    pub open: bool,
    pub starts_ms: Option<u64>,
    /// Not included.
    pub ends_ms: Option<u64>,
    pub ways: WaysOf,
    /// Of one join way, 1 to 5.
    pub groups_per_way: u32,
    /// What inviters are rewarded for; None: nothing.
    pub fission: Option<Fission>,
}

/// Whose State join ways carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WaysOf {
    Campaign,
    Inviter,
}

impl WaysOf {
    pub fn as_str(self) -> &'static str {
        match self {
            WaysOf::Campaign => "campaign",
            WaysOf::Inviter => "inviter",
        }
    }
}

impl std::str::FromStr for WaysOf {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<WaysOf, Self::Err> {
        [WaysOf::Campaign, WaysOf::Inviter]
            .into_iter()
            .find(|ways| ways.as_str() == text)
            .ok_or("neither a campaign's nor an inviter's")
    }
}

/// Why a campaign cannot be like this: its group pool is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoGroupPool;

const OPEN: &str = "open";
const CLOSED: &str = "closed";

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT c.campaign_id, c.name, c.group_pool_id, c.public_code, c.hold_seconds, c.title, c.state, c.starts_at,
                c.ends_at, c.ways, c.groups_per_way, c.rules, c.version, c.created_at, c.updated_at, c.deleted_at
             FROM campaigns AS c WHERE c.corp_id = $1 ",
            $rest
        )
    };
}

impl Campaigns {
    pub async fn get(&self, corp: &CorpId, id: &CampaignId) -> Result<Option<Campaign>, Error> {
        configured::get(&self.db, corp, id).await
    }

    /// All that are not deleted, by id.
    pub async fn all(&self, corp: &CorpId) -> Result<Vec<Campaign>, Error> {
        configured::all(&self.db, corp).await
    }

    /// The latest first.
    pub async fn list(&self, corp: &CorpId, page: &PageRequest) -> Result<Page<Campaign>, Error> {
        configured::list(&self.db, corp, page).await
    }

    pub async fn put(
        &self,
        corp: &CorpId,
        id: &CampaignId,
        new: &NewCampaign,
        precondition: Precondition,
        trail: &Trail,
    ) -> Result<Put<Campaign, NoGroupPool>, Error> {
        configured::put(&self.db, corp, id, new, precondition, trail).await
    }

    /// Its page is no more; its groups stay as they are.
    pub async fn delete(
        &self,
        corp: &CorpId,
        id: &CampaignId,
        precondition: Precondition,
        trail: &Trail,
    ) -> Result<Deleted<Campaign, std::convert::Infallible>, Error> {
        configured::delete(&self.db, corp, id, precondition, trail).await
    }
}

impl Listed for Campaign {
    const LIST: &'static str = "campaigns";
    const ONE: &'static str = select!("AND c.campaign_id = $2 AND c.deleted_at IS NULL");
    const ALL: &'static str = select!("AND c.deleted_at IS NULL ORDER BY c.campaign_id");
    const FORWARD: &'static str = select!(
        "AND c.deleted_at IS NULL AND ($2::timestamptz IS NULL OR (c.created_at, c.campaign_id) < ($2, $3))
         ORDER BY c.created_at DESC, c.campaign_id DESC LIMIT $4"
    );
    const BACKWARD: &'static str = select!(
        "AND c.deleted_at IS NULL AND ($2::timestamptz IS NULL OR (c.created_at, c.campaign_id) > ($2, $3))
         ORDER BY c.created_at, c.campaign_id LIMIT $4"
    );

    async fn read(_: &mut Work, _: &CorpId, rows: &[PgRow]) -> Result<Vec<Self>, Error> {
        rows.iter().map(read).collect()
    }

    fn place(&self) -> (u64, &str) {
        (self.created_ms, self.id.as_str())
    }
}

impl Configured for Campaign {
    type Id = CampaignId;
    type New = NewCampaign;
    type Misfit = NoGroupPool;
    type Use = std::convert::Infallible;
    const KIND: &'static str = "campaign";

    fn version(&self) -> u64 {
        self.version
    }

    fn json(&self) -> Value {
        let content = &self.content;
        json!({
            "name": content.name,
            "group_pool": content.pool,
            "hold_seconds": content.hold_seconds,
            "title": content.title,
            "state": content.state(),
            "starts_ms": content.starts_ms,
            "ends_ms": content.ends_ms,
            "ways": content.ways.as_str(),
            "groups_per_way": content.groups_per_way,
            "fission": content.fission,
        })
    }

    fn is(&self, new: &NewCampaign) -> bool {
        self.content == *new
    }

    async fn lock(
        work: &mut Work,
        corp: &CorpId,
        id: &CampaignId,
    ) -> Result<Option<Found<Campaign>>, Error> {
        let query = work
            .query(select!("AND c.campaign_id = $2 FOR UPDATE"))
            .bind(corp.as_str())
            .bind(id.as_str().to_owned());
        let Some(row) = work.fetch_optional(query).await? else {
            return Ok(None);
        };
        let deleted = row.ms_option("deleted_at")?.is_some();
        let row = read(&row)?;
        Ok(Some(Found { row, deleted }))
    }

    /// The pool stays while the transaction lasts.
    async fn misfit(
        work: &mut Work,
        corp: &CorpId,
        _: &CampaignId,
        new: &NewCampaign,
    ) -> Result<Option<NoGroupPool>, Error> {
        let query = work
            .query(
                "SELECT FROM group_pools WHERE corp_id = $1 AND group_pool_id = $2 AND deleted_at IS NULL FOR SHARE",
            )
            .bind(corp.as_str())
            .bind(new.pool.as_str().to_owned());
        Ok(work
            .fetch_optional(query)
            .await?
            .is_none()
            .then_some(NoGroupPool))
    }

    async fn save(
        work: &mut Work,
        corp: &CorpId,
        id: &CampaignId,
        new: &NewCampaign,
        found: Option<&Found<Campaign>>,
        now_ms: u64,
    ) -> Result<bool, Error> {
        let query = work
            .query(
                "INSERT INTO campaigns AS c
                    (corp_id, campaign_id, name, group_pool_id, public_code, hold_seconds, title, state, starts_at, ends_at,
                     ways, groups_per_way, rules, version, created_at, updated_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $15, 1, $13, $13)
                 ON CONFLICT (corp_id, campaign_id) DO UPDATE SET name = $3, group_pool_id = $4, hold_seconds = $6,
                    title = $7, state = $8, starts_at = $9, ends_at = $10, ways = $11, groups_per_way = $12, rules = $15,
                    version = c.version + 1, updated_at = $13, deleted_at = NULL,
                    created_at = CASE WHEN c.deleted_at IS NULL THEN c.created_at ELSE $13 END
                 WHERE $14",
            )
            .bind(corp.as_str())
            .bind(id.as_str().to_owned())
            .bind(clean(&new.name).into_owned())
            .bind(new.pool.as_str().to_owned())
            .bind(random(22))
            .bind(small(new.hold_seconds))
            .bind(clean(&new.title).into_owned())
            .bind(new.state())
            .bind(at_option(new.starts_ms))
            .bind(at_option(new.ends_ms))
            .bind(new.ways.as_str())
            .bind(small(new.groups_per_way))
            .bind(at(now_ms))
            .bind(found.is_some())
            .bind(clean_json(&Fission::kept(new.fission.as_ref())));
        Ok(work.execute(query).await? > 0)
    }

    async fn in_use(
        _: &mut Work,
        _: &CorpId,
        _: &CampaignId,
    ) -> Result<Option<std::convert::Infallible>, Error> {
        Ok(None)
    }

    async fn remove(
        work: &mut Work,
        corp: &CorpId,
        id: &CampaignId,
        now_ms: u64,
    ) -> Result<(), Error> {
        let query = work
            .query(
                "UPDATE campaigns SET deleted_at = $3, updated_at = $3, version = version + 1
                 WHERE corp_id = $1 AND campaign_id = $2",
            )
            .bind(corp.as_str())
            .bind(id.as_str().to_owned())
            .bind(at(now_ms));
        work.execute(query).await?;
        Ok(())
    }
}

impl NewCampaign {
    fn state(&self) -> &'static str {
        match self.open {
            true => OPEN,
            false => CLOSED,
        }
    }
}

fn read(row: &PgRow) -> Result<Campaign, Error> {
    let state: &str = row.value("state")?;
    Ok(Campaign {
        id: row.parsed("campaign_id")?,
        public_code: row.value("public_code")?,
        content: NewCampaign {
            name: row.value("name")?,
            pool: row.parsed("group_pool_id")?,
            hold_seconds: row.small("hold_seconds")?,
            title: row.value("title")?,
            open: state == OPEN,
            starts_ms: row.ms_option("starts_at")?,
            ends_ms: row.ms_option("ends_at")?,
            ways: row.parsed("ways")?,
            groups_per_way: row.small("groups_per_way")?,
            fission: Fission::read(row)?,
        },
        version: row.number("version")?,
        created_ms: row.ms("created_at")?,
        updated_ms: row.ms("updated_at")?,
    })
}
