//! Figures of a comparison: the series of its report, and a table for a terminal.

use std::fmt::Write as _;

use super::bonnie::too_quick;
use super::combination::{Combination, MountPath};
use super::night::{Night, PhaseResult, Source};
use super::phase::Phase;
use super::reference::References;
use crate::figure::{Figure, number};
use crate::stat::median;
use crate::{Better, SeriesId, Study};

/// Processes whose processor time is shown.
pub(super) const PROCESSES: [&str; 3] = ["scrim", "fuse2fs", "generator"];

impl Night {
    /// Rate of a combination in a phase, over whole rounds.
    pub(super) fn rate(&self, combination: usize, phase: Phase) -> Option<Figure> {
        Figure::of(&self.samples(combination, phase, |result| Some(result.rate)))
    }

    pub(super) fn samples(
        &self,
        combination: usize,
        phase: Phase,
        value: impl Fn(&PhaseResult) -> Option<f64>,
    ) -> Vec<f64> {
        let results = self.results(combination, phase).into_iter();
        results.filter_map(value).collect()
    }

    /// Combinations of the plan with their indices.
    pub(super) fn combinations(&self) -> impl Iterator<Item = (usize, &Combination)> {
        self.plan.combinations.iter().enumerate()
    }

    /// Index of the combination without encryption on the same way.
    pub(super) fn plain_of(&self, combination: &Combination) -> Option<usize> {
        let mut all = self.combinations();
        all.find(|(_, one)| one.is_plain_of(combination))
            .map(|(index, _)| index)
    }

    /// Records every figure as a series of `study`, and the ratios. The study has as many rounds as are whole.
    pub fn record(&self, study: &mut Study, references: &References) {
        let mut rates = Vec::new();
        for (index, combination) in self.combinations() {
            let phases = Phase::ALL.map(|phase| (phase, self.record_phase(study, index, phase)));
            rates.push(phases);
            if let Some(failure) = self.failure_of(index) {
                let label = combination.label();
                study.warn(format!(
                    "failed: {label}: {failure}; its later rounds were left out"
                ));
            }
        }
        self.warn_of_missing_rates(study);
        references.record(study, self);
        for (index, combination) in self.combinations() {
            if combination.cipher.is_none() {
                continue;
            }
            let name = combination.name();
            let plain = self.plain_of(combination);
            let queued = self.combinations().find(|(_, other)| {
                other.cipher == combination.cipher && other.path == MountPath::Queued
            });
            for (number, (phase, ours)) in rates[index].iter().enumerate() {
                let mut compare = |name: String, peer: Option<usize>| {
                    let peer = peer.and_then(|peer| rates[peer][number].1);
                    if let (Some(ours), Some(peer)) = (ours, peer) {
                        study.ratio(&name, *ours, peer, None);
                    }
                };
                let phase = phase.name();
                compare(format!("{name}_{phase}_vs_plain"), plain);
                if combination.path == MountPath::Inline {
                    let queued = queued.map(|(index, _)| index);
                    compare(format!("{name}_{phase}_vs_queued"), queued);
                }
            }
        }
    }

    /// Names the phases that bonnie++ printed no figure of in some round.
    fn warn_of_missing_rates(&self, study: &mut Study) {
        if self.plan.source == Source::Own {
            return;
        }
        for phase in Phase::ALL {
            let mut all = self.combinations();
            if all.any(|(index, _)| self.results(index, phase).len() < self.whole_rounds()) {
                study.warn(too_quick(phase));
            }
        }
    }

