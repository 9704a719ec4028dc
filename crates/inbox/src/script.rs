//! Calling scripts so that a Redis that forgot them makes no difference.
//!
//! `redis::Script` answers NOSCRIPT with SCRIPT LOAD and EVALSHA, between which a SCRIPT FLUSH can fall again,
//! and in a pipeline it does nothing. Here the second try sends the source itself, which cannot be forgotten.

use redis::aio::ConnectionLike;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, ServerErrorKind, ToRedisArgs, Value};

use crate::{Counters, Error};

#[derive(Debug)]
pub(crate) struct Script {
    source: &'static str,
    sha: String,
}

/// Every script of this crate.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) ack: Script,
    pub(crate) append: Script,
    pub(crate) claim: Script,
    pub(crate) dead_replay: Script,
    pub(crate) dirty_done: Script,
    pub(crate) dirty_take: Script,
    pub(crate) fail: Script,
    pub(crate) forget_consumers: Script,
    pub(crate) inbox_stats: Script,
    pub(crate) trim: Script,
}

macro_rules! script {
    ($name:literal) => {
        Script::new(include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../lua/",
            $name,
            ".lua"
        )))
    };
}

impl Default for Scripts {
    fn default() -> Scripts {
        Scripts {
            ack: script!("ack"),
            append: script!("append"),
            claim: script!("claim"),
            dead_replay: script!("dead_replay"),
            dirty_done: script!("dirty_done"),
            dirty_take: script!("dirty_take"),
            fail: script!("fail"),
            forget_consumers: script!("forget_consumers"),
            inbox_stats: script!("inbox_stats"),
            trim: script!("trim"),
        }
    }
}

impl Script {
    fn new(source: &'static str) -> Script {
        let sha = redis::Script::new(source).get_hash().to_owned();
        Script { source, sha }
    }

    /// Begins a call with these keys; `size` is about how many bytes of arguments will follow.
    pub(crate) fn call(&self, keys: &[&str], size: usize) -> Call<'_> {
        let mut cmd = Cmd::with_capacity(16, size + 256);
        cmd.arg("EVALSHA").arg(&self.sha).arg(keys.len()).arg(keys);
        Call { script: self, cmd }
    }
}

/// One call in the making.
pub(crate) struct Call<'a> {
    script: &'a Script,
    cmd: Cmd,
}

impl Call<'_> {
    pub(crate) fn arg(mut self, argument: impl ToRedisArgs) -> Self {
        self.cmd.arg(argument);
        self
    }

    pub(crate) fn push(&mut self, argument: impl ToRedisArgs) {
        self.cmd.arg(argument);
    }

    /// The same call with the source in place of its hash.
    fn with_source(&self) -> Cmd {
        let mut cmd = Cmd::with_capacity(16, self.script.source.len() + 1024);
        cmd.arg("EVAL").arg(self.script.source);
        for argument in self.cmd.args_iter().skip(2) {
            if let redis::Arg::Simple(bytes) = argument {
                cmd.arg(bytes);
            }
        }
        cmd
    }

    pub(crate) async fn invoke(
        self,
        connection: &mut impl ConnectionLike,
        counters: &Counters,
    ) -> Result<Value, Error> {
        match single(connection, &self.cmd).await {
            Err(error) if is_no_script(&error) => {
                counters.script_sent_again();
                Ok(single(connection, &self.with_source()).await?)
            }
            other => Ok(other?),
        }
    }

    /// The script and then WAIT, in one buffer on one connection: WAIT asks for the writes of its own connection
    /// only. Answers the script's answer and how many replicas have it.
    pub(crate) async fn invoke_and_wait(
        self,
        connection: &mut impl ConnectionLike,
        counters: &Counters,
        replicas: u32,
        timeout_ms: u64,
    ) -> Result<(Value, u32), Error> {
        let mut wait = redis::cmd("WAIT");
        wait.arg(replicas).arg(timeout_ms);
        let answers = match pair(connection, &self.cmd, &wait).await {
            Err(error) if is_no_script(&error) => {
                counters.script_sent_again();
                pair(connection, &self.with_source(), &wait).await
            }
            other => other,
        };
        let (answer, replicas) = answers?;
        let replicas = redis::from_redis_value(replicas)
            .map_err(|_| Error::Answer("WAIT without a number"))?;
        Ok((answer, replicas))
    }
}

async fn single(connection: &mut impl ConnectionLike, cmd: &Cmd) -> Result<Value, RedisError> {
    connection.req_packed_command(cmd).await?.extract_error()
}

async fn pair(
    connection: &mut impl ConnectionLike,
    script: &Cmd,
    wait: &Cmd,
) -> Result<(Value, Value), RedisError> {
    let mut pipeline = Pipeline::with_capacity(2);
    pipeline.add_command(script.clone());
    pipeline.add_command(wait.clone());
    let mut answers = Vec::with_capacity(2);
    for answer in connection.req_packed_commands(&pipeline, 0, 2).await? {
        answers.push(answer.extract_error()?);
    }
    let mut answers = answers.into_iter();
    match (answers.next(), answers.next()) {
        (Some(answer), Some(replicas)) => Ok((answer, replicas)),
        _ => Err(RedisError::from((
            ErrorKind::UnexpectedReturnType,
            "a pipeline with too few answers",
        ))),
    }
}

fn is_no_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}
