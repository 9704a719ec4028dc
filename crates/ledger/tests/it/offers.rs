//! Offers in the ledger: who was asked, what he said, what the allocation is meanwhile.

use std::collections::HashMap;

use allocation::{MemberId, OfferRule, Reason, Strategy, Weight};
use ledger::{
    AllocationFilter, AllocationState, Change, ChannelRefused, EffectState, NewAllocation,
    NewChannel, NewMember, NewOffer, NewPool, Offer, OfferEnd, OfferEnded, OfferFilter,
    PageRequest, PoolRefused, Precondition, Put, SettledAs, Trail, Visits,
};

use crate::setup::{
    Setup, T0, allocation, assigned, batch, closed, decided, effect_of, entry, member, pool, setup,
};

fn offered(n: u64, to: &str, epoch: u64) -> Change {
    Change::Offered(NewOffer {
        allocation: allocation(n),
        member: member(to),
        giver: None,
        epoch,
        until_ms: T0 + 60_000,
    })
}

fn ended(n: u64, epoch: u64, how: OfferEnd) -> Change {
    let answered = how != OfferEnd::TimedOut;
    Change::OfferEnded(OfferEnded {
        allocation: allocation(n),
        epoch,
        how,
        reason: (how == OfferEnd::Declined).then(|| Reason::new("busy").unwrap()),
        responded_by: answered.then(|| "key:1".to_owned()),
    })
}

fn undecided(n: u64, epoch: u64) -> Change {
    Change::Undecided {
        allocation: allocation(n),
        epoch,
    }
}

async fn row(setup: &Setup, n: u64) -> ledger::Allocation {
    let rows = setup.ledger.allocations();
    let row = rows.get(&setup.corp, allocation(n)).await.unwrap();
    row.unwrap()
}

async fn offers(setup: &Setup, n: u64) -> Vec<Offer> {
    let offers = setup.ledger.offers();
    let offers = offers.of_allocation(&setup.corp, allocation(n)).await;
    offers.unwrap()
}

async fn ends(setup: &Setup, n: u64) -> Vec<(String, Option<OfferEnd>)> {
    let offers = offers(setup, n).await.into_iter();
    offers
        .map(|offer| (offer.member.to_string(), offer.ended_as))
        .collect()
}

#[tokio::test]
async fn an_offer_goes_from_member_to_member_and_to_a_person() {
    let setup = setup().await;
    let new = NewAllocation {
        giver: Some(member("mH")),
        ..decided(1, None)
    };
    setup
        .write(vec![Change::Decided(new), offered(1, "mA", 0)])
        .await;
    let first = row(&setup, 1).await;
    assert_eq!(first.state, AllocationState::Offered);
    assert_eq!(
        (first.member.clone(), first.giver.clone(), first.assigned_ms),
        (Some(member("mA")), Some(member("mH")), None)
    );
    assert_eq!(
        (first.offer_since_ms, first.offer_until_ms),
        (Some(T0 + 1), Some(T0 + 60_000))
    );
    // He is not driven to an end: there is nothing to carry out.
    let unsettled = setup.ledger.allocations();
    let page = unsettled.unsettled(&setup.corp, T0 + 99_000, None, 9).await;
    assert!(page.unwrap().rows.is_empty());

    setup
        .write(vec![ended(1, 0, OfferEnd::Declined), offered(1, "mB", 1)])
        .await;
    let second = row(&setup, 1).await;
    assert_eq!((second.member, second.epoch), (Some(member("mB")), 1));
    assert_eq!(second.holder, Some(member("mH")));

    // Before its time was over: he had gone.
    setup
        .write(vec![ended(1, 1, OfferEnd::TimedOut), undecided(1, 2)])
        .await;
    let third = row(&setup, 1).await;
    assert_eq!(
        (third.state, third.member, third.epoch),
        (AllocationState::Undecided, None, 2)
    );
    assert_eq!(
        (third.offer_since_ms, third.offer_until_ms),
        (Some(T0 + 3), None)
    );
    let all = offers(&setup, 1).await;
    assert_eq!(
        (all[0].ended_as, all[0].ended_ms, all[0].reason.as_deref()),
        (Some(OfferEnd::Declined), Some(T0 + 2), Some("busy"))
    );
    assert_eq!(all[0].responded_by.as_deref(), Some("key:1"));
    assert_eq!(
        (all[1].ended_as, all[1].responded_by.as_deref()),
        (Some(OfferEnd::Offline), None)
    );

    // A person gives it to somebody.
    setup.write(vec![assigned(1, "mC", Some(3))]).await;
    let last = row(&setup, 1).await;
    assert_eq!(
        (last.state, last.member, last.epoch, last.assigned_ms),
        (AllocationState::Open, Some(member("mC")), 3, Some(T0 + 4))
    );
    assert_eq!((last.offer_since_ms, last.offer_until_ms), (None, None));
}

