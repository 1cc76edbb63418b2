//! `scrim bench serve`.

use std::fs;
use std::process::ExitCode;

use scrim_bench::Study;
use scrim_bench::serve::{self, Content, Ours, Plan, ServeError};
use scrim_bench::web::{Suite, Trust, Url, WebError};

use super::bench::{finish, machine, watched};
use super::bench_paths::{demand_new, ratios, write_page};
use super::print;
use crate::args::BenchServeArgs;
use crate::error::{CliError, Exit};
use crate::interruption::Interruption;
use crate::self_tests;
use crate::storage::absolute;

/// Fewest bytes of a file, so that more is measured than a connection.
const SMALLEST: u64 = 1 << 20;

pub(crate) fn run(args: &BenchServeArgs) -> Result<ExitCode, CliError> {
    if let Some(page) = &args.html {
        demand_new(page)?;
    }
    let plan = plan(args)?;
    let interruption = Interruption::listen()?;
    let mut study = Study::new(machine(), args.rounds);
    for failure in self_tests::failures() {
        study.warn(failure);
    }
    if args.certificate.is_none() && matches!(plan, Plan::Theirs { .. }) {
        study.warn("any server was believed: without --certificate nobody knows who answered");
    }
    let outcome = watched("serving", &interruption, |watch| {
        serve::measure(&plan, &mut study, watch)
    })?;
    let report = study.finish();
    if !args.json {
        let text = outcome.text();
        let gap = if text.is_empty() { "" } else { "\n" };
        print(format!("{text}{gap}{}", ratios(&report)).as_bytes())?;
    }
    if let Some(page) = &args.html {
        write_page(page, &serve::page(&outcome, &report))?;
    }
    finish(&report, args.json)?;
    Ok(interruption.exit_code())
}

fn plan(args: &BenchServeArgs) -> Result<Plan, CliError> {
    let suite = args.suite.map(Suite::from);
    if !args.url.is_empty() {
        return theirs(args, suite);
    }
    let content = match &args.file {
        Some(file) => {
            let path = absolute(file)?;
            if !path.is_file() {
                return Err(CliError::new(
                    Exit::WrongDevice,
                    format!("{}: no file to serve; name one, or none", file.display()),
                ));
            }
            Content::Users(path)
        }
        None if args.size < SMALLEST => {
            return Err(CliError::usage(
                "--size: too little to measure; give at least 1M",
            ));
        }
        None => Content::Made { bytes: args.size },
    };
    let program = std::env::current_exe()
        .map_err(|error| CliError::io("find this program, to serve with", &error))?;
    Ok(Plan::Ours(Ours {
        program,
        content,
        suite: suite.unwrap_or(Suite::Aes256),
    }))
}

fn theirs(args: &BenchServeArgs, suite: Option<Suite>) -> Result<Plan, CliError> {
    if args.url.len() > Plan::MOST {
        return Err(CliError::usage("--url: give one, or two that are compared"));
    }
    let urls: Result<Vec<Url>, WebError> = args.url.iter().map(|text| Url::parse(text)).collect();
    let urls = urls.map_err(|error| CliError::usage(format!("--url: {error}")))?;
    let trust = match &args.certificate {
        None => Trust::in_anyone(suite),
        Some(file) => {
            let pem = fs::read(file)
                .map_err(|error| CliError::io(format_args!("read {}", file.display()), &error))?;
            Trust::in_pem(&pem, suite)
        }
    };
    let trust = trust.map_err(|error| CliError::usage(format!("--certificate: {error}")))?;
    Ok(Plan::Theirs { urls, trust })
}

impl From<ServeError> for CliError {
    fn from(error: ServeError) -> Self {
        let exit = match error {
            ServeError::Room { .. } => Exit::OutOfMemory,
            _ => Exit::WrongDevice,
        };
        Self::new(exit, error.to_string())
    }
}
