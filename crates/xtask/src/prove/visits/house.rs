//! The two pools, their pages, and the contact ways that are made before the first visitor comes.

use std::time::Duration;

use serde_json::{Value, json};

use super::{HOLD, LIMIT, PACE, Place, REST};
use crate::progress::say;
use crate::stage::Stage;

/// Of `rush`: these are always on and never full, so that nobody waits for long.
const STEADY: usize = 8;
/// These come and go.
const COMING: usize = 8;
/// These come and go, and are full some day.
const CAPPED: usize = 8;
/// How long somebody who adds a member takes, about; and how many never do, or too late.
const IN_TIME_S: f64 = 6.0;
const NOT_IN_TIME: f64 = 0.3;
/// More slots than are used on average.
const SPARE: f64 = 1.25;
/// The most that a channel takes.
const MOST_SLOTS: f64 = 1_000.0;

fn rush_member(index: usize) -> String {
    format!("r{:02}", index + 1)
}

pub(super) fn rush_members() -> Vec<String> {
    (0..STEADY + COMING + CAPPED).map(rush_member).collect()
}

/// Those who are always there: whoever is added instead of the member that was seen is one of them, as a member who is off
/// or full would owe ever more visitors.
pub(super) fn steady() -> Vec<String> {
    (0..STEADY).map(rush_member).collect()
}

/// Those who come and go.
pub(super) fn restless() -> Vec<String> {
    (STEADY..STEADY + COMING + CAPPED)
        .map(rush_member)
        .collect()
}

/// Those who are full some day.
pub(super) fn capped() -> Vec<String> {
    (STEADY + COMING..STEADY + COMING + CAPPED)
        .map(rush_member)
        .collect()
}

/// Of those who are full some day: about two thirds of what they would get.
pub(super) fn cap(visits: u64) -> u32 {
    let visits = visits as f64 * Place::Rush.part();
    ((visits * 0.02) as u32).max(1)
}

/// Slots of each member: those that are lent or rest at the full pace, or one for each visit where that is less.
fn slots(place: Place, visits: u64) -> u64 {
    let used_s = IN_TIME_S * (1.0 - NOT_IN_TIME) + HOLD.as_secs_f64() * NOT_IN_TIME;
    let at_once = f64::from(PACE) * (used_s + REST.as_secs_f64());
    let most = at_once.min(visits as f64) * place.part() * place.largest_share();
    (most * SPARE + 2.0).ceil().min(MOST_SLOTS) as u64
}

/// Makes pools and pages; answers the pages' public codes: of `sales`, of `rush`.
pub(super) async fn open(stage: &Stage, visits: u64, cap: u32) -> anyhow::Result<[String; 2]> {
    let rush = rush_members();
    for (index, member) in rush.iter().enumerate() {
        let cap = (index >= STEADY + COMING).then_some(cap);
        stage
            .put(&format!("members/{member}"), &json!({"cap": cap}))
            .await?;
    }
    let members: Vec<Value> = rush
        .iter()
        .map(|member| json!({"member": member, "weight": 1}))
        .collect();
    stage
        .put(
            "pools/rush",
            &json!({"name": "Rush", "strategy": "weighted_round_robin", "members": members}),
        )
        .await?;
    stage.put("presence", &on(&rush)).await?;
    let mut codes = [String::new(), String::new()];
    for (place, code) in [Place::Sales, Place::Rush].into_iter().zip(&mut codes) {
        let visits = json!({
            "slots_per_member": slots(place, visits),
            "hold_seconds": HOLD.as_secs(),
            "title": "欢迎 Welcome",
        });
        let path = format!("channels/{}", place.name());
        let channel =
            json!({"name": place.name(), "pool": place.name(), "card": false, "visits": visits});
        stage.put(&path, &channel).await?;
        let channel = stage.get(&path).await?;
        let made = channel["public_code"].as_str();
        made.unwrap_or_default().clone_into(code);
        anyhow::ensure!(!code.is_empty(), "no public code: {channel}");
    }
    Ok(codes)
}

/// Waits until every way can be shown and lent; answers how many there are.
pub(super) async fn provisioned(stage: &Stage, visits: u64) -> anyhow::Result<u64> {
    let mut ways = 0;
    let mut all_slots = 0;
    for (place, members) in [
        (Place::Sales, stage.members.len() as u64),
        (Place::Rush, rush_members().len() as u64),
    ] {
        let each = slots(place, visits);
        ways += members * (each + 1);
        all_slots += members * each;
        say(
            "Making",
            &format!("{} contact ways of {}", members * (each + 1), place.name()),
        );
        let path = format!("channels/{}/contact-ways", place.name());
        let ready = |one: &Value| one["slots_ready"] == each && one["plain_ready"] == true;
        stage
            .until("the contact ways are ready", LIMIT, || async {
                let listed = stage.get(&path).await.ok()?;
                let listed = listed["data"].as_array()?;
                let done = listed.len() as u64 == members && listed.iter().all(ready);
                if !done {
                    // The list counts thousands of rows.
                    tokio::time::sleep(Duration::from_millis(400)).await;
                }
                done.then_some(())
            })
            .await?;
    }
    let wanted = i64::try_from(all_slots)?;
    stage
        .until("Redis knows the slots", LIMIT, || async {
            let told: i64 = sqlx::query_scalar(
                "SELECT count(*) FROM contact_ways WHERE kind = 'slot' AND state = 'ready' AND roster_generation > 0",
            )
            .fetch_one(stage.ledger.pool())
            .await
            .ok()?;
            (told == wanted).then_some(())
        })
        .await?;
    Ok(ways)
}

/// A heartbeat of all of them.
pub(super) fn on(members: &[String]) -> Value {
    let on = |member: &String| json!({"member": member, "online": true, "lease_seconds": 86_400});
    json!({"members": members.iter().map(on).collect::<Vec<_>>()})
}

/// A goodbye of all of them.
pub(super) fn off(members: &[String]) -> Value {
    let off = |member: &String| json!({"member": member, "online": false});
    json!({"members": members.iter().map(off).collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_as_many_as_the_pace_takes_and_no_more_than_visits() {
        for place in [Place::Sales, Place::Rush] {
            let whole = slots(place, 50_000);
            assert!((200..1_000).contains(&whole), "{whole} of {place:?}");
            assert_eq!(whole, slots(place, 500_000));
            let few = slots(place, 500);
            let his = 500.0 * place.part() * place.largest_share();
            assert!(few as f64 >= his && few < 40, "{few} of {place:?}");
        }
    }
}
