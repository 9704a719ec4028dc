//! How many tests passed and failed, read from what the test runners print.

use std::fmt;

/// Of one step, or of all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// The runners' own closing lines, to be printed again at the end.
    pub(crate) closing: Vec<String>,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.closing.extend(other.closing.iter().cloned());
    }

    /// Reads the output of `cargo nextest run` or `cargo test`.
    pub(crate) fn read(output: &str) -> Self {
        let mut counts = Self::default();
        let (mut programs, mut quiet) = (0_u64, 0);
        for line in output.lines().map(plain) {
            let line = line.trim();
            if line.starts_with("Summary [") && line.contains("tests run:")
                || line.starts_with("Summary [") && line.contains("test run:")
            {
                counts.passed += number_before(line, " passed");
                counts.failed += number_before(line, " failed")
                    + number_before(line, " timed out")
                    + number_before(line, " exec failed");
                counts.closing.push(line.to_owned());
            } else if line.starts_with("test result:") {
                let (passed, failed) = (
                    number_before(line, " passed"),
                    number_before(line, " failed"),
                );
                counts.passed += passed;
                counts.failed += failed;
                // Such a line does not name its program, and there is one for each.
                if failed == 0 && line.starts_with("test result: ok") {
                    programs += 1;
                    quiet += passed;
                } else {
                    counts.closing.push(line.to_owned());
                }
            } else if line.starts_with("`-p ") && line.ends_with('`') {
                // Cargo's list of the programs with failures.
                counts.closing.push(format!("failed: {line}"));
            }
        }
        if programs > 0 {
            let line = format!("{programs} test programs without a failure: {quiet} passed");
            counts.closing.push(line);
        }
        counts
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.passed, self.failed) {
            (0, 0) => Ok(()),
            (passed, 0) => write!(f, "{passed} tests"),
            (passed, failed) => write!(f, "{passed} tests passed, {failed} failed"),
        }
    }
}

/// Without the colours of a terminal.
fn plain(line: &str) -> String {
    let mut parts = line.split('\x1b');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(part.split_once('m').map_or("", |(_, rest)| rest));
    }
    text
}

fn number_before(line: &str, word: &str) -> u64 {
    line.split(word)
        .next()
        .filter(|before| before.len() < line.len())
        .and_then(|before| before.rsplit([' ', ':', ',', '.']).next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nextest_closing_lines_are_read_with_and_without_colours() {
        let output = "   PASS [0.1s] x\n\x1b[32;1m     Summary\x1b[0m [  14.764s] \x1b[1m67\x1b[0m tests run: \x1b[1m62\x1b[0m \x1b[32;1mpassed\x1b[0m (1 slow), \x1b[1m4\x1b[0m \x1b[31;1mfailed\x1b[0m, 1 timed out, 0 skipped\n";
        let counts = Counts::read(output);
        assert_eq!((counts.passed, counts.failed), (62, 5));
        assert_eq!(counts.closing.len(), 1);
        assert!(counts.closing[0].starts_with("Summary [  14.764s] 67 tests run: 62 passed"));
        let one = Counts::read("     Summary [   1.8s] 1 test run: 1 passed, 66 skipped");
        assert_eq!((one.passed, one.failed), (1, 0));
    }

    #[test]
    fn cargo_test_lines_are_added_up_and_failures_named() {
        let output = "\
test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
noise 9 passed
test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out
test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
error: test failed, to rerun pass `-p quota --lib`
error: 1 target failed:
    `-p quota --lib`
";
        let counts = Counts::read(output);
        assert_eq!((counts.passed, counts.failed), (8, 2));
        assert_eq!(
            counts.closing,
            [
                "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out",
                "failed: `-p quota --lib`",
                "2 test programs without a failure: 7 passed"
            ]
        );
    }
}
