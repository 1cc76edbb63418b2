//! `scrim bench fileserver`: compares ciphers on the user's storage with the phases of bonnie++.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::process::getuid;
use scrim_bench::fileserver::{
    self, BONNIE, Cipher, Client, Combination, Earlier, FOLDER, FileserverError, Load, Method,
    MountPath, Night, Plan, References, Source, Target,
};
use scrim_bench::{Machine, Study};
use scrim_sys::program::find;

use super::bench::{finish, machine};
use super::bench_paths::{confirm, demand_new, ratios, write_page};
use crate::args::{BenchFileserverArgs, MountMethod};
use crate::cipher::self_tests;
use crate::error::{CliError, Exit};
use crate::process::interruption::{Interruption, watched};
use crate::terminal::{note, print};

/// Bytes of the large file of a first look.
const QUICK: u64 = 256 << 20;
/// Least bytes of the large file.
const SMALLEST: u64 = 1 << 20;
/// Part of the free space that the large file takes at most by default.
const SHARE: f64 = 0.5;

pub(crate) fn run(args: &BenchFileserverArgs) -> Result<ExitCode, CliError> {
    if let Some(page) = &args.html {
        demand_new(page)?;
    }
    let earlier = args.against.as_deref().map(read_earlier).transpose()?;
    let target = Target::find(&args.place)?;
    if args.check_bonnie {
        return check_bonnie(args, &target);
    }
    let state = state_file(args, &target);
    let mut night = match args.resume {
        true => {
            let mut night = Night::load(&state)?;
            night.move_to(target)?;
            tell_left_out(&night);
            night
        }
        false => {
            target.demand_unused()?;
            demand_no_state(&state)?;
            Night::new(plan(args, target)?)
        }
    };
    demand_programs(&night.plan)?;
    if let Target::Device(device) = &night.plan.target
        && !night.missing().is_empty()
    {
        let why = "the measurement destroys its data";
        confirm(device, why, "name a directory")?;
    }
    let program = std::env::current_exe()
        .map_err(|error| CliError::io("find this program, to mount with", &error))?;
    let interruption = Interruption::listen()?;
    let mut study = Study::new(machine(), night.plan.rounds);
    for failure in self_tests::all_failures() {
        study.warn(failure);
    }
    let references = References::measure();
    let measured = match night.missing().is_empty() {
        true => Ok(()),
        false => watched("file server", &interruption, |watch| {
            fileserver::measure(&mut night, &state, &program, args.resume, watch)
        }),
    };
    // A disk that fails late in the night does not take the results of earlier rounds away.
    if let Err(error) = measured {
        if night.whole_rounds() == 0 {
            return Err(error.into());
        }
        study.warn(format!("ended early: {error}"));
    }
    if let Some(failure) = night.failure_of_all() {
        // There is no result to keep, and the next run shall not stumble over this one.
        let _ = fs::remove_file(&state);
        return Err(CliError::new(
            Exit::WrongDevice,
            format!("nothing could be measured: {failure}"),
        ));
    }
    tell(args, &night, study, &references, earlier.as_ref())?;
    note(format_args!("scrim: {}", about_state(&night, &state)));
    Ok(interruption.exit_code())
}

/// Compares the generator with bonnie++ in the directory itself.
fn check_bonnie(args: &BenchFileserverArgs, target: &Target) -> Result<ExitCode, CliError> {
    let Target::Directory(directory) = target else {
        return Err(CliError::usage(
            "--check-bonnie compares in a file system: name a directory",
        ));
    };
    if find(BONNIE).is_none() {
        return Err(is_missing(BONNIE, "bonnie++"));
    }
    let load = load(args, target)?;
    let interruption = Interruption::listen()?;
    let mut study = Study::new(machine(), args.rounds);
    watched("bonnie++", &interruption, |watch| {
        fileserver::check_bonnie(directory, load, &mut study, watch)
    })?;
    let report = study.finish();
    if !args.json {
        print(ratios(&report).as_bytes())?;
    }
    finish(&report, args.json)?;
    Ok(interruption.exit_code())
}

