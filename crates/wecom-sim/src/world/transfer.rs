//! Transfers: from an accepted start to one of its ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::admin::{TransferEnd, TransferState};
use crate::callback::Event;
use crate::config::{Config, TagsCopied, TransferRules};
use crate::random::{For, number_of};
use crate::sync::Lock;

use super::World;
use super::corp::Corp;
use super::customer::{Customer, Follow};
use super::member::Member;

const DAY_MS: i64 = 86_400_000;
/// A customer was allocated by the corp (api.md 2.3).
const ADD_WAY_ALLOCATED: u32 = 202;

const DONE: u8 = 1;
const WAITING: u8 = 2;
const REFUSED: u8 = 3;
const CAPPED: u8 = 4;

/// (giver, taker, of a member who left).
pub(crate) type Pair = (Arc<str>, Arc<str>, bool);

/// One accepted start.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) customer: Arc<str>,
    pub(crate) handover: Arc<Member>,
    pub(crate) takeover: Arc<Member>,
    pub(crate) resigned: bool,
    started_ms: i64,
    /// When the customer is taken over if he does nothing.
    regular_end_ms: i64,
    /// From when transfer_result shows it.
    visible_ms: i64,
    end: Lock<TransferEnd>,
    /// Status as in transfer_result, and when it became so.
    status: Lock<(u8, i64)>,
}

impl Attempt {
    pub(crate) fn running(&self) -> bool {
        self.status.lock().0 == WAITING
    }

    pub(crate) fn status_name(&self) -> &'static str {
        match self.status.lock().0 {
            DONE => "done",
            WAITING => "running",
            REFUSED => "refused",
            _ => "capped",
        }
    }

    /// (status, takeover_time in milliseconds, 0 when there was none), if visible.
    pub(crate) fn result(&self, now_ms: i64) -> Option<(u8, i64)> {
        (now_ms >= self.visible_ms).then(|| match *self.status.lock() {
            (WAITING, _) => (WAITING, self.regular_end_ms),
            (DONE, at_ms) => (DONE, at_ms),
            (status, _) => (status, 0),
        })
    }

    pub(crate) fn state_dump(&self) -> TransferState {
        let (status, takeover_ms) = self.result(i64::MAX).unwrap_or((WAITING, 0));
        TransferState {
            customer: self.customer.to_string(),
            handover: self.handover.userid.to_string(),
            takeover: self.takeover.userid.to_string(),
            resigned: self.resigned,
            started_ms: self.started_ms,
            status,
            takeover_ms,
        }
    }
}

/// One customer of a transfer call.
pub(crate) struct Start<'a> {
    pub(crate) handover: &'a Arc<Member>,
    pub(crate) takeover: &'a Arc<Member>,
    pub(crate) resigned: bool,
    /// Whether the app sees this member.
    pub(crate) sees: &'a dyn Fn(&str) -> bool,
}

/// Starts the transfer of one customer: the item code of the answer, 0 when it was accepted.
pub(crate) fn start(
    world: &Arc<World>,
    corp: &Arc<Corp>,
    start: &Start<'_>,
    customer_id: &str,
    rules: &Config,
    now_ms: i64,
) -> i32 {
    let mut part = corp.customers.part(customer_id);
    // The key itself, so that the id is stored once.
    let Some((id, _)) = part.get_key_value(customer_id) else {
        return 40096;
    };
    let id = Arc::clone(id);
    let Some(customer) = part.get_mut(customer_id) else {
        return 40096;
    };
    let code = check(corp, start, customer, &rules.transfers, now_ms);
    if code != 0 {
        return code;
    }
    let relaxed = Ordering::Relaxed;
    if customer.running().is_some() {
        corp.totals.transfers_doubled.fetch_add(1, relaxed);
    }
    let most = if rules.transfers.max_moves == 0 {
        2
    } else {
        rules.transfers.max_moves
    };
    if !start.resigned && moves_in_window(customer, &rules.transfers, now_ms) >= most {
        corp.totals.transfers_over_limit.fetch_add(1, relaxed);
    }
    let attempt = Arc::new(accept(start, customer, id, rules, now_ms));
    if !start.resigned {
        customer.moves_ms.push(now_ms);
    }
    customer.transfers_accepted += 1;
    customer.transfer = Some(Arc::clone(&attempt));
    drop(part);

    corp.totals.transfers_accepted.fetch_add(1, relaxed);
    let pair = (
        Arc::clone(&start.handover.key),
        Arc::clone(&start.takeover.key),
        start.resigned,
    );
    corp.pairs
        .part(&pair)
        .entry(pair)
        .or_default()
        .push(Arc::clone(&attempt));
    let due_ms = attempt.status.lock().1;
    let corp = Arc::clone(corp);
    world.at(
        due_ms,
        Box::new(move |world| finish(world, &corp, &attempt)),
    );
    0
}

