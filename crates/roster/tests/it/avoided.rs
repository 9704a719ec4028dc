//! Plans that avoid members: those are passed over, nothing is made up for it, and nobody is held up by it.

use std::collections::BTreeMap;

use allocation::{
    Answer, ChannelId, MemberId, Op, Outcome, Plan, SetSlots, SlotId, Step, Strategy, Visit,
    Visited,
};

use crate::support::*;

const FAIR: Strategy = Strategy::WeightedRoundRobin;
const LEAST: Strategy = Strategy::LeastLoad;
const MINUTE: u64 = 60_000;

fn step(name: &str, after_ms: u64, needs: &[&str]) -> Step {
    Step {
        after_ms,
        pool: pool(name),
        needs: needs.iter().map(|need| need.parse().unwrap()).collect(),
    }
}

/// Serves from the pool `g` alone.
fn avoiding(names: &[&str]) -> Plan {
    let plan = Plan::new(Vec::new(), vec![step("g", 0, &[])], None).unwrap();
    avoid(plan, names)
}

fn avoid(plan: Plan, names: &[&str]) -> Plan {
    plan.avoiding(names.iter().map(|name| member(name)).collect())
        .unwrap()
}

fn visit(subject_name: &str, plan: Option<Plan>) -> Visit {
    Visit {
        allocation: allocation("g", subject_name),
        pool: pool("g"),
        subject: subject(subject_name),
        channel: ChannelId::new("c").unwrap(),
        hold_ms: 10 * MINUTE,
        rest_ms: MINUTE,
        plan,
    }
}

impl Twin {
    async fn come(&mut self, subject_name: &str, plan: Option<Plan>) -> Option<MemberId> {
        let outcome = self.apply(Op::Visit(vec![visit(subject_name, plan)])).await;
        match outcome.answer {
            Answer::Visited(mut visited) => match visited.remove(0) {
                Visited::Held { member, .. } => Some(member),
                Visited::Again { member, .. } => member,
                _ => None,
            },
            other => panic!("{other:?}"),
        }
    }

    async fn asks(&mut self, subject_name: &str, plan: &Plan) -> Option<String> {
        let asked = allocation::Request {
            plan: Some(plan.clone()),
            ..request("g", subject_name)
        };
        let outcome = self.apply(Op::Decide(vec![asked])).await;
        member_of(&decisions(outcome).remove(0))
    }

    fn credit(&self, name: &str) -> f64 {
        let shares = self.model.shares(&pool("g")).unwrap();
        let share = shares.iter().find(|share| share.member == member(name));
        share.unwrap().credit
    }
}

async fn three(strategy: Strategy) -> Twin {
    let mut twin = Twin::new().await;
    let members = [("ma", "1"), ("mb", "2"), ("mc", "1")];
    twin.pool("g", 1, strategy, &members).await;
    twin.on(&["ma", "mb", "mc"]).await;
    twin
}

fn count(got: &mut BTreeMap<String, u32>, who: Option<MemberId>) {
    *got.entry(who.unwrap().to_string()).or_default() += 1;
}

/// Thirty visits pass one over: the others share by weight, his credit stays, and when he is back nothing is made up.
#[tokio::test]
async fn who_is_avoided_neither_earns_nor_pays() {
    let mut twin = three(FAIR).await;
    for i in 0..5 {
        twin.come(&format!("before{i}"), None).await.unwrap();
    }
    let before = twin.credit("mc");
    let mut got = BTreeMap::new();
    for i in 0..30 {
        let who = twin.come(&format!("v{i}"), Some(avoiding(&["mc"]))).await;
        count(&mut got, who);
        assert!((twin.credit("mc") - before).abs() < 1e-9, "{i}");
    }
    let wanted = BTreeMap::from([("ma".to_owned(), 10), ("mb".to_owned(), 20)]);
    for (name, share) in wanted {
        assert!(got[&name].abs_diff(share) <= 1, "{got:?}");
    }
    assert_eq!(got.len(), 2, "{got:?}");
    // Nobody avoids him any more: of forty he gets his ten, and at most one more.
    let mut got = BTreeMap::new();
    for i in 0..40 {
        let who = twin.come(&format!("after{i}"), None).await;
        count(&mut got, who);
    }
    assert!((9..=11).contains(&got["mc"]), "{got:?}");
    twin.compare().await;
}

