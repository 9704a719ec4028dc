//! How the demo looks: lines that fit a narrow terminal, drawn over each other, and the same as text.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use time::OffsetDateTime;

use super::figures::Figures;
use crate::ending::{self, Asker};
use crate::progress::{print, said};
use crate::prove::checks::Invariant;

/// No line that is drawn is wider. Of what is narrower still, the terminal cuts the end off.
const WIDTH: usize = 60;
const BAR: usize = 15;
const SAY_EVERY: Duration = Duration::from_secs(1);

/// Draws over what it drew before, on a terminal; else one line a second.
#[derive(Debug)]
pub(super) struct Live {
    on_terminal: bool,
    drawn: usize,
    /// What was said when this was drawn last.
    said_before: u64,
    said: Option<Instant>,
}

impl Live {
    pub(super) fn new() -> Self {
        Self {
            on_terminal: std::io::stdout().is_terminal(),
            drawn: 0,
            said_before: 0,
            said: None,
        }
    }

    pub(super) fn draw(&mut self, members: &[(String, u32)], now: &Figures, customers: u64) {
        // Once we are to end, something else stands where this was.
        if ending::asked().is_some() {
            return;
        }
        if self.on_terminal {
            let mut lines = counts(now, customers);
            lines.extend(table(members, now, customers));
            // Below what somebody said meanwhile, not over it.
            let said_now = said();
            if said_now != self.said_before {
                self.drawn = 0;
                self.said_before = said_now;
            }
            let text = over(self.drawn, &lines);
            let mut out = std::io::stdout().lock();
            out.write_all(text.as_bytes())
                .and_then(|()| out.flush())
                .ok();
            self.drawn = lines.len();
        } else if now.decided >= customers || self.said.is_none_or(|at| at.elapsed() >= SAY_EVERY) {
            print(&counts(now, customers).join(" · "));
            self.said = Some(Instant::now());
        }
    }
}

/// The lines in the place of those that were drawn last. The terminal does not wrap meanwhile: a line that became two
/// would be counted as one.
fn over(drawn: usize, lines: &[String]) -> String {
    let mut text = String::from("\x1b[?7l");
    if drawn > 0 {
        text.push_str(&format!("\x1b[{drawn}A"));
    }
    for line in lines {
        text.push_str(&format!("\x1b[2K{line}\n"));
    }
    text.push_str("\x1b[?7h");
    text
}

/// How far everything is.
fn counts(now: &Figures, customers: u64) -> Vec<String> {
    vec![
        format!(
            "callbacks acknowledged {:>6}, stored {:>6}",
            now.acknowledged, now.deliveries
        ),
        format!(
            "{} acknowledged were repeats, as WeCom sends them",
            now.acknowledged.saturating_sub(now.events)
        ),
        format!(
            "decided {:>6} of {customers}, effects done {:>6}",
            now.decided, now.done
        ),
        format!(
            "received → decided: p50 {:.1} ms, p99 {:.1} ms",
            now.p50_ms, now.p99_ms
        ),
    ]
}

/// Above the table of a demo that stayed: whatever was done to it since is not in there.
pub(super) fn as_checked(at: OffsetDateTime) -> String {
    let (hour, minute, second) = at.to_hms();
    format!("when the promises were checked, at {hour:02}:{minute:02}:{second:02} UTC:")
}

/// What each member has, and what is his by his weight.
pub(super) fn table(members: &[(String, u32)], now: &Figures, customers: u64) -> Vec<String> {
    let weights: u32 = members.iter().map(|(_, weight)| weight).sum();
    let has = |member: &str| now.by_member.get(member).copied().unwrap_or_default();
    // Those of the pool only: whoever tries the REST API may have given customers to others.
    let total: u64 = members.iter().map(|(member, _)| has(member)).sum();
    let mut lines = vec![format!(
        "{:<8} {:>6} {:>7} {:>10} {:>8}",
        "member", "weight", "has", "share", "distance"
    )];
    for (member, weight) in members {
        let has = has(member);
        let share = total as f64 * f64::from(*weight) / f64::from(weights);
        // Full where the largest share ends.
        let full = customers.max(1) as f64 * most(members) / f64::from(weights);
        let bar = (has as f64 / full * BAR as f64).round() as usize;
        let line = format!(
            "{member:<8} {weight:>6} {has:>7} {share:>10.2} {:>8.2}  {}",
            has as f64 - share,
            "█".repeat(bar.min(BAR))
        );
        lines.push(line.trim_end().to_owned());
    }
    lines
}

fn most(members: &[(String, u32)]) -> f64 {
    f64::from(members.iter().map(|(_, weight)| *weight).max().unwrap_or(1))
}

/// A promise and what was found; in two lines where one could be too long.
pub(super) fn promise(one: &Invariant, on_terminal: bool) -> Vec<String> {
    let line = one.line();
    if !on_terminal || line.chars().count() <= WIDTH {
        return vec![line];
    }
    let mark = one.mark().trim_end();
    vec![
        format!("{mark} {}", one.name),
        format!("       {} checked: {}", one.checked, one.found),
    ]
}

