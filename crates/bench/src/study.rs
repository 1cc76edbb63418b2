//! A study: samples in, a report out.

use std::time::{Duration, Instant};

use crate::interference::Interference;
use crate::report::{self, Ratio, Report, Series};
use crate::rounds::{ROUNDS, ROUNDS_WHEN_LONG};
use crate::stat::{Interval, bootstrap_interval, median, paired_ratios};
use crate::{Better, Machine};

/// Width of an interval, as a part of its ratio, from which on it is a warning.
const WIDE: f64 = 0.2;
/// Most ratios that a warning names.
const NAMED: usize = 8;
/// Duration from which on a round is long.
const LONG_ROUND: Duration = Duration::from_secs(60);

/// A set of measurements made in one run.
pub struct Study {
    rounds: usize,
    /// Time of the first sample: what came before was preparation.
    started: Option<Instant>,
    series: Vec<Series>,
    ratios: Vec<Ratio>,
    machine: Machine,
    warnings: Vec<String>,
    interference: Interference,
}

/// Names a series of one [`Study`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesId(usize);

impl Study {
    /// A study of `rounds` rounds that starts now: from here on the machine is watched.
    #[must_use]
    pub fn new(machine: Machine, rounds: usize) -> Self {
        let mut warnings = machine.warnings();
        let interference = Interference::start(&mut warnings);
        Self {
            rounds,
            started: None,
            series: Vec::new(),
            ratios: Vec::new(),
            machine,
            warnings,
            interference,
        }
    }

    /// Number of rounds to be run.
    #[must_use]
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// A new quantity to record, under a name of its own.
    pub fn series(
        &mut self,
        name: impl Into<String>,
        unit: &'static str,
        better: Better,
        workload: impl Into<String>,
    ) -> SeriesId {
        self.series.push(Series {
            name: name.into(),
            unit,
            better,
            workload: workload.into(),
            samples: Vec::new(),
        });
        SeriesId(self.series.len() - 1)
    }

    /// Records this round's sample of a series.
    pub fn record(&mut self, series: SeriesId, sample: f64) {
        self.started.get_or_insert_with(Instant::now);
        if let Some(series) = self.series.get_mut(series.0) {
            series.samples.push(sample);
        }
    }

    /// The median of a series so far.
    #[must_use]
    pub fn median(&self, series: SeriesId) -> Option<f64> {
        median(&self.series.get(series.0)?.samples)
    }

    /// Ends the study after fewer rounds than were planned. Of `series`, which are measured in rounds, samples
    /// of a round that was begun and not finished do not count.
    pub fn end_after(&mut self, rounds: usize, series: &[SeriesId]) {
        self.warn(format!(
            "interrupted: {rounds} of {} rounds were run",
            self.rounds
        ));
        self.rounds = rounds;
        for id in series {
            if let Some(series) = self.series.get_mut(id.0) {
                series.samples.truncate(rounds);
            }
        }
    }

