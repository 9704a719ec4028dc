//! WeCom's error numbers as one table: what can be done, and what is at fault.
//!
//! The class is our judgement; WeCom publishes only the numbers. A code that is not here is `Unknown`: it is
//! not retried but parked for a person, and counted.

use std::fmt;

/// What can be done about an error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Get a new token, once, and repeat the call, once. The client does this by itself.
    RefreshToken,
    /// Passing: repeat with growing pauses, a bounded number of times.
    RetryWithBackoff,
    /// Over a limit: pause this API of this corp.
    RateLimited,
    /// Final for this customer; others are not concerned.
    PermanentCustomer,
    /// Needs a person or a code change: app, corp, employee, group or request.
    PermanentConfig,
    /// What was asked for is already so, or already under way.
    AlreadyDone,
    /// Not in the table: do not repeat, park for review.
    Unknown,
}

impl Class {
    /// The name used in records and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RefreshToken => "refresh_token",
            Self::RetryWithBackoff => "retry_with_backoff",
            Self::RateLimited => "rate_limited",
            Self::PermanentCustomer => "permanent_customer",
            Self::PermanentConfig => "permanent_config",
            Self::AlreadyDone => "already_done",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is at fault, so that a bad employee does not condemn the customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// WeCom itself, or the way there.
    Platform,
    /// The access token.
    Token,
    /// The app: its secret, its rights, its trusted addresses.
    App,
    /// The whole corp.
    Corp,
    /// This API of this corp (frequency, concurrency).
    Api,
    /// The request as we wrote it.
    Request,
    /// A member: the giver, or whoever the request names.
    Employee,
    /// The member who should take the customer: choose another.
    Takeover,
    /// The customer.
    Customer,
    /// The pair of member and customer that two writers touched at once.
    Pair,
    /// A tag or tag group.
    Tag,
    /// A contact way, join way or link.
    Way,
    /// A group.
    Group,
    /// A webhook robot.
    Webhook,
    /// A customer-service account or its servicer.
    Service,
    /// Not in the table.
    Unknown,
}

