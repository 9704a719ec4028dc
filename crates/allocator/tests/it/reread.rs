//! What WeCom says of a pair, against what is open for it.

use allocator::{reception::intake::Pair, reread};
use serde_json::json;

use crate::lane_stage::Stage;

/// WeCom knows no relation of a customer who waits: he is gone, and waits for nobody any more. Of whom the member did not
/// have, it says nothing.
#[tokio::test]
async fn who_is_gone_waits_no_more() {
    let stage = Stage::new(1).await;
    let console = stage.world.operator().await;
    stage.world.pool(&console, "p1", &[]).await;
    for (customer, holder) in [("wmGone", "m0"), ("wmStays", "desk")] {
        let subject = json!({"kind": "wecom", "id": customer});
        let asked = json!({"subject": subject, "pool": "p1", "holder": holder});
        let decided = console.post("/allocations", asked).await.ok();
        assert_eq!(decided["decision"], "waiting");
        stage.world.written().await;
        let pair = Pair {
            userid: "M0".to_owned(),
            external_userid: customer.to_owned(),
        };
        let (app, corp) = (stage.world.app(), stage.world.corp_app());
        reread::read_pair(app, corp, &pair).await.unwrap();
    }
    stage.world.written().await;
    let closed = console.all("/allocations?state=closed").await;
    assert_eq!(closed.len(), 1);
    assert_eq!(
        (
            &closed[0]["customer"]["external_id"],
            &closed[0]["close_reason"]
        ),
        (&json!("wmGone"), &json!("relation_gone"))
    );
    assert_eq!(console.all("/allocations?state=waiting").await.len(), 1);
}
