//! Whether the rules of this version give what the log has: it is folded again, and every entry that differs is told.

use std::{collections::HashMap, io::Write, process::ExitCode, time::Instant};

use allocation::CorpId;
use anyhow::Context;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{config::Database, history};

/// Differences that are told one by one; after the first, others follow from it.
const MOST_TOLD: u64 = 20;

/// Folds a corp's log again, from the snapshot before `from` on. It reads Postgres alone and changes nothing.
pub async fn replay(
    database: Database,
    env: HashMap<String, String>,
    corp: String,
    from: Option<String>,
    to: Option<String>,
) -> anyhow::Result<ExitCode> {
    let corp = CorpId::new(corp).context("--corp")?;
    let from_ms = from.map(|text| moment("--from", &text)).transpose()?;
    let to_ms = to.map(|text| moment("--to", &text)).transpose()?;
    let ledger = super::ledger(&database.postgres, &env).await?;
    if ledger.corps().get(&corp).await?.is_none() {
        anyhow::bail!("--corp {corp}: the ledger has never heard of it");
    }
    let begun = Instant::now();
    let span = (from_ms.unwrap_or(0), to_ms.unwrap_or(u64::MAX >> 1));
    let mut out = std::io::stdout();
    let mut n_told = 0;
    let mut told = Ok(());
    let replayed = history::replay(&ledger, &corp, span, |difference| {
        n_told += 1;
        if n_told <= MOST_TOLD && told.is_ok() {
            told = writeln!(out, "{corp}: {difference}");
        }
    });
    let replayed = replayed.await?;
    told?;
    let per_second = replayed.entries as f64 / begun.elapsed().as_secs_f64().max(1e-6);
    writeln!(
        out,
        "{corp}: {} entries from {} on folded again, {} differences, {per_second:.0} entries per second",
        replayed.entries, replayed.first, replayed.differences,
    )?;
    Ok(match replayed.differences {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn moment(name: &str, text: &str) -> anyhow::Result<u64> {
    let at = OffsetDateTime::parse(text, &Rfc3339);
    let at = at.with_context(|| {
        format!("{name} {text}: must be a time as RFC 3339, for example 2026-10-14T08:00:00Z")
    })?;
    Ok(u64::try_from(at.unix_timestamp_nanos() / 1_000_000).unwrap_or(0))
}
