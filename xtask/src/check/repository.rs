//! Input of the rules: the files that are or will be tracked, and the workspace's members.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::cargo::metadata;
use crate::error::{Doing, Error};
use crate::rust::Source;

/// The tree under check.
pub(crate) struct Repository {
    /// By path from the root, with `/`; `None` is a file that is not text.
    files: BTreeMap<String, Option<String>>,
    rust: BTreeMap<String, Source>,
    /// The packages of the workspace.
    pub(crate) members: Vec<Member>,
}

/// A package of the workspace.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// Path of its manifest from the root.
    pub(crate) manifest: String,
    pub(crate) dependencies: Vec<Dependency>,
}

/// A direct dependency of a [`Member`].
#[derive(Clone, Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// True if only tests use it.
    pub(crate) dev: bool,
    /// True if it is another package of this workspace.
    pub(crate) internal: bool,
}

/// A place where a rule is broken.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    pub(crate) path: String,
    /// Number of the line, from 1.
    pub(crate) line: usize,
    /// The message: the fault, and the way to mend it.
    pub(crate) text: String,
}

impl Violation {
    /// `index` counts lines from 0.
    pub(crate) fn at(path: &str, index: usize, text: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line: index + 1,
            text: text.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.path, self.line, self.text)
    }
}

impl Repository {
    pub(crate) fn load(root: &Path) -> Result<Self, Error> {
        let mut files = BTreeMap::new();
        for path in list(root)? {
            // A tracked file may be deleted and not committed yet.
            if let Ok(bytes) = fs::read(root.join(&path)) {
                files.insert(path, String::from_utf8(bytes).ok());
            }
        }
        let members = parse_members(&metadata(root)?, root);
        Ok(Self::new(files, members))
    }

    pub(crate) fn new(files: BTreeMap<String, Option<String>>, members: Vec<Member>) -> Self {
        let rust = files
            .iter()
            .filter(|(path, _)| path.ends_with(".rs"))
            .filter_map(|(path, text)| Some((path.clone(), Source::parse(text.as_ref()?))))
            .collect();
        Self {
            files,
            rust,
            members,
        }
    }

    pub(crate) fn file_count(&self) -> usize {
        self.files.len()
    }

    /// Returns whether there is such a file or directory.
    pub(crate) fn contains(&self, path: &str) -> bool {
        let directory = format!("{path}/");
        let mut after = self.files.range(directory.clone()..);
        path.is_empty()
            || self.files.contains_key(path)
            || after
                .next()
                .is_some_and(|(file, _)| file.starts_with(&directory))
    }

    /// Returns the text of a file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Every file that is text, by path.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        let files = self.files.iter();
        files.filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// Every Rust file, by path.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&str, &Source)> {
        self.rust
            .iter()
            .map(|(path, source)| (path.as_str(), source))
    }

    /// Returns a Rust file.
    pub(crate) fn source(&self, path: &str) -> Option<&Source> {
        self.rust.get(path)
    }

    /// Returns `path` as it is stored, if there is such a file.
    pub(crate) fn path(&self, path: &str) -> Option<&str> {
        let (path, _) = self.files.get_key_value(path)?;
        Some(path)
    }

    /// The line, from 0, of a manifest on which `dependency` stands; the first where it cannot be
    /// found.
    pub(crate) fn manifest_line(&self, manifest: &str, dependency: &str) -> usize {
        let lines = self.text(manifest).unwrap_or_default().lines();
        let names = |line: &str| {
            let rest = line.trim_start().strip_prefix(dependency);
            rest.is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
        };
        lines
            .enumerate()
            .find(|(_, line)| names(line))
            .map_or(0, |(index, _)| index)
    }
}

/// Lists the files that git tracks, and those that it would track if they were added; without git, all
/// files except those in `target` and in hidden directories.
fn list(root: &Path) -> Result<Vec<String>, Error> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output();
    match output {
        Ok(output) if output.status.success() && !output.stdout.is_empty() => {
            let names = output.stdout.split(|byte| *byte == 0);
            let names = names.filter(|name| !name.is_empty());
            Ok(names
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .collect())
        }
        _ => {
            let mut files = Vec::new();
            walk(root, Path::new(""), &mut files)?;
            Ok(files)
        }
    }
}

fn walk(root: &Path, directory: &Path, files: &mut Vec<String>) -> Result<(), Error> {
    let here = root.join(directory);
    let entries = fs::read_dir(&here).doing(|| format!("list {}", here.display()))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let path = directory.join(&name);
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            files.push(path.to_string_lossy().into_owned());
        } else if name != "target" && !name.to_string_lossy().starts_with('.') {
            walk(root, &path, files)?;
        }
    }
    Ok(())
}

fn parse_members(metadata: &Value, root: &Path) -> Vec<Member> {
    let root = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let dependency = |value: &Value| Dependency {
        name: text(&value["name"]),
        dev: value["kind"] == "dev",
        internal: value.get("path").is_some_and(Value::is_string),
    };
    array(&metadata["packages"])
        .iter()
        .map(|package| {
            let manifest = PathBuf::from(text(&package["manifest_path"]));
            let manifest = manifest.strip_prefix(&root).unwrap_or(&manifest);
            Member {
                name: text(&package["name"]),
                manifest: manifest.to_string_lossy().into_owned(),
                dependencies: array(&package["dependencies"])
                    .iter()
                    .map(dependency)
                    .collect(),
            }
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod testing {
    //! Small trees to break rules in.

    use super::*;

    /// A tree of these files, without packages.
    pub(crate) fn tree(files: &[(&str, &str)]) -> Repository {
        let files = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), Some((*text).to_owned())));
        Repository::new(files.collect(), Vec::new())
    }

    /// A package with dependencies: `dev:` before the name of one that only tests use, and names
    /// that start with `scrim-` are internal, as is `xtask`.
    pub(crate) fn member(name: &str, dependencies: &[&str]) -> Member {
        let folder = name.strip_prefix("scrim-").unwrap_or(name);
        let dependencies = dependencies.iter().map(|dependency| {
            let name = dependency.strip_prefix("dev:").unwrap_or(dependency);
            Dependency {
                name: name.to_owned(),
                dev: dependency.starts_with("dev:"),
                internal: name.starts_with("scrim-") || name == "xtask",
            }
        });
        Member {
            name: name.to_owned(),
            manifest: format!("crates/{folder}/Cargo.toml"),
            dependencies: dependencies.collect(),
        }
    }

    /// The violations as they are printed.
    pub(crate) fn printed(violations: &[Violation]) -> Vec<String> {
        violations.iter().map(Violation::to_string).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::*;

    #[test]
    fn directories_are_there_when_a_file_is_in_them() {
        let tree = tree(&[("docs/a/b.md", ""), ("docs/ab.md", "")]);
        for path in ["docs/a/b.md", "docs/a", "docs", ""] {
            assert!(tree.contains(path), "{path}");
        }
        for path in ["docs/b.md", "docs/a/b", "doc"] {
            assert!(!tree.contains(path), "{path}");
        }
    }

    #[test]
    fn a_dependency_is_found_in_its_manifest() {
        let manifest = "[dependencies]\naes-gcm = \"1\"\naes.workspace = true\n";
        let tree = tree(&[("crates/x/Cargo.toml", manifest)]);
        assert_eq!(tree.manifest_line("crates/x/Cargo.toml", "aes"), 2);
        assert_eq!(tree.manifest_line("crates/x/Cargo.toml", "sha2"), 0);
    }
}
