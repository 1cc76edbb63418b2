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
//! | `inline_vs_plain_WORKLOAD`, `null_inline_vs_plain_WORKLOAD` | in process, the rate with what the bound allows |
//! | `auto_SIZE_dDEPTH_DIRECTION_vs_best`, `auto_vs_best_geomean` | `auto` with the better of inline and queued |
//! | `neighbour_p99_cost` | what 99 of 100 short requests take at most beside long ones with what they take alone |
//! | `switch_window_max_cost` | the longest request while the table is exchanged with the longest of as long a time without |

mod auto;
mod compare;
mod load;
mod neighbour;
mod outcome;
mod page;
mod place;
mod served;
mod setup;
mod switch;
mod text;

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use scrim_backend::{Backend, BackendError};
use scrim_crypt::CipherError;
use scrim_volume::{OpenError, TableError};

pub use load::Workload;
pub use outcome::{AutoCell, Neighbour, Outcome, Row, Switching, Venue};
pub use page::page;
pub use setup::{Cipher, Contender, SetUp};

use crate::{Study, Watch};

/// Requests to measure, and the storage below them.
pub struct Plan {
    /// Storage below the volumes.
    pub ground: Ground,
    /// The program that serves them, `scrim`.
    pub program: PathBuf,
    /// Bytes of a request, but where several sizes are compared; a multiple of 512.
    pub block: usize,
    /// Requests in flight at a time, each of a thread of its own.
    pub depth: usize,
    /// Reads among a hundred requests of the mixed workload.
    pub reads: u8,
    /// Time for which one figure is measured in one round.
    pub slice: Duration,
}

/// Storage below the volumes.
pub enum Ground {
    /// Memory: in this process as it is, for a served volume as a file in memory.
    Ram {
        /// Most bytes of memory that it takes.
        bytes: u64,
    },
    /// A file or device of the user's. What is there is taken for ciphertext under a throw-away key.
    Users(Users),
}

/// A file or device of the user's.
pub struct Users {
    /// The file or device, opened.
    pub backend: Arc<dyn Backend>,
    /// Absolute path of the file; `None` where no other process can open it at the same time.
    pub path: Option<PathBuf>,
    /// Options by which the program opens it in the same way.
    pub options: Vec<String>,
    /// True if its data may be overwritten.
    pub writes: bool,
}

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
}

impl Part {
    /// All parts, in their order.
    pub const ALL: [Self; 5] = [
        Self::Served,
        Self::InProcess,
        Self::Auto,
        Self::Switch,
        Self::Neighbour,
    ];
}

impl Plan {
    /// Workloads that the ground allows.
    fn workloads(&self) -> &'static [Workload] {
        match &self.ground {
            Ground::Users(users) if !users.writes => &[Workload::Read],
            _ => &Workload::ALL,
        }
    }
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
    }
}

/// Reasons for which a part was not measured.
#[derive(Debug)]
#[non_exhaustive]
pub enum PathsError {
    /// A table of ours was not understood.
    Table(TableError),
    /// A volume did not start.
    Open(OpenError),
    /// The cipher cannot be set up.
    Cipher(CipherError),
    /// A served volume cannot be reached.
    Connect(BackendError),
    /// A request failed.
    Request(Box<dyn Error + Send + Sync>),
    /// Something that is needed beside the volumes failed.
    System {
        /// In words, to follow "cannot".
        doing: String,
        /// Error of the system.
        error: io::Error,
    },
    /// The program did not serve a volume.
    Server {
        /// Words of the program.
        said: String,
    },
    /// The ground is shorter than what is asked for at a time.
    Short {
        /// Bytes that it has.
        bytes: u64,
        /// Bytes that are needed.
        needed: u64,
    },
}

impl PathsError {
    fn request(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Request(Box::new(error))
    }

    fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        |error| Self::System { doing, error }
    }
}

impl fmt::Display for PathsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(error) => error.fmt(f),
            Self::Open(error) => error.fmt(f),
            Self::Cipher(error) => error.fmt(f),
            Self::Connect(error) => error.fmt(f),
            Self::Request(error) => write!(f, "a request of the measurement failed: {error}"),
            Self::System { doing, error } => write!(f, "cannot {doing}: {error}"),
            Self::Server { said } => write!(
                f,
                "a volume to measure was not served: {said}; `--only in-process` measures without"
            ),
            Self::Short { bytes, needed } => write!(
                f,
                "{bytes} bytes are too few to measure on: give at least {needed}"
            ),
        }
    }
}

impl Error for PathsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Table(error) => Some(error),
            Self::Open(error) => Some(error),
            Self::Cipher(error) => Some(error),
            Self::Connect(error) => Some(error),
            Self::Request(error) => Some(&**error),
            Self::System { error, .. } => Some(error),
            Self::Server { .. } | Self::Short { .. } => None,
        }
    }
}

impl From<TableError> for PathsError {
    fn from(error: TableError) -> Self {
        Self::Table(error)
    }
}

impl From<OpenError> for PathsError {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

impl From<CipherError> for PathsError {
    fn from(error: CipherError) -> Self {
        Self::Cipher(error)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::{Machine, Report};

    const ROUNDS: usize = 2;

    /// In memory and in this process, with as little of it as can be measured.
    fn measured(part: Part, stop_after: Option<usize>) -> (Outcome, Report) {
        let plan = Plan {
            ground: Ground::Ram { bytes: 8 << 20 },
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
            ground: Ground::Ram { bytes: 8 << 20 },
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
