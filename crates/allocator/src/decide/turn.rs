//! One batch, carried out: as few script calls as the order of its steps allows.

use std::collections::HashSet;

use allocation::{Closed, Closing, Confirmation, Confirmed, Decision, Match, Request, SubjectKey};
use metrics::counter;

use super::{
    Error,
    marks::{Delays, Marks},
    waiting,
};
use crate::{
    app::CorpApp,
    fission::intake::{self as chats, ChatStep},
    payload::{Context, Outcome, Payload},
    reception::intake::{Pair, Step},
};

/// Requests in one call for which a member must have skills. Each of them may have every member of a pool written, and Redis
/// serves nobody else until the call is over.
const MOST_CHOOSY: usize = 8;

/// The steps of one batch. Requests and closings gather until one touches a subject of the other kind: their order
/// matters only there.
#[derive(Default)]
pub(super) struct Turn {
    requests: Vec<Request>,
    contexts: Vec<Context>,
    confirmations: Vec<(Confirmation, Context)>,
    closings: Vec<(Closing, Pair, Origin)>,
    chats: Vec<(ChatStep, Origin)>,
    outcomes: Vec<Outcome>,
    pub(super) marks: Marks,
}

/// So many of these requests, from the first on, go into one call.
fn in_one_call(requests: &[Request]) -> usize {
    let is_choosy = |request: &Request| {
        let mut steps = request.plan.iter().flat_map(|plan| plan.steps());
        steps.any(|step| !step.needs.is_empty())
    };
    let choosy = requests.iter().enumerate();
    let mut choosy = choosy.filter(|(_, request)| is_choosy(request));
    choosy.nth(MOST_CHOOSY).map_or(requests.len(), |(at, _)| at)
}

fn take<T>(of: &mut Vec<T>, n: usize) -> Vec<T> {
    let rest = of.split_off(n);
    std::mem::replace(of, rest)
}

/// Nothing but the order of time says whose visit it was, or nothing at all.
fn is_guess(confirmed: &Confirmed) -> bool {
    match confirmed {
        Confirmed::Direct { .. } => true,
        Confirmed::Confirmed { by, .. }
        | Confirmed::Late { by, .. }
        | Confirmed::Mismatched { by, .. } => *by == Match::Time,
        _ => false,
    }
}

/// Which delivery it was.
#[derive(Clone)]
pub(super) struct Origin {
    pub(super) delivery: String,
    pub(super) received_ms: u64,
}

impl Turn {
    pub(super) async fn add(
        &mut self,
        corp: &CorpApp,
        origin: Origin,
        step: Step,
    ) -> Result<(), Error> {
        match step {
            Step::Decide { request, context } => {
                if self
                    .closings
                    .iter()
                    .any(|(closing, ..)| closing.subject == request.subject)
                {
                    self.close(corp).await?;
                }
                if self.confirms(request.subject) {
                    self.confirm(corp).await?;
                }
                self.requests.push(request);
                self.contexts.push(*context);
            }
            Step::Confirm {
                confirmation,
                context,
            } => {
                let subject = confirmation.subject;
                if self
                    .closings
                    .iter()
                    .any(|(closing, ..)| closing.subject == subject)
                {
                    self.close(corp).await?;
                }
                if self
                    .requests
                    .iter()
                    .any(|request| request.subject == subject)
                {
                    self.decide(corp).await?;
                }
                self.confirmations.push((confirmation, *context));
            }
            Step::Close { closing, pair } => {
                if self
                    .requests
                    .iter()
                    .any(|request| request.subject == closing.subject)
                {
                    self.decide(corp).await?;
                }
                if self.confirms(closing.subject) {
                    self.confirm(corp).await?;
                }
                self.closings.push((closing, pair, origin));
            }
            Step::Advance {
                external_userid,
                taker,
                reason,
            } => {
                self.marks.transfer(&external_userid, taker.as_deref());
                self.outcome(origin, "advanced", reason);
            }
            Step::Reread(pair) => {
                self.marks.pairs.push(pair);
                self.outcome(origin, "reread", "changed");
            }
            Step::Late(pair) => {
                self.marks.pairs.push(pair);
                self.outcome(origin, "reread", "late");
            }
            Step::CheckMember(userid) => {
                self.marks.members.push(userid);
                self.outcome(origin, "reread", "member");
            }
            Step::Nowhere(pair) => {
                self.marks.homeless.push(pair);
                self.ignored(corp, origin, "no_pool");
            }
            Step::Chat(chat) => self.chats.push((chat, origin)),
            Step::Ignore(reason) => self.ignored(corp, origin, reason),
        }
        Ok(())
    }

