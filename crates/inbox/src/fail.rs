//! Saying that entries could not be handled by their own fault.

use redis::aio::ConnectionLike;

use crate::{EntryId, Error, Group, Inbox, entry};

/// What became of an entry that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// It comes back after a pause.
    Waits,
    /// It failed too often.
    Dead,
    /// Another consumer has acknowledged it meanwhile.
    Gone,
    /// Its content was deleted from the stream.
    Lost,
}

const MOST_PER_CALL: usize = 256;
/// A reason is a line for people, not a place for payloads.
const LONGEST_REASON: usize = 300;

impl<C> Inbox<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    /// Counts a try for each entry. Only for failures that are the entry's own fault: when a store or WeCom is
    /// out, acknowledge nothing and try the same entries again. `reason` must hold no secrets and no names.
    pub async fn fail(
        &self,
        group: Group,
        entries: &[EntryId],
        reason: &str,
        now_ms: Option<u64>,
    ) -> Result<Vec<Failed>, Error> {
        let tries = self.shared.config.max_tries;
        self.fail_after(tries, group, entries, reason, now_ms).await
    }

    pub(crate) async fn fail_after(
        &self,
        max_tries: u32,
        group: Group,
        entries: &[EntryId],
        reason: &str,
        now_ms: Option<u64>,
    ) -> Result<Vec<Failed>, Error> {
        let shared = &*self.shared;
        let keys = &shared.keys;
        let mut failed = Vec::with_capacity(entries.len());
        for some in entries.chunks(MOST_PER_CALL) {
            let mut call = shared
                .scripts
                .fail
                .call(
                    &[&keys.inbox, &keys.dead, &keys.retry(group)],
                    some.len() * 24,
                )
                .arg(group.as_str())
                .arg(entry::clock(now_ms))
                .arg(max_tries.clamp(1, 31))
                .arg(shared.config.first_pause_ms)
                .arg(shared.config.longest_pause_ms)
                .arg(short(reason));
            for entry in some {
                call.push(entry);
            }
            let answer = call
                .invoke(&mut self.connection.clone(), &shared.counters)
                .await?;
            let (word, mut rest) = entry::word(answer)?;
            let letters = entry::text(entry::next(&mut rest)?)?;
            if word != "FAILED" || letters.len() != some.len() {
                return Err(Error::Answer("fail"));
            }
            for letter in letters.bytes() {
                failed.push(match letter {
                    b'R' => Failed::Waits,
                    b'D' => Failed::Dead,
                    b'G' => Failed::Gone,
                    b'L' => Failed::Lost,
                    _ => return Err(Error::Answer("fail: an unknown letter")),
                });
            }
        }
        let lost = failed.iter().filter(|f| **f == Failed::Lost).count();
        shared.counters.lost(lost as u64);
        Ok(failed)
    }
}

fn short(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(LONGEST_REASON)]
}
