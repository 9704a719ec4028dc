//! Everything that stands after one log entry: what a state can be made of when the log cannot be folded.

use allocation::Plan;

use super::*;

/// What is open or waiting, in the order in which it was decided.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// After this entry, and its time.
    pub log_seq: u64,
    pub at_ms: u64,
    pub open: Vec<Allocation>,
    /// Those of visits that go on.
    pub visits: HashMap<AllocationId, crate::Visit>,
    /// Who was asked before about those that are offered, or that a person must decide; in that order.
    pub tried: HashMap<AllocationId, Vec<MemberId>>,
    /// Of those that more serve than their pool.
    pub plans: HashMap<AllocationId, Plan>,
    pub seats: crate::StandingSeats,
}

impl Allocations {
    /// Waits for the log's writer and keeps the next one out meanwhile, so that the rows are those of one entry. None:
    /// the corp was never heard of.
    pub async fn standing(&self, corp: &CorpId) -> Result<Option<Standing>, Error> {
        let mut work = self.db.long_transaction().await?;
        let query = work
            .query(
                "SELECT log_seq, coalesce((SELECT at_ms FROM log AS l WHERE l.corp_id = $1 ORDER BY seq DESC LIMIT 1), 0)
                    AS at_ms
                 FROM corps WHERE corp_id = $1 FOR UPDATE",
            )
            .bind(corp.as_str());
        let Some(row) = work.fetch_optional(query).await? else {
            work.roll_back().await?;
            return Ok(None);
        };
        let (log_seq, at_ms) = (row.number("log_seq")?, row.number("at_ms")?);
        let query = work
            .query_once(concat!(
                "SELECT ",
                columns!(),
                " FROM allocations AS a WHERE a.corp_id = $1 AND a.closed_at IS NULL ORDER BY a.decided_seq, a.id"
            ))
            .bind(corp.as_str());
        let open = read_all(&work.fetch_all(query).await?)?;
        let plans = plans(&mut work, corp).await?;
        let visits = crate::visits::live(&mut work, corp).await?;
        let tried = crate::offers::tried(&mut work, corp).await?;
        let seats = crate::seats::standing(&mut work, corp, at_ms).await?;
        work.roll_back().await?;
        Ok(Some(Standing {
            log_seq,
            at_ms,
            open,
            visits,
            tried,
            plans,
            seats,
        }))
    }
}

async fn plans(work: &mut Work, corp: &CorpId) -> Result<HashMap<AllocationId, Plan>, Error> {
    let query = work
        .query_once(
            "SELECT id, plan FROM allocations WHERE corp_id = $1 AND closed_at IS NULL AND plan IS NOT NULL",
        )
        .bind(corp.as_str());
    let rows = work.fetch_all(query).await?;
    let plan = |row: &PgRow| {
        let plan = Plan::parse(row.value("plan")?);
        let plan = plan.map_err(|problem| Error::unreadable("plan", problem))?;
        Ok((AllocationId(row.value("id")?), plan))
    };
    rows.iter().map(plan).collect()
}
