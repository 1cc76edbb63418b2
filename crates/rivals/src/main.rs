//! Scrim's ciphers beside those of other libraries, in one process: what `cargo xtask rivals ciphers`,
//! `cargo xtask rivals illumos` and `cargo xtask rivals fused` build and run.
//!
//! It measures and prints samples, round by round; `xtask` makes ratios of them. A package of its
//! own, because it builds OpenSSL, which nothing else here needs.
//!
//! The output is one JSON object:
//!
//! | member | shape | is |
//! |---|---|---|
//! | `versions` | `{name: text}` | each library that was found, and what it says it is |
//! | `missing` | `{name: text}` | each that was not, and why |
//! | `series` | `[{name, workload, samples}]` | MB/s, one sample a round |
//! | `warnings` | `[text]` | as in a report |

#![deny(unsafe_code)]

mod bound;
mod ciphers;
mod expected;
#[allow(
    unsafe_code,
    reason = "foreign functions: the one room of this crate with unsafe code"
)]
mod foreign;
mod fused;
mod illumos;
mod measure;
mod output;
mod restriction;
mod rival;
mod rustcrypto;
mod scrim;
mod serial;
mod work;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use restriction::Restriction;

#[derive(Parser)]
#[command(name = "scrim-rivals", about = "Samples for `cargo xtask rivals`")]
enum Task {
    /// Which libraries are here
    Libraries,
    /// Disk sectors and records, by every library
    Ciphers {
        #[command(flatten)]
        sampling: Sampling,
        /// Keep every library from what the processor has beyond this
        #[arg(long, value_enum, default_value_t)]
        restrict: Restriction,
        /// Measure only the loads of these names
        #[arg(long, value_delimiter = ',', value_parser = ciphers::load_names())]
        loads: Vec<String>,
    },
    /// The stages of the illumos crypto framework
    Illumos {
        #[command(flatten)]
        sampling: Sampling,
    },
    /// Sectors that become records, in one pass and in two
    Fused {
        #[command(flatten)]
        sampling: Sampling,
    },
}

#[derive(clap::Args)]
struct Sampling {
    /// Number of samples of each series
    #[arg(long)]
    rounds: usize,
    /// Length of a sample, in milliseconds
    #[arg(long)]
    sample_ms: u64,
}

impl Sampling {
    fn length(&self) -> Duration {
        Duration::from_millis(self.sample_ms)
    }
}

fn main() -> ExitCode {
    match run(&Task::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: &Task) -> Result<(), Box<dyn std::error::Error>> {
    let output = match task {
        Task::Libraries => {
            Restriction::None.enforce()?;
            ciphers::libraries()
        }
        Task::Ciphers {
            sampling,
            restrict,
            loads,
        } => {
            restrict.enforce()?;
            ciphers::run(sampling.rounds, sampling.length(), *restrict, loads)?
        }
        Task::Illumos { sampling } => {
            Restriction::None.enforce()?;
            illumos::run(sampling.rounds, sampling.length())?
        }
        Task::Fused { sampling } => {
            Restriction::None.enforce()?;
            fused::run(sampling.rounds, sampling.length())?
        }
    };
    println!("{}", output.to_json());
    Ok(())
}