    /// Records one phase of a combination, and returns the series of its rate; `None` without a whole round.
    fn record_phase(&self, study: &mut Study, index: usize, phase: Phase) -> Option<SeriesId> {
        let combination = self.plan.combinations.get(index)?;
        let name = format!("{}_{}", combination.name(), phase.name());
        let by = match self.plan.source {
            Source::Own => "",
            Source::Bonnie => ", by bonnie++",
        };
        let workload = format!(
            "{}: {}{by}; {}",
            combination.label(),
            phase.describe(),
            self.plan.load.describe()
        );
        let mut series = |ending: &str, unit, better, samples: &[f64]| {
            if samples.is_empty() {
                return None;
            }
            let id = study.series(format!("{name}{ending}"), unit, better, workload.clone());
            for sample in samples {
                study.record(id, *sample);
            }
            Some(id)
        };
        let values =
            |value: &dyn Fn(&PhaseResult) -> Option<f64>| self.samples(index, phase, value);
        let rates = values(&|result| Some(result.rate));
        let rate = series("", phase.unit(), Better::Higher, &rates)?;
        for process in PROCESSES {
            let cpu = values(&|result| result.cpu_per_gb(process));
            series(&format!("_{process}_cpu"), "CPU s/GB", Better::Lower, &cpu);
        }
        let cores = values(&PhaseResult::busy_cores);
        series("_busy_cores", "cores", Better::Lower, &cores);
        let memory = values(&|result| Some(result.usage.memory_mib));
        series("_memory", "MiB", Better::Lower, &memory);
        let p50 = values(&|result| Some(result.bystander?.p50));
        series("_bystander_p50", "µs", Better::Lower, &p50);
        let p99 = values(&|result| Some(result.bystander?.p99));
        series("_bystander_p99", "µs", Better::Lower, &p99);
        Some(rate)
    }

    /// All figures as text; empty without a whole round.
    #[must_use]
    pub fn text(&self, references: &References) -> String {
        if self.whole_rounds() == 0 {
            return String::new();
        }
        let mut text = format!("# {}\n", self.describe());
        text.push_str(&self.rate_table());
        text.push('\n');
        text.push_str(&self.cost_table());
        let _ = write!(text, "\n{}", references.text(self));
        text
    }

    /// Describes the load in one sentence.
    pub(super) fn describe(&self) -> String {
        let load = &self.plan.load;
        format!(
            "ext4, a file of {} MiB, medians of {} rounds, by {}",
            load.bytes >> 20,
            self.whole_rounds(),
            match self.plan.source {
                Source::Own => "bonnie++'s phases",
                Source::Bonnie => "bonnie++ itself",
            }
        )
    }

    /// Two tables: blocks with their intervals, and the other phases.
    fn rate_table(&self) -> String {
        let others: Vec<Phase> = Phase::ALL
            .into_iter()
            .filter(|phase| !Phase::BLOCKS.contains(phase))
            .collect();
        format!(
            "# MB/s of blocks, with the 95 % interval\n{}\n# MB/s of single bytes; random places and files a second\n{}",
            self.rates_of(&Phase::BLOCKS, true),
            self.rates_of(&others, false)
        )
    }

    fn rates_of(&self, phases: &[Phase], with_interval: bool) -> String {
        let width = if with_interval { 22 } else { 11 };
        let mut text = format!("{:<44}", "#");
        for phase in phases {
            let _ = write!(text, "{:>width$}", phase.name().replace('_', " "));
        }
        text.push('\n');
        for (index, combination) in self.combinations() {
            let _ = write!(text, "{:<44}", combination.label());
            for phase in phases {
                let shown = match self.rate(index, *phase) {
                    None => "-".to_owned(),
                    Some(Figure { value, interval }) if with_interval => format!(
                        "{} ({:.0} to {:.0})",
                        number(value),
                        interval.low,
                        interval.high
                    ),
                    Some(figure) => number(figure.value),
                };
                let _ = write!(text, "{shown:>width$}");
            }
            text.push('\n');
        }
        text
    }

