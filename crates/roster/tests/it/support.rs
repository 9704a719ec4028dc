//! A corp in Redis and its twin in the model.

use allocation::model::Corp;
use allocation::{
    AllocationId, Answer, Closing, CorpId, Decision, Dump, MemberId, Op, Outcome, PoolConfig,
    PoolId, PresenceChange, Reason, Reassignment, Request, SeatAnswer, SeatOp, SetMember,
    Settlement, SettlementOutcome, Strategy, SubjectKey, Value, Weight, Woken,
};
use redis::aio::ConnectionManager;
use roster::{CorpRoster, Roster};
use uuid::Uuid;

/// The clock of the cases.
pub(crate) const T0: u64 = 1_792_000_000_000;
pub(crate) const HOUR: u64 = 3_600_000;

pub(crate) type Redis = CorpRoster<ConnectionManager>;

/// Every operation is done by both, answers are compared at once.
pub(crate) struct Twin {
    pub(crate) corp: CorpId,
    pub(crate) redis: Redis,
    pub(crate) model: Corp,
    pub(crate) now: u64,
}

/// An open corp that nobody else uses.
pub(crate) async fn open_corp() -> (CorpId, Redis) {
    open_corp_on(test_redis::shared()).await
}

pub(crate) async fn open_corp_on(server: &test_redis::Server) -> (CorpId, Redis) {
    let corp = CorpId::new(test_redis::corp()).unwrap();
    let redis = Roster::new(server.connection_manager().await).corp(&corp);
    redis.begin_rebuild(1).await.unwrap();
    redis
        .finish_rebuild(Corp::new(), 1, Some(T0))
        .await
        .unwrap();
    (corp, redis)
}

impl Twin {
    pub(crate) async fn new() -> Self {
        let (corp, redis) = open_corp().await;
        Self::of(corp, redis)
    }

    /// The twin of a corp that was just opened.
    pub(crate) fn of(corp: CorpId, redis: Redis) -> Self {
        let mut model = Corp::new();
        model.apply(&Op::Rebuilt { generation: 1 }, T0);
        Self {
            corp,
            redis,
            model,
            now: T0,
        }
    }

    pub(crate) async fn apply(&mut self, op: Op) -> Outcome {
        let applied = self.redis.apply(&op, "", Some(self.now)).await.unwrap();
        let outcome = self.model.apply(&op, self.now);
        assert_eq!(applied.answer, outcome, "{op:?}");
        assert_eq!(applied.seq, self.model.seq());
        outcome
    }

