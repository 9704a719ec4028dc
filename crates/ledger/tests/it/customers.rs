//! The one place of outside ids, and how it is emptied.

use allocation::SubjectKey;
use ledger::{
    Change, Claim, Customer, DeliveryOutcome, EffectState, Finish, Forgotten, NewAllocation,
    NewDelivery, NewEffect, Outcome, TransferState,
};
use serde_json::json;

use crate::setup::{
    T0, allocation, customer, decided, effect, id, member, setup, subject, transfer,
};

#[tokio::test]
async fn a_customer_is_known_by_one_row() {
    let setup = setup().await;
    let customers = setup.ledger.customers();
    let unknown = Customer {
        kind: "wecom".into(),
        external_id: None,
    };
    let first = customers
        .upsert(&setup.corp, &[(subject("wm1"), unknown.clone())])
        .await
        .unwrap();
    let both = [
        (subject("wm2"), customer("wm2")),
        (subject("wm1"), customer("wm1")),
        (subject("wm2"), unknown),
    ];
    let second = customers.upsert(&setup.corp, &both).await.unwrap();
    assert_eq!(second[&subject("wm1")], first[&subject("wm1")]);
    assert_eq!(second.len(), 2);
    let found = customers
        .find_many(
            &setup.corp,
            &[subject("wm1"), subject("wm2"), subject("wm3")],
        )
        .await
        .unwrap();
    assert_eq!(found.len(), 2);
    for row in found {
        let external_id = row.external_id.unwrap();
        assert_eq!(
            SubjectKey::new(&setup.corp, &row.kind, &external_id),
            row.subject
        );
    }
    let stranger = "ww0000000000000000".parse().unwrap();
    assert!(
        customers
            .find(&stranger, &subject("wm1"))
            .await
            .unwrap()
            .is_none()
    );
    let text = format!("{:?}", customer("wmSecret"));
    assert!(!text.contains("wmSecret"));
}