impl Scope {
    /// The name used in records and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Platform => "platform",
            Self::Token => "token",
            Self::App => "app",
            Self::Corp => "corp",
            Self::Api => "api",
            Self::Request => "request",
            Self::Employee => "employee",
            Self::Takeover => "takeover",
            Self::Customer => "customer",
            Self::Pair => "pair",
            Self::Tag => "tag",
            Self::Way => "way",
            Self::Group => "group",
            Self::Webhook => "webhook",
            Self::Service => "service",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an error number means for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classification {
    /// What can be done.
    pub class: Class,
    /// What is at fault.
    pub scope: Scope,
    /// In a few words, for people.
    pub meaning: &'static str,
}

/// Looks an error number up. Never fails: what is not in the table is `Unknown`.
pub fn classify(errcode: i64) -> Classification {
    let after = TABLE.partition_point(|row| row.first <= errcode);
    match after.checked_sub(1).and_then(|index| TABLE.get(index)) {
        Some(row) if errcode <= row.last => Classification {
            class: row.class,
            scope: row.scope,
            meaning: row.meaning,
        },
        _ => Classification {
            class: Class::Unknown,
            scope: Scope::Unknown,
            meaning: "not documented",
        },
    }
}

/// Codes that refuse every call of the app, whatever it asks for.
pub(crate) fn stops_the_app(errcode: i64) -> bool {
    matches!(errcode, 50003 | 60020 | 60031 | 301007 | 301042)
}

struct Row {
    first: i64,
    last: i64,
    class: Class,
    scope: Scope,
    meaning: &'static str,
}

const fn row(first: i64, last: i64, class: Class, scope: Scope, meaning: &'static str) -> Row {
    Row {
        first,
        last,
        class,
        scope,
        meaning,
    }
}

const fn one(code: i64, class: Class, scope: Scope, meaning: &'static str) -> Row {
    row(code, code, class, scope, meaning)
}

use Class::{
    AlreadyDone, PermanentConfig, PermanentCustomer, RateLimited, RefreshToken, RetryWithBackoff,
};
use Scope::{
    Api, App, Corp, Customer, Employee, Group, Pair, Platform, Request, Service, Tag, Takeover,
    Token, Way, Webhook,
};

/// Sorted by code; a test checks order and overlap.
#[rustfmt::skip]
static TABLE: &[Row] = &[
    one(-1, RetryWithBackoff, Platform, "system busy; repeat at most three times"),
    one(6000, RetryWithBackoff, Platform, "data version conflict"),
    one(40001, RefreshToken, App, "secret or token refused"),
    one(40003, PermanentConfig, Employee, "userid invalid, resigned or deleted"),
    one(40013, PermanentConfig, App, "corp id wrong"),
    one(40014, RefreshToken, Token, "token invalid"),
    one(40031, PermanentConfig, Request, "userid list invalid"),
    one(40032, PermanentConfig, Request, "userid list of a wrong length"),
    one(40033, PermanentConfig, Request, "illegal characters"),
    one(40035, PermanentConfig, Request, "parameter illegal"),
    one(40050, PermanentConfig, Group, "chat id unknown"),
    one(40056, PermanentConfig, App, "agent id wrong"),
    one(40058, PermanentConfig, Request, "parameter illegal, too long or too many"),
    one(40063, PermanentConfig, Request, "parameter empty"),
    one(40068, PermanentConfig, Tag, "tag id unknown"),
    one(40071, PermanentConfig, Tag, "tag name exists: look it up"),
    one(40072, PermanentConfig, Tag, "tag name of a wrong length"),
    one(40091, PermanentConfig, App, "secret of another corp"),
    one(40096, PermanentCustomer, Customer, "customer id of another caller, or no visible follower"),
    one(40097, PermanentConfig, Employee, "member has not resigned: use the in-service transfer"),
    one(40098, PermanentConfig, Takeover, "member is not real-name verified"),
    one(40099, PermanentConfig, Takeover, "member has as many customers as allowed"),
    one(40100, AlreadyDone, Customer, "already in a transfer: check to whom"),
    one(40126, PermanentConfig, Corp, "the corp has as many tags as allowed"),
    one(40128, PermanentCustomer, Customer, "moved twice within 90 days"),
    one(40129, AlreadyDone, Customer, "being transferred now: check to whom"),
    one(40130, PermanentConfig, Request, "giver and receiver are the same"),
    one(40131, PermanentCustomer, Customer, "the giver does not have this customer: read again"),
    one(40132, PermanentConfig, Employee, "team accounts cannot take part"),
    one(40143, PermanentConfig, Employee, "member of the transfer is banned"),
    one(40144, PermanentCustomer, Customer, "the customer has as many tags as allowed"),
    one(40205, PermanentConfig, Employee, "member has not logged in for a year"),
    one(40206, PermanentConfig, Request, "body too large"),
    one(41001, PermanentConfig, Request, "token missing"),
    one(41002, PermanentConfig, Request, "corp id missing"),
    one(41004, PermanentConfig, Request, "secret missing"),
    one(41035, PermanentConfig, Request, "customer id missing"),
    row(41037, 41040, PermanentConfig, Way, "contact way's type or scene"),
    one(41041, PermanentConfig, Way, "contact way has too many members"),
    row(41042, 41043, PermanentConfig, Way, "contact way's style or config id"),
    one(41044, PermanentConfig, Way, "config id wrong"),
    one(41045, PermanentConfig, Way, "the corp has as many contact ways as allowed"),
    one(41048, PermanentConfig, Request, "no customer to send to"),
    one(41049, PermanentConfig, Request, "welcome code missing"),
    one(41050, PermanentCustomer, Customer, "welcome code invalid or older than 20 s"),
    one(41051, AlreadyDone, Customer, "already chatting or already welcomed"),
    one(41053, PermanentCustomer, Customer, "no consent to chat archiving"),
    one(41054, PermanentConfig, Way, "member not activated or not real-name verified"),
    one(41056, PermanentConfig, Request, "customer id of a wrong kind"),
    one(41063, RetryWithBackoff, Platform, "mass message still being sent"),
    one(41079, RetryWithBackoff, Platform, "moment still being sent"),
    one(41091, PermanentConfig, Way, "join way has too many groups"),
    one(41094, RateLimited, Api, "reminder too frequent"),
    one(41095, PermanentConfig, Way, "as many acquisition links as allowed"),
    one(41096, RetryWithBackoff, Customer, "another app is sending the welcome; only within the 20 s"),
    one(41110, PermanentConfig, Tag, "tag id wrong"),
    one(41111, PermanentConfig, Request, "tag count empty or above 1000"),
    one(42001, RefreshToken, Token, "token expired"),
    row(42027, 42051, PermanentConfig, Request, "template card field"),
    one(45009, RateLimited, Api, "called too often"),
    one(45029, PermanentConfig, Request, "answer too big: split the request"),
    one(45033, RateLimited, Api, "too many calls at once"),
    one(45035, RetryWithBackoff, Pair, "two writers on the same record: serialise"),
    one(45036, RateLimited, Corp, "abnormal traffic on an object: slow down"),
    one(48001, PermanentConfig, App, "API not authorised"),
    one(48002, PermanentConfig, App, "no permission for this API"),
    one(48004, PermanentConfig, App, "grant invalid"),
    one(48005, PermanentConfig, App, "API retired"),
    one(48006, PermanentConfig, App, "right withdrawn"),
    one(48010, PermanentConfig, Request, "TLS version too old"),
    one(48011, PermanentConfig, App, "members not active enough"),
    one(49008, PermanentConfig, Group, "group dissolved"),
    one(50002, PermanentConfig, Employee, "member outside the app's range"),
    one(50003, PermanentConfig, App, "app disabled"),
    one(50100, RetryWithBackoff, Request, "cursor invalid: start again at page one"),
    one(60003, PermanentConfig, Request, "department id missing"),
    one(60011, PermanentConfig, Employee, "member or department outside the app's range"),
    one(60020, PermanentConfig, App, "our address is not trusted"),
    one(60021, PermanentConfig, Employee, "member outside the app's range"),
    one(60030, PermanentConfig, Employee, "member outside the app's range"),
    one(60031, PermanentConfig, App, "app forbidden to call"),
    one(60111, PermanentConfig, Employee, "userid does not exist: left, deleted or not visible"),
    one(60123, PermanentConfig, Request, "department id invalid"),
    one(60252, PermanentConfig, Service, "bad customer-service account"),
    one(60253, PermanentConfig, Service, "servicer not in the list: pick another"),
    one(81013, PermanentConfig, Request, "all recipients invalid"),
    one(81017, PermanentConfig, Request, "too many asked for: split the request"),
    one(82001, PermanentConfig, Request, "no recipient"),
    one(84061, PermanentCustomer, Customer, "no relation between member and customer"),
    one(84074, PermanentConfig, Employee, "member may not have outside contacts"),
    one(84083, PermanentConfig, Employee, "member lacks the customer-contact function"),
    one(84084, PermanentCustomer, Customer, "not a follower, or member not visible"),
    one(86001, PermanentConfig, Group, "chat id missing"),
    one(86003, PermanentConfig, Group, "chat id unknown"),
    row(86004, 86008, PermanentConfig, Group, "app chat: name, owner or members"),
    one(86101, PermanentConfig, Group, "app chat: not allowed"),
    row(86201, 86220, PermanentConfig, Group, "app chat: not ours, or not allowed"),
    one(90500, PermanentConfig, Group, "owner has not resigned: use the in-service transfer"),
    one(90501, PermanentConfig, Group, "not a customer group"),
    one(90502, PermanentConfig, Group, "owner has resigned: use the resigned transfer"),
    one(90503, PermanentConfig, Group, "group full: must be confirmed in the client"),
    one(90504, AlreadyDone, Group, "owner unchanged"),
    one(90507, AlreadyDone, Group, "inheritance in progress"),
    one(90508, AlreadyDone, Group, "already inherited"),
    one(90509, PermanentConfig, Group, "not a WeCom customer group"),
    one(90510, PermanentConfig, Corp, "corp inactive for a year"),
    one(90511, PermanentConfig, Request, "bad opengid"),
    one(90514, PermanentConfig, Group, "not a group of the marketing app"),
    one(92000, PermanentConfig, Employee, "member or department outside the range"),
    one(93000, PermanentConfig, Webhook, "webhook invalid or removed"),
    one(93001, PermanentConfig, Webhook, "webhook may not push"),
    one(93004, PermanentConfig, Webhook, "webhook stopped"),
    one(93006, PermanentConfig, Webhook, "webhook's group is wrong"),
    one(93008, PermanentConfig, Webhook, "webhook not in the group"),
    one(95000, PermanentConfig, Service, "bad customer-service account"),
    one(95001, RateLimited, Customer, "five messages sent: wait for the customer"),
    one(95002, PermanentCustomer, Customer, "48 hours over: until the customer writes"),
    one(95004, PermanentConfig, Service, "customer-service account unknown"),
    one(95007, RetryWithBackoff, Request, "message token too old: call without it"),
    one(95013, AlreadyDone, Customer, "session has ended"),
    one(95014, PermanentConfig, Service, "servicer not valid: pick another"),
    one(95016, PermanentCustomer, Customer, "state change not allowed: read the state again"),
    one(95018, PermanentCustomer, Customer, "the state forbids sending"),
    one(95019, PermanentConfig, Service, "servicer not serving: pick another"),
    one(95031, PermanentCustomer, Customer, "the state forbids sending"),
    one(95033, AlreadyDone, Request, "message id repeated"),
    one(301002, PermanentConfig, App, "token of another app"),
    one(301007, PermanentConfig, Corp, "corp dissolved or banned"),
    one(301042, PermanentConfig, App, "our address is not trusted (archive)"),
    one(610023, PermanentConfig, Corp, "corp over its number of outside contacts"),
    one(610024, PermanentConfig, Corp, "corp's papers are missing"),
    one(701008, PermanentConfig, Employee, "member has no interop licence"),
    one(701170, PermanentConfig, Corp, "licence for joining groups has run out"),
];

#[cfg(test)]
pub(super) fn table_is_sorted() -> bool {
    TABLE.iter().all(|row| row.first <= row.last)
        && TABLE
            .windows(2)
            .all(|pair| matches!(pair, [a, b] if a.last < b.first))
}
