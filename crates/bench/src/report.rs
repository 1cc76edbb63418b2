//! Results of a study: as JSON, and as a table for a terminal.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::stat::{Interval, median};
use crate::{Better, Machine};

/// Samples of a measured quantity, one for each round.
#[derive(Clone, Debug)]
pub struct Series {
    /// Name, unique in its report.
    pub name: String,
    /// Unit of the samples, such as `MB/s`.
    pub unit: &'static str,
    /// Direction in which it is good.
    pub better: Better,
    /// The work, in words.
    pub workload: String,
    /// Samples in order, one a round.
    pub samples: Vec<f64>,
}

/// A comparison of two quantities, round by round.
#[derive(Clone, Debug)]
pub struct Ratio {
    /// Name, which ends in `_cost` when lower is better.
    pub name: String,
    /// The median of the rounds' ratios.
    pub value: f64,
    /// The 95 % interval of `value`.
    pub interval: Interval,
    /// Least value that was promised (greatest for a `_cost`), where something was promised.
    pub target: Option<f64>,
}

/// Relation of a ratio to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval is on the right side.
    Met,
    /// The target is inside the interval: the measurement does not tell.
    Open,
    /// The whole interval is on the wrong side.
    Missed,
}

impl Ratio {
    /// Compares the ratio with its target; `None` without one.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        let target = self.target?;
        let Interval { low, high } = self.interval;
        let (met, missed) = if self.is_cost() {
            (high <= target, low > target)
        } else {
            (low >= target, high < target)
        };
        Some(match (met, missed) {
            (true, _) => Verdict::Met,
            (_, true) => Verdict::Missed,
            _ => Verdict::Open,
        })
    }

    fn is_cost(&self) -> bool {
        self.name.ends_with("_cost")
    }
}

/// Results of a study. `Display` is the terminal's report.
#[derive(Clone, Debug)]
pub struct Report {
    /// Ratios of the comparisons, with intervals.
    pub ratios: Vec<Ratio>,
    /// The quantities from which the ratios come.
    pub results: Vec<Series>,
    /// The machine that was measured.
    pub machine: Machine,
    /// Reasons why a figure may be worth less than it looks.
    pub warnings: Vec<String>,
}

/// Finds a ratio by its name.
pub(crate) fn named<'a>(ratios: &'a [Ratio], name: &str) -> Option<&'a Ratio> {
    ratios.iter().find(|ratio| ratio.name == name)
}

impl Report {
    /// The object that the crate's documentation describes.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let by_name = |value: fn(&Ratio) -> Value| -> Map<String, Value> {
            let pairs = self.ratios.iter();
            pairs
                .map(|ratio| (ratio.name.clone(), value(ratio)))
                .collect()
        };
        let results: Vec<Value> = self.results.iter().map(Series::to_json).collect();
        json!({
            "ratios": by_name(|ratio| json!(ratio.value)),
            "intervals": by_name(|ratio| json!([ratio.interval.low, ratio.interval.high])),
            "results": results,
            "machine": self.machine.to_json(),
            "warnings": self.warnings,
        })
    }
}

impl Series {
    fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "unit": self.unit,
            "better": match self.better {
                Better::Higher => "higher",
                Better::Lower => "lower",
            },
            "workload": self.workload,
            "median": median(&self.samples),
            "samples": self.samples,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["ratio", "value", "95 % interval", "target", ""].map(str::to_owned);
        let rows = self.ratios.iter().map(|ratio| {
            let Interval { low, high } = ratio.interval;
            let sign = if ratio.is_cost() { "≤" } else { "≥" };
            [
                ratio.name.clone(),
                figure(ratio.value),
                format!("{} … {}", figure(low), figure(high)),
                ratio
                    .target
                    .map(|t| format!("{sign} {}", figure(t)))
                    .unwrap_or_default(),
                verdict_text(ratio.verdict()).to_owned(),
            ]
        });
        write_table(out, head, rows)?;

        let head = ["result", "median", "unit", "better", "samples"].map(str::to_owned);
        let rows = self.results.iter().map(|series| {
            [
                series.name.clone(),
                median(&series.samples).map_or_else(|| "-".to_owned(), figure),
                series.unit.to_owned(),
                match series.better {
                    Better::Higher => "higher".to_owned(),
                    Better::Lower => "lower".to_owned(),
                },
                series.samples.len().to_string(),
            ]
        });
        write_table(out, head, rows)?;

