use allocation::{CorpId, MemberId, SubjectKey};
use ledger::{Transfer, TransferKind, TransferState, TransferStep};
use uuid::Uuid;
use wecom::client::{TransferRow, TransferStatus};

use super::{DAY_MS, HOUR_MS, LAG_MS, MINUTE_MS, known, step};

const T0: u64 = 1_792_000_000_000;
const HUMAN_MS: u64 = 72 * HOUR_MS;

fn transfer(taker: &str) -> Transfer {
    let corp = CorpId::new("ww1").unwrap();
    Transfer {
        id: Uuid::from_u128(7),
        subject: SubjectKey::new(&corp, "wecom", "wmC001"),
        corp,
        allocation: None,
        customer: Uuid::from_u128(1),
        giver: MemberId::new("ma").unwrap(),
        taker: MemberId::new(taker).unwrap(),
        kind: TransferKind::InService,
        state: TransferState::Waiting,
        errcode: None,
        raw_status: None,
        created_ms: T0 - 1_000,
        started_ms: Some(T0),
        takeover_ms: Some(T0 + DAY_MS),
        next_check_ms: None,
        checks: 0,
        unknown_since_ms: None,
        ended_ms: None,
    }
}

fn row(customer: &str, status: TransferStatus, takeover_ms: u64) -> TransferRow {
    TransferRow {
        external_userid: customer.to_owned(),
        status,
        takeover_time: i64::try_from(takeover_ms / 1000).ok(),
    }
}

fn look(rows: &[TransferRow], now_ms: u64) -> TransferStep {
    step(&transfer("mb"), "wmC001", rows, now_ms, HUMAN_MS)
}

/// Cases 87 and 93: no row, or no list at all (which reads as none), is nothing known.
#[test]
fn without_a_row_of_ours_nothing_changes() {
    for rows in [
        vec![],
        vec![row("wmC002", TransferStatus::Done, T0 + DAY_MS)],
    ] {
        let step = look(&rows, T0 + HOUR_MS);
        assert_eq!(step.to, TransferState::Waiting);
        assert!(!known(&step));
        assert!(step.next_check_ms.unwrap() > T0 + HOUR_MS);
    }
}

/// Case 87: of ten, those whose row came advance.
#[test]
fn each_customer_has_his_own_row() {
    let rows: Vec<TransferRow> = (0..3)
        .map(|n| row(&format!("wmC{n:03}"), TransferStatus::Done, T0 + DAY_MS))
        .collect();
    let ends = (0..10)
        .map(|n| {
            step(
                &transfer("mb"),
                &format!("wmC{n:03}"),
                &rows,
                T0 + 2 * DAY_MS,
                HUMAN_MS,
            )
        })
        .filter(|step| step.to == TransferState::Done)
        .count();
    assert_eq!(ends, 3);
}

/// Case 87: past the stated time it is a person's turn, and it is still looked at.
#[test]
fn without_an_end_a_person_is_asked() {
    let waiting = [row("wmC001", TransferStatus::Waiting, T0 + DAY_MS)];
    for rows in [&waiting[..], &[]] {
        assert_eq!(look(rows, T0 + HUMAN_MS).to, TransferState::Waiting);
        let step = look(rows, T0 + HUMAN_MS + 1);
        assert_eq!(step.to, TransferState::Human);
        assert!(step.next_check_ms.is_some());
    }
    let done = [row("wmC001", TransferStatus::Done, T0 + DAY_MS)];
    assert_eq!(look(&done, T0 + 2 * HUMAN_MS).to, TransferState::Done);
}

/// Case 89: nothing may be concluded from a status nobody knows; it is kept, and other rows count.
#[test]
fn an_unknown_status_is_kept_and_concludes_nothing() {
    for raw in [5, 0, 9] {
        let rows = [
            row("wmC002", TransferStatus::Done, T0 + DAY_MS),
            row("wmC001", TransferStatus::Other(raw), 0),
        ];
        let step = look(&rows, T0 + HOUR_MS);
        assert_eq!(step.to, TransferState::Waiting);
        assert_eq!(step.raw_status.map(i64::from), Some(raw));
    }
    let step = look(&[row("wmC001", TransferStatus::Missing, 0)], T0 + HOUR_MS);
    assert_eq!((step.to, step.raw_status), (TransferState::Waiting, None));
    // An end that is known outranks it.
    let rows = [
        row("wmC001", TransferStatus::Other(5), 0),
        row("wmC001", TransferStatus::Refused, 0),
    ];
    assert_eq!(look(&rows, T0 + HOUR_MS).to, TransferState::Refused);
}

#[test]
fn ends_are_told_apart() {
    for (status, state) in [
        (TransferStatus::Done, TransferState::Done),
        (TransferStatus::Refused, TransferState::Refused),
        (TransferStatus::ReceiverFull, TransferState::Capped),
    ] {
        let step = look(&[row("wmC001", status, 0)], T0 + HOUR_MS);
        assert_eq!(step.to, state);
        assert!(step.to.is_end() && known(&step));
    }
}

/// Case 93, attempts of long ago: the answer lists every attempt there ever was.
#[test]
fn an_attempt_before_ours_is_not_ours() {
    let old = [
        row("wmC001", TransferStatus::Done, T0 - 30 * DAY_MS),
        row("wmC001", TransferStatus::Refused, 0),
    ];
    // Ours may not be visible yet, and a refusal has no time.
    assert_eq!(look(&old, T0 + LAG_MS - 1).to, TransferState::Waiting);
    let ours = [
        old[0].clone(),
        row("wmC001", TransferStatus::Waiting, T0 + DAY_MS),
        old[1].clone(),
    ];
    let step = look(&ours, T0 + LAG_MS);
    assert_eq!(step.to, TransferState::Waiting);
    assert_eq!(step.takeover_ms, Some(T0 + DAY_MS));
    assert_eq!(step.next_check_ms, Some(T0 + DAY_MS + MINUTE_MS));
    let done = [
        old[0].clone(),
        row("wmC001", TransferStatus::Done, T0 + DAY_MS),
    ];
    assert_eq!(look(&done, T0 + 2 * DAY_MS).to, TransferState::Done);
}

/// Case 86: both transfers are looked at, each by the rows of its own pair of members.
#[test]
fn a_hint_concludes_nothing_by_itself() {
    let refused = [row("wmC001", TransferStatus::Refused, 0)];
    let waits = [row("wmC001", TransferStatus::Waiting, T0 + DAY_MS)];
    let now_ms = T0 + HOUR_MS;
    assert_eq!(look(&refused, now_ms).to, TransferState::Refused);
    assert_eq!(look(&waits, now_ms).to, TransferState::Waiting);
}

#[test]
fn looks_grow_rare() {
    let mut last = 0;
    for checks in 0..12 {
        let mut one = transfer("mb");
        one.checks = checks;
        let gap = step(&one, "wmC001", &[], T0, HUMAN_MS)
            .next_check_ms
            .unwrap()
            - T0;
        assert!(gap >= last && gap <= HOUR_MS);
        last = gap;
    }
    assert_eq!(last, HOUR_MS);
}
