//! Words of group pools and groups.

use allocation::FillStrategy;
use ledger::{GroupSource, GroupState, SupplySource};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Which of the groups with room a visitor is shown.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum FillStrategyName {
    /// The lowest rank until it is full; of one rank the one whose id is first.
    #[default]
    FillFirst,
    /// The one that was shown longest ago.
    Spread,
    /// The one with the smallest share of its room taken.
    LeastFilled,
}

impl From<FillStrategyName> for FillStrategy {
    fn from(name: FillStrategyName) -> Self {
        match name {
            FillStrategyName::FillFirst => Self::FillFirst,
            FillStrategyName::Spread => Self::Spread,
            FillStrategyName::LeastFilled => Self::LeastFilled,
        }
    }
}

impl From<FillStrategy> for FillStrategyName {
    fn from(strategy: FillStrategy) -> Self {
        match strategy {
            FillStrategy::FillFirst => Self::FillFirst,
            FillStrategy::Spread => Self::Spread,
            FillStrategy::LeastFilled => Self::LeastFilled,
        }
    }
}

/// Where a group comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum SupplySourceName {
    /// A group of the pool in the state `spare`, by rank.
    Spare,
    /// WeCom opens a room by itself when the groups of a join way are full.
    AutoRoom,
    /// The keeper is asked to make one.
    Person,
}

impl From<SupplySource> for SupplySourceName {
    fn from(source: SupplySource) -> Self {
        match source {
            SupplySource::Spare => Self::Spare,
            SupplySource::AutoRoom => Self::AutoRoom,
            SupplySource::Person => Self::Person,
        }
    }
}

impl From<SupplySourceName> for SupplySource {
    fn from(name: SupplySourceName) -> Self {
        match name {
            SupplySourceName::Spare => Self::Spare,
            SupplySourceName::AutoRoom => Self::AutoRoom,
            SupplySourceName::Person => Self::Person,
        }
    }
}

/// What an operator wants of a group.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum WantedGroupState {
    /// Visitors are shown it while it has room.
    #[default]
    Open,
    /// They are not.
    Closed,
    /// In stock: not shown until the pool needs another group.
    Spare,
}

impl From<WantedGroupState> for GroupState {
    fn from(state: WantedGroupState) -> Self {
        match state {
            WantedGroupState::Open => Self::Open,
            WantedGroupState::Closed => Self::Closed,
            WantedGroupState::Spare => Self::Spare,
        }
    }
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum GroupStateName {
    Open,
    Closed,
    Spare,
    /// It is no more at WeCom.
    Dismissed,
}

impl From<GroupState> for GroupStateName {
    fn from(state: GroupState) -> Self {
        match state {
            GroupState::Open => Self::Open,
            GroupState::Closed => Self::Closed,
            GroupState::Spare => Self::Spare,
            GroupState::Dismissed => Self::Dismissed,
        }
    }
}

impl From<GroupStateName> for GroupState {
    fn from(name: GroupStateName) -> Self {
        match name {
            GroupStateName::Open => Self::Open,
            GroupStateName::Closed => Self::Closed,
            GroupStateName::Spare => Self::Spare,
            GroupStateName::Dismissed => Self::Dismissed,
        }
    }
}

/// How a group came to be known.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum GroupSourceName {
    Import,
    Console,
    AutoRoom,
    Event,
}

impl From<GroupSource> for GroupSourceName {
    fn from(source: GroupSource) -> Self {
        match source {
            GroupSource::Import => Self::Import,
            GroupSource::Console => Self::Console,
            GroupSource::AutoRoom => Self::AutoRoom,
            GroupSource::Event => Self::Event,
        }
    }
}