#[tokio::test]
async fn the_least_loaded_of_the_others() {
    let mut twin = three(LEAST).await;
    let mut got = BTreeMap::new();
    for i in 0..30 {
        let who = twin.come(&format!("v{i}"), Some(avoiding(&["mb"]))).await;
        count(&mut got, who);
    }
    let wanted = BTreeMap::from([("ma".to_owned(), 15), ("mc".to_owned(), 15)]);
    assert_eq!(got, wanted);
    twin.compare().await;
}

/// Preferred, able, in another pool, given away: he is nobody's.
#[tokio::test]
async fn he_is_avoided_in_every_way() {
    let mut twin = three(FAIR).await;
    twin.pool("backup", 1, FAIR, &[("mc", "1"), ("md", "1")])
        .await;
    twin.on(&["md"]).await;
    for name in ["ma", "mc"] {
        let skills = ["en".parse().unwrap()].into();
        let change = allocation::SetSkills {
            member: member(name),
            skills,
        };
        twin.apply(Op::SetSkills(change)).await;
    }
    let plan = |prefer: &[&str], steps| {
        let prefer = prefer.iter().map(|name| member(name)).collect();
        Plan::new(prefer, steps, None).unwrap()
    };
    let preferred = plan(&["mc", "ma"], vec![step("g", 0, &[])]);
    let who = twin.asks("c1", &avoid(preferred.clone(), &["mc"])).await;
    assert_eq!(who.as_deref(), Some("ma"));
    assert_eq!(twin.asks("c2", &preferred).await.as_deref(), Some("mc"));
    let english = avoid(plan(&[], vec![step("g", 0, &["en"])]), &["mc"]);
    for name in ["c3", "c4", "c5"] {
        assert_eq!(twin.asks(name, &english).await.as_deref(), Some("ma"));
    }
    let steps = vec![step("g", 0, &["en"]), step("backup", 0, &[])];
    let both = avoid(plan(&[], steps), &["ma", "mc"]);
    for name in ["c6", "c7"] {
        assert_eq!(twin.asks(name, &both).await.as_deref(), Some("md"));
    }
    let away = twin
        .apply(Op::Reassign(reassignment("g", "c3", None, 0)))
        .await;
    assert!(matches!(
        away.answer,
        Answer::Reassigned(allocation::Reassigned::Nobody)
    ));
    twin.compare().await;
}

/// Who avoids the only one who is free waits; who does not is served by him; and each is woken by whoever may serve him.
#[tokio::test]
async fn who_avoids_somebody_holds_up_nobody() {
    let mut twin = three(FAIR).await;
    twin.off(&["ma", "mb"]).await;
    assert_eq!(twin.come("v1", Some(avoiding(&["mc"]))).await, None);
    assert_eq!(twin.come("v2", Some(avoiding(&["ma", "mc"]))).await, None);
    assert_eq!(twin.come("v3", Some(avoiding(&["mc", "ma"]))).await, None);
    assert_eq!(twin.come("c1", None).await, Some(member("mc")));
    // Nothing can be handed out, and that is found in one look at each queue.
    let wake = Op::Wake {
        pool: pool("g"),
        limit: 64,
    };
    let outcome = twin.apply(wake).await;
    assert!(outcome.woken.is_empty() && !outcome.more);
    twin.cap("mc", 1).await;
    assert_eq!(twin.come("c2", None).await, None);
    twin.cap("ma", 1).await;
    // The first who waits and may come to him, not the first who waits.
    assert_eq!(woken(&twin.lease(&["ma"], twin.now * 2).await), ["v1 ma"]);
    assert_eq!(woken(&twin.cap("ma", 2).await.woken), ["c2 ma"]);
    twin.cap("mb", 1).await;
    assert_eq!(woken(&twin.lease(&["mb"], twin.now * 2).await), ["v2 mb"]);
    twin.compare().await;
    let outcome = twin.cap("mb", 9).await;
    assert_eq!(woken(&outcome.woken), ["v3 mb"]);
    assert_eq!(twin.model.waiting(&pool("g")), []);
    twin.compare().await;
}

fn woken(woken: &[allocation::Woken]) -> Vec<String> {
    let names = ["v1", "v2", "v3", "c2"];
    let name = |of| names.into_iter().find(|name| subject(name) == of).unwrap();
    let all = woken.iter();
    all.map(|one| format!("{} {}", name(one.subject), one.member))
        .collect()
}

