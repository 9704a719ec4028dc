//! A corp of its own for every test, and its operations at a time that the test says.

use quota::budget_take::Taken;
use quota::{
    BudgetKeys, BudgetLimits, Limits, LockKeys, Outcome, Permit, Quota, Reason, Take, Urgency,
};
use redis::AsyncCommands;
use redis::aio::ConnectionManager;

/// Unix milliseconds of the case files' clock.
pub(crate) const T0: i64 = 1_792_000_000_000;

pub(crate) type Conn = ConnectionManager;

/// Five calls a minute of which one is for urgent ones, two in flight: small enough to reach.
pub(crate) fn small() -> Limits {
    Limits {
        per_minute: 5,
        per_hour: 20,
        share_percent: 100,
        urgent_percent: 20,
        in_flight: 2,
        lease_ms: 20_000,
        grow_back_ms: 30_000,
        ..Limits::default()
    }
}

/// One corp whose quota is open.
pub(crate) struct Corp {
    pub(crate) id: String,
    pub(crate) conn: Conn,
    pub(crate) quota: Quota<Conn>,
}

impl Corp {
    pub(crate) async fn new(limits: Limits) -> Self {
        let corp = Self::closed(limits).await;
        corp.seed(1, 0).await;
        corp
    }

    pub(crate) async fn closed(limits: Limits) -> Self {
        let conn = test_redis::shared().connection_manager().await;
        Self {
            id: test_redis::corp(),
            quota: Quota::new(conn.clone(), limits),
            conn,
        }
    }

    pub(crate) async fn seed(&self, generation: i64, least: i64) -> quota::Seeded {
        quota::fence_seed::FenceSeed::default()
            .call(
                &mut self.conn(),
                &LockKeys::new(&self.id, &[]),
                generation,
                least,
            )
            .await
            .unwrap()
    }

    pub(crate) fn conn(&self) -> Conn {
        self.conn.clone()
    }

    pub(crate) async fn take(&self, api: &str, now: i64) -> Take<Conn> {
        let take = self.quota.take(&self.id, api, Urgency::Ordinary, Some(now));
        take.await.unwrap()
    }

    pub(crate) async fn take_urgent(&self, api: &str, now: i64) -> Take<Conn> {
        let take = self.quota.take(&self.id, api, Urgency::Urgent, Some(now));
        take.await.unwrap()
    }

    /// One whole call.
    pub(crate) async fn call(&self, api: &str, outcome: Outcome, now: i64) -> Option<i64> {
        let permit = taken(self.take(api, now).await);
        permit.done(outcome, Some(now)).await.unwrap()
    }

    pub(crate) async fn keys(&self) -> Vec<String> {
        keys_of(&self.conn, &self.id).await
    }
}

pub(crate) async fn keys_of(conn: &Conn, corp: &str) -> Vec<String> {
    let mut conn = conn.clone();
    let mut keys: Vec<String> = conn.keys(format!("{{{corp}}}:*")).await.unwrap();
    keys.sort();
    keys
}

#[track_caller]
pub(crate) fn taken(take: Take<Conn>) -> Permit<Conn> {
    match take {
        Take::Taken(permit) => permit,
        Take::Wait { .. } => panic!("{take:?}"),
    }
}

/// The call may go out; its place stays taken.
#[track_caller]
pub(crate) fn passes(take: Take<Conn>) {
    drop(taken(take));
}

#[track_caller]
pub(crate) fn waits(take: Take<Conn>) -> (Reason, i64) {
    match take {
        Take::Wait {
            until_ms, reason, ..
        } => (reason, until_ms),
        Take::Taken(_) => panic!("{take:?}"),
    }
}

/// The script itself.
pub(crate) async fn take_as(
    corp: &Corp,
    permit: &str,
    limits: BudgetLimits,
    urgent: bool,
    now: i64,
) -> Taken {
    quota::budget_take::BudgetTake::default()
        .call(
            &mut corp.conn(),
            &BudgetKeys::corp(&corp.id, "api"),
            "api",
            permit,
            limits,
            urgent,
            Some(now),
        )
        .await
        .unwrap()
}

/// Every key of the corp ends by itself, but for the fence.
pub(crate) async fn assert_all_expire(conn: &Conn, corp: &str) {
    let mut conn = conn.clone();
    for key in keys_of(&conn, corp).await {
        let ttl: i64 = conn.pttl(&key).await.unwrap();
        assert!(
            ttl > 0 || key.ends_with(":fence"),
            "{key} has no expiry: {ttl}"
        );
    }
}