    pub(crate) async fn seats(&mut self, op: SeatOp) -> SeatAnswer {
        match self.apply(Op::Seats(op)).await.answer {
            Answer::Seats(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn log_key(&self) -> String {
        roster::bench::log_key(&self.corp)
    }

    /// Redis' bytes are the model's.
    pub(crate) async fn compare(&self) {
        assert_same(&self.redis.dump().await.unwrap(), &self.model.dump());
        assert_eq!(self.model.problems(), Vec::<String>::new());
    }

    pub(crate) async fn pool(
        &mut self,
        name: &str,
        version: u64,
        strategy: Strategy,
        members: &[(&str, &str)],
    ) {
        let config = config(name, version, strategy, members);
        let outcome = self.apply(Op::SetPool(config)).await;
        assert_eq!(
            outcome.answer,
            Answer::Pool(allocation::PoolChange::Changed)
        );
    }

    /// There for ten years, as far as a test goes.
    pub(crate) async fn on(&mut self, members: &[&str]) -> Vec<Woken> {
        let until = self.now + 10 * 365 * 24 * HOUR;
        self.lease(members, until).await
    }

    pub(crate) async fn off(&mut self, members: &[&str]) -> Vec<Woken> {
        self.lease(members, 0).await
    }

    pub(crate) async fn lease(&mut self, members: &[&str], lease_until_ms: u64) -> Vec<Woken> {
        let changes = members.iter().map(|name| PresenceChange {
            member: member(name),
            lease_until_ms,
        });
        self.apply(Op::Presence(changes.collect())).await.woken
    }

    pub(crate) async fn cap(&mut self, name: &str, cap: u32) -> Outcome {
        self.apply(Op::SetMember(SetMember::capped(
            member(name),
            Some(cap),
            None,
        )))
        .await
    }

    pub(crate) async fn ask(&mut self, pool: &str, subject_name: &str) -> Decision {
        let outcome = self
            .apply(Op::Decide(vec![request(pool, subject_name)]))
            .await;
        decisions(outcome).remove(0)
    }

    /// Asks, and tells to whom it went; None: it waits.
    pub(crate) async fn who(&mut self, pool: &str, subject_name: &str) -> Option<String> {
        member_of(&self.ask(pool, subject_name).await)
    }

    pub(crate) async fn close(&mut self, subject_name: &str) -> Outcome {
        self.apply(Op::Close(vec![closing(subject_name)])).await
    }

    pub(crate) fn load(&self, name: &str) -> u32 {
        let mut members = self.model.members();
        members
            .find(|view| view.member == member(name))
            .map_or(0, |view| view.load)
    }
}

pub(crate) fn assert_same(left: &Dump, right: &Dump) {
    for (key, value) in &left.keys {
        assert_eq!(Some(value), right.keys.get(key), "{key}: {}", show(value));
    }
    for key in right.keys.keys() {
        assert!(left.keys.contains_key(key), "{key} is only in the second");
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Sorted(entries) => format!("{entries:?}"),
        Value::Hash(fields) => {
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            let fields = fields.iter();
            let fields = fields.map(|(field, value)| (text(field), text(value)));
            format!("{:?}", fields.collect::<Vec<_>>())
        }
    }
}

pub(crate) fn member(name: &str) -> MemberId {
    MemberId::new(name).unwrap()
}

pub(crate) fn pool(name: &str) -> PoolId {
    PoolId::new(name).unwrap()
}

pub(crate) fn reason(code: &str) -> Reason {
    Reason::new(code).unwrap()
}

pub(crate) fn weight(text: &str) -> Weight {
    text.parse().unwrap()
}

pub(crate) fn subject(name: &str) -> SubjectKey {
    SubjectKey::new(&CorpId::new("ww1").unwrap(), "wecom", name)
}

/// One allocation id for each pool and subject, so that tests can name it.
pub(crate) fn allocation(pool: &str, subject_name: &str) -> AllocationId {
    let key = subject(&format!("{pool} {subject_name}"));
    AllocationId(Uuid::from_bytes(*key.as_bytes()))
}

pub(crate) fn config(
    name: &str,
    version: u64,
    strategy: Strategy,
    members: &[(&str, &str)],
) -> PoolConfig {
    let members = members
        .iter()
        .map(|(name, text)| (member(name), weight(text)));
    PoolConfig::new(pool(name), version, strategy, members).unwrap()
}

pub(crate) fn request(pool_name: &str, subject_name: &str) -> Request {
    Request {
        allocation: allocation(pool_name, subject_name),
        pool: pool(pool_name),
        subject: subject(subject_name),
        holder: None,
        request: None,
        echo: false,
        plan: None,
    }
}

pub(crate) fn closing(subject_name: &str) -> Closing {
    Closing {
        subject: subject(subject_name),
        pool: None,
        member: None,
        allocation: None,
        reason: reason("customer_left"),
    }
}

pub(crate) fn settlement(
    pool_name: &str,
    subject_name: &str,
    outcome: SettlementOutcome,
) -> Settlement {
    Settlement {
        allocation: allocation(pool_name, subject_name),
        pool: pool(pool_name),
        subject: subject(subject_name),
        outcome,
        expect: None,
    }
}

pub(crate) fn reassignment(
    pool_name: &str,
    subject_name: &str,
    to: Option<&str>,
    epoch: u64,
) -> Reassignment {
    Reassignment {
        allocation: allocation(pool_name, subject_name),
        pool: pool(pool_name),
        subject: subject(subject_name),
        to: to.map(member),
        exclude: Vec::new(),
        expect_epoch: epoch,
    }
}

pub(crate) fn decisions(outcome: Outcome) -> Vec<Decision> {
    match outcome.answer {
        Answer::Decided(decisions) => decisions,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn member_of(decision: &Decision) -> Option<String> {
    match decision {
        Decision::Assigned { member, .. } => Some(member.to_string()),
        Decision::Waiting { .. } => None,
        other => panic!("{other:?}"),
    }
}
