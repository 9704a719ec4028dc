//! Which way leads into which group, in memory. Pictures are kept with those of contact ways.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, PoisonError, RwLock},
};

use allocation::{CampaignId, ChatId, Via};
use ledger::{ListedJoinWay, WayState};

use crate::{
    app::{App, CorpApp},
    reception::slots::Picture,
};

/// Pictures read at once.
const CHUNK: usize = 200;

#[derive(Debug, Default)]
pub struct JoinWays(RwLock<Known>);

#[derive(Debug, Default)]
struct Known {
    /// From where changes are read the next time.
    mark: u64,
    /// All whose picture may be shown, those that rest too: somebody may have his page open.
    ways: HashMap<String, ListedJoinWay>,
    ready: HashMap<CampaignId, HashMap<ChatId, String>>,
    /// Of inviters, by their States.
    own: HashMap<Via, HashMap<ChatId, String>>,
    /// Those that open a room when their group is full.
    opening: HashMap<CampaignId, (String, ChatId)>,
}

impl JoinWays {
    /// The way that leads into this group for this campaign.
    pub fn of(&self, campaign: &CampaignId, chat: &ChatId) -> Option<String> {
        self.read().ready.get(campaign)?.get(chat).cloned()
    }

    /// The inviter's own way that leads into this group.
    pub fn own(&self, via: &Via, chat: &ChatId) -> Option<String> {
        self.read().own.get(via)?.get(chat).cloned()
    }

    /// Whether the inviter has any way of his own that can be shown.
    pub fn has_own(&self, via: &Via) -> bool {
        self.read().own.contains_key(via)
    }

    /// The way of this campaign that opens a room when its group, the other one, is full.
    pub fn opening(&self, campaign: &CampaignId) -> Option<(String, ChatId)> {
        self.read().opening.get(campaign).cloned()
    }

    /// Whether visitors of the campaign can be shown any group.
    pub fn has_any(&self, campaign: &CampaignId) -> bool {
        self.read().ready.contains_key(campaign)
    }

    pub fn knows(&self, way: &str) -> bool {
        self.read().ways.contains_key(way)
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Known> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers the ways that can be shown and had not been there, and whether any leads where it had not led.
    fn take(&self, changed: Vec<ListedJoinWay>, mark: u64) -> (Vec<String>, bool) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.mark = mark;
        let (mut new, mut leads) = (Vec::new(), false);
        for way in changed {
            leads |= way.state == WayState::Ready && known.ways.get(&way.way) != Some(&way);
            let was_there = known.remove(&way.way);
            if way.state == WayState::Ready && !was_there {
                new.push(way.way.clone());
            }
            if matches!(way.state, WayState::Ready | WayState::Retiring) {
                known.add(way);
            }
        }
        (new, leads)
    }
}

impl Known {
    fn add(&mut self, way: ListedJoinWay) {
        if way.state == WayState::Ready && !way.chats.is_empty() {
            let ready = match &way.own {
                Some(via) => self.own.entry(via.clone()).or_default(),
                None => self.ready.entry(way.campaign.clone()).or_default(),
            };
            let chats = way.chats.iter().cloned();
            ready.extend(chats.map(|chat| (chat, way.way.clone())));
        }
        if let ([chat], true) = (&way.chats[..], way.opens_rooms) {
            let opening = (way.way.clone(), chat.clone());
            self.opening.insert(way.campaign.clone(), opening);
        }
        self.ways.insert(way.way.clone(), way);
    }

    /// True: it was there.
    fn remove(&mut self, way: &str) -> bool {
        let Some(before) = self.ways.remove(way) else {
            return false;
        };
        let opening = self.opening.get(&before.campaign);
        if opening.is_some_and(|(there, _)| there == way) {
            self.opening.remove(&before.campaign);
        }
        match &before.own {
            Some(via) => leave(&mut self.own, via, &before),
            None => leave(&mut self.ready, &before.campaign, &before),
        }
        true
    }
}

/// It is shown for its groups no more; another one may lead into them by now.
fn leave<K: Eq + Hash>(
    ready: &mut HashMap<K, HashMap<ChatId, String>>,
    of: &K,
    way: &ListedJoinWay,
) {
    let Some(led) = ready.get_mut(of) else {
        return;
    };
    for chat in &way.chats {
        if led.get(chat).is_some_and(|there| *there == way.way) {
            led.remove(chat);
        }
    }
    if led.is_empty() {
        ready.remove(of);
    }
}

