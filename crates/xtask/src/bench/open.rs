//! Opening a callback, in memory.
//!
//! **P26**: query, envelope, signature and decryption of one `add_external_contact` of usual size, beside SHA-1,
//! base64 and AES of the same bytes with the same crates, which no implementation can avoid. The limit uses the base64
//! of vector instructions; nanoseconds, one thread.

use super::row::Sample;
use super::{Bench, Samples};

pub(super) fn run(bench: &Bench, samples: &mut Samples) -> anyhow::Result<()> {
    let calls = bench.size(200_000, 500);
    let calls = u32::try_from(calls)?;
    // The first round is for the caches and the clock of the processor.
    for round in wecom::measure::open(bench.rounds + 1, calls).iter().skip(1) {
        let (ours, limit) = (round.open.as_secs_f64(), round.limit.as_secs_f64());
        samples.add(
            "P26",
            Sample::ratio(ours * 1e9, limit * 1e9).cpu(ours / limit),
        );
    }
    Ok(())
}
