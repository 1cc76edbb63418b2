//! Measures programs and code of Scrim: one statistic, written once, for users' benchmarks and for comparisons
//! with peers.
//!
//! Two programs that run one after the other on a shared machine meet two different machines. So
//! they run in turn, round after round ([`turns`]), each round gives one ratio between *its own* two
//! measurements, and what is reported is the median of these ratios with a 95 % bootstrap interval
//! ([`stat`]). A [`Study`] collects the samples and watches the machine meanwhile; what it finds
//! unsound becomes a warning beside the figures.
//!
//! Other programs are timed by [`process`]; code of this process by a [`Stopwatch`], in slices of equal
//! work on a [`Pinned`] thread, in processor time and in cycles by the [`core_clock`]. What users
//! measure with `scrim bench` stands on that: [`ciphers`], [`disk`], [`fileserver`], [`kdf`], [`paths`], [`serve`] and [`tune`]. Web servers
//! are asked by the client in [`web`]; [`ministat`] is the statistic of another program, to compare with
//! figures made with it.
//!
//! ```
//! use scrim_bench::{Better, Machine, Study, turns};
//!
//! let mut study = Study::new(Machine::describe(&[]), 15);
//! let ours = study.series("ours_seconds", "s", Better::Lower, "sum of 1000 numbers");
//! let theirs = study.series("theirs_seconds", "s", Better::Lower, "sum of 1000 numbers");
//! for turn in turns(study.rounds(), 1, 2) {
//!     let start = std::time::Instant::now();
//!     std::hint::black_box((0..1000u64).sum::<u64>());
//!     let series = if turn.contender == 0 { ours } else { theirs };
//!     study.record(series, start.elapsed().as_secs_f64());
//! }
//! study.ratio("sum_vs_theirs", ours, theirs, Some(1.0));
//! println!("{}", study.finish());
//! ```
//!
//! # Direction
//!
//! Every ratio is written so that *higher is better for Scrim*: a peer's time over ours, our rate over
//! a peer's. Only a name that ends in `_cost` is the other way round.
//!
//! # The JSON
//!
//! [`Report::to_json`] gives one object with these members, always all of them;
//! `docs/benchmark.schema.json` is its schema:
//!
//! | member | shape | is |
//! |---|---|---|
//! | `ratios` | `{name: number}` | the median over rounds of one round's ratio |
//! | `intervals` | `{name: [low, high]}` | the 95 % bootstrap interval of the same name's ratio |
//! | `results` | `[{name, unit, better, workload, median, samples}]` | each measured quantity; `better` is `"higher"` or `"lower"`, `samples` has one number a round, in order; `median` is `null` without samples |
//! | `machine` | `{cpu, cores, kernel, governor, mitigations, memory, versions}` | where it ran: `memory` in bytes, `mitigations` and `versions` are `{name: text}`, `null` is what the machine does not tell |
//! | `warnings` | `[text]` | why a figure may be worth less than it looks |
//!
//! Rates are in MB/s, 10⁶ bytes a second; processor time is user and system of a process with all its
//! threads, in seconds per GB, 10⁹ bytes.

#![forbid(unsafe_code)]

mod bars;
mod cache;
mod chart;
pub mod ciphers;
mod clock;
mod conclusion;
mod direction;
pub mod disk;
mod figure;
pub mod fileserver;
mod folder;
mod frame;
mod interference;
pub mod kdf;
mod machine;
pub mod ministat;
mod palette;
pub mod paths;
mod pin;
pub mod process;
mod progress;
mod report;
mod rounds;
pub mod serve;
mod spread;
pub mod stat;
mod stopwatch;
mod study;
pub mod svg;
pub mod tune;
pub mod web;

pub use chart::Ink;
pub use clock::core_clock;
pub use conclusion::{Choice, Conclusion};
pub use direction::Better;
pub use folder::Folder;
pub use machine::{Machine, Peer};
pub use pin::{Pinned, apart};
pub use progress::{Progress, Watch};
pub use report::{Ratio, Report, Series, Verdict};
pub use rounds::{ROUNDS, ROUNDS_WHEN_LONG, Turn, turns};
pub use stopwatch::{Slice, Stopwatch};
pub use study::{SeriesId, Study};