#[tokio::test]
async fn a_deleted_customer_is_nobody() {
    let setup = setup().await;
    let delivery = |id: &str, subject| NewDelivery {
        id: id.into(),
        received_ms: T0,
        endpoint: "main".into(),
        body: "<xml>wmC001</xml>".into(),
        event: None,
        change_type: None,
        event_ms: None,
        subject,
        problem: None,
    };
    // One that the recorder knew, one that only the decision knows, one of somebody else.
    let raw = [
        delivery("d1", Some(subject("wmC001"))),
        delivery("d2", None),
        delivery("d3", Some(subject("wmC002"))),
    ];
    setup
        .ledger
        .deliveries()
        .record(&setup.corp, &raw)
        .await
        .unwrap();
    let of = |key: &str, turn| NewEffect {
        allocation: Some(allocation(1)),
        payload: json!({"external_userid": "wmC001", "welcome_code": "code"}),
        due_ms: T0 + turn,
        ..effect("welcome", key)
    };
    setup
        .write(vec![
            Change::Decided(NewAllocation {
                delivery: Some("d2".into()),
                ..decided(1, Some("mA"))
            }),
            Change::Decided(decided(2, Some("mA"))),
            Change::Delivery(DeliveryOutcome {
                delivery: "d2".into(),
                received_ms: T0,
                outcome: "decided".into(),
                reason: None,
                allocation: Some(allocation(1)),
            }),
            Change::Transfer(transfer(7, 1, "mB", "mA")),
            Change::Effect(of("done", 0)),
            Change::Effect(of("sent", 1)),
            Change::Effect(of("claimed", 2)),
            Change::Effect(of("pending", 3)),
            Change::Effect(NewEffect {
                allocation: None,
                transfer: Some(id(7)),
                ..of("transfer", 4)
            }),
            Change::Effect(NewEffect {
                allocation: Some(allocation(2)),
                ..of("other", 5)
            }),
        ])
        .await;
    let outbox = setup.ledger.outbox();
    let claim = Claim {
        corp: setup.corp.clone(),
        kind: "welcome".into(),
        limit: 3,
        lease_ms: 9_000,
    };
    let rows = outbox.claim(&claim, T0 + 10).await.unwrap();
    outbox
        .begin(&[rows[0].held(), rows[1].held()], 10_000, T0 + 11)
        .await
        .unwrap();
    let answer = Some(json!({"external_userid": "wmC001"}));
    let done = Finish {
        answer,
        error: Some("wmC001?".into()),
        ..Finish::new(rows[0].held(), Outcome::Done)
    };
    outbox.finish(&[done], T0 + 12).await.unwrap();

    let customers = setup.ledger.customers();
    let forgotten = customers
        .forget(&setup.corp, &subject("wmC001"), T0 + 20)
        .await
        .unwrap();
    assert_eq!(
        forgotten,
        Forgotten {
            customer: true,
            deliveries: 2,
            effects: 5
        }
    );
    let again = customers
        .forget(&setup.corp, &subject("wmC001"), T0 + 30)
        .await
        .unwrap();
    assert_eq!(
        again,
        Forgotten {
            customer: false,
            deliveries: 0,
            effects: 0
        }
    );

    let row = customers
        .find(&setup.corp, &subject("wmC001"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((row.external_id, row.deleted_ms), (None, Some(T0 + 20)));
    for table in [
        "SELECT count(*) FROM outbox WHERE to_jsonb(outbox)::text LIKE '%wmC001%' AND effect_key <> 'other'",
        "SELECT count(*) FROM outbox WHERE to_jsonb(outbox)::text LIKE '%welcome_code%' AND effect_key <> 'other'",
        "SELECT count(*) FROM deliveries WHERE body LIKE '%wmC001%' AND id <> 'd3'",
        "SELECT count(*) FROM allocations WHERE to_jsonb(allocations)::text LIKE '%wmC001%'",
    ] {
        assert_eq!(setup.number(table).await, 0, "{table}");
    }
    let states = outbox
        .of_allocation(&setup.corp, allocation(1))
        .await
        .unwrap();
    let transfer = setup.ledger.transfers().get(&setup.corp, id(7)).await;
    let transfer = transfer.unwrap().unwrap();
    assert_eq!(
        (transfer.state, transfer.ended_ms),
        (TransferState::Cancelled, Some(T0 + 20))
    );
    let state = |key: &str| states.iter().find(|row| row.key == key).unwrap().state;
    assert_eq!(
        [
            state("done"),
            state("sent"),
            state("claimed"),
            state("pending")
        ],
        [
            EffectState::Done,
            EffectState::Running,
            EffectState::Cancelled,
            EffectState::Cancelled
        ]
    );
    let other = outbox
        .of_allocation(&setup.corp, allocation(2))
        .await
        .unwrap();
    assert_eq!(
        (other[0].state, other[0].payload["external_userid"].as_str()),
        (EffectState::Pending, Some("wmC001"))
    );
    // Rows that refer to him stay, and mean nobody.
    let kept = setup
        .ledger
        .allocations()
        .get(&setup.corp, allocation(1))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((kept.customer, kept.member), (row.id, Some(member("mA"))));
    let scrubbed = setup
        .ledger
        .deliveries()
        .get(&setup.corp, "d1")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(scrubbed.scrubbed_ms, Some(T0 + 20));
    assert_eq!(
        setup
            .ledger
            .deliveries()
            .range(&setup.corp, (T0, T0 + 1), false, None, 9)
            .await
            .unwrap()
            .len(),
        1
    );

    // Who comes again is known again, as the same row.
    customers
        .upsert(&setup.corp, &[(subject("wmC001"), customer("wmC001"))])
        .await
        .unwrap();
    let back = customers
        .find(&setup.corp, &subject("wmC001"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (back.id, back.external_id.as_deref(), back.deleted_ms),
        (row.id, Some("wmC001"), None)
    );
}
