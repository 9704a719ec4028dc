//! Ids and the text form.

use uuid::Uuid;

use super::*;
use crate::id::{CorpId, Reason, SubjectKey};
use crate::{Answer, Error, Op, Outcome};

fn seat(n: u128) -> SeatId {
    SeatId(Uuid::from_u128(n))
}

fn subject(n: u8) -> SubjectKey {
    SubjectKey::from_bytes([n; 16])
}

fn person(n: u8) -> PersonKey {
    PersonKey(subject(n))
}

fn campaign() -> CampaignId {
    "spring".parse().unwrap()
}

fn chat(n: u8) -> ChatId {
    format!("wr_{n}").parse().unwrap()
}

fn tags(text: &[&str], or_any: bool) -> GroupTags {
    let tags = text.iter().map(|tag| tag.parse().unwrap());
    GroupTags::new(tags.collect(), or_any).unwrap()
}

fn reserve(anonymous: bool, via: Option<&str>, tags: GroupTags) -> ReserveSeat {
    ReserveSeat {
        seat: seat(1),
        campaign: campaign(),
        pool: "p:1".parse().unwrap(),
        subject: subject(7),
        anonymous,
        via: via.map(|via| via.parse().unwrap()),
        tags,
        hold_ms: 600_000,
        wait_ms: 60_000,
    }
}

fn name(how: SeatMatch, n: u8) -> SeatCandidate {
    SeatCandidate {
        how,
        campaign: campaign(),
        subject: subject(n),
    }
}

fn joined(n: u8, names: Vec<SeatCandidate>, state: Option<&str>) -> JoinedPerson {
    JoinedPerson {
        person: person(n),
        identified: !names.is_empty(),
        doubted: names.is_empty(),
        scanned: n.is_multiple_of(2),
        state: state.map(|state| state.parse().unwrap()),
        names,
    }
}

fn group() -> SetGroup {
    SetGroup::new(chat(1), 3, "p:1".parse().unwrap(), 200, 5).unwrap()
}

