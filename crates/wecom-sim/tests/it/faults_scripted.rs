//! Scripted codes and bodies, for an API, a member, a customer, a stretch of time (api.md 14.4).

use std::time::Duration;

use serde_json::{Value, json};
use wecom_sim::{Act, Fault};

use crate::faults::with_customers;
use crate::harness::{CORP, SECRET, code};

const TRANSFER: &str = "externalcontact/transfer_customer";
const TAGS: &str = "externalcontact/get_corp_tag_list";

/// Case 53: one API of one corp answers 45009 from t to t + 60 s.
#[tokio::test]
async fn a_minute_of_45009() {
    let client = with_customers(1).await;
    let from = client.sim.now_ms() + 10_000;
    let fault = Fault {
        from_ms: Some(from),
        corp: Some(CORP.to_owned()),
        ..Fault::new(TAGS, Act::Errcode(45009))
    };
    client.sim.add_fault(fault.for_ms(60_000)).unwrap();
    let mut seen = Vec::new();
    for _ in 0..9 {
        seen.push(code(&client.post(TAGS, json!({})).await));
        assert_eq!(
            code(
                &client
                    .post("externalcontact/get_unassigned_list", json!({}))
                    .await
            ),
            0
        );
        client.sim.advance(Duration::from_secs(10)).await;
    }
    assert_eq!(seen, [0, 45009, 45009, 45009, 45009, 45009, 45009, 0, 0]);
    assert_eq!(
        client.sim.counters().calls_while_blocked,
        5,
        "the first was told of the block"
    );
}

/// Case 64: 40098 whenever mB is the taker.
#[tokio::test]
async fn codes_for_one_taker() {
    let client = with_customers(2).await;
    client
        .sim
        .add_fault(Fault::new(TRANSFER, Act::Errcode(40098)).taker("MB"))
        .unwrap();
    assert_eq!(code(&client.transfer("mA", "mB", &["wm0"]).await), 40098);
    assert_eq!(code(&client.transfer("mA", "mC", &["wm0"]).await), 0);
}

/// A code for one customer goes into his row; the others start.
#[tokio::test]
async fn codes_for_one_customer_of_a_transfer() {
    let client = with_customers(3).await;
    client
        .sim
        .add_fault(Fault::new(TRANSFER, Act::Errcode(40132)).customer("wm1"))
        .unwrap();
    let answer = client.transfer("mA", "mB", &["wm0", "wm1", "wm2"]).await;
    let codes: Vec<_> = answer["customer"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["errcode"].clone())
        .collect();
    assert_eq!(codes, [json!(0), json!(40132), json!(0)]);
    // Elsewhere it is the code of the call.
    client
        .sim
        .add_fault(Fault::new("externalcontact/get", Act::Errcode(84061)).customer("wm0"))
        .unwrap();
    assert_eq!(
        code(
            &client
                .get("externalcontact/get", &[("external_userid", "wm0")])
                .await
        ),
        84061
    );
    assert_eq!(
        code(
            &client
                .get("externalcontact/get", &[("external_userid", "wm1")])
                .await
        ),
        0
    );
}

#[tokio::test]
async fn codes_for_one_member() {
    let client = with_customers(1).await;
    client
        .sim
        .add_fault(Fault::new("*", Act::Errcode(60111)).member("ma"))
        .unwrap();
    assert_eq!(
        code(&client.get("user/get", &[("userid", "mA")]).await),
        60111
    );
    assert_eq!(code(&client.get("user/get", &[("userid", "mB")]).await), 0);
    let body = json!({"userid_list": ["mB", "mA"]});
    assert_eq!(
        code(&client.post("externalcontact/batch/get_by_user", body).await),
        60111
    );
}

/// Cases 89 and 93: answers that look wrong.
#[tokio::test]
async fn scripted_and_patched_bodies() {
    let client = with_customers(1).await;
    client.transfer_one("mA", "mB", "wm0").await;
    let api = "externalcontact/transfer_result";
    let ask = json!({"handover_userid": "mA", "takeover_userid": "mB"});
    let odd = json!({"errcode": 0, "errmsg": "ok", "customer": [{"external_userid": "wm0", "status": 5}, {"external_userid": "wm9"}]});
    client
        .sim
        .add_fault(Fault::new(api, Act::Body(odd.clone())).times(1))
        .unwrap();
    assert_eq!(client.post(api, ask.clone()).await, odd);
    client
        .sim
        .add_fault(
            Fault::new(api, Act::Patch(json!({"customer": null})))
                .after()
                .times(1),
        )
        .unwrap();
    assert!(
        client
            .post(api, ask.clone())
            .await
            .get("customer")
            .is_none()
    );
    assert_eq!(client.post(api, ask).await["customer"][0]["status"], 2);
    // Case 46: a token whose life is odd or missing, and which works.
    for patch in [
        json!({"expires_in": 0}),
        json!({"expires_in": -1}),
        json!({"expires_in": null}),
        json!({"expires_in": 10}),
    ] {
        client
            .sim
            .add_fault(
                Fault::new("gettoken", Act::Patch(patch.clone()))
                    .after()
                    .times(1),
            )
            .unwrap();
        let answer = client.gettoken(CORP, SECRET).await;
        assert_eq!(
            answer.get("expires_in").unwrap_or(&Value::Null),
            &patch["expires_in"]
        );
        assert!(answer["access_token"].is_string());
    }
}

#[tokio::test]
async fn managed_over_http() {
    let client = with_customers(1).await;
    let fault = json!({"id": "quota", "api": TAGS, "act": {"errcode": 45009}, "for_ms": 60_000});
    assert_eq!(
        client.admin("POST", "/sim/faults", fault.clone()).await,
        (200, json!({"id": "quota"}))
    );
    assert_eq!(
        client.admin("POST", "/sim/faults", fault).await.0,
        400,
        "the id is taken"
    );
    assert_eq!(code(&client.post(TAGS, json!({})).await), 45009);
    let (_, list) = client.admin("GET", "/sim/faults", json!({})).await;
    assert_eq!(
        (&list[0]["id"], &list[0]["hits"]),
        (&json!("quota"), &json!(1))
    );
    assert_eq!(
        client
            .admin("DELETE", "/sim/faults/quota", json!({}))
            .await
            .0,
        200
    );
    assert_eq!(
        client
            .admin("DELETE", "/sim/faults/quota", json!({}))
            .await
            .0,
        404
    );
    assert_eq!(code(&client.post(TAGS, json!({})).await), 0);
    for (fault, text) in [
        (
            json!({"api": "externalcontact/nothing", "act": "drop"}),
            "not an API of the simulator",
        ),
        (
            json!({"api": TAGS, "act": {"status": 200}}),
            "from 400 to 599",
        ),
        (json!({"api": TAGS, "act": {"patch": {}}}), "after"),
        (
            json!({"api": TAGS, "act": "explode"}),
            "unknown variant `explode`",
        ),
    ] {
        let (status, answer) = client.admin("POST", "/sim/faults", fault.clone()).await;
        assert!(
            status == 400 && answer["error"].as_str().unwrap().contains(text),
            "{fault}: {answer}"
        );
    }
}
