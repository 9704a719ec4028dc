//! The right to make one call.

use crate::renewing::Renewing;
use crate::{BudgetKeys, Connection, Error, Outcome, Quota};

/// What a budget answered when it gave a place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) taken_ms: i64,
    pub(crate) cap: i64,
}

/// The right to make one call. Say how it ended with [`done`](Self::done). Until then its place in flight is renewed in
/// the background, but no longer than [`longest_ms`](crate::Limits::longest_ms). A permit that is dropped or dies with its
/// process keeps its place until the lease ends, and stays counted.
#[derive(Debug)]
#[must_use = "a permit that is not given back holds its place until its lease ends"]
pub struct Permit<C> {
    pub(crate) quota: Quota<C>,
    pub(crate) corp: Box<str>,
    pub(crate) api: Box<str>,
    pub(crate) id: Box<str>,
    pub(crate) corp_place: Place,
    pub(crate) egress_place: Option<Place>,
    /// None when the caller says the time: his clock is not the one that a background task would go by.
    pub(crate) renewing: Option<Renewing>,
}

impl<C: Connection> Permit<C> {
    /// Gives the place back. Returns the end of the block that the outcome set, for the ledger to remember. After an
    /// error it may be called again: the same outcome twice is once (but a call that was never made may then be counted
    /// back twice at the address).
    ///
    /// A frequency rule is taken to be the corp's; WeCom does not say whose it was. For the address see
    /// [`Quota::block_egress`].
    pub async fn done(&self, outcome: Outcome, now_ms: Option<i64>) -> Result<Option<i64>, Error> {
        if let Some(renewing) = &self.renewing {
            renewing.end().await;
        }
        let keys = BudgetKeys::corp(&self.corp, &self.api);
        let until = self.give(&keys, self.corp_place, outcome, now_ms).await?;
        // The address limits no calls in flight: only a call that was never made changes anything there.
        if let (Some(place), Some(keys)) = (self.egress_place, self.quota.egress_keys(&self.api))
            && outcome == Outcome::Unused
        {
            self.give(&keys, place, outcome, now_ms).await?;
        }
        Ok(until)
    }

    async fn give(
        &self,
        keys: &BudgetKeys,
        place: Place,
        outcome: Outcome,
        now_ms: Option<i64>,
    ) -> Result<Option<i64>, Error> {
        let give = &self.quota.scripts.give;
        give.call(
            &mut self.quota.conn.clone(),
            keys,
            &self.api,
            &self.id,
            outcome,
            place.taken_ms,
            place.cap,
            now_ms,
        )
        .await
    }
}