/// Every operation with every answer that it can have.
fn all() -> Vec<(SeatOp, SeatResult)> {
    let confirm = |from: Option<&str>, left: Vec<PersonKey>, joined| {
        SeatOp::Confirm(ConfirmSeats {
            chat: chat(1),
            from: from.map(|from| from.parse().unwrap()),
            version: "v2".parse().unwrap(),
            force: from.is_none(),
            left,
            joined,
        })
    };
    let ended = |was| EndedSeat {
        seat: seat(9),
        campaign: campaign(),
        subject: subject(9),
        was,
    };
    let release = |expect_until_ms| ReleaseSeat {
        campaign: campaign(),
        subject: subject(7),
        seat: seat(1),
        expect_until_ms,
        reason: Reason::new("expired").unwrap(),
        memory_ms: 5,
    };
    let wishes = [
        GroupTags::any(),
        tags(&["north", "北京"], true),
        tags(&["north"], false),
    ];
    let reserves = wishes.into_iter().enumerate().map(|(n, tags)| {
        let via = (n == 1).then_some("inv_1");
        reserve(n > 0, via, tags)
    });
    let (seat, chat_id) = (seat(1), chat(2));
    let until_ms = 77;
    let (campaign, subject) = (campaign(), subject(7));
    let pool = || "p:1".parse().unwrap();
    let mut all = vec![
        (
            SeatOp::Reserve(reserves.collect()),
            SeatResult::Reserved(vec![
                Reserved::Held {
                    seat,
                    chat: chat_id.clone(),
                    until_ms,
                },
                Reserved::Again {
                    seat,
                    chat: chat_id.clone(),
                    until_ms,
                },
                Reserved::NoPool,
            ]),
        ),
        (
            SeatOp::Reserve(vec![reserve(false, None, GroupTags::any()); 3]),
            SeatResult::Reserved(vec![
                Reserved::Joined {
                    seat,
                    chat: chat_id.clone(),
                },
                Reserved::Waiting {
                    seat,
                    position: 3,
                    until_ms,
                    again: false,
                },
                Reserved::Waiting {
                    seat,
                    position: 1,
                    until_ms,
                    again: true,
                },
            ]),
        ),
        (
            SeatOp::Reserve(Vec::new()),
            SeatResult::Reserved(Vec::new()),
        ),
        (
            SeatOp::Release(vec![
                release(None),
                release(Some(77)),
                release(None),
                release(None),
            ]),
            SeatResult::Released(vec![
                Released::Released {
                    chat: chat_id.clone(),
                },
                Released::Stale,
                Released::GaveUp,
                Released::Unknown,
            ]),
        ),
        (
            confirm(
                Some("v1"),
                vec![person(1), person(2)],
                vec![
                    joined(3, Vec::new(), None),
                    joined(4, vec![name(SeatMatch::Unionid, 4)], Some("inv_1")),
                    joined(
                        5,
                        vec![name(SeatMatch::ExternalId, 5), name(SeatMatch::Unionid, 6)],
                        None,
                    ),
                ],
            ),
            SeatResult::Confirmed(SeatsConfirmed::Counted {
                count: GroupCount {
                    people: 196,
                    held: 5,
                    free: 0,
                    oversold: 1,
                },
                grew: true,
                left: vec![Leaving {
                    person: person(1),
                    seat,
                    campaign: campaign.clone(),
                    subject,
                }],
                joined: vec![
                    Joining {
                        index: 1,
                        joined: JoinedAs::Direct,
                    },
                    Joining {
                        index: 2,
                        joined: JoinedAs::Already {
                            how: SeatMatch::ExternalId,
                            seat,
                            campaign: campaign.clone(),
                            subject,
                            was: SeatState::Late,
                            chat: chat_id.clone(),
                        },
                    },
                ],
            }),
        ),
        (
            confirm(None, Vec::new(), Vec::new()),
            SeatResult::Confirmed(SeatsConfirmed::Stale {
                version: Some("v3".parse().unwrap()),
            }),
        ),
        (
            confirm(Some("v"), Vec::new(), Vec::new()),
            SeatResult::Confirmed(SeatsConfirmed::Stale { version: None }),
        ),
        (
            confirm(None, Vec::new(), Vec::new()),
            SeatResult::Confirmed(SeatsConfirmed::Unknown),
        ),
        (
            SeatOp::RemoveGroup {
                chat: chat(1),
                version: 9,
            },
            SeatResult::Removed {
                change: GroupChange::Changed,
                ended: vec![ended(SeatState::Held), ended(SeatState::Confirmed)],
            },
        ),
        (
            SeatOp::Wake {
                pool: pool(),
                limit: 64,
            },
            SeatResult::Ok,
        ),
        (
            SeatOp::Forget { limit: 10 },
            SeatResult::Forgotten { taken: 10 },
        ),
    ];
    for (was, from) in [
        (SeatState::Held, None),
        (SeatState::Held, Some(chat(2))),
        (SeatState::Expired, None),
        (SeatState::Expired, Some(chat(2))),
        (SeatState::Waiting, None),
    ] {
        let one = Joining {
            index: 0,
            joined: JoinedAs::Seat {
                how: SeatMatch::State,
                seat,
                campaign: campaign.clone(),
                subject,
                was,
                from,
            },
        };
        let counted = SeatsConfirmed::Counted {
            count: GroupCount {
                people: 1,
                held: 0,
                free: 194,
                oversold: 0,
            },
            grew: false,
            left: Vec::new(),
            joined: vec![one],
        };
        let op = confirm(Some("v1"), Vec::new(), vec![joined(8, Vec::new(), None)]);
        all.push((op, SeatResult::Confirmed(counted)));
    }
    for change in [
        GroupPoolChange::Changed,
        GroupPoolChange::Same,
        GroupPoolChange::Stale { version: 8 },
        GroupPoolChange::Unknown,
        GroupPoolChange::InUse,
    ] {
        let version = 8;
        let set = SetGroupPool {
            pool: pool(),
            version,
            strategy: FillStrategy::LeastFilled,
        };
        all.push((SeatOp::SetPool(set), SeatResult::Pool(change)));
        let pool = pool();
        let op = SeatOp::RemovePool { pool, version };
        all.push((op, SeatResult::Pool(change)));
    }
    for change in [
        GroupChange::Changed,
        GroupChange::Same,
        GroupChange::Stale { version: 8 },
        GroupChange::Unknown,
        GroupChange::NoPool,
        GroupChange::Full,
    ] {
        let tags = ["vip", "北京"].map(|tag| tag.parse().unwrap());
        let set = group().with_rank(4).with_open(false);
        let set = set.with_tags(tags).unwrap();
        all.push((SeatOp::SetGroup(set), SeatResult::Group(change)));
        all.push((SeatOp::SetGroup(group()), SeatResult::Group(change)));
    }
    all
}

