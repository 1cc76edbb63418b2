//! `cargo xtask inventory`: the crates that a program is made of, with their licences, for those who receive it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::cargo;
use crate::error::{Doing, Error};

/// Target of the program that is given to others.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Beginnings of the names of files that have a licence, or names that it demands to keep.
const FILES: [&str; 5] = ["license", "licence", "copying", "notice", "unlicense"];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Crate of the workspace whose program it is
    #[arg(long)]
    program: String,
    /// File for the licences of all crates
    #[arg(long)]
    licences: PathBuf,
    /// File for the bill of materials (CycloneDX 1.5, JSON)
    #[arg(long)]
    sbom: PathBuf,
}

/// A crate that is linked into the program.
struct Crate<'a> {
    name: &'a str,
    version: &'a str,
    /// The licence as an SPDX expression.
    licence: &'a str,
    authors: Vec<&'a str>,
    repository: &'a str,
    /// True for a crate of this workspace.
    own: bool,
    folder: &'a Path,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let metadata = metadata()?;
    let crates = linked(&metadata, &args.program).ok_or_else(|| {
        Error::program(
            "cargo metadata",
            format!("no crate {} in its answer", args.program),
        )
    })?;
    let write = |path: &Path, text: &str| {
        fs::write(path, text).doing(|| format!("write {}", path.display()))
    };
    write(&args.licences, &licences(&crates)?)?;
    let text = serde_json::to_string_pretty(&sbom(&crates, &args.program));
    let text = text.map_err(|error| Error::program("the bill of materials", error.to_string()))?;
    write(&args.sbom, &(text + "\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn metadata() -> Result<Value, Error> {
    let output = cargo::command()
        .args([
            "metadata",
            "--locked",
            "--format-version",
            "1",
            "--filter-platform",
            TARGET,
        ])
        .current_dir(cargo::workspace_root())
        .output()
        .doing(|| "run cargo metadata".to_owned())?;
    let failed = |said: String| Error::program("cargo metadata", said);
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
}

/// The crates that are linked into a program, by name and version: not those that only build it.
fn linked<'a>(metadata: &'a Value, program: &str) -> Option<Vec<Crate<'a>>> {
    let packages = metadata["packages"].as_array()?;
    let nodes = metadata["resolve"]["nodes"].as_array()?;
    let dependencies: BTreeMap<&str, &Vec<Value>> = nodes
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, node["deps"].as_array()?)))
        .collect();
    let first = packages.iter().find(|package| package["name"] == program)?;
    let mut open = vec![first["id"].as_str()?];
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !found.insert(id) {
            continue;
        }
        let linked = |dependency: &&Value| {
            let kinds = dependency["dep_kinds"].as_array();
            kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
        };
        let below = dependencies.get(id)?.iter().filter(linked);
        open.extend(below.filter_map(|dependency| dependency["pkg"].as_str()));
    }
    let is_linked = |package: &&Value| {
        let id = package["id"].as_str();
        id.is_some_and(|id| found.contains(id)) && !is_macro(package)
    };
    let mut crates: Vec<Crate<'_>> = packages
        .iter()
        .filter(is_linked)
        .filter_map(Crate::read)
        .collect();
    crates.sort_by_key(|one| (one.name, one.version));
    Some(crates)
}

/// Returns whether a package runs in the compiler only.
fn is_macro(package: &Value) -> bool {
    let targets = package["targets"].as_array();
    targets.is_some_and(|targets| {
        let kinds = targets
            .iter()
            .filter_map(|target| target["kind"].as_array());
        kinds.flatten().any(|kind| kind == "proc-macro")
    })
}

impl<'a> Crate<'a> {
    fn read(package: &'a Value) -> Option<Self> {
        let text = |field: &str| package[field].as_str().unwrap_or_default();
        let authors = package["authors"].as_array();
        Some(Self {
            name: package["name"].as_str()?,
            version: package["version"].as_str()?,
            licence: text("license"),
            authors: authors.map_or_else(Vec::new, |all| {
                all.iter().filter_map(Value::as_str).collect()
            }),
            repository: text("repository"),
            own: package["source"].is_null(),
            folder: Path::new(package["manifest_path"].as_str()?).parent()?,
        })
    }

    /// Files with its licence, in order of their names.
    fn files(&self) -> Result<Vec<PathBuf>, Error> {
        let doing = || format!("read {}", self.folder.display());
        let entries = fs::read_dir(self.folder).doing(doing)?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let name = name.to_lowercase();
            path.is_file() && FILES.iter().any(|start| name.starts_with(start))
        });
        paths.sort();
        Ok(paths)
    }
}

/// All licences, each text once, below the crates that have it.
fn licences(crates: &[Crate<'_>]) -> Result<String, Error> {
    let mut text = "The program is made of these crates.\n\n".to_owned();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in crates.iter().filter(|one| !one.own) {
        let authors = one.authors.join(", ");
        let _ = writeln!(
            text,
            "{} {}  {}  {authors}  {}",
            one.name, one.version, one.licence, one.repository
        );
        for path in one.files()? {
            let bytes = fs::read(&path).doing(|| format!("read {}", path.display()))?;
            let licence = String::from_utf8_lossy(&bytes).trim().replace("\r\n", "\n");
            let name = format!("{} {}", one.name, one.version);
            texts.entry(licence).or_default().push(name);
        }
    }
    // In order of the crates that come first.
    let mut texts: Vec<(String, Vec<String>)> = texts.into_iter().collect();
    texts.sort_by(|one, other| one.1.cmp(&other.1));
    for (licence, names) in texts {
        let line = "-".repeat(79);
        let _ = write!(text, "\n{line}\n{}:\n\n{licence}\n", names.join(", "));
    }
    Ok(text)
}

/// A bill of materials (CycloneDX 1.5), without the time and the number that would differ from build to build.
fn sbom(crates: &[Crate<'_>], program: &str) -> Value {
    let component = |one: &Crate<'_>| {
        json!({
            "type": "library",
            "name": one.name,
            "version": one.version,
            "purl": format!("pkg:cargo/{}@{}", one.name, one.version),
            "licenses": [{ "expression": expression(one.licence) }],
        })
    };
    let of_program = crates.iter().find(|one| one.name == program);
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": "scrim",
                "version": of_program.map(|one| one.version),
            },
        },
        "components": crates.iter().filter(|one| !one.own).map(component).collect::<Vec<_>>(),
    })
}

/// An SPDX expression; older crates have a slash between the licences of which one can be chosen.
fn expression(licence: &str) -> String {
    let parts: Vec<&str> = licence.split('/').map(str::trim).collect();
    parts.join(" OR ")
}
