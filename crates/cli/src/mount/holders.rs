//! Processes that use files of a mount.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
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

/// Files under `directory` that processes have mapped to share changes, as far as they are to be seen.
pub(super) fn mapped(directory: &Path) -> Vec<PathBuf> {
    let mut files = BTreeSet::new();
    for process in processes() {
        let maps = fs::read(process.join("maps")).unwrap_or_default();
        let paths = maps.split(|&byte| byte == b'\n').filter_map(shared_file);
        files.extend(
            paths
                .filter(|path| path.starts_with(directory))
                .map(Path::to_owned),
        );
    }
    files.into_iter().collect()
}

/// The path in a line of `/proc/PID/maps`, if it is of a shared mapping of a file.
fn shared_file(line: &[u8]) -> Option<&Path> {
    let rights = line.split(|&byte| byte == b' ').nth(1)?;
    let start = line.iter().position(|&byte| byte == b'/')?;
    rights
        .ends_with(b"s")
        .then(|| Path::new(OsStr::from_bytes(&line[start..])))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_mappings_of_files_are_found() {
        let file = |line: &str| shared_file(line.as_bytes()).map(Path::to_owned);
        let shared = "7f00-7f10 rw-s 00000000 00:2a 12                         /mnt/a file";
        assert_eq!(file(shared), Some(PathBuf::from("/mnt/a file")));
        assert_eq!(file(&shared.replace("rw-s", "rw-p")), None);
        assert_eq!(file("7f00-7f10 rw-s 00000000 00:00 0"), None);
        assert_eq!(file(""), None);
    }
}
