//! Whole or closed: reading the whole state, writing it anew from the ledger, opening it.
//!
//! A rebuild is `begin_rebuild` (closes the corp), the caller's fold of the ledger's log through
//! [`allocation::model::Corp`], then [`CorpRoster::finish_rebuild`]. Every step names the generation that the caller
//! got from the ledger; the scripts refuse a rebuilder that was overtaken by a newer one.

use std::collections::BTreeMap;

use allocation::model::Corp;
use allocation::{Dump, Op, Value};

use crate::connection::Connection;
use crate::corp::CorpRoster;
use crate::error::Error;
use crate::scripts::SCRIPTS;

/// How good this copy of the state is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// None: the corp is closed.
    pub generation: Option<u64>,
    /// The rebuild under way.
    pub rebuilding: Option<u64>,
    /// Operations so far; 0 when nothing is there.
    pub seq: u64,
    /// Time of the last operation.
    pub at_ms: u64,
}

impl<C: Connection> CorpRoster<C> {
    pub async fn status(&self) -> Result<Status, Error> {
        let mut connection = self.connection.clone();
        let (ready, rebuilding, corp): (Option<u64>, Option<u64>, Option<Vec<u8>>) =
            redis::cmd("MGET")
                .arg(self.keys.key("ready"))
                .arg(self.keys.key("rebuilding"))
                .arg(self.keys.key("corp"))
                .query_async(&mut connection)
                .await?;
        let number = |at: usize| -> u64 {
            corp.as_deref()
                .and_then(|corp| corp.get(at..at + 8)?.try_into().ok())
                .map_or(0, |bytes| f64::from_le_bytes(bytes) as u64)
        };
        Ok(Status {
            generation: ready,
            rebuilding,
            seq: number(0),
            at_ms: number(8),
        })
    }

    /// Closes the corp when its state is of another generation than the ledger's, or behind it; an absent state is
    /// closed already. True: it is open, decisions may be asked for.
    pub async fn close_unless(&self, generation: u64, ledger_seq: u64) -> Result<bool, Error> {
        let generation = generation.to_string();
        let ledger_seq = ledger_seq.to_string();
        let args = [generation.as_bytes(), ledger_seq.as_bytes()];
        let open: u64 = SCRIPTS
            .state_check
            .call(&self.connection, self.keys.log(), &args)
            .await?;
        Ok(open == 1)
    }

    /// Closes the corp whose state of this generation turned out not to be the ledger's. A newer one stays open: it was
    /// written meanwhile.
    pub async fn close_generation(&self, generation: u64) -> Result<(), Error> {
        // No state is as far as that.
        self.close_unless(generation, u64::MAX).await.map(drop)
    }
}

impl<C: Connection> CorpRoster<C> {
    /// Closes the corp for a rebuild. Afterwards nothing is decided, so the rest of the log can be read into the
    /// ledger; [`restore`](Self::restore) deletes it. [`Error::Stale`] when a newer generation exists.
    pub async fn begin_rebuild(&self, generation: u64) -> Result<(), Error> {
        let generation = generation.to_string();
        SCRIPTS
            .rebuild_begin
            .call(&self.connection, self.keys.log(), &[generation.as_bytes()])
            .await
    }

    /// The last steps of a rebuild: everybody goes off (an operation of its own), the state is written, the corp is
    /// open. `corp` is the fold of everything the ledger has. Answers the sequence number of the new state.
    pub async fn finish_rebuild(
        &self,
        mut corp: Corp,
        generation: u64,
        now_ms: Option<u64>,
    ) -> Result<u64, Error> {
        let now_ms = match now_ms {
            Some(now_ms) => now_ms,
            None => self.time_ms().await?,
        };
        corp.apply(&Op::Rebuilt { generation }, now_ms);
        self.restore(&corp.dump(), generation).await?;
        self.open(generation, corp.seq()).await?;
        Ok(corp.seq())
    }

