//! Inviters: whose page is it, and who of those they brought stayed long enough to count.
//!
//! Pages need no Postgres for a code that was looked up before. What is kept never changes, so nothing has to be told; there may
//! be hundreds of thousands, so the last used are kept. Codes that nobody has are remembered too, and only so many are looked
//! up in a second: whoever guesses codes finds out that, and costs Postgres nothing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use allocation::{CampaignId, CorpId, InviterId, Via};
use ledger::{EdgesWritten, InviterPage, inviter_via};
use metrics::counter;
use moka::sync::Cache;
use tokio_util::sync::CancellationToken;

use super::dirty::CHAT;
use crate::{
    app::{App, CorpApp},
    backoff::{Backoff, jittered, sleep},
    caught_up,
    faults::with_causes,
};

/// Inviters whose pages are in memory, some 200 bytes each.
const KNOWN: u64 = 100_000;
/// Codes that nobody has. A new inviter's page may be tried before he is made, by whoever makes up codes: no harm.
const UNKNOWN: u64 = 20_000;
/// A code that nobody has is believed so long.
const UNKNOWN_FOR: Duration = Duration::from_secs(60);
/// Codes looked up in a second, in this process.
const LOOKS_A_SECOND: u64 = 200;
/// How long a look may take: a visitor waits for it.
const LOOK: Duration = Duration::from_millis(500);
/// Of a code, and all that it may have.
const CODE_CHARS: usize = 22;

/// How often it is looked whose time is over, and how many at once.
const PAUSE: Duration = Duration::from_millis(1_000);
const BATCH: u32 = 1_000;
/// How long the ledger may take to get where Redis was.
const CATCH_UP: Duration = Duration::from_secs(5);

/// It cannot be said now whose code it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it cannot be looked up now whose page it is")]
pub struct Busy;

/// Whose pages are whose.
#[derive(Debug)]
pub struct Pages {
    by_code: Cache<String, Arc<InviterPage>>,
    by_id: Cache<(CorpId, CampaignId, InviterId), Arc<InviterPage>>,
    unknown: Cache<String, ()>,
    /// The second, and how many looks there were in it.
    second: AtomicU64,
    looks: AtomicU64,
}

impl Default for Pages {
    fn default() -> Self {
        Self {
            by_code: Cache::new(KNOWN),
            by_id: Cache::new(KNOWN),
            unknown: Cache::builder()
                .max_capacity(UNKNOWN)
                .time_to_live(UNKNOWN_FOR)
                .build(),
            second: AtomicU64::new(0),
            looks: AtomicU64::new(0),
        }
    }
}

impl Pages {
    /// In memory.
    pub fn known(&self, code: &str) -> Option<Arc<InviterPage>> {
        self.by_code.get(code)
    }

    fn keep(&self, page: InviterPage) -> Arc<InviterPage> {
        let page = Arc::new(page);
        self.unknown.invalidate(&page.public_code);
        self.by_code
            .insert(page.public_code.clone(), Arc::clone(&page));
        let id = (
            page.corp.clone(),
            page.campaign.clone(),
            page.inviter.clone(),
        );
        self.by_id.insert(id, Arc::clone(&page));
        page
    }

    /// State of an inviter's own ways, while he is in memory.
    pub fn via(&self, corp: &CorpId, campaign: &CampaignId, inviter: &InviterId) -> Option<Via> {
        let id = (corp.clone(), campaign.clone(), inviter.clone());
        inviter_via(&self.by_id.get(&id)?.public_code)
    }

    /// One that was made or read just now.
    pub fn learn(&self, corp: &CorpId, inviter: &ledger::Inviter) {
        self.keep(InviterPage {
            corp: corp.clone(),
            campaign: inviter.campaign.clone(),
            inviter: inviter.id.clone(),
            public_code: inviter.public_code.clone(),
        });
    }

    /// One more look is allowed in this second.
    fn may_look(&self, now_ms: u64) -> bool {
        let second = now_ms / 1_000;
        if self.second.swap(second, Relaxed) != second {
            self.looks.store(0, Relaxed);
        }
        self.looks.fetch_add(1, Relaxed) < LOOKS_A_SECOND
    }
}

/// It may be one.
fn is_code(code: &str) -> bool {
    code.len() == CODE_CHARS
        && code
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || (b'2'..=b'7').contains(&byte))
}

/// Whose page has this code. None: nobody's.
pub async fn by_code(app: &App, code: &str) -> Result<Option<Arc<InviterPage>>, Busy> {
    let pages = &app.inviter_pages;
    if let Some(page) = pages.by_code.get(code) {
        return Ok(Some(page));
    }
    if !is_code(code) || pages.unknown.contains_key(code) {
        return Ok(None);
    }
    let found = look(app, app.ledger.inviters().by_code(code)).await?;
    Ok(match found {
        Some(page) => Some(pages.keep(page)),
        None => {
            pages.unknown.insert(code.to_owned(), ());
            None
        }
    })
}

