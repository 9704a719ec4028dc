//! `lua/token_release.lua`.

use crate::answer::{Lua, lua};
use crate::{Connection, Error, TokenKeys};

#[derive(Debug, Clone)]
pub struct TokenRelease {
    lua: Lua,
}

impl Default for TokenRelease {
    fn default() -> Self {
        Self {
            lua: lua!("token_release"),
        }
    }
}

impl TokenRelease {
    /// Whether it was still this owner's.
    pub async fn call<C: Connection>(
        &self,
        conn: &mut C,
        keys: &TokenKeys,
        owner: &str,
    ) -> Result<bool, Error> {
        let mut answer = self
            .lua
            .call(conn, &[&keys.lease], |call| {
                call.arg(owner);
            })
            .await?;
        match answer.word.as_str() {
            "RELEASED" => Ok(answer.next::<i64>()? > 0),
            _ => Err(answer.unknown()),
        }
    }
}