/// In the order of api.md 14.5.
fn check(
    corp: &Corp,
    start: &Start<'_>,
    customer: &Customer,
    rules: &TransferRules,
    now_ms: i64,
) -> i32 {
    if !customer
        .follows
        .iter()
        .any(|follow| (start.sees)(&follow.member.key))
    {
        return 40096;
    }
    let giver = &start.handover.key;
    if customer.follow(giver).is_none() {
        let half = customer
            .follows
            .iter()
            .any(|follow| follow.member.key == *giver);
        return if half { 84061 } else { 40131 };
    }
    if start.handover.key == start.takeover.key {
        return 40130;
    }
    if let Some(running) = customer.running()
        && rules.refuse_running
    {
        if running.handover.key == *giver && running.takeover.key == start.takeover.key {
            corp.totals
                .transfers_asked_again
                .fetch_add(1, Ordering::Relaxed);
        }
        return if running.resigned == start.resigned {
            40129
        } else {
            40100
        };
    }
    if !start.resigned
        && rules.max_moves > 0
        && moves_in_window(customer, rules, now_ms) >= rules.max_moves
    {
        return 40128;
    }
    if start.takeover.full() && customer.follow(&start.takeover.key).is_none() {
        return 40099;
    }
    0
}

/// Moves within the last natural days, today included.
fn moves_in_window(customer: &Customer, rules: &TransferRules, now_ms: i64) -> usize {
    let day = |ms: i64| {
        ms.saturating_add(rules.zone_minutes * 60_000)
            .div_euclid(DAY_MS)
    };
    customer
        .moves_ms
        .iter()
        .filter(|moved| day(now_ms) - day(**moved) < rules.window_days)
        .count()
}

fn accept(
    start: &Start<'_>,
    customer: &Customer,
    id: Arc<str>,
    config: &Config,
    now_ms: i64,
) -> Attempt {
    let rules = &config.transfers;
    let number = number_of(&id).wrapping_add(u64::from(customer.transfers_accepted));
    let mut random = crate::random::Random::new(config.seed, For::Transfer, number);
    let draw = random.unit();
    let outcomes = &rules.outcomes;
    let end = match customer.script {
        Some(script) => script.transfer,
        None if draw < outcomes.refuse => TransferEnd::Refuse,
        None if draw < outcomes.refuse + outcomes.cap => TransferEnd::Cap,
        None if draw < outcomes.refuse + outcomes.cap + outcomes.early => TransferEnd::Early,
        None => TransferEnd::Passive,
    };
    let somewhen_ms = random.up_to_ms(rules.complete_after_ms);
    let after_ms = match (customer.script.and_then(|script| script.after_ms), end) {
        (Some(after_ms), _) => after_ms.max(0),
        (None, TransferEnd::Refuse | TransferEnd::Early) => somewhen_ms,
        (None, TransferEnd::Passive | TransferEnd::Cap) => rules.complete_after_ms,
    };
    Attempt {
        customer: id,
        handover: Arc::clone(start.handover),
        takeover: Arc::clone(start.takeover),
        resigned: start.resigned,
        started_ms: now_ms,
        regular_end_ms: now_ms.saturating_add(rules.complete_after_ms),
        visible_ms: now_ms.saturating_add(random.up_to_ms(rules.visible_after_ms)),
        end: Lock::new(end),
        // While it waits the time is when it will end.
        status: Lock::new((WAITING, now_ms.saturating_add(after_ms))),
    }
}

/// Ends the running transfer of a customer now. False when there is none.
pub(crate) fn end_now(
    world: &Arc<World>,
    corp: &Arc<Corp>,
    customer_id: &str,
    end: TransferEnd,
) -> bool {
    let part = corp.customers.part(customer_id);
    let Some(attempt) = part.get(customer_id).and_then(Customer::running).cloned() else {
        return false;
    };
    drop(part);
    *attempt.end.lock() = end;
    finish(world, corp, &attempt);
    true
}

