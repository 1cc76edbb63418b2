//! Runs stages one after the other, and prints what each took.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::affected::Choice;
use super::failures::Output;
use super::stages::Stage;
use crate::cargo::workspace_root;
use crate::error::{Doing, Error};
use crate::usage::{self, Usage};

/// Variables that cargo sets for programs that it runs; a stage starts as from a shell.
const OF_CARGO: [&str; 5] = [
    "CARGO",
    "LD_LIBRARY_PATH",
    "RUSTC",
    "RUSTDOC",
    "RUSTUP_TOOLCHAIN",
];

/// End of a stage that has run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) passed: bool,
    pub(crate) usage: Usage,
    /// Lists of the tests that failed; empty on a terminal, whose user has seen them.
    pub(crate) failures: String,
}

/// A stage in the table of a run.
pub(crate) struct Entry {
    pub(crate) stage: &'static Stage,
    pub(crate) choice: Choice,
    /// `None` if the stage is not part of this run, or was not reached.
    pub(crate) run: Option<Run>,
}

/// Runs a stage, with its output on ours. Its script finds this program as `xtask`: `cargo xtask` would build it again,
/// with the features of its own dependencies only.
pub(crate) fn run(stage: &Stage) -> Result<Run, Error> {
    println!("== {}", stage.name);
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", stage.script]);
    command.current_dir(workspace_root()).env("PATH", path()?);
    // Nothing is skipped. To check the code that calls OpenSSL its headers will do; measurements build it from its sources.
    command.env("CI", "true").env("OPENSSL_NO_VENDOR", "1");
    for name in OF_CARGO {
        command.env_remove(name);
    }
    for (name, _) in std::env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_"))
        {
            command.env_remove(name);
        }
    }
    let output = if io::stdout().is_terminal() {
        None
    } else {
        Some(Output::of(&mut command, io::stdout()).doing(|| "make a pipe".to_owned())?)
    };
    let (status, usage) = usage::measure(&mut command)?;
    drop(command);
    let failures = output.map(Output::failures).unwrap_or_default();
    let passed = status.success();
    if !passed {
        println!("== {} failed: {status}", stage.name);
    }
    Ok(Run {
        passed,
        usage,
        failures,
    })
}

/// Our `PATH`, behind the folder of this program.
fn path() -> Result<OsString, Error> {
    let program = std::env::current_exe().doing(|| "find this program".to_owned())?;
    let folder = program.parent().map(Path::to_path_buf);
    let others = std::env::var_os("PATH").unwrap_or_default();
    let folders = folder.into_iter().chain(std::env::split_paths(&others));
    std::env::join_paths(folders).map_err(|error| Error::program("PATH", error.to_string()))
}

/// Prints a table of all stages: minutes on the clock and of processors, or why a stage was not run. The lists of tests
/// that failed follow.
pub(crate) fn report(set_up: Duration, entries: &[Entry]) {
    let line = |name: &str, wall: &str, processors: &str, note: &str| {
        let line = format!("{name:<20}{wall:>8}{processors:>11}  {note}");
        println!("{}", line.trim_end());
    };
    println!();
    line("stage", "minutes", "processor", "");
    let (mut wall, mut processors) = (set_up, Duration::ZERO);
    if !set_up.is_zero() {
        line("set-up", &minutes(set_up), "", "");
    }
    for entry in entries {
        let name = entry.stage.name;
        match &entry.run {
            Some(run) => {
                wall += run.usage.wall;
                processors += run.usage.processors;
                let note = match &entry.choice {
                    _ if !run.passed => "FAILED".to_owned(),
                    Choice::Always => String::new(),
                    choice => choice.to_string(),
                };
                let (wall, processors) = (run.usage.wall, run.usage.processors);
                line(name, &minutes(wall), &minutes(processors), &note);
            }
            None if entry.choice.runs() => line(name, "-", "-", "not reached"),
            None => line(name, "-", "-", &entry.choice.to_string()),
        }
    }
    line("total", &minutes(wall), &minutes(processors), "");
    for Entry { stage, run, .. } in entries {
        if let Some(run) = run
            && !run.passed
            && !run.failures.is_empty()
        {
            println!("\n== {}, once more\n{}", stage.name, run.failures);
        }
    }
}

/// Minutes with one decimal.
pub(crate) fn minutes(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() / 60.0)
}