#[tokio::test]
async fn accepting_makes_it_his() {
    let setup = setup().await;
    setup
        .write(vec![Change::Decided(decided(1, None)), offered(1, "mA", 0)])
        .await;
    setup
        .write(vec![
            ended(1, 0, OfferEnd::Accepted),
            assigned(1, "mA", None),
            Change::Settled {
                allocation: allocation(1),
                how: SettledAs::Done,
            },
        ])
        .await;
    let row = row(&setup, 1).await;
    assert_eq!(
        (row.state, row.epoch, row.assigned_ms, row.offer_until_ms),
        (AllocationState::Open, 0, Some(T0 + 2), None)
    );
    assert_eq!(row.settled_as.as_deref(), Some("done"));
    assert_eq!(
        ends(&setup, 1).await,
        [("ma".to_owned(), Some(OfferEnd::Accepted))]
    );
}

/// The batch is cut anywhere and written again: it is there once.
#[tokio::test]
async fn written_twice_is_once() {
    let setup = setup().await;
    let entries = [
        entry(
            1,
            vec![Change::Decided(decided(1, None)), offered(1, "mA", 0)],
        ),
        entry(
            2,
            vec![ended(1, 0, OfferEnd::TimedOut), offered(1, "mB", 1)],
        ),
        entry(3, vec![ended(1, 1, OfferEnd::Declined), undecided(1, 2)]),
    ];
    for n in [2, 2, 3, 3] {
        let batch = batch(entries[..n].to_vec());
        setup.write_batch(&batch).await.unwrap();
    }
    assert_eq!(
        ends(&setup, 1).await,
        [
            ("ma".to_owned(), Some(OfferEnd::Offline)),
            ("mb".to_owned(), Some(OfferEnd::Declined))
        ]
    );
    assert_eq!(row(&setup, 1).await.state, AllocationState::Undecided);
}

#[tokio::test]
async fn an_offer_ends_with_its_allocation() {
    let setup = setup().await;
    for n in 1..=3 {
        setup
            .write(vec![Change::Decided(decided(n, None)), offered(n, "mA", 0)])
            .await;
    }
    let void = Change::Settled {
        allocation: allocation(3),
        how: SettledAs::Void(Reason::new("relation_gone").unwrap()),
    };
    setup
        .write(vec![closed(1), assigned(2, "mB", Some(1)), void])
        .await;
    let end = async |n| ends(&setup, n).await[0].1;
    assert_eq!(end(1).await, Some(OfferEnd::Closed));
    assert_eq!(end(2).await, Some(OfferEnd::Reassigned));
    assert_eq!(end(3).await, Some(OfferEnd::Closed));
    let closed = row(&setup, 1).await;
    assert_eq!(
        (closed.state, closed.offer_until_ms),
        (AllocationState::Closed, None)
    );
}

/// Of an allocation that the ledger refused nobody was asked.
#[tokio::test]
async fn what_lost_is_not_offered() {
    let setup = setup().await;
    setup
        .write(vec![Change::Decided(decided(1, Some("mA")))])
        .await;
    let same = NewAllocation {
        allocation: allocation(2),
        ..decided(1, None)
    };
    let written = setup
        .write(vec![Change::Decided(same), offered(2, "mB", 0)])
        .await;
    assert_eq!(written.conflicts.len(), 1);
    assert_eq!(row(&setup, 2).await.state, AllocationState::Closed);
    // Redis moves it on before it is told.
    setup
        .write(vec![ended(2, 0, OfferEnd::TimedOut), offered(2, "mC", 1)])
        .await;
    assert!(offers(&setup, 2).await.is_empty());
    assert_eq!(
        row(&setup, 2).await.close_reason.as_deref(),
        Some("conflict")
    );
}

