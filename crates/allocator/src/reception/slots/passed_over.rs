//! Members whom visits of a channel pass over: WeCom refuses their contact ways, so whoever was given to them could not add
//! them. Kept in memory beside the ways, so that a visit asks nobody.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, PoisonError, RwLock},
};

use allocation::{ChannelId, MAX_AVOIDED, MemberId};
use ledger::PassedOver;
use metrics::gauge;
use tokio::time::Instant;

use super::Error;
use crate::app::{App, CorpApp};

/// By channel; channels without any are not there.
#[derive(Debug, Default)]
pub struct Wayless(RwLock<HashMap<ChannelId, Arc<[MemberId]>>>);

impl Wayless {
    /// At most as many as a plan can avoid.
    pub fn of(&self, channel: &ChannelId) -> Arc<[MemberId]> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.get(channel).cloned().unwrap_or_default()
    }

    fn set(&self, known: HashMap<ChannelId, Arc<[MemberId]>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = known;
    }
}

/// Where a corp with many members is full, to look takes long: it takes one part of so many of the time at most.
const SHARE: u32 = 20;

#[derive(Debug, Default)]
pub(super) struct Here {
    /// Not looked again before.
    next: Option<Instant>,
    told: Told,
}

/// What was said in the log: once each, until it is no longer so.
#[derive(Debug, Default)]
struct Told {
    nobody_left: BTreeSet<ChannelId>,
    too_many: BTreeSet<ChannelId>,
}

/// `refused`: somebody is, as the ledger has just said. `no_room`: our own limit lets no way be asked for.
pub(super) async fn refresh(
    app: &App,
    corp: &CorpApp,
    here: &mut Here,
    refused: bool,
    no_room: bool,
) -> Result<(), Error> {
    if !refused && !no_room {
        here.next = None;
        take(corp, &mut here.told, Vec::new());
        return Ok(());
    }
    let began = Instant::now();
    if here.next.is_some_and(|next| began < next) {
        return Ok(());
    }
    let ways = app.ledger.contact_ways();
    let found = ways.passed_over(&corp.id, no_room).await?;
    here.next = Some(began + began.elapsed() * SHARE);
    take(corp, &mut here.told, found);
    Ok(())
}

fn take(corp: &CorpApp, told: &mut Told, found: Vec<PassedOver>) {
    let members: usize = found.iter().map(|one| one.members.len()).sum();
    gauge!("paidan_members_without_way", "corp" => corp.id.to_string()).set(members as f64);
    corp.wayless.set(whom(corp.id.as_str(), told, found));
}

/// Where nobody else is left nobody is passed over: one who comes there sees that the code is being prepared, which is
/// true, and has his place when it is.
fn whom(
    corp: &str,
    told: &mut Told,
    found: Vec<PassedOver>,
) -> HashMap<ChannelId, Arc<[MemberId]>> {
    let before = std::mem::take(told);
    let mut known = HashMap::new();
    for PassedOver {
        channel,
        mut members,
        others,
    } in found
    {
        if !others {
            if !before.nobody_left.contains(&channel) {
                tracing::warn!(corp, channel = %channel, members = members.len(),
                    "WeCom makes no contact way for anybody of this channel: its visitors see no code");
            }
            told.nobody_left.insert(channel);
            continue;
        }
        if members.len() > MAX_AVOIDED {
            if !before.too_many.contains(&channel) {
                tracing::warn!(corp, channel = %channel, members = members.len(), most = MAX_AVOIDED,
                    "so many members have no contact way that not all of them are passed over");
            }
            told.too_many.insert(channel.clone());
            members.truncate(MAX_AVOIDED);
        }
        known.insert(channel, members.into());
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(name: &str) -> ChannelId {
        ChannelId::new(name).unwrap()
    }

    fn found(name: &str, members: usize, others: bool) -> PassedOver {
        let members = (0..members).map(|n| MemberId::new(format!("m{n:03}")).unwrap());
        PassedOver {
            channel: channel(name),
            members: members.collect(),
            others,
        }
    }

    #[test]
    fn nobody_is_passed_over_where_nobody_else_is_left() {
        let mut told = Told::default();
        let wayless = Wayless::default();
        let all = vec![
            found("a", 1, true),
            found("b", 3, false),
            found("c", MAX_AVOIDED + 9, true),
        ];
        wayless.set(whom("ww1", &mut told, all));
        assert_eq!(wayless.of(&channel("a")).len(), 1);
        assert!(wayless.of(&channel("b")).is_empty());
        assert_eq!(wayless.of(&channel("c")).len(), MAX_AVOIDED);
        assert!(wayless.of(&channel("d")).is_empty());
        assert_eq!(told.nobody_left, [channel("b")].into());
        assert_eq!(told.too_many, [channel("c")].into());
        // What is over is forgotten, so that it is told again when it comes again.
        wayless.set(whom("ww1", &mut told, vec![found("b", 2, true)]));
        assert_eq!(wayless.of(&channel("b")).len(), 2);
        assert!(wayless.of(&channel("a")).is_empty());
        assert!(told.nobody_left.is_empty() && told.too_many.is_empty());
    }
}
