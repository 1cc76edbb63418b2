//! Tools of this repository: `cargo xtask check` checks the tree against its own rules, `cargo xtask fuzz` runs
//! the fuzz targets, `cargo xtask guest` runs commands in a real kernel, `cargo xtask rivals` measures
//! Scrim beside its rivals, `cargo xtask soak` runs histories on a simulated disk.

#![forbid(unsafe_code)]

mod cargo;
mod check;
mod error;
mod fuzz;
mod guest;
mod rivals;
mod soak;

use std::process::ExitCode;

use clap::Parser;

use crate::error::Error;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The tools of the house")]
enum Task {
    /// Hold the tree to the rules that neither rustc nor clippy knows
    Check(check::Args),
    /// Run the fuzz targets from the kept corpus, each for a while
    Fuzz(fuzz::Args),
    /// Run a command in a real kernel under emulation, with the workspace's `scrim` on its PATH
    Guest(guest::Args),
    /// Measure Scrim and its rivals in turn on this machine
    Rivals(rivals::Args),
    /// Run volumes and headers on a simulated disk that loses power and fails, until something breaks
    Soak(soak::Args),
}

fn main() -> ExitCode {
    let done: Result<ExitCode, Error> = match Task::parse() {
        Task::Check(args) => check::run(&args),
        Task::Fuzz(args) => fuzz::run(&args),
        Task::Guest(args) => guest::run(&args),
        Task::Rivals(args) => rivals::run(&args).map(|()| ExitCode::SUCCESS),
        Task::Soak(args) => soak::run(&args),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::from(2)
    })
}
