//! What became of deliveries.

use std::collections::BTreeMap;

use allocation::CorpId;

use super::{CHUNK, make_partitions};
use crate::Error;
use crate::change::DeliveryOutcome;
use crate::connection::Work;
use crate::log_write::{Meeting, column};
use crate::text::{clean, clean_option};
use crate::times::at;

macro_rules! outcomes {
    ($rest:literal) => {
        concat!(
            "INSERT INTO delivery_outcomes (corp_id, delivery, received_at, at, outcome, reason, allocation_id)
             SELECT $1, * FROM unnest($2::text[], $3::timestamptz[], $4::timestamptz[], $5::text[], $6::text[],
                $7::uuid[])",
            $rest
        )
    };
}

/// Outcomes with the time they were known.
pub(crate) async fn write_outcomes(
    work: &mut Work,
    corp: &CorpId,
    outcomes: &[(&DeliveryOutcome, u64)],
    meeting: Meeting,
) -> Result<(), Error> {
    if outcomes.is_empty() {
        return Ok(());
    }
    // The last one of a delivery counts: one statement cannot write a row twice.
    let last: BTreeMap<(&str, u64), &(&DeliveryOutcome, u64)> = outcomes
        .iter()
        .map(|row| ((row.0.delivery.as_str(), row.0.received_ms), row))
        .collect();
    let rows: Vec<_> = last.into_values().collect();
    make_partitions(work, rows.iter().map(|(outcome, _)| outcome.received_ms)).await?;
    for chunk in rows.chunks(CHUNK) {
        let query = work
            .query(match meeting {
                Meeting::Nothing => outcomes!(""),
                Meeting::Rows => outcomes!(
                    " ON CONFLICT (corp_id, delivery, received_at) DO UPDATE SET at = excluded.at,
                        outcome = excluded.outcome, reason = excluded.reason, allocation_id = excluded.allocation_id"
                ),
            })
            .bind(corp.as_str())
            .bind(column(chunk, |(outcome, _)| clean(&outcome.delivery)))
            .bind(column(chunk, |(outcome, _)| at(outcome.received_ms)))
            .bind(column(chunk, |(_, known_ms)| at(*known_ms)))
            .bind(column(chunk, |(outcome, _)| clean(&outcome.outcome)))
            .bind(column(chunk, |(outcome, _)| clean_option(outcome.reason.as_ref())))
            .bind(column(chunk, |(outcome, _)| outcome.allocation.map(|id| id.0)));
        work.execute(query).await?;
    }
    Ok(())
}