/// The last line.
pub(super) fn verdict(
    checked: Option<&[Invariant]>,
    asker: Option<Asker>,
    decided: u64,
    customers: u64,
) -> String {
    match (checked, asker) {
        (Some(all), _) if all.iter().all(|one| one.holds) => {
            format!("every promise held: {} of {}", all.len(), all.len())
        }
        (Some(all), _) => {
            let broken: Vec<&str> = all
                .iter()
                .filter(|one| !one.holds)
                .map(|one| one.name)
                .collect();
            format!(
                "BROKEN: {} of {} promises: {}",
                broken.len(),
                all.len(),
                broken.join("; ")
            )
        }
        (None, asker) => format!(
            "ended{} with {decided} of {customers} customers decided; the promises were not checked",
            asker.map_or_else(String::new, |asker| format!(" by {}", asker.name()))
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members() -> Vec<(String, u32)> {
        [("zhangsan", 4), ("lisi", 3), ("wangwu", 2), ("zhaoliu", 1)]
            .map(|(member, weight)| (member.to_owned(), weight))
            .to_vec()
    }

    fn figures(customers: u64) -> Figures {
        Figures {
            events: customers,
            acknowledged: customers * 16 / 10,
            deliveries: customers,
            decided: customers,
            done: customers * 2,
            by_member: [("zhangsan", 4), ("lisi", 3), ("wangwu", 2), ("zhaoliu", 1)]
                .map(|(member, weight)| (member.to_owned(), customers * weight / 10))
                .into(),
            p50_ms: 98_765.4,
            p99_ms: 98_765.4,
        }
    }

    #[test]
    fn every_line_fits_whatever_the_figures() {
        for customers in [1, 600, super::super::MOST_CUSTOMERS] {
            let now = figures(customers);
            let mut lines = counts(&now, customers);
            lines.extend(table(&members(), &now, customers));
            for line in lines {
                assert!(line.chars().count() <= WIDTH, "{line}");
            }
        }
    }

    #[test]
    fn more_acknowledged_than_stored_is_explained() {
        let lines = counts(&figures(600), 600);
        assert_eq!(lines[0], "callbacks acknowledged    960, stored    600");
        assert_eq!(
            lines[1],
            "360 acknowledged were repeats, as WeCom sends them"
        );
    }

    #[test]
    fn the_last_table_of_a_demo_that_stayed_says_of_when_it_is() {
        let at = time::macros::datetime!(2026-03-04 05:06:07 UTC);
        let line = as_checked(at);
        assert_eq!(line, "when the promises were checked, at 05:06:07 UTC:");
        assert!(line.chars().count() <= WIDTH);
    }

    #[test]
    fn the_table_has_shares_and_distances() {
        let mut now = figures(10);
        now.by_member.insert("lisi".into(), 2);
        now.by_member.insert("xiaoming".into(), 5);
        now.decided = 14;
        let lines = table(&members(), &now, 10);
        assert_eq!(
            lines,
            [
                "member   weight     has      share distance",
                "zhangsan      4       4       3.60     0.40  ███████████████",
                "lisi          3       2       2.70    -0.70  ████████",
                "wangwu        2       2       1.80     0.20  ████████",
                "zhaoliu       1       1       0.90     0.10  ████",
            ]
        );
    }

    #[test]
    fn what_was_drawn_is_drawn_over_without_wrapping() {
        let lines = ["a".to_owned(), "b".to_owned()];
        assert_eq!(over(0, &lines), "\x1b[?7l\x1b[2Ka\n\x1b[2Kb\n\x1b[?7h");
        assert!(over(2, &lines).starts_with("\x1b[?7l\x1b[2A\x1b[2Ka\n"));
    }

    fn invariant(name: &'static str, holds: bool) -> Invariant {
        Invariant {
            name,
            holds,
            checked: 540,
            found: "540 planned, 540 accepted, 0 not started".to_owned(),
        }
    }

    #[test]
    fn a_promise_is_one_line_for_programs_and_two_for_people() {
        let one = invariant(
            "every planned transfer was started, and WeCom knows it",
            true,
        );
        assert_eq!(promise(&one, false), [one.line()]);
        let two = promise(&one, true);
        assert_eq!(two.len(), 2);
        assert!(
            two.iter().all(|line| line.chars().count() <= WIDTH),
            "{two:?}"
        );
    }

    #[test]
    fn the_last_line_says_whether_everything_held() {
        let (good, bad) = (invariant("a", true), invariant("b", false));
        assert_eq!(
            verdict(Some(&[good]), None, 5, 5),
            "every promise held: 1 of 1"
        );
        let all = [invariant("a", true), bad];
        assert_eq!(
            verdict(Some(&all), Some(Asker::CtrlC), 5, 5),
            "BROKEN: 1 of 2 promises: b"
        );
        assert_eq!(
            verdict(None, Some(Asker::Terminate), 3, 5),
            "ended by SIGTERM with 3 of 5 customers decided; the promises were not checked"
        );
    }
}