    fn ignored(&mut self, corp: &CorpApp, origin: Origin, reason: &'static str) {
        counter!("paidan_ignored_total", "corp" => corp.id.to_string(), "reason" => reason)
            .increment(1);
        self.outcome(origin, "ignored", reason);
    }

    fn outcome(&mut self, origin: Origin, outcome: &str, reason: &str) {
        self.outcomes.push(Outcome {
            delivery: origin.delivery,
            received_ms: origin.received_ms,
            outcome: outcome.to_owned(),
            reason: Some(reason.to_owned()),
        });
    }

    async fn decide(&mut self, corp: &CorpApp) -> Result<(), Error> {
        while !self.requests.is_empty() {
            let n = in_one_call(&self.requests);
            let (requests, contexts) = (take(&mut self.requests, n), take(&mut self.contexts, n));
            self.ask(corp, requests, contexts).await?;
        }
        Ok(())
    }

    async fn ask(
        &mut self,
        corp: &CorpApp,
        requests: Vec<Request>,
        contexts: Vec<Context>,
    ) -> Result<(), Error> {
        let unknown = contexts
            .iter()
            .filter(|context| context.unknown_state.is_some())
            .count();
        if unknown > 0 {
            counter!("paidan_unknown_state_total", "corp" => corp.id.to_string())
                .increment(unknown as u64);
            tracing::warn!(corp = %corp.id, unknown, "customers came with a State that names no channel; they went to the default pool");
        }
        let payload = Payload {
            contexts,
            outcomes: std::mem::take(&mut self.outcomes),
            ..Payload::default()
        };
        let applied = corp.roster.decide(requests, &payload.text(), None).await?;
        for (context, decision) in payload.contexts.iter().zip(&applied.answer) {
            match decision {
                Decision::Echo { .. } => self
                    .marks
                    .transfer(&context.subject_id, context.holder.as_deref()),
                Decision::NoPool => self.marks.homeless.push(Pair::of(context)),
                _ => {}
            }
        }
        Ok(())
    }

    fn confirms(&self, subject: SubjectKey) -> bool {
        let mut confirmations = self.confirmations.iter();
        confirmations.any(|(confirmation, _)| confirmation.subject == subject)
    }

