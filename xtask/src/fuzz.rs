//! Fuzzing (docs/fuzzing.md): every target for a while, from the seeds and the kept corpus.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use crate::cargo;
use crate::error::{Doing, Error};

/// Longest input in bytes: a whole JSON area of the smallest header, and more than any other target needs.
const MAX_LEN: u32 = 16 << 10;
/// Most time and memory that one input may take: what is read here is small.
const TIMEOUT_SECONDS: u32 = 10;
const RSS_MIB: u32 = 1024;
const MALLOC_MIB: u32 = 64;

/// Options of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Fuzz these targets only
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,

    /// Time for which each target runs
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    seconds: u32,

    /// Number of targets that run at the same time
    #[arg(long, default_value_t = 2, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..=64))]
    jobs: u8,

    /// Make the kept corpus anew, of itself and of what was found: a small set of inputs that
    /// reaches what all of them reach and the seeds do not
    #[arg(long)]
    keep: bool,
}

/// A target that runs.
struct Run {
    target: String,
    process: Child,
    log: PathBuf,
}

/// Runs the targets; the exit code is 1 when one of them found something.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let root = cargo::workspace_root();
    let all = targets(&root)?;
    let chosen = if args.targets.is_empty() {
        all
    } else {
        args.targets.clone()
    };
    cargo_fuzz(&root, &["build"])?;
    let place = tempfile::tempdir().doing(|| "make a temporary directory".to_owned())?;
    let mut found = false;
    for some in chosen.chunks(args.jobs.into()) {
        let runs: Vec<Run> = some
            .iter()
            .map(|target| start(&root, place.path(), target, args.seconds))
            .collect::<Result<_, _>>()?;
        for run in runs {
            found |= !finish(run)?;
        }
    }
    if args.keep && !found {
        for target in &chosen {
            keep(&root, place.path(), target)?;
        }
    }
    Ok(ExitCode::from(u8::from(found)))
}

/// The targets by name: a file each.
fn targets(root: &Path) -> Result<Vec<String>, Error> {
    let mut names: Vec<String> = files(&root.join("fuzz/fuzz_targets"))?
        .iter()
        .filter_map(|(_, path)| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

/// `cargo fuzz` with the nightly compiler, which the sanitizers need. What cargo told us about
/// itself is for the compiler that built us.
fn command(root: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.args(["+nightly", "fuzz"]).current_dir(root);
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    command
}

fn cargo_fuzz(root: &Path, args: &[&str]) -> Result<(), Error> {
    let status = command(root).args(args).status();
    let status = status.doing(|| "run cargo fuzz; scripts/setup.sh fuzz installs it".to_owned())?;
    if status.success() {
        return Ok(());
    }
    let command = format!("cargo +nightly fuzz {}", args.join(" "));
    Err(Error::program(command, "failed; see above"))
}

/// Starts a target. What it finds new goes to a corpus in `place`; the kept one is only read.
fn start(root: &Path, place: &Path, target: &str, seconds: u32) -> Result<Run, Error> {
    let (new, log) = (corpus(place, target), place.join(format!("{target}.log")));
    fs::create_dir_all(&new).doing(|| format!("make {}", new.display()))?;
    let errors = File::create(&log).doing(|| format!("write {}", log.display()))?;
    let mut command = command(root);
    command.args(["run", target]).arg(&new);
    // A new target has nothing kept yet.
    command.args(known(root, target).iter().filter(|folder| folder.is_dir()));
    command.args(["--", "-print_final_stats=1"]);
    command.arg(format!("-max_total_time={seconds}"));
    command.arg(format!("-max_len={MAX_LEN}"));
    command.arg(format!("-timeout={TIMEOUT_SECONDS}"));
    command.arg(format!("-rss_limit_mb={RSS_MIB}"));
    command.arg(format!("-malloc_limit_mb={MALLOC_MIB}"));
    // A thread of the server that is just ending looks like a leak now and then.
    command.arg("-detect_leaks=0");
    let words = root.join("fuzz/dictionaries").join(target);
    if words.exists() {
        command.arg(format!("-dict={}", words.display()));
    }
    // Sockets of the server that is fuzzed go with the rest.
    command.env("TMPDIR", place);
    let process = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(errors)
        .spawn();
    Ok(Run {
        target: target.to_owned(),
        process: process.doing(|| "run cargo fuzz".to_owned())?,
        log,
    })
}

/// Waits for a target and tells how it went; `false` when it found something.
fn finish(mut run: Run) -> Result<bool, Error> {
    let target = &run.target;
    let status = run.process.wait().doing(|| format!("wait for {target}"))?;
    let log = fs::read(&run.log).doing(|| format!("read {}", run.log.display()))?;
    let log = String::from_utf8_lossy(&log);
    if status.success() {
        let executions = statistic(&log, "stat::number_of_executed_units:");
        let memory = statistic(&log, "stat::peak_rss_mb:");
        println!("{target}: {executions} executions, {memory} MiB, nothing found");
        return Ok(true);
    }
    eprint!("{log}");
    let input = log
        .lines()
        .find_map(|line| line.split_once("Test unit written to "));
    let input = input.map_or("see above", |(_, path)| path);
    println!("{target}: found something: {input}");
    Ok(false)
}

/// The number behind a name in libFuzzer's statistics.
fn statistic<'a>(log: &'a str, name: &str) -> &'a str {
    let line = log.lines().find_map(|line| line.strip_prefix(name));
    line.map_or("?", str::trim)
}

/// Replaces the kept corpus by a minimal one.
fn keep(root: &Path, place: &Path, target: &str) -> Result<(), Error> {
    let kept = root.join("fuzz/corpus").join(target);
    // What lies in the first folder of a merge stays there, and what it reaches is not kept twice.
    let merged = place.join("merged").join(target);
    let [seeds, _] = known(root, target);
    copy(&seeds, &merged)?;
    let mut command = command(root);
    command.args(["run", target]).args([&merged, &kept]);
    command.arg(corpus(place, target));
    // Lines that are reached, not how often: some tens of inputs instead of hundreds.
    command.args(["--", "-set_cover_merge=1", "-use_counters=0"]);
    command.arg(format!("-max_len={MAX_LEN}"));
    let output = command.env("TMPDIR", place).output();
    let output = output.doing(|| "run cargo fuzz".to_owned())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Error::program(format!("merging {target}"), said));
    }
    for (name, _) in files(&seeds)? {
        let seed = merged.join(name);
        fs::remove_file(&seed).doing(|| format!("remove {}", seed.display()))?;
    }
    fs::remove_dir_all(&kept).doing(|| format!("empty {}", kept.display()))?;
    copy(&merged, &kept)
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    fs::create_dir_all(to).doing(|| format!("make {}", to.display()))?;
    for (name, path) in files(from)? {
        fs::copy(&path, to.join(name)).doing(|| format!("copy {}", path.display()))?;
    }
    Ok(())
}

/// Name and path of each file in a folder.
fn files(folder: &Path) -> Result<Vec<(OsString, PathBuf)>, Error> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.doing(|| format!("list {}", folder.display()))?;
    let named = |entry: fs::DirEntry| (entry.file_name(), entry.path());
    Ok(entries.into_iter().map(named).collect())
}

/// The inputs in the tree: the seeds, and what was found and kept.
fn known(root: &Path, target: &str) -> [PathBuf; 2] {
    ["seeds", "corpus"].map(|kind| root.join("fuzz").join(kind).join(target))
}

/// Where the inputs of this run go that reach something new.
fn corpus(place: &Path, target: &str) -> PathBuf {
    place.join("corpus").join(target)
}
