//! Whoever came into a group is in the rows once, and as what.

use std::collections::{BTreeMap, HashMap};

use allocation::PersonKey;
use wecom_sim::CorpState;

use super::{Subjects, is_lost};
use crate::prove::checks::{Invariant, invariant};
use crate::prove::seats::Script;
use crate::prove::seats::log::Problems;
use crate::prove::seats::page::is_anonymous;
use crate::stage::Stage;

/// One stay of somebody in a group, and the seat that it confirmed.
#[derive(Debug)]
struct Stay {
    chat_id: String,
    came_as: Option<String>,
    is_in: bool,
    subject: Option<String>,
    matched: Option<String>,
    state: Option<String>,
}

#[derive(Debug, Default)]
struct Tally {
    confirmed: u64,
    late: u64,
    direct: u64,
    guessed: u64,
    guessed_right: u64,
    lost: u64,
    friends: u64,
    unseen: u64,
    scanned_late: u64,
}

pub(super) async fn joined(
    stage: &Stage,
    script: &Script,
    subjects: &Subjects,
    wecom: &CorpState,
) -> anyhow::Result<Invariant> {
    let stays = stays(stage).await?;
    let mut problems = Problems::default();
    let mut tally = Tally::default();
    let mut checked = 0;
    for came in &script.came {
        let (Some(joined), Some(shown)) = (&came.joined, &came.shown) else {
            continue;
        };
        checked += 1;
        tally.scanned_late += u64::from(joined.late);
        let person = PersonKey::customer(&stage.corp, &joined.customer).to_string();
        let his = stays.get(&person).map_or(&[][..], Vec::as_slice);
        let wanted = if joined.left { 0 } else { 1 };
        let is_in = his.iter().filter(|stay| stay.is_in).count();
        let elsewhere = his.iter().any(|stay| stay.chat_id != joined.chat);
        // A read that lags behind the event of his leaving has him in it once more, without a name.
        let named = || {
            let echo = |stay: &&Stay| joined.left && !stay.is_in && stay.came_as.is_none();
            his.iter().filter(move |stay| !echo(stay))
        };
        if is_in != wanted || elsewhere || named().count() > 1 {
            problems.add(|| format!("visitor {} ({joined:?}) has {his:?}", came.n));
            continue;
        }
        let Some(stay) = named().next() else {
            // In and out again between two reads.
            tally.unseen += 1;
            continue;
        };
        let visitor = shown.visitor.to_string();
        let is_his = stay.subject.as_deref() == Some(visitor.as_str());
        let is_brought = joined.friend.is_some();
        let is_lost = !subjects.has(&visitor) || is_lost(script, shown);
        match stay.came_as.as_deref() {
            Some("seat") => {
                match stay.state.as_deref() {
                    Some("late") => tally.late += 1,
                    _ => tally.confirmed += 1,
                }
                let by_name = matches!(stay.matched.as_deref(), Some("unionid" | "external_id"));
                if is_anonymous(came.n) {
                    tally.guessed += 1;
                    tally.guessed_right += u64::from(is_his);
                    if by_name || is_brought {
                        problems.add(|| format!("visitor {}, unnamed, has {stay:?}", came.n));
                    }
                } else if is_lost && !is_his {
                    // Then nothing names him either.
                    tally.lost += 1;
                } else if !is_his || !by_name {
                    problems.add(|| format!("visitor {} ({joined:?}) has {stay:?}", came.n));
                }
            }
            Some("direct") if is_anonymous(came.n) => tally.direct += 1,
            Some("direct") if is_lost => tally.lost += 1,
            _ => problems.add(|| format!("visitor {} ({joined:?}) has {stay:?}", came.n)),
        }
        if let Some(friend) = &joined.friend {
            tally.friends += 1;
            let person = PersonKey::customer(&stage.corp, friend).to_string();
            let direct = stays.get(&person).is_some_and(|his| {
                matches!(&his[..], [stay] if stay.is_in && stay.came_as.as_deref() == Some("direct"))
            });
            if !direct {
                problems.add(|| format!("{friend} is {:?}", stays.get(&person)));
            }
        }
    }
    once_at_wecom(wecom, &mut problems);
    let Tally {
        confirmed,
        late,
        direct,
        guessed,
        guessed_right,
        lost,
        friends,
        unseen,
        scanned_late,
    } = tally;
    Ok(invariant(
        "whoever came is in once, on his seat where he has a name",
        problems.count == 0 && checked > 0,
        checked,
        format!(
            "{}; {scanned_late} scanned late; {confirmed} confirmed, {late} late, {direct} unnamed ones direct, {lost} whose seat was lost, {unseen} gone \
             unnamed, {friends} friends direct; of {guessed} guesses {guessed_right} were right",
            problems.text()
        ),
    ))
}

/// Nobody is in two groups.
fn once_at_wecom(wecom: &CorpState, problems: &mut Problems) {
    let mut groups: BTreeMap<&str, u32> = BTreeMap::new();
    let people = wecom.groups.iter().flat_map(|group| &group.members);
    for one in people.filter(|one| !one.employee) {
        *groups.entry(&one.id).or_default() += 1;
    }
    for (id, n) in groups.into_iter().filter(|(_, n)| *n > 1) {
        problems.add(|| format!("{id} is in {n} groups"));
    }
}

async fn stays(stage: &Stage) -> anyhow::Result<HashMap<String, Vec<Stay>>> {
    type Row = (
        String,
        String,
        Option<String>,
        bool,
        Option<String>,
        Option<String>,
        Option<String>,
    );
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT p.person, p.chat_id, p.came_as, p.left_at IS NULL, s.subject, s.matched, s.state
         FROM group_people AS p LEFT JOIN seats AS s USING (seat_id)",
    )
    .fetch_all(stage.ledger.pool())
    .await?;
    let mut stays: HashMap<String, Vec<Stay>> = HashMap::new();
    for (person, chat_id, came_as, is_in, subject, matched, state) in rows {
        stays.entry(person).or_default().push(Stay {
            chat_id,
            came_as,
            is_in,
            subject,
            matched,
            state,
        });
    }
    Ok(stays)
}
