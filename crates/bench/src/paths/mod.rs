//! Measures the cost of queues between a request and the cipher, as two reports have asked for it: Cloudflare's
//! of 2020, with AES on a RAM disk, and that of its kernel patch, with the null cipher.
//!
//! [`measure`] measures one [`Part`] of a [`Plan`] and gives an [`Outcome`]; every figure is a series of
//! the [`Study`] too. A series is named `VENUE_CIPHER_SETUP_WORKLOAD`, such as `served_aes_inline_read`,
//! for its MB/s, and that with `_mean`, `_p50` and `_p99` for latencies and, in process,
//! `_handovers_per_request`; what encrypts nothing is `VENUE_plain_WORKLOAD`, and `VENUE_CIPHER_bound_WORKLOAD` is what
//! `plain × cipher / (plain + cipher)` allows. Ratios compare a round's samples:
//!
//! | ratio | compares |
//! |---|---|
//! | `served_inline_vs_queued_WORKLOAD` | rates through a served volume; with `_p50` and `_p99` latencies |
//! | `served_inline_vs_plain_WORKLOAD`, `served_inline_vs_plain_p99` | the same with no encryption at all; latencies of the mixed workload |
//! | `served_null_SETUP_vs_queued_WORKLOAD` | as the patch's table, without a cipher |
//! | `device_kernel_SETUP_vs_queued_WORKLOAD`, `device_kernel_null_SETUP_vs_queued_WORKLOAD` | dm-crypt's flags with its queues, on a block device |
//! | `device_inline_vs_kernel_SETUP_WORKLOAD`, `device_inline_vs_plain_WORKLOAD` | Scrim inline with dm-crypt and with the device itself |
//! | `inline_vs_plain_WORKLOAD`, `null_inline_vs_plain_WORKLOAD` | in process, the rate with what the bound allows |
//! | `auto_SIZE_dDEPTH_DIRECTION_vs_best`, `auto_vs_best_geomean` | `auto` with the better of inline and queued |
//! | `neighbour_p99_cost` | what 99 of 100 short requests take at most beside long ones with what they take alone |
//! | `switch_window_max_cost` | the longest request while the table is exchanged with the longest of as long a time without |

mod auto;
mod compare;
mod conclusion;
mod error;
mod load;
mod mapped;
mod neighbour;
mod outcome;
mod page;
mod place;
mod plan;
mod served;
mod setup;
mod switch;
mod text;

pub use conclusion::conclusion;
pub use error::PathsError;
pub use load::Workload;
pub use outcome::{AutoCell, Neighbour, Outcome, Row, Switching, Venue};
pub use page::page;
pub use plan::{Plan, Storage, Users};
pub use setup::{Cipher, Contender, Engine, SetUp};

use crate::{Study, Watch};

/// A part that can be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The set-ups, through a served volume.
    Served,
    /// The set-ups, in this process.
    InProcess,
    /// `auto` by size, depth and direction.
    Auto,
    /// The table exchanged under load.
    Switch,
    /// Short requests beside long ones, on one processor.
    Neighbour,
    /// The kernel's set-ups and Scrim's on one block device.
    Device,
}

impl Part {
    /// All parts that need no root, in their order.
    pub const ALL: [Self; 5] = [
        Self::Served,
        Self::InProcess,
        Self::Auto,
        Self::Switch,
        Self::Neighbour,
    ];
}