fn read_earlier(path: &Path) -> Result<Earlier, CliError> {
    let text = fs::read(path)
        .map_err(|error| CliError::io(format_args!("read {}", path.display()), &error))?;
    Earlier::parse(&text)
        .map_err(|error| CliError::usage(format!("--against {}: {error}", path.display())))
}

/// Says what was found, as text or JSON.
fn tell(
    args: &BenchFileserverArgs,
    night: &Night,
    mut study: Study,
    references: &References,
    earlier: Option<&Earlier>,
) -> Result<(), CliError> {
    let whole = night.whole_rounds();
    if whole < night.plan.rounds {
        study.end_after(whole, &[]);
    }
    study.warn(match night.has_kept_caches() {
        true => fileserver::CACHES_KEPT.to_owned(),
        false => caches(&night.plan),
    });
    night.record(&mut study, references);
    let report = study.finish();
    if !args.json {
        let mut text = night.text(references);
        if let Some(earlier) = earlier {
            text.push_str(&earlier.text(&report));
        }
        print(text.as_bytes())?;
    }
    if let Some(page) = &args.html {
        write_page(page, &fileserver::page(night, references, earlier, &report))?;
    }
    finish(&report, args.json)
}

/// Tells how the figures were kept from being those of memory.
fn caches(plan: &Plan) -> String {
    let bytes = plan.load.bytes;
    let memory = Machine::describe(&[]).memory.unwrap_or(u64::MAX);
    if bytes >= memory {
        return format!(
            "caches: the file is {:.1} times as large as the memory, and caches were dropped before each phase that reads",
            bytes as f64 / memory as f64
        );
    }
    let dropped = match getuid().is_root() {
        true => "all caches were dropped before each phase that reads",
        false => {
            "the caches of its own files were dropped before each phase that reads, which is all that a user may do"
        }
    };
    format!("caches: the file is smaller than the memory; {dropped}, and each write includes fsync")
}

fn about_state(night: &Night, state: &Path) -> String {
    let shown = state.display();
    match night.missing().is_empty() {
        true => format!(
            "all results are in {shown}: --resume shows them again; remove the file when you no longer need it"
        ),
        false => format!(
            "{} of {} turns are done and in {shown}: --resume continues",
            night.turns.len(),
            night.plan.rounds * night.plan.combinations.len()
        ),
    }
}

fn state_file(args: &BenchFileserverArgs, target: &Target) -> PathBuf {
    if let Some(state) = &args.state {
        return state.clone();
    }
    let name = format!("{FOLDER}.json");
    match target {
        Target::Directory(directory) => directory.join(name),
        Target::Device(_) => name.into(),
    }
}

fn demand_no_state(state: &Path) -> Result<(), CliError> {
    for file in [state, &fileserver::beside(state)] {
        if file.symlink_metadata().is_ok() {
            return Err(CliError::new(
                Exit::Busy,
                format!(
                    "{} is of an earlier run; give --resume to continue that run or to show it again, or remove the file",
                    file.display()
                ),
            ));
        }
    }
    Ok(())
}

/// Refuses before a night what would fail in it.
fn demand_programs(plan: &Plan) -> Result<(), CliError> {
    let without_root = plan.method == Method::Program || !getuid().is_root();
    let needed = [
        ("mkfs.ext4", "e2fsprogs", true),
        ("fuse2fs", "fuse2fs", without_root),
        (BONNIE, "bonnie++", plan.source == Source::Bonnie),
    ];
    for (program, package, is_needed) in needed {
        if is_needed && find(program).is_none() {
            return Err(is_missing(program, package));
        }
    }
    Ok(())
}

fn is_missing(program: &str, package: &str) -> CliError {
    CliError::new(
        Exit::WrongDevice,
        format!("{program} is not installed; install the package {package}"),
    )
}

fn load(args: &BenchFileserverArgs, target: &Target) -> Result<Load, CliError> {
    let bytes = size(args, target)?;
    Ok(match args.quick {
        true => Load::quick(bytes),
        false => Load::full(bytes),
    })
}

