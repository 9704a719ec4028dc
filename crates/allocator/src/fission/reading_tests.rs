use allocation::{GroupCount, SetGroup, model::PersonView};

use super::*;

const CORP: &str = "ww1";

fn corp() -> CorpId {
    CorpId::new(CORP).unwrap()
}

fn key(id: &str) -> PersonKey {
    PersonKey::customer(&corp(), id)
}

fn view(seen: Option<&str>, people: &[(&str, bool)]) -> GroupView {
    let people = people.iter().map(|(id, pending)| PersonView {
        person: key(id),
        pending: *pending,
        doubted: false,
        seat: None,
    });
    GroupView {
        config: SetGroup::new("wr1".parse().unwrap(), 1, "p".parse().unwrap(), 200, 5).unwrap(),
        seen: seen.map(|seen| seen.parse().unwrap()),
        people: people.collect(),
        count: GroupCount {
            people: 0,
            held: 0,
            free: 0,
            oversold: 0,
        },
    }
}

/// The same, and some whom only a read brought that may have been old.
fn with_doubted(seen: &str, people: &[(&str, bool)], doubted: &[&str]) -> GroupView {
    let mut view = view(Some(seen), people);
    let doubted = doubted.iter().map(|id| PersonView {
        person: key(id),
        pending: true,
        doubted: true,
        seat: None,
    });
    view.people.extend(doubted);
    view
}

fn member(id: &str) -> GroupMember {
    GroupMember {
        userid: id.to_owned(),
        kind: GroupMemberKind::External,
        unionid: Some(format!("o{id}")),
        join_scene: JoinScene::Scanned,
        state: Some("s".to_owned()),
        ..GroupMember::default()
    }
}

fn reading(version: &str, ids: &[&str]) -> Reading {
    let members: Vec<GroupMember> = ids.iter().map(|id| member(id)).collect();
    Reading::of(&corp(), &members, Some(version)).unwrap()
}

fn campaigns(n: usize) -> Vec<CampaignId> {
    (0..n).map(|n| format!("c{n}").parse().unwrap()).collect()
}

fn difference(view: &GroupView, reading: &Reading, is_settled: bool) -> Difference {
    reading.difference(view, is_settled, &campaigns(1), |_, _| true)
}

/// Of the only change: versions, who came and whether he is named, who left.
type Told<'a> = (
    Option<&'a str>,
    &'a str,
    Vec<(PersonKey, bool)>,
    Vec<PersonKey>,
);

fn told(difference: &Difference) -> Told<'_> {
    let [change] = &difference.changes[..] else {
        panic!("{difference:?}")
    };
    let joined = change.joined.iter();
    (
        change.from.as_ref().map(ChatVersion::as_str),
        change.version.as_str(),
        joined.map(|one| (one.person, one.identified)).collect(),
        change.left.clone(),
    )
}

fn named<const N: usize>(mut ids: [(&str, bool); N]) -> Vec<(PersonKey, bool)> {
    ids.sort_by_key(|(id, _)| key(id));
    ids.map(|(id, named)| (key(id), named)).to_vec()
}

#[test]
fn a_first_read_is_told_whole_and_read_once_more() {
    let reading = reading("v1", &["wmA", "wmB"]);
    let first = difference(&view(None, &[]), &reading, false);
    let all = named([("wmA", true), ("wmB", true)]);
    assert_eq!(told(&first), (None, "v1", all, vec![]));
    assert!(first.is_whole && first.in_doubt);
}

#[test]
fn a_read_that_says_what_is_known_is_no_news() {
    let known = view(Some("v1"), &[("wmA", false)]);
    let same = difference(&known, &reading("v1", &["wmA"]), false);
    assert_eq!(same.changes, []);
    assert!(same.is_whole && !same.in_doubt);
    // Whom an event brought is named by it.
    let pending = view(Some("v2"), &[("wmA", false), ("wmB", true)]);
    let names = difference(&pending, &reading("v2", &["wmA", "wmB"]), false);
    let who = named([("wmB", true)]);
    assert_eq!(told(&names), (Some("v2"), "v2", who, vec![]));
    assert!(names.is_whole && !names.in_doubt);
}

/// Versions do not say which is older: nobody leaves by a read that may be, and nobody's seat is taken for a stranger's.
#[test]
fn another_version_is_believed_in_part_until_the_lag_is_over() {
    let known = view(Some("v3"), &[("wmA", false), ("wmB", true), ("wmC", true)]);
    let other = reading("v2", &["wmB", "wmD"]);
    let early = difference(&known, &other, false);
    let who = named([("wmB", true), ("wmD", false)]);
    assert_eq!(told(&early), (Some("v3"), "v3", who, vec![]));
    assert!(!early.is_whole && early.in_doubt);
    assert_eq!((early.n_joined, early.n_left), (1, 0));
    let settled = difference(&known, &other, true);
    let who = named([("wmB", true), ("wmD", true)]);
    let mut gone = vec![key("wmA"), key("wmC")];
    gone.sort();
    assert_eq!(told(&settled), (Some("v3"), "v2", who, gone));
    assert!(settled.is_whole && !settled.in_doubt);
    assert_eq!((settled.n_joined, settled.n_left), (1, 2));
}