/// A second step opens while nobody may serve: the plan goes on as without anybody who is avoided.
#[tokio::test]
async fn a_backup_serves_those_who_avoid_everybody_else() {
    let mut twin = three(FAIR).await;
    twin.pool("backup", 1, FAIR, &[("md", "1")]).await;
    twin.on(&["md"]).await;
    let steps = vec![step("g", 0, &[]), step("backup", MINUTE, &[])];
    let plan = Plan::new(Vec::new(), steps, None).unwrap();
    let plan = avoid(plan, &["ma", "mb", "mc"]);
    for name in ["c1", "c2"] {
        assert_eq!(twin.asks(name, &plan).await, None);
    }
    assert!(twin.who("g", "c3").await.is_some());
    twin.now += MINUTE;
    let outcome = twin.apply(Op::Advance { limit: 10 }).await;
    assert_eq!(outcome.woken.len(), 2);
    assert!(outcome.woken.iter().all(|one| one.member == member("md")));
    twin.compare().await;
}

/// A slot is lent of whoever serves; who confirms keeps the plan; two hundred who are avoided are no trouble.
#[tokio::test]
async fn many_are_avoided() {
    let mut twin = Twin::new().await;
    let names: Vec<String> = (0..256).map(|i| format!("member-{i:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut members: Vec<(&str, &str)> = names.iter().map(|name| (*name, "1")).collect();
    members.push(("last", "1.5"));
    twin.pool("g", 1, FAIR, &members).await;
    twin.on(&names).await;
    twin.on(&["last"]).await;
    let slots = SetSlots {
        channel: ChannelId::new("c").unwrap(),
        member: member("last"),
        add: vec![(SlotId::new("pv.1").unwrap(), 0)],
        remove: Vec::new(),
    };
    twin.apply(Op::SetSlots(slots)).await;
    for i in 0..5 {
        let who = twin.come(&format!("v{i}"), Some(avoiding(&names))).await;
        assert_eq!(who, Some(member("last")));
    }
    let confirmed: Outcome = twin
        .apply(Op::Confirm(vec![allocation::Confirmation {
            allocation: allocation("g", "customer"),
            pool: pool("g"),
            subject: subject("customer"),
            member: member("last"),
            visitor: None,
            slot: Some(SlotId::new("pv.1").unwrap()),
            channel: None,
        }]))
        .await;
    assert!(matches!(
        &confirmed.answer,
        Answer::Confirmed(all) if matches!(all[0], allocation::Confirmed::Confirmed { .. })
    ));
    // Alone he earned each of them, and paid for it.
    assert!(twin.credit("last").abs() < 1e-9);
    assert!(twin.credit("member-007").abs() < 1e-9);
    twin.compare().await;
}

/// Who waits and asks again avoids whom he avoids by now, and has waited as long as before: whoever came after him does not
/// overtake him.
#[tokio::test]
async fn who_asks_again_avoids_others() {
    let mut twin = three(FAIR).await;
    twin.off(&["ma", "mb"]).await;
    twin.cap("mc", 1).await;
    assert_eq!(twin.come("v1", Some(avoiding(&["mc"]))).await, None);
    assert_eq!(twin.come("v2", Some(avoiding(&["mc"]))).await, None);
    // He can be shown by now: who asks again is given him at once, and who had not waited before stands behind.
    assert_eq!(twin.come("v1", None).await, Some(member("mc")));
    assert_eq!(twin.come("c2", None).await, None);
    assert_eq!(twin.come("v2", None).await, None);
    assert_eq!(woken(&twin.cap("mc", 2).await.woken), ["v2 mc"]);
    twin.compare().await;
    // The other way round: who waited for anybody avoids one, and stays before those who came later.
    assert_eq!(twin.come("v3", Some(avoiding(&["ma"]))).await, None);
    assert_eq!(twin.come("c2", Some(avoiding(&["mc"]))).await, None);
    assert_eq!(woken(&twin.cap("mc", 3).await.woken), ["v3 mc"]);
    twin.cap("ma", 1).await;
    assert_eq!(woken(&twin.lease(&["ma"], twin.now * 2).await), ["c2 ma"]);
    assert_eq!(twin.model.waiting(&pool("g")), []);
    twin.compare().await;
    // Who has somebody keeps him.
    assert_eq!(
        twin.come("v1", Some(avoiding(&["mc"]))).await,
        Some(member("mc"))
    );
    twin.compare().await;
}
