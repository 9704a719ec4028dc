//! What one event asks for. Pure: no store is read, nothing is done; `decide` carries the steps out.

use allocation::{
    AllocationId, ChannelId, Closing, Confirmation, CorpId, MemberId, PoolId, Reason, Request,
    SlotId, SubjectKey,
};
use uuid::Uuid;
use wecom::event::{
    AppPresence, Body, Contact, Event, ExternalContact, ExternalContactChange as Change,
};

use super::routes::{Route, Routes};
use crate::{fission::intake::ChatStep, payload::Context};

/// The kind of subject an external_userid is.
pub const WECOM: &str = "wecom";
/// `Source` of a deletion that an in-service transfer caused (page 92130).
const DELETE_BY_TRANSFER: &str = "DELETE_BY_TRANSFER";

/// A member and a customer, in WeCom's spelling.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pair {
    pub userid: String,
    pub external_userid: String,
}

impl Pair {
    /// The name of its dirty mark, as `wecom::event::Event::repeatable` writes it too.
    pub fn entity(&self) -> String {
        format!("{}\u{1f}{}", self.userid, self.external_userid)
    }

    /// Whom this came for.
    pub fn of(context: &Context) -> Self {
        Self {
            userid: context.holder.clone().unwrap_or_default(),
            external_userid: context.subject_id.clone(),
        }
    }

    pub fn from_entity(entity: &str) -> Option<Self> {
        let (userid, external_userid) = entity.split_once('\u{1f}')?;
        Some(Self {
            userid: userid.to_owned(),
            external_userid: external_userid.to_owned(),
        })
    }
}

/// What a delivery asks for.
#[derive(Debug, Clone)]
pub enum Step {
    /// A member has a customer: who gets him?
    Decide {
        request: Request,
        context: Box<Context>,
    },
    /// A member has a customer who came by one of our contact ways: whose visit was it?
    Confirm {
        confirmation: Confirmation,
        context: Box<Context>,
    },
    /// A relation ended. If it ended nothing of ours, the pair is read again.
    Close { closing: Closing, pair: Pair },
    /// A transfer of ours moved on or failed; only `transfer_result` knows which.
    Advance {
        external_userid: String,
        taker: Option<String>,
        reason: &'static str,
    },
    /// The event does not say what is true now.
    Reread(Pair),
    /// It would have said, but is taken up too long after it came.
    Late(Pair),
    /// The member may have left, or may be back.
    CheckMember(String),
    /// A member has a customer whose State leads nowhere, as there is no default pool: perhaps not yet.
    Nowhere(Pair),
    /// Something became of a customer group.
    Chat(ChatStep),
    /// Kept as it came, and nothing else.
    Ignore(&'static str),
}

impl Step {
    /// Whether the customer came with a State that names no channel.
    pub fn is_of_unknown_state(&self) -> bool {
        match self {
            Self::Decide { context, .. } => context.unknown_state.is_some(),
            Self::Nowhere(_) => true,
            _ => false,
        }
    }

