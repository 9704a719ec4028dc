//! A channel's public page.

use serde_json::{Value, json};
use sqlx::postgres::PgRow;

use crate::Error;
use crate::row::{Columns, small};

/// What the public page of a channel does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visits {
    /// Contact ways of each member that holds borrow.
    pub slots_per_member: u32,
    /// How long a visitor's member is held for him.
    pub hold_seconds: u32,
    /// What the page is headed with; empty = nothing.
    pub title: String,
}

impl Visits {
    /// As the audit shows it.
    pub(super) fn json(&self) -> Value {
        json!({
            "slots_per_member": self.slots_per_member,
            "hold_seconds": self.hold_seconds,
            "title": self.title,
        })
    }

    /// None where visits are off.
    pub(super) fn read(row: &PgRow) -> Result<Option<Visits>, Error> {
        let slots: Option<i32> = row.value("slots_per_member")?;
        let hold: Option<i32> = row.value("hold_seconds")?;
        let title: Option<String> = row.value("title")?;
        Ok(slots.zip(hold).map(|(slots, hold)| Visits {
            slots_per_member: slots.unsigned_abs(),
            hold_seconds: hold.unsigned_abs(),
            title: title.unwrap_or_default(),
        }))
    }

    pub(super) fn slots(&self) -> i32 {
        small(self.slots_per_member)
    }

    pub(super) fn hold(&self) -> i32 {
        small(self.hold_seconds)
    }
}
