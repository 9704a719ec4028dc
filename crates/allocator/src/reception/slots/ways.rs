//! The ways of a corp in memory: whose each is, and the pictures that pages show.
//!
//! Whose a way is, is kept for all that can be shown or may still be scanned (about 150 bytes each; WeCom allows 500,000 in
//! a corp). Pictures have 1 to 5 KB, so at most `visits.pictures_mb` of them are kept, the last used; the others are a
//! read by primary key away. A way that is not known here is never looked for in Postgres: guessing costs nothing there.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use allocation::{ChannelId, MemberId};
use bytes::Bytes;
use ledger::{ListedWay, WayKind, WayPicture, WayState};
use moka::sync::Cache;
use sha2::{Digest, Sha256};

use crate::{
    app::{App, CorpApp},
    reception::intake::Owners,
};

const ETAG_BYTES: usize = 12;
/// Pictures read at once.
const CHUNK: usize = 200;

/// Whose a way is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner {
    pub channel: ChannelId,
    pub member: MemberId,
}

/// What a page shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    pub bytes: Bytes,
    pub content_type: String,
    /// Without quotation marks.
    pub etag: String,
    /// Where WeCom has it.
    pub qr_code: String,
}

impl From<WayPicture> for Picture {
    fn from(picture: WayPicture) -> Self {
        let hash = Sha256::digest(&picture.bytes);
        Self {
            etag: hex::encode(hash.get(..ETAG_BYTES).unwrap_or(&hash)),
            bytes: picture.bytes.into(),
            content_type: picture.content_type,
            qr_code: picture.qr_code,
        }
    }
}

#[derive(Debug)]
pub struct Ways {
    known: RwLock<Known>,
    pictures: Cache<String, Arc<Picture>>,
    pictures_bytes: u64,
}

#[derive(Debug, Default)]
struct Known {
    /// From where changes are read the next time.
    mark: u64,
    owners: HashMap<String, Arc<Owner>>,
    plain: HashMap<Arc<Owner>, String>,
    /// One of each, shared by its ways.
    shared: HashMap<Arc<Owner>, usize>,
}

impl Ways {
    pub fn new(pictures_mb: u64) -> Self {
        let pictures_bytes = pictures_mb << 20;
        let weigh = |way: &String, picture: &Arc<Picture>| {
            let bytes = way.len() + picture.bytes.len() + picture.qr_code.len() + 200;
            u32::try_from(bytes).unwrap_or(u32::MAX)
        };
        Self {
            known: RwLock::default(),
            pictures: Cache::builder()
                .max_capacity(pictures_bytes)
                .weigher(weigh)
                .build(),
            pictures_bytes,
        }
    }

    /// Whose this way is; also of one that is no longer given out, until it is deleted at WeCom.
    pub fn owner(&self, way: &str) -> Option<Arc<Owner>> {
        self.read().owners.get(way).cloned()
    }

    /// The way for holds without a slot.
    pub fn plain(&self, channel: &ChannelId, member: &MemberId) -> Option<String> {
        let owner = Owner {
            channel: channel.clone(),
            member: member.clone(),
        };
        self.read().plain.get(&owner).cloned()
    }

    /// Somebody else of the channel has one.
    pub fn has_plain_beside(&self, channel: &ChannelId, member: &MemberId) -> bool {
        let known = self.read();
        let mut owners = known.plain.keys();
        owners.any(|owner| owner.channel == *channel && owner.member != *member)
    }

    /// The picture, if it is in memory. [`picture_of`] reads it otherwise.
    pub fn picture(&self, way: &str) -> Option<Arc<Picture>> {
        self.pictures.get(way)
    }

    /// There is room for more pictures.
    pub(crate) fn has_room(&self) -> bool {
        self.pictures.run_pending_tasks();
        self.pictures.weighted_size() < self.pictures_bytes
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers the ways that can be shown and had not been there.
    fn take(&self, changed: Vec<ListedWay>, mark: u64) -> Vec<String> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.mark = mark;
        let mut new = Vec::new();
        for way in changed {
            match way.state {
                WayState::Ready => {
                    if known.add(&way) {
                        new.push(way.way);
                    }
                }
                WayState::Retiring => {
                    known.add(&way);
                    known.no_longer_plain(&way.way);
                }
                WayState::Gone => {
                    known.remove(&way.way);
                    self.pictures.invalidate(&way.way);
                }
                WayState::Wanted | WayState::Asked | WayState::Failed => {}
            }
        }
        new
    }

    pub(crate) fn keep(&self, picture: WayPicture) -> Arc<Picture> {
        let way = picture.way.clone();
        let picture = Arc::new(Picture::from(picture));
        self.pictures.insert(way, Arc::clone(&picture));
        picture
    }
}