/// Takes over what changed in Postgres, and as many of the new pictures as fit.
pub(crate) async fn refresh(app: &App, corp: &CorpApp) -> Result<(), ledger::Error> {
    let table = app.ledger.join_ways();
    let mark = corp.join_ways.read().mark;
    let since = table.since(&corp.id, mark).await?;
    let (new, leads) = corp.join_ways.take(since.ways, since.mark);
    if leads {
        // A group may be shown from now on.
        corp.groups_changed.notify_one();
    }
    for chunk in new.chunks(CHUNK) {
        if !corp.ways.has_room() {
            break;
        }
        for picture in table.pictures(&corp.id, chunk).await? {
            corp.ways.keep(picture);
        }
    }
    Ok(())
}

/// The picture of a way that this process knows, from memory or from Postgres.
pub async fn picture_of(
    app: &App,
    corp: &CorpApp,
    way: &str,
) -> Result<Option<Arc<Picture>>, ledger::Error> {
    if !corp.join_ways.knows(way) {
        return Ok(None);
    }
    if let Some(picture) = corp.ways.picture(way) {
        return Ok(Some(picture));
    }
    let table = app.ledger.join_ways();
    let mut found = table.pictures(&corp.id, &[way.to_owned()]).await?;
    Ok(found.pop().map(|picture| corp.ways.keep(picture)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn campaign() -> CampaignId {
        CampaignId::new("spring").unwrap()
    }

    fn listed(way: &str, state: WayState, chats: &str) -> ListedJoinWay {
        let chats = chats.split_whitespace();
        ListedJoinWay {
            way: way.to_owned(),
            campaign: campaign(),
            own: None,
            state,
            chats: chats.map(|chat| ChatId::new(chat).unwrap()).collect(),
            opens_rooms: false,
        }
    }

    #[test]
    fn a_group_is_shown_by_the_way_that_leads_into_it() {
        let ways = JoinWays::default();
        let of = |chat: &str| ways.of(&campaign(), &ChatId::new(chat).unwrap());
        assert!(!ways.has_any(&campaign()));
        let (new, _) = ways.take(vec![listed("1", WayState::Ready, "a b")], 7);
        assert_eq!((new, ways.read().mark), (vec!["1".to_owned()], 7));
        assert_eq!((of("a"), of("b")), (Some("1".into()), Some("1".into())));
        // b goes to another way; the two changes may come in either order.
        ways.take(vec![listed("2", WayState::Ready, "b")], 8);
        assert!(
            ways.take(vec![listed("1", WayState::Ready, "a")], 9)
                .0
                .is_empty()
        );
        assert_eq!((of("a"), of("b")), (Some("1".into()), Some("2".into())));
        ways.take(vec![listed("1", WayState::Retiring, "a")], 10);
        assert_eq!(of("a"), None);
        assert!(ways.knows("1"), "a page may still show it");
        ways.take(
            vec![
                listed("1", WayState::Gone, "a"),
                listed("2", WayState::Wanted, ""),
            ],
            11,
        );
        assert!(!ways.knows("1") && !ways.knows("2") && !ways.has_any(&campaign()));
    }

    #[test]
    fn an_inviters_way_is_shown_for_him_alone() {
        let ways = JoinWays::default();
        let (anna, other): (Via, Via) = ("pi.anna".parse().unwrap(), "pi.ben".parse().unwrap());
        let own = |state| ListedJoinWay {
            own: Some(anna.clone()),
            ..listed("1", state, "a")
        };
        let chat = ChatId::new("a").unwrap();
        ways.take(vec![own(WayState::Ready)], 7);
        assert_eq!(ways.own(&anna, &chat).as_deref(), Some("1"));
        assert_eq!(ways.own(&other, &chat), None);
        assert!(ways.of(&campaign(), &chat).is_none() && !ways.has_any(&campaign()));
        ways.take(vec![own(WayState::Retiring)], 8);
        assert!(!ways.has_own(&anna) && ways.knows("1"));
    }

    #[test]
    fn one_that_opens_rooms_is_known_until_it_opens_none() {
        let ways = JoinWays::default();
        let opens = ListedJoinWay {
            opens_rooms: true,
            ..listed("1", WayState::Ready, "a")
        };
        ways.take(vec![opens, listed("2", WayState::Ready, "b")], 7);
        let chat = ChatId::new("a").unwrap();
        assert_eq!(ways.opening(&campaign()), Some(("1".to_owned(), chat)));
        ways.take(vec![listed("2", WayState::Ready, "b")], 8);
        assert!(ways.opening(&campaign()).is_some());
        ways.take(vec![listed("1", WayState::Ready, "a")], 9);
        assert_eq!(ways.opening(&campaign()), None);
    }
}
