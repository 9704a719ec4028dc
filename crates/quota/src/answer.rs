//! A Lua script, its call, and its answer: a word, then values.

use redis::{FromRedisValue, Script, ScriptInvocation, Value};

use crate::{Connection, Error};

/// A script with the name of its file.
#[derive(Debug, Clone)]
pub(crate) struct Lua {
    pub(crate) name: &'static str,
    script: Script,
}

/// `lua!("budget_take")`: the file of that name in `lua/`.
macro_rules! lua {
    ($name:literal) => {
        $crate::answer::Lua::new(
            $name,
            include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../lua/",
                $name,
                ".lua"
            )),
        )
    };
}
pub(crate) use lua;

impl Lua {
    pub(crate) fn new(name: &'static str, code: &str) -> Self {
        Self {
            name,
            script: Script::new(code),
        }
    }

    /// EVALSHA; a script that Redis does not know is loaded and called again.
    pub(crate) async fn call<C: Connection>(
        &self,
        conn: &mut C,
        keys: &[&str],
        with_arguments: impl FnOnce(&mut ScriptInvocation<'_>),
    ) -> Result<Answer, Error> {
        let mut invocation = self.script.prepare_invoke();
        for key in keys {
            invocation.key(*key);
        }
        with_arguments(&mut invocation);
        let values: Vec<Value> = invocation.invoke_async(conn).await?;
        let mut answer = Answer {
            script: self.name,
            word: String::new(),
            values: values.into_iter(),
        };
        answer.word = answer.next()?;
        Ok(answer)
    }
}

/// The argument for the time: "" lets the script ask Redis.
pub(crate) fn time(now_ms: Option<i64>) -> String {
    now_ms.map_or_else(String::new, |now| now.to_string())
}

#[derive(Debug)]
pub(crate) struct Answer {
    script: &'static str,
    pub(crate) word: String,
    values: std::vec::IntoIter<Value>,
}

impl Answer {
    pub(crate) fn next<T: FromRedisValue>(&mut self) -> Result<T, Error> {
        let value = self.values.next().ok_or_else(|| self.unknown())?;
        T::from_redis_value(value).map_err(|_| self.unknown())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.len() == 0
    }

    /// For a word or a shape that is not in the script's contract.
    pub(crate) fn unknown(&self) -> Error {
        Error::Answer {
            script: self.script,
        }
    }
}
