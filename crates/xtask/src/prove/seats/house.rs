//! The two group pools with their groups and campaigns, and the codes that are made before the first visitor comes.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

use super::{HOLD, LIMIT, Place};
use crate::progress::say;
use crate::stage::Stage;

/// Of the whole size, for both pools: as many seats as 300 groups of 200 have for 50,000 visitors.
const SEATS_A_VISITOR: f64 = 300.0 * 194.0 / 50_000.0;
/// Of each pool, so few that it is used up before the others come.
const STOCK: usize = 4;
/// Each has a quarter of the groups.
const OWNERS: u64 = 4;
/// Groups that are put at once.
const AT_ONCE: usize = 8;

/// How large everything is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) scan_cap: u32,
    pub(super) hard_cap: u32,
    pub(super) buffer: u32,
    /// Of each pool.
    pub(super) groups: usize,
    /// Visitors a second at most.
    pub(super) pace: u32,
    /// Every group is read once in this time.
    pub(super) period: Duration,
}

impl Size {
    pub(super) fn of(visitors: u64) -> Self {
        let is_large = visitors >= 10_000;
        let (scan_cap, hard_cap, buffer) = match is_large {
            true => (200, 500, 5),
            // So that a few hundred visitors fill many groups.
            false => (20, 50, 2),
        };
        let size = Self {
            scan_cap,
            hard_cap,
            buffer,
            groups: 0,
            pace: if is_large { 280 } else { 100 },
            period: Duration::from_secs(if is_large { 30 } else { 5 }),
        };
        let seats = visitors as f64 * SEATS_A_VISITOR / 2.0;
        let groups = (seats / f64::from(size.room() - 1)).ceil() as usize;
        Self {
            groups: groups.max(4),
            ..size
        }
    }

    /// Of an empty group.
    pub(super) fn room(self) -> u32 {
        self.scan_cap - self.buffer
    }

    /// Groups of a pool that are open from the start.
    pub(super) fn open(self) -> usize {
        self.groups / 2
    }

    /// Groups that are in stock from the start; the others come later.
    pub(super) fn stock(self) -> usize {
        ((self.groups - self.open()) / 2).min(STOCK)
    }
}

/// What stands before the first visitor.
#[derive(Debug, Clone)]
pub(super) struct House {
    /// Of the campaigns' pages.
    pub(super) codes: [String; 2],
    /// Groups of both pools.
    groups: usize,
}

pub(super) fn owners() -> Vec<String> {
    (0..OWNERS).map(owner).collect()
}

pub(super) fn owner(n: u64) -> String {
    format!("host{}", n % OWNERS + 1)
}

/// A new group at WeCom: its owner is in it, and in every second one another of the corp's people.
pub(super) fn new_group(n: u64, place: Place) -> Value {
    let members = match n.is_multiple_of(2) {
        true => vec![],
        false => vec![owner(n + 1)],
    };
    json!({"owner": owner(n), "name": format!("{} {n}", place.name()), "members": members})
}

/// What a group of a pool is to be.
pub(super) fn put_group(n: u64, place: Place, state: &str) -> Value {
    json!({"group_pool": place.name(), "rank": n, "state": state})
}

pub(super) async fn open(stage: &Stage, size: Size) -> anyhow::Result<House> {
    let mut codes = [String::new(), String::new()];
    for (place, code) in Place::ALL.into_iter().zip(&mut codes) {
        let pool = json!({
            "name": place.name(), "strategy": place.strategy(), "scan_cap": size.scan_cap, "hard_cap": size.hard_cap,
            "buffer": size.buffer,
            // One group ahead of what is asked for.
            "supply": {"min_free": size.room(), "ahead_seconds": 0, "sources": ["spare"]},
        });
        stage
            .put(&format!("group-pools/{}", place.name()), &pool)
            .await?;
        let path = format!("campaigns/{}", place.name());
        let campaign = json!({"name": place.name(), "group_pool": place.name(), "hold_seconds": HOLD.as_secs(), "title": "欢迎 Welcome"});
        stage.put(&path, &campaign).await?;
        let campaign = stage.get(&path).await?;
        let made = campaign["public_code"].as_str();
        made.unwrap_or_default().clone_into(code);
        anyhow::ensure!(!code.is_empty(), "no public code: {campaign}");
    }
    let (open, all) = (size.open() as u64, (size.open() + size.stock()) as u64);
    say("Making", &format!("{} groups and their codes", 2 * all));
    let groups = Place::ALL
        .into_iter()
        .flat_map(|place| (0..all).map(move |n| (place, n)));
    stream::iter(groups)
        .map(|(place, n)| async move {
            let made = stage.sim("groups", &new_group(n, place)).await?;
            let chat = made["chat_ids"][0].as_str().unwrap_or_default().to_owned();
            let state = if n < open { "open" } else { "spare" };
            let group = put_group(n, place, state);
            stage.put(&format!("groups/{chat}"), &group).await
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    Ok(House {
        codes,
        groups: 2 * (size.open() + size.stock()),
    })
}

/// Waits until every group can be shown: it was read, and has its code.
pub(super) async fn provisioned(stage: &Stage, house: &House) -> anyhow::Result<()> {
    let wanted = i64::try_from(house.groups)?;
    let ready = || async {
        let (ways, read): (i64, i64) = sqlx::query_as(
            "SELECT (SELECT count(*) FROM join_ways WHERE state = 'ready'),
                (SELECT count(*) FROM groups WHERE group_pool_id IS NOT NULL AND people_read_at IS NOT NULL AND doubt IS NULL)",
        )
        .fetch_one(stage.ledger.pool())
        .await
        .ok()?;
        (ways == wanted && read == wanted).then_some(())
    };
    stage.until("every group is ready", LIMIT, ready).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_size_is_300_groups() {
        let size = Size::of(50_000);
        assert_eq!((size.groups, size.open(), size.stock()), (150, 75, 4));
        let few = Size::of(500);
        assert_eq!((few.groups, few.open(), few.stock()), (18, 9, 4));
        let seats = few.groups as u32 * (few.room() - 1);
        assert!(seats > 250, "{seats}");
        assert!(Size::of(50).groups >= 4);
    }
}
