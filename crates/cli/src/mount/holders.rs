//! Processes that use files of a mount.

use std::fs;
use std::path::{Path, PathBuf};

/// Most processes that a message names.
const NAMED_MAX: usize = 5;

/// Names the processes that have something under `directory` open, or work in it; empty if none is to be seen.
///
/// Reads links in `/proc` and nothing under the directory, so that a file system that hangs cannot hold this up.
/// Processes of other users show themselves to root only.
pub(super) fn named(directory: &Path) -> String {
    let found: Vec<_> = processes()
        .filter(|process| uses(process, directory))
        .collect();
    let mut names: Vec<_> = found
        .iter()
        .take(NAMED_MAX)
        .map(|process| name(process))
        .collect();
    if found.len() > NAMED_MAX {
        names.push(format!("and {} more", found.len() - NAMED_MAX));
    }
    names.join(", ")
}

/// Folders of processes in `/proc`.
fn processes() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    let is_number = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        name.to_str()
            .is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
    };
    entries
        .filter_map(Result::ok)
        .filter(is_number)
        .map(|entry| entry.path())
}

fn uses(process: &Path, directory: &Path) -> bool {
    let is_within = |link: PathBuf| fs::read_link(link).is_ok_and(|to| to.starts_with(directory));
    let any_in = |folder: &str| {
        let links = fs::read_dir(process.join(folder)).into_iter().flatten();
        links
            .filter_map(Result::ok)
            .any(|link| is_within(link.path()))
    };
    is_within(process.join("cwd"))
        || is_within(process.join("root"))
        || any_in("fd")
        || any_in("map_files")
}

/// The process's number and its name, which is text from outside.
fn name(process: &Path) -> String {
    let number = process.file_name().unwrap_or_default().display();
    let comm = fs::read(process.join("comm")).unwrap_or_default();
    let comm = scrim_foreign::Foreign::new(comm.trim_ascii_end());
    format!("{comm} (process {number})")
}
