//! Whatever happens to seats: the rows that the log's writer makes of it say it again, and a state can be made of them.

use std::collections::{BTreeMap, BTreeSet};

use allocation::model::{Corp, SeatPlace, SeatView};
use allocation::{
    Answer, ChatId, CorpId, JoinedAs, LogEntry, Op, Reserved, SeatAnswer, SeatId, SeatOp,
    SeatResult, SeatState, SeatsConfirmed, SetGroupPool,
};
use allocator::fission::standing::{Configured, seat_rows};
use allocator::payload::{Context, Payload};
use allocator::reception::{routes::Routes, rules};
use ledger::{
    Change, Entry, GroupEventKind, Ledger, PageRequest, SeatChange, StandingSeats, WriteBatch,
};
use test_postgres::Database;

use crate::seat_random::{MINUTE_MS, Random};

const T0: u64 = 1_792_000_000_000;

/// A state, what happened to it, and what rows cannot say of it.
struct History {
    corp: Corp,
    entries: Vec<Entry>,
    /// Where the turn of each seat began, and whether he was woken.
    turns: BTreeMap<SeatId, (u64, bool)>,
    /// Who asked in one call with others, and had been woken by it.
    vague: BTreeSet<SeatId>,
    /// Of groups that got too many, by how many, in that order.
    oversold: Vec<(ChatId, u32)>,
    /// What of that is still there.
    told: BTreeMap<ChatId, u32>,
}

impl History {
    fn random(seed: u64, n: usize) -> Self {
        let mut random = Random::new(seed);
        let mut history = Self {
            corp: Corp::new(),
            entries: Vec::new(),
            turns: BTreeMap::new(),
            vague: BTreeSet::new(),
            oversold: Vec::new(),
            told: BTreeMap::new(),
        };
        let mut now_ms = T0;
        while history.entries.len() < n {
            now_ms += [0, 1, 1000, 1000, MINUTE_MS][random.below(5)];
            let op = random.op(&history.corp, history.entries.len());
            history.step(op, now_ms);
        }
        history
    }

    fn step(&mut self, op: SeatOp, now_ms: u64) {
        let contexts = match &op {
            SeatOp::Reserve(asked) => asked.len(),
            _ => 0,
        };
        let context = Context {
            subject_kind: "unionid".to_owned(),
            ..Context::default()
        };
        let payload = Payload {
            contexts: vec![context; contexts],
            ..Payload::default()
        };
        let op = Op::Seats(op);
        let outcome = self.corp.apply(&op, now_ms);
        let entry = LogEntry {
            seq: self.corp.seq(),
            at_ms: now_ms,
            op,
            outcome,
            payload: None,
        };
        let changes = rules::changes(&entry, &payload, &Routes::default());
        for change in &changes {
            match change {
                Change::Seat(SeatChange::Begun(new)) => {
                    self.turns.insert(new.seat, (entry.seq, false));
                }
                Change::Seat(SeatChange::Held { seat, .. }) => {
                    self.turns.insert(*seat, (entry.seq, true));
                }
                _ => {}
            }
        }
        let (Op::Seats(op), Answer::Seats(answer)) = (&entry.op, &entry.outcome.answer) else {
            panic!("{entry:?}");
        };
        self.note_vague(answer);
        self.note_oversold(op, answer);
        self.entries.push(Entry::new(&entry, changes));
    }

    fn note_vague(&mut self, answer: &SeatAnswer) {
        let SeatResult::Reserved(reserved) = &answer.result else {
            return;
        };
        if reserved.len() > 1 {
            let woken = answer.woken.iter().map(|woken| woken.seat);
            let again = |seat: &SeatId| {
                let is =
                    |one: &Reserved| matches!(one, Reserved::Again { seat: of, .. } if of == seat);
                reserved.iter().any(is)
            };
            self.vague.extend(woken.filter(again));
        }
    }

    fn note_oversold(&mut self, op: &SeatOp, answer: &SeatAnswer) {
        if let SeatOp::RemoveGroup { chat, .. } = op {
            self.told.remove(chat);
        }
        let (SeatOp::Confirm(change), SeatResult::Confirmed(confirmed)) = (op, &answer.result)
        else {
            return;
        };
        if let SeatsConfirmed::Counted { count, joined, .. } = confirmed {
            let past_us = joined.iter().any(|one| match &one.joined {
                JoinedAs::Seat { was, from, .. } => *was != SeatState::Held || from.is_some(),
                JoinedAs::Already { .. } | JoinedAs::Direct => true,
            });
            let told = self.told.entry(change.chat.clone()).or_default();
            *told = (*told).min(count.oversold);
            if past_us && count.oversold > *told {
                *told = count.oversold;
                let excess = (change.chat.clone(), count.oversold);
                self.oversold.push(excess);
            }
        }
    }

    fn made_of(&self, standing: &StandingSeats) -> Corp {
        let pools = self.corp.group_pools().map(|view| SetGroupPool {
            pool: view.pool,
            version: view.version,
            strategy: view.strategy,
        });
        let configured = Configured {
            pools: pools.collect(),
            groups: self.corp.groups().map(|view| view.config).collect(),
            ..Configured::default()
        };
        let (seq, at_ms) = (self.corp.seq(), self.corp.at_ms());
        let made = Corp::from_rows(seq, at_ms, Vec::new(), Vec::new(), Vec::new());
        made.with_seats(seat_rows(standing, configured))
    }

