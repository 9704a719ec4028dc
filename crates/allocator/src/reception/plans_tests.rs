use std::collections::{BTreeMap, BTreeSet};

use allocation::CorpId;
use ledger::{Relax, Sticky};

use super::*;

fn id(pool: &str) -> PoolId {
    PoolId::new(pool).unwrap()
}

fn member(name: &str) -> MemberId {
    MemberId::new(name).unwrap()
}

fn skills(names: &[&str]) -> Vec<Skill> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn subject(n: usize) -> SubjectKey {
    SubjectKey::new(&CorpId::new("ww1").unwrap(), "wecom", &format!("wm{n}"))
}

fn fallback(pool: &str, after_seconds: u64, without: &[&str]) -> Fallback {
    Fallback {
        pool: id(pool),
        after_seconds,
        without: skills(without).into_iter().collect(),
    }
}

fn relax(skill: &str, after_seconds: u64) -> Relax {
    Relax {
        skill: skill.parse().unwrap(),
        after_seconds,
    }
}

fn routing(fallbacks: Vec<Fallback>, relax: Vec<Relax>) -> Routing {
    Routing {
        fallbacks,
        relax,
        ..Routing::default()
    }
}

/// Pool, seconds and needs of each step.
fn told(steps: &[Step]) -> Vec<String> {
    let told = steps.iter().map(|step| {
        let needs: Vec<&str> = step.needs.iter().map(Skill::as_str).collect();
        format!(
            "{} {} {}",
            step.pool,
            step.after_ms / 1_000,
            needs.join("+")
        )
    });
    told.collect()
}

/// What the rules are given of it.
fn plan(pool: &Pool, asked: &Asked<'_>) -> Option<Plan> {
    super::plan(pool, asked).map(|planned| planned.plan)
}

fn asked<'a>(pool: &'a PoolId, needs: &'a [Skill]) -> Asked<'a> {
    Asked {
        pool,
        subject: subject(1),
        needs,
        prefer: None,
        owner: None,
        avoid: &[],
        through: None,
    }
}

fn with(routing: Routing) -> Pool {
    Pool {
        routing,
        ..Pool::default()
    }
}

#[test]
fn a_plain_pool_needs_no_plan() {
    let (plain, sales) = (Pool::default(), id("sales"));
    assert_eq!(plan(&plain, &asked(&sales, &[])), None);
    // Nothing that it says matters to somebody who needs nothing.
    let silent = with(Routing {
        drip_seconds: Some(60),
        alert_after_seconds: Some(60),
        sticky: Some(Sticky {
            days: 9,
            otherwise: Otherwise::Next,
        }),
        ..routing(Vec::new(), vec![relax("vip", 5)])
    });
    assert_eq!(plan(&silent, &asked(&sales, &[])), None);
    let needs = skills(&["vip"]);
    let with_needs = plan(&plain, &asked(&sales, &needs)).unwrap();
    assert_eq!(told(with_needs.steps()), ["sales 0 vip"]);
    let for_a_person = with(Routing {
        person_after_seconds: Some(600),
        ..Routing::default()
    });
    let person = plan(&for_a_person, &asked(&sales, &[])).unwrap();
    assert_eq!(person.person_after_ms(), Some(600_000));
}

#[test]
fn each_time_at_which_something_changes_is_a_step() {
    let needs = skills(&["vip", "lang:en", "vip"]);
    let routing = routing(
        vec![
            fallback("tier2", 0, &[]),
            fallback("backup", 90, &["vip"]),
            fallback("anyone", 200, &["lang:en"]),
        ],
        vec![
            relax("vip", 120),
            relax("lang:en", 30),
            relax("lang:fr", 60),
        ],
    );
    // lang:fr is not needed: nothing changes at 60.
    assert_eq!(
        told(&steps(&routing, &id("sales"), &needs)),
        [
            "sales 0 lang:en+vip",
            "tier2 0 lang:en+vip",
            "sales 30 vip",
            "backup 90 ",
            "sales 120 ",
            "anyone 200 ",
        ]
    );
    assert_eq!(
        told(&steps(&routing, &id("sales"), &[])),
        ["sales 0 ", "tier2 0 ", "backup 90 ", "anyone 200 "]
    );
}

#[test]
fn the_pool_itself_comes_before_another_that_begins_with_it() {
    let needs = skills(&["vip"]);
    let routing = routing(vec![fallback("other", 30, &[])], vec![relax("vip", 30)]);
    assert_eq!(
        told(&steps(&routing, &id("sales"), &needs)),
        ["sales 0 vip", "sales 30 ", "other 30 "]
    );
}

