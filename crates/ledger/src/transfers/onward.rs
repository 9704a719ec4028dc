//! What follows from the end of an earlier transfer of the same customer: one that no log entry asks for, because it
//! brought him to somebody else than the member he is for, or those that waited for it.

use allocation::{CorpId, SubjectKey};
use uuid::Uuid;

use super::{INSERT, Transfers};
use crate::Error;
use crate::allocations::Allocation;
use crate::change::{NewEffect, NewTransfer};
use crate::error::retry;
use crate::row::signed;
use crate::text::{clean, clean_json};
use crate::times::{at, at_option};

impl Transfers {
    /// Plans a transfer for an open allocation that is still as it was seen, with the effect that starts it; its giver is
    /// the allocation's holder from now on. What was planned from other givers and has not left the house is taken back.
    /// False: the allocation has changed meanwhile. The same transfer under way already is as good as a new one.
    pub async fn plan_onward(
        &self,
        corp: &CorpId,
        seen: &Allocation,
        new: &NewTransfer,
        effect: &NewEffect,
        now_ms: u64,
    ) -> Result<bool, Error> {
        retry(|| self.try_plan_onward(corp, seen, new, effect, now_ms)).await
    }

    async fn try_plan_onward(
        &self,
        corp: &CorpId,
        seen: &Allocation,
        new: &NewTransfer,
        effect: &NewEffect,
        now_ms: u64,
    ) -> Result<bool, Error> {
        // Tables in the order of the log's writer. Its row is ours from here on, so that he finds what we plan.
        let mut work = self.db.transaction().await?;
        let query = work
            .query(
                "UPDATE allocations SET holder = $2 WHERE id = $1 AND epoch = $3 AND member = $4
                    AND closed_at IS NULL AND settled_at IS NULL",
            )
            .bind(seen.id.0)
            .bind(new.giver.as_str())
            .bind(signed(seen.epoch))
            .bind(new.taker.as_str());
        if work.execute(query).await? == 0 {
            work.roll_back().await?;
            return Ok(false);
        }
        let query = work
            .query(
                "UPDATE outbox AS o SET state = 'cancelled', settled_at = $3, lease_until = NULL
                 FROM transfers AS t
                 WHERE t.allocation_id = $1 AND t.giver <> $2 AND t.ended_at IS NULL AND o.transfer_id = t.id
                    AND (o.state = 'pending' OR o.state = 'running' AND o.sent_at IS NULL AND o.unknown_since IS NULL)",
            )
            .bind(seen.id.0)
            .bind(new.giver.as_str())
            .bind(at(now_ms));
        work.execute(query).await?;
        let query = work
            .query(
                "UPDATE transfers AS t SET state = 'cancelled', ended_at = $3, next_check_at = NULL
                 WHERE t.allocation_id = $1 AND t.giver <> $2 AND t.ended_at IS NULL AND t.started_at IS NULL
                    AND NOT EXISTS (
                        SELECT FROM outbox AS o WHERE o.transfer_id = t.id AND o.state IN ('running', 'unknown'))",
            )
            .bind(seen.id.0)
            .bind(new.giver.as_str())
            .bind(at(now_ms));
        work.execute(query).await?;
        let query = work
            .query(INSERT)
            .bind(corp.as_str())
            .bind(vec![new.id])
            .bind(vec![Some(seen.id.0)])
            .bind(vec![seen.customer])
            .bind(vec![new.subject.to_string()])
            .bind(vec![new.giver.as_str()])
            .bind(vec![new.taker.as_str()])
            .bind(vec![new.kind.as_str()])
            .bind(vec![at(now_ms)])
            .bind(vec![false]);
        if work.fetch_optional(query).await?.is_some() {
            let query = work
                .query(crate::outbox::INSERT)
                .bind(corp.as_str())
                .bind(vec![Uuid::now_v7()])
                .bind(vec![clean(&effect.kind)])
                .bind(vec![clean(&effect.key)])
                .bind(vec![Some(seen.id.0)])
                .bind(vec![effect.epoch.map(signed)])
                .bind(vec![Some(new.id)])
                .bind(vec![clean_json(&effect.payload)])
                .bind(vec![effect.erase_payload])
                .bind(vec![effect.priority])
                .bind(vec![at(effect.due_ms)])
                .bind(vec![at_option(effect.deadline_ms)])
                .bind(vec![at(now_ms)])
                .bind(vec![false]);
            work.execute(query).await?;
        }
        work.commit().await?;
        Ok(true)
    }

    /// A transfer of this customer is over: those that wait for it are asked for at once. Answers how many.
    pub async fn hasten(
        &self,
        corp: &CorpId,
        subject: &SubjectKey,
        now_ms: u64,
    ) -> Result<u64, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "UPDATE outbox AS o SET due_at = $3 FROM transfers AS t
                 WHERE t.corp_id = $1 AND t.subject = $2 AND t.ended_at IS NULL AND t.started_at IS NULL
                    AND o.transfer_id = t.id AND o.state = 'pending' AND o.due_at > $3",
            )
            .bind(corp.as_str())
            .bind(subject.to_string())
            .bind(at(now_ms));
        let hastened = work.execute(query).await?;
        work.end().await?;
        Ok(hastened)
    }
}
