//! Tags that rules put on customers: cases 95, 98 and 99 with a fake WeCom.

use serde_json::{Value, json};
use wecom::client::MarkTag;
use wecom_sim::{Act, Fault, TagChange, TagRequest};

use crate::{
    fission_stage::Stage,
    inviter_rewards::{Outbox, customer, ended, tag},
    inviters::Invited,
};

const MARK: &str = "externalcontact/mark_tag";

/// Tries follow one another at once.
async fn invited() -> Invited {
    let quick =
        "[outbox]\nmax_attempts = 3\nbackoff_min_ms = 1\nbackoff_max_ms = 5\npoll_ms = 10\n";
    Invited::on(Stage::configured(0, quick).await, json!({}), 200).await
}

/// Somebody whom the rule tags, when he comes: a customer of ZhangSan's.
async fn tagged_when_he_comes(it: &Invited, tag: &str) {
    it.rules(json!({"tag_on_join": tag})).await;
    customer(it, "wmc1", "ZhangSan");
    it.stage.events().await;
}

fn tags_of(it: &Invited, id: &str) -> Vec<String> {
    let mut tags = it.stage.sim.customer(None, id).unwrap().follows[0]
        .tags
        .clone();
    tags.sort();
    tags
}

/// Case 98: what somebody put on by hand stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tag_is_added_to_those_that_are_there() {
    let it = invited().await;
    let (one, two, three) = (tag(&it, "甲"), tag(&it, "乙"), tag(&it, "丙"));
    tagged_when_he_comes(&it, &three).await;
    let by_hand = MarkTag {
        userid: "ZhangSan".to_owned(),
        external_userid: "wmc1".to_owned(),
        add_tag: vec![one.clone(), two.clone()],
        remove_tag: Vec::new(),
    };
    it.stage.corp().client.mark_tag(&by_hand).await.unwrap();
    let anna = it.inviter("external_id", "wmanna").await;
    it.comes("wmc1", &anna).await;
    let _outbox = Outbox::start(&it);
    assert_eq!(
        ended(&it, "tag", 1).await,
        [("done".to_owned(), String::new())]
    );
    let mut all = vec![one, two, three];
    all.sort();
    assert_eq!(tags_of(&it, "wmc1"), all);
}

/// Case 95: a tag that WeCom does not know yet is put on a moment later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tag_that_is_refused_for_a_moment_is_put_on_later() {
    let it = invited().await;
    let new = tag(&it, "新");
    tagged_when_he_comes(&it, &new).await;
    let fault = Fault::new(MARK, Act::Errcode(40068)).times(2);
    it.stage.sim.add_fault(fault).unwrap();
    let anna = it.inviter("external_id", "wmanna").await;
    it.comes("wmc1", &anna).await;
    let _outbox = Outbox::start(&it);
    assert_eq!(ended(&it, "tag", 1).await[0].0, "done");
    assert_eq!(tags_of(&it, "wmc1"), [new]);
}

/// The call is slow, is dropped before or after its effect, or its answer is unreadable: the tag is on him in the end, and once,
/// as adding a tag twice is adding it once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tag_is_put_on_whatever_comes_of_the_call() {
    let it = invited().await;
    let new = tag(&it, "新");
    it.rules(json!({"tag_on_join": new})).await;
    let calls = [
        Fault::new(MARK, Act::Drop),
        Fault::new(MARK, Act::Drop).after(),
        Fault::new(MARK, Act::Status(502)).after(),
        Fault::new(MARK, Act::Truncate).after(),
        Fault::new(MARK, Act::DelayMs(1_500)),
    ];
    let anna = it.inviter("external_id", "wmanna").await;
    let n = calls.len();
    for (n, call) in calls.into_iter().enumerate() {
        let id = format!("wmc{n}");
        customer(&it, &id, "ZhangSan");
        it.stage.sim.add_fault(call.customer(&id).times(1)).unwrap();
        it.stage.events().await;
        it.comes(&id, &anna).await;
    }
    let _outbox = Outbox::start(&it);
    for (state, error) in ended(&it, "tag", n).await {
        assert_eq!(state, "done", "{error}");
    }
    for n in 0..n {
        assert_eq!(tags_of(&it, &format!("wmc{n}")), [new.as_str()], "{n}");
    }
}

/// Cases 95 and 99: a tag that is no more at WeCom is not made again by anybody; its rows end, where an operator sees them, after
/// so many tries as are configured, and keep nothing else waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tag_that_is_no_more_ends_where_it_is_seen() {
    let it = invited().await;
    let gone = tag(&it, "旧");
    it.rules(
        json!({"tag_on_join": gone, "goals": [{"count": 1, "name": "one", "message": "领奖"}]}),
    )
    .await;
    customer(&it, "wmc1", "ZhangSan");
    let delete = TagRequest {
        corp: None,
        change: TagChange::Delete { id: gone.clone() },
    };
    it.stage.sim.change_tags(&delete).unwrap();
    it.stage.events().await;
    let lisi = it.inviter("member", "LiSi").await;
    it.comes("wmc1", &lisi).await;
    let _outbox = Outbox::start(&it);
    assert_eq!(
        ended(&it, "goal_message", 1).await[0].0,
        "done",
        "it does not wait"
    );
    let (state, error) = ended(&it, "tag", 1).await.remove(0);
    assert_eq!(state, "dead", "{error}");
    assert!(error.contains("40068"), "{error}");
    let dead = it.stage.console.all("/dead-letters/effects").await;
    let kinds: Vec<&Value> = dead.iter().map(|row| &row["kind"]).collect();
    assert_eq!(kinds, [&json!("tag")]);
    assert_eq!(tags_of(&it, "wmc1"), Vec::<String>::new());
}
