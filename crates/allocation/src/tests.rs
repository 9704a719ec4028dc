//! Ids, weights and the text form.

use rstest::rstest;

use crate::*;

#[rstest]
#[case("0", 0)]
#[case("1", 1000)]
#[case("0.5", 500)]
#[case("1.5", 1500)]
#[case("2.001", 2001)]
#[case("2.5000", 2500)]
#[case("10000", 10_000_000)]
fn weights_are_decimals(#[case] text: &str, #[case] thousandths: u32) {
    let weight: Weight = text.parse().unwrap();
    assert_eq!(weight.thousandths(), thousandths);
    assert_eq!(weight.to_string().parse::<Weight>().unwrap(), weight);
}

/// Case 133, the part of a weight.
#[rstest]
fn other_weights_are_refused(
    #[values(
        "-1",
        "",
        "1e9",
        "3,5",
        "NaN",
        "inf",
        "0.0001",
        "10000.001",
        ".5",
        "1.",
        "99999999999",
        "+1"
    )]
    text: &str,
) {
    assert!(
        matches!(text.parse::<Weight>(), Err(Error::Weight(_))),
        "{text}"
    );
}

/// Case 129, the part of the key form.
#[test]
fn member_ids_ignore_case() {
    let ids = ["ZhangSan", "zhangsan", "ZHANGSAN"].map(|id| MemberId::new(id).unwrap());
    assert!(ids.iter().all(|id| id.as_str() == "zhangsan"));
    assert_ne!(PoolId::new("A").unwrap(), PoolId::new("a").unwrap());
}

#[rstest]
fn what_separates_fields_is_in_no_id(
    #[values("", " ", " a", "a\u{1f}", "a\u{1e}b", "a\0", "{a", "a}", "\n")] text: &str,
) {
    assert!(PoolId::new(text).is_err(), "{text:?}");
    assert!(MemberId::new(text).is_err(), "{text:?}");
    assert!(RequestId::new(text).is_err(), "{text:?}");
}

#[test]
fn ids_have_at_most_64_characters() {
    assert!(PoolId::new("客".repeat(64)).is_ok());
    assert!(PoolId::new("a".repeat(65)).is_err());
    assert!(CorpId::new("ww*").is_err());
    assert!(CorpId::new("ww1f2e3d4c5b6a7988").is_ok());
}

/// The subject key is the contract with the ledger and with replays: it must never change.
#[test]
fn a_subject_key_is_a_hash_of_three_parts() {
    let corp = CorpId::new("ww1f2e3d4c5b6a7988").unwrap();
    let key = SubjectKey::new(&corp, "wecom", "wmC001");
    assert_eq!(key.to_string(), "fd1b2b75abdb49cc7c916bd56b71c8bc");
    assert_eq!(key.to_string().parse::<SubjectKey>().unwrap(), key);
    assert_ne!(key, SubjectKey::new(&corp, "wecomwmC001", ""));
}

#[test]
fn a_pool_names_each_member_once() {
    let pool = PoolId::new("g").unwrap();
    let twice = ["A", "a"].map(|id| (MemberId::new(id).unwrap(), Weight::ONE));
    let refused = PoolConfig::new(pool, 1, Strategy::LeastLoad, twice);
    assert!(matches!(refused, Err(Error::MemberTwice(_))));
}

#[test]
fn unreadable_text_is_an_error_and_names_what_it_is() {
    for (name, args) in [
        ("decide.1", "a"),
        ("decide.9", ""),
        ("settle.1", "x\u{1f}y"),
        ("settle.2", "x\u{1f}y"),
        ("wake.1", "g\u{1f}1\u{1f}2"),
    ] {
        assert!(
            matches!(
                Op::parse(name, args),
                Err(Error::Unreadable { .. } | Error::Text { .. })
            ),
            "{name}"
        );
    }
    assert!(Outcome::parse(&Op::Note, "0\u{1f}1").is_err());
    assert!(Outcome::parse(&Op::Note, "").is_err());
    assert!(Dump::from_json("{\"corp\":{\"s\":\"zz\"}}").is_err());
}

#[test]
fn the_fold_refuses_gaps_and_other_outcomes() {
    let entry =
        |seq, result| LogEntry::from_parts(seq, 5, "remove_pool.1", "g\u{1f}1", result).unwrap();
    let mut corp = model::Corp::new();
    assert!(corp.fold(&entry(2, "0\u{1f}0\u{1f}UNKNOWN\u{1f}")).is_err());
    assert!(corp.fold(&entry(1, "0\u{1f}0\u{1f}UNKNOWN\u{1f}")).is_ok());
    assert!(corp.fold(&entry(2, "0\u{1f}0\u{1f}CHANGED\u{1f}")).is_err());
}

/// Logs are kept for ever: what an older program wrote is read, and means what it meant.
#[test]
fn settlements_of_older_logs_name_no_assignment() {
    let old = "01920000-0000-7000-8000-000000000001\u{1f}g\u{1f}fd1b2b75abdb49cc7c916bd56b71c8bc\u{1f}DONE\u{1f}";
    let read = Op::parse("settle.1", old).unwrap();
    let Op::Settle(settlement) = &read else {
        panic!("{read:?}")
    };
    assert_eq!(settlement.expect, None);
    assert_eq!(Op::parse(read.name(), &read.args_text()).unwrap(), read);
    let named = Op::Settle(Settlement {
        expect: Some(Assignment {
            member: None,
            epoch: 3,
        }),
        ..settlement.clone()
    });
    assert_eq!(Op::parse(named.name(), &named.args_text()).unwrap(), named);
}
