//! All rows with their bars. How each is measured is told in its group's module.

use super::row::{Better, Definition};

const fn row(
    name: &'static str,
    unit: &'static str,
    better: Better,
    bar: f64,
    goal: f64,
    what: &'static str,
) -> Definition {
    Definition {
        name,
        what,
        unit,
        better,
        bar: Some(bar),
        goal: Some(goal),
    }
}

const fn higher(
    name: &'static str,
    unit: &'static str,
    bar: f64,
    goal: f64,
    what: &'static str,
) -> Definition {
    row(name, unit, Better::Higher, bar, goal, what)
}

const fn lower(
    name: &'static str,
    unit: &'static str,
    bar: f64,
    goal: f64,
    what: &'static str,
) -> Definition {
    row(name, unit, Better::Lower, bar, goal, what)
}

/// What a feature costs, as a multiple: told, without a bar.
const fn costs(name: &'static str, what: &'static str) -> Definition {
    Definition {
        name,
        what,
        unit: DECISIONS,
        better: Better::Lower,
        bar: None,
        goal: None,
    }
}

/// Higher is better; without a bar.
const fn told(name: &'static str, unit: &'static str, what: &'static str) -> Definition {
    Definition {
        name,
        what,
        unit,
        better: Better::Higher,
        bar: None,
        goal: None,
    }
}

const CALLBACKS: &str = "callbacks/s";
const DECISIONS: &str = "decisions/s";
const SEATS: &str = "seats/s";