    async fn confirm(&mut self, corp: &CorpApp) -> Result<(), Error> {
        if self.confirmations.is_empty() {
            return Ok(());
        }
        let (asked, contexts) = std::mem::take(&mut self.confirmations).into_iter().unzip();
        let payload = Payload {
            contexts,
            outcomes: std::mem::take(&mut self.outcomes),
            ..Payload::default()
        };
        let applied = corp.roster.confirm(asked, &payload.text(), None).await?;
        for (context, confirmed) in payload.contexts.iter().zip(&applied.answer) {
            match confirmed {
                Confirmed::Echo { .. } => self
                    .marks
                    .transfer(&context.subject_id, context.holder.as_deref()),
                Confirmed::NoPool => self.marks.homeless.push(Pair::of(context)),
                guessed if is_guess(guessed) => self.marks.guessed.push(Pair::of(context)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Closes what is to be closed. A closing that ended nothing is a doubt: the pair is read again.
    async fn close(&mut self, corp: &CorpApp) -> Result<(), Error> {
        if self.closings.is_empty() {
            return Ok(());
        }
        let closings = std::mem::take(&mut self.closings);
        let mut outcomes = std::mem::take(&mut self.outcomes);
        outcomes.extend(closings.iter().map(|(closing, _, origin)| Outcome {
            delivery: origin.delivery.clone(),
            received_ms: origin.received_ms,
            outcome: "closed".to_owned(),
            reason: Some(closing.reason.to_string()),
        }));
        let payload = Payload {
            outcomes,
            ..Payload::default()
        };
        let asked = closings
            .iter()
            .map(|(closing, ..)| closing.clone())
            .collect();
        let applied = corp.roster.close(asked, &payload.text(), None).await?;
        let ended: HashSet<SubjectKey> = applied
            .answer
            .iter()
            .map(|closed: &Closed| closed.subject)
            .collect();
        let mut doubtful = closings;
        doubtful.retain(|(closing, ..)| !ended.contains(&closing.subject));
        let waited = waiting::end(corp, doubtful.iter().map(|(closing, ..)| closing)).await?;
        doubtful.retain(|(closing, ..)| !waited.contains(&closing.subject));
        let pairs = doubtful.into_iter().map(|(_, pair, _)| pair);
        self.marks.pairs.extend(pairs);
        Ok(())
    }

    /// Events of groups touch nothing that the others do. What became of one is known only afterwards, and is noted then.
    async fn take_chats(&mut self, corp: &CorpApp) -> Result<(), Error> {
        if self.chats.is_empty() {
            return Ok(());
        }
        let (steps, origins): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.chats).into_iter().unzip();
        let took = chats::take(corp, &steps).await?;
        for ((step, origin), took) in steps.into_iter().zip(origins).zip(took) {
            self.marks.chat(step, took);
            match took.outcome() {
                ("ignored", reason) => self.ignored(corp, origin, reason),
                (outcome, reason) => self.outcome(origin, outcome, reason),
            }
        }
        Ok(())
    }

    /// The rest, then the marks. Marks come last, as only an answer says which are needed, and before the
    /// acknowledgement: a batch that comes again makes them again.
    pub(super) async fn finish(
        mut self,
        corp: &CorpApp,
        now_ms: u64,
        delays: Delays,
        look_up: bool,
    ) -> Result<(), Error> {
        self.decide(corp).await?;
        self.confirm(corp).await?;
        self.close(corp).await?;
        self.take_chats(corp).await?;
        if !self.outcomes.is_empty() {
            let payload = Payload {
                outcomes: std::mem::take(&mut self.outcomes),
                ..Payload::default()
            };
            corp.roster.note(&payload.text(), None).await?;
        }
        if !look_up {
            self.marks.guessed.clear();
        }
        self.marks.write(corp, now_ms, delays).await
    }
}

#[cfg(test)]
mod tests {
    use allocation::{AllocationId, CorpId, Plan, PoolId, Step as PlanStep};
    use uuid::Uuid;

    use super::*;

    fn request(needs: &[&str]) -> Request {
        let pool = PoolId::new("p").unwrap();
        let step = PlanStep {
            after_ms: 0,
            pool: pool.clone(),
            needs: needs.iter().map(|need| need.parse().unwrap()).collect(),
        };
        let id = Uuid::now_v7();
        Request {
            allocation: AllocationId(id),
            pool,
            subject: SubjectKey::new(&CorpId::new("ww1").unwrap(), "wecom", &id.to_string()),
            holder: None,
            request: None,
            echo: false,
            plan: Some(Plan::new(Vec::new(), vec![step], None).unwrap()),
        }
    }

    #[test]
    fn few_choosy_ones_go_into_one_call_and_any_others_with_them() {
        let (plain, choosy) = (request(&[]), request(&["vip"]));
        assert_eq!(in_one_call(&[]), 0);
        assert_eq!(in_one_call(&vec![plain.clone(); 200]), 200);
        assert_eq!(in_one_call(&vec![choosy.clone(); 200]), MOST_CHOOSY);
        let mut mixed = vec![choosy.clone(); MOST_CHOOSY];
        mixed.splice(3..3, vec![plain.clone(); 50]);
        mixed.extend([plain, choosy.clone(), choosy]);
        let n = in_one_call(&mixed);
        assert_eq!(take(&mut mixed, n).len(), MOST_CHOOSY + 51);
        assert_eq!((mixed.len(), in_one_call(&mixed)), (2, 2));
    }
}
