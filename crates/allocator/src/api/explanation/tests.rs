//! How many candidates are shown.

use allocation::{PoolId, Strategy, Weight, explain::What};

use super::*;

fn considered(name: &str, due_in: f64, filter: Option<explain::Filter>) -> Considered {
    Considered {
        member: MemberId::new(name).unwrap(),
        weight: Weight::ONE,
        load: 0,
        load_per_weight: None,
        credit_before: Some(0.0),
        credit_after: None,
        due_in: filter.is_none().then_some(due_in),
        filter,
    }
}

#[test]
fn of_many_the_chosen_one_and_who_was_next_are_shown() {
    let found = Explanation {
        seq: 1,
        at_ms: 0,
        op: "decide.2",
        what: What::Decided,
        pool: PoolId::new("p").unwrap(),
        source: None,
        needs: Vec::new(),
        pool_version: Some(1),
        strategy: Some(Strategy::WeightedRoundRobin),
        chosen: Some(MemberId::new("md").unwrap()),
        rules: Vec::new(),
        tie: None,
        waits: None,
        waited: None,
        candidates: vec![
            considered("ma", 0.0, Some(explain::Filter::Away)),
            considered("mb", 3.0, None),
            considered("mc", 1.0, None),
            considered("md", 2.0, None),
            considered("me", 1.0, None),
        ],
    };
    let names = |most| {
        let (found, whole) = shortened(found.clone(), most);
        assert_eq!((whole.members, whole.kept_out["away"]), (5, 1));
        let members = found
            .candidates
            .into_iter()
            .map(|one| one.member.to_string());
        members.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(5), "ma mb mc md me");
    assert_eq!(names(4), "md mc me mb");
    assert_eq!(names(1), "md");
}
