//! A member makes groups by hand: he is told how many, for which pool and by when, reminded once when half of the time is over,
//! and given up when all of it is. What he makes is found by its event, or in the list of his groups.

use ledger::{ASKED_BY_SUPPLY, SupplySource, SupplyStep, SupplyTask, SupplyTaskState};
use quota::Urgency;
use wecom::{
    client::{AppMessage, MessageContent, Recipients, TextCard, api},
    error::Class,
};

use super::{
    Error, Look, count, look, mark_unknown,
    turn::{ENOUGH, Hands},
};
use crate::{backoff::jittered, outbox, permit, public::states::clock_time};

/// Longer than a call lasts.
const LEASE_MS: u64 = 15_000;
const MOST_TRIES: u32 = 5;
const AGAIN_MS: u64 = 2_000;
/// While WeCom takes nothing from this app.
const APP_STOPPED_MS: u64 = 15_000;
/// His groups are listed so often: events get lost.
const SEARCH_MS: u64 = 60_000;
/// `invaliduser` may name everybody the message was for.
const ALL_INVALID: i64 = 81013;
/// A keeper who makes no group is left alone so long at most.
const LONGEST_REST_MS: u64 = 24 * 60 * 60 * 1_000;
/// Asked so often in vain, he is somebody whom a person should look after.
const TELL_UNANSWERED: u32 = 3;
const BUTTON: &str = "去建群";

/// What became of a message.
enum Told {
    Yes,
    /// Not before this, and it is nobody's fault.
    Wait {
        until_ms: u64,
        why: String,
    },
    /// It may be sent again: the same words come once.
    Again {
        errcode: Option<i64>,
        error: String,
    },
    /// He cannot be told.
    Never {
        errcode: Option<i64>,
        error: String,
    },
    /// Somebody else has the task.
    NotOurs,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Words {
    First,
    Reminder,
}

/// Something is to be done about it now.
pub(super) fn is_due(task: &SupplyTask, now_ms: u64) -> bool {
    let due_ms = [
        task.next_try_ms.unwrap_or_default(),
        task.deadline_ms.unwrap_or(u64::MAX),
    ];
    task.source == SupplySource::Person && due_ms.into_iter().min() <= Some(now_ms)
}

impl Hands<'_> {
    /// All of them that are due, at once: none waits for another's call.
    pub(super) async fn people(&self) -> Result<(), Error> {
        let looks = look(self.app, self.corp, self.generation).await?;
        let now_ms = self.app.now_ms();
        let tasks = self.app.ledger.supply_tasks().open(&self.corp.id).await?;
        let due = tasks.iter().filter(|task| is_due(task, now_ms));
        let ended = due.map(|task| {
            let look = looks.iter().find(|look| look.pool.id == task.pool);
            self.person(task, look)
        });
        let ended = futures_util::future::join_all(ended).await;
        ended.into_iter().collect()
    }

    /// `look` None: its pool is not supplied now.
    async fn person(&self, task: &SupplyTask, look: Option<&Look>) -> Result<(), Error> {
        let now_ms = self.app.now_ms();
        let is_due = task.next_try_ms.is_none_or(|next_ms| next_ms <= now_ms);
        let is_over = task.deadline_ms.is_some_and(|end_ms| end_ms <= now_ms);
        match task.state {
            SupplyTaskState::Wanted if is_over => self.overdue(task, rest_ms(task, 0)).await,
            SupplyTaskState::Wanted => match look {
                Some(look)
                    if look.need == 0 && task.tries == 0 && task.asked_by == ASKED_BY_SUPPLY =>
                {
                    self.enough(task, ENOUGH).await
                }
                Some(look) if is_due => self.first(task, look).await,
                _ => Ok(()),
            },
            SupplyTaskState::Asked if is_over => {
                self.search_of(task).await?;
                self.unanswered(task, look).await
            }
            SupplyTaskState::Asked if is_due => {
                self.search_of(task).await?;
                self.remind(task, look).await
            }
            SupplyTaskState::Overdue if is_due => self.given_up(task).await,
            _ => Ok(()),
        }
    }

