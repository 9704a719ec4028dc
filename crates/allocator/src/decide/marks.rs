//! What a batch leaves to be looked at later.

use super::{Error, dirty};
use crate::{
    app::CorpApp,
    fission::{
        dirty as chats,
        intake::{ChatNews, ChatStep, Took},
    },
    reception::intake::{Pair, Step},
};

#[derive(Default)]
pub(super) struct Marks {
    pub(super) pairs: Vec<Pair>,
    pub(super) transfers: Vec<String>,
    pub(super) members: Vec<String>,
    /// There is no pool for them (yet), or not in Redis: read like the others, by then it may be there.
    pub(super) homeless: Vec<Pair>,
    /// Whose visit was guessed: WeCom may tell who they are.
    pub(super) guessed: Vec<Pair>,
    /// Groups that changed, that are new, that are no more.
    chats: Vec<String>,
    chats_new: Vec<String>,
    chats_gone: Vec<String>,
}

/// How long after an event it is read what became of it, milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delays {
    pub(super) pair_ms: u64,
    pub(super) chat_ms: u64,
}

impl Marks {
    pub(super) fn transfer(&mut self, external_userid: &str, taker: Option<&str>) {
        let taker = taker.unwrap_or_default();
        self.transfers
            .push(format!("{external_userid}{}{taker}", dirty::SEPARATOR));
    }

    pub(super) fn chat(&mut self, step: ChatStep, took: Took) {
        let marks = match took {
            Took::Counted { read: false, .. } | Took::NotOurs => return,
            Took::Counted { read: true, .. } | Took::Reread => &mut self.chats,
            Took::New => &mut self.chats_new,
            Took::Gone => &mut self.chats_gone,
        };
        marks.push(step.chat.into());
    }

    /// The marks of a delivery whose outcome is logged: they are made after that, so they may be missing. Of a closing it
    /// is not known any more whether it ended something, so its pair is read.
    pub(super) fn add_again(&mut self, step: Step, outcome: &str) {
        match (step, outcome) {
            (Step::Decide { context, .. } | Step::Confirm { context, .. }, "advanced") => {
                self.transfer(&context.subject_id, context.holder.as_deref());
            }
            (Step::Decide { context, .. } | Step::Confirm { context, .. }, "ignored") => {
                self.homeless.push(Pair::of(&context))
            }
            (Step::Nowhere(pair), "ignored") => self.homeless.push(pair),
            (Step::Close { pair, .. }, "closed")
            | (Step::Reread(pair), "reread")
            | (Step::Late(pair), "reread" | "closed" | "ignored") => {
                self.pairs.push(pair);
            }
            (
                Step::Advance {
                    external_userid,
                    taker,
                    ..
                },
                "advanced",
            ) => self.transfer(&external_userid, taker.as_deref()),
            (Step::CheckMember(userid), "reread") => self.members.push(userid),
            (Step::Chat(chat), outcome) if outcome != "ignored" => match chat.what {
                ChatNews::New => self.chat(chat, Took::New),
                ChatNews::Gone => self.chat(chat, Took::Gone),
                ChatNews::People(_) | ChatNews::Doubt => self.chat(chat, Took::Reread),
            },
            _ => {}
        }
    }

    pub(super) async fn write(
        &self,
        corp: &CorpApp,
        now_ms: u64,
        delays: Delays,
    ) -> Result<(), Error> {
        let names = |pairs: &[Pair]| pairs.iter().map(Pair::entity).collect::<Vec<_>>();
        let soon = now_ms + delays.pair_ms;
        let read_ms = now_ms + delays.chat_ms;
        mark(corp, dirty::PAIR, &names(&self.pairs), soon).await?;
        if !self.homeless.is_empty() {
            corp.pool_missed.notify_one();
        }
        mark(corp, dirty::PAIR, &names(&self.homeless), soon).await?;
        mark(corp, dirty::PAIR, &names(&self.guessed), soon).await?;
        mark(corp, dirty::TRANSFER, &self.transfers, now_ms).await?;
        mark(corp, dirty::MEMBER, &self.members, soon).await?;
        mark(corp, chats::CHAT, &self.chats, read_ms).await?;
        mark(corp, chats::CHAT_NEW, &self.chats_new, read_ms).await?;
        mark(corp, chats::CHAT_GONE, &self.chats_gone, now_ms).await?;
        if !self.transfers.is_empty() {
            corp.transfers_due.notify_one();
        }
        Ok(())
    }
}

async fn mark(corp: &CorpApp, kind: &str, entities: &[String], due_ms: u64) -> Result<(), Error> {
    let marks: Vec<(&str, u64)> = entities
        .iter()
        .map(|entity| (entity.as_str(), due_ms))
        .collect();
    Ok(corp.inbox.dirty_mark_many(kind, &marks).await?)
}
