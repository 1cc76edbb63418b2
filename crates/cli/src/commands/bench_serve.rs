//! `scrim bench serve`: measures the cost of TLS, or response times by source.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use scrim_bench::serve::latency;
use scrim_bench::serve::{self, Content, DOWNLOADS, Ours, Plan, ServeError};
use scrim_bench::web::{Suite, Trust, Url, WebError};
use scrim_bench::{ROUNDS, Report, Study};

use super::bench::{finish, machine};
use super::bench_paths::{demand_new, ratios, write_page};
use crate::args::BenchServeArgs;
use crate::cipher::self_tests;
use crate::error::{CliError, Exit};
use crate::process::interruption::{Interruption, watched};
use crate::storage::absolute;
use crate::terminal::print;

/// Fewest bytes of a file, so that more is measured than a connection.
const SMALLEST: u64 = 1 << 20;
/// Bytes of a file unless the user gives a size.
const USUAL: u64 = 1 << 30;

pub(crate) fn run(args: &BenchServeArgs) -> Result<ExitCode, CliError> {
    if let Some(page) = &args.html {
        demand_new(page)?;
    }
    if !args.from.is_empty() {
        return latencies(args);
    }
    let plan = plan(args)?;
    let interruption = Interruption::listen()?;
    let mut study = study(args.rounds.unwrap_or(DOWNLOADS));
    if args.certificate.is_none() && matches!(plan, Plan::Theirs { .. }) {
        study.warn("the server was not authenticated: name its certificate with --certificate");
    }
    let outcome = watched("serving", &interruption, |watch| {
        serve::measure(&plan, &mut study, watch)
    })?;
    let report = study.finish();
    tell(args, &report, &outcome.text(), || {
        serve::page(&outcome, &report)
    })?;
    Ok(interruption.exit_code())
}

/// Measures how long responses take, by where they come from.
fn latencies(args: &BenchServeArgs) -> Result<ExitCode, CliError> {
    let repeated = |(place, way)| args.from[..place].contains(way);
    if args.from.iter().enumerate().any(repeated) {
        return Err(CliError::usage("--from: give each way once"));
    }
    let bytes = args.size.unwrap_or(latency::BYTES);
    if bytes == 0 {
        return Err(CliError::usage(
            "--size: nothing to ask for; give at least 1",
        ));
    }
    let plan = latency::Plan {
        program: program()?,
        ways: args.from.clone(),
        bytes,
        suite: args.suite.map_or(Suite::Aes256, Suite::from),
        time: Duration::from_secs_f64(args.seconds),
    };
    let interruption = Interruption::listen()?;
    let mut study = study(args.rounds.unwrap_or(ROUNDS));
    let outcome = watched("serving", &interruption, |watch| {
        latency::measure(&plan, &mut study, watch)
    })?;
    let report = study.finish();
    tell(args, &report, &outcome.text(), || {
        latency::page(&outcome, &report)
    })?;
    Ok(interruption.exit_code())
}

fn study(rounds: usize) -> Study {
    let mut study = Study::new(machine(), rounds);
    for failure in self_tests::all_failures() {
        study.warn(failure);
    }
    study
}

/// Says what was found: as text or JSON, and on a page.
fn tell(
    args: &BenchServeArgs,
    report: &Report,
    text: &str,
    page: impl FnOnce() -> String,
) -> Result<(), CliError> {
    if !args.json {
        let gap = if text.is_empty() { "" } else { "\n" };
        print(format!("{text}{gap}{}", ratios(report)).as_bytes())?;
    }
    if let Some(file) = &args.html {
        write_page(file, &page())?;
    }
    finish(report, args.json)
}

fn program() -> Result<PathBuf, CliError> {
    std::env::current_exe()
        .map_err(|error| CliError::io("find this program, to serve with", &error))
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
        None => match args.size.unwrap_or(USUAL) {
            ..SMALLEST => {
                return Err(CliError::usage(
                    "--size: too little to measure; give at least 1M",
                ));
            }
            bytes => Content::Made { bytes },
        },
    };
    Ok(Plan::Ours(Ours {
        program: program()?,
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