impl Known {
    /// True: it was not there.
    fn add(&mut self, way: &ListedWay) -> bool {
        let owner = Arc::new(Owner {
            channel: way.channel.clone(),
            member: way.member.clone(),
        });
        let owner = match self.shared.get_key_value(&owner) {
            Some((shared, _)) => Arc::clone(shared),
            None => owner,
        };
        if way.kind == WayKind::Plain && way.state == WayState::Ready {
            self.plain.insert(Arc::clone(&owner), way.way.clone());
        }
        let new = self
            .owners
            .insert(way.way.clone(), Arc::clone(&owner))
            .is_none();
        if new {
            *self.shared.entry(owner).or_default() += 1;
        }
        new
    }

    fn no_longer_plain(&mut self, way: &str) {
        if let Some(owner) = self.owners.get(way)
            && self.plain.get(owner).is_some_and(|plain| plain == way)
        {
            self.plain.remove(owner);
        }
    }

    fn remove(&mut self, way: &str) {
        self.no_longer_plain(way);
        let Some(owner) = self.owners.remove(way) else {
            return;
        };
        if let Some(count) = self.shared.get_mut(&owner) {
            *count -= 1;
            if *count == 0 {
                self.shared.remove(&owner);
            }
        }
    }
}

impl Owners for Ways {
    fn channel_of(&self, way: &str) -> Option<ChannelId> {
        self.owner(way).map(|owner| owner.channel.clone())
    }
}

/// Takes over what changed in Postgres, and as many of the new pictures as fit.
pub(crate) async fn refresh(app: &App, corp: &CorpApp) -> Result<(), ledger::Error> {
    let table = app.ledger.contact_ways();
    let mark = corp.ways.read().mark;
    let changed = table.changed(&corp.id, mark).await?;
    let new = corp.ways.take(changed.ways, changed.mark);
    for chunk in new.chunks(CHUNK) {
        if corp.ways.pictures.weighted_size() >= corp.ways.pictures_bytes {
            break;
        }
        for picture in table.pictures(&corp.id, chunk).await? {
            corp.ways.keep(picture);
        }
        corp.ways.pictures.run_pending_tasks();
    }
    Ok(())
}

/// Where a picture is on the public listener.
pub fn picture_path(way: &str) -> String {
    format!("/w/{way}.png")
}

/// The picture of a way that this process knows, from memory or from Postgres.
pub async fn picture_of(
    app: &App,
    corp: &CorpApp,
    way: &str,
) -> Result<Option<Arc<Picture>>, ledger::Error> {
    if let Some(picture) = corp.ways.picture(way) {
        return Ok(Some(picture));
    }
    if corp.ways.owner(way).is_none() {
        return Ok(None);
    }
    let table = app.ledger.contact_ways();
    let mut found = table.pictures(&corp.id, &[way.to_owned()]).await?;
    Ok(found.pop().map(|picture| corp.ways.keep(picture)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(way: &str, kind: WayKind, state: WayState) -> ListedWay {
        ListedWay {
            way: way.to_owned(),
            channel: ChannelId::new("page").unwrap(),
            member: MemberId::new("ma").unwrap(),
            kind,
            state,
        }
    }

    fn plain(ways: &Ways) -> Option<String> {
        let channel = ChannelId::new("page").unwrap();
        ways.plain(&channel, &MemberId::new("ma").unwrap())
    }

    #[test]
    fn a_way_is_known_until_it_is_gone() {
        let ways = Ways::new(1);
        let ready = vec![
            listed("pv.1", WayKind::Slot, WayState::Ready),
            listed("pw.1", WayKind::Plain, WayState::Ready),
        ];
        assert_eq!(ways.take(ready.clone(), 7), ["pv.1", "pw.1"]);
        assert_eq!(ways.read().mark, 7);
        assert!(ways.take(ready, 8).is_empty(), "a change may come twice");
        assert_eq!(plain(&ways).as_deref(), Some("pw.1"));
        ways.take(vec![listed("pw.1", WayKind::Plain, WayState::Retiring)], 9);
        assert_eq!(plain(&ways), None);
        assert!(ways.owner("pw.1").is_some());
        // The next plain way is not ended by the end of the one before.
        ways.take(vec![listed("pw.2", WayKind::Plain, WayState::Ready)], 10);
        ways.take(vec![listed("pw.1", WayKind::Plain, WayState::Gone)], 11);
        assert_eq!(plain(&ways).as_deref(), Some("pw.2"));
        assert!(ways.owner("pw.1").is_none());
        ways.take(
            vec![
                listed("pw.2", WayKind::Plain, WayState::Gone),
                listed("pv.1", WayKind::Slot, WayState::Gone),
            ],
            12,
        );
        let known = ways.read();
        assert!(known.owners.is_empty() && known.plain.is_empty() && known.shared.is_empty());
    }

    #[test]
    fn pictures_have_a_limit() {
        let ways = Ways::new(1);
        for n in 0..1_000 {
            ways.keep(WayPicture {
                way: format!("pv.{n}"),
                bytes: vec![7; 10_000],
                content_type: "image/png".to_owned(),
                qr_code: "http://qr".to_owned(),
            });
        }
        ways.pictures.run_pending_tasks();
        let kept = (0..1_000).filter(|n| ways.picture(&format!("pv.{n}")).is_some());
        assert!((50..=105).contains(&kept.count()));
    }
}