/// The end of a transfer, and the only events an API call leads to.
fn finish(world: &Arc<World>, corp: &Arc<Corp>, attempt: &Attempt) {
    let now_ms = world.now_ms();
    let rules = world.rules.get();
    let mut part = corp.customers.part(&*attempt.customer);
    let Some(customer) = part.get_mut(&*attempt.customer) else {
        return;
    };
    if !attempt.running() {
        return;
    }
    let already_friend = customer.follow(&attempt.takeover.key).is_some();
    // A 2021 report: whoever lost the giver before the end shows up as refused.
    let giver_gone = customer.follow(&attempt.handover.key).is_none();
    let end = *attempt.end.lock();
    let status = match end {
        TransferEnd::Refuse => REFUSED,
        TransferEnd::Cap => CAPPED,
        _ if giver_gone => REFUSED,
        _ if !already_friend && attempt.takeover.full() => CAPPED,
        TransferEnd::Passive | TransferEnd::Early => DONE,
    };
    *attempt.status.lock() = (status, now_ms);
    if status == DONE {
        let event = complete(world, corp, customer, attempt, &rules, now_ms);
        drop(part);
        if !attempt.resigned {
            let event = Event::new("del_external_contact", &attempt.handover, &attempt.customer);
            world.emit_contact(corp, event.with("Source", "DELETE_BY_TRANSFER"));
        }
        if let Some(event) = event {
            world.emit_contact(corp, event);
        }
        return;
    }
    if status == REFUSED && !rules.transfers.count_refused && !attempt.resigned {
        customer
            .moves_ms
            .retain(|moved| *moved != attempt.started_ms);
    }
    let keeps = if attempt.resigned {
        rules.transfers.refused_resigned_keeps_old
    } else {
        rules.transfers.refused_keeps_old
    };
    if status == REFUSED && !keeps {
        customer.unfollow(&attempt.handover.key);
    }
    drop(part);
    let reason = if status == REFUSED {
        "customer_refused"
    } else {
        "customer_limit_exceed"
    };
    let event = Event::new("transfer_fail", &attempt.takeover, &attempt.customer);
    world.emit_contact(corp, event.with("FailReason", reason));
}

/// Moves the relation; the add event, unless WeCom sends none.
fn complete(
    world: &World,
    corp: &Corp,
    customer: &mut Customer,
    attempt: &Attempt,
    rules: &Config,
    now_ms: i64,
) -> Option<Event> {
    let old = customer.unfollow(&attempt.handover.key)?;
    if rules.people.read_lag_ms > 0 {
        customer
            .ghosts
            .push((old.clone(), now_ms + rules.people.read_lag_ms));
    }
    let returned = customer.given_away_by.contains(&attempt.takeover.key);
    customer
        .given_away_by
        .insert(Arc::clone(&attempt.handover.key));
    if customer.follow(&attempt.takeover.key).is_some() {
        return None;
    }
    // A half-add that was waiting becomes this relation.
    customer.unfollow(&attempt.takeover.key);
    let mut follow = Follow::new(&attempt.takeover, corp.rank(), now_ms);
    follow.add_way = ADD_WAY_ALLOCATED;
    if rules.transfers.remark_copied {
        follow.remark = old.remark;
        follow.description = old.description;
        follow.remark_company = old.remark_company;
        follow.remark_mobiles = old.remark_mobiles;
    }
    if rules.transfers.tags_copied != TagsCopied::None {
        follow.tags = old.tags;
    }
    if rules.transfers.tags_copied == TagsCopied::All {
        follow.personal_tags = old.personal_tags;
    }
    let welcome = Arc::clone(&follow.welcome);
    attempt
        .takeover
        .customers
        .lock()
        .insert(follow.rank, Arc::clone(&attempt.customer));
    customer.follows.push(follow);
    if returned {
        return None;
    }
    let event = Event::new("add_external_contact", &attempt.takeover, &attempt.customer);
    if rules.transfers.welcome_code {
        let codes =
            world.welcome_codes(corp, &attempt.takeover, &attempt.customer, &welcome, now_ms);
        return Some(event.welcome(codes));
    }
    Some(event)
}
