//! Imports the customer groups that there are at WeCom: which there are first, then one after the other. They are read in the
//! order of their ids, so whoever takes over from a dead process lists them again and goes on after the last one that was
//! written. Who is in a group is counted and not kept.

mod listing;

use std::collections::VecDeque;

use allocation::{ChatId, GroupPoolId, GroupTag, MemberId};
use futures_util::{StreamExt, stream};
use ledger::{
    GroupProblem, GroupRead, GroupRefused, GroupState, Imported, NewImport, Operation, Progress,
    Trail,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::get::{Answer, DISSOLVED, ask, problem_of};
use crate::app::{App, CorpApp};

/// Groups written in one transaction.
const BATCH: usize = 10;
/// Groups read at the same time: the other places in flight are for whoever waits for a group.
const AT_ONCE: usize = 2;
/// Groups in a row that WeCom does not answer for: it is not the group then.
const MOST_UNANSWERED: u32 = 3;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}")]
    Ledger(#[from] ledger::Error),
    /// No call before this.
    #[error("the quota lets nothing go before {until_ms}")]
    Budget { until_ms: u64 },
    /// The same group is asked for again, a bounded number of times.
    #[error("{0}")]
    Unanswered(wecom::Error),
    /// Nothing at all can be asked.
    #[error("{0}")]
    Wecom(wecom::Error),
    #[error("{MOST_UNANSWERED} groups in a row could not be read; the last one: {0}")]
    Gone(String),
    #[error("the group pool {0} is gone")]
    NoPool(String),
    #[error("the group pool {0} has as many groups as it can have ({1})")]
    PoolFull(String, usize),
    #[error("the operation's request cannot be read: {0}")]
    Request(#[from] serde_json::Error),
}

impl Error {
    /// It goes on later.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Ledger(error) => error.is_passing(),
            Self::Budget { .. } | Self::Unanswered(_) => true,
            _ => false,
        }
    }

    /// Again would be the same.
    pub(crate) fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Gone(_) | Self::NoPool(_) | Self::PoolFull(..) | Self::Request(_)
        )
    }
}

/// The groups of one owner that WeCom lists.
pub(super) async fn owned(
    app: &App,
    corp: &CorpApp,
    owner: &MemberId,
) -> Result<std::collections::BTreeSet<ChatId>, Error> {
    let listed = listing::list(app, corp, std::slice::from_ref(owner)).await?;
    Ok(listed.groups)
}

/// What groups become that are new, or that nobody has said anything of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ImportState {
    /// Visitors are shown it at once.
    Open,
    /// In stock: not shown until its pool needs another group.
    #[default]
    Spare,
}

/// What was asked for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct GroupImport {
    /// Nobody: of everybody in the app's range.
    pub(crate) owners: Vec<MemberId>,
    pub(crate) group_pool: Option<GroupPoolId>,
    pub(crate) state: ImportState,
    pub(crate) tags: Vec<GroupTag>,
}

/// Under way.
pub(crate) struct Import {
    new: NewImport,
    trail: Trail,
    /// In order.
    left: VecDeque<ChatId>,
    /// Of the first that is left.
    tries: i32,
    /// Groups in a row.
    unanswered: u32,
}

impl Import {
    /// Finds out which groups there are; `progress` says how many are to be read.
    pub(crate) async fn begin(
        app: &App,
        corp: &CorpApp,
        operation: &Operation,
        progress: &mut Progress,
    ) -> Result<Self, Error> {
        let wanted: GroupImport = serde_json::from_value(operation.request.clone())?;
        let listed = listing::list(app, corp, &wanted.owners).await?;
        let last = progress.cursor.as_deref();
        let left: VecDeque<ChatId> = listed
            .groups
            .into_iter()
            .filter(|chat| last.is_none_or(|last| chat.as_str() > last))
            .collect();
        if last.is_none() {
            for (what, problem) in listed.refused {
                fail(progress, &what, &problem);
            }
            // Whoever takes over does not count them again.
            progress.cursor = Some(String::new());
        }
        progress.total = progress.done + progress.skipped + progress.failed + left.len() as u64;
        Ok(Self {
            new: NewImport {
                pool: wanted.group_pool,
                state: match wanted.state {
                    ImportState::Open => GroupState::Open,
                    ImportState::Spare => GroupState::Spare,
                },
                tags: wanted.tags,
            },
            trail: Trail {
                actor: operation.actor.clone(),
                reason: Some(format!("operation {}", operation.id)),
                request_id: None,
                now_ms: app.now_ms(),
            },
            left,
            tries: 0,
            unanswered: 0,
        })
    }

