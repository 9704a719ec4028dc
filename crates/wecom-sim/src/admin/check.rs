//! Whether the caller behaved. Built from exact counters, not from the log.

use std::sync::atomic::Ordering;

use crate::world::World;

use super::{CheckQuery, CheckReport, CorpCounters, Counters, Invariant};

impl World {
    pub(crate) fn counters(&self) -> Counters {
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            corps: self
                .corps
                .get()
                .iter()
                .map(|(id, corp)| (id.clone(), corp.counters()))
                .collect(),
            callbacks: self.callbacks.counters(),
            unknown_corp_gettoken: load(&self.totals.unknown_corp_gettoken),
            unknown_token: load(&self.totals.unknown_token),
            calls_while_blocked: load(&self.totals.while_blocked),
            calls_while_blocked_unexcused: load(&self.totals.while_blocked_unexcused),
        }
    }

    pub(crate) fn check(&self, query: &CheckQuery) -> CheckReport {
        let counters = self.counters();
        let rules = self.rules.get();
        let mut invariants = vec![
            transfers_doubled(&counters),
            transfers_over_limit(&counters),
            in_flight(&counters, query.in_flight, &rules.limits),
            while_blocked(&counters, rules.check.excused_per_block),
            welcomes(&counters),
            gettoken(
                &counters,
                rules.check.gettoken_per_minute,
                rules.check.gettoken_failures,
            ),
        ];
        if let Some(most) = query.transfers_per_customer {
            let mut invariant = transfers_per_customer(&counters, most);
            let corps = self.corps.get();
            let offenders: Vec<String> = corps
                .values()
                .flat_map(|corp| corp.moved_more_than(most, 5))
                .collect();
            if !offenders.is_empty() {
                invariant.detail =
                    format!("{}; for example {}", invariant.detail, offenders.join(", "));
            }
            invariants.push(invariant);
        }
        CheckReport {
            holds: invariants.iter().all(|invariant| invariant.holds),
            invariants,
        }
    }
}

fn invariant(name: &str, says: &str, checked: u64, violations: u64, detail: String) -> Invariant {
    Invariant {
        name: name.to_owned(),
        says: says.to_owned(),
        checked,
        violations,
        holds: violations == 0,
        detail,
    }
}

fn sum(counters: &Counters, one: impl Fn(&CorpCounters) -> u64) -> u64 {
    counters.corps.values().map(one).sum()
}

fn transfers_doubled(counters: &Counters) -> Invariant {
    let asked_again = sum(counters, |corp| corp.transfers_asked_again);
    invariant(
        "transfer_not_doubled",
        "no transfer of a customer is accepted while another of his is running",
        sum(counters, |corp| corp.transfers_accepted),
        sum(counters, |corp| corp.transfers_doubled),
        format!("{asked_again} starts were asked again for a running pair and answered 40129"),
    )
}

fn transfers_over_limit(counters: &Counters) -> Invariant {
    invariant(
        "transfer_within_limit",
        "no customer is moved more often than WeCom allows in its window",
        sum(counters, |corp| corp.transfers_accepted),
        sum(counters, |corp| corp.transfers_over_limit),
        by_transfers(counters),
    )
}

fn by_transfers(counters: &Counters) -> String {
    let most = counters
        .corps
        .values()
        .filter_map(|corp| corp.customers_by_transfers.keys().next_back())
        .max();
    let pair = counters
        .corps
        .values()
        .map(|corp| corp.same_pair_transfers_max)
        .max()
        .unwrap_or(0);
    format!(
        "most accepted starts of one customer: {}; of one customer, giver and taker: {pair}",
        most.unwrap_or(&0)
    )
}

fn transfers_per_customer(counters: &Counters, most: u32) -> Invariant {
    let beyond = |corp: &CorpCounters| {
        corp.customers_by_transfers
            .range(most + 1..)
            .map(|(_, n)| n)
            .sum()
    };
    invariant(
        "transfers_per_customer",
        &format!("no customer has more than {most} accepted starts"),
        sum(counters, |corp| corp.customers_by_transfers.values().sum()),
        sum(counters, beyond),
        by_transfers(counters),
    )
}

fn in_flight(counters: &Counters, asked: Option<u32>, limits: &crate::config::Limits) -> Invariant {
    let mut checked = 0;
    let mut broken = Vec::new();
    let mut highest = (0, String::new());
    for (corp_id, corp) in &counters.corps {
        for (api, one) in &corp.apis {
            // No limit is known for these two.
            if api == "gettoken" || api == "webhook/send" {
                continue;
            }
            checked += 1;
            let configured = limits
                .per_api
                .get(api)
                .and_then(|special| special.in_flight)
                .unwrap_or(limits.in_flight);
            let most = asked.unwrap_or(configured);
            if most > 0 && one.in_flight_max > most {
                broken.push(format!("{corp_id} {api}: {}", one.in_flight_max));
            }
            if one.in_flight_max > highest.0 {
                highest = (one.in_flight_max, format!("{corp_id} {api}"));
            }
        }
    }
    let detail = if broken.is_empty() {
        format!("most at once: {} ({})", highest.0, highest.1)
    } else {
        broken.join(", ")
    };
    let says = "never more calls of one API in flight per corp than allowed";
    invariant("in_flight", says, checked, broken.len() as u64, detail)
}

fn while_blocked(counters: &Counters, excused: u64) -> Invariant {
    let calls = sum(counters, |corp| {
        corp.apis.values().map(|api| api.calls).sum()
    });
    invariant(
        "not_called_while_blocked",
        &format!(
            "no call is made while 45009 lasts ({excused} per block may have been on their way)"
        ),
        calls,
        counters.calls_while_blocked_unexcused,
        format!("{} came while blocked", counters.calls_while_blocked),
    )
}

fn welcomes(counters: &Counters) -> Invariant {
    let most = counters
        .corps
        .values()
        .filter_map(|corp| corp.welcome_codes_by_calls.keys().next_back())
        .max();
    invariant(
        "welcome_once",
        "no welcome is sent again once it was delivered",
        sum(counters, |corp| corp.welcomes_delivered),
        sum(counters, |corp| corp.welcomes_repeated),
        format!("most calls for one code: {}", most.unwrap_or(&0)),
    )
}

fn gettoken(counters: &Counters, per_minute: u64, failures: u64) -> Invariant {
    let apps = || {
        counters
            .corps
            .values()
            .flat_map(|corp| corp.gettoken.values())
    };
    let looping = apps()
        .filter(|app| app.per_minute_max > per_minute || app.failures_in_a_row_max > failures)
        .count();
    let most = apps().map(|app| app.per_minute_max).max().unwrap_or(0);
    let in_a_row = apps()
        .map(|app| app.failures_in_a_row_max)
        .max()
        .unwrap_or(0);
    invariant(
        "gettoken_no_loop",
        &format!(
            "no app asks for tokens more than {per_minute} times a minute or on after {failures} failures in a row"
        ),
        apps().map(|app| app.calls).sum(),
        looping as u64,
        format!("most in a minute: {most}; most failures in a row: {in_a_row}"),
    )
}
