//! One number for a whole pool. Members have different weights and were there for different times, so it is not compared
//! what they got but what they got of what was theirs: count / entitlement, and each counts by his entitlement.

use super::PoolSpan;
use crate::explain::short;
use crate::id::MemberId;

/// Less than this is no entitlement, but what is left of sums.
const NOTHING: f64 = 1e-9;

#[derive(Debug, Clone, PartialEq)]
pub struct Measures {
    /// 0: everybody got the same of what was his; near 1: one got all. None: nobody got anything.
    pub gini: Option<f64>,
    /// 1: everybody got the same of what was his; the smaller, the fewer shared.
    pub jain: Option<f64>,
    /// Who is furthest from his entitlement, and by how many customers he is above (below 0: below) it.
    pub furthest: Option<(MemberId, f64)>,
}

impl PoolSpan {
    pub fn measures(&self) -> Measures {
        let mut furthest: Option<(&MemberId, f64)> = None;
        for (member, got) in &self.members {
            let variance = got.variance();
            if furthest.is_none_or(|(_, most)| variance.abs() > most.abs()) {
                furthest = Some((member, variance));
            }
        }
        let entitled = self.members.values();
        let entitled = entitled.filter(|got| got.entitlement > NOTHING);
        let shares = entitled.map(|got| (got.entitlement, got.count.max(0) as f64));
        let shares: Vec<(f64, f64)> = shares.collect();
        Measures {
            gini: gini(shares.clone()).map(short),
            jain: jain(&shares).map(short),
            furthest: furthest.map(|(member, most)| (member.clone(), short(most))),
        }
    }
}

/// Twice the area between the curve of what was got over what was due, poorest first, and the straight line.
pub(super) fn gini(mut shares: Vec<(f64, f64)>) -> Option<f64> {
    let (due, got) = sums(&shares)?;
    shares.sort_by(|one, two| (one.1 / one.0).total_cmp(&(two.1 / two.0)));
    let (mut below, mut area) = (0.0, 0.0);
    for (entitlement, count) in shares {
        area += entitlement / due * (2.0 * below + count / got);
        below += count / got;
    }
    Some(1.0 - area)
}

/// (Σ count)² / (Σ entitlement · Σ count² / entitlement).
pub(super) fn jain(shares: &[(f64, f64)]) -> Option<f64> {
    let (due, got) = sums(shares)?;
    let squares: f64 = shares.iter().map(|(due, got)| got * got / due).sum();
    Some(got * got / (due * squares))
}

fn sums(shares: &[(f64, f64)]) -> Option<(f64, f64)> {
    let due: f64 = shares.iter().map(|(due, _)| due).sum();
    let got: f64 = shares.iter().map(|(_, got)| got).sum();
    (due > NOTHING && got > NOTHING).then_some((due, got))
}