#[test]
fn the_same_step_is_there_once_and_as_early_as_it_may_be() {
    let routing = routing(
        vec![fallback("b", 60, &["vip"]), fallback("b", 10, &[])],
        Vec::new(),
    );
    let of = |needs: &[Skill]| told(&steps(&routing, &id("a"), needs));
    assert_eq!(of(&[]), ["a 0 ", "b 10 "], "without needs both are one");
    assert_eq!(of(&skills(&["vip"])), ["a 0 vip", "b 10 vip", "b 60 "]);
}

#[test]
fn what_is_too_much_for_a_plan_is_left_out_from_its_end() {
    let pools: Vec<String> = (0..12).map(|n| format!("p{n:02}")).collect();
    let fallbacks = pools.iter().map(|pool| fallback(pool, 5, &[]));
    let pool = with(routing(fallbacks.collect(), Vec::new()));
    assert_eq!(most_steps(&pool.routing), 13);
    let needs: Vec<String> = (0..20).map(|n| format!("s{n:02}")).collect();
    let needs: Vec<&str> = needs.iter().map(String::as_str).collect();
    let needs = skills(&needs);
    let plan = plan(&pool, &asked(&id("sales"), &needs)).unwrap();
    assert_eq!(plan.steps().len(), MAX_STEPS);
    assert_eq!(plan.steps()[0].pool, id("sales"));
    assert_eq!(plan.steps()[7].needs.len(), MAX_NEEDS);
}

#[test]
fn skills_that_are_done_without_together_are_one_step() {
    let relaxes = vec![relax("a", 5), relax("b", 5), relax("c", 9)];
    let routing = routing(vec![fallback("x", 5, &[])], relaxes);
    assert_eq!(most_steps(&routing), 4);
    let needs = skills(&["a", "b", "c"]);
    assert_eq!(
        told(&steps(&routing, &id("p"), &needs)),
        ["p 0 a+b+c", "p 5 c", "x 5 c", "p 9 "]
    );
}

fn sticky(otherwise: Otherwise, able: &[(&str, &str, &[&str])]) -> Pool {
    let able = able.iter().map(|(name, weight, can)| Able {
        member: member(name),
        weight: weight.parse().unwrap(),
        skills: skills(can).into_iter().collect(),
    });
    Pool {
        routing: Routing {
            sticky: Some(Sticky {
                days: 30,
                otherwise,
            }),
            ..Routing::default()
        },
        able: able.collect(),
        ..Pool::default()
    }
}

#[test]
fn whoever_is_asked_for_comes_before_whoever_had_him() {
    let (sales, wanted, owner) = (id("sales"), member("ma"), member("mb"));
    let pool = sticky(Otherwise::Rendezvous, &[("mc", "1", &[])]);
    let prefer = |prefer, owner| {
        let asked = Asked {
            prefer,
            owner,
            ..asked(&sales, &[])
        };
        plan(&pool, &asked).map_or(Vec::new(), |plan| plan.prefer().to_vec())
    };
    let both = [wanted.clone(), owner.clone()];
    assert_eq!(prefer(Some(&wanted), Some(&owner)), both);
    assert_eq!(
        prefer(Some(&owner), Some(&owner)),
        std::slice::from_ref(&owner)
    );
    assert_eq!(prefer(None, Some(&owner)), std::slice::from_ref(&owner));
    assert_eq!(prefer(None, None), [member("mc")]);
    let next = sticky(Otherwise::Next, &[("mc", "1", &[])]);
    assert_eq!(plan(&next, &asked(&sales, &[])), None);
}

/// Each is named by the first reason that there is.
#[test]
fn it_is_told_why_somebody_is_preferred() {
    use Preference::{AskedFor, EarlierOwner, Rendezvous};
    let (sales, ma, mb) = (id("sales"), member("ma"), member("mb"));
    let pool = sticky(Otherwise::Rendezvous, &[("ma", "1", &[]), ("mb", "1", &[])]);
    let why = |prefer, owner, avoid| {
        let asked = Asked {
            prefer,
            owner,
            avoid,
            ..asked(&sales, &[])
        };
        let planned = super::plan(&pool, &asked).unwrap();
        assert_eq!(planned.plan.prefer().len(), planned.why.len());
        planned.why
    };
    let nobody = &[][..];
    assert_eq!(why(Some(&ma), Some(&mb), nobody), [AskedFor, EarlierOwner]);
    assert_eq!(why(Some(&ma), Some(&ma), nobody), [AskedFor]);
    assert_eq!(why(None, Some(&mb), nobody), [EarlierOwner]);
    assert_eq!(why(Some(&ma), None, nobody), [AskedFor, Rendezvous]);
    assert_eq!(why(None, None, nobody), [Rendezvous, Rendezvous]);
    let avoid = std::slice::from_ref(&ma);
    assert_eq!(why(Some(&ma), Some(&mb), avoid), [EarlierOwner]);
    assert_eq!(why(Some(&ma), None, avoid), [Rendezvous]);
}

