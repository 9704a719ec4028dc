//! Looking at parts of the state, without an operation: for the console, and to compare with what is configured.
//! What is read may be old when the answer arrives; only the scripts decide by it.

use std::collections::{BTreeMap, BTreeSet};

use allocation::model::{AllocationView, Corp, Given, MemberView};
use allocation::{
    Answer, ChannelId, Decision, Dump, MemberId, Op, Outcome, PoolId, Request, RequestId, Skill,
    SubjectKey, Value,
};

use crate::connection::Connection;
use crate::corp::CorpRoster;
use crate::error::Error;

const FIELD: char = '\u{1f}';
/// Keys of one MGET: more would hold up others.
const MOST_PER_CALL: usize = 500;

/// Which configuration of a pool is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolVersion {
    pub version: u64,
    /// The pool was removed at this version.
    pub removed: bool,
}

/// What a request was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    pub at_ms: u64,
    pub decision: Decision,
}

impl<C: Connection> CorpRoster<C> {
    /// Members with a presence lease and its end, by id. A lease that is over may stand there a little longer.
    pub async fn leases(&self) -> Result<Vec<(MemberId, u64)>, Error> {
        let mut connection = self.connection.clone();
        let found: Vec<(String, f64)> = redis::cmd("ZRANGE")
            .arg(self.keys.key("leases"))
            .arg(0)
            .arg(-1)
            .arg("WITHSCORES")
            .query_async(&mut connection)
            .await?;
        let mut leases = Vec::with_capacity(found.len());
        for (member, end) in found {
            leases.push((member.parse()?, end as u64));
        }
        leases.sort();
        Ok(leases)
    }

    /// Ends of the presence leases of these members, in their order; a lease that is over may stand there a little longer.
    pub async fn leases_of(&self, ids: &[MemberId]) -> Result<Vec<Option<u64>>, Error> {
        let mut connection = self.connection.clone();
        let mut ends = Vec::with_capacity(ids.len());
        for ids in ids.chunks(MOST_PER_CALL) {
            let mut command = redis::cmd("ZMSCORE");
            command.arg(self.keys.key("leases"));
            for id in ids {
                command.arg(id.as_str());
            }
            let part: Vec<Option<f64>> = command.query_async(&mut connection).await?;
            ends.extend(part.into_iter().map(|end| end.map(|end| end as u64)));
        }
        Ok(ends)
    }

    /// How many subjects wait whom a pool could serve; one that could be served in two ways counts twice.
    pub async fn waiting(&self, pool: &PoolId) -> Result<u64, Error> {
        let mut connection = self.connection.clone();
        let needs: Vec<String> = redis::cmd("ZRANGE")
            .arg(self.keys.key(&format!("queues:{pool}")))
            .arg(0)
            .arg(-1)
            .query_async(&mut connection)
            .await?;
        let needs = needs.into_iter().map(|needs| format!("{FIELD}{needs}"));
        let mut waiting = 0;
        for needs in std::iter::once(String::new()).chain(needs) {
            let queue: u64 = redis::cmd("ZCARD")
                .arg(self.keys.key(&format!("waiting:{pool}{needs}")))
                .query_async(&mut connection)
                .await?;
            waiting += queue;
        }
        Ok(waiting)
    }

    /// When the first hold, or memory of one, ends.
    pub async fn first_end(&self) -> Result<Option<u64>, Error> {
        self.first_of("holds").await
    }

    /// When the first offer ends that is not answered.
    pub async fn first_offer_end(&self) -> Result<Option<u64>, Error> {
        self.first_of("offers").await
    }

    /// When the first window ends that keeps a member out of pools, or holds back those who come through a channel; one
    /// that is over stands there until the next operation.
    pub async fn first_alarm(&self) -> Result<Option<u64>, Error> {
        let (members, channels) = (
            self.first_of("alarms").await?,
            self.first_of("gates").await?,
        );
        Ok(members.into_iter().chain(channels).min())
    }

    /// When the first plan of those who wait goes on.
    pub async fn first_patience(&self) -> Result<Option<u64>, Error> {
        self.first_of("patience").await
    }

    pub(crate) async fn first_of(&self, name: &str) -> Result<Option<u64>, Error> {
        let mut connection = self.connection.clone();
        let first: Vec<(Vec<u8>, f64)> = redis::cmd("ZRANGE")
            .arg(self.keys.key(name))
            .arg(0)
            .arg(0)
            .arg("WITHSCORES")
            .query_async(&mut connection)
            .await?;
        Ok(first.first().map(|(_, end)| *end as u64))
    }

    /// Members as the rules see them, by id; of whom there is nothing to know is left out.
    pub async fn members(&self, ids: &[MemberId]) -> Result<Vec<MemberView>, Error> {
        let names = ids.iter().map(|id| format!("member:{id}")).collect();
        let corp = Corp::from_dump(&self.part(names).await?)?;
        Ok(corp.members().collect())
    }

    /// What each of these members can do, in their order.
    pub async fn skills(&self, ids: &[MemberId]) -> Result<Vec<BTreeSet<Skill>>, Error> {
        let names = ids.iter().map(|id| format!("skills:{id}")).collect();
        let corp = Corp::from_dump(&self.part(names).await?)?;
        let skills = ids.iter().map(|id| corp.skills(id).cloned().collect());
        Ok(skills.collect())
    }

