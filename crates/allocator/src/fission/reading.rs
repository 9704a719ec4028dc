//! What a read of a group says, beside what Redis has of it. Pure.
//!
//! WeCom's reads lag behind its events, and versions say only whether two lists are the same, not which is older. So a read
//! that says something else than Redis is believed in part at first: it names those whom events brought, and whoever is in it
//! and not in Redis takes room, as *doubted*: he may have left before that, so no seat is taken for his until an event tells of
//! him or the lag is over; nobody leaves by it, and the version stays. If nothing in Redis has changed by the time the
//! lag is over, a read that is made then is the newer of the two, whatever it says. One before that, which says what Redis has from a
//! read, ends no doubt: it may be as old.

use std::collections::BTreeMap;

use allocation::{
    CampaignId, ChatId, ChatVersion, ConfirmSeats, CorpId, JoinedPerson, MAX_CANDIDATES,
    MAX_PEOPLE, PersonKey, SeatCandidate, SeatMatch, SubjectKey, Via,
    model::{GroupView, PersonView},
};
use sha2::{Digest, Sha256};
use wecom::client::{GroupMember, GroupMemberKind, JoinScene};

use crate::reception::{intake::WECOM, visits::VisitorKind};

/// Who is in a group, as WeCom said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) version: ChatVersion,
    people: BTreeMap<PersonKey, Came>,
}

/// What Redis has of somebody who is in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Had {
    Named,
    /// An event brought him.
    Pending,
    /// A read did that may be older than what is known.
    Doubted,
}

/// How somebody came, and as whom he may have been shown the group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Came {
    scanned: bool,
    state: Option<Via>,
    names: Vec<(SeatMatch, SubjectKey)>,
}

/// What Redis is to be told, in this order, and how sure that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) changes: Vec<ConfirmSeats>,
    /// Afterwards Redis has exactly what was read.
    pub(super) is_whole: bool,
    /// Either is old; it is to be read again when WeCom's lag is over.
    pub(super) in_doubt: bool,
    pub(super) n_joined: usize,
    pub(super) n_left: usize,
}

impl Reading {
    pub(super) fn of(
        corp: &CorpId,
        members: &[GroupMember],
        version: Option<&str>,
    ) -> Result<Self, allocation::Error> {
        let people: BTreeMap<PersonKey, Came> =
            members.iter().map(|one| person(corp, one)).collect();
        let version = version.and_then(|version| ChatVersion::new(version).ok());
        let version = version.map_or_else(|| made_up(&people), Ok)?;
        Ok(Self { version, people })
    }

    pub(super) fn n_people(&self) -> usize {
        self.people.len()
    }

    /// The seats that may be those of whom this read is to name.
    pub(super) fn names(&self, view: &GroupView) -> Vec<SubjectKey> {
        let known = known(view);
        let news = self.people.iter();
        let news = news.filter(|(person, _)| known.get(person) != Some(&Had::Named));
        let names = news.flat_map(|(_, came)| &came.names);
        names.map(|(_, subject)| *subject).collect()
    }

    /// `is_settled`: Redis has not changed since WeCom's lag ago, so this read is the newer one. `campaigns` are those that fill
    /// the group, `is_seat` says whether somebody has a seat in one.
    pub(super) fn difference(
        &self,
        view: &GroupView,
        is_settled: bool,
        campaigns: &[CampaignId],
        is_seat: impl Fn(&CampaignId, &SubjectKey) -> bool,
    ) -> Difference {
        let known = known(view);
        let is_first = view.seen.is_none();
        let is_same = view.seen.as_ref() == Some(&self.version);
        let believed = is_first || is_settled;
        let (mut joined, mut n_new) = (Vec::new(), 0);
        for (person, came) in &self.people {
            match known.get(person) {
                Some(Had::Named) => {}
                Some(Had::Pending) => joined.push(came.named(*person, campaigns, &is_seat)),
                // A second read may be as old as the first.
                Some(Had::Doubted) if !believed && !is_same => {}
                Some(Had::Doubted) => joined.push(came.named(*person, campaigns, &is_seat)),
                None => {
                    n_new += 1;
                    joined.push(match believed {
                        true => came.named(*person, campaigns, &is_seat),
                        false => doubted(*person),
                    });
                }
            }
        }
        let gone = known.keys().filter(|one| !self.people.contains_key(one));
        let gone: Vec<PersonKey> = gone.copied().collect();
        let is_exact = is_same && n_new == 0 && gone.is_empty();
        let (left, version) = match believed {
            true => (gone, self.version.clone()),
            // Then Redis does not change its version.
            false => (
                Vec::new(),
                view.seen.clone().unwrap_or_else(|| self.version.clone()),
            ),
        };
        let (n_joined, n_left) = (n_new, left.len());
        Difference {
            changes: changes(view, &version, joined, left),
            is_whole: believed || is_exact,
            in_doubt: !is_settled && !is_exact,
            n_joined,
            n_left,
        }
    }
}