/// A card that asks and is not sent is taken back when somebody else is asked.
#[tokio::test]
async fn what_is_to_be_sent_moves_with_the_offer() {
    let setup = setup().await;
    setup
        .write(vec![
            Change::Decided(decided(1, None)),
            offered(1, "mA", 0),
            Change::Effect(effect_of(1, "to mA", Some(0))),
        ])
        .await;
    setup
        .write(vec![
            ended(1, 0, OfferEnd::TimedOut),
            offered(1, "mB", 1),
            Change::Effect(effect_of(1, "to mB", Some(1))),
        ])
        .await;
    let rows = setup.ledger.outbox();
    let rows = rows
        .of_allocation(&setup.corp, allocation(1))
        .await
        .unwrap();
    let state = |key: &str| rows.iter().find(|row| row.key == key).unwrap().state;
    assert_eq!(state("to mA"), EffectState::Cancelled);
    assert_eq!(state("to mB"), EffectState::Pending);
}

#[tokio::test]
async fn lists_find_offers_and_what_a_person_must_decide() {
    let setup = setup().await;
    for n in 1..=5 {
        setup
            .write(vec![Change::Decided(decided(n, None)), offered(n, "mA", 0)])
            .await;
    }
    setup
        .write(vec![
            ended(4, 0, OfferEnd::Declined),
            offered(4, "mB", 1),
            ended(5, 0, OfferEnd::Declined),
            undecided(5, 1),
        ])
        .await;
    let states = [
        (AllocationState::Offered, 4),
        (AllocationState::Undecided, 1),
        (AllocationState::Waiting, 0),
        (AllocationState::Open, 0),
    ];
    for (state, count) in states {
        let filter = AllocationFilter {
            state: Some(state),
            ..AllocationFilter::default()
        };
        let rows = setup.ledger.allocations();
        let all = PageRequest::default();
        let page = rows.list(&setup.corp, &filter, &all).await.unwrap();
        assert_eq!(page.items.len(), count, "{state:?}");
        assert!(page.items.iter().all(|row| row.state == state));
    }
    // Page by page, both ways, every offer once; the two of one allocation may be of one moment.
    let list = async |cursor: Option<String>| {
        let page = PageRequest { limit: 2, cursor };
        let offers = setup.ledger.offers();
        let filter = OfferFilter::default();
        offers.list(&setup.corp, &filter, &page).await.unwrap()
    };
    let first = list(None).await;
    let second = list(first.next.clone()).await;
    let third = list(second.next.clone()).await;
    assert_eq!(third.next, None);
    assert_eq!(list(third.previous.clone()).await.items, second.items);
    let of = |page: &ledger::Page<Offer>| page.items.len();
    assert_eq!((of(&first), of(&second), of(&third)), (2, 2, 2));
    let mut seen = HashMap::new();
    for offer in [first.items, second.items, third.items].concat() {
        assert_eq!(seen.insert((offer.allocation, offer.epoch), ()), None);
    }
    let count = async |filter: OfferFilter| {
        let offers = setup.ledger.offers();
        let all = PageRequest::default();
        let page = offers.list(&setup.corp, &filter, &all).await.unwrap();
        page.items.len()
    };
    let any = OfferFilter::default;
    let of_member = |name: &str| Some(member(name));
    assert_eq!(
        count(OfferFilter {
            member: of_member("mB"),
            ..any()
        })
        .await,
        1
    );
    assert_eq!(
        count(OfferFilter {
            ended_as: Some(None),
            ..any()
        })
        .await,
        4
    );
    let declined = Some(Some(OfferEnd::Declined));
    assert_eq!(
        count(OfferFilter {
            ended_as: declined,
            ..any()
        })
        .await,
        2
    );
    assert_eq!(
        count(OfferFilter {
            pool: Some(pool("g2")),
            ..any()
        })
        .await,
        0
    );
    let one = Some(allocation(4));
    assert_eq!(
        count(OfferFilter {
            allocation: one,
            ..any()
        })
        .await,
        2
    );
    let wrong = PageRequest {
        limit: 2,
        cursor: Some("31".to_owned()),
    };
    let refused = setup.ledger.offers();
    let refused = refused.list(&setup.corp, &any(), &wrong).await;
    assert!(matches!(refused, Err(ledger::Error::Cursor)));
}