/// He left, as an event said, and every read that is behind has him in it still: none of them names him.
#[test]
fn who_is_doubted_is_named_by_no_read_that_may_be_old() {
    let known = view(Some("v3"), &[("wmA", false)]);
    let old = reading("v2", &["wmA", "wmGone"]);
    let first = difference(&known, &old, false);
    let [change] = &first.changes[..] else {
        panic!("{first:?}")
    };
    let joined = &change.joined[0];
    assert_eq!((joined.identified, joined.doubted), (false, true));
    let known = with_doubted("v3", &[("wmA", false)], &["wmGone"]);
    let again = difference(&known, &old, false);
    assert_eq!(again.changes, []);
    assert!(!again.is_whole && again.in_doubt);
    // The lag is over, or it is what the events led to.
    let settled = difference(&known, &old, true);
    assert_eq!(told(&settled).2, named([("wmGone", true)]));
    let same = difference(&known, &reading("v3", &["wmA", "wmGone"]), false);
    assert_eq!(told(&same).2, named([("wmGone", true)]));
    let over = difference(&known, &reading("v3", &["wmA"]), true);
    assert_eq!(told(&over).3, [key("wmGone")]);
}

/// Somebody came whose event overtook another one: the version is old, and so is a read of it.
#[test]
fn the_same_version_without_somebody_is_in_doubt() {
    let known = view(Some("v1"), &[("wmA", false), ("wmB", true)]);
    let early = difference(&known, &reading("v1", &["wmA"]), false);
    assert_eq!(early.changes, []);
    assert!(!early.is_whole && early.in_doubt);
    let settled = difference(&known, &reading("v1", &["wmA"]), true);
    assert_eq!(told(&settled).3, [key("wmB")]);
    assert!(settled.is_whole && !settled.in_doubt);
}

#[test]
fn whoever_may_have_a_seat_is_named_by_unionid_and_external_id() {
    let reading = reading("v1", &["wmA"]);
    let known = view(None, &[]);
    let unionid = SubjectKey::new(&corp(), "unionid", "owmA");
    let external = SubjectKey::new(&corp(), "wecom", "wmA");
    let subjects = reading.names(&known);
    assert_eq!(subjects, [unionid, external]);
    let of = |n: usize, subject: SubjectKey| {
        let is_seat = move |_: &CampaignId, one: &SubjectKey| *one == subject;
        let difference = reading.difference(&known, false, &campaigns(n), is_seat);
        difference.changes[0].joined[0].clone()
    };
    let one = of(1, unionid);
    assert_eq!(one.state.as_ref().map(Via::as_str), Some("s"));
    assert!(one.scanned);
    assert_eq!(one.names[0].how, SeatMatch::Unionid);
    assert_eq!(of(1, external).names[0].how, SeatMatch::ExternalId);
    assert_eq!(of(20, external).names.len(), MAX_CANDIDATES);
}

#[test]
fn our_own_people_take_nobodys_seat() {
    let mut own = member("ZhangSan");
    own.kind = GroupMemberKind::Employee;
    let reading = Reading::of(&corp(), &[own], Some("v1")).unwrap();
    let first = difference(&view(None, &[]), &reading, false);
    let joined = &first.changes[0].joined[0];
    assert_eq!(joined.person, PersonKey::member(&corp(), "zhangsan"));
    assert!(joined.identified && !joined.scanned);
    assert!(joined.names.is_empty() && joined.state.is_none());
}

#[test]
fn without_a_version_the_people_are_one() {
    let of = |ids: &[&str]| {
        let members: Vec<GroupMember> = ids.iter().map(|id| member(id)).collect();
        Reading::of(&corp(), &members, None).unwrap().version
    };
    assert_eq!(of(&["wmA", "wmB"]), of(&["wmB", "wmA"]));
    assert_ne!(of(&["wmA"]), of(&["wmA", "wmB"]));
}

#[test]
fn many_are_told_in_parts_and_nobody_leaves_before_all_have_come() {
    let ids: Vec<String> = (0..1_500).map(|n| format!("wm{n}")).collect();
    let new: Vec<&str> = ids.iter().map(String::as_str).collect();
    let old: Vec<(String, bool)> = (0..1_200).map(|n| (format!("wmOld{n}"), false)).collect();
    let old: Vec<(&str, bool)> = old
        .iter()
        .map(|(id, named)| (id.as_str(), *named))
        .collect();
    let all = difference(&view(Some("v1"), &old), &reading("v2", &new), true);
    let parts = all.changes.iter().map(|change| {
        let from = change.from.as_ref().map_or("", ChatVersion::as_str);
        (
            from,
            change.version.as_str(),
            change.joined.len(),
            change.left.len(),
        )
    });
    let parts: Vec<_> = parts.collect();
    assert_eq!(
        parts,
        [
            ("v1", "v2", 1_000, 0),
            ("v2", "v2", 500, 0),
            ("v2", "v2", 0, 1_000),
            ("v2", "v2", 0, 200)
        ]
    );
}

#[test]
fn a_digest_changes_with_whatever_redis_has() {
    let base = view(Some("v1"), &[("wmA", false)]);
    assert_eq!(digest(&base), digest(&base.clone()));
    for other in [
        view(Some("v2"), &[("wmA", false)]),
        view(Some("v1"), &[("wmA", true)]),
        with_doubted("v1", &[], &["wmA"]),
        view(Some("v1"), &[]),
        view(None, &[("wmA", false)]),
    ] {
        assert_ne!(digest(&base), digest(&other));
    }
}
