//! Reading the past: the snapshot to fold from, and the entries of a span of time.

use allocation::CorpId;

use super::{Corps, Snapshot};
use crate::Error;
use crate::connection::Work;
use crate::row::{Columns, signed};

impl Corps {
    /// The last snapshot of entry `seq` or an earlier one.
    pub async fn snapshot_before(
        &self,
        corp: &CorpId,
        seq: u64,
    ) -> Result<Option<Snapshot>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT seq, dump FROM snapshots WHERE corp_id = $1 AND seq <= $2 ORDER BY seq DESC LIMIT 1",
            )
            .bind(corp.as_str())
            .bind(signed(seq));
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        row.as_ref().map(super::read_snapshot).transpose()
    }

    /// The number of that snapshot alone; 0 if there is none.
    pub async fn snapshot_seq_before(&self, corp: &CorpId, seq: u64) -> Result<u64, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query("SELECT coalesce(max(seq), 0) AS seq FROM snapshots WHERE corp_id = $1 AND seq <= $2")
            .bind(corp.as_str())
            .bind(signed(seq));
        let row = work.fetch_one(query).await?;
        work.end().await?;
        row.number("seq")
    }

    /// The first snapshot between these entries, both left out, that does not follow from the entries before it.
    pub async fn made_of_rows(
        &self,
        corp: &CorpId,
        after_seq: u64,
        before_seq: u64,
    ) -> Result<Option<u64>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT seq FROM snapshots WHERE corp_id = $1 AND of_rows AND seq > $2 AND seq < $3
                 ORDER BY seq LIMIT 1",
            )
            .bind(corp.as_str())
            .bind(signed(after_seq))
            .bind(signed(before_seq));
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        row.map(|row| row.number("seq")).transpose()
    }

    /// Where the entries of this time or later begin: all before are earlier; one after the last, if there are none. Times in
    /// a log do not go back.
    pub async fn first_since(&self, corp: &CorpId, at_ms: u64) -> Result<u64, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query("SELECT coalesce(max(seq), 0) + 1 AS seq FROM log WHERE corp_id = $1")
            .bind(corp.as_str());
        let (mut low, mut high) = (1, work.fetch_one(query).await?.number("seq")?);
        // Before `low` all are earlier, from `high` on none is.
        while low < high {
            let middle = low + (high - low) / 2;
            match first_from(&mut work, corp, middle).await? {
                Some((seq, found_ms)) if found_ms < at_ms => low = seq + 1,
                _ => high = middle,
            }
        }
        work.end().await?;
        Ok(low)
    }
}

async fn first_from(work: &mut Work, corp: &CorpId, seq: u64) -> Result<Option<(u64, u64)>, Error> {
    let query = work
        .query("SELECT seq, at_ms FROM log WHERE corp_id = $1 AND seq >= $2 ORDER BY seq LIMIT 1")
        .bind(corp.as_str())
        .bind(signed(seq));
    let row = work.fetch_optional(query).await?;
    row.map(|row| Ok((row.number("seq")?, row.number("at_ms")?)))
        .transpose()
}
