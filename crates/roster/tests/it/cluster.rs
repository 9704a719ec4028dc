//! The basics once more on a clustered Redis: every key of a corp is in one slot, and no script touches another.

use allocation::model::Corp;
use allocation::{CorpId, Decision, PresenceChange, SettlementOutcome, Strategy};
use roster::Roster;

use crate::support::*;

#[tokio::test]
async fn everything_works_on_a_cluster() {
    let connection = test_redis::shared_cluster().cluster_connection().await;
    let roster = Roster::new(connection);
    roster.load().await.unwrap();
    for _ in 0..3 {
        let corp = CorpId::new(test_redis::corp()).unwrap();
        let redis = roster.corp(&corp);
        redis.begin_rebuild(1).await.unwrap();
        redis.finish_rebuild(Corp::new(), 1, None).await.unwrap();
        for (name, strategy) in [
            ("g", Strategy::WeightedRoundRobin),
            ("l", Strategy::LeastLoad),
        ] {
            let members = [("ma", "1"), ("mb", "2.5")];
            redis
                .set_pool(config(name, 1, strategy, &members), "", None)
                .await
                .unwrap();
        }
        let change = allocation::SetMember::capped(member("ma"), Some(5), None);
        redis.set_member(change, "", None).await.unwrap();
        let here = ["ma", "mb"].map(|name| PresenceChange {
            member: member(name),
            lease_until_ms: T0 * 2,
        });
        redis.presence(here.to_vec(), "", None).await.unwrap();
        for i in 0..20 {
            let pool_name = if i % 2 == 0 { "g" } else { "l" };
            let mut asked = request(pool_name, &format!("c{i}"));
            asked.request = Some(allocation::RequestId::new(format!("r{i}")).unwrap());
            let applied = redis.decide(vec![asked], "", None).await.unwrap();
            assert!(matches!(applied.answer[0], Decision::Assigned { .. }));
        }
        redis.close(vec![closing("c0")], "", None).await.unwrap();
        redis
            .settle(settlement("l", "c1", SettlementOutcome::Done), "", None)
            .await
            .unwrap();
        redis
            .reassign(reassignment("g", "c2", None, 0), "", None)
            .await
            .unwrap();
        redis.wake(pool("g"), 10, "", None).await.unwrap();
        redis.note("{}", None).await.unwrap();
        redis.remove_pool(pool("l"), 2, "", None).await.unwrap();
        let mut folded = Corp::new();
        for entry in redis.log_read(0, 1000).await.unwrap() {
            folded.fold(&entry).unwrap();
        }
        assert_same(&redis.dump().await.unwrap(), &folded.dump());
        redis.log_trim(folded.seq()).await.unwrap();
        redis.begin_rebuild(2).await.unwrap();
        redis.finish_rebuild(folded, 2, None).await.unwrap();
        assert!(redis.close_unless(2, 1).await.unwrap());
        assert_eq!(redis.status().await.unwrap().generation, Some(2));
    }
}
