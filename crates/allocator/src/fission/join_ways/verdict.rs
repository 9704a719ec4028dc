//! What an answer that is no way means: asked again, given up, waited for, or nothing more for anybody.

use ledger::Refusal;
use wecom::{
    Error,
    error::{Class, Scope},
};

use crate::{backoff::jittered, config::Visits, reception::slots::verdict::later};

/// The corp has as many ways as WeCom allows.
const FULL: i64 = 41045;
/// WeCom does not have this way.
pub(super) const UNKNOWN_WAY: i64 = 41044;
/// While WeCom takes nothing from this app.
const APP_STOPPED_MS: u64 = 15_000;
const RATE_MS: u64 = 1_000;

/// What follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Certainly not made.
    Refused(Refusal),
    /// It may be made: its answer is waited for until then.
    Unknown { until_ms: u64 },
}

/// After a call that did not answer with a way. `attempt` counts this one.
pub(super) fn of_asking(error: &Error, attempt: i32, rules: &Visits, now_ms: u64) -> Verdict {
    if error.may_have_acted() {
        return Verdict::Unknown {
            until_ms: now_ms + jittered(rules.unknown_for_ms),
        };
    }
    Verdict::Refused(refusal(error, attempt, rules, now_ms))
}

/// After a call that can be repeated.
pub(super) fn refusal(error: &Error, attempt: i32, rules: &Visits, now_ms: u64) -> Refusal {
    let base = Refusal {
        errcode: error.errcode(),
        error: error.to_string(),
        ..Refusal::default()
    };
    let pause = |pause_ms: u64| Refusal {
        next_try_ms: now_ms + jittered(pause_ms),
        pauses_corp: true,
        uncounted: true,
        ..base.clone()
    };
    if error.stops_the_app() {
        return pause(APP_STOPPED_MS);
    }
    if error.errcode() == Some(FULL) {
        return pause(rules.full_pause_ms);
    }
    match (error.class(), error.scope()) {
        (Class::RateLimited, _) => Refusal {
            next_try_ms: now_ms + jittered(RATE_MS),
            uncounted: true,
            ..base
        },
        (Class::RefreshToken | Class::RetryWithBackoff, _) => {
            later(base, attempt, false, rules, now_ms)
        }
        // One of its groups, or that group's owner: the others are not concerned.
        (_, Scope::Group | Scope::Employee) => Refusal {
            next_try_ms: now_ms + jittered(rules.failed_ms),
            fails: true,
            ..base
        },
        // A right, a request of ours, or a code nobody knew: the next way would fare no better.
        _ => later(base, attempt, true, rules, now_ms),
    }
}

#[cfg(test)]
mod tests {
    use wecom::error::{TransportProblem, classify};

    use super::*;
    use crate::config::Config;

    const NOW_MS: u64 = 1_792_000_000_000;

    fn rules() -> Visits {
        let env = std::collections::HashMap::new();
        Config::load(&[], &env).expect("the defaults").visits
    }

    fn refused(errcode: i64, attempt: i32) -> Refusal {
        let known = classify(errcode);
        let error = Error::Api {
            api: wecom::client::api::ADD_JOIN_WAY,
            errcode,
            class: known.class,
            scope: known.scope,
            errmsg_hint: None,
            from_ip: None,
            wrong_json: false,
        };
        match of_asking(&error, attempt, &rules(), NOW_MS) {
            Verdict::Refused(refusal) => refusal,
            Verdict::Unknown { .. } => panic!("{errcode}"),
        }
    }

    #[test]
    fn each_answer_has_its_consequence() {
        let pause_s = |refusal: &Refusal| (refusal.next_try_ms - NOW_MS) / 1_000;
        let full = refused(41045, 1);
        assert!(full.pauses_corp && full.uncounted && !full.fails);
        assert!((3_600..=4_500).contains(&pause_s(&full)));
        for errcode in [90501, 49008, 90502, 60111] {
            let group = refused(errcode, 1);
            assert!(group.fails && !group.pauses_corp, "{errcode}");
            assert!(pause_s(&group) >= 21_600, "{errcode}");
        }
        for errcode in [45009, 45033] {
            let rate = refused(errcode, 8);
            assert!(rate.uncounted && !rate.fails && !rate.pauses_corp);
        }
        for errcode in [48002, 41091, 123_456] {
            let wrong = refused(errcode, 1);
            assert!(wrong.pauses_corp && !wrong.fails, "{errcode}");
        }
        let busy = refused(-1, 3);
        assert!(!busy.fails && !busy.pauses_corp && (4..=5).contains(&pause_s(&busy)));
        assert!(refused(-1, 8).fails);
    }

    #[test]
    fn only_what_may_have_acted_is_unknown() {
        for sent in [true, false] {
            let error = Error::Transport {
                api: wecom::client::api::ADD_JOIN_WAY,
                sent,
                problem: TransportProblem::TimedOut,
                source: None,
            };
            let verdict = of_asking(&error, 1, &rules(), NOW_MS);
            assert_eq!(matches!(verdict, Verdict::Unknown { .. }), sent);
        }
    }
}