    /// By name: without memories that are over, and without what is vague.
    fn seats(&self, corp: &Corp) -> Vec<SeatView> {
        let now_ms = self.corp.at_ms();
        let mut seats = corp.seats();
        seats.retain(|view| match view.place {
            SeatPlace::Expired { until_ms, .. } => until_ms > now_ms,
            _ => true,
        });
        for view in &mut seats {
            let is_vague = self.vague.contains(&view.seat);
            if let SeatPlace::Held { anonymous, via, .. }
            | SeatPlace::Waiting { anonymous, via, .. } = &mut view.place
                && is_vague
            {
                (*anonymous, *via) = (false, None);
            }
        }
        seats.sort_by_key(SeatView::name);
        seats
    }

    /// Those who hold or wait, in their order; of one entry first those who were woken.
    fn in_line(&self, corp: &Corp) -> Vec<SeatId> {
        let seats = corp.seats().into_iter();
        let in_line = seats.filter(|view| {
            matches!(
                view.place,
                SeatPlace::Held { .. } | SeatPlace::Waiting { .. }
            )
        });
        let mut in_line: Vec<SeatId> = in_line.map(|view| view.seat).collect();
        assert!(in_line.is_sorted_by_key(|seat| self.turns[seat].0));
        in_line.sort_by_key(|seat| (self.turns[seat].0, !self.turns[seat].1));
        in_line
    }
}

async fn ledger() -> (Database, Ledger) {
    let texts: Vec<&str> = ledger::MIGRATIONS
        .iter()
        .map(|migration| migration.sql)
        .collect();
    let database = Database::migrated(texts, |url| async move {
        let ledger = Ledger::connect(ledger::Config::new(url)).await.unwrap();
        ledger.migrate().await.unwrap();
        ledger.close().await;
    })
    .await;
    let ledger = Ledger::connect(ledger::Config::new(database.url()));
    let ledger = ledger.await.unwrap();
    (database, ledger)
}

async fn write(ledger: &Ledger, corp: &CorpId, entries: &[Entry], random: &mut Random) {
    ledger.corps().ensure(corp).await.unwrap();
    let mut rest = entries;
    while !rest.is_empty() {
        let size = (1 + random.below(60)).min(rest.len());
        let (now, later) = rest.split_at(size);
        let write = ledger.begin_log_write(corp).await.unwrap().unwrap();
        let batch = WriteBatch {
            generation: 0,
            entries: now.to_vec(),
        };
        write.commit(&batch).await.unwrap();
        rest = later;
    }
}

/// Who has which seat, who is in which group, who waits behind whom, and how full groups are: the same in the rows, whatever
/// batches they were written in.
#[tokio::test]
async fn a_state_made_of_rows_has_the_same_seats() {
    let (_database, ledger) = ledger().await;
    let (mut n_held, mut n_waiting, mut n_taken, mut n_past) = (0, 0, 0, 0);
    let (mut n_oversold, mut n_vague, mut n_left_out) = (0, 0, 0);
    for seed in 0..32 {
        let corp = CorpId::new(format!("ww{seed}")).unwrap();
        let history = History::random(seed, 250);
        write(&ledger, &corp, &history.entries, &mut Random::new(seed)).await;
        let standing = ledger.allocations().standing(&corp).await.unwrap().unwrap();
        assert_eq!(standing.at_ms, history.corp.at_ms());
        let made = history.made_of(&standing.seats);
        assert_eq!(made.problems(), Vec::<String>::new(), "seed {seed}");
        let seats = history.seats(&history.corp);
        assert_eq!(history.seats(&made), seats, "seed {seed}");
        assert_eq!(
            history.in_line(&made),
            history.in_line(&history.corp),
            "seed {seed}"
        );
        assert!(made.groups().eq(history.corp.groups()), "seed {seed}");
        assert!(made.group_pools().eq(history.corp.group_pools()));
        check_rows(&ledger, &corp, &history).await;
        for view in &seats {
            match view.place {
                SeatPlace::Held { .. } => n_held += 1,
                SeatPlace::Waiting { .. } => n_waiting += 1,
                SeatPlace::Taken { .. } => n_taken += 1,
                SeatPlace::Expired { .. } => n_past += 1,
            }
        }
        n_left_out += history.corp.seats().len() - seats.len();
        n_oversold += history.oversold.len();
        n_vague += history.vague.len();
    }
    let n = (n_held, n_waiting, n_taken, n_past);
    assert!(
        n_held > 20 && n_waiting > 20 && n_taken > 20 && n_past > 5,
        "{n:?}"
    );
    assert!(n_oversold > 10 && n_vague > 0 && n_left_out > 0);
}

/// What the lists say of groups.
async fn check_rows(ledger: &Ledger, corp: &CorpId, history: &History) {
    let table = ledger.seats();
    let groups: Vec<_> = history.corp.groups().collect();
    let chats: Vec<ChatId> = groups
        .iter()
        .map(|view| view.config.chat().clone())
        .collect();
    let counts = table.group_counts(corp, &chats).await.unwrap();
    for view in &groups {
        let count = counts.get(view.config.chat()).cloned().unwrap_or_default();
        assert_eq!(count.people, view.count.people);
        assert_eq!(count.held, u64::from(view.count.held));
        assert_eq!(count.seen, view.seen);
        let seated = view.people.iter().filter(|one| one.seat.is_some());
        assert_eq!(count.confirmed + count.late, seated.count() as u64);
    }
    let mut page = PageRequest {
        limit: 500,
        cursor: None,
    };
    let mut told = Vec::new();
    loop {
        let kind = Some(GroupEventKind::Oversold);
        let events = table.group_events(corp, None, kind, &page).await.unwrap();
        let items = events.items.into_iter();
        told.extend(items.map(|event| (event.chat, event.excess.unwrap())));
        page.cursor = events.next;
        if page.cursor.is_none() {
            break;
        }
    }
    told.sort();
    let mut oversold = history.oversold.clone();
    oversold.sort();
    assert_eq!(told, oversold);
}
