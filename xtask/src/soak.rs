//! Histories on a simulated disk. A separate program runs them, so that this tool need not be built with all
//! of Scrim's crates, and so that the histories run optimised.

use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use crate::cargo;
use crate::error::{Doing, Error};

/// Options of `cargo xtask soak`: those of the program.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Options of the histories: see `--help`
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "OPTIONS"
    )]
    options: Vec<String>,
}

/// Becomes the program, so that signals and exit codes are its own; returns only when it cannot.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let error = cargo::command()
        .args([
            "run",
            "--quiet",
            "--release",
            "--package",
            "scrim-soak",
            "--",
        ])
        .args(&args.options)
        .current_dir(cargo::workspace_root())
        .exec();
    Err(error).doing(|| "run cargo run".to_owned())
}
