//! The text in which a window of calls is kept: `<newest bucket> <its count> <the count before> …`.

/// A window of 12 parts is counted in 13 buckets: whatever span of its length WeCom looks at, ours contain it.
pub const BUCKETS: usize = 13;
/// Length of a bucket of the minute window.
pub const MINUTE_GRAIN_MS: i64 = 5_000;
/// Length of a bucket of the hour window.
pub const HOUR_GRAIN_MS: i64 = 300_000;

/// A window as seen at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    pub bucket: i64,
    pub counts: [i64; BUCKETS],
}

impl Window {
    /// Counts from a future bucket (the clock was set back) are kept as if they were of now.
    pub fn read(text: &str, grain_ms: i64, now_ms: i64) -> Self {
        let bucket = now_ms.div_euclid(grain_ms);
        let mut numbers = text.split_ascii_whitespace().map_while(|n| n.parse().ok());
        let newest: i64 = numbers.next().unwrap_or(bucket);
        let shift = usize::try_from(bucket - newest).unwrap_or(0);
        let mut counts = [0; BUCKETS];
        for (count, kept) in counts.iter_mut().skip(shift).zip(numbers) {
            *count = kept;
        }
        Self { bucket, counts }
    }

    pub fn used(&self) -> i64 {
        self.counts.iter().sum()
    }
}

impl std::fmt::Display for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.bucket)?;
        self.counts.iter().try_for_each(|n| write!(f, " {n}"))
    }
}