    async fn first(&self, task: &SupplyTask, look: &Look) -> Result<(), Error> {
        let now_ms = self.app.now_ms();
        let step = match self.tell(task, look, Words::First).await? {
            Told::NotOurs => return Ok(()),
            Told::Yes => {
                count(self.corp, "person", "asked");
                let asked_ms = self.app.now_ms();
                SupplyStep {
                    state: Some(SupplyTaskState::Asked),
                    asked_ms: Some(asked_ms),
                    next_try_ms: next_look(task, asked_ms),
                    ..SupplyStep::default()
                }
            }
            Told::Wait { until_ms, why } => {
                count(self.corp, "person", "waits");
                SupplyStep {
                    next_try_ms: Some(until_ms),
                    error: Some(why),
                    ..SupplyStep::default()
                }
            }
            Told::Again { errcode, error } if task.tries + 1 < MOST_TRIES => {
                count(self.corp, "person", "again");
                SupplyStep {
                    next_try_ms: Some(now_ms + jittered(AGAIN_MS << task.tries.min(8))),
                    errcode,
                    error: Some(error),
                    ..SupplyStep::default()
                }
            }
            Told::Again { errcode, error } | Told::Never { errcode, error } => {
                count(self.corp, "person", "failed");
                tracing::warn!(corp = %self.corp.id, pool = %task.pool, task = %task.id, error,
                    "a keeper could not be asked for groups");
                SupplyStep {
                    state: Some(SupplyTaskState::Failed),
                    next_try_ms: Some(now_ms + jittered(self.app.config.fission.failed_ms)),
                    errcode,
                    error: Some(error),
                    ..SupplyStep::default()
                }
            }
        };
        self.step(task, &step).await.map(drop)
    }

    /// Once, when half of the time is over. It is written down first: rather none than two.
    async fn remind(&self, task: &SupplyTask, look: Option<&Look>) -> Result<(), Error> {
        let now_ms = self.app.now_ms();
        let is_half = half(task).is_some_and(|half_ms| half_ms <= now_ms);
        let reminds = is_half && task.reminded_ms.is_none();
        let step = SupplyStep {
            reminded_ms: reminds.then_some(now_ms),
            next_try_ms: next_look(task, now_ms),
            ..SupplyStep::default()
        };
        let Some(task) = self.step(task, &step).await? else {
            return Ok(());
        };
        if let Some(look) = look.filter(|_| reminds)
            && let Told::Yes = self.tell(&task, look, Words::Reminder).await?
        {
            count(self.corp, "person", "reminded");
        }
        Ok(())
    }

    async fn search_of(&self, task: &SupplyTask) -> Result<(), Error> {
        match &task.keeper {
            Some(keeper) => mark_unknown(self.app, self.corp, keeper).await,
            None => Ok(()),
        }
    }

    /// The longer he has made none, the longer he is left alone; a person is to look why.
    async fn unanswered(&self, task: &SupplyTask, look: Option<&Look>) -> Result<(), Error> {
        let before = look.map_or(0, |look| look.pool.unanswered);
        if before + 1 >= TELL_UNANSWERED {
            tracing::warn!(corp = %self.corp.id, pool = %task.pool, task = %task.id, times = before + 1,
                "a keeper was asked for groups again and again and made none: is he there? Another one can be put");
        }
        self.overdue(task, rest_ms(task, before)).await
    }

    /// The next source is tried, and this one rests; what comes all the same is taken.
    pub(super) async fn overdue(&self, task: &SupplyTask, rest_ms: u64) -> Result<(), Error> {
        let step = SupplyStep {
            state: Some(SupplyTaskState::Overdue),
            next_try_ms: Some(self.app.now_ms() + rest_ms),
            error: Some("the groups did not come in time".to_owned()),
            ..SupplyStep::default()
        };
        if self.step(task, &step).await?.is_some() {
            count(self.corp, task.source.as_str(), "overdue");
            tracing::warn!(corp = %self.corp.id, pool = %task.pool, task = %task.id, source = task.source.as_str(),
                lacking = task.lacking(), openers = task.openers, "groups that were asked for did not come in time");
        }
        Ok(())
    }

    /// What comes from now on is nobody's.
    pub(super) async fn given_up(&self, task: &SupplyTask) -> Result<(), Error> {
        let step = SupplyStep {
            state: Some(SupplyTaskState::Failed),
            error: task.last_error.clone(),
            ..SupplyStep::default()
        };
        self.step(task, &step).await.map(drop)
    }

