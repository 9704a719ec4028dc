//! What an answer that is no way means: asked again, given up, looked for, or nothing more for anybody.

use ledger::{Refusal, Refused};
use wecom::{
    Error,
    error::{Class, Scope},
};

use crate::{backoff::jittered, config::Visits};

/// The corp has as many contact ways as WeCom allows.
const FULL: i64 = 41045;
/// A member is not activated or not real-name verified. WeCom's table has it beside the ways' own errors.
const NOT_ACTIVE: i64 = 41054;
/// While WeCom takes nothing from this app, or refuses the request as such: slow, so that it is no storm.
const APP_STOPPED_MS: u64 = 15_000;
const REFUSED_MS: u64 = 600_000;

/// What follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Certainly not made.
    Refused(Refusal),
    /// It may be made: looked for then.
    Unknown { look_ms: u64 },
}

/// After a call that did not answer with a way. `attempt` counts this one.
pub(super) fn of_asking(error: &Error, attempt: i32, rules: &Visits, now_ms: u64) -> Verdict {
    if error.may_have_acted() {
        return Verdict::Unknown {
            look_ms: now_ms + jittered(rules.look_after_ms),
        };
    }
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
        return Verdict::Refused(pause(APP_STOPPED_MS));
    }
    if error.errcode() == Some(FULL) {
        return Verdict::Refused(Refusal {
            passes_over: Some(Refused::Corp),
            ..pause(rules.full_pause_ms)
        });
    }
    Verdict::Refused(match (error.class(), error.scope()) {
        (Class::RateLimited, _) => Refusal {
            next_try_ms: now_ms + jittered(1_000),
            uncounted: true,
            ..base
        },
        (Class::RefreshToken | Class::RetryWithBackoff, _) => {
            later(base, attempt, false, rules, now_ms)
        }
        (_, Scope::Employee) => of_member(base, rules, now_ms),
        _ if error.errcode() == Some(NOT_ACTIVE) => of_member(base, rules, now_ms),
        // A right, a request of ours, or a code nobody knew: the next way would fare no better.
        _ => later(base, attempt, true, rules, now_ms),
    })
}

/// Of something that may be repeated: a growing pause, a long one after the last try.
pub(crate) fn later(
    base: Refusal,
    attempt: i32,
    pauses_corp: bool,
    rules: &Visits,
    now_ms: u64,
) -> Refusal {
    let fails = attempt >= rules.max_attempts;
    let pause_ms = match (fails, pauses_corp) {
        (true, false) => rules.failed_ms,
        (_, true) => REFUSED_MS,
        (false, false) => {
            let doublings = u32::try_from(attempt.clamp(1, 20) - 1).unwrap_or_default();
            rules
                .backoff_min_ms
                .saturating_mul(1 << doublings)
                .min(rules.backoff_max_ms)
        }
    };
    Refusal {
        next_try_ms: now_ms + jittered(pause_ms),
        fails,
        pauses_corp,
        passes_over: match (fails, pauses_corp) {
            (_, true) => Some(Refused::Corp),
            (true, false) => Some(Refused::Member),
            (false, false) => None,
        },
        ..base
    }
}

fn of_member(base: Refusal, rules: &Visits, now_ms: u64) -> Refusal {
    Refusal {
        next_try_ms: now_ms + jittered(rules.failed_ms),
        fails: true,
        pauses_member: true,
        passes_over: Some(Refused::Member),
        ..base
    }
}

#[cfg(test)]
mod tests {
    use wecom::error::{TransportProblem, classify};

    use super::*;
    use crate::config::{Config, DEFAULTS};

    const NOW_MS: u64 = 1_792_000_000_000;

    fn rules() -> Visits {
        assert!(DEFAULTS.contains("[visits]"));
        let env = std::collections::HashMap::new();
        Config::load(&[], &env).expect("the defaults").visits
    }

    fn refused(errcode: i64, attempt: i32) -> Refusal {
        let known = classify(errcode);
        let error = Error::Api {
            api: wecom::client::api::ADD_CONTACT_WAY,
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

    fn pause_s(refusal: &Refusal) -> u64 {
        (refusal.next_try_ms - NOW_MS) / 1_000
    }

    #[test]
    fn each_answer_has_its_consequence() {
        let full = refused(41045, 1);
        assert!(full.pauses_corp && full.uncounted && !full.fails);
        assert_eq!(full.passes_over, Some(Refused::Corp));
        assert!((3_600..=4_500).contains(&pause_s(&full)));
        for errcode in [41054, 40003, 60111, 84074, 60011] {
            let member = refused(errcode, 1);
            assert!(member.pauses_member && member.fails && !member.pauses_corp);
            assert_eq!(member.passes_over, Some(Refused::Member));
            assert!(pause_s(&member) >= 21_600, "{errcode}");
        }
        for errcode in [45009, 45033] {
            let rate = refused(errcode, 8);
            assert!(rate.uncounted && !rate.fails && !rate.pauses_corp);
            assert_eq!(rate.passes_over, None);
        }
        for errcode in [48002, 40058, 123_456] {
            let wrong = refused(errcode, 1);
            assert!(wrong.pauses_corp && !wrong.fails && !wrong.uncounted);
            assert_eq!(wrong.passes_over, Some(Refused::Corp));
            assert!(refused(errcode, 8).fails, "{errcode}");
        }
        let busy = refused(-1, 3);
        assert!(!busy.fails && !busy.pauses_corp && (4..=5).contains(&pause_s(&busy)));
        assert_eq!(busy.passes_over, None);
        let last = refused(-1, 8);
        assert!(last.fails && pause_s(&last) >= 21_600);
        assert_eq!(last.passes_over, Some(Refused::Member));
        let stopped = refused(60020, 1);
        assert!(stopped.pauses_corp && stopped.uncounted);
        assert_eq!(stopped.passes_over, None, "it is no word about ways");
    }

    #[test]
    fn only_what_may_have_acted_is_unknown() {
        for sent in [true, false] {
            let error = Error::Transport {
                api: wecom::client::api::ADD_CONTACT_WAY,
                sent,
                problem: TransportProblem::TimedOut,
                source: None,
            };
            let verdict = of_asking(&error, 1, &rules(), NOW_MS);
            assert_eq!(matches!(verdict, Verdict::Unknown { .. }), sent);
        }
    }
}
