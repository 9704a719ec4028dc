//! Who has the customer at WeCom, as the ledger remembers it.

use allocation::SubjectKey;
use serde_json::json;

use crate::api_support::World;

/// The ledger says who had the customer at WeCom: also when he is the one who was chosen, and when we do not know him.
#[tokio::test]
async fn the_holder_is_written_down_whoever_he_is() {
    let world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    console
        .put("/pools/p2", json!({"name": "p2", "members": []}))
        .await
        .ok();
    let ask = async |pool: &str, customer: &str, holder: Option<&str>| {
        let body =
            json!({"subject": {"kind": "wecom", "id": customer}, "pool": pool, "holder": holder});
        console.post("/allocations", body).await.ok()
    };
    let held = async |customer: &str| {
        world.written().await;
        let subject = SubjectKey::new(&world.corp, "wecom", customer);
        let allocations = world.app().ledger.allocations();
        let mut rows = allocations.of_subject(&world.corp, &subject).await.unwrap();
        let row = rows.remove(0);
        [row.member, row.holder, row.giver].map(|member| member.map(String::from))
    };
    let some = |member: &str| Some(member.to_owned());
    let himself = ask("p1", "wmC001", Some("mA")).await;
    ask("p1", "wmC002", Some("Stranger")).await;
    ask("p1", "wmC003", None).await;
    let waiting = ask("p2", "wmC004", Some("mB")).await;
    assert_eq!(waiting["decision"], "waiting");
    assert_eq!(held("wmC001").await, [some("ma"), some("ma"), None]);
    assert_eq!(
        held("wmC002").await,
        [some("ma"), some("stranger"), some("stranger")]
    );
    assert_eq!(held("wmC003").await, [some("ma"), None, None]);
    assert_eq!(held("wmC004").await, [None, some("mb"), some("mb")]);
    // He comes on and gets him: nothing is to be moved.
    world.pool(&console, "p2", &[("mB", 1.0)]).await;
    assert_eq!(held("wmC004").await, [some("mb"), some("mb"), None]);
    // Moved to another and back before he went: he is still where he was.
    let path = format!(
        "/allocations/{}/reassign",
        himself["allocation_id"].as_str().unwrap()
    );
    world
        .pool(&console, "p1", &[("mA", 1.0), ("mC", 1.0)])
        .await;
    console
        .post(&path, json!({"to": "mC", "expect_epoch": 0}))
        .await
        .ok();
    assert_eq!(held("wmC001").await, [some("mc"), some("ma"), some("ma")]);
    console
        .post(&path, json!({"to": "mA", "expect_epoch": 1}))
        .await
        .ok();
    assert_eq!(held("wmC001").await, [some("ma"), some("ma"), None]);
}

/// A transfer by another system's id would move whoever has that id at WeCom, or nobody.
#[tokio::test]
async fn only_customers_of_wecom_have_a_holder() {
    let world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    let body = json!({"subject": {"kind": "crm", "id": "wmC001"}, "pool": "p1", "holder": "mB"});
    let answer = console.post("/allocations", body.clone()).await;
    assert_eq!(answer.refused().0, 422);
    assert_eq!(answer.pointers(), ["/holder"]);
    let mut without = body;
    without.as_object_mut().unwrap().remove("holder");
    let made = console.post("/allocations", without).await.ok();
    assert_eq!(made["decision"], "assigned");
}
