//! The data path to use, by the ratios of a run.

use super::SetUp;
use crate::conclusion::{Alternatives, Choice, Conclusion, Works, works};
use crate::report::{Report, named};

/// Part of the better path's rate that `auto` has to reach to be worth it.
const AUTO: f64 = 0.95;

/// Draws the conclusion of a run about the data path, and, on a block device, about dm-crypt's flags.
#[must_use]
pub fn conclusion(report: &Report) -> Conclusion {
    let data_path = device(report).or_else(|| {
        let served = inline_or_queued(report)?;
        Some(auto(report, &served).unwrap_or(served))
    });
    Conclusion {
        data_path,
        ..Conclusion::default()
    }
}

/// Reads and writes, by the ratio of a name that ends in the kind of work.
fn both_ways<'a>(report: &'a Report, name: &str) -> Works<'a> {
    let kinds = [("reads", "read"), ("writes", "write")];
    works(
        report,
        kinds.map(|(work, kind)| (work, format!("{name}_{kind}"))),
    )
}

fn inline_or_queued(report: &Report) -> Option<Choice> {
    let alternatives = Alternatives {
        first: "inline",
        second: "queued",
        works: both_ways(report, "served_inline_vs_queued"),
    };
    alternatives.choose()
}

/// `auto`, which is what a volume has without options, where no other path is worth an option.
fn auto(report: &Report, otherwise: &Choice) -> Option<Choice> {
    let of_best = named(&report.ratios, "auto_vs_best_geomean")?;
    (of_best.value >= AUTO).then(|| Choice {
        take: "auto, as without an option".to_owned(),
        because: format!(
            "{:.2} ({:.2} to {:.2}) of the better path's rate over all sizes and depths; for the requests above it is {}: \
             {}",
            of_best.value,
            of_best.interval.low,
            of_best.interval.high,
            otherwise.take,
            otherwise.because
        ),
        sure: otherwise.sure && of_best.interval.low >= AUTO,
    })
}

/// The best of dm-crypt's flags on a block device.
fn device(report: &Report) -> Option<Choice> {
    let flags = [
        (SetUp::NoRead, "dm-crypt with no_read_workqueue"),
        (SetUp::NoWrite, "dm-crypt with no_write_workqueue"),
        (
            SetUp::Inline,
            "dm-crypt with no_read_workqueue and no_write_workqueue",
        ),
    ];
    let alternatives = flags.map(|(set_up, words)| Alternatives {
        first: words,
        second: "dm-crypt's queues",
        works: both_ways(
            report,
            &format!("device_kernel_{}_vs_queued", set_up.name()),
        ),
    });
    let best = alternatives
        .iter()
        .filter(|one| !one.works.is_empty())
        .max_by(|one, other| one.gain().total_cmp(&other.gain()))?;
    best.choose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Ratio;
    use crate::stat::Interval;
    use crate::{Machine, Study};

    fn report(ratios: &[(&str, f64)]) -> Report {
        let mut report = Study::new(Machine::default(), 1).finish();
        for &(name, value) in ratios {
            report.ratios.push(Ratio {
                name: name.to_owned(),
                value,
                interval: Interval {
                    low: value * 0.99,
                    high: value * 1.01,
                },
                target: None,
            });
        }
        report
    }

    fn taken(ratios: &[(&str, f64)]) -> Option<String> {
        let choice = conclusion(&report(ratios)).data_path;
        choice.map(|choice| format!("{} {}", choice.take, choice.sure))
    }

    #[test]
    fn the_data_path_is_the_faster_one_or_auto() {
        let served = [
            ("served_inline_vs_queued_read", 9.0),
            ("served_inline_vs_queued_write", 8.0),
        ];
        assert_eq!(taken(&served).as_deref(), Some("inline true"));
        let with_auto = |value| [&served[..], &[("auto_vs_best_geomean", value)]].concat();
        assert_eq!(
            taken(&with_auto(0.98)).as_deref(),
            Some("auto, as without an option true")
        );
        assert_eq!(taken(&with_auto(0.8)).as_deref(), Some("inline true"));
        assert_eq!(taken(&[("auto_vs_best_geomean", 0.98)]), None);
    }

    #[test]
    fn the_kernels_flags_are_the_best_of_three() {
        let ratios = [
            ("device_kernel_no_read_workqueue_vs_queued_read", 2.0),
            ("device_kernel_no_read_workqueue_vs_queued_write", 1.0),
            ("device_kernel_inline_vs_queued_read", 2.0),
            ("device_kernel_inline_vs_queued_write", 0.8),
        ];
        let flag = "dm-crypt with no_read_workqueue false";
        assert_eq!(taken(&ratios).as_deref(), Some(flag));
    }
}
