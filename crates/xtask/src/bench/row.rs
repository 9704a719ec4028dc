//! The rows: what each is measured against, and how a median becomes a line.

use serde_json::json;

use crate::progress::print;

/// Which way is good. A bar is what must hold on two busy cores, a goal what a quiet machine allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Higher,
    Lower,
    /// As `Lower`, but the bar itself is too much.
    Below,
}

/// A row as it is defined, whatever is measured.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// Of `ours` and `limit`; where there is no limit, of the row itself.
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    pub(crate) bar: Option<f64>,
    pub(crate) goal: Option<f64>,
}

/// One round of one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    /// What the bar is for: ours ÷ limit, or a plain figure in the row's unit.
    pub(crate) ratio: f64,
    /// CPU per operation, ours ÷ limit.
    pub(crate) cpu_ratio: Option<f64>,
    pub(crate) ours: f64,
    pub(crate) limit: Option<f64>,
}

impl Sample {
    /// Ours ÷ limit.
    pub(crate) fn ratio(ours: f64, limit: f64) -> Self {
        Self {
            ratio: ours / limit,
            cpu_ratio: None,
            ours,
            limit: Some(limit),
        }
    }

    /// A figure that stands for itself; `limit` is what the limit shows at the same work, for comparison only.
    pub(crate) fn figure(ours: f64, limit: Option<f64>) -> Self {
        Self {
            ratio: ours,
            cpu_ratio: None,
            ours,
            limit,
        }
    }

    pub(crate) fn cpu(self, cpu_ratio: f64) -> Self {
        Self {
            cpu_ratio: cpu_ratio.is_finite().then_some(cpu_ratio),
            ..self
        }
    }
}

/// A measured row.
#[derive(Debug)]
pub(crate) struct Row {
    definition: &'static Definition,
    rounds: usize,
    ratio: f64,
    min: f64,
    max: f64,
    cpu_ratio: Option<f64>,
    ours: f64,
    limit: Option<f64>,
}

impl Row {
    pub(crate) fn of(definition: &'static Definition, samples: &[Sample]) -> Option<Self> {
        let ratios: Vec<f64> = samples.iter().map(|sample| sample.ratio).collect();
        let part = |value: fn(&Sample) -> Option<f64>| -> Option<f64> {
            median(&samples.iter().filter_map(value).collect::<Vec<_>>())
        };
        Some(Self {
            definition,
            rounds: samples.len(),
            ratio: median(&ratios)?,
            min: ratios.iter().copied().reduce(f64::min)?,
            max: ratios.iter().copied().reduce(f64::max)?,
            cpu_ratio: part(|sample| sample.cpu_ratio),
            ours: part(|sample| Some(sample.ours))?,
            limit: part(|sample| sample.limit),
        })
    }

    /// None when the row has no bar.
    pub(crate) fn passes(&self) -> Option<bool> {
        let holds = |bar: f64| match self.definition.better {
            Better::Higher => self.ratio >= bar,
            Better::Lower => self.ratio <= bar,
            Better::Below => self.ratio < bar,
        };
        self.definition.bar.map(holds)
    }

    pub(crate) fn json(&self, group: &str) -> String {
        let Definition {
            name,
            unit,
            bar,
            goal,
            better,
            ..
        } = self.definition;
        json!({
            "name": name,
            "ratio": rounded(self.ratio),
            "min": rounded(self.min),
            "max": rounded(self.max),
            "cpu_ratio": self.cpu_ratio.map(rounded),
            "ours": rounded(self.ours),
            "limit": self.limit.map(rounded),
            "unit": unit,
            "rounds": self.rounds,
            "bar": bar,
            "goal": goal,
            "better": if *better == Better::Higher { "higher" } else { "lower" },
            "command": format!("cargo xtask bench {group}"),
        })
        .to_string()
    }

    fn line(&self) -> String {
        let sign = match self.definition.better {
            Better::Higher => "≥",
            Better::Lower => "≤",
            Better::Below => "<",
        };
        let wanted = |value: Option<f64>| value.map_or_else(String::new, |v| format!("{sign} {v}"));
        let verdict = match self.passes() {
            Some(true) => "pass",
            Some(false) => "UNDER",
            None => "",
        };
        let limit = self.limit.map_or_else(|| "–".to_owned(), short);
        format!(
            "{:<21} {:>8} {:>17}  {:<6} {:>7} {:>7}  {:>5}  {:>9} {:>9} {:<11} {}",
            self.definition.name,
            short(self.ratio),
            format!("{} – {}", short(self.min), short(self.max)),
            verdict,
            wanted(self.definition.bar),
            wanted(self.definition.goal),
            self.cpu_ratio.map_or_else(String::new, short),
            short(self.ours),
            limit,
            self.definition.unit,
            self.definition.what,
        )
    }
}

/// Prints what was measured as a table, with its verdicts.
pub(crate) fn table(rows: &[Row]) {
    print("");
    print(&format!(
        "{:<21} {:>8} {:>17}  {:<6} {:>7} {:>7}  {:>5}  {:>9} {:>9} {:<11} what",
        "row", "median", "min – max", "", "bar", "goal", "cpu", "ours", "limit", "unit"
    ));
    for row in rows {
        print(&row.line());
    }
    let judged: Vec<bool> = rows.iter().filter_map(Row::passes).collect();
    let passed = judged.iter().filter(|passed| **passed).count();
    print("");
    print(&format!("{passed} of {} bars met", judged.len()));
}

pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.len().checked_sub(1)? / 2, sorted.len() / 2);
    Some(f64::midpoint(*sorted.get(low)?, *sorted.get(high)?))
}

/// Three digits that count.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100_000.0 => format!("{:.0}k", value / 1000.0),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:.2}"),
    }
}

fn rounded(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: Definition = Definition {
        name: "P0",
        what: "a row",
        unit: "ms",
        better: Better::Lower,
        bar: Some(2.0),
        goal: Some(1.0),
    };

    #[test]
    fn the_median_of_an_even_count_is_between_the_two_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn a_row_is_judged_by_its_median_and_told_with_its_spread() {
        let samples = [1.0, 1.5, 9.0].map(|ms| Sample::figure(ms, None));
        let row = Row::of(&ROW, &samples).unwrap();
        assert_eq!(row.passes(), Some(true));
        let json: serde_json::Value = serde_json::from_str(&row.json("open")).unwrap();
        assert_eq!(json["ratio"], 1.5);
        assert_eq!((&json["min"], &json["max"]), (&1.0.into(), &9.0.into()));
        assert_eq!(json["rounds"], 3);
        assert!(json["limit"].is_null() && json["cpu_ratio"].is_null());
        assert_eq!(json["command"], "cargo xtask bench open");
    }

    #[test]
    fn below_means_below() {
        static BELOW: Definition = Definition {
            better: Better::Below,
            ..ROW
        };
        let row = Row::of(&BELOW, &[Sample::figure(2.0, None)]).unwrap();
        assert_eq!(row.passes(), Some(false));
    }
}
