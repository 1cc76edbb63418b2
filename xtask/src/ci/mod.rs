//! Continuous integration: `cargo xtask ci` runs the stages that a commit needs, `cargo xtask affected` tells which
//! those are, and `cargo xtask nightly` runs all of them and records when.

mod affected;
mod comments;
mod failures;
mod git;
mod manifests;
mod record;
mod run;
mod stages;

use std::process::{Command, ExitCode};
use std::time::Duration;

use affected::Choice;
use record::Row;
use run::{Entry, Run};
use stages::{STAGES, Stage};

use crate::error::{Doing, Error};

/// Options of `cargo xtask ci`.
#[derive(clap::Args)]
pub(crate) struct CiArgs {
    /// Run these stages only
    #[arg(value_name = "STAGE")]
    stages: Vec<String>,
    /// Commit with which to compare; by default the one at which this branch left the main branch, and on the main
    /// branch, for each stage, the one of its last run in docs/nightly.md
    #[arg(long, value_name = "COMMIT", conflicts_with = "stages")]
    base: Option<String>,
    /// Time that set-up took before, for the table
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    set_up: u64,
}

/// Options of `cargo xtask affected`.
#[derive(clap::Args)]
pub(crate) struct AffectedArgs {
    /// Commit with which to compare, as of `cargo xtask ci --base`
    #[arg(value_name = "COMMIT")]
    base: Option<String>,
}

/// Options of `cargo xtask nightly`.
#[derive(clap::Args)]
pub(crate) struct NightlyArgs {
    /// Run these stages only
    #[arg(value_name = "STAGE")]
    stages: Vec<String>,
}

/// Runs the stages that belong to this commit, up to the first that fails; the exit code is 1 then.
pub(crate) fn ci(args: &CiArgs) -> Result<ExitCode, Error> {
    let chosen = if args.stages.is_empty() {
        affected::choose(args.base.as_deref())?
    } else {
        let named = by_name(&args.stages)?;
        named
            .into_iter()
            .map(|stage| (stage, Choice::Always))
            .collect()
    };
    let mut entries = Vec::new();
    let mut failed = false;
    for (stage, choice) in chosen {
        let run = if choice.runs() && !failed {
            Some(run::run(stage)?)
        } else {
            None
        };
        failed |= run.as_ref().is_some_and(|run| !run.passed);
        entries.push(Entry { stage, choice, run });
    }
    run::report(Duration::from_secs(args.set_up), &entries);
    Ok(ExitCode::from(u8::from(failed)))
}

/// Prints for each stage whether it belongs to this commit, and why.
pub(crate) fn affected(args: &AffectedArgs) -> Result<ExitCode, Error> {
    for (stage, choice) in affected::choose(args.base.as_deref())? {
        println!("{:<20}{choice}", stage.name);
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs all stages, also after one that failed, and records how each ended; the exit code is 1 when one failed.
pub(crate) fn nightly(args: &NightlyArgs) -> Result<ExitCode, Error> {
    let stages = if args.stages.is_empty() {
        STAGES.iter().collect()
    } else {
        by_name(&args.stages)?
    };
    let commit = committed()?;
    let names: Vec<_> = STAGES.iter().map(|stage| stage.name).collect();
    let mut entries = Vec::new();
    for stage in stages {
        let run = run::run(stage)?;
        // A run of hours that is interrupted has recorded what it did.
        record::store(&[row(stage, &commit, &run)?], &names)?;
        let choice = Choice::Always;
        entries.push(Entry {
            stage,
            choice,
            run: Some(run),
        });
    }
    run::report(Duration::ZERO, &entries);
    println!("recorded in {}", record::STORED);
    let failed = entries
        .iter()
        .any(|entry| entry.run.as_ref().is_some_and(|run| !run.passed));
    Ok(ExitCode::from(u8::from(failed)))
}

fn by_name(names: &[String]) -> Result<Vec<&'static Stage>, Error> {
    let find = |name: &String| {
        let found = STAGES.iter().find(|stage| stage.name == name);
        found.ok_or_else(|| {
            let known: Vec<_> = STAGES.iter().map(|stage| stage.name).collect();
            let said = format!("no stage `{name}`; there are: {}", known.join(", "));
            Error::program("cargo xtask", said)
        })
    };
    names.iter().map(find).collect()
}

/// The commit that the working tree is; an error if it is another one than that of the table's own changes.
fn committed() -> Result<String, Error> {
    let unborn = || Error::program("git", "no commit here");
    let head = git::commit("HEAD")?.ok_or_else(unborn)?;
    let changed = git::changed_since(&head)?;
    match changed.iter().find(|path| *path != record::STORED) {
        None => Ok(head),
        Some(path) => {
            let said = format!("{path} differs from the last commit: commit or stash it first");
            Err(Error::program("cargo xtask nightly", said))
        }
    }
}

fn row(stage: &Stage, commit: &str, run: &Run) -> Result<Row, Error> {
    let date = Command::new("date").args(["-u", "+%F"]).output();
    let date = date.doing(|| "run date".to_owned())?.stdout;
    let result = if run.passed {
        record::PASSED
    } else {
        record::FAILED
    };
    Ok(Row {
        stage: stage.name.to_owned(),
        commit: commit.to_owned(),
        date: String::from_utf8_lossy(&date).trim().to_owned(),
        minutes: run::minutes(run.usage.wall),
        result: result.to_owned(),
        script: git::digest(stage.script)?,
    })
}
