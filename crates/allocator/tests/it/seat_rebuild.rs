//! Seats and people whose state is made of Postgres' rows.

use allocation::model::{GroupView, SeatView};
use allocation::{
    ChatId, ConfirmSeats, GroupPoolId, GroupTags, JoinedPerson, PersonKey, Reason, ReleaseSeat,
    ReserveSeat, Reserved, SeatCandidate, SeatId, SeatMatch, SeatName, SeatsConfirmed, SetGroup,
    SetGroupPool, SubjectKey,
};
use allocator::guard::{self, Wanted};
use serde_json::json;
use uuid::Uuid;

use crate::api_support::World;

pub(crate) const GROUPS: [&str; 2] = ["wr1", "wr2"];

pub(crate) fn chat(name: &str) -> ChatId {
    name.parse().unwrap()
}

fn pool() -> GroupPoolId {
    "g".parse().unwrap()
}

impl World {
    pub(crate) fn seat_name(&self, visitor: &str) -> SeatName {
        SeatName {
            campaign: "spring".parse().unwrap(),
            subject: SubjectKey::new(&self.corp, "unionid", visitor),
        }
    }

    /// Two groups of three, in Postgres and in Redis, where they were read once.
    pub(crate) async fn groups(&self) {
        let console = self.operator().await;
        let group_pool = json!({"name": "x", "scan_cap": 3, "hard_cap": 3, "buffer": 0});
        console.put("/group-pools/g", group_pool).await.ok();
        let roster = &self.corp_app().roster;
        let set = SetGroupPool {
            pool: pool(),
            version: 1,
            strategy: allocation::FillStrategy::FillFirst,
        };
        roster.set_group_pool(set, "", None).await.unwrap();
        for name in GROUPS {
            let path = format!("/groups/{name}");
            let group = json!({"group_pool": "g", "state": "open"});
            console.put(&path, group).await.ok();
            let set = SetGroup::new(chat(name), 1, pool(), 3, 0).unwrap();
            roster.set_group(set, "", None).await.unwrap();
            self.come(name, None, "v1", &[]).await;
        }
        // A code leads into them.
        self.sql("UPDATE groups SET way_at = now()").await;
    }

    /// These visitors, by the same names as persons.
    pub(crate) async fn come(
        &self,
        of: &str,
        from: Option<&str>,
        version: &str,
        visitors: &[&str],
    ) -> SeatsConfirmed {
        let joined = visitors.iter().map(|visitor| JoinedPerson {
            person: PersonKey::customer(&self.corp, visitor),
            identified: true,
            doubted: false,
            scanned: true,
            state: None,
            names: vec![SeatCandidate {
                how: SeatMatch::Unionid,
                campaign: self.seat_name(visitor).campaign,
                subject: self.seat_name(visitor).subject,
            }],
        });
        let change = ConfirmSeats {
            chat: chat(of),
            from: from.map(|from| from.parse().unwrap()),
            version: version.parse().unwrap(),
            force: false,
            left: Vec::new(),
            joined: joined.collect(),
        };
        let roster = &self.corp_app().roster;
        roster.confirm_seats(change, "", None).await.unwrap().answer
    }

    pub(crate) async fn ask_seats(&self, visitors: &[&str]) -> Vec<Reserved> {
        let asked = visitors.iter().map(|visitor| ReserveSeat {
            seat: SeatId(Uuid::now_v7()),
            campaign: self.seat_name(visitor).campaign,
            pool: pool(),
            subject: self.seat_name(visitor).subject,
            anonymous: false,
            via: Some("inv1".parse().unwrap()),
            tags: GroupTags::any(),
            hold_ms: 600_000,
            wait_ms: 600_000,
        });
        let roster = &self.corp_app().roster;
        let asked = roster.reserve_seats(asked.collect(), "", None);
        asked.await.unwrap().answer
    }

    async fn expire(&self, visitor: &str) {
        let roster = &self.corp_app().roster;
        let name = self.seat_name(visitor);
        let seat = roster.seat(&name).await.unwrap().unwrap();
        let release = ReleaseSeat {
            campaign: name.campaign,
            subject: name.subject,
            seat: seat.seat,
            expect_until_ms: None,
            reason: Reason::new("expired").unwrap(),
            memory_ms: 600_000,
        };
        roster.release_seats(vec![release], "", None).await.unwrap();
    }

    async fn standing(&self, visitors: &[&str]) -> (Vec<Option<SeatView>>, Vec<GroupView>) {
        let roster = &self.corp_app().roster;
        let names: Vec<_> = visitors.iter().map(|one| self.seat_name(one)).collect();
        let seats = roster.seats(&names).await.unwrap();
        let mut groups = Vec::new();
        for name in GROUPS {
            groups.push(roster.group(&chat(name)).await.unwrap().unwrap());
        }
        (seats, groups)
    }
}

/// Whoever holds, waits, came, or may still come, and who is in which group: the same when the log cannot be folded any more, and it
/// goes on from there.
#[tokio::test]
async fn seats_are_made_of_rows() {
    let world = World::new().await;
    world.groups().await;
    world.come("wr1", Some("v1"), "v2", &["past us"]).await;
    let visitors = ["a", "b", "c", "d", "e", "f", "g"];
    let asked = world.ask_seats(&visitors).await;
    assert!(matches!(asked[4], Reserved::Held { .. }));
    assert!(matches!(asked[5], Reserved::Waiting { position: 1, .. }));
    world.come("wr1", Some("v2"), "v3", &["a"]).await;
    world.expire("b").await;
    world.written().await;
    let before = world.standing(&visitors).await;
    // Who waited has the seat that was given back.
    assert_eq!(before.1[0].count.held, 1);
    world.sql("DELETE FROM log WHERE seq = 4").await;
    let (app, corp) = (world.app(), world.corp_app());
    for from_rows in [false, true] {
        let wanted = Wanted {
            from_rows,
            ..Wanted::default()
        };
        guard::rebuild(app, corp, wanted).await.unwrap();
        assert_eq!(world.standing(&visitors).await, before);
    }
    let again = world.ask_seats(&["c", "g"]).await;
    assert!(matches!(again[0], Reserved::Again { .. }));
    assert!(matches!(
        again[1],
        Reserved::Waiting {
            position: 1,
            again: true,
            ..
        }
    ));
    let SeatsConfirmed::Counted { count, joined, .. } =
        world.come("wr1", Some("v3"), "v4", &["b"]).await
    else {
        panic!("the version is the one that was read");
    };
    assert_eq!((count.people, count.held, count.oversold), (3, 1, 1));
    assert_eq!(joined.len(), 1);
    world.written().await;
    let seats = app.ledger.seats();
    let counts = seats.counts(&world.corp, &"spring".parse().unwrap()).await;
    let mut counts: Vec<_> = counts.unwrap().into_iter().collect();
    counts.sort();
    let counts: Vec<_> = counts
        .iter()
        .map(|(stage, n)| (stage.as_str(), *n))
        .collect();
    assert_eq!(
        counts,
        [("waiting", 1), ("held", 4), ("confirmed", 1), ("late", 1)]
    );
}
