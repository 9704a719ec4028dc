//! A corp that is open, with one pool whose members are all there and far from their caps.

use allocation::model::Corp;
use allocation::{
    AllocationId, CorpId, Decision, MemberId, PoolConfig, PoolId, PresenceChange, Request,
    SetMember, Strategy, SubjectKey, Weight,
};
use inbox::connect::Connection;
use roster::{CorpRoster, Roster};
use uuid::Uuid;

use crate::bench::now_ms;

pub(super) const POOL: &str = "sales";
/// A cap is looked at in every decision, and never reached.
const CAP: u32 = 10_000_000;
const HOUR_MS: u64 = 3_600_000;

/// What a pool is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) strategy: Strategy,
    pub(super) members: u32,
    /// Members have the weights 1 to this in turn.
    pub(super) weights: u32,
}

impl Shape {
    pub(super) const FAIR: Self = Self {
        strategy: Strategy::WeightedRoundRobin,
        members: 50,
        weights: 6,
    };
    pub(super) const LEAST: Self = Self {
        strategy: Strategy::LeastLoad,
        ..Self::FAIR
    };

    pub(super) fn weight(&self, member: u32) -> u32 {
        member % self.weights + 1
    }
}

/// Names are taken apart again by the fairness row.
pub(super) fn member(number: u32) -> anyhow::Result<MemberId> {
    Ok(MemberId::new(format!("staff-{number}"))?)
}

/// Replaces whatever the corp was.
pub(super) async fn open(
    connection: &Connection,
    corp: &CorpId,
    shape: Shape,
) -> anyhow::Result<CorpRoster<Connection>> {
    let roster = Roster::new(connection.clone());
    roster.load().await?;
    let corp = roster.corp(corp);
    corp.begin_rebuild(1).await?;
    corp.finish_rebuild(Corp::new(), 1, None).await?;
    let (mut weights, mut presence) = (Vec::new(), Vec::new());
    for number in 0..shape.members {
        let member = member(number)?;
        let change = SetMember::capped(member.clone(), Some(CAP), None);
        corp.set_member(change, "", None).await?;
        let weight = Weight::from_thousandths(shape.weight(number) * 1_000)?;
        weights.push((member.clone(), weight));
        presence.push(PresenceChange {
            member,
            lease_until_ms: now_ms() + HOUR_MS,
        });
    }
    let pool = PoolConfig::new(PoolId::new(POOL)?, 1, shape.strategy, weights)?;
    corp.set_pool(pool, "", None).await?;
    corp.presence(presence, "", None).await?;
    Ok(corp)
}

/// A request for a subject nobody has asked for.
pub(super) fn request(pool: &PoolId) -> Request {
    Request {
        allocation: AllocationId(Uuid::now_v7()),
        pool: pool.clone(),
        subject: SubjectKey::from_bytes(rand::random()),
        holder: None,
        request: None,
        echo: false,
        plan: None,
    }
}

/// An error unless somebody was found.
pub(super) fn assigned(decisions: &[Decision]) -> anyhow::Result<()> {
    let all = decisions
        .iter()
        .all(|decision| matches!(decision, Decision::Assigned { .. }));
    anyhow::ensure!(all, "not assigned: {decisions:?}");
    Ok(())
}