    /// Adds a warning: a fact that makes figures worth less than they look, and its consequence. One that is
    /// added twice is kept once.
    pub fn warn(&mut self, warning: impl Into<String>) {
        let warning = warning.into();
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Compares two series of the same unit, `ours` with `peer`, by the median of their rounds'
    /// ratios; `target` is the least the ratio should be, or the most where the name ends in
    /// `_cost`.
    ///
    /// A round is a pair by its place in both series. So where one has fewer samples than the
    /// study has rounds, there is a warning in place of the ratio.
    pub fn ratio(
        &mut self,
        name: &str,
        ours: SeriesId,
        peer: SeriesId,
        target: Option<f64>,
    ) -> Option<f64> {
        let (ours, peer) = (self.series.get(ours.0)?, self.series.get(peer.0)?);
        let counts = [ours.samples.len(), peer.samples.len()];
        let comparable = ours.unit == peer.unit && counts == [self.rounds; 2];
        let ratios = paired_ratios(
            &ours.samples,
            &peer.samples,
            ours.better,
            name.ends_with("_cost"),
        );
        let (Some(value), Some(interval), true) =
            (median(&ratios), bootstrap_interval(&ratios), comparable)
        else {
            let warning = format!(
                "{name}: left out, `{}` has {} samples in {} and `{}` {} in {}, for {} rounds",
                ours.name, counts[0], ours.unit, peer.name, counts[1], peer.unit, self.rounds
            );
            self.warn(warning);
            return None;
        };
        let elapsed = self
            .started
            .map_or(Duration::ZERO, |started| started.elapsed());
        let enough = enough_rounds(elapsed, self.rounds);
        if ratios.len() < enough {
            self.warn(format!(
                "too few rounds: {} of the {enough} that a ratio needs",
                ratios.len()
            ));
        }
        self.ratios.push(Ratio {
            name: name.to_owned(),
            value,
            interval,
            target,
        });
        Some(value)
    }

    /// Number of rounds in which `ours` was better than `peer`, or worse, whichever is more, and of all rounds.
    #[must_use]
    pub fn agreeing(&self, ours: SeriesId, peer: SeriesId) -> (usize, usize) {
        let (Some(ours), Some(peer)) = (self.series.get(ours.0), self.series.get(peer.0)) else {
            return (0, 0);
        };
        let ratios = paired_ratios(&ours.samples, &peer.samples, ours.better, false);
        let better = ratios.iter().filter(|ratio| **ratio > 1.0).count();
        let worse = ratios.iter().filter(|ratio| **ratio < 1.0).count();
        (better.max(worse), ratios.len())
    }

    /// A ratio that [`ratio`](Self::ratio) has added, by its name.
    #[must_use]
    pub fn found(&self, name: &str) -> Option<&Ratio> {
        report::named(&self.ratios, name)
    }

    /// Ends the watch over the machine and hands over what was found.
    #[must_use]
    pub fn finish(mut self) -> Report {
        self.interference.end(&mut self.warnings);
        self.warnings.extend(wide_spread(&self.ratios));
        Report {
            ratios: self.ratios,
            results: self.series,
            machine: self.machine,
            warnings: self.warnings,
        }
    }
}

/// Rounds that are enough: fewer where each takes long, and so has long to even out.
fn enough_rounds(elapsed: Duration, rounds: usize) -> usize {
    let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
    if elapsed >= LONG_ROUND.saturating_mul(rounds) {
        ROUNDS_WHEN_LONG
    } else {
        ROUNDS
    }
}

/// One warning for all ratios whose interval is wide, with the widest of them.
fn wide_spread(ratios: &[Ratio]) -> Option<String> {
    let widths = ratios.iter().map(|ratio| {
        let Interval { low, high } = ratio.interval;
        (ratio, (high - low) / ratio.value)
    });
    let mut wide: Vec<_> = widths.filter(|(_, width)| *width > WIDE).collect();
    wide.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let named: Vec<String> = wide
        .iter()
        .take(NAMED)
        .map(|(ratio, width)| format!("{} {:.0} %", ratio.name, width * 100.0))
        .collect();
    let more = match wide.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    (!wide.is_empty()).then(|| {
        format!(
            "wide spread: run more rounds or let nothing else run, these intervals are a large \
             part of their ratio: {}{more}",
            named.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(rounds: usize) -> Study {
        Study::new(Machine::default(), rounds)
    }

    fn fill(study: &mut Study, name: &str, unit: &'static str, samples: &[f64]) -> SeriesId {
        let id = study.series(name, unit, Better::Higher, "known numbers");
        for sample in samples {
            study.record(id, *sample);
        }
        id
    }

    #[test]
    fn a_ratio_is_the_median_of_the_rounds_ratios() {
        let mut study = study(5);
        let ours = fill(&mut study, "ours", "MB/s", &[10.0, 22.0, 30.0, 44.0, 50.0]);
        let peer = fill(&mut study, "peer", "MB/s", &[10.0, 20.0, 30.0, 40.0, 50.0]);
        study.ratio("ours_vs_peer", ours, peer, Some(1.0));
        let report = study.finish();
        let [ratio] = &report.ratios[..] else {
            panic!("one ratio")
        };
        assert_eq!(ratio.value, 1.0);
        assert_eq!(
            ratio.interval,
            Interval {
                low: 1.0,
                high: 1.1
            }
        );
        assert!(!report.warnings.iter().any(|w| w.contains("wide")));
    }

    #[test]
    fn too_few_rounds_and_a_wide_spread_are_said() {
        let mut study = study(3);
        let ours = fill(&mut study, "ours", "MB/s", &[10.0, 20.0, 30.0]);
        let peer = fill(&mut study, "peer", "MB/s", &[10.0, 10.0, 10.0]);
        study.ratio("ours_vs_peer", ours, peer, None);
        study.ratio("ours_vs_peer_again", ours, peer, None);
        let warnings = study.finish().warnings;
        let few: Vec<_> = warnings.iter().filter(|w| w.contains("few")).collect();
        assert_eq!(few, ["too few rounds: 3 of the 15 that a ratio needs"]);
        let wide: Vec<_> = warnings.iter().filter(|w| w.contains("wide")).collect();
        assert_eq!(wide.len(), 1);
        assert!(wide[0].ends_with(": ours_vs_peer 100 %, ours_vs_peer_again 100 %"));
    }

    #[test]
    fn only_the_widest_are_named() {
        let ratio = |high: f64| Ratio {
            name: format!("to_{high}"),
            value: 1.0,
            interval: Interval { low: 1.0, high },
            target: None,
        };
        let ratios: Vec<_> = (1..=12).map(|n| ratio(1.0 + f64::from(n) / 10.0)).collect();
        let warning = wide_spread(&ratios).unwrap();
        assert!(
            warning.contains("their ratio: to_2.2 120 %, to_2.1 110 %"),
            "{warning}"
        );
        assert!(warning.ends_with("to_1.5 50 %, and 2 more"), "{warning}");
        assert_eq!(wide_spread(&ratios[..2]), None);
    }

    #[test]
    fn long_rounds_may_be_fewer() {
        let seconds = Duration::from_secs;
        assert_eq!(enough_rounds(seconds(299), 5), ROUNDS);
        assert_eq!(enough_rounds(seconds(300), 5), ROUNDS_WHEN_LONG);
        assert_eq!(enough_rounds(seconds(300), 6), ROUNDS);
    }

    #[test]
    fn an_interrupted_study_keeps_its_whole_rounds() {
        let mut study = study(5);
        let ours = fill(&mut study, "ours", "MB/s", &[10.0, 20.0, 90.0]);
        let peer = fill(&mut study, "peer", "MB/s", &[10.0, 10.0]);
        let other = fill(&mut study, "other", "MB/s", &[1.0, 2.0, 3.0]);
        assert_eq!(study.median(ours), Some(20.0));
        study.end_after(2, &[ours, peer]);
        assert_eq!(study.median(ours), Some(15.0));
        assert_eq!(study.median(other), Some(2.0));
        study.ratio("ours_vs_peer", ours, peer, None);
        let report = study.finish();
        assert_eq!(report.ratios[0].value, 1.5);
        let said = "interrupted: 2 of 5 rounds were run";
        assert!(report.warnings.iter().any(|w| w == said));
    }

    #[test]
    fn unpaired_series_give_a_warning_and_no_ratio() {
        let mut study = study(2);
        let ours = fill(&mut study, "ours", "MB/s", &[10.0, 20.0]);
        let short = fill(&mut study, "short", "MB/s", &[10.0]);
        let other = fill(&mut study, "other", "s", &[10.0, 20.0]);
        let empty = fill(&mut study, "empty", "MB/s", &[]);
        for peer in [short, other, empty] {
            study.ratio("ours_vs_peer", ours, peer, None);
        }
        let report = study.finish();
        assert!(report.ratios.is_empty());
        let left_out = report.warnings.iter().filter(|w| w.contains("left out"));
        assert_eq!(left_out.count(), 3);
    }
}
