//! Two results of the comparison beside each other: an old one, from its JSON, and a new one.

use std::fmt::Write as _;

use scrim_foreign::Foreign;
use serde_json::Value;

use super::phase::Phase;
use crate::figure::number;
use crate::report::{Report, Series};
use crate::stat::median;

/// Units of figures that are compared.
const UNITS: [&str; 3] = ["MB/s", "seeks/s", "files/s"];

/// The result of an earlier run.
#[derive(Clone, Debug)]
pub struct Earlier {
    results: Vec<Old>,
    /// The processor and the kernel that it is from.
    machine: [Option<String>; 2],
}

/// A series of an earlier run.
#[derive(Clone, Debug)]
struct Old {
    name: String,
    /// Description of the load.
    workload: Option<String>,
    samples: Vec<f64>,
}

/// A figure in both results.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change {
    pub(super) name: String,
    pub(super) unit: &'static str,
    pub(super) old: f64,
    pub(super) new: f64,
    /// True if every new sample lies beyond every old one, and both sides have at least two.
    pub(super) is_clear: bool,
}

impl Earlier {
    /// Reads the JSON of an earlier run.
    ///
    /// # Errors
    /// With a sentence that says what is wrong.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let json: Value =
            serde_json::from_slice(text).map_err(|error| format!("not JSON: {error}"))?;
        let results = json["results"].as_array();
        let results = results.ok_or("no results of `scrim bench fileserver --json`")?;
        let results = results.iter().filter_map(|result| {
            let samples = result["samples"].as_array()?.iter();
            let samples: Vec<f64> = samples.filter_map(Value::as_f64).collect();
            Some(Old {
                name: result["name"].as_str()?.to_owned(),
                workload: result["workload"].as_str().map(str::to_owned),
                samples,
            })
        });
        let of_machine = |key: &str| json["machine"][key].as_str().map(str::to_owned);
        Ok(Self {
            results: results.collect(),
            machine: ["cpu", "kernel"].map(of_machine),
        })
    }

    /// Rates of combinations that both results have.
    pub(super) fn changes(&self, report: &Report) -> Vec<Change> {
        let rates = report.results.iter();
        let rates =
            rates.filter(|series| UNITS.contains(&series.unit) && is_of_phase(&series.name));
        rates.filter_map(|series| self.change(series)).collect()
    }

    fn change(&self, series: &Series) -> Option<Change> {
        let old = &self.old(series)?.samples;
        let are_enough = old.len() >= 2 && series.samples.len() >= 2;
        let ends = |samples: &[f64]| {
            let low = samples.iter().copied().fold(f64::INFINITY, f64::min);
            let high = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            (low, high)
        };
        let (before, after) = (ends(old), ends(&series.samples));
        Some(Change {
            name: series.name.clone(),
            unit: series.unit,
            old: median(old)?,
            new: median(&series.samples)?,
            is_clear: are_enough && (after.0 > before.1 || after.1 < before.0),
        })
    }

    fn old(&self, series: &Series) -> Option<&Old> {
        self.results.iter().find(|old| old.name == series.name)
    }

    /// Differences of the machine and of the load, as sentences.
    pub(super) fn differences(&self, report: &Report) -> Vec<String> {
        let now = [&report.machine.cpu, &report.machine.kernel];
        let pairs = self.machine.iter().zip(now);
        let named = pairs.zip(["processor", "kernel"]);
        let differing = named.filter(|((old, now), _)| *old != *now);
        let mut said: Vec<String> = differing
            .map(|((old, now), what)| {
                let shown = |text: &Option<String>| match text {
                    Some(text) => Foreign::new(text).to_string(),
                    None => "unknown".to_owned(),
                };
                format!("another {what}: {} then, {} now", shown(old), shown(now))
            })
            .collect();
        let phases = report.results.iter();
        let mut phases = phases.filter(|series| is_of_phase(&series.name));
        let is_other = |series: &Series| {
            let old = self.old(series);
            old.is_some_and(|old| old.workload.as_deref() != Some(&series.workload))
        };
        if phases.any(is_other) {
            said.push("another load: the changes compare different work".to_owned());
        }
        said
    }

    /// Both results as text.
    #[must_use]
    pub fn text(&self, report: &Report) -> String {
        let mut text = format!(
            "\n# Against the earlier result: then, now, and the change; `clear` where all samples differ\n{:<52}{:>11}{:>11}{:>9}\n",
            "#", "then", "now", "change"
        );
        for change in self.changes(report) {
            let _ = writeln!(
                text,
                "{:<52}{:>11}{:>11}{:>+7.0} %{}",
                change.name,
                number(change.old),
                number(change.new),
                change.percent(),
                if change.is_clear { "  clear" } else { "" }
            );
        }
        for difference in self.differences(report) {
            let _ = writeln!(text, "# {difference}");
        }
        text
    }
}

/// Returns whether a series is of a combination's phase, not of the storage, the network or the processor.
fn is_of_phase(name: &str) -> bool {
    Phase::ALL
        .iter()
        .any(|phase| name.ends_with(&format!("_{}", phase.name())))
}

impl Change {
    pub(super) fn percent(&self) -> f64 {
        (self.new / self.old.max(1e-9) - 1.0) * 100.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::night::tests::full;
    use super::super::reference::References;
    use super::*;
    use crate::{Machine, Study};

    fn report() -> Report {
        let mut study = Study::new(Machine::default(), 2);
        full().record(&mut study, &References::default());
        study.finish()
    }

    #[test]
    fn a_result_is_compared_with_an_earlier_one() {
        let mut old = report().to_json();
        old["machine"]["kernel"] = "5.10.0".into();
        let result = &mut old["results"][0];
        result["samples"] = serde_json::json!([100.0, 101.0]);
        let name = result["name"].as_str().unwrap().to_owned();
        let earlier = Earlier::parse(old.to_string().as_bytes()).unwrap();
        let changes = earlier.changes(&report());
        assert_eq!(
            (changes[0].name.as_str(), changes[0].is_clear),
            (name.as_str(), true)
        );
        assert!((changes[0].percent() - 99.5).abs() < 0.1);
        assert!(!changes[1].is_clear && changes[1].percent() == 0.0);
        let text = earlier.text(&report());
        assert!(
            text.contains("clear") && text.contains("5.10.0 then, unknown now"),
            "{text}"
        );
    }

    #[test]
    fn one_sample_another_load_and_references_tell_no_change() {
        let mut old = report().to_json();
        old["results"][0]["samples"] = serde_json::json!([1.0]);
        let earlier = Earlier::parse(old.to_string().as_bytes()).unwrap();
        let changes = earlier.changes(&report());
        assert!(!changes[0].is_clear);
        let is_reference = |change: &Change| change.name.starts_with("raw_disk");
        assert!(!changes.iter().any(is_reference));
        assert_eq!(earlier.differences(&report()), [""; 0]);
        old["results"][0]["workload"] = "a file of 1 MiB".into();
        let earlier = Earlier::parse(old.to_string().as_bytes()).unwrap();
        assert!(earlier.differences(&report())[0].contains("another load"));
    }

    #[test]
    fn what_is_no_result_is_refused() {
        assert!(Earlier::parse(b"{").unwrap_err().contains("not JSON"));
        assert!(Earlier::parse(b"{}").unwrap_err().contains("no results"));
        let odd = br#"{"results": [{"name": 1}, {"name": "a", "samples": ["x"]}, 5]}"#;
        assert!(Earlier::parse(odd).unwrap().changes(&report()).is_empty());
    }
}
