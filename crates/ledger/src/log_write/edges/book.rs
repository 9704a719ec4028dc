//! What each step makes of edges and counts, in memory: everything that the steps may meet was read before.

use std::collections::{BTreeMap, HashMap, HashSet};

use allocation::{CampaignId, ChatId, GroupPoolId, InviterId, PersonKey, SeatId, SubjectKey};

use super::{EdgesWritten, FoldedEdges, Step, What};
use crate::fission::{BACK_WITHIN_MS, EdgeState, Fission, NewTo};

/// As far as it is looked whether somebody brought the one who brings him.
pub(super) const CIRCLE: usize = 32;

pub(super) type OfInviter = (CampaignId, InviterId);
pub(super) type OfPerson = (PersonKey, CampaignId);

#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) campaigns: HashMap<CampaignId, Campaign>,
    pub(super) inviters: BTreeMap<OfInviter, Inviter>,
    pub(super) edges: BTreeMap<OfPerson, Edge>,
    /// The campaigns in which somebody has one.
    pub(super) edges_of: HashMap<PersonKey, Vec<CampaignId>>,
    /// Those of the batch's seats that somebody brought.
    pub(super) seats: HashMap<SeatId, Seat>,
    /// Inviters by the States of their ways.
    pub(super) ways: HashMap<String, OfInviter>,
    /// The times that each person was in a group, the batch's included.
    pub(super) stays: HashMap<PersonKey, Vec<Stay>>,
    /// Customers who were given to a member, since when.
    pub(super) customers: HashMap<SubjectKey, u64>,
    /// Who brought an inviter.
    pub(super) above: HashMap<OfInviter, InviterId>,
    /// Inviters as whom somebody may be known.
    pub(super) as_inviter: HashMap<(CampaignId, SubjectKey), InviterId>,
    pub(super) written: EdgesWritten,
}

