//! A histogram with fixed buckets: a few atomic additions for a value, the same memory for ever. (The exporter's own
//! keeps every value until the next scrape.)

use std::{
    fmt::Write,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

pub(crate) struct Histogram {
    name: &'static str,
    bounds: &'static [f64],
    /// One more than bounds: the last is for what is above all of them.
    counts: Vec<AtomicU64>,
    /// In millionths.
    sum: AtomicU64,
}

impl Histogram {
    pub(crate) fn new(name: &'static str, bounds: &'static [f64]) -> Self {
        let counts = std::iter::repeat_with(AtomicU64::default)
            .take(bounds.len() + 1)
            .collect();
        Self {
            name,
            bounds,
            counts,
            sum: AtomicU64::default(),
        }
    }

    pub(crate) fn record(&self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Relaxed);
        }
        self.sum.fetch_add((value * 1e6) as u64, Relaxed);
    }

    /// In Prometheus' text format.
    pub(crate) fn render(&self, text: &mut String) {
        let mut total = 0;
        let bounds = self
            .bounds
            .iter()
            .map(f64::to_string)
            .chain(["+Inf".to_owned()]);
        let mut lines = format!("\n# TYPE {} histogram\n", self.name);
        for (bound, count) in bounds.zip(&self.counts) {
            total += count.load(Relaxed);
            writeln!(lines, "{}_bucket{{le=\"{bound}\"}} {total}", self.name).ok();
        }
        let sum = self.sum.load(Relaxed) as f64 / 1e6;
        writeln!(
            lines,
            "{}_sum {sum}\n{}_count {total}",
            self.name, self.name
        )
        .ok();
        text.push_str(&lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_up_to_their_bound_included() {
        let histogram = Histogram::new("x", &[1.0, 2.5]);
        for value in [0.0, 1.0, 1.1, 2.5, 99.5] {
            histogram.record(value);
        }
        let mut text = String::new();
        histogram.render(&mut text);
        let expected = "\n# TYPE x histogram\nx_bucket{le=\"1\"} 2\nx_bucket{le=\"2.5\"} 4\nx_bucket{le=\"+Inf\"} 5\n\
                        x_sum 104.1\nx_count 5\n";
        assert_eq!(text, expected);
    }
}
