//! `lua/token_load.lua`.

use secrecy::SecretString;

use crate::answer::{Lua, lua, time};
use crate::{Connection, Error, Token, TokenKeys};

#[derive(Debug, Clone)]
pub struct TokenLoad {
    lua: Lua,
}

impl Default for TokenLoad {
    fn default() -> Self {
        Self {
            lua: lua!("token_load"),
        }
    }
}

impl TokenLoad {
    pub async fn call<C: Connection>(
        &self,
        conn: &mut C,
        keys: &TokenKeys,
        now_ms: Option<i64>,
    ) -> Result<Option<Token>, Error> {
        let mut answer = self
            .lua
            .call(conn, &[&keys.token], |call| {
                call.arg(time(now_ms));
            })
            .await?;
        match answer.word.as_str() {
            "TOKEN" => Ok(Some(Token {
                expires_at_ms: answer.next()?,
                value: SecretString::from(answer.next::<String>()?),
            })),
            "NONE" => Ok(None),
            _ => Err(answer.unknown()),
        }
    }
}