        for warning in &self.warnings {
            writeln!(out, "warning: {warning}")?;
        }
        Ok(())
    }
}

fn verdict_text(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        Some(Verdict::Met) => "met",
        Some(Verdict::Open) => "open: the interval holds the target",
        Some(Verdict::Missed) => "missed",
        None => "",
    }
}

/// Formats three significant digits, and never an exponent: what is measured here is between 10⁻³ and 10⁶.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Writes columns as wide as their widest cell, the first to the left and the others to the right but the last,
/// which may be prose. Writes nothing without rows.
fn write_table<const N: usize>(
    out: &mut fmt::Formatter<'_>,
    head: [String; N],
    rows: impl Iterator<Item = [String; N]>,
) -> fmt::Result {
    let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
    if rows.len() == 1 {
        return Ok(());
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; N] = std::array::from_fn(|column| width(column).unwrap_or(0));
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            line += &match column {
                0 => format!("{cell:<width$}"),
                _ if column == N - 1 => format!("  {cell}"),
                _ => format!("  {cell:>width$}"),
            };
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(name: &str, low: f64, high: f64, target: Option<f64>) -> Ratio {
        Ratio {
            name: name.to_owned(),
            value: f64::midpoint(low, high),
            interval: Interval { low, high },
            target,
        }
    }

    fn report() -> Report {
        Report {
            ratios: vec![ratio("read_vs_peer", 2.0, 4.0, Some(3.0))],
            results: vec![Series {
                name: "read_ours".to_owned(),
                unit: "MB/s",
                better: Better::Higher,
                workload: "reads".to_owned(),
                samples: vec![300.0, 1234.5],
            }],
            machine: Machine::default(),
            warnings: vec!["too few rounds".to_owned()],
        }
    }

    #[test]
    fn a_target_is_missed_only_by_the_whole_interval() {
        let verdict = |name, low, high| ratio(name, low, high, Some(3.0)).verdict();
        assert_eq!(verdict("a_vs_b", 3.0, 3.5), Some(Verdict::Met));
        assert_eq!(verdict("a_vs_b", 2.0, 3.0), Some(Verdict::Open));
        assert_eq!(verdict("a_vs_b", 2.0, 2.9), Some(Verdict::Missed));
        assert_eq!(verdict("a_cost", 2.0, 3.0), Some(Verdict::Met));
        assert_eq!(verdict("a_cost", 2.9, 3.1), Some(Verdict::Open));
        assert_eq!(verdict("a_cost", 3.1, 3.2), Some(Verdict::Missed));
        assert_eq!(ratio("a_vs_b", 1.0, 2.0, None).verdict(), None);
    }

    #[test]
    fn the_json_is_of_the_documented_shape() {
        let mut json = report().to_json();
        json["machine"] = Value::Null;
        let wanted = json!({
            "ratios": {"read_vs_peer": 3.0},
            "intervals": {"read_vs_peer": [2.0, 4.0]},
            "results": [{
                "name": "read_ours", "unit": "MB/s", "better": "higher", "workload": "reads",
                "median": 767.25, "samples": [300.0, 1234.5],
            }],
            "machine": null,
            "warnings": ["too few rounds"],
        });
        assert_eq!(json, wanted);
        let keys: Vec<_> = json.as_object().unwrap().keys().cloned().collect();
        assert_eq!(
            keys,
            ["ratios", "intervals", "results", "machine", "warnings"]
        );
    }

    #[test]
    fn the_terminal_gets_aligned_columns() {
        let wanted = "\
ratio         value  95 % interval  target
read_vs_peer   3.00    2.00 … 4.00  ≥ 3.00  open: the interval holds the target

result     median  unit  better  samples
read_ours     767  MB/s  higher  2

warning: too few rounds
";
        assert_eq!(report().to_string(), wanted);
    }

    #[test]
    fn figures_have_three_digits() {
        let figures = [0.0123, 0.5, 1.2345, 12.345, 123.45, 12345.6].map(figure);
        assert_eq!(figures, ["0.012", "0.500", "1.23", "12.3", "123", "12346"]);
    }
}
