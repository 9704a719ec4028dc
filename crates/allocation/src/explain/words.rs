//! The words of an explanation: what happened, what decided, why it waits.

use serde::Serialize;

/// What happened to the allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    Decided,
    Visited,
    Woken,
    Reassigned,
    /// The member who was asked declined, or did not answer in time.
    MovedOn,
    Confirmed,
    Kept,
    /// It had waited long enough: a person must decide.
    LeftToPerson,
}

impl What {
    pub fn as_str(self) -> &'static str {
        match self {
            What::Decided => "decided",
            What::Visited => "visited",
            What::Woken => "woken",
            What::Reassigned => "reassigned",
            What::MovedOn => "moved_on",
            What::Confirmed => "confirmed",
            What::Kept => "kept",
            What::LeftToPerson => "left_to_person",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Of those with credit the one whose credit would reach a whole customer first.
    EarliestDeadline,
    /// Nobody had credit: the one with most of it.
    MostCredit,
    /// The smallest load divided by weight.
    LeastLoad,
    /// The plan prefers this member: the customer was his before, or always comes to him.
    Preferred,
    /// Of those who waited the one who had waited longest; the next rule says to whom he came.
    LongestWaitingWoken,
    /// It was taken from the member who had it; the next rule says who got it.
    Reassigned,
    /// The member who was asked declined or did not answer; the next rule says who is asked now.
    OfferOver,
    /// As many were asked as the pool has asked: a person must decide.
    TriesUsedUp,
    /// Nobody else can be asked: a person must decide.
    NobodyLeft,
    /// It had waited as long as the pool lets customers wait: a person must decide.
    WaitedTooLong,
    /// The member was named by whoever asked.
    Named,
    /// The visitor added the member who was held for him.
    Held,
    /// As before, after the hold was over: he counts, and pays nothing again.
    Late,
    /// The customer came to another member than the visitor saw; that one pays.
    Mismatched,
    /// No visit explains the customer: the member who has him pays.
    Direct,
    /// The customer stayed with this member.
    Kept,
}

impl Rule {
    pub fn as_str(self) -> &'static str {
        match self {
            Rule::EarliestDeadline => "earliest_deadline",
            Rule::MostCredit => "most_credit",
            Rule::LeastLoad => "least_load",
            Rule::Preferred => "preferred",
            Rule::LongestWaitingWoken => "longest_waiting_woken",
            Rule::Reassigned => "reassigned",
            Rule::OfferOver => "offer_over",
            Rule::TriesUsedUp => "tries_used_up",
            Rule::NobodyLeft => "nobody_left",
            Rule::WaitedTooLong => "waited_too_long",
            Rule::Named => "named",
            Rule::Held => "held",
            Rule::Late => "late",
            Rule::Mismatched => "mismatched",
            Rule::Direct => "direct",
            Rule::Kept => "kept",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitsFor {
    /// Nobody overtakes one who waits.
    BehindOthers,
    NobodyFree,
    /// More presence leases were over than one operation may end; the next operation goes on.
    LeasesEnding,
    /// The channel it came through gave what it may in this hour, or on this day.
    ChannelLimit,
}

impl WaitsFor {
    pub fn as_str(self) -> &'static str {
        match self {
            WaitsFor::BehindOthers => "behind_others",
            WaitsFor::NobodyFree => "nobody_free",
            WaitsFor::LeasesEnding => "leases_ending",
            WaitsFor::ChannelLimit => "channel_limit",
        }
    }
}
