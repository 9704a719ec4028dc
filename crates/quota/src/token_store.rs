//! `lua/token_store.lua`.

use secrecy::{ExposeSecret, SecretString};

use crate::answer::{Lua, lua, time};
use crate::{Connection, Error, Token, TokenKeys};

#[derive(Debug, Clone)]
pub enum Stored {
    /// Kept, perhaps for a shorter time than asked for.
    Stored(Token),
    /// Another process was faster: its token is the one to use.
    Kept(Token),
    /// Not worth keeping.
    Expired,
}

#[derive(Debug, Clone)]
pub struct TokenStore {
    lua: Lua,
}

impl Default for TokenStore {
    fn default() -> Self {
        Self {
            lua: lua!("token_store"),
        }
    }
}

impl TokenStore {
    pub async fn call<C: Connection>(
        &self,
        conn: &mut C,
        keys: &TokenKeys,
        failed: Option<&str>,
        token: &Token,
        now_ms: Option<i64>,
    ) -> Result<Stored, Error> {
        let mut answer = self
            .lua
            .call(conn, &[&keys.token], |call| {
                call.arg(failed.unwrap_or_default())
                    .arg(token.value.expose_secret())
                    .arg(token.expires_at_ms)
                    .arg(time(now_ms));
            })
            .await?;
        let expires_at_ms = answer.next()?;
        let value = SecretString::from(answer.next::<String>()?);
        let token = Token {
            value,
            expires_at_ms,
        };
        match answer.word.as_str() {
            "STORED" => Ok(Stored::Stored(token)),
            "KEPT" => Ok(Stored::Kept(token)),
            "EXPIRED" => Ok(Stored::Expired),
            _ => Err(answer.unknown()),
        }
    }
}
