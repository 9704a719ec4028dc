//! `redis-benchmark`, which asks Redis without us: one process, one thread, hardly any work of its own.

use std::process::Command;

use anyhow::Context;

use crate::process::find;

/// How it asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asking {
    pub(crate) port: u16,
    pub(crate) clients: usize,
    /// Requests of one client on their way at once.
    pub(crate) pipeline: usize,
    pub(crate) requests: usize,
}

/// Every `__rand_int__` of the command becomes one of so many numbers.
const RANDOM: &str = "2000000000";

impl Asking {
    /// Requests a second.
    pub(crate) fn run(&self, command: &[String]) -> anyhow::Result<f64> {
        let program = find("redis-benchmark")
            .context("no redis-benchmark on the search path (Debian: redis-tools)")?;
        let mut benchmark = Command::new(program);
        benchmark.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
        benchmark.args([
            "-c",
            &self.clients.to_string(),
            "-P",
            &self.pipeline.to_string(),
        ]);
        benchmark.args(["-n", &self.requests.to_string(), "-r", RANDOM, "--csv"]);
        let output = benchmark.args(command).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        per_second(&text)
            .filter(|_| output.status.success() && !errors.contains("Error"))
            .with_context(|| format!("redis-benchmark says: {text} {errors}"))
    }
}

/// The first of the seven figures at the end of the last line; the command in front of them may hold commas.
fn per_second(csv: &str) -> Option<f64> {
    let line = csv.lines().rfind(|line| line.starts_with('"'))?;
    let figure = line.rsplit(',').nth(6)?;
    figure.trim_matches('"').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::per_second;

    #[test]
    fn the_rate_is_found_behind_a_command_with_commas() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
                   \"EVALSHA a,b\",\"41234.50\",\"0.1\",\"0.2\",\"0.3\",\"0.4\",\"0.5\",\"0.6\"\n";
        assert_eq!(per_second(csv), Some(41234.5));
        assert_eq!(per_second("Error from server: nothing"), None);
    }
}