/// In the order of the document they come from.
#[rustfmt::skip]
pub(crate) static ROWS: &[Definition] = &[
    higher("P1", CALLBACKS, 0.70, 0.90, "verified and parsed, not stored ÷ bare axum, 64 connections"),
    higher("P2", CALLBACKS, 0.60, 0.70, "stored, everysec ÷ bare axum, 64 connections"),
    higher("P3", CALLBACKS, 0.60, 0.75, "stored, always ÷ bare axum, 256 connections"),
    higher("P4", CALLBACKS, 0.40, 0.47, "stored, always ÷ bare axum, 64 connections"),
    higher("P5", CALLBACKS, 0.80, 0.90, "stored, everysec ÷ bare axum, a connection for each callback"),
    lower("P6", "µs CPU", 1.6, 1.15, "gateway's CPU for a stored callback ÷ bare axum's"),
    lower("P8-everysec", "ms", 8.0, 4.0, "acknowledgement p99 at half of the burst rate, everysec"),
    lower("P8-always", "ms", 20.0, 6.5, "acknowledgement p99 at half of the burst rate, always"),
    lower("P9-everysec", "ms", 2.0, 1.4, "10,000 at once: until all are acknowledged ÷ bare axum, everysec"),
    lower("P9-always", "ms", 2.8, 1.9, "10,000 at once: until all are acknowledged ÷ bare axum, always"),
    row("P9-refused", "callbacks", Better::Lower, 0.0, 0.0, "10,000 at once: not acknowledged"),
    lower("P10", "ms", 200.0, 20.0, "10,000 at once: last ledger row after last acknowledgement"),
    higher("P11", "events/s", 0.25, 0.40, "end to end to committed rows ÷ bare axum's burst"),
    lower("P12-ack", "ms", 10.0, 2.0, "a surge at its real speed: acknowledgement p99"),
    lower("P12-row", "ms", 50.0, 5.0, "a surge at its real speed: stored to committed row p99"),
    lower("P12-ack-10x", "ms", 10.0, 2.0, "a surge at ten times its speed: acknowledgement p99"),
    lower("P12-row-10x", "ms", 50.0, 5.0, "a surge at ten times its speed: stored to committed row p99"),
    lower("P12-lost", "customers", 0.0, 0.0, "acknowledged customers without an allocation"),
    lower("P12-doubled", "customers", 0.0, 0.0, "customers with more than one allocation"),
    higher("P13", DECISIONS, 0.85, 1.0, "through our client ÷ redis-benchmark with our script, 64 callers"),
    higher("P14-fair", DECISIONS, 0.50, 0.67, "whole script, fair ÷ SET, one in flight per client"),
    higher("P14-fair-16", DECISIONS, 0.08, 0.16, "whole script, fair ÷ SET, 16 in flight per client"),
    higher("P14-least", DECISIONS, 0.55, 0.67, "whole script, least load ÷ SET, one in flight per client"),
    higher("P14-least-16", DECISIONS, 0.09, 0.16, "whole script, least load ÷ SET, 16 in flight per client"),
    higher("P15-fair-50", "picks/s", 0.20, 0.45, "pick alone, fair, 50 members ÷ INCR % N, 16 in flight"),
    higher("P15-fair-1000", "picks/s", 0.20, 0.45, "pick alone, fair, 1,000 members ÷ INCR % N, 16 in flight"),
    higher("P15-least-50", "picks/s", 0.20, 0.45, "pick alone, least load, 50 members ÷ INCR % N, 16 in flight"),
    higher("P15-least-1000", "picks/s", 0.20, 0.45, "pick alone, least load, 1,000 members ÷ INCR % N, 16 in flight"),
    higher("P16", DECISIONS, 2.0, 3.0, "decided 16 per call ÷ one per call"),
    higher("P17-for-update", DECISIONS, 8.0, 12.0, "times Postgres SELECT … FOR UPDATE with a ledger row"),
    higher("P17-skip-locked", DECISIONS, 5.0, 6.5, "times Postgres FOR UPDATE SKIP LOCKED with a ledger row"),
    higher("P17-lock", DECISIONS, 6.0, 10.0, "times lock, script, unlock in Redis"),
    higher("P17-rotation", DECISIONS, 3.0, 4.0, "times a rotated list in Redis"),
    row("P18", "customers", Better::Below, 1.0, 1.0, "largest distance of a member from his exact share, 64 callers"),
    costs("P28-windows-50", "a decision with limits by hour and day ÷ plain, 50 members"),
    costs("P28-windows-500", "the same, 500 members"),
    costs("P28-windows-5000", "the same, 5,000 members"),
    costs("P28-skills-50", "a decision for which one member in ten has the skill ÷ plain, 50 members"),
    costs("P28-skills-500", "the same, 500 members"),
    costs("P28-skills-5000", "the same, 5,000 members"),
    costs("P28-tiers-50", "a decision by the second tier ÷ plain, 50 members"),
    costs("P28-tiers-500", "the same, 500 members"),
    costs("P28-tiers-5000", "the same, 5,000 members"),
    costs("P28-sticky-50", "a decision for the earlier owner ÷ plain, 50 members"),
    costs("P28-sticky-500", "the same, 500 members"),
    costs("P28-sticky-5000", "the same, 5,000 members"),
    costs("P28-offers-50", "a decision that asks the member ÷ plain, 50 members"),
    costs("P28-offers-500", "the same, 500 members"),
    costs("P28-offers-5000", "the same, 5,000 members"),
    costs("P28-channel-50", "a decision for a channel with limits ÷ plain, 50 members"),
    costs("P28-channel-500", "the same, 500 members"),
    costs("P28-channel-5000", "the same, 5,000 members"),
    higher("P20-1000", DECISIONS, 0.25, 0.45, "ledger writer, 1,000 decisions a transaction ÷ COPY of the same rows"),
    higher("P20-5000", DECISIONS, 0.28, 0.60, "ledger writer, 5,000 decisions a transaction ÷ COPY of the same rows"),
    higher("P23", "events/s", 0.65, 0.90, "worker drain with Postgres ÷ without"),
    lower("P24-gateway-64", "MB", 16.0, 8.0, "gateway in memory, 64 connections"),
    lower("P24-gateway-1000", "MB", 64.0, 36.0, "gateway in memory, 1,000 connections"),
    lower("P24-allocator", "MB", 64.0, 32.0, "allocator in memory after its surge"),
    lower("P25-callback", "bytes", 150.0, 50.0, "Redis memory of a queued callback beyond its XML"),
    Definition { name: "P25-seen", unit: "bytes", better: Better::Lower, bar: None, goal: None,
        what: "Redis memory by which a callback is known as a duplicate for a day" },
    lower("P25-lock", "bytes", 200.0, 150.0, "Redis memory of a lock that is held"),
    lower("P26", "ns", 2.5, 1.5, "open a callback ÷ SHA-1, base64 and AES of the same bytes"),
    higher("P27", "customers/s", 0.05, 0.10, "whole path with WeCom's simulator called ÷ SET"),
    lower("P29", "s", 60.0, 20.0, "a million customers of the log again under another policy"),
    told("P30-10", SEATS, "one seat a call ÷ the shortest script that writes, 10 groups, 16 in flight"),
    told("P30-100", SEATS, "the same, 100 groups"),
    told("P30-1000", SEATS, "the same, 1,000 groups"),
    told("P30-batch-10", SEATS, "64 seats a call ÷ the shortest script that writes, 10 groups"),
    told("P30-batch-100", SEATS, "the same, 100 groups"),
    told("P30-batch-1000", SEATS, "the same, 1,000 groups"),
];

pub(crate) fn find(name: &str) -> &'static Definition {
    ROWS.iter()
        .find(|row| row.name == name)
        .unwrap_or_else(|| unreachable!("{name} is not among the rows"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_goals_are_not_weaker_than_bars() {
        let names: std::collections::BTreeSet<&str> = ROWS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), ROWS.len());
        for row in ROWS {
            if let (Some(bar), Some(goal)) = (row.bar, row.goal) {
                let stronger = match row.better {
                    Better::Higher => goal >= bar,
                    Better::Lower | Better::Below => goal <= bar,
                };
                assert!(stronger, "{}", row.name);
            }
        }
    }
}
