//! Entries of the log that cannot be read: they are named, and there is a way out.

use std::{sync::Arc, time::Duration};

use allocation::{AllocationId, PoolId, Request, SubjectKey};
use allocator::{
    guard::{self, Wanted},
    writer::{self, Turn},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    api_support::World,
    lane_stage::Forward,
    log_lost::{eventually, quiet_world},
};

/// Nobody needs the payload to know who has whom: after a minute, in which a newer version could have read it, the entry
/// is written without.
#[tokio::test]
async fn an_unreadable_payload_holds_up_the_ledger_for_a_minute() {
    let (world, console) = quiet_world(1).await;
    let (app, corp) = (world.app(), world.corp_app());
    console.ask("p1", "wmBefore").await;
    let request = Request {
        allocation: AllocationId(Uuid::now_v7()),
        pool: PoolId::new("p1").unwrap(),
        subject: SubjectKey::new(&world.corp, "wecom", "wmBare"),
        holder: None,
        request: None,
        echo: false,
        plan: None,
    };
    let asked = vec![request.clone()];
    let bare = corp.roster.decide(asked, r#"{"c":7}"#, None).await.unwrap();
    console.ask("p1", "wmAfter").await;

    assert_eq!(world.try_write(app).await.unwrap(), Turn::Wrote(1));
    for _ in 0..2 {
        let turn = world.try_write(app).await;
        let named = matches!(turn, Err(writer::Error::Payload { seq, .. }) if seq == bare.seq);
        assert!(named, "{turn:?}");
    }
    for drop_rest in [false, true] {
        let wanted = Wanted {
            drop_rest,
            ..Wanted::default()
        };
        let refused = guard::rebuild(app, corp, wanted).await;
        assert!(matches!(refused, Err(guard::Error::Rest(_))), "{refused:?}");
    }

    let later = world.process(Arc::new(Forward(61_000.into()))).await;
    world.write(&later).await;
    let rows = console.all("/allocations?state=open").await;
    assert_eq!(rows.len(), 4);
    guard::look(app, corp).await.unwrap();
    world.write(app).await;
    let again = console.ask("p1", "wmBare").await;
    let id = request.allocation.to_string();
    assert_eq!(again["allocation_id"].as_str(), Some(id.as_str()));
    world.write(app).await;
    world.check().await;
}

impl World {
    /// The last entry of the log as no version wrote it.
    async fn spoil_last(&self) -> u64 {
        let seq = self.corp_app().roster.status().await.unwrap().seq;
        let key = format!("{{{}}}:v1:log", self.corp);
        let (id, before) = (format!("{seq}-0"), format!("{}-0", seq - 1));
        let redis = test_redis::shared();
        redis.cli(&["XDEL", &key, &id]);
        redis.cli(&["XSETID", &key, &before]);
        redis.cli(&[
            "XADD", &key, &id, "o", "note.99", "t", "1", "a", "", "r", "0",
        ]);
        seq
    }
}

/// What stands before it is written; itself it is named with the command that gives it up, and that command works.
#[tokio::test]
async fn an_unreadable_entry_is_named_with_the_way_out() {
    let (world, console) = quiet_world(1).await;
    let (app, corp) = (world.app(), world.corp_app());
    console.ask("p1", "wmBefore").await;
    corp.roster.note("", None).await.unwrap();
    let spoilt = world.spoil_last().await;
    console.ask("p1", "wmAfter").await;
    assert_eq!(world.try_write(app).await.unwrap(), Turn::Wrote(1));

    let stop = CancellationToken::new();
    let writer = tokio::spawn(writer::run(Arc::clone(app), Arc::clone(corp), stop.clone()));
    let problems = world.problems().await;
    let said = eventually("said", async || {
        let (status, problems) = problems.ask().await;
        assert_eq!(status, 200);
        problems.into_iter().next()
    })
    .await;
    let entry = format!("log entry {spoilt} of Redis cannot be read");
    let command = format!("allocator rebuild --corp {} --drop-rest", corp.id);
    assert!(said.contains(&entry) && said.contains(&command), "{said}");
    stop.cancel();
    writer.await.unwrap();

    for wanted in [
        Wanted::default(),
        Wanted {
            from_rows: true,
            ..Wanted::default()
        },
    ] {
        let refused = guard::rebuild(app, corp, wanted).await;
        assert!(matches!(refused, Err(guard::Error::Rest(_))), "{refused:?}");
    }
    // Also where the corp is closed, by whoever tries to open it.
    let stop = CancellationToken::new();
    let guard = tokio::spawn(guard::run(Arc::clone(app), Arc::clone(corp), stop.clone()));
    eventually("said of the rebuild", async || {
        let (_, problems) = problems.ask().await;
        let said = |text: &String| text.contains("rebuilt") && text.contains(&command);
        problems.iter().any(said).then_some(())
    })
    .await;
    stop.cancel();
    guard.await.unwrap();

    let wanted = Wanted {
        drop_rest: true,
        ..Wanted::default()
    };
    guard::rebuild(app, corp, wanted).await.unwrap();
    world.write(app).await;
    let rows = console.all("/allocations").await;
    assert_eq!(rows.len(), 3, "what stood behind the entry was asked again");
    console.on(&["zhangsan"]).await;
    console.ask("p1", "wmLast").await;
    world.write(app).await;
    world.check().await;
    let guard = guard::run(Arc::clone(app), Arc::clone(corp), CancellationToken::new());
    let well = eventually("all is well", async || {
        let (_, problems) = problems.ask().await;
        (!problems.iter().any(|text| text.contains("rebuilt"))).then_some(())
    });
    tokio::select! {
        () = guard => {}
        () = well => {}
        () = tokio::time::sleep(Duration::from_secs(60)) => panic!("it takes too long"),
    }
}

/// The ledger refuses a batch for what is in it: nothing is given up until a person says so, and then it is, the batch
/// with it, as the ledger would refuse it again.
#[tokio::test]
async fn a_batch_that_the_ledger_refuses_is_given_up_only_when_asked_for() {
    let (world, console) = quiet_world(2).await;
    let (app, corp) = (world.app(), world.corp_app());
    world
        .sql("ALTER TABLE allocations ADD CONSTRAINT odd CHECK (source <> 'api') NOT VALID")
        .await;
    console.ask("p1", "wmRefused").await;
    let refused = world.try_write(app).await;
    let is_of_the_data =
        matches!(&refused, Err(writer::Error::Ledger(error)) if error.is_of_the_data());
    assert!(is_of_the_data, "{refused:?}");
    let written = world.log_seq().await;
    let kept = guard::rebuild(app, corp, Wanted::default()).await;
    assert!(matches!(kept, Err(guard::Error::Rest(_))), "{kept:?}");
    assert_eq!(world.log_seq().await, written);

    let wanted = Wanted {
        drop_rest: true,
        ..Wanted::default()
    };
    guard::rebuild(app, corp, wanted).await.unwrap();
    world.write(app).await;
    assert_eq!(console.all("/allocations").await.len(), 2);
    world
        .sql("ALTER TABLE allocations DROP CONSTRAINT odd")
        .await;
    console.on(&["zhangsan"]).await;
    console.ask("p1", "wmRefused").await;
    world.write(app).await;
    assert_eq!(console.all("/allocations").await.len(), 3);
    world.check().await;
}
