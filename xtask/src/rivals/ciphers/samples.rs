//! The program that measures, and its results.

use std::io::{Read, Seek};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use scrim_bench::stat::median;
use scrim_bench::{Better, SeriesId, Study, process};
use serde_json::Value;

use super::libraries::LIBRARIES;
use crate::cargo;
use crate::error::{Doing, Error};

/// Options for the amount of sampling.
#[derive(clap::Args)]
pub(in crate::rivals) struct Sampling {
    /// Number of times that each contender runs each load
    #[arg(long, default_value_t = scrim_bench::ROUNDS, value_parser = crate::rivals::options::round_count)]
    rounds: usize,
    /// Print JSON on standard output, and the table on standard error
    #[arg(long)]
    pub(in crate::rivals) json: bool,
    /// Three rounds of short samples: to see that all works, not how fast
    #[arg(long, conflicts_with = "rounds")]
    quick: bool,
}

impl Sampling {
    pub(super) fn rounds(&self) -> usize {
        if self.quick { 3 } else { self.rounds }
    }

    fn sample_ms(&self) -> u64 {
        if self.quick { 4 } else { 25 }
    }
}

/// The program of the package `scrim-rivals`.
pub(super) struct Instrument(PathBuf);

impl Instrument {
    const NAME: &str = "scrim-rivals";

    /// Builds the program, with the libraries that are linked into it: the first time takes minutes.
    pub(super) fn build() -> Result<Self, Error> {
        eprintln!(
            "building {}, which takes some minutes the first time",
            Self::NAME
        );
        Ok(Self(cargo::build(Self::NAME, Self::NAME, true)?))
    }

    /// Libraries that are found on this machine.
    pub(super) fn libraries(&self) -> Result<Samples, Error> {
        self.run(&["libraries"])
    }

    /// Samples of one run.
    pub(super) fn measure(
        &self,
        task: &str,
        sampling: &Sampling,
        arguments: &[&str],
    ) -> Result<Samples, Error> {
        let (rounds, sample) = (
            sampling.rounds().to_string(),
            sampling.sample_ms().to_string(),
        );
        let mut all = vec![task, "--rounds", &rounds, "--sample-ms", &sample];
        all.extend(arguments);
        self.run(&all)
    }

    fn run(&self, arguments: &[&str]) -> Result<Samples, Error> {
        let mut output = tempfile::tempfile().doing(|| "make a file".to_owned())?;
        let writer = output.try_clone().doing(|| "open a file".to_owned())?;
        let mut command = Command::new(&self.0);
        command.args(arguments).stdin(Stdio::null()).stdout(writer);
        let finished = process::run(&mut command).doing(|| format!("run {}", self.0.display()))?;
        if !finished.status.success() {
            let said = format!("failed ({}); see above", finished.status);
            return Err(Error::program(Self::NAME, said));
        }
        let mut text = String::new();
        output
            .rewind()
            .and_then(|()| output.read_to_string(&mut text))
            .doing(|| "read a file".to_owned())?;
        let mut samples = Samples::parse(&text)
            .ok_or_else(|| Error::program(Self::NAME, "said something that is not understood"))?;
        if finished.was_interrupted() {
            let warning = "involuntary switches: the process that measured was taken off its \
                           processor over and over; something else was running";
            samples.warnings.push(warning.to_owned());
        }
        Ok(samples)
    }
}

/// Results of one or more runs.
#[derive(Default)]
pub(super) struct Samples {
    pub(super) versions: Vec<(&'static str, String)>,
    pub(super) missing: Vec<(String, String)>,
    series: Vec<Sampled>,
    warnings: Vec<String>,
}

struct Sampled {
    name: String,
    workload: String,
    samples: Vec<f64>,
}

impl Samples {
    /// The object that the documentation of `scrim-rivals` describes.
    fn parse(text: &str) -> Option<Self> {
        let said: Value = serde_json::from_str(text).ok()?;
        let missing = said["missing"].as_object()?.iter();
        let series = said["series"].as_array()?.iter();
        let warnings = said["warnings"].as_array()?.iter();
        Some(Self {
            versions: LIBRARIES
                .iter()
                .filter_map(|name| Some((*name, said["versions"][name].as_str()?.to_owned())))
                .collect(),
            missing: missing
                .map(|(name, why)| Some((name.clone(), why.as_str()?.to_owned())))
                .collect::<Option<_>>()?,
            series: series.map(Sampled::parse).collect::<Option<_>>()?,
            warnings: warnings
                .map(|warning| Some(warning.as_str()?.to_owned()))
                .collect::<Option<_>>()?,
        })
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.series.extend(other.series);
        self.warnings.extend(other.warnings);
    }

    /// Changes the description of each series.
    pub(super) fn describe(&mut self, describe: impl Fn(&str, &mut String)) {
        for series in &mut self.series {
            describe(&series.name, &mut series.workload);
        }
    }