fn plan(args: &BenchFileserverArgs, target: Target) -> Result<Plan, CliError> {
    let ciphers = match (&args.cipher[..], args.all) {
        ([], false) => Cipher::usual(),
        ([], true) => Cipher::all(),
        (named, _) => named_ciphers(named)?,
    };
    let method = match args.method {
        MountMethod::Auto => Method::Auto,
        MountMethod::Kernel => Method::Kernel,
        MountMethod::Program => Method::Program,
        MountMethod::Scrim => {
            return Err(CliError::usage(
                "--method scrim only reads, and the phases write; use kernel or program",
            ));
        }
    };
    let load = load(args, &target)?;
    Ok(Plan {
        identity: target.identity()?,
        target,
        combinations: combinations(&ciphers),
        rounds: args.rounds,
        load,
        method,
        source: match args.bonnie {
            true => Source::Bonnie,
            false => Source::Own,
        },
        client: Client {
            read: args.client_read,
            write: args.client_write,
        },
    })
}

fn named_ciphers(named: &[String]) -> Result<Vec<Cipher>, CliError> {
    let mut ciphers = Vec::new();
    for text in named {
        let cipher = Cipher::parse(text)
            .map_err(|error| CliError::usage(format!("--cipher {text}: {error}")))?;
        if !ciphers.contains(&cipher) {
            ciphers.push(cipher);
        }
    }
    Ok(ciphers)
}

/// Every cipher on each way that this machine has; says which way is left out, and why.
fn combinations(ciphers: &[Cipher]) -> Vec<Combination> {
    let scrim = [MountPath::Inline, MountPath::Queued];
    if !getuid().is_root() {
        note(format_args!(
            "scrim: skipped: the kernel's own mounts and dm-crypt, which need root"
        ));
        return Combination::of(ciphers, &scrim, false);
    }
    let has_dm_crypt = fileserver::has_dm_crypt();
    if !has_dm_crypt {
        note(format_args!(
            "scrim: skipped: dm-crypt, since this kernel has no device mapper, or cryptsetup is not installed"
        ));
    }
    let paths = [MountPath::Inline, MountPath::Queued, MountPath::Kernel];
    Combination::of(ciphers, &paths, has_dm_crypt)
}

/// Says which turns of the plan this run leaves out, and what a later run needs for them.
fn tell_left_out(night: &Night) {
    let combinations = &night.plan.combinations;
    let missing = night.missing();
    let left_out = missing
        .iter()
        .filter(|(_, combination)| !fileserver::can_measure(&combinations[*combination]));
    let count = left_out.count();
    if count > 0 {
        let needed = match getuid().is_root() {
            false => "as root",
            true => "with cryptsetup and a kernel with device mapper",
        };
        note(format_args!(
            "scrim: skipped: {count} turns of the kernel's own mounts and dm-crypt; --resume {needed} measures them"
        ));
    }
}

fn size(args: &BenchFileserverArgs, target: &Target) -> Result<u64, CliError> {
    if let Some(size) = args.size {
        return match size >= SMALLEST {
            true => Ok(size.next_multiple_of(1 << 20)),
            false => Err(CliError::usage(
                "--size: too little to measure; give at least 1M",
            )),
        };
    }
    if args.quick {
        return Ok(QUICK);
    }
    let memory = Machine::describe(&[]).memory.unwrap_or(4 << 30);
    let free = target.free_bytes()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part of a number of bytes"
    )]
    let most = (free as f64 * SHARE) as u64;
    let wanted = memory.saturating_mul(2).min(most).max(SMALLEST);
    Ok(wanted.next_multiple_of(1 << 20))
}

impl From<FileserverError> for CliError {
    fn from(error: FileserverError) -> Self {
        let exit = match &error {
            FileserverError::Occupied { .. } => Exit::Busy,
            FileserverError::State { .. } => Exit::Usage,
            _ => Exit::WrongDevice,
        };
        Self::new(exit, error.to_string())
    }
}
