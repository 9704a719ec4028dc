//! Members who are asked first: who answers, who does not, and what is taken back.

use std::collections::BTreeSet;

use allocation::{
    Answer, Decision, OfferRule, Op, PoolConfig, PoolId, PresenceChange, Reclaimed, Responded,
    Response, Strategy,
};
use futures_util::future::join_all;

use crate::crash::whole;
use crate::support::*;

const FAIR: Strategy = Strategy::WeightedRoundRobin;
const ACCEPT: u64 = 30_000;

pub(crate) fn asking(name: &str, version: u64, members: &[&str], tries: u32) -> PoolConfig {
    let members: Vec<(&str, &str)> = members.iter().map(|member| (*member, "1")).collect();
    let rule = OfferRule {
        accept_ms: ACCEPT,
        tries,
    };
    config(name, version, FAIR, &members).with_offers(Some(rule))
}

impl Twin {
    /// The member who is asked about the subject now, and in which turn; None: a person must decide, or it waits.
    pub(crate) fn asked(&self, subject_name: &str) -> (Option<String>, u64) {
        let mut all = self.model.allocations();
        let open = all.find(|open| open.subject == subject(subject_name));
        let open = open.expect("it is open");
        (open.member.map(|member| member.to_string()), open.epoch)
    }

    async fn respond(
        &mut self,
        subject_name: &str,
        (who, epoch): (&str, u64),
        declined: Option<&str>,
    ) -> Responded {
        let response = Response {
            allocation: allocation("g", subject_name),
            pool: pool("g"),
            subject: subject(subject_name),
            member: member(who),
            epoch,
            declined: declined.map(reason),
        };
        match self.apply(Op::Respond(response)).await.answer {
            Answer::Responded(responded) => responded,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn reclaim(&mut self, limit: u32) -> Vec<Reclaimed> {
        match self.apply(Op::Reclaim { limit }).await.answer {
            Answer::Reclaimed(reclaimed) => reclaimed,
            other => panic!("{other:?}"),
        }
    }
}

async fn two() -> Twin {
    let mut twin = Twin::new().await;
    twin.apply(Op::SetPool(asking("g", 1, &["ma", "mb"], 3)))
        .await;
    twin.on(&["ma", "mb"]).await;
    twin
}

#[tokio::test]
async fn an_offer_is_answered_once_and_in_time() {
    let mut twin = two().await;
    let Decision::Offered {
        member, until_ms, ..
    } = twin.ask("g", "c1").await
    else {
        panic!("nobody is asked")
    };
    assert_eq!(until_ms, T0 + ACCEPT);
    let first = member.to_string();
    twin.now += ACCEPT - 1;
    let accepted = twin.respond("c1", (&first, 0), None).await;
    assert_eq!(accepted, Responded::Accepted);
    assert_eq!(
        twin.respond("c1", (&first, 0), None).await,
        Responded::Already
    );
    twin.now += ACCEPT;
    assert_eq!(twin.reclaim(10).await, []);
    assert_eq!(twin.asked("c1"), (Some(first), 0));
    twin.compare().await;
}

/// Case 78: who is slow and there keeps the offer until its time is over, whatever else he does; who is gone loses it once,
/// and his late answer is refused.
#[tokio::test]
async fn slow_is_not_gone() {
    let mut twin = Twin::new().await;
    let rule = OfferRule {
        accept_ms: 3 * ACCEPT,
        tries: 3,
    };
    let slow = config("g", 1, FAIR, &[("ma", "1"), ("mb", "1")]).with_offers(Some(rule));
    twin.apply(Op::SetPool(slow)).await;
    twin.on(&["ma", "mb"]).await;
    twin.ask("g", "c1").await;
    let (first, _) = twin.asked("c1");
    let first = first.unwrap();
    // He thinks for 85 s and says every 5 s that he is there.
    for _ in 0..17 {
        twin.now += 5_000;
        let until_ms = twin.now + 20_000;
        twin.lease(&[&first], until_ms).await;
        assert_eq!(twin.reclaim(10).await, []);
    }
    assert_eq!(twin.asked("c1").0.as_ref(), Some(&first));
    // Then nothing is heard of him: his lease ends after 20 s, before the next one's offer would.
    twin.now += 4_000;
    twin.ask("g", "c2").await;
    let (second, _) = twin.asked("c2");
    let second = second.unwrap();
    let until_ms = twin.now + 10_000;
    twin.lease(&[&second], until_ms).await;
    twin.now += 10_000;
    let moved = twin.reclaim(10).await;
    let of: Vec<_> = moved
        .iter()
        .filter(|one| one.subject == subject("c2"))
        .collect();
    assert_eq!(of.len(), 1);
    assert_eq!(of[0].from, member(&second));
    let late = twin.respond("c2", (&second, 0), None).await;
    assert!(
        matches!(late, Responded::Stale { epoch: 1, .. }),
        "{late:?}"
    );
    twin.compare().await;
}

/// Case 79: sixteen offers are over, three sweep every second for a minute and nobody else is free: each moves once, and is
/// then a person's.
#[tokio::test]
async fn three_sweeps_take_back_once() {
    let (_, redis) = open_corp().await;
    redis
        .set_pool(asking("g", 1, &["ma", "mb"], 3), "", Some(T0))
        .await
        .unwrap();
    let here = ["ma", "mb"].map(|name| PresenceChange {
        member: member(name),
        lease_until_ms: T0 * 2,
    });
    redis.presence(here.to_vec(), "", Some(T0)).await.unwrap();
    let names: Vec<String> = (0..16).map(|i| format!("c{i}")).collect();
    let asked = names.iter().map(|name| request("g", name)).collect();
    redis.decide(asked, "", Some(T0)).await.unwrap();
    let mut moved = Vec::new();
    for second in 1..=75 {
        let now = T0 + second * 1000;
        let sweeps = join_all((0..3).map(|_| redis.reclaim(100, "", Some(now)))).await;
        moved.extend(sweeps.into_iter().flat_map(|sweep| sweep.unwrap().answer));
    }
    let turns: BTreeSet<_> = moved
        .iter()
        .map(|one| (one.subject, one.to.epoch))
        .collect();
    assert_eq!(turns.len(), moved.len(), "none moves twice in one turn");
    assert_eq!(moved.len(), 32, "to the other one, then to a person");
    let corp = whole(&redis).await;
    assert!(
        corp.allocations()
            .all(|open| open.member.is_none() && open.offer_until_ms == Some(0))
    );
}

/// Case 83: of a hundred offers that are over the third's member is no more in the pool, and the fiftieth's pool is gone: all
/// the others move in the same sweep, these two are a person's.
#[tokio::test]
async fn one_bad_offer_does_not_stop_the_others() {
    let mut twin = Twin::new().await;
    twin.apply(Op::SetPool(asking("g", 1, &["ma", "mb", "mc"], 3)))
        .await;
    twin.apply(Op::SetPool(asking("gone", 1, &["md"], 3))).await;
    twin.apply(Op::SetPool(asking("lone", 1, &["me"], 3))).await;
    twin.on(&["ma", "mb", "mc", "md", "me"]).await;
    for i in 0..100 {
        let of = match i {
            3 => "lone",
            50 => "gone",
            _ => "g",
        };
        twin.ask(of, &format!("c{i}")).await;
        twin.now += 1;
    }
    twin.apply(Op::SetPool(asking("lone", 2, &[], 3))).await;
    let version = 2;
    twin.apply(Op::RemovePool {
        pool: pool("gone"),
        version,
    })
    .await;
    twin.now += ACCEPT;
    let moved = twin.reclaim(256).await;
    assert_eq!(moved.len(), 100);
    let left: Vec<PoolId> = moved
        .iter()
        .filter(|one| one.to.member.is_none())
        .map(|one| one.pool.clone())
        .collect();
    assert_eq!(left, [pool("lone"), pool("gone")]);
    twin.compare().await;
}

/// A member with many offers goes: they move in batches, none is lost, and nobody gets one that he had declined.
#[tokio::test]
async fn who_goes_loses_his_offers_without_a_storm() {
    let mut twin = Twin::new().await;
    twin.apply(Op::SetPool(asking("g", 1, &["ma", "mb", "mc"], 3)))
        .await;
    twin.on(&["ma", "mb", "mc"]).await;
    for i in 0..60 {
        twin.ask("g", &format!("c{i}")).await;
    }
    let of_ma: Vec<String> = (0..60)
        .map(|i| format!("c{i}"))
        .filter(|name| twin.asked(name).0.as_deref() == Some("ma"))
        .collect();
    assert_eq!(of_ma.len(), 20);
    let said_no = twin.respond(&of_ma[0], ("ma", 0), Some("busy")).await;
    assert!(matches!(said_no, Responded::Declined(_)));
    twin.off(&["ma"]).await;
    for _ in 0..3 {
        assert!(twin.reclaim(8).await.len() <= 8);
    }
    assert_eq!(twin.reclaim(8).await, []);
    assert!(
        of_ma
            .iter()
            .all(|name| twin.asked(name).0.as_deref() != Some("ma"))
    );
    assert_eq!(twin.load("ma"), 0);
    assert_eq!(twin.load("mb") + twin.load("mc"), 60);
    twin.compare().await;
}