/// What a state is made of that cannot be folded.
#[tokio::test]
async fn who_was_asked_before_stands_in_the_rows() {
    let setup = setup().await;
    for n in 1..=3 {
        setup
            .write(vec![Change::Decided(decided(n, None)), offered(n, "mB", 0)])
            .await;
    }
    let decline = |n, epoch| ended(n, epoch, OfferEnd::Declined);
    setup
        .write(vec![decline(1, 0), offered(1, "mA", 1), decline(2, 0)])
        .await;
    setup
        .write(vec![offered(2, "mA", 1), decline(2, 1), undecided(2, 2)])
        .await;
    setup.write(vec![closed(3)]).await;
    let standing = setup.ledger.allocations();
    let standing = standing.standing(&setup.corp).await.unwrap().unwrap();
    let (m_a, m_b) = (member("mA"), member("mB"));
    let tried: HashMap<_, Vec<MemberId>> = standing.tried;
    let expected = HashMap::from([
        (allocation(1), vec![m_b.clone()]),
        (allocation(2), vec![m_b, m_a]),
    ]);
    assert_eq!(tried, expected);
}

fn trail() -> Trail {
    Trail::system(T0, "test")
}

async fn put_pool(setup: &Setup, offers: Option<OfferRule>) -> Put<ledger::Pool, PoolRefused> {
    let new = NewPool {
        name: "g1".to_owned(),
        strategy: Strategy::WeightedRoundRobin,
        load_window_seconds: None,
        offers,
        routing: Default::default(),
        members: vec![(member("mA"), Weight::from_thousandths(1_000).unwrap())],
        limits: Default::default(),
    };
    let pools = setup.ledger.pools();
    let (id, trail) = (pool("g1"), trail());
    let put = pools.put(&setup.corp, &id, &new, Precondition::None, &trail);
    put.await.unwrap()
}

async fn put_channel(setup: &Setup, pages: bool) -> Put<ledger::Channel, ChannelRefused> {
    let visits = Visits {
        slots_per_member: 1,
        hold_seconds: 60,
        title: String::new(),
    };
    let new = NewChannel {
        name: "c1".to_owned(),
        pool: pool("g1"),
        states: Vec::new(),
        welcome: None,
        card: true,
        needs: Vec::new(),
        limits: ledger::ChannelLimits::default(),
        visits: pages.then_some(visits),
    };
    let channels = setup.ledger.channels();
    let (id, trail) = ("c1".parse().unwrap(), trail());
    let put = channels.put(&setup.corp, &id, &new, Precondition::None, &trail);
    put.await.unwrap()
}

/// A public page shows a member at once: nobody can be asked first. In whichever order they are put.
#[tokio::test]
async fn a_pool_that_asks_has_no_public_page() {
    let setup = setup().await;
    let new = NewMember {
        userid: "mA".to_owned(),
        ..NewMember::default()
    };
    let members = setup.ledger.members();
    let (id, trail) = (member("mA"), trail());
    let put = members.put(&setup.corp, &id, &new, Precondition::None, &trail);
    put.await.unwrap();
    let rule = OfferRule {
        accept_ms: 60_000,
        tries: 3,
    };
    let Put::Created(made) = put_pool(&setup, Some(rule)).await else {
        panic!("it is new");
    };
    assert_eq!((made.offers, made.version), (Some(rule), 1));
    assert!(matches!(put_pool(&setup, Some(rule)).await, Put::Same(_)));
    let refused = put_channel(&setup, true).await;
    assert_eq!(refused, Put::Refused(ChannelRefused::PoolOffers));
    assert!(matches!(put_channel(&setup, false).await, Put::Created(_)));

    let Put::Changed(without) = put_pool(&setup, None).await else {
        panic!("it asked before");
    };
    assert_eq!((without.offers, without.version), (None, 2));
    assert!(matches!(put_channel(&setup, true).await, Put::Changed(_)));
    let refused = put_pool(&setup, Some(rule)).await;
    let channels = vec!["c1".parse().unwrap()];
    assert_eq!(refused, Put::Refused(PoolRefused::Visits(channels)));
}
