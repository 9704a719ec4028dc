//! Who was brought by whom, when payloads cannot be read and Redis' state is made anew.

use allocation::{ConfirmSeats, JoinedPerson, PersonKey, SeatCandidate, SeatMatch, SeatsConfirmed};
use allocator::guard::{self, Wanted};
use allocator::writer::{self, Turn};
use serde_json::json;

use crate::inviters::Invited;

/// No version wrote it.
const UNREADABLE: &str = r#"{"c":7}"#;

impl Invited {
    /// He came on the seat of his unionid, as an entry says whose payload nobody can read.
    async fn comes_unreadably(&self, id: &str) -> u64 {
        let stage = &self.stage;
        let seen = stage.view("g1").await.seen.unwrap();
        let name = stage.name("unionid", &format!("o{id}"));
        let candidate = SeatCandidate {
            how: SeatMatch::Unionid,
            campaign: name.campaign,
            subject: name.subject,
        };
        let joined = JoinedPerson {
            person: PersonKey::customer(&stage.world.corp, id),
            identified: true,
            doubted: false,
            scanned: true,
            state: None,
            names: vec![candidate],
        };
        let change = ConfirmSeats {
            chat: "g1".parse().unwrap(),
            from: Some(seen),
            version: format!("with {id}").replace(' ', "-").parse().unwrap(),
            force: false,
            left: Vec::new(),
            joined: vec![joined],
        };
        let roster = &stage.corp().roster;
        let told = roster.confirm_seats(change, UNREADABLE, None).await;
        let told = told.unwrap();
        let is_in =
            matches!(&told.answer, SeatsConfirmed::Counted { joined, .. } if joined.len() == 1);
        assert!(is_in, "{:?}", told.answer);
        told.seq
    }
}

/// The seat says who brought him, not the payload: he counts all the same, and as one person.
#[tokio::test]
async fn whose_payload_is_unreadable_counts_after_a_minute() {
    let mut it = Invited::new(json!({"goals": [{"count": 2, "name": "two"}]})).await;
    let anna = it.inviter("other", "anna").await;
    it.comes("wmc1", &anna).await;
    it.asks("wmc2", &anna).await;
    it.write().await;
    it.stage.world.end_writer().await;
    let seq = it.comes_unreadably("wmc2").await;
    let (app, world) = (it.stage.app(), &it.stage.world);
    let turn = world.try_write(app).await;
    let named = matches!(turn, Err(writer::Error::Payload { seq: of, .. }) if of == seq);
    assert!(named, "{turn:?}");
    assert_eq!(it.counts(&anna).await, [1, 0, 1, 0, 0]);
    it.stage.pass(61_000).await;
    assert!(matches!(world.write(app).await, Turn::Idle { .. }));
    assert_eq!(it.counts(&anna).await, [2, 0, 2, 0, 0]);
    assert_eq!(it.edges(&anna).await, ["qualified", "qualified"]);
    let goals = it.of(&anna).await["goals"].clone();
    assert_eq!(goals.as_array().unwrap().len(), 1, "{goals}");
    // He is not at WeCom: the next read has him gone.
    it.stage.mark("g1").await;
    it.stage.read_all().await;
    world.write(app).await;
    assert_eq!(it.edges(&anna).await, ["revoked left", "qualified"]);
}

/// Edges are no part of Redis' state: however that is made anew they stay, and people go on coming and leaving.
#[tokio::test]
async fn edges_stay_whatever_the_state_is_made_of() {
    let it = Invited::new(json!({"goals": [{"count": 3, "name": "three"}]})).await;
    let anna = it.inviter("other", "anna").await;
    it.comes("wmc1", &anna).await;
    it.comes("wmc2", &anna).await;
    it.leaves("wmc2").await;
    it.asks("wmc3", &anna).await;
    it.write().await;
    let before = it.edges(&anna).await;
    assert_eq!(before, ["revoked left", "qualified"]);
    let (app, corp) = (it.stage.app(), it.stage.corp());
    for from_rows in [false, true] {
        let wanted = Wanted {
            from_rows,
            ..Wanted::default()
        };
        guard::rebuild(app, corp, wanted).await.unwrap();
        it.stage.tell().await;
        it.stage.read_all().await;
        it.write().await;
        assert_eq!(it.edges(&anna).await, before);
        assert_eq!(it.counts(&anna).await, [2, 0, 1, 1, 0]);
    }
    // Whose seat was held before is his; whoever is soon back never left.
    it.comes("wmc3", &anna).await;
    it.comes("wmc2", &anna).await;
    it.comes("wmc4", &anna).await;
    it.leaves("wmc1").await;
    assert_eq!(it.counts(&anna).await, [4, 0, 3, 1, 0]);
}
