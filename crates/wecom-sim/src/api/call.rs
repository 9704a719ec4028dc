//! One call that came through: who calls, with what, under which rules.

use std::sync::Arc;

use crate::config::Config;
use crate::fault::Facts;
use crate::world::{App, AppDef, Corp, Member, World};

use super::{Fields, page};

#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) world: &'a Arc<World>,
    pub(crate) corp: &'a Arc<Corp>,
    pub(crate) app: &'a Arc<App>,
    pub(crate) def: Arc<AppDef>,
    pub(crate) rules: &'a Config,
    pub(crate) fields: &'a Fields,
    pub(crate) host: &'a str,
    pub(crate) body: &'a [u8],
    pub(crate) facts: &'a Facts<'a>,
    pub(crate) now_ms: i64,
}

impl Call<'_> {
    /// The app sees this member.
    pub(crate) fn sees(&self, member: &Member) -> bool {
        self.def.sees(&member.key)
    }

    /// A member of the corp who is in service and visible: 40003 without an id, 60111, 60011.
    pub(crate) fn member(&self, field: &str) -> Result<Arc<Member>, i32> {
        let userid = self.fields.filled(field).ok_or(40003)?;
        let member = self
            .corp
            .member(userid)
            .filter(|member| member.in_service())
            .ok_or(60111)?;
        if self.sees(&member) {
            Ok(member)
        } else {
            Err(60011)
        }
    }

    /// A member who may serve customers.
    pub(crate) fn servant(&self, field: &str) -> Result<Arc<Member>, i32> {
        let member = self.member(field)?;
        if member.def.get().customer_contact {
            Ok(member)
        } else {
            Err(84074)
        }
    }

    /// Where a page begins.
    pub(crate) fn position(&self) -> Result<[u64; 3], i32> {
        page::position(
            self.fields.text("cursor").unwrap_or_default(),
            &self.rules.paging,
            self.now_ms,
        )
    }

    pub(crate) fn cursor(&self, position: [u64; 3]) -> String {
        page::cursor(position, self.now_ms)
    }

    pub(crate) fn page_length(&self, field: &str, default: usize, most: usize) -> usize {
        page::length(self.fields.int(field), default, most, &self.rules.paging)
    }

    /// Longer than so many characters (not bytes).
    pub(crate) fn too_long(&self, field: &str, most: usize) -> bool {
        self.fields
            .text(field)
            .is_some_and(|text| text.chars().count() > most)
    }
}

/// Turns a handler with early exits into an answer.
pub(crate) fn answer(result: Result<super::Reply, i32>) -> super::Reply {
    result.unwrap_or_else(super::Reply::error)
}