    /// Adds all warnings and series to the study.
    pub(super) fn record(self, study: &mut Study) -> Recorded {
        for warning in self.warnings {
            study.warn(warning);
        }
        let series = self.series.into_iter();
        Recorded(series.map(|series| series.record(study)).collect())
    }
}

impl Sampled {
    fn record(self, study: &mut Study) -> Recording {
        let id = study.series(&self.name, "MB/s", Better::Higher, self.workload);
        for sample in &self.samples {
            study.record(id, *sample);
        }
        Recording {
            id,
            name: self.name,
            samples: self.samples,
        }
    }

    fn parse(series: &Value) -> Option<Self> {
        Some(Self {
            name: series["name"].as_str()?.to_owned(),
            workload: series["workload"].as_str()?.to_owned(),
            samples: series["samples"]
                .as_array()?
                .iter()
                .map(Value::as_f64)
                .collect::<Option<_>>()?,
        })
    }
}

/// The series that a study has recorded.
pub(super) struct Recorded(Vec<Recording>);

#[derive(Clone)]
pub(super) struct Recording {
    pub(super) id: SeriesId,
    name: String,
    pub(super) samples: Vec<f64>,
}

impl Recorded {
    pub(super) fn find(&self, name: &str) -> Option<&Recording> {
        self.0.iter().find(|recording| recording.name == name)
    }

    /// The samples, under a name of their own that is made when they are first asked for, of the
    /// fastest of these peers at a load and a direction: the one with the highest median. (The
    /// highest rate of each round would be a peer that nobody has, and the luckier the more peers
    /// and noise there are.) A peer that failed on the way has no part in it.
    pub(super) fn fastest(
        &mut self,
        study: &mut Study,
        stem: &str,
        set: &str,
        names: &[&str],
    ) -> Option<&Recording> {
        let name = format!("{stem}_{set}");
        if self.find(&name).is_none() {
            let series = self.pick(study.rounds(), name.clone(), stem, names)?;
            self.0.push(series.record(study));
        }
        self.find(&name)
    }

    fn pick(&self, rounds: usize, name: String, stem: &str, names: &[&str]) -> Option<Sampled> {
        let (_, peer, samples) = names
            .iter()
            .filter_map(|name| Some((name, &self.find(&format!("{stem}_{name}"))?.samples)))
            .filter(|(_, samples)| samples.len() == rounds)
            .filter_map(|(name, samples)| Some((median(samples)?, name, samples)))
            .max_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(Sampled {
            name,
            workload: format!("the fastest peer, by its median: {peer}"),
            samples: samples.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use scrim_bench::Machine;

    use super::super::promise::PROMISES;
    use super::*;

    fn said(series: &[(&str, &[f64])]) -> Samples {
        let series: Vec<_> = series
            .iter()
            .map(|(name, samples)| {
                serde_json::json!({"name": name, "workload": "known numbers", "samples": samples})
            })
            .collect();
        let text = serde_json::json!({
            "versions": {"openssl": "OpenSSL 3", "bound": "rounds"},
            "missing": {"isal": "none here"},
            "series": series,
            "warnings": ["a warning"],
        });
        Samples::parse(&text.to_string()).unwrap()
    }

    #[test]
    fn what_it_says_is_understood() {
        let samples = said(&[("a", &[1.0])]);
        assert_eq!(samples.versions, [("openssl", "OpenSSL 3".to_owned())]);
        assert_eq!(
            samples.missing,
            [("isal".to_owned(), "none here".to_owned())]
        );
        assert!(Samples::parse("{}").is_none());
        assert!(Samples::parse("error").is_none());
    }

    #[test]
    fn the_best_has_the_highest_median_and_the_worse_direction_counts() {
        let samples = said(&[
            ("aes256xts_4k_encrypt_scrim", &[10.0, 10.0, 10.0]),
            ("aes256xts_4k_encrypt_openssl", &[5.0, 4.0, 2.0]),
            ("aes256xts_4k_encrypt_isal", &[4.0, 5.0, 5.0]),
            ("aes256xts_4k_encrypt_nettle", &[100.0]),
            ("aes256xts_4k_decrypt_scrim", &[10.0, 10.0, 10.0]),
            ("aes256xts_4k_decrypt_isal", &[8.0, 8.0, 8.0]),
        ]);
        let mut study = Study::new(Machine::default(), 3);
        let mut recorded = samples.record(&mut study);
        for promise in PROMISES
            .iter()
            .filter(|promise| promise.load == "aes256xts_4k")
        {
            promise.compare(&mut study, &mut recorded);
        }
        let best = recorded.find("aes256xts_4k_encrypt_best").unwrap();
        assert_eq!(best.samples, [4.0, 5.0, 5.0]);
        let report = study.finish();
        let [ratio] = &report.ratios[..] else {
            panic!("one ratio: {:?}", report.warnings)
        };
        assert_eq!(
            (ratio.name.as_str(), ratio.value),
            ("aes256xts_4k_vs_best", 1.25)
        );
        let best = "aes256xts_4k_encrypt_best";
        let best = report
            .results
            .iter()
            .find(|series| series.name == best)
            .unwrap();
        assert_eq!(best.workload, "the fastest peer, by its median: isal");
        let left_out = "aes256xts_4k_of_bound: left out, a side of it was not measured";
        assert!(report.warnings.iter().any(|warning| warning == left_out));
        assert!(report.warnings.iter().any(|warning| warning == "a warning"));
    }
}