/// An inviter of the campaign, by his id or the code of his page.
pub async fn named(
    app: &App,
    corp: &CorpApp,
    campaign: &CampaignId,
    name: &str,
) -> Result<Option<InviterId>, Busy> {
    let ours = |page: &Arc<InviterPage>| page.corp == corp.id && page.campaign == *campaign;
    if is_code(name) {
        let page = by_code(app, name).await?;
        return Ok(page.filter(ours).map(|page| page.inviter.clone()));
    }
    let Ok(id) = InviterId::new(name) else {
        return Ok(None);
    };
    let pages = &app.inviter_pages;
    let key = (corp.id.clone(), campaign.clone(), id.clone());
    if pages.by_id.contains_key(&key) {
        return Ok(Some(id));
    }
    let unknown = format!("{} {campaign} {id}", corp.id);
    if pages.unknown.contains_key(&unknown) {
        return Ok(None);
    }
    let found = look(app, app.ledger.inviters().page(&corp.id, campaign, &id)).await?;
    Ok(match found {
        Some(page) => Some(pages.keep(page).inviter.clone()),
        None => {
            pages.unknown.insert(unknown, ());
            None
        }
    })
}

async fn look<T>(
    app: &App,
    look: impl Future<Output = Result<T, ledger::Error>>,
) -> Result<T, Busy> {
    if !app.inviter_pages.may_look(app.now_ms()) {
        counter!("paidan_inviter_looks_refused_total").increment(1);
        return Err(Busy);
    }
    match tokio::time::timeout(LOOK, look).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => {
            tracing::warn!(error = %with_causes(&error), "whose page it is could not be looked up");
            Err(Busy)
        }
        Err(_) => Err(Busy),
    }
}

/// Counts what became of edges.
pub(crate) fn tally(corp: &CorpApp, written: &EdgesWritten) {
    for ((state, reason), n) in &written.states {
        edges(corp, state, reason, *n);
    }
    goals(corp, written.goals, written.effects);
}

fn edges(corp: &CorpApp, state: &'static str, reason: &'static str, n: u64) {
    if n > 0 {
        counter!("paidan_edges_total", "corp" => corp.id.to_string(), "state" => state, "reason" => reason)
            .increment(n);
    }
}

fn goals(corp: &CorpApp, n_goals: u64, n_effects: u64) {
    if n_goals > 0 {
        counter!("paidan_goals_total", "corp" => corp.id.to_string()).increment(n_goals);
    }
    if n_effects > 0 {
        corp.effects_due.notify_waiters();
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("inbox")]
    Inbox(#[from] inbox::Error),
    #[error("ledger")]
    Ledger(#[from] ledger::Error),
    #[error("roster")]
    Roster(#[from] roster::Error),
}

/// Looks whose time is over, until the program stops. Whoever looks at an edge holds its inviter's row, so any process may.
pub async fn run(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    let mut backoff = Backoff::store();
    while !stop.is_cancelled() {
        match turn(&app, &corp).await {
            Ok(n) => {
                backoff.reset();
                if n < BATCH as usize {
                    sleep(
                        Duration::from_millis(jittered(PAUSE.as_millis() as u64)),
                        &stop,
                    )
                    .await;
                }
            }
            Err(error) => {
                if !matches!(error, Error::Roster(roster::Error::NotReady)) {
                    tracing::warn!(corp = %corp.id, error = %with_causes(&error), "it was not looked who stayed");
                }
                backoff.wait(&stop).await;
            }
        }
    }
}

/// Looks at the first edges whose time is over; answers how many changed or were put off.
pub async fn turn(app: &App, corp: &CorpApp) -> Result<usize, Error> {
    let inviters = app.ledger.inviters();
    let due = inviters.due_edges(&corp.id, app.now_ms(), BATCH).await?;
    if due.is_empty() {
        return Ok(0);
    }
    // A read that Redis was told may have found that somebody left, and the rows do not say so yet.
    if !caught_up::within::<Error>(app, corp, CATCH_UP).await? {
        return Ok(0);
    }
    let looked = inviters.look(&corp.id, &due, app.now_ms()).await?;
    edges(corp, "qualified", "", looked.qualified);
    edges(corp, "revoked", "unread", looked.unread);
    goals(corp, looked.goals, looked.effects);
    let marks = looked
        .read
        .iter()
        .map(|(chat, at_ms)| (chat.as_str(), *at_ms));
    let marks: Vec<(&str, u64)> = marks.collect();
    if !marks.is_empty() {
        corp.inbox.dirty_mark_many(CHAT, &marks).await?;
    }
    Ok(due.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_a_code_is_not_looked_up() {
        assert!(is_code("abcdefghijklmnopqrstu7"));
        for text in [
            "",
            "abc",
            "ABCDEFGHIJKLMNOPQRSTU7",
            "abcdefghijklmnopqrstu1",
            "abcdefghijklmnopqrstuv7",
        ] {
            assert!(!is_code(text), "{text}");
        }
    }

    #[test]
    fn only_so_many_looks_in_a_second() {
        let pages = Pages::default();
        let looks = |at_ms| (0..500).filter(|_| pages.may_look(at_ms)).count() as u64;
        assert_eq!(looks(1_000), LOOKS_A_SECOND);
        assert_eq!(looks(1_999), 0);
        assert_eq!(looks(2_000), LOOKS_A_SECOND);
    }
}