#[derive(Debug)]
pub(super) struct Campaign {
    pub(super) pool: GroupPoolId,
    /// None: nothing is rewarded any more.
    pub(super) fission: Option<Fission>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Inviter {
    pub(super) subject: Option<SubjectKey>,
    pub(super) person: Option<PersonKey>,
    pub(super) is_blocked: bool,
    pub(super) joined: u64,
    pub(super) pending: u64,
    pub(super) qualified: u64,
    pub(super) revoked: u64,
    pub(super) refused: u64,
    /// Since when so many are qualified, if that is of this batch.
    pub(super) ranked_ms: Option<u64>,
    /// The most that were qualified in this batch, and when.
    pub(super) peak: Option<(u64, u64)>,
    /// It is known now as whom he is in groups, with WeCom's id of him.
    pub(super) learned: Option<Option<String>>,
    pub(super) is_changed: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Edge {
    pub(super) inviter: InviterId,
    pub(super) subject: Option<SubjectKey>,
    pub(super) seat: Option<SeatId>,
    pub(super) chat: ChatId,
    pub(super) state: EdgeState,
    pub(super) reason: Option<String>,
    pub(super) was: Option<EdgeState>,
    pub(super) joined_ms: u64,
    pub(super) qualifies_ms: u64,
    pub(super) qualified_ms: Option<u64>,
    pub(super) changed_ms: u64,
    pub(super) rejoins: u32,
    pub(super) is_changed: bool,
}

#[derive(Debug)]
pub(super) struct Seat {
    pub(super) campaign: CampaignId,
    pub(super) subject: SubjectKey,
    pub(super) inviter: InviterId,
    pub(super) asked_ms: u64,
}

#[derive(Debug)]
pub(super) struct Stay {
    pub(super) chat: ChatId,
    pub(super) pool: Option<GroupPoolId>,
    pub(super) seq: u64,
    pub(super) joined_ms: u64,
    pub(super) left_ms: Option<u64>,
}

/// He left.
pub(crate) const LEFT: &str = "left";
const SELF: &str = "self_invite";
const BLOCKED: &str = "blocked_inviter";
const ROUND: &str = "circle";
const ALREADY: &str = "already_member";
const OVER: &str = "over_limit";

impl Book {
    pub(super) fn step(&mut self, step: &Step<'_>, folded: &FoldedEdges<'_>) {
        match &step.what {
            What::Left if folded.gone.contains(step.chat) => {}
            What::Left => self.left(step),
            What::Came { seat, via, who } => {
                self.back(step, folded.is_mend);
                let unionid = who.and_then(|who| who.unionid);
                let external_id = who.and_then(|who| who.external_id.clone());
                let of_seat = seat.and_then(|seat| self.seats.get(&seat).map(|of| (seat, of)));
                if let Some((seat, of)) = of_seat {
                    let (campaign, inviter) = (of.campaign.clone(), of.inviter.clone());
                    let (subject, asked_ms) = (of.subject, of.asked_ms);
                    let names = [Some(subject), unionid, Some(step.person.0)];
                    self.learn(&campaign, step.person, &names, external_id);
                    let subject = Some(unionid.unwrap_or(subject));
                    let brought = Brought {
                        inviter,
                        subject,
                        names: names.into_iter().flatten().collect(),
                        seat: Some(seat),
                        asked_ms,
                    };
                    self.came(step, campaign, brought);
                } else if let Some((campaign, inviter)) =
                    via.and_then(|via| self.ways.get(via.as_str()).cloned())
                {
                    let names = [unionid, Some(step.person.0)];
                    self.learn(&campaign, step.person, &names, external_id);
                    let brought = Brought {
                        inviter,
                        subject: unionid,
                        names: names.into_iter().flatten().collect(),
                        seat: None,
                        asked_ms: step.at_ms,
                    };
                    self.came(step, campaign, brought);
                }
            }
        }
    }

    /// Whoever came is himself an inviter of the campaign.
    fn learn(
        &mut self,
        campaign: &CampaignId,
        person: PersonKey,
        names: &[Option<SubjectKey>],
        external_id: Option<String>,
    ) {
        for name in names.iter().flatten() {
            let Some(id) = self.as_inviter.get(&(campaign.clone(), *name)).cloned() else {
                continue;
            };
            self.as_inviter
                .insert((campaign.clone(), person.0), id.clone());
            if let Some(inviter) = self.inviters.get_mut(&(campaign.clone(), id))
                && inviter.person.is_none()
            {
                inviter.person = Some(person);
                inviter.learned = Some(external_id.clone());
                inviter.is_changed = true;
            }
        }
    }

    fn came(&mut self, step: &Step<'_>, campaign: CampaignId, brought: Brought) {
        let rules = self.campaigns.get(&campaign);
        let Some(rules) = rules.and_then(|one| one.fission.as_ref()) else {
            return;
        };
        let stay_ms = rules.stay_seconds.saturating_mul(1_000);
        let key = (step.person, campaign.clone());
        let of = (campaign.clone(), brought.inviter.clone());
        if self.edges.contains_key(&key) || !self.inviters.contains_key(&of) {
            return;
        }
        let here = self.stays.get(&step.person).into_iter().flatten();
        let here = here.filter(|stay| stay.chat == *step.chat && stay.seq <= step.seq);
        let here = here.max_by_key(|stay| stay.seq);
        let (joined_ms, joined_seq) =
            here.map_or((step.at_ms, step.seq), |stay| (stay.joined_ms, stay.seq));
        let refused = self.refused(&campaign, step.person, &brought, joined_seq, joined_ms);
        let qualifies_ms = joined_ms.saturating_add(stay_ms);
        let state = match (refused, stay_ms) {
            (Some(_), _) => EdgeState::Refused,
            (None, 0) => EdgeState::Qualified,
            (None, _) => EdgeState::Pending,
        };
        let edge = Edge {
            inviter: brought.inviter.clone(),
            subject: brought.subject,
            seat: brought.seat,
            chat: step.chat.clone(),
            state,
            reason: refused.map(str::to_owned),
            was: None,
            joined_ms,
            qualifies_ms,
            qualified_ms: (state == EdgeState::Qualified).then_some(step.at_ms),
            changed_ms: step.at_ms,
            rejoins: 0,
            is_changed: true,
        };
        self.edges.insert(key, edge);
        let of_person = self.edges_of.entry(step.person).or_default();
        of_person.push(campaign.clone());
        if state != EdgeState::Refused
            && let Some(own) = self.known_as(&campaign, &brought.names)
        {
            let above = self.above.entry((campaign, own));
            above.or_insert(brought.inviter);
        }
        if let Some(inviter) = self.inviters.get_mut(&of) {
            inviter.joined += u64::from(state != EdgeState::Refused);
            inviter.count(state, step.at_ms);
        }
        *self
            .written
            .states
            .entry((state.as_str(), refused.unwrap_or_default()))
            .or_default() += 1;
    }

    /// As which inviter one with these names is known.
    fn known_as(&self, campaign: &CampaignId, names: &[SubjectKey]) -> Option<InviterId> {
        let mut known = names
            .iter()
            .filter_map(|name| self.as_inviter.get(&(campaign.clone(), *name)));
        known.next().cloned()
    }

    /// Why it does not count that he was brought.
    fn refused(
        &self,
        campaign: &CampaignId,
        person: PersonKey,
        brought: &Brought,
        joined_seq: u64,
        joined_ms: u64,
    ) -> Option<&'static str> {
        let of = (campaign.clone(), brought.inviter.clone());
        let (inviter, of_campaign) = (self.inviters.get(&of)?, self.campaigns.get(campaign)?);
        let rules = of_campaign.fission.as_ref()?;
        let is_he = |name: &SubjectKey| {
            Some(*name) == inviter.subject || Some(*name) == inviter.person.map(|person| person.0)
        };
        if brought.names.iter().any(is_he) {
            return Some(SELF);
        }
        if inviter.is_blocked {
            return Some(BLOCKED);
        }
        if let Some(own) = self.known_as(campaign, &brought.names)
            && self.is_above(campaign, &own, &brought.inviter)
        {
            return Some(ROUND);
        }
        let is_before = |stay: &&Stay| {
            (stay.joined_ms, stay.seq) < (joined_ms, joined_seq)
                && match rules.new_to {
                    NewTo::GroupPool => stay.pool.as_ref() == Some(&of_campaign.pool),
                    NewTo::Corp => true,
                }
        };
        let mut stays = self.stays.get(&person).into_iter().flatten();
        let is_customer = rules.new_to == NewTo::Corp
            && brought.names.iter().any(|name| {
                let since_ms = self.customers.get(name);
                since_ms.is_some_and(|since_ms| *since_ms < brought.asked_ms)
            });
        if stays.any(|stay| is_before(&stay)) || is_customer {
            return Some(ALREADY);
        }
        let counts = inviter.pending + inviter.qualified;
        let most = rules.max_per_inviter;
        most.is_some_and(|most| counts >= most).then_some(OVER)
    }

    /// Whether `one` brought `other`, himself or over others.
    fn is_above(&self, campaign: &CampaignId, one: &InviterId, other: &InviterId) -> bool {
        let mut at = other;
        let mut seen = HashSet::new();
        for _ in 0..CIRCLE {
            match self.above.get(&(campaign.clone(), at.clone())) {
                Some(above) if above == one => return true,
                Some(above) if seen.insert(above) => at = above,
                _ => return false,
            }
        }
        false
    }

    fn left(&mut self, step: &Step<'_>) {
        for campaign in self.campaigns_of(step.person) {
            let pool = self.campaigns.get(&campaign).map(|one| one.pool.clone());
            let stays = self.stays.get(&step.person).into_iter().flatten();
            let elsewhere = stays.filter(|stay| {
                stay.chat != *step.chat
                    && stay.pool.is_some()
                    && stay.pool == pool
                    && stay.joined_ms <= step.at_ms
                    && stay.left_ms.is_none_or(|left_ms| left_ms > step.at_ms)
            });
            let elsewhere = elsewhere.map(|stay| stay.chat.clone()).next();
            let Some(edge) = self.edges.get_mut(&(step.person, campaign.clone())) else {
                continue;
            };
            if edge.chat != *step.chat
                || !matches!(edge.state, EdgeState::Pending | EdgeState::Qualified)
            {
                continue;
            }
            edge.is_changed = true;
            if let Some(elsewhere) = elsewhere {
                edge.chat = elsewhere;
                continue;
            }
            edge.was = Some(edge.state);
            edge.state = EdgeState::Revoked;
            edge.reason = Some(LEFT.to_owned());
            edge.changed_ms = step.at_ms;
            self.turned(&campaign, step);
        }
    }

    /// He is in a group again, who had left: soon enough, or too late.
    fn back(&mut self, step: &Step<'_>, is_mend: bool) {
        let stays = self.stays.get(&step.person).into_iter().flatten();
        let mut stays = stays.filter(|stay| stay.chat == *step.chat);
        // Who is only named now came before.
        let Some(stay) = stays.find(|stay| stay.seq == step.seq) else {
            return;
        };
        let (pool, joined_ms) = (stay.pool.clone(), stay.joined_ms);
        for campaign in self.campaigns_of(step.person) {
            let of_pool = self.campaigns.get(&campaign).map(|one| &one.pool);
            if of_pool.is_none() || of_pool != pool.as_ref() {
                continue;
            }
            let Some(edge) = self.edges.get_mut(&(step.person, campaign.clone())) else {
                continue;
            };
            if edge.state != EdgeState::Revoked || edge.reason.as_deref() != Some(LEFT) {
                continue;
            }
            edge.is_changed = true;
            let away_ms = joined_ms.saturating_sub(edge.changed_ms);
            let never_left = away_ms <= BACK_WITHIN_MS || is_mend;
            if edge.rejoins > 0 || !never_left {
                edge.rejoins = edge.rejoins.saturating_add(1);
                continue;
            }
            edge.state = edge.was.take().unwrap_or(EdgeState::Pending);
            edge.reason = None;
            edge.chat = step.chat.clone();
            edge.changed_ms = step.at_ms;
            self.turned(&campaign, step);
        }
    }

    /// His edge was revoked, or is not any more.
    fn turned(&mut self, campaign: &CampaignId, step: &Step<'_>) {
        let Some(edge) = self.edges.get(&(step.person, campaign.clone())) else {
            return;
        };
        let (state, was) = (edge.state, edge.was);
        let of = (campaign.clone(), edge.inviter.clone());
        if let Some(inviter) = self.inviters.get_mut(&of) {
            match was {
                Some(was) => inviter.uncount(was, step.at_ms),
                None => inviter.uncount(EdgeState::Revoked, step.at_ms),
            }
            inviter.count(state, step.at_ms);
        }
        let reason = if state == EdgeState::Revoked {
            LEFT
        } else {
            ""
        };
        *self
            .written
            .states
            .entry((state.as_str(), reason))
            .or_default() += 1;
    }

    fn campaigns_of(&self, person: PersonKey) -> Vec<CampaignId> {
        self.edges_of.get(&person).cloned().unwrap_or_default()
    }
}

/// Somebody was brought.
struct Brought {
    inviter: InviterId,
    /// As whom the edge has him.
    subject: Option<SubjectKey>,
    /// As whom he is known.
    names: Vec<SubjectKey>,
    seat: Option<SeatId>,
    asked_ms: u64,
}

impl Inviter {
    fn count(&mut self, state: EdgeState, at_ms: u64) {
        self.is_changed = true;
        *self.of(state) += 1;
        if state == EdgeState::Qualified {
            self.ranked_ms = Some(at_ms);
            let qualified = self.qualified;
            if self.peak.is_none_or(|(peak, _)| peak < qualified) {
                self.peak = Some((qualified, at_ms));
            }
        }
    }

    fn uncount(&mut self, state: EdgeState, at_ms: u64) {
        self.is_changed = true;
        let counted = self.of(state);
        *counted = counted.saturating_sub(1);
        if state == EdgeState::Qualified {
            self.ranked_ms = Some(at_ms);
        }
    }

    fn of(&mut self, state: EdgeState) -> &mut u64 {
        match state {
            EdgeState::Pending => &mut self.pending,
            EdgeState::Qualified => &mut self.qualified,
            EdgeState::Revoked => &mut self.revoked,
            EdgeState::Refused => &mut self.refused,
        }
    }
}