    /// The same, long after the event: welcome codes are dead, and whoever came may have left since. What was news is a
    /// reason to ask WeCom now; what was one already stays it.
    #[must_use]
    pub fn late(self) -> Self {
        match self {
            Self::Decide { context, .. } => match context.holder {
                Some(userid) => Self::Late(Pair {
                    userid,
                    external_userid: context.subject_id,
                }),
                None => Self::Ignore("late"),
            },
            Self::Confirm { context, .. } => Self::Late(Pair::of(&context)),
            Self::Close { pair, .. } | Self::Nowhere(pair) => Self::Late(pair),
            Self::Chat(chat) => Self::Chat(chat.late()),
            other => other,
        }
    }
}

/// Contact ways of ours begin like this: a slot is lent to one visit at a time, a plain one is for visits without a slot.
pub const SLOT_STATE: &str = "pv.";
pub const PLAIN_STATE: &str = "pw.";

/// Whose contact ways are.
pub trait Owners: std::fmt::Debug {
    /// The channel of a way of ours; None: not known here (yet).
    fn channel_of(&self, way: &str) -> Option<ChannelId>;
}

impl Owners for std::collections::HashMap<String, ChannelId> {
    fn channel_of(&self, way: &str) -> Option<ChannelId> {
        self.get(way).cloned()
    }
}

/// What a State asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lead {
    /// It leads to a pool, which decides.
    Pool {
        channel: Option<ChannelId>,
        pool: PoolId,
        /// The State, when it names no channel.
        unknown_state: Option<String>,
    },
    /// It is a contact way of ours: the visitor saw this member, or should have.
    Way {
        channel: ChannelId,
        pool: PoolId,
        /// None: a plain way.
        slot: Option<SlotId>,
    },
    /// Nowhere, perhaps not yet.
    Nowhere,
}

/// Where a State leads.
pub fn lead(state: Option<&str>, routes: &Routes, owners: &dyn Owners) -> Lead {
    if let Some(way) = state
        && (way.starts_with(SLOT_STATE) || way.starts_with(PLAIN_STATE))
        && !routes.by_state.contains_key(way)
    {
        let channel = owners.channel_of(way);
        let known = channel.and_then(|channel| {
            let pool = routes.pool_of_ways(&channel)?.clone();
            Some((channel, pool))
        });
        let slot = match way.starts_with(SLOT_STATE) {
            true => SlotId::new(way).ok(),
            false => None,
        };
        return known.map_or(Lead::Nowhere, |(channel, pool)| Lead::Way {
            channel,
            pool,
            slot,
        });
    }
    match routes.find(state) {
        Route::Channel(channel, pool) => Lead::Pool {
            channel: Some(channel),
            pool,
            unknown_state: None,
        },
        Route::Default(pool) => Lead::Pool {
            channel: None,
            pool,
            unknown_state: state.map(str::to_owned),
        },
        Route::Nowhere => Lead::Nowhere,
    }
}

/// One event and where it came from.
#[derive(Debug)]
pub struct Arrival<'a> {
    pub corp: &'a CorpId,
    pub delivery: &'a str,
    pub received_ms: u64,
    pub plaintext: &'a str,
}

/// Where customers go, as far as this process knows.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    pub routes: &'a Routes,
    pub owners: &'a dyn Owners,
}

/// What this delivery asks for. `allocation` becomes the id of a new allocation, if there is one.
pub fn step(arrival: &Arrival<'_>, places: &Places<'_>, allocation: Uuid) -> Step {
    let Ok(event) = Event::parse(arrival.plaintext) else {
        return Step::Ignore("unreadable");
    };
    match event.body {
        Body::ExternalContact(contact) => contact_step(arrival, places, contact, allocation),
        Body::AppPresence(AppPresence::Subscribe | AppPresence::Unsubscribe) => {
            match event.from_user {
                Some(userid) => Step::CheckMember(userid),
                None => Step::Ignore("no_member"),
            }
        }
        Body::Contact(Contact::DeleteUser(userid)) => Step::CheckMember(userid),
        Body::Contact(Contact::CreateUser(user) | Contact::UpdateUser(user)) => {
            Step::CheckMember(user.user_id)
        }
        Body::ExternalChat(chat) => ChatStep::of(chat).map_or(Step::Ignore("no_group"), Step::Chat),
        Body::Unknown(_) => Step::Ignore("unknown_event"),
        Body::Message(_) => Step::Ignore("message"),
        _ => Step::Ignore("not_for_allocation"),
    }
}