impl Came {
    fn named(
        &self,
        person: PersonKey,
        campaigns: &[CampaignId],
        is_seat: impl Fn(&CampaignId, &SubjectKey) -> bool,
    ) -> JoinedPerson {
        let names = self.names.iter().flat_map(|(how, subject)| {
            let seat = |campaign: &CampaignId| SeatCandidate {
                how: *how,
                campaign: campaign.clone(),
                subject: *subject,
            };
            campaigns.iter().map(seat)
        });
        let names = names.filter(|one| is_seat(&one.campaign, &one.subject));
        JoinedPerson {
            person,
            identified: true,
            doubted: false,
            scanned: self.scanned,
            state: self.state.clone(),
            names: names.take(MAX_CANDIDATES).collect(),
        }
    }
}

/// Somebody who takes room, and nobody knows yet for whom.
pub(super) fn unnamed(person: PersonKey) -> JoinedPerson {
    JoinedPerson {
        person,
        identified: false,
        doubted: false,
        scanned: false,
        state: None,
        names: Vec::new(),
    }
}

/// The same of one who may have left already: he is in a read that may be older than the event of it.
fn doubted(person: PersonKey) -> JoinedPerson {
    JoinedPerson {
        doubted: true,
        ..unnamed(person)
    }
}

/// Of everybody whom Redis has in the group.
fn known(view: &GroupView) -> BTreeMap<PersonKey, Had> {
    let had = |one: &PersonView| match (one.pending, one.doubted) {
        (false, _) => Had::Named,
        (true, false) => Had::Pending,
        (true, true) => Had::Doubted,
    };
    let people = view.people.iter();
    people.map(|one| (one.person, had(one))).collect()
}

fn person(corp: &CorpId, member: &GroupMember) -> (PersonKey, Came) {
    if member.kind == GroupMemberKind::Employee {
        // Our own people take nobody's seat.
        return (PersonKey::member(corp, &member.userid), Came::default());
    }
    let unionid = member.unionid.as_deref().filter(|id| !id.is_empty());
    let unionid = unionid.map(|id| SubjectKey::new(corp, VisitorKind::Unionid.as_str(), id));
    let external = SubjectKey::new(corp, WECOM, &member.userid);
    let mut names: Vec<_> = unionid
        .map(|id| (SeatMatch::Unionid, id))
        .into_iter()
        .collect();
    names.push((SeatMatch::ExternalId, external));
    let state = member
        .state
        .as_deref()
        .and_then(|state| Via::new(state).ok());
    let came = Came {
        scanned: member.join_scene == JoinScene::Scanned,
        state,
        names,
    };
    (PersonKey::customer(corp, &member.userid), came)
}

/// Where WeCom gives no version: no event follows it, so the group is read after each.
fn made_up(people: &BTreeMap<PersonKey, Came>) -> Result<ChatVersion, allocation::Error> {
    let mut hash = Sha256::new();
    for person in people.keys() {
        hash.update(person.to_string());
    }
    let digest = hex::encode(hash.finalize());
    ChatVersion::new(format!("-{}", &digest[..32]))
}

/// What Redis has of a group, to be compared with what it has later.
pub(super) fn digest(view: &GroupView) -> String {
    let mut hash = Sha256::new();
    hash.update(view.seen.as_ref().map_or("", ChatVersion::as_str));
    for (person, had) in known(view) {
        let mark = match had {
            Had::Named => "",
            Had::Pending => "?",
            Had::Doubted => "~",
        };
        hash.update(format!(" {person}{mark}"));
    }
    hex::encode(hash.finalize())
}

/// In parts that one call takes. Nobody leaves before all have come, so that no seat is free in between that is not.
fn changes(
    view: &GroupView,
    version: &ChatVersion,
    joined: Vec<JoinedPerson>,
    left: Vec<PersonKey>,
) -> Vec<ConfirmSeats> {
    let chat: &ChatId = view.config.chat();
    let change = |from: &Option<ChatVersion>, joined, left| ConfirmSeats {
        chat: chat.clone(),
        from: from.clone(),
        version: version.clone(),
        force: false,
        left,
        joined,
    };
    let mut changes = Vec::new();
    let mut from = view.seen.clone();
    if joined.len() + left.len() <= MAX_PEOPLE {
        if from.as_ref() != Some(version) || !joined.is_empty() || !left.is_empty() {
            changes.push(change(&from, joined, left));
        }
        return changes;
    }
    for part in joined.chunks(MAX_PEOPLE) {
        changes.push(change(&from, part.to_vec(), Vec::new()));
        from = Some(version.clone());
    }
    for part in left.chunks(MAX_PEOPLE) {
        changes.push(change(&from, Vec::new(), part.to_vec()));
        from = Some(version.clone());
    }
    changes
}

#[cfg(test)]
#[path = "reading_tests.rs"]
mod tests;
