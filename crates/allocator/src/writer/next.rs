//! What comes next in the log, and whether it follows what the ledger has.
//!
//! Numbers alone do not say so. A Redis that came back without its last operations (a replica was promoted, an append-only
//! file was cut) counts on from where it is: it reaches the ledger's number with other operations, and what it logs after
//! that looks as if it came next. So the entry that the ledger ends with, `log_seq`, is kept in the log, and:
//!
//! - It is there: it must be the ledger's, word for word. Times and ids are in it; no other operation looks the same.
//! - It is not there: only a state that was written anew may have none. Opening one puts `rebuilt` and its generation into
//!   an empty log in the same step, so the first entry must be that one, of the generation that the ledger says was
//!   opened last, at `log_seq + 1`. Before a corp was opened at all there is nothing on either side.
//! - Anything else is lost, an empty log of the right number too.
//!
//! Pages overlap by one entry for the same reason: Redis may be replaced between two of them.

use std::fmt;

use allocation::{LogEntry, Op};
use ledger::{LogRow, LogWrite};
use metrics::counter;
use roster::Status;

use super::Error;
use crate::app::{App, CorpApp};

/// Log entries read at once. One may be about hundreds of subjects, so a batch is counted in those.
const PAGE: usize = 16;

/// What the log has instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instead {
    /// It begins with this entry.
    Begins(u64),
    /// Nothing: its state is at this number.
    Nothing(u64),
    /// Another entry of the same number.
    Another,
    /// Two pages of it do not belong together.
    Changed,
}

impl fmt::Display for Instead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Instead::Begins(seq) => write!(f, "it begins at {seq}, without that one"),
            Instead::Nothing(seq) => write!(f, "nothing follows, its state is at {seq}"),
            Instead::Another => f.write_str("it has another entry of that number"),
            Instead::Changed => f.write_str("it became another while it was read"),
        }
    }
}

/// Entries to be written, and the generation they belong to.
pub(super) struct Next {
    pub(super) generation: u64,
    pub(super) entries: Vec<LogEntry>,
    /// The entry before them, which is the ledger's last.
    pub(super) last: Option<LogRow>,
}

/// We hold the row, so nobody can open another generation in between; a corp that is closed for a rebuild still has the log
/// of the generation that was open. `known` is what this process takes for the ledger's last entry.
pub(super) async fn next(
    app: &App,
    corp: &CorpApp,
    write: &mut LogWrite,
    known: Option<&LogRow>,
) -> Result<Next, Error> {
    let log_seq = write.log_seq();
    let status = corp.roster.status().await?;
    let (last, entries) = match batch(app, corp, log_seq).await? {
        Ok(read) => read,
        Err(instead) => return Err(lost(corp, write, &status, instead).await?),
    };
    let begins = match entries.first() {
        Some(first) => first.seq == log_seq + 1,
        None => status.seq == log_seq,
    };
    let row = match &last {
        Some(last) => the_ledgers(write, known, last).await?,
        None => None,
    };
    let follows = match &last {
        Some(_) => row.is_some(),
        None => match entries.first() {
            Some(first) => first.op == opening(write),
            None => log_seq == 0,
        },
    };
    if begins && follows {
        return Ok(Next {
            generation: status.generation.unwrap_or(write.opened_generation()),
            entries,
            last: row,
        });
    }
    let instead = match entries.first() {
        _ if last.is_some() && row.is_none() => Instead::Another,
        Some(first) => Instead::Begins(first.seq),
        None => Instead::Nothing(status.seq),
    };
    Err(lost(corp, write, &status, instead).await?)
}

/// How a state begins that was written anew.
fn opening(write: &LogWrite) -> Op {
    Op::Rebuilt {
        generation: write.opened_generation(),
    }
}

/// The row of this entry, if the ledger ends with it. Whoever wrote it remembers it; the ledger is asked where that does
/// not fit, because what we remember may be what Postgres has lost since.
async fn the_ledgers(
    write: &mut LogWrite,
    known: Option<&LogRow>,
    last: &LogEntry,
) -> Result<Option<LogRow>, Error> {
    let read = known.into_iter().chain(write.found());
    if let Some(row) = read.into_iter().find(|row| row.is_of(last)) {
        return Ok(Some(row.clone()));
    }
    Ok(write.last().await?.filter(|row| row.is_of(last)))
}

/// Nothing that is decided by this state will ever be recorded: it closes, and the guard, which alone would find it whole,
/// writes it anew. A corp that is closed already is left to whoever rebuilds it.
async fn lost(
    corp: &CorpApp,
    write: &mut LogWrite,
    status: &Status,
    instead: Instead,
) -> Result<Error, Error> {
    // Whoever lost the row reads beside its new holder, who may have trimmed what he looks for: that is an error here.
    write.last().await?;
    if let Some(generation) = status.generation {
        corp.roster.close_generation(generation).await?;
        counter!("paidan_log_lost_total", "corp" => corp.id.to_string()).increment(1);
    }
    Ok(Error::Lost {
        written: write.log_seq(),
        instead,
    })
}

type Batch = (Option<LogEntry>, Vec<LogEntry>);

/// The entry `log_seq`, if it is there, and whole entries after it until together they are about as many as one transaction
/// should hold. They end before one that cannot be read; it is an error once there is nothing before it.
async fn batch(app: &App, corp: &CorpApp, log_seq: u64) -> Result<Result<Batch, Instead>, Error> {
    let (mut last, mut entries, mut size) = (None, Vec::<LogEntry>::new(), 0_usize);
    while size < app.config.roster.writer_batch {
        let from = entries.last().map_or(log_seq, |entry| entry.seq);
        let (mut page, mut unreadable) = (Vec::new(), None);
        let read = corp.roster.log_page(from.saturating_sub(1), PAGE + 1);
        for entry in read.await? {
            match entry {
                Ok(entry) if unreadable.is_none() => page.push(entry),
                Ok(_) => {}
                Err(error) => unreadable = unreadable.or(Some(error)),
            }
        }
        let is_last = page.len() <= PAGE;
        let overlap = match page.first() {
            Some(first) if first.seq == from => Some(page.remove(0)),
            _ => None,
        };
        if entries.is_empty() {
            last = overlap;
        } else if overlap.as_ref() != entries.last() {
            return Ok(Err(Instead::Changed));
        }
        let sizes = page.iter().map(|entry| entry.op.size());
        size = sizes.fold(size, usize::saturating_add);
        entries.extend(page);
        match unreadable {
            Some(error) if entries.is_empty() => return Err(error.into()),
            _ if is_last => break,
            _ => {}
        }
    }
    Ok(Ok((last, entries)))
}
