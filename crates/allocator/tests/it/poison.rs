//! Deliveries that fail by their own fault, among others that are fine.

use std::{sync::Arc, time::Duration};

use allocator::record;
use inbox::{DeadLetter, EntryId, NewDelivery};
use sqlx::Executor as _;

use crate::{
    api_deliveries::added,
    api_support::{Options, World},
};

const SOON: &str = "[inbox]\nblock_ms = 20\n[inbox.stream]\nmax_tries = 3\nfirst_pause_ms = 10\nlongest_pause_ms = 20\n\
    claim_every_ms = 20";

async fn world() -> World {
    let options = Options {
        config: SOON.to_owned(),
        ..Options::default()
    };
    World::with(1, options).await
}

/// 100 deliveries, and which one is the 43rd.
async fn hundred(world: &World, odd: String) {
    let now_ms = world.app().now_ms();
    let new: Vec<NewDelivery> = (0..100)
        .map(|n| match n {
            42 => odd.clone(),
            _ => added(&format!("wmC{n}"), "x"),
        })
        .map(|plaintext| NewDelivery::new("main", now_ms, plaintext))
        .collect();
    world.corp_app().inbox.append(&new).await.unwrap();
}

async fn dead(world: &World, group: &str) -> Vec<DeadLetter> {
    let inbox = &world.corp_app().inbox;
    let letters = inbox.dead_list(EntryId::MIN, EntryId::MAX, 1_000).await;
    let letters = letters.unwrap().into_iter();
    letters
        .filter(|letter| letter.group.as_str() == group)
        .collect()
}

async fn one_dies(world: &World, group: &str) -> DeadLetter {
    let limit = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(letter) = dead(world, group).await.pop() {
            return letter;
        }
        assert!(tokio::time::Instant::now() < limit, "it never ends");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Case 109 over the loop that records: others pass, and after the stated number of tries it is dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_that_cannot_be_recorded_stops_nobody() {
    let world = world().await;
    // Before the rule is: a day that is made later would have to bring it along.
    let deliveries = world.app().ledger.deliveries();
    let now_ms = world.app().now_ms();
    deliveries.make_partitions_ahead(now_ms, 2).await.unwrap();
    let mut connection = world.database.connect().await;
    connection
        .execute("ALTER TABLE deliveries ADD CHECK (body NOT LIKE '%odd%')")
        .await
        .unwrap();
    hundred(&world, "odd".to_owned()).await;
    let (app, corp) = (world.app(), world.corp_app());
    tokio::spawn(record::run(Arc::clone(app), Arc::clone(corp), world.stop()));
    let letter = one_dies(&world, "record").await;
    assert_eq!((letter.tries, letter.plaintext.as_str()), (3, "odd"));
    let recorded: i64 = sqlx::query_scalar("SELECT count(*) FROM deliveries")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(recorded, 99);
}
