//! Keys of the REST API. Only the SHA-256 of a key is here: 256 random bits need no salt and no slow hash.

use allocation::{CorpId, MemberId};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::Error;
use crate::audit::{Trail, write};
use crate::connection::Db;
use crate::row::Columns;
use crate::text::clean;
use crate::times::{at, at_option};

#[derive(Debug, Clone)]
pub struct ApiKeys {
    pub(crate) db: Db,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// His own presence and offers, nothing else.
    Member,
    Viewer,
    Operator,
    Admin,
}

impl Role {
    pub const ALL: [Role; 4] = [Role::Member, Role::Viewer, Role::Operator, Role::Admin];

    pub fn as_str(self) -> &'static str {
        match self {
            Role::Member => "member",
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }
}

impl std::str::FromStr for Role {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Role, Self::Err> {
        Role::ALL
            .into_iter()
            .find(|role| role.as_str() == text)
            .ok_or("no role: member, viewer, operator or admin")
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    pub id: Uuid,
    /// None: every corp; only for admins.
    pub corp: Option<CorpId>,
    pub role: Role,
    /// Whose key it is; only for the role of that name.
    pub member: Option<MemberId>,
    pub name: String,
    pub created_ms: u64,
    pub expires_ms: Option<u64>,
    pub revoked_ms: Option<u64>,
}

impl ApiKey {
    pub fn is_valid(&self, now_ms: u64) -> bool {
        self.revoked_ms.is_none() && self.expires_ms.is_none_or(|expires| now_ms < expires)
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, corp_id, role, member, name, created_at, expires_at, revoked_at FROM api_keys WHERE ",
            $rest
        )
    };
}

impl ApiKeys {
    pub async fn create(&self, key: &ApiKey, hash: &[u8; 32], trail: &Trail) -> Result<(), Error> {
        let mut work = self.db.transaction().await?;
        let query = work
            .query(
                "INSERT INTO api_keys (id, corp_id, role, member, hash, name, created_at, expires_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
            )
            .bind(key.id)
            .bind(key.corp.as_ref().map(|corp| corp.as_str().to_owned()))
            .bind(key.role.as_str())
            .bind(key.member.as_ref().map(|member| member.as_str().to_owned()))
            .bind(hash.to_vec())
            .bind(clean(&key.name).into_owned())
            .bind(at(key.created_ms))
            .bind(at_option(key.expires_ms));
        work.execute(query).await?;
        if let Some(corp) = &key.corp {
            let after = serde_json::json!({"name": key.name, "role": key.role.as_str(), "member": key.member});
            let record = trail.record("key.create", format!("keys/{}", key.id), None, Some(after));
            write(&mut work, corp, &[&record]).await?;
        }
        work.commit().await
    }

    pub async fn by_hash(&self, hash: &[u8; 32]) -> Result<Option<ApiKey>, Error> {
        let mut work = self.db.single().await?;
        let query = work.query(select!("hash = $1")).bind(hash.to_vec());
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        row.as_ref().map(read).transpose()
    }

    /// Of a corp, or those for every corp; the oldest first.
    pub async fn list(&self, corp: Option<&CorpId>) -> Result<Vec<ApiKey>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(select!(
                "corp_id IS NOT DISTINCT FROM $1 ORDER BY created_at, id"
            ))
            .bind(corp.map(|corp| corp.as_str().to_owned()));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter().map(read).collect()
    }

    /// False: there is no such key, or it was revoked before.
    pub async fn revoke(&self, id: Uuid, trail: &Trail) -> Result<bool, Error> {
        let mut work = self.db.transaction().await?;
        let query = work
            .query("UPDATE api_keys SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL RETURNING corp_id")
            .bind(id)
            .bind(at(trail.now_ms));
        let Some(row) = work.fetch_optional(query).await? else {
            work.roll_back().await?;
            return Ok(false);
        };
        if let Some(corp) = row.parsed_option::<CorpId>("corp_id")? {
            let record = trail.record("key.revoke", format!("keys/{id}"), None, None);
            write(&mut work, &corp, &[&record]).await?;
        }
        work.commit().await?;
        Ok(true)
    }
}

fn read(row: &PgRow) -> Result<ApiKey, Error> {
    Ok(ApiKey {
        id: row.value("id")?,
        corp: row.parsed_option("corp_id")?,
        role: row.parsed("role")?,
        member: row.parsed_option("member")?,
        name: row.value("name")?,
        created_ms: row.ms("created_at")?,
        expires_ms: row.ms_option("expires_at")?,
        revoked_ms: row.ms_option("revoked_at")?,
    })
}
