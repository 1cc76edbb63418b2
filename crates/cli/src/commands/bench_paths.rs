//! `scrim bench paths`: measures the cost of queues between a request and the cipher.

use std::fs::File;
use std::io::{self, IsTerminal, Write, stdout};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use scrim_backend::{Access, Backend, FileBackend};
use scrim_bench::paths::{self, Outcome, Part, PathsError, Plan, Users, Venue};
use scrim_bench::{Report, Study};

use super::bench::{WIDEST, finish, ink, machine};
use crate::args::{BenchEngineArg, BenchPathsArgs};
use crate::cipher::self_tests;
use crate::error::{CliError, Exit};
use crate::process::interruption::{Interruption, watched};
use crate::storage::{Manner, Storage, absolute, is_remote};
use crate::terminal::confirm::Question;
use crate::terminal::progress::columns;
use crate::terminal::{note, print};

/// Most bytes of a request.
const BLOCK_MAX: u64 = 32 << 20;
/// Least and most bytes of a RAM disk.
const MEMORY: (u64, u64) = (32 << 20, 64 << 30);

pub(crate) fn run(args: &BenchPathsArgs) -> Result<ExitCode, CliError> {
    if let Some(page) = &args.html {
        demand_new(page)?;
    }
    let plan = plan(args)?;
    let interruption = Interruption::listen()?;
    let mut study = Study::new(machine(), args.rounds);
    for failure in self_tests::all_failures() {
        study.warn(failure);
    }
    let mut outcome = Outcome::default();
    for part in parts(args, &plan, &mut study) {
        if interruption.came() {
            break;
        }
        watched(stage(part), &interruption, |watch| {
            paths::measure(part, &plan, &mut study, &mut outcome, watch)
        })?;
        if !args.json {
            let text = text(part, &outcome);
            if !text.is_empty() {
                print(format!("{text}\n").as_bytes())?;
            }
        }
    }
    let report = study.finish();
    if !args.json {
        print(ratios(&report).as_bytes())?;
        let conclusion = paths::conclusion(&report);
        if !conclusion.is_empty() {
            print(format!("\n{conclusion}").as_bytes())?;
        }
    }
    if let Some(page) = &args.html {
        write_page(page, &paths::page(&outcome, &report))?;
    }
    finish(&report, args.json)?;
    Ok(interruption.exit_code())
}

/// Parts that were asked for and can be measured.
fn parts(args: &BenchPathsArgs, plan: &Plan, study: &mut Study) -> Vec<Part> {
    if args.engine == BenchEngineArg::Kernel {
        return vec![Part::Device];
    }
    let asked = args.only.iter().map(|&part| Part::from(part));
    let mut parts: Vec<Part> = Vec::new();
    for part in asked {
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    if parts.is_empty() {
        parts.extend(Part::ALL);
    }
    if let paths::Storage::Users(users) = &plan.storage
        && users.path.is_none()
    {
        parts.retain(|part| *part != Part::Served);
        study.warn(
            "not served: a device, and a file that is written, can be open only once at a time, so that \
             all was measured in process",
        );
    }
    parts
}

fn stage(part: Part) -> &'static str {
    match part {
        Part::Served => "served",
        Part::InProcess => "in process",
        Part::Auto => "auto",
        Part::Switch => "switch",
        Part::Neighbour => "neighbour",
        Part::Device => "block device",
    }
}

fn text(part: Part, outcome: &Outcome) -> String {
    let width = columns(stdout()).min(WIDEST);
    let compared = |venue| {
        let table = outcome.table(venue);
        match table.is_empty() {
            true => table,
            false => format!("{table}\n{}", outcome.chart(venue, width, ink())),
        }
    };
    match part {
        Part::Served => compared(Venue::Served),
        Part::InProcess => compared(Venue::InProcess),
        Part::Auto => outcome.auto_table(),
        Part::Switch => outcome.switching_chart(width, ink()),
        Part::Neighbour => outcome.neighbour_text(),
        Part::Device => compared(Venue::Device),
    }
}

pub(super) fn ratios(report: &Report) -> String {
    if report.ratios.is_empty() {
        return String::new();
    }
    let mut text = "# Ratios, with 95 % intervals; higher is better, but of a _cost\n".to_owned();
    for ratio in &report.ratios {
        let (low, high) = (ratio.interval.low, ratio.interval.high);
        text.push_str(&format!(
            "{:<48}{:>9.3}   {low:.3} to {high:.3}\n",
            ratio.name, ratio.value
        ));
    }
    text
}

fn plan(args: &BenchPathsArgs) -> Result<Plan, CliError> {
    let block = args.block_size;
    if !block.is_multiple_of(512) || !(512..=BLOCK_MAX).contains(&block) {
        return Err(CliError::usage(format!(
            "--block-size: {block} bytes are not whole sectors; give a multiple of 512 of at \
             most 32M"
        )));
    }
    let slice = Duration::from_secs_f64(args.seconds / args.rounds as f64);
    if slice < Duration::from_micros(100) {
        return Err(CliError::usage(format!(
            "--seconds {} in {} rounds are less than 0.1 ms a round; give more of the one or fewer of \
             the other",
            args.seconds, args.rounds
        )));
    }
    let storage = match (args.engine, &args.file) {
        (BenchEngineArg::Kernel, file) => device(file.as_deref(), args)?,
        (BenchEngineArg::Scrim, None) => ram(args.memory)?,
        (BenchEngineArg::Scrim, Some(file)) => users(file, args)?,
    };
    let program = std::env::current_exe()
        .map_err(|error| CliError::io("find this program, to serve volumes with", &error))?;
    Ok(Plan {
        storage,
        program,
        block: usize::try_from(block).unwrap_or(usize::MAX),
        depth: args.depth.into(),
        reads: args.mix,
        slice,
    })
}