    async fn tell(&self, task: &SupplyTask, look: &Look, words: Words) -> Result<Told, Error> {
        let (app, corp) = (self.app, self.corp);
        let Some(keeper) = task.keeper.clone() else {
            return Ok(Told::Never {
                errcode: None,
                error: "the pool has no keeper".to_owned(),
            });
        };
        let permit = match permit::take(app, corp, api::SEND_MESSAGE, Urgency::Ordinary).await {
            Ok(permit) => permit,
            Err(until_ms) => return Ok(budget(until_ms)),
        };
        let wait = match outbox::enough(app, corp, &keeper).await {
            Ok(None) => None,
            Ok(Some(until_ms)) => Some(Told::Wait {
                until_ms,
                why: "he gets no more messages this minute".to_owned(),
            }),
            Err(error) => {
                permit::unused(app, corp, api::SEND_MESSAGE, &permit).await;
                return Err(Error::Card(error.to_string()));
            }
        };
        if let Some(wait) = wait {
            permit::unused(app, corp, api::SEND_MESSAGE, &permit).await;
            return Ok(wait);
        }
        if words == Words::First {
            let tried = SupplyStep {
                tries: 1,
                next_try_ms: Some(app.now_ms() + LEASE_MS),
                ..SupplyStep::default()
            };
            if self.step(task, &tried).await?.is_none() {
                permit::unused(app, corp, api::SEND_MESSAGE, &permit).await;
                return Ok(Told::NotOurs);
            }
        }
        let message = self.message(task, look, &keeper, words);
        let answer = corp.client.send_message(&message).await;
        permit::done(app, corp, api::SEND_MESSAGE, &permit, &answer).await;
        let error = match answer {
            Ok(sent) if sent.invaliduser.is_empty() => return Ok(Told::Yes),
            Ok(_) => {
                return Ok(Told::Never {
                    errcode: None,
                    error: "WeCom does not reach the keeper: he may have left, or the app may not see him"
                        .to_owned(),
                });
            }
            Err(error) => error,
        };
        let (errcode, text) = (error.errcode(), error.to_string());
        Ok(match error.class() {
            _ if error.stops_the_app() => Told::Wait {
                until_ms: app.now_ms() + jittered(APP_STOPPED_MS),
                why: text,
            },
            Class::RateLimited => {
                let uncounted = SupplyStep {
                    tries: -1,
                    ..SupplyStep::default()
                };
                if words == Words::First {
                    self.step(task, &uncounted).await?;
                }
                Told::Wait {
                    until_ms: self.until().await,
                    why: text,
                }
            }
            _ if errcode == Some(ALL_INVALID) => Told::Never {
                errcode,
                error: text,
            },
            _ if error.may_have_acted() => Told::Again {
                errcode,
                error: text,
            },
            Class::RefreshToken | Class::RetryWithBackoff => Told::Again {
                errcode,
                error: text,
            },
            _ => Told::Never {
                errcode,
                error: text,
            },
        })
    }

    /// Until when the quota lets no message go.
    async fn until(&self) -> u64 {
        match permit::take(self.app, self.corp, api::SEND_MESSAGE, Urgency::Ordinary).await {
            Ok(permit) => {
                permit::unused(self.app, self.corp, api::SEND_MESSAGE, &permit).await;
                self.app.now_ms()
            }
            Err(until_ms) => until_ms,
        }
    }

    /// The same task gives the same text, so that WeCom's duplicate check knows a repetition.
    fn message(&self, task: &SupplyTask, look: &Look, keeper: &str, words: Words) -> AppMessage {
        let texts = &self.app.config.card;
        let offset = self.corp.settings.utc_offset_minutes;
        let time = clock_time(task.deadline_ms.unwrap_or_default(), offset);
        let n_groups = match words {
            Words::First => task.n_groups,
            Words::Reminder => task.lacking(),
        };
        let text = match words {
            Words::First => &texts.supply_description,
            Words::Reminder => &texts.supply_reminder,
        };
        let text = text
            .replace("{count}", &n_groups.to_string())
            .replace("{time}", &time)
            .replace("{pool}", &look.pool.name);
        let card = TextCard {
            title: texts.supply_title.clone().into(),
            description: text.into(),
            url: texts
                .supply_url
                .replace("{task}", &task.id.to_string())
                .into(),
            btntxt: Some(BUTTON.to_owned()),
        };
        AppMessage::new(Recipients::user(keeper), MessageContent::TextCard(card))
    }
}

fn budget(until_ms: u64) -> Told {
    Told::Wait {
        until_ms,
        why: "the budget of messages is used up".to_owned(),
    }
}

/// As long as he had, and twice as long for each time before that he was asked in vain.
fn rest_ms(task: &SupplyTask, before: u32) -> u64 {
    let end_ms = task.deadline_ms.unwrap_or_default();
    let had_ms = end_ms.saturating_sub(task.created_ms).max(SEARCH_MS);
    let longest_ms = LONGEST_REST_MS.max(had_ms);
    had_ms.saturating_mul(1 << before.min(16)).min(longest_ms)
}

/// When half of its time is over.
fn half(task: &SupplyTask) -> Option<u64> {
    let deadline_ms = task.deadline_ms?;
    Some(task.created_ms + deadline_ms.saturating_sub(task.created_ms) / 2)
}

/// When it is looked at the next time: for groups that no event told of, to remind him, or as its time is over.
fn next_look(task: &SupplyTask, now_ms: u64) -> Option<u64> {
    let half_ms = half(task).filter(|half_ms| task.reminded_ms.is_none() && *half_ms > now_ms);
    let all = [Some(now_ms + SEARCH_MS), half_ms, task.deadline_ms];
    all.into_iter().flatten().min()
}