    /// Reads the next few and writes them down. False: there are none.
    pub(crate) async fn step(
        &mut self,
        app: &App,
        corp: &CorpApp,
        progress: &mut Progress,
    ) -> Result<bool, Error> {
        let batch: Vec<ChatId> = self.left.iter().take(BATCH).cloned().collect();
        if batch.is_empty() {
            return Ok(false);
        }
        let asked: Vec<_> = batch.iter().map(|chat| ask(app, corp, chat)).collect();
        let answers: Vec<Answer> = stream::iter(asked).buffered(AT_ONCE).collect().await;
        let mut answered = Vec::new();
        for (chat, answer) in batch.into_iter().zip(answers) {
            match answer {
                Answer::Read(found) => {
                    self.unanswered = 0;
                    answered.push((chat, Ok(found.read)));
                }
                Answer::Refused(problem) => {
                    self.unanswered = 0;
                    answered.push((chat, Err(problem)));
                }
                // What follows was read in vain, and is read again in its turn.
                _ if !answered.is_empty() => break,
                Answer::Wait(until_ms) => return Err(Error::Budget { until_ms }),
                Answer::Unanswered(error) => {
                    answered.push((chat, Err(self.not_answered(app, error)?)));
                    break;
                }
            }
        }
        self.write(app, corp, answered, progress).await?;
        Ok(true)
    }

    /// The first group that is left was not answered for. Err: it is asked for again; else that is how it ends.
    fn not_answered(&mut self, app: &App, error: wecom::Error) -> Result<GroupProblem, Error> {
        if error.stops_the_app() {
            return Err(Error::Wecom(error));
        }
        self.tries += 1;
        if self.tries < app.config.outbox.max_attempts {
            return Err(Error::Unanswered(error));
        }
        self.unanswered += 1;
        if self.unanswered >= MOST_UNANSWERED {
            return Err(Error::Gone(error.to_string()));
        }
        Ok(problem_of(&error))
    }

    async fn write(
        &mut self,
        app: &App,
        corp: &CorpApp,
        answered: Vec<(ChatId, Result<GroupRead, GroupProblem>)>,
        progress: &mut Progress,
    ) -> Result<(), Error> {
        let groups = app.ledger.groups();
        self.trail.now_ms = app.now_ms();
        let reads = answered
            .iter()
            .filter_map(|(_, answer)| answer.as_ref().ok());
        let reads: Vec<GroupRead> = reads.cloned().collect();
        let mut left_alone = Vec::new();
        if !reads.is_empty() {
            let imported = groups.import(&corp.id, &reads, &self.new, &self.trail);
            match imported.await? {
                Imported::Written { placed, elsewhere } => {
                    if !placed.is_empty() {
                        corp.groups_changed.notify_one();
                    }
                    left_alone = elsewhere;
                }
                Imported::Refused(why) => return Err(self.refused(why)),
            }
        }
        for (chat, answer) in &answered {
            let Err(problem) = answer else {
                continue;
            };
            groups.not_read(&corp.id, chat, problem).await?;
            if problem.errcode == Some(DISSOLVED) {
                groups.dismissed(&corp.id, chat, &self.trail).await?;
            }
        }
        // Nothing above is counted twice when it was done in part only.
        for (chat, answer) in answered {
            match answer {
                Ok(_) if left_alone.contains(&chat) => progress.skipped += 1,
                Ok(_) => progress.done += 1,
                Err(problem) => fail(progress, &json!({"group": chat}), &problem),
            }
            if let Some(first) = self.left.pop_front() {
                progress.cursor = Some(first.into());
            }
        }
        self.tries = 0;
        Ok(())
    }

    fn refused(&self, why: GroupRefused) -> Error {
        let pool = self.new.pool.as_ref().map(GroupPoolId::to_string);
        let pool = pool.unwrap_or_default();
        match why {
            GroupRefused::PoolFull(most) => Error::PoolFull(pool, most),
            _ => Error::NoPool(pool),
        }
    }
}

/// First errors that an operation shows.
const FIRST_ERRORS: usize = 10;

fn fail(progress: &mut Progress, what: &Value, problem: &GroupProblem) {
    progress.failed += 1;
    if progress.first_errors.len() < FIRST_ERRORS {
        let mut error = what.clone();
        if let Some(errcode) = problem.errcode {
            error["errcode"] = errcode.into();
        }
        error["problem"] = problem.error.clone().into();
        progress.first_errors.push(error);
    }
}
