//! Visits: reading. The log writer makes and ends them.

use std::collections::HashMap;
use std::str::FromStr;

use allocation::{AllocationId, ChannelId, CorpId, Match, SlotId, SubjectKey};
use sqlx::postgres::PgRow;

use crate::Error;
use crate::connection::{Db, Work};
use crate::log_write::column;
use crate::row::Columns;

#[derive(Debug, Clone)]
pub struct VisitTable {
    pub(crate) db: Db,
}

/// What became of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VisitEnd {
    /// The customer added the member in time.
    Confirmed,
    /// Nobody came in time.
    Expired,
    /// Expired; the customer added the member afterwards.
    Late,
    /// The customer added another member.
    Mismatched,
    /// The customer had an allocation already.
    Known,
    /// Somebody ended it.
    Closed,
}

impl VisitEnd {
    pub const ALL: [Self; 6] = [
        Self::Confirmed,
        Self::Expired,
        Self::Late,
        Self::Mismatched,
        Self::Known,
        Self::Closed,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Expired => "expired",
            Self::Late => "late",
            Self::Mismatched => "mismatched",
            Self::Known => "known",
            Self::Closed => "closed",
        }
    }
}

impl FromStr for VisitEnd {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.into_iter();
        all.find(|end| end.as_str() == text)
            .ok_or("no end of a visit")
    }
}

/// One hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visit {
    pub allocation: AllocationId,
    pub channel: ChannelId,
    pub visitor: SubjectKey,
    pub slot: Option<SlotId>,
    pub hold_ms: u64,
    pub rest_ms: u64,
    pub began_ms: u64,
    pub held_until_ms: u64,
    pub ended_ms: Option<u64>,
    pub ended_as: Option<VisitEnd>,
    /// `visitor`, `slot` or `time`.
    pub matched: Option<String>,
    pub next_allocation: Option<AllocationId>,
}

/// How many holds of a corp are live and how they ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VisitCounts {
    pub live: u64,
    pub ended: HashMap<VisitEnd, u64>,
    pub with_slot: u64,
    pub total: u64,
}

macro_rules! columns {
    () => {
        "v.allocation_id, v.channel_id, v.visitor, v.slot, v.hold_ms, v.rest_ms, v.began_at, v.held_until, v.ended_at,
         v.ended_as, v.matched, v.next_allocation"
    };
}

impl VisitTable {
    /// Those among the allocations that began as visits.
    pub async fn of(
        &self,
        corp: &CorpId,
        allocations: &[AllocationId],
    ) -> Result<HashMap<AllocationId, Visit>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(concat!(
                "SELECT ",
                columns!(),
                " FROM visits AS v WHERE v.corp_id = $1 AND v.allocation_id = ANY($2)"
            ))
            .bind(corp.as_str())
            .bind(column(allocations, |id| id.0));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let visits = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Ok(visits
            .into_iter()
            .map(|visit| (visit.allocation, visit))
            .collect())
    }

    /// The hold behind an allocation: its own, or, where the customer came late or added another member, the one that
    /// led to it.
    pub async fn behind(
        &self,
        corp: &CorpId,
        allocation: AllocationId,
    ) -> Result<Option<Visit>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(concat!(
                "SELECT ",
                columns!(),
                " FROM visits AS v WHERE v.corp_id = $1 AND (v.allocation_id = $2 OR v.next_allocation = $2)
                  ORDER BY v.allocation_id = $2 DESC LIMIT 1"
            ))
            .bind(corp.as_str())
            .bind(allocation.0);
        let row = work.fetch_optional(query).await?;
        work.end().await?;
        row.as_ref().map(read).transpose()
    }

    /// Since a time.
    pub async fn counts(&self, corp: &CorpId, from_ms: u64) -> Result<VisitCounts, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT ended_as, count(*) AS n, count(slot) AS with_slot FROM visits
                 WHERE corp_id = $1 AND began_at >= $2 GROUP BY ended_as",
            )
            .bind(corp.as_str())
            .bind(crate::times::at(from_ms));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let mut counts = VisitCounts::default();
        for row in &rows {
            let n = row.number("n")?;
            counts.total += n;
            counts.with_slot += row.number("with_slot")?;
            match row.parsed_option("ended_as")? {
                Some(end) => {
                    counts.ended.insert(end, n);
                }
                None => counts.live = n,
            }
        }
        Ok(counts)
    }

    /// When each of these slots was lent last; those never lent are missing.
    pub async fn last_lent(
        &self,
        corp: &CorpId,
        slots: &[SlotId],
    ) -> Result<HashMap<SlotId, u64>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT n.slot, v.at FROM unnest($2::text[]) AS n (slot)
                 CROSS JOIN LATERAL (SELECT coalesce(ended_at, held_until) AS at FROM visits
                    WHERE corp_id = $1 AND slot = n.slot ORDER BY began_at DESC LIMIT 1) AS v",
            )
            .bind(corp.as_str())
            .bind(column(slots, |slot| slot.as_str().to_owned()));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let lent = rows
            .iter()
            .map(|row| Ok((row.parsed("slot")?, row.ms("at")?)));
        lent.collect()
    }
}

/// All that go on.
pub(crate) async fn live(
    work: &mut Work,
    corp: &CorpId,
) -> Result<HashMap<AllocationId, Visit>, Error> {
    let query = work
        .query_once(concat!(
            "SELECT ",
            columns!(),
            " FROM visits AS v WHERE v.corp_id = $1 AND v.ended_at IS NULL"
        ))
        .bind(corp.as_str());
    let rows = work.fetch_all(query).await?;
    let visits = rows.iter().map(read);
    visits
        .map(|visit| visit.map(|visit| (visit.allocation, visit)))
        .collect()
}

fn read(row: &PgRow) -> Result<Visit, Error> {
    let next: Option<uuid::Uuid> = row.value("next_allocation")?;
    Ok(Visit {
        allocation: AllocationId(row.value("allocation_id")?),
        channel: row.parsed("channel_id")?,
        visitor: row.parsed("visitor")?,
        slot: row.parsed_option("slot")?,
        hold_ms: row.number("hold_ms")?,
        rest_ms: row.number("rest_ms")?,
        began_ms: row.ms("began_at")?,
        held_until_ms: row.ms("held_until")?,
        ended_ms: row.ms_option("ended_at")?,
        ended_as: row.parsed_option("ended_as")?,
        matched: row.value("matched")?,
        next_allocation: next.map(AllocationId),
    })
}

/// How a customer was found, as the table has it.
pub(crate) fn matched(by: Option<Match>) -> Option<&'static str> {
    by.map(Match::as_str)
}
