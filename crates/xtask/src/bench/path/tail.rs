//! Sees each customer's row as soon as it is committed: a reader of the ledger's log in a thread of its own, so that
//! looking does not delay those who send.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use allocation::{CorpId, Op, SubjectKey};
use ledger::Ledger;

const LOOK_EVERY: Duration = Duration::from_millis(1);

pub(super) type Seen = HashMap<SubjectKey, Instant>;

#[derive(Debug)]
pub(super) struct Tail {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<Seen>>,
}

impl Tail {
    /// Reads what comes after this entry of the log.
    pub(super) fn start(postgres_url: &str, corp: &CorpId, after: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (url, corp, stopped) = (postgres_url.to_owned(), corp.clone(), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            crate::bench::runtime()?.block_on(read(url, corp, after, stopped))
        });
        Self { stop, thread }
    }

    /// When each subject's row was first seen.
    pub(super) fn end(self) -> anyhow::Result<Seen> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .map_err(|_| anyhow::anyhow!("the reader of the log broke"))?
    }
}

async fn read(
    url: String,
    corp: CorpId,
    mut after: u64,
    stop: Arc<AtomicBool>,
) -> anyhow::Result<Seen> {
    let ledger = Ledger::connect(ledger::Config::new(url)).await?;
    let mut seen = Seen::new();
    while !stop.load(Ordering::Relaxed) {
        let rows = ledger.corps().read_log(&corp, after, 5_000).await?;
        let now = Instant::now();
        for row in &rows {
            after = row.seq;
            if let Op::Decide(requests) = row.parse()?.op {
                for request in requests {
                    seen.entry(request.subject).or_insert(now);
                }
            }
        }
        if rows.is_empty() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    ledger.close().await;
    Ok(seen)
}