    fn cost_table(&self) -> String {
        let mut text = format!(
            "# Block write and block read: CPU seconds per GB of each process, busy processors of {}, memory,\n\
             # and the latency of 4 KiB reads beside them\n{:<44}{:>7}{:>9}{:>10}{:>7}{:>8}{:>10}{:>10}\n",
            std::thread::available_parallelism().map_or(1, usize::from),
            "#",
            "scrim",
            "fuse2fs",
            "generator",
            "cores",
            "MiB",
            "p50 us",
            "p99 us"
        );
        for (index, combination) in self.combinations() {
            for phase in [Phase::BlockWrite, Phase::BlockRead] {
                let value = |value: &dyn Fn(&PhaseResult) -> Option<f64>, digits: usize| {
                    let figure = median(&self.samples(index, phase, value));
                    figure.map_or("-".to_owned(), |figure| format!("{figure:.digits$}"))
                };
                let label = match phase {
                    Phase::BlockWrite => format!("{} write", combination.label()),
                    _ => format!("{:>43}", "read"),
                };
                let [scrim, program, generator] =
                    PROCESSES.map(|process| value(&|result| result.cpu_per_gb(process), 2));
                let _ = writeln!(
                    text,
                    "{label:<44}{scrim:>7}{program:>9}{generator:>10}{:>7}{:>8}{:>10}{:>10}",
                    value(&PhaseResult::busy_cores, 2),
                    value(&|result| Some(result.usage.memory_mib), 0),
                    value(&|result| Some(result.bystander?.p50), 0),
                    value(&|result| Some(result.bystander?.p99), 0),
                );
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::night::tests::{empty, full};
    use super::*;
    use crate::Machine;

    #[test]
    fn every_figure_is_a_series_and_is_compared() {
        let night = full();
        let mut study = Study::new(Machine::default(), night.whole_rounds());
        night.record(&mut study, &References::default());
        let report = study.finish();
        let has = |name: &str| report.results.iter().any(|series| series.name == name);
        for name in [
            "plain_scrim_block_read",
            "plain_scrim_seeks_busy_cores",
            "aes-xts-plain64_512b_inline_block_write_scrim_cpu",
            "aes-xts-plain64_512b_queued_char_read_bystander_p99",
            "raw_disk_write",
        ] {
            assert!(has(name), "{name}");
        }
        let ratio = |name: &str| report.ratios.iter().find(|ratio| ratio.name == name);
        let ratio_of = |name: &str| ratio(name).unwrap().value;
        let plain = ratio_of("aes-xts-plain64_512b_inline_block_read_vs_plain");
        assert!((plain - 0.5).abs() < 0.01, "{plain}");
        assert!(ratio("aes-xts-plain64_512b_inline_seeks_vs_queued").is_some());
        let left_out = report.warnings.iter().find(|one| one.contains("left out"));
        assert_eq!(left_out, None);
    }

    #[test]
    fn the_text_has_every_combination() {
        let text = full().text(&References::default());
        for part in [
            "a file of 256 MiB, medians of 2 rounds",
            "no encryption, Scrim",
            "aes-xts-plain64 512b, Scrim inline",
            "(200 to 201)",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(empty().text(&References::default()), "");
    }

    #[test]
    fn a_phase_without_a_figure_of_bonnie_is_a_warning() {
        let mut night = full();
        night.plan.source = Source::Bonnie;
        let result = &mut night.turns[0].phases;
        result.retain(|result| result.phase != Phase::CharWrite);
        let mut study = Study::new(Machine::default(), night.whole_rounds());
        night.record(&mut study, &References::default());
        let warnings = study.finish().warnings;
        assert!(
            warnings.contains(&too_quick(Phase::CharWrite)),
            "{warnings:?}"
        );
        assert!(!warnings.contains(&too_quick(Phase::Seeks)), "{warnings:?}");
    }

    #[test]
    fn a_failure_is_a_warning() {
        let mut night = full();
        night
            .turns
            .retain(|turn| turn.combination != 1 || turn.round == 0);
        for turn in &mut night.turns {
            if turn.combination == 1 {
                turn.failure = Some("disk full".to_owned());
                turn.phases.truncate(2);
            }
        }
        assert_eq!(night.whole_rounds(), 2);
        let mut study = Study::new(Machine::default(), 2);
        night.record(&mut study, &References::default());
        let warnings = study.finish().warnings;
        assert!(warnings.iter().any(|warning| warning.contains("disk full")));
    }
}
