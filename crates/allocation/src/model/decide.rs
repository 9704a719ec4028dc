//! Who gets a subject.

use super::{Call, How, Open, Remembered, Route};
use crate::op::Request;
use crate::outcome::Decision;

impl Call<'_> {
    pub(super) fn decide(&mut self, requests: &[Request]) -> Vec<Decision> {
        requests
            .iter()
            .map(|request| self.decide_or_repeat(request))
            .collect()
    }

    fn decide_or_repeat(&mut self, request: &Request) -> Decision {
        let Some(id) = &request.request else {
            return self.decide_one(request);
        };
        if let Some(first) = self.corp.requests.get(id)
            && !first.is_over(self.now_ms)
        {
            return Decision::Repeated(Box::new(first.decision.clone()));
        }
        let decision = self.decide_one(request);
        if decision != Decision::NoPool {
            let remembered = Remembered {
                at_ms: self.now_ms,
                decision: decision.clone(),
            };
            self.corp.remember(id.clone(), remembered);
        }
        decision
    }

    fn decide_one(&mut self, request: &Request) -> Decision {
        let list = self.corp.opens.get(&request.subject);
        let list = list.map(Vec::as_slice).unwrap_or_default();
        if request.echo
            && let Some(holder) = &request.holder
        {
            let is_echo = |open: &&Open| {
                let given = open.holder.as_ref().is_some_and(|giver| giver != holder);
                given && open.member.as_ref() == Some(holder)
            };
            if let Some(open) = list.iter().find(is_echo) {
                return Decision::Echo {
                    allocation: open.id,
                    pool: open.pool.clone(),
                };
            }
        }
        if !self.corp.pools.contains_key(&request.pool) {
            return Decision::NoPool;
        }
        if let Some(open) = list.iter().find(|open| open.pool == request.pool) {
            return Decision::Already {
                allocation: open.id,
                member: open.member.clone(),
            };
        }
        let mut open = Open {
            id: request.allocation,
            pool: request.pool.clone(),
            member: None,
            holder: request.holder.clone(),
            epoch: 0,
            settled: false,
            hold: None,
            mark: None,
            offer: None,
            route: Route::begin(request.plan.as_ref(), self.now_ms),
        };
        self.take_turn(&mut open, request.subject, How::Decided);
        let member = open.member.clone();
        self.begin_offer(&request.subject, &mut open);
        let until_ms = open.offer.as_ref().map(|offer| offer.until_ms);
        let list = self.corp.opens.entry(request.subject).or_default();
        list.push(open);
        let allocation = request.allocation;
        match (member, until_ms) {
            (Some(member), Some(until_ms)) => Decision::Offered {
                allocation,
                member,
                until_ms,
            },
            (Some(member), None) => Decision::Assigned { allocation, member },
            (None, _) => Decision::Waiting { allocation },
        }
    }
}
