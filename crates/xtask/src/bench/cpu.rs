//! CPU time and memory of a process, from `/proc`.

use std::time::Duration;

use anyhow::Context;

/// The unit of `/proc/<pid>/stat`: 100 a second on every Linux that runs this.
const TICK: Duration = Duration::from_millis(10);

/// CPU that the process and its threads have used so far.
pub(crate) fn used(pid: u32) -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("process {pid} is gone"))?;
    ticks(&stat)
        .map(|ticks| TICK * ticks)
        .with_context(|| format!("/proc/{pid}/stat cannot be read"))
}

/// The name may hold spaces and parentheses; user and system time are the 12th and 13th word behind it.
fn ticks(stat: &str) -> Option<u32> {
    let mut words = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let user: u32 = words.next()?.parse().ok()?;
    let system: u32 = words.next()?.parse().ok()?;
    Some(user + system)
}

/// Memory of the process that is in RAM, in MB of 1024 × 1024 bytes.
pub(crate) fn resident_mb(pid: u32) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("process {pid} is gone"))?;
    let kb = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<f64>().ok())
        .with_context(|| format!("/proc/{pid}/status does not tell"))?;
    Ok(kb / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_is_no_obstacle() {
        let stat = "42 (a ) b) S 1 42 42 0 -1 4194560 100 0 0 0 17 5 0 0 20 0 3 0 1000 1 2";
        assert_eq!(ticks(stat), Some(22));
        assert_eq!(ticks("42 (a"), None);
    }

    #[test]
    fn we_use_cpu_and_memory_ourselves() {
        let pid = std::process::id();
        used(pid).unwrap();
        assert!(resident_mb(pid).unwrap() > 1.0);
    }
}