/// Measures one part of `plan` in the rounds of `study`. `watch` hears how far it is, many times a second,
/// and can end it; what whole rounds have given is kept then.
///
/// Served volumes are processes of their own, which end with this one; their files are gone as soon as
/// they are open.
///
/// # Errors
/// When a volume cannot be set up or served, or a request fails.
pub fn measure(
    part: Part,
    plan: &Plan,
    study: &mut Study,
    outcome: &mut Outcome,
    watch: &mut Watch<'_>,
) -> Result<(), PathsError> {
    match part {
        Part::Served => compare::served(plan, study, outcome, watch),
        Part::InProcess => compare::in_process(plan, study, outcome, watch),
        Part::Auto => auto::measure(plan, study, outcome, watch),
        Part::Switch => switch::measure(plan, study, outcome, watch),
        Part::Neighbour => neighbour::measure(plan, study, outcome, watch),
        Part::Device => compare::on_device(plan, study, outcome, watch),
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;
    use crate::{Machine, Report};

    const ROUNDS: usize = 2;

    /// In memory and in this process, with as little of it as can be measured.
    fn measured(part: Part, stop_after: Option<usize>) -> (Outcome, Report) {
        let plan = Plan {
            storage: Storage::Ram { bytes: 8 << 20 },
            program: PathBuf::from("no-program"),
            block: 4096,
            depth: 1,
            reads: 50,
            slice: Duration::from_micros(100),
        };
        let mut study = Study::new(Machine::default(), ROUNDS);
        let mut outcome = Outcome::default();
        let mut steps = 0;
        measure(part, &plan, &mut study, &mut outcome, &mut |progress| {
            assert!((0.0..1.0).contains(&progress.part), "{progress:?}");
            steps += 1;
            match stop_after.is_some_and(|stop| steps > stop) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })
        .unwrap();
        (outcome, study.finish())
    }

    fn handovers(report: &Report, name: &str) -> Vec<f64> {
        let name = format!("in_process_{name}_handovers_per_request");
        let mut series = report.results.iter();
        series.find(|one| one.name == name).unwrap().samples.clone()
    }

    #[test]
    fn what_is_handed_over_is_what_the_paths_are_made_of() {
        let (outcome, report) = measured(Part::InProcess, None);
        let set_ups = [
            ("plain", [0.0; 3]),
            ("aes_queued", [3.0; 3]),
            ("aes_submit_from_crypt_cpus", [3.0, 2.0, 2.5]),
            ("null_no_read_workqueue", [0.0, 3.0, 1.5]),
            ("null_no_write_workqueue", [3.0, 0.0, 1.5]),
            ("aes_inline", [0.0; 3]),
            ("null_auto", [0.0; 3]),
        ];
        for (set_up, wanted) in set_ups {
            for (workload, wanted) in Workload::ALL.into_iter().zip(wanted) {
                let name = format!("{set_up}_{}", workload.name());
                for sample in handovers(&report, &name) {
                    // An odd request more of one direction than of the other.
                    let apart = if workload == Workload::Mixed {
                        1.5
                    } else {
                        0.0
                    };
                    assert!((sample - wanted).abs() <= apart, "{name}: {sample}");
                }
            }
        }
        assert_eq!(outcome.rows.len(), 45);
        assert_eq!(report.ratios.len(), 6);
        assert!(report.results.iter().all(|one| one.samples.len() == ROUNDS));
        let left_out = report.warnings.iter().find(|w| w.contains("left out"));
        assert_eq!(left_out, None);
    }

    #[test]
    fn an_interruption_keeps_whole_rounds() {
        // 3 workloads of 15 set-ups and the cipher.
        let (outcome, report) = measured(Part::InProcess, Some(3 * 16 + 5));
        assert_eq!(outcome.rows.len(), 45);
        assert!(report.results.iter().all(|one| one.samples.len() == 1));
        let (outcome, report) = measured(Part::InProcess, Some(0));
        assert!(outcome.rows.is_empty() && report.ratios.is_empty());
        assert_eq!(outcome.table(Venue::InProcess), "");
    }

    #[test]
    fn auto_is_compared_in_every_cell() {
        let (outcome, report) = measured(Part::Auto, None);
        assert_eq!(outcome.auto.len(), 5 * 3 * 2);
        assert_eq!(report.ratios.len(), 1 + 30);
        assert_eq!(report.ratios[0].name, "auto_vs_best_geomean");
        let names = ["auto_512_d1_read_vs_best", "auto_4m_d16_write_vs_best"];
        for name in names {
            assert!(
                report.ratios.iter().any(|ratio| ratio.name == name),
                "{name}"
            );
        }
    }

    #[test]
    fn the_table_is_exchanged_twice_a_round() {
        let (outcome, report) = measured(Part::Switch, None);
        let switching = outcome.switching.unwrap();
        assert_eq!(switching.switches.len(), 2 * ROUNDS);
        assert!(switching.rates.iter().any(|rate| *rate > 0.0));
        assert_eq!(report.ratios[0].name, "switch_window_max_cost");
    }

    #[test]
    fn short_requests_are_measured_alone_and_beside_long_ones() {
        let (outcome, report) = measured(Part::Neighbour, None);
        let neighbour = outcome.neighbour.unwrap();
        assert_eq!(neighbour.long, 8 << 20);
        assert_eq!(report.ratios[0].name, "neighbour_p99_cost");
        assert!(report.results.iter().all(|one| one.samples.len() == ROUNDS));
    }

    #[test]
    fn a_program_that_does_not_serve_is_named() {
        let plan = Plan {
            storage: Storage::Ram { bytes: 8 << 20 },
            program: PathBuf::from("/bin/false"),
            block: 4096,
            depth: 1,
            reads: 50,
            slice: Duration::from_micros(100),
        };
        let mut study = Study::new(Machine::default(), 1);
        let mut watch = |_: &crate::Progress| ControlFlow::Continue(());
        let mut outcome = Outcome::default();
        let error = measure(Part::Served, &plan, &mut study, &mut outcome, &mut watch);
        let said = error.unwrap_err().to_string();
        assert!(said.contains("ended without a word"), "{said}");
    }
}
