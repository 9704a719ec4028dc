//! Where a pool's next group comes from, and when it is looked for.

use allocation::MemberId;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::postgres::PgRow;

use crate::Error;
use crate::row::Columns;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Supply {
    /// Free seats of the pool below which another group is opened.
    pub min_free: u32,
    /// Seats that will be asked for in this time, as fast as they are now, count as taken.
    pub ahead_seconds: u32,
    /// Tried in this order; distinct. Without any no group is ever added.
    pub sources: Vec<SupplySource>,
    /// Who makes groups by hand.
    pub keeper: Option<MemberId>,
    /// How long he has for one.
    pub deadline_seconds: u32,
}

/// Only our own stock: making groups is said expressly.
impl Default for Supply {
    fn default() -> Self {
        Self {
            min_free: 50,
            ahead_seconds: 300,
            sources: vec![SupplySource::Spare],
            keeper: None,
            deadline_seconds: 900,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SupplySource {
    /// A group of the pool that is in stock.
    Spare,
    /// WeCom opens a room by itself when the groups of a join way are full.
    AutoRoom,
    /// The keeper is asked to make one.
    Person,
}

impl Supply {
    /// As it is kept, and as the audit shows it.
    pub(super) fn json(&self) -> Value {
        json!(self)
    }

    pub(crate) fn read(row: &PgRow) -> Result<Self, Error> {
        let supply: Value = row.value("supply")?;
        serde_json::from_value(supply).map_err(|problem| Error::unreadable("supply", problem))
    }
}