#[test]
fn operations_and_answers_are_read_as_they_were_written() {
    let woken = WokenSeat {
        seat: seat(4),
        campaign: campaign(),
        subject: subject(4),
        chat: chat(3),
        until_ms: 99,
    };
    let lapsed = EndedSeat {
        seat: seat(5),
        campaign: campaign(),
        subject: subject(5),
        was: SeatState::Waiting,
    };
    for (op, result) in all() {
        let op = Op::Seats(op);
        let read = Op::parse(op.name(), &op.args_text());
        assert_eq!(read.as_ref(), Ok(&op));
        assert!(op.size() >= 1);
        for n in 0..3 {
            let outcome = Outcome {
                answer: Answer::Seats(SeatAnswer {
                    result: result.clone(),
                    woken: vec![woken.clone(); n],
                    lapsed: vec![lapsed.clone(); 2 - n],
                }),
                woken: Vec::new(),
                more: n == 1,
            };
            assert_eq!(Outcome::parse(&op, &outcome.text()), Ok(outcome));
        }
    }
}

#[test]
fn unreadable_text_is_an_error() {
    for (name, args) in [
        ("reserve_seat.1", "a"),
        ("reserve_seat.2", ""),
        ("confirm_seat.1", "wr_1\u{1f}\u{1f}v\u{1f}\u{1f}2\u{1f}x"),
        ("set_group_pool.1", "p\u{1f}1\u{1f}fill_last"),
        (
            "set_group.1",
            "c\u{1f}1\u{1f}p\u{1f}0\u{1f}9999\u{1f}0\u{1f}\u{1f}1",
        ),
        ("wake_seats.1", "p\u{1f}1\u{1f}2"),
    ] {
        let read = Op::parse(name, args);
        let is_error = matches!(read, Err(Error::Unreadable { .. } | Error::Text { .. }));
        assert!(is_error, "{name}: {read:?}");
    }
}

#[test]
fn wishes_are_in_the_order_of_preference() {
    let wishes = |tags: &GroupTags| {
        let wishes = tags.wishes().map(|wish| wish.map(ToString::to_string));
        wishes.collect::<Vec<_>>()
    };
    let of = |text: &str| Some(text.to_owned());
    assert_eq!(wishes(&GroupTags::any()), [None]);
    assert_eq!(wishes(&tags(&[], false)), [None]);
    assert_eq!(wishes(&tags(&["b", "a"], false)), [of("b"), of("a")]);
    assert_eq!(wishes(&tags(&["b", "a"], true)), [of("b"), of("a"), None]);
    let twice = ["b", "b"].map(|tag| tag.parse().unwrap());
    assert!(GroupTags::new(twice.to_vec(), true).is_err());
    let many = (0..9).map(|n| format!("t{n}").parse().unwrap());
    assert!(GroupTags::new(many.collect(), true).is_err());
}

#[test]
fn a_group_that_cannot_be_is_refused() {
    let pool = || "p".parse().unwrap();
    assert!(SetGroup::new(chat(1), 1, pool(), MAX_SCAN_CAP, 0).is_ok());
    assert!(SetGroup::new(chat(1), 1, pool(), MAX_SCAN_CAP + 1, 0).is_err());
    assert!(SetGroup::new(chat(1), 1, pool(), 200, MAX_SCAN_CAP + 1).is_err());
    let tags = (0..9).map(|n| format!("t{n}").parse().unwrap());
    assert!(group().with_tags(tags).is_err());
}

/// A customer in a group is the subject that he is elsewhere, and WeCom's userids ignore case.
#[test]
fn persons_are_known_by_their_ids() {
    let corp = CorpId::new("ww1").unwrap();
    let customer = PersonKey::customer(&corp, "wmC001");
    assert_eq!(customer.0, SubjectKey::new(&corp, "wecom", "wmC001"));
    let members = ["ZhangSan", "zhangsan"].map(|id| PersonKey::member(&corp, id));
    assert_eq!(members[0], members[1]);
    assert_ne!(members[0], PersonKey::customer(&corp, "zhangsan"));
}