    /// What each of these channels gave, in their order; None: it has no limits.
    pub async fn channels(&self, ids: &[ChannelId]) -> Result<Vec<Option<Given>>, Error> {
        let names = ids.iter().map(|id| format!("gate:{id}")).collect();
        let corp = Corp::from_dump(&self.part(names).await?)?;
        Ok(ids.iter().map(|id| corp.channel(id)).collect())
    }

    /// When each of these pools may hand out the next of those who wait, in their order; None: it hands out as many as it can.
    pub async fn next_drips(&self, ids: &[PoolId]) -> Result<Vec<Option<u64>>, Error> {
        let names: Vec<String> = ids.iter().map(|id| format!("drip:{id}")).collect();
        let mut next = Vec::with_capacity(ids.len());
        for drip in self.texts(&names).await? {
            next.push(match drip {
                Some(drip) => Some(next_drip(&drip)?),
                None => None,
            });
        }
        Ok(next)
    }

    /// Of each pool, in the order of `ids`.
    pub async fn pool_versions(&self, ids: &[PoolId]) -> Result<Vec<Option<PoolVersion>>, Error> {
        let names: Vec<String> = ids.iter().map(|id| format!("config:{id}")).collect();
        let mut versions = Vec::with_capacity(ids.len());
        for config in self.texts(&names).await? {
            versions.push(match config {
                Some(config) => Some(pool_version(&config)?),
                None => None,
            });
        }
        Ok(versions)
    }

    /// Open and waiting allocations of a subject.
    pub async fn allocations_of(&self, subject: &SubjectKey) -> Result<Vec<AllocationView>, Error> {
        let names = vec![format!("open:{subject}")];
        let corp = Corp::from_dump(&self.part(names).await?)?;
        Ok(corp.allocations().collect())
    }

    /// What a request was answered in the last 24 h.
    pub async fn remembered(&self, request: &RequestId) -> Result<Option<Remembered>, Error> {
        let text = self.texts(&[format!("request:{request}")]).await?.pop();
        let Some(text) = text.flatten() else {
            return Ok(None);
        };
        remembered(&String::from_utf8_lossy(&text)).map(Some)
    }

    /// These keys as a dump that has nothing else.
    pub(crate) async fn part(&self, names: Vec<String>) -> Result<Dump, Error> {
        let values = self.texts(&names).await?;
        let keys: BTreeMap<String, Value> = names
            .into_iter()
            .zip(values)
            .filter_map(|(name, value)| Some((name, Value::Bytes(value?))))
            .collect();
        Ok(Dump { keys })
    }

    pub(crate) async fn texts(&self, names: &[String]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let mut values = Vec::with_capacity(names.len());
        let mut connection = self.connection.clone();
        for names in names.chunks(MOST_PER_CALL) {
            let mut command = redis::cmd("MGET");
            for name in names {
                command.arg(self.keys.key(name));
            }
            let part: Vec<Option<Vec<u8>>> = command.query_async(&mut connection).await?;
            values.extend(part);
        }
        Ok(values)
    }
}

pub(crate) fn unreadable(what: &'static str, problem: &str) -> Error {
    Error::Answer(allocation::Error::Unreadable {
        what,
        problem: problem.to_owned(),
    })
}

/// `version`, then the content unless the pool was removed.
pub(crate) fn pool_version(config: &[u8]) -> Result<PoolVersion, Error> {
    let config = String::from_utf8_lossy(config);
    let (version, removed) = match config.split_once(FIELD) {
        Some((version, _)) => (version, false),
        None => (&*config, true),
    };
    let version = version
        .parse()
        .map_err(|_| unreadable("config", "no version"))?;
    Ok(PoolVersion { version, removed })
}

/// How often, then when next.
fn next_drip(drip: &[u8]) -> Result<u64, Error> {
    let drip = String::from_utf8_lossy(drip);
    let next = drip.split_once(FIELD).map(|(_, next)| next.parse());
    let next = next.and_then(Result::ok);
    next.ok_or_else(|| unreadable("drip", "no time"))
}

/// Time, then the decision as an outcome has it.
fn remembered(text: &str) -> Result<Remembered, Error> {
    let (at_ms, decision) = text
        .split_once(FIELD)
        .ok_or_else(|| unreadable("request", "it ends too early"))?;
    let at_ms = at_ms
        .parse()
        .map_err(|_| unreadable("request", "no time"))?;
    // Only how many requests there were matters for reading.
    let any = Request {
        allocation: allocation::AllocationId(uuid::Uuid::nil()),
        pool: PoolId::new("any")?,
        subject: SubjectKey::from_bytes([0; 16]),
        holder: None,
        request: None,
        echo: false,
        plan: None,
    };
    let outcome = Outcome::parse(
        &Op::Decide(vec![any]),
        &format!("0{FIELD}0{FIELD}{decision}"),
    )?;
    let decision = match outcome.answer {
        Answer::Decided(mut decisions) => decisions.pop(),
        _ => None,
    };
    let decision = decision.ok_or_else(|| unreadable("request", "no decision"))?;
    Ok(Remembered { at_ms, decision })
}