fn contact_step(
    arrival: &Arrival<'_>,
    places: &Places<'_>,
    contact: ExternalContact,
    allocation: Uuid,
) -> Step {
    let pair = Pair {
        userid: contact.user_id.clone(),
        external_userid: contact.external_user_id.clone(),
    };
    if pair.external_userid.is_empty() {
        return Step::Ignore("no_customer");
    }
    match &contact.change {
        Change::Add | Change::AddHalf => added(arrival, places, contact, allocation),
        Change::Del if contact.source.as_deref() == Some(DELETE_BY_TRANSFER) => Step::Advance {
            external_userid: pair.external_userid,
            taker: None,
            reason: "giver_lost_customer",
        },
        Change::Del => closing(arrival.corp, pair, "member_deleted_customer"),
        Change::DelFollowUser => closing(arrival.corp, pair, "customer_left"),
        // It names the taker only, and not which of several transfers failed.
        Change::TransferFail => Step::Advance {
            external_userid: pair.external_userid,
            taker: Some(pair.userid),
            reason: "transfer_failed",
        },
        Change::Edit => Step::Reread(pair),
        Change::MsgAuditApproved => Step::Ignore("not_for_allocation"),
        Change::Other(_) => Step::Ignore("unknown_change"),
    }
}

fn added(
    arrival: &Arrival<'_>,
    places: &Places<'_>,
    contact: ExternalContact,
    allocation: Uuid,
) -> Step {
    let Ok(holder) = MemberId::new(contact.user_id.clone()) else {
        return Step::Ignore("no_member");
    };
    let lead = lead(contact.state.as_deref(), places.routes, places.owners);
    if lead == Lead::Nowhere {
        return match contact.state {
            None => Step::Ignore("no_pool"),
            Some(_) => Step::Nowhere(Pair {
                userid: contact.user_id,
                external_userid: contact.external_user_id,
            }),
        };
    }
    let subject = SubjectKey::new(arrival.corp, WECOM, &contact.external_user_id);
    let context = Context {
        source: "callback".to_owned(),
        subject_kind: WECOM.to_owned(),
        subject_id: contact.external_user_id,
        delivery: Some(arrival.delivery.to_owned()),
        holder: Some(contact.user_id),
        welcome_code: contact.welcome_code.map(|code| code.expose().to_owned()),
        received_ms: arrival.received_ms,
        ..Context::default()
    };
    asks(lead, AllocationId(allocation), subject, holder, context)
}

/// A member has a customer who came by this State.
pub fn asks(
    lead: Lead,
    allocation: AllocationId,
    subject: SubjectKey,
    holder: MemberId,
    context: Context,
) -> Step {
    match lead {
        Lead::Pool {
            channel,
            pool,
            unknown_state,
        } => Step::Decide {
            request: Request {
                allocation,
                pool,
                subject,
                holder: Some(holder),
                request: None,
                echo: true,
                plan: None,
            },
            context: Box::new(Context {
                channel: channel.map(|channel| channel.to_string()),
                unknown_state,
                ..context
            }),
        },
        Lead::Way {
            channel,
            pool,
            slot,
        } => Step::Confirm {
            confirmation: Confirmation {
                allocation,
                pool,
                subject,
                member: holder,
                visitor: None,
                // A slot says whose visit it was; only without one the oldest is taken.
                channel: slot.is_none().then(|| channel.clone()),
                slot,
            },
            context: Box::new(Context {
                channel: Some(channel.to_string()),
                ..context
            }),
        },
        Lead::Nowhere => Step::Nowhere(Pair::of(&context)),
    }
}

fn closing(corp: &CorpId, pair: Pair, reason: &'static str) -> Step {
    let (Ok(member), Ok(reason)) = (MemberId::new(pair.userid.clone()), Reason::new(reason)) else {
        return Step::Ignore("no_member");
    };
    let subject = SubjectKey::new(corp, WECOM, &pair.external_userid);
    Step::Close {
        closing: Closing {
            subject,
            pool: None,
            member: Some(member),
            allocation: None,
            reason,
        },
        pair,
    }
}

#[cfg(test)]
#[path = "intake_tests.rs"]
mod tests;
