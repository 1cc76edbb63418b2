//! Times of builds: of `scrim` from nothing, and again after a change in each crate.
//!
//! A copy of the tree is built and changed, so that neither the tree nor its build folder is touched.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::cargo;
use crate::error::{Doing, Error};
use crate::usage::{self, Usage};

/// A function that nothing calls: code of the crate changes, and what it offers to those that depend on it.
const CHANGE: &str = "\n#[doc(hidden)]\n#[allow(dead_code)]\npub fn changed() -> u32 {\n    1\n}\n";

/// Options of `cargo xtask times`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Change these crates only, by the names of their folders; without any, each that `scrim` consists of
    #[arg(value_name = "CRATE")]
    crates: Vec<String>,
}

/// Builds the copy and prints a line for each build.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let root = cargo::workspace_root();
    let place = tempfile::tempdir().doing(|| "make a temporary directory".to_owned())?;
    let copy = place.path().join("tree");
    copy_tree(&root, &copy)?;
    let crates = if args.crates.is_empty() {
        parts_of_scrim(&copy)?
    } else {
        args.crates.clone()
    };
    fetch(&copy)?;
    println!("{}", machine()?);
    println!(
        "{:<32}{:>10}{:>14}",
        "cargo build of scrim", "seconds", "of processors"
    );
    line("from nothing", build(&copy)?);
    for name in crates {
        let folder = copy.join("crates").join(&name).join("src");
        change(&folder)?;
        line(&format!("after a change in {name}"), build(&copy)?);
    }
    Ok(ExitCode::SUCCESS)
}

fn line(what: &str, usage: Usage) {
    let (wall, processors) = (usage.wall.as_secs_f64(), usage.processors.as_secs_f64());
    println!("{what:<32}{wall:>10.1}{processors:>14.1}");
}

/// Processors, and how busy they are with other things.
fn machine() -> Result<String, Error> {
    let read = |path: &str| fs::read_to_string(path).doing(|| format!("read {path}"));
    let (info, load) = (read("/proc/cpuinfo")?, read("/proc/loadavg")?);
    let field = |line: &str| {
        Some(
            line.strip_prefix("model name")?
                .split_once(": ")?
                .1
                .to_owned(),
        )
    };
    let model = info.lines().find_map(field);
    let model = model.unwrap_or_else(|| "unknown processor".to_owned());
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let load = load.split(' ').next().unwrap_or("?");
    Ok(format!("{count} × {model}, load {load} before"))
}

/// Copies the files that git knows, as they are now.
fn copy_tree(root: &Path, copy: &Path) -> Result<(), Error> {
    fs::create_dir(copy).doing(|| format!("make {}", copy.display()))?;
    let script = "git ls-files -z -- Cargo.toml Cargo.lock crates xtask tests | \
                  xargs -0 cp --parents --target-directory \"$1\"";
    let status = Command::new("bash")
        .args(["-euo", "pipefail", "-c", script, "copy"])
        .arg(copy)
        .current_dir(root)
        .status()
        .doing(|| "run bash".to_owned())?;
    if status.success() {
        return Ok(());
    }
    Err(Error::program(
        "git ls-files",
        "the tree was not copied; see above",
    ))
}

/// Fetches missing dependencies, which is no part of the times.
fn fetch(copy: &Path) -> Result<(), Error> {
    let version = Command::new("rustc").arg("-vV").output();
    let version = version.doing(|| "run rustc".to_owned())?.stdout;
    let version = String::from_utf8_lossy(&version);
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let mut command = command(copy);
    command.args(["fetch", "--quiet", "--locked"]);
    // Without it, those of all systems.
    command.args(host.iter().flat_map(|host| ["--target", host]));
    if command
        .status()
        .doing(|| "run cargo fetch".to_owned())?
        .success()
    {
        return Ok(());
    }
    Err(Error::program("cargo fetch", "failed; see above"))
}

fn build(copy: &Path) -> Result<Usage, Error> {
    let mut command = command(copy);
    command.args([
        "build",
        "--quiet",
        "--locked",
        "--offline",
        "--package",
        "scrim-cli",
    ]);
    let (status, usage) = usage::measure(&mut command)?;
    if status.success() {
        return Ok(usage);
    }
    Err(Error::program("cargo build", "failed; see above"))
}

fn command(copy: &Path) -> Command {
    let mut command = cargo::command();
    let target = copy.join("target");
    command.current_dir(copy).env("CARGO_TARGET_DIR", target);
    command
}

/// Appends a function to the root of a crate.
fn change(folder: &Path) -> Result<(), Error> {
    let roots = ["lib.rs", "main.rs"].map(|name| folder.join(name));
    let found: Option<&PathBuf> = roots.iter().find(|path| path.exists());
    let root = found.ok_or_else(|| {
        let said = format!("no crate has its root in {}", folder.display());
        Error::program("cargo xtask times", said)
    })?;
    let file = OpenOptions::new().append(true).open(root);
    let write = file.and_then(|mut file| file.write_all(CHANGE.as_bytes()));
    write.doing(|| format!("change {}", root.display()))
}

/// Folders of the crates that `scrim` is made of, those first on which others depend.
fn parts_of_scrim(copy: &Path) -> Result<Vec<String>, Error> {
    let metadata = cargo::metadata(copy)?;
    let none = Vec::new();
    let packages = metadata["packages"].as_array().unwrap_or(&none);
    let mut ordered = Vec::new();
    visit("scrim-cli", packages, &mut ordered);
    Ok(ordered)
}

/// Adds a package's folder behind those of what it depends on.
fn visit(name: &str, packages: &[serde_json::Value], ordered: &mut Vec<String>) {
    let Some(folder) = name.strip_prefix("scrim-") else {
        return;
    };
    if ordered.iter().any(|other| other == folder) {
        return;
    }
    let package = packages.iter().find(|package| package["name"] == name);
    let dependencies = package.and_then(|package| package["dependencies"].as_array());
    for dependency in dependencies.into_iter().flatten() {
        // `kind` names those of tests and of build scripts.
        if let (Some(name), true) = (dependency["name"].as_str(), dependency["kind"].is_null()) {
            visit(name, packages, ordered);
        }
    }
    ordered.push(folder.to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scrim_consists_of_its_crates_in_order_of_dependence() {
        let parts = parts_of_scrim(&cargo::workspace_root()).unwrap();
        let place = |name| parts.iter().position(|part| part == name).unwrap();
        assert!(place("sys") < place("crypt") && place("crypt") < place("volume"));
        assert_eq!(parts.last().unwrap(), "cli");
        assert!(!parts.iter().any(|part| part == "guest"));
    }

    #[test]
    fn a_change_is_code_at_the_end_of_the_root() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("main.rs"), "fn main() {}\n").unwrap();
        change(place.path()).unwrap();
        let text = fs::read_to_string(place.path().join("main.rs")).unwrap();
        assert!(text.starts_with("fn main() {}\n") && text.ends_with(CHANGE));
        assert!(change(&place.path().join("nowhere")).is_err());
    }
}
