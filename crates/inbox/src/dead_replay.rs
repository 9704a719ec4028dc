//! Giving dead letters another chance.

use redis::aio::ConnectionLike;

use crate::{EntryId, Error, Inbox, entry};

/// Which dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    Ids(Vec<EntryId>),
    /// Both ends included; by time with [`EntryId::ms`].
    Range {
        from: EntryId,
        to: EntryId,
    },
}

/// How many there were, and how many were given back to their group: none in a dry run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    pub matched: u64,
    pub replayed: u64,
}

const PAGE: usize = 200;

impl<C> Inbox<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    /// Puts dead letters back into the inbox, for the group that gave them up alone, with all tries before them.
    /// A letter is counted and moved once, however often and from wherever this is called.
    pub async fn dead_replay(
        &self,
        selection: &Selection,
        dry_run: bool,
    ) -> Result<Replayed, Error> {
        let mut total = Replayed::default();
        match selection {
            Selection::Ids(ids) => {
                for some in ids.chunks(PAGE) {
                    let mut there = Vec::with_capacity(some.len());
                    for id in some {
                        if !self.dead_list(*id, *id, 1).await?.is_empty() {
                            there.push(*id);
                        }
                    }
                    self.replay_some(&there, dry_run, &mut total).await?;
                }
            }
            Selection::Range { from, to } => {
                let mut from = *from;
                loop {
                    let page = self.dead_list(from, *to, PAGE).await?;
                    let ids: Vec<_> = page.iter().map(|letter| letter.id).collect();
                    let Some(last) = ids.last() else {
                        return Ok(total);
                    };
                    from = EntryId {
                        ms: last.ms,
                        seq: last.seq + 1,
                    };
                    self.replay_some(&ids, dry_run, &mut total).await?;
                }
            }
        }
        Ok(total)
    }

    async fn replay_some(
        &self,
        ids: &[EntryId],
        dry_run: bool,
        total: &mut Replayed,
    ) -> Result<(), Error> {
        total.matched += ids.len() as u64;
        if dry_run || ids.is_empty() {
            return Ok(());
        }
        let shared = &*self.shared;
        let mut call = shared
            .scripts
            .dead_replay
            .call(&[&shared.keys.inbox, &shared.keys.dead], ids.len() * 24);
        for id in ids {
            call.push(id);
        }
        let answer = call
            .invoke(&mut self.connection.clone(), &shared.counters)
            .await?;
        let (word, mut rest) = entry::word(answer)?;
        if word != "REPLAYED" {
            return Err(Error::Answer("dead_replay"));
        }
        total.replayed += entry::number(entry::next(&mut rest)?)?;
        Ok(())
    }
}