#[test]
fn rendezvous_is_among_those_who_can_do_what_is_needed() {
    let sales = id("sales");
    let pool = sticky(
        Otherwise::Rendezvous,
        &[
            ("ma", "9000", &[]),
            ("mb", "9000", &["vip"]),
            ("mc", "1", &["lang:en", "vip"]),
            ("md", "0", &["lang:en", "vip"]),
        ],
    );
    let needs = skills(&["vip", "lang:en"]);
    let plan = plan(&pool, &asked(&sales, &needs)).unwrap();
    assert_eq!(plan.prefer(), [member("mc")]);
}

#[test]
fn who_cannot_be_shown_is_avoided_and_not_preferred() {
    let sales = id("sales");
    let avoid = [member("ma")];
    let (ma, mb) = (member("ma"), member("mb"));
    let without = |prefer, owner| Asked {
        prefer,
        owner,
        avoid: &avoid,
        through: None,
        ..asked(&sales, &[])
    };
    let plain = plan(&Pool::default(), &without(None, None)).unwrap();
    assert_eq!(told(plain.steps()), ["sales 0 "]);
    assert_eq!((plain.prefer(), plain.avoid()), (&[][..], &avoid[..]));
    let able = [("ma", "9000", &[][..]), ("mb", "1", &[]), ("mc", "1", &[])];
    let pool = sticky(Otherwise::Rendezvous, &able);
    let prefer = |asked| plan(&pool, &asked).unwrap().prefer().to_vec();
    assert_eq!(prefer(without(Some(&ma), Some(&mb))), [member("mb")]);
    let others = prefer(without(None, None));
    assert!(others.len() == 2 && !others.contains(&ma), "{others:?}");
}

fn first(n: usize, members: &[(MemberId, Weight)]) -> MemberId {
    let members = members.iter().map(|(member, weight)| (member, *weight));
    rendezvous(subject(n), members, 1).remove(0)
}

fn five() -> Vec<(MemberId, Weight)> {
    let weights = ["1", "1", "2", "3", "3"];
    let members = weights.iter().enumerate();
    members
        .map(|(n, weight)| (member(&format!("m{n}")), weight.parse().unwrap()))
        .collect()
}

#[test]
fn a_member_who_leaves_moves_only_his_own_subjects() {
    let before = five();
    let mut after = before.clone();
    let (gone, _) = after.remove(2);
    let mut his = 0;
    for n in 0..2_000 {
        let (old, new) = (first(n, &before), first(n, &after));
        if old == gone {
            his += 1;
            // To whom he would have come next.
            let both = before.iter().map(|(member, weight)| (member, *weight));
            assert_eq!(rendezvous(subject(n), both, 2)[1], new);
        } else {
            assert_eq!(old, new);
        }
    }
    assert!((300..500).contains(&his), "{his}");
}

#[test]
fn shares_follow_weights() {
    const SUBJECTS: usize = 20_000;
    let members = five();
    let mut got: BTreeMap<MemberId, usize> = BTreeMap::new();
    for n in 0..SUBJECTS {
        *got.entry(first(n, &members)).or_default() += 1;
    }
    for (member, weight) in &members {
        let expected = f64::from(weight.thousandths()) / 10_000.0 * SUBJECTS as f64;
        let got = got[member] as f64;
        let is_near = (got - expected).abs() < expected * 0.06;
        assert!(is_near, "{member}: {got} of {expected}");
    }
}

#[test]
fn a_larger_weight_only_draws_subjects_and_order_makes_no_difference() {
    let before = five();
    let mut after = before.clone();
    after[0].1 = "4".parse().unwrap();
    after.reverse();
    let mut drawn = BTreeSet::new();
    for n in 0..2_000 {
        let (old, new) = (first(n, &before), first(n, &after));
        if old != new {
            drawn.insert(new);
        }
    }
    assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [member("m0")]);
}