fn ram(bytes: u64) -> Result<paths::Storage, CliError> {
    let (least, most) = MEMORY;
    if !bytes.is_multiple_of(512) || !(least..=most).contains(&bytes) {
        return Err(CliError::usage(
            "--memory: give the RAM disk a multiple of 512 bytes, from 32M to 64G",
        ));
    }
    Ok(paths::Storage::Ram { bytes })
}

fn users(file: &Path, args: &BenchPathsArgs) -> Result<paths::Storage, CliError> {
    if is_remote(file) {
        return Err(CliError::usage(format!(
            "{}: only files and devices can be measured on; give one, or none for a RAM disk",
            file.display()
        )));
    }
    let path = absolute(file)?;
    let access = access(args);
    let manner = Manner {
        direct_io: args.direct_io,
        ..Manner::default()
    };
    let storage = Storage::open_for_volume(&path, access, manner)?;
    confirm_or_tell(file, args)?;
    let alone = args.write || !path.is_file();
    let direct_io = args.direct_io.to_possible_value();
    let direct_io = direct_io.map_or_else(String::new, |value| value.get_name().to_owned());
    Ok(paths::Storage::Users(Users {
        backend: Arc::new(storage) as Arc<dyn Backend>,
        path: (!alone).then_some(path),
        options: vec!["--direct-io".to_owned(), direct_io],
        writes: args.write,
    }))
}

/// A block device that dm-crypt and this process use at the same time.
fn device(file: Option<&Path>, args: &BenchPathsArgs) -> Result<paths::Storage, CliError> {
    let Some(file) = file else {
        return Err(CliError::usage(
            "--engine kernel measures on a block device: give one, for example a RAM disk, which \
             `modprobe brd rd_nr=1 rd_size=262144` makes: scrim bench paths --engine kernel --write /dev/ram0",
        ));
    };
    if !args.only.is_empty() {
        return Err(CliError::usage(
            "--engine kernel: it has one part only; leave --only out",
        ));
    }
    let path = absolute(file)?;
    // Nobody else has it open; from then on device mapper keeps others out.
    let alone = FileBackend::open(&path, access(args))?;
    if !alone.is_device() {
        return Err(CliError::usage(format!(
            "{}: --engine kernel measures on a block device, and this is a file; `losetup --direct-io=on --find \
             --show {0}` makes a device of it",
            file.display()
        )));
    }
    drop(alone);
    confirm_or_tell(file, args)?;
    let shared = FileBackend::open_shared(&path, access(args))?.past_the_cache()?;
    Ok(paths::Storage::Users(Users {
        backend: Arc::new(shared) as Arc<dyn Backend>,
        path: Some(path),
        options: Vec::new(),
        writes: args.write,
    }))
}

fn access(args: &BenchPathsArgs) -> Access {
    match args.write {
        true => Access::ReadWrite,
        false => Access::ReadOnly,
    }
}

/// Has the user confirm that data will be lost, or tells that none will be.
fn confirm_or_tell(file: &Path, args: &BenchPathsArgs) -> Result<(), CliError> {
    if args.write {
        return confirm(file, "--write destroys its data", "leave --write out");
    }
    note(format_args!(
        "scrim: {}: its data is only read, as if it were ciphertext under a throw-away key",
        file.display()
    ));
    Ok(())
}

/// Asks the user at the terminal to confirm that data on `file` will be lost, for the reason `why`; `instead` is what to
/// do where nobody can be asked.
pub(super) fn confirm(file: &Path, why: &str, instead: &str) -> Result<(), CliError> {
    let shown = file.display();
    if !io::stdin().is_terminal() {
        return Err(CliError::new(
            Exit::Busy,
            format!(
                "{shown}: {why}, and nobody is at a terminal to confirm that; nothing was changed: {instead}, or type \
                 the confirmation at a terminal"
            ),
        ));
    }
    let question = Question {
        warning: &format!("This will overwrite data on {shown} irrevocably."),
        unanswered: None,
    };
    question.ask(false)
}

/// Refuses a page that exists already, before minutes are spent on measurements: it is not overwritten.
pub(super) fn demand_new(page: &Path) -> Result<(), CliError> {
    match page.symlink_metadata() {
        Err(_) => Ok(()),
        Ok(_) => Err(CliError::new(
            Exit::Busy,
            format!(
                "{} exists already; choose another name for the page",
                page.display()
            ),
        )),
    }
}

pub(super) fn write_page(page: &Path, html: &str) -> Result<(), CliError> {
    let written = File::create_new(page).and_then(|mut file| file.write_all(html.as_bytes()));
    written.map_err(|error| CliError::io(format_args!("write {}", page.display()), &error))
}

impl From<PathsError> for CliError {
    fn from(error: PathsError) -> Self {
        Self::new(Exit::WrongDevice, error.to_string())
    }
}