    /// Replaces the state and deletes the log. The last operation of the state must be [`Op::Rebuilt`].
    pub async fn restore(&self, dump: &Dump, generation: u64) -> Result<(), Error> {
        let generation = generation.to_string();
        let mut cursor = "0".to_owned();
        loop {
            let args = [generation.as_bytes(), cursor.as_bytes()];
            cursor = SCRIPTS
                .rebuild_wipe
                .call(&self.connection, self.keys.log(), &args)
                .await?;
            if cursor == "0" {
                break;
            }
        }
        let mut call: Vec<Vec<u8>> = Vec::new();
        for (key, value) in &dump.keys {
            match value {
                Value::Bytes(bytes) => {
                    call.extend([b"s".to_vec(), key.as_bytes().to_vec(), bytes.clone()]);
                }
                Value::Sorted(entries) => {
                    for part in entries.chunks(RESTORE_ARGS) {
                        let n = part.len().to_string();
                        call.extend([b"z".to_vec(), key.as_bytes().to_vec(), n.into_bytes()]);
                        for (member, score) in part {
                            // Rust writes the shortest text that reads back as the same number.
                            call.extend([format!("{score:?}").into_bytes(), member.clone()]);
                        }
                        // A set alone may be many calls.
                        if call.len() >= RESTORE_ARGS {
                            self.restore_part(&generation, &mut call).await?;
                        }
                    }
                }
                Value::Hash(fields) => {
                    let fields: Vec<_> = fields.iter().collect();
                    for part in fields.chunks(RESTORE_ARGS) {
                        let n = part.len().to_string();
                        call.extend([b"h".to_vec(), key.as_bytes().to_vec(), n.into_bytes()]);
                        for (field, value) in part {
                            call.extend([field.to_vec(), value.to_vec()]);
                        }
                        if call.len() >= RESTORE_ARGS {
                            self.restore_part(&generation, &mut call).await?;
                        }
                    }
                }
            }
            if call.len() >= RESTORE_ARGS {
                self.restore_part(&generation, &mut call).await?;
            }
        }
        self.restore_part(&generation, &mut call).await
    }

    async fn restore_part(&self, generation: &str, call: &mut Vec<Vec<u8>>) -> Result<(), Error> {
        let mut args = vec![generation.as_bytes()];
        args.extend(call.iter().map(Vec::as_slice));
        SCRIPTS
            .rebuild_restore
            .call::<C, ()>(&self.connection, self.keys.log(), &args)
            .await?;
        call.clear();
        Ok(())
    }

    /// Opens a restored state, whose sequence number must be `seq`, and writes its last operation into the log.
    pub async fn open(&self, generation: u64, seq: u64) -> Result<(), Error> {
        let generation = generation.to_string();
        let seq = seq.to_string();
        let args = [generation.as_bytes(), seq.as_bytes()];
        SCRIPTS
            .rebuild_open
            .call(&self.connection, self.keys.log(), &args)
            .await
    }

    /// The whole state, key by key: exact only while nothing is being decided.
    pub async fn dump(&self) -> Result<Dump, Error> {
        let mut dump = Dump::default();
        let mut cursor = "0".to_owned();
        loop {
            let page: Page = SCRIPTS
                .state_scan
                .call(&self.connection, self.keys.log(), &[cursor.as_bytes()])
                .await?;
            let (next, texts, sets, hashes) = page;
            for (key, bytes) in texts {
                dump.keys.insert(key, Value::Bytes(bytes));
            }
            for (key, flat) in sets {
                dump.keys.insert(key, Value::Sorted(sorted(&flat)?));
            }
            for (key, fields) in hashes {
                dump.keys.insert(key, Value::Hash(fields));
            }
            cursor = next;
            if cursor == "0" {
                return Ok(dump.without_old_requests());
            }
        }
    }

    async fn time_ms(&self) -> Result<u64, Error> {
        let mut connection = self.connection.clone();
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query_async(&mut connection).await?;
        Ok(seconds * 1000 + micros / 1000)
    }
}

/// Next cursor, texts, sorted sets, hashes.
type Page = (
    String,
    Vec<(String, Vec<u8>)>,
    Vec<(String, Vec<Vec<u8>>)>,
    Vec<(String, BTreeMap<Vec<u8>, Vec<u8>>)>,
);

/// Arguments of one restoring call, roughly: a call must stay short.
const RESTORE_ARGS: usize = 2000;

/// Member, score, member, score, …
fn sorted(flat: &[Vec<u8>]) -> Result<Vec<(Vec<u8>, f64)>, Error> {
    let pairs = flat.chunks_exact(2).map(|pair| {
        let text = String::from_utf8_lossy(&pair[1]);
        let score = text.parse().map_err(|_| allocation::Error::Unreadable {
            what: "score",
            problem: text.into_owned(),
        })?;
        Ok((pair[0].clone(), score))
    });
    pairs.collect()
}
