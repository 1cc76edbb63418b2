//! Tools of this repository: `cargo xtask check` checks the tree against its own rules, `cargo xtask ci` runs the
//! stages of continuous integration, `cargo xtask fuzz` runs the fuzz targets, `cargo xtask guest` runs commands in a
//! real kernel, `cargo xtask inventory` lists crates with their licences, `cargo xtask rivals` measures Scrim beside its
//! rivals, `cargo xtask soak` runs histories on a simulated disk, `cargo xtask times` measures builds.

#![forbid(unsafe_code)]

mod cargo;
mod check;
mod ci;
mod error;
mod fuzz;
mod guest;
mod inventory;
mod rivals;
mod rust;
mod soak;
mod times;
mod usage;

use std::process::ExitCode;

use clap::Parser;

use crate::error::Error;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The tools of the house")]
enum Task {
    /// Tell which stages of continuous integration a change touches
    Affected(ci::AffectedArgs),
    /// Hold the tree to the rules that neither rustc nor clippy knows
    Check(check::Args),
    /// Run the stages of continuous integration that this commit needs
    Ci(ci::CiArgs),
    /// Run the fuzz targets from the kept corpus, each for a while
    Fuzz(fuzz::Args),
    /// Run a command in a real kernel under emulation, with the workspace's `scrim` on its PATH
    Guest(guest::Args),
    /// List the crates of a program, with their licences
    Inventory(inventory::Args),
    /// Run all stages of continuous integration, and record the run in docs/nightly.md
    Nightly(ci::NightlyArgs),
    /// Measure Scrim and its rivals in turn on this machine
    Rivals(rivals::Args),
    /// Run volumes and headers on a simulated disk that loses power and fails, until something breaks
    Soak(soak::Args),
    /// Measure how long builds take here: from nothing, and after a change in each crate
    Times(times::Args),
}

fn main() -> ExitCode {
    let done: Result<ExitCode, Error> = match Task::parse() {
        Task::Affected(args) => ci::affected(&args),
        Task::Check(args) => check::run(&args),
        Task::Ci(args) => ci::ci(&args),
        Task::Fuzz(args) => fuzz::run(&args),
        Task::Guest(args) => guest::run(&args),
        Task::Inventory(args) => inventory::run(&args),
        Task::Nightly(args) => ci::nightly(&args),
        Task::Rivals(args) => rivals::run(&args).map(|()| ExitCode::SUCCESS),
        Task::Soak(args) => soak::run(&args),
        Task::Times(args) => times::run(&args),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::from(2)
    })
}
